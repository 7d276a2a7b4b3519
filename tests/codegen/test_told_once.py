"""Each word of the protocol stands in one module of the generator; all others refer to it by name."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Final

import click
import pytest

import mcprev_codegen
from mcprev_codegen.commands.diff import diff_command
from mcprev_codegen.facts.methods import Method
from mcprev_codegen.facts.vocabulary import (
    INPUT_REQUESTS,
    INPUT_RESPONSES,
    LISTING_UNIONS,
    VERSION_CONSTANT,
    Side,
)
from mcprev_codegen.ir.constraints import CONSTRAINTS
from mcprev_codegen.support import Direction, Kind, MethodSpec, Transport

ROOT: Final = Path(mcprev_codegen.__file__).parent
VOCABULARY: Final = "facts/vocabulary.py"
CONSTRAINTS_: Final = "ir/constraints.py"
BASE: Final = "support/_base.py"
"""Generated packages carry it along, without the generator: it checks the limits that pydantic does not."""
HOMES: Final[dict[str, set[str]]] = {
    **{str(direction): {"support/_spec.py"} for direction in Direction},
    **{str(kind): {"support/_spec.py"} for kind in Kind},
    Transport.EMBEDDED: {"support/_spec.py"},
    # The command is read for every `--help`; it would have to load all of `facts` for two words.
    **{str(side): {VOCABULARY, "commands/diff.py"} for side in Side},
    VERSION_CONSTANT: {VOCABULARY},
    **{name: set[str]() for name in sorted(LISTING_UNIONS)},
    **{name: {VOCABULARY} for name in (INPUT_REQUESTS, INPUT_RESPONSES)},
    **{
        row.keyword: {CONSTRAINTS_, *({BASE} if row.keyword == row.attribute else ())}
        for row in CONSTRAINTS
        if row.keyword not in ("pattern", "minItems", "maxItems")
    },
    **{
        row.attribute: {CONSTRAINTS_, BASE}
        for row in CONSTRAINTS
        if row.attribute != row.keyword and row.argument != row.attribute
    },
    **{f"{side} to {side.other}": set[str]() for side in Side},
}
"""The modules in which a text stands as a literal; prose and patterns with further text in them do not count."""


def literals(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


@cache
def literals_of_modules() -> dict[str, set[str]]:
    return {path.relative_to(ROOT).as_posix(): {*literals(path)} for path in sorted(ROOT.rglob("*.py"))}


@pytest.mark.parametrize(("text", "homes"), HOMES.items())
def test_a_word_of_the_protocol_stands_in_one_place(text: str, homes: set[str]) -> None:
    assert {module for module, found in literals_of_modules().items() if text in found} == homes


def test_the_facts_of_a_method_are_the_description_that_packages_carry() -> None:
    told_again = {f.name for f in fields(Method)} - {f.name for f in fields(MethodSpec)}
    assert told_again == {"result_source"}  # of use in generation only
    templates = "".join(path.read_text(encoding="utf-8") for path in ROOT.rglob("methods.py.jinja2"))
    assert not [f.name for f in fields(MethodSpec) if f"{f.name}=" in templates]


@pytest.mark.slow
def test_only_lineage_reads_which_types_the_overlay_says_correspond() -> None:
    readers = {
        path.relative_to(ROOT).as_posix()
        for path in ROOT.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and node.attr == "was"
    }
    assert readers == {"lineage/pairs.py"}


def test_templates_name_no_direction() -> None:
    for path in ROOT.rglob("*.jinja2"):
        assert not [d for d in Direction if f'"{d}"' in path.read_text(encoding="utf-8")], path


def test_each_side_sends_in_the_direction_to_the_other() -> None:
    assert [side.direction for side in Side] == list(Direction)
    assert all(side.other.other is side and side.other is not side for side in Side)
    assert [side.direction_text for side in Side] == [str(d).replace("_", " ") for d in Direction]


def test_a_comparison_is_filtered_by_the_sides() -> None:
    (option,) = [p for p in diff_command.params if p.name == "direction"]
    assert isinstance(option.type, click.Choice)
    assert list(option.type.choices) == list(Side)
