"""Logins of users at the servers of a bridge of several processes: any of them continues what another one has begun."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import pytest
from typing_extensions import override

import mcprev
from auth.world import World, query, world
from bridge.fellows_of_bridges import each_store, stores
from bridge.test_several_auth import (
    MODERN,
    REPLIES,
    SESSION,
    Browser,
    Served,
    app,
    browsing,
    each_client,
    identify,
    verify,
)
from helpers.requirements import req
from helpers.running import run
from helpers.served_workers import free_port
from helpers.spreading_front import SpreadingFront
from mcprev.auth.client.store import MemoryTokens
from mcprev.bridge.several.login_required import LoginRequired
from mcprev.bridge.several.login_state import MOST, LoginStep, MemoryLogins
from mcprev.bridge.several.logins import MOST_EACH, Logins
from mcprev.bridge.several.member import REFUSED
from mcprev.bridge.several.options import BridgedServer, UserLogin
from mcprev.bridge.several.sealed import SealedTokens
from mcprev.core.store import Store
from mcprev.errors import AuthError
from mcprev.revisions import Revision

SECRET: Final = "s" * 32


class SteeredProxy(SpreadingFront):
    """Gives requests to one process while a test says so."""

    only: int | None = None

    @override
    def next(self) -> int:
        if self.only is None:
            return super().next()
        self.given.append(self.only)
        return self.only


class Processes(Served):
    """Two processes of one bridge behind a proxy, in front of a server at which users log in, and of another one."""

    def __init__(
        self, at: World, front: SteeredProxy, ports: list[int], serving: list[asyncio.Task[None]]
    ) -> None:
        super().__init__(at, f"http://127.0.0.1:{front.port}/mcp")
        self.front = front
        self.ports = ports
        self._serving = serving

    def use(self, number: int | None) -> None:
        """Send everything to one process; None: to both in turn."""
        self.front.only = None if number is None else self.ports[number]

    async def stop(self, number: int) -> None:
        """End a process."""
        self._serving[number].cancel()
        await asyncio.gather(self._serving[number], return_exceptions=True)

    async def begun(self, browser: Browser, user: str) -> str:
        """Begin a login, up to where the user has said yes; the URL with which the browser is to come back."""
        status, where = await browser.decide(await self.page_for(SESSION, user))
        assert status == 303, where
        return await self.at.browse(where)


@asynccontextmanager
async def processes(
    open_store: Callable[[], Store], *, sealed: bool = True
) -> AsyncGenerator[Processes, None]:
    ports = [free_port(), free_port()]
    async with (
        world(SESSION, REPLIES) as at,
        SteeredProxy(ports).listening() as front,
        AsyncExitStack() as stack,
    ):
        assert isinstance(front, SteeredProxy)
        origin, serving = f"http://127.0.0.1:{front.port}", list[asyncio.Task[None]]()
        for port in ports:
            store = open_store()
            stack.push_async_callback(store.aclose)
            bearer = mcprev.Bearer(
                verify, resource=f"{origin}/mcp", authorization_servers=["https://as.example"]
            )
            tokens = SealedTokens(store, SECRET) if sealed else MemoryTokens()
            bridge = mcprev.Bridge(
                {"plain": app, "bank": BridgedServer(target=at.mcp.url, login=UserLogin())},
                auth=bearer,
                logins=Logins(origin, identify, store=tokens),
                store=store,
            )
            ready: asyncio.Future[int] = asyncio.get_running_loop().create_future()
            serving.append(asyncio.ensure_future(bridge.serve_http(port=port, ready=ready.set_result)))
            await ready
        try:
            yield Processes(at, front, ports, serving)
        finally:
            for task in serving:
                task.cancel()
            await asyncio.gather(*serving, return_exceptions=True)


def memory() -> Callable[[], Store]:
    shared = mcprev.MemoryStore()
    return lambda: shared


@req("AUTH-10", "SEAM-10", at=(SESSION.name, MODERN.name))
@each_store
@each_client
def test_each_step_of_a_login_may_be_at_another_process(row: Revision, kind: str, tmp_path: Path) -> None:
    """So may what follows; clients with a session learn of it wherever that is held."""

    async def main() -> None:
        with stores(kind, tmp_path) as open_store:
            async with processes(open_store) as at, browsing("alice") as (alice,):
                at.use(0)
                start = await at.page_for(row, "alice")
                at.use(1)
                assert await at.page_for(row, "alice") == start, "the same is offered once"
                async with at.client(SESSION, "alice") as client:
                    assert [tool.name async for tool in client.tools()] == ["plain__hello", "bank__log_in"]
                    status, where = await alice.decide(start)
                    assert status == 303, where
                    at.use(0)
                    status, text = await alice.get(await at.at.browse(where))
                    assert (status, "Logged in" in text) == (200, True)
                    at.use(None)
                    names = list[str]()
                    async with asyncio.timeout(
                        REFUSED / 2
                    ):  # the other process was told, it does not find out
                        while "bank__pay" not in names:
                            names = [tool.name async for tool in client.tools()]
                for _ in range(3):
                    async with at.client(row, "alice") as client:
                        assert (await client.call_tool("bank__pay", {})).text == "paid"
                for user, name in (("bob", "app"), ("alice", "other")):
                    async with at.client(row, user, name) as client:
                        with pytest.raises(mcprev.RpcError, match="Log in at the server 'bank'"):
                            await client.call_tool("bank__pay", {})
                assert (at.at.issued, len(at.at.registered), at.at.log.count("authorization_code")) == (
                    1,
                    1,
                    1,
                )

    run(main(), limit=120.0)


@req("AUTH-10", "SEAM-10", at=SESSION.name)
def test_a_login_is_ended_when_the_process_that_has_begun_it_is_gone() -> None:
    async def main() -> None:
        async with processes(memory()) as at, browsing("alice") as (alice,):
            at.use(0)
            back = await at.begun(alice, "alice")
            await at.stop(0)
            at.use(1)
            status, text = await alice.get(back)
            assert (status, "Logged in" in text) == (200, True)
            async with at.client(SESSION, "alice") as client:
                assert (await client.call_tool("bank__pay", {})).text == "paid"

    run(main(), limit=120.0)


@req("AUTH-10", "SEC-7", at=SESSION.name)
def test_nobody_ends_the_login_of_another_one_at_any_process() -> None:
    """Neither with the state of the other, nor by having the other end his own."""

    async def main() -> None:
        async with processes(memory()) as at, browsing("alice", "alice", "mallory", None) as browsers:
            alice, other_browser, mallory, nobody = browsers
            backs = {"alice": await at.begun(alice, "alice"), "mallory": await at.begun(mallory, "mallory")}
            for browser, whose, status in (
                (mallory, "alice", 400),
                (other_browser, "alice", 400),
                (nobody, "alice", 403),
                (alice, "mallory", 400),
            ):
                for process in (0, 1):
                    at.use(process)
                    assert (await browser.get(backs[whose]))[0] == status
            # The code of one with the state of the other.
            said = {user: query(back) for user, back in backs.items()}
            mixed = backs["alice"].replace(said["alice"]["code"], said["mallory"]["code"])
            assert at.at.asked == []
            status, _ = await alice.get(mixed)
            assert (status, at.at.issued) == (400, 0), "the proof is that of another login"
            assert (await alice.get(backs["alice"]))[0] == 400, "it was used"

    run(main(), limit=120.0)


@req("AUTH-10", at=SESSION.name)
def test_of_two_processes_one_ends_a_login() -> None:
    async def main() -> None:
        async with processes(memory()) as at, browsing("alice") as (alice,):
            back = await at.begun(alice, "alice")
            found = await asyncio.gather(*(alice.get(back) for _ in range(6)))
            assert sorted(status for status, _ in found) == [200, 400, 400, 400, 400, 400]
            assert len(at.at.asked) == 1

    run(main(), limit=120.0)


@req("AUTH-11", "AUTH-15", at=SESSION.name)
@pytest.mark.parametrize("changed", ["authorization_endpoint", "token_endpoint"])
def test_a_code_is_given_only_to_whom_the_browser_was_sent(changed: str) -> None:
    """The metadata of the authorization server names another endpoint when the browser is back."""

    async def main() -> None:
        async with processes(memory()) as at, browsing("alice") as (alice,):
            back = await at.begun(alice, "alice")
            at.at.metadata[changed] = f"{at.at.issuer}/another"
            status, text = await alice.get(back)
            assert (status, "The login has failed" in text) == (400, True)
            assert at.at.asked == []
            assert not any(urlsplit(seen.path).path == "/another" for seen in at.at.auth.seen)

    run(main(), limit=120.0)


class Recording(mcprev.MemoryStore):
    """A store that keeps the values that were written."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[tuple[str, bytes]] = []

    @override
    async def write(self, key: str, value: bytes, /, **options: Any) -> int | None:
        self.written.append((key, value))
        return await super().write(key, value, **options)


