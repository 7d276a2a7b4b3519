"""Unions as msgspec can decode them: of several objects, only those that a tag distinguishes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from mcprev_codegen import ir
from mcprev_codegen.resolve import Schema

_UNKNOWN = ir.Prim("unknown")


def with_tags(schema: Schema) -> tuple[Schema, Mapping[str, str]]:
    """Return the schema with `unknown` for each union that msgspec cannot decode, and the tag member of each type.

    Of aliases that refer to each other, which msgspec does not support, the first one becomes `unknown`.
    """
    tags: dict[str, str] = {}

    def change(node: ir.Node) -> ir.Node:
        return _UNKNOWN if isinstance(node, ir.Union) and not _decodable(schema, node, tags) else node

    module = ir.map_nodes(schema.module, change)
    return replace(schema, module=_without_cycles(module)), tags


def _decodable(schema: Schema, union: ir.Union, tags: dict[str, str]) -> bool:
    """Return whether msgspec can decode a union; if so, `tags` gets the tag members of its objects."""
    members = [schema.follow(member) for member in schema.members(union)]
    objects = [m for m in members if schema.is_object(m)]
    maps = [m for m in members if schema.is_map(m) or m == ir.Prim("object")]
    arrays = [m for m in members if isinstance(m, ir.Array | ir.Tuple)]
    if any(m in ir.ANYTHING for m in members) or len(arrays) > 1 or (maps and len(maps + objects) > 1):
        return False
    if len(objects) < 2:
        return True
    found = schema.discriminator(ir.Union(tuple(objects)))
    names = [m.name for m in objects if isinstance(m, ir.Ref)]
    if found is None or len(names) < len(objects):
        return False
    single = all(len(values) == 1 and isinstance(values[0], str) for values in found.values)
    if not single or any(tags.get(name, found.property) != found.property for name in names):
        return False
    tags.update(dict.fromkeys(names, found.property))
    return True


def _without_cycles(module: ir.Module) -> ir.Module:
    while True:
        aliases = {d.name: ir.references(d) for d in module.decls if isinstance(d, ir.Alias)}
        cycles = ir.cycles({n: [r for r in used if r in aliases] for n, used in aliases.items()})
        if not cycles:
            return module
        first = next(name for name in aliases if name in cycles)
        decls = (
            replace(d, type=_UNKNOWN) if isinstance(d, ir.Alias) and d.name == first else d
            for d in module.decls
        )
        module = replace(module, decls=tuple(decls))
