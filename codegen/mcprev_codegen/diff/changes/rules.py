"""The rule table: every kind of change with its level, mirror and verdicts, read from `rules/*.toml`.

A rule has one case for each situation with its own verdicts. `old_to_new` is the verdict for data that an old peer
sends to a new peer, `new_to_old` the one for the reverse direction. `mirror` is the change that results if the two
revisions are swapped, as `rule:case`. `effect` is the effect on the set of accepted values. `headline` is its text;
{old} and {new} stand for the two sides.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Final

from mcprev_codegen.diff.changes.model import Effect, Judgement, Level
from mcprev_codegen.inputs import read_table

FOLDER: Final = "rules"
FILES: Final = ("methods", "types", "members", "values", "constants", "documentation", "overrides")


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
    case: tuple[Case, ...]

    @property
    def cases(self) -> Mapping[str, Case]:
        """The cases by name."""
        return {case.name: case for case in self.case}

    @property
    def levels(self) -> tuple[Level, ...]:
        """The levels of the cases, without duplicates."""
        return tuple(dict.fromkeys(case.level for case in self.case))


@dataclass(frozen=True, slots=True)
class RuleTable:
    """All rules by id, and the reasons of overrides, which replace a verdict by ok."""

    rules: Mapping[str, Rule]
    overrides: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _File:
    rule: tuple[Rule, ...] = ()
    overrides: Mapping[str, str] = field(default_factory=dict[str, str])


@cache
def table() -> RuleTable:
    """Return the rule table, which is read once."""
    folder = Path(__file__).with_name(FOLDER)
    files = [read_table(folder / f"{name}.toml", _File).values for name in FILES]
    rules = {rule.id: rule for file in files for rule in file.rule}
    return RuleTable(rules, {key: reason for file in files for key, reason in file.overrides.items()})
