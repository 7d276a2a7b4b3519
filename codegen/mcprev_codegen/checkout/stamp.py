"""Detects that a checkout's packages are up to date, by a digest of the inputs and outputs of the last run.

The digest covers the schema folder, the generator's own files, the files of the runtime that it reads, the versions of
the libraries that affect the output, and every file that a run writes. A run with the digest of the last run is
skipped.
"""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Final

from mcprev_codegen.checkout.runtime import runtime_of
from mcprev_codegen.inputs import SchemaFolder

STAMP_FILE: Final = ".mcprev-generate"
"""The file in a checkout that stores the digest; it may be deleted at any time."""
_LIBRARIES: Final = (
    "black", "datamodel-code-generator", "jinja2", "pydantic", "pydantic-core", "tree-sitter", "tree-sitter-typescript",
)  # fmt: skip
LIBRARY_VERSIONS: Final = "constraints.txt"
"""The file in a checkout with the versions of the libraries that its packages are generated with."""
_CACHE: Final = "__pycache__"


def input_digest(folder: SchemaFolder) -> str:
    """Return the digest of the inputs of a run: schema folder, generator, files of the runtime, library versions."""
    runtime = runtime_of(folder)
    roots = [folder.path, Path(__file__).parents[1]]
    roots += [runtime.table, runtime.convert] if runtime else []
    libraries = [f"{name} {version(name)}" for name in _LIBRARIES]
    return _digest(roots, [platform.python_version(), *libraries], folder)


def output_digest(checkout: Path) -> str:
    """Return the digest of the files that a run writes."""
    return _digest([checkout / "generated", checkout / "docs" / "revisions"], [])


def _digest(roots: Sequence[Path], texts: Sequence[str], folder: SchemaFolder | None = None) -> str:
    found = hashlib.sha256("\n".join(texts).encode())
    for root in roots:
        for path in [root] if root.is_file() else sorted(root.rglob("*")):
            if path.is_file() and _CACHE not in path.parts:
                data = folder.read(path) if folder and root == folder.path else path.read_bytes()
                found.update(f"\n{path.relative_to(root.parent)} {len(data)}\n".encode())
                found.update(data)
    return found.hexdigest()


def up_to_date(folder: SchemaFolder) -> bool:
    """Return whether inputs and outputs are unchanged since a run without open decisions; False outside a checkout."""
    path = folder.checkout / STAMP_FILE
    if runtime_of(folder) is None or not path.is_file():
        return False
    try:
        return path.read_text(encoding="utf-8") == f"{input_digest(folder)} {output_digest(path.parent)}\n"
    except (OSError, UnicodeDecodeError):
        return False


def write_stamp(folder: SchemaFolder, read: str) -> None:
    """Store that everything is up to date; `read` is the digest of the inputs."""
    if runtime_of(folder) is not None:
        checkout = folder.checkout
        (checkout / STAMP_FILE).unlink(missing_ok=True)  # which may be a link that leads elsewhere
        (checkout / STAMP_FILE).write_text(f"{read} {output_digest(checkout)}\n", encoding="utf-8")


def other_versions(folder: SchemaFolder) -> list[str]:
    """Return a sentence for each library whose installed version differs from the checkout's pinned version."""
    try:
        lines = (folder.checkout / LIBRARY_VERSIONS).read_text(encoding="utf-8").split("\n")
    except OSError:
        return []
    pins = [line.partition("==") for line in lines if "==" in line and not line.startswith("#")]
    return [
        f"{name} {version(name)} is installed, but the files are generated with {wanted}: run `pip install -c {LIBRARY_VERSIONS} {name}`"
        for name, _, wanted in pins
        if version(name) != wanted
    ]
