"""One module for each output format, and the formats of reports, histories and rules by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from mcprev_codegen.diff.changes import Report, RuleTable, Verdict
from mcprev_codegen.diff.render.github import report_github
from mcprev_codegen.diff.render.html import report_html
from mcprev_codegen.diff.render.json import history_json, report_json, rules_json
from mcprev_codegen.diff.render.junit import report_junit
from mcprev_codegen.diff.render.markdown import history_markdown, report_markdown, rules_markdown
from mcprev_codegen.diff.render.text import TextStyle as TextStyle, history_text, report_text, rules_text
from mcprev_codegen.diff.report import History

REPORTS: Final[Mapping[str, Callable[[Report, TextStyle, Verdict], str]]] = {
    "table": lambda report, style, _worst: report_text(report, style),
    "markdown": lambda report, _style, _worst: report_markdown(report),
    "json": lambda report, _style, _worst: report_json(report),
    "html": lambda report, _style, _worst: report_html(report),
    "github": lambda report, _style, _worst: report_github(report),
    "junit": lambda report, _style, threshold: report_junit(report, threshold),
}
"""The formats of a report; for a style of text, and the verdict from which on a change is a failure."""
HISTORIES: Final[Mapping[str, Callable[[History, TextStyle], str]]] = {
    "table": history_text,
    "markdown": lambda history, _: history_markdown(history),
    "json": lambda history, _: history_json(history),
}
RULES: Final[Mapping[str, Callable[[RuleTable, TextStyle], str]]] = {
    "table": rules_text,
    "markdown": lambda table, _: rules_markdown(table),
    "json": lambda table, _: rules_json(table),
}
