"""Bounds for the validation of a value against a JSON Schema (JSCH-3): time, regular expressions, comparison of
values.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from math import prod
from typing import Any, Final, TypeAlias

from pydantic_core import SchemaValidator, core_schema

from mcprev.errors import Json

ValidationIssue: TypeAlias = tuple[tuple[str | int, ...], str]
"""The path of an invalid value, and the reason."""
Validator: TypeAlias = Callable[[Any], list[ValidationIssue]]
"""Returns the issues of a value; an empty list if it is valid."""

LIST: Final[Any] = list
OBJECT: Final[Any] = dict
"""The types for `isinstance`, typed as `Any` so that type checkers do not narrow JSON values; a cast would cost a
call.
"""
MAX_SECONDS: Final = 1.0
"""The maximum duration of one validation in seconds; a value that takes longer is invalid."""
MAX_PATTERN: Final = 1_000
"""The maximum number of characters of a regular expression."""
MAX_STEPS: Final = 300_000_000
"""The maximum number of steps that a match may take in the worst case; some hundred million take a second."""
_REPETITION: Final = re.compile(r"\{\s*+([0-9]*+)\s*+(?:,\s*+([0-9]*+)\s*+)?\}")
_VERBOSE: Final = re.compile(r"\(\?[a-zA-Z-]*x")
_limit: ContextVar[tuple[Callable[[], float], float]] = ContextVar(
    "mcprev_schema_limit", default=(time.monotonic, float("inf"))
)


class TooSlowError(Exception):
    """A validation exceeded its time limit."""


@contextmanager
def deadline(clock: Callable[[], float]) -> Generator[None]:
    """Set a deadline `MAX_SECONDS` from now, after which `in_time` raises."""
    token = _limit.set((clock, clock() + MAX_SECONDS))
    try:
        yield
    finally:
        _limit.reset(token)


def in_time() -> None:
    """Raise `TooSlowError` after the deadline, if one is set."""
    clock, last = _limit.get()
    if clock() > last:
        raise TooSlowError


def within_time(check: Validator, clock: Callable[[], float]) -> Validator:
    """Return a validator with a deadline; a value not validated by then is invalid. The validator must call `in_time`
    often.
    """

    def run(value: Json) -> list[ValidationIssue]:
        try:
            with deadline(clock):
                return check(value)
        except RecursionError:
            return [((), "nests too deeply to be checked")]
        except TooSlowError:
            return [((), f"takes longer than {MAX_SECONDS:g} s to be checked")]

    return run


def pattern(expression: str) -> Callable[[str], str | None]:
    """Compile a regular expression to a function that returns why a text does not match, or None if a part of it
    matches.

    The function runs in time linear in the text, except that with counted repetitions each character may take as many
    steps as there are repetitions; a text that could take more than `MAX_STEPS` does not match. Raises `ValueError`
    for an expression that is too long or that cannot be matched in linear time, such as one with lookarounds or
    backreferences.
    """
    in_time()
    if len(expression) > MAX_PATTERN:
        raise ValueError(f"a pattern of more than {MAX_PATTERN} characters")
    if _VERBOSE.search(expression):
        raise ValueError(f"the pattern {expression!r:.80} ignores white space, which is not supported")
    try:
        made = SchemaValidator(
            core_schema.str_schema(pattern=expression, regex_engine="rust-regex", strict=True)
        )
    except Exception as error:
        raise ValueError(f"the pattern {expression!r:.80} cannot be matched in linear time") from error
    matches, repetitions = made.isinstance_python, _repetitions(expression)
    no_match, too_long = (
        f"does not match {expression!r:.80}",
        f"is too long to be matched with {expression!r:.80}",
    )

    def check(text: str) -> str | None:
        if len(text) * len(expression) * min(repetitions, len(text)) > MAX_STEPS:
            return too_long
        return None if matches(text) else no_match

    return check


def _repetitions(expression: str) -> int:
    """Return how often a part of an expression may be repeated at most: the product of all counted repetitions."""
    return prod(max(int(found[1] or 0), int(found[2] or 0), 1) for found in _REPETITION.finditer(expression))


def canonical_json(value: Json) -> str:
    """Return a text that is equal for equal JSON values: `1` and `1.0` are equal, `1` and `true` are not.

    A peer can choose numbers with colliding hashes, but not texts.
    """
    parts: list[str] = []
    _spell(value, parts)
    return "".join(parts)


def has_twice(items: list[Json]) -> bool:
    """Return whether two items of a list are equal JSON values, in a time that grows with the list."""
    return len({canonical_json(item) for item in items}) < len(items)


def _spell(value: Json, parts: list[str]) -> None:
    if isinstance(value, OBJECT):
        parts.append("{")
        for name in sorted(value):
            _spell(name, parts)
            _spell(value[name], parts)
        parts.append("}")
    elif isinstance(value, LIST):
        parts.append("[")
        for item in value:
            _spell(item, parts)
        parts.append("]")
    elif isinstance(value, str):
        parts.append(f"{len(value)}'")
        parts.append(value)
    elif isinstance(value, float):
        parts.append(f"{int(value):x}," if value.is_integer() else f"{value!r},")
    else:
        parts.append(f"{value}," if value is None or isinstance(value, bool) else f"{value:x},")
