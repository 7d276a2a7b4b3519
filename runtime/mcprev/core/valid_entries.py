"""The valid entries of a list, so that one wrong tool does not hide the others (PAGE-1, TOOL-1, SEAM-5).

A page that is not valid is judged entry by entry. Entries that can be understood are mended: a schema without a type is that
of an object. The others are left out and reported. For clients, the command and bridges.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from typing_extensions import override

from mcprev.core.lists import LISTS
from mcprev.errors import ConversionError, Json, RemoteProtocolError, one_line
from mcprev.json_schema.bounds import LIST, OBJECT
from mcprev.protocol.tool_names import tell_invalid

if TYPE_CHECKING:
    from pydantic_core import ValidationError

MAX_INVALID: Final = 1_000
"""The number of invalid entries of one page from which the whole page is invalid, and of those that are kept of a list."""
MAX_TOLD: Final = 5
"""The maximum number of entries that one line of a log names, and of mistakes of one entry."""
_SCHEMAS: Final = ("inputSchema", "outputSchema")
Judge: TypeAlias = Callable[[dict[str, Json]], dict[str, Json]]
"""Returns a page as it is used. Raises `ConversionError`, `RemoteProtocolError` or `ValidationError` for an invalid one."""


@dataclass(frozen=True, slots=True)
class InvalidEntry:
    """An entry of a list that is not valid, and was left out."""

    method: str
    """The method of the list, such as `tools/list`."""
    number: int
    """Its place in its page, from 1."""
    name: str | None
    """Its name, if it has one."""
    issues: str
    """The JSON path and the error of each mistake."""

    @override
    def __str__(self) -> str:
        called = "" if self.name is None else f" ('{self.name}')"
        return f"entry {self.number}{called[:100]}: {self.issues}"


def valid_page(
    method: str, page: dict[str, Json], judge: Judge
) -> tuple[dict[str, Json], Sequence[InvalidEntry]]:
    """Return a page as `judge` returns it, with the valid entries only, and the others.

    Raises what `judge` raises if the page is not valid without them either, or has too many of them.
    """
    from pydantic_core import ValidationError

    wrong = (ConversionError, RemoteProtocolError, ValidationError)
    try:
        return _told_names(method, judge(page)), ()
    except wrong as error:
        given: Json = page.get(LISTS[method].member)
        if not isinstance(given, LIST):
            raise
        member, problem = LISTS[method].member, error
    valid, invalid = list[Json](), list[InvalidEntry]()
    for number, entry in enumerate(given, 1):
        mended = entry
        try:
            try:
                judge({**page, member: [entry]})
            except wrong:
                mended = _mended(entry)
                if mended is entry:
                    raise
                judge({**page, member: [mended]})
        except wrong as error:
            name: Json = entry.get("name") if isinstance(entry, OBJECT) else None
            issues = _issues(error, {**page, member: [mended]})
            invalid.append(InvalidEntry(method, number, name if isinstance(name, str) else None, issues))
            if len(invalid) > MAX_INVALID:
                raise problem from None
        else:
            valid.append(mended)
    return _told_names(method, judge({**page, member: valid})), invalid


def _told_names(method: str, page: dict[str, Json]) -> dict[str, Json]:
    """Return a page; of tools whose names not every client takes, tell once."""
    tools: Json = page.get("tools") if method == "tools/list" else None
    if isinstance(tools, LIST):
        tell_invalid(tool.get("name") for tool in tools if isinstance(tool, OBJECT))
    return page


def _mended(entry: Json) -> Json:
    """Return a tool whose schemas say that they are of objects; another entry unchanged."""
    if not isinstance(entry, OBJECT):
        return entry
    changed = {
        name: {"type": "object", **entry[name]}
        for name in _SCHEMAS
        if isinstance(entry.get(name), OBJECT) and "type" not in entry[name]
    }
    return {**entry, **changed} if changed else entry


def _issues(error: Exception, page: dict[str, Json]) -> str:
    """Return the path within the entry and the error of each mistake."""
    from pydantic_core import ValidationError

    from mcprev_types import with_json_paths

    cause = error.__context__ if isinstance(error, RemoteProtocolError) else error
    if not isinstance(cause, ValidationError):
        return one_line(error)
    return ", ".join(_told(with_json_paths(cause, page)))


def _told(error: ValidationError) -> list[str]:
    from mcprev_types import details_of

    found = details_of(error)[:MAX_TOLD]
    # The first two steps lead to the entry.
    return [one_line(" ".join([".".join(map(str, ("$", *one["loc"][2:]))), one["msg"]])) for one in found]


class InvalidEntries:
    """The entries that were left out of the lists of one server, each reported once."""

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self._found: dict[str, list[InvalidEntry]] = {}
        self._reported: set[tuple[str, str | None, str]] = set()

    @property
    def by_method(self) -> Mapping[str, Sequence[InvalidEntry]]:
        """Those of the last reading of each list, by method."""
        return {method: tuple(found) for method, found in self._found.items()}

    def begin(self, method: str) -> None:
        """Forget those of a list that is read again."""
        self._found.pop(method, None)

    def add(self, invalid: Sequence[InvalidEntry], server: str = "the server") -> None:
        """Keep entries of a page, and log those that were not reported before."""
        for entry in invalid:
            kept = self._found.setdefault(entry.method, [])
            if len(kept) < MAX_INVALID:
                kept.append(entry)
        new = [each for each in invalid if (each.method, each.name, each.issues) not in self._reported]
        if not new:
            return
        if len(self._reported) < MAX_INVALID:
            self._reported |= {(each.method, each.name, each.issues) for each in new}
        told = one_line("; ".join(told_entries(new)))
        self._logger.warning(
            "not all entries of '%s' of %s are valid; left out: %s", new[0].method, server, told
        )


def told_entries(wrong: Sequence[InvalidEntry]) -> list[str]:
    """Return what is wrong with the first of the entries, and how many more there are."""
    more = len(wrong) - MAX_TOLD
    return [*map(str, wrong[:MAX_TOLD]), *([f"and {more} more"] if more > 0 else [])]
