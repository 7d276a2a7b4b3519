"""Middleware that is ready to use: what it writes, bounds, repeats and turns errors into; also when a call is cancelled."""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
import stat
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path
from typing import Any, Final

import pytest

import mcprev
from helpers.asgi_bridge import Client
from helpers.requirements import D
from helpers.running import run, until
from mcprev.middleware import (
    Audit,
    Caching,
    ErrorMapping,
    Hooks,
    Logging,
    Metrics,
    Retries,
    SizeLimit,
    Timing,
    audit,
)
from mcprev.middleware.hooks import hook_names
from mcprev.revisions import revision_named
from mcprev_types.latest import dispatch, models as m

HOSTILE: Final = 'x" outcome=ok\n\x1b[2J'


@contextmanager
def logging_off(name: str) -> Generator[None, None, None]:
    logger = logging.getLogger(name)
    logger.disabled = True
    try:
        yield
    finally:
        logger.disabled = False


class Trial:
    """An app with tools that end in every way."""

    def __init__(self, *middleware: Any) -> None:
        self.runs: list[str] = []
        self.failures: list[Exception] = []
        self.gate = asyncio.Event()
        self.app = app = mcprev.App("trial", "1", middleware=middleware)

        def step(name: str) -> None:
            self.runs.append(name)
            if self.failures:
                raise self.failures.pop(0)

        @app.tool
        async def writes(text: str = "", password: str = "") -> str:
            step("writes")
            return text or "fine"

        @app.tool(annotations=m.ToolAnnotations(read_only_hint=True))
        async def reads() -> str:
            step("reads")
            return "fine"

        @app.tool
        async def counts() -> dict[str, str]:
            return {"text": "x" * 1000}

        @app.tool
        async def fails() -> str:
            raise mcprev.ToolError("no")

        @app.tool
        async def waits() -> str:
            self.runs.append("waits")
            await self.gate.wait()
            return "late"

        @app.resource("notes://all")
        async def notes() -> str:
            step("notes")
            return "x" * 10

    async def every_end(self) -> None:
        """Call everything, and cancel a call."""
        async with mcprev.connect(self.app) as client:
            await client.call_tool("writes", {"text": "hi", "password": "hunter2"})
            await client.call_tool("fails")
            with pytest.raises(mcprev.InvalidParams):
                await client.call_tool(HOSTILE)
            self.failures.append(ValueError("secret"))
            await client.call_tool("writes")
            task = asyncio.create_task(client.call_tool("waits"))
            await until(lambda: "waits" in self.runs)
            task.cancel()
            await asyncio.wait({task})
            await client.read_resource("notes://all")


ENDS: Final = ["ok", "tool_error", "refused", "error", "cancelled", "ok"]


# -- hooks -------------------------------------------------------------------------------------------------


def test_hooks_are_those_of_the_method_table_and_typed_by_it() -> None:
    source = inspect.getsource(Hooks)
    for method, binding in dispatch.SERVER_BINDINGS.items():
        if method in {"server/discover", "subscriptions/listen"}:
            assert method not in hook_names()
            continue
        assert hook_names()[method] == f"on_{binding.stub}"
        assert f"async def on_{binding.stub}(" in source
        declared = source.split(f"async def on_{binding.stub}(")[1].split(") ->")[0]
        assert f"HandlerCall[models.{binding.params}]" in declared
    assert source.count("async def on_") == len(hook_names()) + 2
    assert not any(name.startswith("on_") for name in vars(Hooks))


def test_a_hook_stands_around_its_method_only_and_on_request_around_all() -> None:
    seen: list[str] = []

    class Own(Hooks):
        async def on_call_tool(self, call: Any, call_next: mcprev.CallNext) -> mcprev.HandlerResult:
            seen.append(f"tool {call.params.name}")
            return await call_next(call)

        async def on_request(
            self, call: mcprev.HandlerCall, call_next: mcprev.CallNext
        ) -> mcprev.HandlerResult:
            seen.append(call.method)
            return await call_next(call)

    class Narrow(Hooks):
        async def on_read_resource(self, call: Any, call_next: mcprev.CallNext) -> mcprev.HandlerResult:
            seen.append("narrow")
            return await call_next(call)

    async def test() -> None:
        async with mcprev.connect(Trial(Own(), Narrow()).app) as client:
            await client.call_tool("reads")
            await client.read_resource("notes://all")
        assert seen == ["tools/call", "tool reads", "resources/read", "narrow"]

    run(test())
    assert Narrow().for_method("tools/call") is None
    assert Own().for_method("notifications/cancelled") is None


