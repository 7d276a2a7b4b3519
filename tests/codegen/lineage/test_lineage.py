"""The history of types, and the deltas between neighbouring revisions.

The deltas are tested by use: a valid object with the delta applied is valid in the neighbour, unless the delta lists a
member that cannot be derived (`missing`, `retyped`).
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any, Final, cast

import pytest
from hypothesis import given, settings, strategies as st

from fuzz.fuzzing import sampled
from helpers.corpus import Corpus, Judge
from helpers.support import (
    DATED,
    DRAFT,
    FIFTH,
    FIRST,
    FOURTH,
    SECOND,
    THIRD,
    each_dated,
    load,
    package,
    schema_of,
)
from mcprev_codegen import ir
from mcprev_codegen.facts.methods import method_table
from mcprev_codegen.facts.overlay import OverlayFacts
from mcprev_codegen.facts.overlay_file import Problems
from mcprev_codegen.facts.revision import Revision
from mcprev_codegen.ir.nodes import Json
from mcprev_codegen.lineage import deltas as lineage, histories, pairs
from mcprev_codegen.resolve.inline_objects import hoist
from mcprev_codegen.support._spec import Child, TypeDelta

STEPS: Final = (*pairwise(DATED), *((newer, older) for older, newer in pairwise(DATED)))
each_step = pytest.mark.parametrize(("here", "there"), STEPS)


@cache
def paired(here: str, there: str) -> dict[str, str]:
    older, newer = sorted((here, there))
    names = pairs.pairing(load(older), load(newer))
    return {old: new for new, old in names.items()} if here == older else names


@cache
def deltas(here: str, there: str) -> dict[str, TypeDelta]:
    return lineage.conversion_deltas(load(here), load(there), paired(here, there))


# -- names -----------------------------------------------------------------------------------------------


def test_stated_renames_are_followed_from_the_first_revision_to_the_last() -> None:
    """A type may be renamed twice, back to its first name, or later take the name that another one gave up."""

    def revision(source: str, **was: str) -> Revision:
        schema = schema_of(source)
        return Revision("x", None, schema, schema, schema, OverlayFacts(was=was), {}, {})

    first = revision("export interface A {} export interface B {} export interface C {}")
    second = revision("export interface A2 {} export interface B2 {} export interface C {}", A2="A", B2="B")
    third = revision(
        "export interface A3 {} export interface B {} export interface A {}", A3="A2", B="B2", A="C"
    )
    assert pairs.stated_renames([first]) == {}
    assert pairs.stated_renames([first, second]) == {"A": "A2", "B": "B2"}
    assert pairs.stated_renames([first, second, third]) == {"A": "A3", "C": "A"}


@pytest.mark.parametrize(
    ("older", "newer", "renamed"),
    [
        (FIRST, SECOND, {"Annotations": "AnnotatedAnnotations"}),
        (SECOND, THIRD, {"ResourceTemplateReference": "ResourceReference"}),
        (
            THIRD,
            FOURTH,
            {
                "JSONRPCResultResponse": "JSONRPCResponse",
                "JSONRPCErrorResponse": "JSONRPCError",
                "Error": "JSONRPCErrorError",
                "LegacyTitledEnumSchema": "EnumSchema",
                "ElicitRequestFormParams": "ElicitRequestParams",
                "ElicitRequestFormParamsRequestedSchema": "ElicitRequestParamsRequestedSchema",
            },
        ),
        (FOURTH, FIFTH, {"RequestMetaObject": "RequestParamsMeta"}),
    ],
)
def test_which_names_changed(older: str, newer: str, renamed: dict[str, str]) -> None:
    found = pairs.pairing(load(older), load(newer))
    assert {new: old for new, old in found.items() if new != old} == renamed


@pytest.mark.parametrize("name", ["JSONRPCResponse", "EnumSchema", "ElicitRequestParams"])
def test_a_name_that_changed_its_meaning_is_paired_with_nothing(name: str) -> None:
    assert name in load(THIRD).schema.types
    assert name in load(FOURTH).schema.types
    assert name not in pairs.pairing(load(THIRD), load(FOURTH))


def test_the_pairing_is_one_to_one() -> None:
    for older, newer in pairwise((*DATED, DRAFT)):
        found = pairs.pairing(load(older), load(newer))
        assert len(set(found.values())) == len(found)


# -- lives -----------------------------------------------------------------------------------------------


def lives(revision: str) -> Mapping[str, histories.TypeHistory]:
    chain = [load(name) for name in DATED[: DATED.index(revision) + 1]]
    return histories.type_histories(chain)


@pytest.mark.parametrize(
    ("name", "since", "changed"),
    [
        ("TextContent", FIRST, (THIRD,)),
        ("AudioContent", SECOND, (THIRD,)),
        ("Cursor", FIRST, ()),
        ("Role", FIRST, ()),
        ("ResourceLink", THIRD, None),
        ("ResourceTemplateReference", FIRST, ()),
        ("DiscoverResult", FIFTH, ()),
        ("Annotations", FIRST, (THIRD,)),
        ("ToolUseContent", FOURTH, None),
        ("LoggingLevel", FIRST, ()),
    ],
)
def test_the_life_of_a_type(name: str, since: str, changed: tuple[str, ...] | None) -> None:
    life = {**lives(FOURTH), **lives(FIFTH)}[name]
    assert life.since == since
    if changed is not None:
        assert life.changed == changed


@pytest.mark.parametrize(
    ("name", "since"),
    [
        (
            "Tool",
            {
                "name": FIRST,
                "annotations": SECOND,
                "title": THIRD,
                "outputSchema": THIRD,
                "execution": FOURTH,
            },
        ),
        ("ElicitRequestFormParams", {"message": THIRD, "mode": FOURTH}),  # which had another name before
        ("AudioContent", {"data": SECOND, "_meta": THIRD}),
        ("JSONRPCErrorResponse", {"error": FIRST}),
        ("Cursor", {}),
    ],
)
def test_the_first_revision_of_a_member(name: str, since: dict[str, str]) -> None:
    found = lives(FOURTH)[name].members
    assert {member: found[member] for member in since} == since


def test_a_member_that_comes_back_is_new() -> None:
    """Without a history of `execution`, which the fifth revision does not have."""
    chain = [load(name) for name in (THIRD, FOURTH, FIFTH, FOURTH)]
    assert histories.type_histories(chain)["Tool"].members["execution"] == FOURTH
    assert "execution" not in lives(FIFTH)["Tool"].members


@each_dated
def test_the_envelope_of_a_message_has_no_history_of_its_own(revision: str) -> None:
    """Whether a schema declares it at each message or at none is not about the message."""
    for name, life in lives(revision).items():
        if name.endswith("Request"):
            assert life.members.keys().isdisjoint({"jsonrpc", "id"})


@each_dated
def test_every_type_has_a_life_within_the_chain(revision: str) -> None:
    known = DATED[: DATED.index(revision) + 1]
    found = lives(revision)
    assert found.keys() == load(revision).schema.types.keys()
    for life in found.values():
        assert [life.since, *life.changed] == sorted({life.since, *life.changed})
        assert {life.since, *life.changed} <= set(known)


# -- deltas ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("here", "there", "name", "expected"),
    [
        (SECOND, FIRST, "Tool", TypeDelta("Tool", drop=("annotations",))),
        (
            SECOND,
            FIRST,
            "ProgressNotificationParams",
            TypeDelta("ProgressNotificationParams", drop=("message",)),
        ),
        (THIRD, SECOND, "PromptReference", TypeDelta("PromptReference", drop=("title",))),
        (FOURTH, FIFTH, "CompleteResult", None),
        (FIFTH, FOURTH, "CompleteResult", None),
    ],
)
def test_a_delta(here: str, there: str, name: str, expected: TypeDelta | None) -> None:
    found = deltas(here, there)[name]
    if expected is not None:
        assert found == expected


def test_results_are_completed_for_the_newest_revision() -> None:
    forward = deltas(FOURTH, FIFTH)
    assert forward["CallToolResult"].fill == (("resultType", "complete"),)
    assert dict(forward["ListToolsResult"].fill) == {
        "resultType": "complete",
        "ttlMs": 0,
        "cacheScope": "private",
    }
    back = deltas(FIFTH, FOURTH)
    assert set(back["ListToolsResult"].drop) == {"resultType", "ttlMs", "cacheScope"}


def test_what_has_no_value_is_named_as_missing() -> None:
    assert deltas(FOURTH, FIFTH)["RequestParams"].missing == ("_meta",)
    assert deltas(FOURTH, THIRD)["CancelledNotificationParams"].missing == ("requestId",)


def test_members_that_an_index_signature_took_over_are_not_dropped() -> None:
    """The newest revision spells a tool's schemas as objects of any members; their content is still content."""
    for name in ("ToolInputSchema", "ToolOutputSchema"):
        delta = deltas(FOURTH, FIFTH).get(name)
        assert delta is None or delta.drop == ()


