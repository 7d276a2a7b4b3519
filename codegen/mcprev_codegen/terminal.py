"""The one way of the generator to a terminal: commands print with `echo` and `echo_lines`, foreign text passes `clean`.

The text of a schema, a file, a URL or a path never becomes a control sequence, a line of its own or another order of
characters. `mcprev.cli.table` does the same for the runtime, since neither package imports the other.
"""

from __future__ import annotations

import os
import re
import sys
from typing import Final

import click

from mcprev_codegen.errors import clean

_LINE_END: Final = re.compile(r"(\n)")
_LINE_END_OR_COLOUR: Final = re.compile(r"(\n|\x1b\[[0-9;]*m)")
_ERASE: Final = "\r\x1b[K"


def echo(text: str, *, err: bool = False) -> None:
    """Print one line, whatever the text contains."""
    echo_lines(clean(text) + "\n", err=err)


def echo_lines(text: str, *, err: bool = False, coloured: bool = False) -> None:
    """Print lines whose foreign parts have passed `clean`; only line ends, and colours if there are some, remain."""
    encoding = getattr(sys.stderr if err else sys.stdout, "encoding", None) or "utf-8"
    parts = (_LINE_END_OR_COLOUR if coloured else _LINE_END).split(text)
    shown = "".join(part if n % 2 else clean(part) for n, part in enumerate(parts))
    try:
        click.echo(shown.encode(encoding, "backslashreplace").decode(encoding), err=err, nl=False)
    except BrokenPipeError:
        # Nobody reads on, such as `head` after its lines. The command goes on: its exit code says how it ended.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, (sys.stderr if err else sys.stdout).fileno())
        os.close(nowhere)


def show_progress(text: str) -> None:
    """Show a line on stderr that the next one replaces, if stderr is a terminal; an empty text erases it."""
    if sys.stderr.isatty():
        click.echo(_ERASE + clean(text), err=True, nl=False)
