"""Processes that share a token store: none takes tokens from another, whatever fails or is killed (AUTH-18, AUTH-22)."""

from __future__ import annotations

import asyncio
import json
import logging
import random
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, cast

import pytest

import mcprev
from auth.world import Endpoint, World, form, world
from fuzz.fuzzing import sampled_of
from helpers.lanes import still, turns
from helpers.raw_server import Exchange
from helpers.requirements import req
from helpers.running import run, until
from mcprev.auth.client import shared_store
from mcprev.revisions import DEFAULT

ROW: Final = DEFAULT[-1]
REPLIES: Final[dict[str, Any]] = {"tools/call": {"content": []}}
PROGRAM: Final = Path(__file__).with_name("token_user.py")
KEY: Final = mcprev.TokenKey("https://as.example", "https://mcp.example/mcp", "me")
USERS: Final = 2
ROUNDS: Final = 5


class User:
    """A process of `token_user.py`."""

    def __init__(self, process: asyncio.subprocess.Process, at: World) -> None:
        self.process, self._at = process, at

    async def hears(self) -> str:
        """The next word; the user logs in where a page is shown."""
        assert self.process.stdout is not None
        while True:
            word, more = json.loads(await self.process.stdout.readline())
            if word != "page":
                return f"{word} {more}" if more else str(word)
            self.write(await self._at.browse(more))

    def write(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line.encode() + b"\n")

    async def calls(self) -> str:
        self.write("call")
        return await self.hears()

    async def end(self, *, kill: bool = False) -> None:
        if kill:
            self.process.kill()
        else:
            self.write("")
        await self.process.communicate()


@asynccontextmanager
async def user(at: World, folder: Path, where: str = "") -> AsyncGenerator[User, None]:
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(PROGRAM), at.mcp.url, ROW.name, str(folder), where, stdin=pipe, stdout=pipe
    )
    found = User(process, at)
    try:
        assert await found.hears() == "ready"
        yield found
    finally:
        if process.returncode is None:
            await found.end(kill=True)


@asynccontextmanager
async def shared(**options: Any) -> AsyncGenerator[World, None]:
    """A world whose refresh tokens are good once: the second use of one revokes all."""
    async with world(ROW, REPLIES, **options) as at:
        at.refreshes = at.revokes = True
        yield at


def refusals(at: World) -> Callable[[], int]:
    """Count the requests of the protocol that are refused from now on."""
    usual, refused = at.refuse, 0

    async def refuse(exchange: Exchange, status: int, **said: str) -> None:
        nonlocal refused
        refused += 1
        await usual(exchange, status, **said)

    at.refuse = refuse  # type: ignore[method-assign]
    return lambda: refused


def hold_back(at: World, count: int) -> Callable[[Endpoint], Endpoint]:
    """Answer when so many requests of the protocol have been refused: then all processes want the same."""
    refused = refusals(at)

    def held(usual: Endpoint) -> Endpoint:
        async def answer(exchange: Exchange) -> None:
            await until(lambda: refused() >= count)
            await asyncio.sleep(0.05)
            await usual(exchange)

        return answer

    return held


@pytest.mark.slow
@req("AUTH-12", "AUTH-18", "AUTH-22", everywhere=True)
def test_processes_register_once_and_use_each_refresh_token_once(tmp_path: Path) -> None:
    async def main() -> None:
        async with shared() as at, AsyncExitStack() as stack:
            at.register = hold_back(at, USERS)(at.register)  # type: ignore[method-assign, assignment]
            users = await asyncio.gather(
                *(stack.enter_async_context(user(at, tmp_path / "tokens")) for _ in range(USERS))
            )
            assert len(at.registered) == 1
            for _ in range(ROUNDS):
                at.log.clear()
                at.good.clear()
                at.tokens = hold_back(at, USERS)(at.token)
                assert await asyncio.gather(*(each.calls() for each in users)) == ["called"] * USERS
                assert at.log == ["refresh_token"]
            await asyncio.gather(*(each.end() for each in users))

    run(main(), limit=60)


