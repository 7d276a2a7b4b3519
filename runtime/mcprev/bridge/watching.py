"""What a session is told of a stateless server: one listen stream in place of subscriptions (SUB-2, SUB-5, AMB-1)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from mcprev.bridge.introduction import ClientIntroduction, ServerIntroduction
from mcprev.bridge.outages import Attempts
from mcprev.bridge.relay import Relay
from mcprev.bridge.upstream import Upstream, logger
from mcprev.conversion.rules import JsonObject, as_object, without
from mcprev.errors import (
    ConnectionLost,
    InternalError,
    InvalidParams,
    Json,
    McpError,
    MethodNotFound,
    RemoteProtocolError,
    one_line,
)
from mcprev.protocol.engine import declares
from mcprev.protocol.subscriptions import (
    ACKNOWLEDGED,
    BY_METHOD,
    CHANGES,
    LISTEN,
    Changed,
    resources_in,
)

LISTS: Final = (Changed.TOOLS, Changed.PROMPTS, Changed.RESOURCES)
"""The changes of lists."""


class Watcher:
    """Keeps the listen stream of one session at a stateless server."""

    def __init__(
        self,
        relay: Relay,
        client: ClientIntroduction,
        tell: Callable[[str, Json], None],
        all_changed: Callable[[Upstream], None],
    ) -> None:
        """Set the functions that tell the client of one change, and that everything may have changed."""
        self._relay = relay
        self._client = client
        self._tell = tell
        self._all_changed = all_changed
        self._task: asyncio.Task[None] | None = None

    def cancel(self) -> None:
        """End the stream."""
        if self._task is not None:
            self._task.cancel()

    def watch(
        self, upstream: Upstream, uris: Iterable[str], *, missed: bool = False
    ) -> asyncio.Future[JsonObject]:
        """Listen for what the session would be notified of; the future is done when the server has confirmed it.

        The stream before it is cancelled after that. The client is told then that everything may have changed, if
        notifications may have been `missed`.
        """
        return self._begin(upstream, uris, lasting=True, missed=missed)

    async def add(self, upstream: Upstream, uris: Iterable[str], uri: str) -> None:
        """Listen for changes of one more resource. Raises `McpError` if the server refuses, or does not confirm it.

        The stream before it goes on then.
        """  # SUB-1
        before = self._task
        confirmed = self._begin(upstream, [*uris, uri], lasting=False, missed=False)
        task = self._task
        assert task is not None
        await asyncio.wait({confirmed}, timeout=self._relay.bounds.wait)
        if not confirmed.done() or confirmed.exception() is not None:
            task.cancel()
            if self._task is task:
                self._task = before
        if not confirmed.done():
            raise InternalError("the server behind the bridge did not confirm the subscription")
        accepted = confirmed.result()
        if uri not in resources_in(accepted):
            raise InvalidParams(
                "Invalid params: the server does not tell of changes of this resource", data={"uri": uri}
            )

    def _begin(
        self, upstream: Upstream, uris: Iterable[str], *, lasting: bool, missed: bool
    ) -> asyncio.Future[JsonObject]:
        confirmed: asyncio.Future[JsonObject] = asyncio.get_running_loop().create_future()
        confirmed.add_done_callback(lambda done: done.cancelled() or done.exception())
        before, filter_ = self._task, _filter(upstream.introduction, list(uris))
        if filter_:
            stream = _Stream(upstream, filter_, confirmed, before, lasting=lasting, missed=missed)
            self._task = self._relay.start(self._keep(stream))
        else:
            if before is not None:
                before.cancel()
            confirmed.set_result({})
            if missed:
                self._all_changed(upstream)
        return confirmed

    async def _keep(self, stream: _Stream) -> None:
        """Keep a listen stream open; one that ends is opened again, and everything counts as changed."""  # SUB-5, AMB-1
        upstream = stream.upstream
        params: dict[str, Json] = {
            "notifications": stream.filter,
            "_meta": self._client.stamp(upstream.revision),
        }
        attempts = Attempts(upstream.outage)

        def take(method: str, params: Mapping[str, Json]) -> None:
            if method == ACKNOWLEDGED:
                stream.confirm(as_object(params.get("notifications")))
                attempts.heard()
                if stream.missed:
                    self._all_changed(upstream)
                stream.missed = True
            elif method in BY_METHOD:
                kept = without(dict(params), "_meta")
                self._tell(method, kept or None)

        try:
            while upstream.alive:
                error: McpError = RemoteProtocolError("the server ended its stream")
                try:
                    await upstream.call(LISTEN, params, total=None, listener=take)
                except McpError as failure:
                    error = failure
                if stream.refused(error):
                    if stream.missed:
                        self._all_changed(upstream)
                    return
                await attempts.wait(error)
        finally:
            attempts.end()
            stream.end()


class _Stream:
    """One listen stream of a session."""

    def __init__(
        self,
        upstream: Upstream,
        filter_: JsonObject,
        confirmed: asyncio.Future[JsonObject],
        before: asyncio.Task[None] | None,
        *,
        lasting: bool,
        missed: bool,
    ) -> None:
        self.upstream = upstream
        self.filter = filter_
        self.missed = missed
        """Whether notifications may have been missed."""
        self._confirmed = confirmed
        self._before = before
        self._lasting = lasting
        """Whether it goes on trying, also before the server has confirmed it."""

    def confirm(self, accepted: JsonObject) -> None:
        """Take note that the server has confirmed it."""
        if self._before is not None:
            self._before.cancel()
        if not self._confirmed.done():
            self._confirmed.set_result(accepted)

    def refused(self, error: McpError) -> bool:
        """Return whether it ends with an error, or with the end of the server's stream."""
        if not (self._lasting or self._confirmed.done()):
            self._confirmed.set_exception(error)
            return True
        if isinstance(error, MethodNotFound):
            logger.debug("the server does not send change notifications: %s", one_line(error))
            return True
        logger.debug("the stream of change notifications was lost: %s", one_line(error))
        self.confirm({})
        return False

    def end(self) -> None:
        """Let nobody wait for it any more."""
        if self._lasting:
            self.confirm({})
        elif not self._confirmed.done():
            lost = ConnectionLost("the connection to the server was lost", in_flight=False, retry_safe=True)
            self._confirmed.set_exception(lost)


def _filter(server: ServerIntroduction, uris: list[str]) -> JsonObject:
    """Return the filter of the listen stream of a session."""
    capabilities = server.capabilities
    found: JsonObject = {
        CHANGES[kind].member: True for kind in LISTS if declares(capabilities, CHANGES[kind].capability)
    }
    if uris:
        found[CHANGES[Changed.RESOURCE].member] = uris
    return found
