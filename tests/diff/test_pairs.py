"""The changes between neighbouring revisions, against upstream's schema.json and against known counts."""

from __future__ import annotations

from typing import Any

import pytest

from diff.diffing import PAIRS, expanded, found, report
from diff.recompute import Recomputed, recompute
from helpers.support import FIFTH, FIRST, FOURTH, SECOND, THIRD, load, needs_upstream, upstream_definitions
from mcprev_codegen.diff import Change, Level, Verdict

each_pair = pytest.mark.parametrize(("old", "new"), PAIRS)

MOVED: dict[tuple[str, str], dict[str, str]] = {
    (FIRST, SECOND): {"Annotated.annotations": "Annotations"},
    (SECOND, THIRD): {"ResourceReference": "ResourceTemplateReference"},
    (THIRD, FOURTH): {
        "JSONRPCResponse": "JSONRPCResultResponse",
        "JSONRPCError": "JSONRPCErrorResponse",
        "JSONRPCError.error": "Error",
        "EnumSchema": "LegacyTitledEnumSchema",
        "ElicitRequest.params": "ElicitRequestFormParams",
    },
    (FOURTH, FIFTH): {"RequestParams._meta": "RequestMetaObject"},
}
"""Shapes that a reader of both schemas knows to be one, by their place in the old one and name in the new."""


@each_pair
def test_added_and_removed_types_equal_upstreams_definitions(old: str, new: str) -> None:
    told = report(old, new)
    before, after = _definitions(old), _definitions(new)
    assert set(told.types.added) == set(after) - set(before)
    assert set(told.types.removed) == set(before) - set(after)
    renamed_old = {o for o, _ in told.renamed}
    renamed_new = {n for _, n in told.renamed}
    assert {c.path for c in told.changes if c.id == "type-added"} == set(told.types.added) - renamed_new
    assert {c.path for c in told.changes if c.id == "type-removed"} == set(told.types.removed) - renamed_old


@needs_upstream
@each_pair
def test_names_are_those_of_schema_json(old: str, new: str) -> None:
    for revision in (old, new):
        assert set(upstream_definitions(revision)) == _definitions(revision)


def _definitions(revision: str) -> set[str]:
    return set(load(revision).declared.types)


@needs_upstream
@each_pair
def test_added_fields_are_those_of_schema_json(old: str, new: str) -> None:
    assert _fields(old, new, "field-added-") == _recomputed(old, new).added


@needs_upstream
@each_pair
def test_removed_fields_are_those_of_schema_json(old: str, new: str) -> None:
    assert _fields(old, new, "field-removed") == _recomputed(old, new).removed


@needs_upstream
@each_pair
def test_changes_of_optionality_are_those_of_schema_json(old: str, new: str) -> None:
    mine = {(path, "required") for path in _fields(old, new, "field-became-required")}
    mine |= {(path, "optional") for path in _fields(old, new, "field-became-optional")}
    for change in report(old, new).changes:
        if change.id in ("params-required", "params-optional"):
            message = load(new).methods[str(change.method)].type
            mine.add((f"{message}.params", change.id.removeprefix("params-")))
    assert mine == _recomputed(old, new).optionality


@needs_upstream
@each_pair
def test_every_changed_field_type_of_schema_json_is_told_and_no_other(old: str, new: str) -> None:
    raw = _recomputed(old, new).types
    told = [c for c in report(old, new).changes if c.kind in ("value", "field", "type")]
    places = {place for c in told for place in expanded(c)}
    places |= {c.old.path for c in told if c.old}
    silent = {path for path in raw if not any(_within(place, path) for place in places)}
    assert silent == set()
    values = {path for c in told if c.kind == "value" for path in expanded(c) if "." in path}
    unfounded = {path for path in values if not any(_within(path, changed) for changed in raw)}
    assert unfounded - LOST_BY_SCHEMA_JSON == set()


LOST_BY_SCHEMA_JSON = {"CreateMessageResult.stopReason"}
"""Open enums are plain strings there, so a new known value cannot be seen."""


