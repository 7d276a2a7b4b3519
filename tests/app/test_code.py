"""Tools that are called by code which a model has written: what the code can do, and what it cannot."""

from __future__ import annotations

import asyncio
import json
import math
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, Self

import pytest

import mcprev
from helpers.asgi_bridge import Client
from helpers.running import run, until
from mcprev.errors import MissingExtra
from mcprev.middleware import Caching
from mcprev.revisions import DEFAULT, Revision
from mcprev.transforms import (
    CallTool,
    MontySandbox,
    Sandbox,
    code as code_module,
    prompts_as_tools,
    tools_by_code,
    tools_by_search,
    transform_tool,
)
from mcprev.transforms.kept_value import keeping_value
from mcprev_types.latest import models as m

ROWS: Final = pytest.mark.parametrize("row", DEFAULT, ids=str)


@pytest.fixture(autouse=True)
def real_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop does not see that it waits for a process of the sandbox, whose threads are not Python's."""
    monkeypatch.setattr("helpers.running.new_loop", asyncio.SelectorEventLoop)


def no_admin(_: mcprev.Context, tags: frozenset[str]) -> bool:
    return "admin" not in tags


def office(**options: Any) -> mcprev.App:
    app = mcprev.App("office", "1", visible=no_admin, **options)

    @app.tool
    async def numbers() -> list[float | int]:
        """Numbers of all kinds."""
        return [1, 1.0, 2**70, -0.5]

    @app.tool
    async def bill(customer: str) -> dict[str, str]:
        """The bill of a customer."""
        return {"billed": customer, "secret": "s3cret"}

    @app.tool
    async def echo(value: Any) -> dict[str, Any]:
        return {"value": value}

    @app.tool
    async def double(value: int) -> int:
        return 2 * value

    @app.tool
    async def text() -> str:
        return "just text"

    @app.tool
    async def nothing() -> None:
        return None

    @app.tool
    async def picture() -> list[str | mcprev.Image]:
        return ["a dot", mcprev.Image(b"\x89PNG\r\n\x1a\n", "image/png")]

    @app.tool
    async def fails() -> str:
        raise mcprev.ToolError("the shop is closed")

    @app.tool
    async def breaks() -> str:
        raise OSError("password=hunter2")

    @app.tool(tags={"admin"})
    async def wipe() -> str:
        return "wiped"

    return app


async def ran(client: mcprev.Client, code: str, tool: str = "run_code") -> str:
    """What the model gets for its code."""
    result = await client.call_tool(tool, {"code": code})
    return f"error: {result.text}" if result.is_error else result.text


def outcome(code: str, app: mcprev.App | None = None, sandbox: Sandbox | None = None, **options: Any) -> str:
    """What the model gets for code that calls tools of an app."""
    app = tools_by_code(app or office(), sandbox=sandbox, **options)

    async def main() -> str:
        async with mcprev.connect(app) as client:
            return await ran(client, code)

    return run(main())


EVERY_KIND: Final = """
import asyncio
bill = await call_tool('bill', {'customer': 'Ann'})
numbers = await call_tool('numbers')
blocks = await call_tool('picture', {})
every = await asyncio.gather(*[call_tool('double', {'value': i}) for i in range(20)])
text, nothing = await call_tool('text', {}), await call_tool('nothing')
[len(bill), numbers, [type(x).__name__ for x in numbers], text, nothing, [b['type'] for b in blocks], sum(every)]
"""
"""Code that calls a tool with each kind of result."""


@ROWS
def test_code_calls_the_tools_that_a_search_finds_and_its_value_alone_reaches_the_model(
    row: Revision,
) -> None:
    app = tools_by_code(office(), always=["text"])

    async def main() -> None:
        async with mcprev.connect(app, mode=row.name) as client:
            assert {tool.name async for tool in client.tools()} == {"search_tools", "run_code", "text"}
            found = json.loads((await client.call_tool("search_tools", {"query": "numbers bill"})).text)
            schemas = {tool["name"]: tool["outputSchema"]["type"] for tool in found}
            assert schemas == {"numbers": "array", "bill": "object"}
            value = json.loads(await ran(client, EVERY_KIND))
            assert value[:3] == [2, [1, 1.0, 2**70, -0.5], ["int", "float", "int", "float"]]
            assert isinstance(value[1][1], float)
            assert value[3:] == ["just text", None, ["text", "image"], 380]
            assert await ran(client, "await call_tool('text')") == "just text"
            assert await ran(client, "print('a', 1)\nreturn {'b': 2}") == '{"b":2}\n\nprinted:\na 1\n'

    run(main())


