"""The resolved schema: inheritance, narrowing, aliases, unions, openness, names of inline objects.

Members and their optionality are compared with upstream's own schema.json, path by path; `test_counts` has the
numbers.
"""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from counts import interfaces, paths_of
from helpers.support import (
    FIFTH,
    FIRST,
    FOLDER,
    FOURTH,
    SECOND,
    THIRD,
    each_revision,
    load,
    needs_upstream,
    schema_of,
    upstream_definitions,
)
from mcprev_codegen import ir
from mcprev_codegen.errors import CodegenError, SchemaError
from mcprev_codegen.facts import load as sources
from mcprev_codegen.resolve.inline_objects import hoist
from mcprev_codegen.resolve.schema import Discriminator, Schema
from mcprev_codegen.typescript.printer import print_inline


def test_which_members_are_narrowed_in_the_newest_revision() -> None:
    schema = load(FIFTH).declared
    found = [(d.name, f) for d in interfaces(schema) for f in schema.flat(d.name).fields]
    names = Counter(f.name for owner, f in found if f.overrides and f.declared_in == owner)
    assert names == {"method": 18, "params": 15, "result": 10, "code": 5, "_meta": 1}


ALIAS_KINDS: Final = {
    (FIRST, "Cursor"): "primitive",
    (FIRST, "EmptyResult"): "alias",
    (FIRST, "Role"): "enum",
    (FIRST, "LoggingLevel"): "enum",
    (FIRST, "RequestId"): "union",
    (FIRST, "ClientRequest"): "union",
    (FIRST, "Tool"): "interface",
    (SECOND, "JSONRPCBatchRequest"): "array",
    (THIRD, "JSONRPCResponse"): "interface",
    (THIRD, "EnumSchema"): "interface",
    (FOURTH, "JSONRPCResponse"): "union",
    (FOURTH, "EnumSchema"): "union",
    (FOURTH, "GetTaskResult"): "intersection",
    (FOURTH, "TaskStatus"): "enum",
    (FIFTH, "ResultType"): "open_enum",
    (FIFTH, "MetaObject"): "map",
    (FIFTH, "JSONObject"): "map",
    (FIFTH, "JSONArray"): "array",
    (FIFTH, "JSONValue"): "union",
    (FIFTH, "ClientNotification"): "alias",
    (FIFTH, "ClientResult"): "alias",
}


@pytest.mark.parametrize(("place", "kind"), ALIAS_KINDS.items())
def test_the_kind_of_a_type(place: tuple[str, str], kind: str) -> None:
    assert load(place[0]).declared.alias_kind(place[1]) == kind


def test_the_order_of_an_enum_is_kept() -> None:
    schema = load(FIRST).declared
    levels = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
    assert schema.literals(ir.Ref("LoggingLevel")) == levels


# -- members against upstream's schema.json --------------------------------------------------------------


def upstream_paths(node: dict[str, Any], prefix: str) -> Iterator[tuple[str, bool]]:
    for name, member in node.get("properties", {}).items():
        yield f"{prefix}.{name}", name in node.get("required", ())
        yield from upstream_paths(member, f"{prefix}.{name}")
    for branch in [*node.get("anyOf", ()), *node.get("allOf", ()), *filter(None, [node.get("items")])]:
        yield from upstream_paths(branch, prefix)


@needs_upstream
@each_revision
def test_members_and_their_optionality_are_those_of_upstreams_schema(revision: str) -> None:
    schema = load(revision).declared
    definitions = upstream_definitions(revision)
    for decl in interfaces(schema):
        assert paths_of(schema, decl.name) == dict(upstream_paths(definitions[decl.name], decl.name))


# -- rules -----------------------------------------------------------------------------------------------


def shown(schema: Schema, name: str) -> str:
    """A type flattened, as one line of TypeScript."""
    flat = schema.flat(name)
    return print_inline(ir.Obj(tuple(f.field for f in flat.fields), flat.index))


