"""The same message at every other revision: what is computed is what the ladder does and what is then seen on the wire."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

import mcprev
from dev.inspected import Page, in_memory, opened
from helpers.running import run
from helpers.served import listening
from mcprev.analysis.judging import judge
from mcprev.dev.launch import DirectLauncher
from mcprev.revisions import ALL, revision_named
from mcprev_types.latest import models

REVISIONS = [revision.name for revision in ALL]


def library() -> mcprev.App:
    app = mcprev.App("library", "1.0")

    @app.tool
    def look_up(title: str) -> list[models.ContentBlock]:
        return [
            models.ResourceLink(
                uri="book://1", name=title, icons=[models.Icon(src="https://x.example/i.png")]
            ),
            models.AudioContent(data="AAAA", mime_type="audio/wav"),
        ]

    @app.tool
    def count() -> dict[str, int]:
        return {"books": 3}

    return app


async def used(page: Page) -> list[dict[str, Any]]:
    """The messages of a session with a call."""
    await page.post("list", kind="tools")
    await page.until("lists", lambda one: one["state"] == "ready")
    await page.call("tools/call", {"name": "look_up", "arguments": {"title": "Emma"}})
    await page.call("tools/call", {"name": "count", "arguments": {}})
    await page.call("tools/call", {"name": "missing", "arguments": {}})
    events: list[dict[str, Any]] = (await page.get("wire"))["events"]
    return [event for event in events if event["kind"] == "message"]


@pytest.mark.slow
@pytest.mark.parametrize("revision", REVISIONS)
def test_what_is_computed_is_what_the_ladder_makes_of_the_message(revision: str) -> None:
    async def scenario() -> None:
        async with opened(in_memory(library()), revision=revision) as page:
            compared = 0
            for event in await used(page):
                found = (await page.get(f"event/{event['n']}/revisions"))["list"]
                assert [one["revision"] for one in found] == REVISIONS
                wire = json.loads((await page.get(f"event/{event['n']}"))["text"])
                for one in found:
                    at = await page.get(f"event/{event['n']}/revisions/{one['revision']}")
                    assert {name: at[name] for name in ("outcome", "counterpart")} == {
                        name: one[name] for name in ("outcome", "counterpart")
                    }
                    row = revision_named(one["revision"])
                    if one["outcome"] == "absent":
                        instead = mcprev.counterpart(event["method"], row)
                        assert at["text"] is None
                        assert instead.sent_as != event["method"]
                        assert one["counterpart"] == instead.sentence != ""
                        continue
                    if one["outcome"] == "refused":
                        assert at["refusal"]["text"]
                        continue
                    compared += 1
                    message = json.loads(at["text"])
                    assert message.keys() - {"params"} == wire.keys() - {"params"}
                    if one["revision"] == revision:
                        assert (message, at["changes"]) == (wire, [])
                        continue
                    answers = event["method"] if event["shape"] in ("result", "error") else None
                    problems = judge(at["text"].encode(), row, method=answers)
                    assert (one["outcome"] == "invalid") == bool(problems)
                    assert all(
                        change["sentence"] and change["step"] in change["rule"] for change in at["changes"]
                    )
                    assert (one["outcome"] == "same") == (not at["changes"] and not problems)
            assert compared > 20

    run(scenario(), limit=60)


@pytest.mark.slow
def test_a_result_for_an_old_client_says_what_is_lost_and_the_server_is_seen_to_do_that() -> None:
    async def scenario() -> None:
        async with opened(in_memory(library())) as page:
            call = await page.call("tools/call", {"name": "look_up", "arguments": {"title": "Emma"}})
            for revision in REVISIONS[:-2]:
                computed = await page.get(f"event/{call['response']}/revisions/{revision}")
                again = await page.call(
                    "tools/call", {"name": "look_up", "arguments": {"title": "Emma"}},
                    revision=revision, again_of=call["call"],
                )  # fmt: skip
                assert again["again_of"] == call["call"]
                assert json.loads(computed["text"])["result"] == json.loads(again["result"])
            oldest = await page.get(f"event/{call['response']}/revisions/{REVISIONS[0]}")
            assert (oldest["outcome"], oldest["lost"] > 0) == ("lost", True)
            link = next(one for one in oldest["changes"] if one["old"] == '"book://1"')
            assert (link["path"], link["what"]) == ("$.content[0].uri", "dropped")
            assert "ResourceLink" in link["rule"]

    run(scenario())


@asynccontextmanager
async def over_http(revision: str) -> AsyncGenerator[Page, None]:
    async with listening(library().server) as origin:
        url = f"{origin}/mcp"
        launcher = DirectLauncher(url, (url,), lambda: mcprev.http(url), kind="url", transport="http")
        async with opened(launcher, revision=revision) as page:
            yield page


@pytest.mark.parametrize("revision", REVISIONS[1:])
def test_over_http_the_exchange_and_the_headers_at_other_revisions_are_shown(revision: str) -> None:
    async def scenario() -> None:
        async with over_http(revision) as page:
            call = await page.call("tools/call", {"name": "count", "arguments": {}})
            sent = await page.get(f"event/{call['first']}")
            assert (sent["exchange"]["verb"], sent["exchange"]["status"]) == ("POST", 200)
            headers = {name.lower(): value for name, value in sent["exchange"]["request_headers"]}
            assert headers["content-type"] == "application/json"
            assert sent["problems"] == []
            received = await page.get(f"event/{call['response']}")
            assert received["summary"]["exchange"]["n"] == sent["summary"]["exchange"]["n"]
            for other in REVISIONS:
                at = await page.get(f"event/{call['first']}/revisions/{other}")
                wanted = dict(at["headers"])
                row = revision_named(other)
                assert ("Mcp-Method" in wanted) == row.routing_headers
                assert wanted.get("MCP-Protocol-Version") == (row.version if row.version_header else None)
            assert await page.verdict(call["response"]) == 0
            curl = await page.post("copy", call=call["call"], **{"as": "curl"})
            assert curl["text"].startswith("curl -N --globoff -X POST --url http://127.0.0.1:")
            assert (
                "mcp-session-id: [...]" in curl["text"].lower() or revision_named(revision).era == "stateless"
            )

    run(scenario())