@ROWS
def test_a_failing_tool_is_an_exception_that_the_code_can_catch(row: Revision) -> None:
    app = tools_by_code(office())
    caught = "try:\n  await call_tool({!r}, {!r})\nexcept RuntimeError as error:\n  said = str(error)\nsaid"

    async def main() -> None:
        async with mcprev.connect(app, mode=row.name) as client:
            assert await ran(client, caught.format("fails", {})) == "the shop is closed"
            assert await ran(client, caught.format("breaks", {})) == "the tool 'breaks' failed"
            assert "customer" in await ran(client, caught.format("bill", {}))
            told = await ran(client, "x = 1\nawait call_tool('fails', {})")
            assert told == "error: the code failed in line 2: RuntimeError: the shop is closed"

    run(main())


# -- what can be called ------------------------------------------------------------------------------------


def for_model(name: str) -> str:
    return f"the tool '{name}' is for the model, not for code; call what a search has found"


def test_code_calls_what_its_client_sees_and_no_tool_that_calls_others() -> None:
    app = tools_by_code(office(), search_name="find", run_name="run")
    transform_tool(app, "run", name="do", keep=True)

    @app.tool
    async def late() -> str:
        return "late"

    @app.tool(meta={"ui": {"visibility": ["app"]}})
    async def paged() -> str:
        return "for pages only"

    async def main() -> None:
        async with mcprev.connect(app) as client:
            for name in ("find", "run", "do"):
                told = await ran(client, f"await call_tool({name!r}, {{}})", "run")
                assert told == f"error: the code failed in line 1: RuntimeError: {for_model(name)}"
            for name in ("wipe", "missing", "paged", "x" * 5_000):
                told = await ran(client, f"await call_tool({name!r}, {{}})", "run")
                assert told.startswith(
                    f"error: the code failed in line 1: RuntimeError: Unknown tool: {name[:100]}"
                )
            assert await ran(client, "await call_tool('late')", "run") == "late"
            found = await client.call_tool("find", {"query": "run find do wipe paged code", "limit": 50})
            assert {"run", "find", "do", "wipe", "paged"}.isdisjoint(tool["name"] for tool in found.data)

    run(main())


def test_code_of_a_mounted_app_calls_what_is_of_its_own_app_under_the_names_there() -> None:
    inner = tools_by_code(office())
    outer = mcprev.App("house", "1")
    outer.tool(name="own")(lambda: "of the house")
    outer.mount(inner, "in")
    outer.mount(tools_by_search(mcprev.App("other", "1")), "other")

    async def main() -> None:
        async with mcprev.connect(outer) as client:
            assert await ran(client, "await call_tool('in_text')", "in_run_code") == "just text"
            for name in ("in_run_code", "in_search_tools"):
                assert for_model(name) in await ran(client, f"await call_tool({name!r})", "in_run_code")
            for name in ("own", "text", "run_code", "other_call_tool", "in_wipe"):
                assert "Unknown tool" in await ran(client, f"await call_tool({name!r})", "in_run_code")
            outer.disable("in_text")
            assert "Unknown tool" in await ran(client, "await call_tool('in_text')", "in_run_code")
        tools_by_code(outer, run_name="go")
        async with mcprev.connect(outer) as client:
            assert await ran(client, "await call_tool('own')", "go") == "of the house"
            for name in ("in_run_code", "go", "other_call_tool"):
                assert for_model(name) in await ran(client, f"await call_tool({name!r})", "go")

    run(main())


def test_middleware_runs_around_each_call_of_the_code() -> None:
    seen = list[str]()

    async def watch(call: mcprev.HandlerCall, call_next: mcprev.CallNext) -> mcprev.HandlerResult:
        if isinstance(call.params, m.CallToolRequestParams):
            seen.append(call.params.name)
            if call.params.name == "bill":
                raise mcprev.ToolError("not today")
        return await call_next(call)

    told = outcome(
        "await call_tool('text')\nawait call_tool('bill', {'customer': 'Ann'})", office(middleware=[watch])
    )
    assert told == "error: the code failed in line 2: RuntimeError: not today"
    assert seen == ["run_code", "text", "bill"]


@ROWS
def test_code_calls_nothing_for_which_the_token_of_its_client_lacks_scopes(row: Revision) -> None:
    def needs(_: str, params: Mapping[str, Any]) -> str | None:
        return "admin" if params.get("name") == "bill" else None

    tokens: dict[str, Any] = {"ann": {"subject": "ann", "scopes": "admin"}, "bob": "bob"}

    async def main() -> None:
        app = tools_by_code(office()).asgi(auth=mcprev.StaticTokens(tokens, needs=needs))
        for user in tokens:
            client = Client(app)
            client.session = {"authorization": f"Bearer {user}"}
            await client.open(row)
            code = "(await call_tool('bill', {'customer': 'Ann'}))['secret']"
            answer = await client.call("run_code", {"code": code}).done()
            assert (b"s3cret" in answer.body, b"scopes" in answer.body) == (user == "ann", user == "bob")
            asked = 'scope="admin"' in answer.headers.get("www-authenticate", "")
            assert (answer.status, asked) == ((403, True) if user == "bob" else (200, False))
            # Code that has called another tool must not run again.
            answer = await client.call("run_code", {"code": f"await call_tool('text')\n{code}"}).done()
            assert (answer.status, b"scopes" in answer.body) == (200, user == "bob")
        await app.aclose()

    run(main())


