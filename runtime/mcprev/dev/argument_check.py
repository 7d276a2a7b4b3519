"""Checks arguments and results against the schemas of a tool, as this runtime does, with the path of each problem."""

from __future__ import annotations

import json
import re
from typing import Final

from mcprev.errors import Json, SchemaError
from mcprev.json_schema.validation import compile_schema

SHOWN: Final = 100
"""How many problems are shown."""
LONGEST: Final = 500
_WORD: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def argument_problems(schema: Json, arguments: Json) -> list[tuple[str, str]]:
    """Return the paths and texts of the problems of a value; one at `$` if the schema itself cannot be used."""
    if schema is None:
        return []
    try:
        validate = compile_schema(schema, trusted=False)
        issues = validate(arguments)
    except SchemaError as error:
        return [("$", f"the schema of the tool cannot be checked: {error}"[:LONGEST])]
    return [("$" + "".join(map(_step, path)), text[:LONGEST]) for path, text in issues[:SHOWN]]


def _step(part: object) -> str:
    if isinstance(part, int):
        return f"[{part}]"
    name = str(part)
    return f".{name}" if _WORD.fullmatch(name) else f"[{json.dumps(name)}]"
