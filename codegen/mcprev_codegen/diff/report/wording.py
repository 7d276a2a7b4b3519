"""Sentences and groups that all formats share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from mcprev_codegen.diff.changes import Change, Level, Names, Report, Verdict
from mcprev_codegen.diff.inputs import checkout_file
from mcprev_codegen.diff.report.rows import Row, in_rows

NO_NEGOTIATION: Final = (
    "Verdicts hold for peers that mix both revisions without negotiating one; peers that negotiate do not meet them."
)
SECTIONS: Final = ("Methods", "Types", "Constants")
FEW: Final = 3
"""The number of names in a list before the rest is counted."""


def counts(numbers: Mapping[Verdict, int]) -> str:
    """Return verdicts and numbers: `3 breaking, 1 dangerous, 20 ok`."""
    return ", ".join(f"{number} {verdict}" for verdict, number in numbers.items())


def name_changes(report: Report) -> str:
    """Return the numbers of added and removed names: `requests +2 −9, types +42 −32 (1 renamed)`."""
    renamed = f" ({len(report.renamed)} renamed)" if report.renamed else ""
    parts = [
        f"{label} {_signed(names)}{suffix}"
        for label, names, suffix in (
            ("requests", report.requests, ""),
            ("notifications", report.notifications, ""),
            ("types", report.types, renamed),
        )
        if names.added or names.removed
    ]
    return ", ".join(parts) or "same methods and types"


def _signed(names: Names) -> str:
    groups = ("+", names.added), ("−", names.removed)
    return " ".join(f"{sign}{len(group)}" for sign, group in groups if group)


def pairings(report: Report) -> str:
    """Return the verdicts of both mixes of an old and a new peer."""
    old_client = counts(_bad(report.pairing(client_is_old=True)))
    new_client = counts(_bad(report.pairing(client_is_old=False)))
    return f"old client with new server: {old_client}; new client with old server: {new_client}"


def _bad(numbers: Mapping[Verdict, int]) -> dict[Verdict, int]:
    return {verdict: number for verdict, number in numbers.items() if verdict is not Verdict.OK}


def hidden(report: Report) -> str:
    """Return how many changes are not shown; empty if all are."""
    return (
        f"{report.hidden} more not shown (see --level, --docs and the other filters)" if report.hidden else ""
    )


def notes(report: Report) -> list[str]:
    """Return the lines next to the changes: notes, and the numbers of ignored and hidden changes."""
    ignored = f"{len(report.ignored)} ignored by the ignore file" if report.ignored else ""
    return [line for line in (*report.notes, ignored, hidden(report)) if line]


def sections(report: Report) -> Iterator[tuple[str, tuple[Row, ...]]]:
    """Yield the rows of each section, in order; sections without changes are left out."""
    groups: dict[str, list[Change]] = {name: [] for name in SECTIONS}
    for change in report.changes:
        groups[section(change)].append(change)
    yield from ((name, in_rows(group)) for name, group in groups.items() if group)


def section(change: Change) -> str:
    """Return the section of a change."""
    if change.method:
        return "Methods"
    return "Constants" if change.kind == "constant" else "Types"


def where(change: Change) -> str:
    """Return the place of a change: the method's name or the path."""
    return change.method or change.path


def places(row: Row) -> str:
    """Return every place of a row."""
    return ", ".join(row.places)


def headlines(row: Row) -> str:
    """Return every headline of a row."""
    return "; ".join(row.headlines)


def reasons(change: Change) -> list[str]:
    """Return the reasons of verdicts that are not ok, without duplicates, and the note."""
    lines_ = [j.reason for j in (change.old_to_new, change.new_to_old) if j.verdict is not Verdict.OK]
    return [line for line in (*dict.fromkeys(lines_), change.note) if line]


def details(row: Row) -> list[str]:
    """Return the lines below a row: reasons, both descriptions of a changed one, and the types that inherit it."""
    texts = [f"{sign} {text}" for pair in row.texts for sign, text in zip("−+", pair, strict=True)]
    inheritors = [f"Inherited by {abbreviated(row.affects)}."] if row.affects else []
    return [*reasons(row.first), *(texts if row.first.level is Level.DOC else []), *inheritors]


def abbreviated(names: tuple[str, ...]) -> str:
    """Return some names, with the rest counted."""
    rest = f" and {len(names) - FEW} more" if len(names) > FEW else ""
    return ", ".join(names[:FEW]) + rest


def sent_by(change: Change) -> str:
    """Return the senders of the data in words."""
    return " and ".join(change.senders) or "nobody"


def source_lines(change: Change) -> str:
    """Return the lines of both sides in their sources: `line 120 of the old schema and 133 of the new schema`."""
    sides = (("old", change.old), ("new", change.new))
    found = [
        f"{p.span.line} of {checkout_file(p.span.path) if p.span.path else f'the {label} schema'}"
        for label, p in sides
        if p and p.span and p.span.line
    ]
    return f"line {' and '.join(found)}" if found else ""
