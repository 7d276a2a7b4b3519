"""Several servers behind a bridge of several processes: a session is one, whichever process its requests come to."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

import aiohttp
import pytest

import mcprev
from api.wire import CLIENT_CAPABILITIES, VERSION, Message
from bridge.fellows_of_bridges import ChoosingClient, Fellows, each_store, fellows, stores
from bridge.hands import Upstream, Work, said, text
from bridge.joining import (
    MODERN,
    SESSION,
    TOOLS,
    Ends,
    asked,
    each_cell,
    ends,
    joined,
    last,
    name_of,
    target_of,
)
from bridge.task_hands import TASK_METHODS, long_work, marked_tool
from bridge.test_several_auth import verify
from fuzz.fuzzing import each_once
from helpers.requirements import E, req
from helpers.running import run, until
from mcprev.bridge.answers import GONE
from mcprev.bridge.bridge import Bridge
from mcprev.bridge.peers import ENDED
from mcprev.bridge.upstreams import Bounds
from mcprev.core.store import Store
from mcprev.errors import INTERNAL_ERROR, INVALID_PARAMS
from mcprev.protocol import tasks
from mcprev.protocol.subscriptions import CHANGES, Changed
from mcprev.revisions import Revision
from mcprev.sharing.record import key_of, log_ttl
from mcprev.sharing.streams import LOST
from mcprev.sharing.worker import LEASE
from mcprev.transports.http.server.options import HttpSettings

NAMES: Final = ("files", "bank")
UPDATED: Final = CHANGES[Changed.RESOURCE].method
CHANGED: Final = CHANGES[Changed.TOOLS].method
OTHER: Final = 1
"""The process that does not hold the session, which begins at the first one."""
LIMIT: Final = 300.0
IDLE: Final = HttpSettings().idle
"""The seconds for which a session may be idle."""
each_server = pytest.mark.parametrize("there", [SESSION, MODERN], ids=lambda row: row.name)


class Waiting:
    """A tool that ends when the test says so."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.go_on = asyncio.Event()

    async def waits(self, up: Upstream, request: Message) -> Message:
        up.progresses(request, 1)
        self.begun.set()
        await self.go_on.wait()
        return text(name_of(up))


def bridge_of(servers: Ends, there: Revision, store: Store, **more: Any) -> Bridge:
    return joined(servers, there, store=store, bounds=Bounds(user=20), **more)


def made_once(servers: Ends) -> bool:
    return all(len(server.made) == 1 for server in servers.values())


def works(waiting: Waiting) -> Mapping[str, Work]:
    return {**TOOLS, "waits": waiting.waits}


