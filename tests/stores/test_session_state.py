"""The state of sessions: who shares it, how it ends, its bounds, and what changes at the same time come to (SEC-5)."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

import aiohttp
import pytest

import mcprev
from api.transports import memory
from helpers.http_in_process import InProcess
from helpers.named import ROW_D, ROW_E
from helpers.running import run, until
from mcprev.core.store import Record
from mcprev.errors import InvalidParams, LocalProtocolError, StateTooLarge, StoreError
from mcprev.server import session_state as module

TOKENS: Final = {"a": "ann", "b": "bob"}
LIMITS: Final = mcprev.StateLimits()
rows = pytest.mark.parametrize("row", [ROW_D, ROW_E], ids=lambda row: row.name)


class Clock:
    now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr("mcprev.server.session_state.time.time", found)
    return found


class Seen(mcprev.MemoryRecords):
    """A store that tells what it is told, and gives others room between a read and a write."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.keys: set[str] = set()
        self.values: list[bytes] = []
        self.writes = 0
        self.held: set[str] = set()

    async def remove(self, key: str, /, *, seen: int | None = None) -> bool:
        self.held.discard(key)
        return await super().remove(key, seen=seen)

    async def read(self, key: str, /) -> Record | None:
        await asyncio.sleep(0)
        return await super().read(key)

    async def write(
        self, key: str, value: bytes, /, *, seen: int | None = None, ttl: float | None = None
    ) -> int | None:
        await asyncio.sleep(0)
        self.keys.add(key)
        self.held.add(key)
        self.values.append(value)
        self.writes += 1
        return await super().write(key, value, seen=seen, ttl=ttl)


async def count(ctx: mcprev.Context) -> int:
    return int(await ctx.session.update("n", lambda n: n + 1, 0))


def counter(store: Any = None, **options: Any) -> mcprev.App:
    app = mcprev.App("counter", "1", store=store, **options)
    app.tool(count)

    @app.tool
    async def handled(ctx: mcprev.Context, handle: str | None = None) -> str:
        ctx.session.open(handle)
        n = await ctx.session.update("n", lambda n: n + 1, 0)
        return f"{n} {ctx.session.handle}"

    return app


async def counted(client: mcprev.Client) -> int:
    return int(json.loads((await client.call_tool("count")).text))


@asynccontextmanager
async def client_of(
    server: mcprev.Server, row: Any, token: str | None = None, **options: Any
) -> AsyncGenerator[mcprev.Client, None]:
    """A client over HTTP, in process."""
    app = server.asgi(auth=None if token is None else mcprev.StaticTokens(TOKENS), **options)
    connector = InProcess(app)
    headers = {} if token is None else {"authorization": f"Bearer {token}"}
    async with aiohttp.ClientSession(connector=connector, headers=headers) as session:
        to = mcprev.http(f"{connector.origin}/mcp", session=session)
        async with mcprev.connect(to, mode=row.name) as client:
            yield client
    await app.aclose()
    await until(lambda: not connector.lanes)


# -- who shares it -----------------------------------------------------------------------------------------


@rows
def test_the_requests_of_a_connection_share_a_state_in_memory(row: Any) -> None:
    async def main() -> None:
        server = counter().server
        for _ in range(2):
            async with memory(server, row) as target, mcprev.connect(target, mode=row.name) as client:
                assert [await counted(client) for _ in range(3)] == [1, 2, 3]

    run(main())


def test_sessions_over_http_do_not_share_their_state_even_of_one_principal() -> None:
    async def main() -> None:
        server = counter().server
        for token in ("a", "a", "b"):
            async with client_of(server, ROW_D, token) as client:
                assert [await counted(client) for _ in range(2)] == [1, 2]

    run(main())


def test_without_sessions_the_state_belongs_to_the_principal() -> None:
    async def main() -> None:
        server = counter().server
        found: list[int] = []
        for token in ("a", "b", "a", "b", "a"):
            async with client_of(server, ROW_E, token) as client:
                found.append(await counted(client))
        assert found == [1, 1, 2, 2, 3]

    run(main())


