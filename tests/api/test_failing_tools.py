"""What comes of a tool that raises: a result that its model can read, however it is written, served and called."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest
from pydantic import BaseModel

import mcprev
from api.authors import form
from api.transports import Reach, asgi, memory, over, reach
from api.wire import HandClient, Message, served, serving
from fuzz.fuzzing import each_once
from helpers.requirements import D, E, req
from helpers.running import Records, run
from mcprev.protocol.tasks import EXTENSION
from mcprev.revisions import DEFAULT, Revision, TaskSupport as Place
from mcprev_types.latest import models as m

WITH_TASKS: Final = tuple(row for row in DEFAULT if row.tasks is not Place.NONE)


class Unusual(BaseException):
    """What is no `Exception`."""


MASKED: Final = "the tool 't' failed"
ERRORS: Final[list[tuple[BaseException, str, str]]] = [
    # what is raised, what the model reads, and what it reads with `show_errors`
    (RuntimeError("secret"), MASKED, f"{MASKED}: RuntimeError: secret"),
    (KeyError("secret"), MASKED, f"{MASKED}: KeyError: 'secret'"),
    (mcprev.RequestTimeout("secret", elapsed=1, kind="idle"), MASKED, f"{MASKED}: RequestTimeout: secret"),
    (mcprev.ToolError("the disk is full"), "the disk is full", "the disk is full"),
    (SystemExit("secret"), MASKED, f"{MASKED}: RuntimeError: the handler of 'tools/call' raised SystemExit"),
    (Unusual("secret"), MASKED, f"{MASKED}: RuntimeError: the handler of 'tools/call' raised Unusual"),
    (
        asyncio.CancelledError("secret"),
        MASKED,
        f"{MASKED}: RuntimeError: the handler of 'tools/call' waited for something that was cancelled",
    ),
]


def newly(errors: list[BaseException]) -> BaseException:
    """The last of them, without the frames through which it was raised before."""
    return errors[-1].with_traceback(None)


class ByHand(mcprev.ServerHandler):
    """A handler whose tool raises the last of some errors."""

    def __init__(self, errors: list[BaseException], *, detaches: bool = False) -> None:
        self.errors = errors
        self.detaches = detaches

    async def list_tools(self, ctx: mcprev.Context, params: m.PaginatedRequestParams) -> m.ListToolsResult:
        return m.ListToolsResult(tools=[m.Tool(name="t", input_schema=m.ToolInputSchema())])

    async def call_tool(self, ctx: mcprev.Context, params: m.CallToolRequestParams) -> m.CallToolResult:
        if self.detaches:
            await ctx.detach()
        raise newly(self.errors)


def by_hand(errors: list[BaseException], **options: Any) -> mcprev.Server:
    return mcprev.Server(ByHand(errors), "s", "1", **options)


def coroutine(errors: list[BaseException], **options: Any) -> mcprev.Server:
    app = mcprev.App("s", "1", **options)

    @app.tool
    async def t() -> str:
        raise newly(errors)

    return app.server


def in_a_thread(errors: list[BaseException], **options: Any) -> mcprev.Server:
    app = mcprev.App("s", "1", **options)

    @app.tool
    def t() -> str:
        raise newly(errors)

    return app.server


Make = Callable[..., mcprev.Server]


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture) -> Iterator[Records]:
    with caplog.at_level("DEBUG", logger="mcprev"):
        records = Records()
        logging.getLogger("mcprev.server").addHandler(records)
        yield records
        logging.getLogger("mcprev.server").removeHandler(records)


def errors_of(logged: Records) -> list[str]:
    return [record.getMessage() for record in logged.records if record.levelname == "ERROR"]


@req("TOOL-1", "ERR-1")
@pytest.mark.parametrize(
    ("way", "make"),
    [(memory, by_hand), (memory, coroutine), (memory, in_a_thread), (asgi(), by_hand), (asgi(), in_a_thread)],
    ids=["handler", "coroutine", "thread", "handler over HTTP", "thread over HTTP"],
)
@pytest.mark.parametrize("show", [False, True], ids=["masked", "shown"])
@each_once
def test_models_read_that_a_tool_failed(
    row: Revision, way: Reach, make: Make, show: bool, logged: Records
) -> None:
    """The reason only if it is a `ToolError` or the server shows all; the log has it, with tool and request."""

    async def main() -> None:
        raised: list[BaseException] = []
        with over(way):
            async with (
                reach(make(raised, show_errors=show), row) as target,
                mcprev.connect(target, mode=row.name) as client,
            ):
                for error, masked, shown in ERRORS:
                    raised.append(error)
                    logged.records.clear()
                    for _ in range(2):  # one failure ends nothing
                        result = await client.call_tool("t")
                        assert result.is_error is True
                        text = shown if show else masked
                        assert result.to_wire()["content"] == [{"type": "text", "text": text}]
                    told = isinstance(error, mcprev.ToolError)
                    lines = errors_of(logged)
                    assert len(lines) == (0 if told else 2), error
                    assert all(line.startswith("the tool 't' failed (request ") for line in lines)
                    assert all(r.exc_info for r in logged.records if r.levelname == "ERROR")

    run(main())


async def of_task(hand: HandClient, row: Revision) -> Message:
    """Call the tool as a task; its record once it has ended, and the result of the tool."""
    core = row.tasks is Place.CORE
    answer = (await hand.ask("tools/call", {"name": "t", **({"task": {}} if core else {})})).result
    name = (answer["task"] if core else answer)["taskId"]
    while (found := (await hand.ask("tasks/get", {"taskId": name})).result)["status"] == "working":
        pass
    if core:
        found["result"] = (await hand.ask("tasks/result", {"taskId": name})).result
    return found


@req("TOOL-1", "TASK-8", "TASKX-2", at=(D, E))
@pytest.mark.parametrize("row", WITH_TASKS, ids=lambda row: row.name)
@pytest.mark.parametrize("show", [False, True], ids=["masked", "shown"])
def test_tasks_end_with_a_result_that_says_so(row: Revision, show: bool, logged: Records) -> None:
    async def main() -> None:
        raised: list[BaseException] = []
        server = mcprev.Server(
            ByHand(raised, detaches=True),
            "s",
            "1",
            tasks=mcprev.Tasks({"t": "optional"}),
            show_errors=show,
        )
        async with served(server, row, capabilities={"extensions": {EXTENSION: {}}}) as hand:
            for error, masked, shown in ERRORS:
                raised.append(error)
                logged.records.clear()
                found = await of_task(hand, row)
                assert found["status"] == ("failed" if row.tasks is Place.CORE else "completed")
                assert found["result"]["isError"] is True
                text = shown if show else masked
                assert found["result"]["content"] == [{"type": "text", "text": text}]
                assert len(errors_of(logged)) == (0 if isinstance(error, mcprev.ToolError) else 1)

    run(main())


class Point(BaseModel):
    x: int


@req("TOOL-5", "TASK-4", "TASKX-2", at=(D, E))
@pytest.mark.parametrize("row", WITH_TASKS, ids=lambda row: row.name)
def test_the_data_of_a_task_is_text_too(row: Revision) -> None:
    app = mcprev.App("s", "1", tasks=mcprev.Tasks({"t": "optional"}))

    @app.tool
    async def t(ctx: mcprev.Context) -> Point:
        await ctx.detach()
        return Point(x=1)

    async def main() -> None:
        async with served(app.server, row, capabilities={"extensions": {EXTENSION: {}}}) as hand:
            result = (await of_task(hand, row))["result"]
            assert result["structuredContent"] == {"x": 1}
            assert result["content"] == [{"type": "text", "text": '{"x":1}'}]

    run(main())


class Person(mcprev.ClientHandler):
    """Raises instead of an answer."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    async def elicit(self, ctx: mcprev.ClientContext, params: Any) -> m.ElicitResult:
        raise self.error


UNUSUAL: Final = [error for error, _, _ in ERRORS if not isinstance(error, Exception)]


@req("ERR-1", "MRTR-10")
@pytest.mark.parametrize("error", UNUSUAL, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("row", [row for row in DEFAULT if row.elicitation_modes], ids=lambda row: row.name)
def test_a_handler_of_a_client_that_ends_oddly_answers(row: Revision, error: BaseException) -> None:
    """A server gets an error; where the answer is part of a call, its caller does, who was not cancelled."""
    question = form().to_wire()

    async def main() -> None:
        if row.handshake:
            async with serving(row, handler=Person(error)) as (_, hand):
                for _ in range(2):
                    answer = await hand.ask(question["method"], question["params"])
                    assert answer.error == {"code": -32603, "message": "Internal error"}
            return
        asks = {"tools/call": {"resultType": "input_required", "inputRequests": {"k": question}}}
        async with serving(row, asks, handler=Person(error)) as (client, _):
            with pytest.raises(RuntimeError, match="the handler of 'elicitation/create' ") as caught:
                await client.call_tool("t")
            assert caught.value.__cause__ is error

    run(main())
