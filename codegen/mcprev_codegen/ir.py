"""The intermediate representation: what one schema.ts declares, as frozen values in source order.

The *contract* part (declarations, members, types, literals, constants, machine-readable tags) decides
equality. Positions never do, and the prose (`Doc`) can be taken off with `contract()`, so that a
reformatted file gives an equal `Module` and a file without its prose gives an equal contract.
`to_json` and `from_json` carry a module through JSON without loss; `IR_VERSION` names that format.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias, TypeVar, cast

IR_VERSION: Final = 2

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
Literal: TypeAlias = "str | int | float | bool"


@dataclass(frozen=True, slots=True)
class Span:
    """The lines a declaration or member covers in its source, counted from 1, both ends included."""

    line: int
    end_line: int


@dataclass(frozen=True, slots=True)
class Tags:
    """The JSDoc tags a machine can act on; part of the contract."""

    format: str | None = None
    minimum: int | float | None = None
    maximum: int | float | None = None
    max_items: int | None = None
    exclusive_minimum: int | float | None = None
    exclusive_maximum: int | float | None = None
    multiple_of: int | float | None = None
    min_length: int | None = None
    max_length: int | None = None
    pattern: str | None = None
    min_items: int | None = None
    unique_items: bool = False
    default: str | None = None
    """What an absent member means, as JSON text."""
    tjs_type: str | None = None
    nullable: bool = False
    deprecated: bool = False
    internal: bool = False
    category: str | None = None


@dataclass(frozen=True, slots=True)
class Doc:
    """The prose of a declaration or member: upstream's own words, never part of the contract.

    `text` is the JSDoc comment without its tags, `notes` a plain block comment that stands in for one,
    `section` the heading above a declaration, `tags` the prose-bearing tags (`see`, `example`, the message
    of `deprecated`, unknown ones), and `members` the trailing comments of a union's literals, by member index.
    """

    text: str | None = None
    notes: str | None = None
    section: str | None = None
    tags: tuple[tuple[str, str], ...] = ()
    members: tuple[tuple[int, str], ...] = ()


CONSTRAINTS: Final = {
    "minimum": "minimum",
    "maximum": "maximum",
    "exclusive_minimum": "exclusiveMinimum",
    "exclusive_maximum": "exclusiveMaximum",
    "multiple_of": "multipleOf",
    "min_length": "minLength",
    "max_length": "maxLength",
    "pattern": "pattern",
    "min_items": "minItems",
    "max_items": "maxItems",
    "unique_items": "uniqueItems",
}
"""The attributes of `Tags` that limit a value, each with its JSON Schema keyword, which is the JSDoc tag as well."""
FLOORS: Final = ("minimum", "exclusive_minimum", "min_length", "min_items")
"""The limits that are stricter the higher they are."""
CEILINGS: Final = ("maximum", "exclusive_maximum", "max_length", "max_items")
"""The limits that are stricter the lower they are."""
NO_TAGS: Final = Tags()
NO_DOC: Final = Doc()


@dataclass(frozen=True, slots=True)
class Prim:
    """A keyword type: string, number, boolean, null, unknown, any or object (and integer, in overlays only)."""

    name: str


@dataclass(frozen=True, slots=True)
class Lit:
    """A literal type such as `"text"`, `5` or `true`."""

    value: Literal


@dataclass(frozen=True, slots=True)
class ConstRef:
    """`typeof NAME`: the literal type of an exported constant."""

    name: str


@dataclass(frozen=True, slots=True)
class Ref:
    """A type named elsewhere in the same file."""

    name: str


@dataclass(frozen=True, slots=True)
class Array:
    """`T[]` or `Array<T>`."""

    item: TypeExpr


@dataclass(frozen=True, slots=True)
class Union:
    """A flattened union; the order is the source's."""

    members: tuple[TypeExpr, ...]


@dataclass(frozen=True, slots=True)
class Intersection:
    """A flattened intersection; the order is the source's."""

    members: tuple[TypeExpr, ...]


