"""Tables: aligned columns on a terminal, tab-separated rows otherwise."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Sequence
from typing import Final

import click

_NARROWEST: Final = 20


def echo_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows under a header; on a terminal, a wide last column is wrapped."""
    if not sys.stdout.isatty():
        for row in (header, *rows):
            click.echo("\t".join(row))
        return
    widths = [max(len(row[n]) for row in (header, *rows)) for n in range(len(header))]
    indent = sum(widths[:-1]) + 2 * (len(widths) - 1)
    room = max(shutil.get_terminal_size().columns - indent, _NARROWEST)
    for number, row in enumerate((header, *rows)):
        cells = [cell.ljust(width) for cell, width in zip(row[:-1], widths[:-1], strict=True)]
        last = textwrap.wrap(row[-1], room) or [""]
        click.secho("  ".join([*cells, last[0]]).rstrip(), bold=number == 0)
        for line in last[1:]:
            click.echo(" " * indent + line)


def clean(text: str) -> str:
    """Return untrusted text with unprintable characters escaped."""
    shown = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    return shown.encode(encoding, "backslashreplace").decode(encoding)
