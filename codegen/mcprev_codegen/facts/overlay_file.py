"""Reads `schema/overlay.toml`: its entries, the revisions that they hold for, and their errors."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, cast

from mcprev_codegen.errors import SchemaError, together
from mcprev_codegen.inputs import SchemaFolder, Table, age, is_date, is_dated, read_once
from mcprev_codegen.ir import Json

OVERLAY_FILE: Final = "overlay.toml"
FACETS: Final = frozenset({"default", "closed", "was", "capability", "alternate", "name_param", "sender"})


@dataclass(frozen=True, slots=True)
class OverlayEntry:
    """One entry of the overlay."""

    table: Table[_File] = field(repr=False, compare=False)
    number: int
    """The number of the entry in the file, from 0."""
    since: str | None
    until: str | None
    pointers: tuple[str, ...]
    expected: Json
    new: Json

    def holds_for(self, revision: str) -> bool:
        """Return whether the entry applies to a revision; a name that is not a date is newer than all dates."""
        for bound in (self.since, self.until):
            if bound not in (None, "draft") and not is_date(str(bound)):
                raise self.fail(f"'{bound}' is not a revision: use a date (YYYY-MM-DD) or 'draft'")
        after = self.since is None or age(self.since) <= age(revision)
        return after and (self.until is None or age(revision) <= age(self.until))

    def fail(self, message: str) -> SchemaError:
        """Return an error at this entry's pointer."""
        return _fail(self.table, self.number, message)


@dataclass(frozen=True, slots=True)
class Problems:
    """The entries that do not fit a file. Who loads the file decides: they stop generation, are warnings, or ignored."""

    revision: str
    """The revision whose entries apply to the file."""
    version: str | None = None
    """The version that the file declares; a draft declares the dated revision that it is based on."""
    found: list[SchemaError] = field(default_factory=list[SchemaError])

    def add(self, entry: OverlayEntry, message: str) -> None:
        """Add an entry that does not fit; those later than the base of a draft apply to the draft only if they fit."""
        based_on = None if is_dated(self.revision) else self.version
        if based_on is None or entry.since is None or age(entry.since) <= age(based_on):
            self.found.append(entry.fail(f"{self.revision}: {message}"))

    def stop(self) -> None:
        """Raise all problems, if there are any."""
        if self.found:
            raise together(self.found)

    def warnings(self) -> Iterator[str]:
        """Yield a warning for each fact that does not fit a file that extends a revision."""
        for error in self.found:
            what = error.message.partition(";")[0]
            yield f"a fact from the prose of {self.revision} is ignored, since the file contradicts it: {what}"


@dataclass(frozen=True, slots=True)
class _Entry:
    expected: object
    new: object
    why: str
    since: str | None = None
    until: str | None = None
    pointer: str | None = None
    pointers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _File:
    entry: tuple[_Entry, ...] = ()


@read_once
def load_overlay(folder: SchemaFolder) -> tuple[OverlayEntry, ...]:
    """Return every entry of the overlay. Raises `InputError` or `SchemaError` for a malformed entry."""
    if folder.core is not None and not (folder.path / OVERLAY_FILE).is_file():
        return ()  # of an extension whose schema says all
    table = folder.table(OVERLAY_FILE, _File)
    return tuple(_entry(table, number, entry) for number, entry in enumerate(table.values.entry))


def _entry(table: Table[_File], number: int, entry: _Entry) -> OverlayEntry:
    try:
        json.dumps((entry.expected, entry.new), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise _fail(table, number, str(error)) from None
    pointers = entry.pointers or ((entry.pointer,) if entry.pointer is not None else ())
    if not all(isinstance(entry.new, str) or pointer.endswith("#default") for pointer in pointers):
        raise _fail(table, number, "'new' must be a string")
    if not pointers:
        raise _fail(table, number, "this entry requires 'pointer' or 'pointers'")
    expected, new = cast("Json", entry.expected), cast("Json", entry.new)
    return OverlayEntry(table, number, entry.since, entry.until, pointers, expected, new)


def _fail(table: Table[_File], number: int, message: str) -> SchemaError:
    """Return an error at the pointer of an entry."""
    return table.fail(
        message, "entry", number, "pointers" if table.values.entry[number].pointers else "pointer"
    )
