"""Errors: they name the place and the problem, and can be pickled between processes."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path

import pytest

from mcprev_codegen.errors import CodegenError, InputError, SchemaError, at_line

ERROR = SchemaError("no such thing", path="a/schema.ts", line=3, column=5, source_line="\ta: b;")


def test_a_schema_error_shows_its_place_with_a_caret() -> None:
    error = SchemaError("no such thing", path="a/schema.ts", line=3, column=5, source_line="    name: b;")
    assert str(error) == "a/schema.ts:3:5: no such thing\n        name: b;\n        ^"


def test_a_tab_takes_one_column_like_any_character() -> None:
    error = SchemaError("m", path="p", line=1, column=2, source_line="\ta: b;")
    _, shown, caret = str(error).split("\n")
    assert shown.index("a") == caret.index("^")


def test_an_error_at_a_line_points_at_its_first_character() -> None:
    error = at_line(Path("x.toml"), ["a", "  b = 1"], 2, "m")
    assert (error.path, error.line, error.column, error.source_line) == ("x.toml", 2, 3, "  b = 1")


@pytest.mark.parametrize("line", [0, 3, 99])
def test_a_line_that_does_not_exist_is_shown_as_nothing(line: int) -> None:
    assert at_line(Path("x.toml"), ["a", "b"], line, "m").source_line == ""


@pytest.mark.parametrize("error", [ERROR, InputError("no file"), CodegenError("no")])
def test_an_error_survives_the_way_between_processes(error: CodegenError) -> None:
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):  # noqa: S301 - our own bytes
        assert type(again) is type(error)
        assert str(again) == str(error)
        assert vars(again) == vars(error)
