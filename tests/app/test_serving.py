"""Serving an app: a function that makes it for `mcprev serve`, and mounting it in web frameworks."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from click.testing import CliRunner
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.routing import Mount, Route

import mcprev
from helpers.http_in_process import InProcess
from helpers.named import ROW_D, ROW_E
from helpers.running import run, until
from mcprev.cli import main as command
from mcprev.revisions import Revision

MODULE = """
import mcprev

def make():
    app = mcprev.App("made", "1")

    @app.tool
    async def ping() -> str:
        return "pong"

    return app

def nothing():
    return 3

def wants(name):
    return make()

async def later():
    return make()
"""


def text_of(result: Any) -> str:
    return "".join(block.text for block in result.content)


def test_the_command_serves_what_a_function_makes(tmp_path: Path) -> None:
    (tmp_path / "made.py").write_text(MODULE, encoding="utf-8")

    async def main() -> None:
        serve = "from mcprev.cli import main; main()"
        target = mcprev.stdio(sys.executable, "-c", serve, "serve", "made.py:make", cwd=tmp_path)
        async with mcprev.connect(target) as client:
            assert text_of(await client.call_tool("ping", {})) == "pong"

    run(main())


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("nothing", "'nothing()' in odd.py is not a mcprev.Server or mcprev.App but a int"),
        (
            "wants",
            "'wants' in odd.py cannot be called without arguments: missing a required argument: 'name'",
        ),
        ("later", "'later' in odd.py is async; create the server in a function that is not async"),
    ],
)
def test_the_command_says_what_is_wrong_with_a_function(
    name: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "odd.py").write_text(MODULE, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    done = CliRunner().invoke(command, ["serve", f"odd.py:{name}"])
    assert done.exit_code == 1
    assert says in done.output


# -- mounted -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("row", [ROW_D, ROW_E], ids=lambda row: row.name)
def test_a_tool_reads_the_headers_of_its_http_request(row: Revision) -> None:
    app = mcprev.App("headers", "1")

    @app.tool
    async def color(*, ctx: mcprev.Context) -> str:
        return ctx.headers.get("x-color", "none")

    async def main() -> None:
        async with mcprev.connect(app, mode=row.name) as client:
            assert (await client.call_tool("color", {})).text == "none"
        connector = InProcess(app.asgi())
        async with aiohttp.ClientSession(connector=connector, headers={"X-Color": " red"}) as session:
            target = mcprev.http(f"{connector.origin}/mcp", session=session)
            async with mcprev.connect(target, mode=row.name) as client:
                assert (await client.call_tool("color", {})).text == "red"

    run(main())


INITIALIZE = {
    "jsonrpc": "2.0", "id": 1, "method": "initialize",
    "params": {"protocolVersion": ROW_D.version, "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}},
}  # fmt: skip
HEADERS = {"accept": "application/json, text/event-stream"}
HERE = "https://mcp.example/mcp"


async def verify(token: str) -> mcprev.Access | None:
    return mcprev.Access("ann", audience=HERE) if token.startswith("good") else None


def asgi(*, auth: bool) -> Any:
    app = mcprev.App("a", "1")
    guard = mcprev.Bearer(verify, resource=HERE, authorization_servers=["https://as.example"])
    return app.asgi(auth=guard) if auth else app.asgi()


def at_the_root(*, auth: bool) -> Any:
    outer = FastAPI()
    outer.mount("/", asgi(auth=auth))
    return outer


def at_a_route(*, auth: bool) -> Any:
    return Starlette(routes=[Route("/mcp", asgi(auth=auth))])


def at_a_prefix(*, auth: bool) -> Any:
    return Starlette(routes=[Mount("/mcp", asgi(auth=auth))])


async def post(outer: Any, path: str, token: str | None = None) -> tuple[int, str]:
    """The status of an `initialize` and its challenge; redirections are not followed."""
    connector = InProcess(outer)
    headers = HEADERS if token is None else {**HEADERS, "authorization": f"Bearer {token}"}
    async with (
        aiohttp.ClientSession(connector=connector) as session,
        session.post(
            connector.origin + path, json=INITIALIZE, headers=headers, allow_redirects=False
        ) as response,
    ):
        found = response.status, response.headers.get("www-authenticate", "")
    await until(lambda: not connector.lanes)
    return found


async def document(outer: Any, path: str) -> Any:
    connector = InProcess(outer)
    async with (
        aiohttp.ClientSession(connector=connector) as session,
        session.get(connector.origin + path) as response,
    ):
        assert response.status == 200
        found = await response.json()
    await until(lambda: not connector.lanes)
    return found


@pytest.mark.parametrize("mounted", [at_the_root, at_a_route])
def test_no_request_is_redirected(mounted: Any) -> None:
    assert run(post(mounted(auth=False), "/mcp")) == (200, "")


@pytest.mark.parametrize(("outer", "path"), [(at_the_root, "/mcp"), (at_a_prefix, "/mcp/")])
def test_a_client_finds_the_metadata_of_a_mounted_server(outer: Any, path: str) -> None:
    async def main() -> None:
        app = outer(auth=True)
        status, challenge = await post(app, path)
        assert status == 401
        url = challenge.split('resource_metadata="')[1].split('"')[0]
        found = await document(app, url.removeprefix("https://mcp.example"))
        assert found["resource"] == HERE
        assert found["authorization_servers"] == ["https://as.example"]
        assert await post(app, path, "good") == (200, "")

    run(main())
