"""What a decoded JSON value is, for type checkers as well: `isinstance` leaves open what is in an object or a list."""

from __future__ import annotations

from typing_extensions import TypeIs

from mcprev.errors import Json


def is_json_object(value: object) -> TypeIs[dict[str, Json]]:
    """Return whether a decoded JSON value is an object."""
    return isinstance(value, dict)


def is_json_list(value: object) -> TypeIs[list[Json]]:
    """Return whether a decoded JSON value is a list."""
    return isinstance(value, list)
