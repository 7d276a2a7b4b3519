"""Several servers as one: their configuration, their names with prefixes, and one that cannot be reached."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
import inspect
import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

import mcprev
from api.authors import form
from fuzz.fuzzing import each_once
from helpers.linear import Text, assert_linear
from helpers.requirements import req
from helpers.running import run, until
from mcprev.client import connect_all as several, host_config
from mcprev.client.connect_all import LIST_TIMEOUT
from mcprev.client.host_config import targets_of
from mcprev.revisions import DEFAULT, Revision
from mcprev_types.latest import models as m

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
            assert (await clients.list_prompts()).next_cursor == "two__", "not a server without prompts"
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
    "a separator": ({"a__b": GONE, "a_b": GONE}, "two servers have the prefix 'a_b'"),
    "no name": ({"": GONE}, "cannot be a prefix"),
    "args": ({"x": {"command": "c", "args": "a b"}}, "the server 'x' .*`args` is not a list"),
    "a number": ({"x": {"command": "c", "args": [5]}}, "5 is not a string"),
    "env": ({"x": {"command": "c", "env": ["A=b"]}}, "`env` is not an object"),
    "an ambiguous name": ({"a_": GONE, "a": GONE}, "two servers have the prefix 'a'"),
    "a variable of VS Code": (
        {"x": {"url": "https://${input:token}"}},
        "the variable input:token is not set",
    ),
    "a variable": ({"x": {"command": "${NO_SUCH_VARIABLE}"}}, "the variable NO_SUCH_VARIABLE is not set"),
    "no URL": ({"x": {"url": "ftp://x"}}, "the server 'x'"),
    "a list": ({"mcpServers": []}, "`mcpServers` is a list; write an object with the servers by name"),
    "no servers": ({}, "the configuration has no servers; name at least one"),
    "no servers in a file of a host": ({"mcpServers": {}}, "the configuration has no servers"),
    "both": ({"x": {"command": "c", "url": "https://x"}}, "the server 'x' .*both `command` and `url`"),
    "auth": (
        {"x": {"url": "https://x", "auth": "oauth2"}},
        "the server 'x' .*`auth` is not supported .*mcprev.http",
    ),
    "a misspelt member": ({"x": {"comand": "c"}}, "no member `comand`; did you mean 'command'"),
    "arguments": ({"x": {"command": "c", "arg": []}}, "no member `arg`; did you mean 'args'"),
    "headers of a process": (
        {"x": {"command": "c", "headers": {}}},
        "`headers` does not belong to .*`command`",
    ),
    "arguments of a URL": ({"x": {"url": "https://x", "args": []}}, "`args` does not belong to .*`url`"),
    "an unknown type": (
        {"x": {"url": "https://x", "type": "carrier"}},
        "its type 'carrier' is unknown; .*stdio",
    ),
    "an unknown transport": ({"x": {"url": "https://x", "transport": [1]}}, "its transport .* is unknown"),
    "a type of processes": (
        {"x": {"url": "https://x", "type": "stdio"}},
        "the server 'x' .*`type` is 'stdio', which has no `url`",
    ),
    "a transport of processes": (
        {"x": {"url": "https://x", "type": "http", "transport": "stdio"}},
        "`transport` is 'stdio', which has no `url`",
    ),
    **{
        f"{kind} of a command": ({"x": {"command": "c", "type": kind}}, "which has no `command`")
        for kind in ("http", "sse", "streamable-http")
    },
    "an empty command": ({"x": {"command": ""}}, "`command` is empty"),
    "an empty URL": ({"x": {"url": ""}}, "`url` is empty"),
    "disabled": ({"x": {"command": "c", "disabled": "no"}}, "`disabled` is neither true nor false"),
    "a word": (
        {"x": "localhost:3"},
        "the server 'x' .*'localhost:3' is not a URL; an entry is the URL of a server, or an object",
    ),
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
    """The functions among them get the name of the server, too."""
    given = inspect.signature(mcprev.connect.__init__).parameters
    taken = inspect.signature(mcprev.connect_all.__init__).parameters
    assert taken.keys() - {"config", "partial", "separator"} == given.keys() - {"target"}
    found = {name: str(taken[name].annotation) for name in given.keys() - {"self", "target"}}
    told = {name for name, each in found.items() if "Of |" in each}
    assert told == {"roots", "sampling", "elicitation", "logging", "on_change", "tap"}
    assert {name: each.replace("Of |", " |") for name, each in found.items()} == {
        name: str(each.annotation) for name, each in given.items() if each.kind is each.KEYWORD_ONLY
    }


@each_once
@req("SEC-6", everywhere=True)
@pytest.mark.parametrize("start", ["", '"', "{", "/*", "//"])
@pytest.mark.parametrize(
    "again",
    ['"', '\\"', "/*", "//", ",", ", ", "${", "${a", "${a:-", "${a:-b", "${env:", "{", "*/", "\\", "}"],
)
@pytest.mark.parametrize("end", ["", "}", '"'])
def test_the_steps_of_reading_a_configuration_grow_with_it(start: str, again: str, end: str) -> None:
    def strip(text: str) -> None:
        host_config._COMMENT.sub(r"\1", text)

    def fill(text: str) -> None:
        with suppress(ValueError):
            host_config.filled(text)

    for work in (strip, fill):
        assert_linear(work, lambda size: Text(start + again * size + end), host_config, sizes=(32, 64, 128))


# -- what one server returns leads back to it ----------------------------------------------------------------

FOREIGN: Final = "bank-note:///x"
"""A URI that leads to another server, with the separator `-`, wherever a client passes it on as it is."""


def links(row: Revision) -> list[m.ContentBlock]:
    """Content with each kind of link that a revision has."""
    text = m.TextResourceContents(uri=FOREIGN, text="a")
    blob = m.BlobResourceContents(uri=FOREIGN, blob="YQ==")
    found: list[m.ContentBlock] = [m.EmbeddedResource(resource=text), m.EmbeddedResource(resource=blob)]
    if hasattr(row.models, "ResourceLink"):
        found.append(m.ResourceLink(uri=FOREIGN, name="bank-x"))
    return found


class Asked(mcprev.ServerHandler):
    """Keeps what it is asked for."""

    def __init__(self, row: Revision) -> None:
        self.row = row
        self.asked: list[object] = []

    async def list_tools(self, ctx: mcprev.Context, params: m.PaginatedRequestParams) -> m.ListToolsResult:
        self.asked.append(params.cursor)
        tool = m.Tool(name="bank-pay", input_schema=m.ToolInputSchema())
        return m.ListToolsResult(tools=[tool], next_cursor=None if params.cursor else "bank-:1")

    async def list_prompts(
        self, ctx: mcprev.Context, params: m.PaginatedRequestParams
    ) -> m.ListPromptsResult:
        return m.ListPromptsResult(prompts=[m.Prompt(name="bank-ask")])

    async def list_resources(
        self, ctx: mcprev.Context, params: m.PaginatedRequestParams
    ) -> m.ListResourcesResult:
        return m.ListResourcesResult(resources=[m.Resource(uri=FOREIGN, name="x")])

    async def list_resource_templates(
        self, ctx: mcprev.Context, params: m.PaginatedRequestParams
    ) -> m.ListResourceTemplatesResult:
        template = m.ResourceTemplate(uri_template=FOREIGN + "/{k}", name="x")
        return m.ListResourceTemplatesResult(resource_templates=[template])

    async def call_tool(self, ctx: mcprev.Context, params: m.CallToolRequestParams) -> m.CallToolResult:
        self.asked.append(params.name)
        return m.CallToolResult(content=links(self.row), structured_content={"uri": FOREIGN})

    async def get_prompt(self, ctx: mcprev.Context, params: m.GetPromptRequestParams) -> m.GetPromptResult:
        self.asked.append(params.name)
        return m.GetPromptResult(
            messages=[m.PromptMessage(role="user", content=each) for each in links(self.row)]
        )

    async def read_resource(
        self, ctx: mcprev.Context, params: m.ReadResourceRequestParams
    ) -> m.ReadResourceResult:
        self.asked.append(params.uri)
        return m.ReadResourceResult(contents=[m.TextResourceContents(uri=FOREIGN, text="a")])

    async def complete(self, ctx: mcprev.Context, params: m.CompleteRequestParams) -> m.CompleteResult:
        self.asked.append(params.ref.to_wire().get("uri", params.ref.to_wire().get("name")))
        return m.CompleteResult(completion=m.CompleteResultCompletion(values=[FOREIGN]))


def uris_in(value: Any) -> Iterator[str]:
    """Every member of JSON that is named as a URI; content of a tool's own is not looked into."""
    for key, item in value.items() if hasattr(value, "items") else enumerate(value):
        if key in ("uri", "uriTemplate"):
            yield item
        elif isinstance(item, dict | list) and key != "structuredContent":
            yield from uris_in(item)


