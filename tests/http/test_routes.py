"""ASGI applications beside the endpoint: paths, checks, limits and faults, on our own connections and any ASGI server."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import SimpleNamespace
from typing import Any, Final, cast

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, StreamingResponse
from starlette.routing import Route as StarletteRoute

import mcprev
from helpers import asgi_bridge, wired
from helpers.asgi_bridge import Client, initialize
from helpers.requirements import D
from helpers.running import run, until
from helpers.served import Served, work
from mcprev.revisions import revision_named
from mcprev.transports.http.server.asgi import AsgiApp
from mcprev.transports.http.server.request import App, Receive, Scope, Send
from mcprev.transports.http.server.route_table import RouteTable
from mcprev.transports.http.server.routes import RouteInfo

Make = Callable[..., AsgiApp]
GOOD: Final = "good"


async def admitted(token: str) -> mcprev.Access | None:
    return mcprev.Access("ann", audience="https://mcp.example/mcp") if token == GOOD else None


BEARER: Final = mcprev.Bearer(
    admitted,
    resource="https://mcp.example/mcp",
    authorization_servers=["https://login.example"],
)


def text_app(*said: object, status: int = 200, headers: Sequence[tuple[bytes, bytes]] = ()) -> App:
    """An application that says a text, and what it was asked."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        body = (await receive())["body"]
        info = scope["mcprev"]
        text = repr((*said, scope["method"], scope["path"], scope["root_path"], body, info.principal))
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": text.encode()})

    return app


