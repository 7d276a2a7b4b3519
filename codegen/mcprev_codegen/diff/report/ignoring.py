"""The ignore file: known and accepted changes, each with a reason.

[[ignore]]
rule = "field-added-required"     # one or more of rule, path and fingerprint, which must all match
path = "ListToolsResult.*"        # `*` matches any text
reason = "Our servers send it since May."
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final, cast

from mcprev_codegen.diff.changes import Change, Ignored, Report, table
from mcprev_codegen.errors import InputError
from mcprev_codegen.inputs import read_table

TABLE: Final = "ignore"
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


def read_ignores(path: Path) -> tuple[IgnoreEntry, ...]:
    """Return the entries of an ignore file. Raises `InputError`, which names the entry, if one is invalid."""
    _, data = read_table(path)
    entries = data.pop(TABLE, [])
    if data or not isinstance(entries, list):
        raise InputError(f"{path}: only [[{TABLE}]] tables are allowed in an ignore file")
    return tuple(
        _entry(f"{path}: [[{TABLE}]] {number}", entry)
        for number, entry in enumerate(cast("list[object]", entries), 1)
    )


def _entry(where: str, entry: object) -> IgnoreEntry:
    values = cast("dict[str, object]", entry) if isinstance(entry, dict) else {}
    if unknown := [name for name in values if name not in ("reason", *_SELECTORS)]:
        raise InputError(f"{where}: unknown key '{unknown[0]}'; known are reason, {', '.join(_SELECTORS)}")
    if wrong := [name for name, value in values.items() if not isinstance(value, str) or not value.strip()]:
        raise InputError(f"{where}: '{wrong[0]}' must be a text")
    if "reason" not in values:
        raise InputError(f"{where}: 'reason' is missing")
    if not values.keys() & set(_SELECTORS):
        raise InputError(f"{where}: one of {', '.join(_SELECTORS)} is missing")
    values["reason"] = " ".join(str(values["reason"]).split())
    result = IgnoreEntry(**cast("dict[str, str]", values))
    if result.rule is not None and result.rule not in table().rules:
        raise InputError(f"{where}: unknown rule '{result.rule}'; `mcprev diff --rules` lists the rules")
    return result


def ignore(report: Report, entries: Sequence[IgnoreEntry], source: str) -> Report:
    """Return the report without the changes that entries match; notes name the entries without a match."""
    found = [(change, next((e for e in entries if e.matches(change)), None)) for change in report.changes]
    unused = [entry for entry in entries if not any(map(entry.matches, report.changes))]
    return replace(
        report,
        changes=tuple(change for change, entry in found if entry is None),
        ignored=tuple(Ignored(change, entry.reason) for change, entry in found if entry is not None),
        notes=(
            *report.notes,
            *(f"{source}: no change matches ({entry}); delete this entry" for entry in unused),
        ),
    )