@pytest.mark.parametrize(
    ("row", "options"), [(ROW_E, {}), (ROW_D, {"sessions": False})], ids=["stateless", "sessionless"]
)
def test_without_a_session_and_a_principal_only_a_handle_names_a_state(row: Any, options: Any) -> None:
    async def main() -> None:
        server = counter(show_errors=True).server
        async with client_of(server, row, **options) as client:
            refused = await client.call_tool("count")
            assert refused.is_error
            assert "ctx.session.open(handle)" in refused.text
            first, other = [await handled(client) for _ in range(2)]
            assert [first[0], other[0]] == ["1", "1"]
            assert (await handled(client, first[1]))[0] == "2"
            assert (await handled(client, other[1]))[0] == "2"
        async with client_of(server, row, **options) as client:
            assert (await handled(client, first[1]))[0] == "3"

    run(main())


async def handled(client: mcprev.Client, handle: str | None = None) -> list[str]:
    result = await client.call_tool("handled", {} if handle is None else {"handle": handle})
    return result.text.split()


@rows
def test_a_tool_with_a_handle_works_with_sessions_and_principals_too(row: Any) -> None:
    async def main() -> None:
        server = counter().server
        async with client_of(server, row, "a") as client:
            found = await handled(client)
            assert (await handled(client, found[1]))[0] == "2"
            assert await counted(client) == 3, "it is the state of the session or principal"

    run(main())


def states(
    store: Any = None, *, name: str = "s", limits: Any = LIMITS, **sealer: Any
) -> module.SessionStates:
    sealing = mcprev.RequestStateSealer(**sealer)
    return module.SessionStates(mcprev.MemoryRecords() if store is None else store, limits, sealing, name)


def state(principal: str | None = "ann", **options: Any) -> module.SessionState:
    class Passing:
        lasting = False

    passing: Any = Passing()
    return states(**options).of(passing, principal)


def test_a_handle_that_is_forged_or_of_somebody_else_is_refused(clock: Clock) -> None:
    own = state(None)
    own.open(None)
    handle = own.handle
    ann = state("ann").handle
    others: list[tuple[module.SessionState, Any]] = [
        (state("ann"), handle), (state(None), ann), (state("bob"), ann), (state(None, name="t"), handle),
        (state(None, audience="x"), handle), (state(None, keys=[b"k" * 32]), handle), (state(None), handle[:-1]),
        (state(None), "x"), (state(None), ""), (state(None), handle + "A"), (state(None), 4),
    ]  # fmt: skip
    for found, shown in others:
        with pytest.raises(InvalidParams, match="begin a new state"):
            found.open(shown)
    state(None).open(handle)
    clock.now += LIMITS.ttl + 1
    with pytest.raises(InvalidParams, match="begin a new state"):
        state(None).open(handle)


def test_a_handle_is_no_request_state_and_a_request_state_is_no_handle() -> None:
    own = state(None)
    own.open(None)
    sealer = mcprev.RequestStateSealer()
    with pytest.raises(InvalidParams):
        sealer.open(own.handle, method="tools/call", params=None, principal=None, now=time.time())
    sealed = sealer.seal("session-state:x", method="tools/call", params=None, principal=None, now=time.time())
    with pytest.raises(InvalidParams, match="begin a new state"):
        state(None).open(sealed)


USES: Final[Sequence[Callable[[module.SessionState, Any], Coroutine[Any, Any, object]]]] = (
    lambda own, key: own.get(key),
    lambda own, key: own.set(key, 1),
    lambda own, key: own.delete(key),
)


