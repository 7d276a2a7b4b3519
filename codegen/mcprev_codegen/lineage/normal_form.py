"""Types in a normal form, in which spellings with the same meaning on the wire are equal.

Such are an inline object and the same object with a name, `object` and a map of any value, a moved envelope member.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from mcprev_codegen import ir
from mcprev_codegen.resolve import Schema

ANY_VALUE: Final = ("anything",)
NormalForm = tuple[object, ...]


def normalised(
    schema: Schema, type_: ir.TypeExpr, names: Mapping[str, str], inside: frozenset[str] = frozenset()
) -> NormalForm:
    """Return the normal form of a type; a recursive reference becomes the name of the type.

    Aliases in it are written out; `emit.names.checks` bounds what that takes.
    """
    if is_anything(schema, type_):
        return ANY_VALUE
    if isinstance(type_, ir.Ref):
        if type_.name in inside:
            return ("ref", names.get(type_.name, type_.name))
        inside |= {type_.name}
    followed = schema.follow(type_)
    match ir.hoisted(followed):
        case ir.Prim(name):
            return ("map", ANY_VALUE) if name == "object" else ("prim", name)
        case ir.Lit() | ir.ConstRef():
            return ("lit", repr(schema.literal(followed)))
        case ir.Ref(name) if schema.is_map(followed):
            index = schema.flat(name).index
            return ("map", normalised(schema, index.value, names, inside) if index else ANY_VALUE)
        case ir.Ref(name):
            return ("ref", names.get(name, name))
        case ir.Array(item):
            return ("list", normalised(schema, item, names, inside))
        case ir.Tuple(_, rest) as found:
            parts = (normalised(schema, part, names, inside) for part in found.parts)
            return ("tuple", rest is not None, *parts)
        case ir.Template(text):
            return ("template", text)
        case ir.Record(value):
            return ("map", normalised(schema, value, names, inside))
        case ir.Obj(_, index):
            return ("map", normalised(schema, index.value, names, inside) if index else ANY_VALUE)
        case ir.Union():
            members = {normalised(schema, m, names, inside) for m in schema.members(type_)}
            return ("union", *sorted(members, key=repr))


def is_anything(schema: Schema, type_: ir.TypeExpr) -> bool:
    """Return whether a type accepts every JSON value: unknown, any, or the recursive union of all JSON types."""
    if isinstance(type_, ir.Prim):
        return type_ in ir.ANYTHING
    decl = schema.types[type_.name] if isinstance(type_, ir.Ref) else None
    if not isinstance(decl, ir.Alias) or not isinstance(decl.type, ir.Union):
        return False
    primitives = {member.name for member in decl.type.members if isinstance(member, ir.Prim)}
    return {"string", "number", "boolean", "null"} <= primitives
