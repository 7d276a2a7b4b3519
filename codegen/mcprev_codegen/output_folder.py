"""Writes folders of generated files: replaces and deletes generated files only, and keeps all other files.

A folder is written only if it is empty or contains generated files. All files are first written to a staging folder
next to it and then moved into place. If the run is killed, every file is complete, old or new, and the next run writes
the rest. A package is written before the index that lists it, and deleted after the index no longer lists it.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mcprev_codegen.errors import InputError

_CACHE: Final = "__pycache__"
_HEAD: Final = 1000
_STAGED: Final = ".mcprev-generate"
"""The file that marks a staging folder, which a killed run may leave behind."""


@dataclass(frozen=True, slots=True)
class Tree:
    """The files of one folder."""

    target: Path
    files: Mapping[str, str]
    """Text by path within the folder."""
    whole: bool
    """Whether `files` are all generated files of the folder; other generated files are then deleted."""
    is_generated: Callable[[str, str], bool]
    """Returns whether a file is generated, by its path within the folder and the start of its text."""
    known_by: tuple[str, ...]
    """Files at the top of every such folder, any of which identifies it as generated; the first is written first."""
    purpose: str = ""
    """What such a folder is written for, in errors."""
    command: str = "mcprev generate"
    """The command that writes such a folder, in errors."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The changes to a folder."""

    tree: Tree
    written: tuple[str, ...]
    """Generated files that are missing or different."""
    deleted: tuple[str, ...]
    """Generated files that are obsolete."""
    foreign: tuple[str, ...]
    """Files that are not generated; they are kept."""


def planned_changes(tree: Tree) -> Plan:
    """Return the changes to a folder. Raises `InputError` for a link, and for a folder that is neither empty nor generated."""
    if tree.target.is_symlink():
        raise InputError(f"{tree.target}: this is a symbolic link; pass the folder to which it points")
    if tree.target.exists() and not tree.target.is_dir():
        raise InputError(f"{tree.target}: this is a file; pass a folder")
    present: list[str] = []
    if any(_is_generated(tree, name) for name in tree.known_by):
        present = sorted(_files(tree.target))
    elif (other := next(_files(tree.target), None)) is not None:
        raise InputError(
            f"{tree.target}: this folder is neither empty nor written by `{tree.command}`{tree.purpose} "
            f"(it contains {other}); nothing was changed; pass another folder"
        )
    written = [name for name, text in tree.files.items() if _read(tree.target / name) != text]
    for name in written:
        _check_place(tree, name)
    others = [name for name in present if name not in tree.files]
    deleted = [name for name in others if tree.whole and _is_generated(tree, name)]
    foreign = [name for name in others if not _is_generated(tree, name)] if tree.whole else []
    return Plan(tree, tuple(sorted(written)), tuple(sorted(deleted)), tuple(sorted(foreign)))


def apply_plans(plans: Sequence[Plan]) -> None:
    """Carry out the changes. An error or a kill before the first move changes nothing."""
    staged: list[tuple[Path, Path]] = []
    folders = [_staging(p.tree.target) for p in plans if p.written or p.deleted]
    try:
        for p, folder in zip([p for p in plans if p.written or p.deleted], folders, strict=True):
            folder.mkdir(parents=True)
            (folder / _STAGED).touch()
            for name in sorted(p.written, key=_order(p.tree)):
                path = folder / "new" / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(p.tree.files[name], encoding="utf-8", newline="\n")
                staged.append((path, p.tree.target / name))
        for fresh, place in staged:
            place.parent.mkdir(parents=True, exist_ok=True)
            fresh.replace(place)
        for p in plans:
            # The `__init__.py` that identifies a package as generated is deleted last.
            for name in sorted(
                p.deleted, key=lambda name: (name.endswith("__init__.py"), -name.count("/"), name)
            ):
                _delete(p.tree.target, p.tree.target / name)
    finally:
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)


def _order(tree: Tree) -> Callable[[str], tuple[int, str]]:
    """Return the sort key of files: the file that identifies the folder first, files that refer to others last."""

    def rank(name: str) -> tuple[int, str]:
        if name == tree.known_by[0]:
            return 0, name
        return (1 if "/" in name or (name.startswith("_") and name != "__init__.py") else 2), name

    return rank


def _files(target: Path) -> Iterator[str]:
    """Yield every file below a folder, and every link, except for bytecode caches."""
    for found, folders, files in os.walk(target):
        folders[:] = sorted(name for name in folders if name != _CACHE)
        paths = sorted(Path(found, name) for name in (*files, *folders))
        yield from (
            path.relative_to(target).as_posix() for path in paths if path.is_symlink() or not path.is_dir()
        )


def _is_generated(tree: Tree, name: str) -> bool:
    path = tree.target / name
    try:
        if path.is_symlink():
            return False
        with path.open(encoding="utf-8") as file:
            return tree.is_generated(name, file.read(_HEAD))
    except (OSError, UnicodeDecodeError):
        return False


def _check_place(tree: Tree, name: str) -> None:
    """Raise `InputError` if a file or folder that is not generated is in the way of a generated file.

    In a package that is known as generated, a file without the header counts as an edited generated file.
    """
    path = tree.target / name
    for above in reversed(path.relative_to(tree.target).parents[:-1]):
        if (tree.target / above).is_symlink():
            raise InputError(f"{tree.target / above}: this is a symbolic link to another folder; remove it")
        if os.path.lexists(tree.target / above) and not (tree.target / above).is_dir():
            raise InputError(f"{tree.target / above}: a folder has to be written here; move this file away")
    if not os.path.lexists(path):
        return
    folder, _, _ = name.rpartition("/")
    known = not folder or _is_generated(tree, f"{folder}/__init__.py")
    if path.is_dir() or path.is_symlink() or not (known or _is_generated(tree, name)):
        raise InputError(
            f"{path}: this path is needed, but was not written by this version of `{tree.command}`; move it away"
        )


def _read(path: Path) -> str | None:
    try:
        return None if path.is_symlink() else path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None


def _staging(target: Path) -> Path:
    """Return the staging folder of a target, after deleting one that a killed run left behind."""
    folder = target.parent / f".{target.name}.new"
    if os.path.lexists(folder):
        if folder.is_symlink() or (not (folder / _STAGED).is_file() and any(folder.iterdir())):
            raise InputError(f"{folder}: this folder is needed for new files, but is not empty; move it away")
        shutil.rmtree(folder)
    return folder


def _delete(target: Path, path: Path) -> None:
    """Delete a file, its bytecode and the folders that become empty."""
    path.unlink()
    for copy in _copies(path):
        copy.unlink()
    for folder in (path.parent / _CACHE, *path.parents):
        if folder == target or folder.is_symlink() or not folder.is_dir() or any(folder.iterdir()):
            if folder.name != _CACHE:
                return
        else:
            folder.rmdir()


def _copies(path: Path) -> Iterator[Path]:
    cache = path.parent / _CACHE
    return iter(()) if path.suffix != ".py" or cache.is_symlink() else cache.glob(f"{path.stem}.*.pyc")
