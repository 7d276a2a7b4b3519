"""Reads the TOML files of a schema folder and of options: of limited size, and with the expected kinds of values."""

from __future__ import annotations

import tomllib
from functools import lru_cache
from pathlib import Path
from typing import Final, TypeVar

from pydantic import TypeAdapter, ValidationError

from mcprev_codegen.errors import InputError, reason

T = TypeVar("T")
_LIMIT: Final = 4_000_000
"""The maximum size in bytes; the largest of the project has a fiftieth of that."""
_LONGEST: Final = 10_000
"""The maximum length of a line: reading a dotted key takes time that grows with its square."""


@lru_cache(maxsize=4)
def _parsed(text: str) -> dict[str, object]:
    """Return a parsed file; cached, since the files are read once per revision."""
    return tomllib.loads(text)


def read_table(path: Path) -> tuple[str, dict[str, object]]:
    """Return the text of a file and its top table. Raises `InputError` if it is missing or no TOML."""
    try:
        with path.open("rb") as file:
            data = file.read(_LIMIT + 1)
        text = data.decode("utf-8").replace("\r\n", "\n")
        if len(data) <= _LIMIT and max(map(len, text.split("\n"))) <= _LONGEST:
            return text, dict(_parsed(text))
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read: {reason(error)}") from None
    except RecursionError:
        raise InputError(f"{path}: cannot be read: its values are nested too deep") from None
    raise InputError(f"{path}: more than {_LIMIT} bytes, or than {_LONGEST} characters on a line")


def checked(kind: TypeAdapter[T], value: object) -> T:
    """Return a value of a file that is of the expected kind. Raises `ValueError` with the place of one that is not."""
    try:
        return kind.validate_python(value, strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        place = ".".join(map(str, first["loc"])) or "its value"
        raise ValueError(f"{place}: {first['msg'].lower()}") from None
