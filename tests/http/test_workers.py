"""`mcprev serve --workers`: real processes on one port. What a client sees while they end and are replaced.

HTTP-3, LIFE-16. `test_supervisor.py` has what the supervisor does in each case.
"""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
import re
import shutil
import signal
import socket
import sys
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from click import ClickException
from click.testing import CliRunner, Result

import mcprev
from helpers.named import E
from helpers.redis_server import RedisServer
from helpers.requirements import req
from helpers.running import run, until
from helpers.served_workers import ServedWorkers, free_port, served
from helpers.support import ROOT
from mcprev.cli import main as command, workers as checking
from mcprev.platforms.windows import Windows
from mcprev.server.service import Service
from mcprev.serving.worker import ConnectionCounts, SupervisedWorker, WorkerSettings
from mcprev_types.latest import models as m
from platforms.linux_kernel import LinuxKernel

APP = Path(__file__).parent / "workers_app.py"
LIMIT = 60.0


async def pid(client: mcprev.Client) -> int:
    found = (await client.call_tool("pid")).data
    assert isinstance(found, int)
    return found


async def all_pids(server: ServedWorkers, count: int) -> tuple[set[int], float]:
    """The processes that answer, each on a connection of its own, until there are so many; and the number of calls."""
    found: set[int] = set()
    calls = 0
    async with asyncio.timeout(20):
        while len(found) < count:
            async with mcprev.connect(server.url, mode=E) as client:
                found.add(await pid(client))
                calls += 1
    return found, float(calls)


async def numbers(http: aiohttp.ClientSession, server: ServedWorkers) -> tuple[float, float]:
    """How many calls of a tool the workers have counted together, and how many connections are open."""
    async with http.get(server.url.replace("mcp", "metrics")) as answer:
        lines = (await answer.text()).splitlines()
    values = {
        name: float(value) for name, _, value in (line.rpartition(" ") for line in lines) if name[:1] != "#"
    }
    return values['mcp_calls_total{method="tools/call",name="pid",outcome="ok"}'], values["mcp_connections"]


@pytest.mark.slow
@req("HTTP-3", "LIFE-16", at=E)
def test_workers_serve_one_port_and_are_replaced_while_clients_call(tmp_path: Path) -> None:
    """Killed, told to stop and replaced all: a client with a tool that may be repeated notices nothing."""
    shutil.copy(APP, tmp_path / "app.py")

    async def main() -> None:
        async with served("app.py:app", 2, "--store", "sqlite:///app.db", "--health", cwd=tmp_path) as server:
            assert "; workers: 2; store: sqlite:///" in server.said
            assert server.said.count("listening at") == 1
            before = set(server.pids.values())
            several = [mcprev.connect(server.url, mode=E) for _ in range(8)]
            async with AsyncExitStack() as stack:
                clients = [await stack.enter_async_context(each) for each in several]
                served_by = Counter([await pid(client) for client in clients])
            assert (
                set(served_by) <= before
            )  # how they are divided is a matter of turns: test_accepting counts it
            found, count = await all_pids(server, 2)
            assert found == before
            async with aiohttp.ClientSession() as http:
                for path, text in (("healthz", "alive"), ("ready", "ready")):
                    async with http.get(server.url.replace("mcp", path)) as answer:
                        assert (answer.status, (await answer.json())["status"]) == (200, text)
                counted = {await numbers(http, server) for _ in range(4)}
            assert counted == {
                (count + 8, 2.0)
            }  # each has a connection of its own for all stateless requests
            calls, stop = 0, False

            async def call_all_the_time() -> None:
                nonlocal calls
                async with mcprev.connect(server.url, mode=E) as client:
                    await client.list_tools()  # says that the tool may be repeated
                    while not stop:
                        await client.call_tool("pid_later")
                        calls += 1

            async def wait_in_one(name: str) -> int:
                async with mcprev.connect(server.url, mode=E) as client:
                    found = (await client.call_tool("wait_for", {"file": str(tmp_path / name)})).data
                    assert isinstance(found, int)
                    return found

            calling = [asyncio.create_task(call_all_the_time()) for _ in range(3)]
            server.kill(1)
            await server.until(starts=3)
            server.kill(2, signal.SIGTERM)
            await server.until(starts=4)
            between = set(server.pids.values())
            assert not before & between
            waiting = asyncio.create_task(wait_in_one("file"))
            await until((tmp_path / "file.begun").exists)
            server.send(signal.SIGHUP)
            await server.until("replacing all workers, one after another")
            await server.until(starts=5)
            (tmp_path / "file").touch()
            assert await waiting in between  # it has finished in the worker that it began in
            await server.until("all workers have been replaced")
            assert not between & set(server.pids.values())
            stop, seen = True, calls
            await asyncio.gather(*calling)
            assert seen > 0
            server.send(signal.SIGTERM)
            assert await server.ended() == 0
            with socket.socket() as trial:
                assert trial.connect_ex(("127.0.0.1", server.port)) != 0

    run(main(), limit=LIMIT)


