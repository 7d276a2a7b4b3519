"""Byte streams to the server's own HTTP/1.1 connections and to uvicorn's two parsers, in front of the same app.

Each case is a seed: it draws some requests, good ones and misframed ones, damages them, cuts the stream into pieces
and sends them on three connections. Whatever our connection serves, the others have to serve too, in the same order,
with the same method, path and headers, and the same answers: nothing is taken for a request, and no body for another
body, that they read differently. Where ours stops earlier it has to say so with one of `STRICTER`, and to close.
"""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
import logging
import random
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import takewhile
from typing import Any, Final, TypeVar

import h11
import pytest
from typing_extensions import override
from uvicorn import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

import mcprev
from fuzz.fuzzing import damaged, generator, pieces_of, report, reproducible, sampled_of, seeds
from helpers.requirements import E, req
from helpers.wired import Wire, chunked, head, read_answers
from helpers.wired_calls import call, fields, in_chunks, said
from mcprev.serving.finishing import finishing_tasks
from mcprev.transports.http.server.asgi import AsgiApp
from mcprev.transports.http.server.http11_server import Http11Server
from mcprev.transports.http.server.options import HttpSettings
from mcprev.transports.http.server.request import HttpRequest
from mcprev_types.latest import models as m

CASES: Final = 125
"""How many seeds are tried where no time is given."""
MAX_BODY: Final = 600
MAX_HEADERS: Final = 800

OFFERS: Final = frozenset({b"connection", b"upgrade", b"http2-settings"})

Request = tuple[str, str, dict[bytes, bytes]]
"""The method, path and headers that an app was called with."""


class Echo(mcprev.ServerHandler):
    async def call_tool(self, ctx: mcprev.Context, params: m.CallToolRequestParams) -> m.CallToolResult:
        return m.CallToolResult(content=[m.TextContent(text=str(params.arguments))])


class Recorder(AsgiApp):
    """Writes down which requests it is called with."""

    def __init__(self, server: mcprev.Server, settings: HttpSettings) -> None:
        super().__init__(server, settings, partial(finishing_tasks, server))
        self.requests: list[Request] = []

    @override
    async def serve(self, http_request: HttpRequest) -> None:
        headers = {
            name: value.strip(b" \t")
            for name, value in http_request.headers.items()
            if name not in OFFERS  # which our connections take out
        }
        self.requests.append((http_request.verb, http_request.path, headers))
        await super().serve(http_request)


# -- what is sent ------------------------------------------------------------------------------------------

