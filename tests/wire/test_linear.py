"""SEC-6: the counter of steps tells linear parsers from others, and its regular expressions are those of `re`."""

from __future__ import annotations

import functools
import re
import sys
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, strategies as st

from helpers.linear import assert_linear, counted, program, run, steps
from helpers.requirements import req

EXPRESSIONS = [
    r"a*b|ab?",
    r"(?:[^a\\]|\\.)*a",
    r"(a|ab)(c|bcd)?(d*)$",
    r"a{1,3}b{2}c{0,2}",
    r"a*?b+?(?=c)",
    r"(?<=a)b(?!c)",
    r"(?>a+)b|a++c",
    r"[^a-b]+|\d\s\w|.",
    r"(?i:aB)c|\AA\Z",
    r"\W\D\S",
]


@pytest.mark.parametrize("expression", EXPRESSIONS)
@given(text=st.text("aAbBcd \\1\n", max_size=12), at=st.integers(0, 3))
@req("SEC-6", everywhere=True)
def test_a_counted_expression_finds_what_the_plain_one_finds(expression: str, text: str, at: int) -> None:
    pattern = re.compile(expression)
    at = min(at, len(text))
    code = program(pattern)
    found, whole = pattern.match(text, at), pattern.fullmatch(text, at)
    assert run(code, text, at) == (None if found is None else found.end())
    assert run(code, text, at, full=True) == (None if whole is None else whole.end())
    holder: Any = ModuleType("holder")
    holder.PATTERN = pattern
    seen: list[Any] = []
    steps(lambda: seen.append(list(holder.PATTERN.findall(counted(text)))), holder)
    assert seen == [pattern.findall(text)]


def by_regular_expression(text: str) -> object:
    return _SLOW.fullmatch(text)


def by_possessive_expression(text: str) -> object:
    return _FAST.fullmatch(text)


def by_a_search_from_each_character(text: str) -> object:
    return [text.find("b", at) for at in range(len(text))]


def by_cutting_off_the_head(text: str) -> None:
    while text:
        text = text[1:]


def by_joining(text: str) -> str:
    found = text[:0]
    for character in text:
        found += character
    return found


def by_looking_back(text: str) -> int:
    return sum(1 for at in range(len(text)) for before in range(at) if text[before] == text[at])


def by_splitting(text: str) -> object:
    return [part.strip().lower() for part in text.split("b")]


_SLOW = re.compile(r"(?:a+;?)*b")
_FAST = re.compile(r"(?:a++;?)*+b")
QUADRATIC = [
    by_a_search_from_each_character,
    by_cutting_off_the_head,
    by_joining,
    by_looking_back,
]


@pytest.mark.parametrize("parse", QUADRATIC)
@req("SEC-6", everywhere=True)
def test_a_parser_that_is_not_linear_is_found(parse: Any) -> None:
    with pytest.raises(AssertionError, match="grow faster than the input"):
        assert_linear(parse, lambda size: "a" * size, sizes=(32, 64, 128))


@req("SEC-6", everywhere=True)
def test_an_expression_that_goes_back_is_found_and_one_that_does_not_is_not() -> None:
    here = sys.modules[__name__]
    with pytest.raises(AssertionError, match="grow faster than the input"):
        assert_linear(by_regular_expression, lambda size: "a" * size, here, sizes=(4, 8, 16))
    assert_linear(by_possessive_expression, lambda size: "a;" * size, here)
    assert_linear(by_splitting, lambda size: "aab" * size, here)


@req("SEC-6", everywhere=True)
def test_the_tracing_of_others_goes_on_and_the_expressions_come_back() -> None:
    here, before = sys.modules[__name__], sys.gettrace()
    assert steps(lambda: by_possessive_expression("aab"), here) > 3
    assert sys.gettrace() is before
    assert isinstance(_FAST, re.Pattern)


@functools.lru_cache
def remembered(text: str) -> object:
    return by_splitting(text)


@req("SEC-6", everywhere=True)
def test_what_an_earlier_call_left_in_a_cache_is_counted_all_the_same() -> None:
    here = sys.modules[__name__]
    first = steps(lambda: remembered(counted("aab")), here)
    assert steps(lambda: remembered(counted("aab")), here) == first > 3
