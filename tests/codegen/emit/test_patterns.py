"""Regular expressions as ECMAScript means them with the `u` flag: what each matches was recorded from `new RegExp(…, "u")`."""

from __future__ import annotations

from typing import Annotated, Any, Final

import pytest
from pydantic import Field, TypeAdapter, ValidationError

from mcprev_codegen.emit.pydantic import is_checked, pattern_error
from mcprev_codegen.emit.pydantic.patterns import rust_pattern, rust_patterns
from mcprev_codegen.support._base import limited

TEXTS: Final = (
    "123", "\u0663\u0663\u0663", "a", "ab", "é", "_", " ", "\u00a0\ufeff", "\u180e", "\u2028", "\n", "a\n", "\U0001f600",
    "a-b", "a/b", "A", "a word.", "\x01", "[b", "&", "+", ",", "-", ".", "\x08", "\x00", "K", "\u0085", "αβγ", "]", "",
)  # fmt: skip
MATCHED: Final[dict[str, str]] = {
    r"^\d{3}$": "1000000000000000000000000000000",
    r"\D": "0111111111111111111111111111110",
    r"^\w+$": "1011010000000001000000000010000",
    r"^\W$": "0000101011101000010111111101010",
    r"^\s*$": "0000001101100000000000000000001",
    r"^\S+$": "1111110010001111011111111111110",
    r"^.$": "0010111010001001010111111111010",
    r"^[\d-]+$": "1000000000000000000000100000000",
    r"^[^\d]+$": "0111111111111111111111111111110",
    r"^[\D]$": "0010111011101001010111111111010",
    r"^[^\s]+$": "1111110010001111011111111111110",
    r"^a\/b$": "0000000000000010000000000000000",
    r"^\u0041$": "0000000000000001000000000000000",
    r"^\u{1F600}$": "0000000000001000000000000000000",
    r"^\ud83d\ude00$": "0000000000001000000000000000000",
    r"^\x41$": "0000000000000001000000000000000",
    r"\bword\b": "0000000000000000100000000000000",
    r"^\B.$": "0000101010001000010111111101010",
    r"^\cA$": "0000000000000000010000000000000",
    r"^[a[b]+$": "0011000000000000001000000000000",
    r"^[]$": "0000000000000000000000000000000",
    r"^[^]$": "0010111011101001010111111111010",
    r"^\p{L}+$": "0011100000000001000000000010100",
    r"^\p{Script=Greek}+$": "0000000000000000000000000000100",
    r"^[a&&b]+$": "0011000000000000000100000000000",
    r"^[+--]$": "0000000000000000000011100000000",
    r"^[\b]$": "0000000000000000000000001000000",
    r"^\0$": "0000000000000000000000000100000",
    r"^[.]$": "0000000000000000000000010000000",
    r"^[\]]$": "0000000000000000000000000000010",
    r"a$": "0010000000000000000000000000000",
    r"^(?<x>a)(?:b)?$": "0011000000000000000000000000000",
    r"^[\p{L}\d]+$": "1011100000000001000000000010100",
}
"""The places in `TEXTS` of what each regular expression matches: a `1` for each."""


LOOKING: Final[dict[str, str]] = {
    r"^(?!-)[a-z-]+$": "0011000000000100000000000000000",
    r"^(?=.*b)(?!a-)\w.*$": "0001000000000010000000000000000",
    r"^(?![\s(|])a.*(?<!b)$": "0010000000000000100000000000000",
    r"^.+(?<=b)(?<!a-b)$": "0001000000000010001000000000000",
    r"(?<![a-z])$": "1100111111111001110111111111111",
    r"^(?!(?:a|A)$).*$": "1101111110001110111111111111111",
    r"^(?!\d)": "0111111111111111111111111111111",
}
"""Those that look ahead at the start or back at the end, in the same way."""
NOT_CHECKED: Final = (r"^(?=[(])|a", r"a(?=b)", r"^(a)\1$", r"(?<=a)b", r"^(?<x>a)\k<x>$")
"""Those that no engine matches in linear time."""


@pytest.mark.parametrize("pattern", LOOKING)
def test_what_looks_around_at_an_end_matches_the_same_texts_too(pattern: str) -> None:
    found = rust_patterns(pattern)
    adapter = TypeAdapter[Any](Annotated[str, limited(matches=found.matches, never=found.never)])

    def matches(text: str) -> bool:
        try:
            adapter.validate_python(text)
        except ValidationError:
            return False
        return True

    assert is_checked(pattern)
    assert "".join("01"[matches(text)] for text in TEXTS) == LOOKING[pattern]


@pytest.mark.parametrize("pattern", [*NOT_CHECKED, "("])
def test_what_no_engine_matches_in_linear_time_is_told_from_what_is_none(pattern: str) -> None:
    assert not is_checked(pattern)
    assert (pattern_error(pattern) is None) == (pattern != "(")


@pytest.mark.parametrize("pattern", MATCHED)
def test_it_matches_the_same_texts_as_in_ecmascript(pattern: str) -> None:
    adapter = TypeAdapter[Any](Annotated[str, Field(pattern=rust_pattern(pattern))])

    def matches(text: str) -> bool:
        try:
            adapter.validate_python(text)
        except ValidationError:
            return False
        return True

    assert "".join("01"[matches(text)] for text in TEXTS) == MATCHED[pattern]
