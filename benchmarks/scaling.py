"""Several workers of one server: calls per second, and CPU per call, with 1, 2 and 4 workers and each store.

The server is `mcprev serve --workers` with an echo tool; a raw client of our own (`http_load`) keeps 32 connections open.
"stateless" are calls without a session, "session JSON" and "session SSE" calls in sessions, one for each connection,
"tasks" calls that become tasks, each followed until its result. Sessions need a store that workers share, so without one they
are measured with one worker only; so are tasks. A figure that nothing serves is left out.

CPU is that of all workers together, for each call. The load of the client is counted apart: on a machine of two cores it
takes a part of what two workers could use, so calls per second of CPU, "calls/s of a free machine", is what the workers would
do if the client ran elsewhere: workers, up to the number of cores, divided by the CPU of one call. Machine and runs differ by 20 %:
compare within one run only. `--fastmcp PYTHON` measures FastMCP beside it on the same Redis, at a port then, for what it shares:
stateless calls and tasks (`fastmcp-tasks`, whose workers are in its processes) on uvicorn's workers, and streams whose events are in
Redis, which have one worker, because its sessions stay in their process. A task is asked for until it has ended; "polls" is how often.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import uvloop
from http_load import calls, load, request
from report import Peer, cpu_seconds, release, save

from mcprev.revisions import DEFAULT, Revision
from stores import redis_server

LANES: Final = 32
WORKERS: Final = (1, 2, 4)
STATELESS: Final = next(row for row in reversed(DEFAULT) if not row.handshake)
SESSIONS: Final = next(row for row in reversed(DEFAULT) if row.handshake)
SHARED: Final = find_spec("mcprev.sharing") is not None
"""Whether workers share sessions."""
START: Final = 60.0
APP: Final = """
import asyncio
import mcprev
form = {form!r}
app = mcprev.App("echo", "1", revisions=[{revision!r}], tasks={tasks},
                 http={{"json_response": {{"json": True, "sse": False}}.get(form)}})
@app.tool{optional}
async def echo(text: str, ctx: mcprev.Context) -> str:
    {detach}
    return text
"""
FASTMCP: Final = """
from fastmcp import FastMCP
server, tool, options = FastMCP("echo"), {}, {}
form, redis = FORM, REDIS
if form == "tasks":
    from fastmcp_tasks import TasksExtension
    server.add_extension(TasksExtension())
    tool["task"] = True
if form == "events":
    from fastmcp.server.event_store import EventStore
    from key_value.aio.stores.redis import RedisStore
    options["event_store"] = EventStore(storage=RedisStore(url=redis))
else:
    options.update(stateless_http=True, json_response=True)
@server.tool(**tool)
async def echo(text: str) -> str:
    return text
