"""Reads and replaces the configuration of a host: whole, as it was read, with a copy of what was before.

A file that is a symbolic link, no regular file, or somebody else's is refused: what is written could go to where nobody
expects it. The new file has the mode of the old one; where a file is new, only its owner can read it.
"""

from __future__ import annotations

import errno
import os
import shlex
import stat
import time
from pathlib import Path
from tempfile import mkstemp
from typing import Final

from mcprev.client.host_config import read_text
from mcprev.platforms import HERE

_COPIES: Final = 1000
_TEMPORARY: Final = ".mcprev-new-"
_BINARY: Final = getattr(os, "O_BINARY", 0)


def read_own(file: Path, *, below: Path | None = None) -> str | None:
    """Return the text of a configuration that is to be changed; None if there is no file.

    `below` is the folder of a project, below which nothing may be a symbolic link. Raises `OSError`, and `ValueError` for
    a file that is not safe to replace.
    """
    _check_folders(file, below)
    try:
        return read_text(file, flags=HERE.no_follow, check=_check_owner)
    except FileNotFoundError:
        return None
    except OSError:
        if file.is_symlink():
            raise ValueError(
                f"'{file}' is a symbolic link; pass the file that it points to, {str(file.resolve())!r}, in place of the host"
            ) from None
        raise


def _check_owner(file: Path, found: os.stat_result) -> None:
    if HERE.belongs_to_another(found):
        raise ValueError(f"'{file}' belongs to another user; run the command as that user")


def _check_folders(file: Path, below: Path | None) -> None:
    if file.is_symlink() and not HERE.no_follow:
        raise ValueError(f"'{file}' is a symbolic link; pass the file that it points to")
    for folder in file.parents:
        if below is not None and folder.is_symlink() and folder.is_relative_to(below) and folder != below:
            raise ValueError(
                f"the folder '{folder}' is a symbolic link, which is not accepted in a project; replace it with a real folder"
            )
    folder = file.parent
    if folder.is_dir():
        found = folder.stat()
        if HERE.is_written_by(stat.S_IWOTH, found) and not found.st_mode & stat.S_ISVTX:
            raise ValueError(
                f"everybody can write into the folder '{folder}': run `chmod o-w {shlex.quote(str(folder))}`"
            )


def replace_text(file: Path, before: str | None, after: str) -> Path | None:
    """Replace the text of a configuration that was read as `before`, and return the copy of it, if there was a file.

    Raises `OSError`, and `ValueError` if the file has changed since it was read; then nothing is changed.
    """
    mode = 0o600 if before is None else stat.S_IMODE(file.lstat().st_mode)
    copy: Path | None = None
    temporary = _temporary(file, after, mode)
    try:
        copy = None if before is None else _copied(file, before, mode)
        _check_same(file, before)  # last, since writing a copy takes its time
        HERE.replace(temporary, file)
    except BaseException:
        for made in (temporary, copy):
            if made is not None:
                made.unlink(missing_ok=True)
        raise
    return copy


def write_file(file: Path, text: str, *, replace: bool, mode: int = 0o666) -> None:
    """Write a whole file: a new one with a mode that the umask limits, another one in its place only with `replace`.

    Raises `FileExistsError` for a file that is there already, and `OSError`, also for one that is no regular file, such as
    a device.
    """
    made = True
    try:
        os.close(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BINARY, mode))
    except FileExistsError:
        if not replace:
            raise
        if not stat.S_ISREG(file.stat().st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file", str(file)) from None
        made = False
    temporary: Path | None = None
    try:
        temporary = _temporary(file, text, stat.S_IMODE(file.stat().st_mode) | mode & stat.S_IXUSR)
        HERE.replace(temporary, file)
    except BaseException:
        for path in (temporary, file if made else None):
            if path is not None:
                path.unlink(missing_ok=True)
        raise


def _temporary(file: Path, text: str, mode: int) -> Path:
    """Write a text to a file of another name in the same folder, which then takes the place of the file."""
    descriptor, name = mkstemp(dir=file.parent, prefix=_TEMPORARY)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(text.encode("utf-8"))
            stream.flush()
            os.fsync(stream.fileno())
        Path(name).chmod(mode)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    return Path(name)


def _check_same(file: Path, before: str | None) -> None:
    if read_own(file) != before:
        raise ValueError(f"'{file}' was changed by another program meanwhile; run the command again")


def _copied(file: Path, text: str, mode: int) -> Path:
    """Write a copy with a name that no file has."""
    stem = f"{file.name}.{time.strftime('%Y%m%d-%H%M%S')}"
    for number in range(_COPIES):
        copy = file.with_name(f"{stem}{f'-{number}' if number else ''}.bak")
        try:
            descriptor = os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BINARY, 0o600)
        except FileExistsError:
            continue
        try:
            with os.fdopen(descriptor, "wb") as stream:
                stream.write(text.encode("utf-8"))
                stream.flush()
                os.fsync(stream.fileno())
            copy.chmod(mode)
        except BaseException:
            copy.unlink(missing_ok=True)
            raise
        return copy
    raise FileExistsError(f"there are too many copies of '{file}'; delete some of them")
