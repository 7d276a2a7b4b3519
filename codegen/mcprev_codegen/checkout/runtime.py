"""The runtime of a checkout: its table of revisions and its step modules, read as syntax trees."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mcprev_codegen.errors import InputError, reason
from mcprev_codegen.inputs import SchemaFolder
from mcprev_codegen.python import module_name

_ROWS: Final = frozenset({"Revision", "replace"})
"""The functions whose calls make a row of the table."""
_RESULT: Final = re.compile(r"\bmodels\.(\w+Result)\(")
"""The call of a model of a result, by the name that the runtime has for the models of the newest revision."""
_MARKED: Final = re.compile(r"# makes ((?:\w+Result ?)+)$")
"""The comment at a result that is written as a dict: in one of its lines, or above it."""
_NEWEST: Final = "mcprev_types.latest"


@dataclass(frozen=True, slots=True)
class MadeResult:
    """A place in the runtime, or in an example, that makes a result."""

    path: Path
    line: int
    type: str
    given: frozenset[str]
    """The attributes that it gives by name, or the members of a dict."""


@dataclass(frozen=True, slots=True)
class Runtime:
    """The runtime of a checkout; the generator reads its revision table and step modules, and writes new ones."""

    folder: Path

    @property
    def table(self) -> Path:
        """The path of the table of revisions."""
        return self.folder / "revisions.py"

    @property
    def convert(self) -> Path:
        """The path of the folder of the step modules."""
        return self.folder / "conversion"

    def steps(self) -> list[Path]:
        """Return the paths of all step modules."""
        return sorted(self.convert.glob("step_*.py"))

    def step(self, revision: str) -> Path:
        """Return the path of the step module between a revision and the one before it."""
        return self.convert / f"step_{module_name(revision).removeprefix('v')}.py"

    def rows(self) -> dict[str, int]:
        """Return the revisions in the table, each with its line."""
        return {
            str(keyword.value.value): node.lineno
            for node in ast.walk(_parsed(self.table))
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _ROWS
            for keyword in node.keywords
            if keyword.arg == "name" and isinstance(keyword.value, ast.Constant)
        }

    def made_results(self) -> Iterator[MadeResult]:
        """Yield the results that the runtime makes itself, and those of the examples: `models.ListToolsResult(...)`.

        A dict that is one is marked by a comment, `# makes ListToolsResult`.
        """
        examples = (self.folder.parent.parent / "examples").rglob("*.py")
        for path in sorted([*self.folder.rglob("*.py"), *examples]):
            text = path.read_text(encoding="utf-8", errors="replace")
            marks = {
                line + each.lstrip().startswith("#"): found[1].split()
                for line, each in enumerate(text.split("\n"), 1)
                if (found := _MARKED.search(each))
            }
            is_own = path.is_relative_to(self.folder) or _NEWEST in text
            if marks or (is_own and _RESULT.search(text)):
                yield from _made(path, ast.walk(_parsed(path)), marks)

    def undecided(self, revision: str) -> Iterator[tuple[int, str, str]]:
        """Yield the undecided entries of a step module: line, member and question."""
        for node in ast.walk(_parsed(self.step(revision))):
            if isinstance(node, ast.keyword) and node.arg == "undecided" and isinstance(node.value, ast.Dict):
                for key, value in zip(node.value.keys, node.value.values, strict=True):
                    if key is not None:
                        yield key.lineno, _text(key), _text(value)


def _made(path: Path, nodes: Iterable[ast.AST], marks: Mapping[int, Sequence[str]]) -> Iterator[MadeResult]:
    """Yield the results that are made in a file, whose marked lines are `marks`."""
    left = dict(marks)
    for node in nodes:  # outer ones first
        if isinstance(node, ast.Call) and (found := _RESULT.fullmatch(f"{ast.unparse(node.func)}(")):
            yield MadeResult(path, node.lineno, found[1], frozenset(k.arg for k in node.keywords if k.arg))
        elif isinstance(node, ast.Dict):
            inner = (key for one in ast.walk(node) if isinstance(one, ast.Dict) for key in one.keys)
            given = frozenset(str(key.value) for key in inner if isinstance(key, ast.Constant))
            for line in [line for line in left if node.lineno <= line <= (node.end_lineno or node.lineno)]:
                for type_ in left.pop(line):
                    yield MadeResult(path, node.lineno, type_, given)


def runtime_of(folder: SchemaFolder) -> Runtime | None:
    """Return the runtime next to a schema folder; None outside a checkout."""
    found = Runtime(folder.checkout / "runtime" / "mcprev")
    return found if found.table.is_file() else None


def _parsed(path: Path) -> ast.Module:
    try:
        return ast.parse(path.read_text(encoding="utf-8"))
    except (OSError, SyntaxError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read: {reason(error)}") from None


def _text(node: ast.expr) -> str:
    return str(node.value) if isinstance(node, ast.Constant) else ast.unparse(node)