KILLED = [("asked", 0), ("answered", 1), ("fsync", 1), ("replaced", 0), ("waiting", 0)]


@pytest.mark.slow
@req("AUTH-18", "AUTH-22", everywhere=True)
@pytest.mark.parametrize(
    ("where", "logins"),
    sampled_of(KILLED, KILLED[1::2]),
    ids=str,
)
def test_a_process_that_is_killed_leaves_nothing_but_what_it_knew(
    where: str, logins: int, tmp_path: Path
) -> None:
    """Killed before its refresh token was used, the next process uses it; otherwise it can only log in."""
    folder = tmp_path / "tokens"

    async def main() -> None:
        async with shared() as at, user(at, folder, where) as killed, user(at, folder) as other:
            usual, reached, go_on = at.token, asyncio.Event(), asyncio.Event()

            async def token(exchange: Exchange) -> None:
                at.tokens = usual
                if where == "answered":
                    exchange.json = remembered  # type: ignore[method-assign, assignment]
                    await usual(exchange)
                reached.set()
                if where == "waiting":
                    await go_on.wait()
                    await usual(exchange)
                elif where in ("asked", "answered"):
                    await exchange.gone.wait()
                else:
                    await usual(exchange)

            async def remembered(*_: object) -> None:
                """The answer is lost."""

            at.log.clear()
            at.good.clear()
            at.tokens = token
            if where == "waiting":
                refused = refusals(at)
                calling = asyncio.create_task(other.calls())
                await reached.wait()
                killed.write("call")
                await until(lambda: refused() == 2)
                await killed.end(kill=True)
                go_on.set()
                assert await calling == "called"
            else:
                killed.write("call")
                await reached.wait()
                if where in ("fsync", "replaced"):
                    assert await killed.hears() == "stopped"
                await killed.end(kill=True)
                if where == "fsync":
                    assert list(folder.glob(".new-*"))
                assert await other.calls() == "called"
            assert at.log.count("authorize") == logins
            assert at.log.count("theft") == logins
            assert not list(folder.glob(".new-*"))
            at.good.clear()
            at.log.clear()
            assert await other.calls() == "called"
            assert at.log == ["refresh_token"]

    run(main(), limit=60)


# -- locks -------------------------------------------------------------------------------------------------


