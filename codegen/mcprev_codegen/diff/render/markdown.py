"""Renders a report as Markdown for pull requests: breaking and dangerous changes visible, the others folded."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from mcprev_codegen.diff.changes import Ignored, Report, RuleTable, Verdict
from mcprev_codegen.diff.report import History, Row, wording
from mcprev_codegen.errors import clean

_SIGNS: Final = {Verdict.BREAKING: "❌", Verdict.DANGEROUS: "⚠️", Verdict.OK: "✅"}
_SIGNIFICANT: Final = re.compile(r"[\\`*_\[\]<>|&~]|(?<=\w):(?=//)|(?<=www)\.", re.IGNORECASE)
"""What makes markup, entities, mentions and links of a text."""
_HEADER: Final = ("| old → new | new → old | where | change | sent by |", "| --- | --- | --- | --- | --- |")


def report_markdown(report: Report, heading: str = "##") -> str:
    """Return the report; `heading` is the prefix of its title."""
    return "\n\n".join(_report(report, heading)) + "\n"


def _report(report: Report, heading: str) -> Iterator[str]:
    """Yield the paragraphs of a report."""
    yield f"{heading} {code_span(report.old.name)} → {code_span(report.new.name)}"
    yield f"**{wording.counts(report.counts())}**; {wording.name_changes(report)}"
    if report.changes:
        yield f"If both are mixed, {wording.pairings(report)}. {wording.NO_NEGOTIATION}"
    if report.renamed:
        yield "Renamed: " + ", ".join(
            f"{code_span(old)} → {code_span(new)}" for old, new in report.renamed
        ) + "."
    for name, rows in wording.sections(report):
        harmful = [row for row in rows if row.first.worst is not Verdict.OK]
        harmless = [row for row in rows if row.first.worst is Verdict.OK]
        yield f"{heading}# {name}"
        if harmful:
            yield "\n".join(_table(harmful))
        if harmless:
            yield from _folded(f"{sum(len(row.changes) for row in harmless)} ok", _table(harmless))
    if report.ignored:
        yield from _folded(f"{len(report.ignored)} ignored", _ignored(report.ignored))
    for line in (*report.notes, wording.hidden(report)):
        if line:
            yield f"_{plain(line)}._"


def _folded(summary: str, table: Iterable[str]) -> Iterator[str]:
    yield f"<details><summary>{summary}</summary>"
    yield "\n".join(table)
    yield "</details>"


def _ignored(entries: Iterable[Ignored]) -> Iterator[str]:
    yield from ("| where | change | why it is ignored |", "| --- | --- | --- |")
    for entry in entries:
        change = entry.change
        yield f"| {code_span(wording.where(change))} | {plain(change.headline)} | {plain(entry.reason)} |"


def _table(rows: Iterable[Row]) -> Iterator[str]:
    yield from _HEADER
    for row in rows:
        change = row.first
        cells = [
            _verdict(change.old_to_new.verdict),
            _verdict(change.new_to_old.verdict),
            ", ".join(map(code_span, row.places)),
            _change_text(row),
            wording.sent_by(change),
        ]
        yield f"| {' | '.join(cells)} |"


def _verdict(verdict: Verdict) -> str:
    return f"{_SIGNS[verdict]} {verdict}"


def _change_text(row: Row) -> str:
    """Return the headlines, then the reasons in small print."""
    small = (f"<sub>{plain(line)}</sub>" for line in wording.details(row))
    return "<br>".join([*map(plain, row.headlines), *small])


def code_span(name: str) -> str:
    """Return a name as code, escaped for a table."""
    if name.isprintable() and name and not set(name) & set("`\\") and name == name.strip():
        return f"`{name.replace('|', chr(92) + '|')}`"
    return f"<code>{plain(name)}</code>"  # which ends where it ends, whatever the name is


def plain(words: str) -> str:
    """Return a text with Markdown characters escaped, also for a table."""
    return _SIGNIFICANT.sub(r"\\\g<0>", clean(words)).replace("@", "@<!-- -->")


def history_markdown(history: History) -> str:
    """Return the history of a type or method."""
    lines = [
        f"## {history.kind} {code_span(history.name)}",
        "",
        "| revision | state | changes |",
        "| --- | --- | --- |",
    ]
    for entry in history.entries:
        called = f" as {code_span(entry.name)}" if entry.name and entry.name != history.name else ""
        changes = "<br>".join(
            f"{_SIGNS[c.worst]} {code_span(wording.where(c))}: {plain(c.headline)}" for c in entry.changes
        )
        lines.append(f"| {entry.revision} | {entry.state}{called} | {changes} |")
    return "\n".join(lines) + "\n"


def rules_markdown(table: RuleTable) -> str:
    """Return every rule with its levels and verdicts."""
    lines = ["| rule | case | level | old → new | new → old |", "| --- | --- | --- | --- | --- |"]
    for rule in table.rules.values():
        for case in rule.cases.values():
            verdicts = f"{_verdict(case.old_to_new.verdict)} | {_verdict(case.new_to_old.verdict)}"
            lines.append(f"| {code_span(rule.id)} | {case.name} | {case.level.value} | {verdicts} |")
    return "\n".join(lines) + "\n"
