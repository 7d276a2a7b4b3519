"""Where a client's connections lead and what is said first on each: hosts, paths, headers, certificates, and nobody there."""

from __future__ import annotations

import asyncio
import datetime as dt
import errno
import socket
import ssl
import sys
import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, closing, suppress
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any, Final, cast

import aiohttp
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

import mcprev
from helpers.lanes import (
    LATEST,
    Sent,
    body_to,
    call,
    calling,
    each_loop,
    echo,
    ended,
    laid,
    lanes,
    open_descriptors,
    requesting,
    turns,
    whole,
)
from helpers.raw_server import Exchange, Mcp, Reply
from helpers.requirements import req
from helpers.running import run, until
from helpers.support import ROOT
from mcprev.error_text import connection_reason
from mcprev.errors import ConnectionLost, HttpStatusError, LocalProtocolError, McpError
from mcprev.transports.http.client.responses import lost

Found = list[tuple[Any, ...]]


async def probe(url: str, *, headers: Any = None, **http: Any) -> None:
    """Connect and make a call."""
    async with calling(url, http={"headers": headers, **http}, restart=False) as client:
        await call(client)


def called() -> Mcp:
    return Mcp(LATEST, {"tools/call": cast("Reply", echo)})


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[tuple[str, int]] | OSError]:
    """Where names lead to, beside those that every machine knows; uvloop does not ask Python for them."""
    usual = socket.getaddrinfo
    table: dict[str, list[tuple[str, int]] | OSError] = {}

    def look_up(host: Any, port: Any, *args: Any, **given: Any) -> Found:
        found = table.get(host.decode() if isinstance(host, bytes) else host)
        if found is None:
            return cast("Found", usual(host, port, *args, **given))
        if isinstance(found, OSError):
            raise found
        return [
            (socket.AF_INET6 if ":" in where else socket.AF_INET, socket.SOCK_STREAM, 6, "", (where, number))
            for where, number in found
        ]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    return table


# -- hosts ---------------------------------------------------------------------------------------------------


def has_ipv6() -> bool:
    with suppress(OSError), closing(socket.socket(socket.AF_INET6)) as found:
        found.bind(("::1", 0))
        return True
    return False


@req("HTTP-4", everywhere=True)
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", *(["::1"] if has_ipv6() else [])])
def test_a_host_is_named_with_its_port(host: str) -> None:
    async def main() -> None:
        async with lanes(called(), host=host) as server:
            await probe(server.url)
            await probe(server.url.upper().replace("HTTP", "http").replace("MCP", "mcp"))
            shown = f"[{host}]:{server.port}" if ":" in host else f"{host}:{server.port}"
            assert {sent.headers["host"].lower() for sent in server.seen} == {shown}

    run(main())


@req("HTTP-4", everywhere=True)
@pytest.mark.parametrize(
    ("url", "name", "shown"),
    [
        ("http://example.test/mcp", "example.test", "example.test"),
        ("http://example.test:80/mcp", "example.test", "example.test"),
        ("http://b\u00fccher.test/mcp", "xn--bcher-kva.test", "xn--bcher-kva.test"),
        ("http://example.test:8080/mcp", "example.test", "example.test:8080"),
        ("http://example.test:443/mcp", "example.test", "example.test:443"),
    ],
)
def test_the_usual_port_goes_without_saying(url: str, name: str, shown: str, names: dict[str, Any]) -> None:
    async def main() -> None:
        async with lanes(called()) as server:
            names[name] = [("127.0.0.1", server.port)]
            await probe(url)
            assert {sent.headers["host"] for sent in server.seen} == {shown}
            assert {sent.path for sent in server.seen} == {"/mcp"}

    run(main())


@req("SEC-1", everywhere=True)
@pytest.mark.parametrize(
    "url", ["http://me@127.0.0.1:1/", "http://me:secret@127.0.0.1:1/", "http://@127.0.0.1:1/"]
)
def test_a_url_with_a_user_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="user or password") as caught:
        mcprev.http(url)
    assert "secret" not in str(caught.value)