def test_a_value_of_code_that_has_called_tools_is_not_kept_for_others() -> None:
    app, hidden = mcprev.App("office", "1", middleware=[Caching(60, tools=["run_code"])]), set[str]()

    @app.tool(visible=lambda _: not hidden)
    async def seen() -> str:
        return "secret"

    tools_by_code(app)

    async def main() -> None:
        async with mcprev.connect(app) as client:
            assert await ran(client, "await call_tool('seen')") == "secret"
            hidden.add("x")
            assert "Unknown tool" in await ran(client, "await call_tool('seen')")

    run(main())


# -- questions, tasks, progress, the end -------------------------------------------------------------------


@ROWS
def test_a_question_is_asked_once_for_each_call_where_the_code_can_wait_for_the_answer(row: Revision) -> None:
    app, asked, done = mcprev.App("office", "1"), list[str](), list[str]()

    @app.tool
    async def delete(name: str, ctx: mcprev.Context) -> str:
        question = m.ElicitRequestFormParams(
            message=name, requested_schema=m.ElicitRequestFormParamsRequestedSchema(properties={})
        )
        answer = await ctx.ask("sure", m.ElicitRequest(params=question))
        done.append(name)
        return str(answer.action)

    tools_by_code(app)

    async def user(question: Any) -> dict[str, Any] | None:
        asked.append(question.message)
        return {} if question.message == "a" else None

    code = "[await call_tool('delete', {'name': 'a'}), await call_tool('delete', {'name': 'b'})]"

    async def main() -> None:
        async with mcprev.connect(app, mode=row.name, elicitation=user) as client:
            told = await ran(client, code)
        if row.input_in_results or "elicitation/create" not in row.methods:
            assert told.startswith("error: the code failed in line 1: RuntimeError: ")
            assert (asked, done) == ([], [])
        else:
            assert (told, asked) == ('["accept","decline"]', ["a", "b"])

    run(main())


def test_a_tool_that_runs_as_a_task_only_is_not_called() -> None:
    app = office()

    @app.tool(task="required")
    async def build() -> str:
        return "built"

    @app.tool(task="optional")
    async def make(ctx: mcprev.Context) -> str:
        await ctx.detach()
        return "made"

    code = "try:\n  await call_tool('build')\nexcept RuntimeError as e:\n  said = str(e)\n[said, await call_tool('make')]"
    told = json.loads(outcome(code, app))
    assert told == ["the tool 'build' runs as a task only; call it without code", "made"]


def test_progress_of_a_tool_is_that_of_the_code() -> None:
    app, seen = mcprev.App("office", "1"), list[float]()

    @app.tool
    async def step(ctx: mcprev.Context) -> None:
        await ctx.progress(1, 2)
        await ctx.progress(2, 2)

    tools_by_code(app)

    def progress(done: float, total: float | None, message: str | None) -> None:
        seen.append(done)

    async def main() -> None:
        async with mcprev.connect(app) as client:
            code = "await call_tool('step')\nawait call_tool('step')"
            await client.call_tool("run_code", {"code": code}, progress=progress)
        assert seen == [1, 2]  # progress never goes back

    run(main())


def processes() -> set[str]:
    """The ids of the processes that this one has started."""
    return {
        child
        for task in Path("/proc/self/task").iterdir()
        for child in (task / "children").read_text().split()
    }


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="looks for processes in /proc")
@pytest.mark.parametrize("code", ["while True: pass", "await call_tool('waits')"], ids=["busy", "waits"])
def test_cancelling_the_request_ends_the_code_and_what_it_has_called(code: str) -> None:
    app, log = mcprev.App("office", "1"), list[str]()
    began, waiting, ended = asyncio.Event(), asyncio.Event(), asyncio.Event()

    @app.tool
    async def starts() -> None:
        began.set()

    @app.tool
    async def waits() -> None:
        waiting.set()
        try:
            await asyncio.Event().wait()
        finally:
            log.append("cleaned")

    tools_by_code(app)

    async def watch(call: mcprev.HandlerCall, call_next: mcprev.CallNext) -> mcprev.HandlerResult:
        try:
            return await call_next(call)
        finally:
            if getattr(call.params, "name", "") == "run_code":
                ended.set()

    outer = mcprev.App("outer", "1", middleware=[watch])
    outer.mount(app)

    async def main() -> None:
        before = processes()
        async with mcprev.connect(outer) as client:
            call = asyncio.create_task(ran(client, f"await call_tool('starts')\n{code}"))
            await (waiting if "waits" in code else began).wait()
            assert processes() != before
            call.cancel()
            async with asyncio.timeout(10):
                await ended.wait()
                await until(lambda: processes() == before)
            assert log == (["cleaned"] if "waits" in code else [])

    run(main())


