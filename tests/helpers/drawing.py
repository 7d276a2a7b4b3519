"""Which tests of `make fuzz` `make test` has not run already: those that draw their cases, and other combinations.

A test draws if its function, or what that refers to in the modules of tests, refers to what `fuzz.fuzzing` draws with or
to hypothesis. Where only its parameters are drawn, its combinations differ by their names.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

from helpers.support import ROOT

TESTS: Final = ROOT / "tests"
Reference = tuple[Path, str]
"""A name in a module."""
ROOTS: Final = frozenset((TESTS / "fuzz" / "fuzzing.py", name) for name in ("sampled", "seeds"))
"""What all others draw with."""
LIBRARY: Final = {("hypothesis", "given")}
Defined = dict[str, list[ast.AST]]


@cache
def module(path: Path) -> tuple[Defined, dict[str, tuple[str, str]]]:
    """What a module defines at its top level, by name, and what it imports: from which module, and under which name there."""
    defined: Defined = {}
    imported: dict[str, tuple[str, str]] = {}
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                defined.setdefault(name, []).append(node)
            case ast.ImportFrom(module=str(source), names=names):
                imported.update((each.asname or each.name, (source, each.name)) for each in names)
            case _:
                for each in ast.walk(node):
                    if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store):
                        defined.setdefault(each.id, []).append(node)
    return defined, imported


def is_of_parameters(node: ast.AST) -> bool:
    """Whether an expression gives a test its parameters: they are in the name of each of its combinations."""
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "parametrize"
    )


def names_in(node: ast.AST) -> Iterator[str]:
    """The names that a definition refers to, those of fixtures included."""
    if is_of_parameters(node):
        return
    match node:
        case ast.Name(id=name) | ast.arg(arg=name):
            yield name
        case _:
            pass
    for child in ast.iter_child_nodes(node):
        yield from names_in(child)


@cache
def refers_to(path: Path, name: str) -> frozenset[Reference]:
    """What stands behind a name of a module: the names in its definition, and what it is where it is imported from."""
    defined, imported = module(path)
    if name in defined:
        return frozenset((path, each) for node in defined[name] for each in names_in(node))
    if name in imported:
        if imported[name] in LIBRARY:
            return ROOTS
        source = TESTS.joinpath(*imported[name][0].split("."))
        files = source.with_suffix(".py"), source / "__init__.py"
        return frozenset((file, imported[name][1]) for file in files if file.is_file())
    conftests = (TESTS / folder / "conftest.py" for folder in path.relative_to(TESTS).parents)
    return frozenset(
        (file, name) for file in conftests if file not in {path, TESTS / "conftest.py"} and file.is_file()
    )


@cache
def draws(path: Path, name: str) -> bool:
    """Whether what a module calls by a name draws cases."""
    seen, pending = set[Reference](), {(path, name)}
    while pending and not pending & ROOTS:
        seen |= pending
        pending = {each for reference in pending for each in refers_to(*reference)} - seen
    return bool(pending)