FLATTENED: Final = {
    "own members follow inherited ones": (
        "export interface A { a: string }\nexport interface Z extends A { z: string }",
        "{ a: string; z: string }",
    ),
    "a redeclared member replaces the inherited one, in its place": (
        ("export interface A { p?: { m?: string; n: string }; b: string }\n"
        "export interface Z extends A { z: string; p: { x: number } }"),
        "{ p: { x: number }; b: string; z: string }",
    ),
    "the first of several bases counts": (
        ("export interface A { a: string; m?: string }\nexport interface B { m?: string; b: string }\n"
        "export interface Z extends A, B {}"),
        "{ a: string; m?: string; b: string }",
    ),
    "a base may come later in the file": (
        ("export interface Z extends A { z: string }\nexport interface A extends B { a: string }\n"
        "export interface B { b: string }"),
        "{ b: string; a: string; z: string }",
    ),
    "Omit leaves members out": (
        'export interface A { a: string; b: string; c: string }\nexport interface Z extends Omit<A, "a" | "c"> {}',
        "{ b: string }",
    ),
    "Omit and declare again": (
        'export interface A { a: string; b?: string }\nexport interface Z extends Omit<A, "b"> { b: number }',
        "{ a: string; b: number }",
    ),
    "an index signature is inherited": (
        "export interface A { [key: string]: unknown }\nexport interface Z extends A { z: string }",
        "{ z: string; [key: string]: unknown }",
    ),
    "an alias of a map is a base": (
        "export type M = Record<string, unknown>;\nexport interface Z extends M { z?: string }",
        "{ z?: string; [key: string]: unknown }",
    ),
    "an intersection joins members": (
        "export interface A { a: string }\nexport interface B { b?: string }\nexport type Z = A & B;",
        "{ a: string; b?: string }",
    ),
    "an intersection narrows a shared member and makes it required": (
        ("export interface A { code: number; data?: unknown; m: string }\n"
        "export type Z = A & { code: 5; data: { x: string } };"),
        "{ code: 5; data: { x: string }; m: string }",
    ),
    "a member that is required on one side of an intersection is required": (
        "export interface A { a: string }\nexport type Z = A & { a?: string };",
        "{ a: string }",
    ),
    "an intersection with a wider type keeps the narrower one": (
        ("export interface A { a: 5; b: `x${string}`; c: 'x' | null; d: 1 }\n"
        "export type Z = A & { a: number | null; b: string; c: string | null; d: unknown };"),
        '{ a: 5; b: `x${string}`; c: "x" | null; d: 1 }',
    ),
    "an intersection has the values that its parts share": (
        ("export interface A { a: 1 | 2 | 'x'; b: true | 1; c: string | 1 }\n"
        "export type Z = A & { a: 2 | 3 | string; b: 1; c: 'y' | number };"),
        '{ a: 2 | "x"; b: 1; c: 1 | "y" }',
    ),
    "an intersection of objects reaches the objects in them": (
        "export interface A { a: { x: 1 } }\nexport type Z = A & { a: { y?: 2 } };",
        "{ a: { x: 1 } & { y?: 2 } }",
    ),
    "an intersection of index signatures": (
        "export interface A { [k: string]: string | null }\nexport type Z = A & { [k: string]: string };",
        "{ [k: string]: string }",
    ),
    "Pick finds a member in the index signature, and leaves that out": (
        "export interface A { a?: 1; [k: string]: 1 | undefined }\nexport interface Z extends Pick<A, 'a' | 'b'> {}",
        "{ a?: 1; b: 1 | undefined }",
    ),
    "Omit leaves nothing but an index signature": (
        "export interface A { a: 1; b: 1; [k: string]: 1 }\nexport interface Z extends Omit<A, 'a'> { z: 2 }",
        "{ z: 2; [k: string]: 1 }",
    ),
    "Required keeps undefined": (
        "export interface A { a?: 1; b: 1 | undefined; c?: 1 | undefined }\nexport type Z = Required<A>;",
        "{ a: 1; b: 1 | undefined; c: 1 }",
    ),
    "Required of Partial takes undefined away": (
        "export interface A { b: 1 | undefined }\nexport type Z = Required<Partial<A>>;",
        "{ b: 1 }",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("source", "expected"), FLATTENED.values(), ids=FLATTENED.keys())
def test_flattening(source: str, expected: str) -> None:
    assert shown(schema_of(source), "Z") == expected


@pytest.mark.parametrize(
    "source",
    [source for source, _ in FLATTENED.values() if " & " in source],
    ids=[name for name, (source, _) in FLATTENED.items() if " & " in source],
)
def test_an_intersection_means_the_same_with_and_without_names_for_its_objects(source: str) -> None:
    schema = schema_of(source)
    named = hoist(schema)
    before, after = schema.flat("Z"), named.flat("Z")
    assert [(f.name, f.field.optional) for f in before.fields] == [
        (f.name, f.field.optional) for f in after.fields
    ]
    for f in before.fields:
        member = after.get(f.name)
        assert member is not None
        if named.is_object(member.type):
            assert {g.name for g in named.flatten(member.type).fields} == {
                g.name for g in schema.flatten(f.field.type).fields
            }
        else:
            assert member.type == f.field.type


@pytest.mark.parametrize(
    "parts",
    [
        "{ a: string[] } & { a: 'x'[] }",
        "{ a: 1 } & { a: 2 }",
        "{ a: 1 } & { a: true }",
        "{ a: string } & { a: number }",
        "{ a: `x${string}` } & { a: `${string}y` }",
        "{ a: `x${string}` } & { a: 'xy' | 'z' }",
        "{ a: { x: 1 } } & { a: { y: 1 } | null }",
    ],
)
def test_an_intersection_whose_values_are_not_known_is_an_error(parts: str) -> None:
    schema = schema_of(f"export type Z = {parts};")
    for ask in (lambda: schema.flat("Z"), lambda: hoist(schema)):
        with pytest.raises(CodegenError, match="member 'a' has two types in an intersection"):
            ask()


def test_an_overriding_member_without_a_comment_keeps_the_inherited_one() -> None:
    schema = schema_of(
        "export interface A { /** Text. */ a: string }\nexport interface Z extends A { a: 'x' }"
    )
    member = schema.flat("Z").get("a")
    assert member is not None
    assert member.doc.text == "Text."


@pytest.mark.parametrize(
    ("revision", "name", "expected"),
    [
        (FIRST, "PingRequest", '{ method: "ping"; params?: { _meta?: { progressToken?: ProgressToken }; [key: string]: unknown } }'),
        (FIRST, "SubscribeRequest", '{ method: "resources/subscribe"; params: { uri: string } }'),
        (FOURTH, "CancelTaskResult", None),
        (FIFTH, "InputRequests", "{ [key: string]: InputRequest }"),
    ],
)  # fmt: skip
def test_a_real_type_flattened(revision: str, name: str, expected: str | None) -> None:
    schema = load(revision).declared
    if expected is None:
        both = {f.name for base in ("Result", "Task") for f in schema.flat(base).fields}
        assert {f.name for f in schema.flat(name).fields} == both
        assert schema.flat(name).index is not None
    else:
        assert shown(schema, name) == expected


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("export interface A extends B {}\nexport interface B extends A {}", "extends itself: A -> B -> A"),
        ("export interface A extends A {}", "extends itself: A -> A"),
        ("export interface A extends B {}\nexport type B = string;", "not an object"),
        ("export interface A extends B {}\nexport type B = string[];", "not an object"),
    ],
)
def test_what_cannot_be_flattened_is_an_error_with_its_place(source: str, words: str) -> None:
    with pytest.raises(SchemaError, match=words) as caught:
        schema_of(source).flat("A")
    assert caught.value.line in (1, 2)
    assert caught.value.source_line == source.split("\n")[caught.value.line - 1]


