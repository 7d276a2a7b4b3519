"""`mcprev serve --reload`: a client keeps its session while the process of its server is replaced."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final

import pytest

import mcprev
from fuzz.fuzzing import sampled_of
from helpers.requirements import B, req
from helpers.running import run, until
from mcprev.cli.reload import MAX_WAITING, MAX_WAITING_BYTES, WaitingLines
from mcprev.protocol.subscriptions import ACKNOWLEDGED, LISTEN
from mcprev.revisions import DEFAULT, Revision
from mcprev.serving.kept_session import MAX_STATE_BYTES, KeptSession
from mcprev.wire.jsonrpc import Response
from mcprev.wire.meta_keys import SUBSCRIPTION_ID

SESSIONS: Final = [row for row in DEFAULT if row.handshake]
OLDEST, NEWEST, MODERN = SESSIONS[0], SESSIONS[-1], DEFAULT[-1]
APP: Final = """
import asyncio, os
import mcprev
from words import HELLO

app = mcprev.App("greeter", "1.0")

@app.tool
async def greet(name: str) -> str:
    return f"{HELLO} {name}"

@app.tool
async def visits(ctx: mcprev.Context) -> int:
    return await ctx.session.update("visits", lambda visits: visits + 1, 0)

@app.tool
async def wait() -> None:
    await asyncio.sleep(60)
