"""A client over a network that fails at every message boundary, and under servers that come and go."""

from __future__ import annotations

import asyncio
import random
from itertools import product
from typing import Any, Final
from urllib.parse import urlsplit

import pytest

import mcprev
from api.authors import Everything, Helpful
from api.transports import listening
from fuzz.fuzzing import sampled_of
from helpers.named import C, rows_since
from helpers.requirements import req
from helpers.running import run, until
from helpers.tcp_proxy import Harm, Proxy, proxy
from mcprev.errors import McpError
from mcprev.revisions import DEFAULT, HttpShape, Revision
from mcprev_types.latest import models as m

PLACES = 14
"""How many pieces, in either direction, are done harm to: those of opening, of each kind of call, and of the end."""
FEWEST = 9
"""How many pieces there are at least."""


def said(result: m.CallToolResult) -> str:
    block = result.content[0]
    assert isinstance(block, m.TextContent)
    return block.text


def url(origin: str, row: Revision) -> str:
    return origin + ("/sse" if row.http is HttpShape.SSE else "/mcp")


def port(origin: str) -> int:
    found = urlsplit(origin).port
    assert found is not None
    return found


async def visit(between: Proxy, row: Revision, *, patience: float = 20, spoilt: bool = False) -> list[str]:
    """Do something of each kind. What fails has a type, and what does not is right; how each step ended.

    `patience` is how many seconds a call may take while harm is done.
    """
    ended: list[str] = []
    target = mcprev.http(url(between.origin, row))
    handler = Helpful()
    try:
        client = await mcprev.connect(
            target, mode=row.name, handler=handler, timeout=patience, total_timeout=patience, cache=False
        )
    except McpError as error:
        return [type(error).__name__]
    try:
        ended.append(await step(said_of(client, "echo", {"n": 1}), "{'n': 1}"))
        ended.append(await step(said_of(client, "echo", {"n": 2}), "{'n': 2}"))
        ended.append(await step(said_of(client, "progress", {}), "done"))
        ended.append(await step(names(client), "tool0 tool1 tool2"))
        if row in rows_since(C):
            ended.append(await step(said_of(client, "ask_both", {}), "['accept', 'accept']"))
        # Harm is done once: afterwards everything is well again. Only a request that came twice spoils a connection,
        # on which each answer is then that to the request before: every call fails on it, and none is answered wrongly.
        between.harm = lambda _upwards, _number, _data: None
        last = await step(said_of(client, "echo", {"last": 1}, timeout=20, total_timeout=20), "{'last': 1}")
        assert last == "well" or spoilt
    finally:
        await client.aclose()
    return ended


async def said_of(client: mcprev.Client, name: str, arguments: dict[str, Any], **options: Any) -> str:
    return said(
        await client.call_tool(name, arguments, progress=lambda _done, _total, _text: None, **options)
    )


async def names(client: mcprev.Client) -> str:
    return " ".join([tool.name async for tool in client.tools()])


async def step(work: Any, wanted: str) -> str:
    try:
        found = await work
    except McpError as error:
        return type(error).__name__
    assert found == wanted
    return "well"


