"""Dependencies by annotation: made for each request, closed after it, and unknown to clients; and the executor."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import threading
import weakref
from collections.abc import AsyncGenerator, Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import BaseModel

import mcprev
from helpers.named import C, rows_since
from helpers.running import run, until
from mcprev.app.threads import MAX_THREADS
from mcprev.errors import InvalidParams
from mcprev.revisions import DEFAULT, Revision
from mcprev_types.latest import models as m

events: list[str] = []


@pytest.fixture(autouse=True)
def _no_events() -> None:  # pyright: ignore[reportUnusedFunction]
    events.clear()


async def setting(ctx: mcprev.Context) -> str:
    events.append("setting")
    return f"for {ctx.revision}"


async def session(of: Annotated[str, mcprev.Depends(setting)]) -> AsyncGenerator[str, None]:
    events.append("open")
    try:
        yield f"session {of}"
    except ValueError:
        events.append("failed")
        raise
    finally:
        events.append("closed")


def connection(of: Annotated[str, mcprev.Depends(setting)], size: int = 3) -> Generator[int, None, None]:
    assert threading.current_thread() is not threading.main_thread()
    events.append("connect")
    try:
        yield size
    finally:
        assert threading.current_thread() is not threading.main_thread()
        events.append("disconnect")


class Limits:
    most = 7


Session = Annotated[str, mcprev.Depends(session)]
Connection = Annotated[int, mcprev.Depends(connection)]


def calling(app: mcprev.App, row: Revision = DEFAULT[-1], **arguments: Any) -> str:
    async def main() -> str:
        async with mcprev.connect(app, mode=row.name) as client:
            result = await client.call_tool("t", arguments)
        assert isinstance(result, m.CallToolResult)
        return "".join(block.text for block in result.content if isinstance(block, m.TextContent))

    return run(main())


def app_of(function: Callable[..., Any], **options: Any) -> mcprev.App:
    app = mcprev.App("a", "1", **options)
    app.tool(function, name="t")
    return app


async def in_loop(
    text: str, s: Session, c: Connection, limits: Annotated[Limits, mcprev.Depends(Limits)]
) -> str:
    events.append("called")
    return f"{text} {s} {c} {limits.most}"


def in_thread(text: str, s: Session, c: Connection, limits: Annotated[Limits, mcprev.Depends(Limits)]) -> str:
    assert threading.current_thread() is not threading.main_thread()
    events.append("called")
    return f"{text} {s} {c} {limits.most}"


@pytest.mark.parametrize("row", DEFAULT, ids=lambda row: row.name)
@pytest.mark.parametrize("function", [in_loop, in_thread])
def test_dependencies_are_made_once_for_a_request_and_closed_in_reverse(
    row: Revision, function: Callable[..., Any]
) -> None:
    app = app_of(function)
    for _ in range(2):
        assert calling(app, row, text="x") == f"x session for {row.name} 3 7"
        assert events == ["setting", "open", "connect", "called", "disconnect", "closed"]
        events.clear()


def test_clients_do_not_see_them() -> None:
    app = app_of(in_loop)

    async def main() -> None:
        async with mcprev.connect(app) as client:
            (tool,) = [tool async for tool in client.tools()]
            assert list(tool.input_schema.to_wire()["properties"]) == ["text"]
            result = await client.call_tool("t", {"text": "x", "c": 4})
            assert isinstance(result, m.CallToolResult)
            assert result.is_error

    run(main())
    assert events == []


def test_they_are_closed_when_the_tool_fails_and_know_why() -> None:
    async def fails(s: Session, c: Connection) -> str:
        raise ValueError("no")

    assert calling(app_of(fails)) == "the tool 't' failed"
    assert events == ["setting", "open", "connect", "disconnect", "failed", "closed"]


@pytest.mark.parametrize("row", DEFAULT, ids=lambda row: row.name)
def test_they_are_closed_when_the_request_is_cancelled(row: Revision) -> None:
    async def main() -> None:
        started = asyncio.Event()

        async def waits(s: Session) -> str:
            started.set()
            await asyncio.Event().wait()
            return ""

        async with mcprev.connect(app_of(waits), mode=row.name) as client:
            calling = asyncio.create_task(client.call_tool("t", {}))
            await started.wait()
            calling.cancel()
            await until(lambda: "closed" in events)
            with pytest.raises(asyncio.CancelledError):
                await calling

    run(main())


@pytest.mark.parametrize("row", rows_since(C), ids=lambda row: row.name)
def test_they_are_made_again_where_a_question_runs_the_tool_again(row: Revision) -> None:
    class Client(mcprev.ClientHandler):
        async def elicit(self, ctx: mcprev.ClientContext, params: m.ElicitRequestParams) -> m.ElicitResult:
            return m.ElicitResult(action="accept", content={"value": "x"})

    async def asks(ctx: mcprev.Context, s: Session) -> str:
        return str((await ctx.elicit("What?", str)).data)

    async def main() -> None:
        async with mcprev.connect(app_of(asks), mode=row.name, handler=Client()) as client:
            await client.call_tool("t", {})

    run(main())
    assert events == ["setting", "open", "closed"] * (2 if row.input_in_results else 1)


def test_resources_prompts_and_completions_have_them_too() -> None:
    app = mcprev.App("a", "1")

    @app.resource("notes://{name}")
    async def note(name: str, s: Session) -> str:
        return f"{name} {s}"

    @app.prompt
    def greet(name: str, c: Connection) -> str:
        return f"{name} {c}"

    @app.completion("greet", "name")
    async def names(value: str, c: Connection) -> list[str]:
        return [value + str(c)]

    async def main() -> None:
        async with mcprev.connect(app) as client:
            read = await client.read_resource("notes://a")
            assert read.to_wire()["contents"][0]["text"] == f"a session for {DEFAULT[-1].name}"
            got = await client.get_prompt("greet", {"name": "Ann"})
            assert got.to_wire()["messages"][0]["content"]["text"] == "Ann 3"
            completed = await client.complete(m.PromptReference(name="greet"), "name", "A")
            assert completed.completion.values == ["A3"]

    run(main())


def doubled(limits: Annotated[Limits, mcprev.FromLifespan]) -> int:
    return limits.most * 2


def test_what_the_lifespan_yields_is_a_parameter() -> None:
    async def lifespan(server: mcprev.Server) -> AsyncGenerator[Limits, None]:
        yield Limits()

    def t(
        limits: Annotated[Limits, mcprev.FromLifespan], twice: Annotated[int, mcprev.Depends(doubled)]
    ) -> str:
        return f"{limits.most} {twice}"

    assert calling(app_of(t, lifespan=lifespan)) == "7 14"


async def denies() -> None:
    raise InvalidParams("not today")


def test_an_error_of_a_dependency_is_the_tool_s() -> None:
    async def t(x: Annotated[None, mcprev.Depends(denies)]) -> str:
        return ""

    async def main() -> None:
        async with mcprev.connect(app_of(t)) as client:
            with pytest.raises(InvalidParams, match="not today"):
                await client.call_tool("t", {})

    run(main())


def needs_more(text: str) -> str:
    return text


async def circle(x: Annotated[int, mcprev.Depends(lambda: 1)], y: Circle) -> int:
    return x


Circle = Annotated[int, mcprev.Depends(circle)]


@pytest.mark.parametrize(
    ("hint", "default", "wrong"),
    [
        (
            Annotated[str, mcprev.Depends(needs_more)],
            ...,
            r"needs_more\(\): the parameter 'text' has no value",
        ),
        (Annotated[int, mcprev.Depends(circle)], ..., r"circle\(\): depends on itself; break the cycle"),
        (Annotated[int, mcprev.Depends(4)], ..., "is not a function; write Depends"),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        (int, mcprev.Depends(setting), "has a dependency as its default; write `x: Annotated"),
    ],
)
def test_a_dependency_that_cannot_be_made_is_refused_at_once(hint: Any, default: Any, wrong: str) -> None:
    def t(x: Any = default) -> str:
        return ""

    t.__annotations__["x"] = hint
    with pytest.raises(TypeError, match=wrong):
        app_of(t)


VARIABLE: ContextVar[str] = ContextVar("variable", default="unset")


async def sets() -> None:
    VARIABLE.set("set")


def test_functions_run_in_the_executor_of_the_app_with_the_context_of_the_request() -> None:
    def t(x: Annotated[None, mcprev.Depends(sets)]) -> str:
        return f"{threading.current_thread().name} {VARIABLE.get()}"

    with ThreadPoolExecutor(1, thread_name_prefix="mine") as executor:
        assert calling(app_of(t, executor=executor)) == "mine_0 set"


class Blocking:
    """Functions that block until a gate opens, by the part of a call that does."""

    def __init__(self) -> None:
        self.gate, self.threads = threading.Event(), list[str]()

    def block(self) -> str:
        self.threads.append(threading.current_thread().name)
        self.gate.wait()
        return "done"

    def before(self) -> Generator[str, None, None]:
        yield self.block()

    def after(self) -> Generator[str, None, None]:
        yield "done"
        self.block()

    def tool(self, part: str) -> Callable[..., object]:
        if part == "tool":
            return self.block

        async def t(own: str) -> str:
            return own

        parts: dict[str, Callable[..., object]] = {
            "function": self.block, "partial": partial(self.block), "lambda": lambda: self.before(),  # noqa: PLW0108
            "beginning": self.before, "end": self.after,
        }  # fmt: skip
        t.__annotations__ = {"own": Annotated[str, mcprev.Depends(parts[part])], "return": str}
        return t


@pytest.mark.parametrize("part", ["tool", "function", "partial", "lambda", "beginning", "end"])
def test_functions_that_block_leave_the_threads_of_the_event_loop_free(part: str) -> None:
    """The event loop looks up host names in threads of its own executor."""
    blocking = Blocking()
    gate, blocked = blocking.gate, blocking.threads
    most = MAX_THREADS

    async def main() -> None:
        loop = asyncio.get_running_loop()
        app = mcprev.App("a", "1")
        app.tool(blocking.tool(part), name="t")
        async with mcprev.connect(app) as client:
            calls = [asyncio.create_task(client.call_tool("t", {})) for _ in range(most + 1)]
            try:
                await until(lambda: len(blocked) == most)
                assert await asyncio.wait_for(loop.getaddrinfo("127.0.0.1", 80), 10)
            finally:
                gate.set()
            await asyncio.gather(*calls)
        assert len(set(blocked)) == most

    run(main())


def test_the_threads_of_apps_end_with_their_event_loop() -> None:
    threads: list[threading.Thread] = []

    def t() -> str:
        threads.append(threading.current_thread())
        return "done"

    assert calling(app_of(t)) == "done"
    threads[0].join(10)
    assert not threads[0].is_alive()


# -- what a dependency does wrong ------------------------------------------------------------------------


async def silent() -> AsyncGenerator[int, None]:
    try:
        yield 1
    except Exception:  # noqa: BLE001 - as authors write it
        events.append("rolled back")


def silent_in_thread() -> Generator[int, None, None]:
    try:
        yield 1
    except Exception:  # noqa: BLE001 - as authors write it
        events.append("rolled back")


async def refusing() -> int:
    raise mcprev.ToolError("not for you")


def guarded(
    a: Annotated[int, mcprev.Depends(silent)], b: Annotated[int, mcprev.Depends(refusing)] = 0
) -> str:
    events.append("called without its dependencies")
    return "done"


async def guarded_in_thread(
    a: Annotated[int, mcprev.Depends(silent_in_thread)], b: Annotated[int, mcprev.Depends(refusing)] = 0
) -> str:
    events.append("called without its dependencies")
    return "done"


async def failing(a: Annotated[int, mcprev.Depends(silent)] = 0) -> str:
    raise mcprev.ToolError("not for you")


@pytest.mark.parametrize("function", [guarded, guarded_in_thread, failing])
def test_a_dependency_that_keeps_an_error_to_itself_makes_no_result_of_it(function: Any) -> None:
    assert calling(app_of(function)) == "not for you"
    assert events == ["rolled back"]


def first() -> int:
    return next(iter(()))


async def asking(ctx: mcprev.Context, a: Annotated[int, mcprev.Depends(silent)]) -> str:
    answer = await ctx.elicit("How many?", int)
    return str(answer.action == "accept" and answer.data)


async def taking_first(x: Annotated[int, mcprev.Depends(first)]) -> str:
    return str(x)


@pytest.mark.parametrize("row", rows_since(C), ids=lambda row: row.name)
def test_a_question_passes_a_dependency_that_keeps_errors_to_itself(row: Revision) -> None:
    class Guest(mcprev.ClientHandler):
        async def elicit(self, ctx: mcprev.ClientContext, params: m.ElicitRequestParams) -> m.ElicitResult:
            return m.ElicitResult(action="accept", content={"value": 4})

    async def main() -> None:
        async with mcprev.connect(app_of(asking), mode=row.name, handler=Guest()) as client:
            result = await client.call_tool("t", {})
            assert result.to_wire()["content"] == [{"type": "text", "text": "4"}]

    run(main())


def test_a_dependency_in_a_thread_that_raises_stop_iteration_fails_the_call() -> None:
    assert calling(app_of(taking_first)) == "the tool 't' failed"


# -- threads that do not end -----------------------------------------------------------------------------


made: list[weakref.ref[object]] = []
release = threading.Event()


class Large(BaseModel):
    def model_post_init(self, context: Any, /) -> None:
        made.append(weakref.ref(self))


def takes(large: Large) -> str:
    release.wait()
    return "done"


def test_a_cancelled_call_leaves_no_arguments_with_an_executor_that_is_busy() -> None:
    async def main(executor: ThreadPoolExecutor) -> None:
        busy = executor.submit(release.wait)
        async with mcprev.connect(app_of(takes, executor=executor)) as client:
            call = asyncio.create_task(client.call_tool("t", {"large": {}}))
            await until(lambda: bool(made))
            call.cancel()
            await asyncio.wait({call})

            def gone() -> bool:
                gc.collect()
                return made[0]() is None

            try:
                await until(gone)
            finally:
                release.set()
        busy.result()

    with ThreadPoolExecutor(1) as executor:
        run(main(executor))


STUCK = """
import threading
from concurrent.futures import ThreadPoolExecutor
import mcprev

