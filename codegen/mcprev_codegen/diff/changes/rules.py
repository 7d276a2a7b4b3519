"""The rule table: every kind of change with its level, mirror and verdicts, read from `rules/*.toml`.

A rule has one case for each situation with its own verdicts. `old_to_new` is the verdict for data that an old peer
sends to a new peer, `new_to_old` the one for the reverse direction. `mirror` is the change that results if the two
revisions are swapped, as `rule:case`. `effect` is the effect on the set of accepted values. `headline` is its text;
{old} and {new} stand for the two sides.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Final

from mcprev_codegen.diff.changes.model import Effect, Judgement, Level, Verdict

FOLDER: Final = "rules"
FILES: Final = ("methods", "types", "members", "values", "constants", "documentation")
OVERRIDES: Final = "overrides"


@dataclass(frozen=True, slots=True)
class Case:
    """One situation of a rule, with its own verdicts."""

    name: str
    level: Level
    effect: Effect
    mirror: str
    """The change that results if the revisions are swapped, as `rule:case`."""
    old_to_new: Judgement
    new_to_old: Judgement


@dataclass(frozen=True, slots=True)
class Rule:
    """One kind of change."""

    id: str
    kind: str
    action: str
    headline: str
    cases: Mapping[str, Case]

    @property
    def levels(self) -> tuple[Level, ...]:
        """The levels of the cases, without duplicates."""
        return tuple(dict.fromkeys(case.level for case in self.cases.values()))


@dataclass(frozen=True, slots=True)
class RuleTable:
    """All rules by id, and the reasons of overrides, which replace a verdict by ok."""

    rules: Mapping[str, Rule]
    overrides: Mapping[str, str]


@cache
def table() -> RuleTable:
    """Return the rule table, which is read once."""
    rules = [_rule(entry) for name in FILES for entry in _read(name)["rule"]]
    return RuleTable({rule.id: rule for rule in rules}, _read(OVERRIDES)["overrides"])


def _read(name: str) -> dict[str, Any]:
    folder = files(__name__.rpartition(".")[0]).joinpath(FOLDER)
    return tomllib.loads(folder.joinpath(f"{name}.toml").read_text(encoding="utf-8"))


def _rule(entry: Mapping[str, Any]) -> Rule:
    cases = {case["name"]: _case(case) for case in entry["case"]}
    return Rule(entry["id"], entry["kind"], entry["action"], entry["headline"], cases)


def _case(entry: Mapping[str, Any]) -> Case:
    return Case(
        name=entry["name"],
        level=Level(entry["level"]),
        effect=Effect(entry["effect"]),
        mirror=entry["mirror"],
        old_to_new=_judgement(entry["old_to_new"]),
        new_to_old=_judgement(entry["new_to_old"]),
    )


def _judgement(entry: tuple[str, str]) -> Judgement:
    verdict, reason = entry
    return Judgement(Verdict(verdict), reason)
