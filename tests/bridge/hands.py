"""A client and a server by hand with a bridge between them: each speaks one revision and judges all that it gets."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, TypeAlias, cast

from typing_extensions import override

import mcprev
from api.wire import LOG_LEVEL, SUBSCRIPTION_ID, Answer, Error, Hand, HandClient, HandServer, Message, Reply
from mcprev.bridge.bridge import Bridge
from mcprev.revisions import Revision
from mcprev.transports.lines import LineConnection
from mcprev.transports.memory import connect_pair

FORM: Final[Message] = {
    "mode": "form",
    "message": "who?",
    "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
}
URL: Final[Message] = {"mode": "url", "message": "go", "url": "https://a.example/x", "elicitationId": "e1"}
SAMPLING: Final[Message] = {
    "messages": [{"role": "user", "content": {"type": "text", "text": "hi"}}],
    "maxTokens": 10,
}
SAMPLED: Final[Message] = {
    "role": "assistant",
    "content": {"type": "text", "text": "hello"},
    "model": "m",
    "stopReason": "endTurn",
}
ROOTS: Final[Message] = {"roots": [{"uri": "file:///x", "name": "x"}]}
VENDOR: Final = "com.example/"
"""The beginning of methods that no schema has, whose messages are not judged."""
ELICIT, SAMPLE, LIST_ROOTS = "elicitation/create", "sampling/createMessage", "roots/list"
PARAMS_OF: Final[Mapping[str, tuple[str, Message | None]]] = {
    "form": (ELICIT, FORM),
    "url": (ELICIT, URL),
    "sampling": (SAMPLE, SAMPLING),
    "roots": (LIST_ROOTS, None),
}
"""The method and the params of each kind of question."""
Answers: TypeAlias = list[Message]
Work: TypeAlias = "Callable[[Upstream, Message], Awaitable[Message | Error | None]]"


def text(value: object) -> Message:
    """A tool result with a value as JSON."""
    return {"content": [{"type": "text", "text": json.dumps(value)}]}


def said(result: Message) -> Any:
    """The value of such a result."""
    (block,) = result["content"]
    return json.loads(block["text"])


def capabilities_of(row: Revision) -> Message:
    """Every capability that clients have at a revision, with which it can be asked."""
    found: Message = {"roots": {}, "sampling": {"tools": {}} if row.sampling_tools else {}}
    if row.elicitation_modes:
        modes: Message = {mode: {} for mode in row.elicitation_modes}
        found["elicitation"] = modes if "url" in modes else {}
    return found


def question(row: Revision, kind: str, note: str = "") -> tuple[str, Message | None]:
    """A question as a server of a revision asks it; `note` comes back with the answer of `Answering`."""
    method, params = PARAMS_OF[kind]
    if params is None:
        return method, None
    found = json.loads(json.dumps(params))
    if kind in ("form", "url"):
        found["message"] += note
        if "url" not in row.elicitation_modes:
            del found["mode"]
        elif row.input_in_results:
            found.pop("elicitationId", None)
    else:
        found["messages"][0]["content"]["text"] += note
    return method, found


class Several(Hand):
    """An end whose requests wait for their answers at the same time."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._waiting: dict[Any, asyncio.Future[Message]] = {}

    @override
    def _take(self, message: Message) -> None:
        method = message.get("method") or self._asked.get(message.get("id"), "")
        if method.startswith(VENDOR):
            self._asked.pop(message.get("id"), None)
            self.got.append(message)
            if "method" in message and "id" in message:
                reply = self.reply(message)
                self.send({"jsonrpc": "2.0", "id": message["id"], "result": reply})
        else:
            super()._take(message)
        waiting = None if "method" in message else self._waiting.get(message.get("id"))
        if waiting is not None and not waiting.done():  # it is, if its call was cancelled at the same time
            waiting.set_result(message)

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(ConnectionError("the other end is gone"))

    @override
    async def _answer(self, id_: Any, start: int) -> Answer:
        self._waiting[id_] = asyncio.get_running_loop().create_future()
        try:
            found = await self._waiting[id_]
        finally:
            del self._waiting[id_]
        self.check()
        self._read = max(self._read, self.got.index(found) + 1)
        return Answer(found, self.got[start : self.got.index(found)])


