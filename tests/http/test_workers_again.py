"""The tests of the HTTP server again, on three workers that share a store, behind a front that spreads requests.

`make test` runs each at the newest revision with sessions, on a store in memory whose news come 30 ms late, and a few on
SQLite and Redis. With MCPREV_WORKERS=all in the environment, each runs at every revision, on stores in memory whose news
come at once, late, twice, or not at all for every third, and those of the API on SQLite and Redis.

What is not run again is in `NOT_AGAIN`, with the reason.
"""

from __future__ import annotations

import importlib.util
import os
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, Final
from unittest.mock import patch

import aiohttp
import pytest

import mcprev
from api import test_api
from api.transports import over, those_that_reach
from auth import guarded
from helpers import several_workers
from helpers.http_in_process import InProcess
from helpers.redis_server import RedisServer
from helpers.running import run, until
from helpers.several_workers import Front, fronted, memory
from mcprev.client.session import ClientSession
from mcprev.revisions import HttpShape, Revision
from mcprev.server.service import Service

HAS_ITS_OWN_RULE: Final = True
"""`conftest.py` leaves out cases at some revisions (`parts.trim`)."""
MODULES: Final = ("sessions", "streams", "sse", "refusals", "quotas", "hostile")
"""Those of `test_server_*` that are run again. Of the others, `modern` is about requests that touch no session: they are
run again by the tests of the API; `fuzz`, `log` and `running` are about what one process reads, logs and does.
"""
GUARDED: Final = ("sessions", "refusals")
"""Those of `auth/test_server_*` that are run again. Of the others, `jwt` and `verifiers` are about one token, `metadata`
about documents that are the same at every process. Of the tests of apps, those of `app/test_entries` are run again that have
one client; `app/test_lifespan` is not, because each worker has the lifespan for itself, which `test_shared_sessions` shows.
"""
ALL: Final = os.environ.get("MCPREV_WORKERS") == "all"
LATE: Final = {"notification_delay": 0.03}
MODES: Final[dict[str, dict[str, Any]]] = (
    {"at once": {}, "late": LATE, "twice": {"duplicate_notifications": 2}, "lost": {"lose_notifications": 3}}
    if ALL
    else {"late": LATE}
)
ONE_PROCESS: Final = "it looks into one process: its engine, its connection, its budget"
OWN_EVENTS: Final = "it has an event store of its own; with a store, events are in it"
EVENT_IDS: Final = "it writes an event id by hand; which stream gets which number depends on the worker"
IDS: Final = (
    "a request id is refused only where it is in progress: a table of all workers would cost two writes a call"
)
COALESCED: Final = "changes are versions: several in a row are told once"
LEAVES: Final = "a worker that stops sends its clients on to others; `test_shared_sessions` has that"
LIMIT: Final = "the limit is of one process, rightly: handlers, requests outside of sessions"
NOT_AGAIN: Final[dict[str, str]] = {
    # app: entries
    "test_the_lifespan_of_a_mounted_app_runs_too": "each worker has the lifespan for itself; `test_shared_sessions` has that",
    # auth: refusals
    "test_what_waits_for_its_token_when_the_server_stops_is_refused": "it stops the one app that it asks; no session and no "
    "store is reached before the token is checked",
    # hostile
    "test_a_store_that_fails_costs_the_way_back_and_nothing_else": OWN_EVENTS,
    "test_a_stream_that_has_too_much_to_say_from_the_beginning_is_begun_all_the_same": "a megabyte waits for a GET "
    "stream, and what is older is forgotten; without a store, 256 messages of any size do",
    "test_an_app_whose_server_ended_everything_begins_again": "the other workers go on with the sessions of one that ends",
    "test_names_of_no_tool_are_not_remembered_whatever_their_length": ONE_PROCESS,
    "test_two_clients_of_one_session_share_it_and_get_nothing_twice": IDS,
    "test_very_many_bodies_that_never_come_are_given_up": "2,000 requests have to be there within 0.1 s of real time; the "
    "bodies are those of one process",
    "test_who_loses_a_stream_to_somebody_else_sees_its_proper_end": EVENT_IDS,
    # refusals
    "test_requests_beyond_what_is_allowed_are_refused": LIMIT,
    # sessions
    "test_a_broken_connection_cancels_nothing": ONE_PROCESS,
    "test_a_cancelled_request_still_ends_its_exchange": "an answer becomes a stream after 0.2 s, which it may take until "
    "another worker knows; `test_shared_sessions` cancels without that limit",
    "test_a_session_serves_no_more_requests_at_a_time_than_allowed": LIMIT,
    "test_idle_sessions_end_and_busy_ones_do_not": "it sets the clock of one process, and shared sessions end by that of the "
    "store; `test_shared_sessions` has that",
    "test_two_clients_with_one_session_id_do_not_disturb_each_other": IDS,
    # streams
    "test_a_gap_is_refused_instead_of_being_passed_over": OWN_EVENTS,
    "test_a_get_stream_that_is_not_read_is_let_go_and_can_be_taken_up": COALESCED,
    "test_a_handler_waits_for_whoever_reads_its_messages_now": "the own stream of a session is a log with bounds of its own; a "
    "handler waits until it is stored, which `test_shared_sessions` has",
    "test_a_resume_that_is_cancelled_leaves_no_timer": OWN_EVENTS,
    "test_a_store_that_looks_for_long_can_still_find_nothing": OWN_EVENTS,
    "test_a_server_that_leaves_sends_clients_on_that_can_resume_elsewhere": LEAVES,
    "test_a_server_that_stops_lets_handlers_finish_and_then_ends_everything": LEAVES,
    "test_a_stream_of_its_own_is_taken_up_with_everything_or_not_at_all": COALESCED,
    "test_what_is_sent_while_a_store_looks_is_not_lost": OWN_EVENTS,
}
WHEN_NEWS_IS_LOST: Final[dict[str, str]] = {
    **dict.fromkeys(
        (
            "test_entries_are_removed_and_clients_are_told",
            "test_what_changes_in_a_mounted_app_changes_where_it_is_mounted_and_clients_are_told",
        ),
        "where news is lost, what is posted to HTTP+SSE is passed on a second later, and the test waits no longer",
    ),
    **dict.fromkeys(
        (
            "test_changes_wait_for_a_get_stream_and_say_nothing_twice",
            "test_what_is_said_on_the_way_to_json_is_told_who_listens_and_kept_for_nobody",
            "test_where_answers_are_json_a_client_is_asked_on_its_get_stream_or_not_at_all",
        ),
        "where news is lost, another worker knows of a GET stream a second later",
    ),
    **dict.fromkeys(
        (
            "test_a_session_in_use_is_not_ended_for_another_one",
            "test_a_principal_has_one_quota_at_whatever_addresses",
            "test_there_are_no_more_sessions_than_allowed",
            "test_who_opens_many_sessions_and_uses_each_keeps_no_newcomer_out",
            "test_without_addresses_the_idlest_session_makes_room",
        ),
        "where a worker does not answer, its sessions count as in use, so that none of them ends for another one",
    ),
    "test_a_flood_of_sessions_leaves_those_that_are_there_alone": "where news is lost, each of its hundred newcomers waits "
    "for workers that were not asked whether a session can end, together longer than a test may last",
}
"""Not run where every third news is lost."""
ON_REAL_STORES: Final = frozenset(
    {
        "test_a_client_that_comes_back_finds_what_it_was_asked",
        "test_a_get_stream_is_taken_up_too",
        "test_the_end_of_a_session_ends_the_waiting_for_its_client",
        "test_what_is_posted_is_answered_on_the_stream",
        "test_a_principal_has_one_quota_at_whatever_addresses",
    }
)
"""The tests of `make test` on SQLite and Redis."""


