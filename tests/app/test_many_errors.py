"""What is wrong with many values of one request takes no more work than one look at each of them (SEC-6)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, Final

import pytest
from pydantic import TypeAdapter, ValidationError
from typing_extensions import TypedDict, override

from helpers.requirements import req
from mcprev.app.arguments import MAX_REREAD, ArgumentError, reread
from mcprev.app.signatures import Function
from mcprev.error_text import MAX_MISSPELT, did_you_mean
from mcprev.revisions import DEFAULT, Revision
from mcprev_types import MAX_ERRORS, details_of, with_json_paths

MANY: Final = MAX_ERRORS + 1


class Given(TypedDict):
    a: list[list[int]]


def reader(made: list[bytes]) -> Callable[[bytes], dict[str, Any]]:
    """What reads arguments, and keeps what it has read."""
    adapter = TypeAdapter(Given)

    def read(text: bytes) -> dict[str, Any]:
        made.append(text)
        return dict(adapter.validate_json(text))

    return read


@req("SEC-6", "TOOL-3", everywhere=True)
def test_what_is_around_many_texts_is_copied_once() -> None:
    looks = 0

    class Items(list[Any]):
        @override
        def __iter__(self) -> Iterator[Any]:
            nonlocal looks
            looks += 1
            return super().__iter__()

    found, places = reread(reader([]), {"a": Items(["[1]"] * MAX_ERRORS)})
    assert found == {"a": [[1]] * MAX_ERRORS}
    assert len(places) == MAX_ERRORS
    assert looks <= 2, "to write it as JSON, and to copy it"


@req("SEC-6", "TOOL-3", everywhere=True)
@pytest.mark.parametrize(("size", "times"), [(10, 3), (MAX_REREAD // 2, 3), (MAX_REREAD, 1)])
def test_large_arguments_are_read_again_less_often(size: int, times: int) -> None:
    made: list[bytes] = []
    text_within_text = f'[{" " * size}"[1]"]'
    with suppress(ValidationError):
        reread(reader(made), {"a": text_within_text})
    assert len(made) == times


def many(a: list[int]) -> None: ...


@req("SEC-6", "TOOL-3", everywhere=True)
@pytest.mark.parametrize("lenient", [True, False])
@pytest.mark.parametrize("value", ["x", "[]", None, {"b": 1}])
def test_many_wrong_values_are_counted_and_not_listed(value: Any, *, lenient: bool) -> None:
    function = Function(many, lenient=lenient)
    with pytest.raises(ArgumentError) as caught:
        function.read({"a": [value] * MANY})
    [(place, text)] = caught.value.complaints
    assert place == ()
    assert text == f"is wrong: {MANY:,} errors, too many to list"
    with pytest.raises(ArgumentError) as caught:
        function.read({"a": [value] * 3})
    assert len(caught.value.complaints) == 3


@req("TOOL-3", everywhere=True)
@pytest.mark.parametrize("lenient", [True, False])
def test_many_values_that_are_meant_well_are_converted_as_a_few_are(*, lenient: bool) -> None:
    function = Function(many, lenient=lenient)
    assert function.read({"a": [2.0] * MANY}) == {"a": [2] * MANY}
    if lenient:
        assert function.read({"a": ["2"] * MANY}) == {"a": [2] * MANY}


@req("SEC-6", everywhere=True)
@pytest.mark.parametrize("row", DEFAULT, ids=lambda row: row.name)
def test_many_wrong_entries_of_a_result_are_counted(row: Revision) -> None:
    page: Any = {"tools": [{"name": 1, "inputSchema": {"type": "object"}}] * MANY}
    adapter: Any = row.models.ListToolsResult
    with pytest.raises(ValidationError) as caught:
        adapter.from_wire(page)
    assert len(details_of(caught.value)) == 1
    assert "too many to list" in str(with_json_paths(caught.value, page))


@req("SEC-6", everywhere=True)
def test_a_long_wrong_name_is_compared_with_none() -> None:
    assert "did you mean 'size'" in did_you_mean("sise", ["size"])
    known = "n" * (MAX_MISSPELT + 1)
    assert did_you_mean(known + "s", [known]) == ""
    function = Function(many)
    with pytest.raises(ArgumentError) as caught:
        function.read({"a": [], "b" * 500: 1})
    assert [text for _, text in caught.value.complaints] == ["is not known here"]
