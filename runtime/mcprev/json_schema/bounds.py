"""What keeps the check of a value against a JSON Schema within bounds (JSCH-3): time, patterns, equality of values."""

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

Complaint: TypeAlias = tuple[tuple[str | int, ...], str]
"""Where a value is wrong, and how."""
Check: TypeAlias = Callable[[Any], list[Complaint]]
"""Says what is wrong with a value: nothing, most of the time."""

LIST: Final[Any] = list
OBJECT: Final[Any] = dict
"""What `isinstance` asks for. Typed so that checkers leave JSON values alone: each cast would be a call."""
MAX_SECONDS: Final = 1.0
"""How long a check may take; what takes longer counts as wrong."""
MAX_PATTERN: Final = 1_000
"""How many characters a pattern has."""
MAX_STEPS: Final = 300_000_000
"""How many steps may be needed to match a text, in the worst case; some hundred million take a second."""
_REPETITION: Final = re.compile(r"\{\s*([0-9]*)\s*(?:,\s*([0-9]*)\s*)?\}")
_VERBOSE: Final = re.compile(r"\(\?[a-zA-Z-]*x")
_limit: ContextVar[tuple[Callable[[], float], float]] = ContextVar(
    "mcprev_schema_limit", default=(time.monotonic, float("inf"))
)


class TooSlowError(Exception):
    """A check has used up its time."""


@contextmanager
def deadline(clock: Callable[[], float]) -> Generator[None]:
    """Let `in_time` raise when more than `MAX_SECONDS` have passed."""
    token = _limit.set((clock, clock() + MAX_SECONDS))
    try:
        yield
    finally:
        _limit.reset(token)


def in_time() -> None:
    """Raise `TooSlowError` after the deadline, where there is one."""
    clock, last = _limit.get()
    if clock() > last:
        raise TooSlowError


def within_time(check: Check, clock: Callable[[], float]) -> Check:
    """A check that ends at a deadline, if it asks `in_time` often enough; what is not done by then counts as wrong."""

    def run(value: Json) -> list[Complaint]:
        try:
            with deadline(clock):
                return check(value)
        except RecursionError:
            return [((), "nests too deeply to be checked")]
        except TooSlowError:
            return [((), f"takes longer than {MAX_SECONDS:g} s to be checked")]

    return run


def pattern(expression: str) -> Callable[[str], str | None]:
    """What is wrong with a text: no part of it matches, or it is too long to look for one. None if a part matches.

    The time is linear to the text, but for a pattern with counted repetitions each character may take as many steps
    as there are repetitions. Raises `ValueError` for an expression that is too long or cannot be matched in that way:
    with lookarounds or references.
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
    wrong, too_long = (
        f"does not match {expression!r:.80}",
        f"is too long to be matched with {expression!r:.80}",
    )

    def check(text: str) -> str | None:
        if len(text) * len(expression) * min(repetitions, len(text)) > MAX_STEPS:
            return too_long
        return None if matches(text) else wrong

    return check


def _repetitions(expression: str) -> int:
    """How often a part of an expression is repeated at most, by counts that may be within one another."""
    return prod(max(int(found[1] or 0), int(found[2] or 0), 1) for found in _REPETITION.finditer(expression))


def canonical(value: Json) -> str:
    """A text that is the same for the same JSON: `1` and `1.0` are the same, `1` and `true` are not.

    Unlike numbers, texts cannot be made to have the same hash.
    """
    parts: list[str] = []
    _spell(value, parts)
    return "".join(parts)


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
