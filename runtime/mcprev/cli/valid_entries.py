"""Reads the entries of a list that is not valid as a whole, so that one wrong tool does not hide the others."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from mcprev.cli.exit_codes import ExitCode, Failure, MismatchError
from mcprev.cli.table import clean, echo_lines
from mcprev.core.lists import ListTooLong
from mcprev.core.valid_entries import InvalidEntry
from mcprev.error_text import did_you_mean

if TYPE_CHECKING:
    from mcprev.client.client import Client
    from mcprev.errors import Json

MAX_NAMED: Final = 5
"""The maximum number of names that a message proposes."""


@dataclass(frozen=True, slots=True)
class ListedEntries:
    """The entries of a list of a server."""

    valid: list[Any]
    invalid: Sequence[InvalidEntry] = field(default=())
    unread: bool = False
    """Whether there are pages that are not read."""
    hidden: str = ""
    """The next step if the server may have more entries, which it hides."""

    def named(self, name: str, what: str) -> Any:  # noqa: ANN401 - a model of the list
        """Return an entry by its name. Raises `Failure` for an unknown one, with those that resemble it, and for one that is not valid."""
        for entry in self.valid:
            if entry.name == name:
                return entry
        version = self._version(name)
        if version is not None:
            return version
        for wrong in self.invalid:
            if wrong.name == name:
                text = f"the server has the {what} '{name[:200]}', but its entry in the list is not valid: {wrong.issues}"
                raise Failure(clean(text), ExitCode.PROTOCOL)
        hint = self._meant(name)
        if self.unread:
            hint += f"; not all pages of the list are read, and the others may have the {what}"
        code = ExitCode.PROTOCOL if self.unread else ExitCode.USAGE
        raise MismatchError(clean(f"the server has no {what} '{name[:200]}'{hint}"), code, self.hidden)

    def _version(self, name: str) -> Any | None:  # noqa: ANN401 - a model of the list
        """Return the tool of `name@version`, unless the list says that there is none; only the newest has a known schema."""
        plain, at, version = name.partition("@")
        entry: Any = next((each for each in self.valid if each.name == plain), None)
        if not at or not version or not hasattr(entry, "input_schema"):
            return None
        from mcprev.app.names import VERSIONS
        from mcprev_types.latest import models

        meta: dict[str, Json] = entry.meta or {}
        versions = meta.get(VERSIONS)  # which revisions without `_meta` of a tool do not have
        if isinstance(versions, list) and version in versions[:1]:
            return entry
        if isinstance(versions, list) and version not in versions:
            return None
        return entry.model_copy(update={"input_schema": models.ToolInputSchema.from_wire({"type": "object"})})

    def _meant(self, name: str) -> str:
        """Return what the user may have meant: this name behind the prefix of a server, one that resembles it, or any."""
        known: list[str] = [entry.name for entry in self.valid]
        prefixed = [f"'{each}'" for each in known if each.endswith(f"__{name}")]
        if prefixed:
            return f"; did you mean {' or '.join(prefixed[:MAX_NAMED])}?"
        return did_you_mean(name, known) or f"; it has {', '.join(sorted(known)[:20]) or 'none'}"


async def listed_entries(client: Client, name: str, seconds: float) -> ListedEntries:
    """Return the valid entries of a list of a server, and the others, of which the client warns."""
    pages: AsyncIterator[Any] = getattr(client, name)(total_timeout=seconds)
    found: list[Any] = []
    unread = False
    try:
        async for entry in pages:
            found.append(entry)  # noqa: PERF401 - what came before an error is kept
    except ListTooLong as error:
        echo_lines(clean(f"Warning: {error}; what comes after it is not read"), err=True)
        unread = True
    return ListedEntries(found, invalid_entries(client, name), unread)


def invalid_entries(client: Client, name: str) -> Sequence[InvalidEntry]:
    """Return the entries of a list, such as `resource_templates`, that its last reading has left out."""
    method = "resources/templates/list" if name == "resource_templates" else f"{name}/list"
    return client.invalid_entries.get(method, ())