@pytest.fixture
def five_seconds() -> Iterator[None]:
    """Fail instead of hanging."""

    def give_up(_signal: int, _frame: object) -> None:
        raise TimeoutError("not done within five seconds")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, 5)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize(
    "source",
    [
        "export type A = A;",
        "export type A = B;\nexport type B = A;",
        "export type A = string | A;",
        "export type A = string | B;\nexport type B = number | A;",
        "export type A = A & { a: string };",
    ],
)
@pytest.mark.usefixtures("five_seconds")
def test_an_alias_that_only_names_itself_is_an_error_with_its_place(tmp_path: Path, source: str) -> None:
    path = tmp_path / "schema.ts"
    path.write_text(source, encoding="utf-8")
    with pytest.raises(SchemaError):
        sources.load_file(FOLDER, path, "2099-01-01")


@pytest.mark.parametrize(
    "source", ["export type A = A[];", "export type A = { [k: string]: A };", "export interface A { a?: A }"]
)
def test_a_type_may_contain_itself(source: str) -> None:
    schema = hoist(schema_of(source))
    assert list(schema.types) == ["A"]


# -- discriminators --------------------------------------------------------------------------------------


def discriminator_of(revision: str, name: str) -> Discriminator | None:
    return load(revision).declared.discriminator(ir.Ref(name))


@pytest.mark.parametrize(
    ("revision", "name", "property_"),
    [
        (FIRST, "ClientRequest", "method"),
        (FIRST, "ServerNotification", "method"),
        (THIRD, "ContentBlock", "type"),
        (FOURTH, "SamplingMessageContentBlock", "type"),
        (FIFTH, "InputRequest", "method"),
        (FIRST, "JSONRPCMessage", None),
        (FIRST, "ServerResult", None),
        (FOURTH, "ElicitRequestParams", None),
        (FOURTH, "EnumSchema", None),
        (FOURTH, "PrimitiveSchemaDefinition", None),
        (FIRST, "RequestId", None),
        (FIRST, "Role", None),
    ],
)
def test_what_tells_the_members_of_a_union_apart(revision: str, name: str, property_: str | None) -> None:
    found = discriminator_of(revision, name)
    assert (found.property if found else None) == property_


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ('export type U = { t: "a" } | { t: "b" };', ("t", (("a",), ("b",)))),
        ('export type U = { t: "a" | "b" } | { t: "c" };', ("t", (("a", "b"), ("c",)))),
        ('export type U = { x: string; t: "a" } | { t: "b"; x: string };', ("t", (("a",), ("b",)))),
        ('export type U = { t?: "a" } | { t: "b" };', None),
        ('export type U = { t: "a" } | { t: "a" };', None),
        ('export type U = { t: "a" | "b" } | { t: "b" };', None),
        ('export type U = { t: "a" } | { t: string };', None),
        ('export type U = { t: "a" } | string;', None),
        ('export type U = { t: "a" } | { u: "b" };', None),
        ('export type U = { t: "a" };', None),
    ],
)
def test_a_discriminator_is_required_closed_and_disjoint(
    source: str, expected: tuple[str, Any] | None
) -> None:
    found = schema_of(source).discriminator(ir.Ref("U"))
    assert ((found.property, found.values) if found else None) == expected


