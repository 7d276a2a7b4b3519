"""What a schema must not ask of a pydantic model."""

from __future__ import annotations

from functools import cache
from typing import Annotated, Final

from pydantic import BaseModel, Field, TypeAdapter
from pydantic_core import SchemaError as PydanticSchemaError

from mcprev_codegen.emit.pydantic.patterns import looks_around, rust_patterns

_MODEL_MEMBERS: Final = frozenset({"from_wire", "to_wire", "to_json"})


def hides_member(attribute: str) -> bool:
    """Return whether an attribute would hide a member that every model has."""
    return attribute in _MODEL_MEMBERS or hasattr(BaseModel, attribute)


def pattern_error(pattern: str) -> str | None:
    """Return why pydantic cannot compile a regular expression; None if it can, or if no engine of linear time can."""
    reason = _refusal(pattern)
    return None if reason is not None and looks_around(pattern) else reason


def is_checked(pattern: str) -> bool:
    """Return whether models check a regular expression: those that look around in the midst of a text are not."""
    return _refusal(pattern) is None


@cache
def _refusal(pattern: str) -> str | None:
    for one in rust_patterns(pattern).all:
        try:
            TypeAdapter(Annotated[str, Field(pattern=one)])
        except PydanticSchemaError as error:
            return str(error).strip().splitlines()[-1]
    return None
