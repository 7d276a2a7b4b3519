"""The base class of all generated models, and the types that JSON Schema cannot express.

Models are open and lossless. Unknown members are kept, and numbers and strings keep their JSON type. An absent
optional member is None and is not written. If null is a value of the member, absent is `ABSENT` instead. Constructors
fill in constants and values with a default, so that they are written; a message that was read is written with the
members that it had.
"""

from __future__ import annotations

import functools
import operator
import sys
import warnings
from enum import Enum
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Final,
    Literal,
    Never,
    Self,
    TypeAlias,
    TypeVar,
    cast,
    get_args,
)

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    ValidationError,
    ValidatorFunctionWrapHandler,
)
from pydantic.fields import FieldInfo
from pydantic_core import CoreSchema, PydanticCustomError, PydanticOmit, SchemaValidator, core_schema
from typing_extensions import override

from ._errors import with_json_paths
from ._names import wire_name

T = TypeVar("T")

OMIT: Any = Field(exclude_if=functools.partial(operator.is_, None))
Opt: TypeAlias = Annotated[T | None, OMIT]
"""An optional member: None if absent, and then not written. A null that was read counts as absent."""


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
        raise PydanticOmit  # No JSON value represents it.


def _without_default(schema: dict[str, Any]) -> None:
    schema.pop("default", None)


ABSENT: Final = Absent.ABSENT
"""The value of an absent member whose type includes null; it is false, and never written."""

Nullable: TypeAlias = Annotated[
    T | Absent,
    Field(exclude_if=functools.partial(operator.is_, ABSENT), json_schema_extra=_without_default),
]
"""An optional member that may be null; `ABSENT` if it is absent. `if value is not ABSENT` distinguishes the two."""


class _Exact:
    """Makes an integer type also accept a number with a fraction part, and keep it as a float."""

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
        found = handler(schema)
        whole, *_ = found.pop("anyOf", [{}])  # which a limit may have taken the place of
        return {**found, **whole}


EXACT: Final = _Exact()
"""The annotation that `Integer` adds to `int`."""
Integer: TypeAlias = Annotated[int, EXACT]
"""A number that upstream's schema.json declares as an integer; 1.0 or a fraction is read and kept unchanged."""
Whole: TypeAlias = Annotated[int, _Exact(multiple_of=1)]
"""A whole number; 1.0 is valid and stays 1.0."""