@pytest.mark.slow
@req("HTTP-3", "LIFE-16", at=E)
def test_workers_stop_when_their_supervisor_is_killed(tmp_path: Path) -> None:
    async def main() -> None:
        port = free_port()
        async with served(f"{APP}:app", 1, cwd=tmp_path, port=port) as server:
            server.send(signal.SIGKILL)
            await server.ended()  # the pipe of stderr ends with the last process that has it
            with socket.socket() as trial:
                assert trial.connect_ex(("127.0.0.1", port)) != 0

    run(main(), limit=LIMIT)


@pytest.mark.slow
@req("HTTP-3", at=E)
def test_a_store_in_the_environment_is_shared_and_its_password_shown_nowhere(tmp_path: Path) -> None:
    """Questions are answered at any worker, and state is the same at each; without the store nothing is ready."""
    secret = "s3cret"  # noqa: S105 - of a server that the test starts
    redis = RedisServer("--requirepass", secret).start()
    environment = {"MCPREV_STORE": redis.url(credentials=f":{secret}")}

    class Named(mcprev.ClientHandler):
        async def elicit(self, ctx: mcprev.ClientContext, params: m.ElicitRequestParams) -> m.ElicitResult:
            return m.ElicitResult(action="accept", content={"value": "ann"})

    async def main() -> None:
        async with served(f"{APP}:app", 2, "--health", cwd=tmp_path, environment=environment) as server:
            assert secret not in server.said
            assert "; workers: 2; store: unix://" in server.said
            handle, seen, asked = None, set[int](), set[str]()
            while len(seen) < 2 or len(asked) < 2:
                async with mcprev.connect(server.url, mode=E, handler=Named()) as client:
                    seen.add(await pid(client))
                    given = {"text": "kept"} if handle is None else {"handle": handle}
                    kept, handle = (await client.call_tool("remember", given)).read(tuple[str, str])
                    assert kept == "kept"
                    asked.add((await client.call_tool("name")).text)
            assert all(text.startswith("ann of ") for text in asked)
            redis.pause()
            ready = server.url.replace("mcp", "ready")
            async with aiohttp.ClientSession() as http, asyncio.timeout(20):
                while (await http.get(ready)).status != 503:
                    pass  # one of the last second still counts
                redis.go_on()
                while (await http.get(ready)).status != 200:
                    pass

    try:
        run(main(), limit=LIMIT)
    finally:
        redis.go_on()
        redis.end()


# -- what is refused -----------------------------------------------------------------------------------------


def checked(server: Service, workers: int = 2) -> str:
    """What the command says to several workers of a server; empty if nothing."""
    one, two = socket.socketpair()
    counts = ConnectionCounts.made(workers)
    settings = WorkerSettings(
        number=1,
        workers=workers,
        listening=one.detach(),
        link=two.detach(),
        counts=counts.descriptor,
        reports=True,
    )
    worker = SupervisedWorker(settings)
    try:
        checking.check_workers(server, server.asgi().settings, worker)
    except ClickException as error:
        return error.message
    finally:
        worker.listening.close()
        worker._link.close()
        counts.close()
    return ""


