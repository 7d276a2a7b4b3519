"""The report as one self-contained page: no network, readable on a phone, filters that a link can set."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from importlib.resources import files
from typing import Final

import jinja2

from mcprev_codegen.diff import wording
from mcprev_codegen.diff.model import Level, Report, Verdict
from mcprev_codegen.diff.rows import Row, rows

TEMPLATE: Final = "report.html.jinja"
SEVERAL: Final = "Several methods"
NO_METHOD: Final = "No method"
CONSTANTS: Final = "Constants"
_LAST: Final = (SEVERAL, NO_METHOD, CONSTANTS)
_CUT: Final = "…"


@dataclass(frozen=True, slots=True)
class Group:
    """What one method carries alone, or what no single method carries."""

    name: str
    harmful: tuple[Row, ...]
    harmless: tuple[Row, ...]
    shared: tuple[Row, ...]
    """Rows of `Several methods` that harm this one, too."""

    @property
    def is_method(self) -> bool:
        """Whether the name is a method's."""
        return self.name not in _LAST

    @property
    def id(self) -> str:
        """The fragment that links to it."""
        return f"in-{self.name.lower().replace(' ', '-')}"

    @property
    def counts(self) -> dict[Verdict, int]:
        """How many of its changes have each verdict as their worst."""
        return {
            v: sum(len(row.changes) for row in (*self.harmful, *self.harmless) if row.first.worst is v)
            for v in reversed(Verdict)
        }


def groups(report: Report) -> list[Group]:
    """The rows by method, in alphabetical order; then what several methods, or none, carry, and constants."""
    by_name: dict[str, list[Row]] = {}
    for row in rows(report.changes):
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
"""Pieces of a text, each with the element that marks it or none."""


def pairs(row: Row) -> list[tuple[Marked, Marked]]:
    """Before and after, with what differs marked, where the headline does not say all of it."""
    told = " ".join(row.says)
    return [_marked(*pair) for pair in row.texts if all(pair) or _CUT in told]


def _marked(before: str, after: str) -> tuple[Marked, Marked]:
    """Two texts, the words that only one of them has marked by `del` and `ins`."""
    old, new = (re.findall(r"\w+|\s+|[^\w\s]", text) for text in (before, after))
    codes = SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    return (
        [("" if tag == "equal" else "del", "".join(old[a:b])) for tag, a, b, _, _ in codes if a < b],
        [("" if tag == "equal" else "ins", "".join(new[c:d])) for tag, _, _, c, d in codes if c < d],
    )


def report_html(report: Report) -> str:
    """The whole page."""
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    template = environment.from_string(
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
