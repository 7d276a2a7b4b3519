"""The source files of a server in a child process: the child reports what it imported, the parent looks for changes.

The child writes its files, with their times and sizes before each was read, to a file that the parent names in its environment, while it
imports the server and when more is imported later. If the import fails, these are also the files of the traceback, so that the parent notices when
the mistake is mended. Modules of Python, of mcprev and of other installed packages are left out. A folder whose files are all read, as by
`App.from_folder`, is watched for files that come: its path ends with a slash, and in place of time and size it has a number for the names in it.
"""

from __future__ import annotations

import json
import os
import sys
import sysconfig
import threading
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Final, Self, cast

from typing_extensions import override

import mcprev_types
from mcprev.core.temporary_folders import temporary_folder
from mcprev.wire.json_values import is_json_object

REPORT: Final = "MCPREV_SOURCE_FILES"
"""The environment variable with the path of the file that the child writes."""
READ_WHOLE: Final = "_mcprev_folder_"
"""How the name of a package begins whose path is a folder of which every Python file is read."""
MOST: Final = 20_000
"""How many files are watched."""
LONGEST: Final = 8 * 1024 * 1024
"""The maximum size of a report, in bytes."""
AGAIN: Final = 0.5
"""Seconds between two looks at what was imported."""
INSTALLED: Final = tuple(
    {
        f"{Path(__file__).parents[1]}/",
        f"{Path(str(mcprev_types.__file__)).parent}/",
        *(f"{sysconfig.get_path(name)}/" for name in ("stdlib", "platstdlib", "purelib", "platlib")),
    }
)
"""The beginnings of the paths of mcprev, of Python's own modules and of installed ones."""
_Stamp = tuple[int, int] | None
"""The time and size of a file; None if it is not there."""


def is_own_source(name: str) -> bool:
    """Return whether a path is that of a file of the author: not of Python, of mcprev or of an installed package."""
    return not name.startswith(INSTALLED) and Path(name).is_file()


# -- the child -----------------------------------------------------------------------------------------------


_BESIDE: Final[dict[str, _Stamp]] = {}
"""What is watched beside modules, with its stamp before it was read."""


def watch_too(paths: Iterable[str]) -> None:
    """Report files, and folders whose entries come and go, beside those that are imported; call it before they are read."""
    if os.environ.get(REPORT):
        _BESIDE.update((path, _stamp(path)) for path in (str(Path(each).absolute()) for each in paths))


@contextmanager
def reported_imports() -> Iterator[None]:
    """Report the files that the block imports, and that are imported later, if the environment asks for it."""
    path = os.environ.get(REPORT)
    if not path:
        yield
        return
    known: dict[str, _Stamp] = {}
    finder = _Stamping(known)
    sys.meta_path.insert(0, finder)
    try:
        yield
    except BaseException as error:
        sys.meta_path.remove(finder)
        _add_stamps(known, _files_of(error))
        _write(path, _imported(known))
        raise
    _write(path, _imported(known))
    threading.Thread(
        target=_go_on, args=(path, known, len(known)), name="mcprev-source-files", daemon=True
    ).start()


class _Stamping(MetaPathFinder):
    """Notes the time and size of each file before it is imported: it may be changed while the import goes on."""

    def __init__(self, known: dict[str, _Stamp]) -> None:
        self._known = known

    @override
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname.startswith(READ_WHOLE) and path:
            _add_folder(self._known, next(iter(sys.modules[fullname.partition(".")[0]].__path__)))
        finders = sys.meta_path
        for finder in finders[finders.index(self) + 1 :] if self in finders else ():
            found = finder.find_spec(fullname, path, target)
            if found is not None:
                if found.has_location and found.origin is not None:
                    _add_stamps(self._known, [found.origin])
                return found
        return None


def _add_stamps(known: dict[str, _Stamp], names: Iterable[str]) -> None:
    """Add files of the author that are not known yet, each with its time and size now."""
    for name in names:
        path = str(Path(name).absolute())
        if path not in known and is_own_source(path):
            known[path] = _stamp(path)


def _add_folder(known: dict[str, _Stamp], folder: str) -> None:
    """Add a folder that is read whole, with the names in it now."""
    path = f"{Path(folder).absolute()}/"
    if path not in known and not path.startswith(INSTALLED):
        known[path] = _stamp(path)


