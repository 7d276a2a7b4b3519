"""What a session is told of a stateless server: one listen stream in place of subscriptions (SUB-2, SUB-5, AMB-1)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from random import uniform
from typing import Final

from mcprev.bridge.introduction import ClientIntroduction, ServerIntroduction
from mcprev.bridge.relay import (
    Relay,
)
from mcprev.bridge.upstream import Upstream, logger
from mcprev.convert.rules import JsonObject, without
from mcprev.errors import (
    Json,
    McpError,
    MethodNotFound,
    RpcError,
    one_line,
)
from mcprev.protocol.engine import declares
from mcprev.protocol.subscriptions import (
    ACKNOWLEDGED,
    BY_METHOD,
    CHANGES,
    LISTEN,
    Changed,
)

AGAIN: Final = 1.0
"""Seconds before a listen stream that ended is opened again; twice as many each time, up to `MOST`."""
MOST: Final = 60.0
STABLE: Final = 30.0
"""Seconds after which a stream was stable, so that the next attempt is the first again."""
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

    def watch(self, upstream: Upstream, uris: Iterable[str]) -> asyncio.Future[None]:
        """Listen for what the session would be notified of; the future is done when the server has confirmed it.

        The stream before it is cancelled after that.
        """
        confirmed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        before = self._task
        filter_ = _filter(upstream.introduction, list(uris))
        if not filter_:
            if before is not None:
                before.cancel()
            confirmed.set_result(None)
            return confirmed
        self._task = self._relay.start(self._listen(upstream, filter_, confirmed, before))
        return confirmed

    async def _listen(
        self,
        upstream: Upstream,
        filter_: JsonObject,
        confirmed: asyncio.Future[None],
        before: asyncio.Task[None] | None,
    ) -> None:
        """Keep a listen stream open; one that ends is opened again, and everything counts as changed."""  # SUB-5, AMB-1
        params: dict[str, Json] = {"notifications": filter_, "_meta": self._client.stamp(upstream.revision)}
        wait, tried, loop = AGAIN / 2, 0, asyncio.get_running_loop()

        def take(method: str, params: Mapping[str, Json]) -> None:
            if method == ACKNOWLEDGED:
                settle()
                if tried > 1:
                    self._all_changed(upstream)
            elif method in BY_METHOD:
                kept = without(dict(params), "_meta")
                self._tell(method, kept or None)

        def settle() -> None:
            if before is not None:
                before.cancel()
            if not confirmed.done():
                confirmed.set_result(None)

        try:
            while upstream.alive:
                began, tried = loop.time(), tried + 1
                try:
                    await upstream.call(LISTEN, params, total=None, listener=take)
                except MethodNotFound as error:
                    logger.debug("the server does not send change notifications: %s", one_line(error))
                    return
                except McpError as error:
                    if isinstance(error, RpcError) and not confirmed.done():
                        logger.debug("the server does not send change notifications: %s", one_line(error))
                        return
                    logger.debug("the stream of change notifications was lost: %s", one_line(error))
                settle()
                wait = AGAIN if loop.time() - began > STABLE else min(2 * wait, MOST)
                await asyncio.sleep(wait * uniform(0.75, 1.0))  # noqa: S311 - no secret
        finally:
            settle()


def _filter(server: ServerIntroduction, uris: list[str]) -> JsonObject:
    """Return the filter of the listen stream of a session."""
    capabilities = server.capabilities
    found: JsonObject = {
        CHANGES[kind].member: True for kind in LISTS if declares(capabilities, CHANGES[kind].capability)
    }
    if uris:
        found[CHANGES[Changed.RESOURCE].member] = uris
    return found
