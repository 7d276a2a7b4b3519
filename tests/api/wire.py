"""Peers by hand, for tests of what is on the wire: each speaks one revision and judges every message it gets.

`served` gives a client by hand in front of a real server, `serving` a server by hand behind a real client. Both
open in the way of their era, keep what comes, and answer what they are asked with what the test says. A message
that the generated model or upstream's schema.json of the revision does not take fails the test.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias, cast

import pytest

import mcprev
from conversion.peers import objections
from helpers.task_extension import is_of_extension, objections as task_objections
from mcprev.conversion import PayloadKind, convert
from mcprev.revisions import DEFAULT, LATEST, Revision, load, revision_named as row_of
from mcprev.transports.memory import connect_pair
from mcprev.wire.headers import Headers

Json: TypeAlias = Any
Message: TypeAlias = dict[str, Any]
PREFIX: Final = "io.modelcontextprotocol/"
VERSION: Final = PREFIX + "protocolVersion"
CLIENT_INFO: Final = PREFIX + "clientInfo"
CLIENT_CAPABILITIES: Final = PREFIX + "clientCapabilities"
SERVER_INFO: Final = PREFIX + "serverInfo"
LOG_LEVEL: Final = PREFIX + "logLevel"
SUBSCRIPTION_ID: Final = PREFIX + "subscriptionId"
HANDSHAKE: Final = tuple(row for row in DEFAULT if row.handshake)
each_session = pytest.mark.parametrize("row", HANDSHAKE, ids=lambda row: row.name)
"""For tests that are about sessions, whatever the range of their requirements."""
INFO: Final = {"name": "by hand", "version": "1"}
EVERY_CAPABILITY: Final[Mapping[str, Json]] = {
    "tools": {"listChanged": True},
    "prompts": {"listChanged": True},
    "resources": {"listChanged": True, "subscribe": True},
    "logging": {},
    "completions": {},
}


@dataclass
class Sender:
    """The origin of a message over a transport that has asked who sends it."""

    principal: object = None
    access: object = None
    share: None = None
    headers: Headers = field(default_factory=lambda: Headers({}))
    checking: bool = False


def most_values(row: Revision) -> int:
    """As many completions as reach a revision from the latest one, or the other way."""
    way = DEFAULT[DEFAULT.index(row) :]
    bounds: list[int | None] = [
        load(found, "constants").MAX_ITEMS.get("CompleteResultCompletion.values") for found in way
    ]
    return min(bound for bound in bounds if bound is not None)


@dataclass(frozen=True, slots=True)
class Error:
    """An error to answer with."""

    code: int
    message: str = "no"
    data: Json = None

    @property
    def wire(self) -> Message:
        return {"code": self.code, "message": self.message} | (
            {} if self.data is None else {"data": self.data}
        )


Reply: TypeAlias = "Message | Error | Callable[[Message], Message | Error | None]"
"""A result, an error, or what makes one of the request; None leaves it unanswered."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a request by hand."""

    message: Message
    before: list[Message] = field(default_factory=list[Message])
    """What came between the request and its answer."""

    @property
    def result(self) -> Message:
        assert "result" in self.message, self.message
        return cast("Message", self.message["result"])

    @property
    def error(self) -> Message:
        assert "error" in self.message, self.message
        return cast("Message", self.message["error"])

    @property
    def failure(self) -> str:
        """The text of a failed tool."""
        assert self.result["isError"] is True, self.message
        (block,) = self.result["content"]
        return cast("str", block["text"])

    @property
    def code(self) -> int:
        return cast("int", self.error["code"])

    def notified(self, method: str) -> list[Message]:
        """The params of the notifications of a method that came before the answer."""
        return [found["params"] for found in self.before if found.get("method") == method]


def judge(row: Revision, message: Message, method: str) -> None:
    """Fail for what is no message of a revision; `method` is that of the request, for an answer."""
    assert message["jsonrpc"] == "2.0"
    if is_of_extension(row, method):
        kind = "params" if "method" in message else "result" if "result" in message else "error"
        assert task_objections(method, kind, message.get(kind)) == [], message
        return
    if "method" in message:
        kind, value = PayloadKind.PARAMS, message.get("params")
        asks = row.methods[method].result is not None
        assert ("id" in message) is asks, message
        assert not asks or (isinstance(message["id"], int | str) and not isinstance(message["id"], bool))
    elif "result" in message:
        kind, value = PayloadKind.RESULT, message["result"]
        assert "error" not in message
        if value.get("resultType") == "task":
            assert task_objections(method, kind, value) == [], message
            return
    else:
        kind, value = PayloadKind.ERROR, message["error"]
        method = method if method in row.methods else "tools/list"
    convert(value, method, kind, from_=row, to=row)
    if value is not None:
        assert objections(value, method, kind, row.name) == [], message


