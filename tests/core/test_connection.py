"""The asyncio driver: tasks, backpressure, cancellation, deadlines and the end of connections."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from core.fake_handler import client, server
from engine.fakes import HANDSHAKE, initialize, modern, notification, request, result
from helpers.requirements import D, E, req
from helpers.running import run, until
from mcprev.core.connection import Connection
from mcprev.core.limits import HIGH
from mcprev.errors import ConnectionLost, RequestTimeout, RpcError
from mcprev.protocol.endpoint import ClientProtocol
from mcprev.revisions import LATEST


@req("PING-1", everywhere=True)
def test_requests_run_side_by_side_and_ping_is_not_behind_them_ping_1() -> None:
    async def work() -> None:
        connection, handler, peer = server()
        for number in range(5):
            peer.send(modern("tools/call", {"name": "wait"}, number))
        peer.send(request("ping", None, "p"))
        await until(lambda: handler.running == 5 and peer.data != b"")
        assert peer.messages == [result("p", {})]
        # What asyncio says of a task names the method that it serves.
        assert sum(task.get_name() == "tools/call" for task in asyncio.all_tasks()) == 5
        handler.gate.set()
        await until(lambda: len(peer.messages) == 6)
        await connection.aclose()

    run(work())


@req("STDIO-8", at=E)
def test_cancelled_request_is_stopped_and_not_answered_canc_2() -> None:
    async def work() -> None:
        connection, handler, peer = server()
        peer.send(modern("tools/call", {"name": "wait"}, 1), modern("tools/call", {"name": "wait"}, 2))
        await until(lambda: handler.running == 2)
        peer.send(notification("notifications/cancelled", {"requestId": 1}))
        await until(lambda: handler.cancelled == 1)
        handler.gate.set()
        await until(lambda: len(peer.messages) == 1)
        assert peer.messages[0]["id"] == 2
        await connection.aclose()

    run(work())


@req("STDIO-8", at=E)
def test_cancel_in_the_same_chunk_never_starts_the_handler() -> None:
    async def work() -> None:
        connection, handler, peer = server()
        peer.send(
            modern("tools/call", {"name": "x"}, 1), notification("notifications/cancelled", {"requestId": 1}),
            request("ping", None, 2),
        )  # fmt: skip
        await until(lambda: peer.data != b"")
        assert (peer.messages, handler.most) == ([result(2, {})], 0)
        assert connection._tasks == set()
        await connection.aclose()

    run(work())


@req("STDIO-9", "SEC-6", everywhere=True)
def test_handlers_are_bounded_and_none_is_forgotten_stdio_9() -> None:
    async def work() -> None:
        connection, handler, peer = server(max_handlers=3)
        for number in range(20):
            peer.send(modern("tools/call", {"name": "wait"}, number))
        await until(lambda: handler.running == 3 and len(connection._queue) == 17)
        handler.gate.set()
        await until(lambda: len(peer.messages) == 20)
        assert handler.most == 3
        assert {message["id"] for message in peer.messages} == set(range(20))
        await connection.aclose()

    run(work())


@req("STDIO-8", at=E)
def test_waiting_requests_can_be_cancelled() -> None:
    async def work() -> None:
        connection, handler, peer = server(max_handlers=1)
        for number in range(2):
            peer.send(modern("tools/call", {"name": "wait"}, number))
        peer.send(notification("notifications/cancelled", {"requestId": 1}))
        await until(lambda: handler.running == 1 and not connection.protocol.connection.incoming.get(1))
        handler.gate.set()
        await until(lambda: len(peer.messages) == 1)
        assert handler.most == 1
        await connection.aclose()

    run(work())


@req("SEC-6", everywhere=True)
def test_what_is_too_much_is_refused() -> None:
    async def work() -> None:
        connection, handler, peer = server(max_handlers=2)
        for number in range(40):
            peer.send(modern("tools/call", {"name": "wait"}, number))
        peer.send(request("ping", None, "p"))
        await until(lambda: len(peer.messages) == 40 - 34 + 1)
        assert peer.messages[-1] == result("p", {})
        assert {message["error"]["code"] for message in peer.messages[:-1]} == {-32603}
        handler.gate.set()
        await until(lambda: len(peer.messages) == 41)
        await connection.aclose()

    run(work())


@pytest.mark.slow
@req("STDIO-9", everywhere=True)
def test_reading_pauses_while_the_peer_does_not_read() -> None:
    async def work() -> None:
        connection, handler, peer = server()
        peer.transport.pause_reading()
        for number in range(50):
            peer.send(modern("tools/call", {"name": "big"}, number))
            await asyncio.sleep(0)
        await until(lambda: connection._paused)
        assert handler.most < 50
        peer.transport.resume_reading()
        await until(lambda: peer.data.count(b"\n") == 50)
        await connection.aclose()

    run(work())


@req("STDIO-9", everywhere=True)
def test_a_client_that_waits_keeps_reading() -> None:
    """Both sides blocked on writing: the one that waits for answers still reads, so nobody hangs."""

    async def work() -> None:
        connection, side, peer = client()
        side.settle(LATEST)
        peer.transport.pause_reading()
        waiting = [asyncio.create_task(call(connection, side, "x" * HIGH)) for _ in range(3)]
        await until(lambda: not connection._writable.is_set())
        peer.transport.resume_reading()
        await until(lambda: len(peer.data.splitlines()) == 3)
        for message in peer.messages:
            peer.send(result(message["id"], {"ok": True}))
        assert await asyncio.gather(*waiting) == [{"ok": True}] * 3
        await connection.aclose()

    run(work())


async def call(
    connection: Connection, side: ClientProtocol, name: str = "x", **bounds: float | None
) -> dict[str, Any]:
    options: Any = {"idle": None, "total": None, **bounds}
    return await connection.wait(side.engine.call("tools/call", {"name": name}, connection.now(), **options))


@req("STDIO-9", everywhere=True)
def test_writes_of_one_turn_are_one_write() -> None:
    async def work() -> None:
        connection, _, peer = server()
        writes: list[bytes] = []
        connection._transport.write = writes.append  # type: ignore[union-attr, method-assign]
        peer.send(*(modern("tools/call", {"name": "x"}, number) for number in range(50)))
        await until(lambda: bool(writes))
        assert len(writes) == 1
        assert writes[0].count(b"\n") == 50
        await connection.aclose()

    run(work())


@req("TIME-1", "CANC-7", "ERR-5", at=E)
@pytest.mark.parametrize("kind", ["idle", "total"])
def test_timeout_cancels_and_raises_time_1(kind: str) -> None:
    async def work() -> None:
        connection, side, peer = client()
        side.settle(LATEST)
        with pytest.raises(RequestTimeout) as caught:
            await call(
                connection,
                side,
                idle=0.01 if kind == "idle" else None,
                total=0.01 if kind == "total" else None,
            )
        assert caught.value.kind == kind
        assert caught.value.elapsed >= 0.01
        await until(lambda: len(peer.messages) == 2)
        assert peer.messages[1]["method"] == "notifications/cancelled"
        peer.send(result(peer.messages[0]["id"], {}))
        await connection.aclose()

    run(work())


@req("CANC-7", at=E)
def test_cancelled_caller_cancels_the_call_canc_7() -> None:
    async def work() -> None:
        connection, side, peer = client()
        side.settle(LATEST)
        task = asyncio.create_task(call(connection, side))
        await until(lambda: peer.data != b"")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await until(lambda: len(peer.messages) == 2)
        assert peer.messages[1]["params"]["requestId"] == peer.messages[0]["id"]
        assert not side.waiting
        await connection.aclose()

    run(work())


@req("LIFE-16", "ERR-5", at=E)
def test_lost_connection_fails_calls_before_handlers_stop() -> None:
    async def work() -> None:
        connection, side, peer = client()
        side.settle(LATEST)
        calls = [asyncio.create_task(call(connection, side)) for _ in range(3)]
        await until(lambda: len(peer.data.splitlines()) == 3)
        peer.transport.close()
        for task in calls:
            with pytest.raises(ConnectionLost):
                await task
        await connection.closed
        await connection.aclose()

    run(work())


@req("STDIO-6", "LIFE-16", at=E)
def test_end_of_input_lets_handlers_finish_stdio_6() -> None:
    async def work() -> None:
        connection, handler, peer = server()
        peer.send(modern("tools/call", {"name": "wait"}, 1))
        await until(lambda: handler.running == 1)
        peer.transport.write_eof()
        await until(lambda: connection.error is not None)
        handler.gate.set()
        await connection.closed
        await until(lambda: peer.eof)
        assert [message["id"] for message in peer.messages] == [1]

    run(work())


@req("STDIO-6", at=E)
def test_end_of_input_ends_a_handler_that_does_not() -> None:
    async def work() -> None:
        connection, handler, peer = server(linger=0.01)
        peer.send(modern("tools/call", {"name": "wait"}, 1))
        await until(lambda: handler.running == 1)
        peer.transport.write_eof()
        await connection.closed
        assert (handler.cancelled, handler.running) == (1, 0)

    run(work())


@req("STDIO-1", "STDIO-6", everywhere=True)
def test_last_line_without_an_end_counts() -> None:
    async def work() -> None:
        connection, _, peer = server()
        peer.transport.write(json.dumps(request("ping")).encode())
        peer.transport.write_eof()
        await connection.closed
        await until(lambda: peer.eof)
        assert peer.messages == [result(1, {})]

    run(work())


@req("LIFE-16", at=E)
def test_aclose_from_any_task_and_again() -> None:
    async def work() -> None:
        connection, side, peer = client()
        side.settle(LATEST)
        waiting = asyncio.create_task(call(connection, side))
        await until(lambda: peer.data != b"")
        await asyncio.gather(
            *(connection.aclose() for _ in range(3)), asyncio.create_task(connection.aclose())
        )
        with pytest.raises(ConnectionLost):
            await waiting
        await connection.aclose()

    run(work())


@req("SUB-4")
def test_streams_end_before_the_connection_does_sub_4() -> None:
    async def work() -> None:
        connection, _, peer = server()
        peer.send(modern("subscriptions/listen", {"notifications": {}}, "L"))
        await until(lambda: peer.data != b"")
        await connection.aclose()
        await until(lambda: peer.eof)
        assert peer.messages[-1]["id"] == "L"

    run(work())


@req("PROG-1", at=E)
def test_a_raising_progress_callback_harms_nobody() -> None:
    async def work() -> None:
        connection, side, peer = client()
        side.settle(LATEST)
        waiter = side.engine.call(
            "tools/call", {"name": "x"}, connection.now(), idle=None, total=None, progress=True
        )

        def bad(method: str, params: object) -> None:
            raise ValueError(method, params)

        task = asyncio.create_task(connection.wait(waiter, bad))
        await until(lambda: peer.data != b"")
        peer.send(notification("notifications/progress", {"progressToken": waiter.id, "progress": 1}))
        peer.send(result(waiter.id, {"ok": 1}))
        assert await task == {"ok": 1}
        await connection.aclose()

    run(work())


@req("BASE-8", at=D)
def test_notifications_reach_the_desk() -> None:
    async def work() -> None:
        connection, handler, peer = server()
        peer.send(initialize(HANDSHAKE[-1]), notification("notifications/initialized"))
        peer.send(notification("notifications/roots/list_changed"))
        await until(lambda: bool(handler.heard))
        await connection.aclose()

    run(work())


@pytest.mark.slow
@req("BASE-10", "STDIO-1", everywhere=True)
@given(st.lists(st.binary(max_size=40), max_size=8))
def test_any_bytes_and_it_still_answers(chunks: list[bytes]) -> None:
    async def work() -> None:
        connection, _, peer = server()
        for chunk in chunks:
            peer.transport.write(chunk)
        peer.transport.write(b"\n")
        peer.send(request("ping", None, "alive"))
        await until(lambda: b"alive" in peer.data)
        await connection.aclose()

    run(work())


@pytest.mark.slow
@req("STDIO-1", everywhere=True)
@given(st.lists(st.integers(1, 60), max_size=30))
def test_however_the_bytes_are_cut(cuts: list[int]) -> None:
    async def work() -> None:
        connection, _, peer = server()
        data = b"".join(
            json.dumps(modern("tools/call", {"name": "é\u2028"}, n)).encode() + b"\r\n" for n in range(3)
        )
        for cut in cuts:
            peer.transport.write(data[:cut])
            data = data[cut:]
        peer.transport.write(data)
        await until(lambda: len(peer.data.splitlines()) == 3)
        assert {message["result"]["name"] for message in peer.messages} == {"é\u2028"}
        await connection.aclose()

    run(work())


@req("STDIO-9", "SEC-6", everywhere=True)
def test_line_over_the_limit_stdio_9() -> None:
    async def work() -> None:
        connection, _, peer = server(max_line=1000)
        peer.transport.write(b'{"x":"' + b"y" * 5000 + b'"}\n')
        peer.send(request("ping", None, 5))
        await until(lambda: len(peer.messages) == 2)
        assert [peer.messages[0]["error"]["code"], peer.messages[1]] == [-32600, result(5, {})]
        await connection.aclose()

    run(work())


@req("BASE-6", at=E)
def test_error_answer_is_raised() -> None:
    async def work() -> None:
        connection, side, peer = client()
        side.settle(LATEST)
        task = asyncio.create_task(call(connection, side))
        await until(lambda: peer.data != b"")
        peer.send({"jsonrpc": "2.0", "id": 1, "error": {"code": -32000, "message": "no"}})
        with pytest.raises(RpcError, match="no"):
            await task
        await connection.aclose()

    run(work())


@pytest.mark.slow
@req("LIFE-16", everywhere=True)
def test_thousand_connections_leave_nothing() -> None:
    async def work() -> None:
        for _ in range(1000):
            connection, _, peer = server()
            peer.send(request("ping"))
            await connection.aclose()

    run(work())
