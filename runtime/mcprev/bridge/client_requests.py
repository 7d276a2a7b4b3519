"""Answers the requests of clients, of a bridge with one server and of one with several (SEAM-10)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from itertools import count
from typing import TYPE_CHECKING, Any, ClassVar
from weakref import WeakKeyDictionary

from mcprev.bridge.introduction import INITIALIZE
from mcprev.bridge.opening import process_behind
from mcprev.bridge.relay import BridgeState, Exchange, Outlet, Serve, Within, wire_error
from mcprev.bridge.upstreams import Busy
from mcprev.core.connection import Connection
from mcprev.errors import ConversionError, McpError
from mcprev.protocol.connection_state import IncomingRequest

if TYPE_CHECKING:
    from mcprev.bridge.shared_sessions import BridgedSessions


class ClientRequests(ABC):
    """The request handler of a bridge."""

    finds_names: ClassVar[bool] = False
    """Whether clients may write other names than those of the lists."""

    def __init__(self, around: Within | None) -> None:
        """`around` is what each request is answered within."""
        self._around = around
        self._state: BridgeState | None = None
        """None while the bridge does not run."""
        self._shared: BridgedSessions[Any] | None = None
        """The sessions that this process shares with others; None without a store."""
        self._numbers = count(1)
        """Those of clients, for their names in recordings."""
        self._names = WeakKeyDictionary[Connection, str]()
        """The names of the sessions over HTTP."""

    @abstractmethod
    def _choose(self, incoming: IncomingRequest, connection: Connection) -> tuple[Exchange, Serve]:
        """Return the exchange of a request, and what serves it."""

    async def _find_name(self, exchange: Exchange) -> None:
        """Give a request the names under which lists have what it is about. Raises `McpError`."""
        del exchange  # one server knows its own names

    def _exchange(self, state: BridgeState, incoming: IncomingRequest, connection: Connection) -> Exchange:
        """Return the exchange of a request whose client is known by its session over HTTP, or by nothing but this request."""
        name = self._name(connection)
        return Exchange(state, incoming, connection, name, Outlet(state, connection, incoming.engine, name))

    def _name(self, connection: Connection) -> str:
        """Return the name of a client in recordings: that of its session over HTTP, or a new one."""
        name = self._names.get(connection)
        if name is None or connection.session_id is None:
            name = f"client-{next(self._numbers)}"
        if connection.session_id is not None:
            self._names[connection] = name
        return name

    def watch(self, connection: Connection) -> None:
        """Take over the session of a connection if the process that has it ends."""
        if self._shared is not None:
            self._shared.watch(connection)

    async def handle_request(self, incoming: IncomingRequest, connection: Connection, /) -> None:
        """Answer a request of a client."""
        state, around = self._state, self._around
        exchange: Exchange | None = None
        try:
            if state is None:
                incoming.fail(Busy("the bridge is not running"))
                return
            if state.prepare is not None:
                await state.prepare()
            exchange, serve = self._choose(incoming, connection)
            if self.finds_names:
                await self._find_name(exchange)
            await (serve(exchange) if around is None else around(exchange, serve))
        except (McpError, ConversionError) as error:
            if exchange is None:
                incoming.fail(wire_error(error, incoming.method, None))
            else:
                exchange.fail(error, None)
        except Exception as error:  # noqa: BLE001 - whatever goes wrong is answered
            incoming.fail(wire_error(error, incoming.method, None))
        finally:
            if incoming.method == INITIALIZE:
                await process_behind(connection)
