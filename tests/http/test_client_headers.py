"""What a client's requests look like on the wire: a POST for each message, and the headers of each revision."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import traceback
from typing import Any

import pytest

import mcprev
from helpers.raw_server import VERSION, Exchange, Reply, connected, text, tool
from helpers.requirements import E, req
from helpers.running import run, until
from mcprev.errors import LocalProtocolError
from mcprev.revisions import Revision, revision_named
from mcprev.transports.http.client.tool_headers import ParamHeaderCache

LATEST = revision_named(E)


async def use(client: mcprev.Client) -> None:
    """Say something of each kind."""
    await client.call_tool("a tool", {"x": 1})
    await client.ping()


@req("HTTP-4", "HTTP-5", "HTTPM-2", "BASE-1")
def test_every_message_is_a_post_of_its_own(row: Revision) -> None:
    async def main() -> None:
        async with connected(row, {"tools/call": text("x"), "ping": {}}) as (client, _, raw):
            await asyncio.gather(*(use(client) for _ in range(5)))
            posts = raw.asked()
            assert len(raw.asked(method="tools/call")) == 5
            for post in posts:
                assert post.headers["accept"] == "application/json, text/event-stream"
                assert post.headers["content-type"] == "application/json"
                message = json.loads(post.body.decode("utf-8"))
                assert isinstance(message, dict)
                assert message["jsonrpc"] == "2.0"

    run(main())


@req("HTTP-20", "LIFE-1", "LIFE-5")
def test_the_session_goes_with_everything_but_its_opening(row: Revision) -> None:
    odd = "!~0x21-to-0x7E:%$"

    async def main() -> None:
        async with connected(row, {"tools/call": text("x"), "ping": {}}, session=odd) as (client, _, raw):
            await until(lambda: bool(raw.asked("GET")))
            await use(client)
        first, *others = raw.seen
        assert first.method == "initialize"
        assert "mcp-session-id" not in first.headers
        assert others[0].method == "notifications/initialized"
        assert {seen.verb for seen in others} == {"POST", "GET", "DELETE"}
        assert {seen.headers["mcp-session-id"] for seen in others} == {odd}

    run(main())


@req("HTTP-20", "HTTP-24")
def test_without_a_session_there_is_none_to_name_or_to_end(row: Revision) -> None:
    async def main() -> None:
        async with connected(row, {"tools/call": text("x"), "ping": {}}, session=None) as (client, _, raw):
            await use(client)
        assert all("mcp-session-id" not in seen.headers for seen in raw.seen)
        assert raw.asked("DELETE") == []

    run(main())


@req("HTTP-25", "HTTP-20")
def test_the_version_goes_with_everything_but_initialize(row: Revision) -> None:
    async def main() -> None:
        async with connected(row, {"tools/call": text("x"), "ping": {}}) as (client, _, raw):
            await until(lambda: bool(raw.asked("GET")))
            await use(client)
        first, *others = raw.seen
        assert "mcp-protocol-version" not in first.headers
        wanted = row.version if row.version_header else None
        assert {seen.headers.get("mcp-protocol-version") for seen in others} == {wanted}
        assert all("mcp-method" not in seen.headers for seen in raw.seen)

    run(main())


@req("HDR-1", "HDR-2", "MOD-1", "HTTPM-1")
def test_requests_of_the_stateless_era_describe_themselves_twice() -> None:
    replies: dict[str, Reply] = {
        "tools/call": text("x"),
        "prompts/get": {"messages": []},
        "resources/read": {"contents": []},
        "resources/list": {"resources": []},
        "prompts/list": {"prompts": []},
    }

    async def main() -> None:
        async with connected(LATEST, replies) as (client, _, raw):
            await client.call_tool("my-hyphenated-tool")
            await client.get_prompt("p")
            await client.read_resource("file:///path/to/file%20name.txt")
            _ = [found async for found in client.resources()]
            _ = [found async for found in client.prompts()]
        names = {
            "tools/call": "my-hyphenated-tool",
            "prompts/get": "p",
            "resources/read": "file:///path/to/file%20name.txt",
        }
        assert {seen.verb for seen in raw.seen} == {"POST"}
        assert {post.method for post in raw.seen} == {*replies, "server/discover", "tools/list"}
        for post in raw.seen:
            stated = post.message["params"]["_meta"][VERSION]
            assert post.headers["mcp-protocol-version"] == stated == LATEST.version
            assert post.headers["mcp-method"] == post.method
            assert post.headers.get("mcp-name") == names.get(post.method)
            assert "mcp-session-id" not in post.headers

    run(main())


HEADERS = {
    "region": {"type": "string", "x-mcp-header": "Region"},
    "count": {"type": "integer", "x-mcp-header": "Count"},
    "flag": {"type": "boolean", "x-mcp-header": "Flag"},
    "deep": {"type": "object", "properties": {"er": {"type": "string", "x-mcp-header": "Deeper"}}},
    "plain": {"type": "string"},
}


@req("HDR-5", "HDR-6", "HDR-11", at=E)
@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        ({"region": "eu west", "plain": "p"}, {"region": "eu west"}),
        ({"region": ""}, {"region": ""}),
        ({"region": None, "count": 0}, {"count": "0"}),
        ({"count": -42, "flag": False}, {"count": "-42", "flag": "false"}),
        ({"flag": True, "deep": {"er": "x"}}, {"flag": "true", "deeper": "x"}),
        ({"region": "zürich\n"}, {"region": "zürich\n"}),
        ({"region": " edge "}, {"region": " edge "}),
        ({"region": "=?base64?eA==?="}, {"region": "=?base64?eA==?="}),
        ({}, {}),
    ],
)
def test_arguments_go_into_the_headers_that_the_schema_names(
    arguments: dict[str, Any], wanted: dict[str, str]
) -> None:
    async def main() -> None:
        replies = {"tools/list": {"tools": [tool("t", HEADERS)]}, "tools/call": text("x")}
        async with connected(LATEST, replies) as (client, _, raw):
            for _ in range(2):
                await client.call_tool("t", arguments)
            assert len(raw.asked(method="tools/list")) == 1
        found = {
            name.removeprefix("mcp-param-"): _decoded(value)
            for name, value in raw.asked(method="tools/call")[1].headers.items()
            if name.startswith("mcp-param-")
        }
        assert found == wanted

    run(main())


def _decoded(value: str) -> str:
    if value.startswith("=?base64?"):
        return base64.b64decode(value[9:-2]).decode()
    assert value.isascii()
    assert value.strip() == value
    return value


@req("HDR-7")
def test_a_tool_that_marks_headers_wrongly_is_left_out_and_not_called() -> None:
    wrong = {
        "empty": {"type": "string", "x-mcp-header": ""},
        "space": {"type": "string", "x-mcp-header": "a b"},
        "colon": {"type": "string", "x-mcp-header": "a:b"},
        "feed": {"type": "string", "x-mcp-header": "a\nb"},
        "number": {"type": "number", "x-mcp-header": "N"},
        "array": {"type": "array", "items": {"type": "string"}, "x-mcp-header": "A"},
        "object": {"type": "object", "x-mcp-header": "O"},
    }
    tools = [tool(name, {"p": schema}) for name, schema in wrong.items()]
    twice = {"a": {"type": "string", "x-mcp-header": "X"}, "b": {"type": "string", "x-mcp-header": "x"}}
    listed = [*tools, tool("twice", twice), tool("good", HEADERS)]

    async def main() -> None:
        replies = {"tools/list": {"tools": listed}, "tools/call": text("x")}
        async with connected(LATEST, replies) as (client, _, raw):
            assert [found.name async for found in client.tools()] == ["good"]
            await client.call_tool("good", {"region": "eu"})
            for name in (*wrong, "twice"):
                with pytest.raises(LocalProtocolError, match=name):
                    await client.call_tool(name, {})
            assert len(raw.asked(method="tools/call")) == 1

    run(main())


@req("HDR-7", at=E)
def test_why_a_tool_is_left_out_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    bad = tool("bad", {"p": {"type": "number", "x-mcp-header": "N"}})

    async def main() -> None:
        async with connected(LATEST, {"tools/list": {"tools": [bad]}}) as (client, _, _):
            for _ in range(3):
                assert [found async for found in client.tools()] == []

    run(main())
    (record,) = [found for found in caplog.records if found.levelname == "WARNING"]
    assert "bad" in record.getMessage()
    assert "number" in record.getMessage()


@req("HDR-9", "HDR-11")
def test_a_mismatch_lists_the_tools_again_and_tries_once_more() -> None:
    """HDR-9: the schema that the client knew is out of date; the second refusal is the caller's."""
    new = {"region": {"type": "string", "x-mcp-header": "Area"}}

    async def main(*, mended: bool) -> None:
        async def listed(response_stream: Exchange) -> None:
            first = len(raw.asked(method="tools/list")) == 1
            found = [tool("t", HEADERS if first else new)]
            await response_stream.result(server.complete({"tools": found}))

        async def called(response_stream: Exchange) -> None:
            if mended and "mcp-param-area" in response_stream.headers:
                await response_stream.result(server.complete(text("done")))
            else:
                await response_stream.error(-32020, 400)

        async with connected(LATEST, {"tools/list": listed, "tools/call": called}) as (client, server, raw):
            if mended:
                assert "done" in str(await client.call_tool("t", {"region": "eu"}))
            else:
                with pytest.raises(mcprev.RpcError) as caught:
                    await client.call_tool("t", {"region": "eu"})
                assert caught.value.code == -32020
            assert len(raw.asked(method="tools/list")) == 2
            assert len(raw.asked(method="tools/call")) == 2

    run(main(mended=True))
    run(main(mended=False))