class Upstream(Several, HandServer):
    """A server by hand, whose tools ask, report and log; `tools` may also have methods that take their time."""

    def __init__(
        self, row: Revision, tools: Mapping[str, Work], replies: Mapping[str, Reply] | None = None
    ) -> None:
        super().__init__(row, replies)
        self._tools = tools
        self.tasks: dict[str, Message] = {}
        """What is known of each task, by id."""
        self._tasks: dict[Any, asyncio.Task[None]] = {}
        self.listens: list[tuple[Any, Message]] = []
        """The ids and filters of listen streams."""
        self.cancelled: list[str] = []
        """The reasons of cancelled requests."""

    @override
    def reply(self, request: Message) -> Message | Error | None:
        if request["method"] == "subscriptions/listen":
            wanted = request["params"]["notifications"]
            self.listens.append((request["id"], wanted))
            params = {"notifications": wanted, "_meta": {SUBSCRIPTION_ID: request["id"]}}
            self.tell("notifications/subscriptions/acknowledged", params)
            return None
        if request["method"] != "tools/call" and request["method"] not in self._tools:
            return super().reply(request)
        task = asyncio.get_running_loop().create_task(self._work(request))
        self._tasks[request["id"]] = task
        task.add_done_callback(lambda _: self._tasks.pop(request["id"], None))
        return None

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        for task in self._tasks.values():
            task.cancel()

    async def _work(self, request: Message) -> None:
        method = request["method"]
        try:
            name = request["params"]["name"] if method == "tools/call" else method
            found = await self._tools[name](self, request)
        except asyncio.CancelledError:
            return
        except Exception as fault:  # noqa: BLE001 - it is raised in the test's own task
            self._faults.append(fault)
            found = Error(-32603, repr(fault))
        if isinstance(found, Error):
            self.send({"jsonrpc": "2.0", "id": request["id"], "error": found.wire})
        elif found is not None:
            self.send({"jsonrpc": "2.0", "id": request["id"], "result": self.complete(method, found)})

    @override
    def _take(self, message: Message) -> None:
        super()._take(message)
        if message.get("method") == "notifications/cancelled":
            params = message["params"]
            self.cancelled.append(params.get("reason"))
            task = self._tasks.get(params["requestId"])
            if task is not None:
                task.cancel()

    async def asks(self, request: Message, *questions: tuple[str, Message | None]) -> Answers | Message:
        """The answers to questions asked one after the other; at revisions whose results ask, such a result instead."""
        if not self.revision.input_in_results:
            answers: Answers = []
            for method, params in questions:
                answer = (await self.ask(method, params)).message
                answers.append(answer.get("result") or answer["error"])
            return answers
        params = request["params"]
        known: Answers = json.loads(params.get("requestState") or "[]")
        given: Message = params.get("inputResponses") or {}
        if given:
            known = [*known, given[f"q{len(known)}"]]
        if len(known) == len(questions):
            return known
        method, asked = questions[len(known)]
        entry: Message = {"method": method} | ({} if asked is None else {"params": asked})
        return {
            "resultType": "input_required",
            "inputRequests": {f"q{len(known)}": entry},
            "requestState": json.dumps(known),
        }

    async def asking(self, request: Message, *questions: tuple[str, Message | None]) -> Message:
        """The result of a tool that asks and returns its arguments with the answers."""
        found = await self.asks(request, *questions)
        if isinstance(found, dict):
            return found
        return text([request["params"].get("arguments"), found])

    def progresses(self, request: Message, progress: int) -> None:
        """Report progress, if the request wants it."""
        meta: Message = request["params"].get("_meta") or {}
        token = meta.get("progressToken")
        if token is not None:
            self.tell("notifications/progress", {"progressToken": token, "progress": progress, "total": 9})

    def logs(self, request: Message, level: str, data: Any) -> None:
        """Log, if the request or the session wants it."""
        meta: Message = request["params"].get("_meta") or {}
        if not self.revision.log_level_per_request or LOG_LEVEL in meta:
            self.tell("notifications/message", {"level": level, "data": data})


class Downstream(Several, HandClient):
    """A client by hand that answers questions: what it is asked in a session, and what results ask."""

    def __init__(self, row: Revision, capabilities: Message | None = None) -> None:
        super().__init__(row, {}, capabilities_of(row) if capabilities is None else capabilities)
        self.asked_for: list[str] = []

    @override
    def reply(self, request: Message) -> Message | Error | None:
        if request["method"] in self.replies:
            return super().reply(request)
        return self.answer_to(request["method"], request.get("params"))

    def answer_to(self, method: str, params: Any) -> Message | Error:
        """The answer to a question, with what its text says."""
        self.asked_for.append(method)
        if method == ELICIT:
            if params.get("mode") == "url":
                return {"action": "accept"}
            return {"action": "accept", "content": {"name": params["message"]}}
        if method == SAMPLE:
            heard = params["messages"][0]["content"]["text"]
            return {**SAMPLED, "content": {"type": "text", "text": heard}}
        return ROOTS if method == LIST_ROOTS else Error(-32601)

    async def call(self, name: str, arguments: Any = None, **meta: Any) -> Message:
        """The result or the error of a tool call; questions are answered until there are no more."""
        params: Message = {"name": name} | ({} if arguments is None else {"arguments": arguments})
        more: Message = {}
        while True:
            answer = (await self.ask("tools/call", {**params, **more}, meta=meta)).message
            result = answer.get("result")
            if result is None:
                return cast("Message", answer["error"])
            if result.get("resultType") != "input_required":
                return cast("Message", result)
            more = {"inputResponses": {}}
            questions: Message = result.get("inputRequests") or {}
            for key, asked in questions.items():
                more["inputResponses"][key] = self.answer_to(asked["method"], asked.get("params"))
            if "requestState" in result:
                more["requestState"] = result["requestState"]


@asynccontextmanager
async def bridged(
    bridge: Bridge, *clients: HandClient, opened: bool = True
) -> AsyncGenerator[tuple[HandClient, ...], None]:
    """Clients by hand of a bridge that runs."""
    async with bridge.running():
        connections: list[LineConnection] = []
        for client in clients:
            connection = bridge.connection()
            connections.append(connection)
            connect_pair(client, connection)
            if opened:
                await client.open()
        try:
            yield clients
            for client in clients:
                client.check()
        finally:
            for connection in connections:
                await connection.aclose()


class Servers:
    """A target by hand: each connection gets a server of its own from a function."""

    def __init__(self, make: Callable[[], HandServer]) -> None:
        self._make = make
        self.made: list[HandServer] = []

    def connection(self) -> HandServer:
        """The end that `mcprev.memory` joins to a client."""
        server = self._make()
        self.made.append(server)
        return server

    @property
    def upstreams(self) -> list[Upstream]:
        """Those that are `Upstream`s."""
        return [server for server in self.made if isinstance(server, Upstream)]

    def check(self) -> None:
        """Fail if one of them got what is no message of its revision."""
        for server in self.made:
            server.check()


def bridge_to(servers: Any, there: Revision, **options: Any) -> Bridge:
    """A bridge to servers by hand of one revision, for clients of every revision."""
    return Bridge(mcprev.memory(servers), server_revisions=[there.name], **options)