BODY: Final = said("echo", {"text": "chunked"})
TOOL: Final = fields()
LENGTH: Final = ("Content-Length", str(len(BODY)))
CHUNKED: Final = ("Transfer-Encoding", "chunked")
MISFRAMED: Final = (
    call()[1:],
    b"\0" + call(),
    b"\r\n\r\n" + call(),
    call() + b"\r\n",
    call().replace(b"HTTP/1.1", b"HTTP/9.1"),
    call().replace(b"HTTP/1.1", b"HTTP/1.01"),
    call().replace(b"HTTP/1.1", b""),
    call().replace(b"POST /mcp", b"POST  /mcp"),
    call().replace(b"POST", b"post"),
    call().replace(b"POST", b"PO ST"),
    call().replace(b"\r\n", b"\n"),
    call().replace(b"\r\n", b"\r"),
    call().replace(b"Content-Length: ", b"Content-Length : "),
    call().replace(b"Content-Length: ", b"Content-Length: +"),
    call().replace(b"Content-Length: ", b"Content-Length: 0"),
    call().replace(b"Content-Length: ", b"Content-Length: 1_"),
    call().replace(b"Content-Length: ", b"Content-Length: 9" + b"9" * 30),
    call().replace(b"Content-Length: ", b"Content-Length:\r\n "),
    call().replace(b"Content-Length: ", b"X-Length: "),
    head("POST", "/mcp", [*TOOL, LENGTH, LENGTH]) + BODY,
    head("POST", "/mcp", [*TOOL, LENGTH, ("Content-Length", "1")]) + BODY,
    head("POST", "/mcp", [*TOOL, ("Content-Length", f"{len(BODY)}, {len(BODY)}")]) + BODY,
    head("POST", "/mcp", [*TOOL, LENGTH, CHUNKED]) + chunked(BODY),
    head("POST", "/mcp", [*TOOL, CHUNKED, LENGTH]) + chunked(BODY),
    head("POST", "/mcp", [*TOOL, CHUNKED, CHUNKED]) + chunked(BODY),
    *(
        head("POST", "/mcp", [*TOOL, ("Transfer-Encoding", coding)]) + chunked(BODY)
        for coding in ("chunked, identity", "identity", "gzip, chunked", "xchunked", "chunked\t", '"chunked"', "")
    ),
    head("POST", "/mcp", [*TOOL, CHUNKED], version="1.0") + chunked(BODY),
    *(
        head("POST", "/mcp", [*TOOL, CHUNKED]) + size + b"\r\n" + BODY + b"\r\n0\r\n\r\n"
        for size in (
            b"%x;ext" % len(BODY), b"%x ;a=b" % len(BODY), b"0x%x" % len(BODY), b"+%x" % len(BODY), b"%x " % len(BODY),
            b"-1", b"", b"f" * 17, b"%X" % len(BODY), b"00%x" % len(BODY),
        )
    ),
    head("POST", "/mcp", [*TOOL, CHUNKED]) + b"%x\n" % len(BODY) + BODY + b"\r\n0\r\n\r\n",
    head("POST", "/mcp", [*TOOL, CHUNKED]) + b"%x\r\n" % len(BODY) + BODY + b"0\r\n\r\n",
    head("POST", "/mcp", [*TOOL, CHUNKED]) + b"%x\r\n" % len(BODY) + BODY + b"\r\n0\r\n" + call(),
    in_chunks(BODY, trailer=b"Content-Length: 5\r\nX: y\r\n"),
    in_chunks(BODY, trailer=b"Transfer-Encoding: chunked\r\n"),
    call(x_folded="a\r\n b"),
    call(x_folded="a\r\n\tHost: b"),
    call().replace(b"Host: ", b" Host: "),
    call().replace(b"Host: ", b"Ho st: "),
    call().replace(b"Host: ", b"H\xc3\xb6st: "),
    call().replace(b"Host: ", b": "),
    call().replace(b"Host: ", b"Host"),
    call(x_value="a\0b"),
    call(x_value="a\rb"),
    call(x_value="\x01\x7f"),
    call(x_value="ä"),
)  # fmt: skip
GOOD: Final = (
    call(),
    call("echo", {"text": "two" * 30}, 2),
    call("other", {"text": "three"}, 3),
    call(id_="x" * 300),
    call(target="/mcp?x=y"),
    call(target="/m%63p"),
    call(target="//mcp"),
    call(target="/mcp/"),
    call(target="http://localhost:8000/mcp"),
    call(target="*"),
    call(target="/nowhere"),
    call(target="/mcp#x"),
    call(version="1.0"),
    call(version="1.0", connection="keep-alive"),
    call(connection="close"),
    call(connection="keep-alive"),
    call(connection="Close, x"),
    call(expect="100-continue"),
    call(expect="200-ok"),
    call(origin="http://evil.example"),
    call(accept="text/plain"),
    call(content_type="text/plain"),
    call(mcp_method="tools/list"),
    call("echo", {"text": "x" * MAX_BODY}),
    call(x_long="x" * MAX_HEADERS),
    in_chunks(BODY),
    in_chunks(BODY[:20], BODY[20:21], BODY[21:]),
    in_chunks(b"x" * MAX_BODY, b"y"),
    head("GET", "/mcp", TOOL),
    head("DELETE", "/mcp", TOOL),
    head("PUT", "/mcp", [*TOOL, LENGTH]) + BODY,
    head("OPTIONS", "/mcp"),
    head("CONNECT", "localhost:8000"),
)
UPGRADES: Final = (
    call(connection="Upgrade", upgrade="h2c"),
    call(connection="upgrade, HTTP2-Settings", upgrade="websocket", http2_settings="AA"),
    head("GET", "/mcp", [*TOOL, ("Connection", "Upgrade"), ("Upgrade", "websocket")]),
)
TOKENS: Final = (
    b"\r\n", b"\n", b"\r", b"\r\n\r\n", b" ", b"\t", b"\0", b":", b";", b",", b"0", b"1", b"f", b"-", b"\xff", b"chunked",
    b"POST /mcp HTTP/1.1\r\n", b"Content-Length: 5\r\n", b"Transfer-Encoding: chunked\r\n", b"Connection: close\r\n",
    b"0\r\n\r\n", b" HTTP/1.1", b"GET / HTTP/1.1\r\n\r\n",
)  # fmt: skip


