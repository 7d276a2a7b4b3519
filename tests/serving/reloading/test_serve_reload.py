"""`mcprev serve --reload`: a client keeps its session while the process of its server is replaced."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

import mcprev
from fuzz.fuzzing import sampled_of
from helpers.requirements import req
from helpers.running import run
from mcprev.revisions import DEFAULT, Revision
from mcprev.serving.kept_session import KeptSession
from mcprev.wire.jsonrpc import Response

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
        on_change: Callable[[mcprev.Change], None] = lambda change: changes.append(change.what)  # noqa: E731
        opening = mcprev.connect(
            target, revisions=[row.name], restart=False, on_change=on_change if row.handshake else None
        )
        async with opening as client:
            await said(client, "hello Ann")
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
            assert client.reopened == 0
            if row.handshake:
                assert {"tools"} <= set(changes)
        assert b"words.py changed: restarting the server" in b"".join(heard)

    run(main())


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
        async with mcprev.connect(url, revisions=[MODERN.name]) as client:
            await said(client, "hello Ann")
        write(tmp_path / "words.py", "HELLO = 'welcome'\n")
        line = b""
        while b"listening at " not in line:
            line = await process.stderr.readline()
            assert line
        async with mcprev.connect(url, revisions=[MODERN.name]) as client:
            await said(client, "welcome Ann")
        process.terminate()
        assert await process.wait() == 0

    run(main())


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
