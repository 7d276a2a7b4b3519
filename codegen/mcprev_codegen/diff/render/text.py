"""Renders a report for a terminal: a summary line, then methods, types and constants, in each the worst first."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import click

from mcprev_codegen.diff.changes import Report, RuleTable, Verdict
from mcprev_codegen.diff.report import History, Row, in_rows, wording
from mcprev_codegen.errors import clean

_COLOURS: Final = {Verdict.BREAKING: "red", Verdict.DANGEROUS: "yellow", Verdict.OK: "green"}
_VERDICT: Final = max(len(v) for v in Verdict) + 1
_INDENT: Final = "  "
NARROW: Final = 60
_LONG_WORD: Final = re.compile(r"\S{500}(?=\S)")
"""Words that are broken before lines are filled: that takes quadratic time in the length of a word."""


@dataclass(frozen=True, slots=True)
class TextStyle:
    """The width of lines, and whether to use colours."""

    width: int = 100
    colour: bool = False

    def verdict(self, verdict: Verdict) -> str:
        """Return a verdict padded to the width of its column."""
        return self.paint(f"{verdict:<{_VERDICT}}", _COLOURS[verdict], bold=verdict is Verdict.BREAKING)

    def paint(self, text: str, colour: str | None = None, *, bold: bool = False, dim: bool = False) -> str:
        """Return a text in colour if colours are used."""
        text = clean(text)
        return click.style(text, fg=colour, bold=bold, dim=dim) if self.colour else text

    def wrapped(self, text: str, indent: str) -> list[str]:
        """Return a text as indented lines of the width."""
        width = max(self.width, NARROW)
        return textwrap.wrap(
            _LONG_WORD.sub(r"\g<0> ", clean(text)),
            width,
            initial_indent=indent,
            subsequent_indent=indent,
            break_on_hyphens=False,
        )


def report_text(report: Report, style: TextStyle) -> str:
    """Return the report."""
    return "\n".join(_report(report, style)) + "\n"


def _report(report: Report, style: TextStyle) -> Iterator[str]:
    summary = ", ".join(
        style.paint(f"{number} {verdict}", _COLOURS[verdict], bold=bool(number))
        for verdict, number in report.counts().items()
    )
    names = clean(f"{report.old.name} → {report.new.name}")
    yield f"{names}: {summary}; {wording.name_changes(report)}"
    if report.changes:
        yield from _dim(style, f"Mixed without negotiation, {wording.pairings(report)}.")
    for line in wording.notes(report):
        yield from _dim(style, f"{line}.")
    for name, group in wording.sections(report):
        yield ""
        yield style.paint(name, bold=True)
        yield style.paint(f"{_INDENT}{'old→new':<{_VERDICT}}{'new→old':<{_VERDICT}}", dim=True).rstrip()
        for row in group:
            yield from _row(row, style)


def _dim(style: TextStyle, text: str) -> Iterator[str]:
    yield from (style.paint(line, dim=True) for line in style.wrapped(text, ""))


def _row(row: Row, style: TextStyle) -> Iterator[str]:
    change = row.first
    verdicts = style.verdict(change.old_to_new.verdict) + style.verdict(change.new_to_old.verdict)
    hang = " " * (len(_INDENT) + 2 * _VERDICT)
    lines = wording.source_lines(change) if len(row.changes) == 1 else ""
    origin = "; ".join(filter(None, [f"sent by {wording.sent_by(change)}", lines]))
    first, *rest = style.wrapped(f"{wording.places(row)}: {wording.headlines(row)} [{origin}]", hang)
    yield f"{_INDENT}{verdicts}{first[len(hang) :]}"
    yield from rest
    for text in wording.details(row):
        yield from (style.paint(line, dim=True) for line in style.wrapped(text, hang + _INDENT))


def history_text(history: History, style: TextStyle) -> str:
    """Return the history of a type or method, one revision after the other."""
    return "\n".join(_history(history, style)) + "\n"


def _history(history: History, style: TextStyle) -> Iterator[str]:
    yield style.paint(f"{history.kind} {history.name}", bold=True)
    for entry in history.entries:
        called = f" (as {entry.name})" if entry.name and entry.name != history.name else ""
        yield clean(f"{entry.revision}: {entry.state}{called}")
        for row in in_rows(entry.changes):
            yield from _row(row, style)


def rules_text(table: RuleTable, style: TextStyle) -> str:
    """Return every rule with its levels and verdicts."""
    lines: list[str] = []
    for rule in table.rules.values():
        lines.append(f"{style.paint(rule.id, bold=True)}  {rule.kind}, {rule.action}")
        for case in rule.cases.values():
            verdicts = style.verdict(case.old_to_new.verdict) + style.verdict(case.new_to_old.verdict)
            lines.append(f"{_INDENT}{verdicts}{case.level.value:<8} {case.name}; mirror {case.mirror}")
            for reason in dict.fromkeys((case.old_to_new.reason, case.new_to_old.reason)):
                lines += [style.paint(line, dim=True) for line in style.wrapped(reason, _INDENT * 3)]
    return "\n".join(lines) + "\n"
