"""Servers whose lists do not end: who reads them stops within bounds of pages, entries, bytes, values and time (PAGE-3, TIME-1)."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any, Final, cast

import pytest

import mcprev
from api.wire import HandServer, Message, serving
from bridge.hands import Downstream, Servers, Upstream, bridge_to, bridged, text as said
from bridge.joining import ends, joined
from bridge.task_hands import capabilities_with_tasks, offering_tasks
from fuzz.fuzzing import diagonal
from helpers.raw_server import Exchange, connected, text
from helpers.requirements import req
from helpers.running import run, until
from mcprev.cli.valid_entries import listed_entries
from mcprev.core.lists import LISTS, ListBounds, ListBudget, ListTooLong, read_pages
from mcprev.dev.channels import Channels
from mcprev.dev.lists import KINDS, Lists
from mcprev.errors import RemoteProtocolError, RequestTimeout, ServersFailed
from mcprev.revisions import DEFAULT, Revision, TaskSupport
from mcprev.transports.http.client import tool_headers
from mcprev.transports.http.client.tool_headers import ParamHeaderCache

BOUNDS: Final = ListBounds(pages=20, entries=100, size=20_000, values=2_000)
ENTRIES: Final[dict[str, Message]] = {
    "tools/list": {"name": "t", "inputSchema": {"type": "object"}},
    "resources/list": {"uri": "a:b", "name": "r"},
    "resources/templates/list": {"uriTemplate": "a:{b}", "name": "r"},
    "prompts/list": {"name": "p"},
}
NAMES: Final = {
    "tools/list": "tools",
    "resources/list": "resources",
    "resources/templates/list": "resource_templates",
    "prompts/list": "prompts",
}
WAYS: Final = ("circle", "pages", "entries", "bytes", "values", "cursor")
"""How a list does not end: which of the bounds meets it."""


class Endless:
    """A list without end."""

    def __init__(self, method: str, way: str) -> None:
        self.method = method
        self.way = way
        self.sent = 0
        self.size = 0
        """The length of all pages that were sent."""

    def __call__(self, _: object = None) -> Message:
        entry, count = {**ENTRIES[self.method]}, 1
        if self.way == "bytes":
            entry["description"] = "x" * 5_000
        elif self.way == "values":
            entry["_meta"] = {"x": [[]] * 500}
        elif self.way == "entries":
            count = 30
        self.sent += 1
        cursor = "same" if self.way == "circle" else f"{self.sent}" + "x" * 2_000 * (self.way == "cursor")
        page = {LISTS[self.method].member: [entry] * count, "nextCursor": cursor}
        self.size += len(json.dumps(page))
        return page

    def check(self) -> None:
        """Fail if it was read beyond the bounds, or not at all."""
        most = {"circle": 2, "pages": BOUNDS.pages, "cursor": 1}.get(self.way, 5)
        assert 0 < self.sent <= most
        assert self.size < BOUNDS.size * 1.5 or self.way == "cursor"


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcprev.core.lists.BOUNDS", BOUNDS)
    monkeypatch.setattr("mcprev.core.lists.MAX_CURSOR", 1_000)


each_way = pytest.mark.parametrize("way", WAYS)


@req("PAGE-3")
@pytest.mark.parametrize(("row", "method", "way"), diagonal(DEFAULT, [*LISTS], WAYS))
def test_a_client_stops(row: Revision, method: str, way: str) -> None:
    endless = Endless(method, way)

    async def main() -> None:
        async with serving(row, {method: endless}) as (client, _):
            found: list[Any] = []

            async def read() -> None:
                async for entry in getattr(client, NAMES[method])():
                    found.append(entry)  # noqa: PERF401 - what came before the error counts

            with pytest.raises(RemoteProtocolError, match=f"'{method}'"):
                await read()
            assert len(found) <= BOUNDS.entries

    run(main())
    endless.check()


@req("PAGE-3", everywhere=True)
@each_way
def test_a_client_of_several_servers_stops_and_lists_the_others(way: str) -> None:
    endless = Endless("tools/list", way)
    row = DEFAULT[-1]

    async def main() -> None:
        there = {
            "a": HandServer(row, {"tools/list": endless}),
            "b": HandServer(row, {"tools/list": {"tools": [ENTRIES["tools/list"]]}}),
        }
        targets = {name: mcprev.memory(cast("Any", each)) for name, each in there.items()}
        async with mcprev.connect_all(targets, partial=True) as clients:
            names = [tool.name async for tool in clients.tools()]
            assert names[-1] == "b__t"
            assert isinstance(clients.list_errors["tools/list"]["a"], RemoteProtocolError)
        async with mcprev.connect_all(
            {"a": mcprev.memory(cast("Any", HandServer(row, {"tools/list": Endless("tools/list", way)})))}
        ) as clients:
            with pytest.raises(ServersFailed):
                _ = [tool async for tool in clients.tools()]

    run(main())
    endless.check()


@req("PAGE-3", everywhere=True)
@pytest.mark.parametrize("kind", KINDS)
@each_way
def test_the_page_of_dev_stops(kind: str, way: str) -> None:
    method = KINDS[kind][0]
    endless = Endless(method, way)

    async def main() -> None:
        async with serving(DEFAULT[-1], {method: endless}) as (client, _):
            lists = Lists(Channels())
            lists.load(client, kind)
            await until(lambda: cast("Message", lists.documents()[kind])["state"] != "loading")
            document = cast("Message", lists.documents()[kind])
            assert document["state"] == "failed"
            assert len(document["items"]) <= BOUNDS.entries
            assert f"'{method}'" in document["error"]
            await lists.aclose()

    run(main())
    endless.check()


@req("PAGE-3", everywhere=True)
@each_way
def test_the_command_uses_what_it_has_read(way: str, capsys: pytest.CaptureFixture[str]) -> None:
    endless = Endless("tools/list", way)

    async def main() -> None:
        async with serving(DEFAULT[-1], {"tools/list": endless}) as (client, _):
            found = await listed_entries(client, "tools", 5.0)
            assert found.unread
            assert found.named("t", "tool").name == "t"

    run(main())
    endless.check()
    assert "Warning: the " in capsys.readouterr().err


@req("PAGE-3", everywhere=True)
@each_way
@pytest.mark.parametrize("prefixes", ["always", "needed"])
def test_a_bridge_of_several_servers_stops_for_one_call(prefixes: str, way: str) -> None:
    row, endless = DEFAULT[-1], Endless("tools/list", way)
    client, servers = Downstream(row), ends(row, "a", "b", a={"tools/list": endless})

    async def main() -> None:
        async with bridged(joined(servers, row, prefixes=prefixes), client):
            await client.call("b__who")
            await client.call("who")

    run(main())
    if endless.sent:
        endless.check()
    assert endless.sent or prefixes == "always"


@req("PAGE-3", "TASK-3", everywhere=True)
@each_way
def test_a_bridge_of_one_server_stops_for_one_call(way: str, caplog: pytest.LogCaptureFixture) -> None:
    """It reads the list to know which tools are tasks."""
    there = next(row for row in DEFAULT if row.tasks is TaskSupport.CORE)
    row, endless = DEFAULT[-1], Endless("tools/list", way)

    async def done(_up: Upstream, _request: Message) -> Message:
        return said("done")

    def made() -> Upstream:
        return offering_tasks(Upstream(there, {"t": done}, {"tools/list": endless}))

    async def main() -> None:
        client = Downstream(row, capabilities_with_tasks(row, {}))
        async with bridged(bridge_to(Servers(made), there), client):
            assert (await client.ask("tools/call", {"name": "t"})).result

    with caplog.at_level(logging.WARNING, "mcprev.bridge"):
        run(main())
    endless.check()


# -- a call whose headers depend on its tool ------------------------------------------------------------------


each_routing = pytest.mark.parametrize(
    "row", [row for row in DEFAULT if row.routing_headers], ids=lambda row: row.name
)


@req("HDR-11", "PAGE-3")
@each_routing
@each_way
def test_a_call_over_http_lists_the_tools_within_bounds_and_once(row: Revision, way: str) -> None:
    endless = Endless("tools/list", way)

    async def main() -> None:
        async def listed(exchange: Exchange) -> None:
            await exchange.result(server.complete(endless()))

        async with connected(row, {"tools/list": listed, "tools/call": text("x")}) as (client, server, _):
            for _ in range(3):
                assert (await client.call_tool("unknown")).text == "x"

    run(main())
    endless.check()


@req("HDR-11", "TIME-1")
@each_routing
@pytest.mark.parametrize("end", ["timeout", "cancelled"])
def test_the_listing_ends_with_the_last_call_that_waits_for_it(row: Revision, end: str) -> None:
    async def main() -> None:
        async def listed(exchange: Exchange) -> None:
            if len(raw.asked(method="tools/list")) < 3:
                page: Message = {"tools": [], "nextCursor": str(len(raw.asked(method="tools/list")))}
                await exchange.result(server.complete(page))
            else:
                await exchange.gone.wait()
                gone.set()

        gone = asyncio.Event()
        async with connected(row, {"tools/list": listed, "tools/call": text("x")}) as (client, server, raw):
            short = client.call_tool("a", total_timeout=0.5 if end == "timeout" else None)
            calls = [asyncio.create_task(short), asyncio.create_task(client.call_tool("b"))]
            await until(lambda: len(raw.asked(method="tools/list")) == 3)
            if end == "cancelled":
                calls[0].cancel()
            await asyncio.wait(calls[:1])
            assert not gone.is_set()  # the other call still waits for it
            calls[1].cancel()
            await gone.wait()
            ends = await asyncio.gather(*calls, return_exceptions=True)
            assert isinstance(ends[0], RequestTimeout if end == "timeout" else asyncio.CancelledError)
            assert len(raw.asked(method="tools/list")) == 3
            assert raw.asked(method="tools/call") == []

    run(main())


@req("HDR-6")
def test_what_is_kept_of_tools_has_a_bound_in_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tool_headers, "MAX_KEPT", 10_000)
    found = ParamHeaderCache(logging.getLogger("test"))
    for number in range(50):
        tool = {"name": f"{number}" + "x" * 1_000, "inputSchema": {"type": "object"}}
        found.filter_page({"tools": [tool], "nextCursor": "more"})
    newest, oldest = ({"name": name + "x" * 1_000} for name in ("49", "0"))
    assert found.find(newest) == ()
    assert found.find(oldest) is None
    assert sum(found.find({"name": f"{n}" + "x" * 1_000}) is not None for n in range(50)) == 7


@req("TOOL-6", everywhere=True)
def test_what_is_kept_of_output_schemas_has_a_bound_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A schema beyond it is not kept, and results of its tool are not held against it."""
    monkeypatch.setattr("mcprev.client.server_cache.MAX_BYTES", 3_000)
    schema = {"type": "object", "required": ["x"], "description": "x" * 1_000}
    row = DEFAULT[-1]

    def listed(_: Message) -> Message:
        return {
            "tools": [
                {
                    **ENTRIES["tools/list"],
                    "name": f"{n}",
                    "outputSchema": {**schema, "title": f"{len(hand.got)}"},
                }
                for n in range(5)
            ]
        }

    answer: Message = {"content": [], "structuredContent": {}}
    hand: HandServer

    async def main() -> None:
        nonlocal hand
        async with serving(row, {"tools/list": listed, "tools/call": answer}, validate="strict") as (
            client,
            hand,
        ):
            for _ in range(3):  # one that was replaced does not count any more
                await client.list_tools(fresh=True)
            wrong = 0
            for n in range(5):
                try:
                    await client.call_tool(f"{n}")
                except RemoteProtocolError:
                    wrong += 1
            assert wrong == 2

    run(main())


