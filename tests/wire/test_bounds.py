"""What a JSON text becomes in memory, estimated before it is parsed, and what it is refused for unread."""

from __future__ import annotations

import gc
import json
import math
import re
import tracemalloc
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, nullcontext
from typing import Any, Final, cast
from unittest import mock

import pytest
from hypothesis import given, settings, strategies as st
from pydantic_core import from_json

from fuzz.fuzzing import sampled
from helpers.linear import assert_linear
from helpers.requirements import req
from helpers.support import same
from mcprev.errors import INVALID_REQUEST
from mcprev.transports.http.server import body_budget
from mcprev.transports.http.server.body_budget import SMALL, parsed_weight
from mcprev.wire import bounds, jsonrpc, unread
from mcprev.wire.bounds import (
    MAX_NAMES,
    UNCHECKED,
    OutOfBoundsError,
    check_values,
    json_bounds,
    without_strings,
)

SIZE: Final = 512 * 1024


def many(item: str) -> str:
    """An array of about half a mebibyte that holds one item again and again."""
    return "[" + ",".join([item] * (SIZE // (len(item.encode()) + 1))) + "]"


def members(value: str, width: int) -> str:
    """An object of about half a mebibyte whose keys are all different."""
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
    assert without_strings(f'["{inner}",1]'.encode()) == b'["",1]'


@req("HTTP-31", everywhere=True)
@pytest.mark.parametrize(
    "data", [b"", b'"', b'"\\', b"\xff", b"]]]", b'{"a', b"," * SMALL, b'"' * SMALL, b"\\" * SMALL]
)
def test_what_is_no_json_has_a_weight_too(data: bytes) -> None:
    assert 40 <= parsed_weight(data) <= 40 + 64 * len(data)


HOSTILE: Final[dict[str, Callable[[int], bytes]]] = {
    "nothing": lambda size: b"x" * size,
    "quotes": lambda size: b'"' * size,
    "escapes": lambda size: b'"' + b"\\" * size,
    "escaped quotes": lambda size: b'{"' + b'\\"' * size,
    "an open string": lambda size: b'{"a":"' + b"x" * size,
    "keys": lambda size: b"{" + b'"id":1,' * size,
    "open keys": lambda size: b'{"id":' * size,
    "last members": lambda size: b'{"a":[],' + b'"id":1,"jsonrpc":"2.0",' * size + b"}x",
    "spaces": lambda size: b'{"a":[],' + b'"id" ' + b" " * size + b"}",
    "blank commas": lambda size: b"{" + b", " * size + b"}",
    "a long id": lambda size: b'{"a":[],"id":"' + b"\\\\" * size + b'"}',
    "numbers": lambda size: b'{"a":[],"id":' + b"1e" * size + b"}",
    "depth": lambda size: b"[" * size + b"]" * size,
    "depth of an object": lambda size: b'{"id":1,"a":' + b"[" * size + b"]" * size + b"}",
    "exponents": lambda size: b"[" + b"1e100," * size + b"1]",
    "digits": lambda size: b"[" + b"1" * 200 + b"1" * size + b".5]",
    "surrogates": lambda size: b'["' + rb"\ud800" * size + b'",1e999]',
}


@req("SEC-6", "BASE-10", everywhere=True)
@pytest.mark.parametrize("make", HOSTILE.values(), ids=HOSTILE)
def test_steps_grow_with_the_bytes_only(
    make: Callable[[int], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_bounds, "max_values", 100)
    monkeypatch.setattr(body_budget, "SMALL", 0)
    monkeypatch.setattr(bounds, "MAX_NAMES", 0)
    monkeypatch.setattr(unread, "HEAD", 1 << 20)
    monkeypatch.setattr(unread, "TAIL", 1 << 20)
    assert_linear(
        lambda data: jsonrpc.parse(data, batch=False), make, jsonrpc, bounds, unread, sizes=(128, 256, 512)
    )
    assert_linear(parsed_weight, make, bounds, body_budget, sizes=(256, 512, 1024))
    assert_linear(lambda data: unread.find_id(data, data), make, unread)


def with_names(name: str, values: int, *, text: str = "") -> bytes:
    """A request with a member of this name that has so many wrong values, and perhaps a long text."""
    responses = {name: {"roots": [1] * values}}
    params = {"name": "x", "arguments": {"text": text}, "inputResponses": responses}
    return json.dumps({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}).encode()


@req("SEC-6", everywhere=True)
@pytest.mark.parametrize("name", ["x" * 1_000_000, "\\" * 500_000, '"' * 500_000, "é" * 200_000])
def test_long_names_with_many_values_are_refused(name: str) -> None:
    """Validation made of 1 MB with a name of 1 MB and 2,000 wrong values 3.8 GiB of errors."""
    found = jsonrpc.parse(with_names(name, 2_000), batch=False)
    assert isinstance(found, jsonrpc.Malformed)
    assert (found.id, found.code) == (7, INVALID_REQUEST)
    assert "name" in found.message


@req("SEC-6", everywhere=True)
@pytest.mark.parametrize(
    ("name", "values", "text"),
    [
        ("x" * 1_000_000, 50, ""),
        ("x" * 100, 400_000, ""),
        ("x", 100_000, "x" * 1_000_000),
        ("x", 100_000, '":' * 200_000),
        ("x" * 1_000, 10, "," * 400_000),
    ],
)
def test_long_names_or_many_values_are_read(name: str, values: int, text: str) -> None:
    assert isinstance(jsonrpc.parse(with_names(name, values, text=text), batch=False), jsonrpc.Request)


@req("SEC-6", everywhere=True)
def test_what_is_not_counted_is_below_every_bound() -> None:
    """A text has at most so many bytes of one name and of values, each of which takes two."""
    assert max(name * (UNCHECKED - name) // 2 for name in range(UNCHECKED)) <= MAX_NAMES


# -- the same bounds, found with less work ----------------------------------------------------------------

TOKEN: Final = re.compile(rb'"(?:[^"\\]|\\.)*"|[,:\[{]')
NAME: Final = re.compile(rb'("(?:[^"\\]|\\.)*")(?=\s*:)|"(?:[^"\\]|\\.)*"')
TEXT: Final = st.text(st.sampled_from('a"\\,:[{}]\n\x00e9é語😀')) | st.sampled_from(
    ["1e999", '":', '\\"', "x" * 40, "\x00" * 20, "😀" * 20]
)
ANY_NUMBER: Final = st.sampled_from(
    ["1e308", "1e309", "-1E+400", "1e-999", "9" * 400, "9" * 400 + ".0", "0.1e310", "1.0", "7"]
)
ESCAPED: Final = st.booleans()


@st.composite
def texts(draw: st.DrawFn, depth: int = 3) -> str:
    """A JSON text, in which a name may come twice, with white space and escapes."""
    space = draw(st.sampled_from(["", " ", "\t\n"]))
    kind = draw(st.integers(0, 4 if depth else 2))
    if kind == 0:
        return space + draw(ANY_NUMBER)
    if kind == 1:
        return draw(st.sampled_from(["null", "true", "false"])) + space
    if kind == 2:
        return json.dumps(draw(TEXT), ensure_ascii=draw(ESCAPED))
    inner = draw(st.lists(texts(depth=depth - 1), max_size=5))
    if kind == 3:
        return f"[{space}{f'{space},'.join(inner)}]"
    members = [f"{json.dumps(draw(TEXT), ensure_ascii=draw(ESCAPED))}{space}:{item}" for item in inner]
    return "{" + f",{space}".join(members) + space + "}"


def count_in(data: bytes) -> int:
    """The definition of the number of values."""
    return 1 + len([token for token in TOKEN.findall(data) if token[:1] != b'"'])


def floats_in(value: Any) -> Iterator[float]:
    """The numbers with a fraction or an exponent that are read: of members of one name, the last."""
    if isinstance(value, float):
        yield value
    if isinstance(value, dict | list):
        for inner in cast("Iterable[Any]", value.values() if isinstance(value, dict) else value):
            yield from floats_in(inner)


def hides_infinity(data: bytes) -> bool:
    """Whether a number beyond every double comes before another member of its name, where not every way of looking sees it."""
    seen: list[str] = []
    json.loads(data, parse_float=seen.append)
    return not any(map(math.isinf, floats_in(json.loads(data)))) and any(
        math.isinf(float(text)) for text in seen
    )


def refusal_of(data: bytes, values: int, names: int) -> str | None:
    """Why a text is refused, by the definitions of the bounds."""
    if count_in(data) > values:
        return "JSON values"
    longest = max((len(name) - 2 for name in NAME.findall(data) if name), default=0)
    if longest * count_in(data) > names:
        return "names too long"
    if any(math.isinf(number) for number in floats_in(json.loads(data))):
        return "beyond the range of a double"
    return None


@req("SEC-6", "BASE-1", "BASE-10", everywhere=True)
@settings(max_examples=sampled(200))
@given(text=texts(), values=st.integers(1, 60), names=st.sampled_from([50, 1_000, 10**9]), data=st.data())
def test_a_large_message_is_refused_for_what_the_bounds_say_and_nothing_else(
    text: str, values: int, names: int, data: st.DataObject
) -> None:
    """However it is looked at: mark by mark or all at once, by its values or by its text."""
    more = data.draw(st.sampled_from(["", r',"y":"\ud800"']))  # which the fast parser refuses
    raw = f'{{"jsonrpc":"2.0","id":1,"method":"a","params":{{"x":{text}{more}}}}}'.encode()
    with ExitStack() as stack:
        for module, name, value in (
            (json_bounds, "max_values", values),
            (bounds, "MAX_NAMES", names),
            (bounds, "FEW", data.draw(st.sampled_from([0, 10, 1000]))),
            (jsonrpc, "UNCHECKED", 0),
            (jsonrpc, "_STRINGS", data.draw(st.sampled_from([1, 20, 1024]))),
        ):
            stack.enter_context(mock.patch.object(module, name, value))
        found = jsonrpc.parse(raw, batch=False)
        bare = text.encode()
        refused = refusal_of(bare, values, names) in {"JSON values", "names too long"}
        with pytest.raises(OutOfBoundsError) if refused else nullcontext():
            check_values(bare)
    why = refusal_of(raw, values, names)
    if why is None and hides_infinity(raw) and isinstance(found, jsonrpc.Malformed):
        why = "beyond the range of a double"
    if why is None:
        assert isinstance(found, jsonrpc.Request)
        assert same(found.params, json.loads(raw)["params"])
    else:
        assert isinstance(found, jsonrpc.Malformed)
        assert why in found.message
        assert found.id == 1


@req("HTTP-31", everywhere=True)
@settings(max_examples=sampled(70))
@given(text=texts(), few=st.sampled_from([0, 10, 1000]))
def test_a_large_body_weighs_no_less_than_by_its_parts_and_little_more(text: str, few: int) -> None:
    data = b'["' + b"x" * 64 + b'",' + text.encode() + b"]"
    with mock.patch.object(body_budget, "SMALL", 0), mock.patch.object(body_budget, "MAX_OPENING", len(data)):
        exact = parsed_weight(data)
    rough = [mock.patch.object(body_budget, "MAX_OPENING", 0), mock.patch.object(bounds, "FEW", few)]
    with mock.patch.object(body_budget, "SMALL", 0), rough[0], rough[1]:
        assert (
            exact
            <= parsed_weight(data, body_budget.LOOSE)
            <= max(4 * body_budget.LOOSE * len(data), exact, 97 * (few + 1) + 4 * len(data))
        )


@req("SEC-6", everywhere=True)
@pytest.mark.parametrize(
    "text", ["x" * SIZE, "a, b: " * (SIZE // 6), 'say "x",\n' * (SIZE // 9)], ids=["x", "prose", "quotes"]
)
def test_a_long_text_is_copied_once_at_a_time(text: str) -> None:
    """Nothing that is made of the text on the way stays beside what it becomes."""
    data = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "a", "params": {"text": text}}).encode()
    jsonrpc.parse(data, batch=False)
    tracemalloc.start()
    found = jsonrpc.parse(data, batch=False)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert isinstance(found, jsonrpc.Request)
    assert peak <= len(data) * 1.1


@req("SEC-6", everywhere=True)
@pytest.mark.parametrize("text", ["ab", 'a "b"', "\\"], ids=["plain", "quotes", "backslashes"])
def test_short_names_are_not_looked_at_one_by_one(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A text is split into its strings if one of them may be a name that is too long; to split costs the most of all."""
    splits: list[int] = []
    split: Any = getattr(bounds, "_split")  # noqa: B009 - counted, not used

    def counted(data: bytes, most: int = -1) -> Any:
        splits.append(most)
        return split(data, most)

    monkeypatch.setattr(bounds, "_split", counted)
    for length, split_at in ((100, False), (5000, True)):
        params = {text * length + str(number): text for number in range(20_000 // length)}
        names = {**params, "v": [text] * 50_000}
        data = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "a", "params": names}).encode()
        jsonrpc.parse(data, batch=False)
        assert bool(splits) is split_at


@req("SEC-6", "BASE-1", everywhere=True)
@pytest.mark.parametrize("number", ["1e999", "-1e999"])
def test_a_number_beside_a_long_text_is_refused_beyond_a_double(number: str) -> None:
    text = "x" * SIZE
    params = f'{{"n":[{number}],"text":"{text}"}}'
    found = jsonrpc.parse(f'{{"jsonrpc":"2.0","id":1,"method":"a","params":{params}}}'.encode(), batch=False)
    assert isinstance(found, jsonrpc.Malformed)
    assert "beyond the range of a double" in found.message


@req("SEC-6", everywhere=True)
def test_a_name_counts_with_the_bytes_of_its_escapes() -> None:
    name = r"\ud83d\ude00" * 20_000
    raw = f'{{"jsonrpc":"2.0","id":1,"method":"a","params":{{"{name}":[{"0," * 600}"{"x" * SIZE}"]}}}}'
    assert isinstance(found := jsonrpc.parse(raw.encode(), batch=False), jsonrpc.Malformed)
    assert "name" in found.message
