"""The subcommands of `mcprev` that need the generator, one module each; `mcprev.cli` loads them by name."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import click

from mcprev_codegen.errors import EXIT_CODE, CodegenError, InputError, reason
from mcprev_codegen.terminal import echo_lines, show_progress

FILE: Final = click.Path(path_type=Path, dir_okay=False)
"""The kind of an option that names a file."""


@contextmanager
def errors_told(*, briefly: bool = False) -> Iterator[None]:
    """Print an error that the user can fix, and exit: a wrong input, or a file that cannot be read or written."""
    try:
        yield
    except (CodegenError, OSError) as error:
        if isinstance(error, OSError):
            error = InputError(f"{error.filename}: cannot be read or written: {reason(error)}")
        show_progress("")
        text = str(error).partition("\n")[0] if briefly else str(error)
        echo_lines(f"{text}\n", err=True)
        sys.exit(EXIT_CODE)