@req("HDR-11")
def test_calls_at_once_share_one_listing_of_all_pages() -> None:
    async def main() -> None:
        async def listed(response_stream: Exchange) -> None:
            cursor = response_stream.message["params"].get("cursor")
            page = (
                {"tools": [tool("a")], "nextCursor": ""}
                if cursor is None
                else {"tools": [tool("b", HEADERS)]}
            )
            await response_stream.result(server.complete(page))

        replies: dict[str, Reply] = {"tools/list": listed, "tools/call": text("x")}
        async with connected(LATEST, replies) as (client, server, raw):
            await asyncio.gather(*(client.call_tool("b", {"count": n}) for n in range(20)))
            assert len(raw.asked(method="tools/list")) == 2
            calls = raw.asked(method="tools/call")
            assert {post.headers["mcp-param-count"] for post in calls} == {str(n) for n in range(20)}

    run(main())


@req("HDR-11", at=E)
def test_a_server_that_lists_no_tools_is_called_without_more_ado() -> None:
    async def main() -> None:
        async def refused(response_stream: Exchange) -> None:
            await response_stream.error(-32603, 500)

        async with connected(LATEST, {"tools/list": refused, "tools/call": text("x")}) as (client, _, raw):
            for _ in range(3):
                await client.call_tool("t", {"region": "eu"})
            assert len(raw.asked(method="tools/list")) == 1

    run(main())


