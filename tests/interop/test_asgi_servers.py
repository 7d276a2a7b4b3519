"""An app below other ASGI servers than `mcprev serve`, with the options that docs/deploy.md says; `make proxies` installs them.

HTTP-3, HTTPM-5, HTTP-17, LIFE-16.
"""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Final

import aiohttp
import pytest

import mcprev
from helpers.balancers import HOST
from helpers.requirements import req
from helpers.running import run
from helpers.served_workers import free_port
from helpers.support import ROOT
from helpers.tcp_proxy import Proxy, proxy
from mcprev.revisions import DEFAULT, HttpShape
from mcprev.transports.http.server.options import HttpSettings
from prose.test_deploy import known_options

BIN: Final = ROOT / ".interop" / "asgi" / "bin"
APP: Final = "asgi_app:asgi"
ROWS: Final = [row for row in DEFAULT if row.http is not HttpShape.SSE]
SOME: Final = [[row for row in ROWS if row.handshake is shakes][-1] for shakes in (True, False)]
"""To a server, the revisions with sessions are the same."""
LIMIT: Final = 60.0
PAGE: Final = (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8")
COMMANDS: Final[Mapping[str, str]] = {
    "uvicorn": "uvicorn --port {port}",
    "gunicorn with uvicorn's workers": "gunicorn -k uvicorn_worker.UvicornWorker -b 127.0.0.1:{port}",
    "gunicorn with its own `asgi` workers": "gunicorn -k asgi -b 127.0.0.1:{port}",
    "hypercorn": "hypercorn -b 127.0.0.1:{port}",
    "granian": "granian --interface asgi --port {port}",
    "daphne": "daphne -p {port}",
}
"""How each server of the page is started, beside the options that the page says."""
pytestmark = pytest.mark.skipif(
    not (BIN / "granian").exists(), reason="the servers are not there: `make proxies` installs them"
)


def rows() -> dict[str, str]:
    """What the page says of each server."""
    (table,) = re.findall(r"^\| server \| start it with \|\n\|[-|]+\|\n((?:\|.*\n)+)", PAGE, re.MULTILINE)
    found = (line.strip("|").split("|") for line in table.splitlines())
    return {name.strip(): text.strip() for name, text in found}


def options(server: str) -> list[str]:
    """The options that the page says to set."""
    return shlex.split(" ".join(re.findall(r"^`(--[^`]+)`", rows()[server])))


@asynccontextmanager
async def started(server: str, folder: Path) -> AsyncGenerator[tuple[asyncio.subprocess.Process, int], None]:
    """Run the app below a server, until it answers."""
    port = free_port()
    program, *words = COMMANDS[server].format(port=port).split()
    here = {"ASGI_APP_FOLDER": str(folder), "PYTHONPATH": str(Path(__file__).parent)}
    process = await asyncio.create_subprocess_exec(
        BIN / program, *words, *options(server), APP, env={**os.environ, **here}, stderr=asyncio.subprocess.PIPE, stdout=2,
        start_new_session=True,
    )  # fmt: skip
    assert process.stderr is not None
    reading = asyncio.create_task(process.stderr.read())
    try:
        while not await answers(port):
            assert process.returncode is None, (await reading).decode()
        yield process, port
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # its workers too
        sys.stderr.buffer.write(await reading)  # for a test that fails
        await process.wait()


async def answers(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    return True


def test_each_server_of_the_page_is_run_and_waits_as_long_as_ours() -> None:
    assert rows().keys() == COMMANDS.keys()
    for server in COMMANDS.keys() - {"granian", "daphne"}:
        assert float(options(server)[1]) == HttpSettings().keep_alive
        assert "gunicorn" not in server or float(options(server)[3]) > HttpSettings().drain


def test_the_page_knows_their_options() -> None:
    helps = [
        subprocess.run([BIN / name, "--help"], capture_output=True, check=True, text=True).stdout
        for name in ("uvicorn", "gunicorn")
    ]
    there = set(re.findall(r"`(--[a-z0-9_-]+)", "".join(there for there, _ in known_options())))
    assert len(there) > 30
    assert [name for name in sorted(there) if not any(name in text for text in helps)] == []


@req("HTTP-3", "HTTPM-5", "HTTP-17", "LIFE-16", everywhere=True)
@pytest.mark.parametrize("server", COMMANDS)
def test_an_app_below_another_server_streams_resumes_and_ends_its_streams_when_that_stops(
    server: str, tmp_path: Path
) -> None:
    async def main() -> None:
        async with started(server, tmp_path) as (process, port), proxy(port) as between:
            await told_at_once_and_after_a_cut(between, tmp_path)
            await the_client_is_known(port)
            await stops(process, f"http://127.0.0.1:{port}/mcp", tmp_path, at_once=server == "daphne")

    run(main(), limit=LIMIT)


async def told_at_once_and_after_a_cut(between: Proxy, folder: Path) -> None:
    """A message comes while its call runs. A call whose stream is cut is resumed in a session, and never made twice."""
    for row in SOME:
        begun = asyncio.Event()
        target = mcprev.http(f"{between.origin}/mcp", headers={"Host": HOST})
        async with mcprev.connect(target, mode=row.name, logging=lambda _, begun=begun: begun.set()) as client:  # type: ignore[misc]
            call = client.call_tool("wait_for", {"name": row.name}, log_level="info")
            calling = asyncio.create_task(call)
            await begun.wait()
            between.cut()
            if row.handshake:
                (folder / row.name).touch()
                assert (await calling).text == "done"
            else:
                with pytest.raises(mcprev.ConnectionLost) as lost:
                    await calling
                assert lost.value.in_flight
        assert (folder / f"{row.name}.begun").read_text() == "x"


async def the_client_is_known(port: int) -> None:
    """What a proxy that is believed says of its client reaches the app, whoever reads it."""
    said = {"Host": HOST, "X-Forwarded-For": "203.0.113.7", "X-Forwarded-Proto": "https"}
    async with (
        aiohttp.ClientSession() as http,
        http.get(f"http://127.0.0.1:{port}/seen", headers=said) as answer,
    ):
        assert await answer.json() == {"client": "203.0.113.7", "url": f"https://{HOST}/seen"}


async def stops(
    process: asyncio.subprocess.Process, url: str, folder: Path, *, at_once: bool = False
) -> None:
    """With streams that nothing ends but the server and calls in progress, which are served, it ends and its lifespan does."""
    target = mcprev.http(url, headers={"Host": HOST})
    async with AsyncExitStack() as stack:
        calls: list[asyncio.Task[str]] = []
        for row in SOME:
            begun = asyncio.Event()
            client = await stack.enter_async_context(
                mcprev.connect(target, mode=row.name, logging=lambda _, begun=begun: begun.set())  # type: ignore[misc]
            )
            await stack.enter_async_context(client.listen(tools=True))

            async def call(client: mcprev.Client = client) -> str:
                return (await client.call_tool("wait_for", {"name": "last"}, log_level="info")).text

            calls.append(asyncio.create_task(call()))
            await begun.wait()
        process.send_signal(signal.SIGTERM)
        (folder / "last").touch()
        if at_once:
            await asyncio.gather(*calls, return_exceptions=True)
        else:
            assert await asyncio.gather(*calls) == ["done", "done"]
        assert await process.wait() in {0, -signal.SIGTERM}
        assert (folder / "ended").exists() is not at_once
