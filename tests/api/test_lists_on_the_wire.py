"""Lists, their pages and how long they are good; completion (CACHE-1, CACHE-4, CACHE-5, PAGE-*, COMP-*, AMB-12)."""

from __future__ import annotations

from typing import Any, Final

import pytest

import mcprev
from api.scripted import giving, server
from api.wire import HandClient, Json, Message, each_session, most_values, served, serving
from fuzz.fuzzing import each_once
from helpers.named import ROW_A, B, rows_until
from helpers.requirements import req
from helpers.running import run
from mcprev.core.lists import ListBounds
from mcprev.errors import InvalidParams, RemoteProtocolError
from mcprev.protocol.result_rules import MOST_VALUES
from mcprev.revisions import LATEST, Revision
from mcprev_types.latest import models as m

LISTS: Final = {
    "tools/list": ("list_tools", m.ListToolsResult(tools=[])),
    "prompts/list": ("list_prompts", m.ListPromptsResult(prompts=[])),
    "resources/list": ("list_resources", m.ListResourcesResult(resources=[])),
    "resources/templates/list": (
        "list_resource_templates", m.ListResourceTemplatesResult(resource_templates=[]),
    ),
}  # fmt: skip
HINTED: Final = {"server/discover", "resources/read", *LISTS}
PARAMS: Final[dict[str, Message]] = {
    "resources/read": {"uri": "a:b"},
    "tools/call": {"name": "t"},
    "prompts/get": {"name": "p"},
    "completion/complete": {
        "ref": {"type": "ref/prompt", "name": "p"},
        "argument": {"name": "a", "value": ""},
    },
}


def plain() -> mcprev.Server:
    """A server whose results say nothing of how long they are good."""
    stubs: Any = {name: giving(value) for name, value in LISTS.values()}
    stubs["read_resource"] = giving(m.ReadResourceResult(contents=[]))
    stubs["call_tool"] = giving(m.CallToolResult(content=[]))
    stubs["get_prompt"] = giving(m.GetPromptResult(messages=[]))
    stubs["complete"] = giving(m.CompleteResult(completion=m.CompleteResultCompletion(values=[])))
    return server(**stubs)


# -- how long results are good ---------------------------------------------------------------------------


@req("CACHE-1", "AMB-12", "CONV-16")
def test_six_results_say_how_long_they_are_good_and_no_others(row: Revision) -> None:
    async def main() -> None:
        async with served(plain(), row) as client:
            methods = {*HINTED, *PARAMS} & row.methods.keys()
            for method in methods:
                result = (await client.ask(method, PARAMS.get(method))).result
                hints = {name: result.get(name) for name in ("ttlMs", "cacheScope", "resultType")}
                if row.handshake:
                    assert not hints.keys() & result.keys()
                elif method in HINTED:
                    assert hints == {"ttlMs": 0, "cacheScope": "private", "resultType": "complete"}
                else:
                    assert not {"ttlMs", "cacheScope"} & result.keys()

    run(main())


@req("CACHE-1")
@pytest.mark.parametrize("method", LISTS)
def test_what_the_author_says_goes_out(method: str) -> None:
    name, value = LISTS[method]
    longer: Any = value.model_copy(update={"ttl_ms": 60_000, "cache_scope": "public"})

    async def main() -> None:
        async with served(server(**{name: giving(longer)}), LATEST) as client:
            result = (await client.ask(method)).result
            assert (result["ttlMs"], result["cacheScope"]) == (60_000, "public")
        for wrong in ({"ttlMs": -1}, {"ttlMs": 1.5}, {"cacheScope": "all"}, {"ttlMs": None}):
            given = giving({**value.to_wire(), **wrong})
            async with served(server(**{name: given}), LATEST) as client:
                assert (await client.ask(method)).code == -32603

    run(main())


def pages(number: int, **hints: Any) -> mcprev.Server:
    async def list_tools(ctx: mcprev.Context, params: m.PaginatedRequestParams) -> m.ListToolsResult:
        at = 0 if params.cursor is None else CURSORS.index(params.cursor) + 1
        tool = m.Tool(name=f"t{at}", input_schema=m.ToolInputSchema())
        following = CURSORS[at] if at < number else None
        return m.ListToolsResult(tools=[tool], next_cursor=following, **hints)

    return server(list_tools=list_tools)


CURSORS: Final = ("", " ", "ü\u2028", "0", '{"page": 4}', "null")


@req("CACHE-4", "PAGE-2")
@pytest.mark.parametrize("hints", [{}, {"cache_scope": "public", "ttl_ms": 5}])
def test_all_pages_have_the_same_scope(row: Revision, hints: Any) -> None:
    async def main() -> None:
        async with served(pages(3, **hints), row) as client:
            found = [await client.ask("tools/list")]
            while "nextCursor" in found[-1].result:
                found.append(await client.ask("tools/list", {"cursor": found[-1].result["nextCursor"]}))
            assert len(found) == 4
            scopes = {answer.result.get("cacheScope") for answer in found}
            assert scopes == {None if row.handshake else hints.get("cache_scope", "private")}

    run(main())


@req("CACHE-5", "CONV-16")
def test_results_of_sessions_are_good_for_no_time(row: Revision) -> None:
    results: Message = {
        "tools/list": {"tools": []}, "prompts/list": {"prompts": []}, "resources/list": {"resources": []},
        "resources/templates/list": {"resourceTemplates": []}, "resources/read": {"contents": []},
    }  # fmt: skip

    async def main() -> None:
        junk = {"ttlMs": 10**6, "cacheScope": "public"}
        for extra in ({}, junk):
            async with serving(row, {name: {**value, **extra} for name, value in results.items()}) as (
                client,
                _,
            ):
                for method in results:
                    found: Any = await client.call(method, PARAMS.get(method, {}))
                    assert (found.ttl_ms, found.cache_scope) == (0, "private")

    run(main())


