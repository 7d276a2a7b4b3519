"""The models of one revision as pydantic writes them."""

from mcprev_codegen.emit.pydantic.annotations import (
    SCHEMA_INTEGER as SCHEMA_INTEGER,
    Hint as Hint,
    Hints as Hints,
)
