"""The contract of a schema.ts: independent of layout, lossless through printing, free of upstream's prose.

A reformatter (random line breaks, indentation, blank lines, quotes, separators, leading pipes, comments) must not
change the IR. Printing and parsing are inverse to each other, for the pinned files and for random modules.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Final

import pytest
from hypothesis import given, settings, strategies as st

from fuzz.fuzzing import sampled
from helpers.support import (
    FOLDER,
    REVISIONS,
    SCHEMA,
    UPSTREAM,
    each_revision,
    needs_upstream,
    parse,
    upstream_module,
    upstream_path,
    upstream_text,
)
from mcprev_codegen import ir
from mcprev_codegen.inputs.pins import load_pins
from mcprev_codegen.typescript.printer import print_inline, print_module, print_type

# -- the reformatter -------------------------------------------------------------------------------------

_TOKEN: Final = re.compile(
    r"""(?P<comment>/\*[\s\S]*?\*/|//[^\n]*)|(?P<string>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')
      |(?P<space>\s+)|(?P<word>`[^`]*`|-?[\w$.]+)|(?P<mark>.)""",
    re.VERBOSE,
)
_GLUED: Final = frozenset({"export", "type", "interface", "const"})
"""Words that TypeScript wants on one line with what follows."""


@dataclass(frozen=True)
class Token:
    kind: str
    text: str
    gap: str
    """The white space before it."""
    apart: bool = False
    """Whether a line break has to stand before it, for want of a separator."""


def tokens(source: str) -> list[Token]:
    found: list[Token] = []
    gap = ""
    for match in _TOKEN.finditer(source):
        kind = str(match.lastgroup)
        if kind == "space":
            gap = match[0]
        else:
            found.append(Token(kind, match[0], gap))
            gap = ""
    return found


class Reformatter:
    """Writes the same TypeScript another way; `noise` adds comments that were not there."""

    def __init__(self, rng: random.Random, *, noise: bool = False) -> None:
        self._rng = rng
        self._noise = noise
        self._unit = rng.choice(["\t", " ", "  ", "    "])
        self._quote = rng.choice(["'", '"'])

    def __call__(self, source: str) -> str:
        items = self._pipes(self._separators(tokens(source)))
        out = ""
        for number, token in enumerate(items):
            before = items[number - 1] if number else None
            out += self._gap(before, token) + self._text(token)
        return out + self._rng.choice(["", "\n", "\n\n"])

    def _chance(self, share: float) -> bool:
        return self._rng.random() < share

    def _separators(self, items: Sequence[Token]) -> list[Token]:
        """Members end in `;`, `,` or a line break, statements in `;` or a line break."""
        out: list[Token] = []
        depth = 0
        breaks = False
        for number, token in enumerate(items):
            depth += (token.text == "{") - (token.text == "}")
            following = items[number + 1] if number + 1 < len(items) else Token("mark", "", "\n")
            may_go = token.text == ";" and following.kind != "comment" and following.text not in "[(<"
            if may_go and self._chance(0.3):
                breaks = True
                continue
            comma = token.text == ";" and depth and self._chance(0.3)
            out.append(replace(token, apart=breaks, text="," if comma else token.text))
            breaks = False
        return out

    def _pipes(self, items: Sequence[Token]) -> list[Token]:
        """The first member of an aliased union may have a pipe before it."""
        out: list[Token] = []
        for number, token in enumerate(items):
            previous = next((t for t in reversed(out) if t.kind != "comment"), None)
            if previous is not None and previous.text == "=" and token.kind != "comment":
                leading = token.text == "|"
                if leading and self._chance(0.5):
                    continue
                if not leading and self._is_union(items[number:]) and self._chance(0.5):
                    out.append(Token("mark", "|", token.gap))
            out.append(token)
        return out

    def _is_union(self, rest: Sequence[Token]) -> bool:
        depth = 0
        for token in rest:
            depth += (token.text in "([{<") - (token.text in ")]}>")
            if depth < 0 or token.text in (";", "export"):
                return False
            if token.text == "|" and depth == 0:
                return True
        return False

    def _gap(self, before: Token | None, token: Token) -> str:
        if before is None:
            return ""
        if "comment" in (before.kind, token.kind):
            return self._lines() if "\n" in token.gap else self._spaces(1)
        if token.apart or ("\n" in token.gap and token.text != ";" and self._chance(0.7)):
            return self._noisy(self._lines())
        needed = before.kind in ("word", "string") and token.kind in ("word", "string")
        may_break = before.text not in _GLUED and token.text not in ("[", ";", ",", "<", "(", "?")
        if may_break and self._chance(0.1):
            return self._noisy(self._lines())
        return self._spaces(1 if needed else 0)

    def _spaces(self, least: int) -> str:
        return " " * max(least, self._rng.choice([0, 0, 1, 1, 1, 3]))

    def _lines(self) -> str:
        return "\n" * self._rng.choice([1, 1, 2, 3]) + self._unit * self._rng.choice([0, 1, 2, 5])

    def _noisy(self, gap: str) -> str:
        if self._noise and self._chance(0.2):
            return (
                gap + self._rng.choice(["// noise", "/* noise */", "/*\n * noise\n */", "// @noise"]) + "\n"
            )
        return gap

    def _text(self, token: Token) -> str:
        if token.kind == "comment":
            return re.sub(
                r"\n[ \t]*\*", lambda _: "\n" + self._unit * self._rng.choice([0, 1, 3]) + " *", token.text
            )
        if token.kind == "string" and not re.search(r"""[\\'"]""", token.text[1:-1]):
            return self._quote + token.text[1:-1] + self._quote
        return token.text


def seeded(seed: int) -> random.Random:
    """A source of chance that hypothesis steers."""
    return random.Random(seed)  # noqa: S311 - layouts, not secrets


def test_the_reformatter_changes_a_file_and_keeps_its_words() -> None:
    source = 'export interface A {\n  a: string; // note\n  b?: "x" | null;\n}\n\nexport type B =\n  | "x"\n  | A;\n'
    results = {Reformatter(seeded(seed))(source) for seed in range(20)}
    assert len(results) > 15
    for text in results:
        words = [t.text for t in tokens(text) if t.kind in ("word", "comment")]
        assert words == [t.text for t in tokens(source) if t.kind in ("word", "comment")]


@pytest.mark.slow
@needs_upstream
@each_revision
def test_a_reformatted_file_gives_the_identical_ir(revision: str) -> None:
    """Prose included: a comment stays with what it stood at."""

    @settings(max_examples=sampled(3))
    @given(st.integers(0, 2**32))
    def check(seed: int) -> None:
        text = Reformatter(seeded(seed))(upstream_text(revision))
        assert parse(text) == upstream_module(revision)

    check()


@pytest.mark.slow
@each_revision
def test_a_reformatted_contract_gives_the_identical_ir(revision: str) -> None:
    source = (SCHEMA / revision / "schema.ts").read_text(encoding="utf-8")

    @settings(max_examples=sampled(3))
    @given(st.integers(0, 2**32))
    def check(seed: int) -> None:
        text = Reformatter(seeded(seed), noise=True)(source)
        assert ir.contract(parse(text)) == ir.contract(parse(source))

    check()


@pytest.mark.parametrize(
    "source",
    [
        "export type A = | string;",
        "export type A = (string);",
        "export type A = /* c */ string /* d */;",
        "export /* c */ type A = string;",
        "export type /* c */ A = string;",
        "export type A\n  = string",
    ],
)
def test_another_spelling_of_one_type_is_the_same_type(source: str) -> None:
    assert ir.contract(parse(source)) == parse("export type A = string;")


@pytest.mark.parametrize(
    "source",
    [
        'export interface B extends /* c */ A, /* d */ Omit</* e */ C, /* f */ "x"> { a?: A[] /* g */ }',
        'export interface B extends A /* c */, Omit<C, "x"> /* d */ { /* e */ a /* f */ ? /* g */ : /* h */ A[]; }',
        'export interface B extends A, // c\n  Omit<C, "x"> // d\n{\n  // e\n  a?: // f\n    A[]; // g\n  // h\n}',
        'export interface B extends A, Omit<C, "x"> { a?: Array</* c */ A /* d */> }',
        'export interface B extends A, Omit<C, "x"> { a?: A /* c */ [] }',
        'export interface B extends A, Omit<C, | "x"> { a?: (A)[] }',
    ],
)
def test_comments_may_stand_anywhere_in_an_interface(source: str) -> None:
    rest = "\nexport interface A { z: string }\nexport interface C { x: string }"
    plain = 'export interface B extends A, Omit<C, "x"> { a?: A[] }'
    assert ir.contract(parse(source + rest)) == parse(plain + rest)


@pytest.mark.parametrize(
    "body",
    [
        "{ [/* c */ key: string]: /* d */ typeof /* e */ C }",
        "{ [key /* c */: string /* d */] /* e */: typeof C /* f */ }",
        "{ // c\n  [key: string]: typeof C; // d\n}",
    ],
)
def test_comments_may_stand_anywhere_in_an_index_signature(body: str) -> None:
    const = "export const C = 1;\n"
    plain = parse(const + "export type A = { [key: string]: typeof C };")
    assert ir.contract(parse(f"{const}export type A = {body};")) == plain


@pytest.mark.parametrize(
    "source",
    ["export const /* c */ C = 1;", "export const C = /* c */ 1;", "export const C /* c */ = 1 /* d */;"],
)
def test_comments_may_stand_anywhere_in_a_constant(source: str) -> None:
    assert ir.contract(parse(source)) == parse("export const C = 1;")


# -- printing --------------------------------------------------------------------------------------------


@pytest.mark.slow
@needs_upstream
@each_revision
def test_what_is_printed_parses_to_the_same_contract(revision: str) -> None:
    module = upstream_module(revision)
    assert parse(print_module(module)) == ir.contract(module)
    assert parse(print_module(module, "A header\nof two lines.")) == ir.contract(module)


@needs_upstream
@each_revision
def test_the_repos_contract_is_that_of_upstreams_file(revision: str) -> None:
    text = (SCHEMA / revision / "schema.ts").read_text(encoding="utf-8")
    assert parse(text) == ir.contract(upstream_module(revision))


@each_revision
def test_a_contract_is_canonical(revision: str) -> None:
    text = (SCHEMA / revision / "schema.ts").read_text(encoding="utf-8")
    header = "\n".join(line.removeprefix("// ") for line in text.split("\n")[:2])
    assert print_module(parse(text), header) == text


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("{ a: string; b?: number }", "{ a: string; b?: number }"),
        ("{ /** @minimum 0 */ a: number }", "{ a: number }"),
        ("{ a: { b: (string | null)[] } }", "{ a: { b: (string | null)[] } }"),
        ("{}", "{}"),
    ],
)
def test_a_type_is_shown_on_one_line(source: str, text: str) -> None:
    decl = parse(f"export type A = {source};").types["A"]
    assert isinstance(decl, ir.Alias)
    assert print_inline(decl.type) == text


# -- pins ------------------------------------------------------------------------------------------------


@needs_upstream
@each_revision
def test_the_pin_is_that_of_upstreams_file(revision: str) -> None:
    assert (
        load_pins(FOLDER)[revision].sha256 == hashlib.sha256(upstream_path(revision).read_bytes()).hexdigest()
    )


@each_revision
def test_the_pin_is_that_of_the_contract(revision: str) -> None:
    pin = load_pins(FOLDER)[revision]
    assert pin.contract == hashlib.sha256((SCHEMA / revision / "schema.ts").read_bytes()).hexdigest()
    assert re.fullmatch(r"[0-9a-f]{40}", pin.commit)
    assert pin.location.endswith(f"/blob/{pin.commit}/schema/{revision}/schema.ts")
    assert pin.spec.endswith(f"/specification/{revision}")
    assert pin.status == ("final" if revision[0].isdigit() else "draft")


@needs_upstream
def test_every_upstream_revision_is_pinned() -> None:
    assert set(REVISIONS) <= {p.parent.name for p in UPSTREAM.glob("*/schema.ts")}


# -- prose -----------------------------------------------------------------------------------------------

RUN: Final = 7


def words(text: str) -> list[str]:
    return re.findall(r"[a-z0-9'`_/.-]+", text.lower())


