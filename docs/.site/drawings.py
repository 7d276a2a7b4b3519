"""Draws the pictures of docs/drawings from the texts beside them: `python drawings.py`; a test fails where they are not up to date.

A line of a text is a row of boxes, divided by ` | `; what stands after ` : ` is a note beside them. `-> words` is an arrow to the next
row, `<- words` one back, and `<-> words` one in both directions. Light boxes with dark text can be read in both themes and in grey.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).parents[1] / "drawings"
WIDTH: Final = 700
BOX: Final = 34
ARROW: Final = 34
GAP: Final = 8
NOTE: Final = 272
STYLE: Final = (
    "text{font:13px system-ui,sans-serif;fill:#1f2430}.b{fill:#e8ecf8;stroke:#5a6b9a}.n{fill:#f5f5f5;stroke:#c9c9c9}"
    ".a{stroke:#7a7f8c;stroke-width:1.5;fill:none;marker-end:url(#e)}.r{marker-start:url(#s);marker-end:none}.two{marker-start:url(#s)}"
)
MARKERS: Final = (
    '<defs><marker id="e" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    '<path d="M0 0 8 4 0 8z" fill="#7a7f8c"/></marker><marker id="s" viewBox="0 0 8 8" refX="1" refY="4" markerWidth="7" '
    'markerHeight="7" orient="auto"><path d="M8 0 0 4 8 8z" fill="#7a7f8c"/></marker></defs>'
)


def drawing(text: str) -> str:
    """The picture of a text."""
    lines = [line for line in text.splitlines() if line.strip()]
    noted = any(" : " in line for line in lines)
    room = WIDTH - (NOTE + GAP if noted else 0)
    parts: list[str] = []
    y = GAP
    for line in lines:
        if found := re.fullmatch(r"(<->|->|<-) ?(.*)", line):
            kind = {"->": "a", "<-": "a r", "<->": "a two"}[found[1]]
            parts.append(f'<path class="{kind}" d="M{room / 2:g} {y - GAP + 3} v{ARROW - 4}"/>')
            parts += words(found[2], room / 2 + 14, y, 18 + 7.5 * len(found[2]), 20) if found[2] else []
            y += ARROW - GAP + 2
            continue
        boxes, _, note = line.partition(" : ")
        names = boxes.split(" | ")
        each = (room - GAP * (len(names) - 1)) / len(names)
        for number, name in enumerate(names):
            x = number * (each + GAP)
            parts.append(
                f'<rect class="b" x="{x + 1:g}" y="{y}" width="{each - 2:g}" height="{BOX}" rx="5"/>'
            )
            parts.append(
                f'<text x="{x + each / 2:g}" y="{y + 22}" text-anchor="middle">{escape(name.strip())}</text>'
            )
        parts += words(note, room + GAP, y + 5, NOTE - 2, 24) if note else []
        y += BOX + GAP
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y}" width="{WIDTH}" height="{y}"><style>{STYLE}</style>'
    return "\n".join([head + MARKERS, *parts, "</svg>"]) + "\n"


def words(text: str, x: float, y: float, width: float, height: int) -> list[str]:
    """Words on a light ground of their own."""
    return [
        f'<rect class="n" x="{x:g}" y="{y}" width="{width:g}" height="{height}" rx="3"/>',
        f'<text x="{x + 7:g}" y="{y + height / 2 + 4.5:g}">{escape(text)}</text>',
    ]


def drawings() -> Iterator[tuple[Path, str]]:
    """Each picture with what it should be."""
    for path in sorted(FOLDER.glob("*.txt")):
        yield path.with_suffix(".svg"), drawing(path.read_text(encoding="utf-8"))


if __name__ == "__main__":
    for path, text in drawings():
        path.write_text(text, encoding="utf-8")
