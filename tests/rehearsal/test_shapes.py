"""Whatever the latest revision can say reaches each other revision in a shape that is valid there, or not at all.

Payloads are made from the schemas alone and judged by the schema.json of the peer's package, without the leniency of
the models, so that a content block that a peer's revision does not define counts as wrong.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final

import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

from helpers.corpus import Corpus
from helpers.support import complaints, load, shipped_document, validator
from mcprev.conversion import PayloadKind, converter
from mcprev.errors import ConversionError
from mcprev.revisions import DEFAULT, LATEST, Revision
from mcprev_codegen import ir

Json = Any
DRAWN: Final = 12
"""Random examples of each payload, beside the smallest and the fullest."""
OTHERS: Final = [row for row in DEFAULT if row is not LATEST]
CAPABILITIES: Final[Mapping[PayloadKind, str]] = {
    PayloadKind.CLIENT_CAPABILITIES: "ClientCapabilities",
    PayloadKind.SERVER_CAPABILITIES: "ServerCapabilities",
    PayloadKind.IMPLEMENTATION: "Implementation",
}
COMPLETE: Final = "complete"


def payloads(here: Revision, there: Revision) -> Iterator[tuple[str, PayloadKind, str, tuple[str, ...]]]:
    """Method, kind, the type at one revision and the types that may stand for it at another."""
    for kind, name in CAPABILITIES.items():
        yield "", kind, name, (name,)
    for method, spec in here.methods.items():
        other = there.methods.get(method)
        if other is None:
            continue
        if spec.params and other.params:
            yield method, PayloadKind.PARAMS, spec.params, (other.params,)
        if spec.result and other.result:
            yield method, PayloadKind.RESULT, spec.result, (other.result, *other.alternate_results)


@cache
def examples(row: str, name: str) -> tuple[Json, ...]:
    """The smallest, the fullest and some random values of a type, complete results only."""
    corpus, draw = Corpus(load(row)), random.Random(f"{row} {name}")  # noqa: S311 - the same in every run
    drawn: list[Json] = [*corpus.samples(name), *(corpus.drawn(ir.Ref(name), draw) for _ in range(DRAWN))]
    found = [{**v, "resultType": COMPLETE} if "resultType" in v else v for v in drawn]
    return tuple(value for value in found if corpus.judge.accepts(ir.Ref(name), value))


@cache
def judge(row: str, name: str) -> Draft202012Validator:
    """What judges a type by the schema.json of its package."""
    return validator(shipped_document(row)["$defs"], name)


def wrong(here: Revision, there: Revision) -> Iterator[str]:
    """What is wrong with the payloads of one revision once they are said at another."""
    for method, kind, name, names in payloads(here, there):
        convert = converter(method, kind, from_=here, to=there)
        refusals: list[ConversionError] = []
        values = examples(here.name, name)
        for value in values:
            try:
                found = convert(value)
            except ConversionError as error:
                refusals.append(error)
                continue
            faults = [complaints(judge(there.name, other), found) for other in names]
            if all(faults):
                yield f"{method or kind} {kind}: {value!r} became {found!r}: {faults[0][0]}"
        if len(refusals) == len(values):
            yield f"{method or kind} {kind}: nothing of it can be said: {refusals[0]}"


@pytest.mark.parametrize("row", OTHERS, ids=lambda row: row.name)
def test_what_the_latest_revision_says_is_valid_at_another(row: Revision) -> None:
    assert list(wrong(LATEST, row)) == []


@pytest.mark.parametrize("row", OTHERS, ids=lambda row: row.name)
def test_what_another_revision_says_is_valid_at_the_latest(row: Revision) -> None:
    assert list(wrong(row, LATEST)) == []
