"""Walks over the IR: visiting, changing, comparing and finding what refers to what."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping
from graphlib import TopologicalSorter
from typing import Any, Final, TypeAlias, TypeVar, cast, get_args

from mcprev_codegen.ir.nodes import Alias, Const, Decl, Doc, Field, IndexSig, Interface, Module, Ref, TypeExpr

Node: TypeAlias = TypeExpr | IndexSig | Field | Decl | Module
AnyNode = TypeVar("AnyNode", bound=Node)


def map_nodes(node: AnyNode, change: Callable[[Node], Node]) -> AnyNode:
    """Return the tree with each node replaced by `change(node)`, from the leaves up; unchanged nodes are not copied."""
    return cast("AnyNode", change(map_inner(node, lambda inner: map_nodes(inner, change))))


def map_inner(node: AnyNode, change: Callable[[Node], Node]) -> AnyNode:
    """Return a node with each node directly in it replaced by `change(node)`; the same node if none changes."""
    values: dict[str, Any] = {}
    for name in _NODES[type(node)]:
        value = getattr(node, name)
        if type(value) in _NODES:
            if (changed := change(value)) is not value:
                values[name] = changed
        elif isinstance(value, tuple):
            items = cast("tuple[Node, ...]", value)
            mapped = tuple(change(item) if type(item) in _NODES else item for item in items)
            if any(one is not other for one, other in zip(items, mapped, strict=True)):
                values[name] = mapped
    return dataclasses.replace(node, **values) if values else node


def contract(module: Module) -> Module:
    """Return the module without its prose and warnings."""
    none = Doc()

    def strip(node: Node) -> Node:
        if isinstance(node, Field | Interface | Alias | Const) and node.doc != none:
            return dataclasses.replace(node, doc=none)
        return node

    return dataclasses.replace(map_nodes(module, strip), warnings=())


_NODES: Final[Mapping[type[Any], tuple[str, ...]]] = {
    cls: tuple(f.name for f in dataclasses.fields(cls)) for cls in get_args(Node)
}
"""The names of the members of each node type."""


def walk(node: Node) -> Iterator[Node]:
    """Yield a node and all nodes in it, in source order."""
    pending = [node]
    while pending:
        node = pending.pop()
        yield node
        inner: list[Node] = []
        for name in _NODES[type(node)]:
            value: Any = getattr(node, name)
            if isinstance(value, tuple):
                inner += [item for item in cast("tuple[Node, ...]", value) if type(item) in _NODES]
            elif type(value) in _NODES:
                inner.append(value)
        pending += reversed(inner)


def references(node: Node) -> list[str]:
    """Return the names of the types that a node refers to, in order, duplicates included."""
    return [found.name for found in walk(node) if isinstance(found, Ref)]


def cycles(graph: Mapping[str, Iterable[str]]) -> dict[str, frozenset[str]]:
    """Return for each node that is on a cycle all nodes that it reaches and that reach it (Tarjan's algorithm)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    path: list[str] = []
    place: dict[str, int] = {}
    done: set[str] = set()
    found: dict[str, frozenset[str]] = {}
    for root in graph:
        work = [] if root in index else [(root, iter(graph[root]))]
        while work:
            node, following = work[-1]
            if node not in index:
                index[node] = low[node] = len(index)
                place[node] = len(path)
                path.append(node)
            other = next((n for n in following if n in graph and n not in done), None)
            if other is not None and other not in index:
                work.append((other, iter(graph[other])))
            elif other is not None:
                low[node] = min(low[node], index[other])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    group = path[place[node] :]
                    del path[-len(group) :]
                    done.update(group)
                    if len(group) > 1 or node in graph[node]:
                        found |= dict.fromkeys(group, frozenset(group))
    return found


def opener(cycle: frozenset[str], graph: Mapping[str, Iterable[str]]) -> str:
    """Return the first node of a cycle without which the others are in none; the first one if there is none."""
    ordered = [name for name in graph if name in cycle]
    rest = ({n: [*graph[n]] for n in ordered if n != name} for name in ordered)
    return next((name for name, others in zip(ordered, rest, strict=True) if not cycles(others)), ordered[0])


def longest_chain(graph: Mapping[str, Iterable[str]]) -> int:
    """Return how many nodes follow one another at most, none of them twice; all nodes of a cycle may."""
    on_cycle = cycles(graph)
    groups = {node: on_cycle.get(node, frozenset({node})) for node in graph}
    following: dict[frozenset[str], set[frozenset[str]]] = {group: set() for group in groups.values()}
    for node, group in groups.items():
        following[group].update(groups[other] for other in graph[node] if other in graph)
        following[group].discard(group)
    lengths: dict[frozenset[str], int] = {}
    for group in TopologicalSorter(following).static_order():
        lengths[group] = len(group) + max((lengths[other] for other in following[group]), default=0)
    return max(lengths.values(), default=0)


def reachable(names: Iterable[str], following: Callable[[str], Iterable[str]]) -> set[str]:
    """Return names, and all names that follow them, directly or through others."""
    seen: set[str] = set()
    pending = [*names]
    while pending:
        name = pending.pop()
        if name not in seen:
            seen.add(name)
            pending += following(name)
    return seen