def test_a_method_that_no_middleware_is_about_costs_nothing() -> None:
    class Own(Hooks):
        async def on_read_resource(self, call: Any, call_next: mcprev.CallNext) -> mcprev.HandlerResult:
            return await call_next(call)

    from mcprev.server.middleware import wrap

    async def stub(ctx: Any, params: Any) -> None: ...

    assert wrap([Own(), Caching(1)], "tools/call", stub) is stub
    assert wrap([Own()], "resources/read", stub) is not stub


def test_a_hook_that_is_none_names_the_right_one() -> None:
    async def on_tool_call(self: Any, call: Any, call_next: Any) -> None: ...

    with pytest.raises(TypeError, match="did you mean 'on_call_tool'"):
        type("Wrong", (Hooks,), {"on_call_tol": on_tool_call})


# -- logging, timing, audit, metrics -----------------------------------------------------------------------


@pytest.mark.parametrize("as_json", [False, True])
def test_each_call_is_one_line_that_says_how_it_ended(
    as_json: bool, caplog: pytest.LogCaptureFixture
) -> None:
    trial = Trial(Logging(as_json=as_json, methods=["tools/call", "resources/read"], payloads=True))
    with caplog.at_level(logging.INFO):
        run(trial.every_end())
    records = [record for record in caplog.records if record.name == "mcprev.calls"]
    found: list[dict[str, Any]] = [vars(record)["mcp"] for record in records]
    assert [each["outcome"] for each in found] == ENDS
    assert [record.levelname for record in records] == ["INFO", "WARNING", "WARNING", "ERROR", "INFO", "INFO"]
    assert found[0]["name"] == "writes"
    assert found[0]["client"]
    assert found[0]["bytes"] > 0
    for record in records:
        assert record.getMessage().isprintable()
        assert "hunter2" not in record.getMessage()
        if as_json:
            assert json.loads(record.getMessage()) == vars(record)["mcp"]
    caplog.clear()


def test_a_payload_is_cut_and_a_level_that_is_off_costs_no_line(caplog: pytest.LogCaptureFixture) -> None:
    trial = Trial(Logging(payloads=True, max_payload=20), Logging("quiet", level=logging.DEBUG))

    async def test() -> None:
        async with mcprev.connect(trial.app) as client:
            await client.call_tool("writes", {"text": "y" * 100})

    with caplog.at_level(logging.INFO):
        run(test())
    (record,) = [each for each in caplog.records if each.name in {"mcprev.calls", "quiet"}]
    assert "y" * 21 not in record.getMessage()
    assert "characters)" in record.getMessage()