@pytest.mark.parametrize(
    ("mine", "theirs", "fits"),
    [
        ("string", "string", True),
        ("string", "number", False),
        ('"a"', "string", True),
        ("string", '"a"', False),
        ('"a"', '"a" | "b"', True),
        ('"a" | "b"', '"a"', False),
        ("1", "string", False),
        ("X | Y", "Y | X | Z", True),
        ("X | Y | Z", "X | Y", False),
        ("(X | Y)[]", "(X | Y | Z)[]", True),
        ("X", "X[]", False),
        ("X", "X | X[]", True),
        ("{ [key: string]: string }", "{ [key: string]: string | number }", True),
        ("{ [key: string]: string | number }", "{ [key: string]: string }", False),
        ("{ [key: string]: unknown }", "Z", False),
        ("string", "unknown", False),
    ],
)
def test_a_member_is_retyped_where_its_values_may_not_fit(mine: str, theirs: str, fits: bool) -> None:
    """Both neighbours of a step are asked: what fits one way round may not fit the other."""
    here, there = (one_member(type_) for type_ in (mine, theirs))
    found = lineage.conversion_deltas(here, there, {name: name for name in here.schema.types})
    assert [name for name, delta in found.items() if delta.retyped] == (
        [] if fits else ["GetThingRequestParams"]
    )


