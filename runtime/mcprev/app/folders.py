"""Tools, resources and prompts from a folder of Python files, for `App.from_folder` and `App.add_folder`.

A file marks functions with `tool`, `resource` and `prompt` of this module, which take the options of the decorators of an
app, or has apps of its own as variables, which are mounted. The code of the files runs: a folder is trusted as the program
itself is.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable, Iterator
from importlib import import_module, invalidate_caches
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, TypeVar, overload

from mcprev.app.options import EntryOptions, ResourceOptions, ToolOptions
from mcprev.serving.source_files import READ_WHOLE

if TYPE_CHECKING:
    from typing_extensions import Unpack

F = TypeVar("F", bound=Callable[..., object])
_MARKS: Final = "__mcprev_marks__"
MAX_FILES: Final = 1_000
"""The maximum number of files in a folder."""


def _mark(function: F, kind: str, given: tuple[object, ...], options: Any) -> F:  # noqa: ANN401 - of its kind
    marks: list[tuple[str, tuple[object, ...], dict[str, Any]]] = function.__dict__.setdefault(_MARKS, [])
    marks.append((kind, given, dict(options)))
    return function


@overload
def tool(function: F, /, **options: Unpack[ToolOptions]) -> F: ...
@overload
def tool(function: None = None, /, **options: Unpack[ToolOptions]) -> Callable[[F], F]: ...
def tool(function: F | None = None, /, **options: Unpack[ToolOptions]) -> F | Callable[[F], F]:
    """Mark a function in a file of a folder as a tool; the options are those of `App.tool`."""
    return (
        (lambda each: _mark(each, "tool", (), options))
        if function is None
        else _mark(function, "tool", (), options)
    )


def resource(uri: str, **options: Unpack[ResourceOptions]) -> Callable[[F], F]:
    """Mark a function in a file of a folder as a resource or template; the options are those of `App.resource`."""
    if callable(uri):
        raise TypeError(f"{uri!r} is not a URI; pass one, as in @resource('notes://all')")
    return lambda each: _mark(each, "resource", (uri,), options)


@overload
def prompt(function: F, /, **options: Unpack[EntryOptions]) -> F: ...
@overload
def prompt(function: None = None, /, **options: Unpack[EntryOptions]) -> Callable[[F], F]: ...
def prompt(function: F | None = None, /, **options: Unpack[EntryOptions]) -> F | Callable[[F], F]:
    """Mark a function in a file of a folder as a prompt; the options are those of `App.prompt`."""
    if function is None:
        return lambda each: _mark(each, "prompt", (), options)
    return _mark(function, "prompt", (), options)


def read_folder(folder: str | Path, into: Any) -> None:  # noqa: ANN401 - an `App`, which imports this module
    """Register what the files of a folder mark, and mount their apps. Raises `ValueError` that names the file, `OSError`."""
    root = Path(folder).resolve(strict=True)
    if not root.is_dir():
        raise NotADirectoryError(f"{root} is not a folder; pass the path of one with Python files")
    package = f"{READ_WHOLE}{hashlib.sha256(os.fsencode(root)).hexdigest()[:16]}"
    if package not in sys.modules:
        made = ModuleType(package)
        made.__path__ = [str(root)]  # so that the files can import each other: `from ._shared import x`
        sys.modules[package] = made
        invalidate_caches()
    seen = set[int]()
    for count, file in enumerate(_files(root, root)):
        if count == MAX_FILES:
            raise ValueError(f"{root} has more than {MAX_FILES} files; split it into several folders")
        place = file.relative_to(root)
        try:
            module = import_module(".".join((package, *place.with_suffix("").parts)))
            for value in tuple(vars(module).values()):
                if id(value) not in seen and _register(value, into):
                    seen.add(id(value))
        except (Exception, SystemExit) as error:
            raise ValueError(f"{place}: {type(error).__name__}: {error}") from error
    if not seen:
        raise ValueError(
            f"{root} has no file with a tool, resource, prompt or app; mark functions with `tool`"
        )


def _register(value: object, into: Any) -> bool:  # noqa: ANN401 - an `App`
    """Register what a variable of a module is; return whether it is something."""
    if isinstance(value, type(into)):
        into.mount(value)
        return True
    marks: Any = getattr(value, "__dict__", {}).get(_MARKS) if callable(value) else None
    for kind, given, options in marks or ():
        getattr(into, kind)(*given, **options)(value)
    return bool(marks)


def _files(folder: Path, root: Path) -> Iterator[Path]:
    """Yield the Python files of a folder and of those in it, by name; without names that begin with `_` or `.`."""
    for path in sorted(folder.iterdir()):
        if path.name.startswith(("_", ".")):
            continue
        if path.is_symlink() and not path.resolve().is_relative_to(root):
            raise ValueError(
                f"{path.relative_to(root)}: it is a link to a file outside of the folder; move the file into the folder"
            )
        if path.is_dir():
            if not path.is_symlink():
                yield from _files(path, root)
        elif path.suffix == ".py":
            if "." in path.stem:
                raise ValueError(
                    f"{path.relative_to(root)}: the name of a module must not contain a dot; rename the file"
                )
            yield path