@req("SEC-1", everywhere=True)
def test_the_target_of_a_redirect_has_to_be_unicode() -> None:
    async def main() -> None:
        usual = called()

        async def answer(response_stream: Exchange) -> None:
            if response_stream.path == "/mcp":
                await response_stream.raw(
                    b"HTTP/1.1 307 X\r\nLocation: /\xff?\xfe\r\nContent-Length: 0\r\n\r\n"
                )
            else:
                await usual(response_stream)

        async with lanes(answer) as server:
            with pytest.raises(McpError, match="without a valid URL"):
                await probe(server.url)
            assert {sent.path for sent in server.seen} == {"/mcp"}

    run(main())


# -- headers -------------------------------------------------------------------------------------------------

JSON: Final = "application/json"
HEADERS: Final[dict[str, tuple[dict[str, str], dict[str, str]]]] = {
    "none": ({}, {"accept": f"{JSON}, text/event-stream", "content-type": JSON}),
    "one": ({"X-A": "b c"}, {"x-a": "b c"}),
    "empty": ({"X-A": ""}, {"x-a": ""}),
    "ours": ({"accept": "x", "CONTENT-TYPE": "y", "Mcp-Method": "z"}, {"accept": f"{JSON}, text/event-stream"}),
    "an agent": ({"user-agent": "me"}, {"user-agent": "me"}),
    "a coding": ({"accept-encoding": "identity"}, {"accept-encoding": "identity"}),
    "a token": ({"authorization": "Bearer x"}, {"authorization": "Bearer x"}),
    "long": ({"X-A": "b" * 20_000}, {"x-a": "b" * 20_000}),
    "many": ({f"X-{number}": "y" for number in range(200)}, {"x-199": "y"}),
    "a tab": ({"X-A": "b\tc"}, {"x-a": "b\tc"}),
}  # fmt: skip
"""What the user gives, and what is sent, each once."""


@req("HDR-4", "HTTP-4", everywhere=True)
@pytest.mark.parametrize("case", HEADERS)
def test_headers_of_the_users_and_ours(case: str) -> None:
    given, wanted = HEADERS[case]

    async def main() -> None:
        async def function() -> dict[str, str]:
            return given

        async with lanes(called()) as server:
            await probe(server.url, headers=given)
            await probe(server.url, headers=function)
            for sent in server.seen:
                assert {name: sent.headers[name] for name in wanted} == wanted  # each name is there once
                assert sent.headers["mcp-method"] == sent.method
                assert sent.headers["user-agent"]

    run(main())


@req("SEC-6", "HTTP-4", everywhere=True)
def test_no_answer_is_to_be_compressed() -> None:
    async def main() -> None:
        async with lanes(called()) as server:
            await probe(server.url)
            assert {sent.headers["accept-encoding"] for sent in server.seen} == {"identity"}

    run(main())


@req("SEC-6", "HTTP-5", everywhere=True)
@pytest.mark.parametrize(
    "given",
    [
        {"content-length": "3"}, {"Content-Length": "99999"}, {"transfer-encoding": "chunked"}, {"Host": "other.example"},
        {"Expect": "100-continue"}, {"Connection": "upgrade", "Upgrade": "h2c"}, {"Connection": "close"},
    ],
    ids=str,
)  # fmt: skip
def test_no_header_of_the_users_changes_where_a_request_ends(given: dict[str, str]) -> None:
    """What tells the parts of the connection from each other is ours; a session of aiohttp's takes the user's word."""

    async def main() -> None:
        async with lanes(called()) as server:
            with suppress(LocalProtocolError):
                await probe(server.url, headers=given)
            for sent in server.seen:
                assert sent.message["jsonrpc"] == "2.0"
                assert sent.length == len(sent.body)
                assert "connection" not in sent.headers  # whoever says that it closes is bound by it

    run(main())


