"""What a JSON text becomes in memory, estimated before it is parsed."""

from __future__ import annotations

import gc
import tracemalloc
from typing import Final

import pytest
from pydantic_core import from_json

from mcprev.wire.bounds import SMALL, parsed_weight, without_strings
from requirements import req

SIZE: Final = 1024 * 1024


def many(item: str) -> str:
    """An array of about a mebibyte that holds one item again and again."""
    return "[" + ",".join([item] * (SIZE // (len(item.encode()) + 1))) + "]"


def members(value: str, width: int) -> str:
    """An object of about a mebibyte whose keys are all different."""
    keys = SIZE // (width + len(value) + 4)
    return "{" + ",".join(f'"{number:0{width}x}":{value}' for number in range(keys)) + "}"


TEXTS: Final = {
    "empty arrays": many("[]"),
    "arrays of one": many("[300]"),
    "deep arrays": many("[" * 150 + "]" * 150),
    "empty objects": many("{}"),
    "objects of one": many('{"a":300}'),
    "deep objects": many('{"a":' * 100 + "[]" + "}" * 100),
    "rows": many('{"id":12345,"name":"some name","price":1.5,"on":true}'),
    "integers": many("300"),
    "floats": many("1.5"),
    "huge integers": many("1" * 4000),
    "keys": members("0", 5),
    "long keys": members("[]", 80),
    "strings": many('"' + "a" * 80 + '"'),
    "latin strings": many('"' + "é" * 80 + '"'),
    "wide strings": many('"' + "a" * 80 + "語" + '"'),
    "strings of emoji": many('"' + "a" * 80 + "😀" + '"'),
    "one string": '"' + "a" * SIZE + '"',
    "one escaped emoji": '"' + "a" * SIZE + '\\ud83d\\ude00"',
    "one escaped letter": '"' + "a" * SIZE + '\\u8a9e"',
    "one string of emoji": '"' + "😀" * (SIZE // 4) + '"',
    "JSON in a string": '"' + "[{},{}]," * (SIZE // 8) + '"',
    "escaped JSON in a string": '"' + '{\\"a\\":[1,2,\\"\\\\\\\\\\"]},' * (SIZE // 32) + '"',
}


@req("HTTP-31", "BASE-10", everywhere=True)
@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_what_is_parsed_takes_no_more_than_its_weight(text: str) -> None:
    data = text.encode()
    from_json(data)  # what it caches is not counted
    gc.collect()
    tracemalloc.start()
    value = from_json(data)
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    del value
    assert taken <= parsed_weight(data) * 1.02
    assert parsed_weight(data) <= 5 * max(taken, len(data))


@req("HTTP-31", "BASE-10", everywhere=True)
@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_no_punctuation_within_strings_counts(text: str) -> None:
    inner = text.replace("\\", "\\\\").replace('"', '\\"')
    assert len(inner) >= SMALL
    assert without_strings(f'["{inner}",1]'.encode()) == b'[",1]'


@req("HTTP-31", everywhere=True)
@pytest.mark.parametrize(
    "data", [b"", b'"', b'"\\', b"\xff", b"]]]", b'{"a', b"," * SMALL, b'"' * SMALL, b"\\" * SMALL]
)
def test_what_is_no_json_has_a_weight_too(data: bytes) -> None:
    assert 40 <= parsed_weight(data) <= 40 + 64 * len(data)
