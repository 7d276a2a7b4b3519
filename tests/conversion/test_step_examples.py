"""`make generate` loads each step module and converts examples of what it changes: what it says when one is wrong."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Final

import pytest

import steps
from counts import SETTLED
from helpers.pinned import load
from mcprev.conversion.rules import Rules
from mcprev.errors import ConversionError
from mcprev_codegen.lineage import pairing

OLDER, NEWER = map(load, SETTLED[-2:])
UP: Final = {older: newer for newer, older in pairing(OLDER, NEWER).items()}


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("from mcprev.conversion.rules import Missing\n", "step_wrong.py:1: cannot be loaded: ImportError: cannot import"),
        ("\n\nUP = Rules()\n", "step_wrong.py:3: cannot be loaded: NameError: name 'Rules' is not defined"),
        ("\nUP = (\n", "step_wrong.py:2: cannot be loaded: SyntaxError: '(' was never closed"),
    ],
)  # fmt: skip
def test_a_step_module_that_cannot_be_loaded_is_told_with_its_line(
    text: str, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = sys.modules["mcprev.conversion"]
    monkeypatch.setattr(package, "__path__", [*package.__path__, str(tmp_path)])
    path = tmp_path / "step_wrong.py"
    path.write_text(text, encoding="utf-8")
    (line,) = steps.unloadable([path])
    assert line.startswith(place)


def unchanged(value: object, *_: object, **__: object) -> object:
    return value


def raises(error: Exception) -> Any:
    def convert(*_: object, **__: object) -> None:
        raise error

    return convert


@pytest.mark.parametrize(
    ("convert", "said"),
    [
        (unchanged, "what becomes of an example is not valid there"),
        (raises(KeyError("tools")), "KeyError: 'tools'"),
        (raises(ConversionError("it has no content", path="content", revision=NEWER.name)), None),
    ],
)  # fmt: skip
def test_what_becomes_of_an_example_is_valid_at_the_other_revision(
    convert: Any, said: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steps, "convert", convert)
    lines = [*steps.unconverted(OLDER, NEWER, UP, Rules())]
    start = f"{OLDER.name} to {NEWER.name}: result of tools/call (CallToolResult): "
    assert any(line.startswith(f"{start}{said}") for line in lines) == (said is not None)
    assert bool(lines) == (said is not None)
    everything = Rules(accepted={f"{name}.member": "a test" for name in OLDER.schema.types})
    accepted = [*steps.unconverted(OLDER, NEWER, UP, everything)]
    assert bool(accepted) == (said is not None and "KeyError" in said)


def test_the_newest_step_converts_its_examples() -> None:
    rules: Any = __import__(f"mcprev.conversion.step_{NEWER.name.replace('-', '_')}", fromlist=["UP"])
    assert [*steps.unconverted(OLDER, NEWER, UP, rules.UP)] == []
    assert [*steps.payloads(OLDER, NEWER, UP)]