@pytest.mark.parametrize(
    ("mine", "theirs", "fits"),
    [
        ("", "", True),
        ("", "@minimum 1", False),
        ("@minimum 1", "", True),
        ("@minimum 2", "@minimum 1", True),
        ("@minimum 1", "@minimum 2", False),
        ("@maximum 2", "@maximum 1", False),
        ("@maximum 1", "@maximum 2", True),
        ("@maximum 1", "@minimum 1", False),
        ("@maxItems 1", "@maxItems 2", True),
        ("@maxItems 2", "@maxItems 1", False),
    ],
)
def test_a_limit_that_is_narrower_next_door_counts_as_retyped(mine: str, theirs: str, fits: bool) -> None:
    type_ = "X[]" if "Items" in mine + theirs else "number"
    here, there = (one_member(type_, tag) for tag in (mine, theirs))
    found = lineage.conversion_deltas(here, there, {name: name for name in here.schema.types})
    assert any(delta.retyped for delta in found.values()) is not fits


@pytest.mark.parametrize(
    ("type_", "found"),
    [
        ("X", "a child"),
        ("X | Z", "a child"),
        ("X[]", "a child"),
        ("{ [key: string]: X | Y }", "a child"),
        ("Named", "a child"),
        ("X | string", "a child"),
        ("X | X[]", "a child"),
        ("X[] | Untagged", "a child"),
        ("X | Holder", "a child"),
        ("Y | Holder", "a child"),
        ("(X | Holder)[]", "a child"),
        ("Y | Untagged", "nothing"),
        ("Flat", "nothing"),
        ("[Y, string]", "nothing"),
        ("[string, X]", "retyped"),
        ("X | Untagged", "retyped"),
        ("X[] | Untagged[]", "retyped"),
        ("{ [key: string]: X | Untagged }", "retyped"),
        ("Mixed", "retyped"),
        ("X | Untagged | Y", "retyped"),
    ],
)
def test_a_member_is_retyped_where_nothing_tells_whether_an_object_is_of_a_type_that_changed(
    type_: str, found: str
) -> None:
    """`X` loses a member next door: a child leads to it, or else a person has to decide."""
    here, there = one_member(type_, x="old?: string;"), one_member(type_)
    deltas_ = lineage.conversion_deltas(here, there, {name: name for name in here.schema.types})
    delta = deltas_.get("GetThingRequestParams", TypeDelta("GetThingRequestParams"))
    assert delta.retyped == (("given",) if found == "retyped" else ())
    assert {child.member for child in delta.children} == ({"given"} if found == "a child" else set())


