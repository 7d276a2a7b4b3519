"""When a client uses, refreshes and gives up tokens: decisions at their bounds, and with clocks that are set."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from math import inf, nan
from typing import Any, Final

import aiohttp
import pytest
from multidict import CIMultiDict, CIMultiDictProxy

import mcprev
from auth.world import World, basic, form, world
from helpers.named import ROW_D
from helpers.raw_server import Exchange
from helpers.requirements import E, req
from helpers.running import run, until
from mcprev.auth.client import tokens
from mcprev.auth.client.active_token import ActiveToken, Source, is_good
from mcprev.auth.client.authorizer import CLIENTS, REFUSALS
from mcprev.auth.client.discovery import ProtectedServer, ServerMetadata
from mcprev.auth.client.steps import HttpFetch, HttpReply
from mcprev.errors import TokenRejected
from mcprev.revisions import DEFAULT

ROW: Final = DEFAULT[-1]
NOW: Final = 1_000_000.0
DAY: Final = 86400.0
REPLIES: Final[dict[str, Any]] = {"tools/call": {"content": []}}
PLACE: Final = ProtectedServer(
    ROW,
    "https://mcp.example/mcp",
    ServerMetadata("https://as.example", "https://as.example/token", methods=("client_secret_basic",)),
)
CLIENT: Final = mcprev.Registration("me", "s%41 +", "client_secret_basic")


def connecting(at: World, auth: Any = None) -> mcprev.connect:
    target = mcprev.http(at.mcp.url, auth=at.oauth() if auth is None else auth)
    return mcprev.connect(target, revisions=[at.revision.name], validate="off")


# -- expiry ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lasts", "refresh_token", "refreshed"),
    [
        (1000, "refresh", 970),
        (120, "refresh", 90),
        (40, "refresh", 30),
        (0, "refresh", 0),
        (-1000, "refresh", -1000),
        (1000, None, inf),
        (None, "refresh", inf),
    ],
)
@req("AUTH-18", at=E)
def test_when_a_token_is_refreshed(
    lasts: float | None, refresh_token: str | None, refreshed: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "time", lambda: NOW)
    found = mcprev.Tokens("token", refresh_token, None if lasts is None else NOW + lasts)
    assert ActiveToken(found, Source.STORED, PLACE, CLIENT).refresh_at == NOW + refreshed


@pytest.mark.parametrize(("lasts", "good"), [(None, True), (1, True), (0, False), (-1, False), (-DAY, False)])
@req("AUTH-18", at=E)
def test_a_stored_token_is_good_until_it_expires_or_is_refused(
    lasts: float | None, good: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "time", lambda: NOW)
    found = mcprev.Tokens("token", "refresh", None if lasts is None else NOW + lasts)
    other = ActiveToken(mcprev.Tokens("other"), Source.STORED, PLACE, CLIENT)
    assert is_good(found, None) is is_good(found, other) is good
    assert not is_good(found, ActiveToken(found, Source.STORED, PLACE, CLIENT))


@pytest.mark.slow
@pytest.mark.parametrize("step", [-3650 * DAY, -DAY, DAY, 3650 * DAY])
@req("AUTH-18", "AUTH-22", at=E)
def test_a_clock_that_is_set_costs_one_refresh_and_no_login(
    step: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Set back, the server says when a token has expired; set forward, it is refreshed once. So it is after a restart."""

    async def main() -> None:
        true, store = time.time, mcprev.MemoryTokens()
        async with world(ROW, REPLIES) as at:
            at.refreshes = at.revokes = True
            auth = at.oauth(store=store)
            async with connecting(at, auth) as client:
                for offset in (step, 0.0, step):
                    monkeypatch.setattr(time, "time", lambda offset=offset: true() + offset)
                    at.log.clear()
                    for _ in range(3):
                        await client.call_tool("any", {})
                    assert at.log in ([], ["refresh_token"])
                    at.good.clear()
                    at.log.clear()
                    for _ in range(3):
                        await client.call_tool("any", {})
                    assert at.log == ["refresh_token"]
            for offset in (0.0, step):
                monkeypatch.setattr(time, "time", lambda offset=offset: true() + offset)
                at.log.clear()
                async with connecting(at, at.oauth(store=store)) as client:
                    for _ in range(3):
                        await client.call_tool("any", {})
                assert at.log in ([], ["refresh_token"])

    run(main())


