"""Attacks of the users of a bridge on each other, and of what one bridge, server or purpose seals on another (SEC-5, SEC-6).

Each row is one attempt over HTTP: it gets a typed refusal, the server hears nothing of it, and who was attacked goes on.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final

import aiohttp
import pytest

import mcprev
from api.wire import CLIENT_CAPABILITIES, VERSION, Message
from bridge.hands import Servers, Upstream, bridge_to, question, text
from bridge.joining import ends, joined
from bridge.task_hands import TASK_METHODS, capabilities_with_tasks, long_work, marked_tool, offering_tasks
from fuzz.fuzzing import each_once
from helpers.http_in_process import InProcess
from helpers.requirements import E, req
from helpers.running import run, until
from mcprev.bridge.bridge import Bridge
from mcprev.revisions import DEFAULT, Revision

SESSION: Final = [row for row in DEFAULT if row.handshake][-1]
MODERN: Final = DEFAULT[-1]
RESOURCE: Final = "https://b.example/mcp"
EVERYTHING: Final[Message] = {"elicitation": {"form": {}}, "sampling": {}, "roots": {}}
HOUR: Final = 3_600_000
USERS: Final = ("ann:app", "bob:app")
PAGED: Final[Message] = {"resources/list": {"resources": [], "nextCursor": "more"}}


async def verify(token: str) -> mcprev.Access | None:
    """A token of these tests is `subject:client`."""
    subject, _, client = token.partition(":")
    return mcprev.Access(subject, audience=RESOURCE, audience_checked=True, client_id=client)


@dataclass
class Reply:
    """What a POST got."""

    status: int
    message: Message
    session: str | None

    @property
    def code(self) -> int | None:
        """The code of its error."""
        error: Message = self.message.get("error") or {}
        return error.get("code")

    @property
    def result(self) -> Message:
        assert "result" in self.message, self.message
        return dict(self.message["result"])


@dataclass
class World:
    """A bridge over HTTP, whose users are told apart by their tokens."""

    bridge: Bridge
    url: str
    http: aiohttp.ClientSession
    servers: list[Servers]
    go: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def made(self) -> list[Upstream]:
        """The servers by hand."""
        return [server for group in self.servers for server in group.upstreams]

    def heard(self, method: str = "tools/call") -> list[Message]:
        """What the servers were asked."""
        return [params for server in self.made for params in server.asked(method)]

    def headers(
        self, user: str, row: Revision, method: str, name: object, session: str | None
    ) -> dict[str, str]:
        found = {
            "Accept": "application/json, text/event-stream",
            "Connection": "close",
            "Content-Type": "application/json",
            "MCP-Protocol-Version": row.version,
        }
        if user:
            found["Authorization"] = f"Bearer {user}"
        if row.routing_headers:
            found |= {"Mcp-Method": method} | ({"Mcp-Name": name} if isinstance(name, str) else {})
        return found | ({} if session is None else {"Mcp-Session-Id": session})

    async def post(
        self,
        user: str,
        method: str,
        params: Message | None = None,
        *,
        id_: object = 1,
        row: Revision = MODERN,
        session: str | None = None,
        capabilities: Message = EVERYTHING,
    ) -> Reply:
        """Send a request of a user, or a notification without an id."""
        given = dict(params or {})
        if not row.handshake and id_ is not None:
            stamp = {VERSION: row.version, CLIENT_CAPABILITIES: capabilities}
            given["_meta"] = {**stamp, **given.get("_meta", {})}
        body: Message = {"jsonrpc": "2.0", "method": method, "params": given}
        body |= {} if id_ is None else {"id": id_}
        named = given.get("name", given.get("uri", given.get("taskId")))
        headers = self.headers(user, row, method, named, session)
        async with self.http.post(self.url, data=json.dumps(body), headers=headers) as response:
            found = await response.text()
            events = [
                line.removeprefix("data: ") for line in found.splitlines() if line.startswith("data: {")
            ]
            messages: list[Message] = [json.loads(event) for event in events]
            messages += [json.loads(found)] if found.startswith("{") else []
            answers = [each for each in messages if "method" not in each]
            answer: Message = answers[0] if answers else {}
            return Reply(response.status, answer, response.headers.get("Mcp-Session-Id"))

    async def open(self, user: str, row: Revision) -> str:
        """Open a session."""
        said: Message = {
            "protocolVersion": row.version,
            "capabilities": {},
            "clientInfo": {"name": "c", "version": "1"},
        }
        reply = await self.post(user, "initialize", said, row=row)
        assert reply.session is not None
        await self.post(user, "notifications/initialized", id_=None, row=row, session=reply.session)
        return reply.session


@asynccontextmanager
async def served(bridge: Bridge, *servers: Servers) -> AsyncGenerator[World, None]:
    app = bridge.asgi()
    connector = InProcess(app)
    async with bridge.running(), aiohttp.ClientSession(connector=connector) as http:
        yield World(bridge, connector.origin + "/mcp", http, list(servers))
    await app.aclose()


def auth() -> mcprev.Bearer:
    return mcprev.Bearer(verify, resource=RESOURCE, authorization_servers=["https://as.example"])


async def asks(up: Upstream, request: Message) -> Message:
    return await up.asking(request, question(up.revision, "form"))


# -- states ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Attempt:
    """A request that continues a call."""

    world: World
    user: str
    method: str
    params: Message

    async def send(self) -> Reply:
        return await self.world.post(self.user, self.method, self.params)

    def at(self, **params: Any) -> Attempt:
        return replace(self, params={**self.params, **params})

    @property
    def state(self) -> str:
        return str(self.params["requestState"])


async def asking_prompt(up: Upstream, request: Message) -> Any:
    found = await up.asks(request, question(up.revision, "form"))
    return found if isinstance(found, dict) else {"messages": []}


def single(there: Revision) -> tuple[Bridge, list[Servers], str]:
    works = {"asks": asks, "prompts/get": asking_prompt}
    servers = Servers(lambda: Upstream(there, works, PAGED))
    return bridge_to(servers, there, auth=auth()), [servers], "asks"


def several(there: Revision) -> tuple[Bridge, list[Servers], str]:
    groups = ends(there, "files", "bank", files=PAGED, bank=PAGED)
    return joined(groups, there, auth=auth()), [*groups.values()], "files__asks"


KINDS: Final[Mapping[str, Callable[[], tuple[Bridge, list[Servers], str]]]] = {
    "a held call": lambda: single(SESSION),
    "a state of a stateless server": lambda: single(MODERN),
    "a held call of one of several": lambda: several(SESSION),
    "a state of one of several": lambda: several(MODERN),
}


async def begin(world: World, name: str, user: str = "ann:app") -> Attempt:
    """A call that waits for its user, and the request that continues it."""
    first = (await world.post(user, "tools/call", {"name": name, "arguments": {"n": 1}})).result
    answers = {key: {"action": "accept", "content": {"name": "x"}} for key in first["inputRequests"]}
    params = {
        "name": name,
        "arguments": {"n": 1},
        "requestState": first["requestState"],
        "inputResponses": answers,
    }
    return Attempt(world, user, "tools/call", params)


def changed(state: str, place: float) -> str:
    at = int((len(state) - 1) * place)
    return state[:at] + ("A" if state[at] != "A" else "B") + state[at + 1 :]


async def cursor(mine: Attempt) -> Attempt:
    listed = (await mine.world.post("ann:app", "resources/list")).result
    return mine.at(requestState=listed["nextCursor"])


async def of_another_bridge(mine: Attempt) -> Attempt:
    name = mine.params["name"]
    there = mine.world.made[-1].revision
    bridge, servers, _ = several(there) if "__" in name else single(there)
    async with served(bridge, *servers) as other:
        theirs = await begin(other, name)
    return mine.at(requestState=theirs.state)


ATTACKS: Final[Mapping[str, Callable[[Attempt], Attempt | Awaitable[Attempt]]]] = {
    "another principal": lambda mine: replace(mine, user="bob:app"),
    "another principal whose name begins alike": lambda mine: replace(mine, user="ann2:app"),
    "cut at its end": lambda mine: mine.at(requestState=mine.state[:-1]),
    "cut in the middle": lambda mine: mine.at(requestState=mine.state[: len(mine.state) // 2]),
    "cut at its beginning": lambda mine: mine.at(requestState=mine.state[4:]),
    "empty": lambda mine: mine.at(requestState=""),
    "longer": lambda mine: mine.at(requestState=mine.state + "AAAA"),
    "changed where it is signed": lambda mine: mine.at(requestState=changed(mine.state, 0.05)),
    "changed in the middle": lambda mine: mine.at(requestState=changed(mine.state, 0.5)),
    "changed in its payload": lambda mine: mine.at(requestState=changed(mine.state, 0.9)),
    "no text": lambda mine: mine.at(requestState=3),
    "an object": lambda mine: mine.at(requestState={"bridge": "x"}),
    "with other arguments": lambda mine: mine.at(arguments={"n": 2}),
    "with more params": lambda mine: mine.at(task={"ttl": 1}),
    "of another tool": lambda mine: mine.at(name=mine.params["name"].replace("asks", "other")),
    "of another server": lambda mine: mine.at(name=mine.params["name"].replace("files", "bank") + "x"),
    "at another method": lambda mine: replace(mine, method="prompts/get"),
    "a cursor": cursor,
    "of another bridge": of_another_bridge,
}


@each_once
@req("SEC-5", "MRTR-4", at=E)
@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_state_continues_its_own_call_alone(kind: str, attack: str) -> None:
    async def main() -> None:
        bridge, servers, name = KINDS[kind]()
        async with served(bridge, *servers) as world:
            mine = await begin(world, name)
            attempt = ATTACKS[attack](mine)
            theirs = attempt if isinstance(attempt, Attempt) else await attempt
            before = len(world.heard()), len(world.heard("prompts/get"))
            reply = await theirs.send()
            assert reply.code == -32602, reply
            assert (len(world.heard()), len(world.heard("prompts/get"))) == before, "the server heard of it"
            assert "result" in (await mine.send()).message, "who was attacked goes on"

    run(main())


@req("SEC-5", "MRTR-4", at=E)
@pytest.mark.parametrize("kind", KINDS)
def test_a_state_ends(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """When its time is over; that of a held call also with the call."""

    async def main() -> None:
        bridge, servers, name = KINDS[kind]()
        async with served(bridge, *servers) as world:
            mine, later = await begin(world, name), await begin(world, name)
            assert "result" in (await mine.send()).message
            before = len(world.heard())
            again = await mine.send()
            if "held" in kind:
                assert again.code == -32602
                assert len(world.heard()) == before
            real = time.time
            monkeypatch.setattr(time, "time", lambda: real() + 700)
            before = len(world.heard())
            assert (await later.send()).code == -32602
            assert len(world.heard()) == before

    run(main())


# -- sessions, tasks, ids, results ------------------------------------------------------------------------


async def another_session(world: World) -> None:
    """The session of one user is none of another, whichever HTTP method is used."""
    for row in (each for each in DEFAULT if each.handshake and each.http is SESSION.http):
        session = await world.open("ann:app", row)
        before = len(world.heard("tools/list"))
        for user, status in (("bob:app", {403, 404}), ("", {401})):
            reply = await world.post(user, "tools/list", row=row, session=session)
            assert reply.status in status
            assert "result" not in reply.message
            await world.post(
                user, "notifications/cancelled", {"requestId": 1}, id_=None, row=row, session=session
            )
            headers = world.headers(user, row, "", None, session)
            for verb in ("GET", "DELETE"):
                async with world.http.request(verb, world.url, headers=headers) as response:
                    assert response.status in status | {405}, verb
        assert len(world.heard("tools/list")) == before
        assert (await world.post("ann:app", "tools/list", row=row, session=session)).result["tools"]
        for wrong in (session[:-1], session + "x", "", "../" + session):
            reply = await world.post("ann:app", "tools/list", row=row, session=wrong)
            assert reply.status in {400, 404}, wrong


async def another_task(world: World) -> None:
    """The task of one user is none of another."""
    capabilities = capabilities_with_tasks(MODERN, EVERYTHING)
    begun = (await world.post("ann:app", "tools/call", {"name": "asking"}, capabilities=capabilities)).result
    task = {"taskId": begun["taskId"]}
    for user in ("bob:app", "ann2:app"):
        for method in ("tasks/get", "tasks/update", "tasks/cancel"):
            more: Message = {"inputResponses": {}} if method == "tasks/update" else {}
            reply = await world.post(user, method, {**task, **more}, capabilities=capabilities)
            assert reply.code == -32602, (user, method, reply)
    state = (await world.post("ann:app", "tasks/get", task, capabilities=capabilities)).result
    assert state["status"] in ("working", "input_required")
    await world.post("ann:app", "tasks/cancel", task, capabilities=capabilities)


async def another_request(world: World) -> None:
    """Requests of two users with one id and one progress token are two, and none cancels that of the other."""
    params: Message = {"name": "waits", "_meta": {"progressToken": 7}}
    calls = [asyncio.ensure_future(world.post(user, "tools/call", params)) for user in USERS]
    await until(lambda: len(world.heard()) == 2)
    assert (await world.post("bob:app", "notifications/cancelled", {"requestId": 1}, id_=None)).status == 202
    assert [reason for server in world.made for reason in server.cancelled] == []
    world.go.set()
    for call in calls:
        assert (await call).result["content"] == text("done")["content"]


async def another_stream(world: World) -> None:
    """A listen stream of one user is not ended by another one's cancellation of its id."""
    params = {"notifications": {"toolsListChanged": True}}
    streams = [asyncio.ensure_future(world.post(user, "subscriptions/listen", params)) for user in USERS]
    await until(lambda: sum(len(server.listens) for server in world.made) == 2)
    assert (await world.post("bob:app", "notifications/cancelled", {"requestId": 1}, id_=None)).status == 202
    await world.post("bob:app", "tools/list")
    assert not any(stream.done() for stream in streams)
    for stream in streams:
        stream.cancel()
    await asyncio.wait(streams)


