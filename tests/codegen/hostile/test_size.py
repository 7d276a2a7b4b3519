"""Schemas that are small and stand for much, or deep, long or wide: commands end, with a result or an error at a place."""

from __future__ import annotations

import ast
import cProfile
from collections.abc import Callable, Sequence
from typing import Final

import pytest

from fuzz.fuzzing import each_once, in_time, sampled_of
from helpers.linear import assert_linear
from helpers.support import FOLDER
from mcprev_codegen import ir
from mcprev_codegen.diff import compare
from mcprev_codegen.diff.render.markdown import report_markdown
from mcprev_codegen.emit import package as emit, rendering
from mcprev_codegen.emit.models.planner import plan_models
from mcprev_codegen.emit.package import RevisionChain
from mcprev_codegen.emit.pydantic import model_files
from mcprev_codegen.errors import SchemaError
from mcprev_codegen.facts.load import load_bytes
from mcprev_codegen.facts.revision import Revision
from mcprev_codegen.python import module_name
from mcprev_codegen.typescript.reader.text import source_file

TYPES: Final = 5_000
"""The maximum number of types and members here: a tenth of the real one, so that the tests are fast."""
CALLS: Final = 1_500_000
"""The maximum number of calls of Python functions; a shape that takes exponential time needs far more."""
HEAD: Final = """
export interface Use { use: A0; more?: A0[]; map?: { [key: string]: A0 } }
export interface GetRequest { method: "get"; params: Use }
export interface GetResult { got: Use }
export interface EmptyResult { [key: string]: unknown }
export type ClientRequest = GetRequest;
export type ServerResult = GetResult | EmptyResult;
"""


def chain(count: int, step: str, last: str) -> str:
    """Declarations that refer to the next one each, `{0}` and `{1}`, and a last one."""
    steps = (step.replace("{0}", str(n)).replace("{1}", str(n + 1)) for n in range(count))
    return HEAD + "\n".join([*steps, last.replace("{0}", str(count))])


def nested(count: int, before: str, after: str) -> str:
    return HEAD + f"type A0 = {before * count}string{after * count};"


def ring(count: int, step: str) -> str:
    """Declarations of which the last one refers to the first one."""
    steps = (step.replace("{0}", str(n)).replace("{1}", str((n + 1) % count)) for n in range(count))
    return HEAD + "\n".join(steps)


def each(text: str, count: int) -> str:
    return listed(text, "", count)


def listed(text: str, between: str, count: int) -> str:
    """A text `count` times, `{n}` numbered and `{m}` one more."""
    return between.join(text.format(n=n, m=n + 1) for n in range(count))