@pytest.fixture(params=[asgi_bridge.Exchange, wired.Exchange], ids=["asgi", "wired"])
def both(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test runs as on any ASGI server, and on our own connections."""
    monkeypatch.setattr(asgi_bridge, "Exchange", request.param)


pytestmark = pytest.mark.usefixtures("both")


# -- paths -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("/health", "health"),
        ("/health/", "health"),
        ("/healthy", None),
        ("/health/x", None),
        ("/Health", None),
        ("/admin", "admin"),
        ("/admin/", "admin"),
        ("/admin/x/y", "admin"),
        ("/admin/x/y/z", "deep"),
        ("/admin/x/y/z/1", "deep"),
        ("/admin/one", "one"),
        ("/administrator", None),
        ("/", None),
    ],
)
def test_an_exact_path_comes_first_and_then_the_longest_prefix(path: str, found: str | None) -> None:
    async def test(handler: Served, make: Make) -> None:
        del handler
        names = {"/health": "health", "/admin/": "admin", "/admin/x/y/z/": "deep", "/admin/one": "one"}
        client = Client(make(routes={key: text_app(name) for key, name in names.items()}))
        answer = await client.send("GET", path=path).done()
        if found is None:
            assert answer.status == 404
            return
        assert answer.status == 200
        key = next(key for key, name in names.items() if name == found)
        root = key[:-1] if key.endswith("/") else ""
        assert answer.body.decode() == repr((found, "GET", path, root, b"", None))

    work(test)


def test_the_endpoint_stays_where_it_is_below_a_prefix_of_everything() -> None:
    async def test(handler: Served, make: Make) -> None:
        del handler
        client = Client(make(routes={"/": text_app("site")}))
        assert (await client.post(initialize(revision_named(D))).done()).result["serverInfo"][
            "name"
        ] == "served"
        assert b"site" in (await client.send("GET", path="/").done()).body
        assert b"site" in (await client.send("GET", path="/any/where").done()).body

    work(test)


@pytest.mark.parametrize(
    ("routes", "options"),
    [
        ({"/mcp": text_app()}, {}),
        ({"/mcp/": text_app()}, {}),
        ({"/sse": text_app()}, {"sse": True}),
        ({"/messages/": text_app()}, {"sse": True}),
        ({"/own": text_app()}, {"path": "/own"}),
        ({"/.well-known/oauth-protected-resource": text_app()}, {"auth": BEARER}),
        ({"/.well-known/oauth-protected-resource/mcp": text_app()}, {"auth": BEARER}),
        ({"health": text_app()}, {}),
        ({"": text_app()}, {}),
        ({"//evil.example": text_app()}, {}),
        ({"/metrics": mcprev.Route(text_app(), auth=True)}, {}),
    ],
)
def test_a_path_that_is_invalid_or_taken_is_refused_when_the_app_is_made(
    routes: Any, options: dict[str, Any]
) -> None:
    with pytest.raises(ValueError, match=r"the route|the path of the route"):
        mcprev.Server(Served(), "served", "1").asgi(routes=routes, **options)


def test_routes_of_the_authentication_are_served_and_keep_their_paths() -> None:
    async def test(handler: Served, make: Make) -> None:
        del handler
        auth = mcprev.Bearer(
            admitted, resource="https://mcp.example/mcp", authorization_servers=["https://login.example"]
        )
        auth.routes = {"/token": text_app("token"), "/authorize/": mcprev.Route(text_app("page"))}
        client = Client(make(auth=auth))
        assert b"token" in (await client.send("POST", b"a=b", path="/token").done()).body
        assert b"page" in (await client.send("GET", path="/authorize/consent").done()).body
        assert (await client.post(initialize(revision_named(D))).done()).status == 401
        with pytest.raises(ValueError, match="the path of the route '/token' is used already"):
            make(auth=auth, routes={"/token": text_app()})

    work(test)


# -- checks ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "refused"),
    [
        ({"host": "localhost:8000"}, False),
        ({"host": "evil.example"}, True),
        ({"host": "localhost:8000", "origin": "https://evil.example"}, True),
    ],
)
def test_hosts_and_origins_are_checked_unless_a_route_says_otherwise(
    headers: dict[str, str], refused: bool
) -> None:
    async def test(handler: Served, make: Make) -> None:
        del handler
        routes = {"/own": text_app(), "/any": mcprev.Route(text_app(), any_host=True), "/all/": text_app()}
        client = Client(make(routes=routes))
        assert (await client.send("GET", None, headers, path="/own").done()).status == (
            403 if refused else 200
        )
        assert (await client.send("GET", None, headers, path="/all/x").done()).status == (
            403 if refused else 200
        )
        assert (await client.send("GET", None, headers, path="/any").done()).status == 200
        answer = await client.send("POST", initialize(revision_named(D)), headers).done()
        assert answer.status == (403 if refused else 200)

    work(test)


@pytest.mark.parametrize("token", [None, "bad", GOOD])
def test_a_route_with_authentication_needs_the_token_of_the_endpoint(token: str | None) -> None:
    async def test(handler: Served, make: Make) -> None:
        del handler
        routes = {"/open": text_app(), "/closed": mcprev.Route(text_app(), auth=True)}
        client = Client(make(routes=routes, auth=BEARER))
        headers = {} if token is None else {"authorization": f"Bearer {token}"}
        answer = await client.send("GET", None, headers, path="/closed").done()
        assert answer.status == (200 if token == GOOD else 401)
        assert (b"'ann'" in answer.body) is (token == GOOD)
        assert ("www-authenticate" in answer.headers) is (token != GOOD)
        open_one = await client.send("GET", None, headers, path="/open").done()
        assert (open_one.status, b"'ann'" in open_one.body) == (200, False)

    work(test)


def test_a_function_that_finds_principals_is_asked_for_routes_with_authentication_only() -> None:
    asked: list[str] = []

    def find(scope: Any) -> str | None:
        asked.append(scope["path"])
        if len(asked) > 1:
            raise ValueError("nobody")
        return "ann"

    async def test(handler: Served, make: Make) -> None:
        del handler
        routes = {"/open": text_app(), "/closed": mcprev.Route(text_app(), auth=True)}
        client = Client(make(routes=routes, principal=find))
        assert (await client.send("GET", path="/open").done()).status == 200
        assert b"'ann'" in (await client.send("GET", path="/closed").done()).body
        assert (await client.send("GET", path="/closed").done()).status == 403
        assert asked == ["/closed", "/closed"]

    work(test)


def test_a_body_is_within_the_limits_of_the_server() -> None:
    async def test(handler: Served, make: Make) -> None:
        del handler
        app = make(routes={"/echo": text_app()}, max_body=100, max_bodies=150)
        client = Client(app)
        assert b"x" * 100 in (await client.send("POST", b"x" * 100, path="/echo").done()).body
        assert (await client.send("POST", b"x" * 101, path="/echo").done()).status == 413
        assert app.budget.held == 0
        parts = client.send("POST", path="/echo", open_body=True)
        parts.give(b"x" * 60, more=True)
        parts.give(b"y" * 40)
        assert b"x" * 60 + b"y" * 40 in (await parts.done()).body
        assert app.budget.held == 0

    work(test)


def test_bodies_in_progress_share_the_budget() -> None:
    async def test(handler: Served, make: Make) -> None:
        async def slow(scope: Scope, receive: Receive, send: Send) -> None:
            await handler.gate.wait()
            await text_app()(scope, receive, send)

        app = make(routes={"/slow": slow}, max_bodies=150)
        client = Client(app)
        first = client.send("POST", b"x" * 100, path="/slow")
        await until(lambda: app.budget.held == 100)
        assert (await client.send("POST", b"x" * 100, path="/slow").done()).status == 503
        handler.gate.set()
        assert (await first.done()).status == 200
        assert app.budget.held == 0

    work(test)


def test_a_body_that_never_comes_is_given_up() -> None:
    async def test(handler: Served, make: Make) -> None:
        del handler
        client = Client(make(routes={"/echo": text_app()}, body_timeout=0.01))
        answer = client.send("POST", path="/echo", open_body=True)
        assert (await answer.done()).status == 408

    work(test)


# -- responses ---------------------------------------------------------------------------------------------


def sending(*messages: dict[str, Any]) -> App:
    """An application that sends messages as they are."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        for message in messages:
            await send(message)

    return app


def start(status: object = 200, **headers: object) -> dict[str, Any]:
    pairs = [(name.replace("_", "-").encode(), value) for name, value in headers.items()]
    return {"type": "http.response.start", "status": status, "headers": pairs}


def part(body: bytes = b"", *, more: bool = False) -> dict[str, Any]:
    return {"type": "http.response.body", "body": body, "more_body": more}


async def raises(scope: Scope, receive: Receive, send: Send) -> None:
    raise FileNotFoundError("a secret path")


@pytest.mark.parametrize(
    "app",
    [
        raises,
        sending(),
        sending(start()),
        sending(part(b"x")),
        sending(start(), start()),
        sending({"type": "websocket.accept"}),
        sending(start(99), part()),
        sending(start(103), part()),
        sending(start("200"), part()),
        sending(start(location=b"/x\r\nset-cookie: stolen=1"), part()),
        sending(start(location=b"/x\nx"), part()),
        sending(start(location="text"), part()),
        sending(start(**{"x y": b"1"}), part()),
        sending({"type": "http.response.start"}),
    ],
)
def test_an_application_that_fails_is_answered_with_500_and_logged(
    app: App, caplog: pytest.LogCaptureFixture
) -> None:
    async def test(handler: Served, make: Make) -> None:
        del handler
        client = Client(make(routes={"/fails": app, "/works": text_app()}))
        answer = await client.send("GET", path="/fails").done()
        assert answer.status == 500
        assert b"secret" not in answer.body
        assert "set-cookie" not in answer.headers
        assert (await client.send("GET", path="/works").done()).status == 200

    with caplog.at_level(logging.ERROR):
        work(test)
    (record,) = caplog.records
    assert record.getMessage() == "the route /fails failed"
    assert record.exc_info is not None
    caplog.clear()


def test_an_application_that_fails_within_its_response_sends_nothing_more(
    caplog: pytest.LogCaptureFixture,
) -> None:
    app = sending(start(202), part(b"a", more=True), {"type": "nonsense"})
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def main() -> None:
        asgi = mcprev.Server(Served(), "served", "1").asgi(routes={"/fails": app})
        scope = {
            "type": "http", "method": "GET", "path": "/fails", "query_string": b"", "root_path": "",
            "headers": [(b"host", b"localhost")], "server": ("127.0.0.1", 80), "client": ("127.0.0.1", 1),
        }  # fmt: skip
        with suppress(ConnectionError, RuntimeError):
            await asgi(scope, receive, send)
        await asgi.aclose()

    with caplog.at_level(logging.ERROR):
        run(main())
    assert [message.get("status") for message in sent] == [202, None]
    assert sent[1]["body"] == b"a"
    assert caplog.records[0].getMessage() == "the route /fails failed"
    caplog.clear()


def test_requests_in_another_event_loop_hold_no_server_that_stops() -> None:
    async def never(scope: Scope, receive: Receive, send: Send) -> None:
        await asyncio.Event().wait()

    table = RouteTable({"/never": never})
    request: Any = SimpleNamespace(place="/never", scope={}, root="", verb="GET")
    other = asyncio.new_event_loop()
    serving = other.create_task(table.serve(request, b"", RouteInfo(ready=True, principal=None, access=None)))
    other.run_until_complete(asyncio.sleep(0))
    run(asyncio.wait_for(table.finish(60), 5))
    serving.cancel()
    with suppress(asyncio.CancelledError):
        other.run_until_complete(serving)
    other.close()


def test_headers_about_the_transfer_are_those_of_the_server() -> None:
    async def test(handler: Served, make: Make) -> None:
        del handler
        sent = start(content_length=b"999", transfer_encoding=b"gzip", connection=b"close", x_own=b"1")
        client = Client(make(routes={"/whole": sending(sent, part(b"abc"))}))
        answer = await client.send("GET", path="/whole").done()
        assert (answer.status, answer.body) == (200, b"abc")
        assert (answer.headers["content-length"], answer.headers["x-own"]) == ("3", "1")
        assert "connection" not in answer.headers

    work(test)


@pytest.mark.parametrize("status", [204, 304])
def test_a_response_without_content_has_none(status: int) -> None:
    async def test(handler: Served, make: Make) -> None:
        del handler
        app = sending(start(status), part(b"abc", more=True), part(b"d"))
        answer = await Client(make(routes={"/none": app})).send("GET", path="/none").done()
        assert (answer.status, answer.body, answer.headers.get("content-length")) == (status, b"", None)

    work(test)


def test_a_response_is_sent_as_it_is_made() -> None:
    async def test(handler: Served, make: Make) -> None:
        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            await send(start(content_length=b"6"))
            await send(part(b"abc", more=True))
            await handler.gate.wait()
            await send(part(b"def"))
            assert (await receive())["type"] == "http.request"
            assert (await receive())["type"] == "http.disconnect"

        exchange = Client(make(routes={"/slow": app})).send("GET", path="/slow")
        await until(lambda: exchange.body == b"abc")
        assert not exchange.complete
        handler.gate.set()
        assert (await exchange.done()).body == b"abcdef"

    work(test)


def test_an_application_learns_that_its_client_is_gone(caplog: pytest.LogCaptureFixture) -> None:
    async def test(handler: Served, make: Make) -> None:
        learned: list[object] = []

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            await receive()
            await send(start())
            await send(part(b"abc", more=True))
            learned.append((await receive())["type"])
            try:
                await send(part(b"more", more=True))
            except OSError as error:
                learned.append(type(error))
                raise

        exchange = Client(make(routes={"/slow": app})).send("GET", path="/slow")
        await until(lambda: exchange.body == b"abc")
        exchange.disconnect()
        await until(lambda: len(learned) == 2)
        assert learned == ["http.disconnect", ConnectionResetError]

    with caplog.at_level(logging.INFO):
        work(test)
    assert caplog.records == []


# -- the life of the server -----------------------------------------------------------------------------------


def test_a_stopping_server_lets_a_route_finish_and_says_that_it_is_not_ready() -> None:
    async def test(handler: Served, make: Make) -> None:
        async def slow(scope: Scope, receive: Receive, send: Send) -> None:
            await handler.gate.wait()
            await text_app()(scope, receive, send)

        async def ready(scope: Scope, receive: Receive, send: Send) -> None:
            await sending(start(), part(b"%d" % scope["mcprev"].ready))(scope, receive, send)

        app = make(routes={"/slow": slow, "/ready": ready})
        client = Client(app)
        assert (await client.send("GET", path="/ready").done()).body == b"1"
        exchange = client.send("GET", path="/slow")
        await until(lambda: bool(cast("RouteTable", app._routes)._open))
        closing = asyncio.create_task(app.aclose(linger=30))
        await until(lambda: app._draining)
        assert (await client.send("GET", path="/ready").done()).body == b"0"
        assert not closing.done()
        handler.gate.set()
        await closing
        assert (await exchange.done()).status == 200
        assert (await client.send("GET", path="/ready").done()).status == 503

    work(test)


def test_a_route_that_does_not_end_holds_a_stopping_server_no_longer_than_calls() -> None:
    async def test(handler: Served, make: Make) -> None:
        async def slow(scope: Scope, receive: Receive, send: Send) -> None:
            await handler.gate.wait()
            await text_app()(scope, receive, send)

        app = make(routes={"/slow": slow})
        exchange = Client(app).send("GET", path="/slow")
        await until(lambda: bool(cast("RouteTable", app._routes)._open))
        await app.aclose(linger=0.01)
        assert not exchange.task.done()
        handler.gate.set()
        assert (await exchange.done()).status == 200

    work(test)


def test_an_application_of_a_framework_is_served_below_its_prefix() -> None:
    async def page(request: Request) -> PlainTextResponse:
        return PlainTextResponse(f"{request.path_params['name']} {(await request.body()).decode()}")

    async def stream(request: Request) -> StreamingResponse:
        return StreamingResponse(iter([b"a", b"b"]))

    site = Starlette(
        routes=[
            StarletteRoute("/pages/{name}", page, methods=["GET", "POST"]),
            StarletteRoute("/stream", stream),
        ]
    )

    async def test(handler: Served, make: Make) -> None:
        del handler
        client = Client(make(routes={"/site/": site}))
        assert (await client.send("POST", b"text", path="/site/pages/one").done()).body == b"one text"
        assert (await client.send("GET", path="/site/stream").done()).body == b"ab"
        assert (await client.send("GET", path="/site/none").done()).status == 404

    work(test)
