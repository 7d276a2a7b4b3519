"""Renders a report as Markdown for pull requests: breaking and dangerous changes visible, the others folded."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from mcprev_codegen.diff.changes import Case, Change, Ignored, Report, RuleTable, Verdict
from mcprev_codegen.diff.report import History, Row, wording
from mcprev_codegen.errors import clean

_SIGNS: Final = {Verdict.BREAKING: "❌", Verdict.DANGEROUS: "⚠️", Verdict.OK: "✅"}
_SIGNIFICANT: Final = re.compile(r"[\\`*_\[\]<>|&~]|(?<=\w):(?=//)|(?<=www)\.", re.IGNORECASE)
"""What makes markup, entities, mentions and links of a text."""


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
            yield _table(harmful)
        if harmless:
            yield from _folded(f"{sum(len(row.changes) for row in harmless)} ok", _table(harmless))
    if report.ignored:
        yield from _folded(f"{len(report.ignored)} ignored", _ignored(report.ignored))
    for line in (*report.notes, wording.hidden(report)):
        if line:
            yield f"_{plain(line)}._"


def _folded(summary: str, table: str) -> tuple[str, ...]:
    return f"<details><summary>{summary}</summary>", table, "</details>"


def grid(heads: Sequence[str], rows: Iterable[Sequence[str]], rule: str = "---") -> str:
    """Return a table, without a line feed at its end; `rule` aligns all columns but the first."""
    rules = ["---", *[rule] * (len(heads) - 1)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (heads, rules, *rows))


def _ignored(entries: Iterable[Ignored]) -> str:
    rows = ((_where(one.change), plain(one.change.headline), plain(one.reason)) for one in entries)
    return grid(("where", "change", "why it is ignored"), rows)


def _where(change: Change) -> str:
    return code_span(wording.where(change))


def _table(rows: Iterable[Row]) -> str:
    cells = (
        (*_verdicts(row.first), ", ".join(map(code_span, row.places)), _text(row), wording.sent_by(row.first))
        for row in rows
    )
    return grid(("old → new", "new → old", "where", "change", "sent by"), cells)


def _verdicts(judged: Case | Change) -> tuple[str, str]:
    both = judged.old_to_new.verdict, judged.new_to_old.verdict
    return f"{_SIGNS[both[0]]} {both[0]}", f"{_SIGNS[both[1]]} {both[1]}"


def _text(row: Row) -> str:
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
    rows: list[tuple[str, ...]] = []
    for entry in history.entries:
        called = f" as {code_span(entry.name)}" if entry.name and entry.name != history.name else ""
        changes = (f"{_SIGNS[c.worst]} {_where(c)}: {plain(c.headline)}" for c in entry.changes)
        rows.append((entry.revision, f"{entry.state}{called}", "<br>".join(changes)))
    table = grid(("revision", "state", "changes"), rows)
    return f"## {history.kind} {code_span(history.name)}\n\n{table}\n"


def rules_markdown(table: RuleTable) -> str:
    """Return every rule with its levels and verdicts."""
    rows = (
        (code_span(rule.id), case.name, case.level.value, *_verdicts(case))
        for rule in table.rules.values()
        for case in rule.case
    )
    return grid(("rule", "case", "level", "old → new", "new → old"), rows) + "\n"