class _Nothing:
    """Gives `Never` a validator, which pydantic does not have: it takes no value."""

    __slots__ = ()

    def __get_pydantic_core_schema__(self, _source: object, _handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(_refused)

    def __get_pydantic_json_schema__(self, _schema: CoreSchema, _handler: object) -> dict[str, Any]:
        return {"not": {}}


def _refused(_value: object) -> Never:
    raise PydanticCustomError("never", "No value is valid here: the member must be absent")


Nothing: TypeAlias = Annotated[Never, _Nothing()]
"""No value: an optional member of this type must be absent."""


class _Exactly:
    """Keeps `1`, `1.0` and `True` apart, which Python, and so pydantic's literals, take as equal."""

    __slots__ = ()

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        literals = handler(source)
        values: list[object] = cast("Any", literals)["expected"]
        known = frozenset((isinstance(value, bool), value) for value in values)

        def pick(value: Any, validate: ValidatorFunctionWrapHandler) -> Any:  # noqa: ANN401 - any JSON value
            if isinstance(value, (str, int, float)) and (isinstance(value, bool), value) in known:
                return value
            validate(_NO_LITERAL)
            raise AssertionError("no type has this literal")

        schema = core_schema.no_info_wrap_validator_function(pick, literals)
        schema["serialization"] = core_schema.simple_ser_schema("any")
        return schema


_NO_LITERAL: Final = object()
EXACTLY: Final = _Exactly()
"""The annotation of literals that are not only strings: 1 is not `True`, and 1.0 is 1, kept as it was written."""


_LIMITS: Final = {
    "minimum": ("number", "ge"),
    "maximum": ("number", "le"),
    "exclusive_minimum": ("number", "gt"),
    "exclusive_maximum": ("number", "lt"),
    "multiple_of": ("number", "multiple_of"),
    "min_length": ("string", "min_length"),
    "max_length": ("string", "max_length"),
    "pattern": ("string", "pattern"),
    "min_items": ("array", "min_length"),
    "max_items": ("array", "max_length"),
}
"""The kind of value that each limit is for, and how pydantic names it."""
_KINDS: Final[dict[str, Any]] = {
    "number": core_schema.float_schema,
    "string": core_schema.str_schema,
    "array": core_schema.list_schema,
}


class _Limited:
    """Limits the values of a type by kind, as JSON Schema does: those of other kinds are not limited."""

    __slots__ = ("checks", "limits", "unique")

    def __init__(self, limits: dict[str, Any]) -> None:
        self.limits = limits
        self.unique = limits.get("unique_items", False)
        arguments: dict[str, dict[str, Any]] = {}
        for limit, value in limits.items():
            if limit in _LIMITS:
                kind, argument = _LIMITS[limit]
                arguments.setdefault(kind, {})[argument] = value
        self.checks = {kind: [SchemaValidator(_KINDS[kind](**own))] for kind, own in arguments.items()}
        matches = [core_schema.str_schema(pattern=one) for one in limits.get("matches", ())]
        never = [_without(core_schema.str_schema(pattern=one), one) for one in limits.get("never", ())]
        if matches or never:
            self.checks["string"] = [
                *self.checks.get("string", ()),
                *map(SchemaValidator, (*matches, *never)),
            ]

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_before_validator_function(self.check, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        limits = {**self.limits}
        matches, never = limits.pop("matches", ()), limits.pop("never", ())
        found = {**handler(schema), **{wire_name(limit): value for limit, value in limits.items()}}
        if matches or never:
            patterns = [{"pattern": one} for one in matches]
            found["allOf"] = [*patterns, *({"not": {"pattern": one, "type": "string"}} for one in never)]
        return found

    def check(self, value: Any) -> Any:  # noqa: ANN401 - any JSON value
        """Return the value. Raises `ValidationError` or `PydanticCustomError` if it is not within the limits."""
        if isinstance(value, str):
            self._check("string", value)
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            self._check("number", value)
        elif isinstance(value, (list, tuple)):
            items = cast("list[Any]", value)
            self._check("array", items)
            if self.unique and len({*map(_comparable, items)}) < len(items):
                raise PydanticCustomError("unique_items", "The items of the array should be different")
        return cast("Any", value)

    def _check(self, kind: str, value: object) -> None:
        for check in self.checks.get(kind, ()):
            check.validate_python(value)


def _without(matching: CoreSchema, pattern: str) -> CoreSchema:
    """Return the schema of the strings that another one refuses."""
    matches = SchemaValidator(matching).isinstance_python

    def check(text: str) -> str:
        if matches(text):
            raise PydanticCustomError(
                "string_pattern_mismatch", "String should not match pattern '{pattern}'", {"pattern": pattern}
            )
        return text

    return core_schema.no_info_after_validator_function(check, core_schema.str_schema())


def _comparable(value: Any) -> object:  # noqa: ANN401 - a JSON value, or a model
    """Return an object that equals that of another JSON value if the two are equal: 1 and 1.0 are, 1 and true are not."""
    if isinstance(value, Model):
        value = value.to_wire()
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value)
        return frozenset((name, _comparable(item)) for name, item in members.items())
    if isinstance(value, (list, tuple)):
        return tuple(_comparable(item) for item in cast("list[Any]", value))
    return isinstance(value, bool), value


def limited(**limits: float | str | tuple[str, ...]) -> _Limited:
    """Return the annotation of a type whose values are limited, named as the tags: `minimum`, `unique_items`.

    `matches` are patterns that a string has to match, `never` those that it must not match.
    """
    return _Limited(limits)


class _Further:
    """Makes `tuple[A, *tuple[B, ...]]` accept an array with any number of items behind the first ones."""

    __slots__ = ()

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        *items, rest = get_args(source)
        if get_args(rest)[-1:] != (...,):  # an evaluated hint has `Unpack[tuple[B, ...]]`
            (rest,) = get_args(rest)
        parts = [handler.generate_schema(part) for part in (*items, get_args(rest)[0])]
        return core_schema.tuple_schema(parts, variadic_item_index=len(items), strict=False)


FURTHER: Final = _Further()
"""The annotation of a tuple with further items."""

_FRAMES: Final = 20
"""More than the Python calls by which pydantic gets from a model to the next one in it."""
_MOST_FRAMES: Final = 20_000


def deep(models: int) -> None:
    """Let pydantic follow so many models that lead to one another; it does so by recursion when one is first used."""
    needed = min(1_000 + models * _FRAMES, _MOST_FRAMES)
    sys.setrecursionlimit(max(sys.getrecursionlimit(), needed))


class _Deprecated:
    """Says in a JSON Schema that a member is deprecated; not by a `Field`, which would replace what others say there."""

    __slots__ = ()

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {**handler(schema), "deprecated": True}


DEPRECATED: Final = _Deprecated()
"""Marks a member that its revision deprecates. Using it gives no warning, since code for older peers needs it."""


def wire(name: str) -> Any:  # noqa: ANN401 - as pydantic types a Field
    """Return a field with a wire name that does not follow from the attribute."""
    return Field(validation_alias=name, serialization_alias=name)


class _ConstructorDefault:
    """Marks a member whose value constructors fill in."""

    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        self.value = value


def constant(value: T) -> T:
    """Return the default of a member with one possible value: constructors fill it in, messages must contain it."""
    return cast("T", _marked(cast("FieldInfo", Field()), value))


def stated(value: dict[str, Any]) -> Any:  # noqa: ANN401 - the type of the member
    """Return the default of a member that the runtime states of its side: constructors fill in the least that is valid, messages
    must contain it, and what the runtime sends replaces it.
    """
    return _marked(cast("FieldInfo", Field()), value)


def fallback(value: T) -> T:
    """Return the default of a required member: constructors fill it in; it is also used for a message that lacks it."""
    return cast("T", _marked(cast("FieldInfo", Field(default=value)), value))


def _marked(field: FieldInfo, value: object) -> FieldInfo:
    field.metadata.append(_ConstructorDefault(value))
    return field


class MisspeltMember(UserWarning):
    """An unknown member of a model resembles a member that is not given."""


class Model(BaseModel):
    """The base class of all models: strict types, unknown members kept, written as read."""

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
        __constructor_defaults__: ClassVar[tuple[tuple[str, str, object], ...] | None]
    else:
        __constructor_defaults__ = None  # without a hint, which pydantic would evaluate again for each class

    def __init_subclass__(cls, **kwargs: Any) -> None:  # noqa: ANN401 - as pydantic types it
        super().__init_subclass__(**kwargs)
        cls.__constructor_defaults__ = None  # of this class, not of its base
        for base in cls.__bases__:
            if (
                issubclass(base, Model)
                and not base.__pydantic_fields_complete__
                and _package(base) != _package(cls)
            ):
                # Its hints refer to a package that is unknown in the module of a user's class.
                base.model_rebuild(_types_namespace={})

    def __init__(self, /, **data: Any) -> None:  # noqa: ANN401 - as pydantic types it
        """Create a message from attributes or wire names; constants and defaults are filled in.

        Raises `pydantic.ValidationError` if a member is missing or of the wrong type. Warns with `MisspeltMember` of an
        unknown member whose name resembles one that is not given; other unknown members are kept without a word.
        """
        defaults = self.__constructor_defaults__
        if defaults is None:
            defaults = self._find_constructor_defaults()
        for name, alias, value in defaults:
            if name not in data and alias not in data:
                data[name] = value
        self.__pydantic_validator__.validate_python(data, self_instance=self, by_name=True)
        if self.__pydantic_extra__:
            _warn_of_misspelt(type(self), self.__pydantic_extra__, data)

    # Marks it as the default constructor; for any other one, validation would call back into Python.
    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]  # pyright: ignore[reportFunctionMemberAccess]

    @classmethod
    def _find_constructor_defaults(cls) -> tuple[tuple[str, str, object], ...]:
        cls.__constructor_defaults__ = defaults = _collect(cls)
        return defaults

    @classmethod
    def from_wire(cls, message: object) -> Self:
        """Return the model of a decoded JSON value. Raises `pydantic.ValidationError` with JSON paths as locations."""
        try:
            return cls.model_validate(message)
        except ValidationError as error:
            raise with_json_paths(error, message) from None

    def to_wire(self) -> dict[str, Any]:
        """Return the JSON value to send: members that were read or set, under wire names, unknown members included."""
        wire: dict[str, Any]
        serializer = self.__pydantic_serializer__
        try:
            wire = serializer.to_python(self, mode="json", exclude_unset=True)
        except UnicodeEncodeError:  # a member's name has a lone surrogate, which UTF-8 cannot encode
            wire = serializer.to_python(self, mode="python", exclude_unset=True)
        return wire

    def to_json(self) -> bytes:
        """Return the JSON value to send as UTF-8 text on one line."""
        return self.__pydantic_serializer__.to_json(self, exclude_unset=True)


