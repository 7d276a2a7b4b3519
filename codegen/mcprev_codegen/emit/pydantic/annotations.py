"""The type hints of the generated models, printed from the IR.

A type that is not defined when a module is imported is written in quotes as an attribute of the revision's package.
pydantic resolves the quoted hint when the model is first used, which imports the other module only then.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, LiteralString

from mcprev_codegen import ir
from mcprev_codegen.python import Code, class_name, code, identifier, joined, literal
from mcprev_codegen.resolve import Schema


@dataclass(frozen=True, slots=True)
class Hint:
    """A type hint and the names that it refers to, builtins excepted."""

    text: Code
    names: frozenset[str] = frozenset()
    quoted: bool = False
    """Whether the text is quoted, since it refers to types that may not be defined yet."""

    @property
    def source(self) -> Code:
        """The text as written in a module."""
        return literal(self.text) if self.quoted else self.text

    def inside(self, outer: str) -> Hint:
        """Return the hint as the argument of a generic type."""
        return Hint(code("{}[{}]", identifier(outer), self.source), self.names | {outer})

    def annotated(self, function: str, arguments: Code) -> Hint:
        """Return the hint annotated with the result of calling a function."""
        text = code("Annotated[{}, {}({})]", self.source, identifier(function), arguments)
        return Hint(text, self.names | {"Annotated", function})


SCHEMA_INTEGER: Final = ir.Prim("count")
"""A number that upstream's schema.json declares as an integer."""
_SCHEMA_INTEGER: Final = Hint(code("Integer"), frozenset({"Integer"}))
_NONE: Final = Hint(code("None"))
_ANY: Final = Hint(code("Any"), frozenset({"Any"}))
_PRIMITIVES: Final[Mapping[str, tuple[Hint, ...]]] = {
    "string": (Hint(code("str")),),
    "number": (Hint(code("int")), Hint(code("float"))),
    "integer": (Hint(code("Whole"), frozenset({"Whole"})),),
    SCHEMA_INTEGER.name: (_SCHEMA_INTEGER,),
    "boolean": (Hint(code("bool")),),
    "null": (_NONE,),
    "object": (Hint(code("dict[str, Any]"), frozenset({"Any"})),),
    "unknown": (_ANY,),
    "any": (_ANY,),
}
"""The alternatives of each primitive; `int | float` keeps whether a number was written with a fraction part."""


_INT: Final = _PRIMITIVES["number"][0]
_WHOLE: Final = {row.argument: row.whole for row in ir.CONSTRAINTS if row.whole}
"""The function that converts each limit of a number to the equivalent limit of whole numbers."""


