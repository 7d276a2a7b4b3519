"""A client made of plain functions: what it declares, what the server gets, and which changes it hears of."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

import pytest
from pydantic import BaseModel

import mcprev
from api.authors import Helpful, form
from api.wire import Error, serving
from fuzz.fuzzing import each_once
from helpers.requirements import req
from helpers.running import run, until
from mcprev.core.questions import reply_of
from mcprev.revisions import DEFAULT, Revision
from mcprev_types.latest import models as m

each_row = pytest.mark.parametrize("row", DEFAULT, ids=lambda row: row.name)
PATH: Final = Path("/srv/data")


class Asks(mcprev.ServerHandler):
    async def list_tools(self, ctx: mcprev.Context, params: Any) -> m.ListToolsResult:
        names = ("roots", "sampling", "elicitation")
        return m.ListToolsResult(
            tools=[m.Tool(name=name, input_schema=m.ToolInputSchema()) for name in names]
        )

    async def call_tool(self, ctx: mcprev.Context, params: m.CallToolRequestParams) -> m.CallToolResult:
        await ctx.log("error", params.name)
        message = m.SamplingMessage(role="user", content=m.TextContent(text="hi"))
        requests: dict[str, Any] = {
            "roots": m.ListRootsRequest(),
            "sampling": m.CreateMessageRequest(
                params=m.CreateMessageRequestParams(messages=[message], max_tokens=5)
            ),
            "elicitation": form("who"),
        }
        answer = cast("m.ElicitResult", await ctx.ask(params.name, requests[params.name]))
        return m.CallToolResult(content=[m.TextContent(text=json.dumps(answer.to_wire()))])


def sampled(params: m.CreateMessageRequestParams) -> m.CreateMessageResult:
    return m.CreateMessageResult(
        role="assistant", model=f"m{params.max_tokens}", content=m.TextContent(text="x")
    )


async def sampled_later(params: m.CreateMessageRequestParams) -> m.CreateMessageResult:
    await asyncio.sleep(0)
    return sampled(params)


async def filled(params: m.ElicitRequestParams) -> dict[str, Any]:
    await asyncio.sleep(0)
    return {"name": "bob"}


def answering(answer: object) -> Callable[[m.ElicitRequestParams], object]:
    """A user who gives this answer to every question."""

    def callback(_params: m.ElicitRequestParams) -> object:
        return answer

    return callback


def declined(params: m.ElicitRequestParams) -> None:
    """The user does not answer."""


def cancelled(params: m.ElicitRequestParams) -> m.ElicitResult:
    return m.ElicitResult(action="cancel")


class Filled(BaseModel):
    name: str


@dataclass(frozen=True)
class Typed:
    name: str


ANSWER: Final = {"role": "assistant", "model": "m5", "content": {"type": "text", "text": "x"}}
GIVEN: Final[dict[str, tuple[str, Any, object]]] = {
    # the option and its value, and the answer that the server gets
    "roots": ("roots", [PATH, "file:///x", m.Root(uri="file:///y", name="y")],
        {"roots": [{"uri": "file:///srv/data"}, {"uri": "file:///x"}, {"uri": "file:///y", "name": "y"}]}),
    "no roots": ("roots", [], {"roots": []}),
    "sampling": ("sampling", sampled, ANSWER),
    "async sampling": ("sampling", sampled_later, ANSWER),
    "content": ("elicitation", filled, {"action": "accept", "content": {"name": "bob"}}),
    "declined": ("elicitation", declined, {"action": "decline"}),
    "cancelled": ("elicitation", cancelled, {"action": "cancel"}),
    "a model": ("elicitation", answering(Filled(name="bob")), {"action": "accept", "content": {"name": "bob"}}),
    "a dataclass": ("elicitation", answering(Typed("bob")), {"action": "accept", "content": {"name": "bob"}}),
    "Accepted": ("elicitation", answering(mcprev.Accepted({"name": "bob"})), {"action": "accept", "content": {"name": "bob"}}),
    "Accepted, of a model": (
        "elicitation", answering(mcprev.Accepted(Filled(name="bob"))), {"action": "accept", "content": {"name": "bob"}}
    ),
    "Accepted, of a value": ("elicitation", answering(mcprev.Accepted(3)), {"action": "accept", "content": {"value": 3}}),
    "Declined": ("elicitation", answering(mcprev.Declined()), {"action": "decline"}),
    "Cancelled": ("elicitation", answering(mcprev.Cancelled()), {"action": "cancel"}),
}  # fmt: skip


@req("SEAM-1", "MOD-2", "ROOT-1", "SAMP-1", "ELIC-1")
@each_row
@pytest.mark.parametrize("case", GIVEN)
@each_once
def test_functions_answer_the_server(row: Revision, case: str) -> None:
    """What is given is declared, and nothing else."""
    option, value, wanted = GIVEN[case]

    async def main() -> None:
        options: dict[str, Any] = {option: value}
        server = mcprev.Server(Asks(), "s", "1", show_errors=True)
        async with mcprev.connect(server, mode=row.name, **options) as client:
            declared = client.session.identity.capabilities(row).keys() - {"extensions"}
            known = option != "elicitation" or bool(row.elicitation_modes)
            assert declared == ({option} if known else set())
            if known:
                assert (await client.call_tool(option)).data == wanted
            with pytest.raises(mcprev.McpError):
                await client.call_tool("roots" if option != "roots" else "sampling")

    run(main())


@req("SEAM-1", "LOG-5")
@each_row
def test_a_function_gets_log_messages(row: Revision) -> None:
    async def main() -> None:
        got: list[object] = []

        def take(params: m.LoggingMessageNotificationParams) -> None:
            got.append((params.level, params.data))

        server = mcprev.Server(Asks(), "s", "1")
        async with mcprev.connect(server, mode=row.name, logging=take, roots=[]) as client:
            await client.set_log_level("error")
            await client.call_tool("roots")
            await until(lambda: bool(got))
        # A handler of a stateless revision runs again with the answer.
        assert set(got) == {("error", "roots")}

    run(main())


@req("SUB-7", "SUB-2")
@each_row
def test_a_function_hears_of_changes(row: Revision, caplog: pytest.LogCaptureFixture) -> None:
    """Without a handler, and at every revision; one that raises is called for the next change all the same."""

    async def main() -> None:
        got: list[mcprev.Change] = []

        async def changed(change: mcprev.Change) -> None:
            got.append(change)
            raise ValueError("oops")

        server = mcprev.Server(Asks(), "s", "1")
        async with mcprev.connect(server, mode=row.name, on_change=changed) as client:
            for number in (1, 2):
                server.changed("tools")
                await until(lambda number=number: len(got) == number)  # type: ignore[misc]
            assert set(got) == {mcprev.Change(mcprev.Changed.TOOLS)}
            await client.ping()
        await server.aclose()

    with caplog.at_level(logging.CRITICAL, logger="mcprev"):
        run(main())


@req("SUB-7")
@each_row
def test_a_server_that_reports_no_changes(row: Revision) -> None:
    async def main() -> None:
        replies: dict[str, Any] = {"subscriptions/listen": Error(-32601, "no")}
        async with serving(row, replies, on_change=print) as (client, _):
            await client.ping()

    run(main())


@req("ELIC-1", everywhere=True)
def test_what_is_no_answer_to_a_form_is_refused_with_what_is() -> None:
    with pytest.raises(
        TypeError, match=r"returned str: return the fields of the form as a mapping, `mcprev\.Accepted"
    ):
        reply_of(cast("Any", "bob"))


@req("SEAM-1", everywhere=True)
def test_a_handler_and_functions() -> None:
    server = mcprev.Server(Asks(), "s", "1")
    with pytest.raises(TypeError, match="but not both"):
        mcprev.connect(server, handler=Helpful(), roots=[])


@req("ROOT-1", everywhere=True)
def test_one_path_is_no_sequence_of_roots() -> None:
    """Its characters would be roots, the first of them the whole disk."""
    with pytest.raises(TypeError, match=r"roots=\['/srv/data'\]"):
        mcprev.connect(mcprev.Server(Asks(), "s", "1"), roots="/srv/data")


@req("ROOT-1")
@each_row
def test_a_handler_asks_for_the_roots(row: Revision) -> None:
    app = mcprev.App("roots", "1.0")

    @app.tool
    async def where(ctx: mcprev.Context) -> str:
        return " ".join([root.uri for root in await ctx.roots()] + [root.uri for root in await ctx.roots()])

    async def main() -> None:
        async with mcprev.connect(app, mode=row.name, roots=["file:///a"]) as client:
            assert (await client.call_tool("where")).text == "file:///a file:///a"

    run(main())
