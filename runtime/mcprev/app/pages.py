"""Pages of an app: user interfaces that clients show for the results of tools; see `mcprev.extensions.ui`.

The extension is imported when an app has a page.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from mcprev.app.entries import Resource
from mcprev.app.registry import Registry
from mcprev.app.signatures import Function
from mcprev.server.context import Context
from mcprev_types.latest import models

if TYPE_CHECKING:
    from pathlib import Path

    from mcprev.core.capabilities import DeclaredExtension
    from mcprev.errors import Json
    from mcprev.extensions.ui import Csp, Permission, ToolInterface, UserInterface
    from mcprev.server.server import ServerOptions


def shows_pages(ctx: Context) -> bool:
    """Return whether the client of a request shows pages."""
    from mcprev.extensions import ui

    return ui.shown_to(ctx)


class Pages:
    """The part of `App` that registers pages."""

    _registered: Registry
    _options: ServerOptions

    def ui(
        self,
        uri: str,
        html: str | Path,
        *,
        name: str = "",
        title: str | None = None,
        description: str | None = None,
        csp: Csp | None = None,
        permissions: Collection[Permission] = (),
        domain: str | None = None,
        prefers_border: bool | None = None,
    ) -> UserInterface:
        """Register a page that clients show for the results of tools: `clock = app.ui("ui://clock", html)`.

        Pass it to `@app.tool(ui=clock)`, or `@app.tool(ui=clock.app_only)` for a tool that the page calls and the model
        does not see. The server declares the extension `io.modelcontextprotocol/ui`. Clients that have not declared it
        see neither pages nor tools that only pages call; they use all other tools as usual, so each of these should
        return a text.

        - `html` is an HTML5 document, or the path of its file, which is read at once.
        - `name`, `title` and `description` describe the page. Default of `name`: the URI without its scheme.
        - `csp` is a `mcprev.extensions.ui.Csp`, the origins that the page may use. None: only its own.
        - `permissions` are the features that the page requests: `camera`, `microphone`, `geolocation`, `clipboardWrite`.
        - `domain` is the origin that the host gives to the page, in the form that the host documents.
        - `prefers_border` says whether the host draws a border. None: the host decides.

        Raises `ValueError` for an invalid URI, page or option and for a duplicate URI, `OSError` for a file that cannot be
        read, and `LocalProtocolError` for the first page after the server was created.
        """
        from mcprev.extensions.ui import MIME_TYPE, UserInterface

        page = UserInterface(
            uri=uri, html=html, name=name, title=title, description=description, csp=csp, permissions=permissions,
            domain=domain, prefers_border=prefers_border,
        )  # fmt: skip
        self._registered.check_pages(f"'{uri}'")

        async def read(ctx: Context) -> list[models.TextResourceContents]:
            return [page.contents(str((ctx.request.params or {}).get("uri")))]

        listed = models.Resource(
            uri=uri, name=page.name, title=title, description=description, mime_type=MIME_TYPE, meta=page.meta
        )
        checks = (*self._registered.checks(frozenset()), (shows_pages, ()))
        self._registered.add(
            "resources", uri, Resource(listed=listed, function=Function(read, None), checks=checks)
        )
        return page

    def _interface(self, ui: UserInterface | ToolInterface) -> ToolInterface:
        """Return the interface of a tool. Raises `ValueError` for a page that this app does not have."""
        from mcprev.extensions.ui import interface_of

        found = interface_of(ui)
        if found.uri is not None and not self._registered.knows("resources", found.uri):
            raise ValueError(f"'{found.uri}' is not a page of this app: register it with `app.ui`")
        self._registered.check_pages("a tool with `ui`")
        return found

    def _extensions(self) -> tuple[DeclaredExtension, ...]:
        """Return the option `extensions`, with the extension for user interfaces if there are pages."""
        given, capabilities = tuple(self._options.get("extensions", ())), self._options.get("capabilities")
        if not self._registered.has_pages:
            return given
        from mcprev.extensions.ui import NAME, SERVER

        declared: Json = {} if capabilities is None else capabilities.to_wire().get("extensions")
        return given if NAME in {*(declared or ()), *(each.name for each in given)} else (*given, SERVER)
