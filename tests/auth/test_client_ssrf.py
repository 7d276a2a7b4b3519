"""Where a URL that a server names may lead: the address that is connected to counts, not how it is spelled (SEC-1)."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator, Generator, Iterator
from contextlib import asynccontextmanager
from itertools import cycle
from typing import Any, Final

import pytest

from helpers.raw_server import Exchange, serve
from helpers.requirements import C, D, E, req
from helpers.running import run
from mcprev.auth.client.runner import FlowRunner
from mcprev.auth.client.steps import Answer, HttpFetch, HttpReply
from mcprev.auth.urls import check_fetch
from mcprev.errors import RemoteProtocolError

SERVER: Final = "https://mcp.example/mcp"
SPELLINGS: Final = (
    "127.0.0.1", "localhost", "LOCALHOST", "localhost.", "x.localhost", "127.1", "127.0.1", "2130706433", "0x7f000001",
    "0x7f.0.0.1", "0177.0.0.1", "017700000001", "127.0.0.1.", "\u2460\u2461\u2466.0.0.1", "127\u30020\u30020\u30021",
    "127\uff0e0\uff0e0\uff0e1", "127\uff610\uff610\uff611", "\uff11\uff12\uff17.\uff10.\uff10.\uff11", "\u24db\u24de\u24d2\u24d0\u24db\u24d7\u24de\u24e2\u24e3",
    "0.0.0.0", "0", "00", "[::1]", "[::]", "[0:0:0:0:0:0:0:1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::127.0.0.1]",
    "[64:ff9b::127.0.0.1]", "[64:ff9b:1::7f00:1]", "[2002:7f00:1::]", "[::ffff:0:127.0.0.1]",
)  # fmt: skip
"""This machine."""
PRIVATE: Final = (
    "10.0.0.1", "172.16.0.1", "192.168.0.1", "169.254.169.254", "100.64.0.1", "0xa9fea9fe", "2852039166", "0251.0376.0251.0376",
    "198.18.0.1", "192.0.0.8", "192.88.99.1", "[3fff::1]", "240.0.0.1", "255.255.255.255", "224.0.0.1", "[fd00::1]", "[fc00::1]", "[fe80::1]", "[fe80::1%25eth0]",
    "[fec0::1]", "[ff02::1]", "[::ffff:10.0.0.1]", "[::ffff:169.254.169.254]", "[64:ff9b::10.0.0.1]", "[2002:a00:1::]",
    "[2001:0:a00:1::f5ff:fffe]", "[2001:db8::1]", "[5f00::1]",
)  # fmt: skip
"""Other networks than the public internet."""
NAMES: Final[dict[str, list[list[str]]]] = {
    "loopback.example": [["127.0.0.1"]],
    "six.example": [["::1"]],
    "mapped.example": [["::ffff:127.0.0.1"]],
    "inside.example": [["10.1.2.3"]],
    "metadata.example": [["169.254.169.254"]],
    "several.example": [["127.0.0.1", "10.0.0.1", "::1", "fd00::1"]],
    "both.example": [["192.168.0.1", "93.184.215.14"]],
    "rebound.example": [["93.184.215.14"], ["127.0.0.1"]],
}
"""Names, and where they lead each time they are asked for, in turn."""


@pytest.fixture
def dialled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The addresses that are connected to; names are those of `NAMES`, and no connection leaves this machine."""
    found: list[str] = []
    usual = socket.getaddrinfo
    turns: dict[str, Iterator[list[str]]] = {name: cycle(answers) for name, answers in NAMES.items()}
    connect = asyncio.SelectorEventLoop.sock_connect

    def look_up(host: Any, port: Any, *args: Any, **given: Any) -> Any:
        if host not in turns:
            if str(host).endswith(".example"):
                raise socket.gaierror(socket.EAI_NONAME, "no such name")
            return usual(host, port, *args, **given)
        return [
            (
                socket.AF_INET6 if ":" in each else socket.AF_INET,
                socket.SOCK_STREAM,
                6,
                "",
                (each, port, 0, 0) if ":" in each else (each, port),
            )
            for each in next(turns[host])
        ]

    async def sock_connect(self: Any, sock: socket.socket, address: Any) -> None:
        found.append(address[0])
        if address[0].startswith("127."):
            await connect(self, sock, address)
        else:
            raise OSError("nobody is there")

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    monkeypatch.setattr(asyncio.SelectorEventLoop, "sock_connect", sock_connect)
    return found