def test_calls_that_the_code_does_not_wait_for_end_with_it() -> None:
    app, log = mcprev.App("office", "1"), list[str]()

    @app.tool
    async def waits() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            log.append("ended")

    @app.tool
    async def quick() -> str:
        raise mcprev.ToolError("no")

    code = "import asyncio\nawait asyncio.gather(call_tool('waits'), call_tool('waits'), call_tool('quick'))"
    assert outcome(code, app).endswith("RuntimeError: no")
    assert log == ["ended", "ended"]


@pytest.mark.slow
def test_code_holds_nobody_up() -> None:
    app = tools_by_code(office(), sandbox=MontySandbox(max_seconds=30))

    async def main() -> None:
        async with mcprev.connect(app) as client:
            busy = asyncio.create_task(ran(client, "while True: pass"))
            for _ in range(20):
                assert await ran(client, "1 + 1") == "2"
            assert not busy.done()
            busy.cancel()

    run(main())


# -- limits ------------------------------------------------------------------------------------------------

CATCHES: Final = "while True:\n  try:\n    {}\n  except BaseException:\n    pass"
SLOW: Final = "the code itself ran longer than 0.3 s, without its waits; let it compute less"
HARMFUL: Final[dict[str, tuple[str, str]]] = {
    "endless": ("while True: pass", SLOW),
    "endless, caught": (CATCHES.format("while True: pass"), SLOW),
    "endless in a call": ("sum(range(10**12))", SLOW),
    "memory": ("'a' * 10**12", "in line 1: MemoryError"),
    "memory, caught": (CATCHES.format("'a' * 10**12"), "MemoryError"),
    "memory by and by": ("a = [1]\nwhile True: a = a + a", f"in line 2: MemoryError|{SLOW}"),
    "a large integer": ("9**9**9", "MemoryError"),
    "long arithmetic": (
        "x = 10**100000\nwhile True: x = x * x",
        f"the code was ended|MemoryError|{SLOW}",
    ),
    "recursion": ("def f(n): return f(n + 1)\nf(0)", "in line 1: RecursionError"),
    "nested source": ("(" * 20_000, "the code failed"),
    "a slow pattern": (
        "import re\nre.match('(a|a)+(a|a)+(a|a)+$', 'a' * 5000 + 'b')\n1",
        f"^1$|{SLOW}|PatternError|Error",
    ),
    "files": ("open('/etc/passwd').read()", "PermissionError"),
    "environment": ("import os\nos.environ['HOME']", "RuntimeError"),
    "network": ("import socket", "ModuleNotFoundError"),
    "processes": ("import subprocess", "ModuleNotFoundError"),
    "classes of objects": ("().__class__.__bases__[0].__subclasses__()", "AttributeError"),
    "globals of a function": ("call_tool.__globals__", "AttributeError"),
    "code in a string": ("exec('import ctypes')", "ModuleNotFoundError"),
    "a long exception": ("raise ValueError('x' * 10**6)", r"ValueError: x{400,495}$"),
    "control characters": ("raise ValueError('\\x1b[31m\\u202e\\r\\nno')", r"ValueError:  \[31m   no$"),
    "exit": ("raise SystemExit()", "SystemExit"),
    "a set": ("{1, 2}", "the value of the code has set, which is not JSON"),
    "a class": ("class A: pass\nA()", "which is not JSON"),
    "bytes": ("b'x'", "bytes, which is not JSON"),
    "no number": ("float('nan')", "nan, which is not JSON"),
    "a list in itself": (
        "a = []\na.append(a)\na",
        "the value of the code contains itself; return a part of it",
    ),
    "a dict in itself": (
        "a = {}\na['a'] = [a]\na",
        "the value of the code contains itself; return a part of it",
    ),
    "keys": ("{1: 2}", "keys that are no strings"),
    "a value that is too large": ("'x' * 100_000", "the value of the code has more than 65,536 bytes"),
    "a value that shares": (
        "a = ['x']\nfor _ in range(60): a = [a, a]\na",
        f"the value of the code has more than [0-9,]+ bytes|{SLOW}",
    ),
    "a value that nests": ("a = []\nfor _ in range(50_000): a = [a]\na", "nests deeper than 100"),
    "an argument that shares": (
        "a = ['x']\nfor _ in range(60): a = [a, a]\nawait call_tool('echo', {'value': a})",
        f"RuntimeError: the arguments has more than|{SLOW}",
    ),
    "an argument that nests": (
        "a = []\nfor _ in range(50_000): a = [a]\nawait call_tool('echo', {'value': a})",
        "nests deeper than 100",
    ),
    "an argument that is too large": (
        "await call_tool('echo', {'value': 'x' * 2_000_000})",
        "1,048,576 bytes",
    ),
    "an argument that is no JSON": ("await call_tool('echo', {'value': {1}})", "set, which is not JSON"),
    "a name that is none": ("await call_tool(5, {})", "takes the name of a tool"),
    "arguments that are none": ("await call_tool('echo', 'x')", "takes the name of a tool"),
    "an integer of many digits": ("10**5000", "more than 4,000 digits"),
    "many calls": (
        "import asyncio\nawait asyncio.gather(*[call_tool('nothing') for _ in range(300)])",
        "more than 100 times",
    ),
    "printing without end": ("while True: print('x' * 1000)", SLOW + r".*\n\nprinted:\nx{1000}"),
    "a syntax error": ("x = 1\ny = = 2", "the code failed in line 2: SyntaxError"),
    "an unknown name": ("x = 1\nfoo(x)", "in line 2: NameError: name 'foo'"),
    "too much code": ("#" * 40_000, "more than 32,768 bytes"),
}


