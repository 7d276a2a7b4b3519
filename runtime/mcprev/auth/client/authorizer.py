"""The token of one server: attaches it to requests and replaces it after a challenge (AUTH-2, 14, 17, 18, 22).

A challenge is a 401, or a 403 with `insufficient_scope`. Any other response passes through. The token is sent in a
header, and only to the origin of the server.

Each server has one `Authorizer`: requests that are refused at the same time wait for one flow. A flow ends with a new
token or an error. Discovery runs again after each challenge, because the authorization server may have changed.

Retries of one request are bounded. A token from a store or a refresh may be refused and is replaced; a token that was
just issued may not. A 403 that names scopes leads to another token only if those scopes have not been requested yet,
and at most twice. So no user logs in again and again for the same thing.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from math import inf
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from typing_extensions import override

from mcprev.auth.client import flow
from mcprev.auth.client.active_token import ActiveToken, Source, is_good
from mcprev.auth.client.credentials import Credentials, Scopes, check_server
from mcprev.auth.client.discovery import (
    Challenge,
    ProtectedServer,
    challenge_of,
    join_scopes,
    parse_challenges,
    wanted_scopes,
)
from mcprev.auth.client.store import Registration, TokenKey, Tokens
from mcprev.auth.client.tokens import FORGET, USE_NONCE, TokenResponse, request_token
from mcprev.auth.urls import canonical_resource
from mcprev.errors import AuthError, DiscoveryFailed, InsufficientScope, TokenRejected
from mcprev.revisions import Revision
from mcprev.transports.http.client.authorization import Authorization, AuthorizedRequest
from mcprev.transports.http.security import is_loopback
from mcprev.transports.http.urls import printable

if TYPE_CHECKING:
    import aiohttp
    from multidict import CIMultiDictProxy

    from mcprev.auth.client.runner import FlowRunner

DISCOVERY: Final = 4
"""The timeout of discovery, as a multiple of the timeout of one request."""
STEPS: Final = 2
"""The maximum number of times that one request leads to a request for more scopes."""
MAX_SCOPES: Final = 1000
"""The maximum number of scopes in one request; each challenge can add some."""
REFUSALS: Final = 3
"""The maximum number of challenges that one request may receive."""
NONCES: Final = 2
"""The maximum number of times that one request is resent for a new nonce."""
CLIENTS: Final = 3
"""The maximum number of registrations of this client whose stored tokens are tried."""
_NONCE: Final = "DPoP-Nonce"
_UNAUTHORIZED: Final = 401
_FORBIDDEN: Final = 403
_MORE: Final = "insufficient_scope"
logger: Final = logging.getLogger("mcprev.auth")


@dataclass(slots=True)
class TokenUse:
    """The token that one request carries, and the challenges that the request has received."""

    active: ActiveToken | None = None
    challenge: Challenge | None = None
    """The challenge to answer before the request is sent again."""
    more: bool = False
    """Whether the token is valid but lacks scopes."""
    refused: int = 0
    steps: int = 0
    nonces: int = 0


@dataclass(slots=True)
class _Running:
    task: asyncio.Task[None]
    waiting: int = 0


class Authorizer(Authorization):
    """Gets the tokens for one server and authorizes the requests to it."""

    def __init__(self, url: str, auth: Credentials) -> None:
        check_server(url, private=auth.private)
        self._url = url
        self._auth = auth
        self.session: aiohttp.ClientSession | None = None
        """The session of the last target; its connector is used while it is open."""
        self.active: ActiveToken | None = None
        """The token for the next request."""
        self._running: _Running | None = None
        self._completing: asyncio.Task[ActiveToken] | None = None
        """The request that may use up a refresh token: it runs to its end."""

    # -- for every request ---------------------------------------------------------------------------------

    @override
    async def headers(self, request: AuthorizedRequest, /) -> Mapping[str, str]:
        """Return the headers with the token. Answer a challenge first, or refresh a token that expires soon."""
        use = _use_of(request)
        active = self.active
        if use.challenge is not None:
            with request.pausing():
                await self._renew(request, use, use.challenge)
            use.challenge = None
        elif active is not None and request.method != "DELETE" and active.refresh_at <= time.time():
            with request.pausing():
                await self._share(lambda: self._refresh_early(active))
        use.active = self.active
        return {} if use.active is None else use.active.headers(request.method, request.url)

    @override
    def retry(self, request: AuthorizedRequest, status: int, headers: CIMultiDictProxy[str], /) -> bool:
        """Return whether the response is a challenge that another token or nonce may answer."""
        use, wants = _use_of(request), headers.getall("WWW-Authenticate", [])
        used = use.active
        if used is not None and status != _UNAUTHORIZED:
            used.proved = True
        if used is not None and used.dpop_signer is not None and (nonce := headers.get(_NONCE)):
            used.dpop_signer.learn(request.url, nonce)
            if status == _UNAUTHORIZED and any(said.error == USE_NONCE for said in parse_challenges(wants)):
                use.nonces += 1
                if use.nonces <= NONCES:
                    return True
        if status not in (_UNAUTHORIZED, _FORBIDDEN):
            return False
        if not _revisions(request):
            if status == _FORBIDDEN or not request.revisions or not request.interactive:
                return False
            raise DiscoveryFailed(
                f"{printable(self._url)} requires a token, and {', '.join(row.name for row in request.revisions)} has no "
                "authorization, so there is no login: send a token in a header, or allow a newer revision"
            )
        challenge = challenge_of(wants) or Challenge()
        if status == _FORBIDDEN and challenge.error != _MORE:
            return False
        # Some servers say with a 401 that scopes are missing.
        use.more = status == _FORBIDDEN or (challenge.error == _MORE and challenge.scopes is not None)
        use.challenge = challenge
        return request.interactive or self._running is not None or self.active is not used

    @override
    async def drain(self) -> None:
        """Wait for tokens whose callers were cancelled: an event loop that ends would lose them."""
        if self._completing is not None:
            await asyncio.wait({self._completing}, timeout=self._auth.timeout)

    async def _renew(self, request: AuthorizedRequest, use: TokenUse, challenge: Challenge) -> None:
        """Replace the refused token. Raises `AuthError`."""
        if self.active is not use.active:
            return  # another request has renewed it already
        if not request.interactive and self._running is not None:
            await asyncio.wait({self._running.task})
            return
        if self._running is None:
            self._check(use, challenge)
        await self._share(lambda: self._run(request, use, challenge))

    def _check(self, use: TokenUse, challenge: Challenge) -> None:
        """Count a challenge. Raises `AuthError` if the request must not be retried."""
        used = use.active
        if use.more:
            use.steps += 1
            before = () if used is None else used.tokens.scopes or ()
            required = challenge.scopes or ()
            if use.steps > STEPS or not set(required) - set(before):
                asked = " ".join(before) or "none in particular"
                raise InsufficientScope(
                    f"{printable(self._url)} requires more scopes ({printable(' '.join(required)) or 'not named'}), "
                    f"and they were not granted (requested: {printable(asked)}): grant them at the authorization server",
                    required=required,
                    requested=before,
                )
            return
        use.refused += 1
        if used is not None and (
            use.refused >= REFUSALS or (used.source is Source.GIVEN and not used.proved)
        ):
            self.active = None
            why = f" ({challenge.reason})" if challenge.reason else ""
            raise TokenRejected(
                f"{printable(self._url)} refuses a token that {printable(used.key.issuer)} has just issued{why}: "
                "check that both are configured for the same resource and scopes",
                error=challenge.error,
            )

    # -- the shared flow -----------------------------------------------------------------------------------

    async def _share(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Wait for the running flow, or start one; cancel it when no request waits for it any more."""
        while (running := self._running) is not None and running.task.cancelling():
            await asyncio.wait({running.task})  # nobody waited for it; it may still store what it got
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
                if self._completing is None:
                    await asyncio.wait({task})
        if task.cancelled():
            raise AuthError("authorization was cancelled")
        task.result()

    def _done(self, task: asyncio.Task[None]) -> None:
        if self._running is not None and self._running.task is task:
            self._running = None
        if not task.cancelled():
            task.exception()

    async def _run(self, request: AuthorizedRequest, use: TokenUse, challenge: Challenge) -> None:
        """Discover the authorization server and obtain a token from it, unless a flow that was waited for has got one."""
        if self.active is not use.active:
            return
        auth, runner = self._auth, self._runner()
        search = flow.discover(
            self._url,
            _revisions(request),
            challenge,
            issuer=auth.issuer,
            resource=auth.resource,
            fits=auth.check_usable,
        )
        bound = DISCOVERY * auth.timeout
        try:
            async with asyncio.timeout(bound):
                place = await runner.run(search)
        except TimeoutError:
            raise DiscoveryFailed(
                f"the authorization server of {printable(self._url)} was not found within {bound:g} s"
            ) from None
        logger.debug("%s accepts tokens of %s", printable(self._url), printable(place.server.issuer))
        used = use.active
        before = list(used.tokens.scopes or ()) if used is not None and _is_at(used, place) else []
        required = challenge.scopes or () if use.more else ()
        found = await self._without_user(place, used, required, before)
        if found is None:
            scopes = wanted_scopes(place, challenge, auth.scopes, before, more=use.more)
            found = await self._obtain(runner, place, scopes, challenge)
        self.active = found

    def _runner(self) -> FlowRunner:
        from mcprev.auth.client.runner import FlowRunner

        private = self._auth.private or is_loopback(urlsplit(self._url).hostname or "")
        session = None if self.session is None or self.session.closed else self.session
        auth = self._auth
        return FlowRunner(self._url, session, private=private, seconds=auth.timeout, trust_env=auth.trust_env)

    async def _without_user(
        self, place: ProtectedServer, used: ActiveToken | None, required: Sequence[str], before: list[str]
    ) -> ActiveToken | None:
        """Return a stored or refreshed token with the scopes that are required, of the client that was used or of the one
        that is registered now; None adds to `before` the scopes of those that are stored.
        """
        own = used is not None and _is_at(used, place)
        tried: list[Registration] = []
        while len(tried) < CLIENTS:
            candidates = [await self._auth.client(place), used.client if used is not None and own else None]
            client = next((each for each in candidates if each is not None and each not in tried), None)
            if client is None:
                return None
            tried.append(client)
            found = await self._stored(place, client, used, required, before)
            if found is not None:
                return found
        return None

    async def _stored(
        self,
        place: ProtectedServer,
        client: Registration,
        used: ActiveToken | None,
        required: Sequence[str],
        before: list[str],
    ) -> ActiveToken | None:
        """Return the stored token of a client, refreshed if it has expired or was refused.

        None for one that lacks the scopes that are required: a refresh adds none.
        """
        records, key = self._auth.records, TokenKey(place.server.issuer, place.resource, client.client_id)
        found = await self._tokens(key, used)
        if found is None:
            return None
        before += (found.scopes or ())[:MAX_SCOPES]
        if not set(required) <= set(found.scopes or ()):
            return None
        if is_good(found, used):
            return ActiveToken(found, Source.STORED, place, client)
        async with self._lock(key.issuer):
            found = await self._tokens(key, used)  # another process may have refreshed it meanwhile
            if found is None or is_good(found, used):
                return None if found is None else ActiveToken(found, Source.STORED, place, client)
            refused = used is not None and used.tokens.access_token == found.access_token
            if found.refresh_token is None or (
                refused and used is not None and used.source is Source.REFRESHED and not used.proved
            ):
                return None
            try:
                return await self._refresh(ActiveToken(found, Source.STORED, place, client))
            except TokenRejected as error:
                if not error.error:
                    raise
                logger.debug("a refresh token is no longer valid: %s", error)
                newer = await self._tokens(key, used)
                if newer is not None and is_good(newer, used):
                    return ActiveToken(newer, Source.STORED, place, client)  # of a process without the lock
                await records.forget_tokens(key, found)
                if error.error in FORGET:
                    await records.forget_registration(key.issuer, client)
        return None

    async def _tokens(self, key: TokenKey, used: ActiveToken | None) -> Tokens | None:
        """Return the latest tokens; those that are bound to a key of this process are not in the store."""
        if self._auth.client_keys.dpop_signer is None:
            return await self._auth.records.tokens(key)
        return used.tokens if used is not None and used.key == key else None

    def _lock(self, issuer: str) -> AbstractAsyncContextManager[None]:
        return nullcontext() if self._auth.client_keys.dpop_signer else self._auth.records.lock(issuer)

    async def _refresh_early(self, active: ActiveToken) -> None:
        if self.active is not active:
            return  # by a flow that was cancelled, and waited for
        try:
            async with self._lock(active.key.issuer):
                found = await self._tokens(active.key, active)
                if found is None:
                    # Another process has deleted it: its refresh token is used up, or was refused.
                    active.refresh_at = inf
                elif _same(found, active.tokens):
                    await self._refresh(active)
                else:
                    # Another process has refreshed it; to use a refresh token twice looks like a theft.
                    self.active = ActiveToken(found, Source.STORED, active.place, active.client)
        except Exception as error:  # noqa: BLE001 - a store may raise anything, with secrets in the text
            logger.debug("a token was not refreshed in time: %s", type(error).__name__)
            active.refresh_at = inf

    async def _refresh(self, active: ActiveToken) -> ActiveToken:
        """Refresh a token and store the new one, also if it is cancelled: the old one may be used up."""
        return await self._complete(self._redeem(active))

    async def _complete(self, obtaining: Coroutine[Any, Any, ActiveToken]) -> ActiveToken:
        """Return a token that is obtained or stored; a cancellation waits for that."""
        self._completing = work = asyncio.get_running_loop().create_task(obtaining)
        try:
            await asyncio.wait({work})
        except asyncio.CancelledError:
            await asyncio.wait({work})
            if not work.cancelled():
                work.exception()
            raise
        finally:
            self._completing = None
        return work.result()

    async def _redeem(self, active: ActiveToken) -> ActiveToken:
        token = active.tokens.refresh_token
        assert token is not None
        form = {"grant_type": "refresh_token", "refresh_token": token}
        asked = request_token(active.place, active.client, form, client_keys=self._auth.client_keys)
        granted = await self._runner().run(asked)
        return await self._keep(
            active.place,
            granted.client or active.client,
            granted,
            active.tokens.scopes,
            Source.REFRESHED,
            active.tokens,
        )

    async def _obtain(
        self, runner: FlowRunner, place: ProtectedServer, scopes: Scopes, challenge: Challenge
    ) -> ActiveToken:
        """Request a token. Raises `InsufficientScope` for more than `MAX_SCOPES` scopes."""  # AUTH-17
        if len(scopes or ()) > MAX_SCOPES:
            raise InsufficientScope(
                f"{printable(self._url)} requires more than {MAX_SCOPES} scopes; none are requested",
                required=challenge.scopes or (),
                requested=scopes or (),
            )
        client = await self._auth.client(place)
        client, granted, asked = await self._auth.obtain(runner, place, client, scopes)
        return await self._complete(self._keep(place, client, granted, asked, Source.GIVEN, None))

    async def _keep(
        self,
        place: ProtectedServer,
        client: Registration,
        granted: TokenResponse,
        scopes: Sequence[str] | None,
        source: Source,
        replaced: Tokens | None,
    ) -> ActiveToken:
        """Use tokens for the next request, then store them."""
        ends = None if granted.expires_in is None else time.time() + granted.expires_in
        kept = join_scopes(scopes, granted.scopes)[:MAX_SCOPES]
        tokens = Tokens(
            granted.access_token,
            granted.refresh_token or (None if replaced is None else replaced.refresh_token),
            ends,
            kept or None,
        )
        dpop_signer = self._auth.client_keys.dpop_signer
        self.active = active = ActiveToken(tokens, source, place, client, dpop_signer)
        if dpop_signer is None:
            records = self._auth.records
            # Whoever refreshes holds the lock already. Without it, another process may delete what it has not read.
            async with records.lock_if_free(active.key.issuer) if replaced is None else nullcontext():
                await records.keep_tokens(active.key, tokens, replaces=replaced)
        return active


