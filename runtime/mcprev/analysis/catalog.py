"""The rules of the conversion ladder, each with its id and a sentence (CONV-*, SEAM-7)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Final

from mcprev.conversion.ladder import VERSION_RULE, neighbours
from mcprev.conversion.walk import Step
from mcprev.revisions import ALL, Revision, path
from mcprev_types import TypeDelta

_SENTENCE: Final = re.compile(r"(.+?[.!?])(?=\s|$)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class RuleInfo:
    """One rule of the ladder, which converts messages between revisions."""

    id: str
    """The id, such as `2025-06-18/down/substitute/ResourceLink`: the newer revision of the step, its direction, what the rule does, to what."""
    text: str
    """What the rule does, in one sentence."""
    source: str
    """The revision that it converts from; empty for the rule about versions, which belongs to no step."""
    target: str
    """The revision that it converts to."""
    action: str
    """`change` and `missing` change an object or give it a member, `substitute` replaces one and `refuse` refuses it; `drop`,
    `fill` and `strip` remove and add members; `error` is about errors, `version` about versions.
    """
    subject: str
    """The type, or the type and the member, that it is about; empty for errors and versions."""


@cache
def catalog() -> tuple[RuleInfo, ...]:
    """Return all rules that `explain` and `ConversionError.rule` name, in the order of the revisions, downwards first."""
    found: list[RuleInfo] = []
    upwards = list(pairwise(path(ALL[0], ALL[-1])))
    for here, there in (*((younger, older) for older, younger in reversed(upwards)), *upwards):
        step = neighbours(here, there)
        for action, subject, text in dict.fromkeys(_rules_of(step, there)):
            place = f"{action}/{subject}" if subject else action
            found.append(RuleInfo(f"{step.name}/{place}", text, here.name, there.name, action, subject))
    text = "Replace the version in the messages that state the version of their sender."
    return (*found, RuleInfo(VERSION_RULE, text, "", "", VERSION_RULE, ""))


def _rules_of(step: Step, there: Revision) -> Iterator[tuple[str, str, str]]:
    """Yield what each rule of a step does, to what, and its sentence."""
    rules = step.rules
    for name, rule in rules.before.items():
        yield "change", name, _sentence(rule)
    for name, rule in rules.substitutes.items():
        yield "substitute", name, _sentence(rule)
    for name in {**step.deltas, **rules.deltas, **rules.children}:
        delta = rules.deltas[name] if name in rules.deltas else step.deltas.get(name)
        if delta is not None:
            yield from _rules_of_type(step, name, delta, there)
    if rules.errors is not None:
        yield "error", "", _sentence(rules.errors)


def _rules_of_type(
    step: Step, name: str, delta: TypeDelta, there: Revision
) -> Iterator[tuple[str, str, str]]:
    fill, rules = dict(delta.fill), step.rules
    for member in delta.drop:
        yield "drop", f"{name}.{member}", f"Drop `{member}`, which `{name}` does not have at {there.name}."
    for member, value in fill.items():
        if member in rules.fresh:
            text = (
                f"Drop what older peers mean by `{member}` of `{name}`, which has a meaning at {there.name}."
            )
            yield "drop", f"{name}.{member}", text
        text = f"Fill in `{member}`, which `{name}` requires at {there.name}, with {json.dumps(value)}."
        yield "fill", f"{name}.{member}", text
    for member in delta.missing:
        if member in rules.missing:
            yield "missing", f"{name}.{member}", _sentence(rules.missing[member])
    if rules.strip_meta:
        keys = ", ".join(f"`{key}`" for key in sorted(rules.strip_meta))
        yield "strip", "_meta", f"Remove the keys of `_meta` that mean nothing at {there.name}: {keys}."
    for place in delta.lost:
        for _, type_name in place.types:
            if type_name not in rules.substitutes:
                text = f"Refuse `{type_name}`, which {there.name} does not have there, unless `on_downgrade` replaces it."
                yield "refuse", type_name, text


def _sentence(rule: object) -> str:
    """Return the first sentence of the docstring of a rule."""
    text = " ".join((rule.__doc__ or "").split())
    first = _SENTENCE.match(text)
    return first[1] if first else text
