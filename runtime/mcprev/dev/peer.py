"""The clients of a session: one for the page, and one for each other revision that a call was repeated at."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

from typing_extensions import override

from mcprev.client.connect import connect
from mcprev.client.options import Options
from mcprev.client.request_handler import ClientContext, ClientHandler
from mcprev.client.session import ClientSession, ClientSettings, OpenedConnection
from mcprev.core.method_binding import Stub
from mcprev.dev.authorization import LOGIN
from mcprev.dev.event_log import EventLog
from mcprev.dev.launch import Launcher
from mcprev.dev.questions import CURRENT
from mcprev.dev.wire import Answered, WireEvents
from mcprev.errors import Json
from mcprev.extensions.extension import Extension
from mcprev.protocol.pending_calls import Call
from mcprev.wire.jsonrpc import RequestId
from mcprev_types.latest import models

if TYPE_CHECKING:
    from mcprev.client.client import Client
    from mcprev.client.subscriptions import Change

OPENING: Final = 30.0
"""Seconds that a server has to open a connection."""
SENT: Final = 20_000
"""How many requests of one client are remembered with the calls that they belong to."""
OnChange: TypeAlias = "Callable[[Change], None]"
NewHandler: TypeAlias = "Callable[[Callable[[ClientContext], str | None]], ClientHandler]"


class _Session(ClientSession):
    """A session that notes which call of the page sends a request."""

    def __init__(
        self, settings: ClientSettings, opened: OpenedConnection, note: Callable[[RequestId], None]
    ) -> None:
        super().__init__(settings, opened)
        self._note = note

    @override
    def open(self, method: str, params: dict[str, Json] | None, options: Options, end: float | None) -> Call:
        call = super().open(method, params, options, end)
        self._note(call.id)
        return call


class CallNotes:
    """Knows the calls of the page that the requests of one client belong to."""

    def __init__(self) -> None:
        self._calls: dict[RequestId, str] = {}

    def session(self, settings: ClientSettings, opened: OpenedConnection, /) -> ClientSession:
        """Return a session over a connection that is open."""
        return _Session(settings, opened, self.note)

    def wrap(self, method: str, stub: Stub, /) -> Stub:
        """Return a method of the handler as it is."""
        del method
        return stub

    def trace_context(self) -> Mapping[str, str]:
        """Return no members of `_meta`."""
        return {}

    def note(self, request_id: RequestId) -> None:
        """Remember that the current call sends this request."""
        call = CURRENT.get()
        self._calls.pop(request_id, None)
        if call is not None:
            self._calls[request_id] = call
            if len(self._calls) > SENT:
                del self._calls[next(iter(self._calls))]

    def call_of(self, request_id: RequestId) -> str | None:
        """Return the call that sent a request."""
        return self._calls.get(request_id)


class ClientOpener:
    """Opens clients and shows their messages to the log."""

    def __init__(
        self,
        log: EventLog,
        new_handler: NewHandler,
        answered: Answered,
        extensions: Sequence[Extension[object, object]],
    ) -> None:
        """`answered` is told of each HTTP response that begins; clients declare the `extensions`."""
        self._log, self._new_handler, self._answered = log, new_handler, answered
        self._extensions = extensions
        self._senders: dict[str, CallNotes] = {}
        self._count = 0
        log.owner = self._owner

    def _owner(self, conn: str, request_id: RequestId) -> str | None:
        sender = self._senders.get(conn.partition(".")[0])
        return None if sender is None else sender.call_of(request_id)

    async def open(
        self,
        launcher: Launcher,
        stderr: Callable[[bytes], None],
        revision: str | None,
        on_change: OnChange | None = None,
    ) -> Client:
        """Open a client, at one revision if it is named. Raises what `connect` raises, and `TimeoutError`."""
        self._count += 1
        name, sender = f"c{self._count}", CallNotes()
        self._senders[name] = sender

        def call_of(ctx: ClientContext) -> str | None:
            asked = self._log.asked(name, ctx.request_id)
            return CURRENT.get() if asked is None else asked.call

        opening = connect(
            launcher.target(),
            handler=self._new_handler(call_of),
            capabilities=_capabilities(),
            extensions=self._extensions,
            name="mcprev dev",
            revisions=None if revision is None else [revision],
            timeout=None,
            total_timeout=None,
            open_timeout=OPENING,
            restart=False,
            cache=False,
            validate="off",
            telemetry=sender,
            tap=WireEvents(self._log, name, revision, self._answered, stderr),
            on_change=on_change,
        )

        async def opened() -> Client:
            return await opening

        # The connection belongs to no call, although a call may be what opens it.
        context = contextvars.copy_context()
        context.run(CURRENT.set, None)
        task = asyncio.get_running_loop().create_task(opened(), context=context)
        try:
            async with asyncio.timeout(2 * OPENING + LOGIN):
                return await task
        except BaseException:
            task.cancel()
            await asyncio.wait({task})
            raise


def _capabilities() -> models.ClientCapabilities:
    return models.ClientCapabilities(
        roots={"listChanged": True},
        sampling=models.ClientCapabilitiesSampling(context={}, tools={}),
        elicitation=models.ClientCapabilitiesElicitation(form={}, url={}),
    )