@pytest.mark.slow
def test_harmful_or_wrong_code_ends_with_an_error_that_says_why() -> None:
    from re import DOTALL, search

    app = tools_by_code(
        office(), sandbox=MontySandbox(max_seconds=0.3, max_memory=32 * 1024 * 1024), timeout=4
    )

    async def main() -> None:
        async with mcprev.connect(app) as client:
            for name, (code, said) in HARMFUL.items():
                told = await ran(client, code)
                assert search(said, told, DOTALL), (name, told[:500])
                assert told.startswith("error: ") or said.startswith("^1$"), name
                assert len(told) < 10_000, name

    run(main(), limit=60)


UNAWAITED: Final = "the value of the code is a call that was not awaited; write `await call_tool(...)`"
CALLED: Final = (
    "TypeError: call_tool takes the name of a tool and a dict with its arguments: `await call_tool(name, {...})`"
)
UNAWAITED_ARGUMENT: Final = (
    "RuntimeError: an argument of call_tool is a call that was not awaited; write `await call_tool(...)`"
)
NO_JSON_ARGUMENT: Final = (
    "RuntimeError: the arguments has {}, which is not JSON; convert it to a str, list or dict"
)
VALUES: Final[dict[str, str]] = {
    "call_tool('text', {})": f"error: {UNAWAITED}",
    "[call_tool('text'), call_tool('text')]": f"error: {UNAWAITED}",
    "if True:\n  return {'a': call_tool('text')}": f"error: {UNAWAITED}",
    "import asyncio; asyncio.sleep(1);": f"error: {UNAWAITED}",
    "async def f():\n  return 1\nf(\n)  # forgotten": f"error: {UNAWAITED}",
    "def f(): pass\nf": "error: the value of the code has function, which is not JSON; convert it to a str, list or dict",
    "{'f': lambda n=1: n}": "error: the value of the code has function, which is not JSON; convert it to a str, list or dict",
    "import math\nmath": "error: the value of the code has module, which is not JSON; convert it to a str, list or dict",
    "range(3)": "error: the value of the code has range, which is not JSON; convert it to a str, list or dict",
    "call_tool('text', customer='Ann')": f"error: {UNAWAITED}",
    "await call_tool('text', customer='Ann')": f"error: the code failed in line 1: {CALLED}",
    "await call_tool()": f"error: the code failed in line 1: {CALLED}",
    "await call_tool(name='text', arguments={})": "just text",
    "await call_tool('echo', {'value': call_tool('text')})": f"error: the code failed in line 1: {UNAWAITED_ARGUMENT}",
    "x = 1\nawait call_tool('echo', {'value': [{'a': (1, call_tool('text'))}]})": f"error: the code failed in line 2: {UNAWAITED_ARGUMENT}",
    "await call_tool(call_tool('text'))": f"error: the code failed in line 1: {UNAWAITED_ARGUMENT}",
    "import asyncio\nawait call_tool('echo', {'value': asyncio.sleep(0)})": f"error: the code failed in line 2: {UNAWAITED_ARGUMENT}",
    "await call_tool('echo', {'value': len})": f"error: the code failed in line 1: {NO_JSON_ARGUMENT.format('builtin_function_or_method')}",
    "await call_tool('echo', {'value': lambda: 1})": f"error: the code failed in line 1: {NO_JSON_ARGUMENT.format('function')}",
    "await call_tool('echo', {'value': range(3)})": f"error: the code failed in line 1: {NO_JSON_ARGUMENT.format('range')}",
    "await call_tool('echo', {'value': '<coroutine external_future(0)>'})": '{"value":"<coroutine external_future(0)>"}',
    "await call_tool('echo', {'value': [None, True, 1, 2.5, (3,), {'a': 'b'}]})": '{"value":[null,true,1,2.5,[3],{"a":"b"}]}',
    "'<coroutine external_future(0)>'": "<coroutine external_future(0)>",
    "call = call_tool('text')\nawait call\nstr(call)": "<coroutine external_future(0)>",
    "[str(range(3)), '<coroutine x>']": '["range(0, 3)","<coroutine x>"]',
    "s = '''\nreturn 5\n'''\nlen(s), f'{s!r:.1}:'": '[10,"\':"]',
    "def f(): return call_tool('text')\nawait f()": "just text",
    "x = 'a'": "null",
    "for x in 'ab': x": "null",
    "'a' == 'a'": "true",
}
"""What code gives, with all that ends its run or is no JSON."""


