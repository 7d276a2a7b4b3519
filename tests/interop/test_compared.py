"""The programs of docs/compared.md do what the page says of them, and the page counts them right."""

from __future__ import annotations

import asyncio
import re
import runpy
import socket
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Any, Final
from unittest import mock

import aiohttp
import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, RSAKey

import mcprev
from helpers.requirements import D, req
from helpers.running import run
from interop.compared import LIBRARIES, OURS, PAGE, PROGRAMS, TITLES, lines_of_code, page, program
from interop.tally import Tally
from mcprev.extensions import ui
from mcprev_types.latest import models as m

Check = Callable[[mcprev.Client, list[object]], Awaitable[None]]
LIMIT: Final = 120.0
"""Seconds that a program gets, its start included."""
CHECKS: Final[dict[str, Check]] = {}


def check(function: Check) -> Check:
    """A check of the server of the line that is called as the function is."""
    CHECKS[function.__name__] = function
    return function


async def text_of(client: mcprev.Client, name: str, /, **arguments: Any) -> str:
    return (await client.call_tool(name, arguments)).text


@check
async def tool(client: mcprev.Client, logs: list[object]) -> None:
    assert await text_of(client, "add", a=1) == "2"
    assert (await client.call_tool("add", {"a": "much"})).is_error


@check
async def tool_error(client: mcprev.Client, logs: list[object]) -> None:
    result = await client.call_tool("find", {"name": "ann"})
    assert result.is_error
    assert "there is no ann" in result.text


@check
async def structured_output(client: mcprev.Client, logs: list[object]) -> None:
    result = await client.call_tool("weather", {"city": "Oslo"})
    assert result.structured_content == {"city": "Oslo", "degrees": 21.5}


@check
async def image(client: mcprev.Client, logs: list[object]) -> None:
    [block] = (await client.call_tool("chart")).content
    assert block.to_wire()["mimeType"] == "image/png"


@check
async def tool_timeout(client: mcprev.Client, logs: list[object]) -> None:
    result = await client.call_tool("wait")
    assert result.is_error
    assert re.search("too|longer|timed out", result.text)


@check
async def tool_versions(client: mcprev.Client, logs: list[object]) -> None:
    assert [tool.name async for tool in client.tools()] == ["price"]
    assert await text_of(client, "price") == "22 USD"


@check
async def visibility(client: mcprev.Client, logs: list[object]) -> None:
    assert [tool.name async for tool in client.tools()] == ["buy"]


@check
async def resources_as_tools(client: mcprev.Client, logs: list[object]) -> None:
    assert "memo://ann" in await text_of(client, "list_resources")
    assert await text_of(client, "read_resource", uri="memo://ann") == "all about ann"


@check
async def prompts_as_tools(client: mcprev.Client, logs: list[object]) -> None:
    assert "greet" in await text_of(client, "list_prompts")
    assert "Greet ann." in await text_of(client, "get_prompt", name="greet", arguments={"name": "ann"})


@check
async def openapi_routes(client: mcprev.Client, logs: list[object]) -> None:
    assert [each.uri.rpartition("/")[2] async for each in client.resources()] == ["items"]
    assert not client.capabilities.tools or not [tool async for tool in client.tools()]


@check
async def from_fastapi(client: mcprev.Client, logs: list[object]) -> None:
    assert await text_of(client, "double", number=2) in {"4", '{"result":4}'}


@check
async def ready_middleware(client: mcprev.Client, logs: list[object]) -> None:
    assert await text_of(client, "price") == "20"


@check
async def prompt_messages(client: mcprev.Client, logs: list[object]) -> None:
    messages = (await client.get_prompt("begin", {"task": "it"})).messages
    assert [(each.role, each.content.to_wire()["text"]) for each in messages] == [
        ("user", "Do it."), ("assistant", "Yes."),
    ]  # fmt: skip


@check
async def tools_from_folder(client: mcprev.Client, logs: list[object]) -> None:
    assert await text_of(client, "add", a=1, b=2) == "3"


@check
async def resource_template(client: mcprev.Client, logs: list[object]) -> None:
    [part] = (await client.read_resource("memo://ann")).contents
    assert part.to_wire()["text"] == "all about ann"


@check
async def prompt(client: mcprev.Client, logs: list[object]) -> None:
    [message] = (await client.get_prompt("greet", {"name": "ann"})).messages
    assert message.content.to_wire()["text"] == "Greet ann."


