"""Who may ask: only the page that was printed, with its token, at its own name (SEC-3); and what every response forbids."""

from __future__ import annotations

import asyncio

import aiohttp
import pytest

import mcprev
from dev.inspected import in_memory, opened
from helpers.running import run
from mcprev.dev.app import POLICY

REFUSED = [
    pytest.param({}, {"Authorization": None}, 401, id="no token"),
    pytest.param({}, {"Authorization": "Bearer wrong"}, 401, id="another token"),
    pytest.param({}, {"Authorization": "Basic {token}"}, 401, id="another scheme"),
    pytest.param({}, {"Authorization": None, "Cookie": "token={token}"}, 401, id="the token in a cookie"),
    pytest.param({"token": "{token}"}, {"Authorization": None}, 401, id="the token in the query"),
    pytest.param({}, {"Origin": "https://evil.example"}, 403, id="another page"),
    pytest.param({}, {"Origin": "null"}, 403, id="a page without origin"),
    pytest.param({}, {"Origin": "http://127.0.0.1:1"}, 403, id="a page of another port of this machine"),
    pytest.param({}, {"Origin": "https://127.0.0.1:{port}"}, 403, id="the same name over another scheme"),
    pytest.param({}, {"Host": "rebound.example:{port}"}, 403, id="a rebound name"),
    pytest.param({}, {"Host": "127.0.0.1"}, 403, id="no port"),
    pytest.param({}, {"Host": "127.0.0.1:1"}, 403, id="another port"),
    pytest.param({}, {"Sec-Fetch-Site": "cross-site"}, 403, id="from another site"),
    pytest.param({}, {"Sec-Fetch-Site": "same-site"}, 403, id="from another port"),
]
PATHS = ["state", "stream", "save", "wire", "event/1"]


def empty() -> mcprev.App:
    return mcprev.App("empty", "1.0")


@pytest.mark.parametrize(("query", "headers", "status"), REFUSED)
def test_a_request_of_anybody_else_is_refused(
    query: dict[str, str], headers: dict[str, str | None], status: int
) -> None:
    async def scenario() -> None:
        async with opened(in_memory(empty())) as page:
            words = {"token": page.app.token, "port": page.url.rpartition(":")[2]}
            sent = {
                **page.headers,
                **{name: value and value.format(**words) for name, value in headers.items()},
            }
            asked = {name: value.format(**words) for name, value in query.items()}
            given = {name: value for name, value in sent.items() if value is not None}
            for path in PATHS:
                async with page.session.get(f"{page.url}/api/{path}", headers=given, params=asked) as refused:
                    assert refused.status == status, path
                    assert "error" in await refused.json()
            async with page.session.post(f"{page.url}/api/restart", headers=given, json={}) as refused:
                assert refused.status == status
            assert (await page.get("state"))["target"]["state"] == "connected"

    run(scenario())


def test_the_page_of_this_name_is_let_in() -> None:
    async def scenario() -> None:
        async with opened(in_memory(empty())) as page:
            port = page.url.rpartition(":")[2]
            for name in ("127.0.0.1", "localhost"):
                headers = {
                    **page.headers, "Host": f"{name}:{port}", "Origin": f"http://{name}:{port}",
                    "Sec-Fetch-Site": "same-origin",
                }  # fmt: skip
                async with page.session.get(f"{page.url}/api/state", headers=headers) as response:
                    assert response.status == 200

    run(scenario())


def test_every_response_forbids_what_a_page_need_not_do() -> None:
    async def scenario() -> None:
        async with opened(in_memory(empty())) as page:
            for path, headers, status in (
                ("/", {}, 200), ("/page/nothing.js", {}, 404), ("/api/state", page.headers, 200),
                ("/api/state", {}, 401), ("/api/nothing", page.headers, 404), ("/api/save", page.headers, 200),
            ):  # fmt: skip
                async with page.session.get(f"{page.url}{path}", headers=headers) as response:
                    assert response.status == status, path
                    told = response.headers
                    assert told["Content-Security-Policy"] == POLICY.decode()
                    assert (told["X-Content-Type-Options"], told["Cache-Control"]) == ("nosniff", "no-store")
                    assert (told["Referrer-Policy"], "Set-Cookie" in told) == ("no-referrer", False)
                    assert page.app.token not in str(told) + await response.text()

    run(scenario())


