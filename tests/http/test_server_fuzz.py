"""The server over HTTP against arbitrary requests in arbitrary orders (SEC-6, ERR-1, ERR-6, HTTP-12, HTTP-27, HTTP-28).

Each example is a script: some clients, some of them with sessions of their own, send what is drawn (valid messages,
broken ones, bytes; right headers and wrong ones), in parts, hang up, stop reading, come back. Whatever it is, the app
raises nothing, every answer is one that HTTP and JSON-RPC allow, nobody hears what is another's, and in the end
nothing is left.
"""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, Phase, given, settings, strategies as st

import mcprev
from api.authors import text
from fuzz.fuzzing import sampled
from helpers.asgi_bridge import INFO, PREFIX, SCOPE, Client, Exchange
from helpers.requirements import B, C, D, E, req
from helpers.running import run, timers_of, until
from helpers.served import Served, server_of, who
from mcprev.revisions import Revision, revision_named
from mcprev.transports.http.server.asgi import AsgiApp
from mcprev.transports.http.server.response_stream import ResponseStream

ROWS: Final = [revision_named(name) for name in (B, C, D, E)]
STATUSES: Final = frozenset({200, 202, 204, 400, 403, 404, 405, 406, 408, 413, 415, 429, 431, 503})
"""What the server may answer: a 500 is an accident."""
MAX_BODY: Final = 3_000
MAX_HEADERS: Final = 2_000
QUICK: Final = 0.002
STALL: Final = 0.05
SSE: Final = "text/event-stream"

# -- what is sent ----------------------------------------------------------------------------------------

IDS: Final = st.one_of(
    st.integers(-2, 3),
    st.sampled_from(["", "1", "x", "\ud800", "é" * 50]),
    st.sampled_from([1.0, 2.5, 10**30]),
)
BAD: Final[st.SearchStrategy[Any]] = st.sampled_from(
    [None, True, 0, -1, 1e300, "", "x", "\ud800", [], {}, [[]], {"": None}, [1, "2", {}], "2.0", 2**70]
)
CAPABILITIES: Final[list[dict[str, Any]]] = [{}, {"roots": {}}, {"sampling": {}, "elicitation": {}}]
ARGUMENTS: Final[list[dict[str, Any]]] = [{}, {"region": "a", "size": 3}, {"x": "\ud800"}, {"deep": [[[{}]]]}]
TOOLS: Final = (
    "echo",
    "log",
    "progress",
    "who",
    "whose",
    "quiet",
    "hold",
    "tries",
    "region",
    "nothing",
    "fail",
)
METHODS: Final = (
    "initialize", "ping", "tools/list", "tools/call", "resources/list", "resources/read", "resources/subscribe",
    "prompts/get", "logging/setLevel", "completion/complete", "server/discover", "subscriptions/listen",
    "tasks/get", "roots/list", "no/such", "", "rpc.x",
)  # fmt: skip
NOTES: Final = (
    "notifications/initialized", "notifications/cancelled", "notifications/progress",
    "notifications/roots/list_changed", "notifications/x",
)  # fmt: skip


@st.composite
def params(draw: st.DrawFn, method: str, row: Revision) -> Any:
    """Params that fit the method and the revision, mostly."""
    found: dict[str, Any] = {}
    if method == "initialize":
        found = {
            "protocolVersion": draw(st.sampled_from([row.version, "x"])),
            "capabilities": {},
            "clientInfo": INFO,
        }
        found["capabilities"] = draw(st.sampled_from(CAPABILITIES))
    elif method == "tools/call":
        arguments = draw(st.sampled_from(ARGUMENTS))
        found = {"name": draw(st.sampled_from(TOOLS)), "arguments": arguments}
    elif method.startswith("resources/"):
        found = {"uri": draw(st.sampled_from(["file:///x", "x", ""]))}
    elif method == "prompts/get":
        found = {"name": "x"}
    elif method == "logging/setLevel":
        found = {"level": draw(st.sampled_from(["debug", "x"]))}
    elif method == "subscriptions/listen":
        found = {"notifications": {"toolsListChanged": True, "resourceSubscriptions": ["file:///x"]}}
    elif method == "notifications/cancelled":
        found = {"requestId": draw(IDS), "reason": "no"}
    elif method == "notifications/progress":
        found = {"progressToken": draw(IDS), "progress": 1}
    meta: dict[str, Any] = {}
    if not row.handshake and draw(st.integers(0, 4)):
        meta = {
            PREFIX + "protocolVersion": row.version,
            PREFIX + "clientCapabilities": {},
            PREFIX + "logLevel": "debug",
        }
    if draw(st.booleans()):
        meta["progressToken"] = draw(IDS)
    return {**found, "_meta": meta} if meta else found