def test_calls_are_timed_by_name_and_slow_ones_logged(caplog: pytest.LogCaptureFixture) -> None:
    timing = Timing(slow=0)
    with caplog.at_level(logging.WARNING):
        run(Trial(timing).every_end())
    assert timing.times["tools/call", "writes"].calls == 2
    times = timing.times["tools/call", "writes"]
    assert 0 < times.mean <= times.longest <= times.total
    assert ("tools/call", HOSTILE) not in timing.times
    assert sum(times.calls for times in timing.times.values()) == len(ENDS)
    assert sum(record.getMessage().startswith("slow call: ") for record in caplog.records) == len(ENDS)
    caplog.clear()


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_an_audit_says_who_called_what_before_it_runs_and_how_it_ended(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    path.touch(0o600)
    path.write_text('{"earlier": true}\n')
    run(Trial(Audit(path)).every_end())
    earlier, *found = lines(path)
    assert earlier == {"earlier": True}
    started, ended = ([each for each in found if each["event"] == event] for event in ("call", "end"))
    assert [each["outcome"] for each in ended] == ENDS
    assert [each["id"] for each in started] == [each["id"] for each in ended]
    assert started[0]["name"] == "writes"
    assert "hi" in started[0]["params"]
    assert "hunter2" not in path.read_text()


@pytest.mark.parametrize("how", ["audit", "log", "times"])
def test_no_record_holds_the_secret_in_a_uri(
    how: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path, timing = tmp_path / "audit.jsonl", Timing(slow=0.0)
    ready: dict[str, Any] = {"audit": Audit(path), "log": Logging(payloads=True), "times": timing}

    async def test() -> None:
        app = mcprev.App("files", "1", middleware=[ready[how]])

        @app.resource("https://files.example/{+rest}")
        async def files(rest: str) -> str:
            return "text"

        async with mcprev.connect(app) as client:
            for secret in ("?access_token=hunter2", "?X-Amz-Signature=hunter2", "#token=hunter2"):
                await client.read_resource(f"https://files.example/a{secret}")

    with caplog.at_level(logging.INFO, "mcprev.calls"):
        run(test())
    told = path.read_text() if how == "audit" else caplog.text + str(timing.times)
    assert told.count("https://files.example/a") >= 3
    assert "hunter2" not in told
    caplog.clear()


def test_the_file_of_an_audit_is_its_owners(tmp_path: Path) -> None:
    Audit(tmp_path / "audit.jsonl")
    assert stat.S_IMODE((tmp_path / "audit.jsonl").stat().st_mode) == 0o600
    with pytest.raises(FileNotFoundError):
        Audit(tmp_path / "none" / "audit.jsonl")
    with pytest.raises(ValueError, match="on_error"):
        Audit(print, on_error="ignore")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("event", ["call", "end"])
@pytest.mark.parametrize("on_error", ["deny", "warn"])
def test_a_call_that_cannot_be_recorded_is_refused_unless_the_author_says_otherwise(
    event: str, on_error: Any, caplog: pytest.LogCaptureFixture
) -> None:
    def write(members: Mapping[str, Any]) -> None:
        if members["event"] == event:
            raise OSError("no space left")

    trial = Trial(Audit(write, on_error=on_error))

    async def test() -> None:
        async with mcprev.connect(trial.app) as client:
            result = await client.call_tool("writes")
            assert result.is_error is (on_error == "deny")
            assert ("fine" in str(result.content)) is (on_error == "warn")
            task = asyncio.create_task(client.call_tool("waits"))
            for _ in range(50):
                await asyncio.sleep(0)
            task.cancel()  # a cancelled call stays cancelled
            with pytest.raises(asyncio.CancelledError):
                await task if not task.done() else task.result()

    if (on_error, event) == ("deny", "call"):
        with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"), caplog.at_level(logging.ERROR):
            run(test())
        assert trial.runs == []
    else:
        with caplog.at_level(logging.ERROR):
            run(test())
        assert trial.runs == ["writes", "waits"]
    assert "cannot be recorded" in caplog.text
    caplog.clear()


def test_metrics_count_calls_by_name_and_outcome_and_keep_foreign_names_out() -> None:
    metrics = Metrics(max_names=2)
    run(Trial(metrics).every_end())

    def value(number: str, **labels: str) -> float | None:
        return metrics.registry.get_sample_value(number, labels)

    call = "tools/call"
    assert value("mcp_calls_total", method=call, name="writes", outcome="ok") == 1
    assert value("mcp_calls_total", method=call, name="writes", outcome="error") == 1
    assert value("mcp_calls_total", method=call, name="fails", outcome="tool_error") == 1
    assert value("mcp_calls_total", method=call, name="other", outcome="refused") == 1
    assert value("mcp_calls_total", method=call, name="other", outcome="cancelled") == 1
    assert value("mcp_refused_requests_total", method=call, code="-32602") == 1
    assert value("mcp_call_duration_seconds_count", method=call, name="writes") == 2
    assert value("mcp_calls_in_progress") == 0
    assert value("mcp_connections") == 0


def test_metrics_and_telemetry_both_see_connections() -> None:
    one, other = Metrics(), Metrics()
    trial = Trial(one, mcprev.Telemetry(), other)

    async def test() -> None:
        async with mcprev.connect(trial.app) as client:
            await client.call_tool("reads")
            assert [each.registry.get_sample_value("mcp_connections") for each in (one, other)] == [1, 1]

    run(test())


# -- retries, sizes, errors --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("failures", "tool", "options", "runs"),
    [
        ([ConnectionError()], "reads", {}, 2),
        ([TimeoutError(), ConnectionResetError()], "reads", {}, 3),
        ([ConnectionError()] * 5, "reads", {}, 3),
        ([ConnectionError()] * 5, "reads", {"tries": 1}, 1),
        ([ValueError()], "reads", {}, 1),
        ([ValueError()], "reads", {"on": (ValueError,)}, 2),
        ([ConnectionError()], "writes", {}, 1),
        ([ConnectionError()], "writes", {"tools": ["writes"]}, 2),
        ([mcprev.ToolError("x")], "reads", {"on": (Exception,)}, 1),
        ([mcprev.InvalidParams("x")], "reads", {"on": (Exception,)}, 1),
        ([ConnectionError()], None, {}, 2),
    ],
)
def test_a_handler_runs_again_only_where_that_is_safe(
    failures: list[Exception], tool: str | None, options: dict[str, Any], runs: int
) -> None:
    trial = Trial(Retries(**(dict[str, Any](backoff=0) | options)))
    trial.failures.extend(failures)

    async def test() -> None:
        async with mcprev.connect(trial.app) as client:
            with suppress(mcprev.McpError):
                await (client.read_resource("notes://all") if tool is None else client.call_tool(tool))

    run(test())
    assert len(trial.runs) == runs


def test_a_handler_that_has_asked_the_client_or_is_no_app_s_does_not_run_again() -> None:
    runs: list[str] = []
    app = mcprev.App("asks", "1", middleware=[Retries(3, backoff=0, tools=["ask"])])

    @app.tool
    async def ask(ctx: mcprev.Context) -> str:
        runs.append("ask")
        await ctx.elicit("Who?", str)
        raise ConnectionError

    class Handler(mcprev.ServerHandler):
        async def list_tools(self, ctx: mcprev.Context, params: Any) -> m.ListToolsResult:
            return m.ListToolsResult(tools=[m.Tool(name="own", input_schema=m.ToolInputSchema())])

        async def call_tool(self, ctx: mcprev.Context, params: Any) -> m.CallToolResult:
            runs.append("own")
            raise ConnectionError

    async def test() -> None:
        async with mcprev.connect(app, mode="legacy", elicitation=lambda _: {"value": "ann"}) as client:
            assert (await client.call_tool("ask")).is_error
        server = mcprev.Server(Handler(), "s", "1", middleware=[Retries(3, backoff=0)])
        async with mcprev.connect(server) as client:
            assert (await client.call_tool("own")).is_error

    run(test())
    assert runs == ["ask", "own"]


def test_pauses_double_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []

    def longest(low: float, high: float) -> float:
        pauses.append(high)
        return 0.0

    monkeypatch.setattr("mcprev.middleware.retries.random.uniform", longest)
    trial = Trial(Retries(6, backoff=0.01, max_backoff=0.05))
    trial.failures.extend([ConnectionError()] * 5)

    async def test() -> None:
        async with mcprev.connect(trial.app) as client:
            assert (await client.call_tool("reads")).text == "fine"

    run(test())
    assert pauses == [0.01, 0.02, 0.04, 0.05, 0.05]


def test_the_last_texts_are_shortened_first_and_never_beside_structured_content() -> None:
    def big(*texts: str, **members: Any) -> m.CallToolResult:
        return m.CallToolResult(content=[m.TextContent(text=text) for text in texts], **members)

    app = mcprev.App("big", "1", middleware=[SizeLimit(1000, truncate=True)])
    app.tool(lambda: big("a" * 500, "b" * 900), name="texts")
    app.tool(lambda: big("a" * 2000, structured_content={"a": 1}), name="both")

    async def test() -> None:
        async with mcprev.connect(app) as client:
            first, second = (await client.call_tool("texts")).content
            assert first.to_wire()["text"] == "a" * 500
            assert second.to_wire()["text"].startswith("b" * 100)
            assert "[shortened" in second.to_wire()["text"]
            assert (await client.call_tool("both")).is_error

    run(test())


@pytest.mark.parametrize("wrong", [{"tries": 0}, {"backoff": -1}, {"on": (mcprev.ToolError,)}])
def test_retries_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"try|not retried"):
        Retries(**wrong)