@pytest.mark.parametrize("call", USES)
def test_without_a_state_nothing_is_read_or_written(
    call: Callable[[module.SessionState, Any], Coroutine[Any, Any, object]],
) -> None:
    with pytest.raises(LocalProtocolError, match="neither a session nor an authenticated sender"):
        run(call(state(None), "a"))
    with pytest.raises(LocalProtocolError, match="neither a session nor an authenticated sender"):
        _ = state(None).handle


def test_the_store_learns_neither_ids_nor_principals_nor_another_server_s_state() -> None:
    async def main() -> None:
        store = Seen()
        server = counter(store).server
        async with client_of(server, ROW_D, "a") as client:
            await counted(client)
            session_id = client.connection.session_id
        async with client_of(server, ROW_E, "a") as client:
            await counted(client)
        assert session_id
        told = " ".join([*store.keys, *(value.decode() for value in store.values)])
        states = {key for key in store.keys if key.startswith("session-state:")}
        assert len(states) == 2
        assert session_id not in told
        assert "ann" not in told
        [keys] = store.keys - states
        assert keys.endswith("/keys")  # of the sealed states of requests
        await state("ann", store=store, name="one").set("a", 1)
        assert await state("ann", store=store, name="two").get("a") is None
        assert await state("ann", store=store, name="one").get("a") == 1

    run(main())


def test_mounted_apps_and_tasks_have_the_state_of_the_session() -> None:
    async def main() -> None:
        inner = mcprev.App("inner", "1")
        inner.tool(count)
        app = mcprev.App("outer", "1", tasks=mcprev.Tasks({"later": "optional"}))
        app.mount(inner, "in")

        @app.tool
        async def later(ctx: mcprev.Context) -> int:
            await ctx.detach()
            return int(await ctx.session.update("n", lambda n: n + 1, 0))

        [name] = [
            tool
            for tool in ("in_count", "in.count", "in-count")
            if tool in {t.name for t in await tools(app)}
        ]
        for row in (ROW_D, ROW_E):
            async with mcprev.connect(app, mode=row.name) as client:
                assert (await client.call_tool(name)).text == "1"
                assert (await client.call_tool("later")).text == "2"
                assert (await client.call_tool(name)).text == "3"

    run(main())


async def tools(app: mcprev.App) -> Any:
    async with mcprev.connect(app) as client:
        return (await client.list_tools()).tools


def test_a_server_whose_handlers_use_no_state_has_no_store() -> None:
    async def main() -> None:
        app = mcprev.App("a", "1")

        @app.tool
        async def nothing() -> str:
            return "x"

        async with mcprev.connect(app) as client:
            await client.call_tool("nothing")
        assert vars(app.server)["_session_states"] is None

    run(main())


# -- how it ends -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("over_http", [False, True])
def test_the_state_of_a_session_ends_with_it(over_http: bool) -> None:
    async def main() -> None:
        store = Seen()
        server = counter(store).server
        way = client_of(server, ROW_D) if over_http else mcprev.connect(server, mode=ROW_D.name)
        async with way as client:
            await counted(client)
            [key] = [key for key in store.keys if key.startswith("session-state:")]
            assert await store.read(key)
        await until(lambda: key not in store.held)

    run(main())


def test_a_store_that_cannot_remove_the_state_of_an_ended_session_is_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Stuck(Seen):
        async def remove(self, key: str, /, *, seen: int | None = None) -> bool:
            raise StoreError("down")

    async def main() -> None:
        async with mcprev.connect(counter(Stuck()).server) as client:
            await counted(client)
        await until(lambda: "could not be removed" in caplog.text)

    run(main())


def test_the_state_lasts_for_its_ttl_after_each_use(clock: Clock) -> None:
    async def main() -> None:
        store = Seen(clock=clock)
        own = state(store=store)
        await own.set("a", 1)
        for _ in range(4):
            clock.now += LIMITS.ttl - 1
            assert await own.get("a") == 1, "used in time, so it lasts"
        writes = store.writes
        for _ in range(100):
            await own.get("a")
        assert store.writes == writes, "a read soon after another writes nothing"
        clock.now += LIMITS.ttl / 8
        assert await own.get("a") == 1
        clock.now += LIMITS.ttl
        assert await own.get("a") == 1, "the ttl counts from the last use, whether that has written or not"
        clock.now += 2 * LIMITS.ttl
        assert await own.get("a") is None

    run(main())


