"""MRTR-4, MRTR-5, SEC-5: what a server gives away and takes back only unchanged, in time and for the same request."""

from __future__ import annotations

import logging
import subprocess
import sys
from base64 import urlsafe_b64decode
from typing import Any

import pytest
from hypothesis import given, strategies as st

from helpers.requirements import req
from helpers.support import same
from mcprev.errors import INVALID_PARAMS, InvalidParams
from mcprev.protocol.request_state import KEY_BYTES, SKEW, RequestStateSealer, params_digest

KEY, OLD, OTHER = b"k" * KEY_BYTES, b"o" * KEY_BYTES, b"x" * KEY_BYTES
PARAMS: dict[str, Any] = {"name": "deploy", "arguments": {"to": "prod", "n": 1}}
NOW = 1_800_000_000.25
REQUEST: dict[str, Any] = {"method": "tools/call", "params": PARAMS, "principal": "ann", "now": NOW}
URL_SAFE = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")

json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec=None)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)  # fmt: skip


def request(**changed: Any) -> dict[str, Any]:
    """What a state is bound to and the time, but for some changes."""
    return {**REQUEST, **changed}


def refused(states: RequestStateSealer, token: object, **changed: Any) -> None:
    """Assert that a token is refused, in the words of every other refusal."""
    with pytest.raises(InvalidParams) as caught:
        states.open(token, **request(**changed))
    assert caught.value.to_wire() == {
        "code": INVALID_PARAMS, "message": "requestState is not valid for this request; send the request again without it",
    }  # fmt: skip
    assert caught.value.__cause__ is None


@req("MRTR-4")
@given(json_values, json_values, st.none() | st.text())
def test_mrtr_4_what_is_sealed_is_opened_exactly(payload: Any, argument: Any, principal: str | None) -> None:
    states = RequestStateSealer([KEY])
    bound = request(params={"name": "a", "arguments": argument}, principal=principal)
    token = states.seal(payload, **bound)
    assert set(token) <= URL_SAFE
    assert same(states.open(token, **bound), payload)


@req("MRTR-4")
def test_mrtr_4_no_bit_can_be_changed() -> None:
    states = RequestStateSealer([KEY])
    token = states.seal({"step": 2, "answers": ["yes"]}, **REQUEST)
    raw = token.encode()
    for position in range(len(raw)):
        for bit in range(8):
            changed = bytearray(raw)
            changed[position] ^= 1 << bit
            refused(states, changed.decode("latin-1"))


@req("MRTR-4")
@pytest.mark.parametrize("length", range(0, 200, 7))
def test_mrtr_4_nothing_can_be_cut_off_or_added(length: int) -> None:
    states = RequestStateSealer([KEY])
    token = states.seal({"step": 2}, **REQUEST)
    if length < len(token):
        refused(states, token[:length])
        refused(states, token[length + 1 :])
    for extra in ("A", "=", "==", "\n", " ", "%", "."):
        refused(states, token + extra)
        refused(states, extra + token)
        refused(states, token[:8] + extra + token[8:])
    assert states.open(token, **REQUEST) == {"step": 2}


@req("MRTR-4")
@given(st.none() | st.integers() | st.binary() | st.text() | st.text("AZaz09-_", max_size=80) | json_values)
def test_mrtr_4_anything_else_is_refused(token: object) -> None:
    refused(RequestStateSealer([KEY]), token)


@req("MRTR-4", "SEC-5")
@pytest.mark.parametrize(
    "changed",
    [
        pytest.param({"method": "prompts/get"}, id="MRTR-4 method"),
        pytest.param({"principal": "bob"}, id="SEC-5 principal"),
        pytest.param({"principal": None}, id="SEC-5 nobody"),
        pytest.param({"principal": ""}, id="SEC-5 the empty principal is somebody"),
        pytest.param({"params": None}, id="MRTR-4 no params"),
        pytest.param({"params": {**PARAMS, "name": "delete"}}, id="MRTR-4 another tool"),
        pytest.param(
            {"params": {**PARAMS, "arguments": {"to": "prod", "n": 2}}}, id="MRTR-4 other arguments"
        ),
        pytest.param({"params": {**PARAMS, "arguments": {"to": "prod", "n": "1"}}}, id="MRTR-4 another type"),
        pytest.param(
            {"params": {**PARAMS, "arguments": {"to": "prod", "n": True}}}, id="MRTR-4 true is not 1"
        ),
        pytest.param({"params": {**PARAMS, "more": None}}, id="MRTR-4 one member more"),
        pytest.param({"now": NOW + 601}, id="MRTR-4 expired"),
    ],
)
def test_mrtr_4_a_state_is_good_for_its_request_only(changed: dict[str, Any]) -> None:
    states = RequestStateSealer([KEY])
    refused(states, states.seal("x", **REQUEST), **changed)