@req("SEC-7", "SEC-6", at=SESSION.name)
def test_the_store_shows_nothing_of_a_login_and_its_records_cannot_be_exchanged() -> None:
    async def main() -> None:
        store = Recording()
        async with processes(lambda: store) as at, browsing("alice", "mallory") as (alice, mallory):
            backs: dict[str, str] = {}
            records: dict[str, tuple[str, bytes]] = {}
            for user, browser in (("alice", alice), ("mallory", mallory)):
                backs[user] = await at.begun(browser, user)
                logins = [record for record in store.written if record[0].startswith("authorization_server/")]
                records[user] = logins[-1]
            pages = [query(page) for page in at.at.pages]
            hidden = [
                "alice",
                "mallory",
                *(said["state"] for said in pages),
                *(said["client_id"] for said in pages),
            ]
            shown = "".join(f"{key} {value!r}" for key, value in store.written if "session/" not in key)
            assert [each for each in hidden if each in shown] == []
            await store.write(records["alice"][0], records["mallory"][1])
            assert (await alice.get(backs["alice"]))[0] == 400
            assert at.at.asked == []
            assert (await mallory.get(backs["mallory"]))[0] == 200

    run(main(), limit=120.0)


@req("AUTH-10", at=SESSION.name)
def test_without_a_shared_store_of_tokens_a_login_ends_where_it_has_begun() -> None:
    async def main() -> None:
        async with processes(memory(), sealed=False) as at, browsing("alice") as (alice,):
            at.use(0)
            back = await at.begun(alice, "alice")
            at.use(1)
            status, text = await alice.get(back)
            assert (status, "This login has ended" in text) == (400, True)
            at.use(0)
            assert (await alice.get(back))[0] == 200

    run(main(), limit=120.0)


