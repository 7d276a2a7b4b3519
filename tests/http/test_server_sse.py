"""The two endpoints of the oldest HTTP transport (SSE-1, 2, 4 to 7; HTTP-28; CONV-40; AMB-14)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from helpers.asgi_bridge import Client, Exchange, initialize, notification, request
from helpers.named import row_of, rows_since
from helpers.requirements import NAMES, A, B, E, req
from helpers.running import until
from helpers.served import QUICK, Served, server_of, who, work
from mcprev.errors import INVALID_REQUEST, PARSE_ERROR
from mcprev.revisions import Revision, revision_named
from mcprev.transports.http.server.asgi import AsgiApp

Make = Callable[..., AsgiApp]
ROW = row_of(A)


class Pair:
    """A client with its stream and where it posts."""

    def __init__(self, client: Client, stream: Exchange, endpoint: str) -> None:
        self.client = client
        self.stream = stream
        self.endpoint = endpoint

    @classmethod
    async def connect(cls, app: Any, headers: dict[str, str | None] | None = None, **scope: Any) -> Pair:
        client = Client(app, **scope)
        path = client.scope["root_path"] + "/sse"
        stream = await client.send("GET", None, headers, path=path).begun()
        assert (stream.status, stream.headers["content-type"]) == (200, "text/event-stream")
        await until(lambda: len(stream.events) == 1)
        assert stream.events[0].event == "endpoint"
        return cls(client, stream, stream.events[0].data.decode())

    def post(self, body: object, headers: dict[str, str | None] | None = None) -> Exchange:
        path, _, query = self.endpoint.partition("?")
        return self.client.send("POST", body, headers, path=path, query=query)

    async def tell(self, body: object) -> None:
        answer = await self.post(body).done()
        assert (answer.status, answer.body) == (202, b"")

    async def open(self, row: Revision = ROW, **capabilities: object) -> Pair:
        await self.tell(initialize(row, **capabilities))
        assert (await self.stream.heard(1))[0]["result"]["protocolVersion"] == row.version
        await self.tell(notification("notifications/initialized"))
        return self

    async def close(self) -> None:
        self.stream.disconnect()
        await self.stream.done()


@req("SSE-1", "SSE-2", "SSE-4", "BASE-5", at=A)
def test_what_is_posted_is_answered_on_the_stream() -> None:
    async def test(handler: Served, make: Make) -> None:
        pair = await (await Pair.connect(make(sse=True))).open()
        await pair.tell(request("tools/call", {"name": "log"}, "x"))
        await pair.tell(request("ping", None, 3))
        await pair.stream.heard(4)
        methods = [message.get("method") or message["id"] for message in pair.stream.messages]
        assert sorted(map(str, methods)) == ["3", "init", "notifications/message", "x"]
        assert all(event.event in ("endpoint", "message") for event in pair.stream.events)
        await pair.close()

    work(test)


@req("SEC-6", "HTTP-31", at=A)
def test_a_posted_message_of_too_many_values_is_refused() -> None:
    async def test(handler: Served, make: Make) -> None:
        pair = await (await Pair.connect(make(sse=True, max_values=1000))).open()
        refused = await pair.post(request("ping", {"v": [1] * 1000}, "x")).done()
        assert (refused.status, refused.json["id"], refused.error["code"]) == (400, "x", INVALID_REQUEST)
        assert "the server's option max_values" in refused.error["message"]
        await pair.tell(request("ping", {"v": [1] * 900}, 3))
        assert (await pair.stream.heard(2))[1]["id"] == 3
        await pair.close()

    work(test)


@req("STDIO-9", "SEC-6", at=A)
def test_a_handler_waits_for_a_client_that_does_not_read_its_stream() -> None:
    async def test(handler: Served, make: Make) -> None:
        pair = await (await Pair.connect(make(sse=True))).open()
        pair.stream.reading.clear()
        await pair.tell(request("tools/call", {"name": "flood"}, "x"))
        await until(lambda: len(handler.notes) > 0)
        for _ in range(50):
            await asyncio.sleep(0)
        assert 0 < len(handler.notes) < 200
        pair.stream.reading.set()
        assert len(await pair.stream.heard(2002)) == 2002
        await pair.close()

    work(test)


@req("SSE-7", "SSE-2", everywhere=True)
@pytest.mark.parametrize(
    ("option", "root", "sse", "messages"),
    [
        (True, "", "/sse", "/messages"),
        (True, "/outer", "/sse", "/outer/messages"),
        (("/a", "/b"), "", "/a", "/b"),
    ],
)
def test_both_transports_stand_side_by_side(option: Any, root: str, sse: str, messages: str) -> None:
    async def test(handler: Served, make: Make) -> None:
        app = make(sse=option)
        client = Client(app, root_path=root)
        stream = await client.send("GET", path=root + sse).begun()
        await until(lambda: len(stream.events) == 1)
        assert stream.events[0].data.decode().startswith(f"{messages}?sessionId=")
        for row in rows_since(B):
            other = await Client(app, path=root + "/mcp", root_path=root).open(row)
            assert (await other.call("echo").done()).status == 200
        stream.disconnect()
        await stream.done()

    work(test)


@req("SSE-7", everywhere=True)
def test_the_endpoints_are_there_only_where_they_are_wanted() -> None:
    async def test(handler: Served, make: Make) -> None:
        client = Client(make())
        assert (await client.send("GET", path="/sse").done()).status == 404
        assert (await client.send("POST", {}, path="/messages").done()).status == 404
        with pytest.raises(ValueError, match="path of its own"):
            make(sse=("/mcp", "/b"))
        with pytest.raises(ValueError, match="slash"):
            make(sse=("a", "/b"))

    work(test)


@req("SSE-7", at=E)
def test_a_server_of_the_stateless_era_alone_has_no_such_stream() -> None:
    async def test(handler: Served, make: Make) -> None:
        assert (await Client(make(sse=True)).send("GET", path="/sse").done()).status == 404

    work(test, revisions=[E])


@req("SSE-4", "SSE-6", at=A)
def test_unknown_sessions_are_not_found() -> None:
    async def test(handler: Served, make: Make) -> None:
        client = Client(make(sse=True))
        for query, status in (
            ("sessionId=x", 404),
            ("", 400),
            ("sessionId=x&sessionId=y", 400),
            ("&".join(f"a{n}=1" for n in range(99)), 400),
            ("%ff=%00", 400),
        ):
            answer = await client.send("POST", request("ping"), path="/messages", query=query).done()
            assert (answer.status, answer.json["error"]["code"]) == (status, INVALID_REQUEST), query

    work(test)


@req("SSE-1", at=A)
@pytest.mark.parametrize(
    ("verb", "path", "headers", "status"),
    [
        ("POST", "/sse", {}, 405),
        ("DELETE", "/sse", {}, 405),
        ("GET", "/messages", {}, 405),
        ("GET", "/sse", {"accept": "text/html"}, 406),
        ("GET", "/sse", {"accept": None}, 200),
        ("GET", "/sse", {"origin": "http://evil.example"}, 403),
    ],
)
def test_each_endpoint_has_its_method(
    verb: str, path: str, headers: dict[str, str | None], status: int
) -> None:
    async def test(handler: Served, make: Make) -> None:
        answer = await Client(make(sse=True)).send(verb, None, headers, path=path).begun()
        assert answer.status == status
        if status == 405:
            assert answer.headers["allow"] == ("POST" if path == "/messages" else "GET")
        answer.disconnect()
        await answer.done()

    work(test)


@req("SSE-5", "SEC-3", "AMB-14", at=A)
def test_pages_of_other_sites_reach_neither_endpoint() -> None:
    async def test(handler: Served, make: Make) -> None:
        pair = await Pair.connect(make(sse=True), {"origin": "http://localhost:3000"})
        answer = await pair.post(request("ping"), {"origin": "http://evil.example"}).done()
        assert answer.status == 403
        assert (await pair.post(request("ping"), {"origin": "http://localhost:3000"}).done()).status == 202
        await pair.close()

    work(test)


@req("SSE-4", "BASE-10", "BASE-7", at=A)
@pytest.mark.parametrize(
    ("body", "code"), [(b"{", PARSE_ERROR), (b"[]", INVALID_REQUEST), (b"1", INVALID_REQUEST)]
)
def test_what_is_no_message_is_refused_where_it_was_posted(body: bytes, code: int) -> None:
    async def test(handler: Served, make: Make) -> None:
        pair = await (await Pair.connect(make(sse=True))).open()
        answer = await pair.post(body).done()
        assert (answer.status, answer.json["error"]["code"], answer.json["id"]) == (400, code, None)
        assert (await pair.post(request("ping"), {"content-type": "text/plain"}).done()).status == 415
        await pair.tell(request("ping", None, 5))
        assert (await pair.stream.heard(2))[-1]["id"] == 5
        await pair.close()

    work(test)


@req("SSE-6", "CANC-2", at=A)
def test_a_session_ends_with_its_stream_and_takes_its_handlers_along() -> None:
    async def test(handler: Served, make: Make) -> None:
        app = make(sse=True, defer=QUICK)
        pair = await (await Pair.connect(app)).open()
        other = await (await Pair.connect(app)).open()
        for each in (pair, other):
            await each.tell(request("tools/call", {"name": "quiet"}, 1))
        await until(lambda: handler.running == 2)
        await pair.close()
        await until(lambda: handler.running == 1 and len(app.dispatcher.sse) == 1)
        assert (await pair.post(request("ping")).done()).status == 404
        handler.gate.set()
        assert (await other.stream.heard(2))[-1]["id"] == 1
        await other.close()
        await until(lambda: len(app.dispatcher.sse) == 0)

    work(test)


@req("SSE-6", "SEC-4", at=(A, B))
def test_who_posts_is_who_listens() -> None:
    async def test(handler: Served, make: Make) -> None:
        app = make(sse=True, principal=who)
        pair = await Pair.connect(app, {"who": "alice"})
        assert (await pair.post(initialize(ROW), {"who": "bob"}).done()).status == 404
        pair.client.session["who"] = "alice"
        await pair.open()
        await pair.tell(request("tools/call", {"name": "whose"}, 1))
        assert (await pair.stream.heard(2))[-1]["result"]["content"][0]["text"] == "alice"
        await pair.close()

    work(test)


@req("CONV-40", "CANC-2", at=A)
def test_a_cancelled_request_has_no_answer() -> None:
    async def test(handler: Served, make: Make) -> None:
        pair = await (await Pair.connect(make(sse=True))).open()
        await pair.tell(request("tools/call", {"name": "quiet"}, 1))
        await until(lambda: handler.running == 1)
        await pair.tell(notification("notifications/cancelled", {"requestId": 1}))
        await pair.tell(request("ping", None, 2))
        assert [message["id"] for message in await pair.stream.heard(2)] == ["init", 2]
        assert handler.running == 0
        await pair.close()

    work(test)


@req("SSE-1", "MRTR-11", "SUB-1", at=A)
def test_the_server_asks_and_tells_of_changes_on_the_stream() -> None:
    async def test(handler: Served, make: Make) -> None:
        pair = await (await Pair.connect(make(sse=True))).open(roots={})
        await pair.tell(request("tools/call", {"name": "tries"}, 1))
        asked = (await pair.stream.heard(2))[-1]
        await pair.tell({"jsonrpc": "2.0", "id": asked["id"], "result": {"roots": []}})
        assert (await pair.stream.heard(3))[-1]["result"]["content"][0]["text"] == "[]"
        server_of(pair.client.app).changed("tools")
        assert (await pair.stream.heard(4))[-1]["method"] == "notifications/tools/list_changed"
        await pair.close()

    work(test)


@req("SSE-7", "LIFE-3", "BATCH-1", at=NAMES[:4])
@pytest.mark.parametrize("name", NAMES[:4])
def test_newer_clients_that_fall_back_speak_their_revision(name: str) -> None:
    async def test(handler: Served, make: Make) -> None:
        row = revision_named(name)
        pair = await (await Pair.connect(make(sse=True))).open(row)
        await pair.tell(request("tools/call", {"name": "who"}, 1))
        assert (await pair.stream.heard(2))[-1]["result"]["content"][0]["text"].startswith(f"['{name}'")
        batch = await pair.post([request("ping", None, 2)]).done()
        assert batch.status == (202 if row.accepts_batch else 400)
        await pair.close()

    work(test)


@req("SSE-6", "SEC-6", at=A)
def test_there_are_no_more_streams_than_allowed_and_all_end_with_the_server() -> None:
    async def test(handler: Served, make: Make) -> None:
        app = make(sse=True, max_sessions=2, heartbeat=QUICK, defer=QUICK)
        one, two = await (await Pair.connect(app)).open(), await Pair.connect(app)
        assert (await one.client.send("GET", path="/sse").done()).status == 503
        await until(lambda: b": \n\n" in one.stream.body)
        await one.tell(request("tools/call", {"name": "quiet"}, 1))
        await until(lambda: handler.running == 1)
        await app.aclose()
        for pair in (one, two):
            await pair.stream.done()
            assert pair.stream.complete

    work(test)