@check
async def completion(client: mcprev.Client, logs: list[object]) -> None:
    found = await client.complete(m.PromptReference(name="greet"), "name", "a")
    assert found.completion.values == ["ann"]


@check
async def progress(client: mcprev.Client, logs: list[object]) -> None:
    told: list[tuple[float, float | None, str | None]] = []

    def tell(done: float, total: float | None, message: str | None) -> None:
        told.append((done, total, message))

    assert (await client.call_tool("work", progress=tell)).text == "done"
    assert told == [(1, 2, "half")]


@check
async def log(client: mcprev.Client, logs: list[object]) -> None:
    await client.call_tool("work", log_level="info")
    assert logs in (["working"], [{"msg": "working", "extra": None}])


@check
async def session_state(client: mcprev.Client, logs: list[object]) -> None:
    assert [await text_of(client, "count") for _ in range(3)] == ["1", "2", "3"]


@check
async def elicitation(client: mcprev.Client, logs: list[object]) -> None:
    assert await text_of(client, "ask") == "ann"


@check
async def sampling(client: mcprev.Client, logs: list[object]) -> None:
    assert await text_of(client, "say") == "it"


@check
async def roots(client: mcprev.Client, logs: list[object]) -> None:
    assert await text_of(client, "where") == "file:///srv"


@check
async def list_changes(client: mcprev.Client, logs: list[object]) -> None:
    async with client.listen(tools=True) as changes:
        await client.call_tool("learn")
        await anext(changes)
    assert await text_of(client, "hi") == "hi"


@check
async def mount(client: mcprev.Client, logs: list[object]) -> None:
    assert await text_of(client, "shop_buy", item="hat") == "hat bought"


@check
async def proxy(client: mcprev.Client, logs: list[object]) -> None:
    assert await text_of(client, "add", a=1) == "2"


@check
async def transformed_tool(client: mcprev.Client, logs: list[object]) -> None:
    tools = {tool.name: tool.input_schema.to_wire() async for tool in client.tools()}
    assert [*tools["find_hat"]["properties"]] == ["text"]
    assert await text_of(client, "find_hat", text="cap") == "cap of hats"
    assert await text_of(client, "search", q="cap", shop="caps") == "cap of caps"


@check
async def tool_search(client: mcprev.Client, logs: list[object]) -> None:
    assert {tool.name async for tool in client.tools()} == {"search_tools", "call_tool"}
    assert "send_invoice" in await text_of(client, "search_tools", query="bill")
    found = await text_of(client, "call_tool", name="send_invoice", arguments={"customer": "ann"})
    assert found == "billed ann"


@check
async def openapi(client: mcprev.Client, logs: list[object]) -> None:
    [tool] = [tool async for tool in client.tools()]
    assert tool.name == "get_items"
    assert tool.input_schema.to_wire()["required"] == ["q"]
    assert (await client.call_tool("get_items", {"q": "hat"})).is_error, "nothing listens at its port"


@check
async def lifespan(client: mcprev.Client, logs: list[object]) -> None:
    assert await text_of(client, "age", name="ann") == "44"


@check
async def caching(client: mcprev.Client, logs: list[object]) -> None:
    assert await text_of(client, "number") == await text_of(client, "number") == "1"


@check
async def middleware(client: mcprev.Client, logs: list[object]) -> None:
    result = await client.call_tool("open_shop")
    assert result.is_error
    assert "It is Sunday." in result.text


@check
async def dependency(client: mcprev.Client, logs: list[object]) -> None:
    [listed] = [tool async for tool in client.tools()]
    assert "user" not in listed.input_schema.to_wire().get("properties", {})
    assert await text_of(client, "greet") == "hello ann"


@check
async def tool_page(client: mcprev.Client, logs: list[object]) -> None:
    [listed] = [tool async for tool in client.tools()]
    interface = ui.tool_interface(listed)
    assert interface is not None
    assert "Clock" in (await ui.read_page(client, interface)).html
    assert await text_of(client, "now") == "noon"


def missing() -> set[tuple[str, str]]:
    """The programs whose environment was made before it had what they need."""
    found = [*LIBRARIES["fastmcp"].parents[1].glob("lib/*/site-packages/fastapi")]
    return set() if found else {("fastmcp", "from_fastapi")}


def programs(*lines: str) -> list[Any]:
    """The programs of some lines, each with the library that it uses."""
    return [
        pytest.param(
            line,
            library,
            id=f"{line}-{library}",
            marks=pytest.mark.skipif(
                not python.exists() or (library, line) in missing(),
                reason=f"{library} is missing: `make interop`",
            ),
        )
        for line in lines
        for library, python in LIBRARIES.items()
        if program(line, library).exists()
    ]