def made(*revisions: str, **options: object) -> mcprev.Server:
    return mcprev.App("a", "1", revisions=revisions or None, **options).server  # type: ignore[arg-type]


@req("HTTP-3", everywhere=True)
def test_several_workers_need_a_store_for_what_clients_need_at_each(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    sqlite = mcprev.open_store("sqlite:///unused.db")
    assert checked(made(), workers=1) == ""
    assert "sessions (2024-11-05, " in checked(made())
    assert "tasks are known only to the worker" in checked(made(E, tasks=mcprev.Tasks({})))
    assert "in the memory of each worker" in checked(made(E, store=mcprev.MemoryStore()))
    assert checked(made(E, tasks=mcprev.Tasks({}), store=sqlite)) == ""
    assert caplog.messages == []
    assert checked(made(E)) == ""
    assert "--store URL shares them" in caplog.messages[0]
    assert '`http={"sessions": False}`' in checked(made())
    assert checked(made(http={"sessions": False})) == ""
    monkeypatch.setattr(checking, "SESSIONS", "json")  # as if the package that shares sessions were there
    assert checked(made(store=sqlite)) == ""
    assert "pass --store URL" in checked(made())
    assert "pass --store URL" in checked(made(store=mcprev.MemoryRecords()))


SECRET = "a secret of the operator, 32 bytes or more"  # noqa: S105 - of logins that nobody makes


@req("HTTP-3", "AUTH-12", everywhere=True)
@pytest.mark.parametrize(
    ("options", "stored", "words"),
    [
        ({"secrets": SECRET}, True, ""),
        (
            {"secrets": SECRET},
            False,
            "are in the memory of one worker: pass --store URL, such as sqlite:///app.db",
        ),
        (
            {"secrets": SECRET, "store": mcprev.MemoryRecords()},
            True,
            "pass it a `store` that all workers use, or none",
        ),
        ({"secrets": SECRET, "store": mcprev.open_store("sqlite:///own.db")}, False, ""),
        ({}, True, "pass it `secrets`, at least 32 random bytes"),
        ({"store": mcprev.open_store("sqlite:///own.db")}, False, "pass it `secrets`"),
    ],
    ids=["both", "no store", "own memory", "own store", "no secret", "own store and no secret"],
)
def test_several_workers_need_a_store_and_a_secret_for_logins(
    options: dict[str, Any], stored: bool, words: str
) -> None:
    login = mcprev.Login(mcprev.Provider.github("id", "s"), resource="https://mcp.example/mcp", **options)
    server = made(E, auth=login, store=mcprev.open_store("sqlite:///unused.db") if stored else None)
    said = checked(server)
    assert words in said
    assert bool(said) is bool(words)
    assert checked(server, workers=1) == ""


@req("HTTP-3", everywhere=True)
@pytest.mark.parametrize(
    ("tasks", "tools", "words"),
    [
        ({}, 0, "`tasks=`"),
        (None, 1, "`task=` of the tool 'one'"),
        (None, 2, "`task=` of the tools 'one', 'two'"),
        (None, 7, "`task=` of the tools 'one', 'two', 'three', 'four', 'five' and 2 more"),
        ({"plain": "optional"}, 0, "`tasks=`"),
        ({"plain": "optional"}, 1, "`tasks=` and `task=` of the tool 'one'"),
    ],
)
def test_the_refusal_of_tasks_says_what_the_file_says(
    tasks: dict[str, str] | None, tools: int, words: str
) -> None:
    app = mcprev.App("a", "1", revisions=[E], tasks=None if tasks is None else mcprev.Tasks(tasks))
    app.tool(name="plain")(lambda: "")
    for name in ("one", "two", "three", "four", "five", "six", "seven")[:tools]:
        app.tool(name=name, task="optional")(lambda: "")
    refused = checked(app.server)
    assert refused.splitlines()[1].endswith(f"pass --store URL, or leave out {words}")
    assert checked(mcprev.Bridge(app, revisions=[E])).splitlines()[1].endswith("pass --store URL")


@pytest.mark.slow
@req("HTTP-3", everywhere=True)
def test_a_server_that_cannot_be_served_says_so_once(tmp_path: Path) -> None:
    async def main() -> None:
        async with served(f"{APP}:with_sessions", 3, cwd=tmp_path, wait=False) as server:
            assert await server.ended() == 1
            assert server.said.count("Error: 3 workers cannot serve this server") == 1
            assert "exit code 1 before it was ready: the server does not start" in server.said

    run(main(), limit=LIMIT)


def said(*arguments: str, **environment: str) -> Result:
    done = CliRunner().invoke(command, ["serve", f"{APP}:app", *arguments], env=environment)
    assert done.exit_code != 0
    return done


@req("HTTP-3", everywhere=True)
def test_wrong_options_are_refused_before_anything_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "require --http" in said("--workers", "2").output
    assert "require --http" in said("--health").output
    for url in ("nonsense://user:s3cret@host", "redis://user:s3cret@host:port/0"):
        for done in (said("--http", "8000", "--store", url), said("--http", "8000", MCPREV_STORE=url)):
            assert "--store or MCPREV_STORE" in done.output
            assert "s3cret" not in done.output
    assert "0 is not in the range" in said("--http", "8000", "--workers", "0").output
    with socket.create_server(("127.0.0.1", 0)) as taken:
        where = f"127.0.0.1:{taken.getsockname()[1]}"
        assert "in use" in said("--http", where, "--workers", "2").output
    assert "is set by the supervisor only" in said("--http", "8000", MCPREV_WORKER="{}").output
    monkeypatch.setattr("mcprev.cli.serve.HERE", Windows(LinuxKernel()))
    refused = said("--http", "8000", "--workers", "2").output
    assert "which Windows does not support: start several servers at ports of their own" in refused


@req("HTTP-3", everywhere=True)
def test_the_store_of_the_command_replaces_that_of_the_server(tmp_path: Path) -> None:
    """Also on stdio, where what one process has stored is there for the next."""
    module = (
        "import mcprev\n"
        "app = mcprev.App('a', '1', store=mcprev.MemoryStore(), tasks=mcprev.Tasks({}))\n"
        "@app.tool\n"
        "async def where(ctx: mcprev.Context) -> str:\n"
        "    return type(app.server.records).__name__\n"
    )
    (tmp_path / "app.py").write_text(module)

    async def main() -> None:
        target = mcprev.stdio(
            sys.executable, "-m", "mcprev", "serve", "app.py", "--store", "sqlite:///here.db", cwd=tmp_path
        )
        async with mcprev.connect(target) as client:
            assert (await client.call_tool("where")).text == "SqliteStore"

    run(main())


@pytest.mark.slow
@req("HTTP-3", everywhere=True)
@pytest.mark.parametrize(("level", "shown"), [("info", True), ("warning", False)])
def test_the_log_level_decides_whether_requests_are_logged(level: str, shown: bool) -> None:
    async def main() -> None:
        async with served(f"{APP}:app", None, "--log-level", level) as server:
            async with mcprev.connect(server.url) as client:
                await pid(client)
            server.send(signal.SIGTERM)
            await server.ended()
            assert ("mcprev.access" in server.said) is shown

    run(main(), limit=LIMIT)


@pytest.mark.slow
@req("HTTP-3", everywhere=True)
def test_a_file_turns_the_lines_for_requests_off_as_the_guide_says(tmp_path: Path) -> None:
    guide = (ROOT / "docs" / "servers.md").read_text(encoding="utf-8")
    (said,) = re.findall(r"are turned off by `(logging[^`]+)`", guide)
    module = f"import logging, mcprev\n{said}\napp = mcprev.App('quiet', '1')\n@app.tool\ndef hi() -> str:\n    return 'hi'\n"
    (tmp_path / "quiet.py").write_text(module)

    async def main() -> None:
        async with served("quiet.py", None, cwd=tmp_path) as server:
            async with mcprev.connect(server.url) as client:
                assert (await client.call_tool("hi")).text == "hi"
            server.send(signal.SIGTERM)
            await server.ended()
            assert "mcprev.access" not in server.said
            assert "listening at" in server.said

    run(main(), limit=LIMIT)
