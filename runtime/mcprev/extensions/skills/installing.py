"""Puts a skill of a server into a folder of a host, as files that were checked (SK-22, SK-24, SK-28).

The folder says where it is from, in a file of its own. Nothing is written before all files were read and checked, and
nothing outside of one new folder.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Final, cast

from typing_extensions import Unpack

from mcprev.errors import Json
from mcprev.extensions.skills.client import HeldSkill, InvalidSkill, SkillFile
from mcprev.extensions.skills.paths import clash_among, path_error

if TYPE_CHECKING:
    from mcprev.client.options import Options

ORIGIN: Final = ".mcp-origin.json"
"""The file in the folder of an installed skill that says which server and URI it is from, with the digests of its files."""
_MOST: Final = 1_000_000
_NEW: Final = ".mcprev-new-"
_WRITE: Final = (
    os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
)


@dataclass(frozen=True, slots=True)
class SkillInstallation:
    """What is to be written where: to be shown before `install_skill` does it."""

    skill: HeldSkill
    folder: Path
    """The folder of the skill, which has its name."""
    origin: str
    """The server: a name or URL that its user knows it by."""
    before: dict[str, Json] | None
    """What the folder says of its origin, if a skill was installed there before; empty if it says nothing."""

    @property
    def is_other(self) -> bool:
        """Whether what is there is from another server or another skill, or is not known to be of any."""
        if self.before is None:
            return False
        return (self.before.get("server"), self.before.get("uri")) != (self.origin, self.skill.uri)


def planned_installation(skill: HeldSkill, folder: str | Path, origin: str) -> SkillInstallation:
    """Return what installing a loaded skill below a folder would write; nothing is read from the server yet.

    Raises `InvalidSkill` for a skill whose files cannot be checked or not be written on every system, `ValueError` for a place
    that is a link or no folder, and `OSError`.
    """
    if skill.dynamic:
        raise InvalidSkill(
            f"the skill '{skill.uri:.200}' is dynamic: its server gives no digests, so it cannot be checked"
        )
    for path in skill.files:
        wrong = path_error(path)
        if wrong is not None:
            raise InvalidSkill(
                f"the skill '{skill.uri:.200}' has the file {path!r:.200}: {wrong}; it is not written"
            )
    clash = clash_among(skill.files)
    if clash is not None:
        raise InvalidSkill(
            f"the skill '{skill.uri:.200}' has {clash[0]!r:.200} and {clash[1]!r:.200}: one path on some systems"
        )
    place = Path(folder).absolute() / skill.name
    before: dict[str, Json] | None = None
    if place.is_symlink() or (place.exists() and not place.is_dir()):
        raise ValueError(f"{place} is a link or a file; remove it, or choose another folder")
    if place.is_dir():
        before = _origin_of(place)
    return SkillInstallation(skill, place, origin, before)


async def install_skill(
    plan: SkillInstallation, *, replace: bool = False, **options: Unpack[Options]
) -> Path:
    """Read and check all files, write them, and return the folder. The options are those of `Client.call_tool`.

    A folder that is there is replaced as a whole, and only with `replace`. Raises `FileExistsError`, `OSError`, and the errors of
    `HeldSkill.read`.
    """
    _check_free(plan.folder, replace=replace)
    _write_all(plan, [await plan.skill.read(path, **options) for path in plan.skill.files], replace=replace)
    return plan.folder


def _check_free(folder: Path, *, replace: bool) -> None:
    if not replace and (folder.exists() or folder.is_symlink()):
        raise FileExistsError(errno.EEXIST, "it is there already", str(folder))


def _write_all(plan: SkillInstallation, read: list[SkillFile], *, replace: bool) -> None:
    parent = plan.folder.parent
    parent.mkdir(parents=True, exist_ok=True)
    new = Path(mkdtemp(prefix=_NEW, dir=parent))
    try:
        for file in read:
            _write(new, file.path, file.data)
        said = {
            "server": plan.origin,
            "uri": plan.skill.uri,
            "files": {path: file.digest for path, file in plan.skill.files.items()},
        }
        _write(new, ORIGIN, json.dumps(said, indent=2).encode() + b"\n")
        new.chmod(0o755)
        _check_free(plan.folder, replace=replace)  # it may have come meanwhile
        _exchange(new, plan.folder)
    finally:
        shutil.rmtree(new, ignore_errors=True)


def _write(root: Path, path: str, data: bytes) -> None:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    with os.fdopen(os.open(file, _WRITE, 0o644), "wb") as stream:
        stream.write(data)


def _exchange(new: Path, place: Path) -> None:
    """Put a new folder in the place of the one before, which is removed at the end."""
    old = None
    if place.exists():
        old = Path(mkdtemp(prefix=_NEW, dir=place.parent))
        place.rename(old / place.name)
    try:
        new.rename(place)
    except OSError:
        if old is not None:
            (old / place.name).rename(place)
        raise
    finally:
        if old is not None:
            shutil.rmtree(old, ignore_errors=True)


def _origin_of(place: Path) -> dict[str, Json]:
    file = place / ORIGIN
    try:
        if file.is_symlink() or file.stat().st_size > _MOST:
            return {}
        found: object = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return cast("dict[str, Json]", found) if isinstance(found, dict) else {}