# -- the parts -----------------------------------------------------------------------------------------------


def test_logins_in_memory_end_and_are_bounded() -> None:
    async def main() -> None:
        records = MemoryLogins()
        first = await records.write("login", "a", {"n": 1}, ttl=10.0, seen=0)
        assert first is not None
        assert await records.write("login", "a", {"n": 2}, ttl=10.0, seen=0) is None
        assert await records.read("login", "a") == ({"n": 1}, first)
        assert await records.read("other", "a") is None
        assert not await records.remove("login", "a", seen=first + 1)
        second = await records.write("login", "a", {"n": 2}, ttl=10.0, seen=first)
        assert await records.remove("login", "a", seen=second)
        assert not await records.remove("login", "a")
        await records.write("login", "a", {}, ttl=10.0)
        await asyncio.sleep(11.0)
        assert await records.read("login", "a") is None
        for number in range(MOST + 1):
            await records.write("login", str(number), {}, ttl=10.0)
        assert await records.read("login", "0") is None
        assert await records.read("login", "1") is not None

    run(main())


@pytest.mark.parametrize("sealed", [False, True])
def test_a_principal_with_many_logins_ends_his_own_oldest_and_nobody_else_s(sealed: bool) -> None:
    async def main() -> None:
        tokens = SealedTokens(mcprev.MemoryStore(), SECRET) if sealed else MemoryTokens()
        logins = Logins("http://127.0.0.1:1", identify, store=tokens)

        async def offered(principal: str, client: str) -> str:
            """The ticket of an offer; as long as that is kept, the same one."""
            with pytest.raises(LoginRequired) as required:
                await logins.opener("bank", (principal, client))("https://as.example/authorize")
            return query(required.value.url)["login"]

        honest, clients = await offered("alice", "app"), range(MOST_EACH + 2)
        many = [await offered("mallory", f"client-{number}") for number in clients]
        assert await offered("alice", "app") == honest
        assert await offered("mallory", f"client-{clients[-1]}") == many[-1]
        assert await offered("mallory", "client-0") != many[0]

    run(main())


def test_a_login_has_two_steps_and_no_third() -> None:
    async def main() -> None:
        first = LoginStep(state="s", verifier="v")
        assert [first.secret(), first.secret()] == ["s", "v"]
        first.begin_at("here")
        with pytest.raises(AuthError, match="has to open a page"):
            await first.open("https://as.example/authorize?state=s")
        second = LoginStep(
            state="s", verifier="v", page=first.page, place=first.place, back="https://b.example/cb"
        )
        with pytest.raises(AuthError, match="has changed during the login"):
            second.begin_at("there")
        second.begin_at("here")
        assert await second.open("https://as.example/authorize?state=s") == "https://b.example/cb"
        with pytest.raises(AuthError, match="has changed during the login"):
            await second.open("https://as.example/authorize?state=s")

    run(main())