# -- what a challenge leads to -----------------------------------------------------------------------------


@req("AUTH-17", "AUTH-18", at=E)
def test_a_refresh_does_not_stand_in_for_a_login_with_more_scopes() -> None:
    async def main() -> None:
        async with world(ROW, REPLIES) as at:
            at.refreshes = True
            async with connecting(at) as client:
                at.needs["tools/call"] = "more"
                at.log.clear()
                await client.call_tool("any", {})
            assert at.log == ["authorize", "authorization_code"]

    run(main())


class Endless(mcprev.MemoryTokens):
    """Always holds another token, as if another process stored one after the other."""

    def __init__(self) -> None:
        super().__init__()
        self.reads = 0

    async def tokens(self, key: mcprev.TokenKey, /) -> mcprev.Tokens | None:
        self.reads += 1
        return mcprev.Tokens(f"stored-{self.reads}")


@req("AUTH-17", "AUTH-22", at=E)
def test_stored_tokens_that_are_all_refused_are_given_up() -> None:
    async def main() -> None:
        async with world(ROW, REPLIES) as at:
            store = Endless()
            with pytest.raises(TokenRejected, match="just issued"):
                await connecting(at, at.oauth(store=store, client_id="mine"))
            assert store.reads == REFUSALS - 1

    run(main())


@req("AUTH-17", "AUTH-22", at=E)
def test_a_new_token_that_is_refused_is_not_sent_for_ever() -> None:
    async def main() -> None:
        async with world(ROW, REPLIES) as at, connecting(at) as client:
            at.good.clear()
            issue, at.issue = at.issue, lambda *_: "bad"  # type: ignore[method-assign]
            with pytest.raises(TokenRejected, match="just issued"):
                await client.call_tool("any", {})
            at.issue = issue  # type: ignore[method-assign]
            await client.call_tool("any", {})

    run(main())


@req("AUTH-18", "AUTH-22", everywhere=True)
@pytest.mark.parametrize("how", ["expired", "refused"])
def test_nobody_logs_in_or_refreshes_to_end_a_session(how: str) -> None:
    async def main() -> None:
        async with world(ROW_D, REPLIES) as at:
            at.refreshes = True
            auth = at.oauth()
            async with connecting(at, auth) as client:
                await client.call_tool("any", {})
                (authorizer,) = auth.authorizers.values()
                assert authorizer.active is not None
                at.log.clear()
                if how == "expired":
                    authorizer.active.refresh_at = 0
                else:
                    at.good.clear()
            assert at.log == []
            assert [seen for seen in at.mcp.seen if seen.verb == "DELETE"]

    run(main())


@req("AUTH-22", at=E)
def test_a_request_that_asks_nobody_is_sent_again_only_with_another_token() -> None:
    async def main() -> None:
        authorizer = mcprev.OAuth().bind("https://mcp.example/mcp", None)
        none = CIMultiDictProxy(CIMultiDict[str]())
        for before in (None, ActiveToken(mcprev.Tokens("old"), Source.STORED, PLACE, CLIENT)):
            authorizer.active = before
            request = mcprev.AuthorizedRequest("DELETE", "https://mcp.example/mcp", None, ROW_D, [ROW_D])
            await authorizer.headers(request)
            assert not authorizer.retry(request, 401, none)
            authorizer.active = ActiveToken(mcprev.Tokens("new"), Source.STORED, PLACE, CLIENT)
            assert authorizer.retry(request, 401, none)
            assert await authorizer.headers(request) == {"Authorization": "Bearer new"}

    run(main())


class Login:
    """A login that a user begins and does not end, and requests of the client beside it."""

    def __init__(self, at: World) -> None:
        self.at, self.pages = at, 0
        self.answered, self.released = asyncio.Event(), asyncio.Event()
        self.released.set()
        at.browser = self.browse
        self.authorizer = at.oauth().bind(at.mcp.url, None)

    async def browse(self, url: str) -> str:
        self.pages += 1
        try:
            await self.answered.wait()
        except asyncio.CancelledError:
            await self.released.wait()
            raise
        return await self.at.browse(url)

    async def refused(self, method: str, status: int = 401, **said: str) -> asyncio.Task[Mapping[str, str]]:
        """A request that is refused, and then sent again with the headers that the task returns."""
        request = mcprev.AuthorizedRequest(method, self.at.mcp.url, None, ROW_D, [ROW_D])
        await self.authorizer.headers(request)
        told = ", ".join(f'{name}="{value}"' for name, value in {**self.at.challenge, **said}.items())
        wants = CIMultiDictProxy(CIMultiDict({"WWW-Authenticate": f"Bearer {told}"}))
        assert self.authorizer.retry(request, status, wants)
        again = asyncio.create_task(self.authorizer.headers(request))
        await asyncio.sleep(0)
        return again


