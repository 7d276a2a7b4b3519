"""What a decoded JSON value is, for type checkers as well: `isinstance` leaves open what is in an object or a list."""

from __future__ import annotations

from collections.abc import Mapping

from typing_extensions import TypeIs

from mcprev.errors import Json


def is_json_object(value: object) -> TypeIs[dict[str, Json]]:
    """Return whether a decoded JSON value is an object."""
    return isinstance(value, dict)


def is_json_list(value: object) -> TypeIs[list[Json]]:
    """Return whether a decoded JSON value is a list."""
    return isinstance(value, list)


def is_json_mapping(value: object) -> TypeIs[Mapping[str, Json]]:
    """Return whether a value is an object, or what a program passes in its place."""
    return isinstance(value, Mapping)


def json_object(value: object) -> dict[str, Json]:
    """Return a decoded JSON value if it is an object, else an empty one."""
    return value if is_json_object(value) else {}


def json_list(value: object) -> list[Json]:
    """Return a decoded JSON value if it is a list, else an empty one."""
    return value if is_json_list(value) else []