@req("PAGE-1", "PAGE-3", "COMP-2", "SEAM-1")
@each_row
def test_what_a_server_returns_leads_back_to_it(row: Revision) -> None:
    async def main() -> None:
        evil, bank = Asked(row), Asked(row)
        config = {name: mcprev.Server(each, name, "1") for name, each in (("evil", evil), ("bank", bank))}
        async with mcprev.connect_all(config, mode=row.name, validate="off", separator="-") as clients:
            tools = [tool.name async for tool in clients.tools()]
            prompts = [prompt.name async for prompt in clients.prompts()]
            resources = [each.uri async for each in clients.resources()]
            templates = [each.uri_template async for each in clients.resource_templates()]
            assert tools == ["evil-bank-pay"] * 2 + ["bank-bank-pay"] * 2
            results = [
                await clients.call_tool(tools[0]),
                await clients.get_prompt(prompts[0]),
                await clients.read_resource(resources[0]),
            ]
            found = [uri for result in results for uri in uris_in(result.to_wire())]
            assert len(found) == 2 * len(links(row)) + 1
            assert {*found, resources[0]} == {"evil-" + FOREIGN}
            assert templates[0] == f"evil-{FOREIGN}/{{k}}"
            own = await clients["evil"].read_resource(FOREIGN)
            assert [*uris_in(own.to_wire())] == [FOREIGN], "the client of one server leads nowhere else"
            evil.asked.clear()
            bank.asked.clear()
            await clients.read_resource(found[0])
            await clients.complete(templates[0], "k", "")
            await clients.complete(prompts[0], "k", "")
            page = await clients.list_tools(fresh=True)
            await clients.list_tools(page.next_cursor, fresh=True)
            assert evil.asked == [FOREIGN, FOREIGN + "/{k}", "bank-ask", None, "bank-:1"]
            assert bank.asked == []

    run(main())