async def another_result(world: World) -> None:
    """A private result is returned again to its principal and client alone, and to nobody who is not known."""
    for user in ("ann:app", "ann:other", "bob:app", "ann2:app"):
        before = len(world.heard("resources/read"))
        found = [(await world.post(user, "resources/read", {"uri": "a:x"})).result for _ in range(2)]
        assert len(world.heard("resources/read")) == before + 1, user
        assert found[0]["contents"] == found[1]["contents"]
        assert found[1]["cacheScope"] == "private"
    session = await world.open("bob:app", SESSION)
    before = len(world.heard("resources/read"))
    await world.post("bob:app", "resources/read", {"uri": "a:x"}, row=SESSION, session=session)
    assert len(world.heard("resources/read")) == before + 1, "that of another revision is none of this"


async def result_of_nobody(world: World) -> None:
    """Without authentication nothing tells senders apart, so a private result is returned to nobody again."""
    for number in (1, 2, 3):
        assert (await world.post("", "resources/read", {"uri": "a:x"})).result["contents"]
        assert len(world.heard("resources/read")) == number


async def lying_scope(world: World) -> None:
    """A scope that is none of the two is private."""
    for user in ("ann:app", "bob:app"):
        assert (await world.post(user, "tools/list")).result["tools"] == []
    assert len(world.heard("tools/list")) == 2