@pytest.mark.slow
def test_a_value_that_is_no_json_is_an_error_and_a_text_that_looks_like_one_is_not() -> None:
    app = tools_by_code(office())

    async def main() -> None:
        async with mcprev.connect(app) as client:
            assert {code: await ran(client, code) for code in VALUES} == VALUES

    run(main())


def test_code_sleeps_for_as_long_as_it_says_and_the_run_may_take(monkeypatch: pytest.MonkeyPatch) -> None:
    import pydantic_monty as monty

    code = "import asyncio\nawait asyncio.sleep(60)\n'slept'"
    told = outcome(code, timeout=0.5)
    assert told == "error: the code took longer than 0.5 s; do less, or sleep for less time"
    longest, real = list[float](), monty.AsyncMonty

    class Pool:
        """Shows how long its code may sleep at once."""

        def __init__(self, **options: Any) -> None:
            self._pool = real(**options)

        async def __aenter__(self) -> Self:
            await self._pool.__aenter__()
            return self

        async def __aexit__(self, *error: object) -> None:
            await self._pool.__aexit__(*error)

        def checkout(self, **options: Any) -> Any:
            longest.append(options["os_policy"]["sleep_system_max"])
            return self._pool.checkout(**options)

    monkeypatch.setattr(monty, "AsyncMonty", Pool)
    assert outcome(code.replace("60", "0.01")) == "slept"
    assert longest == [math.inf]


def test_lone_surrogates_are_replaced_on_their_way_in_and_out() -> None:
    app = office()
    app.tool(name="odd")(lambda: "x\ud800")
    assert outcome("'a\\ud800'", app) == "a\ufffd"
    code = "r = await call_tool('odd')\nprint('\\ud800')\nlen(r)"
    async_app = tools_by_code(mcprev.App("x", "1"))
    async_app.tool(name="odd")(lambda: "x\ud800")

    async def main() -> None:
        async with mcprev.connect(async_app) as client:
            assert (await ran(client, code)).startswith("2\n\nprinted:\n")

    run(main())


def test_a_tool_that_exits_has_failed_and_the_server_goes_on() -> None:
    app, ends = mcprev.App("office", "1"), (SystemExit(3), BaseException("hunter2"), KeyboardInterrupt())

    @app.tool
    async def leaves(number: int) -> None:
        raise ends[number]

    code = "said = []\nfor number in range(3):\n  try:\n    await call_tool('leaves', {'number': number})\n  except Exception as e:\n    said.append(str(e))\nsaid"
    assert json.loads(outcome(code, app)) == ["the tool 'leaves' failed"] * 3


def test_the_tokens_of_code_are_looked_at_beside_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = list[threading.Thread]()

    def watched(code: str, name: str) -> str | None:
        threads.append(threading.current_thread())
        return keeping_value(code, name)

    monkeypatch.setattr("mcprev.transforms.sandbox.keeping_value", watched)
    assert outcome("1 + 1") == "2"
    assert len(threads) == 1
    assert threads[0] is not threading.current_thread()


def test_the_whole_run_has_a_time_limit_with_its_tools() -> None:
    app = office()

    @app.tool
    async def waits() -> None:
        await asyncio.Event().wait()

    endless = CATCHES.format("await call_tool('missing')")
    assert "longer than 0.5 s" in outcome(endless, timeout=0.5)
    told = outcome("print('before')\nawait call_tool('waits')", app, timeout=0.5)
    assert (
        told
        == "error: the code took longer than 0.5 s; call fewer tools, or several at once\n\nprinted:\nbefore\n"
    )


def test_a_run_calls_so_many_tools_at_once_and_a_server_runs_so_much_code() -> None:
    app, most, free = mcprev.App("office", "1"), [0, 0], asyncio.Event()

    @app.tool
    async def busy() -> None:
        most[0] += 1
        most[1] = max(most)
        await asyncio.sleep(0)
        most[0] -= 1

    began = asyncio.Event()

    @app.tool
    async def waits() -> str:
        began.set()
        await free.wait()
        return "waited"

    tools_by_code(app, max_concurrent=3, max_running=1)

    async def main() -> None:
        async with mcprev.connect(app) as client:
            code = "import asyncio\nlen(await asyncio.gather(*[call_tool('busy') for _ in range(50)]))"
            assert await ran(client, code) == "50"
            assert 1 <= most[1] <= 3
            first = asyncio.create_task(ran(client, "await call_tool('waits')"))
            await began.wait()
            assert await ran(client, "1") == "error: too much code runs at present; try again later"
            free.set()
            assert await first == "waited"
            assert await ran(client, "1") == "1"

    run(main())


