"""The Python type hints of generated models, printed from the IR."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from mcprev_codegen import ir
from mcprev_codegen.naming import class_name
from mcprev_codegen.resolve import Schema

_NONE: Final = "None"
_PRIMITIVES: Final[Mapping[str, tuple[str, ...]]] = {
    "string": ("str",),
    "number": ("int", "float"),
    "integer": ("int", "IntegralFloat"),
    "boolean": ("bool",),
    "null": (_NONE,),
    "object": ("dict[str, Any]",),
    "unknown": ("Any",),
    "any": ("Any",),
}
"""The alternatives of each primitive; a number keeps whether it was written with a fraction part."""


@dataclass(frozen=True, slots=True)
class Hints:
    """Prints types of one hoisted schema as Python source."""

    schema: Schema

    def hint(self, type_: ir.TypeExpr) -> str:
        """The hint of a type, named types by their class names; null comes last."""
        return " | ".join(self._alternatives(type_, frozenset()))

    def recursive(self, name: str, cycle: frozenset[str]) -> str:
        """The hint of an alias that names itself, with the other aliases of its cycle written out.

        Alternatives that name it are quoted. A string has no `|`, so the union is spelled with `Union`.
        """
        decl = self.schema.types[name]
        assert isinstance(decl, ir.Alias)
        found = self._alternatives(decl.type, cycle - {name})
        quoted = [json.dumps(hint) if class_name(name) in hint else hint for hint in found if hint != _NONE]
        union = f"Union[{', '.join(quoted)}]" if len(quoted) > 1 else quoted[0]
        return f"Optional[{union}]" if _NONE in found else union

    def builtins(self, type_: ir.TypeExpr) -> set[str]:
        """The names of Python's own types that the hint of a type needs."""
        found: set[str] = set()

        def visit(node: ir.Node) -> ir.Node:
            match node:
                case ir.Prim(name):
                    found.update(hint.partition("[")[0] for hint in _PRIMITIVES[name])
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
            return node

        ir.map_nodes(type_, visit)
        return found

    def _alternatives(self, type_: ir.TypeExpr, inline: frozenset[str]) -> list[str]:
        """The hints of the members of a union, each once; the aliases to `inline` are written out."""
        members = type_.members if isinstance(type_, ir.Union) else (type_,)
        values = [self.schema.literal(member) for member in members]
        literals = [
            json.dumps(v, ensure_ascii=False) if isinstance(v, str) else repr(v)
            for v in values
            if v is not None
        ]
        found = [f"Literal[{', '.join(literals)}]"] if literals else []
        for member, value in zip(members, values, strict=True):
            if value is None:
                found += self._single(member, inline)
        kept = dict.fromkeys(hint for hint in found if hint != _NONE)
        return ["Any"] if "Any" in kept else [*kept, *([_NONE] if _NONE in found else [])]

    def _single(self, type_: ir.TypeExpr, inline: frozenset[str]) -> Iterator[str]:
        match type_:
            case ir.Prim(name):
                yield from _PRIMITIVES[name]
            case ir.Ref(name) if name in inline:
                decl = self.schema.types[name]
                if isinstance(decl, ir.Alias):
                    yield from self._alternatives(decl.type, inline)
                else:
                    yield self._map(decl.index, inline)
            case ir.Ref(name):
                yield class_name(name)
            case ir.Array(item):
                yield f"list[{self._inner(item, inline)}]"
            case ir.Tuple(items):
                yield f"Annotated[tuple[{', '.join(self._inner(item, inline) for item in items)}], Field(strict=False)]"
            case ir.Template():
                yield f"Annotated[str, Field(pattern={json.dumps(type_.pattern)})]"
            case ir.Record(value):
                yield f"dict[str, {self._inner(value, inline)}]"
            case ir.Obj((), index):
                yield self._map(index, inline)
            case ir.Union():
                yield from self._alternatives(type_, inline)
            case _:
                raise AssertionError(f"hoisting leaves no {type(type_).__name__}")

    def _map(self, index: ir.IndexSig | None, inline: frozenset[str]) -> str:
        return f"dict[str, {self._inner(index.value, inline) if index else 'Any'}]"

    def _inner(self, type_: ir.TypeExpr, inline: frozenset[str]) -> str:
        return " | ".join(self._alternatives(type_, inline))
