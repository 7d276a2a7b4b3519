"""Checks arguments and results against the schemas of a tool, as this runtime does, with the path of each problem."""

from __future__ import annotations

from typing import Final

from mcprev.analysis.payloads import step
from mcprev.errors import Json, SchemaError
from mcprev.json_schema.validation import compile_schema

SHOWN: Final = 100
"""How many problems are shown."""
LONGEST: Final = 500


def argument_problems(schema: Json, arguments: Json) -> list[tuple[str, str]]:
    """Return the paths and texts of the problems of a value; one at `$` if the schema itself cannot be used."""
    if schema is None:
        return []
    try:
        validate = compile_schema(schema, trusted=False)
        issues = validate(arguments)
    except SchemaError as error:
        return [("$", f"the schema of the tool cannot be checked: {error}"[:LONGEST])]
    return [("$" + "".join(map(step, path)), text[:LONGEST]) for path, text in issues[:SHOWN]]