"""
COMMAND: Final = (sys.executable, "-m", "mcprev", "serve", "app.py", "--reload")


def write(path: Path, text: str) -> None:
    """Write a source file with another time of change, however fast it is written again."""
    before = path.stat().st_mtime if path.exists() else None
    path.write_text(text, encoding="utf-8")
    if before is not None:
        os.utime(path, (before + 2, before + 2))


def noted_in(changes: list[str]) -> Callable[[mcprev.Change], None]:
    """Return what notes the changes that a client is told of."""

    def note(change: mcprev.Change) -> None:
        changes.append(change.what)

    return note


async def said(client: mcprev.Client, wanted: str) -> None:
    """Call until the server says what is wanted; a call that the restart cuts off is made again."""
    async with asyncio.timeout(15):
        while True:
            try:
                if (await client.call_tool("greet", {"name": "Ann"})).text == wanted:
                    return
            except mcprev.RpcError as error:
                assert "server" in str(error)  # noqa: PT017 - only a restart is an error
            await asyncio.sleep(0.02)


@pytest.mark.slow
@req("STDIO-7", everywhere=True)
@pytest.mark.parametrize(
    "row", sampled_of([OLDEST, NEWEST, MODERN], [NEWEST, MODERN]), ids=lambda row: row.name
)
def test_a_client_on_stdio_keeps_its_session(row: Revision, tmp_path: Path) -> None:
    write(tmp_path / "words.py", "HELLO = 'hello'\n")
    write(tmp_path / "app.py", APP)
    changes: list[str] = []
    heard: list[bytes] = []

    async def main() -> None:
        broken = asyncio.Event()

        def hear(data: bytes) -> None:
            heard.append(data)
            if b"SyntaxError" in data:
                broken.set()

        target = mcprev.stdio(*COMMAND, cwd=tmp_path, stderr=hear)
        opening = mcprev.connect(target, revisions=[row.name], restart=False, on_change=noted_in(changes))
        async with opening as client:
            await said(client, "hello Ann")
            assert (await client.call_tool("visits")).data == 1
            waiting = asyncio.create_task(client.call_tool("wait"))
            await client.ping()
            write(tmp_path / "words.py", "HELLO = 'welcome'\n")
            with pytest.raises(mcprev.RpcError, match="started again because its source changed"):
                await asyncio.wait_for(waiting, 15)
            await said(client, "welcome Ann")
            write(tmp_path / "words.py", "HELLO = (\n")
            await asyncio.wait_for(broken.wait(), 15)
            write(tmp_path / "words.py", "HELLO = 'again'\n")
            await said(client, "again Ann")
            assert (await client.call_tool("visits")).data == 2
            assert client.reopened == 0
            assert changes.count("tools") >= 2
        assert b"words.py changed: restarting the server" in b"".join(heard)

    run(main())


@pytest.mark.slow
@req("HTTP-3", everywhere=True)
def test_a_server_over_http_is_at_the_same_address(tmp_path: Path) -> None:
    write(tmp_path / "words.py", "HELLO = 'hello'\n")
    write(tmp_path / "app.py", APP)

    async def main() -> None:
        process = await asyncio.create_subprocess_exec(
            *COMMAND, "--http", "0", cwd=tmp_path, stderr=asyncio.subprocess.PIPE
        )
        assert process.stderr is not None
        line = b""
        while b"listening at " not in line:
            line = await process.stderr.readline()
            assert line
        url = line.decode().partition("listening at ")[2].partition(";")[0]
        assert all(row.name in line.decode() for row in DEFAULT)
        changes: dict[str, list[str]] = {row.name: [] for row in (NEWEST, MODERN)}
        async with AsyncExitStack() as stack:
            clients: dict[str, mcprev.Client] = {}
            for row in (NEWEST, MODERN):
                opening = mcprev.connect(url, revisions=[row.name], on_change=noted_in(changes[row.name]))
                clients[row.name] = await stack.enter_async_context(opening)
                await said(clients[row.name], "hello Ann")
            assert (await clients[NEWEST.name].call_tool("visits")).data == 1
            write(tmp_path / "words.py", "HELLO = 'welcome'\n")
            for client in clients.values():
                await said(client, "welcome Ann")
            assert (await clients[NEWEST.name].call_tool("visits")).data == 2
            assert clients[NEWEST.name].reopened == 0
            await until(lambda: all("tools" in each for each in changes.values()))
        process.terminate()
        assert await process.wait() == 0

    run(main())


@pytest.mark.slow
@req("HTTP-3", everywhere=True)
@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("none.py", "--reload"), 1, b"there is no file 'none.py'"),
        (("none.py", "--reload", "--workers", "2", "--http", "0"), 2, b"pass --reload or --workers"),
        (("none.py", "--reload", "--nonsense"), 2, b"No such option"),
    ],
)
def test_what_no_change_can_mend_ends_the_command(
    arguments: tuple[str, ...], code: int, says: bytes, tmp_path: Path
) -> None:
    async def main() -> None:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "mcprev", "serve", *arguments, cwd=tmp_path,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        async with asyncio.timeout(15):
            assert process.stderr is not None
            told = await process.stderr.read()
            assert (await process.wait(), says in told) == (code, True), told

    run(main())


# -- the session -------------------------------------------------------------------------------------------


def line(**members: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **members}).encode()


def opened(capabilities: dict[str, Any]) -> KeptSession:
    """A session that a client has opened."""
    session = KeptSession()
    assert session.from_client(line(id=1, method="initialize", params={"protocolVersion": NEWEST.version}))
    result = {"protocolVersion": NEWEST.version, "capabilities": capabilities}
    assert session.from_server(line(id=1, result=result))
    assert session.from_client(line(method="notifications/initialized"))
    return session


@req("LIFE-1", everywhere=True)
def test_the_next_process_is_told_of_the_session_and_the_client_of_changes() -> None:
    session = opened({"tools": {"listChanged": True}, "prompts": {"listChanged": False}, "resources": 7})
    level = line(id=2, method="logging/setLevel", params={"level": "debug"})
    one, two = (line(id=id_, method="resources/subscribe", params={"uri": f"x:{id_}"}) for id_ in (3, 4))
    for request, id_ in ((level, 2), (one, 3), (two, 4)):
        assert session.from_client(request)
        assert session.from_server(line(id=id_, result={}))
    session.from_client(line(id=5, method="resources/unsubscribe", params={"uri": "x:3"}))
    session.from_server(line(id=5, result={}))
    assert session.lost("gone") == []
    [again] = session.replay()
    assert json.loads(again)["method"] == "initialize"
    answer = line(id=1, result={"protocolVersion": OLDEST.version, "capabilities": {}})
    found = session.answers_replay(answer)
    assert isinstance(found, Response)
    assert not session.from_server(answer)  # the client has one already
    assert "its protocolVersion is not that" in str(session.differs(found))
    assert session.replay_rest() == [line(method="notifications/initialized"), level, two]
    assert not session.from_server(line(id=2, result={}))
    assert session.from_server(line(id=6, result={}))
    assert [json.loads(each)["method"] for each in session.changed()] == ["notifications/tools/list_changed"]


@req("LIFE-1", everywhere=True)
def test_requests_of_both_sides_end_with_the_process() -> None:
    session = opened({})
    assert session.from_client(line(id=7, method="tools/call", params={}))
    assert session.from_server(line(id="s1", method="roots/list"))
    error, cancelled = map(json.loads, session.lost("gone"))
    assert (error["id"], error["error"]["message"]) == (7, "gone")
    assert cancelled["params"] == {"requestId": "s1", "reason": "gone"}
    assert session.lost("gone") == []
    assert not session.from_client(line(id="s1", result={"roots": []}))  # of the process before
    assert session.from_server(line(id="s1", method="roots/list")) == line(id="s1", method="roots/list")
    assert session.from_client(line(id="s1", result={"roots": []}))  # of this one


@req("LIFE-1", "CANC-3", everywhere=True)
@pytest.mark.parametrize("id_", [1, "1", "s1"])
@pytest.mark.parametrize("together", [False, True], ids=["lines", "batch"])
def test_an_answer_on_its_way_is_none_to_the_next_question_of_the_same_id(id_: Any, together: bool) -> None:
    """Each process counts its questions anew: what a user said to the old one must not be taken for consent to the new."""
    session = opened({})
    old = {"id": id_, "method": "elicitation/create", "params": {"message": "Read the file?"}}
    new = {"id": id_, "method": "elicitation/create", "params": {"message": "Remove the file?"}}
    assert session.from_server(line(**old)) == line(**old)
    session.lost("gone")
    shown = json.loads(session.from_server(line(**new)) or b"")
    assert shown.pop("id") != id_
    assert shown == {"jsonrpc": "2.0", "method": new["method"], "params": new["params"]}
    shown = json.loads(session.from_server(line(**new)) or b"")["id"]  # however often
    yes, no = {"id": id_, "result": {"action": "accept"}}, {"id": shown, "result": {"action": "decline"}}
    lines = [b"[" + line(**yes) + b"," + line(**no) + b"]"] if together else [line(**yes), line(**no)]
    passed = [json.loads(each) for each in map(session.from_client, lines) if each is not None]
    answer = {"jsonrpc": "2.0", "id": id_, "result": {"action": "decline"}}
    assert passed == [[answer]] if together else [answer]


@req("LIFE-1", "CANC-1", everywhere=True)
def test_who_cancels_hears_no_more_of_it() -> None:
    session = opened({})
    session.from_server(line(id=1, method="roots/list"))
    session.lost("gone")
    shown = json.loads(session.from_server(line(id=1, method="roots/list")) or b"")["id"]
    params = {"requestId": 1, "reason": "no more"}
    told = json.loads(session.from_server(line(method="notifications/cancelled", params=params)) or b"")
    assert told["params"] == {**params, "requestId": shown}
    for id_ in range(10, 20):
        session.from_client(line(id=id_, method="tools/call", params={}))
        session.from_client(line(method="notifications/cancelled", params={"requestId": id_}))
    assert session.lost("gone") == []


@req("LIFE-1", everywhere=True)
def test_a_client_that_was_not_answered_is_answered_by_the_next_process() -> None:
    session = KeptSession()
    session.from_client(line(id=1, method="initialize", params={}))
    assert session.lost("gone") == []
    assert len(session.replay()) == 1
    answer = line(id=1, result={"protocolVersion": NEWEST.version, "capabilities": {}})
    assert session.answers_replay(answer) is not None
    assert session.from_server(answer)
    assert session.replay_rest() == []
    assert session.changed() == []


# -- listen streams ----------------------------------------------------------------------------------------


def listen(id_: int, **asked: Any) -> bytes:
    return line(id=id_, method=LISTEN, params={"notifications": asked})


def acknowledged(id_: int, **accepted: Any) -> bytes:
    params = {"notifications": accepted, "_meta": {SUBSCRIPTION_ID: id_}}
    return line(method=ACKNOWLEDGED, params=params)


@req("SUB-5", "SUB-8", at=MODERN.name)
def test_a_listen_stream_goes_on_at_the_next_process_and_tells_that_all_has_changed() -> None:
    session = KeptSession()
    asked = listen(1, toolsListChanged=True, resourceSubscriptions=["x:1"], promptsListChanged=True)
    session.from_client(asked)
    opened = acknowledged(1, toolsListChanged=True, resourceSubscriptions=["x:1"])
    assert session.reopened(opened) == []
    assert session.from_server(opened) == opened
    session.from_client(line(id=2, method="tools/call", params={}))
    session.leave()
    assert session.from_server(line(id=1, result={})) is None, "the old process ends its streams"
    assert [json.loads(each)["id"] for each in session.lost("gone")] == [2]
    assert session.streams() == [asked]
    told = [json.loads(each) for each in session.reopened(opened)]
    assert session.from_server(opened) is None
    assert session.reopened(opened) == []
    meta = {"_meta": {SUBSCRIPTION_ID: 1}}
    assert [(each["method"], each["params"]) for each in told] == [
        ("notifications/tools/list_changed", meta),
        ("notifications/resources/updated", {"uri": "x:1", **meta}),
    ]
    end = line(id=1, result={})
    assert session.from_server(end) == end
    assert session.streams() == []


@req("SUB-4", "SUB-5", at=MODERN.name)
def test_a_stream_that_is_new_refused_or_cancelled_is_none_to_go_on_with() -> None:
    session = KeptSession()
    for id_ in (1, 2, 3):
        session.from_client(listen(id_, toolsListChanged=True))
    session.from_client(line(method="notifications/cancelled", params={"requestId": 1}))
    refused = line(id=2, error={"code": -32603, "message": "too many"})
    assert session.from_server(refused) == refused
    assert session.lost("it could not be imported") == []
    assert session.streams() == [listen(3, toolsListChanged=True)]
    opened = acknowledged(3, toolsListChanged=True)
    assert session.reopened(opened) == []
    assert session.from_server(opened) == opened, "the client has not heard of it before"


@req("SUB-1", "SEC-6", everywhere=True)
@pytest.mark.parametrize("kind", ["streams", "subscriptions"])
def test_what_is_told_the_next_process_is_bounded_in_bytes(kind: str) -> None:
    session = opened({})
    uri = "x:" + "y" * (MAX_STATE_BYTES // 10)
    for id_ in range(10, 40):
        asked = (
            listen(id_, resourceSubscriptions=[f"{uri}{id_}"])
            if kind == "streams"
            else line(id=id_, method="resources/subscribe", params={"uri": f"{uri}{id_}"})
        )
        assert session.from_client(asked) == asked
    kept = session.streams() if kind == "streams" else session.replay_rest()[1:]
    assert MAX_STATE_BYTES / 2 < sum(map(len, kept)) <= MAX_STATE_BYTES
    if kind == "subscriptions":
        for id_ in range(10, 40):
            undone = line(id=id_ + 100, method="resources/unsubscribe", params={"uri": f"{uri}{id_}"})
            session.from_client(undone)
        again = line(id=200, method="resources/subscribe", params={"uri": uri})
        session.from_client(again)
        assert session.replay_rest()[1:] == [again]


@req("LIFE-1", at=B)
def test_what_else_is_in_a_batch_is_not_done_again() -> None:
    session = opened({})
    level = {"jsonrpc": "2.0", "id": 2, "method": "logging/setLevel", "params": {"level": "debug"}}
    session.from_client(json.dumps([level, {**level, "id": 3, "method": "tools/call"}]).encode())
    assert [json.loads(each) for each in session.replay_rest()[1:]] == [level]


# -- lines that wait ---------------------------------------------------------------------------------------


class Pipe:
    """Notes whether the client is read."""

    def __init__(self) -> None:
        self.reads = True

    def pause_reading(self) -> None:
        assert self.reads
        self.reads = False

    def resume_reading(self) -> None:
        assert not self.reads
        self.reads = True


@req("SEC-6", everywhere=True)
@pytest.mark.parametrize(
    ("size", "most"), [(1, MAX_WAITING), (MAX_WAITING_BYTES // 8, 8), (2 * MAX_WAITING_BYTES, 0)]
)
def test_lines_that_wait_for_a_process_are_bounded_in_number_and_bytes(size: int, most: int) -> None:
    async def main() -> None:
        pipe = Pipe()
        waiting, count = WaitingLines(pipe), 0
        while pipe.reads:
            waiting.put(b"x" * size)
            count += 1
        assert count == most + 1
        while count:
            each = await waiting.get()
            waiting.done(each)
            count -= 1
            assert pipe.reads is (count < MAX_WAITING // 5 and count * size < MAX_WAITING_BYTES // 5)

    run(main())


@req("LIFE-1", everywhere=True)
def test_without_a_session_nothing_is_told_again() -> None:
    session = KeptSession()
    session.from_client(line(id=1, method="server/discover", params={}))
    session.from_client(b"no json")
    session.from_client(b'[{"jsonrpc":"2.0","id":2,"method":"tools/list"}]')
    assert [json.loads(each)["id"] for each in session.lost("gone")] == [1, 2]
    assert (session.has_session, session.replay(), session.replay_rest(), session.changed()) == (
        False,
        [],
        [],
        [],
    )
