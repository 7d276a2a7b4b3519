"""The repo's pinned revisions, for what has to work while the runtime's table does not fit them."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, Final, cast

from mcprev_codegen.emit import json_schema as jsonschema
from mcprev_codegen.facts import load as sources
from mcprev_codegen.facts.revision import Revision
from mcprev_codegen.inputs import SchemaFolder
from mcprev_codegen.inputs.names_file import load_names
from mcprev_codegen.inputs.pins import load_pins

ROOT: Final = Path(__file__).resolve().parents[2]
SCHEMA: Final = ROOT / "schema"
FOLDER: Final = SchemaFolder(SCHEMA)
"""The schema folder of the repo, which remembers what the tests of a process read."""
PYTHON_NAMES: Final = load_names(FOLDER)
REVISIONS: Final = tuple(load_pins(FOLDER))
DATED: Final = tuple(name for name in REVISIONS if name[0].isdigit())


def load(revision: str) -> Revision:
    """A pinned revision of the repo, understood; shared, so it must not be changed."""
    return sources.load_revision(FOLDER, revision)


@cache
def faithful_definitions(revision: str) -> dict[str, Any]:
    """The faithful rendering of what a revision declares, before hoisting and without the overlay."""
    return cast("dict[str, Any]", jsonschema.Renderer(load(revision).declared).definitions())
