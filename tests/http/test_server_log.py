"""What a server's log says: where it listens, each request, why a token is refused; and that lines can be read."""

from __future__ import annotations

import asyncio
import logging
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import aiohttp
import pytest

import mcprev
from auth.guarded import RESOURCE, Tokens, asked, everything, good, over_http
from helpers.http_in_process import InProcess
from helpers.named import ROW_D, ROW_E
from helpers.requirements import req
from helpers.running import run
from helpers.support import ROOT
from mcprev.errors import TokenRejected
from mcprev.serving import running
from mcprev.serving.access_log import log_access
from mcprev.transports.http.server.access import InvalidToken
from mcprev.wire.headers import Headers

ACCESS: Final = "mcprev.access"
HTTP: Final = "mcprev.transport.http"
EVERYWHERE: Final = "0.0.0.0"  # noqa: S104 - for a moment


def an_app(**options: Any) -> mcprev.App:
    app = mcprev.App("demo", "1", revisions=[ROW_D.name, ROW_E.name], **options)

    @app.tool
    async def echo() -> str:
        return "echoed"

    return app


def no_one(_: object) -> None:
    return None


def lines(caplog: pytest.LogCaptureFixture, logger: str, level: int = logging.DEBUG) -> list[str]:
    return [r.getMessage() for r in caplog.records if r.name == logger and r.levelno >= level]


def listened(caplog: pytest.LogCaptureFixture, host: str = "127.0.0.1", **options: Any) -> str:
    """What a server logs as it starts, with PORT for its port."""
    ports: list[int] = []

    async def main() -> None:
        ready = asyncio.Event()

        def told(port: int) -> None:
            ports.append(port)
            ready.set()

        task = asyncio.ensure_future(an_app(**options).server.serve_http(host, 0, ready=told))
        await asyncio.wait({task, asyncio.ensure_future(ready.wait())}, return_when="FIRST_COMPLETED")
        task.cancel()
        await asyncio.wait({task})

    caplog.set_level(logging.INFO, HTTP)
    run(main(), has_both_ends=True)
    (line,) = [line for line in lines(caplog, HTTP) if line.startswith("listening")]
    return line.replace(str(ports[0]), "PORT")


@req("HTTP-3", everywhere=True)
@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({}, "http://127.0.0.1:PORT/mcp; {revisions}; authentication: none"),
        (
            {"auth": Tokens().bearer(), "http": {"sse": True, "path": "/here"}},
            "http://127.0.0.1:PORT/here, http://127.0.0.1:PORT/sse; {revisions}; authentication: bearer tokens",
        ),
        (
            {"http": {"principal": no_one}},
            "http://127.0.0.1:PORT/mcp; {revisions}; authentication: `principal`",
        ),
    ],
)
def test_a_server_logs_where_it_listens(options: Any, says: str, caplog: pytest.LogCaptureFixture) -> None:
    named = f"revisions: {ROW_D.name}, {ROW_E.name}"
    assert listened(caplog, **options) == f"listening at {says.format(revisions=named)}"
    assert not lines(caplog, HTTP, logging.WARNING)


@req("HTTP-3", everywhere=True)
def test_a_server_without_authentication_warns_beyond_loopback(caplog: pytest.LogCaptureFixture) -> None:
    assert "http://0.0.0.0:PORT/mcp; " in listened(caplog, EVERYWHERE)
    assert lines(caplog, HTTP, logging.WARNING) == [
        (
            "the server listens at 0.0.0.0 without authentication: everybody who reaches that address can use it; pass "
            "`auth`, or listen at 127.0.0.1"
        )
    ]
    caplog.clear()
    listened(caplog, EVERYWHERE, auth=Tokens().bearer())
    assert not lines(caplog, HTTP, logging.WARNING)


@req("HTTP-3", everywhere=True)
@pytest.mark.parametrize(("host", "warned"), [(EVERYWHERE, 1), ("127.0.0.1", 0), ("::1", 0)])
@pytest.mark.parametrize("wrap", [False, True])
def test_static_tokens_warn_where_the_server_starts_beyond_this_machine(
    host: str, warned: int, wrap: bool, caplog: pytest.LogCaptureFixture
) -> None:
    static = mcprev.StaticTokens({"secret-token": "ann"})
    auth = mcprev.Bearer(mcprev.AnyVerifier(static, static)) if wrap else static
    listened(caplog, host, auth=auth)
    found = lines(caplog, "mcprev.auth", logging.WARNING)
    assert [line.partition(",")[0] for line in found] == [
        "static tokens are used at '0.0.0.0'" for _ in range(warned)
    ]


