"""Drawings of what was measured: `make figures`, or `python benchmarks/plots.py build/figures docs/figures` after `make bench`.

Each file of a folder, as `report.save` writes them, becomes one SVG: bars for each figure, which begin at zero, one for each
program, with the median of its runs, and a line from the smallest to the largest. They are grey but for this project's, which are black,
so that they can be read in print; below stand machine, date, versions and load. What was not measured is not drawn; of benchmarks that
measure more than a reader can look at, `DRAWN` chooses. The files, which are kept beside the drawings, have everything. README gets a
table of a few of them.
"""

from __future__ import annotations

import argparse
import ast
import json
import shutil
import statistics
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final, TypeAlias
from xml.sax.saxutils import escape

WIDTH: Final = 760
NAMES: Final = 230
"""The width of the names of programs."""
BARS: Final = 400
LINE: Final = 20
HEAD: Final = 30
OURS: Final = "#111111"
OTHERS: Final = "#9a9a9a"
FLOOR: Final = "#d0d0d0"
DRAWN: Final = {
    "connections": ("new: connections/s", "new: p99 ms", "beside busy: requests*", "beside busy: longest ms"),
    "large": ("*text 1 MB: CPU ms", "*image 10 MB: CPU ms"),
    "over_http": ("*httptools: requests/s", "*httptools: CPU µs", "client, * calls/s"),
}
"""Which figures of a benchmark are drawn, as patterns; all of one that is not here."""
Cell: TypeAlias = "tuple[str, ...]"
"""The names of the programs whose figure a column shows: the first that was measured."""
COLUMNS: Final[dict[str, Cell]] = {
    "mcprev": ("mcprev[http]", "mcprev App", "mcprev", "mcprev, no store, 2 workers"),
    "the official SDK": ("mcp 2.3.0 MCPServer", "mcp 2.3.0"),
    "FastMCP": ("fastmcp 4.1.2", "fastmcp 4.1.2, no store, 2 workers"),
    "the floor": ("floor",),
}
ROWS: Final = (
    ("packages of an installation with HTTP", "installed", "packages"),
    ("start of a stdio server, ms", "over_stdio", "start ms"),
    ("CPU of a call over stdio, µs", "over_stdio", "CPU µs"),
    ("CPU of a call with 1 MB of text over stdio, ms", "large", "stdio, text 1 MB: CPU ms"),
    ("calls a second over HTTP, in sessions", "over_http", "session JSON, httptools: requests/s"),
    ("calls a second over HTTP, stateless", "over_http", "stateless, httptools: requests/s"),
    ("new connections a second", "connections", "new: connections/s"),
    ("calls a second of a client, 100 at a time", "client", "100 in flight, calls/s"),
    (
        "calls a second of two workers, if the clients run elsewhere",
        "scaling",
        "stateless: calls/s of a free machine",
    ),
)
"""The table of README: what a row says, and the benchmark and figure that it shows."""
BEGIN: Final = "<!-- figures: begin -->"
END: Final = "<!-- figures: end -->"
STYLE: Final = "font-family: system-ui, sans-serif; font-size: 13px"


def drawn(measured: dict[str, Any]) -> str:
    """The SVG of one file."""
    peers: dict[str, dict[str, list[float]]] = measured["peers"]
    floor = next(iter(peers))
    parts: list[str] = []
    top = 0
    chosen = DRAWN.get(measured["benchmark"], ("*",))
    for figure in dict.fromkeys(name for figures in peers.values() for name in figures):
        if not any(fnmatchcase(figure, pattern) for pattern in chosen):
            continue
        values = {name: figures[figure] for name, figures in peers.items() if figures.get(figure)}
        most = max(max(runs) for runs in values.values()) or 1.0
        parts.append(f'<text x="0" y="{top + 20}" font-weight="bold">{escape(figure)}</text>')
        top += HEAD
        for name, runs in values.items():
            ours = name.startswith("mcprev")
            parts += bar(name, runs, most, top, OURS if ours else FLOOR if name == floor else OTHERS)
            top += LINE
        top += LINE // 2
    versions = ", ".join(f"{name} {number}" for name, number in measured["versions"].items())
    caption = (
        f"{measured['machine']}; {measured['date']}; {versions}; load {measured['load']}",
        "Bars: the median of the runs, from zero; lines: smallest to largest.",
    )
    for text in caption:
        top += LINE
        parts.append(f'<text x="0" y="{top}" font-size="11">{escape(text)}</text>')
    title = f"What benchmarks/{measured['benchmark']}.py measured"
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {top + 10}" width="{WIDTH}" role="img" '
        f'aria-label="{escape(title)}" style="{STYLE}">\n<title>{escape(title)}</title>\n'
        f'<rect width="{WIDTH}" height="{top + 10}" fill="#ffffff"/>'
    )
    return "\n".join([head, *parts, "</svg>"]) + "\n"


