"""The intermediate representation (IR): the declarations of one schema.ts as frozen values in source order.

Equality compares the *contract*: declarations, members, types, literals, constants and machine-readable tags.
Positions are not compared, and `contract()` removes the prose (`Doc`). A reformatted file therefore gives an equal
`Module`, and a file without its prose an equal contract.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from typing_extensions import override

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
Literal: TypeAlias = "str | int | float | bool"


@dataclass(frozen=True, slots=True)
class Span:
    """The lines of a declaration or member in its source, counted from 1, both ends included."""

    line: int
    end_line: int
    path: str = ""
    """The file; empty for the first one of a schema."""


@dataclass(frozen=True, slots=True)
class Tags:
    """The machine-readable JSDoc tags; part of the contract."""

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
    """The value that an absent member stands for, as JSON text."""
    tjs_type: str | None = None
    nullable: bool = False
    deprecated: bool = False
    internal: bool = False
    category: str | None = None


@dataclass(frozen=True, slots=True)
class Doc:
    """The prose of a declaration or member, in upstream's words; not part of the contract.

    `text` is the JSDoc comment without its tags, `notes` a plain block comment used instead of JSDoc, `tags` the tags
    with prose (`see`, `example`, the message of `deprecated`, unknown tags), and `members` the trailing comments of the
    members of a union, by member index.
    """

    text: str | None = None
    notes: str | None = None
    tags: tuple[tuple[str, str], ...] = ()
    members: tuple[tuple[int, str], ...] = ()


NO_TAGS: Final = Tags()
NO_DOC: Final = Doc()


@dataclass(frozen=True, slots=True)
class Prim:
    """A keyword type: string, number, boolean, null, unknown, any or object (integer in overlays only)."""

    name: str


NEVER: Final = Prim("never")
"""The type of no value: that of a member that must be absent."""
ANYTHING: Final = frozenset({Prim("unknown"), Prim("any")})
"""The types of any value."""


@dataclass(frozen=True, slots=True, eq=False)
class Lit:
    """A literal type such as `"text"`, `5` or `true`; `1`, `1.0` and `true`, which Python takes as equal, are different."""

    value: Literal
    of_enum: bool = field(default=False, repr=False)
    """Whether a member of an enum has the value: TypeScript takes that as another type, with values that are the same in JSON."""

    @override
    def __eq__(self, other: object) -> bool:
        return isinstance(other, Lit) and repr(self.value) == repr(other.value)

    @override
    def __hash__(self) -> int:
        return hash(self.value)


@dataclass(frozen=True, slots=True)
class ConstRef:
    """`typeof NAME`: the literal type of an exported constant."""

    name: str


@dataclass(frozen=True, slots=True)
class Ref:
    """A reference to a type declared in the same file."""

    name: str


@dataclass(frozen=True, slots=True)
class Array:
    """`T[]` or `Array<T>`."""

    item: TypeExpr


@dataclass(frozen=True, slots=True)
class Union:
    """A flattened union in source order."""

    members: tuple[TypeExpr, ...]


@dataclass(frozen=True, slots=True)
class Intersection:
    """A flattened intersection in source order."""

    members: tuple[TypeExpr, ...]


@dataclass(frozen=True, slots=True)
class Record:
    """`Record<string, T>`: a map without an index signature."""

    value: TypeExpr


@dataclass(frozen=True, slots=True)
class Obj:
    """An inline object type, with or without declared members and an index signature."""

    fields: tuple[Field, ...] = ()
    index: IndexSig | None = None


@dataclass(frozen=True, slots=True)
class Derived:
    """An object type derived from a named one by `Pick`, `Omit`, `Partial` or `Required`."""

    kind: str
    base: Ref | Derived
    keys: tuple[str, ...] = ()
    """The members that `Pick` keeps or `Omit` removes."""


@dataclass(frozen=True, slots=True)
class Tuple:
    """`[A, B]`: an array with a type for each item; `[A, ...B[]]` may have further ones."""

    items: tuple[TypeExpr, ...]
    rest: TypeExpr | None = None
    """The type of the items behind those, of which there may be any number; None if there are none."""

    @property
    def parts(self) -> tuple[TypeExpr, ...]:
        """The types of all items, that of the further ones last."""
        return self.items if self.rest is None else (*self.items, self.rest)

    @classmethod
    def of(cls, parts: Sequence[TypeExpr], *, rest: bool) -> Tuple:
        """Return the tuple with these parts; with `rest`, the last one is the type of the further items."""
        return cls(tuple(parts[:-1]), parts[-1]) if rest else cls(tuple(parts))


@dataclass(frozen=True, slots=True)
class Template:
    """A template literal type such as `` `user-${string}` ``."""

    text: str
    """The text between the backticks."""

    @property
    def pattern(self) -> str:
        """The regular expression that matches these strings, in the dialect of JSON Schema."""
        texts = re.split(r"\$\{(\w+)\}", self.text)
        parts = [PLACEHOLDERS[t] if n % 2 else _SPECIAL.sub(r"\\\g<0>", t) for n, t in enumerate(texts)]
        return f"^{''.join(parts)}$"


PLACEHOLDERS: Final = {
    "string": r"[\s\S]*",
    "number": r"([-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?|0[xX][0-9A-Fa-f]+|0[oO][0-7]+|0[bB][01]+)",
    "boolean": "(true|false)",
}
"""The placeholders that a template literal type may contain, each with its regular expression."""
_SPECIAL: Final = re.compile(r"[\\^$.*+?()\[\]{}|/]")
HoistedType: TypeAlias = Prim | Lit | ConstRef | Ref | Array | Union | Record | Obj | Tuple | Template
"""A type in a hoisted schema, in which an `Obj` has no members: every other object has a name."""
TypeExpr: TypeAlias = HoistedType | Intersection | Derived
"""A type. A `match` over the kinds of types names each of them, so that a type checker finds where a new one is missing."""


@dataclass(frozen=True, slots=True)
class IndexSig:
    """`[key: string]: T`."""

    key: str
    value: TypeExpr
    undefined: bool = field(default=False, compare=False)
    """Whether `undefined` is one of the values: a member that `Pick` finds here may be absent."""


@dataclass(frozen=True, slots=True)
class Field:
    """One declared member of an interface or inline object."""

    name: str
    type: TypeExpr
    optional: bool = False
    tags: Tags = NO_TAGS
    doc: Doc = NO_DOC
    span: Span = field(default=Span(0, 0), compare=False)
    undefined: bool = field(default=False, compare=False)
    """Whether it is optional since `undefined` is one of its values, as it remains in `Required`."""


@dataclass(frozen=True, slots=True)
class Interface:
    """An interface with the members that it declares itself."""

    name: str
    bases: tuple[Ref | Derived, ...] = ()
    fields: tuple[Field, ...] = ()
    index: IndexSig | None = None
    tags: Tags = NO_TAGS
    doc: Doc = NO_DOC
    span: Span = field(default=Span(0, 0), compare=False)
    parameters: tuple[str, ...] = field(default=(), compare=False)
    """The type parameters of an exported generic, in their order."""


@dataclass(frozen=True, slots=True)
class Alias:
    """A `type NAME = ...`, or an enum as the union of its values; or a type parameter, as the type that it is by default."""

    name: str
    type: TypeExpr
    tags: Tags = NO_TAGS
    doc: Doc = NO_DOC
    span: Span = field(default=Span(0, 0), compare=False)
    parameter: bool = field(default=False, compare=False)
    """Whether it is a type parameter of an exported generic."""
    bound: TypeExpr | None = field(default=None, compare=False)
    """What the arguments of a type parameter extend."""
    parameters: tuple[str, ...] = field(default=(), compare=False)
    """The type parameters of an exported generic, in their order."""


@dataclass(frozen=True, slots=True)
class Const:
    """A constant: a version string or an error code."""

    name: str
    value: Literal
    tags: Tags = NO_TAGS
    doc: Doc = NO_DOC
    span: Span = field(default=Span(0, 0), compare=False)


Decl: TypeAlias = Interface | Alias | Const


def union_of(members: Iterable[TypeExpr]) -> TypeExpr:
    """Return the union of types, with unions in it opened; a single type is no union."""
    found: list[TypeExpr] = []
    for member in members:
        found += member.members if isinstance(member, Union) else [member]
    return found[0] if len(found) == 1 else Union(tuple(found))


def derive(
    kind: str, fields: Sequence[Field], index: IndexSig | None, keys: Sequence[str]
) -> tuple[tuple[Field, ...], IndexSig | None]:
    """Return the members and the index signature that `Pick`, `Omit`, `Partial` or `Required` derive from others.

    The keys of a type with an index signature are all strings: `Pick` finds each of them, `Omit` leaves none by name.
    """
    wanted, names = frozenset(keys), {f.name for f in fields}
    match kind:
        case "Pick":
            added = (
                Field(key, index.value, index.undefined, undefined=index.undefined)
                for key in keys
                if index and key not in names
            )
            return (*(f for f in fields if f.name in wanted), *added), None
        case "Omit":
            return tuple(f for f in fields if index is None and f.name not in wanted), index
        case "Partial":
            partial = (dataclasses.replace(f, optional=True, undefined=False) for f in fields)
            return tuple(partial), index and dataclasses.replace(index, undefined=True)
        case _:
            return tuple(dataclasses.replace(f, optional=f.undefined) for f in fields), index


@dataclass(frozen=True, slots=True)
class Module:
    """The declarations of one schema.ts in source order."""

    decls: tuple[Decl, ...]
    warnings: tuple[str, ...] = field(default=(), compare=False)
    """Constructs that the parser ignored, each with its place."""
    texts: Mapping[str, Sequence[str]] = field(
        default_factory=dict[str, Sequence[str]], compare=False, repr=False
    )
    """The lines of the further files that declarations come from, by path."""

    @property
    def types(self) -> dict[str, Interface | Alias]:
        """The interfaces and aliases by name, in source order."""
        return {d.name: d for d in self.decls if not isinstance(d, Const)}

    @property
    def consts(self) -> dict[str, Const]:
        """The constants by name, in source order."""
        return {d.name: d for d in self.decls if isinstance(d, Const)}


def hoisted(type_: TypeExpr) -> HoistedType:
    """Return a type of a hoisted schema."""
    assert not isinstance(type_, Intersection | Derived), f"hoisting leaves no {type(type_).__name__}"
    return type_
