"""The type that a JSDoc tag states instead of the type in TypeScript."""

from __future__ import annotations

from typing import Final

from mcprev_codegen.ir.nodes import Array, Prim, Tags, TypeExpr, Union, union_of
from mcprev_codegen.ir.visit import map_nodes, walk

_NUMBER: Final = Prim("number")
_NULL: Final = Prim("null")
_PRIMITIVES: Final = ("string", "number", "integer", "boolean", "null", "object")


def stated_type(type_: TypeExpr, tags: Tags) -> TypeExpr:
    """Return a type as `@TJS-type` states it: numbers in it become integers, or it is another type but for null."""
    stated = tags.tjs_type
    if stated is None:
        return type_
    if stated in ("number", "integer") and _NUMBER in walk(type_):
        return map_nodes(type_, lambda node: Prim(stated) if node == _NUMBER else node)
    found: TypeExpr = Prim(stated) if stated in _PRIMITIVES else Prim("unknown")
    found = Array(Prim("unknown")) if stated == "array" else found
    nullable = isinstance(type_, Union) and _NULL in type_.members and found not in (_NULL, Prim("unknown"))
    return union_of((found, _NULL)) if nullable else found
