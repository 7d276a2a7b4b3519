"""BASE-* and BATCH-* between a whole server or client and a peer by hand: what is on the wire at each revision."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from itertools import product
from typing import Any

import pytest

import mcprev
from api.authors import Everything, Helpful
from api.wire import served, serving
from core.fake_handler import RawPeer
from engine.fakes import initialize, modern, notification, request, result
from helpers.requirements import req
from helpers.running import run, until
from mcprev.errors import RemoteProtocolError
from mcprev.revisions import Revision
from mcprev.transports.memory import connect_pair

CALL = {"name": "echo", "arguments": {"é\u2028": 1}}
EXTRA: dict[str, Any] = {"vendor.example": {"a": [None, 1.5]}, "x": None}


def server() -> mcprev.Server:
    return mcprev.Server(Everything(), "everything", "1")


@asynccontextmanager
async def raw(row: Revision, made: mcprev.Server | None = None) -> AsyncGenerator[RawPeer]:
    """A server and the bytes that come from it, once it serves requests."""
    connection, peer = (made or server()).connection(), RawPeer()
    connect_pair(connection, peer)
    try:
        if row.handshake:
            peer.send(initialize(row), notification("notifications/initialized"))
        else:
            peer.send(modern("server/discover"))
        await until(lambda: peer.data.endswith(b"\n"))
        peer.data = b""
        yield peer
    finally:
        await connection.aclose()


def call(row: Revision, method: str, params: dict[str, Any] | None = None, id_: object = 1) -> dict[str, Any]:
    """A request in the way of a revision."""
    return request(method, params, id_) if row.handshake else modern(method, params, id_)


async def answers(peer: RawPeer, *messages: object, number: int | None = None) -> list[Any]:
    """What comes back for some messages: as many as they are, if nothing else is said."""
    peer.data = b""
    peer.send(*messages)
    wanted = len(messages) if number is None else number
    await until(lambda: peer.data.count(b"\n") >= wanted)
    return peer.messages


# -- what a message is -----------------------------------------------------------------------------------


@req("BASE-1", "STDIO-1")
def test_every_message_is_a_line_of_json_rpc_in_utf_8(row: Revision) -> None:
    async def main() -> None:
        async with raw(row) as peer:
            peer.data = b""
            peer.send(
                call(row, "tools/call", CALL), call(row, "tools/list", None, 2), call(row, "no/such", None, 3)
            )
            await until(lambda: peer.data.count(b"\n") == 3)
            for line in peer.data.split(b"\n")[:-1]:
                assert json.loads(line.decode("utf-8"))["jsonrpc"] == "2.0"
            assert not peer.data.startswith(b"\xef\xbb\xbf")
            assert "é".encode() in peer.data
        async with serving(row, {"tools/call": {"content": []}}) as (client, hand):
            await client.call_tool("é\u2028")
            assert {message["jsonrpc"] for message in hand.got} == {"2.0"}

    run(main())


@req("BASE-2", "BASE-10")
def test_what_is_no_id_is_refused_and_stands_for_no_other(row: Revision) -> None:
    none: list[Any] = [None, True, False, 1.5, {}, [1]]

    async def main() -> None:
        author = Everything()
        async with raw(row, mcprev.Server(author, "s", "1")) as peer:
            peer.send(call(row, "tools/call", {"name": "wait"}, 1))
            await author.started.wait()
            for bad in none:
                (answer,) = await answers(peer, call(row, "tools/list", None, bad))
                assert (answer["error"]["code"], answer.get("id")) == (-32600, None)
            assert not author.stopped.is_set()

    run(main())


@req("BASE-3", "BASE-4")
def test_a_client_numbers_its_requests(row: Revision) -> None:
    async def main() -> None:
        async with serving(row, {"tools/call": {"content": []}}) as (client, hand):
            for _ in range(3):
                await asyncio.gather(*(client.call_tool("x") for _ in range(10)))
            ids = [message["id"] for message in hand.got if "id" in message]
            assert len(ids) == len(set(ids)) == 31
            assert {type(id_) for id_ in ids} <= {int, str}

    run(main())


@req("BASE-5", "BASE-16")
def test_the_answer_has_the_id_of_the_request(row: Revision) -> None:
    calls: list[tuple[str, dict[str, Any]]] = [("tools/list", {}), ("tools/call", CALL), ("no/such", {})]
    ids: list[Any] = [0, 7, -1, 2**60, "7", "", "é", 1.0]

    async def main() -> None:
        async with raw(row) as peer:
            for id_, (method, params) in product(ids, calls):
                (answer,) = await answers(peer, call(row, method, params, id_))
                assert (answer["id"], type(answer["id"])) == (id_, type(id_))

    run(main())


@req("BASE-5", "BASE-4")
def test_ids_that_look_alike_are_two(row: Revision) -> None:
    async def main() -> None:
        async with raw(row) as peer:
            found = await answers(peer, call(row, "tools/list", None, 1), call(row, "tools/list", None, "1"))
            assert {repr(answer["id"]) for answer in found} == {"1", "'1'"}

    run(main())


@req("BASE-6")
@pytest.mark.parametrize(
    "answer",
    [
        {"result": {"content": []}, "error": {"code": 1, "message": "m"}},
        {"error": {"code": "1", "message": "m"}},
        {"error": {"code": 1}},
        {"error": {"code": 1.5, "message": "m"}},
        {"error": "no"},
        {"result": None},
        {"result": []},
    ],
)
def test_a_response_is_a_result_or_an_error(row: Revision, answer: dict[str, Any]) -> None:
    async def main() -> None:
        async with serving(row, {"tools/call": lambda _: None}) as (client, hand):
            waiting = asyncio.create_task(client.call_tool("x", timeout=5))
            message = await hand.get(lambda found: found.get("method") == "tools/call")
            hand.send({"jsonrpc": "2.0", "id": message["id"], **answer})
            with pytest.raises(RemoteProtocolError):
                await waiting
            hand.replies["tools/call"] = {"content": []}
            assert (await client.call_tool("x")).content == []
        if not row.accepts_batch:
            return
        async with serving(row, {"tools/call": lambda _: None}) as (client, hand):
            waiting = asyncio.create_task(client.call_tool("x", timeout=5))
            message = await hand.get(lambda found: found.get("method") == "tools/call")
            hand.send([{"jsonrpc": "2.0", "id": message["id"], **answer}])
            with pytest.raises(RemoteProtocolError):
                await waiting

    run(main())


@req("BASE-7")
def test_an_error_without_a_request(row: Revision) -> None:
    """Written as the revision wants it, and read in either way."""

    async def main() -> None:
        async with raw(row) as peer:
            (answer,) = await answers(peer, 5)
            assert answer["error"]["code"] == -32600
            assert ("id" in answer) is row.null_id_in_errors
            assert answer.get("id") is None
        async with serving(row, {"tools/call": {"content": []}}) as (client, hand):
            error = {"code": -32700, "message": "what?"}
            hand.send({"jsonrpc": "2.0", "id": None, "error": error}, {"jsonrpc": "2.0", "error": error})
            assert (await client.call_tool("x")).content == []

    run(main())


@req("BASE-8", "BASE-9")
def test_notifications_are_never_answered(row: Revision) -> None:
    """Known, unknown, out of place or malformed, to a server and to a client."""
    silent: list[Any] = [
        notification("notifications/no_such", {"a": 1}),
        notification("notifications/cancelled", {"requestId": "nothing"}),
        notification("notifications/cancelled"),
        notification("notifications/progress", {"progressToken": "nothing", "progress": 1}),
        notification("notifications/progress"),
        notification("tools/call", CALL),
        {"jsonrpc": "2.0", "method": "notifications/x", "params": 7},
    ]

    async def main() -> None:
        async with raw(row) as peer:
            found = await answers(peer, *silent, call(row, "tools/list", None, "last"), number=1)
            assert [answer["id"] for answer in found] == ["last"]
        async with serving(row, {"tools/call": {"content": []}}) as (client, hand):
            await client.call_tool("x")
            seen = len(hand.got)
            hand.send(*silent)
            await client.call_tool("x")
            assert [message.get("method") for message in hand.got[seen:]] == ["tools/call"]

    run(main())


@req("BASE-9")
def test_an_unknown_request_is_refused(row: Revision) -> None:
    async def main() -> None:
        async with served(server(), row, capabilities={}) as hand:
            for method in ("no/such", "", "sampling/createMessage"):
                assert (await hand.ask(method, {})).code == -32601
        if not row.handshake:
            return  # a server asks nothing there (BASE-11)
        async with serving(row, {"tools/call": {"content": []}}) as (_, hand):
            for method in ("no/such", "", "tools/list"):
                assert (await hand.ask(method, {})).code == -32601

    run(main())


NO_MESSAGES = {
    b"{": -32700, b"\xff\xfe": -32700, b'{"a":NaN}': -32700, b"7": -32600, b"{}": -32600,
    b'{"jsonrpc":"2.0","id":1}': -32600, b'{"id":1,"method":"ping"}': -32600,
    b'{"jsonrpc":"2.0","id":1,"method":"ping","params":"x"}': -32600,
}  # fmt: skip


@req("BASE-10")
def test_what_is_no_message_is_answered_and_the_server_goes_on(row: Revision) -> None:
    async def main() -> None:
        async with raw(row) as peer:
            for data, code in NO_MESSAGES.items():
                peer.data = b""
                peer.transport.write(data + b"\n")
                await until(lambda: peer.data.endswith(b"\n"))
                assert peer.messages[0]["error"]["code"] == code
                (answer,) = await answers(peer, call(row, "tools/call", CALL))
                assert "result" in answer

    run(main())


@req("BASE-10")
def test_a_client_goes_on_whatever_it_is_sent(row: Revision) -> None:
    async def main() -> None:
        async with serving(row, {"tools/call": {"content": []}}) as (client, hand):
            hand.send(b"{", b"\xff", b"7", b"[]", b"{}", [], b'{"jsonrpc":"2.0","id":[],"method":"ping"}')
            assert (await client.call_tool("x")).content == []

    run(main())


# -- who may say what without sessions --------------------------------------------------------------------


@req("BASE-11")
def test_a_server_sends_no_request_although_its_handler_asks(row: Revision) -> None:
    async def main() -> None:
        can: dict[str, Any] = {"elicitation": {"form": {}}, "sampling": {}, "roots": {}}
        async with served(server(), row, capabilities=can) as hand:
            answer = await hand.ask("tools/call", {"name": "ask"})
            assert answer.result["resultType"] == "input_required"
            await hand.ask("tools/call", {"name": "log"}, meta={"io.modelcontextprotocol/logLevel": "debug"})
            await hand.settle()
            assert [message for message in hand.got if "method" in message and "id" in message] == []

    run(main())


@req("BASE-12", "BASE-11")
def test_a_client_sends_no_response(row: Revision) -> None:
    async def main() -> None:
        async with serving(row, {"tools/call": {"content": []}}, handler=Helpful()) as (client, hand):
            sampling: dict[str, Any] = {"messages": [], "maxTokens": 1}
            hand.send(
                request("ping"),
                request("roots/list", {}, 2),
                request("sampling/createMessage", sampling, "1"),
            )
            hand.send({"jsonrpc": "2.0", "id": 9, "method": 7}, b"{", [])
            await client.call_tool("x")
            await client.ping()
            assert all("method" in message for message in hand.got)

    run(main())


@req("BASE-12")
def test_a_response_to_a_server_has_no_effect(row: Revision) -> None:
    async def main() -> None:
        async with raw(row) as peer:
            error = {"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": "m"}}
            found = await answers(peer, result(1, {}), error, call(row, "tools/list"), number=1)
            assert ["tools" in answer["result"] for answer in found] == [True]

    run(main())


@req("BASE-13", "MOD-7")
def test_every_result_says_what_it_is_and_whose(row: Revision) -> None:
    calls: list[tuple[str, dict[str, Any]]] = [
        ("server/discover", {}), ("tools/list", {}), ("tools/call", CALL), ("tools/call", {"name": "explicit"}),
        ("resources/list", {}), ("resources/templates/list", {}), ("resources/read", {"uri": "a:1"}),
        ("prompts/list", {}), ("prompts/get", {"name": "p"}),
        ("completion/complete", {"ref": {"type": "ref/prompt", "name": "p"}, "argument": {"name": "a", "value": "v"}}),
    ]  # fmt: skip

    async def main() -> None:
        can: dict[str, Any] = {"elicitation": {"form": {}}, "sampling": {}}
        async with served(server(), row, capabilities=can) as hand:
            for method, params in calls:
                found = (await hand.ask(method, params)).result
                asks = params.get("name") == "explicit"
                assert found["resultType"] == ("input_required" if asks else "complete")
                assert found["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "everything"
            assert "_meta" not in (await hand.ask("no/such")).error

    run(main())


@req("BASE-14", "BASE-15")
@pytest.mark.parametrize(
    ("kind", "taken"),
    [({}, True), ({"resultType": "complete"}, True), ({"resultType": "task"}, False), ({"resultType": ""}, False),
     ({"resultType": None}, False), ({"resultType": ["complete"]}, False)],
)  # fmt: skip
def test_what_kind_of_result_a_client_takes(row: Revision, kind: dict[str, Any], taken: bool) -> None:
    async def main() -> None:
        async with serving(row, {"tools/call": lambda _: None}) as (client, hand):
            waiting = asyncio.create_task(client.call_tool("x"))
            message = await hand.get(lambda found: found.get("method") == "tools/call")
            hand.send(result(message["id"], {"content": [], **kind}))
            if taken:
                assert (await waiting).content == []
                return
            with pytest.raises(RemoteProtocolError):
                await waiting

    run(main())


# -- leniency --------------------------------------------------------------------------------------------


@req("BASE-16")
def test_numbers_of_json_have_one_kind(row: Revision) -> None:
    """A client takes its id and a token back as floats, and what it writes itself is an integer."""

    async def main() -> None:
        reports: list[tuple[float, float | None, str | None]] = []

        def told(progress: float, total: float | None, message: str | None) -> None:
            reports.append((progress, total, message))

        async with serving(row, {"tools/call": lambda _: None}) as (client, hand):
            waiting = asyncio.create_task(client.call_tool("x", progress=told))
            message = await hand.get(lambda found: found.get("method") == "tools/call")
            token = message["params"]["_meta"]["progressToken"]
            assert type(message["id"]) is type(token) is int
            hand.tell("notifications/progress", {"progressToken": float(token), "progress": 1.0})
            hand.send(result(float(message["id"]), {"content": [], "resultType": "complete"}))
            assert (await waiting).content == []
            assert reports == [(1.0, None, None)]

    run(main())


@req("BASE-17")
def test_unknown_members_are_no_error_and_stay(row: Revision) -> None:
    """In a request's envelope, params and arguments; in a result, its parts and its `_meta`."""

    async def main() -> None:
        async with raw(row) as peer:
            asked = call(row, "tools/call", {"name": "echo", "arguments": EXTRA, **EXTRA})
            (answer,) = await answers(peer, {**asked, **EXTRA})
            assert answer["result"]["content"][0]["text"] == str(EXTRA)
        tool = {"name": "t", "inputSchema": {"type": "object", **EXTRA}, **EXTRA}
        page = {"tools": [tool], "_meta": {"vendor.example/a": EXTRA}, **EXTRA}
        async with serving(row, {"tools/list": page}) as (client, hand):
            found = await client.raw("tools/list", {})
            assert {**found, "tools": [tool], "_meta": page["_meta"]} == {**hand.complete("tools/list", page)}
            typed = (await client.list_tools()).to_wire()
            assert typed["tools"][0] == tool
            assert typed["x"] is None
            assert typed["_meta"] == page["_meta"]

    run(main())


