"""Reads a git repository without its configuration, which can name programs that git runs.

git works in a temporary repository, which has the objects and references of the other one but neither its
configuration, hooks, attributes and remotes nor its index and working tree. Nothing is fetched.
"""

from __future__ import annotations

import os
import posixpath
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from mcprev_codegen.errors import InputError, reason

_TIMEOUT: Final = 60.0
"""The maximum time of one command in seconds."""
_FORMAT: Final = re.compile(
    r"^\s*(objectformat|refstorage)\s*=\s*(sha1|sha256|files|reftable)\s*$", re.IGNORECASE | re.MULTILINE
)
"""The settings that say how objects and references are stored; nothing else of a configuration is used."""
_SMALL: Final = 1_000_000
_COMMIT: Final = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True, slots=True)
class Repository:
    """A repository that a folder is in."""

    top: Path
    """The folder with the files of the repository."""
    folder: Path
    """The folder with the references of this checkout."""
    common: Path
    """The folder with what all checkouts of the repository share."""

    def read(self, named: str, default: str, limit: int) -> tuple[str, bytes]:
        """Return the full name and the content of the file that `REF:PATH` names, or of `default` in a folder.

        Raises `InputError` if there is none, or if it is larger than the limit.
        """
        with self._without_configuration() as environment:
            if _run(environment, named, "cat-file", "-t", named).strip() == b"tree":
                named = f"{named.rstrip('/')}{'' if named.endswith(':') else '/'}{default}"
            if int(_run(environment, named, "cat-file", "-s", named)) > limit:
                raise InputError(f"{named}: larger than {limit} bytes, so it is not a schema.ts")
            return named, _run(environment, named, "cat-file", "blob", named)

    def from_top(self, named: str, here: Path) -> str:
        """Return `REF:PATH` with a path that starts with a dot, which is relative to a folder, as one from the top."""
        ref, _, path = named.partition(":")
        if not path.startswith("."):
            return named
        inside = posixpath.normpath(posixpath.join(here.resolve().relative_to(self.top).as_posix(), path))
        return f"{ref}:{'' if inside == '.' else inside}"

    def last_change(self, path: Path, data: bytes) -> str | None:
        """Return the commit that last changed a file; None if its content is not that of the file at HEAD."""
        inside = path.resolve().relative_to(self.top).as_posix()
        try:
            if self.read(f"HEAD:{inside}", "", len(data))[1] != data:
                return None
            with self._without_configuration() as environment:
                found = _run(
                    environment, inside, "--literal-pathspecs", "rev-list", "-1", "HEAD", "--", inside
                )
        except InputError:
            return None
        commit = found.decode("ascii", "replace").strip()
        return commit if _COMMIT.fullmatch(commit) else None

    @contextmanager
    def _without_configuration(self) -> Iterator[dict[str, str]]:
        """Make the temporary repository; yields the environment of commands in it."""
        with TemporaryDirectory(prefix="mcprev-") as name:
            fresh = Path(name)
            try:
                (fresh / "objects").mkdir()
                for shared in ("refs", "packed-refs", "reftable", "shallow"):
                    if (self.common / shared).exists():
                        (fresh / shared).symlink_to((self.common / shared).resolve())
                for own in ("logs", *(path.name for path in self.folder.glob("?*HEAD"))):
                    if (self.folder / own).exists():
                        (fresh / own).symlink_to((self.folder / own).resolve())
                (fresh / "HEAD").write_bytes(_small(self.folder / "HEAD"))
                settings = _FORMAT.findall(_small(self.common / "config").decode("utf-8", "replace"))
                lines = ["[core]", "repositoryformatversion = 1", "bare = true", "[extensions]"]
                lines += [f"{key} = {value}" for key, value in settings]
                (fresh / "config").write_text("\n".join(lines), encoding="utf-8")
            except OSError as error:
                raise InputError(f"{self.folder}: not a git repository: {reason(error)}") from None
            own_settings = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
            yield own_settings | {
                "GIT_DIR": name,
                "GIT_OBJECT_DIRECTORY": str((self.common / "objects").resolve()),
                "GIT_CONFIG_NOSYSTEM": "1",
                "GIT_CONFIG_GLOBAL": os.devnull,
                "GIT_ALLOW_PROTOCOL": "",
                "GIT_NO_REPLACE_OBJECTS": "1",
                "GIT_NO_LAZY_FETCH": "1",
                "LC_ALL": "C",
            }


def find_repository(folder: Path) -> Repository | None:
    """Return the repository that a folder is in; None if it is in none."""
    folder = folder.resolve()
    for top in (folder, *folder.parents):
        place = top / ".git"
        try:
            if place.is_file():
                place = top / _small(place).decode("utf-8").removeprefix("gitdir:").strip()
            if not (place / "HEAD").is_file():
                continue
            shared = place / "commondir"
            common = place / _small(shared).decode("utf-8").strip() if shared.is_file() else place
        except (OSError, ValueError):
            continue
        return Repository(top, place, common)
    return None


def _small(path: Path) -> bytes:
    """Return the content of a file of the repository's own. Raises `OSError` if it is none, or too large."""
    if path.is_file():  # not a pipe, which could block
        with path.open("rb") as file:
            if len(data := file.read(_SMALL + 1)) <= _SMALL:
                return data
    raise OSError(f"{path.name} is not valid")


def _run(environment: dict[str, str], named: str, *arguments: str) -> bytes:
    """Return what a git command prints. Raises `InputError` if it fails."""
    command = ["git", *arguments]
    try:
        done = subprocess.run(
            command, env=environment, cwd=environment["GIT_DIR"], stdin=subprocess.DEVNULL,
            capture_output=True, check=False, timeout=_TIMEOUT,
        )  # fmt: skip
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        raise InputError(f"{named}: git failed: {reason(error)}") from None
    if done.returncode != 0:
        why = done.stderr.decode("utf-8", "replace").strip().partition("\n")[0].removeprefix("fatal: ")
        raise InputError(f"{named}: not found by git: {why or 'not found'}")
    return done.stdout