@dataclass(frozen=True)
class Case:
    """One stream of bytes, in the pieces in which it is sent."""

    seed: int
    pieces: tuple[bytes, ...]


def draw(seed: int) -> Case:
    """The stream of a seed."""
    rng = generator(seed)
    pools = (GOOD, GOOD, GOOD, MISFRAMED, UPGRADES) if rng.random() < 0.1 else (GOOD, GOOD, MISFRAMED)
    requests = [rng.choice(rng.choice(pools)) for _ in range(rng.randint(1, 4))]
    if rng.random() < 0.4:
        place = rng.randrange(len(requests))
        requests[place] = damaged_request(requests[place], rng)
    pieces = requests if rng.random() < 0.3 else pieces_of(b"".join(requests), rng)
    return Case(seed, tuple(pieces))


def damaged_request(data: bytes, rng: random.Random) -> bytes:
    """The same with a few bytes changed, mostly in the head, which matters most."""
    end = data.find(b"\r\n\r\n") + 4 if rng.random() < 0.8 else len(data)
    return damaged(data[:end], rng, TOKENS) + data[end:]


# -- what came of it ---------------------------------------------------------------------------------------


@dataclass
class Outcome:
    """What one server made of a stream."""

    requests: list[Request]
    answers: list[tuple[int, bytes]] = field(default_factory=list[tuple[int, bytes]])
    """Statuses and bodies, but those of a `100 Continue`."""
    closed: bool = False
    """Whether the server has closed the connection, or its side of it, before its client did."""


TURNS: Final = 100
"""Turns of uvloop's loop after which it has nothing to do: several times as many as a request takes on asyncio's."""


async def idle() -> None:
    """Wait until the loop has nothing to do but to wait for the test."""
    loop: Any = asyncio.get_running_loop()
    if not hasattr(loop, "_ready"):  # uvloop's does not tell
        for _ in range(TURNS):
            await asyncio.sleep(0)
        return
    while loop._ready:  # noqa: ASYNC110 - what happens is not ours to signal
        await asyncio.sleep(0)


Make = Callable[[Recorder], "asyncio.Protocol | None"]


def ours(app: Recorder) -> None:
    """No protocol but the one that `Wire` makes by itself."""


def uvicorns(protocol: Callable[..., asyncio.Protocol]) -> Make:
    """One of uvicorn's."""

    def make(app: Recorder) -> asyncio.Protocol:
        config = Config(
            app, log_config=None, access_log=False, proxy_headers=False, ws="none", lifespan="off"
        )
        return protocol(config, ServerState(), {})

    return make


REFERENCES: Final[dict[str, Make]] = {
    "httptools": uvicorns(HttpToolsProtocol),
    "h11": uvicorns(H11Protocol),
}