# -- batches ---------------------------------------------------------------------------------------------


@req("BATCH-1", "BATCH-2", "BATCH-7", "BATCH-3", "BATCH-5")
def test_members_of_an_array_are_served_by_themselves(row: Revision) -> None:
    async def main() -> None:
        author = Everything()
        async with raw(row, mcprev.Server(author, "s", "1")) as peer:
            batch = [
                call(row, "tools/call", {"name": "wait"}, "slow"), call(row, "tools/call", CALL, 2), 5,
                notification("notifications/no_such"), initialize(row, 3), call(row, "no/such", {}, 4),
            ]  # fmt: skip
            peer.send(batch)
            await author.started.wait()
            # Others are served while a member is; the array is answered in one when its last member is done.
            assert await answers(peer, request("ping", None, "p")) == [result("p", {})]
            found: Any = await answers(peer, notification("notifications/cancelled", {"requestId": "slow"}))
            assert isinstance(found[0], list)
            said = {str(a.get("id")): a.get("error", {}).get("code") for a in found[0]}
            assert said == {"2": None, "None": -32600, "3": -32600, "4": -32601}
            (empty,) = await answers(peer, [])
            assert (empty["error"]["code"], empty["id"]) == (-32600, None)
            asked = notification("notifications/no_such")
            assert await answers(peer, [asked, asked], request("ping", None, 9), number=1) == [result(9, {})]

    run(main())


