"""What an app or a server says of being served over HTTP holds in every way of serving it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
from click.testing import CliRunner
from starlette.applications import Starlette
from starlette.routing import Mount

import mcprev
from auth.guarded import AsgiAsk, Guarded, Tokens, asked, over_http
from helpers.named import ROW_E
from helpers.requirements import req
from helpers.running import run
from mcprev.cli import main as command
from mcprev.serving import running
from mcprev.transports.http.server.asgi import AsgiApp
from mcprev.transports.http.server.options import HttpSettings

ORIGIN: Final = "https://app.example"


def an_app(**options: Any) -> mcprev.App:
    app = mcprev.App("demo", "1", **options)

    @app.tool
    async def echo() -> str:
        return "echoed"

    return app


def a_server(**options: Any) -> mcprev.Server:
    return mcprev.Server(Guarded(), "demo", "1", **options)


MADE: Final = pytest.mark.parametrize("make", [an_app, a_server])


def by_asgi(made: Any, patch: pytest.MonkeyPatch, **options: Any) -> AsgiApp:
    app: AsgiApp = made.asgi(**options)
    return app


class Kept(list[AsgiApp]):
    """Keeps the app that would be served."""

    def run_http(self, app: AsgiApp, host: str, port: int, **_: object) -> None:
        self.append(app)


def by_run_http(made: Any, patch: pytest.MonkeyPatch, **options: Any) -> AsgiApp:
    found = Kept()
    patch.setattr(running, "run_http", found.run_http)
    made.run_http(**options)
    return found[0]


def by_serve_http(made: Any, patch: pytest.MonkeyPatch, **options: Any) -> AsgiApp:
    found: list[AsgiApp] = []

    async def serve_http(app: AsgiApp, host: str, port: int, *, ready: object) -> None:
        found.append(app)

    patch.setattr(running, "serve_http", serve_http)
    run(getattr(made, "server", made).serve_http(**options))
    return found[0]


Way = Callable[..., AsgiApp]
WAYS: Final = pytest.mark.parametrize("way", [by_asgi, by_run_http, by_serve_http])


@req("HTTP-3", everywhere=True)
@MADE
@WAYS
def test_options_hold_in_every_way_and_each_can_be_replaced(
    make: Callable[..., Any], way: Way, monkeypatch: pytest.MonkeyPatch
) -> None:
    auth, other = Tokens().bearer(), Tokens().bearer()
    made = make(auth=auth, http={"origins": [ORIGIN], "drain": 7, "sse": True, "path": "/here"})
    default = HttpSettings()
    said = way(made, monkeypatch).settings
    assert (said.auth, said.origins, said.drain) == (auth, [ORIGIN], 7)
    assert (said.sse_paths, said.path, said.idle) == (("/sse", "/messages"), "/here", default.idle)
    replaced = way(made, monkeypatch, auth=other, drain=1.0).settings
    assert (replaced.auth, replaced.drain, replaced.path) == (other, 1.0, "/here")

    def alone(scope: object) -> None:
        return None

    with pytest.raises(
        ValueError, match=r"`principal` and `auth` exclude each other.*; pass None for the other"
    ):
        way(made, monkeypatch, principal=alone)
    taken_back = way(made, monkeypatch, auth=None, principal=alone).settings
    assert (taken_back.auth, taken_back.principal) == (None, alone)
    again = way(made, monkeypatch).settings  # nothing of it stays
    assert (again.auth, again.principal, again.drain) == (auth, None, 7)


@req("HTTP-3", everywhere=True)
@MADE
@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        (
            {"http": {"origin": "x"}},
            TypeError,
            "no option 'origin' of HTTP; the options are path, json_response",
        ),
        ({"http": {"path": "mcp"}}, ValueError, "the path 'mcp' must begin with a slash"),
        (
            {"auth": True, "http": {"auth": True}},
            ValueError,
            "`auth` is given twice: pass it as `auth=` or in",
        ),
        ({"auth": True, "http": {"principal": len}}, ValueError, "`principal` and `auth` exclude each other"),
        ({"auth": "ann-token"}, TypeError, "`auth` must not be a str; pass mcprev.StaticTokens("),
        ({"http": {"auth": "ann-token"}}, TypeError, "`auth` must not be a str; pass mcprev.StaticTokens("),
        (
            {"auth": mcprev.Bearer},
            TypeError,
            "`auth` is the class Bearer, not an object; pass mcprev.StaticTokens(",
        ),
        (
            {"store": "sqlite:///app.db"},
            TypeError,
            "`store` must not be a str; pass a store, such as mcprev.open_store(",
        ),
    ],
)
def test_wrong_options_are_refused_when_they_are_said(
    make: Callable[..., Any], options: Any, error: type[Exception], says: str
) -> None:
    with pytest.raises(error) as caught:
        getattr(make(**options), "server", None)
    assert says in str(caught.value)
    assert "ann-token" not in str(caught.value)  # it may be a secret


@req("HTTP-3", everywhere=True)
@MADE
def test_an_unknown_option_is_refused_in_a_call_too(make: Callable[..., Any]) -> None:
    with pytest.raises(TypeError, match="no option 'hots' of HTTP"):
        make().asgi(hots=["mcp.example"])


@req("HTTP-3", everywhere=True)
@pytest.mark.parametrize(("name", "value"), [("auth", Tokens().bearer()), ("http", {"drain": 1})])
def test_a_mounted_app_says_nothing_of_serving_in_vain(name: str, value: object) -> None:
    options: Any = {name: value}
    with pytest.raises(
        ValueError, match=f"`{name}` of the mounted app would have no effect; pass it to the app"
    ):
        an_app().mount(an_app(**options), "other")
    an_app(**options).mount(an_app(http={}), "other")


@req("HTTP-3", everywhere=True)
def test_a_token_is_needed_over_sockets() -> None:
    verb, path, headers, body = asked(ROW_E)

    async def main() -> None:
        server = an_app(
            auth=Tokens(alice=mcprev.Access("a", audience="https://mcp.example/mcp")).bearer()
        ).server
        async with over_http(server) as ask:
            assert (await ask(verb, path, [*headers.items()], body)).status == 401
            good = {**headers, "authorization": "Bearer alice"}
            assert (await ask(verb, path, [*good.items()], body)).status == 200

    run(main(), has_both_ends=True)


@req("HTTP-3", everywhere=True)
def test_what_is_mounted_in_a_framework_needs_tokens_and_counts_calls() -> None:
    verb, _, headers, body = asked(ROW_E)

    async def main() -> None:
        app = an_app(
            auth=Tokens(alice=mcprev.Access("a", audience="https://mcp.example/mcp")).bearer(),
            middleware=[mcprev.RateLimit("1/hour")],
        )
        web: Any = Starlette(routes=[Mount("/at", app.asgi())])
        ask = AsgiAsk(web)
        assert (await ask(verb, "/at/mcp", [*headers.items()], body)).status == 401
        good = [*headers.items(), ("authorization", "Bearer alice")]
        assert (await ask(verb, "/at/mcp", good, body)).text == "echoed"
        assert "too many calls" in (await ask(verb, "/at/mcp", good, body)).text

    run(main())


def serve(folder: Path, patch: pytest.MonkeyPatch, *arguments: str) -> tuple[AsgiApp | None, str]:
    """Run `mcprev serve` up to where it would listen; the app that it would serve, and the output."""
    found = Kept()
    patch.chdir(folder)
    patch.setattr(sys, "path", [*sys.path])
    patch.setattr(sys, "modules", {**sys.modules})
    patch.setattr(running, "run_http", found.run_http)
    done = CliRunner().invoke(command, ["serve", *arguments])
    return (found[0] if found else None), done.output


HEAD: Final = """
import mcprev

async def verify(token: str):
    return None

def bearer():
    return mcprev.Bearer(verify, resource="https://mcp.example/mcp", authorization_servers=["https://as.example"])
"""


@req("HTTP-3", everywhere=True)
def test_the_command_serves_what_a_file_says_and_replaces_what_its_options_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "said.py").write_text(
        f"{HEAD}\napp = mcprev.App('a', '1', auth=bearer(), http={{'drain': 5, 'path': '/a', 'origins': ['null']}})\n"
        "asgi = mcprev.App('b', '1').asgi(auth=bearer(), path='/b')\n",
        encoding="utf-8",
    )
    app, told = serve(tmp_path, monkeypatch, "said.py:app", "--http", "0", "--drain", "3")
    assert app is not None, told
    assert (app.settings.drain, app.settings.path, app.settings.origins) == (3, "/a", ["null"])
    assert app.settings.auth is not None
    app, told = serve(tmp_path, monkeypatch, "said.py:asgi", "--http", "0", "--drain", "3")
    assert app is not None, told
    assert (app.settings.drain, app.settings.path) == (3, "/b")
    assert app.settings.auth is not None
