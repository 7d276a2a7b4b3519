"""The output schemas that are kept of a transcript: as many as there is room for, the last of each tool."""

from __future__ import annotations

from typing import Any

import pytest

from mcprev.analysis import tool_outputs
from mcprev.analysis.tool_outputs import ToolOutputs
from mcprev.revisions import LATEST


def lists(**tools: str | None) -> Any:
    """A page of tools whose output has a required member, or no schema."""
    return {
        "tools": [
            {"name": name, **({} if member is None else {"outputSchema": {"required": [member]}})}
            for name, member in tools.items()
        ]
    }


def wants(outputs: ToolOutputs, name: str) -> str | None:
    """The member that is missed in the result of a tool; None if it is not held against a schema."""
    places = outputs.judge(name, {"structuredContent": {}})
    return None if not places else places[0][0].rpartition(".")[2]


def test_as_many_schemas_are_kept_as_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tool_outputs, "MAX_SCHEMAS", 2)
    outputs = ToolOutputs()
    outputs.learn(LATEST, lists(a="x", b="y", c="z"))
    assert [wants(outputs, name) for name in "abc"] == ["x", "y", None]
    outputs.learn(LATEST, lists(a="new", c="z"))
    assert [wants(outputs, name) for name in "abc"] == ["new", "y", None]
    outputs.learn(LATEST, lists(b=None, c="z"))
    assert [wants(outputs, name) for name in "abc"] == ["new", None, "z"]