@req("HTTP-3", everywhere=True)
@pytest.mark.parametrize("level", [logging.WARNING, logging.INFO])
def test_a_program_that_logs_nothing_prints_where_it_listens(
    level: int, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(level, HTTP)
    with socket.create_server(("::1", 0), family=socket.AF_INET6) as listening:
        running.report(an_app().asgi(), listening, alone=True)
        port = listening.getsockname()[1]
    told = capsys.readouterr().err
    printed = (
        f"listening at http://[::1]:{port}/mcp; revisions: {ROW_D.name}, {ROW_E.name}; authentication: none\n"
    )
    assert told == (printed if level == logging.WARNING else "")


@req("HTTP-3", everywhere=True)
@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://ann:s3cret@127.0.0.1:1/0", "redis://127.0.0.1:1"),
        ("sqlite:///shop.db", "sqlite:///{folder}/shop.db"),
    ],
)
def test_one_process_shows_its_store_without_credentials(
    url: str, shown: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    caplog.set_level(logging.INFO, HTTP)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        running.report(an_app(store=mcprev.open_store(url)).asgi(), listening, alone=True)
    (line,) = lines(caplog, HTTP)
    assert line.endswith(f"; authentication: none; store: {shown.format(folder=tmp_path)}")
    assert "s3cret" not in line


# -- requests --------------------------------------------------------------------------------------------


@req("HTTP-3", everywhere=True)
def test_the_access_log_has_a_line_for_each_request(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, ACCESS)
    verb, path, headers, call = asked(ROW_E)

    async def main() -> None:
        async with over_http(an_app(auth=Tokens().bearer()).server, sse=True) as ask:
            known = {**headers, "authorization": "Bearer alice"}
            assert (await ask(verb, path, [*known.items()], call)).status == 200
            assert (await ask(verb, path, [*headers.items()], call)).status == 401
            assert (await ask("GET", "/%0d%0aeve%1b[31m?access_token=hidden")).status == 404
            stream = await ask.stream("GET", "/sse", [*known.items(), ("accept", "text/event-stream")])
            await stream.hang_up()

    run(main(), has_both_ends=True)
    client = r"127\.0\.0\.1:\d+"
    shapes = [
        rf'{client} "POST /mcp" tools/call 200 \d+\.\d ms',
        rf'{client} "POST /mcp" - 401 \d+\.\d ms',
        rf'{client} "GET /  eve \[31m" - 404 \d+\.\d ms',
        rf'{client} "GET /sse" - 200 \d+\.\d ms',
    ]
    found = lines(caplog, ACCESS)
    assert len(found) == len(shapes), found
    for line, shape in zip(found, shapes, strict=True):
        assert re.fullmatch(shape, line), line
    assert "alice" not in caplog.text
    assert "hidden" not in caplog.text


@req("HTTP-3", everywhere=True)
def test_the_access_log_is_off_unless_asked_for(caplog: pytest.LogCaptureFixture) -> None:
    verb, path, headers, call = asked(ROW_E)

    async def main() -> None:
        server = an_app().server
        async with over_http(server) as ask:
            assert (await ask(verb, path, [*headers.items()], call)).status == 200

    caplog.set_level(logging.WARNING, ACCESS)
    run(main(), has_both_ends=True)
    assert not lines(caplog, ACCESS)


EXAMPLE: Final = ROOT / "examples" / "compared" / "bearer_auth" / "with_mcprev.py"


@pytest.mark.slow
@req("HTTP-3", everywhere=True)
def test_the_command_logs_to_stderr_and_the_example_needs_its_token() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    argv = [sys.executable, "-m", "mcprev", "serve", "--http", str(port), str(EXAMPLE), "--", str(port)]
    process = subprocess.Popen(argv, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
    assert process.stderr is not None
    try:
        first = process.stderr.readline()
        verb, _, headers, body = everything(ROW_D)[1]
        url = f"http://127.0.0.1:{port}/mcp"

        async def main() -> list[int]:
            async with aiohttp.ClientSession() as http:
                found: list[int] = []
                for more in ({}, {"authorization": "Bearer secret"}, {"authorization": "Bearer other"}):
                    async with http.request(verb, url, headers={**headers, **more}, json=body) as got:
                        found.append(got.status)
                return found

        assert run(main()) == [401, 200, 401]
    finally:
        process.send_signal(signal.SIGTERM)
        _, rest = process.communicate(timeout=20)
    assert process.returncode == 0
    time = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}"
    assert re.fullmatch(
        rf"{time} INFO mcprev.transport.http: listening at {url}; revisions: .*; authentication: bearer tokens\n",
        first,
    )
    shapes = [
        r'mcprev.access: 127\.0\.0\.1:\d+ "POST /mcp" - 401 \d+\.\d ms',
        r'mcprev.access: 127\.0\.0\.1:\d+ "POST /mcp" initialize 200 \d+\.\d ms',
        r"mcprev.auth: a token is refused: `verify` returned None",
        r'mcprev.access: 127\.0\.0\.1:\d+ "POST /mcp" - 401 \d+\.\d ms',
    ]
    told = [line for line in rest.splitlines() if "request states are signed" not in line]
    assert len(told) == len(shapes), rest
    for line, shape in zip(told, shapes, strict=True):
        assert re.fullmatch(f"{time} INFO {shape}", line), line


# -- tokens ----------------------------------------------------------------------------------------------


@req("HTTP-3", everywhere=True)
@pytest.mark.parametrize(
    ("known", "options", "why"),
    [
        (None, {}, "`verify` returned None"),
        (
            InvalidToken("its issuer is 'https://eve.example'\x1b[31m, the token (t0ken)"),
            {},
            "its issuer is 'https://eve.example' [31m, the token ((the token))",
        ),
        (InvalidToken("no t0kens, but t0ken"), {}, "no t0kens, but (the token)"),
        (
            good("x", audience="https://other.example"),
            {},
            f"its audience is https://other.example, not {RESOURCE}",
        ),
        (good("x", audience=[]), {}, f"its audience is missing, not {RESOURCE}"),
        (good("x", expires=970.0), {}, "it expired 30 s ago"),
        (good("x"), {"scopes": ["shop", "sell"]}, "it lacks the scopes sell, shop"),
    ],
)
def test_why_a_token_is_refused_stands_in_the_log_and_not_in_the_response(
    known: Any, options: Any, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "mcprev.auth")
    bearer = Tokens(t0ken=known).bearer(**options)
    headers = Headers.of([(b"authorization", b"Bearer t0ken")])

    async def main() -> Any:
        return await bearer.admit(headers, b"")

    refused = run(main())
    assert refused.status in {401, 403}
    assert lines(caplog, "mcprev.auth") == [f"a token is refused: {why}"]
    sent = refused.body + b"".join(value for _, value in refused.headers)
    for part in ("eve.example", "other.example", "30 s", "`verify`"):
        assert part.encode() not in sent


@req("HTTP-3", everywhere=True)
@pytest.mark.parametrize(
    ("headers", "advice"),
    [
        ({}, "the server requires a token that it accepts: pass `mcprev.http` an `auth`"),
        (
            {"authorization": "Bearer bad"},
            (
                "the server refuses the token in the `headers` or from the `auth` of `mcprev.http`, which may have expired or "
                "be for another server; its log may say why. Replace it, or pass another `auth`"
            ),
        ),
    ],
)
def test_the_advice_of_a_client_fits_the_cause(headers: dict[str, str], advice: str) -> None:
    async def main() -> str:
        connector = InProcess(an_app(auth=Tokens().bearer()).asgi())
        async with aiohttp.ClientSession(connector=connector) as session:
            target = mcprev.http(f"{connector.origin}/mcp", session=session, headers=headers)
            with pytest.raises(TokenRejected) as caught:
                async with mcprev.connect(target):
                    pass
            return str(caught.value)

    assert advice in run(main())


# -- what all loggers say --------------------------------------------------------------------------------


@req("HTTP-3", everywhere=True)
def test_debug_lines_can_be_read(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "mcprev")

    async def main() -> None:
        port: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        serving = asyncio.ensure_future(an_app().server.serve_http(port=0, ready=port.set_result))
        url = f"http://127.0.0.1:{await port}/mcp"
        for row in (ROW_D, ROW_E):
            async with mcprev.connect(mcprev.http(url), mode=row.name) as client:
                await client.call_tool("echo")
        async with mcprev.connect(mcprev.http(url)) as client:
            await client.call_tool("echo")
        serving.cancel()
        await asyncio.wait({serving})

    run(main(), has_both_ends=True)
    told = [
        f"{record.name} {record.getMessage()}"
        for record in caplog.records
        if record.name.startswith("mcprev")
    ]
    assert len(told) > 10
    for line in told:
        assert len(line) < 250, line
        assert not re.search(r"\b[A-Z]\w+\(\w+=.*\w+=", line), f"the fields of an object: {line}"
        assert not re.search(r" at 0x[0-9a-f]+", line), line
    assert f"mcprev.client negotiating: Discover(revision=<Revision {ROW_E.name}>)" in told


@req("HTTP-3", everywhere=True)
@pytest.mark.parametrize("begun", [False, True])
def test_a_request_whose_client_is_gone_has_a_line_too(begun: bool, caplog: pytest.LogCaptureFixture) -> None:
    class Request:
        scope: Final = {"client": ("192.0.2.1", 5)}
        verb, path, method, quiet = "POST", "/mcp\x1b[2J", None, False

        async def answer(self, status: int, fields: Any, body: bytes) -> None: ...

        async def begin(self, status: int, fields: Any, data: bytes) -> None: ...

    class App:
        async def serve(self, request: Any) -> None:
            if begun:
                await request.begin(200, (), b"")
            raise ConnectionResetError

    app: Any = App()
    log_access(app)
    caplog.set_level(logging.INFO, "mcprev.access")
    with pytest.raises(ConnectionResetError):
        run(app.serve(Request()))
    (line,) = caplog.messages
    status = "200" if begun else "-"
    assert re.fullmatch(rf'192\.0\.2\.1:5 "POST /mcp \[2J" - {status} \d+\.\d ms', line), line