SMUGGLED: Final = {
    "CR LF in a value": {"X": "a\r\nInjected: yes"},
    "LF in a value": {"X": "a\nInjected: yes"},
    "CR in a value": {"X": "a\rb"},
    "CR LF at the end": {"X": "a\r\n"},
    "NUL in a value": {"X": "a\0b"},
    "CR LF in a name": {"X: y\r\nInjected": "yes"},
    "LF in a name": {"X\n": "yes"},
    "NUL in a name": {"X\0": "yes"},
}
INVALID: Final = {
    "no name": {"": "x"},
    "a space in a name": {"X Y": "x"},
    "a colon in a name": {"X:": "x"},
    "no ASCII in a name": {"X\u00fc": "x"},
    "a control in a value": {"X": "a\x01b"},
    "a surrogate": {"X": "a\ud800b"},
}
"""Neither may be sent."""


@req("HDR-5", "SEC-6", everywhere=True)
@pytest.mark.parametrize("case", [*SMUGGLED, *INVALID])
def test_a_header_that_is_none_is_not_sent(case: str) -> None:
    given = {**SMUGGLED, **INVALID}[case]

    async def main() -> None:
        async def function() -> dict[str, str]:
            return given if spoilt else {}

        spoilt = False
        async with lanes(called()) as server:
            with pytest.raises(LocalProtocolError):
                await probe(server.url, headers=given)
            assert server.seen == []
            async with calling(server.url, http={"headers": function}) as client:
                await call(client, "before")
                spoilt = True
                with pytest.raises(LocalProtocolError):
                    await call(client, "spoilt")
                spoilt = False
                await call(client, "after")
            names = [sent.message["params"]["name"] for sent in server.calls]
            assert names == ["before", "after"]

    run(main())


@req("HDR-5", "HDR-4", everywhere=True)
def test_a_value_that_is_no_ascii_is_sent_as_utf_8() -> None:
    async def main() -> None:
        async with lanes(called()) as server:
            await probe(server.url, headers={"X": "\u00fc\u20ac"})
            for sent in server.seen:
                assert sent.headers["x"].encode("latin-1").decode() == "\u00fc\u20ac"

    run(main())


@req("ERR-7", "HDR-4", everywhere=True)
def test_headers_of_an_answer_are_found_in_any_case() -> None:
    lines = ["X-One: 1", "x-two: a", "X-TWO: b", "X-Empty:", "X-Odd: \xfc"]

    async def main() -> None:
        async def answer(response_stream: Exchange) -> None:
            await response_stream.raw(whole(b"{}", *lines, media="Application/JSON; charset=utf-8"))

        async with lanes(answer) as server, requesting(server.url) as requests:
            response = await requests.post(b"{}", [])
            found = response.headers
            assert (found.get("x-one"), found.get("X-ONE"), found.get("x-three")) == ("1", "1", None)
            assert found.get("x-three", "none") == "none"
            assert list(found.getall("x-two")) == ["a", "b"]
            assert found.get("x-empty") == ""
            assert "X-Odd" in found
            assert "x-none" not in found
            assert (response.status, response.reason) == (200, "OK")
            assert response.content_type == JSON
            assert found.get("Content-Length") == "2"
            assert await response.read() == b"{}"
            response.release()

        async def refuse(sent: Sent) -> None:
            await sent.raw(whole(b"no", *lines, first="HTTP/1.1 500 Very Bad"))

        async with laid(refuse) as (client, _):
            with pytest.raises(HttpStatusError, match="500 Very Bad: no") as caught:
                await call(client)
            assert caught.value.headers["x-one"] == caught.value.headers.get("X-One") == "1"
            assert "x-none" not in caught.value.headers

    run(main())


