"""Every sample at every older revision, judged by upstream's schema.json, and up again without further loss.

Samples are upstream's examples of the latest revision, each in a payload that carries it, and a corpus of every
payload of every revision, made from the schemas alone. The few that have no form at a revision raise
`ConversionError`; which examples do is a table. `make fuzz` draws more of the corpus.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from itertools import pairwise
from pathlib import Path
from typing import Final

import pytest
from hypothesis import HealthCheck, assume, given, settings, strategies as st

from conversion.peers import OLDER, A, B, C, D, E, Json, down, go, levelled, objections, up
from fuzz.fuzzing import sampled
from helpers.corpus import Corpus
from helpers.requirements import NAMES, req
from helpers.support import UPSTREAM, load, needs_upstream, same
from mcprev.conversion import PayloadKind
from mcprev.errors import ConversionError
from mcprev.revisions import revision_named

Payload = tuple[str, str, Json]
"""Method, kind, value."""

EXAMPLES: Final = UPSTREAM / E / "examples"
FILES: Final = sorted(EXAMPLES.glob("*/*.json")) if EXAMPLES.is_dir() else []
NOT_BEFORE: Final[Mapping[str, tuple[str, ...]]] = {
    # Payloads of methods that older revisions have not, which the engines serve by other means.
    "SubscriptionsAcknowledgedNotification": OLDER,
    "SubscriptionsListenRequest": OLDER,
    "SubscriptionsListenResult": OLDER,
    "SubscriptionsListenResultResponse": OLDER,
    "DiscoverRequest": OLDER,
}


# -- upstream's examples ---------------------------------------------------------------------------------


def _messages() -> Iterator[tuple[str, str, str, str]]:
    """Types of payloads and messages: the type, where in it the payload is, its method and kind."""
    for method, spec in revision_named(E).methods.items():
        yield spec.type, "params", method, PayloadKind.PARAMS
        if spec.params:
            yield spec.params, "", method, PayloadKind.PARAMS
        if spec.result:
            yield spec.result, "", method, PayloadKind.RESULT
            yield f"{spec.result}Response", "result", method, PayloadKind.RESULT


MESSAGES: Final = {type_: rest for type_, *rest in _messages()}
BLOCKS: Final = ("TextContent", "ImageContent", "AudioContent", "EmbeddedResource", "ResourceLink")
CONTENTS: Final = ("TextResourceContents", "BlobResourceContents")
FORM_FIELDS: Final = (
    "BooleanSchema", "NumberSchema", "StringSchema", "TitledMultiSelectEnumSchema",
    "TitledSingleSelectEnumSchema", "UntitledMultiSelectEnumSchema", "UntitledSingleSelectEnumSchema",
)  # fmt: skip


def carried(type_: str, value: Json) -> list[Payload]:
    """The payloads that an example of a type stands in."""
    if type_ in MESSAGES:
        member, method, kind = MESSAGES[type_]
        return [(method, kind, value.get(member) if member else value)]
    if type_ in BLOCKS:
        prompt = {"messages": [{"role": "user", "content": value}], "resultType": "complete"}
        tool = {"content": [value], "resultType": "complete"}
        return [("tools/call", PayloadKind.RESULT, tool), ("prompts/get", PayloadKind.RESULT, prompt)]
    if type_ in CONTENTS:
        read = {"contents": [value], "resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
        return [("resources/read", PayloadKind.RESULT, read)]
    if type_ in FORM_FIELDS:
        form = {"type": "object", "properties": {"field": value}}
        return [("elicitation/create", PayloadKind.PARAMS, {"message": "?", "requestedSchema": form})]
    if type_ in {"ElicitRequestFormParams", "ElicitRequestURLParams"}:
        return [("elicitation/create", PayloadKind.PARAMS, value)]
    if type_ in {"ToolUseContent", "ToolResultContent"}:
        type_, value = "SamplingMessage", {"role": "user", "content": value}
    if type_ == "SamplingMessage":
        return [("sampling/createMessage", PayloadKind.PARAMS, {"messages": [value], "maxTokens": 1})]
    if type_ == "ModelPreferences":
        params: Json = {"messages": [], "maxTokens": 1, "modelPreferences": value}
        return [("sampling/createMessage", PayloadKind.PARAMS, params)]
    if type_ in {"Tool", "Resource"}:
        listed = {"resultType": "complete", "ttlMs": 1, "cacheScope": "public"}
        member = f"{type_.lower()}s"
        return [(f"{member}/list", PayloadKind.RESULT, {member: [value], **listed})]
    if type_ == "Root":
        return [("roots/list", PayloadKind.RESULT, {"roots": [value]})]
    if type_ in {"ClientCapabilities", "ServerCapabilities"}:
        kind = (
            PayloadKind.CLIENT_CAPABILITIES
            if type_ == "ClientCapabilities"
            else PayloadKind.SERVER_CAPABILITIES
        )
        return [("", kind, value)]
    if type_.endswith("Error"):
        return [("tools/call", PayloadKind.ERROR, value.get("error", value))]
    if type_ in {"InputRequests", "InputRequiredResult"}:
        asked = value if type_ == "InputRequests" else value.get("inputRequests", {})
        return [(request["method"], PayloadKind.PARAMS, request.get("params")) for request in asked.values()]
    assert type_ == "InputResponses", type_
    methods = {"roots": "roots/list", "action": "elicitation/create", "model": "sampling/createMessage"}
    return [
        (next(method for mark, method in methods.items() if mark in answer), PayloadKind.RESULT, answer)
        for answer in value.values()
    ]


INEXPRESSIBLE: Final = {
    # Type or file of an example: the revisions at which it has no form.
    "AudioContent": (),
    "ToolUseContent": (A, B, C),
    "ToolResultContent": (A, B, C),
    "TitledMultiSelectEnumSchema": (A, B, C),
    "UntitledMultiSelectEnumSchema": (A, B, C),
    "ElicitRequestURLParams": (A, B, C),
    "CreateMessageRequestParams/follow-up-with-tool-results": (A, B, C),
    "CreateMessageRequestParams/request-with-tools": (A, B, C),
    "CreateMessageResult/tool-use-response": (A, B, C),
    "SamplingMessage/multiple-content-blocks": (A, B, C),
}


@req("SEAM-4", everywhere=True)
@needs_upstream
def test_every_upstream_example_is_carried() -> None:
    assert len(FILES) == 129
    for file in FILES:
        if file.parent.name not in NOT_BEFORE:
            assert (
                carried(file.parent.name, json.loads(file.read_text())) or "InputRequired" in file.parent.name
            )


@req("SEAM-4", "SEAM-5")
@needs_upstream
@pytest.mark.parametrize("to", OLDER)
@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}/{file.stem}")
def test_upstream_example(file: Path, to: str) -> None:
    value = json.loads(file.read_text())
    type_ = file.parent.name
    if type_ in {"DiscoverResult", "DiscoverResultResponse"}:
        given = value.get("result", value)["capabilities"]
        bounce("", PayloadKind.SERVER_CAPABILITIES, given, to, f"{type_}/{file.stem}")
        return
    if type_ in NOT_BEFORE:
        with pytest.raises(ConversionError, match="has no method"):
            down(value, revision_method(type_), MESSAGES[type_][2], to)
        return
    for method, kind, payload in carried(type_, value):
        bounce(method, kind, payload, to, f"{type_}/{file.stem}")


def revision_method(type_: str) -> str:
    return MESSAGES[type_][1]


def bounce(method: str, kind: str, payload: Json, to: str, name: str) -> None:
    """Down, up, down again: what the older revision can express survives."""
    elicits = method == "elicitation/create" and to in {A, B}
    type_ = name.split("/", maxsplit=1)[0]
    if elicits or to in INEXPRESSIBLE.get(name, INEXPRESSIBLE.get(type_, ())):
        with pytest.raises(ConversionError):
            down(payload, method, kind, to)
        return
    older = down(payload, method, kind, to)
    if older is not None:
        assert same(down(up(older, method, kind, to), method, kind, to), older)


@req("CONV-17")
@needs_upstream
@pytest.mark.parametrize("to", OLDER)
def test_upstream_input_required(to: str) -> None:
    for file in sorted((EXAMPLES / "InputRequiredResult").glob("*.json")):
        result = json.loads(file.read_text())
        with pytest.raises(ConversionError, match="send each input request as a request") as caught:
            down(result, "tools/call", PayloadKind.RESULT, to)
        assert caught.value.path == "$.resultType"
        if to in {C, D}:
            for request in result.get("inputRequests", {}).values():
                asked = down(request.get("params"), request["method"], PayloadKind.PARAMS, to)
                assert not objections(asked, request["method"], PayloadKind.PARAMS, to)


# -- the corpus ------------------------------------------------------------------------------------------


@cache
def corpus_of(row: str) -> Corpus:
    return Corpus(load(row))


def payloads(row: str) -> list[tuple[str, str, str]]:
    """Method, kind and type of every payload of a revision."""
    found = [
        ("", PayloadKind.CLIENT_CAPABILITIES, "ClientCapabilities"),
        ("", PayloadKind.SERVER_CAPABILITIES, "ServerCapabilities"),
        ("", PayloadKind.IMPLEMENTATION, "Implementation"),
    ]
    for method, spec in revision_named(row).methods.items():
        if spec.params:
            found.append((method, PayloadKind.PARAMS, spec.params))
        if spec.result:
            found.append((method, PayloadKind.RESULT, spec.result))
    return [(method, str(kind), type_) for method, kind, type_ in found]


def told(converting: Callable[[], Json]) -> Json:
    """What comes of a conversion: a payload, or the error."""
    try:
        return converting()
    except ConversionError as error:
        return error


def reachable(method: str, kind: str, to: str) -> bool:
    return not method or method in revision_named(to).methods


EXPECTED: Final = (
    # Why a payload may have no form at an older revision, as the errors say it.
    "sampling with audio", "sampling with tools", "one content block", "for several choices",
    "elicitation by URL", "the payload is not valid",
)  # fmt: skip
DOWNWARDS: Final = [
    pytest.param(method, kind, type_, id=f"{method or kind} {kind}")
    for method, kind, type_ in payloads(E)
    if any(reachable(method, kind, to) for to in OLDER)
]
PICKY: Final = (HealthCheck.filter_too_much, HealthCheck.too_slow, HealthCheck.data_too_large)


@pytest.mark.slow
@req("SEAM-4", "SEAM-10", everywhere=True)
@needs_upstream
@pytest.mark.parametrize(("method", "kind", "type_"), DOWNWARDS)
@settings(max_examples=sampled(20), suppress_health_check=PICKY)
@given(data=st.data())
def test_corpus_down_and_up(method: str, kind: str, type_: str, data: st.DataObject) -> None:
    value = data.draw(corpus_of(E).values(type_).map(levelled))
    if "resultType" in value:
        value["resultType"] = "complete"  # others are told apart in test_conv_17
    assume(not objections(value, method, kind, E))
    for to in OLDER:
        if not reachable(method, kind, to):
            continue
        older = told(partial(down, value, method, kind, to))
        if isinstance(older, ConversionError):
            assert any(reason in str(older) for reason in EXPECTED), older
        else:
            assert same(down(up(older, method, kind, to), method, kind, to), older)


UPWARDS: Final = [
    pytest.param(here, there, method, kind, type_, id=f"{here} {method or kind} {kind}")
    for here, there in pairwise(NAMES)
    for method, kind, type_ in payloads(here)
    if reachable(method, kind, there)
]


@req("SEAM-5", "SEAM-10")
@needs_upstream
@pytest.mark.parametrize(("here", "there", "method", "kind", "type_"), UPWARDS)
@settings(max_examples=sampled(8), suppress_health_check=PICKY)
@given(data=st.data())
def test_corpus_up_and_down(
    here: str, there: str, method: str, kind: str, type_: str, data: st.DataObject
) -> None:
    value = data.draw(corpus_of(here).values(type_).map(levelled))
    assume(not objections(value, method, kind, here))
    newer = told(partial(go, value, method, kind, here, there))
    if isinstance(newer, ConversionError):
        assert here == D, newer
        assert "name its request" in str(newer)
        return
    back = go(newer, method, kind, there, here)
    if here != D:
        assert same(back, value)
    assert same(go(go(back, method, kind, here, there), method, kind, there, here), back)
