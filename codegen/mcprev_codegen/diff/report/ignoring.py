"""The ignore file: known and accepted changes, each with a reason.

[[ignore]]
rule = "field-added-required"     # one or more of rule, path and fingerprint, which must all match
path = "ListToolsResult.*"        # `*` matches any text
reason = "Our servers send it since May."
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from mcprev_codegen.diff.changes import Change, Ignored, Report, table
from mcprev_codegen.inputs import Table, read_table

_SELECTORS: Final = ("rule", "path", "fingerprint")


@dataclass(frozen=True, slots=True)
class IgnoreEntry:
    """One entry of an ignore file."""

    reason: str
    rule: str | None = None
    path: str | None = None
    """A path of either side, in which `*` matches any text."""
    fingerprint: str | None = None

    def __str__(self) -> str:
        return ", ".join(f"{name} {value}" for name in _SELECTORS if (value := getattr(self, name)))

    def matches(self, change: Change) -> bool:
        """Return whether the entry matches a change."""
        places = [place.path for place in (change.old, change.new) if place]
        return (
            self.rule in (None, change.id)
            and self.fingerprint in (None, change.fingerprint)
            and (self.path is None or any(fnmatchcase(path, self.path) for path in places))
        )


@dataclass(frozen=True, slots=True)
class _File:
    ignore: tuple[IgnoreEntry, ...] = ()


def read_ignores(path: Path) -> tuple[IgnoreEntry, ...]:
    """Return the entries of an ignore file. Raises `CodegenError`, which names the entry, if one is invalid."""
    file = read_table(path, _File)
    for number, entry in enumerate(file.values.ignore):
        _check(file, number, entry)
    return file.values.ignore


def _check(file: Table[_File], number: int, entry: IgnoreEntry) -> None:
    given = {name: value for name, value in asdict(entry).items() if value is not None}
    place = ("ignore", number)
    if empty := [name for name, value in given.items() if not value.strip()]:
        raise file.fail(f"'ignore.{empty[0]}' must be a string", *place, empty[0])
    if not given.keys() & set(_SELECTORS):
        raise file.fail(f"one of {', '.join(_SELECTORS)} is missing", *place)
    if entry.rule not in (None, *table().rules):
        message = f"unknown rule '{entry.rule}'; `mcprev diff --rules` lists the rules"
        raise file.fail(message, *place, "rule")


def ignore(report: Report, entries: Sequence[IgnoreEntry], source: str) -> Report:
    """Return the report without the changes that entries match; notes name the entries without a match."""
    found = [(change, next((e for e in entries if e.matches(change)), None)) for change in report.changes]
    unused = [entry for entry in entries if not any(map(entry.matches, report.changes))]
    return replace(
        report,
        changes=tuple(change for change, entry in found if entry is None),
        ignored=tuple(
            Ignored(change, " ".join(entry.reason.split())) for change, entry in found if entry is not None
        ),
        notes=(
            *report.notes,
            *(f"{source}: no change matches ({entry}); delete this entry" for entry in unused),
        ),
    )
