"""Several servers as one: their configuration, their names with prefixes, and one that cannot be reached."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import inspect
import json
import sys
from pathlib import Path
from typing import Any, Final

import pytest

import mcprev
from mcprev.extras.connect_all import targets_of
from mcprev.revisions import DEFAULT, Revision
from mcprev_types.latest import models as m
from requirements import req
from running import run

each_row = pytest.mark.parametrize("row", DEFAULT, ids=lambda row: row.name)
GONE: Final = {"command": "/no/such/command"}


def app(name: str) -> mcprev.App:
    made = mcprev.App(name, "1")

    @made.tool
    async def greet(who: str) -> str:
        return f"{name}: hi {who}"

    @made.resource("memo:///x")
    def memo() -> str:
        return name

    @made.resource("memo:///{key}")
    def memos(key: str) -> str:
        return name + key

    @made.prompt
    async def hello(who: str) -> str:
        return f"{name} {who}"

    @made.completion("hello", "who")
    async def names(value: str) -> list[str]:
        return [name + value]

    return made


class OnlyTools(mcprev.ServerHandler):
    """Lists its tools on several pages."""

    async def list_tools(self, ctx: mcprev.Context, params: m.PaginatedRequestParams) -> m.ListToolsResult:
        number = int(params.cursor or 0)
        tool = m.Tool(name=f"t{number}", input_schema=m.ToolInputSchema())
        return m.ListToolsResult(tools=[tool], next_cursor=str(number + 1) if number < 2 else None)


SERVERS: Final[dict[str, Any]] = {
    "one": app("one"),
    "pages": mcprev.Server(OnlyTools(), "p", "1"),
    "two": app("two"),
}


@req("PAGE-1", "PAGE-3", "COMP-2", "SEAM-1")
@each_row
def test_the_names_of_several_servers_have_prefixes(row: Revision) -> None:
    async def main() -> None:
        async with mcprev.connect_all(SERVERS, mode=row.name) as clients:
            tools = [tool.name async for tool in clients.tools()]
            assert tools == ["one__greet", "pages__t0", "pages__t1", "pages__t2", "two__greet"]
            assert [each.name async for each in clients.prompts()] == ["one__hello", "two__hello"]
            assert [each.uri async for each in clients.resources()] == ["one__memo:///x", "two__memo:///x"]
            templates = [each.uri_template async for each in clients.resource_templates()]
            assert templates == ["one__memo:///{key}", "two__memo:///{key}"]
            assert (await clients.call_tool("two__greet", {"who": "x"})).text == "two: hi x"
            assert await clients.call_tool("one__greet", {"who": "x"}, as_=str) == "one: hi x"
            (content,) = (await clients.read_resource("two__memo:///x")).contents
            assert content.to_wire()["text"] == "two"
            (message,) = (await clients.get_prompt("one__hello", {"who": "x"})).messages
            assert message.content.to_wire()["text"] == "one x"
            assert (await clients.complete("two__hello", "who", "b")).completion.values == ["twob"]
            assert clients["pages"].revision == row.name
            with pytest.raises(
                mcprev.LocalProtocolError,
                match=r"'three__x' does not begin with the name .*'one__', 'pages__'",
            ):
                await clients.call_tool("three__x")
            with pytest.raises(mcprev.LocalProtocolError, match="'9:' is not a cursor"):
                await clients.list_tools("9:")
            with pytest.raises(TypeError, match="is for one server"):
                await clients.call("ping", {})
            connection = clients["one"].connection
        assert connection.error is not None

    run(main())


@req("PAGE-1")
@each_row
def test_no_server_has_such_a_list(row: Revision) -> None:
    async def main() -> None:
        async with mcprev.connect_all({"p": SERVERS["pages"]}, mode=row.name) as clients:
            assert [each async for each in clients.resource_templates()] == []
            assert [each async for each in clients.prompts()] == []

    run(main())


@req("SEAM-1", everywhere=True)
def test_a_server_that_cannot_be_reached_is_named() -> None:
    """It ends the others, or is missing by name from those that are there."""

    async def main() -> None:
        config = {"mcpServers": {**SERVERS, "gone": GONE, "lost": GONE}}
        with pytest.raises(mcprev.ServersFailed, match=r"the server 'gone': .*/no/such/command") as caught:
            await mcprev.connect_all(config)
        assert caught.value.errors.keys() == {"gone", "lost"}
        async with mcprev.connect_all(config, partial=True) as clients:
            assert clients.clients.keys() == SERVERS.keys()
            assert isinstance(clients.errors["gone"], mcprev.ProcessExited)
            with pytest.raises(mcprev.ServersFailed, match="the server 'gone'"):
                await clients.call_tool("gone__x")
            assert (await clients.call_tool("one__greet", {"who": "x"})).text == "one: hi x"

    run(main())


@req("STDIO-1", everywhere=True)
def test_the_configuration_of_a_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = (
        "import mcprev, os\n"
        "app = mcprev.App('a', '1')\n"
        "@app.tool\n"
        "def where() -> str: return os.getcwd() + os.environ['WORD'] + os.environ['OTHER']\n"
        "app.run_stdio()\n"
    )
    monkeypatch.setenv("PIECE", "piece")
    entry = {
        "command": sys.executable,
        "args": ["-c", "${SCRIPT}"],
        "env": {"WORD": "${env:PIECE}!", "OTHER": "${NO_SUCH:-none}"},
        "cwd": str(tmp_path),
    }
    monkeypatch.setenv("SCRIPT", script)
    path = tmp_path / "mcp.json"
    path.write_text(json.dumps({"mcpServers": {"a": entry, "off": {**GONE, "disabled": True}}}))

    async def main() -> None:
        async with mcprev.connect_all(path) as clients:
            assert (await clients.call_tool("a__where")).text == f"{tmp_path}piece!none"

    run(main(), limit=60)


@req("SEAM-1", everywhere=True)
def test_a_file_may_have_comments_and_a_mark_of_its_encoding(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    path.write_bytes(
        b"\xef\xbb\xbf// mine\n"
        b'{"servers": { /* , } */ "x": {"url": "https://x.example/a//b", "headers": {"A": "/*,]*/"}, // the last\n},},}'
    )
    target: Any = targets_of(path)["x"]
    assert (target.url, target._new_session.keywords["headers"]) == (
        "https://x.example/a//b",
        {"A": "/*,]*/"},
    )


@req("SEAM-1", everywhere=True)
def test_a_recording_that_cannot_be_written_is_named_and_nothing_stays_open(tmp_path: Path) -> None:
    async def main() -> None:
        path = tmp_path / "no" / "such"
        with pytest.raises(mcprev.ServersFailed, match=r"the server 'one': .*No such file") as caught:
            await mcprev.connect_all(SERVERS, record=path)
        assert all(isinstance(error, OSError) for error in caught.value.errors.values())

    run(main())


@req("HTTP-1", everywhere=True)
def test_targets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", "secret")
    entry = {"type": "http", "url": "https://x.example/mcp", "headers": {"Authorization": "Bearer ${TOKEN}"}}
    for config in ({"mcpServers": {"x": entry}}, {"servers": {"x": entry}}, {"x": entry}):
        target: Any = targets_of(config)["x"]
        assert isinstance(target, mcprev.http)
        assert target.url == "https://x.example/mcp"
        assert target._new_session.keywords["headers"] == {"Authorization": "Bearer secret"}


BAD: Final[dict[str, tuple[Any, str]]] = {
    "no object": ([], "not an object with servers by name"),
    "neither": ({"x": {"type": "stdio"}}, "the server 'x' .* neither `command` nor `url`"),
    "a separator": ({"a__b": GONE}, "'a__b' cannot be a prefix with '__'"),
    "no name": ({"": GONE}, "cannot be a prefix"),
    "args": ({"x": {"command": "c", "args": "a b"}}, "the server 'x' .*`args` is not a list"),
    "a number": ({"x": {"command": "c", "args": [5]}}, "5 is not a string"),
    "env": ({"x": {"command": "c", "env": ["A=b"]}}, "`env` is not an object"),
    "an ambiguous name": ({"a_": GONE}, "'a_' cannot be a prefix with '__'"),
    "a variable of VS Code": (
        {"x": {"url": "https://${input:token}"}},
        "the variable input:token is not set",
    ),
    "a variable": ({"x": {"command": "${NO_SUCH_VARIABLE}"}}, "the variable NO_SUCH_VARIABLE is not set"),
    "no URL": ({"x": {"url": "ftp://x"}}, "the server 'x'"),
    "a list": ({"mcpServers": []}, "the server 'mcpServers' .*cannot connect to a list"),
    "a word": ({"x": "localhost:3"}, "the server 'x' .*'localhost:3' is not a URL"),
}


@req("SEAM-1", everywhere=True)
def test_an_unknown_option_is_refused_at_once() -> None:
    with pytest.raises(TypeError, match="timeuot"):
        mcprev.connect_all({"x": "https://x.example/mcp"}, timeuot=1)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


@req("SEAM-1", everywhere=True)
@pytest.mark.parametrize("case", BAD)
def test_configurations_that_are_refused(case: str, tmp_path: Path) -> None:
    config, says = BAD[case]
    path = tmp_path / "mcp.json"
    path.write_text(json.dumps(config))
    with pytest.raises(ValueError, match=says):
        mcprev.connect_all(path)


@req("SEAM-1", everywhere=True)
def test_the_options_are_those_of_connect() -> None:
    given = inspect.signature(mcprev.connect.__init__).parameters
    assert {name: each.__forward_arg__ for name, each in mcprev.ConnectOptions.__annotations__.items()} == {
        name: each.annotation for name, each in given.items() if each.kind is each.KEYWORD_ONLY
    }
