"""How a bridge authenticates at its servers: whose login it uses, who may begin one, and what never leaves it."""

from __future__ import annotations

import asyncio
import json
import re
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import aiohttp
import pytest

import mcprev
from api.wire import Message
from auth.world import World, world
from helpers.running import run
from helpers.shell import invoke
from mcprev.auth.client.store import MemoryTokens, Registration, TokenKey, Tokens
from mcprev.bridge.introduction import Sender
from mcprev.bridge.several.asking import asks_to_log_in, without_login
from mcprev.bridge.several.login_required import LoginRequired
from mcprev.bridge.several.logins import Logins, PrincipalTokens
from mcprev.bridge.several.options import BridgedServer, UserLogin
from mcprev.bridge.several.sealed import SealedTokens
from mcprev.bridge.several.servers import ConfigFile
from mcprev.protocol.connection_state import ConnectionState, IncomingRequest, Responder
from mcprev.revisions import DEFAULT, Revision
from mcprev.stores.memory import MemoryRecords
from mcprev.wire.jsonrpc import Request

SESSION: Final = [row for row in DEFAULT if row.handshake][-1]
MODERN: Final = DEFAULT[-1]
each_client = pytest.mark.parametrize("row", [SESSION, MODERN], ids=lambda row: row.name)
REPLIES: Final[Any] = {
    "tools/list": {"tools": [{"name": "pay", "inputSchema": {"type": "object"}}]},
    "tools/call": {"content": [{"type": "text", "text": "paid"}]},
}
app = mcprev.App("plain", "1")


@app.tool
def hello() -> str:
    return "hello"


async def verify(token: str) -> mcprev.Access | None:
    """A token of these tests is `subject:client:of-the-bridge`."""
    subject, _, rest = token.partition(":")
    client = rest.partition(":")[0]
    return mcprev.Access(subject, audience="https://b.example/mcp", audience_checked=True, client_id=client)


def identify(scope: Any) -> str | None:
    """The principal of a browser."""
    return next((value.decode() for name, value in scope["headers"] if name == b"x-user"), None)


class Served:
    """A bridge over HTTP in front of a server at which users log in, and of one where nobody does."""

    def __init__(self, at: World, url: str) -> None:
        self.at = at
        self.url = url

    @asynccontextmanager
    async def client(
        self, row: Revision, user: str, name: str = "app"
    ) -> AsyncGenerator[mcprev.Client, None]:
        headers = {"Authorization": f"Bearer {user}:{name}:of-the-bridge"}
        async with mcprev.connect(mcprev.http(self.url, headers=headers), mode=row.name) as client:
            yield client

    async def page_for(self, row: Revision, user: str, name: str = "app") -> str:
        """The page to log in at, as a client without elicitation is told."""
        async with self.client(row, user, name) as client:
            with pytest.raises(mcprev.RpcError) as raised:
                await client.call_tool("bank__log_in", {})
        found = re.search(r"http://\S+", str(raised.value))
        assert found is not None
        return found[0]


@asynccontextmanager
async def served(store: Any = None) -> AsyncGenerator[Served, None]:
    async with world(SESSION, REPLIES) as at:
        port: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        with socket.create_server(("127.0.0.1", 0)) as free:
            number = free.getsockname()[1]
        origin = f"http://127.0.0.1:{number}"
        bridge = mcprev.Bridge(
            {"plain": app, "bank": BridgedServer(target=at.mcp.url, login=UserLogin())},
            auth=mcprev.Bearer(
                verify, resource=f"{origin}/mcp", authorization_servers=["https://as.example"]
            ),
            logins=Logins(origin, identify, store=store),
        )
        serving = asyncio.ensure_future(bridge.serve_http(port=number, ready=port.set_result))
        await port
        try:
            yield Served(at, f"{origin}/mcp")
        finally:
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)


