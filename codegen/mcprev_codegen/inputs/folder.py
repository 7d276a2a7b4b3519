"""The schema folder: the inputs of every command, each of which is read once."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from typing import Final, TypeVar, TypeVarTuple, cast

from mcprev_codegen.errors import InputError
from mcprev_codegen.inputs.files import read_bounded
from mcprev_codegen.inputs.tables import Table, read_table

PINS: Final = "revisions.toml"
R = TypeVar("R")
Ts = TypeVarTuple("Ts")


@dataclass(frozen=True, eq=False)
class SchemaFolder:
    """A folder with pins, contracts, overlay and descriptions; it remembers what was read from it.

    That of an extension has the same files for the extension's versions. A worker process receives the paths alone, and
    reads again what it needs.
    """

    path: Path
    core: SchemaFolder | None = None
    """For the folder of an extension, that of the revisions which its versions are based on."""
    _known: dict[object, object] = field(default_factory=dict[object, object], init=False, repr=False)

    def __reduce__(self) -> tuple[object, ...]:
        """Return what is pickled: the paths."""
        return SchemaFolder, (self.path, self.core)

    @property
    def checkout(self) -> Path:
        """The folder that the schema folder is in."""
        return self.core.checkout if self.core else self.path.resolve().parent

    def once(self, read: Callable[[SchemaFolder, *Ts], R], *arguments: *Ts) -> R:
        """Return what a function reads from this folder; it is called once with the same arguments."""
        key = (read, *arguments)
        if key not in self._known:
            self._known[key] = read(self, *arguments)
        return cast("R", self._known[key])

    def read(self, path: Path) -> bytes:
        """Return the content of a file in the folder, at most one byte more than `LIMIT`. Raises `OSError`."""
        return (self.core or self).once(_content, path)

    def table(self, name: str, kind: type[R]) -> Table[R]:
        """Return the values of a TOML file in the folder. Raises as `read_table` does."""
        return read_table(self.path / name, kind, self.read)

    def forget(self) -> None:
        """Forget what was read, since files have changed."""
        self._known.clear()


def _content(_: SchemaFolder, path: Path) -> bytes:
    return read_bounded(path)


def read_once(read: Callable[[SchemaFolder, *Ts], R]) -> Callable[[SchemaFolder, *Ts], R]:
    """Return a function that calls another one once for each folder and arguments, which the folder remembers."""

    @wraps(read)
    def remembered(folder: SchemaFolder, *arguments: *Ts) -> R:
        return folder.once(read, *arguments)

    return remembered


def schema_folder(*, to_write: bool = False) -> SchemaFolder:
    """Return the folder of all inputs: `MCPREV_SCHEMA`, else the checkout's `schema/`, else the installed copy.

    The installed copy is not returned with `to_write`. Raises `InputError` if there is no folder.
    """
    if chosen := os.environ.get("MCPREV_SCHEMA"):
        return SchemaFolder(Path(chosen))
    here = Path(__file__).resolve()
    checkout, installed = here.parents[3] / "schema", here.parents[1] / "schema"
    if (checkout / PINS).is_file():
        return SchemaFolder(checkout)
    if to_write:
        raise InputError(
            "this mcprev is installed, and its schema folder is read-only: in a clone, run `.venv/bin/mcprev`, which "
            "`make generate` installs, or set MCPREV_SCHEMA=schema; elsewhere, set MCPREV_SCHEMA to a schema folder of "
            "your own, or pass --out to generate"
        )
    if (installed / PINS).is_file():
        return SchemaFolder(installed)
    raise InputError(f"no {PINS} in {checkout} or {installed}; set MCPREV_SCHEMA to a schema folder")
