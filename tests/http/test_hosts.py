"""What is let in by default at each address: the table of `docs/security.md`, row by row (SEC-3, HTTP-2, SSE-5)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Final

import aiohttp
import pytest

import mcprev
from helpers.asgi_bridge import STREAM, Client, initialize
from helpers.requirements import D, req
from helpers.running import run, until
from helpers.served import Served, listening, work
from mcprev.revisions import revision_named
from mcprev.transports.http.server.asgi import AsgiApp

Make = Callable[..., AsgiApp]
PAGE: Final = Path(__file__).parents[2] / "docs" / "security.md"


def rows() -> list[tuple[str, str | None, str | None, str | None, dict[str, list[str]], bool]]:
    """The binding, address, Host, Origin, options and answer of each row."""
    section = PAGE.read_text().split("\n## Hosts and origins\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    found = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]
    return [
        (binding, said(address), said(host), said(origin), options(said(chosen)), let_in == "yes")
        for binding, address, host, origin, chosen, let_in in found
    ]


def said(cell: str) -> str | None:
    """What a cell says between backticks; None for a dash."""
    if cell == "-":
        return None
    assert cell[:1] == cell[-1:] == "`", cell
    return cell[1:-1]


def options(cell: str | None) -> dict[str, list[str]]:
    """The options of a row, of which each has one entry."""
    return {} if cell is None else {cell.partition("=")[0]: [cell.partition("=")[2]]}


ROWS: Final = rows()


@req("SEC-3", "HTTP-2", "SSE-5", "AMB-14", everywhere=True)
@pytest.mark.parametrize(
    ("address", "host", "origin", "settings", "let_in"),
    [row[1:] for row in ROWS],
    ids=[f"{number}: {row[0]}" for number, row in enumerate(ROWS, 1)],
)
def test_each_row_of_the_table_is_so(
    address: str | None, host: str | None, origin: str | None, settings: dict[str, list[str]], let_in: bool
) -> None:
    """A POST and the GET whose answer tells the id of a session of the oldest transport."""

    async def test(handler: Served, make: Make) -> None:
        app = make(sse=True, **settings)
        client = Client(app, server=(address, 8000) if address else ("/run/mcp.sock", None))
        sent = {name: value for name, value in (("host", host), ("origin", origin)) if value is not None}
        client.session = sent
        answer = await client.post(initialize(revision_named(D))).done()
        assert answer.status == (200 if let_in else 403)
        if not let_in:
            option = "hosts" if "Host" in answer.json["error"]["message"] else "origins"
            message = answer.json["error"]["message"]
            assert f"start with --{option[:-1]} " in message
            assert f'http={{"{option}": [' in message
        stream = client.send("GET", None, STREAM, path="/sse")
        if let_in:
            await stream.begun()
            await until(lambda: bool(stream.events))
            assert stream.events[0].data.startswith(b"/messages?")
            stream.disconnect()
        assert (await stream.done()).status == (200 if let_in else 403)
        assert bool(stream.events) is let_in

    work(test)


@req("SEC-3", everywhere=True)
def test_the_table_has_every_binding_and_both_answers() -> None:
    for word in ("loopback", "`0.0.0.0`", "private", "public", "ASGI"):
        assert {row[-1] for row in ROWS if word in row[0]} == {True, False}, word


@req("SEC-3", "SSE-5", everywhere=True)
@pytest.mark.parametrize(
    ("bound", "host", "origin", "status"),
    [
        ("127.0.0.1", "evil.example", None, 403), ("127.0.0.1", "127.0.0.1", None, 200), ("127.0.0.1", "localhost:1", None, 200),
        ("0.0.0.0", "evil.example", None, 403), ("0.0.0.0", "evil.example", "http://evil.example", 403),  # noqa: S104
    ],
)  # fmt: skip
def test_a_rebound_page_cannot_read_an_id_from_a_real_server(
    bound: str, host: str, origin: str | None, status: int
) -> None:
    async def test() -> None:
        server = mcprev.Server(Served(), "served", "1")
        async with listening(server, bound, sse=True) as base, aiohttp.ClientSession() as http:
            headers = {**STREAM, "host": host, **({} if origin is None else {"origin": origin})}
            async with http.get(base + "/sse", headers=headers) as answer:
                assert answer.status == status
                if status == 403:
                    assert "error" in json.loads(await answer.read())
                else:
                    assert (await answer.content.readline()).startswith(b"event: endpoint")

    run(test())
