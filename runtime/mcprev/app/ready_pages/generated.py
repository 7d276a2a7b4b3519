"""A page whose contents the model writes as the argument of a tool."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final, TypeAlias

from pydantic import Field

from mcprev.app.app import App
from mcprev.extensions.ui import shown_to
from mcprev_types.latest import models

MAX_GENERATED: Final = 256 * 1024
"""The maximum length of what the model writes, in characters."""
_PAGE: Final = Path(__file__).with_name("generated.html")
_DESCRIPTION: Final = (
    "The page as HTML, with its styles and scripts in it. It has no network: draw images as SVG or as `data:` URLs, and "
    "use no library of another site."
)
_Html: TypeAlias = Annotated[str, Field(max_length=MAX_GENERATED, description=_DESCRIPTION)]


def generated_page(app: App, *, name: str = "show_page", uri: str = "ui://generated") -> App:
    """Add a tool with which the model shows a page that it writes itself; return the app.

    The tool `name` has one argument, `html`, of at most `MAX_GENERATED` characters. The page `uri` shows it as far as the
    model has written it, and runs its scripts when it is complete, in a sandboxed frame without an origin, network,
    forms, windows or the tools of the server. Only clients that show pages see the tool. Raises `ValueError` for a name or
    URI that is invalid or exists already, and `LocalProtocolError` for the first page after the server was created.
    """
    page = app.ui(uri, _PAGE, title="Page", description="Shows a page that the model has written.")

    def show_page(html: _Html) -> str:  # noqa: ARG001 - the host gives it to the page
        """Show the user a page, such as a chart, a table or a small program to try."""
        return "The user sees the page."

    annotations = models.ToolAnnotations(read_only_hint=True)
    app.tool(show_page, name=name, ui=page, visible=shown_to, annotations=annotations)
    return app
