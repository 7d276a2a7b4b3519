"""Members that an author misspells are warned of, at the author's line; what arrives is kept without a word (MOD-1)."""

from __future__ import annotations

import warnings
from typing import Any, Final

import pytest

from mcprev_types import MisspeltMember, Model


class Hints(Model):
    """A model as the generator writes them."""

    title: str | None = None
    read_only_hint: bool | None = None


class Holder(Model):
    """A model that holds another."""

    hints: Hints | None = None


WRONG: Final[dict[str, tuple[type[Any], dict[str, object], str]]] = {
    # the model, its members, and the warning; an empty text for none
    "an underscore too few": (
        Hints, {"readonly_hint": True},
        "Hints has no member 'readonly_hint'; did you mean 'read_only_hint' ('readOnlyHint' on the wire)?",
    ),
    "a wrong capital": (Hints, {"readonlyHint": True}, "did you mean 'read_only_hint'"),
    "a letter": (Hints, {"titel": "a"}, "did you mean 'title'"),
    "the right one": (Hints, {"read_only_hint": True}, ""),
    "its name on the wire": (Hints, {"readOnlyHint": True}, ""),
    "an extension": (Hints, {"vendor_cost": 5}, ""),
    "an extension with a prefix": (Hints, {"x-title": "a"}, ""),
    "beside the right one": (Hints, {"title": "a", "title2": "b"}, ""),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_a_misspelt_member_names_the_right_one(case: str) -> None:
    model, members, wanted = WRONG[case]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        made = model(**members)
    assert [each.category for each in caught] == ([MisspeltMember] if wanted else [])
    if wanted:
        assert wanted in str(caught[0].message)
        assert caught[0].filename == __file__, "the line of the author"
    assert made.to_wire().keys() >= {
        name for name in members if "_hint" not in name
    }, "it is kept all the same"


def test_what_arrives_is_kept_without_a_word() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read = Holder.from_wire({"hints": {"readonlyHint": True}})
    assert read.to_wire()["hints"] == {"readonlyHint": True}
