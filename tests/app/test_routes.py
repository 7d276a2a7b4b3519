"""Functions as routes: what they get and return, health, metrics, and other frameworks' endpoints."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from typing_extensions import override

import mcprev
from helpers.asgi_bridge import Client
from helpers.running import pass_time, run, until
from mcprev.core.store_probe import StoreProbe
from mcprev.middleware import Metrics
from mcprev.transports.http.server.request import Receive, Scope, Send

GOOD = ("good",)


def answer(app: mcprev.App, verb: str, path: str, body: bytes = b"", query: str = "", **options: Any) -> Any:
    """The response to one request."""

    async def test() -> Any:
        made = app.asgi(**options)
        found = await Client(made).send(verb, body, {"x-one": "1"}, path=path, query=query).done()
        await made.aclose()
        return found

    return run(test())


@pytest.mark.parametrize(
    ("returned", "status", "kind", "body"),
    [
        ("text é", 200, "text/plain; charset=utf-8", "text é".encode()),
        (b"\x00", 200, "application/octet-stream", b"\x00"),
        ({"a": 1}, 200, "application/json", b'{"a": 1}'),
        ([1], 200, "application/json", b"[1]"),
        (None, 204, "text/plain; charset=utf-8", b""),
        ((404, "none"), 404, "text/plain; charset=utf-8", b"none"),
        (
            (201, {"a": 1}, {"Content-Type": "application/problem+json"}),
            201,
            "application/problem+json",
            b'{"a": 1}',
        ),
    ],
)
@pytest.mark.parametrize("is_async", [True, False])
def test_what_a_function_returns_is_the_response(
    returned: Any, status: int, kind: str, body: bytes, is_async: bool
) -> None:
    app = mcprev.App("routed", "1")
    if is_async:

        @app.route("/own")
        async def own() -> Any:
            return returned

    else:

        @app.route("/own")
        def own_thread() -> Any:
            return returned

    found = answer(app, "GET", "/own")
    assert (found.status, found.headers["content-type"], found.body) == (status, kind, body)


@pytest.mark.parametrize(
    "returned",
    [object(), 5, (1, 2, 3, 4), ("text", 200), (200, object()), {"a": object()}, {"a": float("nan")}],
)
def test_what_is_no_response_is_a_500(returned: Any, caplog: pytest.LogCaptureFixture) -> None:
    app = mcprev.App("routed", "1")

    @app.route("/own")
    async def own() -> Any:
        return returned

    with caplog.at_level(logging.ERROR):
        assert answer(app, "GET", "/own").status == 500
    assert caplog.records[0].getMessage() == "the route /own failed"
    caplog.clear()


def test_a_function_gets_the_request() -> None:
    app = mcprev.App("routed", "1")
    seen: list[mcprev.RouteRequest] = []

    @app.route("/own", methods=["POST"])
    async def own(request: mcprev.RouteRequest) -> None:
        seen.append(request)

    assert answer(app, "POST", "/own", b'{"a": [1]}', "x=1&y=&x=%202").status == 204
    (request,) = seen
    assert (request.method, request.path, request.query) == ("POST", "/own", {"x": " 2", "y": ""})
    assert (request.headers["x-one"], request.json(), request.ready) == ("1", {"a": [1]}, True)
    refused = answer(app, "GET", "/own")
    assert (refused.status, refused.headers["allow"]) == (405, "POST")


def test_head_comes_with_get() -> None:
    app = mcprev.App("routed", "1")

    @app.route("/own")
    def own() -> str:
        return "text"

    assert (answer(app, "HEAD", "/own").status, answer(app, "DELETE", "/own").headers["allow"]) == (
        200,
        "GET, HEAD",
    )


def test_endpoints_and_applications_of_a_framework_are_served_as_they_are() -> None:
    app = mcprev.App("routed", "1")

    @app.route("/endpoint", methods=["POST"])
    async def endpoint(request: Request) -> Response:
        return JSONResponse({"got": (await request.body()).decode()})

    @app.route("/asgi")
    async def asgi(scope: Scope, receive: Receive, send: Send) -> None:
        await Response("asgi")(scope, receive, send)

    app.route("/site/", Response("site"))
    assert answer(app, "POST", "/endpoint", b"x").body == b'{"got":"x"}'
    assert answer(app, "GET", "/asgi").body == b"asgi"
    assert answer(app, "GET", "/site/any").body == b"site"


def print_two(one: str, two: str) -> None: ...


def test_routes_that_cannot_be_are_refused() -> None:
    app = mcprev.App("routed", "1")
    app.route("/own", Response())
    with pytest.raises(ValueError, match="registered already"):
        app.route("/own", Response())
    with pytest.raises(ValueError, match="begin with a slash"):
        app.route("own")
    with pytest.raises(TypeError, match="one parameter"):
        app.route("/two")(print_two)
    app.route("/mcp", Response())
    with pytest.raises(ValueError, match="is used already"):
        app.asgi()
    closed = mcprev.App("routed", "1")
    closed.route("/closed", Response(), auth=True)
    with pytest.raises(ValueError, match="has `auth`"):
        closed.asgi()


def test_routes_of_mounted_apps_and_of_options_are_served_too() -> None:
    outer, inner = mcprev.App("outer", "1"), mcprev.App("inner", "1")
    outer.mount(inner, "in")
    inner.route("/own", Response("inner"))
    outer.route("/own", Response("outer"))
    more = {"/more": Response("more")}
    assert answer(outer, "GET", "/in/own", routes=more).body == b"inner"
    assert answer(outer, "GET", "/own", routes=more).body == b"outer"
    assert answer(outer, "GET", "/more", routes=more).body == b"more"
    with pytest.raises(ValueError, match="is used already"):
        outer.asgi(routes={"/own": Response()})
    outer.mount(mcprev.App("third", "1"))
    other = mcprev.App("fourth", "1")
    other.route("/own", Response())
    outer.mount(other)
    with pytest.raises(ValueError, match="registered already"):
        outer.asgi()


def test_health_says_when_the_lifespan_runs_and_when_the_server_stops() -> None:
    entered: list[str] = []

    async def lifespan(server: mcprev.Server) -> AsyncIterator[None]:
        entered.append("in")
        yield
        entered.append("out")

    async def test() -> None:
        gate = asyncio.Event()
        app = mcprev.App("healthy", "1", lifespan=lifespan, http={"hosts": ["mcp.example"]})
        app.health()

        @app.route("/slow", any_host=True)
        async def slow() -> str:
            entered.append("slow")
            await gate.wait()
            return "slow"

        made = app.asgi()
        client = Client(made)
        assert (await client.send("GET", path="/ready").done()).json == {"status": "ready"}
        assert entered == ["in"]
        probe = {"host": "10.1.2.3:8000"}
        assert (await client.send("GET", None, probe, path="/healthz").done()).status == 200
        going = client.send("GET", path="/slow")
        await until(lambda: "slow" in entered)
        closing = asyncio.create_task(made.aclose(linger=30))
        await asyncio.sleep(0)
        ready = await client.send("GET", path="/ready").done()
        assert (ready.status, ready.json) == (503, {"status": "stopping"})
        assert (await client.send("GET", path="/healthz").done()).status == 200
        gate.set()
        await closing
        assert (await going.done()).body == b"slow"
        assert entered[-1] == "out"

    run(test())


def test_a_lifespan_that_fails_is_not_ready(caplog: pytest.LogCaptureFixture) -> None:
    async def lifespan(server: mcprev.Server) -> AsyncIterator[None]:
        raise OSError("no database")
        yield

    app = mcprev.App("ill", "1", lifespan=lifespan)
    app.health()
    assert answer(app, "GET", "/ready").status == 503
    caplog.clear()


class Moody(mcprev.MemoryStore):
    """A store that answers, fails or hangs as it is told, and counts how often it was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.mood: Callable[[], Awaitable[object]] = asyncio.Event().wait
        self.asked = 0

    @override
    async def read(self, key: str, /) -> mcprev.Record | None:
        self.asked += 1
        await self.mood()
        return await super().read(key)


