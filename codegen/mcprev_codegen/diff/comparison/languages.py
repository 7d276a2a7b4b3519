"""Whether one set of texts lies within another: texts of template literal types, and single texts.

Each set becomes an automaton without counters. Both run side by side over all texts of the first one, a character of
each kind at a time; characters that neither of them names are of one kind.
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from mcprev_codegen import ir

_MAX_STATES: Final = 20_000
"""The maximum number of pairs of states that are visited; with more, the answer is no."""
_OTHER: Final = ""
"""Any character that no automaton names."""
_DIGITS: Final = string.digits
_PREFIXED: Final = (("xX", string.hexdigits), ("oO", string.octdigits), ("bB", "01"))


@dataclass
class _Automaton:
    """An automaton with several states at once; state 0 is the first."""

    steps: list[dict[str, set[int]]] = field(default_factory=lambda: [{}])
    """The next states of each state by character."""
    anything: set[int] = field(default_factory=set[int])
    """The states that any character leads back to."""
    skips: list[set[int]] = field(default_factory=lambda: [set()])
    """The states that are reached from each state without a character."""
    final: set[int] = field(default_factory=set[int])

    def state(self) -> int:
        """Return a new state."""
        self.steps.append({})
        self.skips.append(set())
        return len(self.steps) - 1

    def step(self, start: int, characters: str, end: int | None = None) -> int:
        """Let each of some characters lead from one state to another, which is new if none is given."""
        end = self.state() if end is None else end
        for character in characters:
            self.steps[start].setdefault(character, set()).add(end)
        return end

    def text(self, start: int, text: str) -> int:
        """Return the state behind a text."""
        for character in text:
            start = self.step(start, character)
        return start

    def placeholder(self, start: int, name: str) -> int:
        """Return the state behind a placeholder, as `ir.PLACEHOLDERS` has it."""
        end = self.state()
        match name:
            case "boolean":
                for text in ("true", "false"):
                    self.skips[self.text(start, text)].add(end)
            case "number":
                self._number(start, end)
            case _:
                self.skips[start].add(end)
                self.anything.add(end)
        return end

    def _number(self, start: int, end: int) -> None:
        for letters, digits in _PREFIXED:
            first = self.step(self.step(self.step(start, "0"), letters), digits)
            self.skips[self.step(first, digits, first)].add(end)
        signed = self.step(start, "-+")
        self.skips[start].add(signed)
        whole = self.step(signed, _DIGITS)
        self.step(whole, _DIGITS, whole)
        pointed = self.step(whole, ".")
        part = self.step(self.step(signed, "."), _DIGITS)
        self.step(part, _DIGITS, part)
        self.skips[pointed].add(part)
        exponent = self.state()
        self.step(whole, "eE", exponent)
        self.step(part, "eE", exponent)
        sign = self.step(exponent, "-+")
        self.skips[exponent].add(sign)
        power = self.step(sign, _DIGITS)
        self.step(power, _DIGITS, power)
        for last in (whole, part, power):
            self.skips[last].add(end)

    def closed(self, states: Iterable[int]) -> frozenset[int]:
        """Return states and those that are reached from them without a character."""
        found: set[int] = set()
        pending = [*states]
        while pending:
            state = pending.pop()
            if state not in found:
                found.add(state)
                pending += self.skips[state]
        return frozenset(found)

    def after(self, states: Iterable[int], character: str) -> frozenset[int]:
        """Return the states that a character leads to."""
        found: set[int] = set()
        for state in states:
            found |= self.steps[state].get(character, set())
            if state in self.anything:
                found.add(state)
        return self.closed(found)


def _automaton(texts: Iterable[str | ir.Template]) -> _Automaton:
    made = _Automaton()
    for one in texts:
        parts = [one] if isinstance(one, str) else re.split(r"\$\{(\w+)\}", one.text)
        state = made.state()
        made.skips[0].add(state)
        for number, part in enumerate(parts):
            state = made.placeholder(state, part) if number % 2 else made.text(state, part)
        made.final.add(state)
    return made


def lies_within(text: ir.Template, others: Sequence[str | ir.Template]) -> bool:
    """Return whether each text of a template literal type is one of some others; no if that takes too long to find out."""
    sent, wanted = _automaton([text]), _automaton(others)
    named = {character for one in (sent, wanted) for steps in one.steps for character in steps}
    pending = [(sent.closed([0]), wanted.closed([0]))]
    seen = {*pending}
    while pending:
        if len(seen) > _MAX_STATES:
            return False
        mine, theirs = pending.pop()
        if mine & sent.final and not theirs & wanted.final:
            return False
        for character in (*named, _OTHER):
            following = sent.after(mine, character), wanted.after(theirs, character)
            if following[0] and following not in seen:
                seen.add(following)
                pending.append(following)
    return True
