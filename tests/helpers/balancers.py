"""Real balancers for tests, with the configurations of docs/deploy.md: Debian's, on PATH or where `make nginx` has put them."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent
from typing import Any, Final

import pytest

from helpers.support import ROOT

HERE: Final = ROOT / ".interop"
HOST: Final = "mcp.example"
"""The name of the server in the page."""
AllUp = Callable[[], Awaitable[None]]
"""Waits until a balancer gives requests to each of its servers."""


@dataclass(frozen=True)
class Balancer:
    """A program, and how it is configured and run."""

    name: str
    plain: Callable[[int, Sequence[str]], str]
    """The configuration of the page without TLS, for a port and the addresses of servers, as they stand there."""
    with_tls: Callable[[int, int, str, Path], str]
    """The one as it stands there, for a port without TLS, one with it, the address of a server and a certificate."""
    started: Callable[[str, Path, str], AbstractAsyncContextManager[AllUp]]
    """Runs the program with a configuration in a folder."""

    @property
    def binary(self) -> str | None:
        """The path of the program, if it is there."""
        unpacked = HERE / self.name / "usr" / "sbin" / self.name
        return (
            shutil.which(self.name)
            or shutil.which(self.name, path="/usr/sbin")
            or (str(unpacked) if unpacked.exists() else None)
        )

    def run(self, folder: Path, text: str) -> AbstractAsyncContextManager[AllUp]:
        """Run it with a configuration."""
        assert self.binary is not None
        return self.started(self.binary, folder, text)

    def params(self, *values: Any) -> list[Any]:
        """A parameter of a test with each of these values beside the program; skipped where it is not there."""
        reason = f"{self.name} is not there: `make nginx` unpacks Debian's"
        skip = pytest.mark.skipif(self.binary is None, reason=reason)
        return [
            pytest.param(self, value, marks=skip, id=f"{self.name}-{getattr(value, 'name', value)}")
            for value in values
        ]


def on_page(kind: str) -> str:
    """The only block of the page of a kind."""
    page = (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8")
    (text,) = re.findall(rf"^```{kind}\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert isinstance(text, str)
    return text


def replaced(text: str, by: Mapping[str, str]) -> str:
    """The text with others in place of its only lines that begin like this, after their indentation."""
    for old, new in by.items():
        lines = text.splitlines()
        (at,) = (number for number, line in enumerate(lines) if line.lstrip().startswith(old))
        lines[at : at + 1] = new.splitlines()
        text = "\n".join(lines) + "\n"
    return text


# -- nginx ---------------------------------------------------------------------------------------------------


def _main_file(file: Path) -> str:
    """The page's file for an ordinary user, which includes another one; workers of root stay root, to read the folder."""
    page = (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8")
    (text,) = re.findall(r"^  ```nginx\n(.*?)^  ```$", page, re.MULTILINE | re.DOTALL)
    assert "include shop.conf;" in text
    return ("" if os.getuid() else "user root;\n") + dedent(text.replace("shop.conf", str(file)))


def _nginx_plain(port: int, servers: Sequence[str]) -> str:
    lines = "\n".join(f"server {each} max_fails=0;" for each in servers)
    text = replaced(
        on_page("nginx"),
        {"server 127.0.0.1:8000 max_fails=0;": lines, "listen 443 ssl;": f"listen 127.0.0.1:{port};"},
    )
    upstream, redirect, server = re.findall(r"^\w.*?^}\n", text, re.MULTILINE | re.DOTALL)
    assert "return 308" in redirect
    without_names: str = re.sub(r"^    (?:ssl_|server_name ).*\n", "", server, flags=re.MULTILINE)
    return f"{upstream}{without_names}"


def _nginx_with_tls(port: int, tls: int, server: str, certificate: Path) -> str:
    return replaced(
        on_page("nginx"),
        {
            "server 127.0.0.1:8000 max_fails=0;": f"server {server} max_fails=0;",
            "listen 80;": f"listen 127.0.0.1:{port};",
            "listen 443 ssl;": f"listen 127.0.0.1:{tls} ssl;",
            "ssl_certificate ": f"ssl_certificate {certificate};",
            "ssl_certificate_key ": f"ssl_certificate_key {certificate.with_suffix('.key')};",
        },
    )


@asynccontextmanager
async def _nginx(program: str, folder: Path, text: str) -> AsyncGenerator[AllUp, None]:
    (folder / "mcp.conf").write_text(text)
    (folder / "nginx.conf").write_text(_main_file(folder / "mcp.conf"))
    words = (program, "-p", str(folder), "-c", str(folder / "nginx.conf"), "-e", "stderr")
    async with _running(words, b"start worker process", {}):

        async def all_up() -> None:
            """It asks none: `max_fails=0` tries each again."""

        yield all_up


# -- HAProxy -------------------------------------------------------------------------------------------------

_LISTENS = "server one 127.0.0.1:8000"
_CONTROL = "control"
"""The socket at which it says which servers get requests, in its folder."""
_GETS_REQUESTS = "2"


def _haproxy_plain(port: int, servers: Sequence[str]) -> str:
    lines = (f"    server {number} {each.replace('unix:', 'unix@')}" for number, each in enumerate(servers))
    return replaced(
        on_page("haproxy"),
        {
            _LISTENS: "\n".join(lines),
            "bind :80": f"    bind 127.0.0.1:{port}",
            "bind :443": "",
            "http-request redirect": "",
            "http-request set-header X-Forwarded-Proto": "",
        },
    )


def _haproxy_with_tls(port: int, tls: int, server: str, certificate: Path) -> str:
    shutil.copy(certificate.with_suffix(".key"), f"{certificate}.key")
    return replaced(
        on_page("haproxy"),
        {
            _LISTENS: f"    server one {server.replace('unix:', 'unix@')}",
            "bind :80": f"    bind 127.0.0.1:{port}",
            "bind :443": f"    bind 127.0.0.1:{tls} ssl crt {certificate}",
        },
    )


@asynccontextmanager
async def _haproxy(program: str, folder: Path, text: str) -> AsyncGenerator[AllUp, None]:
    control = folder / _CONTROL
    (folder / "haproxy.cfg").write_text(f"global\n    stats socket {control}\n{text}")
    libraries = os.pathsep.join(map(str, (HERE / "haproxy" / "usr" / "lib").glob("*")))

    async def all_up() -> None:
        count, up = text.count("\n    server "), 0
        while up < count:
            up = await _count_of_up(control)

    # Its process that passes requests on is a child, which ends with it.
    words = (program, "-W", "-db", "-f", str(folder / "haproxy.cfg"))
    async with _running(words, b"Loading success", {"LD_LIBRARY_PATH": libraries}):
        await all_up()
        yield all_up


async def _count_of_up(control: Path) -> int:
    reader, writer = await asyncio.open_unix_connection(str(control))
    writer.write(b"show servers state\n")
    rows = [line.split() for line in (await reader.read()).decode().splitlines()]
    writer.close()
    return sum(len(row) > 5 and row[5] == _GETS_REQUESTS for row in rows[2:])


# -- both ----------------------------------------------------------------------------------------------------


@asynccontextmanager
async def _running(
    words: Sequence[str], ready: bytes, environment: Mapping[str, str]
) -> AsyncGenerator[None, None]:
    process = await asyncio.create_subprocess_exec(
        *words, stderr=asyncio.subprocess.PIPE, env={**os.environ, **environment}
    )
    assert process.stderr is not None
    reading = None
    try:
        said = b""
        while ready not in said:
            line = await process.stderr.readline()
            assert line, said.decode()
            said += line
        reading = asyncio.create_task(process.stderr.read())
        yield
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
        sys.stderr.buffer.write(b"" if reading is None else await reading)  # for a test that fails
        await process.wait()


NGINX: Final = Balancer("nginx", _nginx_plain, _nginx_with_tls, _nginx)
HAPROXY: Final = Balancer("haproxy", _haproxy_plain, _haproxy_with_tls, _haproxy)
BALANCERS: Final = (NGINX, HAPROXY)
