"""nginx and HAProxy with TLS in front of a server, with the configurations of docs/deploy.md.

HTTP-3, HTTP-31.
"""

from __future__ import annotations

import asyncio
import re
import shlex
import shutil
import socket
import ssl
import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import pytest
from aiohttp.abc import AbstractResolver, ResolveResult
from typing_extensions import override

import mcprev
from helpers.balancers import BALANCERS, HAPROXY, HOST, Balancer
from helpers.requirements import req
from helpers.running import run
from helpers.served_workers import free_port, served
from helpers.support import ROOT

CLIENT = "127.0.0.2"
"""The address of clients, which is not that of the balancer."""
APP = ROOT / "examples" / "deploy" / "shop.py"
pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="there is no openssl here")


class Here(AbstractResolver):
    """Every name is this machine."""

    @override
    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        return [ResolveResult(hostname=host, host="127.0.0.1", port=port, family=family, proto=0, flags=0)]

    @override
    async def close(self) -> None:
        """There is nothing to close."""


def certified(folder: Path) -> Path:
    """A file with a certificate of the host that has signed itself, and its key beside it, made by the command of the page."""
    page = (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8")
    (line,) = re.findall(r"^ *```sh\n *(openssl .*)\n *```$", page, re.MULTILINE)
    subprocess.run(shlex.split(line), cwd=folder, check=True, capture_output=True)
    return folder / f"{HOST}.pem"


class Deployed(NamedTuple):
    """A server behind a balancer: the ports without and with TLS, and a session of HTTP that trusts the certificate."""

    plain: int
    tls: int
    http: aiohttp.ClientSession

    @property
    def url(self) -> str:
        return f"https://{HOST}:{self.tls}/mcp"


@asynccontextmanager
async def deployed(
    balancer: Balancer, folder: Path, *options: str, target: Path = APP, unix: bool = False
) -> AsyncGenerator[Deployed, None]:
    """Serve with a configuration of the page, as it stands there but for ports and the place of the certificate."""
    trusted, here = certified(folder), f"unix:{folder}/shop.sock"
    options = ("--health", "--host", HOST, "--trusted-proxy", "unix" if unix else "127.0.0.1", *options)
    async with served(target, None, *options, *(("--http", here) if unix else ())) as server:
        ports = free_port(), free_port()
        text = balancer.with_tls(*ports, here if unix else f"127.0.0.1:{server.port}", trusted)
        context = ssl.create_default_context(cafile=str(trusted))
        connector = aiohttp.TCPConnector(ssl=context, resolver=Here(), local_addr=(CLIENT, 0))
        async with balancer.run(folder, text), aiohttp.ClientSession(connector=connector) as http:
            yield Deployed(*ports, http)


def each(*values: str) -> list[Any]:
    """A parameter of a test with each balancer."""
    return [param for balancer in BALANCERS for param in balancer.params(*values)]


@req("HTTP-3", everywhere=True)
@pytest.mark.parametrize(("balancer", "what"), each("a call"))
def test_calls_and_their_messages_come_through_tls_at_once(
    balancer: Balancer, what: str, tmp_path: Path
) -> None:
    app = tmp_path / "told.py"
    app.write_text(
        "import asyncio\nfrom pathlib import Path\nimport mcprev\n\napp = mcprev.App('told', '1.0')\n\n"
        "@app.tool\nasync def told(file: str, ctx: mcprev.Context) -> str:\n"
        "    await ctx.log('info', 'begun')\n"
        "    while not Path(file).exists():\n        await asyncio.sleep(0.01)\n"
        "    return 'done'\n"
    )

    async def main() -> None:
        async with deployed(balancer, tmp_path, target=app) as front:
            begun = asyncio.Event()
            target = mcprev.http(front.url, session=front.http)
            async with mcprev.connect(target, logging=lambda _: begun.set()) as client:
                file = tmp_path / "go"
                calling = asyncio.create_task(client.call_tool("told", {"file": str(file)}, log_level="info"))
                await begun.wait()  # it comes while the tool runs: nginx holds nothing back
                assert not calling.done()
                file.touch()
                assert (await calling).text == "done"

    run(main(), limit=60)


@req("HTTP-31", everywhere=True)
@pytest.mark.parametrize(("balancer", "what"), each("a redirect"))
def test_balancers_send_to_tls_and_bodies_have_the_limit_of_the_server(
    balancer: Balancer, what: str, tmp_path: Path
) -> None:
    async def main() -> None:
        async with deployed(balancer, tmp_path) as front:
            plain = f"http://{HOST}:{front.plain}/mcp"
            async with front.http.post(plain, data=b"{}", allow_redirects=False) as answer:
                assert (answer.status, answer.headers["Location"]) == (
                    308,
                    f"https://{HOST}{f':{front.plain}' if balancer is HAPROXY else ''}/mcp",
                )
            async with front.http.get(front.url.removesuffix("/mcp") + "/ready") as answer:
                assert answer.status == 200
            for size, status in ((4 * 1024 * 1024, 400), (4 * 1024 * 1024 + 1, 413)):
                body, headers = BytesIO(b" " * size), {"content-type": "application/json"}
                async with front.http.post(front.url, data=body, headers=headers) as answer:
                    assert answer.status == status

    run(main(), limit=60)


@req("SEC-6", everywhere=True)
@pytest.mark.parametrize(("balancer", "how"), each("TCP", "a Unix socket"))
def test_the_server_knows_the_client_and_its_url_and_nobody_can_claim_others(
    balancer: Balancer, how: str, tmp_path: Path
) -> None:
    app = tmp_path / "seen.py"
    app.write_text(
        "import mcprev\nfrom starlette.requests import Request\n\napp = mcprev.App('seen', '1.0')\n\n"
        "@app.route('/seen')\nasync def seen(request: Request) -> dict[str, object]:\n"
        "    return {'client': request.client.host, 'url': str(request.url)}\n"
    )
    lies = {
        "X-Forwarded-For": "6.6.6.6",
        "Forwarded": "for=6.6.6.6;host=evil.example",
        "X-Forwarded-Host": "evil.example",
    }

    async def main() -> None:
        async with deployed(balancer, tmp_path, target=app, unix=how != "TCP") as front:
            url = f"https://{HOST}:{front.tls}/seen"
            # HAProxy passes on the host as it was asked for, and nginx its name.
            public = url if balancer is HAPROXY else f"https://{HOST}/seen"
            for headers in ({}, lies):
                async with front.http.get(url, headers=headers) as answer:
                    assert await answer.json() == {"client": CLIENT, "url": public}

    run(main(), limit=60)
