"""Logins, metadata and calls through the proxies that the environment names: which URLs, where they may lead, and over TLS."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import json
import os
import re
import socket
import ssl
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

import aiohttp
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

import mcprev
from auth.test_client_ssrf import fetch
from auth.test_command_login import REPLIES, ROW
from auth.world import PRM, World, query, world
from helpers.raw_server import Exchange, serve
from helpers.requirements import req
from helpers.running import run
from mcprev.auth.client.runner import FlowRunner
from mcprev.auth.client.steps import HttpReply
from mcprev.bridge.several.credentials import auth_of
from mcprev.bridge.several.options import UserLogin
from mcprev.transports.http.urls import proxy_of

HOST: Final = "mcp.example"
"""A name that only the proxy knows."""
VARIABLES: Final = ("http_proxy", "https_proxy", "no_proxy", "all_proxy")


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.mark.parametrize(
    ("excepted", "host", "direct"),
    [
        ("a.example", "a.example", True),
        ("a.example", "b.a.example", True),
        ("a.example", "ba.example", False),
        (".example", "a.example", True),
        ("*.example", "a.example", True),
        ("*.a.example", "b.example", False),
        ("A.Example", "a.example", True),
        ("a.example", "a.example.", True),
        ("x , a.example", "a.example", True),
        ("a.example:443", "a.example", True),
        ("a.example:8443", "a.example", False),
        ("a.example:8443", "a.example:8443", True),
        (".example:8443", "a.example:8443", True),
        ("10.0.0.0/8", "10.1.2.3", True),
        ("10.0.0.0/8", "11.1.2.3", False),
        ("10.1.2.3", "10.1.2.3", True),
        ("10.1.2.3:8443", "10.1.2.3:8443", True),
        ("fd00::/8", "[fd00::1]", True),
        ("[fd00::1]", "[fd00::1]", True),
        ("[fd00::1]:8443", "[fd00::1]:8443", True),
        ("fd00::/8", "[fe80::1]", False),
        ("10.0.0.0/8", "a.example", False),
        ("*", "a.example", True),
        ("", "a.example", False),
        (",,", "a.example", False),
        ("", "localhost", True),
        ("", "app.localhost:3000", True),
        ("", "127.0.0.1:3000", True),
        ("", "[::1]:3000", True),
    ],
)
@req("HTTP-1", everywhere=True)
def test_which_hosts_are_reached_without_the_proxy(
    excepted: str, host: str, direct: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "proxy:3128")
    monkeypatch.setenv("NO_PROXY", excepted)
    assert proxy_of(f"https://{host}/mcp") == (None if direct else "http://proxy:3128")


@pytest.mark.parametrize(
    ("url", "private", "why"),
    [
        ("http://10.0.0.1/x", False, "http"),
        ("https://10.0.0.1/x", False, "private"),
        ("https://[fd00::1]/x", False, "private"),
        ("https://inside.example/x", False, "10.1.2.3 is in a private network; `private=True` allows that"),
        ("https://both.example/x", False, "10.1.2.3 is in a private network; `private=True` allows that"),
        ("https://unknown.example/x", False, "this machine finds no address of unknown.example"),
        ("https://outside.example/x", False, None),
        ("https://inside.example/x", True, None),
        ("https://unknown.example/x", True, None),
        (f"https://{HOST}/x", False, None),
    ],
)
@req("SEC-1", "AUTH-19", everywhere=True)
def test_a_proxy_is_asked_for_nothing_private(
    url: str, private: bool, why: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A check that this machine cannot make denies; the host of the server is the user's affair."""
    known = {"inside": ["10.1.2.3"], "both": ["93.184.215.14", "10.1.2.3"], "outside": ["93.184.215.14"]}
    usual = socket.getaddrinfo

    def look_up(host: Any, port: Any, *args: Any, **given: Any) -> Any:
        if not str(host).endswith(".example"):
            return usual(host, port, *args, **given)
        if str(host).partition(".")[0] not in known:
            raise socket.gaierror(socket.EAI_NONAME, "no such name")
        return [
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, port))
            for each in known[str(host).partition(".")[0]]
        ]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)

    async def main() -> None:
        async def refuse(exchange: Exchange) -> None:
            asked.append(f"{exchange.verb} {exchange.path}")
            await exchange.respond(502)

        asked = list[str]()
        async with serve(refuse) as proxy:
            for name in ("HTTP_PROXY", "HTTPS_PROXY"):
                monkeypatch.setenv(name, f"http://me:hidden@127.0.0.1:{proxy.port}")
            runner = FlowRunner(f"https://{HOST}/mcp", None, private=private, seconds=5, trust_env=True)
            found: HttpReply = await runner.run(fetch(url))
        assert found.status == 0
        assert "hidden" not in found.why
        if why is None:
            assert [each.partition(" ")[0] for each in asked] == ["CONNECT"]
        else:
            assert asked == []
            assert why in found.why

    run(main())