@req("MRTR-4", "MRTR-5")
def test_mrtr_5_what_a_retry_adds_does_not_count() -> None:
    states = RequestStateSealer([KEY])
    token = states.seal("x", **REQUEST)
    retry = {
        "arguments": {"n": 1, "to": "prod"}, "name": "deploy", "requestState": token,
        "inputResponses": {"ok": {"action": "accept"}}, "_meta": {"progressToken": 9},
    }  # fmt: skip
    assert states.open(token, **request(params=retry)) == "x"
    assert params_digest(retry) == params_digest(PARAMS) != params_digest({})
    assert params_digest(None) == params_digest({}) == params_digest({"_meta": {}})


@req("MRTR-4")
def test_mrtr_4_params_beyond_a_double_are_still_bound() -> None:
    assert params_digest({"n": float("inf")}) != params_digest({"n": float("-inf")})


@req("MRTR-4")
def test_mrtr_4_time_is_passed_in() -> None:
    states = RequestStateSealer([KEY], lifetime=10)
    token = states.seal("x", **REQUEST)
    for later in (1 - SKEW, 0, 5, 9.99):
        assert states.open(token, **request(now=NOW + later)) == "x"
    for later in (11, 1e9, float("inf")):
        refused(states, token, now=NOW + later)


@req("MRTR-4", "SEC-5")
@pytest.mark.parametrize("step", [SKEW + 2, 3600, 1e9])
def test_mrtr_4_a_clock_that_is_set_back_makes_no_state_last_longer(step: float) -> None:
    """Nobody knows how old such a state is; states that are sealed afterwards are good."""
    states = RequestStateSealer([KEY], lifetime=10)
    refused(states, states.seal("x", **REQUEST), now=NOW - step)
    now = request(now=NOW - step)
    assert states.open(states.seal("x", **now), **now) == "x"


@req("MRTR-4")
def test_mrtr_4_the_moment_of_expiry_is_too_late() -> None:
    states = RequestStateSealer([KEY], lifetime=10)
    token = states.seal("x", **request(now=100.0))
    assert states.open(token, **request(now=109.999)) == "x"
    refused(states, token, now=110.0)


@req("MRTR-4")
def test_mrtr_4_keys_are_rotated() -> None:
    before, both, after = RequestStateSealer([OLD]), RequestStateSealer([KEY, OLD]), RequestStateSealer([KEY])
    old, new = before.seal("old", **REQUEST), both.seal("new", **REQUEST)
    assert both.open(old, **REQUEST) == "old"
    assert both.open(new, **REQUEST) == after.open(new, **REQUEST) == "new"
    refused(before, new)
    refused(after, old)
    refused(RequestStateSealer([OTHER]), new)


@req("MRTR-4")
def test_mrtr_4_a_state_is_for_its_audience() -> None:
    staging, production = (RequestStateSealer([KEY], audience=name) for name in ("staging", "production"))
    token = staging.seal("x", **REQUEST)
    assert staging.open(token, **REQUEST) == "x"
    refused(production, token)
    refused(RequestStateSealer([KEY]), token)


@req("MRTR-4")
def test_mrtr_4_the_token_tells_nothing_but_its_payload() -> None:
    bound = request(principal="ann-the-principal")
    long, short = (RequestStateSealer([KEY], audience=name).seal("x", **bound) for name in ("a" * 500, ""))
    assert len(long) == len(short) < 120


@req("MRTR-4")
def test_mrtr_4_size_is_bounded_both_ways() -> None:
    states = RequestStateSealer([KEY], limit=200)
    assert states.open(states.seal("x" * 50, **REQUEST), **REQUEST) == "x" * 50
    with pytest.raises(ValueError, match="exceeds the limit of 200"):
        states.seal("x" * 200, **REQUEST)
    refused(states, RequestStateSealer([KEY]).seal("x" * 200, **REQUEST))
    refused(RequestStateSealer([KEY]), "A" * 10_000_000)


@req("MRTR-4")
@pytest.mark.parametrize(
    "payload", [object(), float("nan"), {"a": {1}}, b"x"], ids=["object", "nan", "set", "bytes"]
)
def test_mrtr_4_a_payload_is_json(payload: Any) -> None:
    with pytest.raises(ValueError, match="JSON"):
        RequestStateSealer([KEY]).seal(payload, **REQUEST)


@req("MRTR-4")
def test_mrtr_4_weak_keys_and_no_lifetime_are_refused_at_once() -> None:
    with pytest.raises(ValueError, match="at least 32 bytes"):
        RequestStateSealer([KEY, b"short"])
    for lifetime in (0, -1, float("nan")):
        with pytest.raises(ValueError, match="positive"):
            RequestStateSealer([KEY], lifetime=lifetime)


