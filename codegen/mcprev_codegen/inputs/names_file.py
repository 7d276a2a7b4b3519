"""The names in Python that are given to types and members, since what the rules make of their own names does not do.

`schema/names.toml` holds for all revisions. Whoever generates a package from a schema of their own passes a further file.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Final

from mcprev_codegen.inputs.folder import SchemaFolder, read_once
from mcprev_codegen.inputs.tables import Table, read_table
from mcprev_codegen.python import PythonNames

NAMES_FILE: Final = "names.toml"


@read_once
def load_names(folder: SchemaFolder) -> PythonNames:
    """Return the names of the schema folder; none if it has no such file. Raises `CodegenError` for an invalid one."""
    exists = (folder.path / NAMES_FILE).exists()
    return _given(folder.table(NAMES_FILE, PythonNames)) if exists else PythonNames()


def with_names(
    names: PythonNames, path: Path, types: Collection[str], members: Collection[str]
) -> PythonNames:
    """Return names and those of a file, for a schema with these types and members.

    Raises `CodegenError` for an invalid file, and for a name that the schema does not have.
    """
    table = read_table(path, PythonNames)
    given = _given(table)
    for kind, own, known in (("types", given.types, types), ("members", given.members, members)):
        for name in own:
            if name not in known:
                raise table.fail(f"the schema has no such name among its {kind}", kind, name)
    return PythonNames({**names.types, **given.types}, {**names.members, **given.members})


def _given(table: Table[PythonNames]) -> PythonNames:
    if "type" in table.values.members:
        raise table.fail(
            "'type' cannot be renamed, because it distinguishes the objects of a union", "members", "type"
        )
    return table.values