def test_a_type_inside_itself_is_found_where_it_is_first_and_retyped_below() -> None:
    here, there = one_member("Deep", x="old?: string;"), one_member("Deep")
    delta = lineage.conversion_deltas(here, there, {name: name for name in here.schema.types})[
        "GetThingRequestParams"
    ]
    assert delta.retyped == ("given",)
    assert [child.types for child in delta.children] == [(("", "X"),)]


def one_member(type_: str, tag: str = "", x: str = "") -> Revision:
    """A revision with one method, whose one parameter has a type and a tag; `x` are more members of `X`."""
    source = f"""
        export interface X {{ kind: "x"; {x} }}
        export interface Untagged {{ of?: string }}
        export interface Holder {{ held: X }}
        export interface Named {{ [key: string]: X | Y }}
        export interface Mixed {{ [key: string]: X | Untagged }}
        export type Deep = X | Deep[];
        export type Flat = string | Flat[];
        export interface Y {{ kind: "y" }}
        export interface Z {{ kind: "z" }}
        export type ClientRequest = GetThingRequest;
        export interface GetThingRequest {{ method: "things/get"; params: {{ /** {tag} */ given?: {type_} }} }}
        export interface EmptyResult {{ [key: string]: unknown }}
        export type ServerResult = EmptyResult;
    """
    declared = schema_of(source)
    schema, facts = hoist(declared), OverlayFacts()
    methods = method_table(schema, facts, Problems("one"))
    return Revision("one", None, declared, schema, schema, facts, methods, {})


def test_what_is_no_part_of_a_payload_has_no_delta() -> None:
    for here, there in STEPS:
        methods = load(here).methods.values()
        assert not deltas(here, there).keys() & {m.type for m in methods if m.transport == "jsonrpc"}


def test_a_tightened_limit_is_named_as_retyped() -> None:
    """A list of completions may be of any length in one revision and has at most 100 items in the next."""
    delta = deltas(FOURTH, FIFTH).get("CompleteResultCompletion")
    assert delta is not None
    assert delta.retyped == ("values",)


@each_step
def test_a_delta_speaks_of_members_that_exist(here: str, there: str) -> None:
    for name, delta in deltas(here, there).items():
        if not load(here).schema.is_object(ir.Ref(name)):
            assert delta == TypeDelta(delta.there, children=delta.children)
            assert [child.member for child in delta.children] == [""]
            continue
        mine, theirs = load(here).schema.flat(name), load(there).schema.flat(delta.there)
        own, other = {f.name for f in mine.fields}, {f.name for f in theirs.fields}
        assert set(delta.drop) <= own - other
        assert {key for key, _ in delta.fill} | set(delta.missing) <= other
        assert set(delta.retyped) <= own & other
        assert {child.member for child in delta.children} <= own
        for child in delta.children:
            inside = {type_ for _, type_ in child.types} - deltas(here, there).keys()
            assert not inside or child.tag or child.types[0][0]
            assert (
                not inside & paired(here, there).keys()
            ), "only what the neighbour does not have has no delta"


@each_step
def test_a_type_without_a_delta_is_the_same_next_door(here: str, there: str) -> None:
    inside = lineage.payloads(load(here))
    assert len(inside) > 30
    for name, other in paired(here, there).items():
        schema, schema_there = load(here).schema, load(there).schema
        objects_ = schema.is_object(ir.Ref(name)) and schema_there.is_object(ir.Ref(other))
        if objects_ and name in inside and name not in deltas(here, there):
            assert required(there, other) <= required(here, name), name


def required(revision: str, name: str) -> set[str]:
    flat = load(revision).schema.flat(name)
    message = flat.get("method") is not None
    return {
        f.name for f in flat.fields if not f.field.optional and not (message and f.name in ("jsonrpc", "id"))
    }


