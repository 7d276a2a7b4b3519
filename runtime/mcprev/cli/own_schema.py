"""The schema of one's own that a command line names: a generated package, its folder, or the TypeScript file itself."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import click

from mcprev.cli import missing_for
from mcprev.cli.loading import author_errors
from mcprev.core.temporary_folders import temporary_folder

_SOURCES: Final = (".ts", ".mts", ".cts")
_WANTED: Final = "name a package that `mcprev generate` made, its folder, or a file in TypeScript"


@contextmanager
def own_schema(named: str, type_name: str | None) -> Iterator[ModuleType]:
    """Yield the package that a command line names; of a file in TypeScript, one of `type_name` and what it needs.

    Raises `click.UsageError` for what is no schema, and ends the command with code 3 if the file is not valid.
    """
    path = Path(named)
    if path.suffix in _SOURCES or (path.is_dir() and (path / "index.ts").is_file()):
        with temporary_folder("`--schema` of a file in TypeScript") as folder:
            yield _generated(path, Path(folder) / Path(folder).name, type_name)
    elif path.is_dir():
        yield _of_folder(path.resolve(), named)
    else:
        yield _imported(named, Path.cwd())


def _generated(path: Path, out: Path, type_name: str | None) -> ModuleType:
    """Return the package that is made of a file in TypeScript."""
    if missing := missing_for("generate"):
        raise click.UsageError(missing)
    # The runtime never imports the generator: its packages are loaded by name.
    build: Any = import_module("mcprev_codegen.build")
    codegen: Any = import_module("mcprev_codegen.commands")
    inputs: Any = import_module("mcprev_codegen.inputs")
    with codegen.errors_told():
        build.generate_project(
            inputs.schema_folder(), path, out,
            "1" if type_name else None, overlay=type_name is None, roots=(type_name,) if type_name else (),
        )  # fmt: skip
    return _of_folder(out, str(path))


def _of_folder(folder: Path, named: str) -> ModuleType:
    """Return the package in the folder that `mcprev generate --out` wrote, or in the one within it."""
    inner = folder / re.sub(r"[-.]+", "_", folder.name)
    for package in (inner, folder):
        if (package / "index.py").is_file() and (package / "latest.py").is_file():
            found = _imported(package.name, package.parent)
            if Path(found.__file__ or "").parent != package:
                raise click.UsageError(
                    f"'{named}' has the name of another package, '{package.name}': give the folder another one"
                )
            return found
    raise click.UsageError(
        f"there is no package in '{named}': name the folder that `mcprev generate --schema FILE --out DIR` wrote, or FILE itself"
    )


def _imported(name: str, folder: Path) -> ModuleType:
    """Import a package, first of all from a folder."""
    if not all(part.isidentifier() for part in name.split(".")):
        raise click.UsageError(f"there is no package '{name}': {_WANTED}")
    sys.path.insert(0, str(folder))
    try:
        with author_errors(but=(ModuleNotFoundError,)):
            return import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not (name == error.name or name.startswith(f"{error.name}.")):
            raise click.UsageError(
                f"'{name}' needs the module '{error.name}', which is not installed"
            ) from None
        raise click.UsageError(f"there is no package '{name}': {_WANTED}") from None
    finally:
        sys.path.remove(str(folder))
