"""Finds authentication that a file has only where it serves itself, which `mcprev serve` does not run.

A program such as `if __name__ == "__main__": app.run_http(auth=auth)` protects itself, and the same app, imported, does
not. What is not run is read: the source of the modules of the server, of the `__main__` of their packages, and of the
files beside them that import them.
"""

from __future__ import annotations

import ast
import tokenize
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Final

from mcprev.serving.source_files import INSTALLED

_SERVES: Final = frozenset({"run_http", "serve_http", "asgi"})
_AUTHENTICATES: Final = frozenset({"auth", "principal"})
GUARDS: Final = frozenset({"Bearer", "Login", "StaticTokens"})
"""The classes of the option `auth`."""
_ASGI: Final = "asgi"
_RUNNERS: Final = frozenset({"run", "Config"})
"""What runs an ASGI app as it is: `uvicorn.run`, `uvicorn.Config`."""
_WORDS: Final = (*_AUTHENTICATES, *GUARDS, _ASGI)
_MAX_FILE: Final = 1024 * 1024
_MAX_BESIDE: Final = 200
"""The most files of a folder that are read."""


def protecting_line(modules: Sequence[ModuleType]) -> str | None:
    """Return the file and line of a call that authenticates clients of a server; None if there is none.

    `modules` are those that were imported to load the server, its own first. Also found is a call whose options cannot be
    told, such as `run_http(**options)` in a file that mentions `auth`.
    """
    return _first(modules, _protecting)


def wrapping_line(modules: Sequence[ModuleType]) -> str | None:
    """Return the file and line of a call that puts the `asgi()` of a server into other code, which may authenticate
    clients; None if there is none.
    """
    return _first(modules, _wrapping)


def _first(modules: Sequence[ModuleType], find: Callable[[ast.Module], int | None]) -> str | None:
    for path in dict.fromkeys(_files(modules)):
        tree = _parsed(path)
        line = None if tree is None else find(tree)
        if line is not None:
            return f"{path.name}:{line}"
    return None


def _files(modules: Sequence[ModuleType]) -> Iterator[Path]:
    """Return the files to read."""
    own = [path for path in map(_path, modules) if path is not None]
    yield from own
    for module, path in zip(modules[:1], own[:1], strict=False):
        packages = module.__name__.count(".") + hasattr(module, "__path__")
        for folder in list(path.parents)[:packages]:
            yield folder / "__main__.py"
        name = module.__name__.rpartition(".")[2]
        for beside in sorted(path.parent.glob("*.py"))[:_MAX_BESIDE]:
            tree = _parsed(beside, name)
            if tree is not None and name in _imported(tree):
                yield beside


def _path(module: ModuleType) -> Path | None:
    """Return the file of a module that its author wrote: no library, and not mcprev."""
    name = getattr(module, "__file__", None)
    if not isinstance(name, str) or not name.endswith(".py"):
        return None
    return None if name.startswith(INSTALLED) else Path(name).resolve()


def _parsed(path: Path, name: str = "") -> ast.Module | None:
    """Return the syntax tree of a file that mentions authentication, and may mention a name; None for any other.

    Python reads some characters outside ASCII as letters of ASCII: a file with any may mention every name.
    """
    try:
        if path.stat().st_size > _MAX_FILE:
            return None
        with tokenize.open(path) as file:
            text = file.read()
        mentions = any(word in text for word in _WORDS) and (name in text or not text.isascii())
        return ast.parse(text) if mentions else None
    except (OSError, SyntaxError, ValueError, RecursionError):
        return None


def _imported(tree: ast.Module) -> set[str]:
    """Return the last names of the modules that a file imports."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {name.name.rpartition(".")[2] for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {(node.module or "").rpartition(".")[2], *(name.name for name in node.names)}
    return found


def _protecting(tree: ast.Module) -> int | None:
    """Return the line of the first call that authenticates clients."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    serving = _SERVES | _assigned(tree, lambda value: _name(value) in _SERVES)
    lines = [call.lineno for call in calls if _name(call.func) in GUARDS or _serves_with_auth(call, serving)]
    return min(lines, default=None)


def _wrapping(tree: ast.Module) -> int | None:
    """Return the line of the first call with an `asgi()` as an argument, or with a name that stands for one."""
    names = _assigned(tree, _is_asgi)
    lines = [
        call.lineno
        for call in ast.walk(tree)
        if isinstance(call, ast.Call) and _name(call.func) not in _RUNNERS
        for given in (*call.args, *(keyword.value for keyword in call.keywords))
        if _is_asgi(given) or (isinstance(given, ast.Name) and given.id in names)
    ]
    return min(lines, default=None)


def _assigned(tree: ast.Module, is_one: Callable[[ast.expr], bool]) -> set[str]:
    """Return the names to which a file assigns an expression that is one of a kind."""
    return {
        target.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and is_one(node.value)
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def _is_asgi(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == _ASGI


def _serves_with_auth(call: ast.Call, serving: Collection[str]) -> bool:
    """Return whether a call serves with authentication; also through `partial(app.run_http, auth=auth)`."""
    if not any(_name(each) in serving for each in (call.func, *call.args)):
        return False
    return any(
        keyword.arg is None
        or (
            keyword.arg in _AUTHENTICATES
            and not (isinstance(keyword.value, ast.Constant) and keyword.value.value is None)
        )
        for keyword in call.keywords
    )


def _name(node: ast.expr) -> str | None:
    """Return the last name of an expression, such as `run_http` of `app.run_http` and of `getattr(app, "run_http")`."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "getattr":
        named = node.args[1] if len(node.args) > 1 else None
        return str(named.value) if isinstance(named, ast.Constant) else None
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else None
