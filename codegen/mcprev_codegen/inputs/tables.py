"""Reads TOML files: of limited size, and with the expected kinds of values, which a dataclass states."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from enum import Enum
from functools import cache, cached_property
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Final, Generic, TypeVar, cast, get_args, get_origin, get_type_hints

from mcprev_codegen.errors import InputError, SchemaError, at_line, cut, reason, together
from mcprev_codegen.inputs.files import read_bounded

if TYPE_CHECKING:
    from pydantic_core import SchemaValidator
    from pydantic_core.core_schema import CoreSchema

T = TypeVar("T")
_LIMIT: Final = 4_000_000
"""The maximum size in bytes; the largest of the project has a fiftieth of that."""
_LONGEST: Final = 10_000
"""The maximum length of a line: reading a dotted key takes time that grows with its square."""
_SHOWN: Final = 20
"""The maximum number of errors that are raised for one file."""
_WORDS: Final = {
    "missing": "is missing",
    "unexpected_keyword_argument": "is an unknown key",
    "string_type": "must be a string",
    "tuple_type": "must be a list",
    "dict_type": "must be a table",
    "dataclass_type": "must be a table",
}
"""What is wrong with a value, by the type of the validator's error."""


@dataclass(frozen=True)
class Table(Generic[T]):
    """A TOML file that has been read and checked."""

    path: Path
    lines: Sequence[str]
    values: T

    def fail(self, message: str, *place: str | int) -> SchemaError:
        """Return an error at a value; `place` are the keys and indices that lead to it, as far as it exists."""
        return at_line(self.path, self.lines, self.line(*place), message)

    def line(self, *place: str | int) -> int:
        """Return the line of a value, or of the table around it if it has none of its own."""
        found = (self._lines.get(place[:depth]) for depth in range(len(place), 0, -1))
        return next(filter(None, found), 1)

    @cached_property
    def _lines(self) -> Mapping[tuple[str | int, ...], int]:
        """The line of each value that begins one, by its place."""
        found: dict[tuple[str | int, ...], int] = {}
        numbers: Counter[tuple[str | int, ...]] = Counter()
        table: tuple[str | int, ...] = ()
        for number, text in enumerate(self.lines, 1):
            header = text.lstrip().startswith("[")
            keys = _keys(text if header else f"{text.partition('=')[0]}= 0")
            here: tuple[str | int, ...] = () if header else table
            for index, key in enumerate(keys, 1):
                here += (key,)
                numbers[here] += header and index == len(keys) and text.lstrip().startswith("[[")
                here += (numbers[here] - 1,) if numbers[here] else ()
                found.setdefault(here, number)
            table = here if header and keys else table
        return found


def _keys(text: str) -> list[str]:
    """Return the keys in one line, a header or the left side of a value; none if it is neither."""
    try:
        value: object = tomllib.loads(text)
    except ValueError:
        return []
    keys: list[str] = []
    while value and isinstance(value, dict | list):
        inner = cast("dict[str, object] | list[object]", value)
        if isinstance(inner, list):
            value = inner[0]
        else:
            key, value = next(iter(inner.items()))
            keys.append(key)
    return keys


def read_table(path: Path, kind: type[T], read: Callable[[Path], bytes] = read_bounded) -> Table[T]:
    """Return the values of a file, which are of a kind: a dataclass, or a `dict` of tables.

    Raises `InputError` if it is missing or no TOML, `CodegenError` with the places of all values of other kinds.
    """
    try:
        data = read(path)
        text = data.decode("utf-8").replace("\r\n", "\n")
        lines = text.split("\n")
        if len(data) > _LIMIT or max(map(len, lines)) > _LONGEST:
            raise InputError(
                f"{path}: more than {_LIMIT} bytes, or a line of more than {_LONGEST} characters"
            )
        values: dict[str, object] = tomllib.loads(text)
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read: {reason(error)}") from None
    except RecursionError:
        raise InputError(f"{path}: cannot be read: its values are nested too deeply") from None
    return Table(path, lines, _checked(Table(path, lines, values), kind))


def _checked(table: Table[dict[str, object]], kind: type[T]) -> T:
    from pydantic_core import ValidationError

    try:
        return cast("T", _validator(cast("Hashable", kind)).validate_python(table.values))
    except ValidationError as invalid:
        errors: list[SchemaError] = []
        for error in invalid.errors(include_url=False, include_input=False, include_context=False)[:_SHOWN]:
            place = ".".join(key for key in error["loc"] if isinstance(key, str))
            words = _WORDS.get(error["type"], error["msg"].lower())
            errors.append(table.fail(f"'{cut(place)}' {words}", *error["loc"]))
        raise together(errors) from None


@cache
def _validator(kind: Hashable) -> SchemaValidator:
    """Return a validator; that of the core, since `pydantic` itself takes longer to import than a file to read."""
    from pydantic_core import SchemaValidator

    return SchemaValidator(_schema(kind))


def _schema(kind: object) -> CoreSchema:
    """Return the schema of a dataclass or named tuple, an enum, a mapping, a tuple, a text, or any value (`object`)."""
    from pydantic_core import core_schema

    parts = [_schema(part) for part in get_args(kind) if part is not Ellipsis and part is not type(None)]
    origin = get_origin(kind)
    if origin in (dict, Mapping):
        return core_schema.dict_schema(*parts)
    if origin is tuple:
        return core_schema.tuple_schema(parts, variadic_item_index=0)
    if origin is UnionType:  # with None, for a key that may be missing
        return parts[0]
    if kind is str:
        return core_schema.str_schema(strict=True)
    if is_dataclass(kind) and isinstance(kind, type):
        return _dataclass_schema(kind)
    make: Callable[[object], object] | None = getattr(kind, "_make", None)
    if make is not None:  # of a named tuple
        items = [_schema(hint) for hint in get_type_hints(kind).values()]
        return core_schema.no_info_after_validator_function(make, core_schema.tuple_schema(items))
    if isinstance(kind, type) and issubclass(kind, Enum):
        return core_schema.enum_schema(kind, [*kind], sub_type="str")
    assert kind is object, f"{kind} is a kind of value that no file has"
    return core_schema.any_schema()


def _dataclass_schema(kind: type) -> CoreSchema:
    from pydantic_core import core_schema

    hints, members = get_type_hints(kind), fields(kind)
    stated = [
        core_schema.dataclass_field(member.name, _with_default(_schema(hints[member.name]), member))
        for member in members
    ]
    arguments = core_schema.dataclass_args_schema(kind.__name__, stated, extra_behavior="forbid")
    return core_schema.dataclass_schema(kind, arguments, [member.name for member in members], slots=True)


def _with_default(schema: CoreSchema, member: Field[object]) -> CoreSchema:
    from pydantic_core import core_schema

    if member.default_factory is not MISSING:
        return core_schema.with_default_schema(schema, default_factory=member.default_factory)
    if member.default is not MISSING:
        return core_schema.with_default_schema(schema, default=member.default)
    return schema
