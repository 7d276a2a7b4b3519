"""What an HTTP server lets in, where, and how much of it (HTTP-2, HTTP-30, HTTP-31; SEC-3, SEC-6; AMB-14)."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import Callable
from typing import Any

import pytest

from fuzz.fuzzing import each_once
from helpers.asgi_bridge import SCOPE, TYPES, Client, Exchange, initialize, lifespan, request
from helpers.requirements import NAMES, B, C, D, E, req
from helpers.running import run, until
from helpers.served import QUICK, Served, work
from mcprev.errors import INTERNAL_ERROR, INVALID_REQUEST
from mcprev.revisions import DEFAULT, Revision, revision_named
from mcprev.transports.http.server.asgi import AsgiApp
from mcprev.transports.http.server.cors import cors
from mcprev.transports.http.server.options import HttpOptions, HttpSettings
from mcprev.wire import jsonrpc
from mcprev.wire.bounds import json_bounds

Make = Callable[..., AsgiApp]
LATER = [revision_named(name) for name in (B, C, D, E)]


def later(test: Any) -> Any:
    """Run a test at the revisions that have one endpoint."""
    return pytest.mark.parametrize("row", LATER, ids=[row.name for row in LATER])(test)


@req("HTTP-2", "SEC-3", "AMB-14")
@later
@pytest.mark.parametrize(
    ("origin", "host", "server", "status"),
    [
        (None, "evil.example", "127.0.0.1", 403),
        (None, "evil.example", "10.0.0.1", 200),
        (None, "app.example", "127.0.0.1", 200),
        ("http://localhost:3000", "localhost:8000", "127.0.0.1", 200),
        ("http://127.0.0.1", "localhost:8000", "127.0.0.1", 200),
        ("http://[::1]:1", "[::1]:8000", "::1", 200),
        ("http://[::1]:1", "x", "::1", 403),
        ("http://evil.example", "evil.example", "127.0.0.1", 403),  # a name that was pointed at this machine
        ("http://evil.example", "localhost", "127.0.0.1", 403),
        ("null", "localhost", "127.0.0.1", 403),
        ("x", "localhost", "127.0.0.1", 403),
        ("https://app.example", "localhost", "127.0.0.1", 200),
        ("https://app.example.evil", "localhost", "127.0.0.1", 403),
        ("http://here.example", "here.example", "10.0.0.1", 403),
        ("http://10.0.0.1:3000", "10.0.0.1", "10.0.0.1", 200),
        ("http://app.example", "app.example", "10.0.0.1", 200),
        ("http://there.example", "here.example", "10.0.0.1", 403),
        ("http://here.example", "here.example", None, 403),
    ],
)
@each_once
def test_pages_of_other_sites_are_kept_out_of_every_method(
    origin: str | None, host: str, server: str | None, status: int, row: Revision
) -> None:
    async def test(handler: Served, make: Make) -> None:
        app = make(origins=["https://app.example"])
        client = Client(app, server=None if server is None else (server, 8000))
        client.session = {"host": host} if origin is None else {"host": host, "origin": origin}
        if status == 200:
            assert (await (await client.open(row)).request("tools/list").done()).status == 200
            return
        for verb in ("POST", "GET", "DELETE", "OPTIONS"):
            answer = await client.send(verb, initialize(row) if verb == "POST" else None).done()
            assert (answer.status, answer.json["error"]["code"]) == (403, INVALID_REQUEST)
            assert answer.json.get("id") is None
        assert len(app.dispatcher.sessions) == 0

    work(test)


@req("SEC-3", everywhere=True)
@pytest.mark.parametrize(
    ("hosts", "host", "status"),
    [
        (None, "localhost", 405),
        (None, "anything.example", 403),
        (["mcp.example"], "mcp.example:443", 405),
        (["mcp.example:8000"], "mcp.example:8001", 403),
        (["mcp.example"], "evil.example", 403),
    ],
)
def test_hosts_that_are_configured_replace_the_default(
    hosts: list[str] | None, host: str, status: int
) -> None:
    async def test(handler: Served, make: Make) -> None:
        assert (await Client(make(hosts=hosts)).send("PUT", None, {"host": host}).done()).status == status

    work(test)


@req("HTTP-31", "SEC-6")
@later
def test_bodies_have_a_limit_declared_or_not(row: Revision) -> None:
    async def test(handler: Served, make: Make) -> None:
        client = await Client(make(max_body=3000)).open(row)
        assert (await client.call("echo", {"x": "y" * 2000}).done()).status == 200
        assert (await client.call("echo", {"x": "y" * 3000}).done()).status == 413
        declared = client.send("POST", None, {"content-length": "3001"}, open_body=True)
        assert (await declared.done()).status == 413  # before anything of it was read
        chunked = client.send("POST", open_body=True)
        for _ in range(4):
            chunked.give(b" " * 1000, more=True)
        assert (await chunked.done()).json["error"]["code"] == INVALID_REQUEST
        assert chunked.status == 413

    work(test)


def with_values(count: int, *, lone: bool = False) -> dict[str, Any]:
    """Arguments that hold about so many values; beside a lone surrogate, which only the slow parser reads."""
    return {"v": [1] * count, **({"w": "\ud800"} if lone else {})}


@req("SEC-6", "BASE-10", "HTTP-31")
@later
@pytest.mark.parametrize("lone", [False, True], ids=["", "lone surrogate"])
def test_a_body_of_too_many_values_is_refused_unread(
    row: Revision, lone: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of one client hold up all others while they are parsed and checked. Its id is told, and which option allows more."""

    async def test(handler: Served, make: Make) -> None:
        client = await Client(make(max_values=1000)).open(row)
        assert (await client.call("echo", with_values(900, lone=lone)).done()).result
        read: list[object] = []

        def parsed(data: bytes, **_: object) -> None:
            read.append(data)

        for name in ("from_json", "_read_slowly"):
            monkeypatch.setattr(jsonrpc, name, parsed)
        refused = await client.call("echo", with_values(1000, lone=lone), "x").done()
        assert (refused.status, refused.error["code"]) == (400, INVALID_REQUEST)
        assert "more than 1000 JSON values (the server's option max_values)" in refused.error["message"]
        assert refused.json["id"] == "x"
        assert read == []
        monkeypatch.undo()
        assert (await client.call("echo", {}).done()).result

    work(test)


