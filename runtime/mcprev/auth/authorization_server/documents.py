"""The metadata documents of clients that have a URL for an id (AUTH-12, SEC-1), fetched within bounds and kept for a time.

Everybody can have the server fetch any URL of the public internet, by an authorization request that names it. So fetches
are counted, for one address and for all; few run at a time, and what was found, or not, is not asked for again soon.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from time import monotonic
from typing import Any, Final

from mcprev.auth.authorization_server.options import LoginSettings
from mcprev.auth.authorization_server.requests import ClientRecord, OAuthError, PageError, document_client
from mcprev.auth.authorization_server.vault import Vault
from mcprev.auth.client.discovery import read_object
from mcprev.auth.client.steps import HttpFetch, fetch

TIMEOUT: Final = 5.0
MAX_DOCUMENT: Final = 8 * 1024
FETCHES: Final = 1_000
"""The maximum number of fetches in an hour, for all addresses."""
PARALLEL: Final = 16
"""The maximum number of fetches at a time."""
GOOD_FOR: Final = 3600.0
"""Seconds for which a document is not fetched again."""
BAD_FOR: Final = 60.0
"""The same for one that could not be read."""
KEPT: Final = 256
"""The maximum number of documents that are kept, and of addresses without one."""
_HOUR: Final = 3600.0
_KIND: Final = "documents"


class ClientDocuments:
    """The clients that describe themselves by a document."""

    def __init__(self, vault: Vault, settings: LoginSettings) -> None:
        self._vault, self._schemes = vault, frozenset(settings.redirect_schemes)
        self._most, self._session = settings.registrations, settings.session
        self._good: OrderedDict[str, tuple[float, ClientRecord]] = OrderedDict()
        self._bad: OrderedDict[str, float] = OrderedDict()
        self._running: dict[str, asyncio.Task[ClientRecord | None]] = {}

    async def client(self, url: str, address: str) -> ClientRecord:
        """Return the client that the document at a URL describes, for a request from an address. Raises `PageError`."""
        until, client = self._good.get(url, (0.0, None))
        if client is not None and monotonic() < until:
            self._good.move_to_end(url)
            return client
        if monotonic() >= self._bad.get(url, 0.0):
            # A request that is cancelled does not cancel the fetch that others wait for.
            client = await asyncio.shield(self._running.get(url) or await self._start(url, address))
            if client is not None:
                return client
        raise PageError("The metadata document of the app cannot be read at the URL in its client id.")

    async def _start(self, url: str, address: str) -> asyncio.Task[ClientRecord | None]:
        """Start a fetch, unless another request has done so meanwhile. Raises `PageError` beyond the bounds."""
        counts = self._vault.count
        counted = await counts(_KIND, address, self._most, _HOUR) and await counts(_KIND, "", FETCHES, _HOUR)
        if url not in self._running:
            if not counted or len(self._running) >= PARALLEL:
                wait = 10 if counted else self._vault.retry_after(_HOUR)
                raise PageError(
                    "Too many metadata documents of apps are being read. Try again later.", 429, wait
                )
            task = self._running[url] = asyncio.ensure_future(self._fetch(url))
            task.add_done_callback(lambda _: self._running.pop(url, None))
        return self._running[url]

    async def _fetch(self, url: str) -> ClientRecord | None:
        """Fetch a document, from the public internet only, and keep what it says; None for one that cannot be read."""
        from mcprev.auth.client.runner import FlowRunner

        runner = FlowRunner("", self._session, private=False, seconds=TIMEOUT)
        reply = await runner.run(fetch(HttpFetch(url, (("Accept", "application/json"),), follow=False)))
        found = read_object(reply.body) if reply.status == 200 and len(reply.body) <= MAX_DOCUMENT else None
        kept: OrderedDict[str, Any]
        try:
            client = document_client(found, url, self._schemes)
            kept, self._good[url] = self._good, (monotonic() + GOOD_FOR, client)
        except OAuthError:
            client = None
            kept, self._bad[url] = self._bad, monotonic() + BAD_FOR
        kept.move_to_end(url)
        while len(kept) > KEPT:
            kept.popitem(last=False)
        return client
