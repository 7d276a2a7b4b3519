"""The models of one revision: hoisted schema -> Python text.

A class inherits from its base unless it redeclares a member with another type; then the base's members are copied into
the class, so that every class is a true subtype of its bases.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final

from mcprev_codegen import ir
from mcprev_codegen.emit.docstrings import member_docstring
from mcprev_codegen.emit.models.sections import Layout, Section
from mcprev_codegen.emit.pydantic import SCHEMA_INTEGER, Hint, Hints
from mcprev_codegen.facts import Revision
from mcprev_codegen.ir import Json, pascal_case
from mcprev_codegen.python import (
    Code,
    attribute,
    class_name,
    code,
    docstring,
    identifier,
    is_module,
    joined,
    literal,
    module_name,
    render,
)
from mcprev_codegen.resolve import FlatField, Schema
from mcprev_codegen.support import wire_name

TemplateData = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Attribute:
    """One member as an attribute of a class; the template turns it into a line."""

    name: Code
    hint: Hint
    default: Code | None
    """The Python source after the `=`; None for a required member."""
    doc: Code


@dataclass(frozen=True, slots=True)
class ClassPlan:
    """One class: its bases and the members that it declares."""

    bases: tuple[str, ...]
    members: tuple[FlatField, ...]


@dataclass(frozen=True)
class ModelPlanner:
    """Decides what `models` contains for every type of a revision."""

    revision: Revision
    docs: Mapping[str, Code] = field(default_factory=dict[str, Code])
    """The docstring of every type."""
    categories: Mapping[str, str] = field(default_factory=dict[str, str])
    """The section of every type that has one."""

    @cached_property
    def schema(self) -> Schema:
        """The revision's schema, with an alias for each open union that is the type of a member."""
        decls: list[ir.Decl] = []
        for decl in self.revision.schema.module.decls:
            if isinstance(decl, ir.Interface):
                fields = tuple(self._with_named_union(decl, f, decls) for f in decl.fields)
                decls.append(replace(decl, fields=fields))
            else:
                decls.append(decl)
        return replace(self.revision.schema, module=ir.Module(tuple(decls)))

    def _with_named_union(self, owner: ir.Interface, member: ir.Field, added: list[ir.Decl]) -> ir.Field:
        if f"{owner.name}.{member.name}" not in self.revision.facts.open:
            return member
        name = owner.name + pascal_case(member.name)
        array = isinstance(member.type, ir.Array)
        union = member.type.item if isinstance(member.type, ir.Array) else member.type
        doc = ir.Doc(
            text=f"The type of {'the items' if array else 'the value'} of `{member.name}` in {owner.name}."
        )
        added.append(ir.Alias(name, union, doc=doc))
        return replace(member, type=ir.Array(ir.Ref(name)) if array else ir.Ref(name))

    @cached_property
    def _open_unions(self) -> frozenset[str]:
        places = (place.split(".") for place in self.revision.facts.open)
        return frozenset(owner + "".join(map(pascal_case, member)) for owner, *member in places)

    @cached_property
    def classes(self) -> dict[str, ClassPlan]:
        """The plan of every type that becomes a class."""
        schema = self.schema
        names = [
            n for n, d in schema.types.items() if isinstance(d, ir.Interface) and not schema.is_map(ir.Ref(n))
        ]
        return {name: self._plan(name) for name in names}

    def _plan(self, name: str) -> ClassPlan:
        schema = self.schema
        flat = schema.flat(name)
        declared = {f.name: f for f in flat.fields}
        bases = self._bases(name, declared)
        inherited = {f.name for base in bases for f in schema.flat(base).fields}
        members = tuple(f for f in flat.fields if f.name not in inherited)
        return ClassPlan(bases, members)

    def _bases(self, name: str, declared: Mapping[str, FlatField]) -> tuple[str, ...]:
        """Return the nearest ancestors whose members the class does not redeclare, without redundant ones."""
        schema = self.schema
        found: dict[str, None] = {}
        visited: set[str] = set()

        def visit(type_name: str) -> None:
            if type_name in visited:
                return
            visited.add(type_name)
            decl = schema.types[type_name]
            for base in decl.bases if isinstance(decl, ir.Interface) else ():
                if isinstance(base, ir.Derived):
                    continue
                followed = schema.follow(base)
                if not isinstance(followed, ir.Ref) or schema.is_map(followed):
                    continue
                if all(_same(declared.get(f.name), f) for f in schema.flat(followed.name).fields):
                    found.setdefault(followed.name)
                else:
                    visit(followed.name)

        visit(name)
        redundant = {a for base in found for a in schema.supertypes(base)}
        return tuple(base for base in found if base not in redundant)

    # -- sections ----------------------------------------------------------------------------------------

    @cached_property
    def sections(self) -> tuple[Section, ...]:
        """The modules of the package and their types."""
        declared = self.revision.declared.types
        found = Layout(self.schema.module, declared, self.categories, self.needs).sections
        for section in found:
            if not is_module(section.module):
                named = [name for name in section.types if self.schema.types[name].tags.category]
                raise self.schema.fail(
                    self.schema.types[(named or section.types)[0]],
                    f"its @category gives no name for a module ({section.title[:60]!r}): begin it with a letter, "
                    "and keep it short",
                )
        return found

    def needs(self, name: str) -> Collection[str]:
        """Return the types that a class or alias needs at definition: bases, or the parts of the alias."""
        if name in self.classes:
            return self.classes[name].bases
        if self._starts_cycle(name):
            return self._cycle_needs(name)
        return tuple(dict.fromkeys(ir.references(self.schema.types[name])))

    def _cycle_needs(self, name: str) -> Collection[str]:
        inline = self._cycle(name)
        found = [r for other in inline for r in ir.references(self.schema.types[other])]
        return tuple(dict.fromkeys(r for r in found if r not in inline))

    def _starts_cycle(self, name: str) -> bool:
        """Return whether an alias is the first of a cycle of aliases; it is written as an alias that refers to itself.

        The other aliases of the cycle are expanded in it: type checkers support an alias that refers to itself, but
        not several aliases that refer to each other.
        """
        cycle = self._cycle(name)
        return bool(cycle) and next(n for n in self.schema.types if n in cycle) == name

    def _cycle(self, name: str) -> frozenset[str]:
        """Return the aliases of the cycle that an alias is part of; empty if it is in none."""
        return self._cycles.get(name, frozenset())

    @cached_property
    def _cycles(self) -> Mapping[str, frozenset[str]]:
        references = self.schema.references.items()
        return ir.cycles({name: used for name, used in references if name not in self.classes})

    # -- template data -------------------------------------------------------------------------------------

    def loaded(self, section: Section) -> dict[str, str]:
        """Return the types of other sections that a section imports, each with its module."""
        needed = {self._home[other] for name in section.types for other in self.needs(name)} - {
            section.module
        }
        return {name: home for home in sorted(needed) for name in self._by_module[home].types}

    @cached_property
    def _by_module(self) -> Mapping[str, Section]:
        return {section.module: section for section in self.sections}

    @cached_property
    def _home(self) -> Mapping[str, str]:
        """The module of each type."""
        return {name: section.module for section in self.sections for name in section.types}

    def template_data(self, section: Section) -> dict[str, dict[str, Any]]:
        """Return the template data of every class and alias of a section, by Python name."""
        data: dict[str, dict[str, Any]] = {}
        known = {*self.loaded(section)}
        for name in section.types:
            hints = Hints(self.schema, module_name(self.revision.name), known)
            plan = self._class_data(name, hints) if name in self.classes else self._alias_data(name, hints)
            deprecated = (
                f"Deprecated in MCP {self.revision.name}."
                if self.schema.types[name].tags.deprecated
                else None
            )
            own = {"class_name": identifier(class_name(name)), "doc": self.docs.get(name, docstring())}
            data[class_name(name)] = {**own, "deprecated": deprecated, **plan}
            known.add(name)
        return data

    def _class_data(self, name: str, hints: Hints) -> dict[str, Any]:
        plan = self.classes[name]
        used = {builtin for f in plan.members for builtin in hints.builtins(f.field.type)}
        return {
            "bases": joined(", ", [identifier(class_name(base)) for base in plan.bases] or [code("Model")]),
            "attributes": {f.name: self._attribute(name, f, hints, used) for f in plan.members},
        }

    def _alias_data(self, name: str, hints: Hints) -> dict[str, Any]:
        decl = self.schema.types[name]
        recursive = self._starts_cycle(name)
        if recursive:
            hints = replace(hints, known={*hints.known, name}, inline=self._cycle(name) - {name})
        found = self.schema.discriminator(ir.Ref(name))
        hint = hints.hint(decl.type if isinstance(decl, ir.Alias) else ir.Obj((), decl.index))
        return {
            "hint": replace(hint, quoted=recursive),
            "union": self._open_union(name),
            "discriminator": attribute(found.property) if found else None,
            "recursive": recursive,
        }

    def _attribute(self, owner: str, member: FlatField, hints: Hints, used: Collection[str]) -> Attribute:
        """Return one member; `used` are the builtin types that the hints of its class refer to."""
        f = member.field
        name = attribute(f.name)
        if name in (*_HELPERS, hints.package) or name in used:
            name += "_"  # Otherwise the attribute would hide a name that the lines below it use.
        literals = self.schema.literals(f.type)
        fallback = self._fallback(owner, f.name)
        limits, type_ = self._bounds(f), self._with_integers(f)
        hint = hints.limited(type_, limits) if limits else hints.hint(type_)
        default = None
        if fallback is not None:
            default = code("fallback({})", literal(fallback))
        elif not f.optional and len(literals) == 1:
            default = code("constant({})", literal(literals[0]))
        elif f.optional and self._nullable(f.type):
            hint, default = hint.inside("Nullable"), code("ABSENT")
        elif f.optional:
            hint, default = hint.inside("Opt"), code("None")
        alias = None if wire_name(name) == f.name else f.name
        if alias:
            hint = hint.annotated("wire", literal(alias))
        if f.tags.deprecated:
            hint = Hint(
                code("Annotated[{}, DEPRECATED]", hint.source), hint.names | {"Annotated", "DEPRECATED"}
            )
        return Attribute(identifier(name), hint, default, doc=member_docstring(f))

    def _with_integers(self, member: ir.Field) -> ir.TypeExpr:
        """Return the type of a member, with `number` as an integer if upstream's schema.json declares an integer."""
        kinds = {self.schema.follow(m) for m in self.schema.members(member.type)} - {ir.Prim("null")}
        fractions = any(isinstance(limit, float) for limit in self._bounds(member).values())
        if member.tags.tjs_type is not None or kinds != {ir.Prim("number")} or fractions:
            return member.type
        return ir.map_nodes(member.type, lambda node: SCHEMA_INTEGER if node == ir.Prim("number") else node)

    def _bounds(self, member: ir.Field) -> dict[str, float | str]:
        """Return the `Field` arguments that validate a member's limits; limits of other kinds of values are ignored."""
        members = [self.schema.follow(m) for m in self.schema.members(member.type)]
        kinds = {_kind(m) for m in members if m != ir.Prim("null")}
        limits = ir.limits_of(member.tags).items()
        return {row.argument: limit for row, limit in limits if row.argument and kinds == {row.limits}}

    def _fallback(self, owner: str, member: str) -> Json:
        """Return the overlay's default for a required member, declared at the type or at one of its supertypes."""
        facts = self.revision.facts.default
        names = (owner, *self.schema.supertypes(owner))
        own = self.schema.flat(owner).get(member)
        if own is not None and self.schema.literal(own.type) is not None:
            return None
        return next((facts[f"{name}.{member}"] for name in names if f"{name}.{member}" in facts), None)

    def _nullable(self, type_: ir.TypeExpr) -> bool:
        """Return whether null is a value of the type; an absent member then needs another value."""
        members = [self.schema.follow(m) for m in self.schema.members(type_)]
        return any(isinstance(m, ir.Prim) and m.name in ("null", "unknown", "any") for m in members)

    def _open_union(self, name: str) -> dict[str, Any] | None:
        """Return the tags of an open union; None for any other type."""
        if name not in self._open_unions:
            return None
        schema = self.schema
        found = schema.discriminator(ir.Ref(name))
        if found is None:
            raise schema.fail(
                schema.types[name], f"'{name}' is an open union, but no literal distinguishes its members"
            )
        members = [schema.follow(m) for m in schema.members(ir.Ref(name))]
        tags = {
            m.name: values[0]
            for m, values in zip(members, found.values, strict=True)
            if isinstance(m, ir.Ref)
        }
        return {"property": found.property, "tags": tags}


