"""Results of nothing but text take a short way to the peer, which is no other than the long one (SEAM-4, TOOL-5)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

import mcprev
from helpers.requirements import req
from mcprev.core.method_binding import MethodBinding, only_text
from mcprev.errors import ConversionError
from mcprev.protocol.result_rules import CALL
from mcprev.revisions import ALL, LATEST, Revision


def texts(*said: str) -> list[Any]:
    """The blocks of a result."""
    return [{"type": "text", "text": text} for text in said]


def result(said: list[str], more: dict[str, Any]) -> dict[str, Any]:
    """A result of texts."""
    return {**more, "content": texts(*said)}


MORE: list[dict[str, Any]] = [{}, {"resultType": "complete"}]
results = st.builds(result, st.lists(st.text(), max_size=3), st.sampled_from(MORE))
NOT_PLAIN: list[dict[str, Any]] = [
    {},
    {"content": "text"},
    {"content": ["text"]},
    {"content": [{"type": "text", "text": 1}]},
    {"content": [{"type": "text"}]},
    {"content": [{"type": "text", "text": "\ud800"}]},
    {"content": [{"type": "text", "text": "a", "annotations": {"priority": 7}}]},
    {"content": [{"type": "image", "data": "AA==", "mimeType": "image/png"}]},
    {"content": [], "isError": True},
    {"content": [], "structuredContent": {}},
    {"content": [], "resultType": "input_required"},
    {"content": [], "resultType": "complete", "_meta": {}},
]


async def stub(ctx: object, params: object) -> None:
    """Never run."""


def routes(row: Revision) -> tuple[MethodBinding, MethodBinding]:
    """The way of a tool's result as it is, and with no way shorter than another."""
    params = LATEST.methods[CALL].params
    short, long = MethodBinding(CALL, row, LATEST, stub, params), MethodBinding(
        CALL, row, LATEST, stub, params
    )
    assert short.plain
    long.plain = None
    return short, long


@req("SEAM-4", "TOOL-5")
@pytest.mark.parametrize("row", ALL, ids=lambda row: row.name)
def test_short_way_is_the_long_one(row: Revision) -> None:
    short, long = routes(row)

    @given(results)
    def same(result: dict[str, Any]) -> None:
        before = repr(result)
        assert short.result(result) == long.result(result)
        assert repr(result) == before

    same()


@req("SEAM-4", "TOOL-5")
@pytest.mark.parametrize("row", ALL, ids=lambda row: row.name)
@pytest.mark.parametrize("result", NOT_PLAIN, ids=repr)
def test_everything_else_goes_the_long_way(row: Revision, result: dict[str, Any]) -> None:
    """What is not certain to be right is judged, with the same outcome."""
    assert not only_text(result)

    def outcome(route: MethodBinding) -> object:
        try:
            return route.result(dict(result))
        except (ConversionError, mcprev.McpError) as error:
            return str(error)

    short, long = routes(row)
    assert outcome(short) == outcome(long)
