"""`mcprev inspect URL`, and what is said where HTTP is not installed."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import aiohttp
import pytest

import mcprev
from api.authors import Everything
from api.transports import listening
from auth.world import world
from fuzz.fuzzing import sampled_of
from helpers.named import SOME_ROWS
from helpers.raw_server import Exchange, Mcp, serve, text, tool
from helpers.requirements import req
from helpers.running import run
from helpers.shell import invoke
from mcprev.hosts.named_server import HEADERS_VARIABLE
from mcprev.revisions import DEFAULT, HttpShape, Revision

SECURED: Final = [row for row in DEFAULT if row.auth is not None]


async def inspect(*arguments: str) -> tuple[int, str, str]:
    """Run the command in a thread of this process, while its loop serves."""
    done = await asyncio.to_thread(invoke, None, "inspect", *arguments)
    return done.exit_code, done.stdout, done.stderr


@pytest.mark.parametrize("row", SOME_ROWS, ids=lambda row: row.name)
@req("NEG-6", "NEG-12", "PAGE-1")
def test_a_server_at_a_url_is_inspected(row: Revision) -> None:
    async def main() -> None:
        server = mcprev.Server(Everything(), "everything", "1", revisions=[row.name])
        async with listening(server, sse=True) as origin:
            url = origin + ("/sse" if row.http is HttpShape.SSE else "/mcp")
            code, out, err = await inspect(url, "--json")
            assert (code, err) == (0, "")
            document = json.loads(out)
            assert document["revision"] == row.name
            assert [tool["name"] for tool in document["tools"]] == ["tool0", "tool1", "tool2"]
            assert document["evidence"]

    run(main())


@req("NEG-6", everywhere=True)
@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"no \x1b[2J entry", "HTTP 401"),
        (b'{"jsonrpc":"2.0","error":{"code":-32600,"message":"no \\u001b[2J entry"}}', "entry"),
    ],
)
def test_headers_are_sent_and_refusals_told(body: bytes, says: str) -> None:
    async def main() -> None:
        async def answer(response_stream: Exchange) -> None:
            assert response_stream.headers["x-a"] == "b: c"
            await response_stream.respond(401, body)

        async with serve(answer) as raw:
            code, out, err = await inspect("--header", "X-A: b: c", raw.url)
            assert code in (1, 3)
            assert out == ""
            assert says in err
            assert "--login" in err
            assert "\x1b" not in err
            assert "Traceback" not in err

    run(main())


@req("SEC-6", everywhere=True)
def test_headers_of_a_bridge_are_those_of_the_environment() -> None:
    async def main() -> None:
        seen: list[tuple[str | None, str | None]] = []

        async def answer(response_stream: Exchange) -> None:
            seen.append((response_stream.headers.get("x-a"), response_stream.headers.get("x-c")))
            await response_stream.respond(401, b"no")

        async with serve(answer) as raw:
            bridge = ("--", sys.executable, "-m", "mcprev", "bridge", raw.url)
            await inspect("-e", f"{HEADERS_VARIABLE}=X-A: b: c\nX-C: d", *bridge)
        assert set(seen) == {("b: c", "d")}

    run(main())


@pytest.mark.slow
@pytest.mark.parametrize("row", sampled_of(SECURED, [SECURED[0], SECURED[-1]]), ids=lambda row: row.name)
@req("AUTH-2")
def test_somebody_logs_in_where_the_server_wants_that(
    row: Revision, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tokens are kept for the next command, which need not be at a terminal."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))

    async def main() -> None:
        async with world(row) as at:
            assert isinstance(at.speaks, Mcp)
            at.speaks.capabilities = {"tools": {}}
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-c", "from mcprev.cli import main; main()", "inspect", "--login", "--json", at.mcp.url,
                stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, env={**os.environ, "BROWSER": "true"},
            )  # fmt: skip
            assert process.stderr is not None
            assert b"log in" in await process.stderr.readline()
            page = (await process.stderr.readline()).decode().strip()
            async with aiohttp.ClientSession() as session, session.get(await at.browse(page)) as response:
                assert response.status == 200
            out, err = await process.communicate()
            assert (process.returncode, err) == (0, b"")
            assert json.loads(out)["revision"] == row.name
            code, _, said = await inspect(at.mcp.url)
            assert (code, said) == (0, "")
            if row is not DEFAULT[-1]:
                return  # the same at each revision, and another process
            registered = len(at.registered)
            at.needs = {"tools/list": "more"}
            code, _, said = await inspect(at.mcp.url)
            assert code != 0
            assert (
                "the token of the last login lacks the scopes more, which this requires; pass --login to log in again"
                in said
            )
            assert len(at.registered) == registered, "the registration of the kept tokens stays"
            at.needs = {}
            code, _, said = await inspect(at.mcp.url)
            assert (code, said) == (0, ""), "the kept tokens are as good as before"
            code, _, said = await inspect("--no-login", at.mcp.url)
            assert code == 3
            assert "HTTP 401" in said
            assert "log in with --login" in said
            code, _, refused = await inspect("--no-login", "--header", "Authorization: Bearer no", at.mcp.url)
            assert code == 3
            # In the words of the command line: arguments of Python are of no use here.
            assert [
                word for word in ("mcprev.http", "`auth`", "`headers`", "OAuth()") if word in said + refused
            ] == []

    run(main())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--header", "x", "http://127.0.0.1:1/"), "write a header as 'NAME: VALUE'"),
        (
            ("--header", "Authorization: Bearer ", "http://127.0.0.1:1/"),
            "the Authorization header has no token",
        ),
        (("--header", "authorization:", "http://127.0.0.1:1/"), "the Authorization header has no token"),
        (("--header", "a: b", "--", "command"), "headers require a server at a URL"),
        (("http://user:secret@host/",), "in a header instead"),
    ],
)
@req("NEG-6", everywhere=True)
def test_what_cannot_be_meant_is_refused(arguments: tuple[str, ...], said: str) -> None:
    done = invoke(None, "inspect", *arguments)
    assert done.exit_code == 2
    assert said in " ".join(done.stderr.split())
    assert "secret" not in done.output


@req("STDIO-11", everywhere=True)
def test_what_is_missing_is_named_and_nothing_else_needs_it() -> None:
    """The path over stdio imports no HTTP library; `mcprev.http` without one says what to install."""
    script = """
