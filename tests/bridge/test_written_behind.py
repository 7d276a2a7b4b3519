"""What a client on a pipe writes behind `initialize` in one write: a bridge answers it as a direct server does."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable
from typing import Any, Final

import pytest

import mcprev
from api.wire import INFO, Error, Message
from bridge.hands import Downstream, Servers, Upstream, bridge_to, bridged, text
from helpers.requirements import req
from helpers.running import run
from mcprev.bridge.opening import WAITING
from mcprev.core.limits import LINGER
from mcprev.revisions import DEFAULT, Revision
from mcprev.transports.stdio.pipes import PipeTransport

SESSIONS: Final = [row for row in DEFAULT if row.handshake]
each_session = pytest.mark.parametrize("row", SESSIONS, ids=lambda row: row.name)
app = mcprev.App("plain", "1")


@app.tool
def hello() -> str:
    return "hello"


FRONTS: Final[dict[str, Callable[[], Any]]] = {
    "a server": lambda: app.server,
    "a bridge to a server with sessions": lambda: mcprev.Bridge(app, server_revisions=[SESSIONS[-1].name]),
    "a bridge to a stateless server": lambda: mcprev.Bridge(app, server_revisions=[DEFAULT[-1].name]),
    "a bridge to several servers": lambda: mcprev.Bridge({"one": app, "two": app}),
}


def hello_of(row: Revision) -> Message:
    said = {"protocolVersion": row.version, "capabilities": {}, "clientInfo": INFO}
    return {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": said}


def request(id_: int, method: str, **params: Any) -> Message:
    found: Message = {"jsonrpc": "2.0", "id": id_, "method": method}
    return {**found, "params": params} if params else found


INITIALIZED: Final[Message] = {"jsonrpc": "2.0", "method": "notifications/initialized"}


def write_together(client: Downstream, *messages: Any) -> None:
    """Put messages on the wire with one write."""
    each: list[Message] = []
    for message in messages:
        each += message if isinstance(message, list) else [message]
    client._asked |= {message["id"]: message["method"] for message in each if "id" in message}
    client.send(b"\n".join(json.dumps(message).encode() for message in messages))


async def answers(client: Downstream, *ids: int) -> list[Message]:
    """The answers to requests, in the order in which they came."""
    return [await client.get(lambda message: "method" not in message) for _ in ids]


@req("SEAM-10", "LIFE-8")
@pytest.mark.parametrize("front", FRONTS)
@each_session
def test_everything_in_one_write(row: Revision, front: str) -> None:
    async def main() -> None:
        made, client = FRONTS[front](), Downstream(row)
        async with bridged(made, client, opened=False):
            prefix = "one__" if "several" in front else ""
            write_together(
                client,
                hello_of(row),
                INITIALIZED,
                request(1, "tools/list"),
                request(2, "tools/call", name=f"{prefix}hello", arguments={}),
            )
            first, *others = await answers(client, 0, 1, 2)
            assert first["id"] == 0
            assert first["result"]["protocolVersion"] == row.version
            found = {answer["id"]: answer["result"] for answer in others}
            assert found[1]["tools"][0]["name"] == f"{prefix}hello"
            assert found[2]["content"] == [{"type": "text", "text": "hello"}]

    run(main())


@req("SEAM-10", "LIFE-7")
@each_session
def test_a_confirmation_in_the_same_write_opens_the_session(row: Revision) -> None:
    """What the server tells of its own accord comes only then."""

    async def main() -> None:
        servers = Servers(lambda: Upstream(SESSIONS[-1], {}, {"tools/list": {"tools": []}}))
        client = Downstream(row)
        async with bridged(bridge_to(servers, SESSIONS[-1]), client, opened=False):
            write_together(client, hello_of(row), INITIALIZED)
            await answers(client, 0)
            servers.made[0].tell("notifications/tools/list_changed")
            await client.heard("notifications/tools/list_changed")

    run(main())


@req("SEAM-10", "BATCH-6")
@pytest.mark.parametrize("row", [row for row in SESSIONS if row.accepts_batch], ids=lambda row: row.name)
def test_a_batch_in_the_same_write(row: Revision) -> None:
    async def main() -> None:
        client = Downstream(row)
        async with bridged(FRONTS["a bridge to a stateless server"](), client, opened=False):
            write_together(client, hello_of(row), [request(1, "tools/list"), request(2, "ping")])
            assert [answer["id"] for answer in await answers(client, 0, 1, 2)] == [0, 2, 1]

    run(main())


@req("SEAM-10", "LIFE-8")
@each_session
def test_what_is_behind_a_refused_initialize_is_refused_as_before_one(row: Revision) -> None:
    def refuses() -> Upstream:
        made = Upstream(row, {})
        made.replies["initialize"] = Error(-32603, "not today")
        return made

    async def main() -> None:
        client = Downstream(row)
        async with bridged(bridge_to(Servers(refuses), row), client, opened=False):
            write_together(client, hello_of(row), request(1, "tools/list"), request(2, "ping"))
            found = {answer["id"]: answer for answer in await answers(client, 0, 1, 2)}
            assert found[0]["error"]["code"] == -32603
            assert "initialize first" in found[1]["error"]["message"]
            assert found[2]["result"] == {}

    run(main())


@req("SEAM-10", "CANC-2")
@each_session
def test_a_request_that_is_cancelled_while_it_waits_never_reaches_the_server(row: Revision) -> None:
    async def main() -> None:
        servers = Servers(lambda: Upstream(row, {}, {"tools/list": {"tools": []}}))
        client = Downstream(row)
        cancelled: Message = {**INITIALIZED, "method": "notifications/cancelled", "params": {"requestId": 1}}
        async with bridged(bridge_to(servers, row), client, opened=False):
            write_together(
                client, hello_of(row), request(1, "prompts/list"), cancelled, request(2, "tools/list")
            )
            assert [answer["id"] for answer in await answers(client, 0, 2)] == [0, 2]
            assert servers.made[0].asked("prompts/list") == []

    run(main())


@pytest.mark.slow
@req("SEAM-10", "LIFE-8")
def test_what_waits_is_bounded() -> None:
    row, more = SESSIONS[-1], 20

    async def main() -> None:
        client = Downstream(row)
        async with bridged(FRONTS["a bridge to a stateless server"](), client, opened=False):
            ids = range(1, WAITING + more + 1)
            write_together(client, hello_of(row), *(request(id_, "tools/list") for id_ in ids))
            found = await answers(client, 0, *ids)
            refused = [answer["id"] for answer in found if "error" in answer]
            assert refused == list(ids)[-more:]

    run(main())


@req("SEAM-10", "STDIO-6")
@pytest.mark.parametrize("there", DEFAULT, ids=lambda row: f"to {row.name}")
@each_session
def test_everything_and_the_end_of_input_in_one_write(row: Revision, there: Revision) -> None:
    """`mcprev bridge < file` answers the whole file."""

    async def main() -> None:
        async def plain(_up: Upstream, _request: Message) -> Message:
            return text("done")

        servers = Servers(lambda: Upstream(there, {"plain": plain}, {"tools/list": {"tools": []}}))
        bridge = bridge_to(servers, there)
        messages = hello_of(row), INITIALIZED, request(1, "tools/call", name="plain", arguments={})
        async with bridge.running():
            theirs, ours = os.pipe()
            told, outgoing = os.pipe()
            os.write(ours, b"".join(json.dumps(message).encode() + b"\n" for message in messages))
            os.close(ours)
            connection = bridge.connection()
            await PipeTransport(connection).open(theirs, outgoing)
            await asyncio.shield(connection.closed)
            await connection.finish_requests(LINGER)
            await connection.aclose()
            with open(told, "rb") as read:  # noqa: ASYNC230, PTH123 - all has been written
                first, second = (json.loads(each) for each in read)
        assert first["result"]["protocolVersion"] == row.version
        assert second["result"]["content"] == text("done")["content"]
        assert len(servers.made) == 1
        servers.check()

    run(main())
