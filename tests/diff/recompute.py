"""The differences between two of upstream's schema.json files, computed without the generator."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

Node = Mapping[str, Any]


@dataclass
class Recomputed:
    """Paths of members, as `Definition.member.member`."""

    added: set[str] = field(default_factory=set[str])
    removed: set[str] = field(default_factory=set[str])
    optionality: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    types: set[str] = field(default_factory=set[str])


def recompute(old: Node, new: Node, moved: Mapping[str, str]) -> Recomputed:
    """Every difference of members; `moved` gives new definitions for old places that are the same shape."""
    walk = _Walk(old, new, moved, Recomputed())
    for name in old:
        if name in new and name not in moved:
            walk.node(name, old[name], new[name])
    for place, name in moved.items():
        walk.node(name, _at(old, place), new[name])
    return walk.found


def _at(definitions: Node, place: str) -> Node:
    name, *members = place.split(".")
    node: Node = definitions[name]
    for member in members:
        node = node["properties"][member]
    return node


@dataclass
class _Walk:
    old: Node
    new: Node
    moved: Mapping[str, str]
    found: Recomputed

    def node(self, path: str, before: Node, after: Node) -> None:
        """Compare two schemas at one place; inline objects are entered, named ones when only one side is."""
        if _is_object(before) and _is_object(after):
            self.members(path, before, after)
        elif "items" in before and "items" in after:
            self.node(path, before["items"], after["items"])
        elif _target(after) is not None and _is_object(before):
            name = str(_target(after))
            known = "properties" in before and "properties" in self.new[name]
            if path not in self.moved and _is_object(self.new[name]):
                self.members(name if known else path, before, self.new[name])
        elif _target(before) is not None and _is_object(after) and _is_object(self.old[str(_target(before))]):
            self.members(path, self.old[str(_target(before))], after)

    def members(self, path: str, before: Node, after: Node) -> None:
        mine, theirs = before.get("properties", {}), after.get("properties", {})
        self.found.added |= {f"{path}.{name}" for name in theirs if name not in mine}
        self.found.removed |= {f"{path}.{name}" for name in mine if name not in theirs}
        for name in mine.keys() & theirs.keys():
            place = f"{path}.{name}"
            needed, need = name in before.get("required", ()), name in after.get("required", ())
            if needed != need:
                self.found.optionality.add((place, "required" if need else "optional"))
            if _plain(mine[name], self.moved) != _plain(theirs[name], {}):
                self.found.types.add(place)
            self.node(place, mine[name], theirs[name])


def _is_object(node: Node) -> bool:
    return node.get("type") == "object"


def _target(node: Node) -> str | None:
    reference = node.get("$ref")
    return str(reference).rpartition("/")[2] if reference else None


def _plain(node: object, renamed: Mapping[str, str]) -> str:
    """A schema without its prose, lists in a fixed order, references by their new names."""
    return json.dumps(_stripped(node, renamed), sort_keys=True)


def _stripped(node: object, renamed: Mapping[str, str]) -> object:
    if isinstance(node, list):
        items = [_stripped(item, renamed) for item in cast("list[object]", node)]
        return sorted(items, key=lambda item: json.dumps(item, sort_keys=True))
    if not isinstance(node, dict):
        return node
    plain = {
        k: _stripped(v, renamed) for k, v in cast("dict[str, object]", node).items() if k != "description"
    }
    name = _target(plain)
    return plain if name is None else {**plain, "$ref": renamed.get(name, name)}