import sys
from typing import Final
sys.modules["aiohttp"] = sys.modules["httptools"] = None
import mcprev, mcprev.client.connect, mcprev.transports.stdio.client
mcprev.stdio, mcprev.connect, mcprev.Server
try:
    mcprev.http
except ImportError as error:
    assert isinstance(error, mcprev.McpError)
    assert "mcprev[http]" in str(error), error
else:
    raise SystemExit("there was no error")
"""
    subprocess.run([sys.executable, "-W", "error", "-c", script], check=True)


@req("STDIO-11", everywhere=True)
def test_connecting_over_a_pipe_imports_no_http() -> None:
    script = """
import sys
from typing import Final
import mcprev
mcprev.stdio, mcprev.connect, mcprev.memory, mcprev.Client
found = {"aiohttp", "uvicorn", "yarl", "http.client", "mcprev.transports.http.client.target"} & set(sys.modules)
assert not found, found
"""
    subprocess.run([sys.executable, "-W", "error", "-c", script], check=True)


CALL: Final = """
import asyncio, sys
sys.modules["httptools"] = sys.modules["uvicorn"] = None
import mcprev
async def main():
    async with mcprev.connect(mcprev.http(sys.argv[1]), mode=sys.argv[2]) as client:
        print((await client.call_tool("t")).content[0].text)
asyncio.run(main())
"""


@pytest.mark.slow
@req("HTTP-4", everywhere=True)
def test_a_client_needs_nothing_of_what_a_server_needs() -> None:
    async def main() -> None:
        row = DEFAULT[-1]
        async with serve(Mcp(row, {"tools/list": {"tools": [tool("t")]}, "tools/call": text("hi")})) as raw:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-W", "error", "-c", CALL, raw.url, row.name, stdout=asyncio.subprocess.PIPE
            )
            out, _ = await process.communicate()
            assert out == b"hi\n"

    run(main())
