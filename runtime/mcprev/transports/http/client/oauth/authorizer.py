"""What is sent along with each request to a server, and what happens when that is refused (AUTH-2, 14, 17, 18, 22).

There is one `Authorizer` for a server, whoever asks there: requests that are refused at the same time wait for one flow.
A flow ends with another token or with an error. What was found out is only as old as the refusal: who lets clients in
is asked again each time, for that may have changed.

How far one request goes is bounded: a token that came from a store or by refreshing may be refused and is replaced, one
that was just given may not. A 403 that names scopes leads to another token only if those were not asked for yet, and
twice at most. So nobody is sent to log in for the same thing again and again.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from mcprev.errors import AuthError, DiscoveryFailed, InsufficientScope, McpError, TokenRejected
from mcprev.revisions import Revision
from mcprev.transports.http.client.oauth import flow
from mcprev.transports.http.client.oauth.credentials import Credentials, check_server
from mcprev.transports.http.client.oauth.discovery import (
    Challenge,
    ProtectedServer,
    first_scopes,
    join_scopes,
    more_scopes,
    printable,
)
from mcprev.transports.http.client.oauth.resources import canonical_resource
from mcprev.transports.http.client.oauth.steps import DpopSigner
from mcprev.transports.http.client.oauth.store import Registration, TokenKey, Tokens
from mcprev.transports.http.client.oauth.tokens import PROOF, TokenResponse, refresh
from mcprev.transports.http.security import is_loopback
from mcprev.wire.headers import Pairs

if TYPE_CHECKING:
    import aiohttp

    from mcprev.transports.http.client.oauth.runner import FlowRunner

AUTHORIZATION: Final = "Authorization"
EARLY: Final = 30.0
"""Seconds before its end at which a token is refreshed, at most."""
DISCOVERY: Final = 4
"""How many times the bound of a request all of discovery may take."""
STEPS: Final = 2
"""How many times one request may lead to more scopes being asked for."""
MAX_SCOPES: Final = 1000
"""How many scopes are asked for at most, those of before included: each refusal can add to them."""
REFUSALS: Final = 3
"""How many refusals of its tokens one request may meet, whatever they are worth."""
FORGET: Final = frozenset({"invalid_client", "unauthorized_client"})
"""Errors after which this client has to register again."""
logger: Final = logging.getLogger("mcprev.auth")


class Source(IntEnum):
    """Where a token comes from, which says how much its refusal tells."""

    STORED = 0
    REFRESHED = 1
    GIVEN = 2


@dataclass(slots=True, eq=False)
class ActiveToken:
    """The token that is used."""

    tokens: Tokens
    source: Source
    place: ProtectedServer
    client: Registration
    dpop_signer: DpopSigner | None = None
    """What proves who uses it, where it is bound to a key."""
    refresh_at: float | None = None
    """When it is to be replaced before it is used again, in seconds since 1970; None where that cannot be."""
    proved: bool = False
    """Whether the server has taken it."""

    @property
    def key(self) -> TokenKey:
        """Where it is kept."""
        return TokenKey(self.place.server.issuer, self.place.resource, self.client.client_id)

    def headers(self, verb: str, url: str) -> Pairs:
        """What shows it in a request."""
        token = self.tokens.access_token
        if self.dpop_signer is None:
            return [(AUTHORIZATION, f"Bearer {token}")]
        return [(AUTHORIZATION, f"{PROOF} {token}"), (PROOF, self.dpop_signer.prove(verb, url, token))]


@dataclass(frozen=True, slots=True)
class AuthChallenge:
    """A request that was refused."""

    revisions: Sequence[Revision]
    """The revisions that the server may speak, the one to go by first."""
    challenge: Challenge
    used: ActiveToken | None
    """What it was sent with."""
    more: bool
    """Whether the token is good, but not good enough."""
    no_login: bool = False
    """Whether it is not worth a flow of its own, and none goes on for it alone."""


@dataclass(slots=True)
class RetryBudget:
    """What one request has led to."""

    refused: int = 0
    steps: int = 0
    nonces: int = 0


@dataclass(slots=True)
class _Running:
    task: asyncio.Task[ActiveToken]
    waiting: int = field(default=0)


class Authorizer:
    """Gets the tokens for one server."""

    def __init__(self, url: str, auth: Credentials) -> None:
        check_server(url, private=auth.private)
        self._url = url
        self._auth = auth
        self.session: aiohttp.ClientSession | None = None
        """The last one that a target was made with: its connector is used as long as it is open."""
        self._held: ActiveToken | None = None
        self._running: _Running | None = None

    # -- for every request ---------------------------------------------------------------------------------

    @property
    def active(self) -> ActiveToken | None:
        """What the next request is to be sent with."""
        return self._held

    @property
    def expiring(self) -> bool:
        """Whether there is a token that is to be refreshed before it is used again."""
        active = self._held
        return active is not None and active.refresh_at is not None and active.refresh_at <= time.time()

    async def refresh(self) -> None:
        """Replace a token that expires. Where that fails it is used as it is: the server has the last word."""
        active = self._held
        assert active is not None
        await self._share(lambda: self._refresh_early(active))

    async def renew(self, refusal: AuthChallenge, budget: RetryBudget) -> None:
        """Get another token than the one that was refused. Raises `AuthError`."""
        used = refusal.used
        if self._held is not used:
            return  # somebody else's request was refused before
        if self._running is None:
            self._check(refusal, budget)
        await self._share(lambda: self._guarded(refusal), no_login=refusal.no_login)

    def _check(self, refusal: AuthChallenge, budget: RetryBudget) -> None:
        """Count what a request has led to. Raises `AuthError` where it may not lead any further."""
        used, challenge = refusal.used, refusal.challenge
        if refusal.more:
            budget.steps += 1
            before = () if used is None else used.tokens.scopes or ()
            required = challenge.scopes or ()
            if budget.steps > STEPS or not set(required) - set(before):
                asked = " ".join(before) or "none in particular"
                raise InsufficientScope(
                    f"{printable(self._url)} wants a token of more scopes ({printable(' '.join(required)) or 'it does not say which'}), "
                    f"and asking for them was of no use (asked for: {printable(asked)}): see to it that they are given",
                    required=required,
                    requested=before,
                )
            return
        budget.refused += 1
        if used is not None and (
            budget.refused >= REFUSALS or (used.source is Source.GIVEN and not used.proved)
        ):
            self._held = None
            why = f" ({challenge.reason})" if challenge.reason else ""
            raise TokenRejected(
                f"{printable(self._url)} refuses a token that {printable(used.key.issuer)} has just given{why}: "
                "the two do not agree on what it is good for",
                error=challenge.error,
            )

    # -- one flow for all ----------------------------------------------------------------------------------

    async def _share(
        self, work: Callable[[], Coroutine[Any, Any, ActiveToken]], *, no_login: bool = False
    ) -> None:
        """Wait for the flow that runs, or for a new one; when nobody waits any more it ends."""
        running = self._running
        if no_login:
            if running is None:
                raise AuthError("this was not worth a login")
            await asyncio.wait({running.task})
            return
        if running is None or running.task.done():
            running = self._running = _Running(asyncio.get_running_loop().create_task(work()))
            running.task.add_done_callback(self._done)
        task = running.task
        running.waiting += 1
        try:
            await asyncio.wait({task})
        finally:
            running.waiting -= 1
            if not running.waiting and not task.done():
                task.cancel()
                await asyncio.wait({task})
        if task.cancelled():
            raise AuthError("authorization was given up")
        task.result()

    def _done(self, task: asyncio.Task[ActiveToken]) -> None:
        if self._running is not None and self._running.task is task:
            self._running = None
        if not task.cancelled():
            task.exception()

    async def _guarded(self, refusal: AuthChallenge) -> ActiveToken:
        try:
            return await self._run(refusal)
        except McpError:
            raise
        except Exception as error:
            # Of a store, or of what gives an assertion; its text may be anything.
            raise AuthError(f"authorization failed, with {type(error).__name__}") from error

    async def _run(self, refusal: AuthChallenge) -> ActiveToken:
        """Find out who lets clients in, and be let in by them."""
        async with self._runner() as runner:
            revisions, challenge, auth = refusal.revisions, refusal.challenge, self._auth
            search = flow.discover(
                self._url, revisions, challenge, issuer=auth.issuer, resource=auth.resource
            )
            bound = DISCOVERY * auth.timeout
            try:
                async with asyncio.timeout(bound):
                    place = await runner.run(search)
            except TimeoutError:
                raise DiscoveryFailed(
                    f"who lets clients of {printable(self._url)} in was not found out in {bound:g} s"
                ) from None
            logger.debug(
                "clients of %s are let in by %s", printable(self._url), printable(place.server.issuer)
            )
            client = await auth.client(place)
            found: ActiveToken | None = None
            if client is not None and not refusal.more:
                found, client = await self._without_user(runner, place, client, refusal.used)
            if found is None:
                scopes = self._scopes(place, refusal)
                found = await self._obtain(runner, place, client, scopes)
        self._held = found
        return found

    def _runner(self) -> FlowRunner:
        from mcprev.transports.http.client.oauth.runner import FlowRunner

        private = self._auth.private or is_loopback(urlsplit(self._url).hostname or "")
        session = None if self.session is None or self.session.closed else self.session
        return FlowRunner(self._url, session, private=private, seconds=self._auth.timeout)

    def _scopes(self, place: ProtectedServer, refusal: AuthChallenge) -> tuple[str, ...] | None:
        """What to ask for (AUTH-17). Raises `InsufficientScope` for more than any server needs."""
        before = None if refusal.used is None else refusal.used.tokens.scopes
        if refusal.more:
            found: tuple[str, ...] | None = more_scopes(place.profile, refusal.challenge, before)
        else:
            found = first_scopes(place, refusal.challenge, self._auth.scopes)
            if found is not None and place.profile.joins_scopes:
                found = join_scopes(found, before)
        if len(found or ()) > MAX_SCOPES:
            raise InsufficientScope(
                f"{printable(self._url)} wants a token of more than {MAX_SCOPES} scopes; none is asked for",
                required=refusal.challenge.scopes or (),
                requested=before or (),
            )
        return found

    async def _without_user(
        self, runner: FlowRunner, place: ProtectedServer, client: Registration, used: ActiveToken | None
    ) -> tuple[ActiveToken | None, Registration | None]:
        """A token that was kept, or another for its refresh token; and the client, if it is still known."""
        store, key = self._auth.store, TokenKey(place.server.issuer, place.resource, client.client_id)
        if self._auth.client_keys.dpop_signer is None:
            kept = await store.tokens(key)
        else:
            kept = used.tokens if used is not None and used.key == key else None
        if kept is None:
            return None, client
        refused = used is not None and used.tokens.access_token == kept.access_token
        expired = kept.expires_at is not None and kept.expires_at <= time.time()
        if not refused and not expired:
            return self._hold(ActiveToken(kept, Source.STORED, place, client), EARLY), client
        if kept.refresh_token is None or (
            refused and used is not None and used.source is Source.REFRESHED and not used.proved
        ):
            return None, client
        try:
            return await self._refresh(runner, ActiveToken(kept, Source.STORED, place, client)), client
        except TokenRejected as error:
            if not error.error:
                raise
            logger.debug("a refresh token is good no more: %s", error)
            await store.keep_tokens(key, None)
            if error.error not in FORGET:
                return None, client
            await store.keep_registration(place.server.issuer, None)
            return None, await self._auth.client(place)

    async def _refresh_early(self, active: ActiveToken) -> ActiveToken:
        if self._held is not active:
            return active
        async with self._runner() as runner:
            try:
                active = await self._refresh(runner, active)
            except McpError as error:
                logger.debug("a token was not refreshed in time: %s", error)
                active.refresh_at = None
        self._held = active
        return active

    async def _refresh(self, runner: FlowRunner, active: ActiveToken) -> ActiveToken:
        token = active.tokens.refresh_token
        assert token is not None
        asked = refresh(active.place, active.client, token, client_keys=self._auth.client_keys)
        granted = await runner.run(asked)
        return await self._keep(
            active.place, active.client, granted, active.tokens.scopes, Source.REFRESHED, token
        )

    async def _obtain(
        self,
        runner: FlowRunner,
        place: ProtectedServer,
        client: Registration | None,
        scopes: tuple[str, ...] | None,
    ) -> ActiveToken:
        try:
            client, granted, asked = await self._auth.obtain(runner, place, client, scopes)
        except TokenRejected as error:
            if error.error in FORGET:
                await self._auth.store.keep_registration(place.server.issuer, None)
            raise
        return await self._keep(place, client, granted, asked, Source.GIVEN, None)

    async def _keep(
        self,
        place: ProtectedServer,
        client: Registration,
        granted: TokenResponse,
        scopes: Sequence[str] | None,
        source: Source,
        refresh_token: str | None,
    ) -> ActiveToken:
        ends = None if granted.expires_in is None else time.time() + granted.expires_in
        tokens = Tokens(
            granted.access_token,
            granted.refresh_token or refresh_token,
            ends,
            None if scopes is None else tuple(scopes),
        )
        dpop_signer = self._auth.client_keys.dpop_signer
        active = ActiveToken(tokens, source, place, client, dpop_signer)
        if dpop_signer is None:
            await self._auth.store.keep_tokens(active.key, tokens)
        return self._hold(active, min(EARLY, (granted.expires_in or 0) / 4))

    @staticmethod
    def _hold(active: ActiveToken, early: float) -> ActiveToken:
        """Say when it is to be refreshed, so many seconds before its end."""
        if active.tokens.expires_at is not None and active.tokens.refresh_token is not None:
            active.refresh_at = active.tokens.expires_at - early
        return active


class Authorization(Credentials):
    """What a user passes as `auth`: credentials, and one `Authorizer` for each server that they were used at."""

    @cached_property
    def authorizers(self) -> dict[str, Authorizer]:
        """The authorizers, by the canonical URLs of their servers."""
        return {}

    def authorizer(self, url: str, session: aiohttp.ClientSession | None) -> Authorizer:
        """Return the authorizer of the server at a URL, which every target of that server shares.

        Raises `ValueError` for a URL that no token may be sent to.
        """
        key = canonical_resource(url) or url
        authorizer = self.authorizers.get(key)
        if authorizer is None:
            authorizer = self.authorizers[key] = Authorizer(url, self)
        authorizer.session = session
        return authorizer
