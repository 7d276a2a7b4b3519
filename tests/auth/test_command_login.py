"""`mcprev login` and `logout`, the options of a login, and what commands advise, over HTTP and with a browser of the tests."""

from __future__ import annotations

import asyncio
import base64
import json
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest
from click.testing import CliRunner, Result

from auth.test_client_device import offer
from auth.world import World, basic, query, world
from helpers.raw_server import Exchange, Mcp, Raw, text
from helpers.requirements import req
from helpers.running import run
from mcprev.auth.client import device, loopback
from mcprev.auth.client.store import TokenKey
from mcprev.cli import main
from mcprev.revisions import DEFAULT, Revision
from mcprev.transports.http.urls import proxy_of

SECURED: Final = [row for row in DEFAULT if row.auth is not None]
ROW: Final = SECURED[-1]
REPLIES: Final[dict[str, Any]] = {"tools/call": text("hi"), "tools/list": {"tools": []}}
at_each = pytest.mark.parametrize("row", SECURED, ids=lambda row: row.name)


async def command(*words: str, **env: str) -> Result:
    return await asyncio.to_thread(lambda: CliRunner().invoke(main, words, env=env, catch_exceptions=False))


@pytest.fixture(name="folder", autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "mcprev").mkdir(mode=0o700)
    return tmp_path / "mcprev" / "tokens"


def keys(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if not path.name.startswith(".")]