OBJECT: Final = "interface A{0} { end: string }"
SMALL: Final = {
    "doubling unions": chain(30, "type A{0} = A{1} | A{1};", OBJECT),
    "doubling unions of values": chain(30, "type A{0} = A{1} | A{1};", "type A{0} = string;"),
    "doubling unions with a member each": chain(30, 'type A{0} = A{1} | "x{0}" | A{1};', "type A{0} = number;"),
    "doubling lists": chain(30, "type A{0} = A{1}[] | { [key: string]: A{1} };", OBJECT),
    "doubling tuples": chain(30, "type A{0} = [A{1}, A{1}];", "type A{0} = string;"),
    "doubling members": chain(30, "interface A{0} { a: A{1}; b: A{1}; c?: A{1}[] }", OBJECT),
    "doubling bases": chain(25, "interface A{0} extends A{1}, B{1} {} interface B{0} extends A{1}, B{1} {}", OBJECT + "interface B{0} {}"),
    "doubling bases with changed members": chain(
        22, "interface A{0} extends A{1}, B{1} { end: 'a{0}' } interface B{0} extends A{1}, B{1} { end: 'b{0}' }",
        OBJECT + "interface B{0} {}",
    ),
    "doubling intersections": chain(25, "type A{0} = A{1} & B{1}; type B{0} = A{1} & B{1};", OBJECT + "interface B{0} {}"),
    "doubling keys": HEAD + chain(30, "type K{0} = K{1} | K{1};", "type K{0} = 'end';")[len(HEAD):] + "interface T { end: string } interface A0 { a: Pick<T, K0> }",
    "doubling generics": chain(19, "interface G{0}<T> { a: G{1}<T[]>; b: G{1}<Record<string, T>> }", "interface G{0}<T> { a: T } interface A0 { a: G0<string> }"),
    "growing arguments": chain(19, "interface G{0}<T> { a: G{1}<T | T[] | Record<string, T>> }", "interface G{0}<T> { a: T } interface A0 { a: G0<string> }"),
    "generics without end": HEAD + "interface A0 { a: G<string> } interface G<T> { a: G<T[]> }",
    "doubling indexed accesses": chain(30, 'interface A{0} { v: { a: A{1}["v"]; b: A{1}["v"] } }', "interface A{0} { v: { end: string } }"),
    "doubling indexed accesses of unions": chain(30, 'interface A{0} { v: (A{1} | B{1})["v"] | "x{0}" } interface B{0} { v: (A{1} | B{1})["v"] }', "interface A{0} { v: 'end' } interface B{0} { v: 'b' }"),
    "doubling non-null types": chain(30, "type A{0} = NonNullable<A{1} | { a: A{1} }> | null;", OBJECT),
    "doubling templates": chain(30, "type A{0} = `${A{1}}${A{1}}`;", "type A{0} = 'end' | 'b';"),
    "doubling texts of templates": chain(30, "type A{0} = `${A{1}}${A{1}}`;", "type A{0} = 'end';"),
    "doubling members of bases": chain(30, "interface A{0} extends A{1}, B{1} {} interface B{0} extends A{1}, B{1} {} interface C{0} { c: keyof A{0} }", OBJECT + "interface B{0} {}"),
    "doubling mapped types": HEAD + "type A0 = " + "".join(f"{{ [K{n} in 'a' | 'b']: " for n in range(30)) + "string" + " }" * 30 + ";",
    "mapped types of mapped types": chain(30, "type A{0} = { [K in keyof A{1}]: A{1}[K] | { a: A{1}[K] } };", OBJECT),
    "doubling parameters of mapped types": chain(30, "interface A{0} { a: { [K in 'a' | 'b']: G{0}<K> } } interface G{0}<T> { k: T; a: A{1} }", OBJECT),
    "keys of keys": chain(30, "type A{0} = Record<keyof A{1} | 'k{0}', A{1}>;", OBJECT),
    "a ring of indexed accesses": ring(30, 'interface A{0} { v: A{1}["v"] }'),
    "a ring of mapped types": ring(30, "type A{0} = { [K in keyof A{1}]: 1 };"),
    "a ring of non-null types": ring(30, "type A{0} = NonNullable<A{1}> | string;"),
    "a long chain of non-null types": chain(200, "type A{0} = NonNullable<A{1}> | null;", OBJECT),
    "a long chain of keys": chain(200, "interface A{0} extends A{1} { m{0}: string } type K{0} = keyof A{0};", OBJECT),
    "deeper and deeper accesses": HEAD + "interface C0 { v: { end: string } }" + " ".join(
        f'interface C{n + 1} {{ v: {{ a: C{n}["v"] }} }}' for n in range(200)
    ) + "interface A0 { a: C200 }",
    "a ring of lists": ring(30, "type A{0} = A{1}[] | { [key: string]: A{1} } | string;"),
    "a ring of rings": ring(30, "type A{0} = A{1}[] | A0[] | A{0}[] | string;"),
    "a ring of members": ring(30, "interface A{0} { a: A{1}; b?: A0 }"),
    "a ring of aliases": ring(40, "type A{0} = A{1};"),
    "a ring of unions": ring(40, "type A{0} = A{1} | string;"),
    "a ring of bases": ring(40, "interface A{0} extends A{1} {}"),
    "a long chain of aliases": chain(300, "type A{0} = A{1};", OBJECT),
    "a long chain of unions": chain(50, "type A{0} = A{1} | B{0}; interface B{0} { kind: 'b{0}' }", "interface A{0} { kind: 'a' }"),
    "a long chain of members": chain(150, "interface A{0} { a: A{1} }", OBJECT),
    "a long chain of lists": chain(150, "type A{0} = A{1}[];", OBJECT),
    "a long chain of bases": chain(200, "interface A{0} extends A{1} { m{0}: string }", OBJECT),
    "a short chain of bases": chain(20, "interface A{0} extends A{1} { m{0}: string }", OBJECT),
    "aliases of one that doubles": chain(13, "type A{0} = [A{1}, A{1}];", "type A{0} = string;") + " ".join(f"type C{n} = A0[];" for n in range(300)),
    "unions that share members": HEAD + " ".join(
        f"type A{n} = {' | '.join([*(f'A{m}' for m in range(n + 1, min(n + 20, 400))), repr(f'x{n}')])};" for n in range(400)
    ),
    "a wide object": HEAD + f"interface A0 {{ {' '.join(f'a{n}: boolean;' for n in range(1_000))} }}",
    "members that differ": chain(25, "interface A{0} { k: A{1} | { k: A{1}; z?: string } }", OBJECT),
}  # fmt: skip
KINDS: Final = "interface B{n} {{ k{n}: 'k' }} "
SECTIONS: Final = "/** @category c{n} */ " + KINDS
WIDE: Final[dict[str, Callable[[int], str]]] = {
    "bases": lambda n: each(KINDS, n) + f"interface A0 extends {listed('B{n}', ', ', n)} {{ z: string }}",
    "parts of an intersection": lambda n: each(KINDS, n) + f"type A0 = {listed('B{n}', ' & ', n)};",
    "members of a union": lambda n: each(KINDS, n) + f"type A0 = {listed('B{n}', ' | ', n)};",
    "references": lambda n: each(KINDS, n) + f"interface A0 {{ {each('m{n}: B{n}; ', n)}}}",
    "sections": lambda n: each(SECTIONS, n) + f"type A0 = {listed('B{n}', ' | ', n)};",
    "sections of one family": lambda n: each(SECTIONS.replace("@category c", "@category c/"), n) + "interface A0 {}",
    "sections that need the next one": lambda n: each("/** @category c{n} */ type A{n} = A{m}[]; ", n) + f"type A{n} = string;",
    "picked members": lambda n: f"interface T {{ {each('m{n}: string; ', n)}}} interface A0 {{ a: Pick<T, {listed(repr('m{n}'), ' | ', n)}> }}",
}  # fmt: skip
"""Schemas of a size, in which something is looked for among many others."""
LARGE: Final = {
    **{f"{count} nested {name}": nested(count, *pair) for count in (100, 10_000) for name, pair in {
        "parentheses": ("(", ")"), "lists": ("", "[]"), "generics": ("Array<", ">"), "objects": ("{ a: ", " }"),
        "tuples": ("[", "]"), "records": ("Record<string, ", ">"), "partials": ("Partial<", ">"),
        "optional parts": ("{ a?: (", " | null)[] }"),
    }.items()},
    "a type name": HEAD + f"interface A0 {{ a: {'X' * 1_000_000} }} interface {'X' * 1_000_000} {{}}",
    "a member's name": HEAD + f"interface A0 {{ {'x' * 1_000_000}: string }}",
    "a quoted name": HEAD + f"interface A0 {{ '{'x' * 1_000_000}': string }}",
    "a literal": HEAD + f"type A0 = '{'x' * 1_000_000}';",
    "a template": HEAD + f"type A0 = `{'x' * 1_000_000}`;",
    "a number": HEAD + f"type A0 = {'9' * 10_000};",
    "a constant": HEAD + f"const C = -{'9' * 10_000}; interface A0 {{}}",
    "members": HEAD + f"interface A0 {{ {' '.join(f'a{n}: string;' for n in range(5_200))} }}",
    "literals": HEAD + f"type A0 = {' | '.join(f'{n}' for n in range(5_200))};",
    "enum members": HEAD + f"enum A0 {{ {', '.join(f'a{n}' for n in range(5_200))} }}",
    "declarations": HEAD + "interface A0 {}" + " ".join(f"interface B{n} {{}}" for n in range(10_100)),
    "bases": HEAD + "interface B {}" + f"interface A0 extends {', '.join(['B'] * 6_000)} {{}}",
    "inherited members": HEAD
    + f"interface B {{ {' '.join(f'b{n}: string;' for n in range(300))} }} interface A0 extends B {{}}"
    + " ".join(f"interface C{n} extends B {{}}" for n in range(300)),
    "placeholders": HEAD + f"type A0 = `{'${string}' * 10_000}`;",
    "placeholders of literals": HEAD + f"type B = 'x' | 'y'; type A0 = `{'${B}' * 9}{'${1}' * 4_000}`;",
    "templates": HEAD + "type B = 'x' | 'y'; " + " ".join(f"type A{n} = `{n}{'${B}' * 9}`;" for n in range(300)),
    "keys": HEAD + f"interface B {{ {' '.join(f'a{n}: string;' for n in range(1_000))} }}" + " ".join(f"type A{n} = keyof B;" for n in range(300)),
    "members of derived types": HEAD + f"interface B {{ {' '.join(f'a{n}: string;' for n in range(1_000))} }}" + " ".join(f"interface A{n} {{ a: Omit<B, 'a{n}'>['a999'] }}" for n in range(300)),
    "excluded values": HEAD + f"type B = {' | '.join(map(str, range(1_000)))}; type C = {' | '.join(map(str, range(1, 1_001)))}; type A0 = Exclude<B, C>;",
    "mapped members": HEAD + f"interface B {{ {' '.join(f'a{n}: string;' for n in range(900))} }} type A0 = {{ [K in keyof B]: {{ a: B[K]; b: B[K][] }} }};",
    "parts of an interface": HEAD + " ".join(f"interface A0 {{ a{n}: string }}" for n in range(3_000)),
    "the same members in parts": HEAD + f"interface A0 {{ {' '.join(f'a{n}: string;' for n in range(40))} }}" * 300,
    **{f"{count} namespaces in namespaces": HEAD + "interface A0 { a: string }" + "namespace N {" * count + "type B = 1;" + "}" * count for count in (30, 1_000)},
    "a namespace with a long name": HEAD + f"interface A0 {{ a: string }} namespace {'X' * 1_000_000} {{ type B = 1 }}",
    "a hexadecimal number": HEAD + f"type A0 = 0x{'f' * 10_000};",
    "a number with separators": HEAD + f"type A0 = {'1_' * 10_000}1;",
    "comments": HEAD + f"interface A0 {{ a: string; {'/* x */ ' * 10_000}}}",
    "links": HEAD + f"/** {'{@link x ' * 10_000} */ interface A0 {{}}",
    "half a character": HEAD + "type A0 = '\\ud800';",
    "no character": HEAD + "type A0 = '\\u{110000}';",
}  # fmt: skip