@dataclass(frozen=True, slots=True)
class Hints:
    """Prints types of one hoisted schema as hints for one module."""

    schema: Schema
    package: str
    """The name by which the module refers to the revision's package."""
    known: Collection[str] = ()
    """The types that the module can refer to by name."""
    inline: Collection[str] = ()
    """Aliases that are expanded instead of named."""

    def hint(self, type_: ir.TypeExpr) -> Hint:
        """Return the hint of a type; named types become class names, and null comes last."""
        return _union(self._alternatives(type_))

    def limited(self, type_: ir.TypeExpr, limits: Mapping[str, float | str]) -> Hint:
        """Return the hint of a type whose values, null excepted, are validated by a `Field` with these arguments."""
        return _union([self._limited(hint, limits) for hint in self._alternatives(type_)])

    def _limited(self, hint: Hint, limits: Mapping[str, float | str]) -> Hint:
        if hint == _NONE:
            return hint
        if hint == _SCHEMA_INTEGER:
            text = code("Annotated[int, Field({}), EXACT]", _arguments(_whole(limits)))
            return Hint(text, frozenset({"Annotated", "Field", "EXACT"}))
        return hint.annotated("Field", _arguments(_whole(limits) if hint == _INT else limits))

    def builtins(self, type_: ir.TypeExpr) -> set[str]:
        """Return the builtin types that the hint of a type refers to."""
        found: set[str] = set()
        for node in ir.walk(type_):
            match node:
                case ir.Prim(kind):
                    found.update(hint.text.partition("[")[0] for hint in _PRIMITIVES[kind])
                case ir.Array():
                    found.add("list")
                case ir.Tuple():
                    found.add("tuple")
                case ir.Template():
                    found.add("str")
                case ir.Record() | ir.Obj():
                    found.add("dict")
                case _:
                    pass
        return found

    def _alternatives(self, type_: ir.TypeExpr) -> list[Hint]:
        """Return the hints of the members of a union without duplicates."""
        members = type_.members if isinstance(type_, ir.Union) else (type_,)
        values = [self.schema.literal(member) for member in members]
        literals = [literal(v) for v in values if v is not None]
        found = (
            [Hint(code("Literal[{}]", joined(", ", literals)), frozenset({"Literal"}))] if literals else []
        )
        for member, value in zip(members, values, strict=True):
            if value is None:
                found += self._single(member)
        kept = dict.fromkeys(hint for hint in found if hint != _NONE)
        return [_ANY] if _ANY in kept else [*kept, *([_NONE] if _NONE in found else [])]

    def _single(self, type_: ir.TypeExpr) -> Iterator[Hint]:
        match type_:
            case ir.Prim(kind):
                yield from _PRIMITIVES[kind]
            case ir.Ref(type_name) if type_name in self.inline:
                decl = self.schema.types[type_name]
                if isinstance(decl, ir.Alias):
                    yield from self._alternatives(decl.type)
                else:
                    yield self._map(decl.index)
            case ir.Ref(type_name) if type_name in self.known:
                yield Hint(identifier(class_name(type_name)), frozenset({class_name(type_name)}))
            case ir.Ref(type_name):
                text = code("{}.{}", identifier(self.package), identifier(class_name(type_name)))
                yield Hint(text, frozenset({self.package}), quoted=True)
            case ir.Array(item):
                yield _generic("list[{}]", self.hint(item))
            case ir.Tuple(items):
                hints = [self.hint(item) for item in items]
                text = code("tuple[{}]", joined(", ", (hint.source for hint in hints)))
                yield Hint(text, _names(hints)).annotated("Field", code("strict=False"))
            case ir.Template():
                yield Hint(code("str")).annotated("Field", code("pattern={}", literal(type_.pattern)))
            case ir.Record(value):
                yield _generic("dict[str, {}]", self.hint(value))
            case ir.Obj((), index):
                yield self._map(index)
            case ir.Union():
                yield from self._alternatives(type_)
            case _:
                raise AssertionError(f"hoisting leaves no {type(type_).__name__}")

    def _map(self, index: ir.IndexSig | None) -> Hint:
        return _generic("dict[str, {}]", self.hint(index.value) if index else _ANY)


def _arguments(values: Mapping[str, float | str]) -> Code:
    return joined(", ", (code("{}={}", identifier(key), literal(value)) for key, value in values.items()))


def _whole(limits: Mapping[str, float | str]) -> dict[str, float | str]:
    """Return the equivalent limits for whole numbers."""
    return {
        key: value if isinstance(value, str) else _WHOLE[key](Fraction(str(value)))
        for key, value in limits.items()
    }


def _generic(pattern: LiteralString, inner: Hint) -> Hint:
    return Hint(code(pattern, inner.text), inner.names, inner.quoted)


def _names(hints: Sequence[Hint]) -> frozenset[str]:
    return frozenset(used for hint in hints for used in hint.names)


def _union(hints: Sequence[Hint]) -> Hint:
    quoted = any(hint.quoted for hint in hints)
    if quoted and any(hint.names for hint in hints if not hint.quoted):
        # A quoted hint may be evaluated in the module of a subclass, which has its own imports.
        text = code("Union[{}]", joined(", ", (hint.source for hint in hints)))
        return Hint(text, _names(hints) | {"Union"})
    return Hint(joined(" | ", (hint.text for hint in hints)), _names(hints), quoted)