_HELPERS: Final = ("constant", "fallback", "wire")
"""The functions that the lines of a class call."""


def _kind(type_: ir.TypeExpr) -> str:
    """Return the kind of value of a type, as `Constraint.limits` names it."""
    match type_:
        case ir.Prim("integer"):
            return "number"
        case ir.Prim(name):
            return name
        case ir.Template() | ir.Lit(str()):
            return "string"
        case ir.Array():
            return "array"
        case _:
            return "other"


def _same(declared: FlatField | None, inherited: FlatField) -> bool:
    return declared is not None and (declared.field.type, declared.field.optional) == (
        inherited.field.type,
        inherited.field.optional,
    )


@dataclass(frozen=True, slots=True)
class ModelModule:
    """A generated module of models: the text without imports, not yet formatted, and the names to import."""

    section: Section
    imports: Mapping[str, Sequence[str]]
    """The names that it imports from other sections, by module."""
    names: frozenset[str]
    """All names that its text refers to, builtins excepted."""
    body: Code

    @property
    def exports(self) -> list[str]:
        """The names of its classes and aliases."""
        return [class_name(name) for name in self.section.types]


def model_modules(planner: ModelPlanner) -> Iterator[ModelModule]:
    """Yield the modules of a revision's `models`, in source order."""
    package = frozenset({module_name(planner.revision.name)})
    for section in planner.sections:
        data = planner.template_data(section)
        text = joined("\n\n\n", map(_rendered, data.values()))
        names = _names(text, data)
        if any(planner.classes[name].bases for name in section.types if name in planner.classes):
            names |= package  # a hint of a base is resolved in the module of the subclass
        imports: dict[str, list[str]] = {}
        for name, home in sorted(planner.loaded(section).items()):
            if class_name(name) in names:
                imports.setdefault(home, []).append(class_name(name))
        yield ModelModule(section, dict(sorted(imports.items())), names, text)


def _rendered(entry: Mapping[str, Any]) -> Code:
    return render("class.py" if "attributes" in entry else "alias.py", **entry)


def _names(text: str, data: Mapping[str, dict[str, Any]]) -> frozenset[str]:
    """Return the names that the text of a module refers to, also in quoted hints."""
    printed = {
        n.id for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)
    }
    hints = [a.hint for entry in data.values() for a in entry.get("attributes", {}).values()]
    hints += [entry["hint"] for entry in data.values() if "hint" in entry]
    return frozenset(printed.union(*(hint.names for hint in hints)))
