"""What a server believes of proxies in front of it, and what it does with it (SEC-6, SEC-3, HTTP-31)."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import pytest

import mcprev
from helpers.asgi_bridge import SCOPE, Client, initialize
from helpers.named import ROW_B, ROW_C, ROW_D
from helpers.requirements import req
from helpers.running import run
from helpers.wired import Wire, head
from mcprev.revisions import Revision
from mcprev.serving.running import _server  # pyright: ignore[reportPrivateUsage]
from mcprev.transports.http.server.http11_server import Http11Server
from mcprev.transports.http.server.proxies import MAX_FORWARDED, MAX_HOPS, Proxies, Told
from mcprev.transports.http.server.request import Receive, Scope, Send
from mcprev.wire.headers import Headers

PROXY: Final = ("10.0.0.1", 4000)
TRUSTED: Final = ("10.0.0.0/8", "fd00::/8", "unix")
Lines = Sequence[tuple[str, str]]


def told(peer: Any, lines: Lines) -> Told | None:
    return Proxies(TRUSTED).told(
        peer, Headers.of([(name.lower().encode(), value.encode()) for name, value in lines])
    )


XFF, XFP, XFH = "X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Host"
NOBODY: Final = ("", 0)


@req("SEC-6", everywhere=True)
@pytest.mark.parametrize(
    ("peer", "lines", "client", "scheme", "host"),
    [
        (PROXY, [], PROXY, None, None),
        (PROXY, [(XFF, "1.1.1.1")], ("1.1.1.1", 0), None, None),
        (PROXY, [(XFF, "1.1.1.1:99"), (XFP, "https"), (XFH, "mcp.example")], ("1.1.1.1", 99), "https", "mcp.example"),
        (PROXY, [(XFF, "6.6.6.6, 1.1.1.1")], ("1.1.1.1", 0), None, None),
        (PROXY, [(XFF, "6.6.6.6"), (XFF, "1.1.1.1")], ("1.1.1.1", 0), None, None),
        (PROXY, [(XFF, "6.6.6.6,1.1.1.1, 10.3.3.3 ,10.4.4.4")], ("1.1.1.1", 0), None, None),
        (PROXY, [(XFF, "1.1.1.1, 10.3.3.3"), (XFP, "http, https, http")], ("1.1.1.1", 0), "https", None),
        (PROXY, [(XFF, "1.1.1.1, 10.3.3.3"), (XFP, "https")], ("1.1.1.1", 0), "https", None),
        (PROXY, [(XFF, "10.9.9.9, 10.3.3.3")], ("10.9.9.9", 0), None, None),
        (PROXY, [(XFF, "2001:db8::1")], ("2001:db8::1", 0), None, None),
        (PROXY, [(XFF, "[2001:db8::1]:4711")], ("2001:db8::1", 4711), None, None),
        (PROXY, [(XFF, "::ffff:1.1.1.1, ::ffff:10.3.3.3")], ("1.1.1.1", 0), None, None),
        (("::ffff:10.0.0.1", 1, 0, 0), [(XFF, "1.1.1.1")], ("1.1.1.1", 0), None, None),
        (("fd00::1%eth0", 1, 0, 2), [(XFF, "1.1.1.1")], ("1.1.1.1", 0), None, None),
        (None, [(XFF, "1.1.1.1")], ("1.1.1.1", 0), None, None),
        (("", 0), [(XFF, "1.1.1.1")], ("1.1.1.1", 0), None, None),
        (None, [], NOBODY, None, None),
        (PROXY, [("Forwarded", "for=1.1.1.1;proto=HTTPS;host=mcp.example")], ("1.1.1.1", 0), "https", "mcp.example"),
        (PROXY, [("Forwarded", 'For="[2001:db8::1]:4711"; by=x')], ("2001:db8::1", 4711), None, None),
        (PROXY, [("Forwarded", 'for=6.6.6.6, for="1.1.1.1";proto=https, for=10.3.3.3;proto=http')], ("1.1.1.1", 0), "https", None),
        (PROXY, [("Forwarded", 'for="6.6.6.6, for=7.7.7.7", for=1.1.1.1')], ("1.1.1.1", 0), None, None),
        (PROXY, [("Forwarded", "for=1.1.1.1, proto=https")], PROXY, "https", None),
        (PROXY, [("Forwarded", "for=1.1.1.1"), (XFF, "1.1.1.1, 10.3.3.3"), (XFP, "https")], ("1.1.1.1", 0), "https", None),
        # what cannot be decided is the proxy's
        (PROXY, [("Forwarded", "for=1.1.1.1"), (XFF, "6.6.6.6"), (XFP, "https")], PROXY, None, None),
        (PROXY, [("Forwarded", "for=unknown")], PROXY, None, None),
        (PROXY, [("Forwarded", "for=_hidden")], PROXY, None, None),
        (PROXY, [("Forwarded", "for=1.1.1.1;;=")], PROXY, None, None),
        (PROXY, [("Forwarded", 'for="1.1.1.1')], PROXY, None, None),
        (PROXY, [(XFF, "1.1.1.1,")], PROXY, None, None),
        (PROXY, [(XFF, "localhost")], PROXY, None, None),
        (PROXY, [(XFF, "1.1.1.1 2.2.2.2")], PROXY, None, None),
        (PROXY, [(XFF, "1.1.1.1, unknown, 10.3.3.3")], ("10.3.3.3", 0), None, None),
        (PROXY, [(XFF, "1.1.1.1, " + "10.3.3.3," * 1000 + "10.3.3.3")], PROXY, None, None),
        (PROXY, [(XFF, "1.1.1.1" + ",10.3.3.3" * MAX_HOPS)], ("10.3.3.3", 0), None, None),
        (PROXY, [(XFP, "javascript")], PROXY, None, None),
    ],
)  # fmt: skip
def test_who_the_client_is_is_read_from_the_right(
    peer: Any, lines: Lines, client: tuple[str, int], scheme: str | None, host: str | None
) -> None:
    assert told(peer, lines) == (client, scheme, None if host is None else host.encode())


@req("SEC-6", everywhere=True)
@pytest.mark.parametrize("peer", [("1.1.1.1", 1), ("11.0.0.1", 1), ("::1", 1), ("testclient", 1)])
def test_nobody_else_is_believed(peer: Any) -> None:
    assert told(peer, [(XFF, "2.2.2.2"), ("Forwarded", "for=2.2.2.2"), (XFH, "x")]) is None
    assert Proxies(["10.0.0.1"]).told(None, Headers({b"x-forwarded-for": b"2.2.2.2"})) is None


@req("SEC-6", everywhere=True)
def test_proxies_that_name_different_clients_are_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    proxies = Proxies(TRUSTED)
    for _ in range(2):
        proxies.told(PROXY, Headers({b"forwarded": b"for=1.1.1.1", b"x-forwarded-for": b"2.2.2.2"}))
    (message,) = caplog.messages
    assert "neither is believed" in message


@req("SEC-6", everywhere=True)
@pytest.mark.parametrize("text", ['"\\' * 2048, '"' * 4096, 'for="' * 900, " " * 4096, "for=1;" * 700, ","])
def test_reading_odd_text_takes_no_time_to_speak_of(text: str) -> None:
    """Each is read once from end to end: a pattern that went back would take minutes for the longest."""
    assert told(PROXY, [("Forwarded", text[:MAX_FORWARDED])]) == (PROXY, None, None)


@req("SEC-6", everywhere=True)
@pytest.mark.parametrize("entry", ["*", "10.0.0.1/8", "proxy.example", "", "10.0.0"])
def test_what_is_no_proxy_is_refused_with_what_is_one(entry: str) -> None:
    with pytest.raises(ValueError, match=r"is not a proxy to trust: use an address such as 10\.0\.0\.7"):
        mcprev.App("a", "1").asgi(proxies=[entry])


# -- what a request says ------------------------------------------------------------------------------------


async def seen(app: Any, lines: Lines, *, wired: bool, peer: Any = PROXY, path: str = "/seen") -> Any:
    """What is said to a GET, on a connection of our own or of another ASGI server: the JSON of a route, or the status."""
    if wired:
        wire = Wire(Http11Server(app), peername=peer)
        wire.send(head("GET", path, [*lines, ("Connection", "close")]) + b"\r\n")
        await wire.gone.wait()
        status, body = int(wire.received.split(b" ")[1]), wire.received.partition(b"\r\n\r\n")[2]
        return json.loads(body) if status == 200 else status
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    pairs = [(name.lower().encode(), value.encode()) for name, value in lines]
    request = {
        "type": "http",
        "method": "GET",
        "path": path,
        "headers": pairs,
        "query_string": b"",
        "client": peer,
    }
    await app({**SCOPE, **request}, receive, send)
    return json.loads(sent[1]["body"]) if sent[0]["status"] == 200 else sent[0]["status"]


async def shows(scope: Scope, receive: Receive, send: Send) -> None:
    """A route that returns what it is told of a request."""
    del receive
    names = [value.decode() for name, value in scope["headers"] if name == b"host"]
    said = [
        scope["client"] and list(scope["client"]),
        scope["scheme"],
        names,
        scope["root_path"],
        scope["path"],
    ]
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": json.dumps(said).encode(), "more_body": False})


def app_of(**options: Any) -> Any:
    return mcprev.App("seen", "1").asgi(routes={"/seen": shows, "/tools/other": shows}, **options)


WIRED: Final = pytest.mark.parametrize("wired", [True, False], ids=["ours", "ASGI"])


@req("SEC-6", "HTTP-31", everywhere=True)
@WIRED
@pytest.mark.parametrize(
    ("options", "peer", "said"),
    [
        ({}, PROXY, [["10.0.0.1", 4000], "http", ["127.0.0.1:8000"]]),
        ({"proxies": TRUSTED}, ("9.9.9.9", 1), [["9.9.9.9", 1], "http", ["127.0.0.1:8000"]]),
        ({"proxies": TRUSTED, "hosts": ["mcp.example"]}, PROXY, [["1.1.1.1", 0], "https", ["mcp.example"]]),
    ],
    ids=["off", "untrusted", "trusted"],
)
def test_routes_and_principals_see_the_client_and_its_url(
    options: dict[str, Any], peer: Any, said: list[Any], *, wired: bool
) -> None:
    principals: list[Any] = []

    def principal(scope: Mapping[str, Any]) -> None:
        principals.append(list(scope["client"]))

    async def main() -> None:
        app = app_of(**options, principal=principal)
        lines = [("Host", "127.0.0.1:8000"), (XFF, "6.6.6.6, 1.1.1.1"), (XFP, "https"), (XFH, "mcp.example")]
        assert (await seen(app, lines, wired=wired, peer=peer))[:3] == said
        await seen(app, lines, wired=wired, peer=peer, path="/mcp")
        assert principals == [said[0]]
        await app.aclose()

    run(main())


@req("SEC-3", "HTTP-2", everywhere=True)
@WIRED
@pytest.mark.parametrize(
    ("hosts", "host", "forwarded", "origin", "status"),
    [
        (None, "127.0.0.1:8000", None, None, 200),
        (None, "127.0.0.1:8000", "evil.example", None, 403),
        (None, "evil.example", "127.0.0.1", None, 403),
        (["mcp.example"], "mcp.example", None, None, 200),
        (["mcp.example"], "10.1.2.3:8000", "mcp.example", None, 200),
        (["mcp.example"], "localhost", "mcp.example", "https://mcp.example", 200),
        (["mcp.example"], "localhost", "mcp.example", "https://evil.example", 403),
        (["mcp.example"], "evil.example", "mcp.example", None, 403),
        (["mcp.example"], "evil.example", "mcp.example", "https://mcp.example", 403),
        (["mcp.example"], "mcp.example", "evil.example", None, 403),
        (["mcp.example"], "localhost", None, None, 403),
        (["mcp.example", "shop"], "shop", "mcp.example", "https://mcp.example", 200),
    ],
)
def test_a_page_that_claims_to_be_a_proxy_passes_no_check_of_hosts(
    hosts: list[str] | None, host: str, forwarded: str | None, origin: str | None, status: int, *, wired: bool
) -> None:
    """On the machine of a trusted proxy, a page that DNS has led here can send any `X-Forwarded-Host`, but not any `Host`."""

    async def main() -> None:
        app = app_of(proxies=["127.0.0.1"], hosts=hosts)
        lines = [("Host", host)]
        lines += [(XFH, forwarded)] if forwarded else []
        lines += [("Origin", origin)] if origin else []
        found = await seen(app, lines, wired=wired, peer=("127.0.0.1", 1))
        assert (200 if isinstance(found, list) else found) == status
        await app.aclose()

    run(main())


@req("SEC-6")
@pytest.mark.parametrize("row", [ROW_B, ROW_C, ROW_D], ids=str)
@pytest.mark.parametrize("proxies", [(), TRUSTED], ids=["unknown", "trusted"])
def test_behind_a_trusted_proxy_each_client_has_its_share(row: Revision, proxies: Sequence[str]) -> None:
    """Of sessions, of which the longest idle one of the same client makes room; without trust all are one client."""

    async def main() -> None:
        app = mcprev.App("shared", "1").asgi(proxies=proxies, max_sessions_per_client=2)
        client = Client(app, client=PROXY)

        async def opened(address: str) -> str:
            found = await client.send("POST", initialize(row), {XFF.lower(): address}).done()
            return found.headers["mcp-session-id"]

        first = await opened("1.1.1.1")
        for _ in range(3):
            await opened("2.2.2.2")
        asked = {"mcp-session-id": first, XFF.lower(): "1.1.1.1"}
        if row.version_header:
            asked["mcp-protocol-version"] = row.version
        ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        assert (await client.send("POST", ping, asked).done()).status == (200 if proxies else 404)
        await app.aclose()

    run(main())


@req("SEC-6", everywhere=True)
def test_connections_and_bodies_of_a_trusted_proxy_count_for_its_clients() -> None:
    """A proxy has connections for all, so it has no share of them; an unknown peer has."""

    async def main() -> None:
        app = app_of(proxies=TRUSTED, max_connections=8)
        front = Http11Server(app)
        body = [("Host", "127.0.0.1"), ("Content-Length", "10")]
        wires = [Wire(front, peername=PROXY) for _ in range(8)]
        for number, wire in enumerate(wires):
            wire.send(head("POST", "/mcp", [*body, (XFF, f"1.1.1.{number % 2}")]) + b"12345")
        assert not any(wire.closing for wire in wires)
        assert app.budget.by == {"address 1.1.1.0": 20, "address 1.1.1.1": 20}
        for wire in wires:
            wire.hang_up()
            await wire.gone.wait()
        strangers = [Wire(front, peername=("9.9.9.9", port)) for port in range(8)]
        assert any(wire.closing for wire in strangers)
        for wire in strangers:
            wire.hang_up()
            await wire.gone.wait()
        await app.aclose()

    run(main())


@req("HTTP-31", everywhere=True)
@pytest.mark.parametrize(
    ("proxies", "peer", "said"),
    [((), PROXY, "10.0.0.1:4000 "), (TRUSTED, PROXY, "1.1.1.1 "), (TRUSTED, None, "1.1.1.1 ")],
)
def test_the_access_log_names_the_client(
    proxies: Sequence[str], peer: Any, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        app = app_of(proxies=proxies)
        _server(app)
        await seen(app, [("Host", "127.0.0.1"), (XFF, "1.1.1.1")], wired=True, peer=peer)
        await app.aclose()

    with caplog.at_level(logging.INFO, "mcprev.access"):
        run(main())
    (message,) = [record.getMessage() for record in caplog.records if record.name == "mcprev.access"]
    assert message.startswith(f'{said}"GET /seen" - 200')


# -- below a prefix -----------------------------------------------------------------------------------------


@req("HTTP-31", everywhere=True)
@WIRED
@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/seen", ["/tools", "/tools/seen"]),
        ("/tools/seen", ["/tools", "/tools/seen"]),
        ("/other", ["/tools", "/tools/other"]),
        ("/toolsseen", 404),
        ("/tools/none", 404),
    ],
)
def test_paths_are_found_whether_or_not_a_proxy_has_removed_the_prefix(
    path: str, said: Any, *, wired: bool
) -> None:
    async def main() -> None:
        app = app_of(root_path="/tools")
        found = await seen(app, [("Host", "127.0.0.1")], wired=wired, path=path)
        assert (found[3:] if isinstance(found, list) else found) == said
        await app.aclose()

    run(main())


def login(resource: str, issuer: str | None = None) -> mcprev.Login:
    provider = mcprev.Provider.github("id", "secret")
    return mcprev.Login(provider, resource=resource, issuer=issuer)


@req("AUTH-1", "AUTH-10", everywhere=True)
@WIRED
def test_a_login_below_a_prefix_that_a_proxy_removes_is_found(*, wired: bool) -> None:
    """As clients look for it: from the challenge to the metadata of both servers, and each endpoint that these name."""
    public = "https://mcp.example/tools"

    async def main() -> None:
        auth = login(f"{public}/mcp", public)
        app = mcprev.App("tools", "1", auth=auth).asgi(root_path="/tools", hosts=["mcp.example"])
        _server(app)

        async def get(url: str) -> Any:
            assert url.startswith(f"{public}/"), "the proxy passes on nothing else"
            lines = [("Host", "mcp.example")]
            return await seen(app, lines, wired=wired, path=url.removeprefix(public).partition("?")[0])

        assert await get(f"{public}/mcp") == 401
        resource = await get(auth.at("/tools").metadata_url)
        assert resource["resource"] == f"{public}/mcp"
        (issuer,) = resource["authorization_servers"]
        server = await get(f"{issuer}/.well-known/openid-configuration")
        assert server["issuer"] == issuer == public
        for name in ("authorization_endpoint", "token_endpoint", "registration_endpoint", "jwks_uri"):
            assert await get(server[name]) != 404, name
        assert await get(f"{public}/callback") != 404
        await app.aclose()

    run(main())


@req("AUTH-10", everywhere=True)
@pytest.mark.parametrize(
    ("resource", "issuer", "options", "mends"),
    [
        ("https://m.example/mcp", None, {}, None),
        ("https://m.example/tools/mcp", "https://m.example/tools", {"root_path": "/tools"}, None),
        ("https://m.example/tools/mcp", "https://m.example", {"root_path": "/tools"}, None),
        ("https://m.example/tools/mcp", "https://m.example", {"path": "/tools/mcp"}, None),
        ("https://m.example", None, {}, None),
        ("https://m.example/tools/mcp", None, {}, "start with --root-path /tools or http="),
        (
            "https://m.example/tools/mcp",
            None,
            {"root_path": "/tools"},
            "pass issuer='https://m.example/tools'",
        ),
        ("https://m.example/mcp", None, {"root_path": "/tools"}, "start without `root_path`"),
    ],
)
def test_a_login_that_browsers_would_not_find_is_refused_at_the_start_with_what_mends_it(
    resource: str, issuer: str | None, options: dict[str, Any], mends: str | None
) -> None:
    app = mcprev.App("tools", "1", auth=login(resource, issuer)).asgi(**options)
    if mends is None:
        _server(app)
        return
    with pytest.raises(ValueError, match=mends):
        _server(app)


@req("HTTP-31", everywhere=True)
@pytest.mark.parametrize("root", ["tools", "/tools/", "/", "//x", "/t?x"])
def test_a_prefix_begins_with_a_slash_and_ends_without_one(root: str) -> None:
    with pytest.raises(ValueError, match="must begin with a slash and end without one"):
        mcprev.App("a", "1").asgi(root_path=root)


# -- other protocols at the port, and coded bodies -----------------------------------------------------------

HELLO: Final = bytes.fromhex("16030102000100 01fc0303") + bytes(64)
PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes.fromhex("000000040000000000")
V1: Final = b"PROXY TCP4 1.1.1.1 2.2.2.2 3 4\r\n" + head("GET", "/seen", {"Host": "127.0.0.1"}) + b"\r\n"
V2: Final = b"\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0c" + bytes(12) + head("GET", "/seen") + b"\r\n"


@req("HTTP-31", everywhere=True)
@pytest.mark.parametrize(
    ("data", "says", "log"),
    [
        (HELLO, b"this port speaks plain HTTP, not TLS", "speaks TLS .* use http://"),
        (PREFACE, b"this server speaks HTTP/1.1", "speaks HTTP/2 .*`proxy_http_version 1.1`"),
        (V1, b"does not read the PROXY protocol", "speaks the PROXY protocol .*--trusted-proxy"),
        (V2, b"does not read the PROXY protocol", "speaks the PROXY protocol .*--trusted-proxy"),
        (b"GARBAGE\r\n\r\n", b"this is not HTTP/1.1", None),
        (head("GET", "/none", {"Host": "127.0.0.1"}) + b"\r\n" + V1, b"this is not HTTP/1.1", None),
    ],
    ids=["TLS", "HTTP/2", "PROXY 1", "PROXY 2", "garbage", "later on a connection"],
)
def test_what_is_not_http_is_told_so_and_logged_once_with_the_cure(
    data: bytes, says: bytes, log: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        app = app_of(proxies=TRUSTED)
        front = Http11Server(app)
        for _ in range(3):
            wire = Wire(front, peername=PROXY)
            wire.send(data)
            await wire.settled()
            assert says in wire.received
            assert b"client" not in wire.received, "the request behind it is not served"
            wire.hang_up()
            await wire.gone.wait()
        await app.aclose()

    with caplog.at_level(logging.WARNING):
        run(main())
    said = [record.getMessage() for record in caplog.records if record.name == "mcprev.transport.http"]
    assert len(said) == (log is not None)
    assert log is None or re.search(log, said[0])


@req("HTTP-31", everywhere=True)
def test_http_2_is_refused_with_its_own_frames() -> None:
    """SETTINGS, then GOAWAY with HTTP_1_1_REQUIRED, which clients of HTTP/2 show (RFC 9113, 3.4, 6.8 and 7)."""

    async def main() -> None:
        app = app_of()
        wire = Wire(Http11Server(app))
        wire.send(PREFACE)
        await wire.settled()
        frames: list[tuple[int, bytes]] = []
        rest = wire.received
        while rest:
            size = int.from_bytes(rest[:3], "big")
            frames.append((rest[3], rest[9 : 9 + size]))
            rest = rest[9 + size :]
        (first, settings), (second, goaway) = frames
        assert (first, settings, second) == (4, b"", 7)
        assert (goaway[:4], goaway[4:8]) == (bytes(4), b"\0\0\0\x0d")
        wire.hang_up()
        await wire.gone.wait()
        await app.aclose()

    run(main())


@req("HTTP-31", everywhere=True)
@pytest.mark.parametrize(
    ("coding", "status"), [("gzip", 415), ("br, gzip", 415), ("zstd", 415), ("identity", 200), (None, 200)]
)
def test_a_coded_body_is_415(coding: str | None, status: int) -> None:
    async def main() -> None:
        app = mcprev.App("coded", "1").asgi(sse=True)
        found = await Client(app).send("POST", initialize(ROW_D), {"content-encoding": coding}).done()
        assert found.status == status
        assert (found.headers.get("accept-encoding") == "identity") == (status == 415)
        await app.aclose()

    run(main())