# -- the reader ------------------------------------------------------------------------------------------------


@req("PAGE-3", everywhere=True)
def test_all_pages_have_one_time_and_what_the_caller_does_between_them_is_not_counted() -> None:
    async def main() -> None:
        now = asyncio.get_running_loop().time

        async def fetch(cursor: str | None) -> Message:
            await asyncio.sleep(1.0)
            return {"tools": [], "nextCursor": (cursor or "") + "x"}

        count = 0

        async def read() -> None:
            nonlocal count
            async for _ in read_pages("tools/list", fetch, ListBudget.take, seconds=3.5):
                count += 1
                await asyncio.sleep(100.0)

        with pytest.raises(RequestTimeout, match="'tools/list' was not complete within 3") as caught:
            await read()
        assert count == 3
        assert caught.value.elapsed == pytest.approx(3.5, abs=0.1)
        assert now() > 300

    run(main(), limit=1000.0)


@req("PAGE-3", everywhere=True)
def test_a_caller_that_is_cancelled_cancels_the_request_for_a_page() -> None:
    async def main() -> None:
        ended = False

        async def fetch(_: str | None) -> Message:
            nonlocal ended
            try:
                await asyncio.Event().wait()
            finally:
                ended = True
            raise AssertionError

        async def read() -> None:
            async for _ in read_pages("tools/list", fetch, ListBudget.take):
                raise AssertionError

        task = asyncio.create_task(read())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait({task})
        assert ended

    run(main())


