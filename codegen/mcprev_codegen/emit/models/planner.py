"""Plans the models of one revision from its hoisted schema.

A class inherits from its base unless it redeclares a member with another type; then the base's members are copied into
the class, so that every class is a true subtype of its bases.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

from mcprev_codegen import ir
from mcprev_codegen.emit.models import plan
from mcprev_codegen.emit.models.sections import Layout, Section, categories
from mcprev_codegen.facts import Revision
from mcprev_codegen.ir import pascal_case
from mcprev_codegen.python import is_module
from mcprev_codegen.resolve import Discriminator, FlatField, Schema

_ITEM: Final = "Item"
"""What is added to the name of an alias of a list for the open union of its items."""

_ANYTHING: Final = ir.Prim("unknown")


def plan_models(revision: Revision, later: Sequence[Revision], docs: Mapping[str, str]) -> plan.ModelPlan:
    """Return the plan of a revision's models.

    `later` are the revisions after it, whose sections it has if it has none, and `docs` the docstrings of its types.
    """
    planner = ModelPlanner(revision, docs, categories(revision, later))
    return plan.ModelPlan(
        revision,
        planner.schema,
        tuple(map(planner.module, planner.sections)),
        planner.parameters,
        planner.imported,
    )


def model_schema(revision: Revision) -> Schema:
    """Return a revision's schema with an alias for each open union that is the type of a member.

    A type parameter stands for any value there.
    """
    decls: list[ir.Decl] = []
    for decl in revision.schema.module.decls:
        if isinstance(decl, ir.Interface):
            fields = tuple(_with_named_union(revision, decl, f, decls) for f in decl.fields)
            decls.append(replace(decl, fields=fields))
        elif isinstance(decl, ir.Alias) and decl.parameter:
            decls.append(replace(decl, type=_ANYTHING))
        elif (
            isinstance(decl, ir.Alias)
            and isinstance(decl.type, ir.Array)
            and decl.name in revision.facts.open
        ):
            item = ir.Alias(
                decl.name + _ITEM,
                decl.type.item,
                doc=ir.Doc(text=f"The type of the items of {decl.name}."),
                span=decl.span,
            )
            decls += [item, replace(decl, type=ir.Array(ir.Ref(item.name)))]
        else:
            decls.append(decl)
    return replace(revision.schema, module=ir.Module(tuple(decls)))


def _with_named_union(
    revision: Revision, owner: ir.Interface, member: ir.Field, added: list[ir.Decl]
) -> ir.Field:
    if f"{owner.name}.{member.name}" not in revision.facts.open:
        return member
    name = owner.name + pascal_case(member.name)
    array = isinstance(member.type, ir.Array)
    union = member.type.item if isinstance(member.type, ir.Array) else member.type
    described = "the items" if array else "the value"
    doc = ir.Doc(text=f"The type of {described} of `{member.name}` in {owner.name}.")
    added.append(ir.Alias(name, union, doc=doc, span=owner.span))
    return replace(member, type=ir.Array(ir.Ref(name)) if array else ir.Ref(name))


@dataclass(frozen=True)
class ModelPlanner:
    """Decides what each type of a revision becomes."""

    revision: Revision
    docs: Mapping[str, str] = field(default_factory=dict[str, str])
    """The docstring of every type."""
    categories: Mapping[str, str] = field(default_factory=dict[str, str])
    """The section of every type that has one."""

    @cached_property
    def schema(self) -> Schema:
        """The schema that the models are made of."""
        return model_schema(self.revision)

    @cached_property
    def imported(self) -> frozenset[str]:
        """The types of an extension that are those of the revision it is based on, whose package has them."""
        return frozenset(n for n, decl in self.schema.types.items() if not self.revision.is_own(decl))

    @cached_property
    def _open_unions(self) -> frozenset[str]:
        places = (place.split(".") for place in self.revision.facts.open)
        names = (owner + "".join(map(pascal_case, member)) for owner, *member in places)
        return frozenset(name + _ITEM if self._is_list(name) else name for name in names)

    def _is_list(self, name: str) -> bool:
        decl = self.schema.types[name]
        return isinstance(decl, ir.Alias) and isinstance(decl.type, ir.Array)

    @cached_property
    def bases(self) -> dict[str, tuple[str, ...]]:
        """The bases of every type that becomes a class."""
        schema = self.schema
        names = [
            n for n, d in schema.types.items() if isinstance(d, ir.Interface) and not schema.is_map(ir.Ref(n))
        ]
        return {name: self._bases(name, {f.name: f for f in schema.flat(name).fields}) for name in names}

    @cached_property
    def parameters(self) -> Mapping[str, tuple[str, ...]]:
        """The type parameters of each type that refers to any, directly or through others; a generic's own are in its order."""
        types = self.schema.types.items()
        stated = [name for name, decl in types if isinstance(decl, ir.Alias) and decl.parameter]
        users: dict[str, list[str]] = {}
        for name, used in self.schema.references.items() if stated else ():
            for other in used:
                users.setdefault(other, []).append(name)
        found: dict[str, list[str]] = {}
        for parameter in stated:
            for name in ir.reachable(users.get(parameter, ()), lambda one: users.get(one, ())):
                found.setdefault(name, []).append(parameter)
        return {name: tuple(sorted(used, key=self._order(name))) for name, used in found.items()}

    def _order(self, name: str) -> Callable[[str], int]:
        """Return the place of each type parameter of a type; one that it has through others is behind its own."""
        own = self.schema.types[name].parameters
        return lambda parameter: own.index(parameter) if parameter in own else len(own)

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
                parametric = followed.name in self.parameters  # its members are copied
                if not parametric and all(
                    _same(declared.get(f.name), f) for f in schema.flat(followed.name).fields
                ):
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
        own = ir.Module(tuple(decl for decl in self.schema.module.decls if self.revision.is_own(decl)))
        found = Layout(own, declared, self.categories, self.needs).sections
        for section in found:
            if not is_module(section.module):
                named = [name for name in section.types if self.schema.types[name].tags.category]
                raise self.schema.fail(
                    (named or section.types)[0],
                    f"its @category cannot be the name of a module ({section.title[:60]!r}): begin it with a letter, "
                    "and keep it short",
                )
        return found

    def needs(self, name: str) -> Collection[str]:
        """Return the types that a class or alias needs at definition: bases, or the parts of the alias."""
        if name in self.bases:
            return (*self.bases[name], *self.parameters.get(name, ()))
        if self._starts_cycle(name):
            inline = self._cycles[name]
            found = [r for other in inline for r in ir.references(self.schema.types[other])]
            return tuple(dict.fromkeys(r for r in found if r not in inline))
        if name in self._open_unions:
            return tuple(
                dict.fromkeys(type_ for type_, _ in self._open_union(name).tags)
            )  # behind the aliases in it
        decl = self.schema.types[name]
        if isinstance(decl, ir.Alias) and decl.parameter:
            decl = self.revision.schema.types[name]
        return tuple(dict.fromkeys(ir.references(decl)))

    def _starts_cycle(self, name: str) -> bool:
        """Return whether an alias opens a cycle of aliases; it is written as an alias that refers to itself.

        The other aliases of the cycle are expanded in it: type checkers support an alias that refers to itself, but
        not several aliases that refer to each other.
        """
        return name in self._cycles and self._openers[self._cycles[name]] == name

    @cached_property
    def _openers(self) -> Mapping[frozenset[str], str]:
        return {cycle: ir.opener(cycle, self._aliases) for cycle in {*self._cycles.values()}}

    @cached_property
    def _cycles(self) -> Mapping[str, frozenset[str]]:
        """The aliases of the cycle that an alias is part of."""
        return ir.cycles(self._aliases)

    @cached_property
    def _aliases(self) -> Mapping[str, Sequence[str]]:
        references = self.schema.references.items()
        return {name: used for name, used in references if name not in self.bases}

    # -- models ------------------------------------------------------------------------------------------

    def module(self, section: Section) -> plan.ModelModule:
        """Return the plan of one module."""
        used = {other for name in section.types for other in self.needs(name)}
        needed = {self._home[other] for other in used - self.imported}
        needed.discard(section)
        homes = sorted(needed, key=lambda home: home.module)
        loaded = {name: home.module for home in homes for name in home.types}
        models = tuple(map(self._model, section.types))
        return plan.ModelModule(
            section.title, section.module, models, loaded, tuple(sorted(used & self.imported))
        )

    @cached_property
    def _home(self) -> Mapping[str, Section]:
        """The module of each type."""
        return {name: section for section in self.sections for name in section.types}

    def _model(self, name: str) -> plan.ModelClass | plan.ModelAlias | plan.ModelParameter:
        decl = self.revision.schema.types.get(name)
        if isinstance(decl, ir.Alias) and decl.parameter:
            return plan.ModelParameter(name, self.docs.get(name, ""), decl.type, decl.bound)
        return self._class(name) if name in self.bases else self._alias(name)

    def _class(self, name: str) -> plan.ModelClass:
        inherited = {f.name for base in self.bases[name] for f in self.schema.flat(base).fields}
        members = tuple(
            self._member(name, f.field) for f in self.schema.flat(name).fields if f.name not in inherited
        )
        deprecated = self.schema.types[name].tags.deprecated
        return plan.ModelClass(
            name, self.docs.get(name, ""), deprecated, self.bases[name], members,
            self.parameters.get(name, ()), self._further(name),
        )  # fmt: skip

    def _further(self, name: str) -> ir.TypeExpr | None:
        """Return the type of an index signature beside members, unless the class has it from its bases."""
        own, *inherited = (self._index(one) for one in (name, *self.bases[name]))
        return None if own == next((one for one in inherited if one not in ir.ANYTHING), _ANYTHING) else own

    def _index(self, name: str) -> ir.TypeExpr:
        index = self.schema.flat(name).index
        return _ANYTHING if index is None or self.schema.follow(index.value) in ir.ANYTHING else index.value

    def _member(self, owner: str, member: ir.Field) -> plan.ModelMember:
        single = self.schema.literal(member.type) is not None
        fallback = None if single else self.revision.default(owner, member.name)
        stated = self.revision.stated(member)
        return plan.ModelMember(member, fallback, stated, self.docs.get(f"{owner}.{member.name}", ""))

    def _alias(self, name: str) -> plan.ModelAlias:
        decl = self.schema.types[name]
        tags = decl.tags if isinstance(decl, ir.Alias) else ir.NO_TAGS
        type_ = ir.stated_type(decl.type, tags) if isinstance(decl, ir.Alias) else ir.Obj((), decl.index)
        cycle = self._cycles[name] if self._starts_cycle(name) else frozenset[str]()
        found = None if self._holds_open_union(type_) else self.schema.discriminator(type_)
        texts = found and all(isinstance(value, str) for values in found.values for value in values)
        discriminator = found.property if found and texts else None
        union = self._open_union(name) if name in self._open_unions else None
        exact = plan.ExactUnion(found.property, self._tagged(type_, found)) if found and not texts else None
        return plan.ModelAlias(name, self.docs.get(name, ""), type_, tags, cycle, discriminator, union, exact)

    def _tagged(self, type_: ir.TypeExpr, found: Discriminator) -> list[tuple[ir.TypeExpr, ir.Literal]]:
        """Return the members of a union, each with a tag; once for each of its tags."""
        pairs = zip(self.schema.members(type_), found.values, strict=True)
        return [(member, value) for member, values in pairs for value in values]

    def _holds_open_union(self, type_: ir.TypeExpr) -> bool:
        """Return whether a type is an alias of an open union, or a union with one: those tell their objects apart."""
        pending, seen = [type_], set[str]()
        while pending:
            match pending.pop():
                case ir.Union(members):
                    pending += members
                case ir.Ref(name) if name not in seen and isinstance(
                    decl := self.schema.types[name], ir.Alias
                ):
                    if name in self._open_unions:
                        return True
                    seen.add(name)
                    pending.append(decl.type)
                case _:
                    pass
        return False

    def _open_union(self, name: str) -> plan.OpenUnion:
        schema = self.schema
        found = schema.discriminator(ir.Ref(name))
        if found is None:
            raise schema.fail(name, f"'{name}' is an open union, but no literal distinguishes its members")
        members = [(schema.follow(member), value) for member, value in self._tagged(ir.Ref(name), found)]
        tags = [(m.name, value) for m, value in members if isinstance(m, ir.Ref)]
        return plan.OpenUnion(found.property, tags)


def _same(declared: FlatField | None, inherited: FlatField) -> bool:
    if declared is None:
        return False
    own, other = declared.field, inherited.field
    return (own.type, own.optional) == (other.type, other.optional)
