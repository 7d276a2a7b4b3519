"""The names in Python that are given to types and members, since what the rules make of their own names does not do.

`schema/names.toml` holds for all revisions. Whoever generates a package from a schema of their own passes a further file.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, TypedDict

from mcprev_codegen import ir
from mcprev_codegen.inputs import SchemaFolder, Table, read_once, read_table
from mcprev_codegen.python import Names
from mcprev_codegen.resolve import Schema

NAMES_FILE: Final = "names.toml"


class _File(TypedDict, total=False):
    types: dict[str, str]
    members: dict[str, str]


@read_once
def load_names(folder: SchemaFolder) -> Names:
    """Return the names of the schema folder; none if it has no such file. Raises `CodegenError` for an invalid one."""
    exists = (folder.path / NAMES_FILE).exists()
    return _given(folder.table(NAMES_FILE, _File)) if exists else Names()


def with_names(names: Names, path: Path, schema: Schema) -> Names:
    """Return names and those of a file, which are for one schema. Raises `CodegenError` for one that names nothing there."""
    table = read_table(path, _File)
    given = _given(table)
    objects = [name for name in schema.types if schema.is_object(ir.Ref(name))]
    members = {f.name for name in objects for f in schema.flat(name).fields}
    for kind, own, known in (("types", given.types, schema.types), ("members", given.members, members)):
        for name in own:
            if name not in known:
                raise table.fail(f"{schema.path} has none of that name among its {kind}", kind, name)
    return Names({**names.types, **given.types}, {**names.members, **given.members})


def _given(table: Table[_File]) -> Names:
    found = Names(table.values.get("types", {}), table.values.get("members", {}))
    if "type" in found.members:
        raise table.fail("'type' keeps its name, by which objects are told apart", "members", "type")
    return found