def _warn_of_misspelt(cls: type[Model], extra: dict[str, Any], given: dict[str, Any]) -> None:
    """Warn, at the line that constructs a model, of unknown members that resemble members which are not given."""
    from difflib import get_close_matches  # imported late: only unknown members need it

    absent: dict[str, tuple[str, str]] = {}
    for name, field in cls.model_fields.items():
        alias = str(field.serialization_alias or field.alias or name)
        if name not in given and alias not in given:
            absent[_plain(name)] = name, alias
    for wrong in extra:
        meant = get_close_matches(_plain(wrong), absent, 1, 0.8) if wrong.isidentifier() else []
        if meant:
            name, alias = absent[meant[0]]
            text = f"{cls.__name__} has no member '{wrong}'; did you mean '{name}' ('{alias}' on the wire)?"
            warnings.warn(text, MisspeltMember, stacklevel=3)


def _plain(name: str) -> str:
    return name.replace("_", "").lower()


def _package(cls: type[Model]) -> str:
    return cls.__module__.rpartition(".")[0]


def _collect(cls: type[Model]) -> tuple[tuple[str, str, object], ...]:
    """Return the members of a class that constructors fill in: attribute, wire name, value."""
    found: list[tuple[str, str, object]] = []
    if not cls.__pydantic_complete__:
        cls.model_rebuild()
    for name, field in cls.model_fields.items():
        marks = [m.value for m in field.metadata if isinstance(m, _ConstructorDefault)]
        if marks:
            found.append((name, str(field.serialization_alias or field.alias or name), marks[0]))
    return tuple(found)
