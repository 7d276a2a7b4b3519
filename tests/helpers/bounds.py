"""Every bound that the runtime names as one: constants, and options."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Final

from helpers.support import ROOT

RUNTIME: Final = ROOT / "runtime" / "mcprev"
CONSTANT: Final = re.compile(
    r"_?MAX_\w+|_?MOST|_?MOST_\w+|WAITING|LATER|UNREAD|VIEWS|SENDERS|TOLD_APART|DIFFERENT|CONNECTIONS|WRITERS"
)
"""The names of constants that are bounds."""
OPTION: Final = re.compile(r"max_\w+|per_(key|client)|max")
"""The names of parameters and fields that are bounds."""
FIELDS: Final = ("bridge/upstreams.Bounds", "core/store.LogBounds")
"""Classes whose fields all are bounds."""


def constants() -> Iterator[str]:
    """The constants, each with its module."""
    for module, tree in modules():
        for node in tree.body:
            target = (
                node.target
                if isinstance(node, ast.AnnAssign)
                else node.targets[0] if isinstance(node, ast.Assign) else None
            )
            if isinstance(target, ast.Name) and CONSTANT.fullmatch(target.id):
                yield f"{module}.{target.id}"


def options() -> Iterator[str]:
    """The options that are bounds, by name: several calls take the same."""
    for module, tree in modules():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                names = [each.arg for each in (*node.args.args, *node.args.kwonlyargs)]
                yield from (name for name in names if OPTION.fullmatch(name))
            elif isinstance(node, ast.ClassDef):
                fields = [
                    each.target.id
                    for each in node.body
                    if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
                ]
                whole = f"{module}.{node.name}" in FIELDS
                yield from (name for name in fields if whole or OPTION.fullmatch(name))


def modules() -> Iterator[tuple[str, ast.Module]]:
    """The modules of the runtime, by name."""
    for path in sorted(RUNTIME.rglob("*.py")):
        yield path.relative_to(RUNTIME).with_suffix("").as_posix(), ast.parse(
            path.read_text(encoding="utf-8")
        )