MARKER: Final = {OURS: "mcprev.app.folders", "fastmcp": "fastmcp.tools"}
"""The module whose `tool` marks a function of a file."""


def command(line: str, library: str, *arguments: str) -> tuple[str, ...]:
    return str(LIBRARIES[library]), str(program(line, library)), *arguments


AS_PROCESSES: Final = {"tool", "proxy", "tools_from_folder", "list_changes"}
"""The lines whose programs with mcprev also `make test` starts as processes: a server of each kind."""


def app_of(line: str) -> mcprev.App:
    """The app that a program with mcprev runs, in this process."""
    with mock.patch.object(mcprev.App, "run_stdio", autospec=True) as running:
        runpy.run_path(str(program(line, OURS)))
    (app,), _ = running.call_args
    assert isinstance(app, mcprev.App)
    return app


@req("BASE-5", at=D)
@pytest.mark.parametrize(("line", "library"), programs(*CHECKS))
def test_servers_do_what_the_table_says(line: str, library: str, tmp_path: Path) -> None:
    """In a session, for not every library asks and notifies without one.

    `make interop` starts every program as a process; here, most of those with mcprev run in this one.
    """
    logs: list[object] = []
    more: tuple[str, ...] = ()
    if line == "tools_from_folder":
        file = f"from {MARKER[library]} import tool\n\n\n@tool\ndef add(a: int, b: int) -> int:\n    return a + b\n"
        (tmp_path / "adding.py").write_text(file, encoding="utf-8")
        more = (str(tmp_path),)
    if line == "proxy":
        more = command("tool", library)
    answer = m.CreateMessageResult(role="assistant", model="mini", content=m.TextContent(text="it"))

    async def main() -> None:
        target: mcprev.App | mcprev.Target = mcprev.stdio(
            *command(line, library, *more), stderr=lambda _: None
        )
        if library == OURS and line not in AS_PROCESSES and not Tally.wanted():
            target = app_of(line)
        connecting = mcprev.connect(
            target,
            mode="legacy",
            roots=["file:///srv"],
            elicitation=lambda _: {"name": "ann"},
            sampling=lambda _: answer,
            logging=lambda params: logs.append(params.data),
            extensions=[ui.HOST],
        )
        async with asyncio.timeout(LIMIT), connecting as client:
            await CHECKS[line](client, logs)

    run(main())


