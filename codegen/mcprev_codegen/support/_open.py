"""Unions of objects that a tag tells apart: open ones, which keep unknown objects unchanged, and those by exact tags."""

from __future__ import annotations

from typing import Any, Final, cast

from pydantic import Discriminator, GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema
from typing_extensions import override

from ._base import Model

UNKNOWN: Final = "*"
"""The tag under which an open union keeps unknown objects."""
_DICT: Final[Any] = dict
"""`dict` for `isinstance`, typed so that checkers do not narrow the value: a cast would cost a call."""


class UnknownContent(Model):
    """An object in an open union whose `type` this revision does not define, kept unchanged."""

    type: str


class _OpenUnion(Discriminator):
    """A discriminator for validation only. Serialisation uses the class of a value and reads no tag."""

    __slots__ = ()

    @override
    def __get_pydantic_core_schema__(self, source_type: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        schema: Any = super().__get_pydantic_core_schema__(source_type, handler)
        schema["serialization"] = core_schema.simple_ser_schema("any")
        return cast("CoreSchema", schema)


def open_union(member: str, *tags: str) -> Discriminator:
    """Return a discriminator that selects the union member by a tag, and `UNKNOWN` for any other tag."""
    known = frozenset(tags)

    def pick(value: Any) -> str | None:  # noqa: ANN401 - pydantic hands over whatever is there
        # Runs for each object that is read or written: one more call is measurable in the throughput.
        tag: object = value.get(member) if isinstance(value, _DICT) else getattr(value, member, None)
        if not isinstance(tag, str):
            return None
        return tag if tag in known else UNKNOWN

    return _OpenUnion(
        pick,
        custom_error_type="missing_tag",
        custom_error_message=f"The member '{member}' should be there and be a string",
    )


def exact_union(member: str, *tags: str | float) -> Discriminator:
    """Return a discriminator that selects the union member by a tag of any type: `True` is not 1, and 1.0 is 1."""
    known = {(isinstance(tag, bool), tag): str(number) for number, tag in enumerate(tags)}

    def pick(value: Any) -> str | None:  # noqa: ANN401 - pydantic hands over whatever is there
        tag: object = value.get(member) if isinstance(value, _DICT) else getattr(value, member, None)
        return known.get((isinstance(tag, bool), tag)) if isinstance(tag, (str, int, float)) else None

    return _OpenUnion(
        pick,
        custom_error_type="wrong_tag",
        custom_error_message=f"The member '{member}' should be one of {', '.join(map(repr, tags))}",
    )