class Browser:
    """The browser of one user."""

    def __init__(self, user: str | None) -> None:
        headers = {} if user is None else {"X-User": user}
        self.session = aiohttp.ClientSession(headers=headers, cookie_jar=aiohttp.CookieJar(unsafe=True))

    async def get(self, url: str) -> tuple[int, str]:
        async with self.session.get(url, allow_redirects=False) as found:
            return found.status, await found.text()

    async def decide(self, start: str, decision: str = "allow") -> tuple[int, str]:
        """Open the page and decide; the status, and where it leads or what it says."""
        status, text = await self.get(start)
        if status != 200:
            return status, text
        fields = dict(re.findall(r'name="(\w+)" value="([^"]*)"', text))
        form = {"login": fields["login"], "check": fields["check"], "decision": decision}
        url = start.partition("start?")[0] + "allow"
        async with self.session.post(url, data=form, allow_redirects=False) as found:
            return found.status, found.headers.get("Location") or await found.text()


@asynccontextmanager
async def browsing(*users: str | None) -> AsyncGenerator[list[Browser], None]:
    browsers = [Browser(user) for user in users]
    try:
        yield browsers
    finally:
        for browser in browsers:
            await browser.session.close()


@pytest.mark.slow
@each_client
def test_a_user_logs_in_at_a_server_and_nobody_else_uses_it(row: Revision) -> None:
    async def main() -> None:
        async with served() as at, browsing("alice") as (alice,):
            async with at.client(row, "alice") as client:
                assert [tool.name async for tool in client.tools()] == ["plain__hello", "bank__log_in"]
                assert (await client.call_tool("plain__hello", {})).text == "hello"
            start = await at.page_for(row, "alice")
            status, where = await alice.decide(start)
            assert status == 303, where
            assert where.startswith(f"{at.at.issuer}/authorize?")
            status, text = await alice.get(await at.at.browse(where))
            assert (status, "Logged in" in text) == (200, True)
            async with at.client(row, "alice") as client:
                assert [tool.name async for tool in client.tools()] == ["plain__hello", "bank__pay"]
                assert (await client.call_tool("bank__pay", {})).text == "paid"
                assert (
                    await client.call_tool("bank__log_in", {})
                ).text == "You are logged in at 'bank'; list the tools again."
            # Neither another user nor another client of hers has her login.
            for user, name in (("bob", "app"), ("alice", "other")):
                async with at.client(row, user, name) as client:
                    assert [tool.name async for tool in client.tools()] == ["plain__hello", "bank__log_in"]
                    with pytest.raises(mcprev.RpcError, match="Log in at the server 'bank'"):
                        await client.call_tool("bank__pay", {})
            assert len(at.at.registered) == 1
            shown = {seen.headers.get("authorization", "") for seen in at.at.mcp.seen}
            assert shown == {"", "Bearer token-1"}
            everything = [*at.at.mcp.seen, *at.at.auth.seen]
            assert not any(
                "of-the-bridge" in f"{seen.pairs} {seen.path} {seen.body!r}" for seen in everything
            )

    run(main())


def test_a_login_is_of_the_browser_and_the_user_that_it_was_made_for() -> None:
    async def main() -> None:
        async with served() as at, browsing("alice", "alice", "mallory", None) as browsers:
            alice, again, mallory, nobody = browsers
            start = await at.page_for(MODERN, "alice")
            assert start == await at.page_for(MODERN, "alice")
            for browser, status in ((mallory, 400), (nobody, 403)):
                assert (await browser.decide(start))[0] == status
            status, text = await alice.decide(start, "deny")
            assert (status, "no access" in text) == (200, True)
            assert (await alice.decide(start))[0] == 400
            start = await at.page_for(MODERN, "alice")
            # A form without the cookie of its browser, as another site would send it.
            _, text = await alice.get(start)
            fields = dict(re.findall(r'name="(\w+)" value="([^"]*)"', text))
            url = start.partition("start?")[0]
            form = {**fields, "decision": "allow"}
            async with again.session.post(f"{url}allow", data=form, allow_redirects=False) as found:
                assert found.status == 400
            _, where = await alice.decide(start)
            back = await at.at.browse(where)
            for browser, wrong in ((again, back), (mallory, back), (alice, f"{url}callback?code=x&state=y")):
                assert (await browser.get(wrong))[0] == 400
            assert at.at.issued == 0
            assert (await alice.get(back))[0] == 200
            assert (await alice.get(back))[0] == 400
            assert (await alice.get(f"{url}nowhere"))[0] == 404

    run(main())


