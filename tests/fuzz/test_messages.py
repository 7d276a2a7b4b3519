"""Messages, good and damaged, to a server and to a client at every revision, on both event loops (SEC-6, BASE-10).

Whatever comes, the connection stays. Calls that are beside it get their own answers. Nothing is answered with an id that
did not come, and a call learns only what was said to its id.
"""

from __future__ import annotations

import asyncio
import json
import re
from contextlib import suppress
from dataclasses import dataclass
from random import Random
from typing import Any, Final

import pytest
from typing_extensions import override

import mcprev
from api.scripted import client, giving, server, text
from api.wire import INFO, HandClient, HandServer, Message
from fuzz.fuzzing import damaged, fuzz_on_loop, json_value, with_a_change
from helpers.requirements import NAMES, req
from helpers.running import until
from mcprev.revisions import DEFAULT
from mcprev.transports.memory import connect_pair
from mcprev_types.latest import models as m

BOTH_LOOPS: Final = pytest.mark.usefixtures("event_loop_kind")
TOKENS: Final = (
    b"{", b"}", b"[", b"]", b'"', b"\\", b":", b",", b"null", b"1e999", b"NaN", b"0" * 400, b"\\ud800", b"\xff", b"\0", b"\r", b" ", b"\xef\xbb\xbf",
    b'"id":7,', b'"method":"ping",', b'"result":{},', b'"error":{},', b"[" * 300,
)  # fmt: skip
METHODS: Final = (
    "ping", "tools/list", "tools/call", "resources/list", "resources/read", "resources/subscribe", "prompts/get", "logging/setLevel",
    "completion/complete", "server/discover", "subscriptions/listen", "initialize", "roots/list", "sampling/createMessage",
    "elicitation/create", "tasks/get", "notifications/initialized", "notifications/cancelled", "notifications/progress",
    "notifications/message", "notifications/tools/list_changed", "notifications/roots/list_changed", "notifications/x", "",
)  # fmt: skip
NUMBER: Final = re.compile(rb"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
IDS: Final[tuple[Any, ...]] = (0, 1, 2, 3, -1, 1.0, 2.5, "1", "a", "", 2**70, None, True, [], {})


CAPABILITIES: Final[tuple[Any, ...]] = ({}, {"roots": {}}, {"sampling": {}}, 1)


@dataclass(frozen=True)
class Case:
    """A revision, and the lines that are sent."""

    revision: str
    lines: tuple[bytes, ...]


def params(rng: Random) -> Message:
    """Members that params and results of many methods have, and some that none has."""
    members: Message = {
        "name": rng.choice(("echo", "x")),
        "arguments": {"text": json_value(rng, 1)},
        "uri": rng.choice(("file:///x", "x", "")),
        "level": "debug",
        "requestId": rng.choice(IDS),
        "progressToken": rng.choice(IDS),
        "progress": rng.choice((0, 1, -1, "x")),
        "protocolVersion": rng.choice([row.version for row in DEFAULT] + ["x"]),
        "capabilities": rng.choice(CAPABILITIES),
        "clientInfo": INFO,
        "messages": [{"role": "user", "content": {"type": "text", "text": "x"}}],
        "maxTokens": 5,
        "message": "x",
        "requestedSchema": {"type": "object", "properties": {}},
        "notifications": {"toolsListChanged": True},
        "taskId": "x",
        "data": json_value(rng, 2),
        "cursor": rng.choice(("", "1", "x")),
    }
    return {name: members[name] for name in rng.sample(list(members), rng.randrange(len(members)))}


def line_of(message: Any, rng: Random) -> bytes:
    """A message as one line, perhaps damaged."""
    if rng.random() < 0.5:
        message = with_a_change(message, rng, json_value)
    data = json.dumps(message).encode()
    return damaged(data, rng, TOKENS).replace(b"\n", b" ") if rng.random() < 0.4 else data


def draw_for_server(rng: Random) -> Case:
    row = rng.choice(DEFAULT)
    lines: list[bytes] = []
    for _ in range(rng.randint(1, 8)):
        message: Message = {"jsonrpc": "2.0", "method": rng.choice(METHODS), "params": params(rng)}
        if not row.handshake and rng.random() < 0.8:
            message["params"]["_meta"] = HandClient(row).stamp
        if not message["method"].startswith("notifications/"):
            message["id"] = rng.choice(IDS)
        if rng.random() < 0.2:
            message = {"jsonrpc": "2.0", "id": rng.choice(IDS), "result": params(rng)}
        lines.append(line_of(message if rng.random() < 0.9 else [message, message], rng))
    return Case(row.name, tuple(lines))


def check_answer(message: Message, sent: bytes) -> None:
    """Fail for what is no answer, and for an answer with an id that is not in what was sent."""
    assert message["jsonrpc"] == "2.0"
    assert ("result" in message) is not ("error" in message), message
    assert "error" not in message or isinstance(message["error"]["code"], int)
    id_ = message.get("id")
    if isinstance(id_, str):
        assert json.dumps(id_).encode() in sent or id_.encode("utf-8", "surrogatepass") in sent, message
    elif id_ is None:
        assert "error" in message, message
    else:
        assert type(id_) is not bool, message
        assert id_ in {float(found) for found in NUMBER.findall(sent)} or str(id_).encode() in sent, message


class RawClient(HandClient):
    """A client by hand that judges nothing that comes."""

    @override
    def _take(self, message: Message) -> None:
        self.got.append(message)


class RawServer(HandServer):
    """A server by hand that judges nothing that comes, and answers a request where `answering` says so."""

    answering = True

    @override
    def _take(self, message: Message) -> None:
        self.got.append(message)
        if self.answering and "method" in message and "id" in message:
            self.answer(message)

    def answer(self, request: Message) -> None:
        """Answer a request with what the revision takes, tools/call with its own name."""
        reply = self.reply(request)
        said = {"result": reply} if isinstance(reply, dict) else {"error": {"code": -32601, "message": "no"}}
        self.send({"jsonrpc": "2.0", "id": request["id"], **said})


async def echo(ctx: object, given: Any) -> m.CallToolResult:
    return text(given.arguments)


SERVER: Final = server(call_tool=echo)


async def check_server(case: Case) -> None:
    connection, hand = SERVER.connection(), RawClient(case.revision)
    connect_pair(hand, connection)
    try:
        await hand.open()
        before = len(hand.got)
        for number, data in enumerate(case.lines):
            hand.send(data)
            arguments = {"n": number}
            answer = await hand.ask(
                "tools/call", {"name": "echo", "arguments": arguments}, id_=f"good {number}"
            )
            assert answer.result["content"][0]["text"] == str(arguments)
        answers = [found for found in hand.got[before:] if "method" not in found]
        others = [found for found in answers if not str(found.get("id")).startswith("good ")]
        assert len(answers) - len(others) == len(case.lines)
        for found in others:
            check_answer(found, b"\n".join(case.lines))
        hand.check()
    finally:
        await connection.aclose()
        await hand.aclose()


@pytest.mark.slow
@req("BASE-5", "BASE-10", "SEC-6", at=NAMES)
@BOTH_LOOPS
def test_a_server_answers_every_call_beside_whatever_else_comes() -> None:
    fuzz_on_loop(draw_for_server, check_server, cases=75)


# -- a client ----------------------------------------------------------------------------------------------

CALLS: Final = 3
"""How many calls are in progress while lines come."""


def draw_for_client(rng: Random) -> Case:
    """Lines in which `@0` to `@2` stand for the ids of calls in progress."""
    row = rng.choice(DEFAULT)
    lines: list[bytes] = []
    for number in range(rng.randint(1, 8)):
        id_ = rng.choice(("@0", "@1", "@2") if rng.random() < 0.7 else IDS)
        result: Message = {"content": [{"type": "text", "text": f"line {number}, {rng.randbytes(8).hex()}"}]}
        if not row.handshake:
            result["resultType"] = rng.choice(("complete", "complete", "input_required", "task", "x", 1))
        message: Message = {"jsonrpc": "2.0", "id": id_, "result": result}
        how = rng.random()
        if how < 0.2:
            message = {
                "jsonrpc": "2.0",
                "id": id_,
                "error": {"code": rng.choice((-32603, -32042, 1)), "message": "no", "data": json_value(rng)},
            }
        elif how < 0.5:
            message = {"jsonrpc": "2.0", "id": id_, "method": rng.choice(METHODS), "params": params(rng)}
        elif how < 0.6:
            message = {"jsonrpc": "2.0", "method": rng.choice(METHODS), "params": params(rng)}
        lines.append(line_of(message, rng))
    return Case(row.name, tuple(lines))


async def check_client(case: Case) -> None:
    hand = RawServer(case.revision, {"tools/call": called})
    target: Any = hand
    named: dict[str, Any] = {} if hand.revision.negotiable else {"revisions": [hand.revision.name]}
    async with mcprev.connect(
        mcprev.memory(target), mode=hand.revision.name, handler=HANDLER, **named
    ) as ours:
        hand.answering = False
        calls = [asyncio.ensure_future(ours.call_tool(f"call {n}", timeout=None)) for n in range(CALLS)]
        await until(lambda: len(hand.asked("tools/call")) == CALLS)
        requests = [found for found in hand.got if found.get("method") == "tools/call"]
        before, sent = len(hand.got), list[bytes]()
        for line in case.lines:
            sent.append(with_ids(line, requests))
            hand.send(sent[-1])
        hand.answering = True
        for found in hand.got[before:] + requests:
            if "method" in found and "id" in found:
                hand.answer(found)
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        for request, outcome in zip(requests, outcomes, strict=True):
            check_outcome(request, outcome, sent)
        for message in hand.got[before:]:
            if "method" not in message:
                check_answer(message, b"\n".join(sent))
        assert text_of(await ours.call_tool("last")) == "last"
        hand.check()


def with_ids(line: bytes, requests: list[Message]) -> bytes:
    """A line with the ids of calls in progress."""
    for number, request in enumerate(requests):
        line = line.replace(f'"@{number}"'.encode(), json.dumps(request["id"]).encode())
    return line


def called(request: Message) -> Message:
    """The right answer to a call: the name of its tool."""
    return {"content": [{"type": "text", "text": request["params"]["name"]}]}


def text_of(result: object) -> str:
    """The text of a result; empty where it has none."""
    content = getattr(result, "content", None) or [None]
    return str(getattr(content[0], "text", ""))


def check_outcome(request: Message, outcome: object, sent: list[bytes]) -> None:
    """Fail where a call ends with what was not said to it."""
    if isinstance(outcome, BaseException):
        assert isinstance(outcome, mcprev.McpError), outcome
        return
    said = text_of(outcome)
    if said.startswith("call "):
        assert said == request["params"]["name"]
    for data in sent:
        if said.startswith("line ") and said.encode("utf-8", "surrogatepass") in data:
            with suppress(ValueError):
                named = json.loads(data)["id"]  # "2" is read as 2, which is told the user
                assert named == request["id"] or named == str(request["id"]), "another's answer"


HANDLER: Final = client(create_message=giving(None))


@pytest.mark.slow
@req("BASE-5", "BASE-6", "BASE-10", "SEC-6", at=NAMES)
@BOTH_LOOPS
def test_a_client_gives_its_calls_what_was_said_to_them_or_an_error() -> None:
    fuzz_on_loop(draw_for_client, check_client, cases=75)