def in_steps(work: Callable[[], object]) -> None:
    """Do some work that may end with an error at a place of the file; fail if it takes too many steps."""
    refused: SchemaError | None = None
    profile = cProfile.Profile(builtins=False)
    with in_time():
        profile.enable()
        try:
            work()
        except SchemaError as error:
            refused = error
        finally:
            profile.disable()
    calls = sum(entry.callcount for entry in profile.getstats())
    assert calls <= CALLS
    if refused:
        assert refused.path == "schema.ts"
        assert refused.line > 0
        assert len(str(refused)) < 5_000


@pytest.fixture(autouse=True)
def _prepared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_file, "MAX_TYPES", TYPES)


def load(text: str) -> Revision:
    return load_bytes(FOLDER, text.encode(), "schema.ts", "", "2099-01-01")


def changed(text: str) -> str:
    """The same with another end, so that each comparison has to go all the way."""
    return (
        text.replace("end: string", "end: number")
        .replace("'end'", "'end' | 'other'")
        .replace("= string;", "= boolean;")
    )


NO_CHAIN: Final = [name for name in SMALL if "long" not in name]


def shapes(names: Sequence[str], some: Sequence[str]) -> pytest.MarkDecorator:
    """Small schemas of these names: all in `make fuzz`, some in `make test`."""
    return pytest.mark.parametrize(
        "text", [pytest.param(SMALL[name], id=name) for name in sampled_of(names, some)]
    )