app = mcprev.App("a", "1", executor=ThreadPoolExecutor(1))

@app.tool
def stuck() -> str:
    print("stuck", flush=True)
    threading.Event().wait()
    return ""

app.run_stdio()
"""


@pytest.mark.slow
def test_a_process_ends_whose_own_executor_has_a_thread_that_does_not(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(STUCK, encoding="utf-8")
    printed: list[bytes] = []

    async def main() -> None:
        python = mcprev.stdio(sys.executable, "app.py", cwd=tmp_path, stderr=printed.append)
        async with mcprev.connect(python) as client:
            call = asyncio.create_task(client.call_tool("stuck", {}))
            await until(lambda: any(b"stuck" in each for each in printed))
            call.cancel()
            await asyncio.wait({call})

    run(main())
    assert b"the process exits without it" in b"".join(printed)


SERVES_AND_GOES_ON = """
import asyncio, threading
import mcprev
from mcprev.transports import exiting

exiting.EXIT = 0.1
app = mcprev.App("a", "1")
ended = threading.Event()

@app.tool
def later() -> str:
    ended.wait()
    return "later"

async def main():
    async with mcprev.connect(app) as client:
        call = asyncio.create_task(client.call_tool("later", {}))
        for timer in [each for each in threading.enumerate() if isinstance(each, threading.Timer)]:
            await asyncio.sleep(0.05)
            timer.join()
        ended.set()
        await call
    print("went on")

app.run_stdio()
asyncio.run(main())
"""


@pytest.mark.slow
def test_a_process_that_goes_on_after_it_served_is_not_ended() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SERVES_AND_GOES_ON], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
    )  # fmt: skip
    assert done.stdout == "went on\n", done.stderr