async def answers() -> None:
    """What a store does that is there."""


async def fails() -> None:
    raise mcprev.StoreError("nobody is there")


def test_a_server_is_ready_while_its_store_answers(caplog: pytest.LogCaptureFixture) -> None:
    """Whether it fails or hangs; the process lives all the same. Each change of this is logged once."""

    async def test() -> None:
        store = Moody()
        app = mcprev.App("stored", "1", store=store)
        app.health()
        made = app.asgi()
        client = Client(made)

        async def status() -> tuple[int, Any]:
            pass_time(1.0)
            found = await client.send("GET", path="/ready").done()
            assert (await client.send("GET", path="/healthz").done()).status == 200
            return found.status, found.json["status"]

        for mood, wanted in (
            (answers, (200, "ready")),
            (fails, (503, "the store does not respond")),
            (asyncio.Event().wait, (503, "the store does not respond")),
            (answers, (200, "ready")),
        ):
            store.mood = mood
            assert [await status(), await status()] == [wanted, wanted]
        await made.aclose()
        await app.server.aclose()

    run(test())
    said = [record.getMessage() for record in caplog.records if record.name == "mcprev.store"]
    assert said == [
        "not ready: the store does not respond: nobody is there",
        "ready again: the store responds and takes writes",
    ]


def test_probes_ask_a_store_once_a_second_and_wait_for_no_other() -> None:
    """A client that gives up its probe ends no other's."""

    async def test() -> None:
        store = Moody()
        probe = StoreProbe(store)
        gate = asyncio.Event()
        store.mood = gate.wait
        first, *others = [asyncio.create_task(probe.answers()) for _ in range(50)]
        await until(lambda: store.asked == 1)
        first.cancel()
        await asyncio.wait({first})
        gate.set()
        assert await asyncio.gather(*others) == [True] * 49
        assert await probe.answers()
        assert store.asked == 1
        pass_time(1.0)
        assert await probe.answers()
        assert store.asked == 2
        assert await StoreProbe(None).answers()

    run(test())


