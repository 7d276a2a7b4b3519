"""Reads the entries of a list that is not valid as a whole, so that one wrong tool does not hide the others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, Final

from mcprev.cli.table import clean, echo_lines
from mcprev.errors import Json, RemoteProtocolError
from mcprev.json_schema.bounds import LIST, OBJECT

if TYPE_CHECKING:
    from mcprev.client.client import Client

MAX_NAMED: Final = 5
"""The maximum number of invalid entries of a list that are named, and of mistakes in one."""


MAX_READ: Final = 10_000
"""The maximum number of entries of a list that are looked at."""


async def listed_entries(client: Client, name: str, seconds: float) -> list[Any]:
    """Return the entries of a list of a server; of a page that is not valid as a whole the valid ones, with a warning of the others."""
    pages: AsyncIterator[Any] = getattr(client, name)()
    found: list[Any] = []
    try:
        async with asyncio.timeout(seconds):
            async for entry in pages:
                found.append(entry)
                if len(found) >= MAX_READ:
                    break
    except RemoteProtocolError as error:
        valid, wrong = valid_entries(name, error.raw)
        if not valid:
            raise
        found += valid
        unchecked = "; results are not held against output schemas" if name == "tools" else ""
        text = f"Warning: not all {name} of the server are valid: {'; '.join(wrong)}{unchecked}"
        echo_lines(clean(text), err=True)
    return found


def valid_entries(name: str, page: Json) -> tuple[list[Any], list[str]]:
    """Return the valid entries of a page that is not valid as a whole, and what is wrong with the others."""
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
    valid, wrong = list[Any](), list[str]()
    for number, entry in enumerate(entries):
        try:
            valid.append(kinds[name].from_wire(entry))
        except (TypeError, ValidationError) as error:
            called = f" ('{entry['name']}')" if isinstance(entry, OBJECT) and "name" in entry else ""
            wrong.append(f"entry {number + 1}{called[:100]}: {_issues(error)}")
    more = len(wrong) - MAX_NAMED
    return valid, [*wrong[:MAX_NAMED], *([f"and {more} more"] if more > 0 else [])]


def _issues(error: Exception) -> str:
    """Return what a validator found: the path and the error of each place."""
    from pydantic import ValidationError

    if not isinstance(error, ValidationError):
        return str(error)
    found = error.errors(include_url=False, include_input=False, include_context=False)[:MAX_NAMED]
    return ", ".join(" ".join([".".join(map(str, ("$", *one["loc"]))), one["msg"]]) for one in found)
