"""What every generated model is made of: one base class, and the few types JSON Schema has no word for.

Models are open and lossless. Unknown members are kept, a whole number stays whole and a string a string.
An optional member that is absent is None and is left out again when written; where null is a value of its
own, absent is `MISSING`. What a constructor may leave out (constants, values with a default) it fills in,
so that it is written; a message that was read is written back with the members it came with.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Final, Self, TypeAlias, TypeVar, cast

from pydantic import BaseModel, ConfigDict, Discriminator, Field, GetCoreSchemaHandler
from pydantic.fields import FieldInfo
from pydantic_core import CoreSchema, core_schema
from typing_extensions import override

T = TypeVar("T")
UNKNOWN: Final = "*"
"""The tag under which an open union keeps what it does not know."""
_DICT: Final[Any] = dict
"""What `isinstance` asks for. Typed so that checkers leave the value alone: a cast would be a call."""

OMIT: Any = Field(exclude_if=functools.partial(operator.is_, None))
Opt: TypeAlias = Annotated[T | None, OMIT]
"""An optional member: None when absent, and then not written. A null that was read counts as absent."""

IntegralFloat: TypeAlias = Annotated[float, Field(multiple_of=1)]
"""A whole number that was written with a fraction part, such as 1.0, and stays so."""

_NAMES: Final[Mapping[str, str]] = {"meta": "_meta", "schema_uri": "$schema"}


def wire_name(attribute: str) -> str:
    """The wire name of an attribute: camelCase but for a few that are no Python names."""
    head, *rest = attribute.split("_")
    return _NAMES.get(attribute) or head + "".join(word[:1].upper() + word[1:] for word in rest)


def wire(name: str) -> Any:  # noqa: ANN401 - as pydantic types a Field
    """Give a member a wire name that does not follow from its attribute."""
    return Field(validation_alias=name, serialization_alias=name)


class _Given:
    """Marks a member whose value a constructor fills in."""

    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        self.value = value


def constant(value: T) -> T:
    """A member with one possible value: constructors fill it in, messages must have it."""
    return cast("T", _marked(cast("FieldInfo", Field()), value))


def fallback(value: T) -> T:
    """A required member with a default: constructors fill it in, a message may lack it and is read so."""
    return cast("T", _marked(cast("FieldInfo", Field(default=value)), value))


def _marked(field: FieldInfo, value: object) -> FieldInfo:
    field.metadata.append(_Given(value))
    return field


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


class Model(BaseModel):
    """The base of all models: strict in types, open to unknown members, exact in what it writes."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        extra="allow",
        strict=True,
        defer_build=True,
        alias_generator=wire_name,
        serialize_by_alias=True,
        polymorphic_serialization=True,
        allow_inf_nan=False,
    )

    _given: ClassVar[tuple[tuple[str, str, object], ...] | None] = None

    def __init_subclass__(cls, **kwargs: Any) -> None:  # noqa: ANN401 - as pydantic types it
        super().__init_subclass__(**kwargs)
        cls._given = None  # of this class and not of the one it extends

    def __init__(self, /, **data: Any) -> None:  # noqa: ANN401 - as pydantic types it
        """Build a message from attributes (or wire names), constants and defaults filled in.

        Raises `pydantic.ValidationError` when a member is missing or of the wrong type.
        """
        given = self._given
        if given is None:
            given = self._find_given()
        for name, alias, value in given:
            if name not in data and alias not in data:
                data[name] = value
        self.__pydantic_validator__.validate_python(data, self_instance=self, by_name=True)

    # Told apart from a constructor of one's own, for which validation would call back into Python.
    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]  # pyright: ignore[reportFunctionMemberAccess]

    @classmethod
    def _find_given(cls) -> tuple[tuple[str, str, object], ...]:
        cls._given = found = _collect(cls)
        return found

    @classmethod
    def from_wire(cls, message: object) -> Self:
        """Read a decoded JSON value. Raises `pydantic.ValidationError`, which names the JSON path."""
        return cls.model_validate(message)

    def to_wire(self) -> dict[str, Any]:
        """The JSON value to write: what was read or set, under wire names, unknown members included."""
        wire: dict[str, Any] = self.__pydantic_serializer__.to_python(self, mode="json", exclude_unset=True)
        return wire

    def to_json(self) -> bytes:
        """The same as UTF-8 JSON text on one line."""
        return self.__pydantic_serializer__.to_json(self, exclude_unset=True)


def _collect(cls: type[Model]) -> tuple[tuple[str, str, object], ...]:
    """The members of a class that a constructor fills in: attribute, wire name, value."""
    found: list[tuple[str, str, object]] = []
    if not cls.__pydantic_complete__:
        cls.model_rebuild()
    for name, field in cls.model_fields.items():
        marks = [m.value for m in field.metadata if isinstance(m, _Given)]
        if marks:
            found.append((name, str(field.serialization_alias or field.alias or name), marks[0]))
    return tuple(found)


class UnknownContent(Model):
    """A member of an open union whose `type` this revision does not define, kept as it came."""

    type: str
