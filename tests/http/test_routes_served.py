"""Routes of a server that runs on sockets, and of one that is mounted in another app."""

from __future__ import annotations

import aiohttp
from starlette.applications import Starlette
from starlette.routing import Mount

import mcprev
from helpers.asgi_bridge import Client, initialize
from helpers.requirements import D
from helpers.running import run
from helpers.served import Served, listening
from mcprev.revisions import revision_named
from mcprev.transports.http.server.request import App, Receive, Scope, Send


def text_app(name: str) -> App:
    """An application that says its name and what it was asked."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        body = (await receive())["body"]
        text = repr((name, scope["method"], scope["path"], scope["root_path"], body))
        await send({"type": "http.response.start", "status": 200})
        await send(
            {
                "type": "http.response.body",
                "body": text.encode()[: 9 if name == "parts" else None],
                "more_body": name == "parts",
            }
        )
        if name == "parts":
            await send({"type": "http.response.body", "body": text.encode()[9:]})

    return app


def test_a_mounted_app_has_its_routes_below_the_mount() -> None:
    inner = mcprev.Server(Served(), "served", "1").asgi(
        routes={"/health": text_app("parts"), "/admin/": text_app("a")}
    )
    outer = Starlette(routes=[Mount("/x", inner)])

    async def test() -> None:
        client = Client(outer)
        assert (await client.send("GET", path="/x/health").done()).body == repr(
            ("parts", "GET", "/x/health", "/x", b"")
        ).encode()
        assert (await client.send("GET", path="/x/admin/1").done()).body == repr(
            ("a", "GET", "/x/admin/1", "/x/admin", b"")
        ).encode()
        assert (await client.send("GET", path="/health").done()).status == 404
        await inner.aclose()

    run(test())


def test_a_real_server_serves_routes_on_the_connections_of_the_endpoint() -> None:
    async def test() -> None:
        routes = {"/echo": text_app("e"), "/parts": text_app("parts")}
        async with (
            listening(mcprev.Server(Served(), "served", "1"), routes=routes) as base,
            aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=1)) as http,
        ):
            for _ in range(2):
                async with http.post(base + "/echo", data=b"abc") as answer:
                    assert answer.status == 200
                async with http.head(base + "/echo") as answer:
                    assert (answer.status, "content-length" in answer.headers) == (200, False)
                async with http.head(base + "/parts") as answer:
                    assert answer.status == 200
                async with http.get(base + "/parts") as answer:
                    assert await answer.read() == repr(("parts", "GET", "/parts", "", b"")).encode()
                async with http.post(base + "/mcp", json=initialize(revision_named(D))) as answer:
                    assert "mcp-session-id" in answer.headers

    run(test(), has_both_ends=True)
