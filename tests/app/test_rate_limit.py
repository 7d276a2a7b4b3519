"""The middleware that limits how often clients may call."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import threading
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest

import mcprev
from mcprev.errors import InvalidRequest
from mcprev.revisions import DEFAULT, Revision

pytest.importorskip("limits")
from limits.aio.storage import MemoryStorage


def text_of(result: Any) -> str:
    return "".join(block.text for block in result.content)


def app_with(limit: mcprev.RateLimit, executor: ThreadPoolExecutor | None = None) -> mcprev.App:
    app = mcprev.App("a", "1", middleware=[limit], executor=executor)

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


@pytest.mark.parametrize("storage", [None, "async+memory://"])
def test_the_window_moves_with_the_time(storage: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    app = app_with(mcprev.RateLimit("2/minute", storage=storage))
    start, ahead = time.time(), 0.0
    monkeypatch.setattr(
        "mcprev.middleware.rate_limit.time", SimpleNamespace(monotonic=lambda: ahead, time=time.time)
    )
    monkeypatch.setattr(time, "time", lambda: start + ahead)
    allowed: list[bool] = []

    async def main() -> None:
        nonlocal ahead
        async with mcprev.connect(app) as client:
            for moment in (0.0, 40.0, 50.0, 61.0, 70.0, 101.0):
                ahead = moment
                result = await client.call_tool("ping", {})
                allowed.append(text_of(result) == "pong")

    asyncio.run(asyncio.wait_for(main(), 20))
    assert allowed == [True, True, False, True, False, True]


def test_a_blocked_function_delays_no_call_of_another() -> None:
    """The count needs no thread, of which blocked functions may have all."""
    threads = ThreadPoolExecutor(1)
    app = app_with(mcprev.RateLimit("100/hour"), executor=threads)
    release = threading.Event()

    @app.tool
    def blocks() -> str:
        release.wait()
        return "done"

    async def main() -> None:
        asyncio.get_running_loop().set_default_executor(threads)
        async with mcprev.connect(app) as client:
            blocked = asyncio.create_task(client.call_tool("blocks", {}))
            try:
                for _ in range(3):
                    assert text_of(await client.call_tool("ping", {}, timeout=5)) == "pong"
            finally:
                release.set()
            assert text_of(await blocked) == "done"

    asyncio.run(asyncio.wait_for(main(), 20))


def test_who_calls_no_more_takes_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = iter(str(number) for number in range(1_000))
    limit = mcprev.RateLimit("77/second", key=lambda _: next(keys))
    ahead = 0.0
    monkeypatch.setattr("mcprev.middleware.rate_limit.time", SimpleNamespace(monotonic=lambda: ahead))

    async def main() -> None:
        nonlocal ahead
        async with mcprev.connect(app_with(limit)) as client:
            for moment in (0.0, 0.5, 1.1):
                ahead = moment
                await asyncio.gather(*(client.call_tool("ping", {}) for _ in range(10)))

    asyncio.run(asyncio.wait_for(main(), 20))
    assert sum(isinstance(each, deque) and each.maxlen == 77 for each in gc.get_objects()) == 20


def test_a_rate_or_a_storage_that_cannot_be_used_is_refused() -> None:
    with pytest.raises(ValueError, match="'often' is not a rate; write one such as '100/minute'"):
        mcprev.RateLimit("often")
    for rate in ("2/minute;10/hour", "0/minute"):
        with pytest.raises(
            ValueError, match="is not one rate of at least one call; use a RateLimit for each"
        ):
            mcprev.RateLimit(rate)
    with pytest.raises(ValueError, match="use its async form"):
        mcprev.RateLimit("1/hour", storage="memory://")


@pytest.mark.slow
def test_without_the_library_the_extra_is_named() -> None:
    code = "import sys; sys.modules['limits'] = None; import mcprev; mcprev.RateLimit('1/hour')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "MissingExtra" in done.stderr
    assert "mcprev[limits]" in done.stderr


def limited(name: str, *middleware: mcprev.RateLimit, **options: Any) -> mcprev.App:
    app = mcprev.App(name, "1", middleware=middleware, **options)

    @app.tool
    async def ping() -> str:
        return "pong"

    return app


def share_storage(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let all limits with a storage use one, as those of several processes do."""
    shared = MemoryStorage()

    def found(_: str) -> MemoryStorage:
        return shared

    monkeypatch.setattr("limits.storage.storage_from_string", found)


def calls_allowed(app: mcprev.App, *tools: str) -> list[bool]:
    """Whether each call is allowed, in this order."""
    found = list[bool]()

    async def main() -> None:
        async with mcprev.connect(app) as client:
            for tool in tools:
                found.append(text_of(await client.call_tool(tool, {})) == "pong")

    asyncio.run(asyncio.wait_for(main(), 20))
    return found


@pytest.mark.parametrize("storage", [None, "async+memory://"])
@pytest.mark.parametrize("late", [False, True])
def test_limits_that_stand_at_several_places_count_apart(
    storage: str | None, late: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of two apps of one name has its own, beside that of the app that mounts them, though all share a store."""
    share_storage(monkeypatch)
    store = None if storage else mcprev.MemoryRecords()

    def limit(rate: str = "2/hour") -> mcprev.RateLimit:
        return mcprev.RateLimit(rate, storage=storage)

    app = limited("outer", limit("3/hour"), limit("3/hour"), store=store)
    if late:
        _ = app.server  # which is made when it is asked for
    for prefix in ("a", "b"):
        app.mount(limited("inner", limit()), prefix)
    found = calls_allowed(app, "a_ping", "a_ping", "a_ping", "b_ping", "ping")
    assert found == [True, True, False, False, False]  # the third call counted for the outer ones
    app = limited("other", limit(), limit(), store=store)
    app.mount(limited("inner", limit()), "b")
    assert calls_allowed(app, "b_ping", "b_ping", "b_ping") == [True, True, False]


def test_limits_of_services_that_share_a_store_count_apart() -> None:
    store = mcprev.MemoryRecords()
    apps = [limited(name, mcprev.RateLimit("1/hour"), store=store) for name in "abb"]
    assert [calls_allowed(app, "ping") for app in apps] == [
        [True],
        [True],
        [False],
    ]  # the last two are one service


def test_limits_of_one_name_are_one_in_a_storage_also_of_several_servers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    share_storage(monkeypatch)
    limits = [mcprev.RateLimit("1/hour", name="all", storage="async+memory://") for _ in "ab"]
    apps = [limited(name, limit) for name, limit in zip("ab", limits, strict=True)]
    assert [calls_allowed(app, "ping") for app in apps] == [[True], [False]]
