"""Finds the objects inside a member, and whether they can be told apart there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from mcprev_codegen import ir
from mcprev_codegen.lineage.normal_form import is_anything
from mcprev_codegen.resolve import Schema
from mcprev_codegen.support import Child

_NO_PATH: Final = "?"


def object_children(schema: Schema, member: ir.Field) -> list[Child]:
    """Return the object types in a member, for each place where they can be distinguished."""
    return [child for child, _ in _places(schema, member) if child is not None]


def untagged_types(schema: Schema, member: ir.Field) -> list[str]:
    """Return the object types in a member that cannot be distinguished."""
    return [name for child, names in _places(schema, member) if child is None for name in names]


def _places(schema: Schema, member: ir.Field) -> Iterator[tuple[Child | None, list[str]]]:
    """Yield each place of objects in a member, with the types there; None as place if they cannot be distinguished."""
    grouped: dict[tuple[str, ...], list[str]] = {}
    for through, name in dict.fromkeys(object_places_in(schema, member.type)):
        grouped.setdefault(through, []).append(name)
    for through, names in grouped.items():
        if _NO_PATH in through:
            yield None, names
        elif len(names) == 1:
            yield Child(member.name, through, (("", names[0]),), ""), names
        elif found := schema.discriminator(ir.Union(tuple(ir.Ref(name) for name in names))):
            pairs = tuple((str(values[0]), name) for values, name in zip(found.values, names, strict=True))
            yield Child(member.name, through, pairs, found.property), names
        else:
            own = [next(_own_members(schema, name, names), None) for name in names]
            pairs = tuple((only, name) for only, name in zip(own, names, strict=True) if only is not None)
            yield Child(member.name, through, pairs, "") if len(pairs) == len(names) else None, names


def _own_members(schema: Schema, name: str, names: Sequence[str]) -> Iterator[str]:
    """Yield the members that one of several types requires and the others do not have."""
    others = {f.name for other in names if other != name for f in schema.flat(other).fields}
    return (f.name for f in schema.flat(name).fields if not f.field.optional and f.name not in others)


def object_places_in(schema: Schema, type_: ir.TypeExpr) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield the object types in a type, each with the path of lists and maps to it.

    The path of a tuple item or of a recursive type contains `_NO_PATH`, since a `Child` cannot express it.
    """
    pending: list[tuple[ir.TypeExpr, tuple[str, ...], frozenset[str]]] = [(type_, (), frozenset())]
    seen: set[tuple[str, tuple[str, ...]]] = set()
    while pending:
        type_, through, inside_of = pending.pop()
        if isinstance(type_, ir.Ref):
            if type_.name in inside_of:
                for name in schema.references[type_.name]:
                    if schema.is_object(ir.Ref(name)):
                        yield (*through, _NO_PATH), name
                continue
            if (type_.name, through) in seen:
                continue
            seen.add((type_.name, through))
            inside_of |= {type_.name}
        type_ = _followed(schema, type_)
        if isinstance(type_, ir.Ref) and schema.is_object(type_):
            yield through, type_.name
        for step, part in _parts(schema, type_)[::-1]:
            pending.append((part, (*through, step) if step else through, inside_of))


def _parts(schema: Schema, type_: ir.TypeExpr) -> list[tuple[str, ir.TypeExpr]]:
    """Return the types in a type, each with its path element: `[]` in a list, `{}` in a map, none in a union."""
    match ir.hoisted(type_):
        case ir.Array(held):
            return [("[]", held)]
        case ir.Record(held) | ir.Obj(index=ir.IndexSig(value=held)):
            return [("{}", held)]
        case ir.Ref(name) if schema.is_map(type_) and (index := schema.flat(name).index) is not None:
            return [("{}", index.value)]
        case ir.Tuple() as found:
            return [(_NO_PATH, part) for part in found.parts]
        case ir.Union(members):
            return [("", member) for member in members]
        case ir.Prim() | ir.Lit() | ir.ConstRef() | ir.Ref() | ir.Obj() | ir.Template():
            return []


def _followed(schema: Schema, type_: ir.TypeExpr) -> ir.TypeExpr:
    """Return the type behind aliases; a type that accepts every value is not resolved further."""
    return ir.Prim("unknown") if is_anything(schema, type_) else schema.follow(type_)
