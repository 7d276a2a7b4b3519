"""Renders a report as one self-contained HTML page, usable on a phone, with filters that links can set."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from importlib.resources import files
from typing import TYPE_CHECKING, Final

from mcprev_codegen.diff.changes import Level, Report, Verdict
from mcprev_codegen.diff.report import Row, in_rows, wording
from mcprev_codegen.errors import clean

if TYPE_CHECKING:
    import jinja2

TEMPLATE: Final = "report.html.jinja"
SEVERAL: Final = "Several methods"
NO_METHOD: Final = "No method"
CONSTANTS: Final = "Constants"
_LAST: Final = (SEVERAL, NO_METHOD, CONSTANTS)
_CUT: Final = "…"


@dataclass(frozen=True, slots=True)
class Group:
    """The rows of one method, or those that belong to no single method."""

    name: str
    harmful: tuple[Row, ...]
    harmless: tuple[Row, ...]
    shared: tuple[Row, ...]
    """Breaking and dangerous rows of `Several methods` that affect this method too."""

    @property
    def is_method(self) -> bool:
        """Whether the group is that of a method."""
        return self.name not in _LAST

    @property
    def id(self) -> str:
        """The fragment that links to the group."""
        return f"in-{self.name.lower().replace(' ', '-')}"

    @property
    def counts(self) -> dict[Verdict, int]:
        """The number of changes by their worst verdict."""
        return {
            v: sum(len(row.changes) for row in (*self.harmful, *self.harmless) if row.first.worst is v)
            for v in reversed(Verdict)
        }


def groups(report: Report) -> list[Group]:
    """Return the rows grouped by method in alphabetical order, then `Several methods`, `No method`, `Constants`."""
    by_name: dict[str, list[Row]] = {}
    for row in in_rows(report.changes):
        by_name.setdefault(_group(row), []).append(row)
    shared = [row for row in by_name.get(SEVERAL, ()) if row.first.worst is not Verdict.OK]
    concerned = {method for row in shared for method in row.methods}
    names = sorted({*by_name, *concerned} - set(_LAST)) + [name for name in _LAST if name in by_name]
    return [_grouped(name, by_name.get(name, ()), shared) for name in names]


def _group(row: Row) -> str:
    if row.first.kind == "constant":
        return CONSTANTS
    return row.methods[0] if len(row.methods) == 1 else SEVERAL if row.methods else NO_METHOD


def _grouped(name: str, own: Sequence[Row], shared: Iterable[Row]) -> Group:
    return Group(
        name,
        tuple(row for row in own if row.first.worst is not Verdict.OK),
        tuple(row for row in own if row.first.worst is Verdict.OK),
        tuple(row for row in shared if name in row.methods),
    )


Marked = list[tuple[str, str]]
"""Parts of a text, each with the HTML element around it; empty for none."""


def pairs(row: Row) -> list[tuple[Marked, Marked]]:
    """Return the texts before and after with differences marked, if the headline does not show them in full."""
    told = " ".join(row.headlines)
    return [_marked(*pair) for pair in row.texts if all(pair) or _CUT in told]


def _marked(before: str, after: str) -> tuple[Marked, Marked]:
    """Return both texts with the words that only one of them has marked by `del` or `ins`."""
    old, new = (re.findall(r"\w+|\s+|[^\w\s]", text) for text in (before, after))
    codes = SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    return (
        [("" if tag == "equal" else "del", "".join(old[a:b])) for tag, a, b, _, _ in codes if a < b],
        [("" if tag == "equal" else "ins", "".join(new[c:d])) for tag, _, _, c, d in codes if c < d],
    )


def html_environment(loader: jinja2.BaseLoader | None = None) -> jinja2.Environment:
    """Return what renders templates of HTML: text of others is escaped and cleaned, the template's own markup is not."""
    import jinja2  # which takes long
    from markupsafe import Markup

    def printed(value: object) -> object:
        return clean(value) if isinstance(value, str) and not isinstance(value, Markup) else value

    return jinja2.Environment(
        autoescape=True,
        finalize=printed,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        loader=loader,
    )


def report_html(report: Report) -> str:
    """Return the page."""
    template = html_environment().from_string(
        files(__name__.rpartition(".")[0]).joinpath(TEMPLATE).read_text(encoding="utf-8")
    )
    return template.render(
        report=report,
        groups=groups(report),
        methods=sorted({method for change in report.changes for method in change.methods}),
        verdicts=list(reversed(Verdict)),
        counts=report.counts(),
        wording=wording,
        pairs=pairs,
        doc=Level.DOC,
    )