@req("BATCH-1", "BATCH-2")
def test_a_client_takes_arrays_and_sends_none(row: Revision) -> None:
    async def main() -> None:
        helpful = Helpful()
        async with serving(row, {"tools/call": lambda _: None}, handler=helpful) as (client, hand):
            calls = [asyncio.create_task(client.call_tool(name)) for name in "ab"]
            asked = [await hand.get(lambda found: found.get("method") == "tools/call") for _ in calls]
            hand._asked["p"] = "ping"
            log = {"level": "error", "data": 1}
            hand.send([result(message["id"], {"content": []}) for message in asked])
            hand.send([request("ping", None, "p"), notification("notifications/message", log)])
            assert [(await one).content for one in calls] == [[], []]
            await until(lambda: helpful.logs == [("error", 1)])
            assert await hand.get(lambda found: "method" not in found) == result("p", {})

    run(main())


@req("BATCH-6", "AMB-16")
def test_an_array_is_a_message_only_where_there_are_batches(row: Revision) -> None:
    async def main() -> None:
        async with raw(row) as peer:
            (answer,) = await answers(peer, [call(row, "tools/list")])
            if row.accepts_batch:
                assert [one["id"] for one in answer] == [1]
            else:
                assert (answer["error"]["code"], answer.get("id")) == (-32600, None)
        connection, peer = server().connection(), RawPeer()
        connect_pair(connection, peer)
        (early,) = await answers(peer, [request("ping")])
        assert early["error"]["code"] == -32600
        await connection.aclose()

    run(main())
