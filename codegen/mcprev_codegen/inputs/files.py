"""Reads and writes single files: reads with a bound, writes atomically and never through a link."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from mcprev_codegen.errors import InputError, reason

LIMIT: Final = 8_000_000
"""Maximum size in bytes; upstream's largest file has a fiftieth of that."""


def read_bounded(path: Path) -> bytes:
    """Return the content of a file, at most one byte more than `LIMIT`. Raises `OSError`."""
    with path.open("rb") as file:
        return file.read(LIMIT + 1)


def read_file(path: Path) -> bytes:
    """Return the content of a file. Raises `InputError` if it cannot be read or is too large."""
    try:
        data = read_bounded(path)
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read: {reason(error)}") from None
    if len(data) > LIMIT:
        raise InputError(f"{path}: larger than {LIMIT} bytes, so it is not a schema.ts")
    return data


def resolved(path: Path) -> Path:
    """Return an absolute path without links. Raises `InputError` for a link that leads to itself, or without a folder."""
    try:
        return path.resolve()
    except (OSError, RuntimeError) as error:
        raise InputError(f"{path}: cannot be found: {reason(error)}") from None


def decoded(data: bytes, source: str) -> str:
    """Return the text of a file. Raises `InputError`."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{source}: not UTF-8: {error}") from None


def write_new(path: Path, text: str) -> None:
    """Write a new file atomically. Raises `FileExistsError` if it exists."""
    with _written(path, text) as fresh:
        path.hardlink_to(fresh)


def write_whole(path: Path, text: str) -> None:
    """Write or replace a file atomically. Raises `InputError` for a link."""
    refuse_link(path)
    with _written(path, text) as fresh:
        fresh.replace(path)


def refuse_link(path: Path) -> None:
    """Raise `InputError` for a link: what is written or deleted there would be elsewhere."""
    if path.is_symlink():
        raise InputError(f"{path}: this is a symbolic link to another folder; remove it")


@contextmanager
def _written(path: Path, text: str) -> Iterator[Path]:
    """Write a text into a new file next to a path; it is deleted at the end, unless it was moved."""
    fresh = path.with_name(f".{path.name}.new")
    fresh.unlink(missing_ok=True)
    try:
        with fresh.open("x", encoding="utf-8", newline="\n") as file:
            file.write(text)
        yield fresh
    finally:
        fresh.unlink(missing_ok=True)
