"""What every generated model is made of: one base class, and the few types JSON Schema has no word for.

Models are open and lossless. Unknown members are kept, a whole number stays whole and a string a string.
An optional member that is absent is None and is left out again when written; where null is a value of its
own, absent is `ABSENT`. What a constructor may leave out (constants, values with a default) it fills in,
so that it is written; a message that was read is written back with the members it came with.
"""

from __future__ import annotations

import functools
import operator
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal, Self, TypeAlias, TypeVar, cast

from pydantic import BaseModel, ConfigDict, Field, GetCoreSchemaHandler, GetJsonSchemaHandler, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import CoreSchema, PydanticOmit, core_schema
from typing_extensions import override

from ._errors import with_json_paths
from ._names import wire_name

T = TypeVar("T")

OMIT: Any = Field(exclude_if=functools.partial(operator.is_, None))
Opt: TypeAlias = Annotated[T | None, OMIT]
"""An optional member: None when absent, and then not written. A null that was read counts as absent."""


class Absent(Enum):
    """The type of `ABSENT`."""

    ABSENT = "absent"

    def __bool__(self) -> Literal[False]:
        return False

    @override
    def __str__(self) -> str:
        return self.value

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: object, _handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.is_instance_schema(cls)

    @classmethod
    def __get_pydantic_json_schema__(cls, _schema: CoreSchema, _handler: object) -> dict[str, Any]:
        raise PydanticOmit  # no JSON value stands for it


def _without_default(schema: dict[str, Any]) -> None:
    schema.pop("default", None)


ABSENT: Final = Absent.ABSENT
"""The value of a member that is not there, where null says something else; false, and never written."""

Nullable: TypeAlias = Annotated[
    T | Absent,
    Field(exclude_if=functools.partial(operator.is_, ABSENT), json_schema_extra=_without_default),
]
"""An optional member that may be null: `ABSENT` when it is not there. `if value is not ABSENT` tells them apart."""


class _Exact:
    """Makes an integer also take a number that was written with a fraction part, which stays so."""

    __slots__ = ("limits",)

    def __init__(self, **limits: int) -> None:
        self.limits = limits

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        whole: Any = handler(source)
        fractional: Any = {**whole, "type": "float", **self.limits}
        return core_schema.union_schema([whole, fractional])

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        choices: Any = schema
        return handler(choices["choices"][0])


EXACT: Final = _Exact()
"""What `Integer` adds to `int`."""
Integer: TypeAlias = Annotated[int, EXACT]
"""A number that upstream's schema.json takes for an integer; 1.0, or a fraction, is read and kept as it came."""
Whole: TypeAlias = Annotated[int, _Exact(multiple_of=1)]
"""A whole number; 1.0 is one and stays 1.0."""

DEPRECATED: Any = Field(json_schema_extra={"deprecated": True})
"""Marks a member that its revision deprecates. Nothing warns: whoever speaks to older peers has to read it."""


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

    if TYPE_CHECKING:
        __given__: ClassVar[tuple[tuple[str, str, object], ...] | None]
    else:
        __given__ = None  # without a hint, which pydantic would evaluate again for each class

    def __init_subclass__(cls, **kwargs: Any) -> None:  # noqa: ANN401 - as pydantic types it
        super().__init_subclass__(**kwargs)
        cls.__given__ = None  # of this class and not of the one it extends
        for base in cls.__bases__:
            if (
                issubclass(base, Model)
                and not base.__pydantic_fields_complete__
                and _package(base) != _package(cls)
            ):
                # Its hints name a package that the module of a user's class does not know.
                base.model_rebuild(_types_namespace={})

    def __init__(self, /, **data: Any) -> None:  # noqa: ANN401 - as pydantic types it
        """Build a message from attributes (or wire names), constants and defaults filled in.

        Raises `pydantic.ValidationError` when a member is missing or of the wrong type.
        """
        given = self.__given__
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
        cls.__given__ = found = _collect(cls)
        return found

    @classmethod
    def from_wire(cls, message: object) -> Self:
        """Read a decoded JSON value. Raises `pydantic.ValidationError`, whose locations are JSON paths."""
        try:
            return cls.model_validate(message)
        except ValidationError as error:
            raise with_json_paths(error, message) from None

    def to_wire(self) -> dict[str, Any]:
        """The JSON value to write: what was read or set, under wire names, unknown members included."""
        wire: dict[str, Any] = self.__pydantic_serializer__.to_python(self, mode="json", exclude_unset=True)
        return wire

    def to_json(self) -> bytes:
        """The same as UTF-8 JSON text on one line."""
        return self.__pydantic_serializer__.to_json(self, exclude_unset=True)


def _package(cls: type[Model]) -> str:
    return cls.__module__.rpartition(".")[0]


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
