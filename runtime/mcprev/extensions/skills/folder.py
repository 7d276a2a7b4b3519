"""Skills in a folder: each folder below it with a SKILL.md is one, and its files are read once (SK-3, SK-8, SK-14)."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from mcprev.extensions.skills.content import SkillContent, skill_content
from mcprev.extensions.skills.paths import MAX_PATH_DEPTH, SKILL_FILE
from mcprev.extensions.skills.rules import MAX_SKILL_BYTES, MAX_SKILL_FILES

MAX_SKILLS: Final = 1_000
"""The maximum number of skills in one folder."""
MAX_SKILL_ENTRIES: Final = 20_000
"""The maximum number of files and folders that are looked at for skills."""
MAX_FOLDER_BYTES: Final = 256 * 1024 * 1024
"""The maximum number of bytes of all skills of one folder."""
_OPEN: Final = (
    os.O_RDONLY
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_BINARY", 0)
)


@dataclass(slots=True)
class _Found:
    """What a folder has: the files and folders in it by path, and which folders are skills."""

    files: dict[str, Path] = field(default_factory=dict[str, Path])
    folders: set[str] = field(default_factory=lambda: {""})
    skills: list[str] = field(default_factory=list[str])


def read_skills(folder: str | Path) -> list[SkillContent]:
    """Return the skills in a folder, or the one that it is itself, by path.

    Raises `ValueError` that names the file for what no skill can have, and `OSError`.
    """
    root = Path(folder).resolve(strict=True)
    if not root.is_dir():
        raise NotADirectoryError(f"{root} is not a folder; pass the path of one with skills")
    found = _Found()
    for path, entry in _entries(root, root, ""):
        if entry is None:
            found.folders.add(path)
        else:
            found.files[path] = entry
            if path == SKILL_FILE or path.endswith(f"/{SKILL_FILE}"):
                found.skills.append(path.removesuffix(SKILL_FILE).rstrip("/"))
    if not found.skills:
        raise ValueError(
            f"{root} has no folder with a file {SKILL_FILE}; write one, such as git-workflow/{SKILL_FILE}"
        )
    if len(found.skills) > MAX_SKILLS:
        raise ValueError(f"{root} has more than {MAX_SKILLS} skills; split it into several folders")
    return _read(root, found)


def _read(root: Path, found: _Found) -> list[SkillContent]:
    """Read the files of all skills, each once."""
    data: dict[str, bytes] = {}
    left = MAX_FOLDER_BYTES
    skills: list[SkillContent] = []
    for skill in sorted(found.skills):
        start = f"{skill}/" if skill else ""
        inside = [path for path in found.files if path.startswith(start)]
        if len(inside) > MAX_SKILL_FILES:
            raise ValueError(f"{root / skill} has {len(inside)} files; a skill has 1 to {MAX_SKILL_FILES}")
        for path in inside:
            if path not in data:
                data[path] = _bytes_of(found.files[path], path, root)
                left -= len(data[path])
                if left < 0:
                    raise ValueError(f"{root} has more than {MAX_FOLDER_BYTES} bytes of skills; split it")
        folders = frozenset(path.removeprefix(start) for path in found.folders if path.startswith(start))
        name = "/".join(filter(None, (root.name if "" in found.skills else "", skill)))
        files = {path.removeprefix(start): data[path] for path in inside}
        skills.append(skill_content(name, files, folders, place=str(root / skill)))
    return skills


def _entries(folder: Path, root: Path, start: str) -> Iterator[tuple[str, Path | None]]:
    """Yield the paths below a folder by name, each with its file, or None for a folder; hidden ones are left out."""
    stack = [(folder, start)]
    count = 0
    while stack:
        folder, start = stack.pop()
        with os.scandir(folder) as listing:
            entries = sorted(listing, key=lambda each: each.name)
        for entry in entries:
            if entry.name.startswith("."):
                continue
            path, count = f"{start}{entry.name}", count + 1
            if count > MAX_SKILL_ENTRIES:
                raise ValueError(
                    f"{root} has more than {MAX_SKILL_ENTRIES} files and folders; pass a folder with skills only"
                )
            target = Path(entry.path)
            if entry.is_symlink() or getattr(entry, "is_junction", bool)():
                target = _link(target, root)
            elif entry.is_dir(follow_symlinks=False):
                if path.count("/") >= MAX_PATH_DEPTH:
                    raise ValueError(f"{folder} is more than {MAX_PATH_DEPTH} folders deep")
                yield path, None
                stack.append((target, f"{path}/"))
                continue
            elif not entry.is_file(follow_symlinks=False):
                raise ValueError(f"{target}: it is no ordinary file; remove it")
            yield path, target


def _link(link: Path, root: Path) -> Path:
    """Return the file in the same folder that a link leads to. Raises `ValueError` for any other link."""
    target = link.resolve()
    if not target.is_relative_to(root):
        raise ValueError(f"{link}: it is a link out of the folder; put the file there itself")
    hidden = any(name.startswith(".") for name in target.relative_to(root).parts)
    if hidden or not target.is_file():
        raise ValueError(f"{link}: it is a link, but not to a file that can be seen in the folder; remove it")
    return target


def _bytes_of(file: Path, path: str, root: Path) -> bytes:
    """Read an ordinary file, at most as large as a skill may be."""
    try:
        opened = os.open(file, _OPEN)
    except OSError as error:
        if error.errno == errno.ELOOP:  # it became a link after it was found
            raise ValueError(f"{root / path}: it is a link") from None
        raise
    with os.fdopen(opened, "rb") as stream:
        if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
            raise ValueError(f"{root / path}: it is no ordinary file; remove it")
        data = stream.read(MAX_SKILL_BYTES + 1)
    if len(data) > MAX_SKILL_BYTES:
        raise ValueError(
            f"{root / path} has more than {MAX_SKILL_BYTES} bytes; hosts load no more of one skill"
        )
    return data


def paths_in(folder: str | Path) -> list[str]:
    """Return the files and folders whose changes are changes of the skills, for who watches them."""
    root = Path(folder).resolve()
    return [str(root), *(str(root / path) for path, _ in _entries(root, root, ""))]