def _go_on(path: str, known: dict[str, _Stamp], written: int) -> None:
    count = len(sys.modules)
    while Path(path).exists():
        threading.Event().wait(AGAIN)
        if len(sys.modules) != count:
            count = len(sys.modules)
            if len(_imported(known)) != written:
                written = len(known)
                _write(path, known)


def _imported(known: dict[str, _Stamp]) -> dict[str, _Stamp]:
    """Add the files of all modules to those that are known."""
    modules = cast("list[ModuleType | None]", list(sys.modules.values()))
    names = (getattr(module, "__file__", None) for module in modules)
    _add_stamps(known, [name for name in names if isinstance(name, str)])
    for name, module in list(sys.modules.items()):
        if name.startswith(READ_WHOLE) and "." not in name:
            _add_folder(known, next(iter(module.__path__)))
    known.update((path, stamp) for path, stamp in tuple(_BESIDE.items()) if path not in known)
    return known


def _files_of(error: BaseException | None) -> Iterator[str]:
    """Yield the files of a traceback, of the errors behind it, and of what could not be parsed."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        if isinstance(error, SyntaxError) and error.filename is not None and is_own_source(error.filename):
            yield error.filename
        frame: TracebackType | None = error.__traceback__
        while frame is not None:
            name = frame.tb_frame.f_code.co_filename
            if is_own_source(name):
                yield name
            frame = frame.tb_next
        error = error.__cause__ or error.__context__


def _write(path: str, known: Mapping[str, _Stamp]) -> None:
    """Replace the report; without one, only what is known already is watched."""
    with suppress(OSError):
        temporary = f"{path}.{os.getpid()}"
        Path(temporary).write_text(json.dumps(dict(sorted(known.items())[:MOST])), "utf-8")
        Path(temporary).replace(path)


# -- the parent ----------------------------------------------------------------------------------------------


class SourceFiles:
    """The files of a server, and whether they have changed since the last look."""

    def __init__(self, first: Iterable[str] = ()) -> None:
        """Watch files that are known before the child reports its own."""
        self._folder = temporary_folder("watching source files")
        self._report = Path(self._folder.name, "source-files.json")
        self._read: _Stamp = None
        self._stamps: dict[str, _Stamp] = {}
        self._add({(path := str(Path(name).absolute())): _stamp(path) for name in first})

    @property
    def environment(self) -> dict[str, str]:
        """The variables with which the child reports its files."""
        return {REPORT: str(self._report)}

    @property
    def names(self) -> list[str]:
        """The files that are watched."""
        return sorted(self._stamps)

    def changed(self) -> list[str]:
        """Return the files that were changed, made or removed since the last call."""
        found: list[str] = []
        for name, before in self._stamps.items():
            now = _stamp(name)
            if now != before:
                self._stamps[name] = now
                found.append(name)
        self._learn()
        return found

    def close(self) -> None:
        """Remove the report; children stop to write it."""
        self._folder.cleanup()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _learn(self) -> None:
        """Watch the files that the child reports."""
        now = _stamp(str(self._report))
        if now is None or now == self._read or now[1] > LONGEST:
            return
        self._read = now
        with suppress(OSError, ValueError):
            found: object = json.loads(self._report.read_text("utf-8"))
            if is_json_object(found):
                # The child's stamps count, because a file may have changed since it was imported.
                self._add({name: _read_stamp(stamp) for name, stamp in found.items()})

    def _add(self, stamps: Mapping[str, _Stamp]) -> None:
        for name, stamp in stamps.items():
            if name not in self._stamps and len(self._stamps) < MOST:
                self._stamps[name] = stamp


def _read_stamp(value: object) -> _Stamp:
    """Return a stamp out of a report; None for any other value."""
    match value:
        case [int(time), int(size)]:
            return time, size
        case _:
            return None


def _stamp(name: str) -> _Stamp:
    if name.endswith("/"):
        names = sorted(_names_in(name))
        return zlib.crc32("\n".join(names).encode(errors="surrogateescape")), len(names)
    try:
        found = os.stat(name)  # noqa: PTH116 - a path object for each of many files takes longer
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


def _names_in(folder: str) -> Iterator[str]:
    """Yield the Python files of a folder and of those in it, as far as they are read with it: without `_` or `.` at the beginning."""
    inside = 0
    for where, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(("_", "."))]
        found = [name for name in files if name.endswith(".py") and not name.startswith(("_", "."))]
        yield from (f"{where}/{name}" for name in found)
        inside += len(found) + len(folders)
        if inside > MOST:
            return