@req("AUTH-18", "AUTH-22", at=E)
@pytest.mark.parametrize("ends", [True, False])
def test_the_end_of_a_session_waits_for_a_login_and_keeps_none_alive(ends: bool) -> None:
    async def main() -> None:
        async with world(ROW_D) as at, asyncio.timeout(20):
            login = Login(at)
            call = await login.refused("GET")
            await until(lambda: login.pages == 1)
            end = await login.refused("DELETE")
            if ends:
                login.answered.set()
                assert await end == await call == {"Authorization": "Bearer token-1"}
            else:
                call.cancel()
                assert await end == {}
                await asyncio.wait({call})
            assert login.pages == 1

    run(main())


@req("AUTH-18", at=E)
def test_who_waits_for_the_login_of_another_is_not_refused_for_what_it_lacks_itself() -> None:
    async def main() -> None:
        async with world(ROW_D) as at, asyncio.timeout(20):
            login = Login(at)
            before = mcprev.Tokens("old", scopes=("a",))
            login.authorizer.active = ActiveToken(before, Source.STORED, PLACE, CLIENT)
            first = await login.refused("GET", 403, error="insufficient_scope", scope="a b")
            await until(lambda: login.pages == 1)
            other = await login.refused("GET", 403, error="insufficient_scope", scope="a")
            login.answered.set()
            assert await first == await other == {"Authorization": "Bearer token-1"}
            assert login.pages == 1

    run(main())


@req("AUTH-18", at=E)
def test_who_comes_while_a_login_is_cancelled_begins_another() -> None:
    async def main() -> None:
        async with world(ROW_D) as at, asyncio.timeout(20):
            login = Login(at)
            first = await login.refused("GET")
            await until(lambda: login.pages == 1)
            login.released.clear()
            first.cancel()
            await asyncio.sleep(0)
            other = await login.refused("GET")
            assert not first.done(), "what it has begun has not ended"
            login.answered.set()
            login.released.set()
            assert await other == {"Authorization": "Bearer token-1"}
            assert login.pages == 2
            await asyncio.wait({first})

    run(main())


@req("AUTH-18", "AUTH-22", at=E)
def test_a_caller_who_is_cancelled_does_not_wait_for_the_refresh_that_goes_on() -> None:
    async def main() -> None:
        async with world(ROW_D) as at, asyncio.timeout(20):
            at.refreshes = True
            login = Login(at)
            login.answered.set()
            await (await login.refused("GET"))
            asked, answered = asyncio.Event(), asyncio.Event()

            async def slow(exchange: Exchange) -> None:
                asked.set()
                await answered.wait()
                await at.token(exchange)

            at.tokens, authorizer = slow, login.authorizer
            assert authorizer.active is not None
            authorizer.active.refresh_at = 0
            request = mcprev.AuthorizedRequest("GET", at.mcp.url, None, ROW_D, [ROW_D])
            call = asyncio.create_task(authorizer.headers(request))
            await asked.wait()
            call.cancel()
            await asyncio.wait({call}, timeout=5)
            assert call.cancelled()
            answered.set()
            await authorizer.drain()
            assert authorizer.active.tokens.access_token == "token-2"

    run(main())


@req("AUTH-18", at=E)
def test_a_flow_that_ends_late_does_not_end_the_next_one() -> None:
    async def main() -> None:
        async with world(ROW_D) as at, asyncio.timeout(20):
            login = Login(at)
            call = await login.refused("GET")
            await until(lambda: login.pages == 1)
            running, earlier = login.authorizer._running, asyncio.create_task(asyncio.sleep(0))
            await earlier
            login.authorizer._done(earlier)
            assert login.authorizer._running is running is not None
            login.answered.set()
            await call
            assert login.authorizer._running is None

    run(main())


