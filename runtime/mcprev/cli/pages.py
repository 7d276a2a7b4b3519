"""Pages of servers (MCP Apps): the option for a client that shows them, what servers hide from others, and whose they are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

import click

if TYPE_CHECKING:
    from mcprev.errors import Json
    from mcprev.extensions.extension import Extension

pages_option: Final = click.option(
    "--pages",
    is_flag=True,
    help="Declare that pages are shown (MCP Apps): servers hide pages, and tools that only pages call, from other clients.",
)
URI: Final = "ui://"
"""How the URI of a page begins."""


def page_extensions(*, pages: bool) -> list[Extension[object, object]]:
    """Return the extensions that a client declares."""
    from mcprev.extensions.ui import HOST

    return [HOST] if pages else []


def hidden_pages(capabilities: Mapping[str, Json], revision: str) -> str:
    """Return the next step for a client without the option, if the server may hide pages and tools; else nothing.

    Servers hide them at revisions whose tools name no page, too, where the option is of no use.
    """
    from mcprev.core.capabilities import extension_settings
    from mcprev.extensions.ui import NAME
    from mcprev.revisions import revision_named

    named = "meta" in revision_named(revision).models.Tool.model_fields
    if not named or extension_settings(capabilities, NAME) is None:
        return ""
    return "the server has pages (MCP Apps), and may hide them and some of its tools: pass --pages to see all"


def page_rows(tools: Iterable[Any], resources: Iterable[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Return each page of the lists of a server with its tools: those whose results it shows, and those that it calls."""
    from mcprev.extensions.ui import tool_interface
    from mcprev_types.latest import models

    found: dict[str, list[str]] = {each["uri"]: [] for each in resources if str(each["uri"]).startswith(URI)}
    for tool in tools:
        page = tool_interface(models.Tool.from_wire(tool))
        if page is not None and page.uri is not None:
            by_page = "" if "model" in page.visibility else " (only for the page)"
            found.setdefault(page.uri, []).append(f"{tool['name']}{by_page}")
    return [(uri, ", ".join(names)) for uri, names in found.items()]
