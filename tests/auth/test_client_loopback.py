"""The browser that comes back to this machine, and what may be opened and fetched on the way."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import AsyncExitStack
from functools import partial
from typing import Any, Final
from urllib.parse import urlsplit

import aiohttp
import pytest

import mcprev
from auth.world import query, world
from helpers.raw_server import Exchange, serve
from helpers.requirements import C, D, E, req
from helpers.running import run, until
from mcprev.auth.client import loopback
from mcprev.auth.client.runner import MAX_BODY, FlowRunner
from mcprev.auth.client.steps import Flow, HttpFetch, HttpReply
from mcprev.revisions import DEFAULT, Revision

PAGE = "https://auth.example/authorize?state=x"


async def get(url: str) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        return response.status, await response.text()


@pytest.mark.slow
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


async def visited(verb: str, url: str) -> tuple[int, dict[str, str]]:
    async with aiohttp.ClientSession() as session, session.request(verb, url) as response:
        return response.status, {name.lower(): value for name, value in response.headers.items()}


@req("AUTH-11", "SEC-2", at=E)
def test_only_the_first_redirect_of_the_login_that_runs_completes_it() -> None:
    """The code is in the URL of the page, which says that nobody may keep it or pass it on."""

    async def main() -> None:
        async with mcprev.Loopback(open=lambda _: True).ready() as (redirect_uri, visit):
            early = [
                await visited("GET", f"{redirect_uri}?{query}") for query in ("code=evil", "state=&code=evil")
            ]
            login = asyncio.ensure_future(visit(PAGE))
            await asyncio.sleep(0)
            found = [
                await visited(*request)
                for request in (
                    ("POST", f"{redirect_uri}?state=x&code=evil"),
                    ("GET", f"{redirect_uri}/more?state=x&code=evil"),
                    ("GET", f"{redirect_uri}?code=evil"),
                    ("GET", f"{redirect_uri}?state=x&code={'c' * 20_000}"),
                    ("GET", f"{redirect_uri}?state=x&code=evil"),
                )
            ]
            assert [status for status, _ in early + found] == [400, 400, 404, 404, 400, 200, 200]
            for _, headers in early + found:
                assert (headers["cache-control"], headers["referrer-policy"]) == ("no-store", "no-referrer")
                assert headers["connection"] == "close"
            assert query(await login)["code"] == "c" * 20_000

    run(main())


@req("AUTH-11", "SEC-2", at=E)
def test_only_this_machine_can_reach_the_listener() -> None:
    async def main() -> None:
        async with mcprev.Loopback().ready() as (redirect_uri, _):
            port = urlsplit(redirect_uri).port
            with pytest.raises(OSError, match=r"onnect|assign"):
                await asyncio.open_connection("127.0.0.2", port)

    run(main())


@req("AUTH-11", at=E)
def test_another_port_is_listened_at_where_the_last_one_is_taken() -> None:
    async def main() -> None:
        helper = mcprev.Loopback()
        async with helper.ready() as (first, _):
            pass
        async with helper.ready() as (again, _):
            assert again == first
            async with helper.ready() as (other, _):
                assert other != first

    run(main())


@req("AUTH-11", everywhere=True)
def test_a_path_begins_with_a_slash() -> None:
    with pytest.raises(ValueError, match="must begin with a slash"):
        mcprev.Loopback(path="callback")


@req("AUTH-11", at=E)
def test_a_browser_that_runs_until_it_is_closed_holds_up_neither_login_nor_exit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    closed = threading.Event()

    class Thread(threading.Thread):
        def join(self, timeout: float | None = None) -> None:
            assert timeout == 1.0
            assert self.daemon
            super().join(0)

    monkeypatch.setattr("mcprev.auth.client.loopback.threading.Thread", Thread)

    def wait(_url: str) -> bool:
        return closed.wait()

    monkeypatch.setattr("webbrowser.open", wait)
    assert loopback.open_browser(PAGE)
    closed.set()


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


@req("SEC-6", "AUTH-18", "AUTH-22", at=(C, D, E))
@pytest.mark.parametrize(
    ("path", "outcome", "size", "nonce"),
    [
        (f"/{MAX_BODY}", "HTTP 200", MAX_BODY, "n"),
        (f"/{MAX_BODY + 1}", f"a response of more than {MAX_BODY} bytes", 0, None),
        ("/silent", "no response within 0.05 s", 0, None),
    ],
)
def test_what_is_fetched_has_bounds(path: str, outcome: str, size: int, nonce: str | None) -> None:
    async def main() -> None:
        async def answer(exchange: Exchange) -> None:
            if exchange.path == "/silent":
                await exchange.gone.wait()
            else:
                wanted = exchange.path[1:]
                await exchange.respond(
                    200, b"x" * int(wanted if wanted.isdigit() else 0), {"DPoP-Nonce": "n"}
                )

        async with serve(answer) as raw:
            seconds = 0.05 if path == "/silent" else 5
            found = await FlowRunner(raw.url, None, private=True, seconds=seconds).run(
                fetch(raw.origin + path)
            )
            assert (found.outcome, len(found.body), found.nonce) == (outcome, size, nonce)

    run(main())


@req("SEC-6", "AUTH-2", at=(C, D, E))
def test_why_nothing_was_fetched_is_short_and_shows_no_query() -> None:
    async def main() -> None:
        async def answer(exchange: Exchange) -> None:
            await exchange.raw(b"nonsense " * 50 + b"\r\n\r\n")

        async with serve(answer) as raw:
            runner = FlowRunner(raw.url, None, private=True, seconds=5)
            found = await runner.run(fetch(f"{raw.origin}/x?code=hush"))
            assert found.status == 0
            assert found.why
            assert "hush" not in found.why
            assert len(found.why) < 250

    run(main())


@req("SEC-1", at=(C, D, E))
@pytest.mark.parametrize("trusting", [None, False, True], ids=["no session", "no proxies", "proxies"])
def test_a_proxy_is_used_only_for_a_session_of_the_user_that_has_it(
    trusting: bool | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A proxy of the environment would connect to addresses that this process may not connect to."""

    async def main() -> None:
        async def answer(exchange: Exchange) -> None:
            await exchange.respond(200)

        async with serve(answer) as raw, AsyncExitStack() as held:
            monkeypatch.setenv("http_proxy", raw.origin)
            monkeypatch.delenv("no_proxy", raising=False)
            session = None
            if trusting is not None:
                session = await held.enter_async_context(aiohttp.ClientSession(trust_env=trusting))
            runner = FlowRunner("http://127.0.0.1:9/mcp", session, private=True, seconds=5)
            found = await runner.run(fetch("http://127.0.0.1:9/x"))
            assert (found.status == 200) is bool(trusting) is bool(raw.seen)

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