class Hand(asyncio.Protocol):
    """One end of a connection, driven by the test."""

    def __init__(self, revision: Revision | str, replies: Mapping[str, Reply] | None = None) -> None:
        self.revision = row_of(revision) if isinstance(revision, str) else revision
        self.replies: dict[str, Reply] = dict(replies or {})
        self.got: list[Message] = []
        """Everything that came, in order."""
        self.lost = False
        self._read = 0
        self._news = asyncio.Event()
        self._asked: dict[Json, str] = {}
        self._ids = itertools.count(1)
        self._rest = b""
        self._transport: asyncio.Transport | None = None
        self._faults: list[BaseException] = []

    # -- the transport's side ------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            try:
                found: Json = json.loads(line)
                messages: list[Json] = found if line.startswith(b"[") else [found]
                for message in messages:
                    self._take(message)
            except BaseException as fault:  # noqa: BLE001 - it is raised in the test's own task
                self._faults.append(fault)
            self._news.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True
        self._news.set()

    def _take(self, message: Message) -> None:
        method = message.get("method") or self._asked.pop(message.get("id"), "")
        judge(self.revision, message, method)
        self.got.append(message)
        if "method" in message and "id" in message:
            reply = self.reply(message)
            if isinstance(reply, Error):
                self.send({"jsonrpc": "2.0", "id": message["id"], "error": reply.wire})
            elif reply is not None:
                self.send({"jsonrpc": "2.0", "id": message["id"], "result": reply})

    def reply(self, request: Message) -> Message | Error | None:
        """What answers a request of the other end."""
        found = self.replies.get(request["method"], Error(-32601))
        return found(request) if callable(found) else found

    # -- the test's side -----------------------------------------------------------------------------------

    def send(self, *messages: Json) -> None:
        """Put messages on the wire, or bytes as they are."""
        assert self._transport is not None
        for message in messages:
            if isinstance(message, dict) and "method" in message and "id" in message:
                self._asked[message["id"]] = message["method"]
            data = message if isinstance(message, bytes) else json.dumps(message).encode()
            self._transport.write(data + b"\n")

    def tell(self, method: str, params: Json = None) -> None:
        """Send a notification."""
        message = {"jsonrpc": "2.0", "method": method}
        self.send(message if params is None else {**message, "params": params})

    async def get(self, wanted: Callable[[Message], bool] = lambda _: True) -> Message:
        """The next message that is wanted; those before it are passed over."""
        while True:
            self.check()
            while self._read < len(self.got):
                message = self.got[self._read]
                self._read += 1
                if wanted(message):
                    return message
            assert not self.lost, "the other end is gone"
            self._news.clear()
            await self._news.wait()

    async def heard(self, method: str) -> Message:
        """The params of the next notification or request of a method."""
        message = await self.get(lambda found: found.get("method") == method)
        return cast("Message", message.get("params") or {})

    def check(self) -> None:
        """Fail if something came that is no message of the revision."""
        if self._faults:
            raise self._faults[0]

    async def ask(self, method: str, params: Json = None, *, id_: Json = None) -> Answer:
        """Send a request and wait for its answer."""
        id_ = f"by hand {next(self._ids)}" if id_ is None else id_
        start = len(self.got)
        message = {"jsonrpc": "2.0", "id": id_, "method": method}
        self.send(message if params is None else {**message, "params": params})
        return await self._answer(id_, start)

    async def _answer(self, id_: Json, start: int) -> Answer:
        found = await self.get(
            lambda m: "method" not in m and m.get("id") == id_ and type(m["id"]) is type(id_)
        )
        return Answer(found, self.got[start : self.got.index(found)])

    async def aclose(self) -> None:
        """Hang up."""
        if self._transport is not None:
            self._transport.close()
        for _ in range(3):
            await asyncio.sleep(0)


class HandClient(Hand):
    """A client by hand; at revisions without sessions its requests describe themselves."""

    def __init__(
        self,
        revision: Revision | str,
        replies: Mapping[str, Reply] | None = None,
        capabilities: Mapping[str, Json] | None = None,
    ) -> None:
        super().__init__(revision, replies)
        self.capabilities: Mapping[str, Json] = capabilities or {}
        self._settled = 0
        self.hello: Message = {}
        """What the server answered to `initialize` or `server/discover`."""

    async def open(self) -> None:
        """Get to where requests are served."""
        if self.revision.handshake:
            said = {
                "protocolVersion": self.revision.version,
                "capabilities": self.capabilities,
                "clientInfo": INFO,
            }
            self.hello = (await self.ask("initialize", said)).result
            assert self.hello["protocolVersion"] == self.revision.version
            self.tell("notifications/initialized")
            await self.ask("ping")  # the server has seen the confirmation
        else:
            self.hello = (await self.ask("server/discover")).result

    async def ask(
        self, method: str, params: Json = None, *, id_: Json = None, meta: Mapping[str, Json] | None = None
    ) -> Answer:
        """Send a request as the revision wants it; `meta` is added to its `_meta`, over what stands there."""
        given: Json = params
        if (not self.revision.handshake or meta) and isinstance(params, dict | None):
            rest = cast("Message", params or {})
            given = {**rest, "_meta": {**self.stamp, **rest.get("_meta", {}), **(meta or {})}}
        return await super().ask(method, given, id_=id_)

    @property
    def stamp(self) -> Message:
        """What a request says of its client."""
        if self.revision.handshake:
            return {}
        return {VERSION: self.revision.version, CLIENT_INFO: INFO, CLIENT_CAPABILITIES: self.capabilities}

    async def settle(self) -> list[Message]:
        """Let everything under way arrive; what came unasked since the last time."""
        for _ in range(2):
            await self.ask("ping" if self.revision.handshake else "server/discover")
        start, self._settled = self._settled, len(self.got)
        return [message for message in self.got[start:] if "method" in message]