@pytest.mark.parametrize(
    "path",
    [
        "/page/../app.py", "/page/..%2fapp.py", "/page/%2e%2e/app.py", "/page//etc/passwd", "/app.py",
        "/page/a/b/c/d/e.js", "/page/.hidden.js", "/page/index.py", "/page/", "/page", "/page/x%00.js",
    ],
)  # fmt: skip
def test_only_the_files_of_the_page_are_served(path: str) -> None:
    async def scenario() -> None:
        async with opened(in_memory(empty())) as page:
            host, _, port = page.url.removeprefix("http://").partition(":")
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(f"GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: close\r\n\r\n".encode())
            answer = await reader.read()
            writer.close()
            await writer.wait_closed()
            assert answer.startswith((b"HTTP/1.1 404", b"HTTP/1.1 400")), answer[:200]

    run(scenario())


@pytest.mark.parametrize(
    ("asked", "said", "status"),
    [("{host}", "{host}", 200), ("rebound.example", "{host}", 403), ("127.0.0.1:1", "{host}", 403)],
)
def test_the_host_of_a_target_that_is_a_url_has_to_be_that_of_the_page(
    asked: str, said: str, status: int
) -> None:
    async def scenario() -> None:
        async with opened(in_memory(empty())) as page:
            host = page.url.removeprefix("http://")
            name, _, port = host.partition(":")
            reader, writer = await asyncio.open_connection(name, int(port))
            lines = [f"GET http://{asked}/api/state HTTP/1.1", f"Host: {said}", "Connection: close"]
            lines.append(f"Authorization: {page.headers['Authorization']}")
            writer.write("\r\n".join([*lines, "", ""]).format(host=host).encode())
            answer = await reader.read()
            writer.close()
            await writer.wait_closed()
            assert answer.startswith(f"HTTP/1.1 {status}".encode()), answer[:200]

    run(scenario())


@pytest.mark.parametrize(
    ("verb", "path", "kind", "body", "status"),
    [
        ("POST", "call", "text/plain", b"{}", 415),
        ("POST", "call", "application/x-www-form-urlencoded", b"a=1", 415),
        ("POST", "call", "application/json", b"[1]", 400),
        ("POST", "call", "application/json", b"{", 400),
        ("POST", "call", "application/json", b"[" * 100_000, 400),
        ("POST", "call", "application/json", b'{"method": 1}', 400),
        ("POST", "call", "application/json", b'{"method": "x", "params": []}', 400),
        ("POST", "call", "application/json", b'{"method": "x", "revision": "1999-01-01"}', 400),
        ("POST", "list", "application/json", b'{"kind": "secrets"}', 400),
        ("POST", "level", "application/json", b'{"level": "loud"}', 400),
        ("POST", "roots", "application/json", b'{"roots": [{"uri": "http://x"}]}', 400),
        ("POST", "task/x", "application/json", b'{"do": "explode"}', 400),
        ("POST", "copy", "application/json", b'{"as": "command"}', 400),
        ("POST", "question/q99", "application/json", b'{"action": "accept"}', 404),
        ("POST", "call/call99/cancel", "application/json", b"", 404),
        ("POST", "check", "application/json", b'{"tool": "none"}', 404),
        ("GET", "event/0", "", b"", 404),
        ("GET", "event/99999999999999999999", "", b"", 404),
        ("GET", "call/none", "", b"", 404),
        ("GET", "nothing", "", b"", 404),
        ("GET", "restart", "", b"", 405),
        ("POST", "state", "application/json", b"{}", 405),
    ],
)
def test_a_wrong_request_is_refused_with_what_is_wrong(
    verb: str, path: str, kind: str, body: bytes, status: int
) -> None:
    async def scenario() -> None:
        async with opened(in_memory(empty())) as page:
            headers = {**page.headers, **({"Content-Type": kind} if kind else {})}
            url = f"{page.url}/api/{path}"
            async with page.session.request(verb, url, headers=headers, data=body or None) as response:
                assert response.status == status
                assert isinstance((await response.json())["error"], str)

    run(scenario())


def test_a_stream_that_nobody_reads_and_too_many_of_them_hold_up_nobody() -> None:
    async def scenario() -> None:
        async with opened(in_memory(empty())) as page, aiohttp.ClientSession() as others:
            streams = [await others.get(f"{page.url}/api/stream", headers=page.headers) for _ in range(15)]
            assert {stream.status for stream in streams} == {200}
            async with others.get(f"{page.url}/api/stream", headers=page.headers) as refused:
                assert refused.status == 429
            call = await page.call("ping")
            assert call["ended"] is not None
            for stream in streams:
                stream.close()
            await page.call("ping")

    run(scenario())
