"""The docstrings of the packages: what an editor shows of each name, and how they are laid out."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from helpers.support import GENERATED, REVISIONS, each_revision
from mcprev_codegen.python import module_name
from mcprev_codegen.python.writers import LINE_LENGTH

SAID_BY_ITS_VALUE: Final = frozenset({"jsonrpc", "method", "mode", "type"})
"""Members that can only be one text, which their hint shows."""
SAID_BY_ITS_TYPE: Final = frozenset(
    {"Request.params", "Notification.params", "CancelTaskRequestParams.task_id"}
)


@cache
def parsed(revision: str, file: str) -> ast.Module:
    return ast.parse((GENERATED / module_name(revision) / file).read_text(encoding="utf-8"))


def documented(body: list[ast.stmt], within: str = "") -> Iterator[tuple[str, str | None]]:
    """Every class, method, attribute and public variable with its docstring."""
    for node, following in zip(body, [*body[1:], None], strict=True):
        match node:
            case ast.ClassDef(name):
                yield name, ast.get_docstring(node)
                yield from documented(node.body, f"{name}.")
            case ast.AsyncFunctionDef(name):
                yield within + name, ast.get_docstring(node)
            case ast.AnnAssign(ast.Name(name)) | ast.Assign([ast.Name(name)]) if not name.startswith("_"):
                yield within + name, text_of(following)
            case ast.If(body=[ast.AnnAssign(ast.Name(name))]):
                yield name, text_of(following)
            case _:
                pass


def text_of(node: ast.stmt | None) -> str | None:
    match node:
        case ast.Expr(ast.Constant(str(text))):
            return text
        case _:
            return None


def models(revision: str) -> Iterator[tuple[str, str | None]]:
    for path in sorted((GENERATED / module_name(revision) / "models").glob("*.py")):
        yield from documented(parsed(revision, f"models/{path.name}").body)


def lacking(found: Iterator[tuple[str, str | None]], link: str) -> list[str]:
    """The names without a description, a first revision or a link."""
    told = r"\S.* Since (at least )?\S+ (.* )?See " + re.escape(link)
    return [name for name, text in found if not re.match(told, " ".join((text or "").split()))]


@each_revision
def test_every_type_says_what_it_is_since_when_and_where_it_is_specified(revision: str) -> None:
    types = ((name, text) for name, text in models(revision) if "." not in name)
    assert lacking(types, f"https://modelcontextprotocol.io/specification/{revision}") == []


@each_revision
@pytest.mark.parametrize("file", ["methods.py", "dispatch.py"])
def test_every_method_says_so_too_wherever_it_is_named(revision: str, file: str) -> None:
    found = [(name, text) for name, text in documented(parsed(revision, file).body) if "." in name]
    assert len(found) > 20
    assert lacking(iter(found), f"https://modelcontextprotocol.io/specification/{revision}") == []


@each_revision
def test_every_constant_of_the_schema_says_so_too(revision: str) -> None:
    ours = {"REVISION", "ERROR_CODES", "MAX_ITEMS", "META_KEYS"}
    found = dict(documented(parsed(revision, "constants.py").body))
    assert all(found.values())
    theirs = ((name, text) for name, text in found.items() if name not in ours)
    assert lacking(theirs, f"https://modelcontextprotocol.io/specification/{revision}") == []


@each_revision
def test_every_member_says_what_it_is_unless_its_value_does(revision: str) -> None:
    silent = {name for name, text in models(revision) if not text}
    assert {
        name for name in silent - SAID_BY_ITS_TYPE if name.partition(".")[2] not in SAID_BY_ITS_VALUE
    } == set()


@pytest.mark.parametrize("path", sorted(GENERATED.rglob("*.py")), ids=str)
def test_a_docstring_is_indented_as_what_it_is_about(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").split("\n")
    for node in ast.walk(ast.parse("\n".join(lines))):
        if isinstance(node, ast.Expr) and text_of(node):
            first, *rest = lines[node.lineno - 1 : node.end_lineno]
            indent = " " * node.col_offset
            assert first.startswith(f'{indent}"""')
            assert all(not line or line.startswith(indent) for line in rest)
            assert not rest or rest[-1] == f'{indent}"""'


@pytest.mark.parametrize("name", REVISIONS)
def test_lines_of_generated_code_are_not_longer_than_black_makes_them(name: str) -> None:
    for path in (GENERATED / module_name(name)).rglob("*.py"):
        for line in path.read_text(encoding="utf-8").split("\n"):
            assert len(line) <= LINE_LENGTH or len(line.split()) == 1, (path.name, line)


@each_revision
def test_nothing_is_imported_that_is_not_used(revision: str) -> None:
    """Names that are exported aside, and the package that quoted hints are resolved in."""
    for path in (GENERATED / module_name(revision)).rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
        names = [
            alias.name
            for node in imports
            if node.module != "__future__"
            for alias in node.names
            if not alias.asname
        ]
        assert path.name == "__init__.py" or used.issuperset(names), path
