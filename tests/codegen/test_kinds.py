"""A new kind of type is an error of the type checkers at each place that has to decide what it means there."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Final, get_args

import pytest

import mcprev_codegen
from helpers.support import ROOT as CHECKOUT
from mcprev_codegen.ir.nodes import TypeExpr

ROOT: Final = Path(mcprev_codegen.__file__).parent
KINDS: Final = {kind.__name__ for kind in get_args(TypeExpr)}
DEFAULTS: Final = {
    "diff/comparison/context.py normalise": "of all nodes, it changes these; `map_nodes` visits what is in the others",
    "diff/comparison/view.py _sorted": "of all nodes, it changes these; `map_nodes` visits what is in the others",
    "emit/names/chosen.py change": "of all nodes, it changes these; `map_nodes` visits what is in the others",
    "emit/models/planner.py _holds_open_union": "what is not listed holds no union of whole objects",
    "emit/targets/expressions.py _placeholder": "of all nodes, it changes these; `map_nodes` visits what is in the others",
    "resolve/distribution.py change": "of all nodes, it changes these; `map_nodes` visits what is in the others",
    "typescript/reader/types/operators.py members": "what is not listed is refused, with its place",
    "typescript/reader/types/operators.py index": "what is not listed has no index signature; that of a record is in it",
    "typescript/reader/types/operators.py _items": "what is not listed is refused, with its place",
    "typescript/reader/types/operators.py _derived": "what is not listed is refused, with its place",
    "typescript/reader/types/operators.py _pieces": "what is not listed is refused, with its place",
    "typescript/reader/types/operators.py _kinds": "what is not listed stands for itself",
    "typescript/reader/types/tuples.py spread": "what is not listed is refused, with its place",
}
"""The functions in which `case _` stands for kinds of types, each with its reason."""
MADE_UP: Final = '''
@dataclass(frozen=True, slots=True)
class MadeUp:
    """A kind of type that nothing knows."""


HoistedType: TypeAlias = MadeUp | '''


def names(pattern: ast.pattern) -> Iterator[str]:
    """The classes that a pattern asks for, not those of the parts in it."""
    if isinstance(pattern, ast.MatchOr):
        for part in pattern.patterns:
            yield from names(part)
    elif isinstance(pattern, ast.MatchAs) and pattern.pattern is not None:
        yield from names(pattern.pattern)
    elif isinstance(pattern, ast.MatchClass):
        yield ast.unparse(pattern.cls).rpartition(".")[2]
    elif isinstance(pattern, ast.MatchSequence):
        for part in pattern.patterns:
            yield from names(part)


def anything(case: ast.match_case) -> bool:
    return isinstance(case.pattern, ast.MatchAs) and case.pattern.pattern is None and case.guard is None


def matches() -> Iterator[tuple[str, str, ast.Match]]:
    """Every `match` over kinds of types: its module, the innermost function around it, and the statement."""
    for path in sorted(ROOT.rglob("*.py")):
        found: dict[ast.Match, str] = {}
        for function in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(function, ast.FunctionDef):  # `walk` visits the inner functions later
                found |= {node: function.name for node in ast.walk(function) if isinstance(node, ast.Match)}
        for node, name in found.items():
            if any(KINDS & {*names(case.pattern)} for case in node.cases):
                yield path.relative_to(ROOT).as_posix(), name, node


@pytest.mark.slow
def test_no_match_over_kinds_of_types_has_a_default_without_a_reason() -> None:
    defaults = {f"{module} {name}" for module, name, node in matches() if any(map(anything, node.cases))}
    assert defaults == DEFAULTS.keys()


@pytest.mark.slow
def test_no_chain_of_ifs_takes_the_place_of_a_match() -> None:
    chains: list[str] = []
    for path in ROOT.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.If) and len(node.orelse) == 1 and isinstance(node.orelse[0], ast.If):
                asked = [kinds_of(node.test), kinds_of(node.orelse[0].test)]
                if all(asked) and asked[0] != asked[1]:
                    chains.append(f"{path.relative_to(ROOT).as_posix()}:{node.lineno}")
    assert chains == []


def kinds_of(test: ast.expr) -> set[str]:
    """The kinds of types that a condition asks for with `isinstance`."""
    calls = [
        node
        for node in ast.walk(test)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "isinstance"
    ]
    return KINDS & {word for call in calls for word in re.findall(r"\w+", ast.unparse(call.args[1]))}


def test_the_checkers_of_the_project_ask_for_every_match_to_be_exhaustive() -> None:
    tools = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
    (ours,) = [o for o in tools["mypy"]["overrides"] if o["module"] == "mcprev_codegen.*"]
    assert "exhaustive-match" in ours["enable_error_code"]
    assert tools["pyright"]["typeCheckingMode"] == "strict"
    assert "reportMatchNotExhaustive" not in tools["pyright"]


@pytest.mark.slow
def test_a_new_kind_of_type_is_an_error_at_every_match_over_kinds(tmp_path: Path) -> None:
    """mypy here; pyright reports the same places, as its strict mode asks for every `match` to be exhaustive."""
    shutil.copytree(ROOT, tmp_path / "mcprev_codegen", ignore=shutil.ignore_patterns("__pycache__", "schema"))
    nodes = tmp_path / "mcprev_codegen" / "ir" / "nodes.py"
    text = nodes.read_text(encoding="utf-8")
    assert text.count("HoistedType: TypeAlias = ") == 1
    nodes.write_text(text.replace("HoistedType: TypeAlias = ", MADE_UP), encoding="utf-8")
    settings = (
        "enable_error_code = exhaustive-match\nincremental = false\nfollow_imports = skip"  # of libraries
    )
    (tmp_path / "mypy.ini").write_text(f"[mypy]\n{settings}\n", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", "mypy.ini", "-p", "mcprev_codegen"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    reported = re.findall(
        r"^mcprev_codegen/(\S+?):(\d+): error: .*MadeUp.*\[exhaustive-match\]$", done.stdout, re.MULTILINE
    )
    expected = {
        (module, node.lineno + (MADE_UP.count("\n") if module == "ir/nodes.py" else 0))
        for module, name, node in matches()
        if f"{module} {name}" not in DEFAULTS
    }
    assert {(module, int(line)) for module, line in reported} == expected, done.stdout + done.stderr
    assert len(expected) > 15
