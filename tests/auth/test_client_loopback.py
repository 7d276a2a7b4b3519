"""The browser that comes back to this machine, and what may be opened and fetched on the way."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any, Final

import aiohttp
import pytest

import mcprev
from auth.world import query, world
from mcprev.oauth import loopback
from mcprev.oauth.runner import FlowRunner
from mcprev.oauth.steps import Flow, HttpFetch, HttpReply
from mcprev.revisions import DEFAULT, Revision
from raw_server import Exchange, serve
from requirements import C, D, E, req
from running import run, until

PAGE = "https://auth.example/authorize?state=x"


async def get(url: str) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        return response.status, await response.text()


@req("AUTH-11", "SEC-2")
def test_a_user_logs_in_with_a_browser(row: Revision) -> None:
    async def main() -> None:
        browsing: list[Future[None]] = []
        async with world(row) as at:
            loop = asyncio.get_running_loop()

            def show(url: str) -> bool:
                """What a browser does: it goes where the page sends it."""

                async def browse() -> None:
                    said = query(url)
                    back = said["redirect_uri"]
                    assert back.startswith("http://127.0.0.1:")
                    assert (await get(back.replace("callback", "favicon.ico")))[0] == 404
                    assert (await get(f"{back}?code=evil&state=guessed"))[0] == 400
                    answer = (await at.browse(url)).partition("?")[2]
                    status, text = await get(f"{back}?{answer}")
                    assert status == 200
                    assert "close this page" in text

                browsing.append(asyncio.run_coroutine_threadsafe(browse(), loop))
                return True

            auth = mcprev.OAuth(loopback=mcprev.Loopback(open=show))
            async with mcprev.connect(mcprev.http(at.mcp.url, auth=auth), revisions=[row.name]) as client:
                assert client.revision == row.name
                await asyncio.wrap_future(browsing[0])
            assert at.log == ["register", "authorize", "authorization_code"]
            at.good.clear()
            async with mcprev.connect(mcprev.http(at.mcp.url, auth=auth), revisions=[row.name]):
                await asyncio.wrap_future(browsing[1])
            assert at.log.count("register") == 1, "the port is the same again"

    run(main())


@req("AUTH-11", at=E)
def test_nothing_is_left_open_by_a_login_that_fails() -> None:
    async def main() -> None:
        where: list[int] = []
        helper = mcprev.Loopback(open=lambda _: False)
        async with helper.ready() as (redirect_uri, visit):
            where.append(int(redirect_uri.split(":")[2].split("/")[0]))
            with pytest.raises(mcprev.AuthError, match="no browser"):
                await visit(PAGE)
        with pytest.raises(OSError, match="onnect"):
            await asyncio.open_connection("127.0.0.1", where[0])
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            with pytest.raises(mcprev.AuthError, match="cannot listen for the login on port"):
                async with mcprev.Loopback(port=taken.getsockname()[1]).ready():
                    pass

    run(main())


@req("AUTH-22", at=E)
def test_nothing_is_listened_at_once_nobody_waits() -> None:
    async def main() -> None:
        shown = asyncio.Event()
        loop = asyncio.get_running_loop()
        where: list[str] = []

        def show(url: str) -> bool:
            where.append(query(url)["redirect_uri"])
            loop.call_soon_threadsafe(shown.set)
            return True

        async with world(DEFAULT[-1]) as at:
            auth = mcprev.OAuth(loopback=mcprev.Loopback(open=show))
            entering = asyncio.ensure_future(mcprev.connect(mcprev.http(at.mcp.url, auth=auth)).__aenter__())
            await shown.wait()
            entering.cancel()
            await asyncio.wait({entering})
            with pytest.raises(aiohttp.ClientConnectorError):
                await get(where[0])

    run(main())


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"\r\n\r\n",
        b"GET /callback HTTP/1.1\r\n",
        b"\xff" * 100_000,
        b"POST /callback?state=x HTTP/1.1\r\n\r\n",
    ],
)
@req("AUTH-11", "SEC-6", at=E)
def test_strange_visitors_change_nothing(said: bytes) -> None:
    async def main() -> None:
        async with mcprev.Loopback(open=lambda _: True).ready() as (redirect_uri, visit):
            coming = asyncio.ensure_future(visit(PAGE))
            port = int(redirect_uri.split(":")[2].split("/")[0])
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(said)
            await asyncio.sleep(0)
            assert (await get(f"{redirect_uri}?state=x&code=c"))[0] == 200
            assert query(await coming) == {"state": "x", "code": "c"}
            writer.close()

    run(main())


@pytest.mark.parametrize(
    "page", ["javascript:alert(1)", "file:///etc/passwd", "http://example.com/", "https://a b/", "-v"]
)
@req("SEC-2", at=(D, E))
def test_a_browser_is_opened_for_pages_of_the_web_only(page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []

    def show(url: str) -> bool:
        opened.append(url)
        return True

    def decline(_: str) -> bool:
        return False

    monkeypatch.setattr("webbrowser.open", show)
    with pytest.raises(mcprev.DiscoveryFailed):
        loopback.open_browser(page)
    assert opened == []
    assert loopback.open_browser(PAGE)
    assert loopback.open_browser("http://127.0.0.1:1/")
    assert opened == [PAGE, "http://127.0.0.1:1/"]
    monkeypatch.setattr("webbrowser.open", decline)
    assert not loopback.open_browser(PAGE)


# -- what is fetched ---------------------------------------------------------------------------------------


def fetch(url: str, body: bytes | None = None) -> Flow[HttpReply]:
    reply = yield HttpFetch(url, (), body)
    assert isinstance(reply, HttpReply)
    return reply


@req("SEC-1", at=(C, D, E))
def test_redirects_are_followed_hop_by_hop_and_secrets_never() -> None:
    async def main() -> None:
        hops = {
            "/a": "/b",
            "/b": "/c?d",
            "/loop": "/loop",
            "/out": "http://example.com/",
            "/in": "https://10.0.0.1/",
            "/none": "",
        }

        async def answer(exchange: Exchange) -> None:
            to = hops.get(exchange.path)
            if to is None:
                await exchange.json({"at": exchange.path})
            else:
                await exchange.respond(307, b"", {"Location": to} if to else {})

        async with serve(answer) as raw:
            runner = FlowRunner(raw.url, None, private=True, seconds=5)
            found = await runner.run(fetch(f"{raw.origin}/a"))
            assert (found.status, found.body) == (200, b'{"at": "/c?d"}')
            for path, why in (
                ("/loop", "more than 5 redirects"),
                ("/out", "not https"),
                ("/none", "without a valid URL"),
            ):
                found = await runner.run(fetch(raw.origin + path))
                assert found.status == 0
                assert why in found.outcome
            found = await runner.run(fetch(f"{raw.origin}/a", b"secret"))
            assert found.status == 0
            assert "not followed" in found.why
            assert [seen.path for seen in raw.seen].count("/a") == 2

    run(main())


@req("SEC-1", at=(C, D, E))
def test_names_do_not_lead_into_a_private_network() -> None:
    async def main() -> None:
        runner = FlowRunner("https://mcp.example", None, private=False, seconds=5)
        for url in (
            "https://127.0.0.1/",
            "https://localhost/",
            "https://10.0.0.1/",
            "https://[fd00::1]/",
            "http://example.com/",
        ):
            found = await runner.run(fetch(url))
            assert found.status == 0
            assert "named a URL" in found.why
        runner = FlowRunner("https://10.0.0.1/mcp", None, private=False, seconds=0.2)
        found = await runner.run(fetch("https://10.0.0.1/.well-known/x"))
        assert "named a URL" not in found.why, "the user has named it"

    run(main())


# -- functions of users ------------------------------------------------------------------------------------

Show = Callable[[str], Any]


async def _later(show: Show, page: str) -> Any:
    await asyncio.sleep(0)
    return show(page)


def _in_lambda(show: Show) -> Show:
    return lambda page: _later(show, page)


class _Opener:
    def __init__(self, show: Show) -> None:
        self._show = show

    async def __call__(self, page: str) -> Any:
        return await _later(self._show, page)


def _in_partial(show: Show) -> Show:
    return partial(_later, show)


def _plain(show: Show) -> Show:
    return show


OPENERS: Final[dict[str, Callable[[Show], Show]]] = {
    "function": _plain,
    "lambda": _in_lambda,
    "partial": _in_partial,
    "object": _Opener,
}


@req("AUTH-11", everywhere=True)
@pytest.mark.parametrize("kind", OPENERS)
@pytest.mark.parametrize("shows", [True, False])
def test_a_page_is_shown_by_any_kind_of_function(kind: str, shows: bool) -> None:
    async def main() -> None:
        shown: list[str] = []

        def show(page: str) -> bool:
            shown.append(page)
            return shows

        async with mcprev.Loopback(open=OPENERS[kind](show)).ready() as (redirect_uri, visit):
            login = asyncio.ensure_future(visit(PAGE))
            await until(lambda: bool(shown))
            if shows:
                async with aiohttp.ClientSession() as session, session.get(f"{redirect_uri}?state=x&code=c"):
                    assert (await login).endswith("?state=x&code=c")
            else:
                with pytest.raises(mcprev.AuthError, match="no browser was found"):
                    await login

    run(main())


@req("AUTH-11", everywhere=True)
@pytest.mark.parametrize("kind", OPENERS)
def test_a_login_is_completed_by_any_kind_of_function(kind: str) -> None:
    async def main() -> None:
        back = OPENERS[kind](lambda _: "http://127.0.0.1:9/callback?state=wrong")
        async with world(DEFAULT[-1]) as at:
            auth = mcprev.OAuth(redirect_uri="http://127.0.0.1:9/callback", open=back)
            with pytest.raises(mcprev.AuthError, match="the response to another login"):
                await mcprev.connect(mcprev.http(at.mcp.url, auth=auth))

    run(main())
