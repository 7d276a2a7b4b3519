"""Draws sequences, lives and the map of methods as SVG; every text is escaped, and colours come from the style sheet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from markupsafe import Markup

from mcprev_codegen.errors import clean
from mcprev_codegen.facts import Side
from mcprev_explore.book import LifePoint, MapEntry
from mcprev_explore.flows import FlowStep

_WIDTH: Final = 350
_X: Final = {Side.CLIENT: 28, Side.SERVER: 322}
_LETTERS: Final = 44
"""How many letters of a monospaced label fit between the two lines."""


def _short(text: str, letters: int = _LETTERS) -> str:
    shown = clean(text)
    return shown if len(shown) <= letters else f"{shown[: letters - 1]}…"


def _text(x: float, y: float, text: str, style: str, anchor: str = "middle") -> Markup:
    return Markup('<text x="{}" y="{}" text-anchor="{}" class="{}">{}</text>').format(
        x, y, anchor, style, _short(text)
    )


def _arrow(sender: Side, y: float, kind: str, *, faint: bool = False, half: bool = False) -> Markup:
    """Return a line from one side, or from the middle, to the other, with a head that says what kind of message it is."""
    start, end = _WIDTH / 2 if half else _X[sender], _X[sender.other]
    way = 1 if end > start else -1
    tip, back = end - 2 * way, end - 10 * way
    head = (
        Markup('<path d="M{} {} L{} {} L{} {}" class="open"/>')
        if kind == "notification"
        else Markup('<path d="M{} {} L{} {} L{} {} Z"/>')
    ).format(back, y - 4.5, tip, y, back, y + 4.5)
    line = Markup('<line x1="{}" y1="{}" x2="{}" y2="{}"/>').format(start, y, tip - 6 * way, y)
    style = f"arrow {sender} {kind}{' faint' if faint else ''}"
    return Markup('<g class="{}">{}{}</g>').format(style, line, head)


def _lifelines(height: float) -> Markup:
    parts = Markup("")
    for side, x in _X.items():
        name = "client" if side is Side.CLIENT else "server"
        anchor = "start" if side is Side.CLIENT else "end"
        edge = 4 if side is Side.CLIENT else _WIDTH - 4
        parts += _text(edge, 14, name, f"side {side}", anchor)
        parts += Markup('<line x1="{}" y1="22" x2="{}" y2="{}" class="lifeline"/>').format(x, x, height - 4)
    return parts


def _svg(height: float, label: str, content: Markup, style: str) -> Markup:
    return Markup(
        '<svg viewBox="0 0 {} {}" role="img" aria-label="{}" class="{}" xmlns="http://www.w3.org/2000/svg">{}</svg>'
    ).format(_WIDTH, height, clean(label), style, content)


def sequence(steps: Sequence[FlowStep], label: str) -> Markup:
    """Return the diagram of a sequence."""
    y, content = 30.0, Markup("")
    middle = _WIDTH / 2
    for step in steps:
        faint = " faint" if step.faint else ""
        if step.sender is None:
            y += 26
            if step.kind == "part":
                content += Markup('<line x1="8" y1="{}" x2="{}" y2="{}" class="part"/>').format(
                    y - 14, _WIDTH - 8, y - 14
                )
                content += _text(middle, y + 2, step.text, "part-text")
            else:
                content += Markup('<rect x="40" y="{}" width="{}" height="22" rx="11" class="note"/>').format(
                    y - 13, _WIDTH - 80
                )
                content += _text(middle, y + 2, step.text, "note-text")
            y += 10
            continue
        y += 28
        content += _text(middle, y - 6, step.text, f"label{faint}")
        content += _arrow(step.sender, y, step.kind, faint=step.faint)
        if step.about:
            y += 14
            content += _text(middle, y, step.about, f"about{faint}")
    height = y + 18
    return _svg(height, label, _lifelines(height) + content, "sequence")


_CELL: Final = 34
_SIGNS: Final = {
    state: Markup(f'<g transform="translate({{}} 9)">{sign}</g>')  # noqa: S704 - our own
    for state, sign in {
        "added": '<circle r="5" class="added"/>',
        "present": '<circle r="5" class="added"/>',
        "changed": '<circle r="4.5" class="changed"/>',
        "renamed": '<path d="M0 -5.5 l5.5 5.5 l-5.5 5.5 l-5.5 -5.5 Z" class="renamed"/>',
        "removed": '<path d="M-4.5 -4.5 l9 9 m0 -9 l-9 9" class="removed"/>',
        "unchanged": '<circle r="1.8" class="same"/>',
        "absent": '<circle r="1" class="absent"/>',
    }.items()
}


def life_line(points: Sequence[LifePoint], label: str, cell: int = _CELL) -> Markup:
    """Return the life of one name as a line over the revisions; each has a cell of that width."""
    lines, signs = Markup(""), Markup("")
    for n, point in enumerate(points):
        x = n * cell + cell / 2
        if n > 0 and points[n - 1].present:
            ended = "" if point.present else " ended"
            lines += Markup('<line x1="{}" y1="9" x2="{}" y2="9" class="life{}"/>').format(x - cell, x, ended)
        signs += _SIGNS[point.state].format(x)
    width = len(points) * cell
    return Markup(
        '<svg viewBox="0 0 {} 18" width="{}" height="18" role="img" aria-label="{}" class="lifeline-row">{}{}</svg>'
    ).format(width, width, clean(label), lines, signs)


def method_map(entries: Sequence[MapEntry], label: str) -> Markup:
    """Return the methods of one group as arrows between client and server; each is a link."""
    y, content, group = 26.0, Markup(""), ""
    for entry in entries:
        if entry.area != group:
            y, group = y + 12, entry.area
        y += 25
        drawn = _text(_WIDTH / 2, y - 5, entry.method, "label")
        for sender in entry.senders:
            kind = "embedded" if entry.embedded else entry.kind
            drawn += _arrow(sender, y, kind, half=len(entry.senders) > 1)
        content += Markup('<a href="{}" class="map-link"><title>{}</title>{}</a>').format(
            entry.href, clean(entry.title), drawn
        )
    height = y + 20
    body = _lifelines(height) + content
    return Markup(
        '<svg viewBox="0 0 {} {}" class="sequence map" aria-label="{}" role="group">{}</svg>'
    ).format(_WIDTH, height, clean(label), body)