async def outcome(app: Recorder, make: Make, pieces: Iterable[bytes]) -> Outcome:
    """Send a stream on a connection of its own, each piece once everything before it is served."""
    found: list[Request] = []
    app.requests = found
    wire = Wire(Http11Server(app), None, make(app))
    for piece in pieces:
        try:
            wire.send(piece)
        except (
            h11.LocalProtocolError
        ):  # uvicorn refuses something behind the last answer; asyncio then closes
            wire.abort()
        await idle()
    answers = read_answers(wire.received, closed=True)
    result = Outcome(found, closed=wire.closing or wire.eof)
    result.answers = [
        (answer.status, b"" if answer.status == REFUSED else answer.body)
        for answer in answers
        if answer.status >= 200
    ]
    wire.hang_up()
    await idle()
    return result


# -- which differences are meant ---------------------------------------------------------------------------

REFUSED: Final = 400
"""What is no HTTP is refused with this by all, each in its own words."""
STRICTER: Final = {
    400: "llhttp refuses what h11 takes, such as a version 9.1 or white space behind the size of a chunk",
    501: "chunked is the only transfer coding; uvicorn hands the app what it cannot decode",
    431: "the headers are over our limit; uvicorn has none, or one of its own",
    413: "the body is over our limit, which we see before its end",
}
"""The last answer on a connection of ours may be one of these where another server serves the request."""


LENIENT: Final = re.compile(rb"(?:\A|\}|\r?\n\r?\n)[\r\n]+[A-Z]+ |[A-Z]+ {2,}\S")
"""What llhttp takes and h11 does not, as RFC 9112 (2.2, 3) allows: empty lines before a request, two spaces in it."""


def is_strange(request: Request) -> bool:
    """Whether h11 refuses a request that the app judges: it has no Host, or several (the app's `hosts` decide)."""
    hosts = request[2].get(b"host")
    return hosts is None or b"," in hosts


def is_comparable(name: str, stream: bytes, reference: Outcome) -> bool:
    """Whether a server of uvicorn's means to do the same as ours with a stream.

    On httptools it serves an offer to upgrade without its body and takes what follows for the other protocol. On h11
    it takes the form `http://host/path` and a fragment for a path.
    """
    if name == "httptools":
        return b"pgrade" not in stream
    return all(path.startswith("/") and "#" not in path for _, path, _ in reference.requests)


def difference(ours: Outcome, reference: Outcome, *, lenient: bool = False) -> str | None:
    """What is wrong with what our connection made of a stream; None if nothing is.

    `lenient` says that the stream has something that the other refuses and ours may serve.
    """
    refuses = bool(ours.answers) and ours.closed and ours.answers[-1][0] in STRICTER
    more = ours.requests[len(shared(ours.requests, reference.requests)) :]
    if more:
        if lenient or is_strange(more[0]) or (refuses and len(more) == 1):
            return None
        return f"serves what the other does not: {more}"
    place = len(shared(ours.answers, reference.answers))
    mine, theirs = ours.answers[place:], reference.answers[place:]
    if len(mine) == 1 and (refuses or (mine[0][0] in STRICTER and theirs == [(REFUSED, b"")])):
        return None
    if mine:
        return f"answers otherwise: {mine} and not {theirs}"
    if theirs and ours.closed and place and ours.answers[-1][0] >= 400:
        return None  # closed behind the answer to a request of which not all had come
    if theirs and not ours.closed and theirs == [(REFUSED, b"")] and ours.requests == reference.requests:
        return None  # what came last is no request for the other, and not a whole one for us
    return f"answers less: not {theirs}" if theirs else None


T = TypeVar("T")


def shared(one: list[T], other: list[T]) -> list[T]:
    """What two lists begin with."""
    return [first for first, _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False))]


# -- the tests ---------------------------------------------------------------------------------------------


@pytest.fixture
def quiet() -> Iterator[None]:
    """uvicorn warns of each stream that is no HTTP."""
    logging.disable(logging.WARNING)
    yield
    logging.disable(logging.NOTSET)


def recorder() -> Recorder:
    """The app that all three serve."""
    options = HttpSettings(json_response=True, max_body=MAX_BODY, max_headers=MAX_HEADERS)
    return Recorder(mcprev.Server(Echo(), "fuzzed", "1"), options)


