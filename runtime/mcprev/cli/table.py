"""The one way of the commands to a terminal; foreign text passes `clean`.

The text of a peer, a file or an argument never becomes a control sequence, a line of its own or another order of
characters. `mcprev_codegen.terminal` does the same for the generator, since neither package imports the other.
"""

from __future__ import annotations

import json
import logging
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Final, TypeAlias

import click
from typing_extensions import override

_NARROWEST: Final = 20
_LONG_WORD: Final = re.compile(r"\S{500}(?=\S)")
"""Words that are broken before lines are filled: that takes quadratic time in the length of a word."""
_ERASE: Final = "\r\x1b[K"
_ExcInfo: TypeAlias = (
    "tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]"
)


def echo(text: str = "", *, err: bool = False, bold: bool = False) -> None:
    """Print one line, whatever the text contains."""
    _print(click.style(clean(text), bold=True) if bold else clean(text), err=err)


def echo_lines(text: str, *, err: bool = False) -> None:
    """Print lines whose foreign parts have passed `clean`."""
    _print("\n".join(map(clean, text.split("\n"))), err=err)


def echo_question(text: str) -> None:
    """Print the beginning of a line to stderr, which the user ends with an answer."""
    click.echo(clean(text), err=True, nl=False)


def show_progress(text: str) -> None:
    """Show a line on stderr that the next one replaces, if stderr is a terminal; an empty text erases it."""
    if sys.stderr.isatty():
        room = max(shutil.get_terminal_size().columns - 1, _NARROWEST)
        click.echo(_ERASE + clean(text)[:room], err=True, nl=False)


def echo_json(value: Mapping[str, object]) -> None:
    """Print a JSON object, with all other characters than ASCII's escaped."""
    _print(json.dumps(value, indent=2))


def echo_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows under a header; on a terminal, a wide last column is wrapped."""
    rows = [[clean(cell) for cell in row] for row in rows]
    if not sys.stdout.isatty():
        for row in (header, *rows):
            _print("\t".join(row))
        return
    widths = [max(len(row[n]) for row in (header, *rows)) for n in range(len(header))]
    indent = sum(widths[:-1]) + 2 * (len(widths) - 1)
    room = max(shutil.get_terminal_size().columns - indent, _NARROWEST)
    for number, row in enumerate((header, *rows)):
        cells = [cell.ljust(width) for cell, width in zip(row[:-1], widths[:-1], strict=True)]
        last = textwrap.wrap(_LONG_WORD.sub(r"\g<0> ", row[-1]), room) or [""]
        echo("  ".join([*cells, last[0]]).rstrip(), bold=number == 0)
        for line in last[1:]:
            echo(" " * indent + line)


def clean(text: str) -> str:
    """Return foreign text with each character escaped that is not printable, line ends included."""
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


class CleanFormatter(logging.Formatter):
    """Formats records of a log for a terminal: one line, and those of a traceback."""

    @override
    def formatMessage(self, record: logging.LogRecord) -> str:
        return clean(super().formatMessage(record))

    @override
    def formatException(self, ei: _ExcInfo) -> str:
        return "\n".join(map(clean, super().formatException(ei).split("\n")))


def encodable(text: str, *, err: bool = False) -> str:
    """Return a text with each character escaped that the encoding of stdout, or stderr, does not have."""
    encoding = getattr(sys.stderr if err else sys.stdout, "encoding", None) or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)


def _print(text: str, *, err: bool = False) -> None:
    try:
        click.echo(encodable(text, err=err), err=err)
    except BrokenPipeError:
        close_broken_pipes()  # the command goes on: its exit code says how it ended


def close_broken_pipes() -> None:
    """Discard what is left to print where nobody reads on, such as `head` after its lines: Python flushes it at exit."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BrokenPipeError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())
            os.close(nowhere)
