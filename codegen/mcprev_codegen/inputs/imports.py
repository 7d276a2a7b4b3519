"""Finds the files that a TypeScript file imports: beside it, and in the nearest `node_modules`, as TypeScript does."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final, cast

from mcprev_codegen.errors import InputError
from mcprev_codegen.inputs.files import decoded, read_file

_ENDINGS: Final = (".ts", ".tsx", ".d.ts", ".mts", ".d.mts", ".cts", ".d.cts")
_OF_SCRIPT: Final = {
    ".js": (".ts", ".tsx", ".d.ts"), ".jsx": (".tsx", ".d.ts"), ".mjs": (".mts", ".d.mts", ".d.ts"), ".cjs": (".cts", ".d.cts", ".d.ts"),
}  # fmt: skip
"""The files with the types of a script, by its ending."""
_CONDITIONS: Final = ("types", "import", "require", "node", "default")
_DEPTH: Final = 20
"""The maximum nesting of conditions in a package.json, and the maximum number of folders that are searched upwards."""
_PACKAGE: Final = "package.json"
_MADE_BY_CODE: Final = re.compile(r"@modelcontextprotocol/(?:sdk|core|client|server)(?:/|$)")
"""Modules whose types of MCP follow from the code of a validator, which is no declaration of data."""


class TypeScriptFiles:
    """The files of a disk. `known` finds modules that are nowhere on it, or whose types there are made by code."""

    def __init__(self, known: Callable[[str], str | None] = lambda _name: None) -> None:
        self._known = known

    def find(self, name: str, importer: str) -> str | None:
        """Return the path of the file that a module's name means in a file with a path; None if there is none."""
        if "\0" in name:
            return None
        folder = Path(os.path.realpath(importer)).parent
        if name.startswith("."):
            path = Path(os.path.normpath(folder / name))
            found = _file(path) or _entry(path, ".")
        elif _MADE_BY_CODE.match(name) and (instead := self._known(name)) is not None:
            return instead
        else:
            found = _package(folder, name)
        return str(found) if found is not None else self._known(name)

    def read(self, path: str) -> str:
        """Return the text of a file. Raises `InputError`."""
        return decoded(read_file(Path(path)), path)


def schema_file(path: Path) -> Path:
    """Return the file that is meant: a file, the index of a folder, or that of a package in `node_modules`.

    Raises `InputError` if there is none.
    """
    if path.is_file():
        return path
    found = _entry(path, ".") if path.is_dir() else _package(Path.cwd(), path.as_posix())
    if found is None:
        raise InputError(
            f"{path}: there is no such file, no index in such a folder, and no package of that name with types in a node_modules here"
        )
    return found


def index_of(folder: Path) -> Path | None:
    """Return the file of a folder that is a package or has an index; None if it has none."""
    return _entry(folder, ".")


def _file(path: Path) -> Path | None:
    """Return the file that a path without an ending, with that of a script or with its own means."""
    if path.name.endswith(_ENDINGS) and path.is_file():
        return path
    candidates = [path.with_suffix(ending) for ending in _OF_SCRIPT.get(path.suffix, ())]
    candidates += [path.with_name(path.name + ending) for ending in _ENDINGS] if path.name else []
    return next(filter(Path.is_file, candidates), None)


def _package(folder: Path, name: str) -> Path | None:
    """Return the file that a package has for a name such as `@scope/package/part`."""
    parts = name.split("/")
    package = "/".join(parts[:2] if name.startswith("@") else parts[:1])
    subpath = "." + name[len(package) :]
    if ".." in parts:
        return None
    typed = f"@types/{package.removeprefix('@').replace('/', '__')}"
    for outer in [folder, *folder.parents][:_DEPTH]:
        places = [outer / "node_modules" / package, outer / "node_modules" / typed]
        if _data(outer).get("name") == package:
            places.insert(0, outer)
        for place in places:
            if place.is_dir() and (found := _entry(place, subpath)) is not None:
                return found
    return None


def _data(folder: Path) -> Mapping[str, object]:
    """Return the package.json of a folder; an empty one if it has none that can be read."""
    try:
        value: object = json.loads(read_file(folder / _PACKAGE)) if (folder / _PACKAGE).is_file() else {}
    except (OSError, InputError, ValueError, RecursionError):
        return {}
    return cast("dict[str, object]", value) if isinstance(value, dict) else {}


def _entry(folder: Path, subpath: str) -> Path | None:
    """Return the file of a package, or of a part of it."""
    data = _data(folder)
    exported = [*_exported(data["exports"], subpath)] if "exports" in data else []
    named = (
        [data.get("types"), data.get("typings"), data.get("main"), "index"] if subpath == "." else [subpath]
    )
    for target in (*exported, *named):
        if isinstance(target, str) and _is_below(target):
            path = folder / target
            if found := _file(path) or _file(path / "index"):
                return found
    return None


def _is_below(target: str) -> bool:
    """Return whether a path of a package.json stays in the folder of its package."""
    return not target.startswith("/") and ".." not in target.split("/") and "\0" not in target


def _exported(exports: object, subpath: str) -> Iterator[str]:
    """Yield the files that `exports` of a package.json has for a part of the package, the types first."""
    whole = exports
    table = cast("dict[str, object]", exports) if isinstance(exports, dict) else {}
    if not any(key.startswith(".") for key in table):
        yield from _targets(whole, 0) if subpath == "." else ()
        return
    if subpath in table:
        yield from _targets(table[subpath], 0)
    for pattern, target in table.items():
        start, star, end = pattern.partition("*")
        if star and subpath.startswith(start) and subpath.endswith(end):
            middle = subpath[len(start) : len(subpath) - len(end)]
            yield from (found.replace("*", middle) for found in _targets(target, 0))


def _targets(target: object, depth: int) -> Iterator[str]:
    if isinstance(target, str):
        yield target
    elif isinstance(target, dict) and depth < _DEPTH:
        conditions = cast("dict[str, object]", target)
        for condition in _CONDITIONS:
            yield from _targets(conditions.get(condition), depth + 1)
    elif isinstance(target, list) and depth < _DEPTH:
        for one in cast("list[object]", target):
            yield from _targets(one, depth + 1)
