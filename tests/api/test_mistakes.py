"""What is easily written otherwise than meant: taken where it is clear, else refused at once with what was meant."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from typing import Any, Final

import pytest

import mcprev
from api.authors import Everything, Helpful
from api.wire import Error, serving
from helpers.requirements import E, req
from helpers.running import run
from mcprev.protocol.stateless import missing_capability
from mcprev.revisions import LATEST
from mcprev_types.latest import models as m


class Synchronous(mcprev.ServerHandler):
    """Its methods are not coroutine functions."""

    def list_tools(self, ctx: mcprev.Context, params: Any) -> Any:
        return {"tools": []}

    def call_tool(self, ctx: mcprev.Context, params: Any) -> Any:
        return {"content": [{"type": "text", "text": "here"}]}


class Misspelt(mcprev.ServerHandler):
    async def list_tool(self, ctx: mcprev.Context, params: Any) -> Any: ...


class MisspeltClient(mcprev.ClientHandler):
    async def list_root(self, ctx: mcprev.ClientContext, params: Any) -> Any: ...


def app(**options: Any) -> mcprev.App:
    made = mcprev.App("a", "1", **options)

    @made.tool
    async def greet(name: str, ctx: mcprev.Context) -> str:
        await ctx.progress(1, 2, "half")
        if name == "dict":
            request: Any = {"method": "roots/list"}
            await ctx.ask("k", request)
        return f"hi {name}"

    @made.prompt
    async def hello(name: str) -> str:
        return name

    @made.completion("hello", "name")
    async def names(value: str) -> list[str]:
        return [value + "!"]

    return made


Work = Callable[[Any], Awaitable[object]]
loose: Any = mcprev
"""Where types would find the mistake."""
reported: list[object] = []


async def report(done: float, total: float | None, message: str | None) -> None:
    await asyncio.sleep(0)
    reported.append((done, total, message))


async def text_of(call: Awaitable[m.CallToolResult]) -> object:
    return (await call).to_wire()["content"][0]["text"]


async def progressed(client: Any) -> object:
    reported.clear()
    await client.call_tool("greet", {"name": "x"}, progress=report)
    await client.list_tools()
    return reported


async def completed(client: Any) -> object:
    return (await client.complete("hello", "name", "b")).completion.values


NO_DICT: Final = (
    "the tool 'greet' failed: TypeError: `ask` takes a request such as "
    "mcprev_types.latest.models.ElicitRequest(...), not a dict"
)
CALLS: Final[dict[str, tuple[Work, object]]] = {
    # what is done with a client of the app: what comes of it, or the TypeError that says what was meant
    "misspelt option": (lambda c: c.call_tool("greet", {"name": "x"}, timeuot=1), TypeError("did you mean 'timeout'?")),
    "argument as option": (lambda c: c.call_tool("greet", name_="x"), TypeError(r"no option 'name_'.*one mapping")),
    "option of a list": (lambda c: c.list_tools(timeuot=1), TypeError("did you mean 'timeout'?")),
    "list of arguments": (lambda c: c.call_tool("greet", ["x"]), TypeError("by name.*not as a list")),
    "prompt with a list": (lambda c: c.get_prompt("hello", ["x"]), TypeError("by name.*not as a list")),
    "async progress": (progressed, [(1, 2, "half")]),
    "name of a prompt": (completed, ["b!"]),
    "a question as a dict": (
        lambda c: text_of(c.call_tool("greet", {"name": "dict"})),
        NO_DICT,
    ),
}  # fmt: skip


@req("LIFE-18", "SEAM-1", "COMP-2", at=E)
@pytest.mark.parametrize("case", CALLS)
@pytest.mark.parametrize("how", ["app", "server"])
def test_calls(case: str, how: str) -> None:
    """`connect` takes the app, or its server, as it is."""
    work, wanted = CALLS[case]

    async def main() -> None:
        made = app(show_errors=True)
        async with mcprev.connect(made if how == "app" else made.server) as client:
            if isinstance(wanted, TypeError):
                with pytest.raises(TypeError, match=str(wanted)):
                    await work(client)
            else:
                assert await work(client) == wanted

    run(main())


MADE: Final[dict[str, tuple[Callable[[], object], type[Exception], str]]] = {
    # what is made: what it raises, and what that says
    "a class": (lambda: loose.Server(Misspelt, "s", "1"), TypeError, r"pass an instance of it: \w+\(\)"),
    "a class of a client": (lambda: loose.connect(app(), handler=Helpful), TypeError, r"Helpful\(\)"),
    "misspelt": (lambda: mcprev.Server(Misspelt(), "s", "1"), TypeError, "Misspelt.list_tool .* mean 'list_tools'"),
    "misspelt of a client": (
        lambda: loose.connect(app(), handler=MisspeltClient()), TypeError, "mean 'list_roots', which serves 'roots/list'",
    ),
    "no target": (lambda: loose.connect(5), TypeError, r"cannot connect to a int; pass a URL, mcprev.stdio"),
    "no URL": (lambda: loose.connect("python x.py"), TypeError, r"mcprev.stdio\('python', 'server.py'\)"),
    "tasks of no tool": (
        lambda: app(tasks=mcprev.Tasks({"gret": "optional"})).server, ValueError, "'gret', .* did you mean 'greet'",
    ),
}  # fmt: skip


@req("SEAM-1", "SEAM-2", at=E)
@pytest.mark.parametrize("case", MADE)
def test_what_is_refused_when_it_is_made(case: str) -> None:
    make, error, says = MADE[case]
    with pytest.raises(error, match=says):
        make()


class Working(mcprev.ServerHandler):
    async def list_tools(self, ctx: mcprev.Context, params: Any) -> m.ListToolsResult:
        return m.ListToolsResult(tools=[m.Tool(name="work", input_schema=m.ToolInputSchema())])

    async def call_tool(self, ctx: mcprev.Context, params: Any) -> m.CallToolResult:
        return m.CallToolResult(content=[])


@req("TASK-3", "TASKX-1", "SEAM-2", at=E)
def test_tasks_of_a_tool_that_a_handler_does_not_list(caplog: pytest.LogCaptureFixture) -> None:
    """A handler may list other tools for others, so it is a warning, and once."""

    async def main() -> None:
        tasks = mcprev.Tasks({"wrok": "optional", "work": "optional", "rest": "optional"})
        server = mcprev.Server(Working(), "s", "1", tasks=tasks)
        for _ in range(2):
            async with mcprev.connect(server) as client:
                await client.call_tool("work")
                server.changed("tools")
                await client.call_tool("work")
        await server.aclose()

    run(main())
    told = [record.message for record in caplog.records if record.message.startswith("`tasks` names")]
    assert told == [
        "`tasks` names 'rest', which the handler does not list",
        "`tasks` names 'wrok', which the handler does not list; did you mean 'work'?",
    ]


@req("SEAM-1", at=E)
def test_what_is_taken() -> None:
    target: Any = mcprev.connect("http://127.0.0.1:1/mcp")._target
    assert type(target) is mcprev.http
    mcprev.Server(Everything(), "s", "1")  # helpers of its own are no mistake

    async def main() -> None:
        async with mcprev.connect(mcprev.Server(Synchronous(), "s", "1")) as client:
            assert await text_of(client.call_tool("t")) == "here"
            listening = client.listen(uris="memo:///x", tasks="t1")
            assert listening.uris == ("memo:///x",)
            assert listening._tasks == {"t1"}

    run(main())


@req("STDIO-10", at=E)
def test_a_command_in_one_string() -> None:
    async def main() -> None:
        says = r"pass each word by itself: mcprev.stdio\('.*python.*', 'x.py'\)"
        with pytest.raises(mcprev.ProcessExited, match=says):
            await mcprev.connect(mcprev.stdio(f"{sys.executable} x.py"))

    run(main())


@req("BASE-9", "MOD-6", at=E)
def test_errors_that_do_not_say_what_they_are_about() -> None:
    async def main() -> None:
        replies: dict[str, Any] = {"tools/list": Error(-32601, "Method not found")}
        async with serving(LATEST, replies) as (client, _):
            with pytest.raises(mcprev.MethodNotFound, match=r"Method not found.*'tools/list'") as caught:
                await client.list_tools()
            assert caught.value.message == "Method not found"

    run(main())
    needed: dict[str, Any] = {"elicitation": {"url": {}}, "roots": {}}
    assert "capability elicitation.url, roots, which the client has not declared" in str(
        missing_capability(needed)
    )