# -- hoisting --------------------------------------------------------------------------------------------


@each_revision
def test_after_hoisting_no_inline_object_with_members_is_left(revision: str) -> None:
    def check(node: ir.Node) -> ir.Node:
        assert not isinstance(node, ir.Intersection)
        assert not isinstance(node, ir.Obj) or not node.fields
        return node

    ir.map_nodes(load(revision).schema.module, check)


def test_inline_objects_are_named_after_their_path() -> None:
    source = (
        "export interface A { params: { a: { b: string }[]; c?: { d: { e: string } } };"
        ' oneOf?: { const: string }[]; map: { [k: string]: { v: string } }; "x/y": { z: string } }'
    )
    hoisted = hoist(schema_of(source))
    assert list(hoisted.types) == [
        "AParams", "AParamsA", "AParamsC", "AParamsCD", "AOneOf", "AMap", "AY", "A",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("interface AParams { x: 1 } interface A { params: { y: 1 } }", ["AParams", "AParams2", "A"]),
        ("interface A { params: { y: 1 } } interface AParams { x: 1 }", ["AParams2", "A", "AParams"]),
        ("interface A { p: { y: 1 } } type AP = 1; type AP2 = 2;", ["AP3", "A", "AP", "AP2"]),
        ("interface A { a_b: { x: 1 }; aB: { y: 1 }; 'a-b': { z: { w: 1 } } }", ["AAB", "AAB2", "AAB3", "AAB3Z", "A"]),
        (
            'type Loc = { type: "commit"; commit: { sha: string } } | { type: "issue" }; interface LocCommit { x: 1 }',
            ["LocCommit2", "LocCommit2Commit", "LocIssue", "Loc", "LocCommit"],
        ),
        ("type T = { x: { y: 1 } } | null; interface TObject { z: 1 }", ["TObject2", "TObject2X", "T", "TObject"]),
    ],
)  # fmt: skip
def test_an_inline_object_whose_name_is_taken_gets_the_next_free_number(
    source: str, names: list[str]
) -> None:
    hoisted = hoist(schema_of(source))
    assert sorted(hoisted.types) == sorted(names)
    assert len(hoisted.module.decls) == len(names)
    assert set(ir.references(hoisted.module)) <= {*names}


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("export interface A { p: { x: string } | { y: string } }", ["AP1", "AP2", "A"]),
        (
            'export interface A { p: { t: "x" } | { t: "y"; u: { v: string } }[] }',
            ["APX", "APYU", "APY", "A"],
        ),
        ('export type A = { t: "x-y" } | { t: "z" } | null;', ["AXY", "AZ", "A"]),
        ("export type A = string | { x: string };", ["AObject", "A"]),
        ("export type A = { x: string }[];", ["AItem", "A"]),
        ("export type A = [{ x: string }, string, { y: string }];", ["AItem1", "AItem2", "A"]),
        ('export interface A { p: { t: "x" } | { t: "x" } }', ["AP1", "AP2", "A"]),
    ],
)
def test_several_inline_objects_at_one_path_are_told_apart(source: str, names: list[str]) -> None:
    assert sorted(hoist(schema_of(source)).types) == sorted(names)


def test_an_intersection_becomes_an_interface() -> None:
    hoisted = hoist(
        schema_of(
            "export interface E { c: number }\nexport interface A { e: E & { c: 5; d: { x: string } } }"
        )
    )
    decl = hoisted.types["AE"]
    assert isinstance(decl, ir.Interface)
    assert decl.bases == (ir.Ref("E"),)
    assert [f.name for f in decl.fields] == ["c", "d"]
    assert "AED" in hoisted.types


def test_an_intersection_with_a_value_is_an_error() -> None:
    with pytest.raises(CodegenError, match="not an object"):
        hoist(schema_of("export type A = string & number;"))
