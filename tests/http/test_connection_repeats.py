"""Each request on a connection is parsed and checked by itself, however often the same bytes came before (HTTP-31, HDR-8)."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

import mcprev
from helpers.asgi_bridge import TYPES
from helpers.requirements import D, E, req
from helpers.served import REGION, Served, server_of, work
from helpers.wired import Wire, head
from helpers.wired_calls import call, fields, opened, said, texts
from mcprev.errors import HEADER_MISMATCH
from mcprev.revisions import revision_named
from mcprev.transports.http.server.asgi import AsgiApp
from mcprev.transports.http.server.http11_server import Http11Server
from mcprev_types.latest import models as m

Make = Callable[..., AsgiApp]


async def answered(wire: Wire, *requests: bytes) -> list[int]:
    """Send requests, each once the one before it is answered; the statuses of all answers so far."""
    for data in requests:
        wire.send(data)
        await wire.settled()
    return [answer.status for answer in wire.answers()]


@req("HTTP-31", at=E)
@pytest.mark.parametrize(
    "misframed",
    [
        call()[1:],  # `OST /mcp`
        b"\0" + call(),
        call().replace(b"HTTP/1.1", b"HTTP/9.1"),
        call().replace(b"Content-Length: ", b"Content-Length : "),
        call().replace(b"Content-Length: ", b"Content-Length: +"),
        call().replace(b"\r\n", b"\r\nContent-Length: 0\r\n", 1),
        call().replace(b"\r\n", b"\r\nTransfer-Encoding: chunked\r\n", 1),
    ],
)
def test_a_misframed_request_is_refused_also_behind_a_good_one(misframed: bytes) -> None:
    """What the parser refuses as the first request is refused as the second and as the third."""

    async def test(handler: Served, make: Make) -> None:
        front = Http11Server(make(json_response=True))
        assert await answered(Wire(front), misframed) == [400]
        assert await answered(Wire(front), call(), misframed) == [200, 400]
        assert await answered(Wire(front), call(), call(), misframed) == [200, 200, 400]

    work(test)


@req("HTTP-31", at=E)
def test_a_head_that_came_in_pieces_is_not_remembered() -> None:
    """A request whose first bytes came alone leaves nothing that its rest could be recognised by."""

    async def test(handler: Served, make: Make) -> None:
        wire = Wire(Http11Server(make(json_response=True)))
        wire.send(b"P")
        assert await answered(wire, call()[1:]) == [200]
        assert await answered(wire, call()[1:]) == [200, 400]

    work(test)


@req("HTTP-31", at=E)
def test_a_length_in_a_body_is_none_of_a_head() -> None:
    async def test(handler: Served, make: Make) -> None:
        wire = Wire(Http11Server(make(json_response=True)))
        inner, body = b"\r\ncontent-length: %d\r\n", said("echo")
        start = head("POST", "/mcp", [*fields(), ("Content-Length", "\t400")])
        start = start.replace(b"Content-Length: ", b"Content-Length:")
        assert await answered(wire, start + (inner % 400 + body).ljust(400)) == [400]  # it is no JSON
        wire.send(start + inner % (len(body) + 2) + body)
        assert [answer.status for answer in wire.answers()] == [400], "the rest of its body is to come"
        wire.hang_up()
        await wire.settled()

    work(test)


@req("HDR-8", "HDR-3", at=E)
def test_a_tool_that_gets_headers_of_its_own_is_held_to_them() -> None:
    async def test(handler: Served, make: Make) -> None:
        handler.tools = [m.Tool(name="region", input_schema=m.ToolInputSchema())]
        app = make(json_response=True)
        wire = Wire(Http11Server(app))
        plain = call("region", {"region": "eu"})
        assert await answered(wire, plain, plain, plain) == [200] * 3
        handler.tools = [m.Tool(name="region", input_schema=REGION)]
        server_of(app).changed("tools")
        with_header = call("region", {"region": "eu"}, mcp_param_region="eu")
        other = call("region", {"region": "us"}, mcp_param_region="eu")
        statuses = await answered(wire, plain, with_header, with_header, other)
        assert statuses[3:] == [400, 200, 200, 400]
        assert json.loads(wire.answers()[-1].body)["error"]["code"] == HEADER_MISMATCH

    work(test)


@req("HDR-8", "HDR-3", at=E)
def test_a_call_that_passes_unchecked_as_the_tools_cannot_be_listed_is_checked_the_next_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def test(handler: Served, make: Make) -> None:
        fails = True
        lists = Served.list_tools

        async def may_fail(self: Served, *given: Any) -> Any:
            if fails:
                raise mcprev.InternalError("not now")
            return await lists(self, *given)

        monkeypatch.setattr(Served, "list_tools", may_fail)
        wire = Wire(Http11Server(make(json_response=True)))
        plain = call("region", {"region": "eu"})
        await answered(wire, plain, plain)
        fails = False
        with_header = call("region", {"region": "eu"}, mcp_param_region="eu")
        assert await answered(wire, plain, with_header) == [200, 200, 400, 200]
        assert json.loads(wire.answers()[2].body)["error"]["code"] == HEADER_MISMATCH

    work(test)


@req("HTTP-21", "HTTP-22", at=D)
def test_a_session_that_is_over_is_not_found_again() -> None:
    async def test(handler: Served, make: Make) -> None:
        wire = Wire(Http11Server(make(json_response=True)))
        session = {**TYPES, **await opened(wire, revision_named(D))}
        body = json.dumps({"jsonrpc": "2.0", "id": 7, "method": "ping"}).encode()
        ping = head("POST", "/mcp", {**session, "content-length": str(len(body))}) + body
        end = head("DELETE", "/mcp", session)
        assert await answered(wire, ping, ping, ping, end, ping) == [200, 200, 200, 204, 404]

    work(test)


@req("HTTP-28", at=E)
def test_the_principal_is_found_anew_for_each_request() -> None:
    """`principal` is called for every request, with headers that nothing done to another request's has changed."""

    async def test(handler: Served, make: Make) -> None:
        asked: list[dict[bytes, bytes]] = []

        def principal(scope: Any) -> str:
            asked.append(dict(scope["headers"]))
            scope["headers"].clear()
            return str(len(asked))

        wire = Wire(Http11Server(make(json_response=True, principal=principal)))
        requests = [call("echo", {"text": "x" * length}) for length in (1, 1, 20, 1)]
        await answered(wire, *requests)
        lengths = [str(len(data) - data.index(b"\r\n\r\n") - 4).encode() for data in requests]
        assert [headers[b"content-length"] for headers in asked] == lengths
        assert len(texts(wire.answers())) == len(requests)

    work(test)
