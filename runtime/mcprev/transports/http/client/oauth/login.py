"""One connection's way through a gate: which revisions count, what a refusal is, and what stands still (AUTH-2, AUTH-17).

A refusal that is about tokens is a 401, or a 403 whose challenge says that the token does not reach far enough. Others
are answers like any other. Only the server is shown the token, in a header: requests of a client stay with its origin.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, Final

from mcprev.protocol.endpoint import ClientProtocol
from mcprev.revisions import Revision
from mcprev.transports.http.client.oauth.authorizer import ActiveToken, AuthChallenge, Authorizer, RetryBudget
from mcprev.transports.http.client.oauth.discovery import Challenge, challenge_of, parse_challenges
from mcprev.transports.http.client.oauth.tokens import USE_NONCE

if TYPE_CHECKING:
    from mcprev.transports.http.client.responses import HttpResponse

NONCES: Final = 2
"""How many times one request may be sent again for another nonce."""
_NONCE: Final = "DPoP-Nonce"
_UNAUTHORIZED: Final = 401
_FORBIDDEN: Final = 403
_MORE: Final = "insufficient_scope"


class Login:
    """What the requests of one connection need of a gate."""

    def __init__(
        self,
        authorizer: Authorizer,
        protocol: ClientProtocol,
        hold: Callable[[], AbstractContextManager[None]],
    ) -> None:
        """`hold` keeps the clocks of the connection from running while somebody logs in."""
        self._gate = authorizer
        self._protocol = protocol
        self._hold = hold
        self.waiting: set[asyncio.Task[Any] | None] = set()
        """Whoever waits for somebody to log in; their requests have been taken in by nobody."""

    async def token(self) -> ActiveToken | None:
        """What to send with the next request."""
        if self._gate.expiring:
            with self._wait():
                await self._gate.refresh()
        return self._gate.active

    def budget(self) -> RetryBudget:
        """What a request that is new has led to."""
        return RetryBudget()

    @property
    def active(self) -> ActiveToken | None:
        """The same, as it is: for what is not worth a wait."""
        return self._gate.active

    async def passed(
        self, response: HttpResponse, used: ActiveToken | None, budget: RetryBudget, *, no_login: bool
    ) -> bool:
        """Whether an answer is one; otherwise the request can be sent again. Raises `AuthError`."""
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
        with self._wait():
            await self._gate.renew(
                AuthChallenge(revisions, challenge or Challenge(), used, more, no_login), budget
            )
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
        """The revisions in whose way authorization may be had: what is spoken first, else the newest."""
        protocol = self._protocol
        revisions = [revision for revision in reversed(protocol.local.revisions) if revision.auth is not None]
        if (
            protocol.agreed
            and protocol.revision.auth is not None
            and protocol.revision.auth.resource_metadata
        ):
            return [
                protocol.revision,
                *(revision for revision in revisions if revision is not protocol.revision),
            ]
        # What has no metadata of its own may have been let in by that of a later one.
        return revisions