@req("AUTH-11", everywhere=True)
@pytest.mark.parametrize("auth", [
    {"type": "oauth"},
    {"type": "client_credentials", "issuer": "https://login.example", "clientId": "me", "clientSecret": "x"},
], ids=lambda auth: auth["type"])  # fmt: skip
def test_logins_of_a_configuration_use_the_proxies_too(
    auth: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    found = auth_of({"auth": auth})
    assert isinstance(found, UserLogin | mcprev.ClientCredentials)
    assert found.trust_env


# -- a whole login over TLS, through CONNECT -----------------------------------------------------------------


def certified(folder: Path) -> Path:
    """A key and its certificate for the host, which nobody has signed but itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, HOST)])
    now = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(HOST)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    path, pem = folder / "both.pem", serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    path.write_bytes(private + made.public_bytes(pem))
    return path


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError, ssl.SSLError):
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    writer.close()


class ForwardProxy:
    """Makes tunnels to ports of this machine, whatever the host, and ends TLS in them, as the servers behind do not speak it."""

    def __init__(self, certificate: Path) -> None:
        self.asked: list[str] = []
        """What was asked for, with the credentials that came with it."""
        self.origin = ""
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._tls.load_cert_chain(certificate)
        self._tasks: set[asyncio.Task[None]] = set()

    async def _tunnel(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        line, _, fields = head.partition("\r\n")
        verb, place, _ = line.split(" ")
        password = re.search(r"proxy-authorization: (.*)\r", fields, re.IGNORECASE)
        self.asked.append(f"{verb} {place} {password[1] if password else None}")
        there = await asyncio.open_connection("127.0.0.1", int(place.rpartition(":")[2]))
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        with contextlib.suppress(ConnectionError, ssl.SSLError):  # of a client that trusts nobody
            await writer.start_tls(self._tls)
            await asyncio.gather(pump(reader, there[1]), pump(there[0], writer))
        there[1].close()
        writer.close()

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._tunnel(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None, None]:
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.origin = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        try:
            yield
        finally:
            server.close()
            for task in (tasks := set(self._tasks)):
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await server.wait_closed()


def name_by_host(at: World) -> None:
    """Let the documents name the host that only the proxy knows."""
    text = json.dumps({"metadata": at.metadata, "resource": at.resource}).replace(
        "http://127.0.0.1", f"https://{HOST}"
    )
    found = json.loads(text)
    at.metadata.update(found["metadata"])
    at.resource.update(found["resource"])
    at.challenge["resource_metadata"] = f"https://{HOST}:{at.mcp.port}{PRM}/mcp"


async def log_in(at: World, page: str) -> None:
    """The user says yes at a page, and the browser goes back to the command."""
    said = query(page)
    at.codes["code"] = said
    back = {"code": "code", "state": said["state"], "iss": at.metadata["issuer"]}
    async with (
        aiohttp.ClientSession() as browser,
        browser.get(f"{said['redirect_uri']}?{urlencode(back)}") as there,
    ):
        assert there.status == 200


async def command(env: dict[str, str], *words: str) -> asyncio.subprocess.Process:
    pipe = asyncio.subprocess.PIPE
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "mcprev", *words, env=env, stdin=pipe, stdout=pipe, stderr=pipe, limit=1 << 20
    )


@pytest.mark.slow
@req("AUTH-11", "AUTH-19", "SEC-1", "HTTP-1", everywhere=True)
def test_a_command_and_a_bridge_log_in_through_a_proxy(tmp_path: Path) -> None:
    """Metadata, registration, tokens and calls, each over TLS in a tunnel, with the certificates of SSL_CERT_FILE."""
    certificate = certified(tmp_path)
    proxy = ForwardProxy(certificate)

    async def page_of(process: asyncio.subprocess.Process) -> str:
        assert process.stderr is not None
        async for line in process.stderr:
            if found := re.search(r"https://\S+", line.decode()):
                return found[0]
        raise AssertionError("it asked for no login")

    async def main() -> None:
        async with world(ROW, REPLIES) as at, proxy.running():
            name_by_host(at)
            url = f"https://{HOST}:{at.mcp.port}/mcp"
            env = {
                "PATH": os.environ["PATH"], "HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path), "BROWSER": "true",
                "SSL_CERT_FILE": str(certificate), "HTTPS_PROXY": f"me:hidden@{proxy.origin}",
            }  # fmt: skip
            bridge = await command(env, "bridge", "--login", url)
            assert bridge.stdin is not None
            assert bridge.stdout is not None
            params = {
                "protocolVersion": ROW.version,
                "capabilities": {},
                "clientInfo": {"name": "c", "version": "1"},
            }
            bridge.stdin.write(
                json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}).encode()
                + b"\n"
            )
            await log_in(at, await page_of(bridge))
            assert "result" in json.loads(await bridge.stdout.readline())
            bridge.stdin.close()
            await bridge.communicate()
            assert len(at.registered) == 1
            called = await command(env, "call", "--unchecked", url, "any")
            out, err = await called.communicate()
            assert (called.returncode, out) == (0, b"hi\n"), err
            assert b"hidden" not in err
            places = {f"CONNECT {HOST}:{port} Basic bWU6aGlkZGVu" for port in (at.mcp.port, at.auth.port)}
            assert set(proxy.asked) == places
            untrusting = await command({**env, "SSL_CERT_FILE": os.devnull}, "inspect", url)
            _, err = await untrusting.communicate()
            assert untrusting.returncode
            assert b"SSL_CERT_FILE" in err
            assert b"hidden" not in err

    run(main(), limit=120)
