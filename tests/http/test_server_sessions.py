"""The server over HTTP in the handshake era: sessions, and what is sent in them (HTTP-*, BATCH-*, NEG-10, NEG-11, AMB-*)."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Any

import pytest

from helpers.asgi_bridge import Client, initialize, notification, request
from helpers.requirements import NAMES, B, C, D, E, req
from helpers.running import until
from helpers.served import QUICK, Served, who, work
from mcprev.errors import INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, PARSE_ERROR
from mcprev.revisions import Revision, revision_named
from mcprev.transports.http.server.asgi import AsgiApp

Make = Callable[..., AsgiApp]
SESSIONS = NAMES[:4]
LATER = [revision_named(name) for name in (B, C, D)]
"""Those that have sessions over one endpoint."""
UNANSWERED: list[tuple[list[dict[str, Any]], int]] = [
    ([notification("notifications/x")], 202),
    ([{"jsonrpc": "2.0", "id": 1, "result": {}}, {"jsonrpc": "2.0", "id": 2, "result": {}}], 202),
    ([], 400),
]
ANY: dict[str, Any] = {"protocolVersion": D, "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}


def later(test: Any) -> Any:
    """Run a test at the revisions that have sessions over one endpoint."""
    return pytest.mark.parametrize("row", LATER, ids=[row.name for row in LATER])(test)


@req("HTTP-1", "HTTP-19", "HTTP-7", "SEC-4")
@later
def test_initialize_opens_a_session_with_an_id_that_nobody_guesses(row: Revision) -> None:
    async def test(handler: Served, make: Make) -> None:
        app = make()
        ids: set[str] = set()
        for _ in range(20):
            client = await Client(app).open(row)
            ids.add(client.session["mcp-session-id"])
            answer = await client.call("who").done()
            assert answer.status == 200
            assert answer.text.startswith(f"['{row.name}', 'tester'")
        assert len(ids) == 20
        assert all(re.fullmatch(r"[\x21-\x7e]{20,}", id_) for id_ in ids)
        assert len(app.dispatcher.sessions) == 20

    work(test)


@req("HTTP-21", "HTTP-22", "HTTP-27")
@later
def test_a_request_without_a_session_leaves_nothing_and_an_unknown_one_is_not_found(row: Revision) -> None:
    async def test(handler: Served, make: Make) -> None:
        app = make()
        client = Client(app)
        version = {"mcp-protocol-version": row.version} if row.version_header else {}
        for verb in ("POST", "GET", "DELETE"):
            body = request("tools/list") if verb == "POST" else None
            missing = await client.send(verb, body, version).done()
            assert (missing.status, missing.json["error"]["code"]) == (400, INVALID_REQUEST)
            unknown = await client.send(verb, body, {**version, "mcp-session-id": "gone"}).done()
            assert (unknown.status, unknown.json["error"]["code"]) == (404, INVALID_REQUEST)
        assert missing.json.get("id", "left out") == (None if row.null_id_in_errors else "left out")
        assert len(app.dispatcher.sessions) == 0

    work(test)


@req("HTTP-24", "HTTP-22", "HTTP-27")
@later
def test_delete_ends_a_session_and_what_runs_in_it(row: Revision) -> None:
    async def test(handler: Served, make: Make) -> None:
        app = make()
        client = await Client(app).open(row)
        other = await Client(app).open(row)
        running = client.call("quiet")
        listening = client.send("GET")
        theirs = other.call("quiet")
        await until(lambda: handler.running == 2)
        ended = await client.send("DELETE").done()
        assert (ended.status, ended.body) == (204, b"")
        assert (await running.done()).error["code"] == -32800
        await listening.done()
        for verb, body in (("POST", request("ping")), ("GET", None), ("DELETE", None)):
            assert (await client.send(verb, body).done()).status == 404
        await until(lambda: handler.running == 1)
        handler.gate.set()
        assert (await theirs.done()).text == "quiet"

    work(test)


@req("HTTP-6", "HTTP-5", "CANC-3")
@later
def test_notifications_and_responses_are_accepted_without_a_body(row: Revision) -> None:
    async def test(handler: Served, make: Make) -> None:
        client = await Client(make()).open(row)
        messages: list[dict[str, Any]] = [
            notification("notifications/cancelled", {"requestId": 77}),
            notification("notifications/unknown"),
            {"jsonrpc": "2.0", "id": 99, "result": {}},
            {"jsonrpc": "2.0", "id": 99, "error": {"code": 1, "message": "x"}},
        ]
        for message in messages:
            answer = await client.post(message).done()
            assert (answer.status, answer.body) == (202, b"")

    work(test)


@req("HTTP-7", "HTTP-8", "ERR-8", "ERR-1", "BASE-5")
@later
@pytest.mark.parametrize(("option", "kind"), [(None, "json"), (True, "json"), (False, "stream")])
def test_requests_are_answered_with_json_or_a_stream_that_ends(
    option: bool | None, kind: str, row: Revision
) -> None:
    async def test(handler: Served, make: Make) -> None:
        client = await Client(make(json_response=option)).open(row)
        cases: list[tuple[object, str, Any, Any]] = [
            (1, "ping", None, {"result": {}}),
            ("1", "tools/call", {"name": "echo", "arguments": {}}, "result"),
            (2, "tools/call", {"name": "error"}, -31000),
            (3, "tools/call", {"name": "crash"}, "failed"),
            (4, "no/such", None, METHOD_NOT_FOUND),
            (5, "tools/call", {"arguments": {}}, INVALID_PARAMS),
            (6, "initialize", ANY, INVALID_REQUEST),
        ]
        for id_, method, params, expected in cases:
            answer = await client.request(method, params, id_).done()
            assert answer.status == 200
            assert (
                answer.headers["content-type"]
                == {"json": "application/json", "stream": "text/event-stream"}[kind]
            )
            (message,) = answer.answers
            assert message["id"] == id_
            if isinstance(expected, int):
                assert message["error"]["code"] == expected
                assert "secret" not in str(message)
            elif isinstance(expected, dict):
                assert message["result"] == expected["result"]
            else:
                assert message["result"].get("isError", False) is (expected == "failed")
                assert "secret" not in str(message)

    work(test)


@req("HTTP-4", "HTTP-7")
@later
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"accept": "*/*"}, 200),
        ({"accept": "application/*, text/*;q=0.5"}, 200),
        ({"accept": "application/json"}, 406),
        ({"accept": "text/event-stream"}, 406),
        ({"accept": "application/json, text/event-stream;q=0"}, 406),
        ({"accept": None}, 406),
        ({"content-type": "application/json; charset=utf-8"}, 200),
        ({"content-type": "text/plain"}, 415),
        ({"content-type": "application/json; charset=utf-16"}, 415),
        ({"content-type": None}, 415),
    ],
)
def test_both_formats_are_accepted_and_bodies_are_json(
    headers: dict[str, str | None], status: int, row: Revision
) -> None:
    async def test(handler: Served, make: Make) -> None:
        client = await Client(make()).open(row)
        answer = await client.post(request("ping", None, 8), headers).done()
        assert answer.status == status
        assert answer.json["id"] == 8
        if status != 200:
            assert answer.json["error"]["code"] == INVALID_REQUEST

    work(test)


@req("HTTP-4", "HTTP-32")
@later
def test_a_server_of_json_alone_wants_no_more_from_its_clients(row: Revision) -> None:
    async def test(handler: Served, make: Make) -> None:
        client = await Client(make(json_response=True)).open(row)
        answer = await client.post(request("ping"), {"accept": "application/json"}).done()
        assert answer.status == 200

    work(test)


@req("HTTP-26", "NEG-10", "AMB-5", "HTTP-25")
@later
@pytest.mark.parametrize("named", [None, *SESSIONS, "1999-01-01", "x", E])
def test_a_version_header_is_that_of_the_session_or_absent(named: str | None, row: Revision) -> None:
    async def test(handler: Served, make: Make) -> None:
        client = await Client(make()).open(row)
        for verb, body in (("POST", request("ping", None, 1)), ("POST", notification("notifications/x"))):
            answer = await client.send(verb, body, {"mcp-protocol-version": named}).done()
            # What names a version without sessions is not of this one, and its notifications concern nobody.
            good = named in {None, row.version} or ("id" not in body and named == E)
            assert (answer.status < 300) is good, answer.body
            if not good:
                assert answer.status == 400
        listening = await client.send("GET", None, {"mcp-protocol-version": named}).begun()
        assert listening.status == (200 if named in {None, row.version} else 405 if named == E else 400)
        listening.disconnect()
        await listening.done()

    work(test)


@req("NEG-11")
@later
@pytest.mark.parametrize("header", [*SESSIONS, E, "1999-01-01"])
def test_the_body_of_initialize_decides_and_no_header(header: str, row: Revision) -> None:
    async def test(handler: Served, make: Make) -> None:
        opened = await Client(make()).post(initialize(row), {"mcp-protocol-version": header}).done()
        assert (opened.status, opened.result["protocolVersion"]) == (200, row.version)

    work(test)


@req("HTTP-27", "LIFE-3")
@later
@pytest.mark.parametrize(
    ("params", "code"),
    [({}, INVALID_PARAMS), (None, INVALID_PARAMS), ({"protocolVersion": 1}, INVALID_PARAMS)],
)
def test_a_failed_initialize_leaves_nothing(params: Any, code: int, row: Revision) -> None:
    async def test(handler: Served, make: Make) -> None:
        app = make()
        answer = await Client(app).post(request("initialize", params)).done()
        assert (answer.status, answer.error["code"]) == (200, code)
        assert "mcp-session-id" not in answer.headers
        assert len(app.dispatcher.sessions) == 0

    work(test)


@req("BASE-10", "BASE-7", "BASE-2", "HTTP-6")
@later
@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", PARSE_ERROR),
        (b"{", PARSE_ERROR),
        (b"null", INVALID_REQUEST),
        (b'{"jsonrpc":"2.0"}', INVALID_REQUEST),
        (b'{"jsonrpc":"2.0","id":1.5,"method":"x"}', INVALID_REQUEST),
        (b'{"jsonrpc":"2.0","method":"x","params":1}', INVALID_REQUEST),
    ],
)
def test_what_is_no_message_is_refused_with_400(body: bytes, code: int, row: Revision) -> None:
    async def test(handler: Served, make: Make) -> None:
        client = await Client(make()).open(row)
        answer = await client.send("POST", body).done()
        assert (answer.status, answer.json["error"]["code"]) == (400, code)
        assert answer.json.get("id", "left out") == (None if row.null_id_in_errors else "left out")
        assert (await client.request("ping").done()).status == 200

    work(test)


# -- cancelling ------------------------------------------------------------------------------------------


@req("AMB-10", "CONV-40", "CANC-2", "HTTP-9")
@later
@pytest.mark.parametrize("tool", ["quiet", "hold", "stubborn"])
def test_a_cancelled_request_still_ends_its_exchange(tool: str, row: Revision) -> None:
    async def test(handler: Served, make: Make) -> None:
        client = await Client(make()).open(row)
        running = client.call(tool, id_=4)
        await until(lambda: handler.running == 1 or handler.started.is_set())
        await client.post(notification("notifications/cancelled", {"requestId": 4})).done()
        await running.done()
        if tool == "hold":  # a stream by now
            assert [message["method"] for message in running.messages] == ["notifications/message"]
        else:
            assert (running.status, running.error["code"]) == (200, -32800)
            assert running.json["id"] == 4
        assert handler.running == 0
        assert (await client.request("ping", None, 4).done()).result == {}

    work(test)


@req("HTTP-9")
@later
def test_a_broken_connection_cancels_nothing(row: Revision) -> None:
    async def test(handler: Served, make: Make) -> None:
        client = await Client(make(defer=QUICK)).open(row)
        running = [client.call("hold", {"n": n}, n) for n in range(3)]
        await until(lambda: handler.running == 3)
        for response_stream in running:
            response_stream.disconnect()
        session = client.app.dispatcher.sessions.find(client.session["mcp-session-id"].encode(), None)
        assert session is not None
        origins = [incoming.origin for incoming in session.protocol.connection.incoming.values()]
        await until(lambda: all(getattr(origin, "ended") for origin in origins))  # noqa: B009
        assert handler.running == 3
        assert len(session.protocol.connection.incoming) == 3
        handler.gate.set()
        for response_stream in running:
            await response_stream.done()
        assert handler.running == 0

    work(test)


@req("BASE-3", "HTTP-13")
@later
def test_two_clients_with_one_session_id_do_not_disturb_each_other(row: Revision) -> None:
    async def test(handler: Served, make: Make) -> None:
        client = await Client(make()).open(row)
        first, second = client.call("hold", {"n": 1}, 1), client.call("hold", {"n": 2}, 1)
        assert (await second.done()).error["code"] == INVALID_REQUEST
        third = client.call("hold", {"n": 3}, 3)
        await until(lambda: handler.running == 2)
        handler.gate.set()
        assert ((await first.done()).text, (await third.done()).text) == ("{'n': 1}", "{'n': 3}")

    work(test)


@req("PING-1")
@later
def test_ping_is_answered_while_handlers_run_and_before_initialized(row: Revision) -> None:
    async def test(handler: Served, make: Make) -> None:
        client = Client(make())
        client.revision = row
        opened = await client.post(initialize(row)).done()
        client.session["mcp-session-id"] = opened.headers["mcp-session-id"]
        assert (await client.request("ping").done()).result == {}
        running = client.call("quiet")
        await until(lambda: handler.running == 1)
        assert (await client.request("ping", None, "p").done()).result == {}
        handler.gate.set()
        await running.done()

    work(test)


# -- batches ---------------------------------------------------------------------------------------------


@req("BATCH-1", "BATCH-4", "BATCH-5", "BATCH-7", "HTTP-5", at=B)
@pytest.mark.parametrize("option", [None, True, False])
def test_an_array_is_answered_by_an_array_or_an_event_each(option: bool | None) -> None:
    async def test(handler: Served, make: Make) -> None:
        client = await Client(make(json_response=option)).open(revision_named(B))
        batch = [
            request("ping", None, 1),
            notification("notifications/x"),
            {"jsonrpc": "2.0", "id": 9, "method": 1},
            17,
            request("tools/call", {"name": "echo", "arguments": {"a": 1}}, "two"),
            request("initialize", ANY, 3),
        ]
        answer = await client.post(batch).done()
        assert answer.status == 200
        found = {str(message["id"]): message for message in answer.answers}
        assert len(answer.answers) == 5
        assert found["1"]["result"] == {}
        assert found["two"]["result"]["content"][0]["text"] == "{'a': 1}"
        assert found["3"]["error"]["code"] == INVALID_REQUEST
        assert found["9"]["error"]["code"] == found["None"]["error"]["code"] == INVALID_REQUEST
        if option is not False:
            assert isinstance(answer.json, list)

    work(test)


@req("BATCH-4", "BATCH-7", "CANC-2", at=B)
def test_a_slow_member_delays_no_other_and_can_be_cancelled_alone() -> None:
    async def test(handler: Served, make: Make) -> None:
        client = await Client(make(defer=QUICK)).open(revision_named(B))
        batch = [
            request("tools/call", {"name": "quiet"}, 1),
            request("tools/call", {"name": "quiet"}, 2),
            request("ping", None, 3),
        ]
        running = client.post(batch)
        assert [message["id"] for message in await running.heard(1)] == [3]
        await client.post([notification("notifications/cancelled", {"requestId": 1})]).done()
        handler.gate.set()
        await running.done()
        assert [message["id"] for message in running.messages] == [3, 2]

    work(test)


@req("BATCH-4", "BATCH-5", "BATCH-1", at=B)
@pytest.mark.parametrize(("body", "status"), UNANSWERED)
def test_an_array_that_wants_no_answer_gets_none(body: list[Any], status: int) -> None:
    async def test(handler: Served, make: Make) -> None:
        client = await Client(make()).open(revision_named(B))
        answer = await client.post(body).done()
        assert answer.status == status
        if status == 400:
            assert answer.json == {"jsonrpc": "2.0", "id": None, "error": answer.json["error"]}

    work(test)


@req("BATCH-3", "BATCH-6", "AMB-16", at=B)
def test_no_array_opens_a_session() -> None:
    async def test(handler: Served, make: Make) -> None:
        app = make()
        answer = await Client(app).post([initialize(revision_named(B))]).done()
        assert (answer.status, answer.json["error"]["code"]) == (400, INVALID_REQUEST)
        assert len(app.dispatcher.sessions) == 0

    work(test)


@req("BATCH-6")
@pytest.mark.parametrize("row", [revision_named(C), revision_named(D)], ids=[C, D])
def test_elsewhere_an_array_is_no_message(row: Revision) -> None:
    async def test(handler: Served, make: Make) -> None:
        client = await Client(make()).open(row)
        answer = await client.post([request("ping")]).done()
        assert (answer.status, answer.json["error"]["code"]) == (400, INVALID_REQUEST)

    work(test)


# -- who and how long ------------------------------------------------------------------------------------


@req("HTTP-28", "SEC-4")
@later
def test_a_session_is_found_by_who_opened_it_only(row: Revision) -> None:
    async def test(handler: Served, make: Make) -> None:
        app = make(principal=who)
        client = Client(app)
        client.session["who"] = "alice"
        await client.open(row)
        assert (await client.call("whose").done()).text == "alice"
        for other in ("bob", None):
            for verb, body in (("POST", request("ping")), ("GET", None), ("DELETE", None)):
                assert (await client.send(verb, body, {"who": other}).done()).status == 404
        assert (await client.request("ping").done()).status == 200

    work(test)


@req("HTTP-27")
@later
def test_idle_sessions_end_and_busy_ones_do_not(row: Revision) -> None:
    async def test(handler: Served, make: Make) -> None:
        now = [0.0]
        app = make(clock=lambda: now[0], idle=100.0, defer=QUICK)
        idle, listens, runs, recent = [await Client(app).open(row) for _ in range(4)]
        stream = await listens.send("GET").begun()
        running = runs.call("quiet")
        await until(lambda: handler.running == 1)
        now[0] = 60.0
        await recent.request("ping").done()
        now[0] = 120.0
        sessions = app.dispatcher.sessions
        assert sessions.expire() == pytest.approx(40.0)
        assert len(sessions) == 3
        assert (await idle.request("ping").done()).status == 404
        # From the end of what kept them busy they are idle.
        stream.disconnect()
        await stream.done()
        handler.gate.set()
        await running.done()
        now[0] = 190.0
        sessions.expire()
        assert len(sessions) == 2
        now[0] = 221.0
        assert sessions.expire() is None
        assert len(sessions) == 0

    work(test)


@req("HTTP-27", "HTTP-9")
@later
def test_a_handler_that_nobody_waits_for_keeps_no_session_alive(row: Revision) -> None:
    async def test(handler: Served, make: Make) -> None:
        now = [0.0]
        app = make(clock=lambda: now[0], idle=100.0, defer=QUICK)
        client = await Client(app).open(row)
        running = client.call("hold")
        await running.heard(1)
        now[0] = 90.0
        running.disconnect()
        await until(lambda: app.dispatcher.sessions.expire() is not None and running.gone)
        session = app.dispatcher.sessions.find(client.session["mcp-session-id"].encode(), None)
        assert session is not None
        await until(lambda: not session.response_streams)
        now[0] = 189.0
        app.dispatcher.sessions.expire()
        assert (len(app.dispatcher.sessions), handler.running) == (1, 1)
        now[0] = 191.0
        app.dispatcher.sessions.expire()
        await running.done()
        assert (len(app.dispatcher.sessions), handler.running) == (0, 0)

    work(test)


@req("HTTP-27")
@later
def test_idle_sessions_end_by_themselves(row: Revision) -> None:
    async def test(handler: Served, make: Make) -> None:
        app = make(idle=5 * QUICK)
        await Client(app).open(row)
        sessions = app.dispatcher.sessions
        await until(lambda: not len(sessions))

    work(test)


@req("HTTP-27", "SEC-6")
@later
def test_there_are_no_more_sessions_than_allowed(row: Revision) -> None:
    async def test(handler: Served, make: Make) -> None:
        now = [0.0]
        app = make(clock=lambda: now[0], idle=10.0, max_sessions=2)
        first = await Client(app).open(row)
        second = await Client(app).open(row)
        streams = [await client.send("GET").begun() for client in (first, second)]
        refused = await Client(app).post(initialize(row, "i")).done()
        assert (refused.status, refused.json["id"], refused.json["error"]["code"]) == (
            503,
            "i",
            INTERNAL_ERROR,
        )
        assert refused.headers["retry-after"] == "10"
        assert (await first.request("ping").done()).status == 200
        await first.send("DELETE").done()
        await Client(app).open(row)
        streams[1].disconnect()
        await streams[1].done()
        now[0] = 11.0
        await Client(app).open(row)

    work(test)


@req("SEC-6")
@pytest.mark.parametrize("row", [revision_named(name) for name in (B, C, D)], ids=[B, C, D])
def test_a_session_serves_no_more_requests_at_a_time_than_allowed(row: Revision) -> None:
    async def test(handler: Served, make: Make) -> None:
        client = await Client(make()).open(row)
        running = [client.call("quiet", id_=n) for n in range(3)]
        await until(lambda: handler.running == 2)
        codes = [
            e.error["code"] for e in [await r.done() for r in running if r.task.done() or r is running[-1]]
        ]
        assert codes == [INTERNAL_ERROR]
        assert (await client.request("ping", None, 9).done()).result == {}
        handler.gate.set()
        await asyncio.gather(*(response_stream.task for response_stream in running))

    work(test, max_handlers=2)


# -- without sessions ------------------------------------------------------------------------------------


@req("HTTP-19", "HTTP-26", "NEG-10")
@later
def test_without_sessions_each_request_is_served_by_itself(row: Revision) -> None:
    async def test(handler: Served, make: Make) -> None:
        app = make(sessions=False)
        client = await Client(app).open(row)
        assert client.session.keys() <= {"mcp-protocol-version"}
        answer = await client.call("who").done()
        assert answer.text.startswith(f"['{row.name}', None, []")
        assert (await client.request("ping").done()).result == {}
        assert (await client.call("tries").done()).text == "MissingClientCapability"
        assert (await client.call("log").done()).messages[0]["params"]["level"] == "error"
        for verb in ("GET", "DELETE"):
            assert (await client.send(verb).done()).status == 405
        assert len(app.dispatcher.sessions) == 0
        running = [client.call("quiet", id_=1) for _ in range(3)]  # the same id, in nobody's way
        await until(lambda: handler.running == 3)
        handler.gate.set()
        for response_stream in running:
            assert (await response_stream.done()).text == "quiet"

    work(test)


@req("SEAM-3", "SUB-1", "LIFE-11")
@later
@pytest.mark.parametrize(
    ("options", "notifies"),
    [
        ({}, True),
        ({"json_response": True}, True),
        ({"sessions": False}, False),
        ({"get_stream": False}, False),
    ],
    ids=str,
)
def test_what_cannot_be_told_is_not_declared(row: Revision, options: dict[str, Any], notifies: bool) -> None:
    async def test(handler: Served, make: Make) -> None:
        app = make(**options)
        declared = (await Client(app).post(initialize(row)).done()).result["capabilities"]
        assert {"tools", "resources", "prompts"} <= declared.keys()
        assert ("'listChanged': True" in str(declared)) is notifies
        assert declared["resources"].get("subscribe", False) is notifies
        client = await Client(app).open(row)
        answer = await client.request("resources/subscribe", {"uri": "a:1"}).done()
        assert ("result" in answer.json) is notifies
        assert notifies or answer.error["code"] == METHOD_NOT_FOUND

    work(test)


@req("HTTP-26", "NEG-10", "AMB-15", at=(B, C, D))
def test_without_a_session_and_a_version_the_second_revision_is_meant() -> None:
    async def test(handler: Served, make: Make) -> None:
        client = Client(make(sessions=False))
        answer = await client.post(request("tools/call", {"name": "who"})).done()
        assert answer.text.startswith(f"['{B}'")
        answer = await client.post([request("ping", None, 1)]).done()
        assert answer.json == [{"jsonrpc": "2.0", "id": 1, "result": {}}]
        answer = await client.post(request("ping"), {"mcp-protocol-version": "1999-01-01"}).done()
        assert answer.status == 400

    work(test)


@req("AMB-15", at=E)
def test_a_request_without_version_and_session_is_refused_unless_it_opens_one() -> None:
    async def test(handler: Served, make: Make) -> None:
        client = Client(make())
        assert (await client.post(request("tools/list")).done()).status == 400
        assert (await client.post(initialize(revision_named(D))).done()).status == 200

    work(test)
