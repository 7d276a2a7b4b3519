"""Token stores that outlive the process: the next client needs no login, and nobody else can read them."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
import json
import os
import re
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest

import mcprev
from auth.world import world
from helpers.requirements import req
from helpers.running import run
from mcprev.auth.client import token_stores
from mcprev.revisions import DEFAULT, Revision

each_row = pytest.mark.parametrize(
    "row", [row for row in DEFAULT if row.auth is not None], ids=lambda row: row.name
)
KEY: Final = mcprev.TokenKey("https://as.example", "https://mcp.example/mcp", "me")
TOKENS: Final = mcprev.Tokens("access", "refresh", 5.5, ["a", "b"])
REGISTERED: Final = mcprev.Registration("me", "secret", "client_secret_post", ["http://x"], None)


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


@pytest.fixture(params=["disk", "keyring"])
def again(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], mcprev.TokenStore]:
    """Makes the store as the next process does."""
    if request.param == "disk":
        return lambda: mcprev.DiskTokens(tmp_path / "a" / "tokens")
    ring = Ring()
    return lambda: mcprev.KeyringTokens(backend=ring)


@req("AUTH-22")
@each_row
def test_the_next_process_needs_no_login(row: Revision, again: Callable[[], mcprev.TokenStore]) -> None:
    async def main() -> None:
        async with world(row) as at:
            at.refreshes = True
            for _ in range(2):
                target = mcprev.http(at.mcp.url, auth=at.oauth(store=again()))
                async with mcprev.connect(target, revisions=[row.name]):
                    pass
            assert at.log == ["register", "authorize", "authorization_code"]

    run(main())


@req("AUTH-22", everywhere=True)
def test_waiting_for_a_lock_leaves_no_file_open_and_asks_often_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def next_descriptor() -> int:
        descriptor = os.open(tmp_path, os.O_RDONLY)
        os.close(descriptor)
        return descriptor

    path, waits = tmp_path / "lock", list[float]()
    held = token_stores._try_lock(path)
    assert held is not None
    before = next_descriptor()
    assert [token_stores._try_lock(path) for _ in range(5)] == [None] * 5
    assert next_descriptor() == before

    async def sleep(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 12:
            token_stores._unlock(held)

    monkeypatch.setattr(token_stores, "asyncio", SimpleNamespace(**{**vars(asyncio), "sleep": sleep}))
    token_stores._unlock(run(token_stores._locked(path)))
    assert len(waits) == 12
    assert max(waits) <= token_stores.MAX_WAIT
    assert waits == sorted(waits)


@req("AUTH-22", everywhere=True)
def test_records_whose_keys_meet_when_they_are_joined_are_two(again: Callable[[], mcprev.TokenStore]) -> None:
    async def main() -> None:
        keys = [
            mcprev.TokenKey("https://as.example", "https://mcp.example/a", "me"),
            mcprev.TokenKey("https://as.example", "https://mcp.example/", "ame"),
            mcprev.TokenKey("https://as.examplehttps", "://mcp.example/a", "me"),
        ]
        for key in keys:
            await again().keep_tokens(key, mcprev.Tokens(key.client_id + key.issuer))
        for key in keys:
            assert await again().tokens(key) == mcprev.Tokens(key.client_id + key.issuer)

    run(main())


@req("AUTH-22", everywhere=True)
def test_what_is_kept_is_found_and_deleted(again: Callable[[], mcprev.TokenStore]) -> None:
    async def main() -> None:
        assert await again().tokens(KEY) is None
        await again().keep_tokens(KEY, None)
        await again().keep_tokens(KEY, mcprev.Tokens("old"))
        await again().keep_tokens(KEY, TOKENS)
        await again().keep_registration(KEY.issuer, REGISTERED)
        assert await again().tokens(KEY) == TOKENS
        assert await again().registration(KEY.issuer) == REGISTERED
        for other in (KEY._replace(issuer="x"), KEY._replace(resource="x"), KEY._replace(client_id="x")):
            assert await again().tokens(other) is None
        odd = mcprev.TokenKey("a", "b\nc", "d"), mcprev.TokenKey("a\nb", "c", "d")
        for key in odd:
            await again().keep_tokens(key, mcprev.Tokens(key.issuer))
            assert await again().tokens(odd[0]) != await again().tokens(
                odd[1]
            ), "a key is compared, not its hash"
        await again().keep_tokens(KEY, None)
        await again().keep_tokens(KEY, None)
        await again().keep_registration(KEY.issuer, None)
        assert (await again().tokens(KEY), await again().registration(KEY.issuer)) == (None, None)

    run(main())


@req("AUTH-22", "SEC-6", everywhere=True)
def test_files_are_their_owners_and_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "tokens"
    store = mcprev.DiskTokens(folder)

    def modes() -> set[int]:
        return {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}

    async def main() -> None:
        await store.keep_tokens(KEY, TOKENS)
        assert (stat.S_IMODE(folder.stat().st_mode), modes()) == (0o700, {0o600})

        def full(*_: object) -> None:
            raise OSError("no space left")

        monkeypatch.setattr("mcprev.auth.client.token_stores.os.fsync", full)
        with pytest.raises(OSError, match="no space left"):
            await store.keep_tokens(KEY, mcprev.Tokens("new"))
        assert list(folder.glob(".new-*")) == [], "nothing half-written stays"
        assert await store.tokens(KEY) == TOKENS
        (path,) = (path for path in folder.iterdir() if not path.name.startswith("."))

        def record(tokens: dict[str, Any]) -> bytes:
            return json.dumps({"key": KEY, "record": tokens}).encode()

        damaged: list[bytes] = [
            b"",
            b"{",
            b"\xff",
            b"5",
            b"{}",
            b'{"key": ["x"], "record": {}}',
            b"[" * 100_000,
            record({"access_token": 5}),
            record({"access_token": None}),
            record({"access_token": "a", "expires_at": "soon"}),
            record({"access_token": "a", "scopes": "abc"}),
            record({"access_token": "a", "scopes": [1]}),
        ]
        for text in damaged:
            path.write_bytes(text)
            assert await store.tokens(KEY) is None

    run(main())


@req("AUTH-22", "SEC-6", everywhere=True)
@pytest.mark.parametrize("mode", [0o777, 0o770, 0o1777, 0o702], ids=oct)
def test_a_folder_in_which_others_can_put_tokens_is_not_used(tmp_path: Path, mode: int) -> None:
    store = mcprev.DiskTokens(tmp_path)
    run(store.keep_tokens(KEY, TOKENS))
    tmp_path.chmod(mode)

    async def main() -> None:
        for refused in (store.tokens(KEY), store.keep_tokens(KEY, TOKENS), store.registration("x")):
            with pytest.raises(PermissionError, match=re.escape(f"run `chmod 700 {tmp_path}`")):
                await refused

    run(main())


@pytest.mark.slow
@req("AUTH-18", "AUTH-22")
@each_row
def test_a_refresh_token_that_another_process_has_used_is_not_used_again(
    row: Revision, again: Callable[[], mcprev.TokenStore]
) -> None:
    """An authorization server takes the second use for a theft, and revokes all tokens of the user."""

    async def main() -> None:
        async with world(row, {"tools/call": {"content": []}}) as at:
            at.refreshes = True
            one, other = at.oauth(store=again()), at.oauth(store=again())

            def connecting(auth: mcprev.OAuth) -> mcprev.connect:
                return mcprev.connect(
                    mcprev.http(at.mcp.url, auth=auth), revisions=[row.name], validate="off"
                )

            async with connecting(one) as client, connecting(other) as second:
                await client.call_tool("any")
                await second.call_tool("any")
                at.log.clear()
                for auth, caller in ((one, client), (other, second)):
                    (authorizer,) = auth.authorizers.values()
                    assert authorizer.active is not None
                    authorizer.active.refresh_at = 0
                    await caller.call_tool("any")
                assert at.log == ["refresh_token"]
                found = [seen.headers.get("authorization") for seen in at.asked_for("tools/call")]
                assert found[2:] == ["Bearer token-2"] * 2

    run(main())


@req("AUTH-22", everywhere=True)
def test_without_keyring(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "keyring", None)  # cannot be imported
    with pytest.raises(ImportError, match=r"install mcprev\[keyring\]"):
        mcprev.KeyringTokens()


# -- files that several processes write --------------------------------------------------------------------


STORES: Final[Any] = token_stores


def locked(folder: Path) -> int:
    """Hold the lock of a process that writes into a folder."""
    found: int | None = STORES._try_lock(folder / ".lock")
    assert found is not None
    return found


@req("AUTH-22", everywhere=True)
def test_what_a_process_is_writing_is_not_deleted_and_is_on_the_disk_before_it_takes_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, usual, synced = mcprev.DiskTokens(tmp_path), os.fsync, list[int]()

    def fsync(descriptor: int) -> None:
        synced.append(os.fstat(descriptor).st_size)
        other = STORES._Folder(tmp_path)
        assert other.get_password("", "any") is None
        usual(descriptor)

    monkeypatch.setattr("mcprev.auth.client.token_stores.os.fsync", fsync)

    async def main() -> None:
        await store.keep_tokens(KEY, TOKENS)
        assert await store.tokens(KEY) == TOKENS

    run(main())
    (written,) = (path for path in tmp_path.iterdir() if not path.name.startswith("."))
    assert synced == [written.stat().st_size]


@req("AUTH-22", everywhere=True)
def test_who_reads_does_not_wait_for_who_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, left = mcprev.DiskTokens(tmp_path), tmp_path / ".new-left"
    run(store.keep_tokens(KEY, TOKENS))
    left.touch()
    held = locked(tmp_path)
    monkeypatch.setattr(token_stores, "time", SimpleNamespace(monotonic=lambda: 0.0))
    assert run(store.tokens(KEY)) == TOKENS
    assert left.exists()
    STORES._unlock(held)
    assert run(store.tokens(KEY)) == TOKENS
    assert not left.exists()


@req("AUTH-22", everywhere=True)
def test_who_writes_waits_for_another_one_for_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, now = mcprev.DiskTokens(tmp_path), iter(range(20))
    held = locked(tmp_path)
    clock = SimpleNamespace(monotonic=lambda: next(now), sleep=float)
    monkeypatch.setattr(token_stores, "time", clock)
    with pytest.raises(TimeoutError, match="another process has been writing"):
        run(store.keep_tokens(KEY, TOKENS))
    STORES._unlock(held)
    run(store.keep_tokens(KEY, TOKENS))
    assert run(store.tokens(KEY)) == TOKENS


@req("AUTH-22", everywhere=True)
def test_without_locks_of_files_records_are_written_and_nothing_of_others_is_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on some file systems of a network."""

    def no_locks(_: Path) -> int | None:
        raise OSError("no locks available")

    monkeypatch.setattr(token_stores, "_try_lock", no_locks)
    store, left = mcprev.DiskTokens(tmp_path), tmp_path / ".new-left"
    left.touch()
    for tokens in (TOKENS, mcprev.Tokens("newer")):
        run(store.keep_tokens(KEY, tokens))
        assert run(store.tokens(KEY)) == tokens
    assert left.exists()
    STORES._Folder(tmp_path).delete_password("", "which another process has deleted")


@req("AUTH-22", "SEC-6", everywhere=True)
def test_a_folder_of_another_user_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = mcprev.DiskTokens(tmp_path)
    run(store.keep_tokens(KEY, TOKENS))
    own = os.geteuid()
    if own:
        monkeypatch.setattr("mcprev.auth.client.token_stores.os.geteuid", lambda: own + 1)
    else:  # whose folders all may use
        os.chown(tmp_path, 12345, -1)
    with pytest.raises(PermissionError, match="belongs to another user"):
        run(store.tokens(KEY))
