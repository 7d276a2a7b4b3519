"""What the user named as a side of a comparison: a pinned revision, or a schema.ts by its path."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from mcprev_codegen.errors import InputError
from mcprev_codegen.revisions import load_pins
from mcprev_codegen.sources import Revision, load, load_file

SUFFIX: Final = ".ts"
FILE: Final = "schema.ts"


class UnknownRevisionError(ValueError):
    """A name that is neither a pinned revision nor looks like a path."""


def load_side(folder: Path, named: str) -> Revision:
    """The revision of that name, the schema.ts at that path, or the one in that folder.

    Raises `UnknownRevisionError` for a name that is neither, `CodegenError` when a schema cannot be loaded.
    """
    pins = load_pins(folder)
    if named in pins:
        return load(folder, named)
    path = Path(named)
    if path.is_dir():
        path /= FILE
    if not (path.suffix == SUFFIX or os.sep in named or path.exists()):
        known = ", ".join(pins) or "none"
        raise UnknownRevisionError(f"'{named}' is neither a revision (known: {known}) nor a schema.ts file")
    if not path.is_file():
        raise InputError(f"{path}: no such file")
    return load_file(folder, path, lenient=True)
