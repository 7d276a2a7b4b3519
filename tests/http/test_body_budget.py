"""The memory that the bodies of all requests may take: from the first byte until nothing holds them (HTTP-31, SEC-6)."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import mcprev
from helpers.asgi_bridge import Client, Exchange, initialize, notification, request
from helpers.requirements import A, B, E, req
from helpers.running import run, until
from helpers.served import QUICK, Served, work
from helpers.wired import Wire, head
from helpers.wired_calls import call, fields, gone
from mcprev.revisions import DEFAULT, Revision, revision_named
from mcprev.transports.http.server import body_budget
from mcprev.transports.http.server.asgi import AsgiApp
from mcprev.transports.http.server.body_budget import (
    MAX_BODIES,
    MAX_OPENING,
    BodyBudget,
    BodyShare,
    declares_too_much,
    parsed_weight,
)
from mcprev.transports.http.server.http11_server import Http11Server
from mcprev.wire.headers import Headers

Make = Callable[..., AsgiApp]
ALL = [row for row in DEFAULT if row.version_header]
everyone = pytest.mark.parametrize("row", ALL, ids=[row.name for row in ALL])
SESSIONS = [row for row in ALL if row.handshake]
NOTHING: list[str] = []
LISTS = [NOTHING] * 2000
"""6,000 bytes that take a quarter of a MiB."""
HEAVY = parsed_weight(json.dumps(LISTS).encode())


async def refused(response_stream: Exchange, status: int) -> str:
    """The message of a refusal."""
    await response_stream.done()
    assert response_stream.status == status
    assert (response_stream.headers.get("retry-after") == "10") is (status == 503)
    return str(response_stream.json["error"]["message"])


@req("SEC-6", "HTTP-31")
@everyone
def test_a_body_counts_with_what_it_becomes_until_it_has_been_answered(row: Revision) -> None:
    async def test(handler: Served, make: Make) -> None:
        app = make(max_bodies=2 * HEAVY + HEAVY // 2)
        client = await Client(app).open(row)
        assert app.budget.held == 0
        calls = [client.call("quiet", {"x": LISTS}, id_=n) for n in range(2)]
        await until(lambda: handler.running == 2)
        assert 2 * HEAVY < app.budget.held < 2 * HEAVY + HEAVY // 4
        assert "too many large" in await refused(client.call("echo", {"x": LISTS}, id_=3), 503)
        assert (await client.call("echo", id_=4).done()).text == "{}"  # there is room for a small one
        handler.gate.set()
        for response_stream in calls:
            assert (await response_stream.done()).text == "quiet"
        assert app.budget.held == 0
        assert (await client.call("quiet", {"x": LISTS}, id_=5).done()).text == "quiet"

    work(test)


@req("SEC-6", "HTTP-31", at=E)
def test_a_connection_of_our_own_counts_the_same() -> None:
    async def test(handler: Served, make: Make) -> None:
        app = make(max_bodies=HEAVY + HEAVY // 2)
        wires = [Wire(Http11Server(app)) for _ in range(2)]
        wires[0].send(call("quiet", {"x": LISTS}))
        await until(lambda: handler.running == 1)
        assert HEAVY < app.budget.held < HEAVY + HEAVY // 4
        assert wires[0].http._receiving is not None
        assert wires[0].http._receiving.parts == []
        wires[1].send(call("quiet", {"x": LISTS}))
        await wires[1].settled()
        assert [(answer.status, answer.get("retry-after")) for answer in wires[1].answers()] == [(503, "10")]
        handler.gate.set()
        await wires[0].settled()
        assert wires[0].answers()[0].status == 200
        assert app.budget.held == 0
        for wire in wires:
            wire.hang_up()
            await gone(wire)

    work(test)


@req("SEC-6", "HTTP-31", at=E)
def test_the_first_piece_of_a_body_counts_too() -> None:
    async def test(handler: Served, make: Make) -> None:
        app = make(max_bodies=1000)
        wires = [Wire(Http11Server(app)) for _ in range(3)]
        for wire in wires:
            wire.send(head("POST", "/mcp", [*fields(), ("Content-Length", "900")]) + b"x" * 400)
        await wires[2].settled()
        assert app.budget.held == 800
        assert wires[2].answers()[0].status == 503
        slow = Client(app).send("POST", open_body=True)
        slow.give(b"x" * 300, more=True)
        assert "too many large" in await refused(slow, 503)
        for wire in wires:
            wire.hang_up()
            await gone(wire, held=None)
        assert app.budget.held == 0

    work(test)


@req("SEC-6", everywhere=True)
def test_a_body_for_which_there_is_never_room_is_refused_for_good() -> None:
    async def test(handler: Served, make: Make) -> None:
        client = await Client(make(max_bodies=HEAVY // 2)).open(revision_named(E))
        assert "max_bodies" in await refused(client.call("echo", {"x": LISTS}), 413)

    work(test)


@req("SEC-6", "BATCH-7", "HTTP-9", at=B)
def test_the_members_of_an_array_hold_it_although_their_client_is_gone() -> None:
    async def test(handler: Served, make: Make) -> None:
        app = make(defer=QUICK)
        client = await Client(app).open(revision_named(B))
        member = request("tools/call", {"name": "quiet", "arguments": {"x": LISTS}})
        running = client.post([member, {**member, "id": 2}])
        await until(lambda: handler.running == 2)
        await running.begun()
        running.disconnect()
        await running.done()
        assert handler.running == 2
        assert app.budget.held > 2 * HEAVY
        handler.gate.set()
        await until(lambda: handler.running == 0 and app.budget.held == 0)

    work(test)


@req("SEC-6", "HTTP-6")
@pytest.mark.parametrize("row", SESSIONS, ids=[row.name for row in SESSIONS])
def test_a_notification_holds_its_body_until_its_handler_has_it(row: Revision) -> None:
    class Hears(mcprev.ServerHandler):
        gate: asyncio.Event

        async def roots_list_changed(self, ctx: mcprev.Context, params: Any) -> None:
            await self.gate.wait()

    async def main() -> None:
        handler = Hears()
        handler.gate = asyncio.Event()
        app = mcprev.Server(handler, "hears", "1").asgi(max_bodies=2 * HEAVY + HEAVY // 2)
        client = await Client(app).open(row, roots={})
        changed = notification("notifications/roots/list_changed", {"_meta": {"x": LISTS}})
        statuses = [(await client.post(changed).done()).status for _ in range(4)]
        assert statuses == [202, 202, 503, 503]
        assert app.budget.held > 2 * HEAVY
        handler.gate.set()
        await until(lambda: app.budget.held == 0)
        assert (await client.post(changed).done()).status == 202
        await app.aclose()

    run(main())


@req("SEC-6", "SSE-4", at=A)
def test_what_is_posted_to_the_oldest_transport_is_held_until_it_is_answered_on_the_stream() -> None:
    async def test(handler: Served, make: Make) -> None:
        app = make(sse=True, max_bodies=2 * HEAVY + HEAVY // 2)
        stream = await Client(app).send("GET", path="/sse").begun()
        await until(lambda: len(stream.events) == 1)
        query = stream.events[0].data.decode().partition("?")[2]

        def post(message: object) -> Exchange:
            return Client(app).send("POST", message, path="/messages", query=query)

        assert (await post(initialize(revision_named(A))).done()).status == 202
        assert (await post(notification("notifications/initialized")).done()).status == 202
        statuses: list[int] = []
        for number in range(4):
            params = {"name": "quiet", "arguments": {"x": LISTS}}
            statuses.append((await post(request("tools/call", params, number)).done()).status)
        assert statuses == [202, 202, 503, 503]
        await until(lambda: handler.running == 2)
        handler.gate.set()
        await until(lambda: len(stream.events) == 4 and app.budget.held == 0)
        stream.disconnect()
        await stream.done()

    work(test)


@req("SEC-6", "LIFE-3")
@pytest.mark.parametrize("row", SESSIONS, ids=[row.name for row in SESSIONS])
def test_what_a_client_says_of_itself_has_a_bound_of_its_own(row: Revision) -> None:
    """It lasts as long as the session, so it would have to count all that time."""

    async def test(handler: Served, make: Make) -> None:
        app = make(sse=True)
        client = Client(app)
        long = initialize(row, experimental={"x": "y" * MAX_OPENING})
        assert str(MAX_OPENING) in await refused(client.post(long), 413)
        assert len(app.dispatcher.sessions) == 0
        short = initialize(row, experimental={"x": "y" * (MAX_OPENING // 2)})
        assert (await client.post(short).done()).status == 200
        stream = await client.send("GET", path="/sse").begun()
        await until(lambda: len(stream.events) == 1)
        query = stream.events[0].data.decode().partition("?")[2]
        assert str(MAX_OPENING) in await refused(
            client.send("POST", long, path="/messages", query=query), 413
        )
        stream.disconnect()
        await stream.done()

    work(test)


@req("SEC-6", "TASKX-2", at=E)
def test_a_task_holds_the_body_of_its_request_until_it_ends() -> None:
    async def test(handler: Served, make: Make) -> None:
        async def detaches(ctx: mcprev.Context, params: Any) -> Any:
            await ctx.detach()
            return await handler.do_quiet(ctx, params)

        vars(handler)["do_detaches"] = detaches
        app = make()
        client = await Client(app).open(revision_named(E))
        capable: dict[str, Any] = {
            "clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}}
        }
        answer = await client.call("detaches", {"x": LISTS}, **capable).done()
        assert answer.result["resultType"] == "task"
        assert app.budget.held > HEAVY
        handler.gate.set()
        await until(lambda: app.budget.held == 0)

    work(test, tasks=mcprev.Tasks({"detaches": "optional"}))


@pytest.mark.slow
@req("SEC-6", everywhere=True)
def test_a_process_grows_by_no_more_than_its_budget() -> None:
    """Sixty bodies that take 20 MiB each once they are parsed, which is 1.1 GiB, for a tool that does not answer."""
    program = Path(__file__).with_name("hoarder.py")
    told = json.loads(subprocess.run([sys.executable, program], capture_output=True, check=True).stdout)
    assert set(told["refused"]) == {503}
    assert 5 <= 60 - len(told["refused"]) <= 20
    assert told["held"] <= MAX_BODIES
    assert told["grown"] < MAX_BODIES + 32 * 2**20


@req("HTTP-31", "SEC-6", everywhere=True)
@pytest.mark.parametrize("others", [0, 2])
@pytest.mark.parametrize(
    "text", [b"some more words, ", rb"a line of\n", b"iVBORw0K"], ids=["prose", "lines", "base64"]
)
def test_no_text_is_refused_for_the_haste_of_weighing_it(text: bytes, others: int) -> None:
    """The fast estimate is too high: for prose, and for lines and base64. It is used only while there is room for that."""
    body = b'"' + text * 60_000 + b'"'
    exact = parsed_weight(body)
    assert len(body) < exact < len(body) + 1000
    budget = BodyBudget(others * 2**20 + len(body) + 1000)
    assert budget.take(others * 2**20)
    assert budget.refusal(BodyShare(budget, body)) is None
    assert exact < BodyShare(BodyBudget(MAX_BODIES), body).weight < body_budget.LOOSE * exact + 1000


@req("SEC-6", "HTTP-31", everywhere=True)
def test_a_budget_can_be_used_up_to_the_last_byte() -> None:
    budget = BodyBudget(1000)
    assert budget.take(1000)
    assert not budget.take(1)
    assert budget.held == 1000
    body = b'"' + b"x" * 300 + b'"'
    share = BodyShare(BodyBudget(MAX_BODIES), body)
    full = BodyBudget(share.weight)
    assert full.refusal(BodyShare(full, body)) is None
    assert full.refusal(BodyShare(full, b"")) is not None


@req("SEC-6", "HTTP-31", everywhere=True)
@pytest.mark.parametrize("length", ["11", "9" * 18, "9" * 19, "9" * 100_000, "0" * 19])
def test_a_length_of_any_number_of_digits_is_judged(length: str) -> None:
    headers = Headers({b"content-length": length.encode()})
    assert declares_too_much(headers, 10)
    assert not declares_too_much(Headers({b"content-length": b"10"}), 10)


@req("SEC-6", everywhere=True)
def test_shares_add_up_and_come_back() -> None:
    budget = BodyBudget(1000)
    shares = [BodyShare(budget, b'"' + b"x" * 300 + b'"') for _ in range(2)]
    assert budget.refusal(shares[1]) is None
    shares.append(BodyShare(budget, b'"' + b"x" * 300 + b'"'))
    found = budget.refusal(shares[2])
    assert found is not None
    assert found.status == 503
    assert budget.held == sum(share.weight for share in shares)
    for share in shares:
        share.hold()
        share.release()
        held = budget.held
        share.release()
        assert budget.held == held - share.weight
    assert budget.held == 0
    heavy = BodyShare(budget, b"[" * 50)
    found = budget.refusal(heavy)
    assert found is not None
    assert found.status == 413
    assert 64 * 2**20 < BodyShare(BodyBudget(MAX_BODIES), b"[" + b"[]," * 10**6 + b"[]]").weight < MAX_BODIES