@req("ERR-7", "HTTP-7", everywhere=True)
@pytest.mark.parametrize("lines", [[], ["Content-Type:"], ["Content-Type: ;"], ["Content-Type: nonsense"]])
def test_an_answer_without_a_type_is_of_no_type(lines: list[str]) -> None:
    async def main() -> None:
        async def answer(response_stream: Exchange) -> None:
            start = "".join(f"{line}\r\n" for line in ["HTTP/1.1 200 OK", *lines, "Content-Length: 2", ""])
            await response_stream.raw(start.encode() + b"{}")

        async with lanes(answer) as server, requesting(server.url) as requests:
            response = await requests.post(b"{}", [])
            assert response.content_type in {"application/octet-stream", "", "text/plain", "nonsense"}
            if not lines:
                assert response.content_type == "application/octet-stream"
            assert await response.read() == b"{}"
            response.release()

    run(main())


# -- nobody there --------------------------------------------------------------------------------------------


async def cannot_connect(url: str, **http: Any) -> str:
    """Try to; what is said of it."""
    found: list[str] = []
    for _ in range(2):  # the second fails as the first did
        with pytest.raises(ConnectionLost, match="cannot connect to") as caught:
            await probe(url, **http)
        assert (caught.value.in_flight, caught.value.retry_safe) == (False, True)
        assert url.partition("?")[0] in str(caught.value)
        assert "secret" not in str(caught.value)
        found.append(str(caught.value))
    return found[-1]


@req("ERR-5", everywhere=True)
@each_loop
def test_a_port_where_nobody_is() -> None:
    async def main() -> None:
        async with lanes(called()) as server:
            pass
        said = await cannot_connect(server.url + "?token=secret")
        assert said.endswith(": Connection refused")

    run(main())


@req("ERR-5", everywhere=True)
def test_a_name_that_nobody_has(names: dict[str, Any]) -> None:
    names["nowhere.test"] = socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    async def main() -> None:
        said = await cannot_connect("http://nowhere.test/mcp")
        assert said.endswith(": its host is unknown: Name or service not known")

    run(main())


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (aiohttp.ServerDisconnectedError(), "the server closed it"),
        (
            aiohttp.ClientPayloadError("Response payload is not completed"),
            "the response ended early, or its encoding is wrong",
        ),
        (aiohttp.ConnectionTimeoutError("Connection timeout to host http://a.test"), "it took too long"),
        (ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"), "Connection reset by peer"),
        (aiohttp.ClientOSError(errno.EPIPE, "[Errno 32] of the library"), "Broken pipe"),
        (ConnectionError("no\x1b[31mthing"), "no [31mthing"),
        (ConnectionError(), "ConnectionError"),
    ],
    ids=lambda each: type(each).__name__,
)
@req("ERR-5", everywhere=True)
def test_why_a_connection_failed_is_said_in_words_of_our_own(error: Exception, said: str) -> None:
    found = lost(error, "http://a.test/mcp?token=secret")
    assert str(found).endswith(f": {said}")
    assert isinstance(found, ConnectionLost)
    assert found.__cause__ is error


@req("ERR-5", "TIME-1", everywhere=True)
def test_a_name_that_takes_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    found = threading.Event()

    def look_up(*_: Any, **__: Any) -> Found:
        found.wait(20)
        raise socket.gaierror(socket.EAI_AGAIN, "try again")

    monkeypatch.setattr(socket, "getaddrinfo", look_up)

    async def main() -> None:
        try:
            await cannot_connect("http://slow.test/mcp", connect_timeout=0.05)
        finally:
            found.set()

    run(main())


@asynccontextmanager
async def crowded() -> AsyncGenerator[int, None]:
    """A port where a connection is never made: as many as there is room for wait already."""
    loop = asyncio.get_running_loop()
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    listening.listen(0)
    waiting: list[socket.socket] = []
    try:
        while True:
            one = socket.socket()
            one.setblocking(False)
            waiting.append(one)
            try:
                async with asyncio.timeout(0.05):
                    await loop.sock_connect(one, listening.getsockname())
            except TimeoutError:
                break
            assert len(waiting) < 10
        yield listening.getsockname()[1]
    finally:
        for one in [*waiting, listening]:
            one.close()


