"""Sealed request state: nothing but what was sealed is opened, and only for the request it was sealed for (SEC-5)."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any, Final

import pytest

from fuzz.fuzzing import TEXTS, damaged_text, fuzz, json_value, members, with_a_change
from helpers.requirements import E, req
from helpers.support import same
from mcprev.errors import InvalidParams
from mcprev.protocol.request_state import KEY_BYTES, RequestStateSealer, params_digest

STATES: Final = RequestStateSealer([b"k" * KEY_BYTES, b"o" * KEY_BYTES], audience="fuzzed")
NOW: Final = 1_800_000_000.0
TOKENS: Final = ("A", "AA", "AAAA", "=", "==", "-", "_", "+", "/", ".", " ", "\n", "\0", "é", "\ud800", "e30")


@dataclass(frozen=True)
class Case:
    """What is sealed, for which request, and what is tried with it."""

    payload: Any
    params: dict[str, Any]
    principal: str | None
    token: str
    damaged: str
    other: Any
    """The params of another request, or of the same."""


def draw(rng: Random) -> Case:
    params = {"name": "deploy", "arguments": json_value(rng), "_meta": json_value(rng, 1)}
    payload, principal = json_value(rng), rng.choice((None, "ann", ""))
    token = STATES.seal(payload, method="tools/call", params=params, principal=principal, now=NOW)
    return Case(
        payload,
        params,
        principal,
        token,
        damaged_text(token, rng, TOKENS, most=2),
        with_a_change(params, rng, lambda r: r.choice(TEXTS)),
    )


@pytest.mark.slow
@req("MRTR-4", "MRTR-5", "SEC-5", at=E)
def test_only_what_was_sealed_is_opened() -> None:
    def opens(token: str, params: Any, *, principal: str | None, now: float = NOW) -> Any:
        try:
            return (STATES.open(token, method="tools/call", params=params, principal=principal, now=now),)
        except InvalidParams:
            return None

    def check(case: Case) -> None:
        found = opens(case.token, case.params, principal=case.principal)
        assert found is not None
        assert same(found[0], case.payload)
        if case.damaged != case.token:
            assert opens(case.damaged, case.params, principal=case.principal) is None
        assert opens(case.token, case.params, principal="eve") is None
        assert opens(case.token, case.params, principal=case.principal, now=NOW + 10_000) is None
        other = members(case.other)
        if params_digest(other) != params_digest(case.params):
            assert opens(case.token, other, principal=case.principal) is None

    fuzz(draw, check, cases=1500)