@shapes([*SMALL], [*SMALL][::2])
def test_comparing_takes_few_steps(text: str) -> None:
    def work() -> None:
        old, new = load(text), load(changed(text))
        for one, other in ((old, new), (new, old), (old, old)):
            report_markdown(compare(one, other))

    in_steps(work)


@shapes(NO_CHAIN, [name for name in NO_CHAIN if name in [*SMALL][1::2]])
def test_generating_takes_few_steps(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rendering, "format_python", str)
    in_steps(lambda: emit.package_files(load(text), RevisionChain([load(text)], None, ())))


@pytest.mark.parametrize("text", LARGE.values(), ids=LARGE.keys())
def test_what_is_deep_long_or_wide_is_read_or_refused(text: str) -> None:
    in_steps(lambda: compare(load(text), load(text)))


def planned(revision: Revision) -> None:
    list(model_files(plan_models(revision, (), {})))


def compared(revision: Revision) -> None:
    compare(revision, revision)


@each_once
@pytest.mark.parametrize("work", [planned, compared])
@pytest.mark.parametrize("shape", WIDE.values(), ids=WIDE.keys())
def test_the_steps_of_a_wide_schema_grow_with_it(
    shape: Callable[[int], str], work: Callable[[Revision], object]
) -> None:
    assert_linear(work, lambda size: load(HEAD + shape(size)), sizes=(48, 96, 192))


