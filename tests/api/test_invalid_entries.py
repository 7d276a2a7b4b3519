"""One entry of a list that is not valid hides no other: clients, several servers, bridges, `dev` (SEAM-5, PAGE-1, TOOL-1)."""

from __future__ import annotations

import json
import logging
from typing import Any, Final, cast

import pytest

import mcprev
from api.wire import HandServer, Message, serving
from bridge.hands import Downstream, Servers, Upstream, bridge_to, bridged
from bridge.joining import all_tools, ends, joined
from fuzz.fuzzing import each_once
from helpers.raw_server import connected
from helpers.requirements import req
from helpers.running import run, until
from mcprev.core.lists import LISTS
from mcprev.dev.channels import Channels
from mcprev.dev.lists import KINDS, Lists
from mcprev.errors import RemoteProtocolError
from mcprev.revisions import DEFAULT, LATEST, Revision

OBJECT: Final = {"type": "object"}
GOOD: Final[dict[str, Message]] = {
    "tools/list": {"name": "good", "inputSchema": OBJECT},
    "resources/list": {"uri": "a:good", "name": "good"},
    "resources/templates/list": {"uriTemplate": "a:{good}", "name": "good"},
    "prompts/list": {"name": "good"},
}
NAMES: Final = {
    "tools/list": "tools",
    "resources/list": "resources",
    "resources/templates/list": "resource_templates",
    "prompts/list": "prompts",
}
ALWAYS: Final[dict[str, list[Any]]] = {
    "tools/list": [
        {"name": "odd"}, {"name": "odd", "inputSchema": None}, {"name": "odd", "inputSchema": {"type": "string"}},
        {"name": "odd", "inputSchema": []}, {"name": 7, "inputSchema": OBJECT}, {"inputSchema": OBJECT},
        {"name": "odd", "inputSchema": OBJECT, "description": 7}, None, 7, "odd", [],
    ],
    "resources/list": [{"uri": 7, "name": "odd"}, {"name": "odd"}, {"uri": "a:odd", "name": 7}, {"uri": "a:b", "name": "odd", "mimeType": []}, None],
    "resources/templates/list": [{"uriTemplate": 7, "name": "odd"}, {"name": "odd"}, {"uriTemplate": "a:{b}"}, []],
    "prompts/list": [{"name": 7}, {}, {"name": "odd", "arguments": {}}, {"name": "odd", "arguments": [{"name": 7}]}, "odd"],
}  # fmt: skip
"""Entries that are valid at no revision."""
LATELY: Final[dict[str, list[Any]]] = {
    "tools/list": [
        {**GOOD["tools/list"], "name": "odd", "annotations": {"readOnlyHint": "yes"}},
        {**GOOD["tools/list"], "name": "odd", "icons": "x.png"},
        {**GOOD["tools/list"], "name": "odd", "icons": [{"url": "x.png"}]},
        {**GOOD["tools/list"], "name": "odd", "_meta": []},
    ],
    "resources/list": [{**GOOD["resources/list"], "uri": "a:odd", "_meta": []}, {**GOOD["resources/list"], "uri": "a:odd", "icons": 7}],
    "resources/templates/list": [{**GOOD["resources/templates/list"], "_meta": "x"}],
    "prompts/list": [{**GOOD["prompts/list"], "name": "odd", "icons": [7]}],
}  # fmt: skip
"""Entries whose members are those of later revisions only."""
UNDERSTOOD: Final[tuple[Message, ...]] = (
    {},
    {"properties": {"x": {"type": "string"}}},
    {"additionalProperties": False},
)
"""Schemas without a type."""
EACH: Final = [(method, [*entries, *LATELY[method]]) for method, entries in ALWAYS.items()]
each_list = pytest.mark.parametrize(("method", "odd"), EACH, ids=list(ALWAYS))


def page_of(method: str, odd: list[Any]) -> Message:
    """The odd entries among good ones."""
    good = GOOD[method]
    return {LISTS[method].member: [good, *odd, {**good, LISTS[method].key: "a:last"}]}


async def keys(client: mcprev.Client, method: str) -> list[str]:
    """What a client lists."""
    found = [entry.to_wire() async for entry in getattr(client, NAMES[method])()]
    return [entry[LISTS[method].key] for entry in found]


