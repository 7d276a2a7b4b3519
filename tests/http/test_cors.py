"""HTTP-30: pages of other origins can read every answer, and nothing is said to them unless that is configured."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

import pytest

from helpers.requirements import req
from helpers.running import run
from mcprev.transports.http.server.cors import cors
from mcprev.transports.http.server.request import App, Receive, Scope, Send

PAGE = "https://app.example"


def app(status: int) -> App:
    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": status, "headers": [(b"allow", b"POST")]})
        await send({"type": "http.response.body", "body": b"x"})

    return answer


async def ask(wrapped: App, method: str, **sent: str) -> tuple[int, dict[str, str]]:
    """The status and the headers of the answer to a request."""
    found: list[MutableMapping[str, Any]] = []

    async def send(message: MutableMapping[str, Any]) -> None:
        found.append(message)

    async def receive() -> MutableMapping[str, Any]:
        raise AssertionError

    pairs = [(name.replace("_", "-").encode(), value.encode()) for name, value in sent.items()]
    await wrapped({"type": "http", "method": method, "headers": pairs}, receive, send)
    assert [message["type"] for message in found] == ["http.response.start", "http.response.body"]
    return found[0]["status"], {name.decode(): value.decode() for name, value in found[0]["headers"]}


@req("HTTP-30", everywhere=True)
@pytest.mark.parametrize("status", [200, 202, 400, 401, 403, 404, 405, 406, 413, 500])
@pytest.mark.parametrize("method", ["POST", "GET", "DELETE", "OPTIONS", "PUT"])
def test_every_answer_can_be_read_by_the_page(status: int, method: str) -> None:
    got, headers = run(ask(cors(app(status), origins=[PAGE]), method, origin=PAGE))
    assert got == status
    assert headers["allow"] == "POST"
    assert headers["access-control-allow-origin"] == PAGE
    assert "Mcp-Session-Id" in headers["access-control-expose-headers"]
    assert "WWW-Authenticate" in headers["access-control-expose-headers"]
    assert "Origin" in headers["vary"]


@req("HTTP-30", everywhere=True)
def test_a_preflight_is_answered_here() -> None:
    asked = {
        "access_control_request_method": "POST",
        "access_control_request_headers": "mcp-method, Mcp-Param-Region,x-other",
    }
    status, headers = run(ask(cors(app(405), origins=[PAGE]), "OPTIONS", origin=PAGE, **asked))
    assert status == 204
    allowed = [name.strip().lower() for name in headers["access-control-allow-headers"].split(",")]
    assert {
        "authorization", "content-type", "accept", "mcp-session-id", "mcp-protocol-version", "last-event-id", "mcp-method",
        "mcp-name", "mcp-param-region",
    } <= set(allowed)  # fmt: skip
    assert "x-other" not in allowed
    assert headers["access-control-allow-methods"] == "GET, POST, DELETE, OPTIONS"
    assert headers["access-control-allow-origin"] == PAGE
    assert headers["access-control-max-age"].isdigit()


@req("HTTP-30", everywhere=True)
@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", "http://app.example", "http://localhost:3000", "http://app"]
)
def test_other_pages_are_told_nothing(origin: str) -> None:
    wrapped = cors(app(405), origins=[PAGE])
    for method in ("POST", "OPTIONS"):
        status, headers = run(
            ask(wrapped, method, origin=origin, host="app", access_control_request_method="POST")
        )
        assert status == 405
        assert not [name for name in headers if name.startswith("access-control")]
        assert "Origin" in headers["vary"]


@req("HTTP-30", everywhere=True)
def test_who_is_no_page_gets_the_answer_as_it_is() -> None:
    status, headers = run(ask(cors(app(200), origins=[PAGE]), "POST"))
    assert status == 200
    assert set(headers) == {"allow", "vary"}


@req("HTTP-30", everywhere=True)
def test_any_page_is_let_in_without_credentials() -> None:
    _, headers = run(ask(cors(app(200), origins=["*"]), "POST", origin="https://whoever.example"))
    assert headers["access-control-allow-origin"] == "*"
    assert "access-control-allow-credentials" not in headers


@req("HTTP-30", everywhere=True)
def test_what_is_no_request_passes() -> None:
    seen: list[str] = []

    async def inner(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(scope["type"])

    async def nothing() -> MutableMapping[str, Any]:
        return {}

    async def drop(message: MutableMapping[str, Any]) -> None:
        del message

    run(_lifespan(cors(inner, origins=[PAGE]), nothing, drop))
    assert seen == ["lifespan"]


async def _lifespan(wrapped: App, receive: Receive, send: Send) -> None:
    await wrapped({"type": "lifespan"}, receive, send)


@req("HTTP-30", everywhere=True)
def test_an_origin_that_could_never_match_is_refused() -> None:
    with pytest.raises(ValueError, match="is not an origin"):
        cors(app(200), origins=["app.example"])
