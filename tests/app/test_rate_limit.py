"""The middleware that limits how often clients may call."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import Any

import pytest

import mcprev
from mcprev.errors import InvalidRequest
from mcprev.revisions import DEFAULT, Revision

pytest.importorskip("limits")


def text_of(result: Any) -> str:
    return "".join(block.text for block in result.content)


def app_with(limit: mcprev.RateLimit) -> mcprev.App:
    app = mcprev.App("a", "1", middleware=[limit])

    @app.tool
    async def ping() -> str:
        return "pong"

    @app.resource("notes://all")
    def notes() -> str:
        return "all"

    return app


@pytest.mark.parametrize("row", DEFAULT, ids=lambda row: row.name)
def test_calls_beyond_the_rate_are_refused_with_the_time_to_wait(row: Revision) -> None:
    app = app_with(mcprev.RateLimit("2/hour"))

    async def main() -> None:
        async with mcprev.connect(app, mode=row.name) as client:
            found = [await client.call_tool("ping", {}) for _ in range(3)]
            assert [text_of(each) for each in found[:2]] == ["pong", "pong"]
            assert getattr(found[2], "is_error", None)
            assert text_of(found[2]).startswith(
                "too many calls, at most 2 per 1 hour are allowed; try again in 3"
            )
            await client.read_resource("notes://all")

    asyncio.run(asyncio.wait_for(main(), 20))


def test_other_methods_are_refused_with_an_error_and_each_key_has_its_own_count() -> None:
    keys = iter("aab")
    app = app_with(mcprev.RateLimit("1/hour", methods=["resources/read"], key=lambda _: next(keys)))

    async def main() -> None:
        async with mcprev.connect(app, cache=False) as client:
            await client.read_resource("notes://all")
            with pytest.raises(InvalidRequest, match="too many calls"):
                await client.read_resource("notes://all")
            await client.read_resource("notes://all")
            assert text_of(await client.call_tool("ping", {})) == "pong"

    asyncio.run(asyncio.wait_for(main(), 20))


def test_a_rate_or_a_storage_that_cannot_be_used_is_refused() -> None:
    with pytest.raises(ValueError, match="parse"):
        mcprev.RateLimit("often")
    with pytest.raises(ValueError, match="use its async form"):
        mcprev.RateLimit("1/hour", storage="memory://")


def test_without_the_library_the_extra_is_named() -> None:
    code = "import sys; sys.modules['limits'] = None; import mcprev; mcprev.RateLimit('1/hour')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "MissingExtra" in done.stderr
    assert "mcprev[limits]" in done.stderr
