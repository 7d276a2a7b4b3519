"""Reads `schema/overlay.toml`: its entries, the revisions that they hold for, and their errors."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NotRequired, cast

from pydantic import JsonValue, TypeAdapter
from typing_extensions import TypedDict

from mcprev_codegen.errors import InputError, SchemaError, at_line, together
from mcprev_codegen.inputs import age, checked, is_dated, read_table
from mcprev_codegen.ir import Json

OVERLAY_FILE: Final = "overlay.toml"
FACETS: Final = frozenset({"default", "closed", "was", "capability", "alternate", "name_param"})
_BOUND: Final = re.compile(r"\d{4}-\d{2}-\d{2}|draft")


@dataclass(frozen=True, slots=True)
class OverlayEntry:
    """One entry of the overlay."""

    path: Path
    lines: Sequence[str] = field(repr=False, compare=False)
    line: int
    since: str | None
    until: str | None
    pointers: tuple[str, ...]
    expected: Json
    new: Json
    why: str

    def holds_for(self, revision: str) -> bool:
        """Return whether the entry applies to a revision; a name that is not a date is newer than all dates."""
        for bound in (self.since, self.until):
            if bound is not None and not _BOUND.fullmatch(bound):
                raise self.fail(f"'{bound}' is not a revision: use a date (YYYY-MM-DD) or 'draft'")
        after = self.since is None or age(self.since) <= age(revision)
        return after and (self.until is None or age(revision) <= age(self.until))

    def fail(self, message: str) -> SchemaError:
        """Return an error at this entry's pointer."""
        return at_line(self.path, self.lines, self.line, message)


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


def load_overlay(folder: Path) -> tuple[OverlayEntry, ...]:
    """Return every entry of the overlay. Raises `InputError` or `SchemaError` for a malformed entry."""
    path = folder / OVERLAY_FILE
    text, data = read_table(path)
    lines = text.split("\n")
    starts = [n for n, line in enumerate(lines, 1) if line.strip() == "[[entry]]"]
    tables = data.get("entry", [])
    if not isinstance(tables, list) or len(tables := cast("list[dict[str, Any]]", tables)) != len(starts):
        raise InputError(f"{path}: begin each entry with a line that consists of [[entry]]")
    return tuple(_entry(path, lines, start, table) for start, table in zip(starts, tables, strict=True))


class _Table(TypedDict):
    since: NotRequired[str]
    until: NotRequired[str]
    pointer: NotRequired[str]
    pointers: NotRequired[list[str]]
    expected: JsonValue
    new: JsonValue
    why: str


_TABLE: Final = TypeAdapter(_Table)


def _entry(path: Path, lines: Sequence[str], start: int, table: Mapping[str, Any]) -> OverlayEntry:
    line = next((n for n in range(start, len(lines)) if lines[n - 1].startswith("pointer")), start)
    required = {"expected", "new", "why"}
    known = required | {"since", "until", "pointer", "pointers"}
    if wrong := sorted(set(table) - known) + sorted(required - set(table)):
        raise at_line(path, lines, line, f"unknown or missing keys in this entry: {', '.join(wrong)}")
    try:
        checked(_TABLE, table)
        json.dumps(table, allow_nan=False)
    except ValueError as error:
        raise at_line(path, lines, line, str(error)) from None
    pointers: Sequence[str] = table.get("pointers", [table["pointer"]] if "pointer" in table else [])
    if not all(isinstance(table["new"], str) or pointer.endswith("#default") for pointer in pointers):
        raise at_line(path, lines, line, "'new' must be a text")
    if not pointers:
        raise at_line(path, lines, line, "this entry needs 'pointer' or 'pointers'")
    since, until = table.get("since"), table.get("until")
    return OverlayEntry(
        path, lines, line, since, until, tuple(pointers), table["expected"], table["new"], table["why"]
    )