def _same(one: Tokens, other: Tokens) -> bool:
    """Return whether two records hold the same tokens; servers may renew a refresh token alone."""
    return (one.access_token, one.refresh_token) == (other.access_token, other.refresh_token)


def _is_at(used: ActiveToken, place: ProtectedServer) -> bool:
    """Return whether a token is of the same authorization server, and for the same resource."""
    return (used.place.server.issuer, used.place.resource) == (place.server.issuer, place.resource)


def _use_of(request: AuthorizedRequest) -> TokenUse:
    """Return the record of a request, which begins with the first call."""
    if not isinstance(request.state, TokenUse):
        request.state = TokenUse()
    return request.state


def _revisions(request: AuthorizedRequest) -> list[Revision]:
    """Return the revisions whose authorization rules may apply: the negotiated one first, else the newest."""
    spoken = request.revision
    revisions = [revision for revision in reversed(request.revisions) if revision.auth is not None]
    if spoken is not None and spoken.auth is not None and spoken.auth.resource_metadata:
        return [spoken, *(revision for revision in revisions if revision is not spoken)]
    # A server of a revision without resource metadata may still serve the metadata of a later one.
    return revisions


class TokenAuthorization(Credentials, Authorization):
    """Authorization by access tokens. It has one `Authorizer` for each server that the credentials are used at."""

    @cached_property
    def authorizers(self) -> dict[str, Authorizer]:
        """The authorizers, by the canonical URLs of their servers."""
        return {}

    @override
    def bind(self, url: str, session: aiohttp.ClientSession | None, /) -> Authorizer:
        """Return the authorizer of the server at a URL, which every target of that server shares.

        Raises `ValueError` for a URL that must not receive tokens.
        """
        key = canonical_resource(url) or url
        authorizer = self.authorizers.get(key)
        if authorizer is None:
            authorizer = self.authorizers[key] = Authorizer(url, self)
        authorizer.session = session
        return authorizer