async def compare(app: Recorder, stream: bytes, pieces: Sequence[bytes]) -> tuple[Outcome, list[str]]:
    """What our connection makes of a stream that comes in pieces, and what is wrong with that.

    The others get it byte by byte, for uvicorn refuses what is broken ahead of answering what came in one piece with it.
    """
    result, wrong = await outcome(app, ours, pieces), list[str]()
    for name, make in REFERENCES.items():
        reference = await outcome(app, make, (bytes([byte]) for byte in stream))
        if is_comparable(name, stream, reference):
            lenient = name == "h11" and LENIENT.search(stream) is not None
            found = difference(result, reference, lenient=lenient)
            wrong += [] if found is None else [f"{name}: {found}"]
    return result, wrong


@pytest.mark.slow
@req("HTTP-31", "SEC-6", at=E)
@pytest.mark.usefixtures("quiet")
def test_our_connections_read_what_uvicorns_read() -> None:
    async def test() -> None:
        app, served, tried, start = recorder(), 0, 0, time.monotonic()
        for seed in seeds(CASES):
            case = draw(seed)
            with reproducible(seed, case):
                result, wrong = await compare(app, b"".join(case.pieces), case.pieces)
                assert not wrong
            served += sum(status == 200 for status, _ in result.answers)
            tried += 1
        report(tried, time.monotonic() - start)
        assert served > tried / 2, "most streams have a request that is served"

    asyncio.run(test())


@pytest.mark.slow
@req("HTTP-31", "SEC-6", at=E)
@pytest.mark.usefixtures("quiet")
def test_our_connections_do_the_same_on_uvloop() -> None:
    uvloop = pytest.importorskip("uvloop")
    with asyncio.Runner() as plain, asyncio.Runner(loop_factory=uvloop.new_event_loop) as other:
        plain_app, other_app, tried, start = recorder(), recorder(), 0, time.monotonic()
        for seed in seeds(CASES // 5):  # the loops differ in when they call, not in the bytes
            case = draw(seed)
            with reproducible(seed, case):
                expected = plain.run(outcome(plain_app, ours, case.pieces))
                assert other.run(outcome(other_app, ours, case.pieces)) == expected
            tried += 1
        report(tried, time.monotonic() - start)


@pytest.mark.slow
@req("HTTP-31", "SEC-6", at=E)
@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("before", sampled_of([0, 1, 2], [0, 2]))
def test_misframed_requests_are_read_as_uvicorn_reads_them(before: int) -> None:
    async def test() -> None:
        app = recorder()
        for misframed in MISFRAMED:
            pieces = (*[call()] * before, misframed, call())
            _, wrong = await compare(app, b"".join(pieces), pieces)
            assert not wrong, (wrong, misframed)

    asyncio.run(test())


@req("HTTP-31", at=E)
@pytest.mark.parametrize(
    ("answers", "requests", "closed", "fails"),
    [
        ([(200, b"a"), (200, b"b")], "ab", False, False),
        ([(200, b"a"), (400, b"")], "a", True, False),
        ([(200, b"a"), (400, b"")], "ab", True, False),
        ([(200, b"a"), (400, b"")], "ab", False, True),
        ([(200, b"a"), (200, b"c")], "ab", False, True),
        ([(200, b"a"), (200, b"b")], "ac", False, True),
        ([(200, b"a"), (200, b"b"), (200, b"c")], "abc", False, True),
        ([(200, b"a")], "a", True, True),
        ([(200, b"a")], "a", False, True),
        ([], "", True, True),
    ],
)
def test_what_counts_as_a_difference(
    answers: list[tuple[int, bytes]], requests: str, closed: bool, fails: bool
) -> None:
    def made(names: str) -> list[Request]:
        return [("POST", f"/{name}", {b"host": b"x"}) for name in names]

    reference = Outcome(made("ab"), [(200, b"a"), (200, b"b")])
    assert (difference(Outcome(made(requests), answers, closed), reference) is not None) is fails
