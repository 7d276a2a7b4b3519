"""The rule table: every kind of change with its level, mirror and verdicts, read from `rules/*.toml`.

A rule has one case for each situation with its own verdicts. `old_to_new` is the verdict for data that an old peer
sends to a new peer, `new_to_old` the one for the reverse direction. `mirror` is the change that results if the two
revisions are swapped, as `rule:case`. `effect` is the effect on the set of accepted values. `headline` is its text;
{old} and {new} stand for the two sides.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final, TypedDict

from mcprev_codegen.diff.changes.model import Effect, Judgement, Level, Verdict
from mcprev_codegen.inputs import read_table

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


class _CaseTable(TypedDict):
    name: str
    level: str
    effect: str
    mirror: str
    old_to_new: list[str]
    new_to_old: list[str]


class _RuleTable(TypedDict):
    id: str
    kind: str
    action: str
    headline: str
    case: list[_CaseTable]


class _File(TypedDict):
    rule: list[_RuleTable]


class _Overrides(TypedDict):
    overrides: dict[str, str]


@cache
def table() -> RuleTable:
    """Return the rule table, which is read once."""
    folder = Path(__file__).with_name(FOLDER)
    rules = [
        _rule(entry) for name in FILES for entry in read_table(folder / f"{name}.toml", _File).values["rule"]
    ]
    overrides = read_table(folder / f"{OVERRIDES}.toml", _Overrides).values["overrides"]
    return RuleTable({rule.id: rule for rule in rules}, overrides)


def _rule(entry: _RuleTable) -> Rule:
    cases = {case["name"]: _case(case) for case in entry["case"]}
    return Rule(entry["id"], entry["kind"], entry["action"], entry["headline"], cases)


def _case(entry: _CaseTable) -> Case:
    return Case(
        name=entry["name"],
        level=Level(entry["level"]),
        effect=Effect(entry["effect"]),
        mirror=entry["mirror"],
        old_to_new=_judgement(entry["old_to_new"]),
        new_to_old=_judgement(entry["new_to_old"]),
    )


def _judgement(entry: list[str]) -> Judgement:
    verdict, reason = entry
    return Judgement(Verdict(verdict), reason)