def visit_with(at: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The user's browser goes to the page and back to this machine."""

    def opened(url: str) -> bool:
        said = query(url)
        at.pages.append(url)
        at.codes["code"] = said
        back = urlencode({"code": "code", "state": said["state"], "iss": at.issuer})
        with urlopen(f"{said['redirect_uri']}?{back}") as page:  # noqa: S310 - of this machine
            assert page.status == 200
        return True

    monkeypatch.setattr(loopback, "open_browser", opened)


@pytest.mark.slow
@at_each
@req("AUTH-11", "AUTH-22", everywhere=True)
def test_a_user_logs_in_once_and_out(row: Revision, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        async with world(row, REPLIES) as at:
            visit_with(at, monkeypatch)
            claims = base64.urlsafe_b64encode(json.dumps({"sub": "1", "email": "ann@example.org"}).encode())
            at.grants = {"id_token": f"e30.{claims.decode().rstrip('=')}.x"}
            found = await command("login", at.mcp.url)
            assert (found.exit_code, found.stdout) == (
                0, f"logged in at {at.issuer} as ann@example.org, for {at.mcp.url}\n",
            )  # fmt: skip
            for _ in range(2):
                assert (await command("call", "--unchecked", at.mcp.url, "any")).exit_code == 0
            assert len(at.pages) == 1
            found = await command("logout", at.mcp.url)
            assert (found.exit_code, found.stdout) == (0, f"logged out at {at.issuer}, for {at.mcp.url}\n")
            assert keys(folder) == [], "the registration, too"
            assert "there is no login" in (await command("logout", at.mcp.url)).stdout
            found = await command("call", "--unchecked", at.mcp.url, "any")
            assert found.exit_code == 3
            assert "log in with --login" in found.stderr

    run(scenario())


@pytest.mark.slow
@req("AUTH-12", "AUTH-24", everywhere=True)
def test_a_client_that_is_named_is_used_and_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its secret comes from the environment, and is nowhere in what is printed."""

    async def scenario() -> None:
        async with world(ROW, REPLIES) as at:
            visit_with(at, monkeypatch)
            del at.metadata["registration_endpoint"]
            found = await command("login", at.mcp.url)
            assert found.exit_code == 3
            assert "pass it with --client-id ID" in found.stderr
            assert "--login" not in found.stderr.replace("mcprev login", "")
            at.resource["resource"] = at.mcp.origin
            words: tuple[str, ...] = ("--client-id", "me", "--scope", "read write", "--scope", "more")
            found = await command("login", *words, at.mcp.url, MCPREV_CLIENT_SECRET="hidden")
            assert "pass it with --resource URL" in found.stderr
            words = (*words, "--resource", at.mcp.origin)
            found = await command("login", *words, at.mcp.url, MCPREV_CLIENT_SECRET="hidden")
            assert found.exit_code == 0, found.output
            assert query(at.pages[0])["scope"] == "read write more"
            assert query(at.pages[0])["resource"] == at.mcp.origin
            assert basic(at.asked[0]["authorization"]) == ("me", "hidden")
            assert "hidden" not in found.output
            found = await command("call", "--unchecked", "--resource", at.mcp.origin, at.mcp.url, "any")
            assert found.exit_code == 0, found.output
            assert len(at.pages) == 1

    run(scenario())


@pytest.mark.parametrize("agreed", [True, False])
@req("AUTH-24", everywhere=True)
def test_a_secret_goes_to_no_server_that_the_user_has_not_named(
    agreed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        async with world(ROW, REPLIES) as at:
            visit_with(at, monkeypatch)
            other = at.auth.origin.replace("127.0.0.1", "localhost")
            at.resource["authorization_servers"] = [other]
            at.documents[f"http://127.0.0.1:{at.auth.port}/.well-known/oauth-authorization-server"] = {
                **at.metadata, "issuer": other, "authorization_response_iss_parameter_supported": False,
            }  # fmt: skip
            at.back["iss"] = None
            monkeypatch.setattr(World, "issuer", property(lambda _: other))
            named = ("--issuer", other) if agreed else ()
            words = ("--client-id", "me", *named, at.mcp.url)
            found = await command("login", *words, MCPREV_CLIENT_SECRET="hidden")
            assert found.exit_code == (0 if agreed else 3), found.output
            assert len(at.asked) == agreed
            if not agreed:
                assert f"pass --issuer {other}" in found.stderr

    run(scenario())


@req("AUTH-24", everywhere=True)
def test_a_secret_is_no_word_of_a_command_line() -> None:
    async def scenario() -> None:
        found = await command("login", "--client-secret", "https://mcp.example/mcp")
        assert (found.exit_code, "--client-secret requires --client-id" in found.stderr) == (2, True)
        async with world(ROW, REPLIES) as at:
            found = await command("login", "--client-id", "me", "--client-secret", at.mcp.url)
            assert found.exit_code == 3
            assert "set MCPREV_CLIENT_SECRET, or run this at a terminal" in found.stderr

    run(scenario())


@pytest.mark.slow
@req("AUTH-18", "AUTH-22", everywhere=True)
def test_a_user_logs_in_with_a_code_at_another_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "SHORTEST", 0.0)

    async def scenario() -> None:
        async with world(ROW, REPLIES) as at:
            found = await command("login", "--device", at.mcp.url)
            assert "log in with a browser, without --device" in found.stderr
            offer(at, 1)
            found = await command("login", "--device", at.mcp.url)
            assert found.exit_code == 0, found.output
            assert "WDJB-MJHT" in found.stderr
            assert "https://auth.example/device" in found.stderr
            assert "hidden-device-code" not in found.output
            assert (await command("call", "--unchecked", at.mcp.url, "any")).exit_code == 0

    run(scenario())


@req("AUTH-22", everywhere=True)
def test_a_login_is_for_a_server_at_a_url() -> None:
    async def scenario() -> None:
        for name in ("login", "logout"):
            found = await command(name, "--", "python", "x.py")
            assert (found.exit_code, "for a server at a URL" in found.stderr) == (2, True)
        async with world(ROW, REPLIES) as at:
            at.good[""] = set()

            async def admit(exchange: Exchange) -> None:
                await at.speaks(exchange)

            at.admit = admit  # type: ignore[method-assign]
            found = await command("login", at.mcp.url)
            assert (found.exit_code, found.stdout) == (0, f"{at.mcp.url} requires no login\n")

    run(scenario())


# -- proxies -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("variables", "url", "proxy"),
    [
        ({"HTTPS_PROXY": "http://p:1"}, "https://a.example/mcp", "http://p:1"),
        ({"HTTPS_PROXY": "http://p:1"}, "http://a.example/mcp", None),
        ({"HTTP_PROXY": "http://p:1"}, "http://a.example/mcp", "http://p:1"),
        ({"https_proxy": "http://p:1", "no_proxy": "a.example"}, "https://a.example/mcp", None),
        ({"https_proxy": "http://p:1", "NO_PROXY": ".example"}, "https://a.example/mcp", None),
        ({"https_proxy": "http://p:1", "NO_PROXY": "*"}, "https://a.example/mcp", None),
        ({"https_proxy": "http://p:1", "NO_PROXY": "b.example"}, "https://a.example/mcp", "http://p:1"),
        ({}, "https://a.example/mcp", None),
    ],
)
@req("HTTP-1", everywhere=True)
def test_which_proxy_the_environment_names(
    variables: dict[str, str], url: str, proxy: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert proxy_of(url) == proxy


@req("HTTP-1", "SEC-1", everywhere=True)
def test_a_command_uses_the_proxy_and_asks_it_for_nothing_private() -> None:
    """The proxy finds the address of the server, which this machine knows nothing of."""

    async def scenario() -> None:
        speaks, asked = Mcp(ROW, REPLIES), list[str]()

        async def forward(exchange: Exchange) -> None:
            asked.append(exchange.path)
            if refuses:
                there = 'Bearer resource_metadata="http://10.0.0.1/secret"'
                await exchange.respond(401, b"", {"WWW-Authenticate": there})
            else:
                await speaks(exchange)

        speaks.capabilities = {"tools": {}}
        proxy = Raw(forward)
        await proxy.start()
        refuses = False
        env = {"HTTP_PROXY": proxy.origin, "HTTPS_PROXY": proxy.origin, "NO_PROXY": ""}
        found = await command("inspect", "http://mcp.example/mcp", **env)
        assert found.exit_code == 0, found.output
        assert {path.partition("?")[0] for path in asked} == {"http://mcp.example/mcp"}
        refuses = True
        asked.clear()
        found = await command("login", "--private", "http://mcp.example/mcp", **env)
        assert found.exit_code == 3
        assert not [path for path in asked if "10.0.0.1" in path]
        await proxy.stop()

    run(scenario())


@pytest.mark.slow
@req("STDIO-6", everywhere=True)
def test_what_a_server_prints_is_shown_on_demand(tmp_path: Path) -> None:
    file = tmp_path / "shop.py"
    file.write_text(
        "import sys\nimport mcprev\napp = mcprev.App('shop', '1.0')\n"
        "@app.tool\ndef any() -> str:\n    sys.stderr.write('ready\\nto \\x1b[2Jserve')\n    return 'hi'\n"
    )

    async def scenario() -> None:
        for words, shown in (((), False), (("--stderr",), True)):
            found = await command("call", *words, str(file), "any")
            assert (found.exit_code, found.stdout) == (0, "hi\n"), found.output
            assert ("ready\n" in found.stderr) is shown
            assert ("serve" in found.stderr) is shown
            assert "\x1b[2J" not in found.stderr

    run(scenario())


@req("SEC-4", everywhere=True)
def test_keys_of_tokens_have_three_parts() -> None:
    assert TokenKey._fields == ("issuer", "resource", "client_id"), "as `keys_on_disk` reads them"