class Meanwhile(mcprev.MemoryTokens):
    """Another process refreshes what is refused while this one waits for the lock."""

    def __init__(self, at: World) -> None:
        super().__init__()
        self.at = at
        self.keys: list[mcprev.TokenKey] = []

    async def keep_tokens(self, key: mcprev.TokenKey, tokens: mcprev.Tokens | None, /) -> None:
        self.keys.append(key)
        await super().keep_tokens(key, tokens)

    @asynccontextmanager
    async def lock(  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride]
        self, issuer: str, /
    ) -> AsyncGenerator[None, None]:
        del issuer
        for key in self.keys[:1]:
            found = await self.tokens(key)
            if found is not None and found.access_token not in self.at.good:
                await super().keep_tokens(key, mcprev.Tokens(self.at.issue(), "refresh-of-another"))
        yield


@req("AUTH-18", "AUTH-22", at=E)
def test_what_another_process_refreshed_before_the_lock_was_free_is_used() -> None:
    """Using the refresh token that it has used up would look like a theft."""

    async def main() -> None:
        async with world(ROW, REPLIES) as at:
            at.refreshes = at.revokes = True
            store = Meanwhile(at)
            for _ in range(2):
                async with connecting(at, at.oauth(store=store)) as client:
                    await client.call_tool("any", {})
                assert "refresh_token" not in at.log
                at.good.clear()

    run(main())


class Renamed(mcprev.MemoryTokens):
    """Always holds another registration, as if other processes registered one after the other."""

    def __init__(self) -> None:
        super().__init__()
        self.reads = 0

    async def registration(self, issuer: str, /) -> mcprev.Registration | None:
        self.reads += 1
        return mcprev.Registration(f"client-{self.reads}")


@req("AUTH-12", "AUTH-22", at=E)
def test_registrations_that_change_again_and_again_are_tried_a_few_times() -> None:
    async def main() -> None:
        async with world(ROW, REPLIES) as at:
            store = Renamed()
            async with asyncio.timeout(10), connecting(at, at.oauth(store=store)) as client:
                await client.call_tool("any", {})
            assert store.reads == CLIENTS + 1

    run(main())


@req("AUTH-17", "AUTH-18", at=E)
def test_a_refreshed_token_that_is_refused_leads_to_a_login() -> None:
    async def main() -> None:
        async with world(ROW, REPLIES) as at:
            at.refreshes = True
            async with connecting(at) as client:

                async def token(exchange: Exchange) -> None:
                    await at.token(exchange)
                    if form(exchange)["grant_type"] == "refresh_token":
                        at.good.clear()

                at.good.clear()
                at.log.clear()
                at.tokens = token
                await client.call_tool("any", {})
            assert at.log == ["refresh_token", "authorize", "authorization_code"]

    run(main())


# -- logins ------------------------------------------------------------------------------------------------


@req("AUTH-11", "SEC-2", at=E)
def test_one_login_page_at_a_time_is_open() -> None:
    async def main() -> None:
        async with world(ROW, REPLIES) as one, world(ROW, REPLIES) as other:
            opened: list[int] = []

            async def browse(url: str) -> str:
                opened.append(1)
                await asyncio.sleep(0.05)
                back = await (one if url.startswith(one.issuer) else other).browse(url)
                opened.append(-1)
                return back

            one.browser = browse
            auth = one.oauth()
            async with asyncio.TaskGroup() as group:
                entered = [group.create_task(connecting(at, auth).__aenter__()) for at in (one, other)]
            assert opened == [1, -1, 1, -1]
            for each in entered:
                await each.result().aclose()

    run(main())


@req("AUTH-12", at=E)
@pytest.mark.parametrize(("error", "kept"), [("invalid_grant", True), ("invalid_client", False)])
def test_a_registration_is_forgotten_for_errors_about_it_alone(error: str, kept: bool) -> None:
    async def main() -> None:
        async with world(ROW) as at:
            auth = at.oauth()

            async def token(exchange: Exchange) -> None:
                await exchange.json({"error": error}, 400)

            at.metadata["token_endpoint_auth_methods_supported"] = ["none"]
            at.tokens = token
            with pytest.raises(TokenRejected):
                await connecting(at, auth)
            assert (await auth.store.registration(at.issuer) is not None) is kept

    run(main())