@req("ERR-5", "TIME-1", everywhere=True)
@pytest.mark.skipif(sys.platform != "linux", reason="other kernels refuse whom they have no room for")
def test_a_connection_that_is_never_made() -> None:
    async def main() -> None:
        async with crowded() as port:
            before = open_descriptors()
            await cannot_connect(f"http://127.0.0.1:{port}/mcp", connect_timeout=0.05)
            await until(lambda: open_descriptors() <= before)

    run(main())


@req("CANC-7", everywhere=True)
@pytest.mark.skipif(sys.platform != "linux", reason="other kernels refuse whom they have no room for")
def test_giving_up_a_connection_that_is_never_made() -> None:
    async def main() -> None:
        async with crowded() as port:
            before = open_descriptors()
            task = asyncio.create_task(probe(f"http://127.0.0.1:{port}/mcp"))
            await until(lambda: open_descriptors() > before)
            await turns(20)
            await ended(task)
            await until(lambda: open_descriptors() <= before)

    run(main())


# -- certificates --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A key and its certificate, for localhost, which nobody has signed but itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName(
                [x509.DNSName("localhost"), x509.IPAddress(IPv4Address("127.0.0.2"))]
            ),
            critical=False,
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = tmp_path_factory.mktemp("tls") / "both.pem"
    plain = serialization.NoEncryption()
    form = serialization.PrivateFormat.PKCS8
    pem = serialization.Encoding.PEM
    path.write_bytes(key.private_bytes(pem, form, plain) + made.public_bytes(pem))
    return path


@pytest.fixture(scope="module")
def tls(certificate: Path) -> ssl.SSLContext:
    """What a server of that certificate speaks; it would like to speak HTTP/2."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    context.set_alpn_protocols(["h2", "http/1.1"])
    return context


@req("SEC-1", "ERR-5", everywhere=True)
@each_loop
def test_a_certificate_that_nobody_trusts(tls: ssl.SSLContext) -> None:
    async def main() -> None:
        async with lanes(called(), tls=tls, host="localhost") as server:
            said = await cannot_connect(server.url)
            assert "certificate" in said.lower()
            assert server.seen == []

    run(main())


@pytest.mark.slow
@req("ERR-5", everywhere=True)
def test_the_command_says_how_to_trust_a_certificate(tls: ssl.SSLContext) -> None:
    async def main() -> None:
        async with lanes(called(), tls=tls, host="localhost") as server:
            command = (sys.executable, "-m", "mcprev", "inspect", server.url)
            process = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.PIPE)
            _, said = await process.communicate()
            assert process.returncode == 3
            assert b"SSL_CERT_FILE" in said

    run(main())


@req("ERR-5", everywhere=True)
def test_a_server_that_does_not_speak_tls() -> None:
    """It takes a handshake for a bad request, and says so without it; or it says nothing, or hangs up."""

    async def main() -> None:
        for said in (b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n", b"", b"\0" * 1000):
            async with saying(said) as port:
                with pytest.raises(ConnectionLost) as caught:
                    await probe(f"https://127.0.0.1:{port}/mcp")
                assert not caught.value.in_flight

    run(main())


@asynccontextmanager
async def saying(data: bytes, *, hold: bool = False) -> AsyncGenerator[int, None]:
    """A server that says one thing to whoever has said something, and then hangs up or holds the line."""

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            await reader.read(1000)
            writer.write(data)
            while hold and await reader.read(1000):
                pass
        writer.close()

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await server.wait_closed()
        await turns()


@req("ERR-5", "TIME-1", "CANC-7", everywhere=True)
@pytest.mark.parametrize("how", ["timeout", "given up"])
def test_a_handshake_that_does_not_end(how: str) -> None:
    async def main() -> None:
        async with saying(b"", hold=True) as port:
            before = open_descriptors()
            url = f"https://127.0.0.1:{port}/mcp"
            if how == "timeout":
                await cannot_connect(url, connect_timeout=0.05)
            else:
                task = asyncio.create_task(probe(url))
                await until(lambda: open_descriptors() > before + 1)
                await turns(20)
                await ended(task)
            await until(lambda: open_descriptors() <= before)

    run(main())


@req("SEC-1", "HTTP-5", everywhere=True)
def test_the_certificates_of_a_session_are_its_users_affair(certificate: Path, tls: ssl.SSLContext) -> None:
    async def main() -> None:
        trusted = ssl.create_default_context(cafile=str(certificate))
        async with lanes(called(), tls=tls, host="localhost") as server:
            import aiohttp

            async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trusted)) as session:
                await probe(server.url, session=session)
            assert len(server.lanes) == 1
            assert not session.closed or server.calls

    run(main())


TRUSTING: Final = """
import asyncio, gc, sys
sys.path.insert(0, "tests")
from helpers.lanes import call, calling, open_descriptors
from mcprev.errors import ConnectionLost

