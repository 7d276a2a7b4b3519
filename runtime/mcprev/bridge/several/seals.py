"""Ids, states and cursors of servers as clients get them: signed, with the name of the server that they lead to (SEC-5).

Each is valid for the principal that it was given to, and for its purpose alone.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Final

from mcprev.conversion.rules import JsonObject, as_object
from mcprev.errors import InvalidParams, Json
from mcprev.protocol.connection_state import IncomingRequest
from mcprev.protocol.request_state import RequestStateSealer

CURSORS: Final = 24 * 3600.0
"""Seconds for which a cursor is valid."""
_TASKS: Final = "a task of a server"
_SERVER, _GENERATION, _VALUE = "server", "generation", "value"


class Seals:
    """Seals and opens what leads to a server."""

    def __init__(self, states: RequestStateSealer) -> None:
        self._states = states
        self._cursors = states.with_lifetime(CURSORS)
        # An id has to be the same each time, so its seal does not say when it ends; a task does.
        self._ids = states.with_lifetime(1.0)

    def task(self, server: str, id_: str, principal: str | None) -> str:
        """Return the id of a task for clients."""
        payload = {_SERVER: server, _VALUE: id_}
        return self._ids.seal(payload, method=_TASKS, params=None, principal=principal, now=0.0)

    def own_task(self, id_: object, principal: str | None) -> tuple[str, str]:
        """Return the server and its own id of a task. Raises `InvalidParams`."""
        try:
            found = as_object(self._ids.open(id_, method=_TASKS, params=None, principal=principal, now=0.0))
        except InvalidParams:
            raise InvalidParams("Invalid params: the task is unknown or has expired") from None
        return str(found[_SERVER]), str(found[_VALUE])

    def state(
        self, server: str, generation: str, state: Json, request: IncomingRequest, principal: str | None
    ) -> str:
        """Return the state of a server for the client that repeats a request."""
        return self._states.seal(
            {_SERVER: server, _GENERATION: generation, _VALUE: state},
            method=request.method,
            params=request.params,
            principal=principal,
            now=time.time(),
        )

    def own_state(
        self, token: Json, server: str, request: IncomingRequest, principal: str | None
    ) -> tuple[str, Json]:
        """Return the generation of a server and its own state. Raises `InvalidParams` for that of another server."""
        found = as_object(
            self._states.open(
                token, method=request.method, params=request.params, principal=principal, now=time.time()
            )
        )
        if found.get(_SERVER) != server:
            raise InvalidParams(
                "requestState is not valid for this request; send the request again without it"
            )
        return str(found.get(_GENERATION)), found.get(_VALUE)

    def cursor(self, method: str, cursors: Mapping[str, str], principal: str | None) -> str:
        """Return the cursor that continues the lists of servers."""
        now = time.time()
        return self._cursors.seal(dict(cursors), method=method, params=None, principal=principal, now=now)

    def cursors(self, method: str, cursor: Json, principal: str | None) -> JsonObject:
        """Return the cursors of the servers. Raises `InvalidParams`."""
        now = time.time()
        try:
            found = self._cursors.open(cursor, method=method, params=None, principal=principal, now=now)
        except InvalidParams:
            raise InvalidParams(
                "Invalid params: the cursor is not valid; list again without a cursor"
            ) from None
        return as_object(found)
