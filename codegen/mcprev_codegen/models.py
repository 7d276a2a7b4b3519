"""The models of one revision: hoisted schema -> JSON Schema -> datamodel-code-generator -> Python text.

datamodel-code-generator resolves references, orders the classes and writes the type hints; our templates in
`templates/datamodel` print the classes, because only the IR knows what is absent or null, what a
constructor fills in, and which unions stay open. Inheritance is kept where no member is declared anew;
an ancestor that a class contradicts is flattened into it, so that every class is a true subtype.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from mcprev_codegen import docs, ir, jsonschema
from mcprev_codegen.hints import Hints
from mcprev_codegen.ir import Json
from mcprev_codegen.naming import ATTRIBUTE_NAMES, attribute, camel_case, class_name, pascal_case
from mcprev_codegen.resolve import FlatField, Schema
from mcprev_codegen.sources import Revision

TEMPLATES: Final = Path(__file__).with_name("templates") / "datamodel"
Node = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Attribute:
    """How one member is written as an attribute; the template turns it into a line."""

    name: str
    hint: str
    alias: str | None
    """The wire name, where the base class would not derive it from the attribute."""
    default: str | None
    """Python source of what stands behind the `=`; None for a required member."""
    style: str
    """`plain`, `optional` (absent is None, null is tolerated) or `missing` (absent is not null)."""
    bounds: str
    doc: str


@dataclass(frozen=True, slots=True)
class ClassPlan:
    """A class of `models.py`: its bases and the members it adds."""

    name: str
    bases: tuple[str, ...]
    members: tuple[FlatField, ...]


@dataclass(frozen=True)
class ModelPlanner:
    """Decides, for every type of a revision, what stands in `models.py`."""

    revision: Revision
    docs: Mapping[str, str] = field(default_factory=dict[str, str])
    """The docstring of every type."""

    @cached_property
    def schema(self) -> Schema:
        """The revision's schema, with a name for each open union that stands in a member."""
        added: dict[str, ir.Alias] = {}
        decls: list[ir.Decl] = []
        for decl in self.revision.schema.module.decls:
            if isinstance(decl, ir.Interface):
                fields = tuple(self._named(decl, f, added) for f in decl.fields)
                decls.append(replace(decl, fields=fields))
            else:
                decls.append(decl)
        return replace(self.revision.schema, module=ir.Module((*added.values(), *decls)))

    def _named(self, owner: ir.Interface, member: ir.Field, added: dict[str, ir.Alias]) -> ir.Field:
        if f"{owner.name}.{member.name}" not in self.revision.facts.open:
            return member
        name = owner.name + pascal_case(member.name)
        array = isinstance(member.type, ir.Array)
        union = member.type.item if isinstance(member.type, ir.Array) else member.type
        added[name] = ir.Alias(
            name, union, doc=ir.Doc(text=f"What may stand in `{member.name}` of {owner.name}.")
        )
        return replace(member, type=ir.Array(ir.Ref(name)) if array else ir.Ref(name))

    @cached_property
    def hints(self) -> Hints:
        """Prints the types of `schema`."""
        return Hints(self.schema)

    def _alias_hint(self, name: str) -> str:
        decl = self.schema.types[name]
        if isinstance(decl, ir.Interface):
            return self.hints.hint(ir.Obj((), decl.index))
        return (
            self.hints.recursive(name, self._cycle(name))
            if self._is_knot(name)
            else self.hints.hint(decl.type)
        )

    def _reaches(self, type_: ir.TypeExpr, owner: str) -> bool:
        """Whether a type leads back to the class it stands in, so that not all it names can stand above."""
        pending, seen = [*ir.references(type_)], set[str]()
        while pending:
            name = pending.pop()
            if name == owner:
                return True
            if name not in seen:
                seen.add(name)
                pending += ir.references(self.schema.types[name])
        return False

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
        wanted = {f.name: f for f in flat.fields}
        bases = self._bases(name, wanted)
        given = {f.name for base in bases for f in schema.flat(base).fields}
        members = tuple(f for f in flat.fields if f.name not in given)
        return ClassPlan(name, bases, members)

    def _bases(self, name: str, wanted: Mapping[str, FlatField]) -> tuple[str, ...]:
        """The nearest ancestors that no member of the class contradicts, without redundant ones."""
        schema = self.schema
        found: dict[str, None] = {}

        def visit(type_name: str) -> None:
            decl = schema.types[type_name]
            for base in decl.bases if isinstance(decl, ir.Interface) else ():
                if isinstance(base, ir.Derived):
                    continue
                followed = schema.follow(base)
                if not isinstance(followed, ir.Ref) or schema.is_map(followed):
                    continue
                if all(_same(wanted.get(f.name), f) for f in schema.flat(followed.name).fields):
                    found.setdefault(followed.name)
                else:
                    visit(followed.name)

        visit(name)
        redundant = {a for base in found for a in schema.supertypes(base)}
        return tuple(base for base in found if base not in redundant)

    # -- the schema that datamodel-code-generator reads ------------------------------------------------

    def document(self) -> Node:
        """A JSON Schema of the classes and aliases, with base classes as `allOf`."""
        schema = self.schema
        order = self._class_order()
        aliases = [name for name in schema.types if name not in self.classes]
        defs = {class_name(n): self._class(self.classes[n]) for n in order}
        defs |= {class_name(n): self._alias(n) for n in aliases}
        return {"$schema": jsonschema.DIALECT, "title": "Models", "$defs": defs}

    def _class_order(self) -> list[str]:
        """Source order, but for bases that have to come first."""
        ordered: dict[str, None] = {}

        def visit(name: str) -> None:
            for base in self.classes[name].bases:
                visit(base)
            ordered.setdefault(name)

        for name in self.classes:
            visit(name)
        return list(ordered)

    def _class(self, plan: ClassPlan) -> Node:
        node: Node = {"type": "object"}
        if plan.bases:
            node["allOf"] = [{"$ref": f"#/$defs/{class_name(base)}"} for base in plan.bases]
        node["properties"] = {f.name: self._type(f.field.type) for f in plan.members}
        node["required"] = [f.name for f in plan.members if not f.field.optional]
        return node

    def _alias(self, name: str) -> Node:
        decl = self.schema.types[name]
        if isinstance(decl, ir.Interface):
            assert decl.index is not None
            return {"type": "object", "additionalProperties": self._type(decl.index.value)}
        return self._type(decl.type, self._cycle(name) - {name} if self._is_knot(name) else frozenset())

    def _type(self, type_: ir.TypeExpr, inline: frozenset[str] = frozenset()) -> Node:
        """A type as JSON Schema; the aliases to `inline` are written out instead of named."""
        match type_:
            case ir.Prim(name):
                return _PRIMITIVES[name]
            case ir.Lit() | ir.ConstRef():
                return {"enum": [self.schema.literal(type_)]}
            case ir.Ref(name) if name in inline:
                decl = self.schema.types[name]
                return self._type(decl.type, inline) if isinstance(decl, ir.Alias) else self._alias(name)
            case ir.Ref(name):
                return {"$ref": f"#/$defs/{class_name(name)}"}
            case ir.Array(item):
                return {"type": "array", "items": self._type(item, inline)}
            case ir.Record(value):
                return {"type": "object", "additionalProperties": self._type(value, inline)}
            case ir.Obj((), index):
                values = self._type(index.value, inline) if index else True
                return {"type": "object", "additionalProperties": values}
            case ir.Union(members):
                return self._union(members, inline)
            case ir.Tuple(items):
                return {"type": "array", "items": self._union(items, inline)}
            case ir.Template():
                return _PRIMITIVES["string"]
            case _:
                raise AssertionError(f"hoisting leaves no {type(type_).__name__}")

    def _union(self, members: tuple[ir.TypeExpr, ...], inline: frozenset[str]) -> Node:
        values = [self.schema.literal(m) for m in members]
        literals = [v for v in values if v is not None]
        rest = [self._type(m, inline) for m, v in zip(members, values, strict=True) if v is None]
        branches = [*([{"enum": literals}] if literals else []), *rest]
        return branches[0] if len(branches) == 1 else {"anyOf": branches}

    def _is_knot(self, name: str) -> bool:
        """Whether an alias is the first of a cycle: it refers to itself alone, and the others to it.

        Type checkers follow one alias that names itself, but lose their way in several that name each other.
        """
        cycle = self._cycle(name)
        return bool(cycle) and next(n for n in self.schema.types if n in cycle) == name

    def _cycle(self, name: str) -> frozenset[str]:
        """The aliases on a way from an alias back to itself; none when there is no such way."""
        reached = self._aliases_from(name)
        return (
            frozenset(n for n in reached if name in self._aliases_from(n)) if name in reached else frozenset()
        )

    def _aliases_from(self, name: str) -> set[str]:
        """The aliases that an alias mentions, directly or through others."""
        seen: set[str] = set()
        pending = [*ir.references(self.schema.types[name])]
        while pending:
            reached = pending.pop()
            if reached not in seen and reached not in self.classes:
                seen.add(reached)
                pending += ir.references(self.schema.types[reached])
        return seen

    # -- what only the template can say -------------------------------------------------------------------

    def template_data(self) -> defaultdict[str, dict[str, Any]]:
        """What the templates get to know of every class and alias, by Python name."""
        data: defaultdict[str, dict[str, Any]] = defaultdict(dict)
        for name, plan in self.classes.items():
            data[class_name(name)] = {
                "docstring": self.docs.get(name, ""),
                "attributes": {f.name: self._attribute(name, f) for f in plan.members},
            }
        for name in self.schema.types:
            if name not in self.classes:
                found = self.schema.discriminator(ir.Ref(name))
                data[class_name(name)] = {
                    "docstring": self.docs.get(name, ""),
                    "hint": self._alias_hint(name),
                    "union": self._open(name),
                    "discriminator": attribute(found.property) if found else None,
                    "recursive": self._is_knot(name),
                }
        return data

    def _attribute(self, owner: str, member: FlatField) -> Attribute:
        f = member.field
        name = attribute(f.name)
        own = (self.hints.builtins(m.field.type) for m in self.classes[owner].members)
        if any(name in needed for needed in own):
            name += "_"  # else it would hide a type that the hints below it name
        literals = self.schema.literals(f.type)
        fallback = self._fallback(owner, f.name)
        style, default = "plain", None
        if fallback is not None:
            default = f"fallback({json.dumps(fallback)})"
        elif not f.optional and len(literals) == 1:
            default = f"constant({json.dumps(literals[0])})"
        elif f.optional:
            style, default = ("missing", "MISSING") if self._nullable(f.type) else ("optional", "None")
        hint = self.hints.hint(f.type)
        return Attribute(
            name=name,
            hint=repr(hint) if self._reaches(f.type, owner) else hint,
            alias=None if _derived(name) == f.name else f.name,
            default=default,
            style=style,
            bounds=self._bounds(f),
            doc=docs.member(f),
        )

    def _bounds(self, member: ir.Field) -> str:
        """The arguments of a `Field` that checks a member's limits; a limit of other values than it has says nothing."""
        members = [self.schema.follow(m) for m in self.schema.members(member.type)]
        kinds = {_kind(m) for m in members if m != ir.Prim("null")}
        bounds = {
            argument: getattr(member.tags, name)
            for kind, names in _BOUNDS.items()
            if kinds == {kind}
            for name, argument in names.items()
        }
        return ", ".join(f"{name}={_literal(value)}" for name, value in bounds.items() if value is not None)

    def _fallback(self, owner: str, member: str) -> Json:
        """The overlay's default for a required member, wherever in the ancestry it is said."""
        facts = self.revision.facts.default
        names = (owner, *self.schema.supertypes(owner))
        own = self.schema.flat(owner).get(member)
        if own is not None and self.schema.literal(own.type) is not None:
            return None
        return next((facts[f"{name}.{member}"] for name in names if f"{name}.{member}" in facts), None)

    def _nullable(self, type_: ir.TypeExpr) -> bool:
        """Whether null is a value of the type, so that absent has to be something else."""
        members = [self.schema.follow(m) for m in self.schema.members(type_)]
        return any(isinstance(m, ir.Prim) and m.name in ("null", "unknown", "any") for m in members)

    def _open(self, name: str) -> dict[str, Any] | None:
        """The tags of a union that keeps what it does not know, or None."""
        if name not in self._open_unions:
            return None
        schema = self.schema
        found = schema.discriminator(ir.Ref(name))
        if found is None:
            raise schema.fail(
                schema.types[name], f"'{name}' is to stay open but no literal tells its members apart"
            )
        members = [schema.follow(m) for m in schema.members(ir.Ref(name))]
        tags = {
            m.name: values[0]
            for m, values in zip(members, found.values, strict=True)
            if isinstance(m, ir.Ref)
        }
        return {"property": found.property, "tags": tags}