async def main(url):
    async with calling(url) as client:
        await call(client)
        await asyncio.gather(*(call(client, str(number), x="y" * 300_000) for number in range(5)))
        for number in range(5):
            await call(client, str(number))
        task = asyncio.create_task(client.call_tool("hang"))
        await call(client, "tell")
        task.cancel()
        await call(client, "after")
        began = asyncio.get_running_loop().time()
    assert asyncio.get_running_loop().time() - began < 4
    try:
        async with calling(url.replace("localhost", "127.0.0.1")):
            raise AssertionError("that host is not in the certificate")
    except ConnectionLost as error:
        assert "cannot connect" in str(error) and "certificate" in str(error).lower(), error
    assert asyncio.all_tasks() == {asyncio.current_task()}
    return open_descriptors()

async def both():
    loop = asyncio.get_running_loop()
    loop.slow_callback_duration = 5
    loop.set_exception_handler(lambda _, context: complaints.append(context))
    first = await main(sys.argv[1])
    assert await main(sys.argv[1]) == first

complaints = []
asyncio.run(both())
gc.collect()
assert not complaints, complaints
print("well")
"""
"""A client in a process of its own: which certificates are trusted is settled when the first is needed."""


@pytest.mark.slow
@req("SEC-1", "HTTP-5", "LIFE-16", "CANC-7", everywhere=True)
def test_a_certificate_that_is_trusted(certificate: Path, tls: ssl.SSLContext) -> None:
    """Calls, large ones, one that is given up: all of it over TLS."""

    async def main() -> None:
        async def answer(response_stream: Exchange) -> None:
            sent = cast("Sent", response_stream)
            name = sent.message["params"]["name"]
            if name == "hang":
                hanging.append(sent)
                arrived.set()
                await sent.gone.wait()
                return
            if name == "tell":
                await arrived.wait()
                arrived.clear()
            elif name == "after":
                await hanging[-1].gone.wait()
            await sent.raw(whole(body_to(sent)))

        hanging: list[Sent] = []
        arrived = asyncio.Event()
        usual = Mcp(LATEST, {"tools/call": cast("Reply", answer)})
        async with lanes(usual, tls=tls, host="localhost") as server:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-X", "dev", "-W", "error", "-c", TRUSTING, server.url,
                cwd=ROOT, env={"SSL_CERT_FILE": str(certificate), "PATH": ""},
                stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
            )  # fmt: skip
            out, err = await process.communicate()
            assert (err.decode(), out.decode().strip()) == ("", "well")
            assert len(server.calls) == 28

    run(main(), limit=40)


@req("HTTP-4", everywhere=True)
def test_a_tls_error_that_has_a_text_alone_is_told() -> None:
    assert "not mine" in connection_reason(ssl.SSLCertVerificationError("not mine"))
    assert "no cipher" in connection_reason(ssl.SSLError("no cipher"))
