"""Which arguments of a tool are repeated in headers, as the server's own handler lists it (HDR-8, MOD-11).

The server knows its tools by asking its handler, for each principal; here it is only kept which headers follow. A
call that does not fit has the tools asked for once more before it is refused: they may have changed in silence.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, cast

from typing_extensions import override

from mcprev.core.connection import Connection
from mcprev.core.interfaces import ServerApp
from mcprev.core.method_binding import is_cancelled
from mcprev.core.tool_schemas import MAX_NAME
from mcprev.errors import Json
from mcprev.protocol.connection_state import ConnectionState, IncomingRequest
from mcprev.protocol.engine import Engine
from mcprev.protocol.http_classify import CALL_TOOL
from mcprev.protocol.mrtr import InputRequired
from mcprev.protocol.negotiation.versions import VERSION_KEY
from mcprev.protocol.stateless import meta_error
from mcprev.wire.jsonrpc import Request
from mcprev.wire.param_headers import ParamHeader, find_annotations

if TYPE_CHECKING:
    from mcprev.transports.http.server.access import Access

AGAIN: Final = 5.0
"""Seconds within which the tools are not asked for again because of a call that does not fit."""
MAX_KNOWN: Final = 20_000
"""How many tools are remembered, each for every principal that called it."""
_Key = tuple[str | None, str, str]
_logger: Final = logging.getLogger("mcprev.transport.http")


class ListedParamHeaders:
    """The headers of the tools of one server."""

    def __init__(self, server: ServerApp[Connection]) -> None:
        self._server = server
        self._table = table = server.tool_lookup
        self._revisions = {
            revision.version: revision
            for revision in reversed(server.identity.revisions)
            if revision.routing_headers
        }
        self._known: dict[_Key, Sequence[ParamHeader]] = {}
        self._generation = table.generation
        self._asked = float("-inf")
        self._current: Sequence[ParamHeader] = ()
        self._key: _Key | None = None

    def of(self, tool: str) -> Sequence[ParamHeader]:
        """The headers of the tool of the call that `learn` was given last."""
        del tool
        return self._current

    def knows(self, call: object, principal: str | None) -> bool:
        """Whether the tool of a call is known; if so, `of` says its headers until the next call is looked at.

        Of what is no call everything is known.
        """
        self._key = None
        if not isinstance(call, Request) or call.method != CALL_TOOL:
            return True
        if self._generation != self._table.generation or len(self._known) > MAX_KNOWN:
            self._generation = self._table.generation
            self._known.clear()
        params = call.params or {}
        meta: Json = params.get("_meta")
        name: Json = params.get("name")
        version: Json = meta.get(VERSION_KEY) if meta.__class__ is dict else None
        if not (isinstance(name, str) and isinstance(version, str)) or version not in self._revisions:
            self._current = ()  # the engine has something to say before anybody looks at such headers (AMB-6)
            return True
        key = (principal, version, name)
        found = self._known.get(key)
        if found is None:
            self._key = key
            return False
        self._current = found
        return True

    async def learn(
        self, call: object, principal: str | None, connection: Connection, access: Access | None = None
    ) -> None:
        """Know the tool of a call. Nothing may be awaited between the end of this and the use of `of`."""
        if not self.knows(call, principal) and self._key is not None and isinstance(call, Request):
            self._current = await self._ask(call, _Origin(principal, access), self._key, connection)

    async def learn_again(
        self, call: object, principal: str | None, connection: Connection, access: Access | None = None
    ) -> bool:
        """A call does not fit what is known: ask once more, and say whether something else is known now."""
        now = connection.now()
        if not isinstance(call, Request) or not self._current or now - self._asked < AGAIN:
            return False
        before, self._asked = self._current, now
        self._table.forget()
        await self.learn(call, principal, connection, access)
        return self._current != before

    async def _ask(
        self, call: Request, origin: _Origin, key: _Key, connection: Connection
    ) -> Sequence[ParamHeader]:
        params = cast("dict[str, Json]", call.params)
        meta = params["_meta"]
        if meta_error(meta) is not None:
            return ()  # the engine refuses it before anybody looks at its headers (AMB-6)
        revision = self._revisions[key[1]]
        asker = _Asker(ConnectionState(), self._server.identity)
        request = Request(call.id, call.method, params, origin)
        incoming = IncomingRequest(asker, revision, request, None, {})
        try:
            tool = await self._table.lookup(incoming, connection)
        except (Exception, InputRequired, asyncio.CancelledError) as error:
            if isinstance(error, asyncio.CancelledError) and is_cancelled():
                raise
            _logger.warning(
                "the tools cannot be listed, so the headers of '%s' are not checked", key[2], exc_info=error
            )
            return ()
        headers: Sequence[ParamHeader] = ()
        if tool is not None:
            found = find_annotations(tool.input)
            headers = () if found.problems else found.headers
        if tool is not None or len(key[2]) <= MAX_NAME:
            self._known[key] = headers
        return headers


class _Asker(Engine):
    """Stands for an engine where nobody is to hear what a handler says on the way."""

    @override
    def allows_log(self, request: IncomingRequest | None, level: str) -> bool:
        return False

    @override
    def progress(self, request: IncomingRequest, params: dict[str, Json]) -> bool:
        return False


class _Origin:
    """Stands for the HTTP request, of which only who sent it is known."""

    def __init__(self, principal: str | None, access: Access | None) -> None:
        self.principal = principal
        self.access = access