@req("PAGE-3", everywhere=True)
@pytest.mark.parametrize(
    ("page", "text"),
    [
        ({"tools": [], "nextCursor": "a"}, "a cursor is repeated"),
        ({"tools": [], "nextCursor": "x" * 2_000}, "a cursor is too long"),
        ({"tools": [None] * 101}, "more than 100 entries"),
        ({"tools": ["x" * 20_000]}, "more than 20000 bytes"),
        ({"tools": [], "x": [0] * 2_001}, "more than 2000 JSON values"),
        ({"tools": [], "x": "\ud800" * 5_000}, "more than 20000 bytes"),
    ],
    ids=["cursor", "length of a cursor", "entries", "bytes", "values", "surrogates"],
)
def test_each_bound_says_what_is_too_much(page: Message, text: str) -> None:
    budget = ListBudget("tools/list")
    assert budget.follow(budget.take({"tools": [], "nextCursor": "a"})) == "a"
    with pytest.raises(ListTooLong, match=text):
        budget.follow(budget.take(page))


@req("PAGE-3", everywhere=True)
@pytest.mark.parametrize("page", [{}, {"tools": 7}, {"tools": [], "nextCursor": 7}, {"nextCursor": None}])
def test_an_odd_page_is_the_last_one(page: Message) -> None:
    assert ListBudget("tools/list").take(page) is None