@dataclass(frozen=True, slots=True)
class Record:
    """`Record<string, T>`: a map, spelled without an index signature."""

    value: TypeExpr


@dataclass(frozen=True, slots=True)
class Obj:
    """An inline object type with declared members, an index signature, both or neither."""

    fields: tuple[Field, ...] = ()
    index: IndexSig | None = None


@dataclass(frozen=True, slots=True)
class Derived:
    """An object type made from a named one: `Pick`, `Omit`, `Partial` or `Required`."""

    kind: str
    base: Ref | Derived
    keys: tuple[str, ...] = ()
    """The members that `Pick` keeps or `Omit` leaves out."""


@dataclass(frozen=True, slots=True)
class Tuple:
    """`[A, B]`: an array with a fixed number of items, each of its own type."""

    items: tuple[TypeExpr, ...]


@dataclass(frozen=True, slots=True)
class Template:
    """A template literal type such as `` `user-${string}` ``."""

    text: str
    """What stands between the backticks."""

    @property
    def pattern(self) -> str:
        """The regular expression that matches these strings, in the dialect of JSON Schema."""
        texts = re.split(r"\$\{(\w+)\}", self.text)
        parts = [PLACEHOLDERS[t] if n % 2 else _SPECIAL.sub(r"\\\g<0>", t) for n, t in enumerate(texts)]
        return f"^{''.join(parts)}$"


PLACEHOLDERS: Final = {
    "string": r"[\s\S]*",
    "number": r"-?\d+(\.\d+)?([eE][-+]?\d+)?",
    "boolean": "(true|false)",
}
"""What may stand in a template literal type, and the regular expression for it."""
_SPECIAL: Final = re.compile(r"[\\^$.*+?()\[\]{}|/]")

TypeExpr: TypeAlias = (
    Prim | Lit | ConstRef | Ref | Array | Union | Intersection | Record | Obj | Derived | Tuple | Template
)


@dataclass(frozen=True, slots=True)
class IndexSig:
    """`[key: string]: T`."""

    key: str
    value: TypeExpr


@dataclass(frozen=True, slots=True)
class Field:
    """One declared member of an interface or inline object."""

    name: str
    type: TypeExpr
    optional: bool = False
    tags: Tags = NO_TAGS
    doc: Doc = NO_DOC
    span: Span = field(default=Span(0, 0), compare=False)


@dataclass(frozen=True, slots=True)
class Interface:
    """An interface with its own members only."""

    name: str
    bases: tuple[Ref | Derived, ...] = ()
    fields: tuple[Field, ...] = ()
    index: IndexSig | None = None
    tags: Tags = NO_TAGS
    doc: Doc = NO_DOC
    span: Span = field(default=Span(0, 0), compare=False)


@dataclass(frozen=True, slots=True)
class Alias:
    """A `type NAME = ...`, or an enum as the union of its values."""

    name: str
    type: TypeExpr
    tags: Tags = NO_TAGS
    doc: Doc = NO_DOC
    span: Span = field(default=Span(0, 0), compare=False)


@dataclass(frozen=True, slots=True)
class Const:
    """A constant: a version string or an error code."""

    name: str
    value: Literal
    tags: Tags = NO_TAGS
    doc: Doc = NO_DOC
    span: Span = field(default=Span(0, 0), compare=False)


Decl: TypeAlias = Interface | Alias | Const


def derive_fields(kind: str, fields: Sequence[Field], keys: Sequence[str]) -> list[Field]:
    """The members that `Pick`, `Omit`, `Partial` or `Required` makes of others."""
    if kind in ("Pick", "Omit"):
        return [f for f in fields if (f.name in keys) == (kind == "Pick")]
    return [dataclasses.replace(f, optional=kind == "Partial") for f in fields]