def runs(text: str) -> set[tuple[str, ...]]:
    found = words(text)
    return {tuple(found[n : n + RUN]) for n in range(len(found) - RUN + 1)}


def prose_of(module: ir.Module) -> list[str]:
    found: list[str] = []

    def visit(node: ir.Node) -> ir.Node:
        if isinstance(node, ir.Interface | ir.Alias | ir.Const | ir.Field):
            doc = node.doc
            texts = [doc.text, doc.notes, *(t for _, t in doc.tags), *(t for _, t in doc.members)]
            found.extend(t for t in texts if t)
        return node

    ir.map_nodes(module, visit)
    return found


@pytest.mark.slow
@needs_upstream
def test_no_seven_words_of_upstreams_prose_stand_in_the_repo() -> None:
    upstream = {run for rev in REVISIONS for text in prose_of(upstream_module(rev)) for run in runs(text)}
    assert len(upstream) > 5000
    for path in sorted(p for p in SCHEMA.rglob("*") if p.is_file()):
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".ts":
            mine = runs(
                " ".join(t.text for t in tokens(text) if t.kind == "comment" and not t.text.startswith("//"))
            )
        elif path.name == "overlay.toml":
            entries = tomllib.loads(text)["entry"]
            mine = {run for entry in entries for run in runs(entry["why"])}
            mine |= runs(" ".join(re.findall(r"^#(.*)$", text, re.MULTILINE)))
        else:
            mine = {run for line in text.split("\n") for run in runs(line)}
        assert not mine & upstream, f"{path}: {sorted(mine & upstream)[:3]}"


