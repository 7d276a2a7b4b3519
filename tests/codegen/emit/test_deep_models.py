"""Models that lead to one another many times over: pydantic follows them by recursion when one is first used."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from helpers import mini
from mcprev_codegen import ir
from mcprev_codegen.build import packages as pipeline
from mcprev_codegen.emit.pydantic.modules import FLAT
from mcprev_codegen.inputs import SchemaFolder


@pytest.fixture(autouse=True)
def own_limit() -> Iterator[None]:
    """The limit of recursion that Python starts with, which generated packages may raise."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(1000)
    yield
    sys.setrecursionlimit(before)


def chained(count: int, last: str) -> str:
    """So many interfaces, each in the one before it; the last one holds another type."""
    holds = [*(f"T{number}" for number in range(1, count)), last]
    return "\n".join(
        f"export interface T{n} {{ in?: T{n}; next?: ({held} | 0)[] }}" for n, held in enumerate(holds)
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "count", "last"), [("row", FLAT, "1"), ("line", 150, "1"), ("ring", 150, "T0")]
)
def test_each_of_many_models_is_used_first(
    name: str, count: int, last: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, package = tmp_path / "schema.ts", f"deep_{name}"
    path.write_text(chained(count, last), encoding="utf-8")
    schema = SchemaFolder(mini.write_folder(tmp_path))
    pipeline.generate_project(schema, path, tmp_path / package, "1.0", overlay=False)
    monkeypatch.syspath_prepend(str(tmp_path / package))  # type: ignore[no-untyped-call,unused-ignore] # pyright: ignore[reportUnknownMemberType]
    models: Any = import_module(f"{package}.latest")
    assert models.T0.from_wire({"next": [{"next": []}, 0]}).to_wire() == {"next": [{"next": []}, 0]}
    assert (sys.getrecursionlimit() > 1000) == (count > FLAT)


def test_the_nodes_of_a_cycle_count_all() -> None:
    assert ir.longest_chain({}) == 0
    assert ir.longest_chain({"a": "bc", "b": "c", "c": "x", "d": ""}) == 3
    assert ir.longest_chain({"a": "b", "b": "ac", "c": "d", "d": "c", "e": "e"}) == 4
