"""Authorization of one connection's requests: attaches tokens and recognises challenges (AUTH-2, AUTH-17).

A challenge is a 401, or a 403 with `insufficient_scope`. Any other response passes through. The token is sent in a
header, and only to the origin of the server.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from mcprev.protocol.endpoint import ClientProtocol
from mcprev.protocol.engine import CANCELLED
from mcprev.revisions import Revision
from mcprev.transports.http.client.oauth.authorizer import ActiveToken, AuthChallenge, Authorizer, RetryBudget
from mcprev.transports.http.client.oauth.discovery import Challenge, challenge_of, parse_challenges
from mcprev.transports.http.client.oauth.tokens import USE_NONCE
from mcprev.transports.http.client.responses import HttpResponse
from mcprev.wire import jsonrpc
from mcprev.wire.jsonrpc import Notification

NONCES: Final = 2
"""The maximum number of times that one request is resent for a new nonce."""
_NONCE: Final = "DPoP-Nonce"
_UNAUTHORIZED: Final = 401
_FORBIDDEN: Final = 403
_MORE: Final = "insufficient_scope"


@dataclass(slots=True, eq=False)
class Login:
    """Authorizes the requests of one connection, through the `Authorizer` of its server."""

    authorizer: Authorizer
    _protocol: ClientProtocol
    _hold: Callable[[], AbstractContextManager[None]]
    """Returns a context manager that pauses the connection's timeouts while a user logs in."""
    waiting: set[asyncio.Task[Any] | None] = field(default_factory=set["asyncio.Task[Any] | None"])
    """Tasks that wait for a login; the server has accepted none of their requests."""

    async def token(self) -> ActiveToken | None:
        """Return the token for the next request; refresh it first if it expires soon."""
        if self.authorizer.expiring:
            with self._wait():
                await self.authorizer.refresh()
        return self.authorizer.active

    def budget(self) -> RetryBudget:
        """Return the retry budget for a new request."""
        return RetryBudget()

    async def passed(
        self, response: HttpResponse, used: ActiveToken | None, budget: RetryBudget, body: bytes | None
    ) -> bool:
        """Return whether to pass the response on. If False, send the request again. Raises `AuthError`.

        A `body` that is `notifications/cancelled` never starts a login.
        """
        status = response.status
        if used is not None and status != _UNAUTHORIZED:
            used.proved = True
        wants = response.headers.getall("WWW-Authenticate", [])
        if used is not None and used.dpop_signer is not None and (nonce := response.headers.get(_NONCE)):
            used.dpop_signer.learn(response.url, nonce)
            if status == _UNAUTHORIZED and any(said.error == USE_NONCE for said in parse_challenges(wants)):
                budget.nonces += 1
                if budget.nonces <= NONCES:
                    response.release()
                    return False
        if status not in (_UNAUTHORIZED, _FORBIDDEN):
            return True
        challenge = challenge_of(wants)
        more = status == _FORBIDDEN
        revisions = self._revisions()
        if not revisions or (more and (challenge is None or challenge.error != _MORE)):
            return True
        response.release()
        message = None if body is None else jsonrpc.parse(body, batch=False)
        no_login = isinstance(message, Notification) and message.method == CANCELLED
        refusal = AuthChallenge(revisions, challenge or Challenge(), used, more, no_login)
        with self._wait():
            await self.authorizer.renew(refusal, budget)
        return False

    @contextmanager
    def _wait(self) -> Generator[None, None, None]:
        task = asyncio.current_task()
        self.waiting.add(task)
        try:
            with self._hold():
                yield
        finally:
            self.waiting.discard(task)

    def _revisions(self) -> list[Revision]:
        """Return the revisions whose authorization rules may apply: the negotiated one first, else the newest."""
        local, spoken = self._protocol.local.revisions, self._protocol.engine.negotiated
        revisions = [revision for revision in reversed(local) if revision.auth is not None]
        if spoken is not None and spoken.auth is not None and spoken.auth.resource_metadata:
            return [spoken, *(revision for revision in revisions if revision is not spoken)]
        # A server of a revision without resource metadata may still serve the metadata of a later one.
        return revisions