@st.composite
def messages(draw: st.DrawFn, row: Revision) -> dict[str, Any]:
    """A message of any kind, which may have been spoilt."""
    kind = draw(st.sampled_from(["request", "request", "call", "call", "note", "answer"]))
    message: dict[str, Any] = {"jsonrpc": "2.0"}
    if kind == "answer":
        message |= {
            "id": draw(IDS),
            **draw(st.sampled_from([{"result": {}}, {"error": {"code": 1, "message": ""}}])),
        }
    else:
        method = (
            "tools/call" if kind == "call" else draw(st.sampled_from(NOTES if kind == "note" else METHODS))
        )
        message |= {"method": method, "params": draw(params(method, row))}
        if kind != "note":
            message["id"] = draw(st.one_of(IDS, st.just("\ud800")))
    if draw(st.integers(0, 3)) == 0:
        message = deepcopy(message)  # what is drawn from is not to be spoilt
        place: Any = message
        while draw(st.booleans()):
            inner: list[Any] = [value for value in place.values() if isinstance(value, dict) and value]
            if not inner:
                break
            place = draw(st.sampled_from(inner))
        place[draw(st.sampled_from([*place, "extra"]))] = draw(BAD)
    return message


@st.composite
def body_budget(draw: st.DrawFn, row: Revision) -> tuple[bytes, dict[str, str]]:
    """A body, and the headers that belong to it."""
    kind = draw(st.integers(0, 11))
    if kind == 0:
        return draw(st.binary(max_size=40)), {}
    if kind == 1:
        nested = draw(
            st.sampled_from([b"[", b'{"a":', b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":'])
        )
        return nested * draw(st.sampled_from([1, 150, 250])), {}
    if kind == 2:
        return b'"%b"' % (b"x" * draw(st.sampled_from([MAX_BODY - 2, MAX_BODY - 1, 3 * MAX_BODY]))), {}
    if kind == 3:
        members = draw(st.lists(st.one_of(messages(row), messages(row), BAD), max_size=6))
        return json.dumps(members).encode(), {}
    message = draw(messages(row))
    text = json.dumps(message)
    if kind == 4:
        text = text.replace("300", "999", 1)  # a number beyond every double
    body = text.encode()
    if kind == 5:
        cut = draw(st.integers(0, len(body)))
        body = body[:cut] + draw(st.binary(max_size=3)) + body[cut + draw(st.integers(0, 3)) :]
    return body, routing(row, message)


def routing(row: Revision, message: dict[str, Any]) -> dict[str, str]:
    """The headers that repeat what the body says."""
    if row.handshake:
        return {}
    said = {"mcp-protocol-version": row.version}
    found: Any = message.get("params")
    params: dict[str, Any] = found if found.__class__ is dict else {}
    values = {"mcp-method": message.get("method"), "mcp-name": params.get("uri", params.get("name"))}
    return said | {key: value for key, value in values.items() if isinstance(value, str) and value.isascii()}


HEADER_NAMES: Final = st.sampled_from(
    [
        "accept", "content-type", "mcp-session-id", "mcp-protocol-version", "mcp-method", "mcp-name", "last-event-id",
        "mcp-param-region", "origin", "host", "content-length", "who", "x",
    ]
)  # fmt: skip
HEADER_VALUES: Final = st.one_of(
    st.sampled_from(
        [
            b"", b"application/json", b"text/event-stream", b"*/*", b'application/json;q=0, a/b;c="', B.encode(),
            D.encode(), E.encode(), b"tools/call", b"echo", b"=?base64?ZWNobw==?=", b"=?base64?!?=", b"=?base64??=",
            b"1-0", b"1-1", b"2-0", b"7-9", b"99999999999999-1", b"a\r\nb: c", b"http://localhost:1",
            b"http://evil.example", b"null", b"http://[", b"0", b"99999999999999999999999", b"-1", b"x" * 1_500,
        ]
    ),
    st.binary(max_size=20),
)  # fmt: skip


@st.composite
def scopes(draw: st.DrawFn) -> dict[str, Any]:
    """What is spoilt about the request line and the headers: mostly nothing."""
    spoilt: dict[str, Any] = {"verb": None, "path": None, "query": b"", "headers": [], "drop": []}
    if draw(st.integers(0, 7)) == 0:
        spoilt["verb"] = draw(
            st.sampled_from(["GET", "POST", "DELETE", "PUT", "OPTIONS", "HEAD", "BREW", "post"])
        )
    if draw(st.integers(0, 9)) == 0:
        spoilt["path"] = draw(
            st.one_of(
                st.sampled_from(["/mcp/", "/", "", "/sse", "/messages", "//mcp", "/mcp/../x"]),
                st.text(max_size=9),
            )
        )
        spoilt["query"] = draw(
            st.sampled_from([b"", b"sessionId=x", b"sessionId=%ff&sessionId=", b"=&;\xff"])
        )
    if draw(st.integers(0, 3)) == 0:
        spoilt["headers"] = draw(
            st.lists(st.tuples(HEADER_NAMES.map(str.encode), HEADER_VALUES, st.booleans()), max_size=3)
        )
        spoilt["drop"] = draw(st.lists(HEADER_NAMES, max_size=2))
    return spoilt


@dataclass
class Step:
    """One thing that happens."""

    kind: str
    who: int
    row: Revision = field(repr=False)
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict[str, str])
    scope: dict[str, Any] = field(default_factory=dict[str, Any])
    parts: int = 1
    number: int = 0
    turns: int = 0


@st.composite
def steps(draw: st.DrawFn, rows: list[Revision]) -> Step:
    kind = draw(
        st.sampled_from(
            ["post"] * 8 + ["get", "get", "resume", "delete", "sse", "post_sse", "post_sse", "steal"]
            + ["hang up", "hang up", "stall", "wait", "change", "open gate", "expire", "stop body", "open"]
        )
    )  # fmt: skip
    client = draw(st.integers(0, len(rows) - 1))
    step = Step(
        kind, client, rows[client], number=draw(st.integers(0, 9)), turns=draw(st.sampled_from([0, 0, 1, 5]))
    )
    if kind in ("post", "post_sse", "stop body"):
        step.body, step.headers = draw(
            body_budget(step.row if kind == "post" else draw(st.sampled_from(ROWS)))
        )
        step.parts = draw(st.sampled_from([1, 1, 1, 2, 5]))
    step.scope = draw(scopes())
    return step


@st.composite
def scripts(draw: st.DrawFn) -> tuple[dict[str, Any], list[Revision], list[Step]]:
    options = {
        "json_response": draw(st.sampled_from([None, None, True, False])),
        "sessions": draw(st.integers(0, 5)) > 0,
        "get_stream": draw(st.integers(0, 5)) > 0,
        "events": None,
    }
    if draw(st.integers(0, 3)):
        del options["events"]
    rows = draw(st.lists(st.sampled_from(ROWS), min_size=1, max_size=3))
    return options, rows, draw(st.lists(steps(rows), min_size=3, max_size=16))


# -- who sends it ----------------------------------------------------------------------------------------


class Whose(Served):
    """Whatever is said names who it is said to."""

    async def do_log(self, ctx: mcprev.Context, params: Any) -> Any:
        await ctx.log("error", f"only for {ctx.principal}.")
        return await self.do_whose(ctx, params)

    async def do_hold(self, ctx: mcprev.Context, params: Any) -> Any:
        await ctx.log("error", f"only for {ctx.principal}.")
        await self.gate.wait()
        return await self.do_whose(ctx, params)

    async def do_whose(self, ctx: mcprev.Context, params: Any) -> Any:
        return text(f"only for {ctx.principal}.")


class Play:
    """Plays one script."""

    def __init__(self, app: AsgiApp, handler: Served, rows: list[Revision], now: list[float]) -> None:
        self.app, self.handler, self.now = app, handler, now
        self.clients = [Client(app) for _ in rows]
        self.response_streams: list[tuple[int, str, bytes, bool, Exchange]] = []
        self.sse: list[tuple[int, Exchange]] = []
        self.stalled: set[Exchange] = set()

    async def play(self, rows: list[Revision], script: list[Step]) -> None:
        for number, row in enumerate(rows):
            self.clients[number].session = {"who": f"client{number}"}
            await self._open(number, row)
        for step in script:
            await self._do(step)
            for _ in range(step.turns):
                await asyncio.sleep(0)
        await self._finish()

    async def _open(self, number: int, row: Revision) -> None:
        client = self.clients[number]
        client.session = {"who": f"client{number}"}
        await client.open(row)

    async def _do(self, step: Step) -> None:
        live = [entry for entry in self.response_streams if not entry[4].task.done()]
        if step.kind in ("post", "stop body"):
            self._send(step, "POST")
        elif step.kind == "steal":
            await self._steal(step)
        elif step.kind in ("get", "resume"):
            self._send(step, "GET")
        elif step.kind == "delete":
            self._send(step, "DELETE")
        elif step.kind == "sse":
            self.sse.append((step.who, self._send(step, "GET", path="/sse")))
        elif step.kind == "post_sse":
            self._post_sse(step)
        elif step.kind == "hang up" and live:
            live[step.number % len(live)][4].disconnect()
        elif step.kind == "stall" and live:
            response_stream = live[step.number % len(live)][4]
            response_stream.reading.clear()
            self.stalled.add(response_stream)
        elif step.kind == "wait" and self.stalled:
            await asyncio.sleep(1.5 * STALL)
        elif step.kind == "change":
            server_of(self.app).changed("tools")
        elif step.kind == "open gate":
            self.handler.gate.set()
        elif step.kind == "expire":
            self.now[0] += 40.0
        elif step.kind == "open":
            await self._open(step.who, step.row)

    async def _steal(self, step: Step) -> None:
        """Use the session of somebody else, with one's own name (HTTP-28)."""
        session = self.clients[step.number % len(self.clients)].session
        if "mcp-session-id" in session:
            thief = Client(self.app)
            thief.session = {**session, "who": "thief"}
            verb = ("POST", "GET", "DELETE")[step.turns % 3]
            stolen = thief.send(
                verb, {"jsonrpc": "2.0", "id": 1, "method": "ping"} if verb == "POST" else None
            )
            await stolen.done()
            assert stolen.status in (404, 405)

    def _post_sse(self, step: Step) -> None:
        for whose, stream in self.sse:
            if stream.events:
                query = stream.events[0].data.decode().partition("?")[2]
                self._send(step, "POST", path="/messages", query=query.encode(), foreign=whose != step.who)

    def _send(
        self, step: Step, verb: str, path: str = "/mcp", query: bytes = b"", *, foreign: bool = False
    ) -> Exchange:
        said: dict[str, str] = {
            "accept": "text/event-stream" if verb == "GET" else "application/json, text/event-stream"
        }
        if verb == "POST":
            said["content-type"] = "application/json"
        said |= self.clients[step.who].session
        said |= step.headers
        said["who"] = f"client{step.who}"
        if step.kind == "resume":
            said["last-event-id"] = f"{step.number % 4}-{step.turns}"
        scope = step.scope
        pairs: list[tuple[bytes, bytes]] = [
            (name.encode(), value.encode()) for name, value in said.items() if name not in scope["drop"]
        ]
        for name, value, beside in scope["headers"]:
            if not beside:
                pairs = [pair for pair in pairs if pair[0] != name]
            pairs.append((name, value))
        request: dict[str, Any] = {
            **SCOPE,
            "type": "http",
            "method": scope["verb"] or verb,
            "path": path if scope["path"] is None else scope["path"],
            "query_string": scope["query"] or query,
            "headers": pairs,
        }
        response_stream = Exchange(
            self.app, request, step.body if step.parts == 1 and step.kind != "stop body" else None
        )
        if step.kind == "stop body":
            response_stream.give(step.body[: len(step.body) // 2], more=True)
        elif step.parts > 1:
            size = len(step.body) // step.parts + 1
            cuts = [step.body[place : place + size] for place in range(0, len(step.body) + 1, size)]
            for part in cuts:
                response_stream.give(part, more=part is not cuts[-1])
        me = dict(pairs).get(b"who", b"").decode("latin-1")
        self.response_streams.append((step.who, me, step.body, foreign, response_stream))
        return response_stream

    async def _finish(self) -> None:
        """Everybody reads again, what waits goes on, and whoever still listens hangs up."""
        self.handler.gate.set()
        for *_, response_stream in self.response_streams:
            response_stream.reading.set()
        for _ in range(30):
            await asyncio.sleep(0)
        await asyncio.sleep(4 * QUICK)
        for *_, response_stream in self.response_streams:
            if not response_stream.task.done():
                response_stream.disconnect()
        await asyncio.gather(*(response_stream.task for *_, response_stream in self.response_streams))

    # -- what came of it -----------------------------------------------------------------------------------

    def check(self) -> None:
        for _, me, body, _, response_stream in self.response_streams:
            # A stream that nobody read is broken off.
            assert response_stream.complete or response_stream.gone or response_stream in self.stalled, (
                body,
                response_stream.status,
            )
            if response_stream.status:
                check_answer(body, response_stream)
            for name in re.findall(rb"only for (\w+)\.", response_stream.body):
                assert name.decode() == (me or "None"), (name, me, response_stream.body)
        for _, me, _, foreign, response_stream in self.response_streams:
            assert not (foreign and response_stream.status == 202), me

    async def left(self) -> None:
        """Nothing is, once the sessions are over."""
        dispatcher, server = self.app.dispatcher, server_of(self.app)
        self.now[0] += 1_000.0
        dispatcher.sessions.expire()
        await until(lambda: len(dispatcher.sse) == 0 and len(server._connections) == 1)
        assert len(dispatcher.sessions) == 0
        assert timers_of(ResponseStream) == []
        shared = dispatcher.shared
        await until(lambda: not (shared._connection_state.incoming or shared._tasks or shared._queue))
        assert shared._running == 0
        assert [*shared._connection_state.sends, *shared._connection_state.events] == []
        assert not any(incoming.open for incoming in shared.protocol.stateless.listeners)
        events = self.app.settings.events
        assert events is None or vars(events)["_all"].size == 0


def check_answer(body: bytes, response_stream: Exchange) -> None:
    """What came is an answer as HTTP and JSON-RPC have them, and one to what was asked."""
    assert response_stream.status in STATUSES, (response_stream.status, body)
    kind = response_stream.headers.get("content-type")
    if response_stream.status in (202, 204):
        assert (kind, response_stream.body) == (None, b"")
        return
    asked = ids_of(body)
    if kind == SSE:
        assert response_stream.status == 200
        answers = [message for message in response_stream.messages if "method" not in message]
        assert all(message["jsonrpc"] == "2.0" for message in response_stream.messages)
    else:
        assert kind == "application/json"
        if not response_stream.complete:
            return
        assert int(response_stream.headers["content-length"]) == len(response_stream.body)
        found = json.loads(response_stream.body)
        answers = listed(found)
        assert response_stream.status == 200 or (len(answers) == 1 and "error" in answers[0])
    for answer in answers:
        check_message(answer, asked, response_stream.status)


def check_message(answer: dict[str, Any], asked: list[Any] | None, status: int) -> None:
    assert answer["jsonrpc"] == "2.0"
    assert ("result" in answer) is ("error" not in answer)
    if "error" in answer:
        assert type(answer["error"]["code"]) is int
        assert type(answer["error"]["message"]) is str
    else:
        assert type(answer["result"]) is dict
    if asked is None:
        assert status != 200 or answer.get("id") is None or "result" not in answer or answer["id"] is not None
    elif answer.get("id") is not None:
        assert any(type(answer["id"]) is type(id_) and answer["id"] == id_ for id_ in asked), (answer, asked)
    else:
        assert "error" in answer


def ids_of(body: bytes) -> list[Any] | None:
    """The ids of what was asked; None where that is no JSON (as every message on a stream of its own is none)."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return [member["id"] for member in listed(found) if isinstance(member, dict) and "id" in member]


def listed(found: Any) -> list[Any]:
    """The members of an array, or the one message that there is."""
    return found if found.__class__ is list else [found]


def play(script: tuple[dict[str, Any], list[Revision], list[Step]], then: Callable[[Play], None]) -> None:
    options, rows, todo = script

    async def main() -> None:
        handler = Whose()
        now = [0.0]
        server = mcprev.Server(handler, "fuzzed", "1", max_handlers=8)
        app = server.asgi(
            **options, sse=True, principal=who, clock=lambda: now[0], idle=100.0, defer=QUICK, heartbeat=QUICK,
            send_timeout=STALL, body_timeout=4 * QUICK, max_body=MAX_BODY, max_headers=MAX_HEADERS, max_sessions=8,
            max_requests=8,
        )  # fmt: skip
        game = Play(app, handler, rows, now)
        try:
            async with asyncio.timeout(30):
                await game.play(rows, todo)
                then(game)
                await game.left()
        finally:
            handler.gate.set()
            await app.aclose()

    logging.disable()  # what a handler does wrong is not what this is about
    try:
        run(main())
    finally:
        logging.disable(logging.NOTSET)


@pytest.mark.slow
@req(
    "SEC-6",
    "ERR-1",
    "ERR-6",
    "HTTP-7",
    "HTTP-12",
    "HTTP-16",
    "HTTP-27",
    "HTTP-28",
    "HTTPM-4",
    everywhere=True,
)
@settings(
    max_examples=sampled(80),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    phases=(Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink),
)
@given(script=scripts())
def test_nothing_that_can_be_sent_does_any_harm(
    script: tuple[dict[str, Any], list[Revision], list[Step]],
) -> None:
    play(script, Play.check)
