"""Tables: aligned columns on a terminal, one tab-separated row a line when piped."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence

import click


def echo_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows under a header; on a terminal the last column is cut where it would wrap."""
    if not sys.stdout.isatty():
        for row in (header, *rows):
            click.echo("\t".join(row))
        return
    widths = [max(len(row[n]) for row in (header, *rows)) for n in range(len(header))]
    room = shutil.get_terminal_size().columns
    for number, row in enumerate((header, *rows)):
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        line = "  ".join(cells).rstrip()
        if len(line) > room:
            line = line[: room - 1] + "…"
        click.secho(line, bold=number == 0)
