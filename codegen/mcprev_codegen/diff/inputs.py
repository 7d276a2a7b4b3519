"""Loads the inputs of a comparison: a pinned revision, or a schema.ts by path, URL or git object."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Final
from urllib.parse import urlsplit

from mcprev_codegen import inputs
from mcprev_codegen.errors import InputError
from mcprev_codegen.facts import Revision, load_bytes, load_file, load_revision

SUFFIX: Final = ".ts"
SCHEMA_FILE: Final = "schema.ts"
_GIT: Final = re.compile(r"[^-:\\/][^:\\]+:[^\\].*")
"""`REF:PATH`, as `git show` accepts it; not `C:\\folder`."""


class UnknownRevisionError(ValueError):
    """Raised for a name that is neither a pinned revision nor the path of a file."""


def load_input(folder: inputs.SchemaFolder, named: str, roots: Sequence[str] = ()) -> Revision:
    """Return the pinned revision of that name, the version of an extension (`tasks@draft`), or that of the schema.ts at a path,
    folder, URL or `REF:PATH`.

    A file on disk is read with what it imports; a folder may also have an index.ts or be an npm package. `roots` are the types to
    read of a file, with what they need.

    Raises `UnknownRevisionError` for a name that is none of these, `CodegenError` if a schema cannot be loaded.
    """
    pins = inputs.load_pins(folder)
    if named in pins and roots:
        raise UnknownRevisionError(f"--root is for files, and '{named}' is a revision: name two files")
    if named in pins:
        return load_revision(folder, named)
    extension, version = inputs.split_name(named)
    if extension in inputs.load_extensions(folder) and extension is not None and not roots:
        return load_revision(inputs.extension_folder(folder, extension), version)
    if inputs.is_url(named):
        return _loaded(
            folder, inputs.fetch(named), inputs.without_secrets(named), urlsplit(named).path, roots
        )
    path = Path(named)
    if _is_git(named):
        found, data = _git_file(named)
        return _loaded(folder, data, found, found.partition(":")[2], roots)
    if path.is_dir():
        own = path / SCHEMA_FILE
        path = own if own.is_file() else inputs.index_of(path) or own
    if not (path.suffix == SUFFIX or os.sep in named or path.exists()):
        known = ", ".join(pins) or "none"
        raise UnknownRevisionError(
            f"'{named}' is neither a revision (known: {known}, latest) nor a version of an extension, such as tasks@draft, nor a "
            "schema.ts: a path, a URL or REF:PATH"
        )
    if not path.is_file():
        raise InputError(f"{path}: no such file")
    return load_file(folder, path, roots=roots)


def _loaded(
    folder: inputs.SchemaFolder, data: bytes, source: str, path: str, roots: Sequence[str]
) -> Revision:
    return load_bytes(folder, data, source, PurePosixPath(path).parent.name, roots=roots)


def _is_git(named: str) -> bool:
    return _GIT.fullmatch(named) is not None and not Path(named).exists()


def checkout_file(source: str) -> str | None:
    """Return the path of an input within the checkout, for tools that annotate files; None for a URL."""
    if inputs.is_url(source):
        return None
    if _is_git(source):
        return source.partition(":")[2]
    path = Path(source)
    return os.path.relpath(path) if path.is_absolute() and path.is_relative_to(Path.cwd()) else source


def _git_file(named: str) -> tuple[str, bytes]:
    """Return the full name and the content of a file in the repository of the current folder."""
    here = Path.cwd()
    repository = inputs.find_repository(here)
    if repository is None:
        raise InputError(f"{named}: not a git repository: {here}")
    try:
        return repository.read(repository.from_top(named, here), SCHEMA_FILE, inputs.LIMIT)
    except InputError as error:
        raise InputError(f"{named}: {str(error).partition(': ')[2]}") from None