@each_once
@pytest.mark.parametrize("step", ["interface B{n} {{ end: string }} ", "type B{n} = string; "])
def test_the_steps_of_comparing_types_that_all_changed_alike_grow_with_them(step: str) -> None:
    """They may have exchanged their names, each with any other."""

    def sides(size: int) -> tuple[Revision, Revision]:
        text = HEAD + OBJECT.replace("{0}", "0") + " " + each(step, size)
        return load(text), load(changed(text))

    assert_linear(lambda both: compare(*both), sides, sizes=(48, 96, 192))


class _Key(str):
    """A name that counts how often it is compared."""

    __slots__ = ()
    compared = 0

    def __eq__(self, other: object) -> bool:
        _Key.compared += 1
        return str.__eq__(self, other) is True

    __hash__ = str.__hash__


@pytest.mark.parametrize("kind", ["Pick", "Omit"])
def test_a_picked_member_is_compared_with_few_others(kind: str) -> None:
    _Key.compared = 0
    fields = [ir.Field(_Key(f"m{n}"), ir.Prim("string")) for n in range(1_000)]
    ir.derive(kind, fields, None, [_Key(f"m{n}") for n in range(1_000)])
    assert _Key.compared < 10_000


@pytest.mark.slow
def test_a_large_package_is_not_formatted_and_has_the_same_meaning(monkeypatch: pytest.MonkeyPatch) -> None:
    revision = load(SMALL["a wide object"])
    formatted = emit.package_files(revision, RevisionChain([revision], None, ()))
    monkeypatch.setattr(rendering, "_MAX_FORMATTED", 10_000)
    monkeypatch.setattr(rendering, "format_python", _refuse)
    plain = emit.package_files(revision, RevisionChain([revision], None, ()))
    assert plain.keys() == formatted.keys()
    assert all(
        emit.is_generated(f"{module_name(revision.name)}/{file}", text) for file, text in plain.items()
    )
    python = [file for file in plain if file.endswith(".py")]
    assert {file: _meaning(plain[file]) for file in python} == {
        file: _meaning(formatted[file]) for file in python
    }


def _refuse(_text: str) -> str:
    pytest.fail("formatted")


def _meaning(text: str) -> str:
    """A module without the whitespace in its docstrings, which black changes."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            node.value = " ".join(node.value.split())
    return ast.dump(tree)
