"""Reads the entries of a list that is not valid as a whole, so that one wrong tool does not hide the others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from typing_extensions import override

from mcprev.cli.exit_codes import ExitCode, Failure, MismatchError
from mcprev.cli.issues import issues_of
from mcprev.cli.table import clean, echo_lines
from mcprev.core.lists import ListTooLong
from mcprev.error_text import did_you_mean
from mcprev.errors import Json, RemoteProtocolError
from mcprev.json_schema.bounds import LIST, OBJECT

if TYPE_CHECKING:
    from mcprev.client.client import Client

MAX_NAMED: Final = 5
"""The maximum number of invalid entries of a list that are named, and of mistakes in one."""


@dataclass(frozen=True, slots=True)
class InvalidEntry:
    """An entry of a list that is not valid."""

    number: int
    """Its place in its page, from 1."""
    name: str | None
    issues: str
    """The path and the error of each mistake."""

    @override
    def __str__(self) -> str:
        called = "" if self.name is None else f" ('{self.name}')"
        return f"entry {self.number}{called[:100]}: {self.issues}"


@dataclass(frozen=True, slots=True)
class ListedEntries:
    """The entries of a list of a server."""

    valid: list[Any]
    invalid: Sequence[InvalidEntry] = field(default=())
    unread: bool = False
    """Whether there are pages after the one with the invalid entries, which are not read."""
    hidden: str = ""
    """The next step if the server may have more entries, which it hides."""

    def named(self, name: str, what: str) -> Any:  # noqa: ANN401 - a model of the list
        """Return an entry by its name. Raises `Failure` for an unknown one, with those that resemble it, and for one that is not valid."""
        for entry in self.valid:
            if entry.name == name:
                return entry
        for wrong in self.invalid:
            if wrong.name == name:
                text = f"the server has the {what} '{name[:200]}', but its entry in the list is not valid: {wrong.issues}"
                raise Failure(clean(text), ExitCode.PROTOCOL)
        hint = self._meant(name)
        if self.unread:
            hint += f"; not all pages of the list are read, and the others may have the {what}"
        code = ExitCode.PROTOCOL if self.unread else ExitCode.USAGE
        raise MismatchError(clean(f"the server has no {what} '{name[:200]}'{hint}"), code, self.hidden)

    def _meant(self, name: str) -> str:
        """Return what the user may have meant: this name behind the prefix of a server, one that resembles it, or any."""
        known: list[str] = [entry.name for entry in self.valid]
        prefixed = [f"'{each}'" for each in known if each.endswith(f"__{name}")]
        if prefixed:
            return f"; did you mean {' or '.join(prefixed[:MAX_NAMED])}?"
        return did_you_mean(name, known) or f"; it has {', '.join(sorted(known)[:20]) or 'none'}"


async def listed_entries(client: Client, name: str, seconds: float) -> ListedEntries:
    """Return the entries of a list of a server; of a page that is not valid as a whole also the invalid ones, with a warning of them."""
    pages: AsyncIterator[Any] = getattr(client, name)()
    found: list[Any] = []
    try:
        async with asyncio.timeout(seconds):
            async for entry in pages:
                found.append(entry)  # noqa: PERF401 - what came before an error is kept
    except ListTooLong as error:
        echo_lines(clean(f"Warning: {error}; what comes after it is not read"), err=True)
        return ListedEntries(found, unread=True)
    except RemoteProtocolError as error:
        valid, wrong = valid_entries(name, error.raw)
        if not wrong:
            raise
        unchecked = "; results are not held against output schemas" if name == "tools" else ""
        text = f"Warning: not all {name} of the server are valid: {'; '.join(told_entries(wrong))}{unchecked}"
        echo_lines(clean(text), err=True)
        unread = isinstance(error.raw, OBJECT) and "nextCursor" in error.raw
        return ListedEntries([*found, *valid], wrong, unread)
    return ListedEntries(found)


def valid_entries(name: str, page: Json) -> tuple[list[Any], list[InvalidEntry]]:
    """Return the entries of a page that is not valid as a whole: the valid ones, and the others with what is wrong."""
    from pydantic import ValidationError

    from mcprev_types.latest import models

    kinds: dict[str, Any] = {
        "tools": models.Tool,
        "resources": models.Resource,
        "resource_templates": models.ResourceTemplate,
        "prompts": models.Prompt,
    }
    members: dict[str, Json] = page if isinstance(page, OBJECT) else {}
    listed: Json = members.get("resourceTemplates" if name == "resource_templates" else name)
    entries: list[Json] = listed if isinstance(listed, LIST) else []
    valid, wrong = list[Any](), list[InvalidEntry]()
    for number, entry in enumerate(entries, 1):
        try:
            valid.append(kinds[name].from_wire(entry))
        except (TypeError, ValidationError) as error:
            called: Json = entry.get("name") if isinstance(entry, OBJECT) else None
            wrong.append(
                InvalidEntry(number, called if isinstance(called, str) else None, ", ".join(issues_of(error)))
            )
    return valid, wrong


def told_entries(wrong: Sequence[InvalidEntry]) -> list[str]:
    """Return what is wrong with the first of the entries, and how many more there are."""
    more = len(wrong) - MAX_NAMED
    return [*map(str, wrong[:MAX_NAMED]), *([f"and {more} more"] if more > 0 else [])]
