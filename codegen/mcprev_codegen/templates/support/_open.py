"""Unions that stay open: what a revision does not define is kept as it came."""

from __future__ import annotations

from typing import Any, Final, cast

from pydantic import Discriminator, GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema
from typing_extensions import override

from ._base import Model

UNKNOWN: Final = "*"
"""The tag under which an open union keeps what it does not know."""
_DICT: Final[Any] = dict
"""What `isinstance` asks for. Typed so that checkers leave the value alone: a cast would be a call."""


class UnknownContent(Model):
    """A member of an open union whose `type` this revision does not define, kept as it came."""

    type: str


class _OpenUnion(Discriminator):
    """A discriminator for reading. What is written says by its class what it is: no tag has to be looked at."""

    __slots__ = ()

    @override
    def __get_pydantic_core_schema__(self, source_type: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        schema: Any = super().__get_pydantic_core_schema__(source_type, handler)
        schema["serialization"] = core_schema.simple_ser_schema("any")
        return cast("CoreSchema", schema)


def open_union(member: str, *tags: str) -> Discriminator:
    """Tells the members of an open union apart by a tag; `UNKNOWN` is picked for tags it is not told of."""
    known = frozenset(tags)

    def pick(value: Any) -> str | None:  # noqa: ANN401 - pydantic hands over whatever is there
        # Run for each member whenever it is read or written: a call less is seen in the rate.
        tag: object = value.get(member) if isinstance(value, _DICT) else getattr(value, member, None)
        if not isinstance(tag, str):
            return None
        return tag if tag in known else UNKNOWN

    return _OpenUnion(
        pick,
        custom_error_type="missing_tag",
        custom_error_message=f"The member '{member}' should be there and be a string",
    )