# -- pages -----------------------------------------------------------------------------------------------


@req("PAGE-1", "PAGE-3")
def test_cursors_go_back_as_they_came(row: Revision) -> None:
    async def main() -> None:
        left = [*CURSORS[1:], *([CURSORS[0]] if not row.handshake else [])]
        wanted = [{}, *({"cursor": cursor} for cursor in left)]

        def page(request: Message) -> Message:
            at = len(hand.asked("tools/list"))
            tool = {"name": f"t{at}", "inputSchema": {"type": "object"}}
            return {"tools": [tool], **({"nextCursor": left[at - 1]} if at <= len(left) else {})}

        async with serving(row, {"tools/list": page}) as (client, hand):
            names = [tool.name async for tool in client.tools()]
            assert len(names) == len(wanted)
            assert hand.asked("tools/list") == wanted
            found = await client.list_tools("any ü\u2028 thing")
            assert found.next_cursor is None
            assert hand.asked("tools/list")[-1] == {"cursor": "any ü\u2028 thing"}

    run(main())


@req("PAGE-3")
@pytest.mark.parametrize("kind", ["same", "circle", "endless"])
def test_iterating_ends(row: Revision, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcprev.core.lists.BOUNDS", ListBounds(pages=20))
    modulus = {"same": 1, "circle": 3, "endless": 10**9}[kind]

    async def main() -> None:
        def page(_: Message) -> Message:
            following = len(hand.asked("prompts/list")) % modulus
            return {"prompts": [{"name": "p"}], "nextCursor": str(following)}

        async with serving(row, {"prompts/list": page}) as (client, hand):
            with pytest.raises(RemoteProtocolError, match="do not end"):
                _ = [prompt async for prompt in client.prompts()]
            assert len(hand.asked("prompts/list")) <= 20

    run(main())


@req("PAGE-2")
@pytest.mark.parametrize("method", LISTS)
@pytest.mark.parametrize("cursor", ["unknown", 5, True, ["x"], {}])
@each_once
def test_a_bad_cursor_is_refused(row: Revision, method: str, cursor: Json) -> None:
    name, value = LISTS[method]

    async def listing(ctx: mcprev.Context, params: m.PaginatedRequestParams) -> Any:
        if params.cursor is not None:
            raise InvalidParams("Invalid params: no such cursor")
        return value

    async def main() -> None:
        async with served(server(**{name: listing}), row) as client:
            assert (await client.ask(method, {"cursor": cursor})).code == -32602
            assert isinstance((await client.ask(method)).result, dict)
            assert isinstance((await client.ask(method, {})).result, dict)

    run(main())


# -- completion ------------------------------------------------------------------------------------------


async def complete(client: HandClient, **more: Json) -> Any:
    return await client.ask("completion/complete", {**PARAMS["completion/complete"], **more})


@req("COMP-1", "CONV-30")
def test_as_many_values_as_the_schema_allows_and_no_more(row: Revision) -> None:
    def answering(count: int) -> mcprev.Server:
        completion = {"values": [str(n) for n in range(count)], "total": 1000, "hasMore": True}
        return server(complete=giving({"completion": completion}))

    async def main() -> None:
        async with served(answering(most_values(row)), row) as client:
            declared = client.hello["capabilities"]
            assert ("completions" in declared) is (row is not ROW_A)
            completion = (await complete(client)).result["completion"]
            assert (len(completion["values"]), completion["total"], completion["hasMore"]) == (
                most_values(row),
                1000,
                True,
            )
        async with served(answering(MOST_VALUES + 1), row) as client:
            assert (await complete(client)).code == -32603

    run(main())


@req("COMP-2", "CONV-29")
def test_what_is_known_already_goes_along(row: Revision) -> None:
    async def main() -> None:
        answer: Message = {"completion": {"values": ["x"]}}
        async with serving(row, {"completion/complete": answer}) as (client, hand):
            for ref in (m.PromptReference(name="p"), m.ResourceTemplateReference(uri="a:{b}")):
                await client.complete(ref, "a", "v", {"k": "w"})
                *_, asked = hand.asked("completion/complete")
                assert asked["ref"] == ref.to_wire()
                assert asked.get("context") == (None if row in rows_until(B) else {"arguments": {"k": "w"}})
            await client.complete(m.PromptReference(name="p"), "a", "v")
            assert "context" not in hand.asked("completion/complete")[-1]

    run(main())


@req("COMP-3")
def test_completions_that_are_refused(row: Revision) -> None:
    async def known(ctx: mcprev.Context, params: m.CompleteRequestParams) -> Any:
        raise InvalidParams("Invalid params: no such prompt")

    async def main() -> None:
        async with served(server(list_tools=giving(m.ListToolsResult(tools=[]))), row) as client:
            assert (await complete(client)).code == -32601
        async with served(server(complete=known), row) as client:
            assert (await complete(client)).code == -32602
            mores: tuple[Message, ...] = (
                {"ref": {"type": "ref/tool"}},
                {"ref": {}},
                {"argument": {"name": "a"}},
                {"argument": 5},
            )
            for more in mores:
                assert (await complete(client, **more)).code == -32602

    run(main())


@each_session
@req("COMP-1", "SEAM-5")
def test_a_client_takes_the_first_of_too_many(row: Revision) -> None:
    async def main() -> None:
        answer: Message = {"completion": {"values": [str(n) for n in range(MOST_VALUES + 50)]}}
        async with serving(row, {"completion/complete": answer}) as (client, _):
            found = await client.complete(m.PromptReference(name="p"), "a", "v")
            assert (len(found.completion.values), found.completion.has_more) == (most_values(row), True)

    run(main())
