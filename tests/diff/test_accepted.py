"""What two schemas accept decides what a change breaks, before how it is written: no value breaks, or some does."""

from __future__ import annotations

from typing import Final

import pytest

from diff.diffing import revision_of
from helpers.support import FOLDER
from mcprev_codegen.diff import Verdict, compare_revisions

EQUAL: Final = {
    "boolean and its values": (
        "export interface X { a: boolean } export interface U { x: X }",
        "export interface X { a: true | false } export interface U { x: X }",
    ),
    "values of boolean beside null": (
        "export interface X { a: true|false|null }",
        "export interface X { a: boolean | null }",
    ),
    "an object split into tagged ones under its name": (
        'export interface X { a: "p" | "q"; b?: string } export interface U { x: X }',
        'export type X = XP | XQ\nexport interface XP { a: "p"; b?: string } export interface XQ { a: "q"; b?: string } export interface U { x: X }',
    ),
    "the same under other names": (
        'export interface X { a: "p" | "q"; b?: string } export interface U { x: X }',
        'export interface XP { a: "p"; b?: string } export interface XQ { a: "q"; b?: string } export interface U { x: XP|XQ }',
    ),
    "by a boolean": (
        "export interface X { ok: boolean; b: string } export interface U { x: X[] }",
        "export interface U { x: ({ok:true; b:string}|{ok:false; b: string})[] }",
    ),
    "by numbers": (
        "export interface X { k: 1|2|3; b: string }",
        "export type X = {k: 1; b:string} | {k: 2|3; b: string}",
    ),
    "two types that swap names": (
        "export interface A { a: string } export interface B { b: number } export interface U { x: A; y: B[] }",
        "export interface B { a: string } export interface A { b: number } export interface U { x: B; y: A[] }",
    ),
    "two aliases that do": (
        'export type A = "x"|"y"; export type B = 1|2; export interface U { x: A; y: B }',
        'export type B = "x"|"y"; export type A = 1|2; export interface U { x: B; y: A }',
    ),
    "two with members of the same names": (
        "export interface A { a: string } export interface B { a: number } export interface U { x: A; y: B[] }",
        "export interface B { a: string } export interface A { a: number } export interface U { x: B; y: A[] }",
    ),
    "three types": (
        "export interface A { a: 1 } export interface B { b: 2 } export interface C {c: 3} export interface U { x: A; y: B; z: C }",
        "export interface B { a: 1 } export interface C { b: 2 } export interface A {c: 3} export interface U { x: B; y: C; z: A }",
    ),
    "types that refer to each other": (
        "export interface A { a: B } export interface B { b?: A; q: 1 } export interface U { x: A; y: B }",
        "export interface B { a: A } export interface A { b?: B; q: 1 } export interface U { x: B; y: A }",
    ),
    "a type with a subtype": (
        "export interface A { a: string } export interface B { b: number } export interface C extends A {c: 1} export interface U { x: A; y: B[]; z: C }",
        "export interface B { a: string } export interface A { b: number } export interface C extends B {c: 1} export interface U { x: B; y: A[]; z: C }",
    ),
    "a template of two texts": (
        "export interface X { a: `${boolean}` }",
        'export interface X { a: "true"|"false" }',
    ),
    "a template with two placeholders": (
        "export interface X { a: `${string}${string}` }",
        "export interface X { a: `${string}` }",
    ),
    "two notations of a number": (
        "export interface X { a: 1|2 }",
        "export interface X { a: 1.0|2 }",
    ),
    "an enum and its values": (
        'export enum E {A="a",B="b"} export interface X { a: E }',
        'export interface X { a: "a"|"b" }',
    ),
    "an optional tag": (
        'export interface X { t?: "a"|"b"; v: 1 }',
        'export type X = {t?: "a"; v: 1} | {t: "b"; v: 1}',
    ),
    "two tags": (
        'export interface X { t: "a"|"b"; u: 1|2 }',
        'export type X = {t: "a"; u: 1} | {t: "b"; u: 1}|{t: "a"; u: 2}|{t:"b";u:2}',
    ),
    "a tuple by its items": (
        "export interface X { r: [boolean, boolean] }",
        "export interface X { r: [true, boolean] | [false, boolean] }",
    ),
    "a member by its alternatives": (
        "export interface A {a:1} export interface B {b:1} export interface X { r: A|B }",
        "export type X = { r: A }|{ r: B}; export interface A {a:1} export interface B {b:1}",
    ),
}
"""Two ways to write the same values."""
WIDER: Final = {
    "a template within another": (
        "export interface X { a: `a-${string}` }",
        "export interface X { a: `${string}-${string}` }",
    ),
    "templates within another": (
        "export interface X { a: `a-${string}` | `b-${string}` }",
        "export interface X { a: `${string}-${string}` }",
    ),
    "a member that must be absent within one that may be": (
        "export interface U { x: { a: string; b?: never } }",
        "export interface U { x: { a: string; b?: string } }",
    ),
    "tagged by what must be absent": (
        "export type X = { a: string; b?: never } | { b: string; a?: never }; export interface U { x: X[] }",
        "export interface X { a?: string; b?: string } export interface U { x: X[] }",
    ),
    "a number within a text": (
        "export interface X { a: `v${number}` }",
        "export interface X { a: `v${string}` }",
    ),
    "one with a text in the middle": (
        "export interface X { a: `x${string}y${string}z` }",
        "export interface X { a: `x${string}z` }",
    ),
    "true within boolean": (
        "export interface X { a: true }",
        "export interface X { a: boolean }",
    ),
    "all but one of the tagged objects": (
        'export type X = {a:"p"; b?: string}|{a:"q"; b?: string}',
        'export interface X { a: "p" | "q" | "r"; b?: string }',
    ),
}
"""A schema, and one that accepts more."""
OTHER: Final = {
    "true and 1": (
        "export interface X { a: true|false }",
        "export interface X { a: 1|0 }",
    ),
    "a tagged object with another member": (
        'export interface X { a: "p" | "q"; b: string }',
        'export type X = {a:"p"; b: string}|{a:"q"; b: number}',
    ),
    "swapped names at one use": (
        "export interface A { a: string } export interface B { b: number } export interface U { x: A; y: B }",
        "export interface B { a: string } export interface A { b: number } export interface U { x: A; y: B }",
    ),
    "hexadecimal and text": (
        "export interface X { a: `v${number}` }",
        "export interface X { a: `v${number}x` }",
    ),
}
"""Two schemas of which the new one refuses what the old one accepts."""


def verdicts(before: str, after: str) -> set[Verdict]:
    changes = compare_revisions(FOLDER, revision_of(before), revision_of(after)).changes
    return {judgement.verdict for c in changes for judgement in (c.old_to_new, c.new_to_old)}


@pytest.mark.parametrize("name", EQUAL)
def test_no_value_breaks_where_both_accept_the_same(name: str) -> None:
    before, after = EQUAL[name]
    for one, other in ((before, after), (after, before)):
        assert verdicts(one, other) <= {Verdict.OK}


@pytest.mark.parametrize("name", WIDER)
def test_a_wider_type_breaks_nothing_and_the_reverse_does(name: str) -> None:
    before, after = WIDER[name]
    assert Verdict.BREAKING not in verdicts(before, after)
    assert Verdict.BREAKING in verdicts(after, before)


@pytest.mark.parametrize("name", OTHER)
def test_a_value_that_is_refused_breaks(name: str) -> None:
    assert Verdict.BREAKING in verdicts(*OTHER[name])