def bar(name: str, runs: list[float], most: float, top: int, colour: str) -> list[str]:
    """The bar of one program: its name, its median, and the line from the smallest run to the largest."""
    median, small, large = statistics.median(runs), min(runs), max(runs)
    width, left, right = (round(BARS * value / most, 1) for value in (median, small, large))
    middle = top + LINE // 2
    return [
        f'<text x="{NAMES - 8}" y="{middle + 4}" text-anchor="end">{escape(name)}</text>',
        f'<rect x="{NAMES}" y="{top + 3}" width="{width}" height="{LINE - 6}" fill="{colour}"/>',
        f'<path d="M{NAMES + left} {middle}H{NAMES + right}" stroke="#e0512f" stroke-width="2"/>',
        f'<text x="{NAMES + max(width, right) + 6}" y="{middle + 4}">{number(median)}</text>',
    ]


def number(value: float) -> str:
    """A figure with at least three digits that mean something."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def draw(source: Path, target: Path) -> list[Path]:
    """Draw every file of a folder into another one."""
    target.mkdir(parents=True, exist_ok=True)
    made: list[Path] = []
    for path in sorted(source.glob("*.json")):
        if source != target:
            shutil.copy(path, target)
        made.append(target / f"{path.stem}.svg")
        made[-1].write_text(drawn(json.loads(path.read_text(encoding="utf-8"))), encoding="utf-8")
    return made


PAGE: Final = """# Figures

`make figures` measures everything on this page anew and draws it. Black bars are this project, dark grey ones other libraries, light grey ones
the floor: the same work without any library of MCP. A bar is the median of the runs, and begins at zero; the line goes from the smallest to
the largest. Below each drawing stand the machine, the date, the versions and the load of the machine, which the programs measured make
themselves. A bridge beside other proxies is measured in [the bridge's guide](bridge.md#cost).

What the figures do not say: how fast *your* server is, since a tool that does something takes longer than all of this; how machines
compare, since only ratios within one drawing hold elsewhere; and anything about differences that are smaller than the lines.
"""


def page(drawings: list[Path]) -> str:
    """The page about the drawings: how each was measured is what its benchmark says of itself."""
    parts = [PAGE]
    for path in drawings:
        source = Path(__file__).with_name(f"{path.stem}.py").read_text(encoding="utf-8")
        says = ast.get_docstring(ast.parse(source)) or ""
        title, _, more = says.partition("\n\n")
        place = f"{path.parent.name}/{path.name}"
        image = f"[![What benchmarks/{path.stem}.py measured]({place})]({place})"
        parts.append(f"## {title.rstrip('.').split(': `')[0]}\n\n{image}\n\n{more}\n")
    return "\n".join(parts)


def table(folder: Path) -> str:
    """The table of README, from the files of a folder: medians, and a dash for what was not measured."""
    lines = ["| | " + " | ".join(COLUMNS) + " |", "|---" * (len(COLUMNS) + 1) + "|"]
    for label, benchmark, figure in ROWS:
        peers: dict[str, dict[str, list[float]]] = json.loads(
            (folder / f"{benchmark}.json").read_text(encoding="utf-8")
        )["peers"]
        cells: list[str] = []
        for names in COLUMNS.values():
            measured: list[list[float]] = [
                peers[name][figure] for name in names if figure in peers.get(name, {})
            ]
            cells.append(number(statistics.median(measured[0])) if measured else "–")
        lines.append(f"| {label} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def with_table(readme: str, folder: Path) -> str:
    """README with the table between its marks."""
    before, rest = readme.split(BEGIN)
    return f"{before}{BEGIN}\n{table(folder)}\n{END}{rest.split(END)[1]}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--readme", type=Path, help="write the table into this file")
    given = parser.parse_args()
    drawings = draw(given.source, given.target)
    if given.readme is not None:
        given.readme.write_text(
            with_table(given.readme.read_text(encoding="utf-8"), given.target), encoding="utf-8"
        )
    given.target.with_suffix(".md").write_text(page(drawings), encoding="utf-8")
    print(*drawings, sep="\n")