@req("MRTR-4")
def test_mrtr_4_without_keys_a_process_has_one_of_its_own_and_says_so_once() -> None:
    script = """
import logging
from mcprev.protocol.request_state import RequestStateSealer
logging.basicConfig(level="INFO", format="%(name)s %(levelname)s %(message)s")
bound = dict(method="tools/call", params=None, principal=None, now=0)
first, second = RequestStateSealer(), RequestStateSealer()
logging.info("made")
token = first.seal("x", **bound)
assert second.open(token, **bound) == "x"
print(token)
"""
    tokens: set[str] = set()
    for _ in range(2):
        run = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True, text=True)
        made, key = run.stderr.splitlines()
        assert made == "root INFO made"
        assert key.startswith(
            "mcprev.server INFO request states are signed with a random key of this process"
        )
        tokens.add(run.stdout.strip())
    assert len(tokens) == 2
    for token in tokens:
        refused(RequestStateSealer([KEY]), token, params=None, principal=None, now=0)


@req("MRTR-4")
def test_mrtr_4_keys_are_not_shown() -> None:
    assert "kkkk" not in repr(RequestStateSealer([KEY]))


@req("MRTR-4")
def test_mrtr_4_every_key_is_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[bytes] = []

    def compare(left: bytes, right: bytes) -> bool:
        compared.append(left)
        return left == right

    states = RequestStateSealer([KEY, OLD, OTHER])
    token = states.seal("x", **REQUEST)
    monkeypatch.setattr("hmac.compare_digest", compare)
    assert states.open(token, **REQUEST) == "x"
    assert len(compared) == 3


ANOTHER_REQUEST = "it was made for another request: its method, params or audience differ"


@req("MRTR-4")
@pytest.mark.parametrize(
    ("change", "why", "level"),
    [
        ({"principal": "bob"}, "it was made for another principal", logging.INFO),
        ({"principal": None}, "it was made for another principal", logging.INFO),
        ({"params": {"name": "other"}}, ANOTHER_REQUEST, logging.INFO),
        ({"method": "prompts/get"}, ANOTHER_REQUEST, logging.INFO),
        ({"audience": "another service"}, ANOTHER_REQUEST, logging.INFO),
        ({"now": 2000.0}, "it has expired, 600 s after it was sealed (`lifetime`)", logging.INFO),
        ({"keys": [OTHER]}, "it is sealed with a key that this process does not have", logging.WARNING),
        ({"keys": [OTHER, KEY], "principal": "bob"}, "it was made for another principal", logging.INFO),
        ({"at": -2}, "it was modified in transit", logging.INFO),
        ({"at": 0}, "it was modified in transit", logging.INFO),
        ({"token": "é"}, "it is not base64", logging.INFO),
        ({"token": ""}, "it is sealed with a key that this process does not have", logging.WARNING),
        ({"token": 5}, "it is not a string, or too long", logging.INFO),
    ],
)
def test_why_a_state_is_refused_stands_in_the_log_alone(
    change: dict[str, Any], why: str, level: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "mcprev.server")
    bound: dict[str, Any] = {
        "method": "tools/call",
        "params": {"name": "x"},
        "principal": "ann",
        "now": 1000.0,
    }
    token: Any = RequestStateSealer([KEY]).seal("secret payload", **bound)
    if "at" in change:
        at = change["at"]
        token = token[:at] + ("A" if token[at] != "A" else "B") + token[at:][1:]
    elif "token" in change:
        token = change["token"]
    opener = RequestStateSealer(change.get("keys", [KEY]), audience=change.get("audience", ""))
    bound |= {name: value for name, value in change.items() if name in bound}
    with pytest.raises(InvalidParams) as caught:
        opener.open(token, **bound)
    assert (
        caught.value.message
        == "requestState is not valid for this request; send the request again without it"
    )
    (record,) = caplog.records
    assert record.getMessage().startswith(f"a request state is refused: {why}")
    assert record.levelno == level
    if level == logging.WARNING:
        assert "the same keys: states=mcprev.RequestStateSealer([key])" in record.getMessage()
    assert "payload" not in record.getMessage()


@req("MRTR-4")
def test_the_tags_of_a_state_name_nobody() -> None:
    bound: dict[str, Any] = {"method": "tools/call", "params": None, "now": 1000.0}
    sealed = [
        RequestStateSealer([key]).seal(1, principal=who, **bound) for key in (KEY, OTHER) for who in "ab"
    ]
    tags = [urlsafe_b64decode(token + "==")[32:50] for token in sealed]
    assert [len({tag[start : start + 6] for tag in tags}) for start in (0, 6, 12)] == [2, 4, 2]