@pytest.mark.parametrize("text", ["x" * 5000, "é" * 5000, '"' * 5000, "\n" * 5000, "😀" * 3000])
def test_a_result_that_is_too_large_is_shortened_or_an_error(text: str) -> None:
    async def test() -> None:
        for truncate in (True, False):
            async with mcprev.connect(Trial(SizeLimit(1000, truncate=truncate)).app) as client:
                result = await client.call_tool("writes", {"text": text})
                found = result.content[0].to_wire()["text"]
                assert result.is_error is not truncate
                assert ("[shortened: " in found) is truncate
                assert len(json.dumps(found, ensure_ascii=False).encode()) <= 1000
                if truncate:
                    assert len(json.dumps(found, ensure_ascii=False).encode()) > 900
                small = await client.call_tool("writes", {"text": "small"})
                assert small.content[0].to_wire()["text"] == "small"
                assert (await client.call_tool("counts")).is_error  # structured content is not cut
                assert (await client.read_resource("notes://all")).contents

    run(test())


def test_a_resource_that_is_too_large_is_an_error() -> None:
    async def test() -> None:
        app = mcprev.App("big", "1", middleware=[SizeLimit(1000, truncate=True)])

        @app.resource("notes://big")
        async def big() -> str:
            return "x" * 2000

        async with mcprev.connect(app) as client:
            with pytest.raises(mcprev.InternalError, match=r"2[0-9]{3} bytes, more than the 1000"):
                await client.read_resource("notes://big")

    run(test())
    with pytest.raises(ValueError, match="256"):
        SizeLimit(255)


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (KeyError("k"), "no such item"),
        (FileNotFoundError("/secret"), "a file is missing"),
        (PermissionError("/secret"), "the system says 13"),
        (mcprev.ToolError("own"), "own"),
        (ValueError("secret"), "failed"),
    ],
)
def test_errors_are_told_as_the_table_says(
    error: Exception, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    def told(error: Exception) -> Exception:
        return mcprev.ToolError("the system says 13")

    table: dict[type[Exception], str | Callable[[Exception], Exception]] = {
        LookupError: "no such item",
        OSError: told,
        FileNotFoundError: "a file is missing",
        mcprev.ToolError: "never",
    }
    trial = Trial(ErrorMapping(table))
    trial.failures.append(error)

    async def test() -> None:
        async with mcprev.connect(trial.app) as client:
            result = await client.call_tool("writes")
            assert result.is_error
            assert text in str(result.content)
            assert "secret" not in str(result.content)

    run(test())
    caplog.clear()


def test_an_error_becomes_that_of_the_protocol_outside_of_tools() -> None:
    trial = Trial(ErrorMapping({KeyError: mcprev.InvalidRequest, ValueError: "not now"}))
    trial.failures += [KeyError("x"), ValueError("secret")]

    async def test() -> None:
        async with mcprev.connect(trial.app) as client:
            with pytest.raises(mcprev.InvalidRequest):
                await client.read_resource("notes://all")
            with pytest.raises(mcprev.InternalError, match="not now"):
                await client.read_resource("notes://all")

    run(test())


def test_foreign_text_cannot_forge_members_of_a_line(caplog: pytest.LogCaptureFixture) -> None:
    trial = Trial(Logging())

    async def test() -> None:
        async with mcprev.connect(trial.app) as client:
            with pytest.raises(mcprev.InvalidParams):
                await client.call_tool("x outcome=ok")

    with caplog.at_level(logging.INFO):
        run(test())
    assert 'name="x outcome=ok" ' in caplog.text
    caplog.clear()


def test_a_call_that_is_cancelled_while_its_end_cannot_be_recorded_stays_cancelled(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def write(members: Mapping[str, Any]) -> None:
        if members["event"] == "end":
            raise OSError("no space left")

    async def test() -> None:
        async def waits(call: mcprev.HandlerCall) -> mcprev.HandlerResult:
            raise asyncio.CancelledError

        trial = Trial()

        async def probe(call: mcprev.HandlerCall, call_next: mcprev.CallNext) -> mcprev.HandlerResult:
            with pytest.raises(asyncio.CancelledError):
                await Audit(write)(call, waits)
            return await call_next(call)

        app = mcprev.App("trial", "1", middleware=[probe])
        app.mount(trial.app)
        async with mcprev.connect(app) as client:
            assert (await client.call_tool("reads")).text == "fine"

    with caplog.at_level(logging.ERROR):
        run(test())
    assert "cannot be recorded" in caplog.text
    caplog.clear()


# -- what mutations of records, audit and metrics left unnoticed ---------------------------------------------


def test_a_question_to_the_user_is_no_error_of_the_call() -> None:
    lines: list[dict[str, Any]] = []
    app = mcprev.App("asks", "1", middleware=[Audit(lambda line: lines.append(dict(line)))])

    @app.tool
    async def ask(ctx: mcprev.Context) -> str:
        return str((await ctx.elicit("Who?", str)).data)

    async def test() -> None:
        async with mcprev.connect(app, elicitation=lambda _: {"value": "ann"}) as client:
            assert (await client.call_tool("ask")).text == "ann"

    run(test())
    assert [line.get("outcome") for line in lines] == [None, "input_required", None, "ok"]


def test_an_audit_names_a_session_by_its_beginning_only() -> None:
    lines: list[dict[str, Any]] = []
    app = mcprev.App("seen", "1", middleware=[Audit(lambda line: lines.append(dict(line)))])
    app.tool(lambda: "fine", name="fine")

    async def test() -> None:
        asgi = app.asgi()
        client = await Client(asgi).open(revision_named(D))
        await client.call("fine").done()
        (session,) = (value for name, value in client.session.items() if name.lower() == "mcp-session-id")
        assert lines[0]["session"] == session[:8]
        assert len(session) > 20
        await asgi.aclose()

    run(test())


def test_a_line_of_an_audit_that_was_written_in_part_ends_before_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "audit.jsonl"

    class Full(FileIO):
        def write(self, line: Any, /) -> int:
            return super().write(line[:20] if len(line) > 20 else line)

    def opened(to: Any) -> Full:
        return Full(to, "ab")

    monkeypatch.setattr(audit, "_opened", opened)
    app = mcprev.App("full", "1", middleware=[Audit(path, on_error="warn")])
    app.tool(lambda: "fine", name="fine")

    async def test() -> None:
        async with mcprev.connect(app) as client:
            assert (await client.call_tool("fine")).text == "fine"

    with logging_off("mcprev.audit"):
        run(test())
    assert [len(line) for line in path.read_text(encoding="utf-8").splitlines()] == [20, 20]


def test_names_that_no_handler_knows_take_no_place_among_those_that_are_told_apart() -> None:
    metrics = Metrics(max_names=1)
    trial = Trial(metrics)

    async def test() -> None:
        async with mcprev.connect(trial.app) as client:
            for name in ("a", "b"):
                with pytest.raises(mcprev.InvalidParams):
                    await client.call_tool(name)
            await client.call_tool("writes")
            await client.call_tool("reads")

    run(test())
    found = {
        (sample.labels["name"], sample.labels["outcome"]): sample.value
        for metric in metrics.registry.collect()
        for sample in metric.samples
        if sample.name == "mcp_calls_total" and sample.labels["method"] == "tools/call"
    }
    assert found == {("other", "refused"): 2.0, ("writes", "ok"): 1.0, ("other", "ok"): 1.0}