_NUMBER_BOUNDS: Final = {
    "minimum": "ge",
    "maximum": "le",
    "exclusive_minimum": "gt",
    "exclusive_maximum": "lt",
    "multiple_of": "multiple_of",
}
_BOUNDS: Final = {
    "number": _NUMBER_BOUNDS,
    "integer": _NUMBER_BOUNDS,
    "string": {"min_length": "min_length", "max_length": "max_length", "pattern": "pattern"},
    "array": {"min_items": "min_length", "max_items": "max_length"},
}
"""The limits that mean something for each kind of value, with the argument of a pydantic `Field` for each."""


def _kind(type_: ir.TypeExpr) -> str:
    match type_:
        case ir.Prim(name):
            return name
        case ir.Template() | ir.Lit(str()):
            return "string"
        case ir.Array():
            return "array"
        case _:
            return "other"


def _literal(value: float | str) -> str:
    return json.dumps(value) if isinstance(value, str) else str(value)


_PRIMITIVES: Final[Mapping[str, Node]] = {
    "string": {"type": "string"},
    "number": {"type": ["integer", "number"]},
    "integer": {
        "anyOf": [
            {"type": "integer"},
            {"type": "number", "customTypePath": "mcprev_types._base.IntegralFloat"},
        ]
    },
    "boolean": {"type": "boolean"},
    "null": {"type": "null"},
    "object": {"type": "object", "additionalProperties": True},
    "unknown": {},
    "any": {},
}