class HandServer(Hand):
    """A server by hand."""

    def __init__(
        self,
        revision: Revision | str,
        replies: Mapping[str, Reply] | None = None,
        capabilities: Mapping[str, Json] | None = None,
    ) -> None:
        super().__init__(revision, replies)
        offered = dict(EVERY_CAPABILITY if capabilities is None else capabilities)
        self.capabilities: Message = convert(
            offered, "", PayloadKind.SERVER_CAPABILITIES, from_=LATEST, to=self.revision, validate=False
        )
        self.hello: Message = {}
        """What the client opened with."""

    def connection(self) -> HandServer:
        """The end that `mcprev.memory` joins to a client."""
        return self

    def reply(self, request: Message) -> Message | Error | None:
        method = request["method"]
        if method == "initialize" and self.revision.handshake and method not in self.replies:
            self.hello = request["params"]
            return {
                "protocolVersion": self.revision.version,
                "capabilities": self.capabilities,
                "serverInfo": INFO,
            }
        if method == "server/discover" and not self.revision.handshake and method not in self.replies:
            self.hello = request["params"]["_meta"]
            supported = {"supportedVersions": [self.revision.version], "capabilities": self.capabilities}
            return self.complete(method, supported | {"_meta": {SERVER_INFO: INFO}})
        found = super().reply(request)
        if method in {"ping", "logging/setLevel"} and method not in self.replies:
            return {}
        return self.complete(method, found) if isinstance(found, dict) else found

    def complete(self, method: str, result: Message) -> Message:
        """A result with what the revision wants in each, unless the test says otherwise."""
        if self.revision.handshake:
            return result
        spec = self.revision.methods.get(method)
        hints = {"ttlMs": 0, "cacheScope": "private"} if spec is not None and spec.cacheable else {}
        if result.get("resultType", "complete") != "complete":
            hints = {}
        return {"resultType": "complete", **hints, **result}

    @property
    def requests(self) -> list[Message]:
        """The requests of the client's, without those that open."""
        openers = ("initialize", "server/discover")
        return [m for m in self.got if "id" in m and m.get("method", openers[0]) not in openers]

    def asked(self, method: str) -> list[Message]:
        """The params of the client's requests or notifications of a method, without what describes the client and the
        token that a request has by itself.
        """
        found: list[Message] = []
        for message in self.got:
            if message.get("method") == method:
                params, usual = (
                    dict(message.get("params") or {}),
                    {"progressToken": message.get("id")}.items(),
                )
                sent = params.pop("_meta", {}).items()
                meta = {k: v for k, v in sent if not k.startswith(PREFIX) and (k, v) not in usual}
                found.append({**params, "_meta": meta} if meta else params)
        return found


@asynccontextmanager
async def served(
    server: mcprev.Server,
    revision: Revision | str,
    *,
    replies: Mapping[str, Reply] | None = None,
    capabilities: Mapping[str, Json] | None = None,
    opened: bool = True,
) -> AsyncGenerator[HandClient, None]:
    """A client by hand that a server serves, at a revision; `opened=False` leaves the opening to the test."""
    connection, hand = server.connection(), HandClient(revision, replies, capabilities)
    connect_pair(hand, connection)
    try:
        if opened:
            await hand.open()
        yield hand
        hand.check()
    finally:
        await connection.aclose()


@asynccontextmanager
async def serving(
    revision: Revision | str,
    replies: Mapping[str, Reply] | None = None,
    *,
    capabilities: Mapping[str, Json] | None = None,
    handler: Any = None,
    capabilities_of_client: Any = None,
    **options: Any,
) -> AsyncGenerator[tuple[mcprev.Client, HandServer], None]:
    """A client, and the server by hand that it has connected to at a revision."""
    hand = HandServer(revision, replies, capabilities)
    target: Any = hand
    named: dict[str, Any] = {} if hand.revision.negotiable else {"revisions": [hand.revision.name]}
    async with mcprev.connect(
        mcprev.memory(target),
        mode=hand.revision.name,
        handler=handler,
        capabilities=capabilities_of_client,
        **named,
        **options,
    ) as client:
        yield client, hand
        hand.check()