class Newer(mcprev.ServerHandler):
    """Returns content of a type that no revision here has."""

    async def list_tools(self, ctx: mcprev.Context, params: m.PaginatedRequestParams) -> m.ListToolsResult:
        return m.ListToolsResult(tools=[m.Tool(name="t", input_schema=m.ToolInputSchema())])

    async def call_tool(self, ctx: mcprev.Context, params: m.CallToolRequestParams) -> m.CallToolResult:
        unknown: Any = {
            "type": "future", "uri": FOREIGN, "text": FOREIGN, "uris": 1, "kind": {"uri": {"uri": FOREIGN}},
            "resource": {"uri": [FOREIGN], "uriTemplate": FOREIGN, "n": [{"uri": FOREIGN, "a": None}]},
        }  # fmt: skip
        return m.CallToolResult.from_wire({"content": [unknown, unknown]})


@req("PAGE-1", "SEAM-1")
@each_row
def test_a_link_in_content_of_an_unknown_type_leads_back_too(row: Revision) -> None:
    async def main() -> None:
        config = {name: mcprev.Server(Newer(), name, "1") for name in ("evil", "bank")}
        async with mcprev.connect_all(config, mode=row.name, validate="off") as clients:
            for block in (await clients.call_tool("evil__t")).content:
                led = "evil__" + FOREIGN
                assert block.to_wire() == {
                    "type": "future", "uri": led, "text": FOREIGN, "uris": 1, "kind": {"uri": {"uri": led}},
                    "resource": {"uri": [led], "uriTemplate": led, "n": [{"uri": led, "a": None}]},
                }  # fmt: skip

    run(main())