@req("SEC-6", "HTTP-31")
@later
def test_the_bound_of_the_process_holds_for_each_server(
    row: Revision, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(handler: Served, make: Make) -> None:
        client = await Client(make(max_values=1000)).open(row)
        monkeypatch.setattr(json_bounds, "max_values", 500)
        refused = await client.call("echo", with_values(500)).done()
        assert "more than 500 JSON values (mcprev.json_bounds.max_values)" in refused.error["message"]

    work(test)


@req("SEC-6", "HTTP-31", everywhere=True)
def test_an_embedding_is_no_message_of_too_many_values() -> None:
    most = HttpSettings().max_values
    for count, kind in ((100_000, jsonrpc.Request), (most, jsonrpc.Malformed)):
        body = json.dumps(
            request("tools/call", {"name": "embed", "arguments": {"v": [0.25] * count}})
        ).encode()
        assert type(jsonrpc.parse(body, batch=True, max_values=most)) is kind
        assert type(jsonrpc.parse(body, batch=True)) is jsonrpc.Request  # over a pipe, whose client is alone


@req("HTTP-31")
@later
def test_a_body_may_come_in_parts_but_not_too_slowly(row: Revision) -> None:
    async def test(handler: Served, make: Make) -> None:
        client = await Client(make(body_timeout=3 * QUICK)).open(row)
        client.revision = None
        parts = Client(client.app)
        parts.session = dict(client.session)
        slow = parts.send("POST", open_body=True)
        slow.give(b'{"jsonrpc"', more=True)
        assert (await slow.done()).status == 408
        never = parts.send("POST", open_body=True)
        assert (await never.done()).status == 408
        good = parts.send("POST", open_body=True)
        good.give(b'{"jsonrpc":"2.0",', more=True)
        good.give(b"", more=True)
        good.give(b'"id":1,"method":"x"}')
        assert (await good.done()).json["id"] == 1
        gone = parts.send("POST", open_body=True)
        gone.give(b"{", more=True)
        gone.disconnect()
        await gone.done()
        assert gone.status == 0
        assert not gone.awaited

    work(test)


@req("HTTP-31", "SEC-6")
@later
def test_headers_have_a_limit(row: Revision) -> None:
    async def test(handler: Served, make: Make) -> None:
        client = Client(make())
        for headers in ({"x": "y" * 70_000}, {f"x-{n}": "y" * 100 for n in range(1000)}):
            answer = await client.post(initialize(row), headers).done()
            assert (answer.status, answer.json["error"]["code"]) == (431, INVALID_REQUEST)

    work(test)


@req("SEC-6", at=E)
def test_requests_beyond_what_is_allowed_are_refused() -> None:
    async def test(handler: Served, make: Make) -> None:
        client = await Client(make(max_requests=2)).open(revision_named(E))
        running = [client.call("quiet") for _ in range(2)]
        await until(lambda: handler.running == 2)
        answer = await client.call("quiet").done()
        assert answer.error["code"] == INTERNAL_ERROR
        handler.gate.set()
        for response_stream in running:
            assert (await response_stream.done()).text == "quiet"

    work(test)


@req("HTTP-1", "SEC-6")
@later
@pytest.mark.parametrize(
    ("path", "root", "status"),
    [
        ("/mcp", "", 405),
        ("/mcp/", "", 405),
        ("/", "", 404),
        ("/mcp/x", "", 404),
        ("/mcpx", "", 404),
        ("/outer/mcp", "/outer", 405),
        ("/outer", "/outer", 405),
        ("/outer/", "/outer", 405),
        ("/outer/x", "/outer", 404),
        ("/other/mcp", "/outer", 404),
    ],
)
def test_the_endpoint_is_at_its_path_and_where_the_app_is_mounted(
    path: str, root: str, status: int, row: Revision
) -> None:
    async def test(handler: Served, make: Make) -> None:
        answer = await Client(make(), root_path=root).send("PUT", path=path).done()
        assert answer.status == status
        assert answer.json["error"]["code"] == INVALID_REQUEST

    work(test, revisions=[row.name])


@req("HTTP-1", everywhere=True)
def test_an_app_at_the_root_of_everything() -> None:
    async def test(handler: Served, make: Make) -> None:
        client = await Client(make(path="/"), path="/").open(revision_named(D))
        assert (await client.request("ping").done()).result == {}
        with pytest.raises(ValueError, match="slash"):
            make(path="mcp")

    work(test)


@req("HTTP-30")
@later
def test_pages_that_are_let_in_can_read_refusals_too(row: Revision) -> None:
    async def test(handler: Served, make: Make) -> None:
        page = "https://app.example"
        app = cors(make(origins=[page]), origins=[page])
        client = Client(app)
        client.session["origin"] = page
        await client.open(row)
        for answer in (
            await client.request("tools/list").done(),
            await client.send("PUT").done(),
            await client.send("POST", b"{").done(),
            await client.send("GET", path="/nothing").done(),
        ):
            assert answer.headers["access-control-allow-origin"] == page
        asked = {"access-control-request-method": "POST", "access-control-request-headers": "mcp-method"}
        preflight = await client.send("OPTIONS", None, asked).done()
        assert preflight.status == 204
        assert "mcp-method" in preflight.headers["access-control-allow-headers"].lower()

    work(test)


# -- the life of the app ---------------------------------------------------------------------------------


@req("LIFE-16")
@pytest.mark.parametrize("row", DEFAULT, ids=NAMES)
def test_the_lifespan_ends_everything_and_can_begin_again(row: Revision) -> None:
    async def test(handler: Served, make: Make) -> None:
        app = make()
        told, heard, task = await lifespan(app)
        told.put_nowait({"type": "lifespan.startup"})
        client = await Client(app).open(row)
        running = client.call("stubborn" if row.handshake else "wait")
        await handler.started.wait()
        told.put_nowait({"type": "lifespan.shutdown"})
        await task
        assert heard == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
        await running.done()
        assert (await Client(app).post(initialize(row, 1)).done()).status == 503
        told, heard, task = await lifespan(app)
        told.put_nowait({"type": "lifespan.startup"})
        await until(lambda: bool(heard))
        assert (await (await Client(app).open(row)).call("echo").done()).status == 200
        told.put_nowait({"type": "lifespan.shutdown"})
        await task

    work(test)


@req("LIFE-16", everywhere=True)
def test_an_app_belongs_to_the_loop_that_asks_it() -> None:
    import mcprev

    app = mcprev.Server(Served(), "x", "1").asgi()

    async def one() -> None:
        client = await Client(app).open(revision_named(D))
        assert (await client.request("ping").done()).result == {}
        assert len(app.dispatcher.sessions) == 1

    run(one())
    run(one())


@req("SEC-6", everywhere=True)
def test_what_is_not_http_is_turned_away() -> None:
    async def test(handler: Served, make: Make) -> None:
        app = make()
        sent: list[str] = []

        async def send(message: Any) -> None:
            sent.append(message["type"])

        await app(
            {**SCOPE, "type": "websocket", "path": "/mcp", "headers": []}, asyncio.Queue[Any]().get, send
        )
        assert sent == ["websocket.close"]

    work(test)


@req("SEC-6", "ERR-8")
@pytest.mark.parametrize("row", [revision_named(name) for name in (B, C, D)], ids=[B, C, D])
def test_a_client_that_is_gone_when_it_is_answered_harms_nobody(row: Revision) -> None:
    async def test(handler: Served, make: Make) -> None:
        client = await Client(make()).open(row)
        for body in (request("ping"), b"{", {"jsonrpc": "2.0", "method": "x"}):
            response_stream: Exchange = client.post(body)
            response_stream.gone = True  # every send fails from now on
            await response_stream.done()
        assert (await client.request("ping").done()).status == 200
        assert TYPES["accept"]

    work(test)


@req("HTTP-1", everywhere=True)
def test_every_option_has_a_default() -> None:
    assert set(HttpOptions.__annotations__) == {field.name for field in dataclasses.fields(HttpSettings)}
