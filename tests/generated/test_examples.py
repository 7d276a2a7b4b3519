"""Upstream's 129 example files of the newest revision: each is valid for the type of its folder and is written back.

The models of the fifth revision and of the draft, which differ only in names of pages, both read them.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import TypeAdapter

from helpers.support import (
    DRAFT,
    FIFTH,
    UPSTREAM,
    complaints,
    needs_upstream,
    package,
    same,
    shipped_document,
    validator,
)
from mcprev_types import Model

FOLDER = UPSTREAM / FIFTH / "examples"
EXAMPLES = sorted(str(path.relative_to(FOLDER)) for path in FOLDER.glob("*/*.json"))

pytestmark = needs_upstream


def read(name: str) -> Any:
    return json.loads((FOLDER / name).read_text(encoding="utf-8"))


def model_of(revision: str, name: str) -> Any:
    return getattr(package(revision, "models"), name.split("/", maxsplit=1)[0])


def is_model(model: object) -> bool:
    return isinstance(model, type) and issubclass(model, Model)


def test_there_are_129_examples_of_88_types() -> None:
    assert len(EXAMPLES) == 129
    assert len({name.split("/")[0] for name in EXAMPLES}) == 88


@pytest.mark.parametrize("revision", [FIFTH, DRAFT])
@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_comes_back_equal(name: str, revision: str) -> None:
    example = read(name)
    model: Any = model_of(revision, name)
    text = json.dumps(example)
    if is_model(model):
        message = model.from_wire(example)
        assert same(message.to_wire(), example)
        assert same(json.loads(message.to_json()), example)
        assert same(model.model_validate_json(text).to_wire(), example)
    else:
        adapter = TypeAdapter[Any](model)
        message = adapter.validate_python(example, strict=True)
        assert same(adapter.dump_python(message, mode="json", exclude_unset=True), example)
        parsed = adapter.validate_json(text, strict=True)
        assert same(json.loads(adapter.dump_json(parsed, exclude_unset=True)), example)


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_is_valid_by_the_shipped_schema(name: str) -> None:
    checker = validator(shipped_document(FIFTH)["$defs"], name.split("/", maxsplit=1)[0])
    assert bool(complaints(checker, read(name))) == (name in LACKING)


LACKING = {"ReadResourceResultResponse/read-resource-result-response.json"}
"""Examples without members that the revision requires; models read them with the overlay's defaults."""


def test_an_example_without_required_members_is_read_with_their_defaults() -> None:
    (name,) = LACKING
    models = package(FIFTH, "models")
    response = models.ReadResourceResultResponse.from_wire(read(name))
    assert type(response.result) is models.ReadResourceResult
    assert (response.result.ttl_ms, response.result.cache_scope) == (0, "private")
    assert response.result.contents