async def output(*run_this: str) -> str:
    """What a program prints; it must end well."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*run_this, stdout=pipe, stderr=pipe)
    async with asyncio.timeout(LIMIT):
        said, complaints = await process.communicate()
    assert process.returncode == 0, complaints.decode()
    return said.decode()


@pytest.mark.slow
@req("BASE-5", at=D)
@pytest.mark.parametrize(
    ("line", "library"), programs("client_stdio", "client_answers", "several_servers", "test_in_memory")
)
def test_clients_do_what_the_table_says(line: str, library: str) -> None:
    """Each with the server of the same library that the first line of the table has, or one of our own that asks."""
    asking = PROGRAMS.parent.parent / "tests" / "interop" / "asking_server.py"
    server, expected = {
        "client_stdio": (command("tool", library), "3\n"),
        "several_servers": (command("tool", library), "3\n7\n"),
        "client_answers": ((sys.executable, str(asking)), "ann\nfile:///srv\n"),
        "test_in_memory": ((), ""),
    }[line]
    assert run(output(*command(line, library, *server))) == expected


@pytest.fixture
def port() -> int:
    """A port that is free."""
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        found: int = free.getsockname()[1]
        return found


async def _listening(port: int, process: asyncio.subprocess.Process) -> None:
    """Wait until a server listens; it must not end before it does."""
    async with asyncio.timeout(LIMIT):
        while process.returncode is None:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.05)
            else:
                writer.close()
                await writer.wait_closed()
                return
    raise AssertionError("the server ended before it listened")


@pytest.mark.slow
@req("AUTH-1", at=D)
@pytest.mark.parametrize(("line", "library"), programs("bearer_auth", "static_tokens", "jwt_tokens"))
def test_tokens_are_required(line: str, library: str, port: int) -> None:
    url = f"http://127.0.0.1:{port}/mcp"
    token, more = "secret", tuple[str, ...]()
    if line == "jwt_tokens":
        key = ECKey.generate_key("P-256") if library == OURS else RSAKey.generate_key(2048)
        claims = {"iss": "https://as.example", "aud": "shop", "sub": "ann", "exp": int(time.time()) + 600}
        token = jwt.encode({"alg": "ES256" if library == OURS else "RS256"}, claims, key)
        more = (key.as_pem(private=False).decode(),)

    async def main() -> None:
        null = asyncio.subprocess.DEVNULL
        process = await asyncio.create_subprocess_exec(
            *command(line, library, str(port), *more), stdout=null, stderr=null
        )
        try:
            await _listening(port, process)
            with pytest.raises(mcprev.McpError):
                await mcprev.connect(url)
            known = mcprev.http(url, headers={"Authorization": f"Bearer {token}"})
            async with mcprev.connect(known) as client:
                assert await text_of(client, "who") == "ann"
        finally:
            process.terminate()
            await process.wait()

    run(main())


@pytest.mark.slow
@req("BASE-5", at=D)
@pytest.mark.parametrize(("line", "library"), programs("provider_login"))
def test_a_client_registers_at_a_server_in_front_of_a_provider(line: str, library: str, port: int) -> None:
    origin = f"http://127.0.0.1:{port}"

    async def main() -> None:
        null = asyncio.subprocess.DEVNULL
        process = await asyncio.create_subprocess_exec(
            *command(line, library, str(port)), stdout=null, stderr=null
        )
        try:
            await _listening(port, process)
            async with aiohttp.ClientSession() as session:
                async with session.post(f"{origin}/mcp", json={}) as refused:
                    assert refused.status == 401
                async with session.get(f"{origin}/.well-known/oauth-authorization-server") as found:
                    metadata = await found.json()
                wanted = {"redirect_uris": ["http://127.0.0.1/callback"], "client_name": "Tester"}
                async with session.post(metadata["registration_endpoint"], json=wanted) as registered:
                    assert (registered.status, "client_id" in await registered.json()) == (201, True)
        finally:
            process.terminate()
            await process.wait()

    run(main())


@pytest.mark.slow
@req("BASE-5", at=D)
@pytest.mark.parametrize(("line", "library"), programs("custom_route"))
def test_a_route_answers(line: str, library: str, port: int) -> None:
    async def main() -> None:
        null = asyncio.subprocess.DEVNULL
        process = await asyncio.create_subprocess_exec(
            *command(line, library, str(port)), stdout=null, stderr=null
        )
        try:
            await _listening(port, process)
            async with aiohttp.ClientSession() as http, http.get(f"http://127.0.0.1:{port}/health") as answer:
                assert (answer.status, await answer.text()) == (200, "fine")
        finally:
            process.terminate()
            await process.wait()

    run(main())


@pytest.mark.slow
@req("BASE-5", at=D)
@pytest.mark.parametrize(("line", "library"), programs("client_http"))
def test_clients_over_http_do_what_the_table_says(line: str, library: str) -> None:
    app = mcprev.App("demo", "1.0")

    @app.tool
    def add(a: int, b: int) -> str:
        return str(a + b)

    async def main() -> None:
        ports: asyncio.Queue[int] = asyncio.Queue()
        serving = asyncio.create_task(app.server.serve_http(port=0, ready=ports.put_nowait))
        url = f"http://127.0.0.1:{await ports.get()}/mcp"
        assert await output(*command(line, library, url)) == "3\n"
        serving.cancel()
        await asyncio.wait({serving})

    run(main())


@req("BASE-5", everywhere=True)
def test_every_line_of_the_table_is_run() -> None:
    run_here = {*CHECKS, "client_stdio", "client_answers", "several_servers", "test_in_memory"}
    here = {"bearer_auth", "static_tokens", "jwt_tokens", "client_http", "custom_route", "provider_login"}
    assert run_here | here == set(TITLES)
    assert {path.name for path in PROGRAMS.iterdir() if path.is_dir()} == set(TITLES)


@req("BASE-5", everywhere=True)
def test_the_page_counts_the_programs_as_they_are() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "PYTHONPATH=tests python -m interop.compared"


@req("BASE-5", everywhere=True)
@pytest.mark.parametrize("line", TITLES)
def test_no_program_is_longer_than_with_fastmcp(line: str) -> None:
    ours, theirs = lines_of_code(line, OURS), lines_of_code(line, "fastmcp")
    assert ours is not None
    assert theirs is not None
    assert ours <= theirs