@req("AUTH-11", "SEC-2", at=E)
def test_nothing_is_taken_for_a_login_before_one_is_asked_for() -> None:
    async def main() -> None:
        async with (
            mcprev.Loopback(open=lambda _: True).ready() as (uri, visit),
            aiohttp.ClientSession() as session,
        ):
            for query in ("", "?state=", "?code=evil", "?code=evil&state="):
                async with session.get(uri + query) as response:
                    assert response.status == 400
            login = asyncio.ensure_future(visit("https://as.example/authorize?state=s"))
            while True:
                async with session.get(f"{uri}?code=good&state=s") as response:
                    if response.status == 200:
                        break
            assert (await login).endswith("?code=good&state=s")

    run(main())


# -- discovery ---------------------------------------------------------------------------------------------


@req("AUTH-6", "SEC-6", at=E)
def test_discovery_as_a_whole_is_bounded() -> None:
    """Each of many documents is late, but none too late."""

    async def main() -> None:
        async with world(ROW) as at:
            waited = 0

            async def late(exchange: Exchange) -> None:
                nonlocal waited
                waited += 1
                await asyncio.sleep(1.5)
                await exchange.respond(404)

            at.resource["authorization_servers"] = [f"{at.issuer}/{tenant}" for tenant in "abcde"]
            for tenant in "abcde":
                for path in (f"{{}}/{tenant}", f"/{tenant}{{}}"):
                    for known in ("oauth-authorization-server", "openid-configuration"):
                        at.documents[at.issuer + path.format(f"/.well-known/{known}")] = late
            with pytest.raises(mcprev.DiscoveryFailed, match=r"not found within 8 s"):
                await connecting(at, at.oauth(timeout=2))
            assert waited < 15

    run(main(), has_both_ends=True)


# -- the token endpoint ------------------------------------------------------------------------------------


def asked(client: mcprev.Registration, *replies: HttpReply) -> tuple[list[HttpFetch], object]:
    """The requests for a token with these replies, and what comes of them."""
    flow, sent = tokens.request_token(PLACE, client, {"grant_type": "x"}), list[HttpFetch]()
    try:
        step = next(flow)
        for reply in replies:
            assert isinstance(step, HttpFetch)
            sent.append(step)
            step = flow.send(reply)
    except StopIteration as done:
        return sent, done.value
    except TokenRejected as error:
        return sent, error
    raise AssertionError("another request")


@pytest.mark.parametrize("token", ["a b", "a\x00", "a\tb", "\x7f", "a\u00e9", "", " "])
@req("AUTH-2", "SEC-6", at=E)
def test_a_token_that_no_header_can_carry_is_refused(token: str) -> None:
    reply = HttpReply(200, json.dumps({"access_token": token, "token_type": "bearer"}).encode())
    _, found = asked(CLIENT, reply)
    assert isinstance(found, TokenRejected)
    assert "no usable token" in str(found)


@req("AUTH-9", at=E)
def test_a_secret_is_not_sent_in_a_way_that_the_server_does_not_offer() -> None:
    refused = HttpReply(401, b'{"error": "invalid_client"}')
    sent, found = asked(CLIENT, refused)
    assert isinstance(found, TokenRejected)
    (one,) = sent
    assert basic(dict(one.headers)["Authorization"]) == ("me", "s%41 +")


@pytest.mark.parametrize(
    ("said", "seconds"),
    [("9" * 11, 99999999999.0), ("9" * 12, None), ("9" * 400, None), (nan, None), (inf, 1e12)],
)
@req("AUTH-18", at=E)
def test_a_lifetime_is_a_number_of_a_usual_size(said: object, seconds: float | None) -> None:
    assert tokens.seconds(said) == seconds


@req("AUTH-17", at=E)
def test_an_identity_provider_is_asked_for_the_scopes() -> None:
    async def main() -> None:
        async with world(ROW) as at:
            seen: list[str | None] = []

            async def vouch(exchange: Exchange) -> None:
                seen.append(form(exchange).get("scope"))
                await exchange.json({"access_token": "vouched", "issued_token_type": tokens.ID_JAG})

            at.documents[f"{at.issuer}/idp"] = vouch
            auth = mcprev.EnterpriseManaged(
                "me", "secret", provider=f"{at.issuer}/idp", provider_client_id="i", id_token="user",
                issuer=at.issuer, scopes=["a", "b"],
            )  # fmt: skip
            async with connecting(at, auth):
                assert seen == ["a b"]

    run(main())
