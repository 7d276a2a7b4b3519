"""Where upstream's JSON Schema says less than its schema.ts, and which loss of its generator explains it.

`faithful_differences.toml` lists the definitions of each settled revision. Those of another one follow from our two
renderings: the *compat* one repeats the losses, the *faithful* one has none.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from itertools import combinations
from typing import Any, Final, cast

from typing_extensions import override

from helpers import normal_form
from helpers.pinned import ROOT, faithful_definitions, load
from mcprev_codegen import ir
from mcprev_codegen.emit import json_schema as jsonschema
from mcprev_codegen.resolve.flat import FlatType
from mcprev_codegen.resolve.schema import Schema

LISTED: Final = ROOT / "tests" / "codegen" / "faithful_differences.toml"
Definitions = Mapping[str, Any]


# -- one switch for each loss ----------------------------------------------------------------------------


def lose_number(node: ir.Node) -> ir.Node:
    """`number` without a @TJS-type tag becomes integer (the tag's type replaces the whole member)."""
    return ir.Prim("integer") if node == ir.Prim("number") else node


def union_of(members: list[ir.TypeExpr]) -> ir.TypeExpr:
    """A union, or its only member."""
    return ir.Union(tuple(members)) if len(members) > 1 else members[0]


def lose_null(node: ir.Node) -> ir.Node:
    """`null` leaves every union, and is back only where a @nullable tag says so."""
    if isinstance(node, ir.Union):
        return union_of([m for m in node.members if m != ir.Prim("null")])
    if isinstance(node, ir.Field) and node.tags.nullable:
        tags = replace(node.tags, nullable=False)
        return replace(node, type=ir.Union((node.type, ir.Prim("null"))), tags=tags)
    return node


def lose_open(node: ir.Node) -> ir.Node:
    """A union that allows every string forgets the strings it names."""
    if isinstance(node, ir.Union) and ir.Prim("string") in node.members:
        return union_of([m for m in node.members if not isinstance(m, ir.Lit)])
    return node


SWITCHES: Final[Mapping[str, Callable[[ir.Node], ir.Node]]] = {
    "number": lose_number,
    "null": lose_null,
    "open": lose_open,
}
CODES: Final = tuple(
    "+".join(names) for size in range(1, len(SWITCHES) + 1) for names in combinations(SWITCHES, size)
)
"""Every combination of losses, the smallest first."""


@cache
def faithful_with(revision: str, code: str) -> dict[str, Any]:
    """The faithful rendering after losing exactly what a reason code names."""
    declared = load(revision).declared
    module = declared.module
    for name in code.split("+"):
        module = ir.map_nodes(module, SWITCHES[name])
    lossy = Schema(module, declared.path, declared.lines)
    return cast("dict[str, Any]", jsonschema.Renderer(lossy).definitions())


# -- what upstream's generator writes --------------------------------------------------------------------


class CompatRenderer(jsonschema.Renderer):
    """Renders as upstream's generator does, with its losses; `nullable` stands where the type is one word."""

    @override
    def _primitive(self, name: str) -> jsonschema.JsonSchema:
        return super()._primitive("integer" if name == "number" else name)

    @override
    def _object(self, flat: FlatType) -> jsonschema.JsonSchema:
        return super()._object(flat if flat.own_index else replace(flat, index=None))

    @override
    def _union(self, members: tuple[ir.TypeExpr, ...]) -> jsonschema.JsonSchema:
        followed = {member: self.schema.follow(member) for member in members}
        kept = [member for member in members if followed[member] != ir.Prim("null")]
        if ir.Prim("string") in followed.values():
            kept = [member for member in kept if not isinstance(self.schema.literal(member), str)]
        return super()._union(tuple(kept))

    @override
    def _tagged(self, node: jsonschema.JsonSchema, tags: ir.Tags) -> jsonschema.JsonSchema:
        if tags.tjs_type is not None:  # there, a tag takes the place of the whole type
            node = {"type": tags.tjs_type}
        found = super()._tagged(node, replace(tags, deprecated=False))
        if tags.nullable and isinstance(found.get("type"), str):
            found["type"] = [found["type"], "null"]
        return found


def compat_definitions(schema: Schema) -> dict[str, Any]:
    """Every definition as upstream's generator renders it."""
    return cast("dict[str, Any]", CompatRenderer(schema).definitions())


# -- differences -----------------------------------------------------------------------------------------


def differing(ours: Definitions, theirs: Definitions) -> set[str]:
    """The definitions of one rendering that do not mean in another what they mean there."""
    return {n for n in theirs if normal_form.definition(n, ours) != normal_form.definition(n, theirs)}


def reason(revision: str, name: str, theirs: Definitions) -> str | None:
    """The smallest loss that makes a definition mean what it means in a rendering; None when none does."""
    meant = normal_form.definition(name, theirs)
    explaining = (
        code for code in CODES if normal_form.definition(name, faithful_with(revision, code)) == meant
    )
    return next(explaining, None)


@cache
def computed(revision: str) -> dict[str, str]:
    """The definitions of a revision that lose something, each with the reason code, in the order of the schema."""
    compat = compat_definitions(load(revision).declared)
    lossy = differing(faithful_definitions(revision), compat)
    return {name: str(reason(revision, name, compat)) for name in compat if name in lossy}


@cache
def listed() -> dict[str, dict[str, str]]:
    """By settled revision, what is listed."""
    return cast("dict[str, dict[str, str]]", tomllib.loads(LISTED.read_text(encoding="utf-8")))


def losses(revision: str) -> dict[str, str]:
    """What is listed of a revision, or computed where nothing is."""
    return listed().get(revision) or computed(revision)
