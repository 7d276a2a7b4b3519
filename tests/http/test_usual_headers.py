"""Headers that say word for word what the body does are not decoded; what is remembered for that decides nothing (HDR-1 to 5)."""

from __future__ import annotations

from typing import Any

import pytest

from mcprev.errors import HEADER_MISMATCH
from mcprev.protocol import http_classify
from mcprev.protocol.http_classify import Endpoint, classify
from mcprev.protocol.http_verdicts import Modern, Reject
from mcprev.revisions import DEFAULT
from mcprev.wire.headers import Headers, encode_value
from mcprev.wire.jsonrpc import Request
from requirements import E, req

ROW = DEFAULT[-1]
PREFIX = "io.modelcontextprotocol/"


def ask(endpoint: Endpoint, name: object, *said: bytes, version: object = ROW.version) -> object:
    """The verdict on a call of a tool whose headers give some names."""
    meta: dict[str, Any] = {PREFIX + "protocolVersion": version, PREFIX + "clientCapabilities": {}}
    params: dict[str, Any] = {"name": name, "arguments": {}, "_meta": meta}
    pairs = [
        (b"content-type", b"application/json"),
        (b"mcp-protocol-version", ROW.version.encode()),
        (b"mcp-method", b"tools/call"),
        *[(b"mcp-name", value) for value in said],
    ]
    return classify(endpoint, "POST", Headers(pairs), Request(1, "tools/call", params))


def mismatched(verdict: object) -> bool:
    return isinstance(verdict, Reject) and verdict.error.code == HEADER_MISMATCH and verdict.status == 400


@req("HDR-1", "HDR-3", "HDR-5", at=E)
@pytest.mark.parametrize("name", ["echo", "a b", "é", "=?base64?YQ==?=", " x", "", "tools/call"])
def test_nothing_is_different_the_second_time(name: str) -> None:
    endpoint = Endpoint(DEFAULT)
    for _ in range(3):
        assert isinstance(ask(endpoint, name, encode_value(name).encode()), Modern)
        assert isinstance(ask(endpoint, name, b"\t " + encode_value(name).encode() + b" "), Modern)
        assert mismatched(ask(endpoint, name, b"other"))
        assert mismatched(ask(endpoint, "other", encode_value(name).encode()))
        assert mismatched(ask(endpoint, name, encode_value(name).encode(), encode_value(name).encode()))
    for wrong in ("é", "=?base64?YQ==?="):
        # As raw text these are no names: the one is no header's, the other says something else.
        assert mismatched(ask(endpoint, wrong, wrong.encode()))


@req("HDR-1", "HDR-3", at=E)
def test_a_missing_header_is_missing_still() -> None:
    endpoint = Endpoint(DEFAULT)
    assert isinstance(ask(endpoint, "echo", b"echo"), Modern)
    assert mismatched(ask(endpoint, "echo"))
    assert mismatched(ask(endpoint, "echo", b"echo", version="1999-01-01"))
    strange: list[Any] = [None, 1, [], {}]
    for version in strange:  # what is no text is for the engine to refuse (AMB-6)
        assert isinstance(ask(endpoint, "echo", b"echo", version=version), Modern)


@req("HDR-1", at=E)
def test_names_are_remembered_within_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_classify, "MAX_NAMES", 200)
    endpoint = Endpoint(DEFAULT)
    for number in range(500):
        name = f"tool{number}"
        for _ in range(2):
            assert isinstance(ask(endpoint, name, name.encode()), Modern)
            assert mismatched(ask(endpoint, name, b"tool"))
    assert len(endpoint._plain) <= 200  # pyright: ignore[reportPrivateUsage]