@req("HDR-4", everywhere=True)
def test_headers_of_the_users_go_along_and_never_twice() -> None:
    """Ours stand over those of the user's, in whatever case they are written; a function is asked each time."""
    asked = 0

    async def token() -> dict[str, str]:
        nonlocal asked
        asked += 1
        await asyncio.sleep(0)
        return {"Authorization": f"Bearer {asked}", "mcp-method": "mine", "ACCEPT": "mine"}

    async def main() -> None:
        async with connected(LATEST, {"tools/call": text("x")}, headers=token) as (client, _, raw):
            await client.call_tool("t")
        tokens = [post.headers["authorization"] for post in raw.seen]
        assert tokens == [f"Bearer {number + 1}" for number in range(len(raw.seen))]
        assert raw.seen[0].headers["mcp-method"] == "server/discover"
        assert raw.seen[0].headers["accept"] == "application/json, text/event-stream"

    run(main())


@req("HTTP-5", everywhere=True)
def test_a_large_message_is_sent_whole() -> None:
    async def main() -> None:
        async with connected(LATEST, {"tools/call": text("x")}) as (client, _, raw):
            await client.call_tool("t", {"x": "y" * 3_000_000})
            (post,) = raw.asked(method="tools/call")
            assert len(post.message["params"]["arguments"]["x"]) == 3_000_000

    run(main())