@each_revision
def test_a_contract_has_no_prose(revision: str) -> None:
    text = (SCHEMA / revision / "schema.ts").read_text(encoding="utf-8")
    assert prose_of(parse(text)) == []


# -- random modules --------------------------------------------------------------------------------------

NAMES: Final = ("A", "B1", "C_c", "$D", "Éa")
CONSTS: Final = ("X", "Y_1")
texts = st.text(max_size=6)
line_texts = st.from_regex(r"[A-Za-z][A-Za-z0-9 .-]{0,6}[a-z]", fullmatch=True)
numbers = st.one_of(st.integers(-(10**6), 10**20), st.integers(-99, 99).map(lambda n: n / 8))
literals = st.one_of(texts, numbers, st.booleans())
tag_sets = st.one_of(
    st.just(ir.NO_TAGS),
    st.builds(
        ir.Tags,
        format=st.none() | line_texts,
        minimum=st.none() | numbers,
        maximum=st.none() | numbers,
        max_items=st.none() | st.integers(0, 100),
        exclusive_minimum=st.none() | numbers,
        exclusive_maximum=st.none() | numbers,
        multiple_of=st.none() | numbers,
        min_length=st.none() | st.integers(0, 100),
        max_length=st.none() | st.integers(0, 100),
        pattern=st.none() | line_texts,
        min_items=st.none() | st.integers(0, 100),
        unique_items=st.booleans(),
        default=st.none() | st.one_of(line_texts, numbers, st.booleans()).map(json.dumps),
        tjs_type=st.none() | line_texts,
        nullable=st.booleans(),
        deprecated=st.booleans(),
        internal=st.booleans(),
        category=st.none() | line_texts,
    ),
)
leaves: st.SearchStrategy[ir.TypeExpr] = st.one_of(
    st.sampled_from(["string", "number", "boolean", "null", "unknown", "any", "object"]).map(ir.Prim),
    st.sampled_from(NAMES).map(ir.Ref),
    st.sampled_from(CONSTS).map(ir.ConstRef),
    literals.map(ir.Lit),
)