app = server.http_app(**options)
"""
POLLS: Final = 100
"""How often a task is asked for until it has ended."""
META: Final[dict[str, object]] = {
    "io.modelcontextprotocol/protocolVersion": STATELESS.version,
    "io.modelcontextprotocol/clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}},
    "io.modelcontextprotocol/clientInfo": {"name": "b", "version": "1"},
}
"""What the requests of a client say that has tasks."""


@dataclass(frozen=True)
class Mode:
    """One way of calling."""

    name: str
    row: Revision
    form: str = "default"
    tasks: bool = False
    shares: bool = False
    """Whether several workers have to share something."""


MODES: Final = (
    Mode("stateless", STATELESS),
    Mode("session JSON", SESSIONS, "json", shares=True),
    Mode("session SSE", SESSIONS, "sse", shares=True),
    Mode("tasks", STATELESS, tasks=True, shares=True),
)


@dataclass
class Figures:
    """What was measured in the runs of one case."""

    rate: list[float] = field(default_factory=list[float])
    cpu: list[float] = field(default_factory=list[float])
    client: list[float] = field(default_factory=list[float])
    polls: list[float] = field(default_factory=list[float])


@contextmanager
def serving(
    command: Sequence[str], port: int, folder: str, workers: int, store: str | None
) -> Generator[Callable[[], float]]:
    """Run a server until it listens with all workers; yields what returns the CPU time of all its processes."""
    environment = {**os.environ, **({} if store is None else {"MCPREV_STORE": store})}
    process = subprocess.Popen(command, cwd=folder, env=environment, stderr=subprocess.DEVNULL)
    try:
        until = time.monotonic() + START
        while (workers > 1 and len(processes(process.pid)) < workers) or not listens(port):
            if process.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"no server: {' '.join(command)}")
            time.sleep(0.05)
        time.sleep(1.5)  # until the others are ready too
        yield lambda: sum(map(cpu_seconds, [process.pid, *processes(process.pid)]))
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def processes(pid: int) -> list[int]:
    """The children of a process."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def listens(port: int) -> bool:
    """Whether something accepts connections at a port."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def task_calls(port: int, first: int, count: int) -> list[bytes]:
    """Calls of the tool by a client that has tasks."""
    headers = {"MCP-Protocol-Version": STATELESS.version, "Mcp-Method": "tools/call", "Mcp-Name": "echo"}
    made: list[bytes] = []
    for number in range(first, first + count):
        params = {
            "name": "echo",
            "arguments": {"text": f"hello {number}"},
            "_meta": META,
        }
        made.append(
            request(port, headers, {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params})
        )
    return made


def follow_ups(port: int, answers: Sequence[bytes]) -> list[bytes]:
    """Requests for the results of tasks, from the answers that began them, or that said that they go on."""
    made: list[bytes] = []
    for number, answer in enumerate(answers):
        result = result_of(answer)
        task: str = result["taskId"]
        headers = {"MCP-Protocol-Version": STATELESS.version, "Mcp-Method": "tasks/get", "Mcp-Name": task}
        params = {"taskId": task, "_meta": META}
        made.append(
            request(port, headers, {"jsonrpc": "2.0", "id": number, "method": "tasks/get", "params": params})
        )
    return made


def result_of(answer: bytes) -> Any:  # noqa: ANN401 - JSON
    """The result in a response with JSON or with one event."""
    body = answer.partition(b"\r\n\r\n")[2]
    start, end = body.index(b'{"jsonrpc"' if b'{"jsonrpc"' in body else b"{"), body.rindex(b"}") + 1
    return json.loads(body[start:end])["result"]


async def followed(port: int, answers: list[list[bytes]]) -> tuple[float, list[list[bytes]], int]:
    """Ask for the tasks of each lane until they have ended; the seconds, the last answers, and the number of requests."""
    seconds, polls = 0.0, 0
    ended: list[list[bytes]] = [[b""] * len(each) for each in answers]
    open_: list[list[tuple[int, bytes]]] = [[*enumerate(each)] for each in answers]
    for _ in range(POLLS):
        lanes = [follow_ups(port, [answer for _, answer in each]) for each in open_]
        polls += sum(map(len, lanes))
        spent, made = await load(port, lanes)
        seconds += spent
        again: list[list[tuple[int, bytes]]] = []
        for lane, each, done in zip(ended, open_, made, strict=True):
            again.append([])
            for (at, _), answer in zip(each, done.answers, strict=True):
                lane[at] = answer
                if result_of(answer).get("status") == "working":
                    again[-1].append((at, answer))
        open_ = again
        if not any(open_):
            return seconds, ended, polls
    raise RuntimeError("a task does not end")


def measure(
    found: Figures,
    command: Callable[[int], list[str]],
    mode: Mode,
    workers: int,
    store: str | None,
    folder: str,
    count: int,
) -> None:
    """One run of one case."""
    port = free_port()
    each = max(1, count // LANES)
    with serving(command(port), port, folder, workers, store) as cpu:

        def make(first: int, number: int) -> list[bytes]:
            return task_calls(port, first, number) if mode.tasks else calls(port, mode.row, first, number)

        uvloop.run(load(port, [make(10_000 * lane, 20) for lane in range(1, LANES + 1)]))
        lanes = [make(100_000 * lane, each) for lane in range(1, LANES + 1)]
        began, own = cpu(), own_cpu()
        seconds, made = uvloop.run(load(port, lanes))
        answers = [done.answers for done in made]
        if mode.tasks:
            more, answers, polls = uvloop.run(followed(port, answers))
            seconds += more
            found.polls.append(polls / (each * LANES))
        used, client = cpu() - began, own_cpu() - own
    for lane, given in zip(lanes, answers, strict=True):
        for sent, answer in zip(lane, given, strict=True):
            text = json.loads(sent.partition(b"\r\n\r\n")[2])["params"]["arguments"]["text"]
            if text.encode() not in answer:
                raise AssertionError(answer[:1000])
    total = each * LANES
    found.rate.append(total / seconds)
    found.cpu.append(used / total * 1e6)
    found.client.append(client / total * 1e6)


def own_cpu() -> float:
    """The CPU time of this process, which is the client."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def ours(folder: str, mode: Mode, workers: int) -> Callable[[int], list[str]]:
    """Write the program of a mode, and return what returns the command that serves it at a port."""
    text = APP.format(
        form=mode.form,
        revision=mode.row.name,
        tasks="mcprev.Tasks({}, max_running=100_000, max_running_each=100_000)" if mode.tasks else "None",
        optional='(task="optional")' if mode.tasks else "",
        detach="await ctx.detach()" if mode.tasks else "pass",
    )
    Path(folder, "app.py").write_text(text, encoding="utf-8")
    base = [
        sys.executable,
        "-m",
        "mcprev",
        "serve",
        "app.py:app",
        "--log-level",
        "warning",
        "--workers",
        str(workers),
    ]
    return lambda port: [*base, "--http", f"127.0.0.1:{port}"]


