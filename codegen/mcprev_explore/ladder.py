"""What the runtime knows of conversions and the site shows: the runtime hands it in, since neither package imports the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Protocol

from mcprev_codegen.ir import Json


class Rule(Protocol):
    """One rule of the conversion ladder."""

    @property
    def id(self) -> str:
        """Such as `REV/down/substitute/ResourceLink`, where REV is the newer revision of the step."""
        ...

    @property
    def text(self) -> str:
        """What the rule does, in one sentence."""
        ...

    @property
    def source(self) -> str:
        """The revision that it converts from; empty for a rule that belongs to no step."""
        ...

    @property
    def target(self) -> str:
        """The revision that it converts to."""
        ...

    @property
    def action(self) -> str:
        """The kind of rule, such as `drop`."""
        ...

    @property
    def subject(self) -> str:
        """The type, or the type and the member, that it is about; empty for others."""
        ...


class RuleEffect(Protocol):
    """One member or item that a rule changed."""

    @property
    def rule(self) -> str:
        """The id of the rule."""
        ...

    @property
    def path(self) -> str:
        """The JSON path of what changed."""
        ...

    @property
    def old(self) -> Json:
        """The value before."""
        ...

    @property
    def new(self) -> Json:
        """The value after."""
        ...


class Explained(Protocol):
    """What becomes of a payload at another revision."""

    @property
    def payload(self) -> Json:
        """The payload there; None if it is refused."""
        ...

    @property
    def changes(self) -> Sequence[RuleEffect]:
        """The changes, in order."""
        ...


Explain = Callable[[Json, str, str, str, str], tuple[Explained, str, str]]
"""Converts a payload of a method and a kind from one revision to another; returns what became of it, and of a refused
payload the rule and the message."""


@dataclass(frozen=True, slots=True)
class Ladder:
    """The rules of the ladder, and what it does with a payload and a method."""

    order: tuple[str, ...] = ()
    """The revisions that it converts between, oldest first."""
    rules: Sequence[Rule] = ()
    explain: Explain | None = None
    """None without rules."""
    kinds: Mapping[str, str] = field(default_factory=dict[str, str])
    """Kinds of payloads that belong to no method, each with the name of its type."""
    counterparts: Mapping[str, Mapping[str, str]] = field(default_factory=dict[str, Mapping[str, str]])
    """By revision and method: a sentence on what is sent instead of a method that the revision does not send."""
    transports: Mapping[str, str] = field(default_factory=dict[str, str])
    """By revision: a sentence on how HTTP carries its messages."""

    def steps(self, old: str, new: str) -> list[tuple[str, str]]:
        """Return the steps from an older revision to a newer one, each with its older and its newer revision."""
        if old not in self.order or new not in self.order:
            return []
        first, last = self.order.index(old), self.order.index(new)
        path = self.order[first : last + 1]
        return list(pairwise(path))

    def of_step(self, source: str, target: str) -> list[Rule]:
        """Return the rules that convert from one revision to its neighbour."""
        return [rule for rule in self.rules if (rule.source, rule.target) == (source, target)]