def fields_of(types: st.SearchStrategy[ir.TypeExpr]) -> st.SearchStrategy[tuple[ir.Field, ...]]:
    names = texts | st.sampled_from(
        ["a", "type", "_meta", "$schema", "io.x/y", "get", "readonly", "__proto__"]
    )
    fields = st.builds(ir.Field, names, types, st.booleans(), tag_sets)
    return st.lists(fields, max_size=3, unique_by=lambda f: f.name).map(tuple)


def indexes_of(types: st.SearchStrategy[ir.TypeExpr]) -> st.SearchStrategy[ir.IndexSig | None]:
    return st.none() | st.builds(ir.IndexSig, st.sampled_from(["key", "k2"]), types)


def union_of(members: Sequence[ir.TypeExpr]) -> ir.TypeExpr:
    """A union as the parser gives it: nested ones opened."""
    opened = (m.members if isinstance(m, ir.Union) else (m,) for m in members)
    return ir.Union(tuple(chain.from_iterable(opened)))


def intersection_of(members: Sequence[ir.TypeExpr]) -> ir.TypeExpr:
    """An intersection as the parser gives it: nested ones opened, without `{}` beside a primitive type."""
    opened = [m.members if isinstance(m, ir.Intersection) else (m,) for m in members]
    found = list(chain.from_iterable(opened))
    plain = (m for m in found if isinstance(m, ir.Prim | ir.Lit | ir.Template))
    if any(m not in (*ir.ANYTHING, ir.Prim("null")) for m in plain):
        found = [m for m in found if m != ir.Obj()]
    return found[0] if len(found) == 1 else ir.Intersection(tuple(found))