# -- values ------------------------------------------------------------------------------------------------


def test_values_are_json_and_copies() -> None:
    async def main() -> None:
        own = state()
        value: Any
        odd: tuple[Any, ...] = (None, True, 1, 1.5, "é\ud800", [1, {"a": None}], {})
        for value in odd:
            await own.set("v", value)
            found = await own.get("v", "default")
            assert (json.dumps(found), type(found)) == (json.dumps(value), type(value))
        given: Any = {"a": [1]}
        await own.set("v", given)
        given["a"].append(2)
        (await own.get("v"))["a"].append(3)
        assert await own.get("v") == {"a": [1]}
        assert await own.delete("v") is True
        assert await own.delete("v") is False
        assert await own.get("v", 7) == 7

    run(main())


@pytest.mark.parametrize(
    "value",
    [(1, 2), {1: 2}, float("nan"), b"x", object(), {"a": {1}}],
    ids=lambda value: type(value).__name__,
)
def test_a_value_that_is_not_json_is_refused_and_nothing_is_stored(value: object) -> None:
    async def main() -> None:
        own = state()
        await own.set("v", 1)
        with pytest.raises(TypeError, match="'v' is not JSON"):
            await own.set("v", value)
        assert await own.get("v") == 1

    run(main())


def test_a_change_that_is_async_or_raises_changes_nothing() -> None:
    async def slow(_: object) -> int:
        return 2

    async def main() -> None:
        own = state()
        await own.set("v", 1)
        with pytest.raises(TypeError, match="must not be async"):
            await own.update("v", slow)
        with pytest.raises(ZeroDivisionError):
            await own.update("v", lambda v: v / 0)
        assert await own.get("v") == 1

    run(main())


def test_keys_are_short_strings() -> None:
    for key, error in (("", ValueError), ("x" * 201, ValueError), (4, TypeError)):
        odd: Any = key
        for call in USES:
            with pytest.raises(error, match="a key of ctx"):
                run(call(state(), odd))
    run(state().set("x" * 200, 1))


@pytest.mark.parametrize(
    ("limits", "fits", "wrong", "message"),
    [
        ({"max_value": 10}, {"a": "x" * 8}, ("a", "x" * 9), "'a' has 11 bytes, limit 10"),
        ({"max_keys": 2}, {"a": 1, "b": 2}, ("c", 3), "'c' would exceed the limit of 2 keys"),
        ({"max_bytes": 300}, {"a": "x" * 200}, ("b", "x" * 100), "bytes, limit 300"),
    ],
)  # fmt: skip
def test_a_state_is_bounded_and_what_was_there_stays(
    limits: Any, fits: Any, wrong: tuple[str, Any], message: str
) -> None:
    async def main() -> None:
        own = state(limits=mcprev.StateLimits(**limits))
        for key, value in fits.items():
            await own.set(key, value)
        with pytest.raises(StateTooLarge, match=message):
            await own.set(*wrong)
        assert {key: await own.get(key) for key in ("a", "b", "c")} == {"b": None, "c": None, **fits}
        await own.set("a", "")

    run(main())


