"""NEG-6, NEG-7: what a client makes of the answers of HTTP servers, many of them recorded. No event loop here.

The answers of the official Python SDK were recorded from its releases (FastMCP and MCPServer, as they come); those of
others are made after what such servers are known to do, and are not recordings.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import pytest

from helpers.named import ROW_A, ROW_B, ROW_C, ROW_D, ROW_E
from helpers.requirements import req
from mcprev.errors import (
    HEADER_MISMATCH,
    METHOD_NOT_FOUND,
    MISSING_CLIENT_CAPABILITY,
    UNSUPPORTED_PROTOCOL_VERSION,
    RpcError,
)
from mcprev.protocol.negotiation.machine import ERA_NEUTRAL, GATEWAY, advance, depends_on_era, start
from mcprev.protocol.negotiation.steps import (
    HTTP,
    STDIO,
    Discover,
    Exited,
    Fail,
    HttpRefused,
    Initialize,
    InvalidReply,
    Method,
    Outcome,
    Plan,
    ProbeCache,
    ProbeResult,
    Ready,
    Refused,
    Respawn,
    Spawned,
    Step,
    discovered,
    initialized,
)
from mcprev.revisions import DEFAULT, Era, HttpShape, Revision
from mcprev.wire import jsonrpc
from mcprev.wire.jsonrpc import ErrorResponse, Response
from mcprev.wire.sse import ENDPOINT, Decoder

A, B, C, D, E = ROW_A, ROW_B, ROW_C, ROW_D, ROW_E
ABCD = tuple(row for row in DEFAULT if row.handshake)
BCDE = tuple(row for row in DEFAULT if row is not ROW_A)
TO_D, TO_E = Initialize(D), Discover(E)
OLD: Final = Respawn(TO_D, HttpShape.SSE)
OVER_SSE: Final = (OLD,) if A in DEFAULT else ()
"""The attempt over the transport of the first revision, for as long as that is spoken."""
FAIL: Final = "fail"


class Answer(NamedTuple):
    """What an HTTP server answered."""

    status: int
    body: str = ""
    stream: bool = False


def outcome(step: Step, answer: Answer | Outcome) -> Outcome:
    """What an answer is to a plan: the body is read first, whatever the status (ERR-7)."""
    if not isinstance(answer, Answer):
        return answer
    assert isinstance(step, Discover | Initialize | Respawn)
    body = answer.body.encode()
    events = list(Decoder().feed(body)) if answer.stream else []
    if isinstance(step, Respawn):
        opened = answer.status == 200 and any(event.event == ENDPOINT for event in events)
        return Spawned() if opened else HttpRefused(answer.status, answer.body)
    for data in [event.data for event in events] if answer.stream else [body]:
        message = jsonrpc.parse(data, batch=False)
        if isinstance(message, ErrorResponse):
            return Refused(RpcError.from_wire(message.error), answer.status)
        if isinstance(message, Response):
            read = discovered if isinstance(step, Discover) else initialized
            return read(message.result)
    if answer.status >= 400:
        return HttpRefused(answer.status, answer.body)
    return InvalidReply("no answer in it")


def follow(plan: Plan, *answers: Answer | Outcome) -> tuple[Plan, list[Step | str]]:
    """The plan after these answers, and its steps, the first included."""
    steps: list[Step | str] = [plan.step]
    for answer in answers:
        assert not isinstance(plan.step, Ready | Fail), plan.evidence
        plan = advance(plan, outcome(plan.step, answer))
        steps.append(FAIL if isinstance(plan.step, Fail) else plan.step)
    return plan, steps


def error(status: int, code: int, message: str = "no", id_: Any = "server-error", **data: Any) -> Answer:
    told: dict[str, Any] = {"code": code, "message": message}
    if data:
        told["data"] = data
    return Answer(status, json.dumps({"jsonrpc": "2.0", "id": id_, "error": told}))


def result(**members: Any) -> Answer:
    return Answer(200, json.dumps({"jsonrpc": "2.0", "id": 1, "result": members}))


def opened(row: Revision) -> Answer:
    """`initialize` answered in a stream, as most servers do."""
    message: dict[str, Any] = {
        "jsonrpc": "2.0",
        "id": 2,
        "result": {"protocolVersion": row.version, "capabilities": {}},
    }
    return Answer(200, f"event: message\r\ndata: {json.dumps(message)}\r\n\r\n", stream=True)


def speaks(*rows: Revision) -> Answer:
    return result(supportedVersions=[row.version for row in rows], capabilities={}, resultType="complete")


ENDPOINT_EVENT = Answer(
    200,
    "event: endpoint\r\ndata: /messages/?session_id=cff059b0ac304d27b4c274072bbcee2a\r\n\r\n",
    stream=True,
)
MISSING_ID = error(400, -32600, "Bad Request: Missing session ID")
NOT_ALLOWED = Answer(405, "Method Not Allowed")
CANNOT_POST = Answer(404, "<!DOCTYPE html><html><body><pre>Cannot POST /sse</pre></body></html>")
NOT_FOUND = Answer(404, "Not Found")
CANNOT_GET = Answer(404, "<!DOCTYPE html><html><body><pre>Cannot GET /mcp</pre></body></html>")
UNSUPPORTED_1_10 = error(
    400, -32600,
    "Bad Request: Unsupported protocol version: 2026-07-28. Supported versions: 2024-11-05, 2025-03-26, 2025-06-18",
)  # fmt: skip
UNSUPPORTED_1_23 = error(
    400, -32600,
    "Bad Request: Unsupported protocol version: 2026-07-28. "
    "Supported versions: 2024-11-05, 2025-03-26, 2025-06-18, 2025-11-25",
)  # fmt: skip
BAD_PARAMS_1_9 = Answer(
    200,
    'event: message\r\ndata: {"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"Invalid request parameters",'
    '"data":""}}\r\n\r\n',
    stream=True,
)
EMPTY_STREAM = Answer(200, "", stream=True)
CRASH = Answer(500, "Internal Server Error")

_RECORDED: list[Any] = [
    pytest.param([MISSING_ID, opened(A)], [TO_E, TO_D, Ready(A, Method.INITIALIZE)], id="Python SDK 1.8 with sessions"),
    pytest.param([EMPTY_STREAM, CRASH], [TO_E, TO_D, FAIL], id="Python SDK 1.8 without sessions, which cannot"),
    pytest.param([MISSING_ID, opened(B)], [TO_E, TO_D, Ready(B, Method.INITIALIZE)], id="Python SDK 1.9 with sessions"),
    pytest.param(
        [BAD_PARAMS_1_9, opened(B)], [TO_E, TO_D, Ready(B, Method.INITIALIZE)], id="Python SDK 1.9 without sessions"
    ),
    pytest.param([MISSING_ID, opened(C)], [TO_E, TO_D, Ready(C, Method.INITIALIZE)], id="Python SDK 1.10 with sessions"),
    pytest.param(
        [UNSUPPORTED_1_10, opened(C)], [TO_E, TO_D, Ready(C, Method.INITIALIZE)], id="Python SDK 1.10 without sessions"
    ),
    pytest.param([MISSING_ID, opened(D)], [TO_E, TO_D, Ready(D, Method.INITIALIZE)], id="Python SDK 1.23 with sessions"),
    pytest.param(
        [UNSUPPORTED_1_23, opened(D)], [TO_E, TO_D, Ready(D, Method.INITIALIZE)], id="Python SDK 1.23 without sessions"
    ),
    pytest.param(
        [NOT_ALLOWED, NOT_ALLOWED, ENDPOINT_EVENT, opened(A)],
        [TO_E, TO_D, OLD, TO_D, Ready(A, Method.INITIALIZE)], id="Python SDK 1.8 HTTP+SSE",
    ),
    pytest.param(
        [NOT_ALLOWED, NOT_ALLOWED, ENDPOINT_EVENT, opened(D)],
        [TO_E, TO_D, OLD, TO_D, Ready(D, Method.INITIALIZE)], id="Python SDK 1.23 HTTP+SSE",
    ),
    pytest.param([speaks(E)], [TO_E, Ready(E, Method.DISCOVER)], id="Python SDK 2.3, which serves both eras"),
    pytest.param(
        [error(400, -32000, "Bad Request: Server not initialized", None), opened(C)],
        [TO_E, TO_D, Ready(C, Method.INITIALIZE)], id="TypeScript SDK 1 with sessions",
    ),
    pytest.param(
        [error(400, -32000, "Bad Request: No valid session ID provided", None), opened(B)],
        [TO_E, TO_D, Ready(B, Method.INITIALIZE)], id="an Express app around the TypeScript SDK 1",
    ),
    pytest.param(
        [error(200, METHOD_NOT_FOUND, "Method not found", 1), opened(D)],
        [TO_E, TO_D, Ready(D, Method.INITIALIZE)], id="TypeScript SDK 1 without sessions",
    ),
    pytest.param(
        [CANNOT_POST, CANNOT_POST, ENDPOINT_EVENT, opened(A)],
        [TO_E, TO_D, OLD, TO_D, Ready(A, Method.INITIALIZE)], id="an Express app with HTTP+SSE",
    ),
    pytest.param(
        [Answer(422, "Unexpected message, expect initialize request"), opened(C)],
        [TO_E, TO_D, Ready(C, Method.INITIALIZE)], id="Rust SDK",
    ),
    pytest.param(
        [Answer(400, "Bad Request"), opened(C)], [TO_E, TO_D, Ready(C, Method.INITIALIZE)], id="NEG-6 400 without JSON"
    ),
    pytest.param([Answer(400), opened(C)], [TO_E, TO_D, Ready(C, Method.INITIALIZE)], id="NEG-6 400 without a body"),
    pytest.param(
        [Answer(400, '{"detail":"x"}'), opened(C)], [TO_E, TO_D, Ready(C, Method.INITIALIZE)], id="NEG-6 400, other JSON"
    ),
    pytest.param(
        [error(404, METHOD_NOT_FOUND), opened(D)], [TO_E, TO_D, Ready(D, Method.INITIALIZE)], id="NEG-6 404, unknown method"
    ),
    pytest.param([NOT_FOUND, NOT_FOUND, CANNOT_GET], [TO_E, TO_D, OLD, FAIL], id="NEG-6 nothing at this URL"),
    pytest.param(
        [MISSING_ID, error(400, -32602, "Unsupported protocol version", 2, supported=[B.version, A.version]), opened(B)],
        [TO_E, TO_D, Initialize(B), Ready(B, Method.INITIALIZE)], id="AMB-2 a server that refuses versions, by HTTP 400",
    ),
    pytest.param(
        [InvalidReply("no answer in 10 s"), error(400, UNSUPPORTED_PROTOCOL_VERSION, supported=[E.version]), speaks(E)],
        [TO_E, TO_D, TO_E, Ready(E, Method.DISCOVER)], id="NEG-5 a slow modern server",
    ),
]  # fmt: skip
RECORDED: Final = [case for case in _RECORDED if A in DEFAULT or OLD not in case.values[1]]
"""Those that the old transport has a part in are left out where no revision has it."""


@req("NEG-6", everywhere=True)
@pytest.mark.parametrize(("answers", "steps"), RECORDED)
def test_recorded_answers(answers: Sequence[Answer | Outcome], steps: list[Step | str]) -> None:
    assert follow(start(DEFAULT, HTTP), *answers)[1] == steps


@req("NEG-6", "NEG-3", everywhere=True)
@pytest.mark.parametrize("status", [400, 404, 200, 403])
@pytest.mark.parametrize("code", [UNSUPPORTED_PROTOCOL_VERSION, HEADER_MISMATCH, MISSING_CLIENT_CAPABILITY])
def test_an_error_that_only_modern_servers_know_keeps_to_them(code: int, status: int) -> None:
    plan, steps = follow(start(DEFAULT, HTTP), error(status, code))
    assert steps == [TO_E, FAIL]
    assert isinstance(plan.step, Fail)
    expected = (
        "no common revision"
        if code == UNSUPPORTED_PROTOCOL_VERSION
        else "the server refused `server/discover`"
    )
    assert str(plan.step.error).startswith(expected)
    assert follow(start(DEFAULT, HTTP), error(status, code, supported=[D.version]))[1] == [TO_E, TO_D]


@req("NEG-6", everywhere=True)
@pytest.mark.parametrize("status", [400, 402, 404, 405, 406, 409, 410, 415, 422, 451, 499])
@pytest.mark.parametrize("body", ["", "no", '{"detail":"no"}'])
def test_any_4xx_leads_to_initialize_and_from_there_to_the_old_transport(status: int, body: str) -> None:
    answer = Answer(status, body)
    assert follow(start(DEFAULT, HTTP), answer, answer, ENDPOINT_EVENT, opened(A))[1] == [
        TO_E, TO_D, OLD, TO_D, Ready(A, Method.INITIALIZE),
    ]  # fmt: skip
    assert follow(start(ABCD, HTTP), answer, ENDPOINT_EVENT)[1] == [TO_D, OLD, TO_D]
    assert follow(start((A,), HTTP), answer, ENDPOINT_EVENT)[1] == [
        Initialize(A), Respawn(Initialize(A), HttpShape.SSE), Initialize(A),
    ]  # fmt: skip


@req("NEG-6", everywhere=True)
@pytest.mark.parametrize("status", sorted(ERA_NEUTRAL))
def test_what_says_nothing_of_the_era_ends_the_plan(status: int) -> None:
    """A login comes first, a server that is out of order later; neither makes a modern server an old one."""
    assert not depends_on_era(status)
    for answer in (Answer(status, "no"), error(status, -32600), Answer(status)):
        for allowed in (DEFAULT, (E,), ABCD):
            # A gateway may say so of an old server that hung up at the probe.
            again = [TO_D] if status in GATEWAY and allowed is DEFAULT else []
            plan, steps = follow(start(allowed, HTTP), answer, *(answer for _ in again))
            assert steps[1:] == [*again, FAIL]
            assert isinstance(plan.step, Fail)
            assert f"HTTP {status}" in str(plan.step.error)
        assert follow(start(DEFAULT, HTTP), MISSING_ID, answer)[1] == [TO_E, TO_D, FAIL]
        assert follow(start(DEFAULT, HTTP), NOT_FOUND, NOT_FOUND, *(Answer(status) for _ in OVER_SSE))[1] == [
            *(TO_E, TO_D),
            *OVER_SSE,
            FAIL,
        ]


@req("NEG-6", everywhere=True)
def test_401_and_403_are_among_them() -> None:
    assert {401, 403} <= ERA_NEUTRAL
    assert not {400, 404, 405} & ERA_NEUTRAL


@req("NEG-6", everywhere=True)
@pytest.mark.parametrize("status", [500, 501, 505])
def test_a_server_that_breaks_is_initialized_but_has_no_old_transport(status: int) -> None:
    assert follow(start(DEFAULT, HTTP), Answer(status), Answer(status))[1] == [TO_E, TO_D, FAIL]
    assert follow(start(DEFAULT, HTTP), Answer(status), opened(D))[1][-1] == Ready(D, Method.INITIALIZE)


@req("NEG-6", "NEG-13", everywhere=True)
def test_what_is_not_allowed_is_not_tried() -> None:
    assert follow(start((E,), HTTP), NOT_ALLOWED)[1] == [TO_E, FAIL]
    assert follow(start(BCDE, HTTP), NOT_ALLOWED, NOT_ALLOWED)[1] == [TO_E, TO_D, FAIL]
    assert follow(start((C, D), HTTP), NOT_ALLOWED)[1] == [TO_D, FAIL]


@req("NEG-6", everywhere=True)
def test_the_old_transport_has_one_try() -> None:
    plan, steps = follow(start(DEFAULT, HTTP), NOT_ALLOWED, NOT_ALLOWED, ENDPOINT_EVENT, NOT_FOUND)
    assert steps == [TO_E, TO_D, Respawn(TO_D, A.http), TO_D, FAIL]
    assert plan.evidence == (
        f"server/discover at {E.name}: HTTP 405 (Method Not Allowed)",
        f"initialize at {D.name}: HTTP 405 (Method Not Allowed)",
        "connected again",
        f"initialize at {D.name}: HTTP 404 (Not Found)",
    )
    plan, _ = follow(start(DEFAULT, HTTP), NOT_ALLOWED, NOT_ALLOWED, NOT_ALLOWED)
    assert plan.evidence[-1] == "GET for sse: HTTP 405 (Method Not Allowed)"


@req("NEG-6", everywhere=True)
def test_a_json_rpc_error_that_leads_nowhere_lets_its_status_decide() -> None:
    refused = error(404, -32000, "nothing here", None)
    old = Respawn(TO_D, A.http)
    assert follow(start(ABCD, HTTP), refused, ENDPOINT_EVENT)[1] == [TO_D, old, TO_D]
    assert follow(start(DEFAULT, HTTP), refused, refused, ENDPOINT_EVENT)[1] == [TO_E, TO_D, old, TO_D]
    assert follow(start(ABCD, HTTP), error(200, -32000))[1] == [TO_D, FAIL]
    assert follow(start(ABCD, HTTP), error(500, -32603))[1] == [TO_D, FAIL]


@req("NEG-6", everywhere=True)
@pytest.mark.parametrize("allowed", [DEFAULT, ABCD, (E,)])
def test_network_errors_are_no_verdict_and_start_nothing_anew(allowed: tuple[Revision, ...]) -> None:
    gone = Exited("connection refused")
    plan, steps = follow(start(allowed, HTTP), gone)
    assert steps[1:] == [FAIL]
    assert isinstance(plan.step, Fail)
    assert plan.step.last is gone
    assert "could not be reached" in str(plan.step.error)
    if allowed is DEFAULT:
        assert follow(start(allowed, STDIO), gone)[1] == [TO_E, Respawn(TO_D)]
        assert follow(start(allowed, HTTP), NOT_FOUND, gone)[1] == [TO_E, TO_D, FAIL]
        assert follow(start(allowed, HTTP), NOT_FOUND, NOT_FOUND, *(gone for _ in OVER_SSE))[1] == [
            TO_E,
            TO_D,
            *OVER_SSE,
            FAIL,
        ]


@req("LIFE-4", at=(A.name, B.name, C.name, D.name))
def test_a_gap_in_the_list_is_filled_over_the_same_transport() -> None:
    allowed = (A, D)
    plan, steps = follow(start(allowed, HTTP), NOT_ALLOWED, ENDPOINT_EVENT, opened(B))
    assert steps == [TO_D, OLD, TO_D, Respawn(Initialize(A), HttpShape.SSE)]
    assert follow(plan, ENDPOINT_EVENT, opened(A))[1][1:] == [Initialize(A), Ready(A, Method.INITIALIZE)]
    assert follow(start(allowed, HTTP), opened(B))[1] == [TO_D, Respawn(Initialize(A))]


# -- what is remembered ------------------------------------------------------------------------------------------

URL = "https://mcp.example/one"


def found(*answers: Answer) -> Plan:
    plan, _ = follow(start(DEFAULT, HTTP), *answers)
    assert isinstance(plan.step, Ready)
    return plan


MODERN_PLAN = found(speaks(E))
SESSION_PLAN = found(MISSING_ID, opened(D))
OLD_PLAN = found(NOT_ALLOWED, NOT_ALLOWED, ENDPOINT_EVENT, opened(A)) if A in DEFAULT else None


@req("NEG-7", everywhere=True)
@pytest.mark.parametrize(
    ("plan", "known"),
    [
        (MODERN_PLAN, ProbeResult(Era.STATELESS, None)),
        (SESSION_PLAN, ProbeResult(Era.HANDSHAKE, None)),
        *([(OLD_PLAN, ProbeResult(Era.HANDSHAKE, HttpShape.SSE))] if OLD_PLAN else []),
    ],
)
def test_a_verdict_is_kept_for_an_endpoint(plan: Plan, known: ProbeResult) -> None:
    verdicts = ProbeCache()
    assert verdicts.get(URL) is None
    verdicts.keep(URL, plan)
    for same in (URL, "https://MCP.example:443/one", "https://mcp.example/one?key=1#x"):
        assert verdicts.get(same) == known
    for other in (
        "http://mcp.example/one",
        "https://mcp.example:444/one",
        "https://mcp.example/two",
        "https://x/one",
    ):
        assert verdicts.get(other) is None


@req("NEG-7", everywhere=True)
def test_a_failure_is_no_verdict() -> None:
    verdicts = ProbeCache()
    verdicts.keep(URL, SESSION_PLAN)
    verdicts.keep(URL, follow(start(DEFAULT, HTTP), Answer(401))[0])
    assert verdicts.get(URL) is None


@req("NEG-7", "SEC-6", everywhere=True)
def test_no_more_than_so_many_are_kept() -> None:
    verdicts = ProbeCache(limit=3)
    for number in range(5):
        verdicts.keep(f"https://x/{number}", SESSION_PLAN)
    verdicts.keep("https://x/2", MODERN_PLAN)
    verdicts.keep("https://x/5", MODERN_PLAN)
    assert [number for number in range(6) if verdicts.get(f"https://x/{number}")] == [2, 4, 5]


def known_old(allowed: tuple[Revision, ...] = DEFAULT) -> Plan:
    return start(allowed, HTTP, era=Era.HANDSHAKE, shape=HttpShape.SSE)


@req("NEG-7", everywhere=True)
def test_what_is_known_saves_asking() -> None:
    assert start(DEFAULT, HTTP, era=Era.HANDSHAKE).step == TO_D
    plan = known_old()
    assert (plan.step, plan.shape) == (TO_D, HttpShape.SSE)
    assert "sse" in plan.evidence[0]
    assert follow(plan, opened(A))[1] == [TO_D, Ready(A, Method.INITIALIZE)]


@req("NEG-7", everywhere=True)
def test_what_is_known_but_not_allowed_is_disregarded() -> None:
    for allowed in (BCDE, (D, E)):
        plan = known_old(allowed)
        assert (plan.step, plan.shape) == (TO_D, None)
    assert start((E,), HTTP, era=Era.HANDSHAKE, shape=HttpShape.SSE).step == TO_E
    assert start(DEFAULT, HTTP, era=Era.STATELESS, shape=HttpShape.SSE).shape is None


_OLD_TRANSPORT: list[Any] = [
    pytest.param(known_old(), [NOT_FOUND, Spawned(), speaks(E)],
                 [TO_D, Respawn(TO_E), TO_E, Ready(E, Method.DISCOVER)], id="old transport gone, modern now"),
    pytest.param(known_old(), [NOT_FOUND, Spawned(), MISSING_ID, opened(D)],
                 [TO_D, Respawn(TO_E), TO_E, TO_D, Ready(D, Method.INITIALIZE)], id="old transport gone, sessions now"),
    pytest.param(known_old(), [NOT_FOUND, Spawned(), NOT_FOUND, NOT_FOUND, NOT_FOUND],
                 [TO_D, Respawn(TO_E), TO_E, TO_D, OLD, FAIL], id="everything gone"),
    pytest.param(known_old(ABCD), [NOT_FOUND, Spawned(), opened(C)],
                 [TO_D, Respawn(TO_D), TO_D, Ready(C, Method.INITIALIZE)], id="sessions only"),
    pytest.param(known_old(ABCD), [NOT_FOUND, Spawned(), NOT_FOUND, NOT_FOUND],
                 [TO_D, Respawn(TO_D), TO_D, OLD, FAIL], id="sessions only, everything gone"),
    pytest.param(known_old(ABCD), [error(404, -32000)], [TO_D, FAIL], id="an error of the old transport is its last word"),
    pytest.param(known_old(), [Answer(401)], [TO_D, FAIL], id="a login is no contradiction"),
    pytest.param(known_old(), [error(200, UNSUPPORTED_PROTOCOL_VERSION, supported=[E.version]), Spawned(), speaks(E)],
                 [TO_D, Respawn(TO_E), TO_E, Ready(E, Method.DISCOVER)], id="an error that names a modern version"),
    pytest.param(start(DEFAULT, HTTP, era=Era.HANDSHAKE), [NOT_FOUND, NOT_FOUND, Spawned(), speaks(E)],
                 [TO_D, OLD, Respawn(TO_E), TO_E, Ready(E, Method.DISCOVER)], id="sessions gone, modern now"),
    pytest.param(start(DEFAULT, HTTP, era=Era.HANDSHAKE), [NOT_FOUND, NOT_FOUND, Spawned(), NOT_FOUND, NOT_FOUND],
                 [TO_D, OLD, Respawn(TO_E), TO_E, TO_D, FAIL], id="sessions gone, and asked for once more"),
]  # fmt: skip
"""What becomes of a verdict while the transport of the first revision is spoken."""


@req("NEG-7", everywhere=True)
@pytest.mark.parametrize(
    ("plan", "answers", "steps"),
    [
        *(_OLD_TRANSPORT if A in DEFAULT else ()),
        pytest.param(start(BCDE, HTTP, era=Era.HANDSHAKE), [NOT_FOUND, speaks(E)],
                     [TO_D, TO_E, Ready(E, Method.DISCOVER)], id="sessions gone, no old transport allowed"),
    ],
)  # fmt: skip
def test_a_verdict_that_is_contradicted(
    plan: Plan, answers: list[Answer | Outcome], steps: list[Step | str]
) -> None:
    assert follow(plan, *answers)[1] == steps