def _within(place: str, path: str) -> bool:
    return place == path or place.startswith(f"{path}.")


def _fields(old: str, new: str, rule: str) -> set[str]:
    return {path for c in report(old, new).changes if c.id.startswith(rule) for path in expanded(c)}


def _recomputed(old: str, new: str) -> Recomputed:
    return recompute(upstream_definitions(old), upstream_definitions(new), MOVED[old, new])


# -- counts ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "types", "requests", "notifications"),
    [
        (FIRST, SECOND, (5, 1), (0, 0), (0, 0)),
        (SECOND, THIRD, (11, 3), (1, 0), (0, 0)),
        (THIRD, FOURTH, (55, 1), (4, 0), (2, 0)),
        (FOURTH, FIFTH, (42, 32), (2, 9), (1, 4)),
    ],
)
def test_counts_of_types_and_methods_of_codegen_section_8(
    old: str, new: str, types: tuple[int, int], requests: tuple[int, int], notifications: tuple[int, int]
) -> None:
    told = report(old, new)
    assert (len(told.types.added), len(told.types.removed)) == types
    assert (len(told.requests.added), len(told.requests.removed)) == requests
    assert (len(told.notifications.added), len(told.notifications.removed)) == notifications


@each_pair
def test_added_and_removed_methods_carry_their_directions(old: str, new: str) -> None:
    told = report(old, new)
    for rule, side, names in (
        ("method-added", new, (*told.requests.added, *told.notifications.added)),
        ("method-removed", old, (*told.requests.removed, *told.notifications.removed)),
    ):
        changes = {c.method: c for c in told.changes if c.id == rule}
        assert set(changes) == set(names)
        for name in names:
            assert changes[name].senders == load(side).methods[name].senders


def test_the_26_wire_equal_respellings_of_the_newest_pair_harm_nobody() -> None:
    equal = [c for c in report(FOURTH, FIFTH).changes if c.id == "type-equivalent"]
    assert sum(len(expanded(c)) for c in equal) == 26
    assert {(c.worst, c.level) for c in equal} == {(Verdict.OK, Level.SOURCE)}
    assert {c.new.text for c in equal if c.new} == {
        "MetaObject", "JSONObject", "{ [key: string]: JSONObject }",
    }  # fmt: skip


def test_only_resource_reference_is_a_pure_rename() -> None:
    renames = {pair: report(*pair).renamed for pair in PAIRS}
    assert renames[FIRST, SECOND] == ()
    assert renames[SECOND, THIRD] == (("ResourceReference", "ResourceTemplateReference"),)
    assert renames[THIRD, FOURTH] == (("JSONRPCError", "JSONRPCErrorResponse"),)
    assert renames[FOURTH, FIFTH] == ()


def test_twenty_one_deprecations_of_the_newest_revision() -> None:
    told = report(FOURTH, FIFTH)
    marked = [c for c in told.changes if c.id == "deprecated"]
    new_and_deprecated = found(
        told, "RequestMetaObject.io.modelcontextprotocol/logLevel", "field-added-optional"
    )
    assert (len(marked), len(new_and_deprecated)) == (20, 1)


# -- what upstream's changelogs leave out ----------------------------------------------------------------------------