keys = st.lists(texts, min_size=1, max_size=2, unique=True).map(tuple)
derived_ = st.recursive(
    st.sampled_from(NAMES).map(ir.Ref),
    lambda inner: st.one_of(
        st.builds(ir.Derived, st.sampled_from(["Pick", "Omit"]), inner, keys),
        st.builds(ir.Derived, st.sampled_from(["Partial", "Required"]), inner),
    ),
    max_leaves=2,
)
bases_: st.SearchStrategy[ir.Ref | ir.Derived] = derived_
templates = st.lists(st.sampled_from(["a.b-", "${string}", "x y", "${number}", "${boolean}"]), max_size=3)
types_ = st.recursive(
    st.one_of(leaves, derived_, templates.map("".join).map(ir.Template)),
    lambda inner: st.one_of(
        inner.map(ir.Array),
        inner.map(ir.Record),
        st.lists(inner, min_size=2, max_size=3).map(union_of),
        st.lists(inner, min_size=2, max_size=3).map(intersection_of),
        st.lists(inner, min_size=1, max_size=3).map(lambda items: ir.Tuple(tuple(items))),
        st.lists(inner, min_size=2, max_size=3).map(lambda parts: ir.Tuple.of(parts, rest=True)),
        st.builds(ir.Obj, fields_of(inner), indexes_of(inner)),
    ),
    max_leaves=6,
)


@st.composite
def modules(draw: st.DrawFn) -> ir.Module:
    decls: list[ir.Decl] = [ir.Const(name, draw(literals), draw(tag_sets)) for name in CONSTS]
    for name in NAMES:
        if draw(st.booleans()):
            decls.append(ir.Alias(name, draw(types_), draw(tag_sets)))
        else:
            bases = tuple(draw(st.lists(bases_, max_size=2)))
            fields, index = draw(fields_of(types_)), draw(indexes_of(types_))
            decls.append(ir.Interface(name, bases, fields, index, draw(tag_sets)))
    return ir.Module(tuple(draw(st.permutations(decls))))


@pytest.mark.slow
@settings(max_examples=sampled(30))
@given(modules())
def test_any_module_survives_printing(module: ir.Module) -> None:
    text = print_module(module)
    assert parse(text) == module, text
    for decl in module.decls:
        assert not isinstance(decl, ir.Alias) or "\n" not in print_inline(decl.type)


@pytest.mark.slow
@settings(max_examples=sampled(20))
@given(modules(), st.integers(0, 2**32))
def test_any_module_survives_reformatting(module: ir.Module, seed: int) -> None:
    text = print_module(module)
    assert ir.contract(parse(Reformatter(seeded(seed), noise=True)(text))) == module


@pytest.mark.slow
@given(types_)
def test_a_printed_type_is_read_back_wherever_it_stands(type_: ir.TypeExpr) -> None:
    names = "".join(f"export type {name} = string;\n" for name in NAMES)
    consts = "".join(f"export const {name} = 1;\n" for name in CONSTS)
    found = parse(f"{names}{consts}export interface Z {{ z: {print_type(type_)} }}").types["Z"]
    assert isinstance(found, ir.Interface)
    assert found.fields[0].type == type_