def test_the_arguments_of_calls_that_wait_have_a_limit_together() -> None:
    app, free = mcprev.App("office", "1"), asyncio.Event()

    @app.tool
    async def size(text: str) -> int:
        await free.wait()
        return len(text)

    class Ten:
        async def run(self, code: str, call_tool: CallTool, write: Callable[[str], None]) -> object:
            tasks = [asyncio.ensure_future(call_tool("size", {"text": "x" * 900})) for _ in range(10)]
            await until(lambda: sum(task.done() for task in tasks) == 7)
            free.set()
            found = await asyncio.gather(*tasks, return_exceptions=True)
            return [str(value) for value in [*found, await call_tool("size", {"text": "x" * 900})]]

    refused = "the arguments of calls that have not ended are too large together; await some first"
    told = outcome("", app, Ten(), max_bytes=1_000, max_concurrent=3)
    *found, last = json.loads(told)
    assert sorted(found) == [*["900"] * 3, *[refused] * 7], "whichever of them come first"
    assert last == "900"


def test_a_result_that_is_too_large_for_the_code_is_an_exception_in_it() -> None:
    app = mcprev.App("office", "1")
    app.tool(name="large")(lambda: "x" * 2_000)
    told = outcome("await call_tool('large')", app, max_bytes=1_000)
    assert told.endswith("RuntimeError: the result of 'large' has more than 1,000 bytes; use less of it")


LARGE: Final[dict[str, str]] = {
    "integers": "[10**3999] * 10",
    "negative integers": "[-(10**3999)] * 10",
    "integers in objects": "{str(i): {'a': [10**3999 + i]} for i in range(10)}",
    "one integer, shared": "a = [10**3999]\nb = [a, a, a]\n[b, (b, b), {'b': b}]",
    "integers that lists nearly hold": "[10**40] * 600",
    "floats": "[-1.2345678901234567e-300] * 1_000",
    "control characters": "'\\x00' * 6_000",
    "quotes": "'\"' * 18_000",
    "characters of four bytes": "'\\U0001f600' * 9_000",
    "names": "{'\\x00' * 600 + str(i): None for i in range(10)}",
    "nothing": "[None] * 2_048",
    "empty lists": "[[]] * 512",
}
"""Code whose value takes more than 32,768 bytes of JSON or of memory, and in characters, lists or values less."""


@pytest.mark.parametrize("large", LARGE.values(), ids=LARGE)
def test_a_value_has_the_size_with_which_it_is_printed_wherever_it_leaves_the_code(large: str) -> None:
    begin, _, last = large.rpartition("\n")
    value = f"{begin}\nvalue = {last}"
    limits: dict[str, Any] = {"max_result": 32_768, "max_bytes": 32_768}
    for returned in ("value", "[value, 1]"):
        told = outcome(f"{value}\n{returned}", **limits)
        assert told == "error: the value of the code has more than 32,768 bytes; use less of it"
    echo = f"{value}\nr = await call_tool('echo', {{'value': value}})\n'echoed'"
    told = outcome(echo, **limits)
    assert told.endswith("RuntimeError: the arguments has more than 32,768 bytes; use less of it")
    assert outcome(echo) == "echoed"


def test_a_result_of_a_tool_has_the_size_with_which_it_is_printed() -> None:
    app = mcprev.App("office", "1")

    @app.tool
    async def digits() -> list[int]:
        return [10**3999] * 10

    told = outcome("await call_tool('digits')", app, max_bytes=32_768)
    assert told.endswith("RuntimeError: the result of 'digits' has more than 32,768 bytes; use less of it")


LEAVES: Final[dict[str, str]] = {
    "integers": "[10**3999] * 1_000",
    "a large integer": "1 << 50_000_000",
    "small values": "[1] * 200_000",
    "a text": "'x' * 3_000_000",
    "a name": "{'x' * 3_000_000: 1}",
    "lists that are shared": "a = ['x']\nfor _ in range(60): a = [a, a]\na",
    "lists that nest": "a = []\nfor _ in range(50_000): a = [a]\na",
    "itself": "a = []\na.append(a)\na",
}
"""Code whose value would hold up the event loop outside of the sandbox: in conversions, which nothing else runs beside."""
IN_A_CALL: Final[dict[str, str]] = {
    "argument": "await call_tool('a', {{'value': {}}})",
    "name": "await call_tool({}, {{}})",
    "keyword": "await call_tool('a', arguments={{'value': {}}})",
    "unknown keyword": "await call_tool('a', value={})",
    "replaced functions": "isinstance = len = str = id = type = lambda *a: 0\nawait call_tool('a', {{'value': {}}})",
    "around the check": "await _call_tool('a', {{'value': {}}})",
    "around the check, by code in a string": "exec('_call_tool(1)', {{'x': {}}})",
}


async def nobody_called(name: str, arguments: Mapping[str, Any]) -> Any:
    raise AssertionError(f"{name:.10} has left the sandbox")