@pytest.mark.parametrize("path", ["/healthz", "/ready"])
def test_a_probe_is_read_and_nothing_else(path: str) -> None:
    app = mcprev.App("probed", "1")
    app.health()
    refused = answer(app, "POST", path)
    assert (refused.status, refused.headers["allow"]) == (405, "GET, HEAD")
    found = answer(app, "GET", path)
    assert (found.status, found.headers["cache-control"]) == (200, "no-store")


def test_metrics_are_a_route_that_may_need_a_token() -> None:
    async def admitted(token: str) -> mcprev.Access | None:
        return mcprev.Access("ann", audience="https://m.example/mcp") if token in GOOD else None

    auth = mcprev.Bearer(
        admitted, resource="https://m.example/mcp", authorization_servers=["https://l.example"]
    )
    metrics = Metrics()
    app = mcprev.App("counted", "1", middleware=[metrics], auth=auth)
    app.route("/metrics", metrics.app, auth=True)

    async def test() -> None:
        made = app.asgi()
        client = Client(made)
        assert (await client.send("GET", path="/metrics").done()).status == 401
        found = await client.send("GET", None, {"authorization": "Bearer good"}, path="/metrics").done()
        assert found.status == 200
        assert b"mcp_calls_in_progress 0.0" in found.body
        assert found.headers["content-type"].startswith("text/plain")
        await made.aclose()

    run(test())


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[" * 100_000, b"[" + b"{}," * 300_000 + b"0]", b"1" * 5000, b"NaN", b"\xff", b'"\\ud800"'],
)
def test_a_body_that_is_no_json_within_bounds_is_a_value_error(body: bytes) -> None:
    """Deep nesting is no other error, and many values are counted before they are built."""
    request = mcprev.RouteRequest("POST", "/", {}, {}, body, ready=True)
    with pytest.raises(ValueError):  # noqa: PT011 - the text is that of a library
        request.json()