def fetch(url: str, body: bytes | None = None) -> Generator[Any, Answer, HttpReply]:
    answer = yield HttpFetch(url, (), body)
    assert isinstance(answer, HttpReply)
    return answer


@asynccontextmanager
async def listening() -> AsyncGenerator[tuple[int, list[object]], None]:
    """A server on this machine, and who has connected to it."""
    came: list[object] = []

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        came.append(writer)
        writer.close()

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1], came
    finally:
        server.close()
        await server.wait_closed()


@req("SEC-1", at=(C, D, E))
@pytest.mark.parametrize("body", [None, b"secret"], ids=["get", "post"])
@pytest.mark.parametrize("host", [*SPELLINGS, *PRIVATE, *NAMES])
def test_nothing_is_connected_to_but_the_public_internet(
    host: str, body: bytes | None, dialled: list[str]
) -> None:
    async def main() -> None:
        async with listening() as (port, came):
            runner = FlowRunner(SERVER, None, private=False, seconds=5)
            for _ in range(3):  # where a name leads changes meanwhile
                found = await runner.run(fetch(f"https://{host}:{port}/x", body))
                assert found.status == 0
                assert found.why
            assert not came
            assert set(dialled) <= {"93.184.215.14"}

    run(main())


@req("SEC-1", at=(C, D, E))
@pytest.mark.parametrize("host", [*SPELLINGS, *PRIVATE])
def test_an_address_is_recognised_however_it_is_spelled(host: str) -> None:
    """A session of the user's connects by itself: what can be seen in a URL is all that is judged then."""
    with pytest.raises(RemoteProtocolError, match="private network"):
        check_fetch(f"https://{host}/x")


@req("SEC-1", at=(C, D, E))
@pytest.mark.parametrize(
    "host", ["2130706433", "\u2460\u2461\u2466.0.0.1", "inside.example", "[::ffff:127.0.0.1]"]
)
def test_no_redirect_leads_into_a_private_network(host: str, dialled: list[str]) -> None:
    """The server itself is where the user wants it; what it sends to is not."""

    async def main() -> None:
        async def answer(exchange: Exchange) -> None:
            await exchange.respond(307, b"", {"Location": f"https://{host}/x".encode().decode("latin-1")})

        async with serve(answer) as raw:
            runner = FlowRunner(f"{raw.origin}/mcp", None, private=False, seconds=5)
            found = await runner.run(fetch(f"{raw.origin}/mcp"))
            assert found.status == 0
            assert len(raw.seen) == 1
            assert set(dialled) == {"127.0.0.1"}

    run(main())


@req("SEC-1", at=(C, D, E))
@pytest.mark.parametrize(
    ("server", "private", "url"),
    [
        ("https://loopback.example/mcp", False, "https://loopback.example:{port}/x"),
        (SERVER, True, "https://loopback.example:{port}/x"),
        (SERVER, True, "https://\u2460\u2461\u2466.0.0.1:{port}/x"),
        (SERVER, True, "http://localhost:{port}/x"),
    ],
)  # fmt: skip
def test_what_the_user_has_named_or_allowed_is_connected_to(
    server: str, private: bool, url: str, dialled: list[str]
) -> None:
    async def main() -> None:
        async with listening() as (port, came):
            runner = FlowRunner(server, None, private=private, seconds=5)
            await runner.run(fetch(url.format(port=port)))
            assert came
            assert "127.0.0.1" in dialled

    run(main())


@req("SEC-1", at=(C, D, E))
def test_a_public_address_among_others_is_the_one_that_is_connected_to(dialled: list[str]) -> None:
    async def main() -> None:
        runner = FlowRunner(SERVER, None, private=False, seconds=5)
        await runner.run(fetch("https://both.example/x"))

    run(main())
    assert set(dialled) == {"93.184.215.14"}