@pytest.mark.parametrize(
    ("large", "call"),
    [
        *((large, "{}") for large in LEAVES.values()),
        *((large, IN_A_CALL["argument"]) for large in LEAVES.values()),
        *((LEAVES["a large integer"], call) for call in IN_A_CALL.values()),
    ],
)
def test_what_is_large_never_leaves_the_process_of_the_sandbox(large: str, call: str) -> None:
    begin, _, last = large.rpartition("\n")
    with pytest.raises(mcprev.ToolError) as raised:
        run(MontySandbox().run(f"{begin}\n{call.format(last)}", nobody_called, print))
    assert len(str(raised.value)) < 600


def test_what_can_leave_the_sandbox_is_copied_beside_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    threads, copying = set[threading.Thread](), code_module._Copy  # pyright: ignore[reportPrivateUsage]
    real = copying.of

    def watched(self: Any, value: Any, depth: int = 0) -> Any:
        threads.add(threading.current_thread())
        return real(self, value, depth)

    monkeypatch.setattr(copying, "of", watched)
    assert outcome("r = await call_tool('echo', {'value': [1]})\n[r]") == '[{"value":[1]}]'
    assert threads
    assert threading.current_thread() not in threads


def test_code_that_cannot_be_rewritten_runs_with_little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    def cannot(*_: object) -> None:
        return None

    monkeypatch.setattr("mcprev.transforms.sandbox.keeping_value", cannot)
    assert outcome("await call_tool('text')") == "just text"
    assert "MemoryError" in outcome("'x' * 9_000_000")


@pytest.mark.parametrize("wrong", ["raise SyntaxError('x')", "exec('(')", "eval('(')"])
@pytest.mark.parametrize("first", ["await call_tool('pay')", "print('paid')"])
def test_code_that_ends_with_a_syntax_error_has_run_once(wrong: str, first: str) -> None:
    app, paid = mcprev.App("shop", "1"), list[str]()

    @app.tool
    async def pay() -> None:
        paid.append("paid")

    told = outcome(f"{first}\n{wrong}", app)
    assert told.startswith("error: the code failed in line 2: SyntaxError: ")
    assert paid == ["paid"] * ("pay" in first)
    assert told.count("paid") == ("print" in first)


def loose(value: Any) -> Any:
    """A value where types would find the mistake."""
    return value


WRONG: Final[dict[str, tuple[Callable[[], object], type[Exception], str]]] = {
    "a limit": (lambda: tools_by_code(office(), max_calls=0), ValueError, "`max_calls` is 0"),
    "a limit that is no number": (
        lambda: tools_by_code(office(), timeout=math.nan),
        ValueError,
        "`timeout` is nan",
    ),
    "a limit of the sandbox": (lambda: MontySandbox(max_seconds=0), ValueError, "not above 0"),
    "no limit of the sandbox": (lambda: MontySandbox(max_seconds=math.inf), ValueError, "or infinite"),
    "no number of the sandbox": (lambda: MontySandbox(max_seconds=math.nan), ValueError, "not above 0"),
    "the class of a sandbox": (
        lambda: tools_by_code(office(), sandbox=loose(MontySandbox)),
        TypeError,
        r"`sandbox` is the class MontySandbox, not an object; pass MontySandbox\(\)",
    ),
    "a name of a sandbox": (
        lambda: tools_by_code(office(), sandbox=loose("monty")),
        TypeError,
        r"`sandbox` must not be a str; pass MontySandbox\(\)",
    ),
    "a search": (lambda: tools_by_code(office(), limit=99), ValueError, "use 1 to 50"),
    "always": (lambda: tools_by_code(office(), always=["bil"]), ValueError, "did you mean 'bill'"),
    "a name": (lambda: tools_by_code(office(), run_name="a b"), ValueError, "not a valid tool name"),
    "two": (
        lambda: tools_by_code(tools_by_search(office()), search_name="x"),
        ValueError,
        "registered already",
    ),
    "a name twice": (lambda: tools_by_code(office(), run_name="bill"), ValueError, "registered already"),
}


@pytest.mark.parametrize(("call", "kind", "said"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_said_when_it_is_set_up(
    call: Callable[[], object], kind: type[Exception], said: str
) -> None:
    with pytest.raises(kind, match=said):
        call()


def test_a_missing_library_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pydantic_monty", None)
    with pytest.raises(MissingExtra, match=r"install mcprev\[sandbox\]"):
        tools_by_code(office())


def test_a_sandbox_of_ones_own_runs_the_code() -> None:
    class Calls:
        """Takes lines with names of tools for code."""

        async def run(self, code: str, call_tool: CallTool, write: Callable[[str], None]) -> object:
            write("calls")
            return [await call_tool(name, {}) for name in code.split()]

    app = tools_by_code(prompts_as_tools(office()), sandbox=Calls())

    async def main() -> None:
        async with mcprev.connect(app) as client:
            assert await ran(client, "text nothing") == '["just text",null]\n\nprinted:\ncalls'
            assert (
                await ran(client, "text wipe")
                == "error: Unknown tool: wipe; find one with a search\n\nprinted:\ncalls"
            )

    run(main())