def users(there: Revision, **options: Any) -> Callable[[asyncio.Event], tuple[Bridge, list[Servers]]]:
    """A bridge whose users are told apart by tokens."""

    def make(go: asyncio.Event) -> tuple[Bridge, list[Servers]]:
        async def waits(up: Upstream, request: Message) -> Message:
            up.progresses(request, 1)
            await go.wait()
            return text("done")

        hints = {"resultType": "complete", "ttlMs": HOUR}
        contents = {"contents": [{"uri": "a:x", "text": "of one user"}], **hints, "cacheScope": "private"}
        listed: Message = {"tools": [marked_tool(there, "asking")]}
        if options.get("cache") is not None:
            listed = {"tools": [], **hints, "cacheScope": "PUBLIC"}
        replies: Any = {"resources/read": contents if options.get("cache") is not None else {"contents": []}}
        works = {"waits": waits, "asking": long_work, **TASK_METHODS}
        servers = Servers(lambda: offering_tasks(Upstream(there, works, {"tools/list": listed, **replies})))
        given = {"auth": auth(), **options}
        return bridge_to(servers, there, **given), [servers]

    return make


BETWEEN: Final = [
    (another_session, users(SESSION)),
    (another_session, users(MODERN)),
    (another_task, users(SESSION)),
    (another_request, users(SESSION)),
    (another_request, users(MODERN)),
    (another_stream, users(MODERN)),
    (another_result, users(MODERN, cache=mcprev.ResultCache())),
    (result_of_nobody, users(MODERN, cache=mcprev.ResultCache(), auth=None)),
    pytest.param(lying_scope, users(MODERN, cache=mcprev.ResultCache()), marks=pytest.mark.passes_wrong),
]


@req("SEC-5", "SEC-6", "CACHE-5", at=E)
@pytest.mark.parametrize(
    ("attack", "make"), BETWEEN, ids=lambda each: getattr(each, "__name__", "") if callable(each) else ""
)
def test_nobody_gets_what_is_of_another(
    attack: Callable[[World], Awaitable[None]],
    make: Callable[[asyncio.Event], tuple[Bridge, list[Servers]]],
) -> None:
    async def main() -> None:
        go = asyncio.Event()
        bridge, servers = make(go)
        async with served(bridge, *servers) as world:
            world.go = go
            await attack(world)

    run(main())