def copy_of(folder: str, name: str) -> ModuleType:
    """A module of tests of its own, so that the original one is not changed."""
    path = Path(__file__).parents[1] / folder / f"test_{name}.py"
    spec = importlib.util.spec_from_file_location(f"again_{folder}_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def memory_store(modes: dict[str, Any]) -> mcprev.Store:
    """A store in memory."""
    return memory(**modes)


_make_store: list[Callable[[], mcprev.Store]] = []
_patches: list[pytest.MonkeyPatch] = []


def again(test: Any, **options: Any) -> None:
    """Run a test on workers, with the store of the day."""
    several_workers.work(test, _make_store[-1], **options)


def names_of(modules: dict[str, ModuleType]) -> Iterator[tuple[str, Any]]:
    """The tests that use `work`, each with the name of its module."""
    for name, module in modules.items():
        vars(module)["work"] = again
        for test, function in vars(module).items():
            if test.startswith("test_") and "work" in function.__code__.co_names and test not in NOT_AGAIN:
                yield f"test_{name}_{test.removeprefix('test_')}", function


@asynccontextmanager
async def workers_of(server: mcprev.Server, **options: Any) -> AsyncGenerator[Front, None]:
    """Three workers like a server, with the store of the day."""
    store = _make_store[-1]()
    assert isinstance(server, mcprev.Server)
    async with fronted(server, store, _patches[-1], **options) as front:
        yield front
    await store.aclose()


@asynccontextmanager
async def on_workers(server: mcprev.Server, **options: Any) -> AsyncGenerator[guarded.Ask, None]:
    """The server of a test that asks with tokens, which is three workers."""
    async with workers_of(server, **options) as front:
        app: Any = front
        yield guarded.AsgiAsk(app)


def at_workers(row: Revision, app: mcprev.App, work: Callable[[mcprev.Client], Awaitable[None]]) -> None:
    """Run a test of an app with a client of three workers, which have its functions in common."""

    async def main() -> None:
        async with workers_of(app.server, sse=True) as front:
            app.registry.on_changed = front.servers[front.next()].changed
            connector = InProcess(front)
            async with aiohttp.ClientSession(connector=connector) as session:
                path = "/sse" if row.http is HttpShape.SSE else "/mcp"
                target = mcprev.http(connector.origin + path, session=session)
                async with mcprev.connect(target, mode=row.name) as client:
                    await work(client)
                    assert client.session.reopened == 0
            await until(lambda: not connector.lanes)

    run(main())


def guarded_names_of(modules: dict[str, ModuleType]) -> Iterator[tuple[str, Any]]:
    """The tests that ask a server with tokens as an app, each with the name of its module."""
    for name, module in modules.items():
        for test, function in vars(module).items():
            asks = test.startswith("test_") and {"way", "over_asgi"} & names_in(function.__code__)
            if asks and test not in NOT_AGAIN:
                yield f"test_guarded_{name}_{test.removeprefix('test_')}", function


def names_in(code: CodeType) -> set[str]:
    """The names that a function uses, and those within it."""
    within = [names_in(inner) for inner in code.co_consts if isinstance(inner, CodeType)]
    return set(code.co_names).union(code.co_varnames, code.co_cellvars, *within)


_copies = {name: copy_of("http", f"server_{name}") for name in MODULES}
globals().update(names_of(_copies))
with patch.multiple(guarded, over_asgi=on_workers, WAYS=[on_workers]):
    _guarded = {name: copy_of("auth", f"server_{name}") for name in GUARDED}
globals().update(guarded_names_of(_guarded))
_entries = copy_of("app", "entries")
vars(_entries)["at"] = at_workers
globals().update(
    {
        f"test_entries_{name[5:]}": test
        for name, test in those_that_reach(_entries).items()
        if name not in NOT_AGAIN
    }
)
globals().update({f"test_api_{name[5:]}": test for name, test in those_that_reach(test_api).items()})


def test_everything_that_is_left_out_is_there() -> None:
    """No reason is given for a test that does not exist any more."""
    names = {name for module in (*_copies.values(), *_guarded.values(), _entries) for name in vars(module)}
    assert {*NOT_AGAIN, *WHEN_NEWS_IS_LOST} <= names


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each test in each mode of the store, and some on stores of processes."""
    name = metafunc.function.__name__
    modes = list(MODES)
    if name in ON_REAL_STORES or (ALL and name in vars(test_api)):
        modes += ["sqlite", "redis"]
    if "stores" in metafunc.fixturenames:
        metafunc.parametrize("stores", modes, indirect=True)


@pytest.fixture(autouse=True)
def stores(request: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Make the stores of a test."""
    name = request.function.__name__
    mode = getattr(request, "param", "late")
    if mode == "lost" and name in WHEN_NEWS_IS_LOST:
        pytest.skip(WHEN_NEWS_IS_LOST[name])
    if mode == "sqlite":
        make = partial(mcprev.open_store, f"sqlite:///{tmp_path / 'store.db'}")
    elif mode == "redis":
        server: RedisServer = request.getfixturevalue("redis_server")
        make = partial(mcprev.open_store, server.url(secrets.token_hex(4)))
    else:
        make = partial(memory_store, MODES[mode])
    several_workers.remember(monkeypatch)
    monkeypatch.setattr(
        "mcprev.sharing.legacy_sse.LIMIT", 20.0
    )  # all workers are in one loop, which may be busy
    _make_store.append(make)
    _patches.append(monkeypatch)
    with over(partial(reach, monkeypatch)):
        yield
    _patches.pop()
    _make_store.pop()


@pytest.fixture(scope="session")
def redis_server() -> Iterator[RedisServer]:
    """The server of the tests on Redis."""
    server = RedisServer().start()
    yield server
    server.end()


@asynccontextmanager
async def reach(
    monkeypatch: pytest.MonkeyPatch, server: Service, row: Revision
) -> AsyncGenerator[mcprev.Target, None]:
    """A target for a server, which is three workers; no client has to open its session again."""
    opened: list[ClientSession] = []
    use = ClientSession.use

    def used(session: ClientSession, connection: Any) -> None:
        opened.append(session)
        use(session, connection)

    monkeypatch.setattr(ClientSession, "use", used)
    store = _make_store[-1]()
    assert isinstance(server, mcprev.Server)
    async with fronted(server, store, monkeypatch, sse=True) as front:
        connector = InProcess(front)
        async with aiohttp.ClientSession(connector=connector) as session:
            path = "/sse" if row.http is HttpShape.SSE else "/mcp"
            yield mcprev.http(connector.origin + path, session=session)
    await until(lambda: not connector.lanes)
    assert [session.reopened for session in opened] == [0] * len(opened)
    await store.aclose()
