"""The pages of `docs/revisions/`: the changes of each revision, and the methods of all revisions side by side.

`make generate` writes them and CI checks them; no part of them is written by hand.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby, pairwise
from typing import Final

from mcprev_codegen.diff import Level, Report, Selection, compare_revisions, select
from mcprev_codegen.diff.render.markdown import code_span, grid, report_markdown
from mcprev_codegen.diff.report import wording
from mcprev_codegen.facts import Method, Revision, Side
from mcprev_codegen.inputs import OF_TEXT, SchemaFolder, split_name
from mcprev_codegen.support import Kind, Transport

INDEX: Final = "README.md"
MATRIX: Final = "matrix.md"
OF_EXTENSIONS: Final = "extensions.md"
PAGES_KNOWN_BY: Final = (MATRIX, INDEX)
"""The pages that exist for any set of revisions."""
_NOTE: Final = "<!-- Written by `make generate`; not edited by hand. -->\n"
_ARROWS: Final = {Side.CLIENT: "→", Side.SERVER: "←"}
_ABOUT: Final = (
    "Every page is what `mcprev diff OLD NEW --format markdown` prints. "
    f"{wording.NO_NEGOTIATION} The methods of all revisions side by side are in the [matrix]({MATRIX}), "
    f"those of extensions on [a page of their own]({OF_EXTENSIONS})."
)
_ABOUT_EXTENSIONS: Final = (
    "The extensions of MCP that `mcprev_types.extensions` has packages of. A version takes what it does not declare itself from the "
    "revision that it is based on. → the client sends it, ← the server sends it; of apps, the client is the page and the server "
    "its host. Pages of changes are what `mcprev diff OLD NEW --format markdown` prints, as those of the [revisions](README.md)."
)
_LEGEND: Final = (
    "→ the client sends it, ← the server sends it, ↔ both do; *in results*: not a message of its own, but "
    "inside a result; *deprecated*: to go."
)


def is_page(name: str, head: str) -> bool:
    """Return whether a file of the folder is generated, by its name and the start of its text."""
    return (
        head.startswith(_NOTE)
        and re.fullmatch(r"README|matrix|extensions|[\w-]+_[\w-]+", name.removesuffix(".md")) is not None
    )


def comparison_pages(
    folder: SchemaFolder, revisions: Sequence[Revision], versions: Sequence[Revision]
) -> dict[str, str]:
    """Return every page by file name: one per pair of neighbours, the methods of revisions and of extensions, and an index.

    `revisions` are the dated revisions, oldest first; `versions` those of extensions, drafts included, those of one oldest
    first.
    """
    shown = Selection(Level.NOMINAL)
    pairs = [*pairwise(revisions), *(p for p in pairwise(versions) if p[0].extension == p[1].extension)]
    reports = [select(compare_revisions(folder, old, new), shown) for old, new in pairs]
    pages = {_page(report): f"{_NOTE}\n{report_markdown(report, heading='#')}" for report in reports}
    if versions:
        pages[OF_EXTENSIONS] = _extensions(versions, reports[len(revisions) - 1 :])
    return {INDEX: _index(reports[: len(revisions) - 1]), MATRIX: _matrix(revisions), **pages}


def _page(report: Report) -> str:
    extension, old = split_name(report.old.name)
    _, new = split_name(report.new.name)
    return f"{f'{extension}_' if extension else ''}{old}_{new}.md"


def _extensions(versions: Sequence[Revision], reports: Sequence[Report]) -> str:
    """Return the page of extensions: the versions of each, what changed between them, and its methods."""
    lines = [_NOTE, "# Versions and methods of extensions", "", _ABOUT_EXTENSIONS, ""]
    rows = [
        (code_span(v.label), code_span(v.extension.id) if v.extension and v.extension.id else "", v.negotiated_as,
         "text" if v.pin and v.pin.origin == OF_TEXT else "schema.ts")
        for v in versions
    ]  # fmt: skip
    lines.append(grid(("version", "name in the capabilities", "based on", "made of"), rows))
    if reports:
        changed = [
            (r.old.name, f"[{r.new.name}]({_page(r)})", wording.name_changes(r), wording.counts(r.counts()))
            for r in reports
        ]
        lines += ["", grid(("from", "to", "methods and types", "verdicts"), changed)]
    for extension, found in groupby(versions, lambda version: version.extension):
        own = [*found]
        methods = dict.fromkeys(name for version in own for name in version.methods)
        if extension is not None and methods:
            cells = [
                [code_span(name), *(_cell(version.methods.get(name)) for version in own)] for name in methods
            ]
            table = grid(["method", *(version.name for version in own)], cells, ":---:")
            lines += ["", f"## {extension.title}", "", table]
    return "\n".join(lines) + "\n"


def _index(reports: Sequence[Report]) -> str:
    rows: list[tuple[str, ...]] = []
    for report in reports:
        counts = wording.counts(report.counts())
        link = f"[{report.new.name}]({_page(report)})"
        rows.append((report.old.name, link, wording.name_changes(report), counts))
    table = grid(("from", "to", "methods and types", "verdicts"), rows)
    return f"{_NOTE}\n# What each revision changed\n\n{_ABOUT}\n\n{table}\n"


def _matrix(revisions: Sequence[Revision]) -> str:
    """Return the table of methods by revision: direction, and whether embedded in results or deprecated."""
    methods: dict[str, Kind] = {m.method: m.kind for r in revisions for m in r.methods.values()}
    lines = [_NOTE, "# Methods and revisions", "", _LEGEND]
    for kind in Kind:
        names = sorted(name for name, own in methods.items() if own is kind)
        rows = [[code_span(name), *(_cell(r.methods.get(name)) for r in revisions)] for name in names]
        table = grid(["method", *(r.name for r in revisions)], rows, ":---:")
        lines += ["", f"## {kind.capitalize()}s", "", table]
    return "\n".join(lines) + "\n"


def _cell(method: Method | None) -> str:
    if method is None:
        return ""
    arrow = "↔" if len(method.senders) > 1 else "".join(_ARROWS[side] for side in method.senders)
    notes = ["*in results*"] if method.transport is Transport.EMBEDDED else []
    notes += ["*deprecated*"] if method.deprecated else []
    return " ".join([arrow, *notes])
