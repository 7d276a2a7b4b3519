"""Every feature with every other one: what each lets a client see is the same beside another, over both transports.

A feature adds to an app, stands around it, or both, and makes one observation. Adding it to `FEATURES` tries it with
all others: `make test` draws some pairs, `make fuzz` runs all, each at a revision and over a transport drawn by its names.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, Final, TypeAlias
from zlib import crc32

import aiohttp
import pytest

import mcprev
from fuzz.fuzzing import generator, sampled_of
from helpers.http_in_process import InProcess
from helpers.running import run
from mcprev.extensions.ui import HOST
from mcprev.revisions import DEFAULT, Revision
from mcprev.transforms import Argument, prompts_as_tools, resources_as_tools, transform_tool
from mcprev_types.latest import models


@dataclass
class World:
    """The app that the features of a case add to, what is served, and the names that its clients know."""

    app: mcprev.App
    served: Any
    row: Revision
    tool: Callable[[str], str] = str
    uri: Callable[[str], str] = str
    prompt: Callable[[str], str] = str
    options: dict[str, Any] = field(default_factory=dict[str, Any])
    """The options of the client."""
    seen: list[str] = field(default_factory=list[str])


Look: TypeAlias = Callable[[World, mcprev.Client], Awaitable[None]]
Change: TypeAlias = Callable[[World], None]
FEATURES: Final[dict[str, tuple[Change, Look | None]]] = {}
"""By name: what a feature changes before the server is used, and its observation."""


def feature(change: Change) -> Callable[[Look | None], None]:
    """Add a feature under the name of its function."""

    def add(look: Look | None) -> None:
        FEATURES[change.__name__] = change, look

    return add


# -- what an app has ---------------------------------------------------------------------------------------


def structured(world: World) -> None:
    @world.app.tool
    def numbers(upto: int) -> list[int]:
        return list(range(upto))


@feature(structured)
async def _(world: World, client: mcprev.Client) -> None:
    assert await client.call_tool(world.tool("numbers"), {"upto": 3}, as_=list[int]) == [0, 1, 2]


def lenient(world: World) -> None:
    @world.app.tool
    def double(x: int, note: str | None = None) -> int:
        return 2 * x


@feature(lenient)
async def _(world: World, client: mcprev.Client) -> None:
    assert (await client.call_tool(world.tool("double"), {"x": "21", "note": None})).text == "42"


def failing(world: World) -> None:
    @world.app.tool
    def fail() -> str:
        raise mcprev.ToolError("no \udce9 such thing")


@feature(failing)
async def _(world: World, client: mcprev.Client) -> None:
    result = await client.call_tool(world.tool("fail"), {})
    assert (result.is_error, result.text) == (True, "no \ufffd such thing")


def progressing(world: World) -> None:
    @world.app.tool
    async def cook(ctx: mcprev.Context) -> str:
        await ctx.progress(1, 2, "half")
        return "done"


@feature(progressing)
async def _(world: World, client: mcprev.Client) -> None:
    told: list[float] = []

    def tells(done: float, _: float | None, __: str | None) -> None:
        told.append(done)

    result = await client.call_tool(world.tool("cook"), {}, progress=tells)
    assert (result.text, told) == ("done", [1])


def asking(world: World) -> None:
    @world.app.tool
    async def choose(ctx: mcprev.Context) -> str:
        return str((await ctx.elicit("Which?", ["a", "b"])).data)

    async def choice(_: object) -> dict[str, str]:
        return {"value": "b"}

    world.options["elicitation"] = choice


@feature(asking)
async def _(world: World, client: mcprev.Client) -> None:
    if "elicitation/create" in world.row.methods or not world.row.handshake:
        assert (await client.call_tool(world.tool("choose"), {})).text == "b"


def timed(world: World) -> None:
    @world.app.tool(timeout=0.01)
    async def wait() -> str:
        await asyncio.Event().wait()
        return "never"


@feature(timed)
async def _(world: World, client: mcprev.Client) -> None:
    assert "longer than 0.01 s" in (await client.call_tool(world.tool("wait"), {})).text


def versioned(world: World) -> None:
    for version in ("1", "2"):

        def buy(of: str = version) -> str:
            return of

        world.app.tool(buy, version=version)


@feature(versioned)
async def _(world: World, client: mcprev.Client) -> None:
    found = [(await client.call_tool(world.tool(name), {})).text for name in ("buy", "buy@1")]
    assert found == ["2", "1"]


def hidden(world: World) -> None:
    @world.app.tool(visible=lambda _: False)
    def secret() -> str:
        return "seen"


@feature(hidden)
async def _(world: World, client: mcprev.Client) -> None:
    assert world.tool("secret") not in [tool.name async for tool in client.tools()]
    with pytest.raises(mcprev.RpcError):
        await client.call_tool(world.tool("secret"), {})


def resource(world: World) -> None:
    @world.app.resource("notes://caf\u00e9")
    def notes() -> str:
        return "about coffee"


@feature(resource)
async def _(world: World, client: mcprev.Client) -> None:
    assert (await client.read_resource(world.uri("notes://caf%C3%A9"))).text == "about coffee"


def template(world: World) -> None:
    @world.app.resource("found://all{?word,page}")
    def found(word: str = "any", page: int = 1) -> str:
        return f"{word} {page}"

    @world.app.completion("found://all{?word,page}", "word")
    def words(value: str) -> list[str]:
        return [f"{value}!"]


@feature(template)
async def _(world: World, client: mcprev.Client) -> None:
    assert (await client.read_resource(world.uri("found://all?page=2&word=b"))).text == "b 2"
    done = await client.complete(world.uri("found://all{?word,page}"), "word", "x")
    assert done.completion.values == ["x!"]


def prompt(world: World) -> None:
    @world.app.prompt
    def greet(name: str) -> str:
        return f"Greet {name}."


@feature(prompt)
async def _(world: World, client: mcprev.Client) -> None:
    found = await client.get_prompt(world.prompt("greet"), {"name": "Ann"})
    assert getattr(found.messages[0].content, "text", None) == "Greet Ann."


def changing(world: World) -> None:
    @world.app.resource("clock://now")
    def now() -> str:
        return "noon"

    @world.app.tool
    def leaves() -> str:
        return ""


@feature(changing)
async def _(world: World, client: mcprev.Client) -> None:
    uri = world.uri("clock://now")
    async with client.listen(tools=True, uris=uri) as changes, asyncio.timeout(20):
        world.app.remove_tool("leaves")
        world.app.server.changed("resource", "clock://now")
        heard: set[object] = set()
        async for change in changes:
            heard.add(change.uri or change.what)
            if {uri, "tools"} <= heard:
                break


def page(world: World) -> None:
    shown = world.app.ui("ui://clock", "<!doctype html><title>Clock</title>")
    world.options["extensions"] = [HOST]

    @world.app.tool(ui=shown)
    def show() -> str:
        return "shown"


@feature(page)
async def _(world: World, client: mcprev.Client) -> None:
    [tool] = [tool async for tool in client.tools() if tool.name == world.tool("show")]
    meta: dict[str, Any] = tool.to_wire().get("_meta") or {}
    if meta or not world.row.handshake:
        uri = meta["ui"]["resourceUri"]
        assert "Clock" in (await client.read_resource(uri)).text


def linking(world: World) -> None:
    @world.app.resource("linked://it")
    def linked() -> str:
        return "it"

    @world.app.tool
    def link() -> models.EmbeddedResource:
        return models.EmbeddedResource(resource=models.TextResourceContents(uri="linked://it", text=""))


@feature(linking)
async def _(world: World, client: mcprev.Client) -> None:
    [block] = (await client.call_tool(world.tool("link"), {})).content
    assert isinstance(block, models.EmbeddedResource)
    assert (await client.read_resource(block.resource.uri)).text == "it"


def transformed(world: World) -> None:
    @world.app.tool
    def add(a: int, b: int) -> int:
        return a + b

    transform_tool(world.app, "add", name="increase", arguments={"b": Argument(value=1)})


@feature(transformed)
async def _(world: World, client: mcprev.Client) -> None:
    assert (await client.call_tool(world.tool("increase"), {"a": 1})).text == "2"


def reflected(world: World) -> None:
    @world.app.resource("seen://{name}")
    def seen(name: str) -> str:
        return name

    resources_as_tools(prompts_as_tools(world.app))


@feature(reflected)
async def _(world: World, client: mcprev.Client) -> None:
    listed = await client.call_tool(world.tool("list_resources"), {}, as_=dict[str, Any])
    templates: list[str] = [each["uriTemplate"] for each in listed["resourceTemplates"]]
    [seen] = [each for each in templates if each.startswith("seen:")]
    found = await client.call_tool(world.tool("read_resource"), {"uri": seen.replace("{name}", "x")})
    assert found.text == "x"


# -- what stands around it ---------------------------------------------------------------------------------


def watched(world: World) -> None:
    async def sees(call: mcprev.HandlerCall, call_next: mcprev.CallNext) -> mcprev.HandlerResult:
        world.seen.append(getattr(call.params, "name", ""))
        return await call_next(call)

    outer = mcprev.App("watched", "1", middleware=[sees])
    outer.mount(world.served)
    world.served = outer

    @world.app.tool
    def noted() -> str:
        return "noted"


@feature(watched)
async def _(world: World, client: mcprev.Client) -> None:
    before = len(world.seen)
    assert (await client.call_tool(world.tool("noted"), {})).text == "noted"
    assert [name.rpartition("_")[2] for name in world.seen[before:] if name] == ["noted"]


def mounted(world: World) -> None:
    outer, tool, uri, prompt = mcprev.App("mounted", "1"), world.tool, world.uri, world.prompt
    outer.mount(world.served, "in")
    world.served = outer
    world.tool, world.prompt = (lambda name: f"in_{tool(name)}"), (lambda name: f"in_{prompt(name)}")
    world.uri = lambda text: uri(text).replace("://", "://in/", 1)


feature(mounted)(None)


def bridged(world: World) -> None:
    world.served = mcprev.Bridge(world.served)


feature(bridged)(None)


def one_of_two(world: World) -> None:
    tool, uri, prompt = world.tool, world.uri, world.prompt
    world.served = mcprev.Bridge({"one": world.served, "two": mcprev.App("two", "1")})
    world.tool, world.prompt = (lambda name: f"one__{tool(name)}"), (lambda name: f"one__{prompt(name)}")
    world.uri = lambda text: f"one+{uri(text)}"


feature(one_of_two)(None)

OUTERMOST: Final = ("bridged", "one_of_two")
PAIRS: Final = [pair for pair in combinations(FEATURES, 2) if any(FEATURES[name][1] for name in pair)]
PAIRS_NOW: Final = sampled_of(PAIRS, generator(45).sample(PAIRS, 24))


@asynccontextmanager
async def client_of(world: World, *, over_http: bool) -> AsyncGenerator[mcprev.Client]:
    if not over_http:
        async with mcprev.connect(world.served, mode=world.row.name, **world.options) as client:
            yield client
        return
    asgi = world.served.asgi()
    running = (
        world.served.running() if isinstance(world.served, mcprev.Bridge) else world.served.server.running()
    )
    connector = InProcess(asgi)
    async with running, aiohttp.ClientSession(connector=connector) as session:
        target = mcprev.http(f"{connector.origin}/mcp", session=session)
        async with mcprev.connect(target, mode=world.row.name, **world.options) as client:
            yield client
    await asgi.aclose()


@pytest.mark.parametrize("pair", PAIRS_NOW, ids=" and ".join)
def test_each_feature_is_as_alone_beside_each_other(pair: tuple[str, str]) -> None:
    rng = generator(crc32(" ".join(pair).encode()))
    row, over_http = rng.choice(DEFAULT), rng.random() < 0.5
    app = mcprev.App("inner", "1")
    world = World(app, app, row)
    for name in sorted(pair, key=lambda name: name in OUTERMOST):
        FEATURES[name][0](world)

    async def main() -> None:
        async with client_of(world, over_http=over_http) as client, asyncio.timeout(60):
            for name in pair:
                look = FEATURES[name][1]
                if look is not None:
                    await look(world, client)

    try:
        run(main())
    except BaseException as error:
        error.add_note(f"{pair} at {row.name}{' over HTTP' if over_http else ''}")
        raise
