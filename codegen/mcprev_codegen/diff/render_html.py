"""The report as one self-contained page: no network, readable on a phone, filters that a link can set."""

from __future__ import annotations

from importlib.resources import files
from typing import Final

import jinja2

from mcprev_codegen.diff import wording
from mcprev_codegen.diff.model import Report, Verdict

TEMPLATE: Final = "report.html.jinja"


def report_html(report: Report) -> str:
    """The whole page."""
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    template = environment.from_string(
        files(__name__.rpartition(".")[0]).joinpath(TEMPLATE).read_text(encoding="utf-8")
    )
    methods = sorted({method for change in report.changes for method in change.methods})
    return template.render(
        report=report,
        sections=list(wording.sections(report)),
        methods=methods,
        verdicts=list(reversed(Verdict)),
        counts=report.counts(),
        wording=wording,
    )
