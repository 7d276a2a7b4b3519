"""HTTP-4, HTTP-7: media types in Accept and Content-Type."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from helpers.requirements import req
from mcprev.wire.media import Accept, accepted, is_json, media_type


@req("HTTP-4", everywhere=True)
@pytest.mark.parametrize(
    ("value", "json", "sse"),
    [
        ("application/json, text/event-stream", True, True),
        ("text/event-stream,application/json", True, True),
        ("APPLICATION/JSON , Text/Event-Stream", True, True),
        ("application/json", True, False),
        ("text/event-stream", False, True),
        ("*/*", True, True),
        ("application/*", True, False),
        ("text/*", False, True),
        ("application/*, text/*;q=0.1", True, True),
        ("text/html, */*;q=0.8", True, True),
        ("text/html", False, False),
        ("", False, False),
        (",", False, False),
        ("application/json;q=0, */*", False, True),
        ("*/*;q=0", False, False),
        ("*/*;q=0, application/json", True, False),
        ("text/*;q=0, text/event-stream", False, True),
        ("application/json;q=0.0, text/event-stream;q=0.5", False, True),
        ("application/json; charset=utf-8, text/event-stream ; q=1", True, True),
        ("application/json;q=0;x=1, application/json", True, False),
        ('application/json;profile="a,b;q=0", text/event-stream', True, True),
        ('application/json;profile="a\\",b", text/event-stream', True, True),
        ("application/json;Q=0", False, False),
        ("application/json;q=x", True, False),
        ("application/json;;q=0", False, False),
        ("application/jsonx, text/event-streams", False, False),
        ("application / json", False, False),
        ("application/json/x, text/event-stream", False, True),
        ("json, text/event-stream", False, True),
        ("application/json q=1, text/event-stream", False, True),
        ("*", False, False),
        ("application/json,,text/event-stream,", True, True),
        ("text/event-stream" + ", text/html" * 100 + ", application/json", True, True),
    ],
)
def test_accept(value: str, json: bool, sse: bool) -> None:
    assert accepted(value.encode()) == Accept(json, sse)


@req("HTTP-4", everywhere=True)
def test_no_accept_header_accepts_nothing_by_name() -> None:
    assert accepted(None) == Accept(json=False, sse=False)


@req("HTTP-7", everywhere=True)
@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("application/json", True), ("Application/JSON", True), (" application/json ", True), ("application/json;", True),
        ("application/json; charset=utf-8", True), ("application/json;charset=UTF-8", True),
        ('application/json; charset="utf-8"', True), ("application/json; charset=us-ascii", True),
        ("application/json; x=y", True), ("application/json; charset=latin-1", False),
        ("application/json; charset=utf-16", False), ("text/json", False), ("text/plain", False), ("", False),
        ("application/json-rpc", False), ("application/x-www-form-urlencoded", False), ("json", False),
        ("application/json, application/json", False), ("application/json x", False), ("application/jsonp", False),
    ],
)  # fmt: skip
def test_content_type(value: str, expected: bool) -> None:
    assert is_json(value.encode()) is expected


@req("HTTP-7", everywhere=True)
def test_content_types_of_answers() -> None:
    assert not is_json(None)
    assert media_type("Text/Event-Stream; charset=utf-8") == "text/event-stream"
    assert media_type("nonsense") == media_type(None) == ""


@req("HTTP-4", "HTTP-7", everywhere=True)
@given(st.binary(max_size=60) | st.text('aj/*;=," q0.\\').map(str.encode))
def test_any_bytes_are_read(value: bytes) -> None:
    assert isinstance(accepted(value), Accept)
    assert isinstance(is_json(value), bool)


@req("HTTP-4", "SEC-6", everywhere=True)
@pytest.mark.parametrize("piece", [b'"\\', b",", b";", b'a/b;c="', b"a/b;", b" "])
def test_no_header_takes_long_to_read(piece: bytes) -> None:
    """What backtracks would not come to an end here."""
    accepted(piece * 20_000)
    is_json(b"application/json" + piece * 20_000)
