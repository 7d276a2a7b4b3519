"""What a schema must not ask of a pydantic model."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import BaseModel, Field, TypeAdapter
from pydantic_core import SchemaError as PydanticSchemaError

from mcprev_codegen.emit.pydantic.patterns import rust_pattern

_MODEL_MEMBERS: Final = frozenset({"from_wire", "to_wire", "to_json"})


def hides_member(attribute: str) -> bool:
    """Return whether an attribute would hide a member that every model has."""
    return attribute in _MODEL_MEMBERS or hasattr(BaseModel, attribute)


def pattern_error(pattern: str) -> str | None:
    """Return why pydantic cannot compile a regular expression; None if it can."""
    try:
        TypeAdapter(Annotated[str, Field(pattern=rust_pattern(pattern))])
    except PydanticSchemaError as error:
        return str(error).strip().splitlines()[-1]
    return None