HARMS: Final = [*product(DEFAULT, Harm, (True, False))]
SOME: Final = [
    (row, harm, upwards)
    for number, (row, harm, upwards) in enumerate(HARMS)
    if row in (DEFAULT[0], *DEFAULT[-2:]) and upwards is (number // 2 % 2 == DEFAULT.index(row) % 2)
]
"""Each harm at one revision of each transport, to requests and to answers in turn; all of them in `make fuzz`."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("row", "harm", "upwards"),
    sampled_of(HARMS, SOME),
    ids=lambda value: (
        {True: "requests", False: "answers"}[value]
        if isinstance(value, bool)
        else getattr(value, "name", value)
    ),
)
@req("HTTP-29", "SSE-8", "HTTPM-7", "ERR-5", at=tuple(row.name for row in DEFAULT))
def test_harm_at_every_place_is_told_and_survived(row: Revision, harm: Harm, upwards: bool) -> None:
    async def main() -> None:
        server = mcprev.Server(Everything(), "everything", "1")
        async with listening(server, sse=True) as origin, proxy(port(origin)) as between:
            whole = await visit(between, row)
            assert set(whole) == {"well"}
            for place in range(PLACES):
                between.hurt(harm, upwards=upwards, number=place)
                patience = 20 if harm is Harm.DELAY else 0.5
                ended = await visit(between, row, patience=patience, spoilt=upwards and harm is Harm.REPEAT)
                if harm is Harm.DELAY:
                    assert set(ended) == {"well"}
                if not between.harmed:  # nor would any later place be reached
                    assert place >= FEWEST
                    break
            assert set(await visit(between, row)) == {"well"}

    run(main(), limit=90, has_both_ends=True)


@req("HTTP-23", "HTTP-29", "SSE-8", "NEG-7", at=tuple(row.name for row in DEFAULT))
@pytest.mark.parametrize("row", DEFAULT, ids=lambda row: row.name)
def test_a_client_survives_its_server(row: Revision) -> None:
    """A call that was under way fails; the next one is served by the server that came in its place."""

    async def main() -> None:
        client: mcprev.Client | None = None
        waiting: asyncio.Task[Any] | None = None
        between = Proxy(0)
        await between.start()
        try:
            for number in range(3):
                author = Everything()
                server = mcprev.Server(author, "everything", "1")
                async with listening(server, sse=True) as origin:
                    between.target = port(origin)
                    if client is None:
                        client = await mcprev.connect(mcprev.http(url(between.origin, row)), mode=row.name)
                    if waiting is not None:
                        with pytest.raises(McpError):
                            await asyncio.wait_for(waiting, 30)
                    assert said(await client.call_tool("echo", {"n": number})) == f"{{'n': {number}}}"
                    waiting = asyncio.create_task(client.call_tool("wait"))
                    await author.started.wait()
                    between.cut()
            assert waiting is not None
            with pytest.raises(McpError):
                await waiting
            assert client is not None
            with pytest.raises(McpError):
                await client.call_tool("echo")
            await client.aclose()
        finally:
            await between.stop()

    run(main(), limit=60, has_both_ends=True)


@req("SUB-5", "SUB-7", at=tuple(row.name for row in DEFAULT))
@pytest.mark.parametrize("row", DEFAULT, ids=lambda row: row.name)
def test_whoever_listens_survives_the_server_too(row: Revision) -> None:
    async def main() -> None:
        between = Proxy(0)
        await between.start()
        client: mcprev.Client | None = None
        changes: Any = None
        try:
            for number in range(2):
                server = mcprev.Server(Everything(), "everything", "1")
                async with listening(server, sse=True) as origin:
                    between.target = port(origin)
                    if client is None:
                        client = await mcprev.connect(mcprev.http(url(between.origin, row)), mode=row.name)
                        changes = await client.listen(uris=["a:1"]).__aenter__()
                    else:
                        # That the server is another one may have changed everything.
                        assert (await asyncio.wait_for(anext(changes), 15)).uri == "a:1"
                    await client.call_tool("changed", {"n": number})
                    assert (await asyncio.wait_for(anext(changes), 15)).uri == "a:1"
                    between.cut()
            await changes.aclose()
            assert client is not None
            await client.aclose()
        finally:
            await between.stop()

    run(main(), limit=60, has_both_ends=True)


# -- streams that are taken up ---------------------------------------------------------------------------

COUNT = 10_000
FEWER = 2_000


class Counting(Everything):
    """Counts aloud."""

    async def do_count(self, ctx: mcprev.Context, params: Any) -> m.CallToolResult:
        for number in range(params.arguments["to"]):
            await ctx.log("error", number)
            if number % 50 == 0:
                await asyncio.sleep(0)
        return m.CallToolResult(content=[m.TextContent(text="counted")])


class Hearing(mcprev.ClientHandler):
    """Remembers what it is told."""

    def __init__(self) -> None:
        self.heard: list[Any] = []

    async def logging_message(
        self, ctx: mcprev.ClientContext, params: m.LoggingMessageNotificationParams
    ) -> None:
        self.heard.append(params.data)


@pytest.mark.slow
@req("HTTP-15", "HTTP-16", "HTTP-14")
def test_ten_thousand_messages_over_a_connection_that_is_cut_at_random(row: Revision) -> None:
    """HTTP-15, HTTP-16: nothing is lost, nothing comes twice, and the order is that of the server."""
    chance = random.Random(row.name)  # noqa: S311 - the same cuts in every run
    handler = Hearing()
    count = COUNT if row.sse_priming else FEWER

    async def main() -> None:
        from mcprev.transports.http.server.event_store import MemoryEvents

        server = mcprev.Server(Counting(), "counting", "1")
        events = MemoryEvents(events=2 * COUNT, session_bytes=2**26)
        async with listening(server, events=events) as origin, proxy(port(origin)) as between:
            cuts = 0

            def harm(upwards: bool, number: int, data: bytes) -> Harm | None:
                nonlocal cuts
                if b"HTTP/1.1 200" in data and not row.sse_priming:
                    return None  # nothing that could be taken up has arrived before the first event
                if upwards or b"notifications/message" not in data or chance.random() > 0.2 or cuts >= 40:
                    return None
                cuts += 1
                return chance.choice([Harm.CUT, Harm.TRUNCATE])

            between.harm, between.size = harm, 8192 if row.sse_priming else 2048
            target = mcprev.http(f"{between.origin}/mcp")
            async with mcprev.connect(target, mode=row.name, handler=handler, timeout=60) as client:
                assert said(await client.call_tool("count", {"to": count})) == "counted"
                await until(lambda: len(handler.heard) >= count)
            assert cuts > 5
        assert handler.heard == list(range(count))

    run(main(), limit=100, has_both_ends=True)