@req("PAGE-1", everywhere=True)
@pytest.mark.parametrize("cursor", ["bank__1", "bank", "bank:1", "none__:1", "", ":"])
def test_no_other_cursor_leads_to_a_server(cursor: str) -> None:
    async def main() -> None:
        async with mcprev.connect_all({"bank": app("bank")}) as clients:
            with pytest.raises(mcprev.LocalProtocolError, match="is not a cursor"):
                await clients.list_tools(cursor)

    run(main())


# -- which server asks ---------------------------------------------------------------------------------------


class Asking(mcprev.ServerHandler):
    """Asks its client for everything."""

    def __init__(self, row: Revision) -> None:
        self.row = row

    async def list_tools(self, ctx: mcprev.Context, params: m.PaginatedRequestParams) -> m.ListToolsResult:
        return m.ListToolsResult(tools=[])

    async def call_tool(self, ctx: mcprev.Context, params: m.CallToolRequestParams) -> m.CallToolResult:
        roots = await ctx.roots()
        content: Any = m.TextContent(text="say it")
        if self.row.sampling_tools:
            content = m.ToolResultContent(tool_use_id="1", content=links(self.row))
        messages: list[m.SamplingMessage] = [m.SamplingMessage(role="user", content=content)]
        if self.row.sampling_tools:
            use = m.ToolUseContent(id="1", name="bank-x", input={})
            messages.insert(0, m.SamplingMessage(role="assistant", content=use))
        await ctx.sample(messages, max_tokens=9)
        if "elicitation" in ctx.client_capabilities.to_wire():
            await ctx.ask("who", form())
        await ctx.log("error", "oh", "here")
        return m.CallToolResult(content=[m.TextContent(text=root.uri) for root in roots])


@req("SEAM-1", "ROOT-1", "SUB-7")
@each_row
def test_callbacks_are_told_which_server_asks(row: Revision) -> None:
    async def main() -> None:
        told: list[tuple[str, str]] = []
        uris: list[str] = []

        async def sampling(server: str, params: m.CreateMessageRequestParams) -> m.CreateMessageResult:
            told.append(("sampling", server))
            uris.extend(uris_in(params.to_wire()))
            assert [name for name in json.dumps(params.to_wire()).split('"') if name == "bank-x"]
            return m.CreateMessageResult(role="assistant", content=m.TextContent(text="a"), model="m")

        def elicitation(server: str, params: m.ElicitRequestParams) -> dict[str, Any]:
            told.append(("elicitation", server))
            return {}

        def logging(server: str, params: m.LoggingMessageNotificationParams) -> None:
            told.append(("logging", server))

        def on_change(server: str, change: mcprev.Change) -> None:
            told.append((str(change.what), server))

        def roots(server: str) -> list[str]:
            return [f"file:///{server}"]

        config = {name: mcprev.Server(Asking(row), name, "1") for name in ("one", "two")}
        tools = m.ClientCapabilities(sampling=m.ClientCapabilitiesSampling(tools={}))
        async with mcprev.connect_all(
            config, mode=row.name, roots=roots, sampling=sampling if row.sampling_tools else plain_sampling(told),
            elicitation=elicitation, logging=logging, on_change=on_change,
            capabilities=tools if row.sampling_tools else None,
        ) as clients:  # fmt: skip
            for name, server in config.items():
                told.clear()
                result = await clients.call_tool(f"{name}__ask", log_level="debug")
                server.changed("tools")
                await until(lambda: len(told) >= 3 + ("elicitation" in dict(told)))
                assert {who for _, who in told} == {name}
                assert {"sampling", "logging", "tools"} <= dict(told).keys()
                assert result.text == f"file:///{name}"
                assert set(uris) <= {f"{each}__{FOREIGN}" for each in config}
            assert bool(uris) is row.sampling_tools

    run(main())