@req("SEAM-10", "HTTP-3", "HTTP-9")
@each_store
@each_cell
@each_once
def test_every_request_is_served_wherever_it_comes(
    row: Revision, there: Revision, kind: str, tmp_path: Path
) -> None:
    """Lists, calls, questions, progress and log messages; a session has one connection to each server."""
    servers = ends(there, *NAMES)

    async def answer(params: Any) -> Any:
        return {"name": params.message}

    async def main() -> None:
        with stores(kind, tmp_path) as open_store:
            async with (
                fellows(lambda store: bridge_of(servers, there, store), open_store) as made,
                mcprev.connect(made.target, mode=row.name, elicitation=answer) as client,
            ):
                listed = [tool.name async for tool in client.tools()]
                assert listed == [f"{name}__{tool}" for name in NAMES for tool in TOOLS]
                heard: list[float] = []

                def progress(value: float, _total: float | None, _message: str | None) -> None:
                    heard.append(value)

                for name in NAMES * 2:
                    found = await client.call_tool(f"{name}__reports", {}, progress=progress)
                    assert json.loads(found.text) == name
                assert heard == [1, 2] * 4
                calls = [client.call_tool(f"{name}__asks", {"n": n}) for n in range(3) for name in NAMES]
                for n, result in enumerate(await asyncio.gather(*calls)):
                    arguments, (given,) = json.loads(result.text)
                    assert arguments == {"n": n // 2}
                    assert given["content"]["name"] == f"who? {NAMES[n % 2]}"
                assert len(set(made.front.given)) == 2
                if row.handshake:
                    assert len(made.holders()) == 1
                    assert made_once(servers)
                assert not any(made.held_calls(at) for at in range(2))
            for server in servers.values():
                server.check()

    run(main(), limit=LIMIT)


@req("SEAM-10", "CANC-7", at=SESSION.name)
@each_server
def test_a_call_is_cancelled_from_any_process(there: Revision) -> None:
    waiting = Waiting()
    servers = ends(there, *NAMES, works=works(waiting))

    async def main() -> None:
        async with fellows(
            lambda store: bridge_of(servers, there, store), _one(mcprev.MemoryStore())
        ) as made:
            client = ChoosingClient(SESSION, made.places)
            await client.begin(0)
            for at in (0, OTHER):
                waiting.begun.clear()
                id_ = f"call-{at}"
                params: Message = {"name": "bank__waits", "arguments": {}}
                call = asyncio.ensure_future(client.asking(at, "tools/call", params, id_=id_))
                await waiting.begun.wait()
                reason = {"requestId": id_, "reason": f"enough at {at}"}
                await client.notify(1 - at, "notifications/cancelled", reason)
                assert "error" in await call
                await until(partial(_has_cancelled, servers, at + 1))
            if there.handshake:
                assert _cancelled(servers, "bank") == ["enough at 0", "enough at 1"]
            assert not _cancelled(servers, "files")

    run(main(), limit=LIMIT)


def _one(store: Store) -> Any:
    return lambda: store


def _has_cancelled(servers: Ends, times: int) -> bool:
    return len(_cancelled(servers, "bank")) == times


def _has_asked(servers: Ends, name: str, method: str) -> bool:
    return bool(asked(servers, name, method))


def _cancelled(servers: Ends, name: str) -> list[str]:
    return [reason for up in servers[name].upstreams for reason in up.cancelled]


@req("SEAM-10", "SUB-1", "LOG-2", at=SESSION.name)
@each_server
def test_what_servers_tell_reaches_the_client_and_what_it_tells_reaches_them(there: Revision) -> None:
    """Changes of lists and resources, log levels, and changed roots, whichever process has the request or the stream."""
    servers = ends(there, *NAMES, files={"resources/subscribe": {}, "resources/unsubscribe": {}})

    async def main() -> None:
        async with fellows(
            lambda store: bridge_of(servers, there, store), _one(mcprev.MemoryStore())
        ) as made:
            client = ChoosingClient(SESSION, made.places)
            await client.begin(0)
            await client.request(OTHER, "logging/setLevel", {"level": "error"})
            await client.request(OTHER, "resources/subscribe", {"uri": "files+files:one"})
            async with client.listening(OTHER):
                files = last(servers, "files")
                if there.handshake:
                    files.tell(CHANGED)
                    files.tell(UPDATED, {"uri": "files:one"})
                    await client.notify(OTHER, "notifications/roots/list_changed")
                    for name in NAMES:
                        await until(partial(_has_asked, servers, name, "notifications/roots/list_changed"))
                        assert asked(servers, name, "logging/setLevel") == [{"level": "error"}]
                    assert asked(servers, "files", "resources/subscribe") == [{"uri": "files:one"}]
                else:
                    stream = files.listens[-1][0]
                    meta = {"io.modelcontextprotocol/subscriptionId": stream}
                    files.tell(CHANGED, {"_meta": meta})
                    files.tell(UPDATED, {"uri": "files:one", "_meta": meta})
                await client.hears(CHANGED)
                assert (await client.hears(UPDATED))["uri"] == "files+files:one"
            await client.request(OTHER, "resources/unsubscribe", {"uri": "files+files:one"})
            assert made.holders() == [0]
            assert made_once(servers)

    run(main(), limit=LIMIT)


@req("SEAM-10", "TASK-1", "TASK-4", at=SESSION.name)
def test_a_task_is_followed_from_any_process() -> None:
    listed = {"tools": [marked_tool(SESSION, "long_work")]}
    servers = ends(
        SESSION,
        *NAMES,
        works={"long_work": long_work, **TASK_METHODS},
        **{name: {"tools/list": listed} for name in NAMES},
    )
    for server in servers.values():
        server.capabilities = {"tasks": tasks.CORE_CAPABILITY}

    async def main() -> None:
        async with fellows(
            lambda store: bridge_of(servers, SESSION, store), _one(mcprev.MemoryStore())
        ) as made:
            client = ChoosingClient(SESSION, made.places)
            await client.begin(0)
            for at, name in enumerate(NAMES):
                params = {"name": f"{name}__long_work", "task": {"ttl": 30_000}}
                id_ = (await client.request(at, "tools/call", params))["task"]["taskId"]
                state = await client.request(1 - at, tasks.GET, {"taskId": id_})
                assert (state["taskId"], state["status"]) == (id_, "working")
                _, (given,) = said(await client.request(OTHER, tasks.RESULT, {"taskId": id_}))
                assert "in a task" in str(given)
            assert client.user.asked_for == ["sampling/createMessage"] * 2
            assert made_once(servers)

    run(main(), limit=LIMIT)


# -- a process that ends -------------------------------------------------------------------------------------


@req("SEAM-10", "LIFE-16", at=SESSION.name)
@each_server
def test_a_session_goes_on_when_its_process_has_died(there: Revision) -> None:
    """A call in progress gets a typed error; new connections are told the level and the subscriptions again."""
    waiting = Waiting()
    replies: Message = {"resources/subscribe": {}, "resources/unsubscribe": {}}
    servers = ends(there, *NAMES, works=works(waiting), files=replies, bank=replies)

    async def main() -> None:
        async with fellows(
            lambda store: bridge_of(servers, there, store), _one(mcprev.MemoryStore()), 3
        ) as made:
            client = ChoosingClient(SESSION, made.places)
            await client.begin(0)
            await client.request(OTHER, "logging/setLevel", {"level": "error"})
            await client.request(OTHER, "resources/subscribe", {"uri": "bank+bank:one"})
            call = asyncio.ensure_future(
                client.asking(OTHER, "tools/call", {"name": "bank__waits", "arguments": {}})
            )
            await waiting.begun.wait()
            await made.kill(0)
            error = (await call)["error"]
            assert (error["code"], error["data"]) == (INTERNAL_ERROR, LOST["data"])
            async with client.listening(2):
                for name in NAMES:
                    found = await client.call_at(OTHER, f"{name}__who")
                    assert said(found)[0] == name
                await client.hears(CHANGED)
                assert made.holders()[-1] == OTHER
                bank = last(servers, "bank")
                assert len(servers["bank"].made) == 2
                if there.handshake:
                    assert bank.asked("logging/setLevel") == [{"level": "error"}]
                    await until(lambda: bank.asked("resources/subscribe") == [{"uri": "bank:one"}])
                    bank.tell(UPDATED, {"uri": "bank:one"})
                else:
                    await until(lambda: bool(bank.listens))
                    stream, wanted = bank.listens[-1]
                    assert wanted["resourceSubscriptions"] == ["bank:one"]
                    meta = {"io.modelcontextprotocol/subscriptionId": stream}
                    bank.tell(UPDATED, {"uri": "bank:one", "_meta": meta})
                assert (await client.hears(UPDATED))["uri"] == "bank+bank:one"
            await client.call_at(2, "files__who")
            assert len(servers["files"].made) == 2, "one process holds the session"

    run(main(), limit=LIMIT)


@req("SEAM-10", "MRTR-4", at=E)
def test_a_held_call_of_a_process_that_has_died_is_over() -> None:
    servers = ends(SESSION, *NAMES)

    async def main() -> None:
        async with fellows(
            lambda store: bridge_of(servers, SESSION, store), _one(mcprev.MemoryStore())
        ) as made:
            begun, go_on = asyncio.Event(), asyncio.Event()

            async def answer(params: Any) -> Any:
                begun.set()
                await go_on.wait()
                return {"name": params.message}

            async with mcprev.connect(made.target, mode=MODERN.name, elicitation=answer) as client:
                call = asyncio.ensure_future(client.call_tool("bank__asks", {}))
                await begun.wait()
                holder = next(at for at in range(2) if made.held_calls(at))
                made.front.only = 1 - holder
                await made.kill(holder)
                go_on.set()
                with pytest.raises(mcprev.InvalidParams) as raised:
                    await call
                assert (raised.value.code, raised.value.message) == (INVALID_PARAMS, GONE)
                again = await client.call_tool("bank__asks", {})
                assert json.loads(again.text)[1][0]["content"]["name"] == "who? bank"

    run(main(), limit=LIMIT)


@req("SEAM-10", "LIFE-16", at=SESSION.name)
def test_a_question_to_the_client_of_a_process_that_has_died_is_not_waited_for() -> None:
    """The call is cancelled at the server within some seconds, not when the user's time is over."""
    servers = ends(SESSION, *NAMES)

    async def main() -> None:
        async with fellows(
            lambda store: bridge_of(servers, SESSION, store), _one(mcprev.MemoryStore())
        ) as made:
            client = ChoosingClient(SESSION, made.places)
            open_ = asyncio.Event()

            async def heard(_at: int, message: Message) -> None:
                if "id" in message:
                    open_.set()

            client.heard = heard  # type: ignore[assignment, method-assign]
            await client.begin(0)
            call = asyncio.ensure_future(
                client.asking(OTHER, "tools/call", {"name": "bank__asks", "arguments": {}})
            )
            await open_.wait()
            await made.kill(OTHER)
            await until(lambda: last(servers, "bank").cancelled == [ENDED])
            call.cancel()
            await asyncio.wait({call})

    run(main(), limit=LIMIT)


@req("SEAM-10", "LIFE-16", at=SESSION.name)
def test_a_process_that_stops_ends_what_was_passed_on_to_it() -> None:
    """New requests of the session are served elsewhere meanwhile."""
    waiting = Waiting()
    servers = ends(SESSION, *NAMES, works=works(waiting))

    async def main() -> None:
        async with fellows(
            lambda store: bridge_of(servers, SESSION, store), _one(mcprev.MemoryStore())
        ) as made:
            client = ChoosingClient(SESSION, made.places)
            await client.begin(0)
            call = asyncio.ensure_future(client.call_at(OTHER, "bank__waits"))
            await waiting.begun.wait()
            stopping = asyncio.ensure_future(made.bridges[0]._clients.end())
            await asyncio.sleep(0)
            assert said(await client.call_at(OTHER, "files__who"))[0] == "files"
            assert len(servers["files"].made) == 2
            assert not stopping.done()
            waiting.go_on.set()
            assert said(await call) == "bank"
            await stopping

    run(main(), limit=LIMIT)


@req("SEAM-10", "HTTP-9", at=SESSION.name)
def test_a_process_that_was_suspended_does_not_serve_a_session_that_another_one_has() -> None:
    servers = ends(SESSION, *NAMES)

    async def main() -> None:
        async with fellows(
            lambda store: bridge_of(servers, SESSION, store), _one(mcprev.MemoryStore())
        ) as made:
            client = ChoosingClient(SESSION, made.places)
            await client.begin(0)
            worker = made.peers(0)._worker
            worker._renewed -= LEASE  # it has not run for so long, and has not noticed yet
            await client.call_at(0, "files__who")
            assert made_once(servers), "nobody has taken it over"
            made.peers(OTHER)._worker._alive[worker.number] = asyncio.get_running_loop().time(), False
            await client.call_at(OTHER, "files__who")
            assert made.holders() == [0, OTHER]
            await client.call_at(0, "files__who")
            assert made.holders() == [OTHER]
            assert [len(up.asked("tools/call")) for up in servers["files"].upstreams] == [1, 2]

    run(main(), limit=LIMIT)


@req("SEAM-10", "HTTP-9", at=SESSION.name)
def test_many_requests_at_once_take_a_session_over_once() -> None:
    """They come to two processes; one of these has the session then, also if it learns that later than the other."""
    servers = ends(SESSION, *NAMES)

    class Slow(mcprev.MemoryStore):
        async def write(self, key: str, value: bytes, /, **options: Any) -> int | None:
            found = await super().write(key, value, **options)
            if "bridged/" in key:
                await asyncio.sleep(0.5)
            return found

    async def main() -> None:
        async with fellows(lambda store: bridge_of(servers, SESSION, store), _one(Slow()), 3) as made:
            client = ChoosingClient(SESSION, made.places)
            await client.begin(0)
            await made.kill(0)
            calls = [client.call_at(1 + number % 2, f"{NAMES[number % 2]}__who") for number in range(20)]
            found = [said(result)[0] for result in await asyncio.gather(*calls)]
            assert found == [*NAMES] * 10
            assert len(made.holders()) == 2, made.holders()  # the one that was killed does not know
            assert all(len(server.made) == 2 for server in servers.values())

    run(main(), limit=LIMIT)


@req("SEAM-10", "MRTR-4", "SEC-5", at=E)
def test_a_held_call_is_continued_by_its_principal_and_client_alone() -> None:
    servers = ends(SESSION, *NAMES)
    bearer = mcprev.Bearer(
        verify, resource="http://127.0.0.1/mcp", authorization_servers=["https://as.example"]
    )

    async def main() -> None:
        async with fellows(
            lambda store: bridge_of(
                servers, SESSION, store, options={"bank": {"per_principal": True}}, auth=bearer
            ),
            _one(mcprev.MemoryStore()),
        ) as made:

            async def ask(at: int, who_asks: str, more: Message) -> Message:
                http, url = made.places[at]
                meta: Message = {VERSION: MODERN.version, CLIENT_CAPABILITIES: {"elicitation": {"form": {}}}}
                params: Message = {"name": "bank__asks", "arguments": {}, **more, "_meta": meta}
                headers = {
                    "Authorization": f"Bearer {who_asks}:of-the-bridge",
                    "Accept": "application/json, text/event-stream",
                    "MCP-Protocol-Version": MODERN.version,
                    "Mcp-Method": "tools/call",
                    "Mcp-Name": "bank__asks",
                }
                message: Message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
                async with http.post(url, json=message, headers=headers) as response:
                    found: Message = json.loads((await response.text()).rpartition("data:")[2])
                return found

            for at in range(2):
                asked_for = (await ask(at, "alice:app", {}))["result"]
                assert asked_for["resultType"] == "input_required"
                given = {"action": "accept", "content": {"name": "Ada"}}
                more: Message = {
                    "inputResponses": dict.fromkeys(asked_for["inputRequests"], given),
                    "requestState": asked_for["requestState"],
                }
                for stranger in ("bob:app", "alice:other"):
                    for process in range(2):
                        refused = await ask(process, stranger, more)
                        assert refused["error"]["code"] == INVALID_PARAMS
                result = (await ask(1 - at, "alice:app", more))["result"]
                assert said(result)[1] == [given]

    run(main(), limit=LIMIT)


# -- the configuration ---------------------------------------------------------------------------------------


@req("SEAM-10", "TIME-1", at=SESSION.name)
@each_server
def test_servers_are_configured_anew_in_each_process_without_a_lost_call(there: Revision) -> None:
    waiting = Waiting()
    servers = ends(there, "files", "bank", "shop", works=works(waiting))

    targets = {name: target_of(server) for name, server in servers.items()}

    def some(*names: str) -> dict[str, Any]:
        return {name: targets[name] for name in names}

    async def main() -> None:
        async with fellows(
            lambda store: Bridge(some("files", "bank"), server_revisions=[there.name], store=store),
            _one(mcprev.MemoryStore()),
        ) as made:
            client = ChoosingClient(SESSION, made.places)
            await client.begin(0)
            async with client.listening(OTHER):
                call = asyncio.ensure_future(client.call_at(OTHER, "bank__waits"))
                await waiting.begun.wait()
                for bridge in made.bridges:
                    bridge.replace_servers(some("files", "shop"))
                await client.hears(CHANGED)
                for at in range(2):
                    listed = (await client.request(at, "tools/list"))["tools"]
                    assert {tool["name"].partition("__")[0] for tool in listed} == {"files", "shop"}
                    assert said(await client.call_at(at, "shop__who"))[0] == "shop"
                    gone = await client.asking(at, "tools/call", {"name": "bank__who", "arguments": {}})
                    assert gone["error"]["code"] == INVALID_PARAMS
                waiting.go_on.set()
                assert said(await call) == "bank"
            assert len(servers["files"].made) == 1

    run(main(), limit=LIMIT)


# -- the records of sessions ---------------------------------------------------------------------------------


class Watched(mcprev.MemoryStore):
    """A store that keeps how the records of sessions were written."""

    def __init__(self) -> None:
        super().__init__(clock=asyncio.get_running_loop().time)
        self.written: dict[str, float | None] = {}
        self.refused = ""
        """What is in the keys of records that cannot be written."""

    async def write(self, key: str, value: bytes, /, **options: Any) -> int | None:
        if self.refused and self.refused in key:
            raise mcprev.StoreError("the store is full")
        if "bridged/" in key:
            self.written[key.rpartition("/")[2]] = options.get("ttl")
        return await super().write(key, value, **options)

    async def recorded(self, made: Fellows) -> int:
        """How many records there are."""
        found = [await made.shared(0)._store.read(f"bridged/{key}") for key in self.written]
        return sum(record is not None for record in found)


@req("SEAM-10", "HTTP-9", "HTTP-12", at=SESSION.name)
@pytest.mark.parametrize("at", [0, OTHER], ids=["at its process", "at another one"])
def test_the_record_of_a_session_ends_with_it(at: int) -> None:
    servers = ends(SESSION, *NAMES)

    async def main() -> None:
        store = Watched()
        async with fellows(lambda _: bridge_of(servers, SESSION, store), _one(store)) as made:
            client = ChoosingClient(SESSION, made.places)
            await client.begin(0)
            await client.call_at(OTHER, "files__who")
            assert store.written == {key_of(client.session): log_ttl(IDLE)}
            assert await store.recorded(made) == 1
            await client.end(at)
            await until(lambda: all(up.lost for server in servers.values() for up in server.made))
            await asyncio.gather(*set(made.shared(0)._state.background) - {made.shared(0)._keeping})
            assert await store.recorded(made) == 0
            assert made.holders() == []

    run(main(), limit=LIMIT)


@req("SEAM-10", "HTTP-9", "HTTP-12", at=SESSION.name)
def test_the_record_of_a_session_whose_process_has_died_ends_with_it_too() -> None:
    servers = ends(SESSION, *NAMES)

    async def main() -> None:
        store = Watched()
        async with fellows(lambda _: bridge_of(servers, SESSION, store), _one(store)) as made:
            client = ChoosingClient(SESSION, made.places)
            await client.begin(0)
            await made.kill(0)
            assert await store.recorded(made) == 1
            await client.end(OTHER)
            await asyncio.gather(*set(made.shared(OTHER)._state.background) - {made.shared(OTHER)._keeping})
            assert await store.recorded(made) == 0

    run(main(), limit=LIMIT)


@req("SEAM-10", "HTTP-9", "HTTP-19", at=SESSION.name)
@pytest.mark.parametrize("sessions", [True, False], ids=["one that does not begin", "none"])
def test_a_request_without_a_session_leaves_no_record(sessions: bool) -> None:
    servers = ends(SESSION, *NAMES)

    async def main() -> None:
        store = Watched()
        store.refused = "/session/"
        async with fellows(
            lambda _: bridge_of(servers, SESSION, store), _one(store), sessions=sessions
        ) as made:
            client = ChoosingClient(SESSION, made.places, {"MCP-Protocol-Version": SESSION.version})
            if sessions:
                with pytest.raises((AssertionError, aiohttp.ClientError)):
                    await client.begin(0)
            else:
                assert len((await client.request(0, "tools/list"))["tools"]) > 1
            await asyncio.sleep(1)
            assert await store.recorded(made) == 0

    run(main(), limit=LIMIT)


@req("SEAM-10", "HTTP-9", "SEC-4", at=SESSION.name)
def test_a_session_is_held_as_long_as_it_is_used_elsewhere_and_no_longer() -> None:
    """Its process gets none of its requests, or only knows of a stream at another one."""
    servers = ends(SESSION, *NAMES)

    async def main() -> None:
        store, idle = Watched(), 30.0
        async with fellows(lambda _: bridge_of(servers, SESSION, store), _one(store), idle=idle) as made:
            client = ChoosingClient(SESSION, made.places)
            await client.begin(0)
            for _ in range(6):
                await asyncio.sleep(idle / 2)
                await client.call_at(OTHER, "files__who")
            async with client.listening(OTHER):
                await asyncio.sleep(3 * idle)
                last(servers, "bank").tell(CHANGED)
                await client.hears(CHANGED)
            assert made_once(servers)
            assert made.holders() == [0]
            await asyncio.sleep(3 * idle)
            assert made.holders() == []
            assert await store.recorded(made) == 0
            assert all(up.lost for server in servers.values() for up in server.made)

    run(main(), limit=1_000.0)  # on the clock of the loop, which goes ahead
