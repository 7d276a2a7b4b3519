"""Renders a report as GitHub workflow commands: an error per breaking row, a warning per dangerous row.

GitHub shows them at the lines of the file in a pull request. Lines without `::` appear in the log of the step.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from mcprev_codegen.diff.changes import Report, Verdict
from mcprev_codegen.diff.inputs import checkout_file
from mcprev_codegen.diff.report import Row, in_rows, wording
from mcprev_codegen.errors import clean

_COMMANDS: Final = {Verdict.BREAKING: "error", Verdict.DANGEROUS: "warning"}


def report_github(report: Report) -> str:
    """Return a workflow command for each breaking or dangerous row, then the summary."""
    return "\n".join(_report(report)) + "\n"


def _report(report: Report) -> Iterator[str]:
    for row in in_rows(report.changes):
        if row.first.worst in _COMMANDS:
            yield _annotation(report, row)
    for note in report.notes:
        yield f"::notice title=mcprev diff::{_data(note)}"
    summary = f"{wording.counts(report.counts())}; {wording.name_changes(report)}"
    yield _log_line(f"{report.old.name} → {report.new.name}: {summary}")
    yield from map(_log_line, wording.notes(replace(report, notes=())))


def _annotation(report: Report, row: Row) -> str:
    change = row.first
    ways = (("old → new", change.old_to_new), ("new → old", change.new_to_old))
    told = [f"{way}: {j.verdict}. {j.reason}" for way, j in ways if j.verdict is not Verdict.OK]
    message = [f"{wording.places(row)}: {wording.headlines(row)}", *told]
    title = f"{change.worst}: {change.id}"
    values = {**_place(report, row), "title": title}
    properties = ",".join(f"{name}={_property(value)}" for name, value in values.items())
    return f"::{_COMMANDS[change.worst]} {properties}::{'%0A'.join(map(_data, message))}"


def _place(report: Report, row: Row) -> dict[str, str]:
    """Return the file and lines of a row: in the new file, or in the old one if the new one is not in the checkout."""
    change = row.first
    for subject, place in ((report.new, change.new), (report.old, change.old)):
        span = place.span if place else None
        file = subject.file and (checkout_file(span.path) if span and span.path else subject.file)
        if file is not None:
            lines = {"line": str(span.line), "endLine": str(span.end_line)} if span and span.line else {}
            return {"file": file, **lines}
    return {}


def _log_line(text: str) -> str:
    """Return a line that is no workflow command, in neither of their two forms."""
    line = clean(text).replace("##[", "##\\[")
    return f"\\{line}" if line.lstrip().startswith("::") else line


def _data(text: str) -> str:
    return clean(text).replace("%", "%25")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