def plain_sampling(told: list[tuple[str, str]]) -> Any:
    async def sampling(server: str, _: object) -> m.CreateMessageResult:
        told.append(("sampling", server))
        return m.CreateMessageResult(role="assistant", content=m.TextContent(text="a"), model="m")

    return sampling


@req("SEAM-1")
@each_row
def test_a_handler_finds_the_name_of_the_server(row: Revision) -> None:
    names: list[str | None] = []

    class Handler(mcprev.ClientHandler):
        async def logging_message(
            self, ctx: mcprev.ClientContext, params: m.LoggingMessageNotificationParams
        ) -> None:
            names.append(ctx.client.server_name)

    class Logging(mcprev.ServerHandler):
        async def call_tool(self, ctx: mcprev.Context, params: m.CallToolRequestParams) -> m.CallToolResult:
            await ctx.log("error", "oh")
            return m.CallToolResult(content=[])

    async def main() -> None:
        config = {name: mcprev.Server(Logging(), "s", "1") for name in ("one", "two")}
        async with mcprev.connect_all(config, mode=row.name, handler=Handler()) as clients:
            for name in ("two", "one"):
                await clients.call_tool(f"{name}__x", log_level="debug")
        await until(lambda: len(names) == 2)
        assert names == ["two", "one"]
        async with mcprev.connect(config["one"]) as client:
            assert client.server_name is None

    run(main())


@req("SEAM-1", everywhere=True)
@pytest.mark.parametrize("name", ["sampling", "elicitation", "logging", "on_change"])
def test_a_function_that_is_not_told_the_server_is_refused_at_once(name: str) -> None:
    def of_connect(params: object) -> None:
        """Takes what a function of `connect` takes."""

    options: Any = {name: of_connect}
    with pytest.raises(TypeError, match=rf"`{name}` of several servers is called as f\(server, params\)"):
        mcprev.connect_all({"x": "https://x.example/mcp"}, **options)
    options[name] = print  # which takes anything
    mcprev.connect_all({"x": "https://x.example/mcp"}, **options)


@req("SEAM-1", everywhere=True)
def test_a_function_of_roots_that_is_async_is_refused_at_once() -> None:
    """What it returns is needed where nothing can be awaited: a coroutine would be taken for roots."""

    async def roots(server: str) -> list[str]:
        return [server]

    for function in (roots, partial(roots)):
        options: Any = {"roots": function}
        with pytest.raises(TypeError, match="`roots` of several servers must not be async"):
            mcprev.connect_all({"x": "https://x.example/mcp"}, **options)


