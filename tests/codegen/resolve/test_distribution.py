"""Intersections with unions and values, and utility types of unions, as one would write them out."""

from __future__ import annotations

from typing import Final

import pytest

from mcprev_codegen import ir
from mcprev_codegen.errors import SchemaError
from mcprev_codegen.resolve import Schema, distribute
from mcprev_codegen.typescript import parse, print_module

HEAD: Final = (
    "interface A { t: 'a'; x: 1; s: 1 } interface B { t: 'b'; y?: 2; s?: 2 } interface C { c: 3 } type U = A | B; type N = U | null; "
)
CASES: Final = {
    "a union": ("C & (A | B)", "(C & A) | (C & B)"),
    "a union with a name": ("U & C", "(A & C) | (B & C)"),
    "two unions": ("U & (C | { d: 1 })", "(A & C) | (A & { d: 1 }) | (B & C) | (B & { d: 1 })"),
    "null beside objects": ("N & C", "(A & C) | (B & C)"),
    "unions that tell each other apart": ("U & (B | { t: 'a' })", "(A & { t: 'a' }) | (B & B)"),
    "intersections in unions": ("C & ((A & { d: 1 }) | B)", "(C & A & { d: 1 }) | (C & B)"),
    "a branded string": ("string & { __brand: 'x' }", "string"),
    "a branded string with a name": ("1 & C", "1"),
    "branded arrays": ("string[] & C", "string[]"),
    "object": ("object & C", "C"),
    "object alone": ("object & unknown", "object"),
    "strings": ("string & ('a' | 'b' | 1)", "'a' | 'b'"),
    "literals": ("('a' | 'b') & ('b' | 'c')", "'b'"),
    "strings of a template": ("string & `x-${string}`", "`x-${string}`"),
    "Partial of a union": ("Partial<U>", "{ t?: 'a'; x?: 1; s?: 1 } | { t?: 'b'; y?: 2; s?: 2 }"),
    "Omit of a union": ("Omit<U, 't'>", "{ s?: 1 | 2 }"),
    "Pick of a union with null": ("Pick<N, 't'>", "{ t: 'a' | 'b' }"),
    "Omit of what may be null": ("Omit<Q, 'x'>", "Omit<A, 'x'>"),
    "no union": ("A & C", "A & C"),
}  # fmt: skip


def schema(type_: str) -> Schema:
    return Schema(parse(f"{HEAD} type Q = A | null; type W = 'a' | B; type T = {type_};", "schema.ts"))


def text(found: Schema) -> str:
    decl = ir.contract(found.module).types["T"]
    return print_module(ir.Module((decl,)))


@pytest.mark.parametrize("name", CASES)
def test_what_is_written_out(name: str) -> None:
    type_, meaning = CASES[name]
    assert text(distribute(schema(type_))).replace("B & B", "B") == text(
        schema(meaning.replace("B & B", "B"))
    )


@pytest.mark.parametrize(
    ("type_", "told"),
    [
        ("string & number", "no values"),
        ("'a' & 'b'", "no values"),
        ("string[] & number[]", "cannot be determined"),
        ("Omit<W, 't'>", "Omit of what is no object"),
        (
            " & ".join(f"({' | '.join(f'{{ a{n}{m}: 1 }}' for m in range(4))})" for n in range(6)),
            "more than 1000",
        ),
    ],
)
def test_what_no_value_has_is_refused(type_: str, told: str) -> None:
    with pytest.raises(SchemaError, match=told):
        distribute(schema(type_))