def test_the_authorization_page_is_not_asked_before_the_user_has_allowed_it() -> None:
    """Nor without the browser that comes back: also when the bridge is registered already, and could have been dropped."""

    async def main() -> None:
        async with served() as at, browsing("alice", "bob") as (alice, bob):

            def asked() -> int:
                return sum(urlsplit(seen.path).path == "/authorize" for seen in at.at.auth.seen)

            _, where = await alice.decide(await at.page_for(SESSION, "alice"))
            assert (await alice.get(await at.at.browse(where)))[0] == 200
            before = asked()
            start = await at.page_for(SESSION, "bob")
            assert asked() == before
            _, where = await bob.decide(start)
            assert asked() == before + 1, "the bridge looks whether it was dropped"
            back, before = await at.at.browse(where), asked()
            assert (await bob.get(back))[0] == 200
            assert asked() == before

    run(main(), limit=120.0)


def test_a_login_that_the_authorization_server_refuses_says_so() -> None:
    async def main() -> None:
        async with served() as at, browsing("alice") as (alice,):
            at.at.back = {"code": None, "error": "access_denied"}
            _, where = await alice.decide(await at.page_for(SESSION, "alice"))
            status, text = await alice.get(await at.at.browse(where))
            assert (status, "The login has failed" in text) == (400, True)
            at.at.back = {}
            _, where = await alice.decide(await at.page_for(SESSION, "alice"))
            assert (await alice.get(await at.at.browse(where)))[0] == 200

    run(main())


def test_tokens_that_were_stored_are_used_by_the_next_process() -> None:
    records = MemoryRecords()
    secret = "x" * 32

    async def main() -> None:
        store = SealedTokens(records, secret)
        async with served(store) as at, browsing("alice") as (alice,):
            _, where = await alice.decide(await at.page_for(MODERN, "alice"))
            assert (await alice.get(await at.at.browse(where)))[0] == 200
            found = PrincipalTokens(SealedTokens(records, secret), ("alice", "app"), "bank")
            key = TokenKey(at.at.issuer, at.at.mcp.url, "client-1")
            tokens = await found.tokens(key)
            assert tokens == Tokens("token-1", None, getattr(tokens, "expires_at", None), None)
            for sender in (("alice", "other"), ("alice", None), ("bob", "app")):
                assert await PrincipalTokens(store, sender, "bank").tokens(key) is None
            assert await PrincipalTokens(store, ("alice", "app"), "files").tokens(key) is None

    run(main())


# -- how a client is asked -----------------------------------------------------------------------------------


@pytest.mark.parametrize("row", DEFAULT, ids=lambda row: row.name)
@pytest.mark.parametrize("method", ["tools/call", "tools/list"])
@pytest.mark.parametrize("modes", [{}, {"url": {}}])
def test_a_client_is_asked_as_its_revision_allows(row: Revision, method: str, modes: Message) -> None:
    capabilities: Message = {"elicitation": modes} if modes else {}
    request = IncomingRequest(Responder(ConnectionState()), row, Request(1, method, {}), None, capabilities)
    result, error = asks_to_log_in(request, LoginRequired("bank", "https://b.example/start?login=t"))
    assert (result is None) is not (error is None)
    if modes and row.input_in_results and method == "tools/call":
        assert result is not None
        (asked,) = result["inputRequests"].values()
        assert asked["params"]["url"] == "https://b.example/start?login=t"
    elif modes and "url" in row.elicitation_modes and not row.input_in_results:
        assert error is not None
        assert error["code"] == -32042
        assert error["data"]["elicitations"][0]["elicitationId"] == "t"
    else:
        assert error is not None
        assert error["code"] == -32603
        assert "https://b.example/start?login=t" in error["message"]


