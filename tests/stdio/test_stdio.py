"""Processes and pipes: our server and client over stdio, and everything that can go wrong there."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any, cast

import pytest

import mcprev
from helpers.named import ROW_D, SOME_ROWS
from helpers.requirements import D, E, req
from helpers.running import run, until
from mcprev.errors import ConnectionLost, NegotiationError, ProcessExited
from mcprev.protocol.negotiation import steps as plan
from mcprev.revisions import DEFAULT, LATEST, Revision
from mcprev_types.latest import models as m

HERE = Path(__file__).parent
ECHO = [sys.executable, "-W", "error", str(HERE / "echo_server.py")]
DUMB = [sys.executable, "-S", "-E", str(HERE / "dumb_server.py")]
OLD = ROW_D
each_row = pytest.mark.parametrize("row", DEFAULT, ids=lambda row: row.name)


def echo(**options: Any) -> mcprev.stdio:
    return mcprev.stdio(*ECHO, **options)


def dumb(*arguments: str, **options: Any) -> mcprev.stdio:
    return mcprev.stdio(*DUMB, *arguments, **options)


def said(result: m.CallToolResult) -> str:
    block = result.content[0]
    assert isinstance(block, m.TextContent)
    return block.text


def alive(pid: int) -> bool:
    """Whether a process runs: one that has ended may still wait for its parent, and be gone a moment later."""
    try:
        os.kill(pid, 0)
        state = Path(f"/proc/{pid}/stat").read_text()
    except ProcessLookupError:
        return False
    except FileNotFoundError:
        return not Path("/proc/self").exists()
    return state.rsplit(")", 1)[1].split()[0] != "Z"


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208


# -- the server ------------------------------------------------------------------------------------------


@pytest.mark.slow
@req("STDIO-1", "STDIO-2", "STDIO-9")
@each_row
def test_our_client_and_our_server(row: Revision) -> None:
    """STDIO-1, STDIO-2: at each revision, with noise from the server and its children on its stdout."""

    async def main() -> None:
        errors = bytearray()
        async with mcprev.connect(echo(stderr=errors.extend), mode=row.name) as client:
            assert client.revision == row.name
            tricky = "é \u2028 \u2029 \r\n \x00 \U0001f600"
            assert said(await client.call_tool("echo", {"text": tricky})) == tricky
            await client.call_tool("print")
            big = "x" * 2_000_000
            assert said(await client.call_tool("echo", {"text": big})) == big
        for noise in (b"noise on stdout", b"raw noise", b"child noise"):
            assert noise in errors

    run(main())


def raw_server(lines: list[Any], **options: Any) -> Any:
    data = b"".join(
        (line if isinstance(line, bytes) else json.dumps(line).encode()) + b"\n" for line in lines
    )
    given: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "timeout": 20, **options}
    if "stdin" not in given:
        given["input"] = data
    return cast("Any", subprocess).run(ECHO, check=False, **given)


INITIALIZE = {
    "jsonrpc": "2.0", "id": 1, "method": "initialize",
    "params": {"protocolVersion": OLD.version, "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}},
}  # fmt: skip
CALL = {
    "jsonrpc": "2.0",
    "id": 2,
    "method": "tools/call",
    "params": {"name": "echo", "arguments": {"text": "hi"}},
}


def check_dialogue(output: bytes) -> None:
    answers = {message["id"]: message for message in map(json.loads, output.splitlines())}
    assert answers[1]["result"]["protocolVersion"] == OLD.version
    assert answers[2]["result"]["content"] == [{"type": "text", "text": "hi"}]


@pytest.mark.slow
@req("STDIO-6", "BASE-10", at=D)
def test_end_of_input_ends_the_server_stdio_6() -> None:
    """What was asked before the end is answered, then the process is gone, with nothing on stderr but complaints."""
    done = raw_server([INITIALIZE, CALL])
    assert (done.returncode, done.stderr) == (0, b"")
    check_dialogue(done.stdout)
    done = raw_server([INITIALIZE, b"\xff{", CALL])
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert [json.loads(line).get("error", {}).get("code") for line in lines] == [None, -32700, None]
    check_dialogue(b"\n".join([lines[0], lines[2]]))


@pytest.mark.slow
@req("STDIO-11", everywhere=True)
def test_files_instead_of_pipes(tmp_path: Path) -> None:
    wanted = tmp_path / "in"
    wanted.write_bytes(json.dumps(INITIALIZE).encode() + b"\n" + json.dumps(CALL).encode())
    with wanted.open("rb") as source, (tmp_path / "out").open("wb") as target:
        done = raw_server([], stdin=source, stdout=target)
    assert (done.returncode, done.stderr) == (0, b"")
    check_dialogue((tmp_path / "out").read_bytes())
    done = raw_server([], stdin=subprocess.DEVNULL)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


@pytest.mark.slow
@req("STDIO-6", everywhere=True)
def test_server_whose_client_is_gone_ends() -> None:
    process = subprocess.Popen(ECHO, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps(INITIALIZE).encode() + b"\n")
    process.stdin.flush()
    process.stdout.readline()
    process.stdout.close()
    assert process.wait(10) == 0
    process.communicate()


@pytest.mark.slow
@req("STDIO-6", everywhere=True)
def test_handler_that_waits_does_not_keep_the_server() -> None:
    done = raw_server([INITIALIZE, {**CALL, "params": {"name": "wait"}}])
    assert (done.returncode, done.stderr) == (0, b"")
    assert len(done.stdout.splitlines()) == 1


# -- the client ------------------------------------------------------------------------------------------


@req("STDIO-3", everywhere=True)
def test_noise_on_stdout_is_skipped_stdio_3() -> None:
    async def main() -> None:
        async with mcprev.connect(dumb("noise")) as client:
            assert client.revision == OLD.name
            assert (await client.call_tool("x")).content == []

    run(main())


@req("STDIO-4", everywhere=True)
def test_stderr_is_drained_stdio_4() -> None:
    async def main() -> None:
        async with mcprev.connect(dumb("flood")) as client:
            for _ in range(5):
                await client.call_tool("x")

    run(main())


@req("NEG-4", "NEG-1", at=(D, E))
def test_old_server_is_found_out_neg_4() -> None:
    async def main() -> None:
        async with mcprev.connect(dumb("plain")) as client:
            step = client.plan.step
            assert isinstance(step, plan.Ready)
            assert (step.revision, step.method) == (OLD, plan.Method.INITIALIZE)

    run(main())


@req("NEG-4", at=D)
def test_server_that_exits_is_started_once_more_neg_4(tmp_path: Path) -> None:
    async def main() -> None:
        async with mcprev.connect(dumb("once", str(tmp_path / "mark"))) as client:
            assert client.revision == OLD.name

    run(main())


@req("NEG-4", at=D)
def test_server_that_only_exits_is_an_error_neg_4() -> None:
    async def main() -> None:
        with pytest.raises(NegotiationError, match="nothing to do") as caught:
            async with mcprev.connect(dumb("exit")):
                pass
        assert "exited with 7" in str(caught.value)
        # It was started twice and said the same; who reads the traceback reads it once.
        shown = "".join(traceback.format_exception(caught.value))
        assert (str(caught.value).count("nothing to do"), shown.count("nothing to do")) == (1, 1)
        assert isinstance(caught.value.__context__, ProcessExited)

    run(main())


@req("NEG-5", everywhere=True)
def test_silent_server_is_given_up_neg_5() -> None:
    async def main() -> None:
        with pytest.raises(NegotiationError):
            async with mcprev.connect(dumb("silent"), probe_timeout=0.2, open_timeout=0.2):
                pass

    run(main())


@req("STDIO-10", everywhere=True)
@pytest.mark.parametrize("command", ["/no/such/command", "no-such-command", "", "nul\0byte", str(HERE)])
def test_command_that_cannot_be_started_stdio_10(command: str) -> None:
    async def main() -> None:
        with pytest.raises(ProcessExited) as caught:
            async with mcprev.connect(mcprev.stdio(command)):
                pass
        assert caught.value.returncode is None
        assert caught.value.retry_safe

    run(main())


@req("STDIO-10", everywhere=True)
def test_environment_is_an_allow_list_stdio_10(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "x")

    async def main() -> None:
        errors = bytearray()
        script = "import os,sys; sys.stderr.write(repr((sorted(os.environ), os.getcwd()))); sys.exit(1)"
        target = mcprev.stdio(
            sys.executable, "-c", script, env={"MINE": "1"}, cwd=tmp_path, stderr=errors.extend
        )
        with pytest.raises(NegotiationError):
            await mcprev.connect(target)
        assert b"SECRET_TOKEN" not in errors
        assert b"MINE" in errors
        assert str(tmp_path).encode() in errors

    run(main())


@pytest.mark.slow
@req("LIFE-16", "STDIO-4")
@pytest.mark.parametrize("row", [OLD, LATEST], ids=lambda row: row.name)
def test_server_that_dies_in_a_call(row: Revision) -> None:
    """Every pending call fails at once, with the exit code and the end of stderr."""

    async def main() -> None:
        async with mcprev.connect(echo(), mode=row.name, restart=False) as client:
            waiting = asyncio.create_task(client.call_tool("wait"))
            with pytest.raises(ProcessExited) as caught:
                await client.call_tool("die", {"code": 5})
            assert caught.value.returncode == 5
            assert "last words" in caught.value.stderr
            assert caught.value.in_flight
            with pytest.raises(ProcessExited):
                await waiting
            with pytest.raises((ConnectionLost, mcprev.LocalProtocolError)):
                await client.call_tool("echo")

    run(main())


@pytest.mark.slow
@req("STDIO-5", "LIFE-16", everywhere=True)
@req("STDIO-7", "SUB-5")
@pytest.mark.parametrize("row", SOME_ROWS, ids=lambda row: row.name)
def test_server_that_died_is_started_again_stdio_7(row: Revision) -> None:
    """STDIO-7, SUB-5: another process takes its place, for callers and for who listens; the old one is gone."""

    async def main() -> None:
        target = echo()
        async with mcprev.connect(target, mode=row.name) as client, client.listen(tools=True) as changes:
            for number in range(1, 3):
                old = target.pid
                assert old is not None
                with pytest.raises(ProcessExited):
                    await client.call_tool("die")
                assert await anext(changes) == mcprev.Change(mcprev.Changed.TOOLS)
                assert said(await client.call_tool("echo", {"text": "hi"})) == "hi"
                assert (client.reopened, client.revision) == (number, row.name)
                assert target.pid != old
                assert not alive(old)

    run(main())


@pytest.mark.slow
@req("STDIO-7", everywhere=True)
def test_server_that_keeps_dying_is_left_alone_stdio_7() -> None:
    async def main() -> None:
        restart = mcprev.ReconnectPolicy(limit=2, backoff=0.001)
        async with mcprev.connect(dumb("die-at-call"), restart=restart) as client:
            for _ in range(3):
                with pytest.raises(ProcessExited):
                    await client.call_tool("x")
            with pytest.raises(ConnectionLost, match="not opened again"):
                await client.call_tool("x")
            assert client.reopened == 2

    run(main())


@req("STDIO-5", "LIFE-16", everywhere=True)
def test_kill_9_at_every_step() -> None:
    """The server is killed while it is being connected to, while it is idle and while it is called."""

    async def killed(after: str) -> None:
        target = dumb("silent" if after == "spawn" else "plain")
        opening = asyncio.create_task(mcprev.connect(target, mode=OLD.name).__aenter__())
        await until(lambda: target.pid is not None or opening.done())
        if after == "spawn":
            assert target.pid is not None
            os.kill(target.pid, signal.SIGKILL)
            with pytest.raises(NegotiationError):
                await opening
            return
        client = await opening
        assert target.pid is not None
        call = asyncio.create_task(client.call_tool("x")) if after == "call" else None
        os.kill(target.pid, signal.SIGKILL)
        if call is not None:
            # The answer may have been on its way already.
            (outcome,) = await asyncio.gather(call, return_exceptions=True)
            assert isinstance(outcome, ProcessExited | m.CallToolResult)
        await client.connection.closed
        assert isinstance(client.connection.error, ProcessExited)
        assert client.connection.error.returncode == -9
        await client.aclose()

    async def main() -> None:
        for after in ("spawn", "idle", "call"):
            await killed(after)

    run(main())


@req("STDIO-5", everywhere=True)
@pytest.mark.parametrize("mode", ["plain", "lingering", "stubborn"])
def test_ladder_ends_every_server_stdio_5(mode: str) -> None:
    async def main() -> None:
        target = dumb(mode, grace=0.15)
        async with mcprev.connect(target, mode=OLD.name) as client:
            await client.call_tool("x")
        assert target.pid is not None
        assert not alive(target.pid)

    run(main())


@pytest.mark.slow
@req("STDIO-5", everywhere=True)
def test_children_of_the_server_end_with_it_stdio_5() -> None:
    async def main() -> None:
        async with mcprev.connect(echo()) as client:
            child = int(said(await client.call_tool("child")))
            assert alive(child)
        for _ in range(2_000):  # up to 20 s: a loaded machine may take long to end a process
            if not alive(child):
                return
            await asyncio.sleep(0.01)
        raise AssertionError("the child is still there")

    run(main())


@req("STDIO-5", everywhere=True)
def test_cancelled_while_connecting_leaves_no_process() -> None:
    async def main() -> None:
        target = dumb("silent", grace=0.2)
        opening = asyncio.create_task(mcprev.connect(target, mode=OLD.name).__aenter__())
        await until(lambda: target.pid is not None)
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
        assert target.pid is not None
        assert not alive(target.pid)

    run(main())


@pytest.mark.slow
@req("STDIO-5", everywhere=True)
def test_fifty_connects_leave_nothing() -> None:
    async def main() -> None:
        async def once() -> None:
            async with mcprev.connect(dumb("plain"), mode=OLD.name) as client:
                await client.call_tool("x")

        await once()
        before = descriptors()
        for _ in range(10):
            await asyncio.gather(*(once() for _ in range(5)))
        assert descriptors() <= before

    run(main(), limit=60)


TALKER = """
import sys
sys.stderr.buffer.write({wrote!r})
sys.stderr.flush()
sys.exit(3)
"""


@req("STDIO-4", everywhere=True)
@pytest.mark.parametrize(
    ("wrote", "lines"),
    [
        (b"one\ntwo\r\n", ["one", "two"]),
        (b"Traceback:\n\tline 1\nno end", ["Traceback:", "\tline 1", "no end"]),
        (b"\x1b[31mred\xff\n", ["\\x1b[31mred�"]),
        (b"https://me:hidden@x.example/\n", ["https://...@x.example/"]),
        (b"x" * 20_000, ["x" * 8192, "..."]),
    ],
    ids=["lines", "no end", "control", "secret", "long"],
)
def test_what_a_server_writes_to_stderr_reaches_the_log_of_its_client(
    wrote: bytes, lines: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "mcprev.client.stderr")

    async def main() -> None:
        target = mcprev.stdio(sys.executable, "-c", TALKER.format(wrote=wrote))
        with pytest.raises(NegotiationError):
            async with mcprev.connect(target):
                pass

    run(main())
    told = [r.getMessage() for r in caplog.records if r.name == "mcprev.client.stderr"]
    starts = [line.removeprefix(f"{sys.executable}: ") for line in told]
    if lines[-1] == "...":  # pieces as they came, each within what is kept, and nothing twice
        assert 0 < len("".join(starts)) <= len(wrote)
        assert all(set(line) == {"x"} and len(line) <= 8192 for line in starts)
    else:
        assert starts == lines or starts == lines * (
            len(starts) // len(lines)
        )  # the process was started again
    assert {r.levelname for r in caplog.records if r.name == "mcprev.client.stderr"} == {"INFO"}


@req("STDIO-4", everywhere=True)
def test_a_function_for_stderr_gets_it_instead_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "mcprev.client.stderr")
    found = bytearray()

    async def main() -> None:
        target = mcprev.stdio(sys.executable, "-c", TALKER.format(wrote=b"one\n"), stderr=found.extend)
        with pytest.raises(NegotiationError):
            async with mcprev.connect(target):
                pass

    run(main())
    assert found.startswith(b"one\n")
    assert not [r for r in caplog.records if r.name == "mcprev.client.stderr"]