def theirs(
    python: str, folder: str, form: str, workers: int, redis: str | None
) -> Callable[[int], list[str]]:
    """The same for FastMCP, which has uvicorn's workers."""
    text = FASTMCP.replace("FORM", repr(form)).replace("REDIS", repr(redis))
    Path(folder, "peer.py").write_text(text, encoding="utf-8")
    base = [
        python,
        "-m",
        "uvicorn",
        "peer:app",
        "--log-level",
        "error",
        "--workers",
        str(workers),
        "--lifespan",
        "on",
    ]
    return lambda port: [*base, "--port", str(port)]


def show(peers: dict[str, Peer], of: str, mode: str, workers: int, store: str, found: Figures) -> None:
    """Print the figures of a case, and add them to those of the program that they are of."""
    name = f"{of}, {store}, {workers} {'worker' if workers == 1 else 'workers'}"
    figures = peers.setdefault(name, Peer(name, [])).figures
    cores = min(workers, os.cpu_count() or 1)
    figures[f"{mode}: CPU µs of a call"] = found.cpu
    figures[f"{mode}: calls/s of a free machine"] = [cores / cpu * 1e6 for cpu in found.cpu]
    rate, cpu, client = (statistics.median(values) for values in (found.rate, found.cpu, found.client))
    free = cores / cpu * 1e6
    print(
        f"{f'{of}, {mode}':<30} {store:<8} {workers:>2}  {rate:>8.0f}  {cpu:>8.0f}  {client:>8.0f}  {free:>10.0f}"
        + (f"  polls {statistics.median(found.polls):.2f}" if found.polls else ""),
        flush=True,
    )


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="one short run, to see that everything works")
    parser.add_argument("--fastmcp", metavar="PYTHON", help="python with FastMCP")
    parser.add_argument(
        "--only", action="append", choices=[mode.name for mode in MODES], help="measure this mode alone"
    )
    options = parser.parse_args()
    runs, count = (1, 640) if options.quick else (options.runs, 16_000)
    print(f"{'':<30} {'store':<8} workers  calls/s   CPU µs  client µs  calls/s of a free machine")
    port = free_port() if options.fastmcp else 0
    peers: dict[str, Peer] = {}
    with tempfile.TemporaryDirectory() as folder, redis_server(port) as redis:
        stores: dict[str, str | None] = {"none": None, "SQLite": f"sqlite:///{folder}/store.db"}
        if redis is not None:
            stores["Redis"] = redis
        for mode in (mode for mode in MODES if not options.only or mode.name in options.only):
            for store, url in stores.items():
                for workers in WORKERS:
                    if mode.shares and workers > 1 and (url is None or (mode.row.handshake and not SHARED)):
                        continue
                    found = Figures()
                    for _ in range(runs):
                        scale = 8 if mode.tasks else 1
                        measure(
                            found, ours(folder, mode, workers), mode, workers, url, folder, count // scale
                        )
                    show(peers, "mcprev", mode.name, workers, "no store" if url is None else store, found)
        if options.fastmcp:
            python = str(Path(options.fastmcp).absolute())
            beside(peers, python, folder, redis, runs, count // 8, options.only)
    save(list(peers.values()))


def beside(
    peers: dict[str, Peer],
    python: str,
    folder: str,
    redis: str | None,
    runs: int,
    count: int,
    only: Sequence[str] | None,
) -> None:
    """Measure FastMCP for what it shares with the modes."""
    cases = (
        ("stateless", Mode("stateless", SESSIONS), WORKERS),
        ("events", Mode("session SSE", SESSIONS, "sse"), (1,)),
        ("tasks", Mode("tasks", STATELESS, tasks=True), WORKERS),
    )
    of = release(python, "fastmcp")
    for form, mode, several in cases:
        shares = form != "stateless"
        if (only and mode.name not in only) or (shares and redis is None):
            continue
        for workers in several:
            found = Figures()
            for _ in range(runs):
                command = theirs(python, folder, form, workers, redis)
                with environment(FASTMCP_DOCKET_URL=redis if form == "tasks" else None):
                    measure(found, command, mode, workers, None, folder, count)
            show(peers, of, mode.name, workers, "Redis" if shares else "no store", found)


@contextmanager
def environment(**names: str | None) -> Generator[None]:
    """Set variables of the environment, those that have a value."""
    given = {name: value for name, value in names.items() if value is not None}
    os.environ.update(given)
    try:
        yield
    finally:
        for name in given:
            del os.environ[name]


def free_port() -> int:
    """A port of this machine that nobody listens at."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


if __name__ == "__main__":
    main()