@pytest.mark.parametrize("renews", [False, True])
def test_one_client_leaves_room_for_the_handles_of_others(clock: Clock, renews: bool) -> None:
    """Without a principal, each call may begin a state, which lasts for an hour. Other states in the store have room, too."""

    async def main() -> None:
        every = states(limits=mcprev.StateLimits(max_handles=80_000, ttl=90.0))
        passing: Any = type("Passing", (), {"lasting": False})()

        async def begun(client: str) -> module.SessionState:
            own = every.of(passing, None, client)
            own.open(None)
            await own.set("a", "x" * 9_000)
            return own

        flood = [await begun("address 203.0.113.1") for _ in range(7)]
        for _ in range(2):
            with pytest.raises(StoreError, match="no room for more of this client"):
                await begun("address 203.0.113.1")
        assert (await (await begun("address 198.51.100.1")).get("a")) == "x" * 9_000
        await every.of(passing, "ann").set("a", "x" * 20_000)
        await flood[0].set("a", "y")  # less than before
        clock.now += 60.0
        if renews:  # reading makes it last longer
            assert await flood[1].get("a") == "x" * 9_000
        clock.now += 60.0
        for _ in range(7 - renews):
            await begun("address 203.0.113.1")
        with pytest.raises(StoreError, match="no room for more of this client"):
            await begun("address 203.0.113.1")
        await (await begun("address 198.51.100.1")).delete("a")

    run(main())


def test_limits_are_positive() -> None:
    for name in ("ttl", "max_keys", "max_value", "max_bytes", "max_handles"):
        for value in (0, -1, float("nan")):
            odd: Any = {name: value}
            with pytest.raises(ValueError, match=name):
                mcprev.StateLimits(**odd)


# -- at the same time --------------------------------------------------------------------------------------


def test_no_update_is_lost_of_one_process_or_of_several() -> None:
    """Each process has its own locks; the store decides."""

    async def main() -> None:
        store = Seen()
        processes = [states(store) for _ in range(3)]

        class Passing:
            lasting = False

        passing: Any = Passing()
        await asyncio.gather(
            *(
                each.of(passing, "ann").update("n", lambda n: n + 1, 0)
                for each in processes
                for _ in range(20)
            ),
            *(each.of(passing, "ann").set(f"k{number}", number) for number, each in enumerate(processes)),
        )
        own = processes[0].of(passing, "ann")
        assert await own.get("n") == 60
        assert [await own.get(f"k{number}") for number in range(3)] == [0, 1, 2]

    run(main())


def test_changes_of_one_process_wait_for_each_other_and_are_written_once() -> None:
    async def main() -> None:
        store = Seen()
        own = states(store)

        class Passing:
            lasting = False

        passing: Any = Passing()
        await asyncio.gather(*(own.of(passing, "ann").update("n", lambda n: n + 1, 0) for _ in range(300)))
        assert (await own.of(passing, "ann").get("n"), store.writes) == (300, 300)

    run(main())


def test_a_change_that_others_always_overtake_fails_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    class Busy(Seen):
        async def write(self, *_: Any, **__: Any) -> int | None:
            self.writes += 1
            return None

    monkeypatch.setattr("mcprev.server.session_state.secrets.randbelow", {10: 0}.__getitem__)
    store = Busy()
    with pytest.raises(StoreError, match="100 times in a row"):
        run(state(store=store).set("a", 1))
    assert store.writes == 100


@pytest.mark.parametrize(
    "held", [b"{", b"[]", b"{}", b'{"values": 3, "written": 1}', b'{"values": {}, "written": "x"}']
)
def test_what_is_no_state_is_neither_used_nor_overwritten(held: bytes) -> None:
    async def main() -> None:
        store = mcprev.MemoryRecords()
        own = state(store=store)
        key = states(store).record("principal", "ann")
        await store.write(key, held)
        for call in (own.get("a"), own.set("a", 1), own.delete("a")):
            with pytest.raises(StoreError, match="an invalid value"):
                await call
        found = await store.read(key)
        assert found is not None
        assert found.value == held

    run(main())


def test_options_that_a_mounted_app_would_lose_are_refused() -> None:
    option: Any
    for option in ({"store": mcprev.MemoryRecords()}, {"state": mcprev.StateLimits()}):
        with pytest.raises(ValueError, match="pass it to the app that mounts it"):
            mcprev.App("outer", "1").mount(mcprev.App("inner", "1", **option), "in")
