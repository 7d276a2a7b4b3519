"""The type hints of the generated models, printed from the IR.

A type that is not defined when a module is imported is written in quotes as an attribute of the revision's package.
pydantic resolves the quoted hint when the model is first used, which imports the other module only then.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from mcprev_codegen import ir
from mcprev_codegen.naming import class_name
from mcprev_codegen.resolve import Schema


@dataclass(frozen=True, slots=True)
class Hint:
    """A type hint and the names that it refers to, builtins excepted."""

    text: str
    names: frozenset[str] = frozenset()
    quoted: bool = False
    """Whether the text is quoted, since it refers to types that may not be defined yet."""

    @property
    def source(self) -> str:
        """The text as written in a module."""
        return json.dumps(self.text, ensure_ascii=False) if self.quoted else self.text

    def inside(self, outer: str) -> Hint:
        """Return the hint as the argument of a generic type."""
        return Hint(f"{outer}[{self.source}]", self.names | {outer})

    def annotated(self, function: str, arguments: str) -> Hint:
        """Return the hint annotated with the result of calling a function."""
        text = f"Annotated[{self.source}, {function}({arguments})]"
        return Hint(text, self.names | {"Annotated", function})


SCHEMA_INTEGER: Final = ir.Prim("count")
"""A number that upstream's schema.json declares as an integer."""
_SCHEMA_INTEGER: Final = Hint("Integer", frozenset({"Integer"}))
_NONE: Final = Hint("None")
_ANY: Final = Hint("Any", frozenset({"Any"}))
_PRIMITIVES: Final[Mapping[str, tuple[Hint, ...]]] = {
    "string": (Hint("str"),),
    "number": (Hint("int"), Hint("float")),
    "integer": (Hint("Whole", frozenset({"Whole"})),),
    SCHEMA_INTEGER.name: (_SCHEMA_INTEGER,),
    "boolean": (Hint("bool"),),
    "null": (_NONE,),
    "object": (Hint("dict[str, Any]", frozenset({"Any"})),),
    "unknown": (_ANY,),
    "any": (_ANY,),
}
"""The alternatives of each primitive; `int | float` keeps whether a number was written with a fraction part."""


_INT: Final = _PRIMITIVES["number"][0]
_WHOLE: Final[Mapping[str, Callable[[Fraction], int]]] = {
    "ge": math.ceil,
    "gt": math.floor,
    "le": math.floor,
    "lt": math.ceil,
    "multiple_of": lambda step: step.numerator,
}
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
            exact = Hint("int").annotated("Field", _arguments(_whole(limits)))
            return Hint(f"{exact.text[:-1]}, EXACT]", exact.names | {"EXACT"})
        return hint.annotated("Field", _arguments(_whole(limits) if hint == _INT else limits))

    def builtins(self, type_: ir.TypeExpr) -> set[str]:
        """Return the builtin types that the hint of a type refers to."""
        found: set[str] = set()
        for node in ir.walk(type_):
            match node:
                case ir.Prim(name):
                    found.update(hint.text.partition("[")[0] for hint in _PRIMITIVES[name])
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
        literals = [
            json.dumps(v, ensure_ascii=False) if isinstance(v, str) else repr(v)
            for v in values
            if v is not None
        ]
        found = [Hint(f"Literal[{', '.join(literals)}]", frozenset({"Literal"}))] if literals else []
        for member, value in zip(members, values, strict=True):
            if value is None:
                found += self._single(member)
        kept = dict.fromkeys(hint for hint in found if hint != _NONE)
        return [_ANY] if _ANY in kept else [*kept, *([_NONE] if _NONE in found else [])]

    def _single(self, type_: ir.TypeExpr) -> Iterator[Hint]:
        match type_:
            case ir.Prim(name):
                yield from _PRIMITIVES[name]
            case ir.Ref(name) if name in self.inline:
                decl = self.schema.types[name]
                if isinstance(decl, ir.Alias):
                    yield from self._alternatives(decl.type)
                else:
                    yield self._map(decl.index)
            case ir.Ref(name) if name in self.known:
                yield Hint(class_name(name), frozenset({class_name(name)}))
            case ir.Ref(name):
                yield Hint(f"{self.package}.{class_name(name)}", frozenset({self.package}), quoted=True)
            case ir.Array(item):
                yield _generic("list[{}]", self.hint(item))
            case ir.Tuple(items):
                hints = [self.hint(item) for item in items]
                text = f"tuple[{', '.join(hint.source for hint in hints)}]"
                yield Hint(text, _names(hints)).annotated("Field", "strict=False")
            case ir.Template():
                yield Hint("str").annotated("Field", f"pattern={json.dumps(type_.pattern)}")
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


def _arguments(values: Mapping[str, float | str]) -> str:
    texts = {n: json.dumps(value) if isinstance(value, str) else str(value) for n, value in values.items()}
    return ", ".join(f"{name}={text}" for name, text in texts.items())


def _whole(limits: Mapping[str, float | str]) -> dict[str, float | str]:
    """Return the equivalent limits for whole numbers."""
    return {
        name: value if isinstance(value, str) else _WHOLE[name](Fraction(str(value)))
        for name, value in limits.items()
    }


def _generic(pattern: str, inner: Hint) -> Hint:
    return Hint(pattern.format(inner.text), inner.names, inner.quoted)


def _names(hints: Sequence[Hint]) -> frozenset[str]:
    return frozenset(name for hint in hints for name in hint.names)


def _union(hints: Sequence[Hint]) -> Hint:
    quoted = any(hint.quoted for hint in hints)
    if quoted and any(hint.names for hint in hints if not hint.quoted):
        # A quoted hint may be evaluated in the module of a subclass, which has its own imports.
        return Hint(f"Union[{', '.join(hint.source for hint in hints)}]", _names(hints) | {"Union"})
    return Hint(" | ".join(hint.text for hint in hints), _names(hints), quoted)
