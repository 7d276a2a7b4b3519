"""Token stores that outlive the process: the next client needs no login, and nobody else can read them."""

from __future__ import annotations

import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

import mcprev
from auth.world import world
from mcprev.revisions import DEFAULT, Revision
from requirements import req
from running import run

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

        monkeypatch.setattr("mcprev.transports.http.client.oauth.kept.os.fsync", full)
        with pytest.raises(OSError, match="no space left"):
            await store.keep_tokens(KEY, mcprev.Tokens("new"))
        assert await store.tokens(KEY) == TOKENS
        (path,) = folder.iterdir()
        damaged: list[Any] = [
            b"",
            b"{",
            b"\xff",
            b"5",
            b"{}",
            b'{"key": ["x"], "record": {}}',
            b"[" * 100_000,
        ]
        for text in damaged:
            path.write_bytes(text)
            assert await store.tokens(KEY) is None

    run(main())


@req("AUTH-22", everywhere=True)
def test_without_keyring(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "keyring", None)  # cannot be imported
    with pytest.raises(ImportError, match=r"install mcprev\[keyring\]"):
        mcprev.KeyringTokens()