@dataclass
class Applied:
    """A value with the deltas of its type applied all the way down, and whether they vouch for it."""

    here: str
    there: str
    sure: bool = True

    def convert(self, name: str, value: Json) -> Json:
        delta = deltas(self.here, self.there).get(name)
        if delta is None or not isinstance(value, dict):
            return value
        if delta.missing or any(member in value for member in delta.retyped):
            self.sure = False
        result = {key: item for key, item in value.items() if key not in delta.drop}
        for key, filled in delta.fill:
            result.setdefault(key, filled)
        for child in delta.children:
            if not child.member:
                return self._inside(child, child.through, value)
            if child.member in result:
                result[child.member] = self._inside(child, child.through, result[child.member])
        return result

    def _inside(self, child: Child, through: tuple[str, ...], value: Json) -> Json:
        if through and through[0] == "[]":
            if not isinstance(value, list):
                return value
            return [self._inside(child, through[1:], item) for item in value]
        if through:
            if not isinstance(value, dict):
                return value
            return {key: self._inside(child, through[1:], item) for key, item in value.items()}
        if not isinstance(value, dict):
            return value
        types = dict(child.types)
        if child.tag:
            chosen = types.get(str(value.get(child.tag, "")))
        else:
            chosen = next((name for member, name in types.items() if not member or member in value), None)
        return self.convert(chosen, value) if chosen else value


@cache
def objects_of(here: str, there: str) -> dict[str, str]:
    """The objects that both revisions have, with their names next door: nothing is to be done where no delta is."""
    schema = load(here).schema
    return {name: other for name, other in paired(here, there).items() if schema.is_object(ir.Ref(name))}


@st.composite
def objects(draw: st.DrawFn, here: str, there: str) -> tuple[str, Json]:
    name = draw(st.sampled_from(list(deltas(here, there) or objects_of(here, there))))
    return name, draw(corpora(here).values(name))


@cache
def corpora(revision: str) -> Corpus:
    return Corpus(load(revision))


@each_step
def test_an_object_with_its_delta_applied_is_valid_next_door(here: str, there: str) -> None:
    judge = Judge(load(there), lenient=False)
    vouched = 0

    @settings(max_examples=sampled(50))
    @given(objects(here, there))
    def check(case: tuple[str, Json]) -> None:
        nonlocal vouched
        name, value = case
        applied = Applied(here, there)
        other = deltas(here, there)[name].there if deltas(here, there) else objects_of(here, there)[name]
        result = applied.convert(name, copy.deepcopy(value))
        if not applied.sure:
            return
        vouched += 1
        envelope: dict[str, Json] = {}
        schema = load(there).schema
        if schema.is_object(ir.Ref(other)) and schema.flat(other).get("method") is not None:
            envelope = {"jsonrpc": "2.0", "id": 1}
        assert isinstance(result, dict)
        assert judge.accepts(ir.Ref(other), {**envelope, **result})

    check()
    assert vouched > 5


@each_step
def test_a_dropped_member_is_gone_all_the_way_down(here: str, there: str) -> None:
    for name, delta in deltas(here, there).items():
        value = corpora(here).sample(ir.Ref(name), full=True)
        result = Applied(here, there).convert(name, copy.deepcopy(value))
        assert isinstance(result, dict)
        assert not result.keys() & set(delta.drop)


# -- the generated tables --------------------------------------------------------------------------------


def as_tuple(delta: Any) -> tuple[Any, ...]:
    children = tuple((c.member, c.through, c.types, c.tag) for c in delta.children)
    return delta.drop, delta.fill, delta.missing, delta.retyped, children


def neighbours() -> Iterator[tuple[str, str, str | None]]:
    for number, revision in enumerate(DATED):
        yield revision, "PREVIOUS", DATED[number - 1] if number else None
        yield revision, "NEXT", DATED[number + 1] if number + 1 < len(DATED) else None
    yield DRAFT, "PREVIOUS", DATED[-1]
    yield DRAFT, "NEXT", None


@pytest.mark.parametrize(("revision", "side", "other"), list(neighbours()))
def test_the_packages_have_these_tables(revision: str, side: str, other: str | None) -> None:
    module = package(revision, "deltas")
    assert getattr(module, side) == other
    table = getattr(module, f"TO_{side}")
    if other is None:
        assert not table
        assert getattr(module, f"NOT_IN_{side}") == frozenset()
        return
    if revision == DRAFT:
        expected = lineage.conversion_deltas(
            load(DRAFT), load(other), pairs.pairing(load(other), load(DRAFT))
        )
    else:
        expected = deltas(revision, other)
    assert {name: (d.there, as_tuple(d)) for name, d in table.items()} == {
        name: (d.there, as_tuple(d)) for name, d in expected.items()
    }
    gone = load(revision).methods.keys() - load(other).methods.keys()
    assert cast("frozenset[str]", getattr(module, f"NOT_IN_{side}")) == gone