def test_the_answer_to_the_bridge_is_not_passed_on() -> None:
    own = {"mcprev-login": {"action": "accept"}}
    assert without_login({"name": "x", "inputResponses": own}) == {"name": "x"}
    assert without_login({"inputResponses": {**own, "q": {}}}) == {"inputResponses": {"q": {}}}
    assert without_login({"name": "x"}) == {"name": "x"}


# -- what is refused at start --------------------------------------------------------------------------------


BANK: Final = BridgedServer(target="https://bank.example/mcp", login=UserLogin())


def test_logins_need_to_know_whose_they_are() -> None:
    with pytest.raises(ValueError, match="`logins` requires `auth`"):
        mcprev.Bridge({"bank": BANK}, logins=Logins("https://b.example", identify))
    bridge = mcprev.Bridge({"bank": BANK})
    with pytest.raises(
        ValueError, match="users log in at 'bank', which over HTTP requires `auth` and `logins`"
    ):
        bridge.asgi()
    bridge = mcprev.Bridge({"plain": app})
    bridge.asgi()
    with pytest.raises(ValueError, match="over HTTP requires `auth` and `logins`"):
        bridge.replace_servers({"bank": BANK})
    with pytest.raises(TypeError, match="requires a URL as `target`"):
        mcprev.Bridge({"bank": BridgedServer(target=app, login=UserLogin())})
    for url in ("http://b.example", "b.example", "https://"):
        with pytest.raises(ValueError, match="must be an https URL"):
            Logins(url, identify)
    with pytest.raises(ValueError, match="begin and end with a slash"):
        Logins("https://b.example", identify, path="logins")


# -- the configuration ---------------------------------------------------------------------------------------


def configured(tmp_path: Path, auth: Any, **entry: Any) -> ConfigFile:
    file = tmp_path / "mcp.json"
    servers = {"bank": {"url": "https://bank.example/mcp", **entry, "bridge": {"auth": auth}}}
    file.write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")
    return ConfigFile(file)


@pytest.mark.parametrize(
    ("auth", "text"),
    [
        ("x", "`bridge.auth` is not an object"),
        ({}, "`bridge.auth.type` is None; use 'client_credentials' or 'oauth'"),
        (
            {"type": "client_credentials", "clientID": "x"},
            "has no member `clientID`; did you mean 'clientId'",
        ),
        ({"type": "client_credentials", "issuer": "https://as.example"}, "requires `clientId`"),
        ({"type": "client_credentials", "clientId": "x", "clientSecret": "y"}, "requires `issuer`"),
        ({"type": "oauth", "clientId": 3}, "3 is not a string"),
        ({"type": "oauth", "scopes": "a"}, "scopes` is not a list"),
        ({"type": "oauth", "clientSecret": "${NOT_SET_HERE}"}, "NOT_SET_HERE is not set"),
        ({"type": "oauth", "clientSecret": "x"}, "requires `client_id`"),
    ],
)
def test_what_a_configuration_cannot_say_of_auth(auth: Any, text: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=f"the server 'bank' of the configuration: .*{re.escape(text)}"):
        mcprev.Bridge(configured(tmp_path, auth))