@req("HDR-5", everywhere=True)
def test_what_no_header_can_carry_is_not_sent() -> None:
    async def main() -> None:
        replies = {"tools/list": {"tools": [tool("t", HEADERS)]}, "tools/call": text("x")}
        async with connected(LATEST, replies) as (client, _, raw):
            for arguments in ({"count": 2**53}, {"count": 1.5}, {"region": "\ud800"}):
                with pytest.raises(LocalProtocolError):
                    await client.call_tool("t", arguments)
            assert raw.asked(method="tools/call") == []

    run(main())


@pytest.mark.parametrize(
    "url", ["", "mcp", "ftp://host/x", "http://", "http://user:secret@host/", "http://h:99999/"]
)
@req("SEC-1", everywhere=True)
def test_what_is_no_url_of_a_server_is_told_at_once(url: str) -> None:
    with pytest.raises(ValueError, match="server"):
        mcprev.http(url)


@pytest.mark.parametrize("auth", ["oauth", "a-secret-token", {"token": "a-secret-token"}, mcprev.OAuth])
@req("SEC-1", everywhere=True)
def test_what_authorizes_nothing_is_refused_at_once_and_not_shown(auth: Any) -> None:
    with pytest.raises(
        TypeError, match=r"^`auth` .*; pass mcprev.OAuth\(\) for a login, or a token as headers="
    ) as caught:
        mcprev.http("http://localhost/mcp", auth=auth)
    assert "secret" not in str(caught.value)


@req("ERR-5", everywhere=True)
def test_a_function_that_gives_no_headers_fails_the_call_alone() -> None:
    broken = False

    async def token() -> dict[str, str]:
        if broken:
            raise OSError("no token today")
        return {"Authorization": "Bearer x"}

    async def main() -> None:
        nonlocal broken
        async with connected(LATEST, {"prompts/list": {"prompts": []}}, headers=token) as (client, _, raw):
            broken = True
            with pytest.raises(
                LocalProtocolError, match=r"raised OSError in test_client_headers\.py:\d+$"
            ) as caught:
                await client.list_prompts()
            assert "no token today" not in "".join(traceback.format_exception(caught.value))
            assert raw.asked(method="prompts/list") == []
            broken = False
            await client.list_prompts()

    run(main())


@req("AMB-8", "HTTPM-3", "HDR-2")
def test_a_notification_of_the_stateless_era_says_what_it_is() -> None:
    async def main() -> None:
        async with connected(LATEST) as (client, _, raw):
            client.connection.protocol.notify("notifications/example/said", {"x": 1})
            client.connection.process_events()
            await until(lambda: bool(raw.asked(method="notifications/example/said")))
            (post,) = raw.asked(method="notifications/example/said")
            assert post.headers["mcp-method"] == "notifications/example/said"
            assert post.headers["mcp-protocol-version"] == LATEST.version

    run(main())


@req("HTTPM-7", "HDR-11", at=E)
def test_a_tool_is_unknown_until_the_list_was_read_to_its_end() -> None:
    cache = ParamHeaderCache(logging.getLogger("mcprev.client"))
    cache.filter_page({"tools": [tool("first")], "nextCursor": "more"})
    assert (cache.find({"name": "first"}), cache.find({"name": "second"})) == ((), None)
    cache.filter_page({"tools": []})
    assert cache.find({"name": "second"}) == ()