def wanted(method: str) -> list[str]:
    return [GOOD[method][LISTS[method].key], "a:last"]


@req("SEAM-5", "PAGE-1")
@each_list
def test_a_client_lists_the_valid_entries_and_names_the_others_once(
    row: Revision, method: str, odd: list[Any], caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with serving(row, {method: page_of(method, odd)}) as (client, _):
            found: list[str] = []
            with caplog.at_level(logging.WARNING, "mcprev.client"):
                for _ in range(3):
                    found = await keys(client, method)
                    assert (
                        next(key for key in found if "odd" not in key and key != "a:b") == wanted(method)[0]
                    )
                    assert found[-1] == wanted(method)[-1]
            invalid = client.invalid_entries[method]
            assert len(invalid) >= len(ALWAYS[method])
            assert len(invalid) + len(found) == len(odd) + 2
            assert invalid[0].number == 2
            assert all(each.issues for each in invalid)
            page = await getattr(client, f"list_{NAMES[method]}")()
            assert len(getattr(page, NAMES[method])) == len(found)

    run(main())
    assert len([each for each in caplog.records if "left out" in each.getMessage()]) == 1


@req("SEAM-5", everywhere=True)
@each_list
def test_at_the_latest_revision_all_of_them_are_left_out_over_http_too(method: str, odd: list[Any]) -> None:
    async def main() -> None:
        page = {**page_of(method, odd), "ttlMs": 0, "cacheScope": "private"}
        async with connected(LATEST, {method: page}) as (client, _, _):
            assert await keys(client, method) == wanted(method)
            assert len(client.invalid_entries[method]) == len(odd)

    run(main())


@req("SEAM-5", "TOOL-1")
@pytest.mark.parametrize("schema", UNDERSTOOD, ids=str)
@pytest.mark.parametrize("member", ["inputSchema", "outputSchema"])
def test_a_schema_without_a_type_is_that_of_an_object(row: Revision, schema: Message, member: str) -> None:
    async def main() -> None:
        tool = {**GOOD["tools/list"], member: schema}
        async with serving(row, {"tools/list": {"tools": [tool]}, "tools/call": {"content": []}}) as (
            client,
            _,
        ):
            (found,) = [each async for each in client.tools()]
            assert found.name == "good"
            assert client.invalid_entries.get("tools/list", ()) == ()
            if member == "inputSchema":
                assert found.input_schema.to_wire() == {"type": "object", **schema}

    run(main())


@req("SEAM-5", everywhere=True)
@each_list
def test_a_strict_client_refuses_the_list(method: str, odd: list[Any]) -> None:
    async def main() -> None:
        async with serving(LATEST, {method: page_of(method, odd[:1])}, strict=True) as (client, _):
            with pytest.raises(RemoteProtocolError):
                await keys(client, method)

    run(main())


@req("TOOL-6", everywhere=True)
def test_what_is_reported_is_of_the_last_reading() -> None:
    pages = [page_of("tools/list", [7]), page_of("tools/list", [])]

    async def main() -> None:
        async with serving(LATEST, {"tools/list": lambda _: pages.pop(0)}) as (client, _):
            assert await keys(client, "tools/list") == wanted("tools/list")
            assert [each.number for each in client.invalid_entries["tools/list"]] == [2]
            await keys(client, "tools/list")
            assert client.invalid_entries.get("tools/list", ()) == ()

    run(main())


@req("TOOL-6", everywhere=True)
def test_a_list_with_hardly_a_valid_entry_is_none() -> None:
    async def main() -> None:
        async with serving(LATEST, {"tools/list": page_of("tools/list", [7] * 1_001)}) as (client, _):
            with pytest.raises(RemoteProtocolError):
                await keys(client, "tools/list")

    run(main())


@req("SEAM-5", everywhere=True)
@each_list
def test_several_servers_are_listed(method: str, odd: list[Any]) -> None:
    async def main() -> None:
        there = {
            "a": HandServer(LATEST, {method: page_of(method, odd)}),
            "b": HandServer(LATEST, {method: page_of(method, [])}),
        }
        async with mcprev.connect_all(
            {name: mcprev.memory(cast("Any", each)) for name, each in there.items()}
        ) as clients:
            found = [entry async for entry in getattr(clients, NAMES[method])()]
            assert len(found) == 4
            assert len(clients["a"].invalid_entries[method]) == len(odd)
            assert method not in clients["b"].invalid_entries

    run(main())


# -- bridges -----------------------------------------------------------------------------------------------------


@each_once
@req("SEAM-10", "PAGE-1")
@pytest.mark.parametrize("row", DEFAULT, ids=lambda row: row.name)
@pytest.mark.parametrize("there", [DEFAULT[0], DEFAULT[-1]], ids=lambda row: row.name)
@each_list
def test_a_bridge_of_several_servers_passes_the_valid_ones_on(
    row: Revision, there: Revision, method: str, odd: list[Any], caplog: pytest.LogCaptureFixture
) -> None:
    """The client judges what it gets by the schema of its revision."""
    if method not in row.methods or method not in there.methods:
        return
    client, servers = Downstream(row), ends(
        there, "a", "b", a={method: page_of(method, odd)}, b={method: page_of(method, [])}
    )

    async def main() -> None:
        async with bridged(joined(servers, there), client):
            for _ in range(2):
                entries = (await client.ask(method)).result[LISTS[method].member]
                shown = json.dumps(entries)
                assert shown.count("last") == 2
                assert len(entries) >= 4

    with caplog.at_level(logging.WARNING, "mcprev.bridge"):
        run(main())
    assert len([each for each in caplog.records if "left out" in each.getMessage()]) in (1, 2)


@req("SEAM-10", "PAGE-1")
@pytest.mark.parametrize(
    ("row", "there"),
    [(row, there) for row in DEFAULT for there in (DEFAULT[0], DEFAULT[-1]) if row is not there],
    ids=lambda row: row.name,
)
def test_a_bridge_of_one_server_that_converts_passes_the_valid_ones_on(
    row: Revision, there: Revision
) -> None:
    page = page_of("tools/list", [*ALWAYS["tools/list"], *LATELY["tools/list"]])

    async def main() -> None:
        client = Downstream(row)
        bridge = bridge_to(Servers(lambda: Upstream(there, {}, {"tools/list": page})), there)
        async with bridged(bridge, client):
            found = all_tools((await client.ask("tools/list")).result)
            assert (found[0], found[-1]) == ("good", "a:last")

    run(main())


@req("SEAM-10", "PAGE-1", "SEAM-5")
@each_list
def test_a_bridge_of_one_server_that_converts_nothing_leaves_them_out_too(
    row: Revision, method: str, odd: list[Any], caplog: pytest.LogCaptureFixture
) -> None:
    """What the valid ones have that no schema knows is kept. The client judges what it gets."""
    if method not in row.methods:
        return
    page = page_of(method, odd)
    page[LISTS[method].member][0]["com.example/more"] = {"x": 2**70}

    async def main() -> None:
        client = Downstream(row)
        bridge = bridge_to(Servers(lambda: Upstream(row, {}, {method: page})), row)
        async with bridged(bridge, client):
            for _ in range(2):
                found = (await client.ask(method)).result[LISTS[method].member]
                assert found[0]["com.example/more"] == {"x": 2**70}
                assert [found[0][LISTS[method].key], found[-1][LISTS[method].key]] == wanted(method)
                assert len(found) <= len(LATELY[method]) + 2

    with caplog.at_level(logging.WARNING, "mcprev.bridge"):
        run(main())
    assert len([each for each in caplog.records if "left out" in each.getMessage()]) == 1


# -- dev ---------------------------------------------------------------------------------------------------------


@req("TOOL-6", everywhere=True)
@pytest.mark.parametrize("kind", KINDS)
def test_the_page_of_dev_shows_what_can_be_shown_and_names_what_is_not_valid(kind: str) -> None:
    method = KINDS[kind][0]

    async def main() -> None:
        async with serving(LATEST, {method: page_of(method, ALWAYS[method])}) as (client, _):
            lists = Lists(Channels())
            lists.load(client, kind)
            await until(lambda: cast("Message", lists.documents()[kind])["state"] != "loading")
            document = cast("Message", lists.documents()[kind])
            assert "entry 2" in document["error"]
            assert GOOD[method] in document["items"]
            await lists.aclose()

    run(main())
