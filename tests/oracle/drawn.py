"""Schemas drawn at random, each with values of its types and with such values changed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Any, Final, TypeAlias

Drawn: TypeAlias = tuple[str, Callable[[int], Any]]
"""A type as text, and what draws a value of it; the argument is how deep it may still go."""
NAMES: Final = ("A", "B", "C", "D")
MEMBERS: Final = ("id", "userName", "of_it", "x-y", "list")
LITERALS: Final[tuple[Any, ...]] = ("a", "b", "1", "true", 0, 1, 2, -1, 0.5, True, False)
VALUES: Final = 12
"""How many values of each type are drawn, and as many changed ones."""


@dataclass
class _Drawing:
    rng: Random
    prefix: str

    def type(self, depth: int) -> Drawn:
        """A type; one with no depth left has no parts."""
        kinds: list[Callable[[int], Drawn]] = [self.primitive, self.literal, self.literals, self.template]
        if depth:
            kinds += [
                self.reference,
                self.array,
                self.tuple,
                self.record,
                self.union,
                self.object,
                self.indexed,
                self.both,
            ]
        return self.rng.choice(kinds)(depth)

    def primitive(self, _depth: int) -> Drawn:
        name = self.rng.choice(("string", "number", "boolean", "null"))
        some: dict[str, tuple[Any, ...]] = {
            "string": ("", "a", "1", "é\n", "b-1"), "number": (0, 1, 1.0, -2.5, 7), "boolean": (True, False), "null": (None,),
        }  # fmt: skip
        return name, lambda _: self.rng.choice(some[name])

    def literal(self, _depth: int) -> Drawn:
        value = self.rng.choice(LITERALS)
        return json.dumps(value), lambda _: value

    def literals(self, _depth: int) -> Drawn:
        values = self.rng.sample(LITERALS, 3)
        return f"({' | '.join(map(json.dumps, values))})", lambda _: self.rng.choice(values)

    def template(self, _depth: int) -> Drawn:
        kind = self.rng.choice(("string", "number", "boolean"))
        some = {
            "string": ("", "x", "-"),
            "number": ("1", "-2.5", ".5", "0x1F", "1e3"),
            "boolean": ("true", "false"),
        }
        return f"`b-${{{kind}}}`", lambda _: "b-" + self.rng.choice(some[kind])

    def reference(self, _depth: int) -> Drawn:
        name = self.rng.choice(NAMES)
        return f"({self.prefix}{name} | 0)", lambda depth: self.declared[name](depth - 1) if depth > 0 else 0

    def array(self, depth: int) -> Drawn:
        text, value = self.type(depth - 1)
        return f"({text})[]", lambda d: [value(d) for _ in range(self.rng.randrange(3))]

    def tuple(self, depth: int) -> Drawn:
        parts = [self.type(depth - 1) for _ in range(self.rng.randint(1, 3))]
        rest = self.type(0) if self.rng.random() < 0.4 else None
        text = ", ".join([*(text for text, _ in parts), *([f"...({rest[0]})[]"] if rest else [])])

        def draw(d: int) -> list[Any]:
            further = [rest[1](d) for _ in range(self.rng.randrange(3))] if rest else []
            return [*(value(d) for _, value in parts), *further]

        return f"[{text}]", draw

    def record(self, depth: int) -> Drawn:
        text, value = self.type(depth - 1)
        return f"Record<string, {text}>", lambda d: {k: value(d) for k in self.rng.sample(MEMBERS, 2)}

    def union(self, depth: int) -> Drawn:
        parts = [self.type(depth - 1) for _ in range(self.rng.randint(2, 3))]

        def draw(d: int) -> Any:
            return self.rng.choice(parts)[1](d)

        return f"({' | '.join(text for text, _ in parts)})", draw

    def object(self, depth: int) -> Drawn:
        body, draw = self.members(depth)
        return f"{{ {body} }}", draw

    def members(self, depth: int) -> Drawn:
        """The members between braces, some of which may be absent."""
        found = [
            (name, self.rng.random() < 0.3, *self.type(depth - 1))
            for name in self.rng.sample(MEMBERS, self.rng.randint(1, 3))
        ]
        body = "; ".join(f"{json.dumps(n)}{'?' if absent else ''}: {text}" for n, absent, text, _ in found)
        return body, lambda d: {
            n: value(d) for n, absent, _, value in found if not absent or self.rng.random() < 0.6
        }

    def indexed(self, depth: int) -> Drawn:
        """An object with an index signature beside a member, which it takes too."""
        (own, value), (more, other) = self.type(depth - 1), self.type(0)
        text = f"{{ id: {own}; [k: string]: ({own}) | {more} }}"
        return text, lambda d: {"id": value(d), **{k: other(d) for k in self.rng.sample(("p", "q"), 1)}}

    def both(self, depth: int) -> Drawn:
        """An intersection of an object and an index signature of the same values."""
        text, value = self.type(0)
        return f"({{ id: {text} }} & {{ [k: string]: {text} }})", lambda d: {"id": value(d), "p": value(d)}

    def schema(self) -> Iterator[str]:
        """The declarations, whose values are drawn by `declared`."""
        self.declared: dict[str, Callable[[int], Any]] = {}
        for name in NAMES:
            kind = self.rng.choice(("interface", "interface", "tagged", "alias"))
            if kind == "interface":
                body, self.declared[name] = self.members(2)
                yield f"export interface {self.prefix}{name} {{ {body} }}"
            elif kind == "alias":
                text, self.declared[name] = self.object(2) if name == NAMES[0] else self.array(2)
                yield f"export type {self.prefix}{name} = {text};"
            else:
                yield f"export type {self.prefix}{name} = {self._tagged(name)};"

    def _tagged(self, name: str) -> str:
        tags = self.rng.sample(LITERALS, 2)
        parts = [(tag, *self.members(1)) for tag in tags]

        def draw(d: int) -> dict[str, Any]:
            tag, _, value = self.rng.choice(parts)
            return {**value(d), "kind": tag}

        self.declared[name] = draw
        return " | ".join(f"{{ kind: {json.dumps(tag)}; {body} }}" for tag, body, _ in parts)

    def changed(self, value: Any) -> Any:
        """A value with one part of it gone, added or replaced; no null in the place of a member."""
        if isinstance(value, dict) and value and self.rng.random() < 0.8:
            members: dict[str, Any] = {**value}
            name, how = self.rng.choice([*members]), self.rng.random()
            if how < 0.2:
                del members[name]
            elif how < 0.4:
                members["other"] = self.scalar()
            else:
                members[name] = self.changed(members[name])
            return members
        if isinstance(value, list) and value and self.rng.random() < 0.8:
            items: list[Any] = [*value]
            place = self.rng.randrange(len(items))
            if self.rng.random() < 0.3:
                items.append(self.scalar())
            else:
                items[place] = self.changed(items[place])
            return items
        return self.scalar()

    def scalar(self) -> Any:
        return self.rng.choice((*LITERALS, 1.0, 0.0, "b-1", "b-x", [], {}, ["a"], {"id": 1}))


@dataclass(frozen=True)
class Schema:
    """A schema, and values of its types, right ones and changed ones."""

    text: str
    cases: tuple[tuple[str, Any], ...]


def schema(seed: int, number: int) -> Schema:
    """The schema of a seed; its types begin with `S` and the number."""
    drawing = _Drawing(Random(seed), f"S{number}")  # noqa: S311 - to be the same again
    text = "\n".join(drawing.schema())
    cases: list[tuple[str, Any]] = []
    for name, draw in drawing.declared.items():
        values = [draw(2) for _ in range(VALUES)]
        cases += [(f"S{number}{name}", v) for v in (*values, *map(drawing.changed, values))]
    return Schema(text, tuple(cases))