class Ring:
    """A keyring, in memory."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, str], str] = {}

    def get_password(self, service: str, username: str, /) -> str | None:
        return self.kept.get((service, username))

    def set_password(self, service: str, username: str, password: str, /) -> None:
        self.kept[service, username] = password

    def delete_password(self, service: str, username: str, /) -> None:
        del self.kept[service, username]


@pytest.fixture(params=["memory", "disk", "keyring"])
def store(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    def app_dir(name: str) -> str:
        return str(tmp_path / name)

    monkeypatch.setattr("click.get_app_dir", app_dir)
    if request.param == "memory":
        return mcprev.MemoryTokens()
    return mcprev.DiskTokens(tmp_path) if request.param == "disk" else mcprev.KeyringTokens(backend=Ring())


@req("AUTH-22", everywhere=True)
def test_one_at_a_time_has_a_lock_and_others_wait_without_blocking(store: Any) -> None:
    async def main() -> None:
        inside: list[str] = []
        most = 0

        async def enter(issuer: str) -> None:
            nonlocal most
            async with store.lock(issuer):
                inside.append(issuer)
                most = max(most, inside.count(issuer))
                await turns()
                inside.remove(issuer)

        async with store.lock("a"):
            waiting = [asyncio.create_task(enter("a")) for _ in range(5)]
            await asyncio.wait_for(enter("b"), 10)
            assert not any(each.done() for each in waiting)
        await asyncio.gather(*waiting)
        assert most == 1

    run(main())


@req("AUTH-22", everywhere=True)
def test_who_is_cancelled_while_it_waits_keeps_no_lock(store: Any) -> None:
    chance = random.Random(5)  # noqa: S311 - no secret

    async def main() -> None:
        async def enter() -> None:
            async with store.lock("a"):
                await turns(chance.randrange(3))

        for _ in range(40):
            task = asyncio.create_task(enter())
            await turns(chance.randrange(6))
            if chance.random() < 0.3:
                await asyncio.sleep(chance.random() / 1000)
            task.cancel()
            await asyncio.wait({task})
        await asyncio.wait_for(enter(), 10)

    run(main())


@req("AUTH-22", everywhere=True)
def test_a_lock_serves_one_event_loop_after_another(store: Any) -> None:
    async def main() -> None:
        async def enter() -> None:
            async with store.lock("a"):
                await turns()

        await asyncio.gather(enter(), enter())

    run(main())
    run(main())


class Locked(mcprev.MemoryTokens):
    """A store whose lock does as it is told."""

    def __init__(self, lock: Callable[[str], Any]) -> None:
        super().__init__()
        self._lock = lock

    def lock(self, issuer: str, /) -> Any:
        return self._lock(issuer)


@req("AUTH-22", everywhere=True)
def test_a_lock_that_is_never_free_is_an_error_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    @asynccontextmanager
    async def never(_: str) -> AsyncGenerator[None, None]:
        await asyncio.Event().wait()
        yield

    monkeypatch.setattr(shared_store, "STORE", 0.05)

    async def main() -> None:
        async with shared() as at:
            with pytest.raises(
                mcprev.AuthError, match=r"held the lock of the stored tokens of .* for 0\.05 s"
            ):
                await mcprev.connect(mcprev.http(at.mcp.url, auth=at.oauth(store=Locked(never))))

    run(main())


# -- stores that fail --------------------------------------------------------------------------------------


class StoreError(Exception):
    """What the library of a store may raise: no error of the system."""


class Failing(mcprev.MemoryTokens):
    """Fails in what it is told to, with a text that holds secrets."""

    def __init__(self) -> None:
        super().__init__()
        self.fails: set[str] = set()

    def _check(self, what: str, *more: object) -> None:
        if what in self.fails:
            raise StoreError(f"no space left for {[getattr(each, 'access_token', each) for each in more]}")

    def lock(self, issuer: str, /) -> Any:
        @asynccontextmanager
        async def lock() -> AsyncGenerator[None, None]:
            self._check("lock")
            yield
            self._check("unlock")

        return lock()

    async def tokens(self, key: mcprev.TokenKey, /) -> mcprev.Tokens | None:
        self._check("read")
        return await super().tokens(key)

    async def keep_tokens(self, key: mcprev.TokenKey, tokens: mcprev.Tokens | None, /) -> None:
        self._check("write" if tokens else "delete", tokens)
        await super().keep_tokens(key, tokens)

    async def keep_registration(self, issuer: str, registration: mcprev.Registration | None, /) -> None:
        self._check("register", registration)
        await super().keep_registration(issuer, registration)


def connecting(at: World, auth: mcprev.OAuth) -> mcprev.connect:
    return mcprev.connect(mcprev.http(at.mcp.url, auth=auth), revisions=[at.revision.name], validate="off")


@req("AUTH-22", "SEC-6", everywhere=True)
@pytest.mark.parametrize(
    "fails",
    [
        {"write"}, {"write", "delete"}, {"register"}, {"lock"}, {"unlock"}, {"read", "write", "delete"},
        {"lock", "unlock", "read", "write", "delete", "register"},
    ],
    ids=lambda each: "-".join(sorted(each)),
)  # fmt: skip
@pytest.mark.parametrize("early", [False, True], ids=["refused", "early"])
@pytest.mark.parametrize("later", [False, True], ids=["first", "later"])
def test_a_store_that_fails_costs_nobody_the_tokens_that_were_issued(
    fails: set[str], early: bool, later: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with shared() as at:
            store = Failing()
            store.fails = set() if later else fails - {"read"}
            auth = at.oauth(store=store)
            async with connecting(at, auth) as client:
                store.fails = fails
                for _ in range(3):
                    (authorizer,) = auth.authorizers.values()
                    if early:
                        assert authorizer.active is not None
                        authorizer.active.refresh_at = 0
                    else:
                        at.good.clear()
                    await client.call_tool("any", {})
            assert at.log == ["register", "authorize", "authorization_code", *["refresh_token"] * 3]

    with caplog.at_level(logging.DEBUG, logger="mcprev"):
        run(main())
    assert any(
        record.levelno == logging.WARNING and record.name == "mcprev.auth" for record in caplog.records
    ) is (later is False or fails != {"register"})
    assert "token-" not in caplog.text
    assert "refresh-" not in caplog.text


@req("AUTH-22", everywhere=True)
def test_a_refresh_token_that_is_used_up_does_not_stay_where_the_new_one_cannot_be_stored() -> None:
    async def main() -> None:
        async with shared() as at:
            store = Failing()
            auth = at.oauth(store=store)
            async with connecting(at, auth) as client:
                store.fails = {"write"}
                at.good.clear()
                await client.call_tool("any", {})
                (authorizer,) = auth.authorizers.values()
                assert authorizer.active is not None
                assert await store.tokens(authorizer.active.key) is None
                store.fails = set()
                at.good.clear()
                await client.call_tool("any", {})
                assert await store.tokens(authorizer.active.key) == authorizer.active.tokens
            assert "theft" not in at.log

    run(main())


@req("AUTH-22", everywhere=True)
def test_a_refresh_token_that_stays_good_stays_where_the_new_access_token_cannot_be_stored() -> None:
    """Not every server renews the refresh token."""

    async def main() -> None:
        store = Failing()
        records = shared_store.SharedStore(store)
        old = mcprev.Tokens("token-1", "refresh")
        await records.keep_tokens(KEY, old)
        store.fails = {"write"}
        await records.keep_tokens(KEY, mcprev.Tokens("token-2", "refresh"), replaces=old)
        assert await store.tokens(KEY) == old

    run(main())


@req("AUTH-22", everywhere=True)
def test_what_another_process_stores_or_deletes_after_a_write_that_failed_counts() -> None:
    async def main() -> None:
        store = Failing()
        records = shared_store.SharedStore(store)
        own, other = mcprev.Tokens("own"), mcprev.Tokens("other")
        store.fails = {"write"}
        await records.keep_tokens(KEY, own)
        assert await records.tokens(KEY) == own
        store.fails = set()
        await store.keep_tokens(KEY, other)
        assert await records.tokens(KEY) == other
        await store.keep_tokens(KEY, None)
        assert await records.tokens(KEY) is None
        await records.keep_tokens(KEY, own)
        await store.keep_tokens(KEY, None)
        assert await records.tokens(KEY) is None

    run(main())


class Hanging(mcprev.MemoryTokens):
    """A store whose reads or writes never end."""

    def __init__(self) -> None:
        super().__init__()
        self.hangs: set[str] = set()

    async def tokens(self, key: mcprev.TokenKey, /) -> mcprev.Tokens | None:
        if "read" in self.hangs:
            await asyncio.Event().wait()
        return await super().tokens(key)

    async def keep_tokens(self, key: mcprev.TokenKey, tokens: mcprev.Tokens | None, /) -> None:
        if "write" in self.hangs:
            await asyncio.Event().wait()
        await super().keep_tokens(key, tokens)


@req("AUTH-22", everywhere=True)
def test_a_store_that_never_answers_costs_a_bounded_time(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(shared_store, "STORE", 0.05)

    async def main() -> None:
        store = Hanging()
        records = shared_store.SharedStore(store)
        store.hangs = {"read"}
        with pytest.raises(mcprev.AuthError, match="cannot be read"):
            await records.tokens(KEY)
        store.hangs = {"write"}
        await records.keep_tokens(KEY, mcprev.Tokens("own"))
        assert "cannot be written" in caplog.text
        store.hangs = {"read"}
        assert await records.tokens(KEY) == mcprev.Tokens("own")
        assert "cannot be read" in caplog.text

    run(main())


@req("AUTH-22", everywhere=True)
def test_a_lock_may_come_from_an_asynchronous_function() -> None:
    async def main() -> None:
        inner = asyncio.Lock()

        async def lock(_: str) -> asyncio.Lock:
            return inner

        async with shared_store.SharedStore(Locked(lock)).lock("a"):
            assert inner.locked()
        assert not inner.locked()

    run(main())


@req("AUTH-22", everywhere=True)
def test_a_store_that_cannot_be_read_is_an_error_before_anybody_logs_in() -> None:
    async def main() -> None:
        async with shared() as at:
            store = Failing()
            store.fails = {"read"}
            auth = at.oauth(store=store, client_id="mine")
            with pytest.raises(
                mcprev.AuthError, match=r"cannot be read \(StoreError in test_client_shared_stores\.py:\d+\)"
            ):
                await connecting(at, auth)
            assert at.log == []

    run(main())


class Lagging(mcprev.MemoryTokens):
    """Returns records that were replaced so many writes ago, as folders do that are synchronised late."""

    def __init__(self) -> None:
        super().__init__()
        self.lag = 0
        self.written: dict[object, list[Any]] = {}

    async def keep_tokens(self, key: mcprev.TokenKey, tokens: mcprev.Tokens | None, /) -> None:
        self.written.setdefault(key, []).append(tokens)

    async def tokens(self, key: mcprev.TokenKey, /) -> mcprev.Tokens | None:
        found = self.written.get(key, [None])
        return cast("mcprev.Tokens | None", found[-1 - min(self.lag, len(found) - 1)])


@req("AUTH-18", "AUTH-22", everywhere=True)
@pytest.mark.parametrize("lag", [1, 2, shared_store.MAX_OLD], ids=str)
@pytest.mark.parametrize("early", [False, True], ids=["refused", "early"])
def test_a_refresh_token_that_was_used_is_not_used_again_where_a_store_still_has_it(
    early: bool, lag: int
) -> None:
    async def main() -> None:
        async with shared() as at:
            store = Lagging()
            auth = at.oauth(store=store)
            async with connecting(at, auth) as client:
                for turn in range(2 * shared_store.MAX_OLD):
                    store.lag = lag if turn >= shared_store.MAX_OLD else 0
                    if early:
                        (authorizer,) = auth.authorizers.values()
                        assert authorizer.active is not None
                        authorizer.active.refresh_at = 0
                    else:
                        at.good.clear()
                    await client.call_tool("any", {})
            assert at.log[3:] == ["refresh_token"] * 2 * shared_store.MAX_OLD

    run(main())


@req("AUTH-22", everywhere=True)
def test_what_is_known_of_records_is_bounded_and_the_store_decides_otherwise() -> None:
    async def main() -> None:
        store = Lagging()
        records = shared_store.SharedStore(store)
        one, *others = (mcprev.Tokens(f"token-{number}") for number in range(shared_store.MAX_OLD + 2))
        for each in (one, *others[:-1]):
            await records.keep_tokens(KEY, each)
        store.written[KEY] = [one]
        assert await records.tokens(KEY) == others[-2]
        await records.keep_tokens(KEY, others[-1])
        store.written[KEY] = [one]
        assert await records.tokens(KEY) == one  # forgotten: too long ago
        store.written[KEY] = [None]
        assert await records.tokens(KEY) is None  # deleted by another process
        store.written[KEY] = [one]
        assert await records.tokens(KEY) is None
        await records.keep_tokens(KEY, one)
        assert await records.tokens(KEY) == one

    run(main())


# -- what others have stored -------------------------------------------------------------------------------


class Plain:
    """The store of a user, without locks."""

    def __init__(self, inner: mcprev.TokenStore) -> None:
        self.tokens, self.keep_tokens = inner.tokens, inner.keep_tokens
        self.registration, self.keep_registration = inner.registration, inner.keep_registration


@req("AUTH-18", "AUTH-22", everywhere=True)
@pytest.mark.parametrize("error", ["invalid_grant", "invalid_client"])
def test_the_loser_of_a_race_takes_what_the_winner_has_stored(error: str) -> None:
    """Their store has no locks: the loser hears that its token was used, and looks again."""

    async def main() -> None:
        async with shared() as at:
            store = mcprev.MemoryTokens()
            winner, loser = (at.oauth(store=Plain(store)) for _ in range(2))
            async with connecting(at, winner) as first, connecting(at, loser) as second:
                at.good.clear()
                at.log.clear()

                async def token(exchange: Exchange) -> None:
                    at.tokens = at.token
                    await first.call_tool("any", {})
                    await exchange.json({"error": error}, 400)

                at.tokens = token
                await second.call_tool("any", {})
                assert at.log == ["refresh_token"]
                (authorizer,) = winner.authorizers.values()
                assert authorizer.active is not None
                assert await store.tokens(authorizer.active.key) == authorizer.active.tokens
                assert await store.registration(at.issuer) is not None

    run(main())


@req("AUTH-22", everywhere=True)
def test_only_the_record_that_was_used_is_deleted(store: Any) -> None:
    async def main() -> None:
        records = shared_store.SharedStore(store)
        used = mcprev.Tokens("old", "refresh", 5.0, ("a",))
        registered = mcprev.Registration("me", "secret", "none", ("http://x",))
        for kept in (used, mcprev.Tokens("new")):
            await store.keep_tokens(KEY, kept)
            await records.forget_tokens(KEY, used)
            assert (await store.tokens(KEY) is None) is (kept is used)
        for there in (registered, mcprev.Registration("you")):
            await store.keep_registration(KEY.issuer, there)
            await records.forget_registration(KEY.issuer, registered)
            assert (await store.registration(KEY.issuer) is None) is (there is registered)

    run(main())


class Watched(mcprev.MemoryTokens):
    """Notes what is written while nobody holds the lock, and may be told that the lock is never free."""

    def __init__(self) -> None:
        super().__init__()
        self.unlocked: list[object] = []

    async def keep_tokens(self, key: mcprev.TokenKey, tokens: mcprev.Tokens | None, /) -> None:
        if not self.lock(key.issuer).locked():
            self.unlocked.append(tokens)
        await super().keep_tokens(key, tokens)

    async def keep_registration(self, issuer: str, registration: mcprev.Registration | None, /) -> None:
        if not self.lock(issuer).locked():
            self.unlocked.append(registration)
        await super().keep_registration(issuer, registration)


@req("AUTH-18", "AUTH-22", everywhere=True)
@pytest.mark.parametrize("error", ["invalid_grant", "invalid_client"])
def test_nothing_is_stored_or_deleted_without_the_lock(error: str) -> None:
    """Between the look at a record and its deletion, no other process may store a newer one, by a login or otherwise."""

    async def main() -> None:
        async with shared() as at:
            store, refuses = Watched(), {"refresh_token", "authorization_code"}

            async def token(exchange: Exchange) -> None:
                granted = form(exchange)["grant_type"]
                if granted in refuses:
                    refuses.discard(granted)
                    await exchange.json({"error": error}, 400)
                else:
                    await at.token(exchange)

            async with connecting(at, at.oauth(store=store)) as client:
                at.good.clear()
                at.tokens = token
                with suppress(mcprev.AuthError):  # of the login
                    await client.call_tool("any", {})
                await client.call_tool("any", {})
            assert not refuses
            assert store.unlocked == []

    run(main())


@req("AUTH-18", "AUTH-22", everywhere=True)
def test_a_login_is_stored_although_the_lock_is_never_free(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(shared_store, "STORE", 0.05)

    async def main() -> None:
        async with shared() as at:
            store = Watched()
            auth = at.oauth(store=store, client_id="mine")
            async with store.lock(at.issuer), connecting(at, auth) as client:
                await client.call_tool("any", {})
            (authorizer,) = auth.authorizers.values()
            assert authorizer.active is not None
            assert await store.tokens(authorizer.active.key) == authorizer.active.tokens

    run(main())
    assert "held the lock of the stored tokens" in caplog.text


@req("AUTH-18", "AUTH-22", everywhere=True)
def test_a_refresh_token_that_another_process_has_renewed_alone_is_not_used_again() -> None:
    """A server may issue a new refresh token with the same access token."""

    async def main() -> None:
        async with shared() as at:
            store = mcprev.MemoryTokens()
            auth = at.oauth(store=store)
            async with connecting(at, auth) as client:
                (authorizer,) = auth.authorizers.values()
                assert authorizer.active is not None
                newer = replace(authorizer.active.tokens, refresh_token="newer")
                await store.keep_tokens(authorizer.active.key, newer)
                authorizer.active.refresh_at = 0
                at.log.clear()
                await client.call_tool("any", {})
                assert authorizer.active.tokens == newer
                assert at.log == []

    run(main())


@req("AUTH-18", "AUTH-22", everywhere=True)
def test_a_refresh_token_whose_record_another_process_has_deleted_is_not_used() -> None:
    """The disk of the other was full: it used the token up, could not store the new one and deleted the old one."""

    async def main() -> None:
        async with shared() as at:
            store = Failing()
            auths = [at.oauth(store=store) for _ in range(2)]
            async with connecting(at, auths[0]) as first, connecting(at, auths[1]) as second:
                kept, at.good = dict(at.good), {}
                store.fails = {"write"}
                at.log.clear()
                await first.call_tool("any", {})
                at.good |= kept
                (authorizer,) = auths[1].authorizers.values()
                assert authorizer.active is not None
                authorizer.active.refresh_at = 0
                await second.call_tool("any", {})
                await second.call_tool("any", {})
                assert at.log == ["refresh_token"]

    run(main())


@req("AUTH-12", "AUTH-22", everywhere=True)
def test_a_client_keeps_its_login_when_another_process_registers_anew() -> None:
    async def main() -> None:
        async with shared() as at:
            store = mcprev.MemoryTokens()
            async with connecting(at, at.oauth(store=store)) as client:
                await store.keep_registration(at.issuer, mcprev.Registration("another"))
                at.good.clear()
                at.log.clear()
                await client.call_tool("any", {})
                assert at.log == ["refresh_token"]

    run(main())


# -- cancelled ---------------------------------------------------------------------------------------------


@req("AUTH-18", "AUTH-22", everywhere=True)
@pytest.mark.parametrize("dpop", [False, True], ids=["stored", "bound"])
@pytest.mark.parametrize("early", [False, True], ids=["refused", "early"])
def test_a_refresh_whose_caller_is_cancelled_is_completed(early: bool, dpop: bool) -> None:
    """The caller does not wait for it; the next one does."""

    async def main() -> None:
        async with shared() as at:
            at.scheme = "DPoP" if dpop else "Bearer"
            auth = at.oauth(dpop=dpop)
            async with connecting(at, auth) as client:
                asked, go_on, refused = asyncio.Event(), asyncio.Event(), refusals(at)

                async def token(exchange: Exchange) -> None:
                    at.tokens = at.token
                    asked.set()
                    await go_on.wait()
                    await at.token(exchange)

                at.log.clear()
                at.tokens = token
                if early:
                    (authorizer,) = auth.authorizers.values()
                    assert authorizer.active is not None
                    authorizer.active.refresh_at = 0
                else:
                    at.good.clear()
                call = asyncio.create_task(client.call_tool("any", {}))
                await asked.wait()
                call.cancel()
                await asyncio.wait({call}, timeout=10)
                assert call.cancelled()
                following = [asyncio.create_task(client.call_tool("any", {})) for _ in range(2)]
                await still(refused)
                go_on.set()
                await asyncio.gather(*following)
                assert at.log == ["refresh_token"]

    run(main())


@req("AUTH-18", "AUTH-22", everywhere=True)
@pytest.mark.parametrize("dpop", [False, True], ids=["stored", "bound"])
@pytest.mark.parametrize("early", [False, True], ids=["refused", "early"])
def test_a_client_that_closes_waits_for_the_refresh_that_a_cancelled_call_has_left(
    early: bool, dpop: bool
) -> None:
    """Then the event loop may end at once, which cancels all that is left in it."""

    async def main() -> None:
        async with shared() as at:
            at.scheme = "DPoP" if dpop else "Bearer"
            auth = at.oauth(dpop=dpop)
            await connected(at, auth, early=early)
            (authorizer,) = auth.authorizers.values()
            assert authorizer.active is not None
            assert authorizer.active.tokens.refresh_token == "refresh-2"
            if not dpop:
                assert await auth.store.tokens(authorizer.active.key) == authorizer.active.tokens
            assert at.log[3:] == ["refresh_token"]

    async def connected(at: World, auth: mcprev.OAuth, *, early: bool) -> None:
        async with connecting(at, auth) as client:
            if early:
                (authorizer,) = auth.authorizers.values()
                assert authorizer.active is not None
                authorizer.active.refresh_at = 0
            else:
                at.good.clear()
            call = asyncio.create_task(client.call_tool("any", {}))
            closing = asyncio.Event()

            async def token(exchange: Exchange) -> None:
                call.cancel()
                await closing.wait()
                await turns()
                await at.token(exchange)

            at.tokens = token
            await asyncio.wait({call}, timeout=10)
            assert call.cancelled()
            closing.set()

    run(main())


class Slow(mcprev.MemoryTokens):
    """Writes tokens when it may."""

    def __init__(self) -> None:
        super().__init__()
        self.writing, self.go_on = asyncio.Event(), asyncio.Event()

    async def keep_tokens(self, key: mcprev.TokenKey, tokens: mcprev.Tokens | None, /) -> None:
        self.writing.set()
        await self.go_on.wait()
        await super().keep_tokens(key, tokens)


@req("AUTH-22", everywhere=True)
def test_tokens_of_a_login_are_stored_although_its_caller_is_cancelled() -> None:
    """The client closes when they are: the event loop may end at once."""

    async def main() -> None:
        async with shared() as at:
            store = Slow()
            auth = at.oauth(store=store)

            async def call() -> None:
                async with connecting(at, auth) as client:
                    await client.call_tool("any", {})

            calling = asyncio.create_task(call())
            await store.writing.wait()
            calling.cancel()
            await turns()
            store.go_on.set()
            await asyncio.wait({calling}, timeout=10)
            assert calling.cancelled()
            (authorizer,) = auth.authorizers.values()
            assert authorizer.active is not None
            assert await store.tokens(authorizer.active.key) == authorizer.active.tokens
            logins = at.log.count("authorize")
            await call()
            assert at.log.count("authorize") == logins

    run(main())


@req("AUTH-22", everywhere=True)
def test_a_client_that_closes_waits_for_a_refresh_within_bounds() -> None:
    async def main() -> None:
        async with shared() as at:
            auth = at.oauth(timeout=0.2)
            async with connecting(at, auth) as client:
                at.good.clear()
                call = asyncio.create_task(client.call_tool("any", {}))

                async def token(exchange: Exchange) -> None:
                    call.cancel()
                    await exchange.gone.wait()

                at.tokens = token
                await asyncio.wait({call}, timeout=10)

    run(main())


@req("AUTH-22", "SEC-6", everywhere=True)
def test_what_a_killed_process_has_left_is_deleted_when_the_store_is_read(tmp_path: Path) -> None:
    async def main() -> None:
        store = mcprev.DiskTokens(tmp_path)
        await store.keep_tokens(KEY, mcprev.Tokens("secret"))
        left = tmp_path / ".new-left"
        left.write_text("secret")
        assert await store.tokens(KEY) is not None
        assert not left.exists()

    run(main())
