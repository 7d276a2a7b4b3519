"""Which kept logins commands use that may not open a browser, and what they say where there is none for a server."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Final

import click
import pytest
from click.testing import Result

from auth.world import World, world
from fuzz.fuzzing import each_once, sampled_of
from helpers.raw_server import Mcp
from helpers.requirements import req
from helpers.running import run
from helpers.shell import invoke
from mcprev import DiskTokens
from mcprev.auth.client.store import Registration, TokenKey, Tokens
from mcprev.cli import main
from mcprev.revisions import DEFAULT, Revision

SECURED: Final = [row for row in DEFAULT if row.auth is not None]
ELSEWHERE: Final = "https://other.test/mcp"


USES: Final[dict[str, tuple[str, ...]]] = {
    "inspect": (), "call": ("t",), "read": ("memo://one",), "prompt": ("hello",), "complete": ("hello", "name=a"),
    "ask": (), "task": ("an-id",), "generate-cli": ("--out", "new"), "skill": (),
}  # fmt: skip
"""The commands that may use a kept login, with the words after the URL."""


def keep(folder: Path, issuer: str, resource: str, token: str, *scopes: str) -> None:
    store = DiskTokens(folder)
    asyncio.run(store.keep_registration(issuer, Registration("client-1")))
    asyncio.run(
        store.keep_tokens(TokenKey(issuer, resource, "client-1"), Tokens(token, scopes=scopes or None))
    )


def records(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir() if not path.name.startswith(".lock")}


def nothing(_folder: Path, _at: World) -> None:
    pass


def empty_folder(folder: Path, _at: World) -> None:
    folder.mkdir(mode=0o700)


def no_folder(folder: Path, _at: World) -> None:
    folder.write_text("a file")


def login_elsewhere(folder: Path, _at: World) -> None:
    keep(folder, "https://login.other.test", ELSEWHERE, "token")


def login_with_same_issuer(folder: Path, at: World) -> None:
    keep(folder, at.issuer, ELSEWHERE, "token")


def registration_alone(folder: Path, at: World) -> None:
    asyncio.run(DiskTokens(folder).keep_registration(at.issuer, Registration("client-1")))


def damaged_records(folder: Path, _at: World) -> None:
    folder.mkdir(mode=0o700)
    texts = ("", "no JSON", "[]", '{"key": 1}', '{"key": [], "record": {"access_token": "a"}}')
    for number, text in enumerate(texts):
        (folder / f"{number}").write_text(text)
    (folder / "folder").mkdir()
    (folder / "bytes").write_bytes(b"\xff")


STATES: Final = (
    nothing, empty_folder, no_folder, login_elsewhere, login_with_same_issuer, registration_alone, damaged_records
)  # fmt: skip


def options_of(context: click.Context, name: str) -> set[str]:
    found = main.get_command(context, name)
    assert found is not None
    return {option for each in found.params for option in (*each.opts, *each.secondary_opts)}


async def command(name: str, *words: str) -> Result:
    return await asyncio.to_thread(invoke, None, name, *words)


@pytest.fixture(name="folder")
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "mcprev").mkdir(mode=0o700)
    return tmp_path / "mcprev" / "tokens"


@each_once
@pytest.mark.parametrize("state", STATES, ids=lambda state: state.__name__)
@pytest.mark.parametrize("name", USES)
@req("AUTH-2", everywhere=True)
def test_without_a_login_at_a_server_its_refusal_is_told(
    name: str, state: Callable[[Path, World], None], folder: Path
) -> None:
    """It is what is told where no login may be used: nothing is wrong with the folder of the tokens."""

    async def scenario() -> None:
        async with world(SECURED[-1]) as at:
            told = await command(name, "--no-login", at.mcp.url, *USES[name])
            assert told.exit_code == 3
            assert told.stderr.startswith("Error: HTTP 401 ")
            assert "log in with --login, or send a token with --header" in told.stderr
            await asyncio.to_thread(state, folder, at)
            found = await command(name, at.mcp.url, *USES[name])
            assert (found.exit_code, found.output) == (3, told.output)
            assert at.log == [], "no authorization server was asked"

    run(scenario())


@req("AUTH-2", everywhere=True)
def test_these_are_all_commands_that_may_use_a_login() -> None:
    context = click.Context(main)
    found = {name for name in main.list_commands(context) if "--no-login" in options_of(context, name)}
    assert found - {"dev", "bridge"} == set(
        USES
    ), "the page of `mcprev dev` logs in by itself; a bridge serves others"


@pytest.mark.parametrize("spelled", ["{}", "{}/", "{}?a=b", "{}?", "HTTP{}"])
@req("AUTH-2", "AUTH-9", everywhere=True)
def test_a_login_at_a_server_is_used_however_its_url_is_spelled(spelled: str, folder: Path) -> None:
    async def scenario() -> None:
        async with world(SECURED[-1]) as at:
            assert isinstance(at.speaks, Mcp)
            at.speaks.capabilities = {"tools": {}}
            await asyncio.to_thread(keep, folder, at.issuer, at.mcp.url, at.issue())
            await asyncio.to_thread(login_elsewhere, folder, at)
            url = spelled.format(at.mcp.url.removeprefix("http") if "HTTP" in spelled else at.mcp.url)
            found = await command("inspect", url)
            assert (found.exit_code, found.stderr) == (0, "")

    run(scenario())


@pytest.mark.slow
@pytest.mark.parametrize("row", sampled_of(SECURED, [SECURED[0], SECURED[-1]]), ids=lambda row: row.name)
@req("AUTH-2", "AUTH-14")
def test_a_login_that_is_no_longer_valid_is_told_and_kept(row: Revision, folder: Path) -> None:
    async def scenario() -> None:
        async with world(row) as at:
            await asyncio.to_thread(keep, folder, at.issuer, at.mcp.url, "expired")
            kept = records(folder)
            for _ in range(2):
                found = await command("inspect", at.mcp.url)
                assert found.exit_code == 3
                assert "the tokens of the last login are no longer valid here" in found.stderr
                assert "pass --login to log in again" in found.stderr
            assert records(folder) == kept

    run(scenario())


@pytest.mark.slow
@req("AUTH-2", "AUTH-14", everywhere=True)
def test_a_login_that_lacks_a_scope_is_told_with_the_scope(folder: Path) -> None:
    async def scenario() -> None:
        async with world(SECURED[-1]) as at:
            at.needs = {"tools/call": "shop:read shop:write"}
            await asyncio.to_thread(keep, folder, at.issuer, at.mcp.url, at.issue("shop:read"), "shop:read")
            kept = records(folder)
            found = await command("call", "--unchecked", at.mcp.url, "pay")
            assert found.exit_code == 3
            assert "lacks the scopes shop:write, which this requires; pass --login" in found.stderr
            assert records(folder) == kept

    run(scenario())


@req("AUTH-22", everywhere=True)
def test_a_folder_that_others_can_write_is_not_taken_for_no_login(folder: Path) -> None:
    async def scenario() -> None:
        async with world(SECURED[-1]) as at:
            await asyncio.to_thread(keep, folder, at.issuer, at.mcp.url, at.issue())
            await asyncio.to_thread(folder.chmod, 0o777)
            found = await command("inspect", at.mcp.url)
            assert found.exit_code == 3
            assert "the token store cannot be read (other users can write into the folder" in found.stderr
            assert f"run `chmod 700 {shlex.quote(str(folder))}`" in found.stderr

    run(scenario())