OMITTED: list[tuple[str, str, str, str, dict[str, Any]]] = [
    (SECOND, THIRD, "ResourceTemplateReference", "type-renamed", {}),
    (SECOND, THIRD, "Annotations.lastModified", "field-added-optional", {}),
    (
        THIRD,
        FOURTH,
        "CancelledNotificationParams.requestId",
        "field-became-optional",
        {"new_to_old": "breaking"},
    ),
    (THIRD, FOURTH, "JSONRPCErrorResponse.id", "field-became-optional", {"new_to_old": "breaking"}),
    (THIRD, FOURTH, "JSONRPCResponse", "type-kind-changed", {"note": "JSONRPCResultResponse"}),
    (THIRD, FOURTH, "Implementation.websiteUrl", "field-added-optional", {}),
    (
        THIRD,
        FOURTH,
        "SamplingMessage.content",
        "union-member-added",
        {"headline": "SamplingMessageContentBlock[]"},
    ),
    (FOURTH, FIFTH, "method:notifications/progress", "direction-removed", {"headline": "client to server"}),
    (
        FOURTH,
        FIFTH,
        "CancelledNotificationParams.requestId",
        "field-became-required",
        {"old_to_new": "breaking"},
    ),
    (FOURTH, FIFTH, "URL_ELICITATION_REQUIRED", "error-code-removed", {"old_to_new": "dangerous"}),
    (FOURTH, FIFTH, "CompleteResult.completion.values", "constraint-tightened", {"headline": "maxItems 100"}),
    (FOURTH, FIFTH, "ElicitResult", "base-removed", {"headline": "Result"}),
    (FOURTH, FIFTH, "ElicitResult._meta", "field-removed", {}),
    (FOURTH, FIFTH, "ElicitResult", "openness-changed", {}),
    (FOURTH, FIFTH, "ListRootsResult", "base-removed", {"headline": "Result"}),
    (FOURTH, FIFTH, "ListRootsResult._meta", "field-removed", {}),
    (FOURTH, FIFTH, "ListRootsResult", "openness-changed", {}),
    (FOURTH, FIFTH, "CreateMessageResult", "base-removed", {"headline": "Result"}),
    (FOURTH, FIFTH, "CreateMessageResult", "openness-changed", {}),
    (FOURTH, FIFTH, "method:tools/list", "params-required", {"old_to_new": "breaking"}),
    (FOURTH, FIFTH, "method:prompts/list", "params-required", {"old_to_new": "breaking"}),
    (FOURTH, FIFTH, "method:resources/list", "params-required", {"old_to_new": "breaking"}),
    (FOURTH, FIFTH, "method:resources/templates/list", "params-required", {"old_to_new": "breaking"}),
    (FOURTH, FIFTH, "CreateMessageRequest.jsonrpc", "field-removed", {"new_to_old": "breaking"}),
    (FOURTH, FIFTH, "ElicitRequest.id", "field-removed", {"new_to_old": "breaking"}),
    (FOURTH, FIFTH, "ListRootsRequest.id", "field-removed", {"new_to_old": "breaking"}),
    (FOURTH, FIFTH, "DiscoverResult", "type-added", {"headline": "CacheableResult"}),
]


@pytest.mark.parametrize(("old", "new", "path", "rule", "more"), OMITTED)
def test_it_finds_what_the_changelogs_leave_out(
    old: str, new: str, path: str, rule: str, more: dict[str, str]
) -> None:
    changes = [c for c in found(report(old, new), path, rule) if _says(c, more)]
    assert len(changes) == 1


def _says(change: Change, more: dict[str, str]) -> bool:
    told = {
        "headline": change.headline,
        "note": change.note,
        "old_to_new": change.old_to_new.verdict.value,
        "new_to_old": change.new_to_old.verdict.value,
    }
    return all(text in told[key] for key, text in more.items())


def test_a_kind_changed_name_points_to_where_its_old_shape_lives() -> None:
    told = report(THIRD, FOURTH)
    notes = {c.path: c.note for c in told.changes if c.id == "type-kind-changed"}
    assert notes == {
        "JSONRPCResponse": "The old type is JSONRPCResultResponse now.",
        "EnumSchema": "The old type is LegacyTitledEnumSchema now.",
    }


def test_a_type_that_no_message_reaches_is_harmless() -> None:
    (change,) = found(report(THIRD, FOURTH), "RelatedTaskMetadata", "type-added")
    assert change.senders == ()
    assert change.worst is Verdict.OK
    assert "No message contains" in change.old_to_new.reason


@each_pair
def test_fingerprints_are_twelve_digits_and_unique(old: str, new: str) -> None:
    prints = [c.fingerprint for c in report(old, new).changes]
    assert len(set(prints)) == len(prints)
    assert {len(p) for p in prints} == {12}