def _same(wanted: FlatField | None, given: FlatField) -> bool:
    return wanted is not None and (wanted.field.type, wanted.field.optional) == (
        given.field.type,
        given.field.optional,
    )


def _derived(attribute_name: str) -> str:
    special = {name: member for member, name in ATTRIBUTE_NAMES.items()}
    return special.get(attribute_name) or camel_case(attribute_name)


def generate(revision: Revision, docs: Mapping[str, str]) -> str:
    """The body of a revision's `models.py`: aliases and classes, without imports and not yet formatted."""
    import datamodel_code_generator as dcg
    from datamodel_code_generator.enums import DataModelType

    planner = ModelPlanner(revision, docs)
    text = dcg.generate(
        planner.document(),
        input_file_type=dcg.InputFileType.JsonSchema,
        output_model_type=DataModelType.PydanticV2BaseModel,
        target_python_version=dcg.PythonVersion.PY_311,
        base_class="mcprev_types._base.Model",
        custom_template_dir=TEMPLATES,
        extra_template_data=planner.template_data(),
        allof_class_hierarchy=dcg.AllOfClassHierarchy.Always,
        allof_merge_mode=dcg.AllOfMergeMode.NoMerge,
        enum_field_as_literal=dcg.LiteralType.All,
        naming_strategy=dcg.NamingStrategy.PrimaryFirst,
        use_type_alias=True,
        use_annotated=True,
        use_standard_collections=True,
        use_union_operator=True,
        skip_root_model=True,
        snake_case_field=True,
        disable_future_imports=True,
        disable_timestamp=True,
        formatters=[],
    )
    return _body(str(text))


def _body(text: str) -> str:
    """What stands below the imports; the emitter writes those itself.

    Rebuilding is left out: it would build every schema on import, which the first use does on its own.
    """
    lines = [line for line in text.split("\n") if not re.fullmatch(r"\w+\.model_rebuild\(\)", line)]
    first = next(
        n
        for n, line in enumerate(lines)
        if re.match(r"class |if TYPE_CHECKING:|[A-Za-z0-9]+(: TypeAlias)? = ", line)
    )
    return "\n".join(lines[first:])