@req("SEAM-1", everywhere=True)
def test_a_wrong_option_is_an_error_of_type_checkers() -> None:
    """The comments are errors themselves where there is nothing to ignore."""
    with pytest.raises(ValueError, match="cannot connect to a int"):
        mcprev.connect_all({"x": 3})  # type: ignore[dict-item]  # pyright: ignore[reportArgumentType]

    def unrun() -> None:
        mcprev.connect_all({}, timeout="x")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        mcprev.connect_all({}, roots=3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        mcprev.connect_all({}, handler=3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        mcprev.connect_all({}, validate="no")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        mcprev.connect_all({}, elicitation=len)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        mcprev.connect_all({}, timeuot=3)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
        mcprev.connect_all({}, logging=print, roots=list)

    assert callable(unrun), "for the type checkers alone"


# -- one server fails ----------------------------------------------------------------------------------------


class Failing(Asked):
    """Fails when it is asked for a list, or from its second page on, or does not answer."""

    def __init__(self, row: Revision, how: str) -> None:
        super().__init__(row)
        self.how = how

    async def list_tools(self, ctx: mcprev.Context, params: m.PaginatedRequestParams) -> m.ListToolsResult:
        if self.how == "an error":
            raise mcprev.RpcError("no", code=-31000)
        if self.how == "nothing":
            return m.ListToolsResult(tools=[])
        if self.how == "silence":
            await asyncio.Event().wait()
        if self.how == "an invalid page":
            return m.ListToolsResult.model_construct(tools=[3])
        if self.how == "an endless list":
            await asyncio.sleep(5)
        elif params.cursor is not None:
            raise mcprev.RpcError("no", code=-31000)
        tool = m.Tool(name="more", input_schema=m.ToolInputSchema())
        return m.ListToolsResult(tools=[tool], next_cursor=str(int(params.cursor or 0) + 1))


FAILURES: Final = ("an error", "silence", "an invalid page", "an endless list", "an error of a later page")


@req("PAGE-1", "TIME-1")
@each_row
@pytest.mark.parametrize("how", FAILURES)
@each_once
def test_a_list_lacks_the_entries_of_a_server_that_fails_and_no_others(row: Revision, how: str) -> None:
    async def main() -> None:
        failing = {f"bad{number}": mcprev.Server(Failing(row, how), "b", "1") for number in range(3)}
        config: Mapping[str, Any] = {"first": app("first"), **failing, "last": app("last")}
        now = asyncio.get_running_loop().time
        expected = ["first__greet", "last__greet"]
        async with mcprev.connect_all(config, mode=row.name, partial=True) as clients:
            began = now()
            assert [tool.name async for tool in clients.tools() if "more" not in tool.name] == expected
            # Only the waits for a first page run at once.
            most = LIST_TIMEOUT * (3 if how == "an endless list" else 1)
            assert now() - began < most + 2, "the waits for three servers do not add up"
            assert clients.list_errors["tools/list"].keys() == failing.keys()
            assert len([each async for each in clients.resources()]) == 2 + len(failing)
            assert not clients.list_errors["resources/list"]
            assert (await clients.read_resource("bad0__x:y")).contents, "it is still there"
            names: list[str] = []
            cursor: str | None = None
            for _ in range(20):
                page = await clients.list_tools(cursor, timeout=3)
                names += [tool.name for tool in page.tools if "more" not in tool.name]
                cursor = page.next_cursor
                if cursor is None:
                    break
            assert names == expected
            assert clients.list_errors["tools/list"].keys() == failing.keys()
        async with mcprev.connect_all(config, mode=row.name) as clients:
            found: list[str] = []

            async def read() -> None:
                async for tool in clients.tools(total_timeout=1):
                    if "more" not in tool.name:
                        found.append(tool.name)  # noqa: PERF401 - it raises after the last one

            with pytest.raises(mcprev.ServersFailed, match="the server 'bad0'") as caught:
                await read()
            assert (found, caught.value.errors.keys()) == (expected, failing.keys())

    run(main(), limit=400)


@req("PAGE-1", everywhere=True)
def test_a_server_that_recovers_is_no_longer_missing() -> None:
    async def main() -> None:
        row = DEFAULT[-1]
        bad = Failing(row, "an error")
        async with mcprev.connect_all({"bad": mcprev.Server(bad, "b", "1")}, partial=True) as clients:
            assert (await clients.list_tools()).tools == []
            assert clients.list_errors["tools/list"].keys() == {"bad"}
            bad.how = "an error of a later page"
            assert (await clients.list_tools()).next_cursor == "bad__:1"
            assert not clients.list_errors["tools/list"]
            assert [tool.name async for tool in clients.tools(fresh=True)] == ["bad__more"]
            assert clients.list_errors["tools/list"].keys() == {"bad"}
            bad.how = "nothing"
            assert [each async for each in clients.tools(fresh=True)] == []
            assert not clients.list_errors["tools/list"]
            bad.how, began = "silence", asyncio.get_running_loop().time()
            assert (await clients.list_tools(fresh=True)).tools == []
            assert asyncio.get_running_loop().time() - began < LIST_TIMEOUT + 2

    run(main(), limit=400)


@req("PAGE-1", everywhere=True)
def test_who_stops_reading_a_list_leaves_no_call_behind() -> None:
    async def main() -> None:
        row = DEFAULT[-1]
        config: dict[str, Any] = {"one": app("one"), "bad": mcprev.Server(Failing(row, "silence"), "b", "1")}
        async with mcprev.connect_all(config) as clients:
            tools: Any = clients.tools()
            assert (await anext(tools)).name == "one__greet"
            await tools.aclose()
            assert not clients["bad"].connection.protocol.waiting

    run(main())


# -- one object, several tasks -------------------------------------------------------------------------------


def connect_one_of_several(target: mcprev.App) -> object:
    return mcprev.connect_all({"one": target})


@req("SEAM-1", everywhere=True)
@pytest.mark.parametrize("make", [mcprev.connect, connect_one_of_several])
def test_tasks_within_one_object_have_clients_of_their_own(make: Any) -> None:
    async def main() -> None:
        connecting = make(app("one"))
        may_end = [asyncio.Event() for _ in range(3)]
        inside: list[Any] = []

        async def work(number: int) -> None:
            async with connecting as client:
                inside.append(client)
                await may_end[number].wait()
                async with connecting as inner:
                    assert len([tool async for tool in inner.tools()]) == 1
                assert len([tool async for tool in client.tools(fresh=True)]) == 1
                await asyncio.sleep(0)
                inside.remove(client)

        async with asyncio.TaskGroup() as group:
            for number in range(3):
                group.create_task(work(number))
                await until(lambda number=number: len(inside) == number + 1)  # type: ignore[misc]
            for number in (0, 2, 1):  # the first is no longer the last
                may_end[number].set()
                await until(lambda: len(inside) < 3)
                for client in inside:
                    assert len([tool async for tool in client.tools(fresh=True)]) == 1
        opened: Any = await asyncio.create_task(connecting.__aenter__())
        async with connecting as other:
            await asyncio.create_task(connecting.__aexit__(None, None, None))
            assert len([tool async for tool in other.tools(fresh=True)]) == 1
            with pytest.raises(mcprev.McpError):
                [tool async for tool in opened.tools(fresh=True)]

    run(main())


@req("SEAM-1", everywhere=True)
def test_who_stops_connecting_leaves_no_client_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    class Slow(mcprev.memory):
        async def open(self, *arguments: Any) -> Any:
            opening.set()
            return await asyncio.Event().wait()

    opening = asyncio.Event()
    connected: list[object] = []
    open_ = several._open

    async def opened(connecting: Any) -> Any:
        connected.append(await open_(connecting))
        return connected[-1]

    monkeypatch.setattr(several, "_open", opened)

    async def main() -> None:
        there = mcprev.memory(app("one").server)
        slow = Slow(app("two").server)
        config: dict[str, Any] = {"one": there, "slow": slow}

        async def connecting() -> None:
            await mcprev.connect_all(config)

        task = asyncio.create_task(connecting())
        await opening.wait()
        await until(lambda: bool(connected))
        task.cancel()
        await asyncio.wait({task})
        assert task.cancelled()
        assert not there._ends
        with pytest.raises(mcprev.ServersFailed):
            await mcprev.connect_all({"one": there, "gone": GONE})
        assert not there._ends

    run(main())