def test_a_command_has_no_auth(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    entry = {"command": "x", "bridge": {"auth": {"type": "oauth"}}}
    file.write_text(json.dumps({"mcpServers": {"a": entry}}), encoding="utf-8")
    with pytest.raises(ValueError, match="pass credentials of a command in `env`"):
        mcprev.Bridge(ConfigFile(file))


def test_logins_of_a_configuration_are_refused_over_http(tmp_path: Path) -> None:
    source = configured(tmp_path, {"type": "oauth"})
    with pytest.raises(ValueError, match="over HTTP requires `auth` and `logins`"):
        mcprev.Bridge(source).asgi()
    done = invoke(None, "bridge", "--http", "127.0.0.1:0", "--config", str(tmp_path / "mcp.json"))
    assert done.exit_code == 1
    assert "users log in at 'bank', which over HTTP requires `auth` and `logins`" in done.output


@each_client
def test_a_program_has_a_token_of_its_own_and_headers_reach_their_server_alone(
    row: Revision, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BANK_SECRET", "s3cret")

    async def main() -> None:
        async with world(SESSION, REPLIES) as at, world(SESSION, REPLIES) as other:
            other.good["fixed"] = set()
            auth = {
                "type": "client_credentials",
                "issuer": at.issuer,
                "clientId": "me",
                "clientSecret": "${BANK_SECRET}",
            }
            servers = {
                "bank": {"url": at.mcp.url, "bridge": {"auth": auth}},
                "shop": {"url": other.mcp.url, "headers": {"Authorization": "Bearer fixed"}},
            }
            file = tmp_path / "mcp.json"
            file.write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")
            async with mcprev.connect(mcprev.Bridge(ConfigFile(file)), mode=row.name) as client:
                assert [tool.name async for tool in client.tools()] == ["bank__pay", "shop__pay"]
                for name in ("bank", "shop"):
                    assert (await client.call_tool(f"{name}__pay", {})).text == "paid"
            assert at.log == ["client_credentials"]
            assert {seen.headers.get("authorization") for seen in at.mcp.seen} == {None, "Bearer token-1"}
            assert {seen.headers.get("authorization") for seen in other.mcp.seen} == {"Bearer fixed"}
            assert not other.auth.seen

    run(main())


# -- sealed tokens -------------------------------------------------------------------------------------------


def test_sealed_tokens_show_nothing_and_open_for_their_secret_alone() -> None:
    records = MemoryRecords()
    key, tokens = TokenKey("https://as.example", "https://a.example/mcp", "me"), Tokens(
        "secret-token", "secret-refresh", 5.0, ("a",)
    )
    registration = Registration("me", "secret-of-client", "client_secret_basic", ("https://b.example/cb",))

    async def main() -> None:
        store = SealedTokens(records, ["x" * 32])
        await store.keep_tokens(key, tokens)
        await store.keep_registration("https://as.example", registration)
        found = await store.tokens(key)
        assert found is not None
        assert (found.access_token, found.refresh_token, found.expires_at) == (
            "secret-token",
            "secret-refresh",
            5.0,
        )
        known = await store.registration("https://as.example")
        assert known == replace(registration, redirect_uris=["https://b.example/cb"])
        shown = repr(vars(records))
        assert "secret" not in shown
        assert "as.example" not in shown
        assert await SealedTokens(records, "y" * 32).tokens(key) is None
        rotated = SealedTokens(records, ["y" * 32, "x" * 32])
        assert await rotated.tokens(key) is not None
        await store.keep_tokens(key, None)
        assert await store.tokens(key) is None
        await store.keep_registration("https://as.example", None)
        assert await store.registration("https://as.example") is None

    run(main())


def test_one_process_at_a_time_holds_the_lock_of_sealed_tokens() -> None:
    records, inside = MemoryRecords(), list[int]()

    async def main() -> None:
        async def work(number: int) -> None:
            async with SealedTokens(records, "x" * 32).lock("https://as.example"):
                inside.append(number)
                await asyncio.sleep(0)
                assert inside[-1] == number

        await asyncio.gather(*(work(number) for number in range(5)))
        assert sorted(inside) == list(range(5))

    run(main())


def test_a_store_without_locks_will_do() -> None:
    class Plain:
        """A store of a user's own."""

        def __init__(self) -> None:
            self.inner = MemoryTokens()

        async def tokens(self, key: TokenKey, /) -> Tokens | None:
            return await self.inner.tokens(key)

        async def keep_tokens(self, key: TokenKey, tokens: Tokens | None, /) -> None:
            await self.inner.keep_tokens(key, tokens)

        async def registration(self, issuer: str, /) -> Registration | None:
            return await self.inner.registration(issuer)

        async def keep_registration(self, issuer: str, registration: Registration | None, /) -> None:
            await self.inner.keep_registration(issuer, registration)

    sender: Sender = "alice", None

    async def main() -> None:
        store = PrincipalTokens(Plain(), sender, "bank")
        async with store.lock("https://as.example"):
            await store.keep_registration("https://as.example", Registration("me"))
        assert await store.registration("https://as.example") == Registration("me")

    run(main())