@dataclass(frozen=True, slots=True)
class Module:
    """Every declaration of one schema.ts, in source order."""

    decls: tuple[Decl, ...]
    warnings: tuple[str, ...] = field(default=(), compare=False)
    """What the parser passed over, each with its place."""

    @property
    def types(self) -> dict[str, Interface | Alias]:
        """The interfaces and aliases by name, in source order."""
        return {d.name: d for d in self.decls if not isinstance(d, Const)}

    @property
    def consts(self) -> dict[str, Const]:
        """The constants by name, in source order."""
        return {d.name: d for d in self.decls if isinstance(d, Const)}


Node: TypeAlias = TypeExpr | IndexSig | Field | Decl | Module
AnyNode = TypeVar("AnyNode", bound=Node)


def map_nodes(node: AnyNode, change: Callable[[Node], Node]) -> AnyNode:
    """Rebuild a tree from the leaves up, each node replaced by `change(node)`; what has not changed stays itself."""
    values: dict[str, Any] = {}
    for name in _NODES[type(node)]:
        value = getattr(node, name)
        if type(value) in _NODES:
            if (changed := map_nodes(value, change)) is not value:
                values[name] = changed
        elif isinstance(value, tuple):
            items = cast("tuple[Node, ...]", value)
            mapped = tuple(map_nodes(item, change) if type(item) in _NODES else item for item in items)
            if any(one is not other for one, other in zip(items, mapped, strict=True)):
                values[name] = mapped
    return cast("AnyNode", change(dataclasses.replace(node, **values) if values else node))


def contract(module: Module) -> Module:
    """The module without its prose and warnings: what is printed, and what revisions are compared by."""

    def strip(node: Node) -> Node:
        if isinstance(node, Field | Interface | Alias | Const) and node.doc != NO_DOC:
            return dataclasses.replace(node, doc=NO_DOC)
        return node

    return dataclasses.replace(map_nodes(module, strip), warnings=())


_NODES: Final[Mapping[type[Any], tuple[str, ...]]] = {
    cls: tuple(f.name for f in dataclasses.fields(cls))
    for cls in (
        Prim, Lit, ConstRef, Ref, Array, Union, Intersection, Record, Obj, Derived, Tuple, Template,
        IndexSig, Field, Interface, Alias, Const, Module,
    )
}  # fmt: skip
"""The names of each node's members."""
_CLASSES: Final[Mapping[str, type[Any]]] = {c.__name__: c for c in (*_NODES, Span, Tags, Doc)}


def to_json(module: Module) -> dict[str, Json]:
    """The module as JSON values: every node an object with its class name under `node`."""
    return {"ir": IR_VERSION, "module": _dump(module)}


def from_json(data: Mapping[str, Json]) -> Module:
    """The inverse of `to_json`.

    Raises `ValueError` when the format is another version's, `TypeError` when it holds no module.
    """
    if data.get("ir") != IR_VERSION:
        raise ValueError(f"this is not an IR of version {IR_VERSION}: its 'ir' member is {data.get('ir')!r}")
    module = _load(data["module"])
    if not isinstance(module, Module):
        raise TypeError("the 'module' member does not hold a Module node")
    return module


def _dump(value: object) -> Json:
    if isinstance(value, tuple):
        return [_dump(item) for item in cast("tuple[object, ...]", value)]
    if isinstance(value, None | bool | int | float | str):
        return value
    out: dict[str, Json] = {"node": type(value).__name__}
    for f in dataclasses.fields(cast("Any", value)):
        item: object = getattr(value, f.name)
        if f.default is dataclasses.MISSING or item != f.default:
            out[f.name] = _dump(item)
    return out


def _load(value: Json) -> Any:  # noqa: ANN401 - any node or value
    if isinstance(value, list):
        return tuple(_load(item) for item in value)
    if isinstance(value, dict):
        cls = _CLASSES[str(value["node"])]
        return cls(**{name: _load(item) for name, item in value.items() if name != "node"})
    return value


def references(node: Node) -> Sequence[str]:
    """The names of the types a node mentions, in order, repeats included."""
    found: list[str] = []

    def visit(n: Node) -> Node:
        if isinstance(n, Ref):
            found.append(n.name)
        return n

    map_nodes(node, visit)
    return found
