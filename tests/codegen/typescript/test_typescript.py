"""The parser reads the TypeScript that schema.ts uses, and reports the place of everything else.

Each unsupported construct has a fixture in which `§` marks the place of the error; the mark is removed before parsing.
The error has line, column, source line and a caret.
"""

from __future__ import annotations

from typing import Final

import pytest

from helpers.support import needs_upstream, parse, upstream_text
from mcprev_codegen import ir
from mcprev_codegen.errors import EXIT_CODE, CodegenError, SchemaError
from mcprev_codegen.typescript import jsdoc as comments, reader as typescript

MARK: Final = "§"

REFUSED: Final = {
    # -- declarations
    "an empty enum": "export §enum E { }",
    "an enum's member without a value": 'export enum E { A = "a", §B }',
    "an enum's value that is no constant": "export enum E { A = §f(1) }",
    "namespaces in namespaces without end": "namespace §" + "A." * 40 + "B { }",
    "a type in a namespace that is called as another": "type AB = 1;\nnamespace A { §type B = 2 }",
    "a type of another namespace": "namespace A { type B = 1 } namespace C { type D = §B }",
    "a name that an inner namespace hides": "namespace A { type B = 1 } namespace C { namespace A { } type D = §A.B }",
    "a module": 'export §module "m" { }',
    "globals": "§declare global { }",
    "a class": "export §class C { a: string = '' }",
    "an abstract class": "export §abstract class C { }",
    "a function": "export §function f(): void { }",
    "an ambient constant": "export declare const C§: () => void;",
    "an ambient constant without a type": "export declare const §C;",
    "an import": '§import { X } from "./x";',
    "a type import": '§import type { X } from "./x";',
    "a re-export": '§export * from "./x";',
    "a named re-export": '§export { X } from "./x";',
    "an export list": "export { §X };",
    "a default export": '§export default "x";',
    "a let": 'export §let A = "a";',
    "a var": 'export §var A = "a";',
    "a statement": "§console.log(1);",
    "a renaming export": "interface A { a: string }\n§export { A as B };",
    "a generic without its argument": "export interface A<T> { a: T }\nexport type B = §A;",
    "a generic with too many arguments": "export interface A<T> { a: T }\nexport type B = §A<string, string>;",
    "a generic without an end": "export interface A<T> { a?: §A<T[]> }\nexport type B = A<string>;",
    # -- constants
    "several constants in one statement": 'export const A = "a", §B = "b";',
    "a computed constant": "export const A = §1 + 2;",
    "an object constant": "export const A = §{ a: 1 };",
    "an array constant": "export const A = §[1];",
    "a typed constant": 'export const A§: string = "a";',
    "a constant from another": "export const A = 1;\nexport const B = §A;",
    "a big integer": "export const A = §10n;",
    "a positive sign": "export const A = §+1;",
    "null as a constant": "export const A = §null;",
    "a number that is none": "export const A = §1e999;",
    "an old octal number": "export const A = §010;",
    "a template with a placeholder": "export const A = §`a${1}`;",
    "a constant asserted to be wider": "export const A = §1 as number;",
    "a destructured constant": "export const §{ A } = 1;",
    # -- types
    "keyof a type with an index": "interface B { [k: string]: 1 }\ntype A = §keyof B;",
    "keyof an alias of a value": "type B = 1;\ntype A = §keyof B;",
    "keyof a type without members": "interface B { }\ntype A = §keyof B;",
    "keyof names that are numbers": "interface B { 1: 1 }\ntype A = §keyof B;",
    "keyof a circle": "interface B extends C { }\ninterface C extends B { }\ntype A = §keyof B;",
    "keyof itself": "interface A { a: 1; b: §keyof A }",
    "an indexed access to no member": 'interface B { a: 1 }\ntype A = §B["b"];',
    "an indexed access by any string": "interface B { a: 1 }\ntype A = B[§string];",
    "an indexed access to an optional member": 'interface B { a?: 1 }\ntype A = §B["a"];',
    "an optional member in a list": 'interface B { a?: 1 }\ninterface A { a: §B["a"][] }',
    "an item of no list": "interface B { a: 1 }\ntype A = §B[number];",
    "a mapped type with other members": "type A = { a: 1; [§K in string]: number };",
    "a mapped type that renames": 'type A = { [§K in "a" as "b"]: number };',
    "a mapped type over a circle": "type K = A[keyof A];\ntype A = { [L in §K]: 1 };",
    "Exclude that leaves nothing": 'type A = §Exclude<"a", string>;',
    "Extract of booleans": "type A = Extract<1 | true, §boolean>;",
    "NonNullable of null": "type A = §NonNullable<null>;",
    "NonNullable of anything": "type A = §NonNullable<unknown>;",
    "Uppercase of any string": "type A = Uppercase<§string>;",
    "Capitalize of half a letter": 'type A = Capitalize<§"𐐨">;',
    "an object in a template": "interface B { a: 1 }\ntype A = `a-§${B}`;",
    "a placeholder made of texts": 'type A = §`${"$"}{string}${string}`;',
    "a backtick in a template": "type A = §`${'`'}${string}`;",
    "templates without end": f"type D = {' | '.join(map(str, range(11)))};\ntype A = §`${{D}}${{D}}${{D}}`;",
    "undefined in a list": "interface A { a: (string | §undefined)[] }",
    "a date": "type A = §Date;",
    "an item behind a tuple's rest": "export type A = [...string[], §number];",
    "a member that the enum lacks": "export enum E { A }\nexport type B = §E.C;",
    "Partial of a union": "export type A = §Partial<string | number>;",
    "Pick with a key that is no name": "export interface B { a: string }\nexport type A = Pick<B, §number>;",
    "a conditional type": "export type A = §string extends number ? string : number;",
    "an infer type": "export type A = §string extends (infer U)[] ? U : string;",
    "a function type": "export type A = §(a: string) => string;",
    "a constructor type": "export type A = §new (a: string) => string;",
    "a type predicate's this": "export type A = §this;",
    "a qualified name": "export type A = §B.C;",
    "a qualified typeof": "export type A = §typeof B.c;",
    "an import type": 'export type A = §import("./x").X;',
    "a unique symbol": "export interface B { a: §unique symbol }",
    "void": "export type A = §void;",
    "never": "export type A = §never;",
    "symbol": "export type A = §symbol;",
    "bigint": "export type A = §bigint;",
    "undefined": "export type A = string | §undefined;",
    "an unknown generic": "export type A = §Map<string, string>;",
    "Array of two": "export type A = §Array<string, string>;",
    "a record with other keys": "export type A = Record<§number, string>;",
    # -- members
    "a method": "export interface A { §f(): string }",
    "an optional method": "export interface A { §f?(): string }",
    "a call signature": "export interface A { §(a: string): string }",
    "a construct signature": "export interface A { §new (a: string): A }",
    "a computed key": "export interface A { §[K]: string }",
    "a member without a type": "export interface A { §a }",
    "a getter": "export interface A { §get a(): string }",
    "a duplicate member": "export interface A {\n  a: string;\n  §a: number;\n}",
    "a duplicate member under quotes": 'export interface A { a: string; §"a": string }',
    "a symbol index": "export interface A { [k: §symbol]: string }",
    # -- bases
    "Omit without a key": "export interface B { a: string }\nexport interface A extends §Omit<B> { }",
    "a qualified base": "export interface A extends §B.C { }",
    # -- names
    "an interface and an alias": "export interface A { a: string }\n§export type A = string",
    "a member that differs in the parts of an interface": "interface A { a: string }\ninterface A { §a: number }",
    "an optional member in one part of an interface": "interface A { a: string }\ninterface A { §a?: string }",
    "a generic in parts": "interface A<T> { a: T }\n§interface A<T> { b: T }",
    "a duplicate alias": "export type A = string;\n§export type A = number;",
    "a second constant": "export const A = 1;\n§export const A = 1;",
    "a constant whose name with a `_` is taken": "export const A = 1;\nexport const A_ = 1;\n§export type A = string;",
    "constants that hold others twice": "const A0 = [1, 2] as const;\n"
    + "\n".join(f"const A{n} = [A{n - 1}, {'§' * (n == 14)}A{n - 1}] as const;" for n in range(1, 20))
    + "\ntype T = typeof A19;",
    "a dangling type": "export type A = string | §Missing;",
    "a dangling member type": "export interface A {\n  a?: §Missing[];\n}",
    "a dangling base": "export interface A extends §Missing { }",
    "a dangling Omit": 'export interface A extends Omit<§Missing, "a"> { }',
    "a dangling constant": "export interface A { a: §typeof MISSING }",
    "typeof a type": "export type B = string;\nexport interface A { a: §typeof B }",
    "a constant as a type": "export const B = 1;\nexport type A = §B;",
    # -- comments
    "a minimum that is no number": "export interface A {\n  §/** @minimum low */\n  a: number;\n}",
    # -- syntax
    "garbage": "§%%% garbage",
    "a missing brace": "export interface A {\n  a: string;§\n",
    "a missing name": "§export interface { a: string }",
    "a missing type": "export type A =§ ;",
    "a stray bracket": "export type A = string§[;",
}  # fmt: skip


def mark(fixture: str) -> tuple[str, int, int]:
    """The source of a fixture and the line and column of its mark."""
    before, found, _ = fixture.partition(MARK)
    assert found
    return fixture.replace(MARK, ""), before.count("\n") + 1, len(before.rpartition("\n")[2]) + 1


def refusal(source: str) -> SchemaError:
    with pytest.raises(SchemaError) as caught:
        parse(source)
    return caught.value


@pytest.mark.parametrize("fixture", REFUSED.values(), ids=REFUSED.keys())
def test_an_unsupported_construct_is_refused_with_its_place(fixture: str) -> None:
    source, line, column = mark(fixture)
    error = refusal(source)
    assert (error.line, error.column) == (line, column), str(error)
    shown = source.split("\n")[line - 1]
    first, second, third = str(error).split("\n")
    assert first.startswith(f"schema.ts:{line}:{column}: ")
    assert second == "    " + shown
    assert third == "    " + " " * (column - 1) + "^"


@pytest.mark.parametrize(
    ("fixture", "word"),
    [
        (REFUSED["a mapped type that renames"], "a mapped type"),
        (REFUSED["a module"], "a module with a name in quotes"),
        (REFUSED["a conditional type"], "a conditional type"),
        (REFUSED["keyof itself"], "'A' is defined in terms of itself"),
        (REFUSED["an indexed access to no member"], "there is no member 'b'"),
        (REFUSED["a member that differs in the parts of an interface"], "declared twice"),
        (REFUSED["a function type"], "a function type"),
        (REFUSED["a method"], "JSON has no functions"),
        (REFUSED["an import"], "put the declarations that it imports into this file"),
        (REFUSED["a generic without an end"], "refers to itself with ever new arguments"),
        (REFUSED["a class"], "a class"),
        (REFUSED["a function"], "a function"),
        (REFUSED["a computed constant"], "a computed value"),
        (REFUSED["never"], "'never'"),
        (REFUSED["a duplicate alias"], "first on line 1"),
        (REFUSED["a dangling type"], "'Missing' is not declared"),
        (REFUSED["a dangling constant"], "the constant 'MISSING'"),
        (REFUSED["a missing brace"], "'}' is missing"),
    ],
)
def test_the_message_names_the_construct(fixture: str, word: str) -> None:
    assert word in refusal(mark(fixture)[0]).message


def test_the_error_is_one_that_the_command_turns_into_exit_code_3() -> None:
    assert isinstance(refusal("export class E { }"), CodegenError)
    assert EXIT_CODE == 3


def test_the_column_counts_characters_and_not_bytes() -> None:
    error = refusal('export type A = "żółć — 🐍" | symbol;')
    assert error.column == len('export type A = "żółć — 🐍" | ') + 1
    assert error.source_line.startswith('export type A = "żółć')


def test_the_caret_stands_under_the_column_behind_tabs() -> None:
    error = refusal("export interface A {\n\t\ta: never;\n}")
    assert (error.line, error.column) == (2, 6)
    _, shown, caret = str(error).split("\n")
    assert shown.index("never") == caret.index("^")


def test_a_carriage_return_is_no_part_of_the_shown_line() -> None:
    error = refusal("export type A = string;\r\nexport type B = never;\r\n")
    assert (error.line, error.column) == (2, 17)
    assert error.source_line == "export type B = never;"


def test_a_byte_order_mark_is_passed_over_and_not_counted() -> None:
    assert parse("\ufeffexport type A = string;") == parse("export type A = string;")
    assert refusal("\ufeffexport type A = never;").column == 17


def test_windows_line_ends_make_no_difference() -> None:
    source = "/**\n * Two\n * lines.\n *\n * @category C\n */\nexport interface A {\n  /** Text. */\n  a: string; // note\n}\n"
    assert parse(source.replace("\n", "\r\n")) == parse(source)


@pytest.mark.slow
@needs_upstream
def test_windows_line_ends_make_no_difference_to_a_whole_file() -> None:
    from helpers.support import FOURTH, upstream_module

    crlf = upstream_text(FOURTH).replace("\n", "\r\n")
    assert ir.contract(parse(crlf)) == ir.contract(upstream_module(FOURTH))


# -- what is read ----------------------------------------------------------------------------------------


def alias(type_text: str, before: str = "") -> ir.TypeExpr:
    decl = parse(f"{before}\nexport type T = {type_text};").types["T"]
    assert isinstance(decl, ir.Alias)
    return decl.type


STRING, NUMBER, NULL = ir.Prim("string"), ir.Prim("number"), ir.Prim("null")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("string", STRING),
        ("unknown", ir.Prim("unknown")),
        ("any", ir.Prim("any")),
        ("object", ir.Prim("object")),
        ("null", NULL),
        ("(string)", STRING),
        ("string[]", ir.Array(STRING)),
        ("string[][]", ir.Array(ir.Array(STRING))),
        ("Array<string>", ir.Array(STRING)),
        ("ReadonlyArray<string>", ir.Array(STRING)),
        ("readonly string[]", ir.Array(STRING)),
        ("Readonly<A>", ir.Ref("A")),
        ("Array<string | null>", ir.Array(ir.Union((STRING, NULL)))),
        ("(string | number)[]", ir.Array(ir.Union((STRING, NUMBER)))),
        ("Record<string, number>", ir.Record(NUMBER)),
        ("{}", ir.Obj()),
        ("{ [key: string]: unknown }", ir.Obj((), ir.IndexSig("key", ir.Prim("unknown")))),
        ("string | number | null", ir.Union((STRING, NUMBER, NULL))),
        ("| string | number", ir.Union((STRING, NUMBER))),
        ("string | (number | null)", ir.Union((STRING, NUMBER, NULL))),
        ("(string | number) | null", ir.Union((STRING, NUMBER, NULL))),
        ("(string | (number | (null)))", ir.Union((STRING, NUMBER, NULL))),
        ("A & { a: string }", ir.Intersection((ir.Ref("A"), ir.Obj((ir.Field("a", STRING),))))),
        ("A & (A & A)", ir.Intersection((ir.Ref("A"),) * 3)),
        ("A & A | null", ir.Union((ir.Intersection((ir.Ref("A"), ir.Ref("A"))), NULL))),
        ("(A | null) & A", ir.Intersection((ir.Union((ir.Ref("A"), NULL)), ir.Ref("A")))),
        ("typeof C", ir.ConstRef("C")),
        ('"text"', ir.Lit("text")),
        ("'text'", ir.Lit("text")),
        ('""', ir.Lit("")),
        ("5", ir.Lit(5)),
        ("-5", ir.Lit(-5)),
        ("1.5", ir.Lit(1.5)),
        ("true", ir.Lit(True)),
        ("false", ir.Lit(False)),
        (r'"a\nb\t\"\\\u0041\x42\u{1F40D}\0"', ir.Lit('a\nb\t"\\AB🐍\0')),
        (r"'it\'s'", ir.Lit("it's")),
        ('"żółć — 🐍"', ir.Lit("żółć — 🐍")),
        ("string /* a */ | /* b */ number // c", ir.Union((STRING, NUMBER))),
        ("/* a */ string[]", ir.Array(STRING)),
        ("Array</* a */ string>", ir.Array(STRING)),
        ("(/* a */ string)", STRING),
    ],
)
def test_a_type_is_read(text: str, expected: ir.TypeExpr) -> None:
    found = alias(text.replace("// c", "// c\n"), "export const C = 1;\nexport interface A { a: string }")
    assert found == expected
    assert not isinstance(found, ir.Lit) or repr(found) == repr(expected)


@pytest.mark.parametrize(
    ("text", "value"),
    [('"2.0"', "2.0"), ("-32700", -32700), ("0", 0), ("1.0", 1.0), ("-0.5", -0.5), ("true", True)],
)
def test_a_constant_is_read(text: str, value: ir.Literal) -> None:
    found = parse(f"export const C = {text};").consts["C"].value
    assert repr(found) == repr(value)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("interface B { a?: 1 } type M = { [K in keyof B]: 3 }", "interface B { a?: 1 } type M = { a?: 3 }"),
        (
            'interface B { x: 1 } interface C { x: 2 } interface D extends B, C { } type T = D["x"]',
            "interface B { x: 1 } interface C { x: 2 } interface D extends B, C { } type T = 1",
        ),
        ('type P = Pick<{ a: 1; [k: string]: 1 }, "a">', "type P = { a: 1 }"),
        ('type P = Pick<Record<string, 1>, "a">', "type P = { a: 1 }"),
        ("type X = Exclude<1 | true, 1>", "type X = true"),
        (
            'type U = G<1>; interface G<T> { a: A["x"]; t: T } interface A { x: T } type T = 5',
            "type U = G1; interface G1 { a: T; t: 1 } interface A { x: T } type T = 5",
        ),
        ('const A = "a\\\nb"', 'const A = "ab"'),
    ],
)
def test_what_is_computed_means_what_is_written_out(written: str, meant: str) -> None:
    assert ir.contract(parse(written)) == ir.contract(parse(meant))


def test_a_number_too_large_to_be_exact_is_no_integer() -> None:
    assert repr(parse("const A = 1e300").consts["A"].value) == "1e+300"


def test_an_interface_is_read() -> None:
    source = """\
export interface Base { [key: string]: unknown }
export interface Wide { a: string; b: string }
export interface Thing extends Base, Omit<Wide, "a" | "b"> {
  name: string;
  "quoted-name/x"?: number,
  'single': true
  inline: { a?: string; [rest: string]: unknown };
  [key: string]: unknown;
}
"""
    thing = parse(source).types["Thing"]
    assert isinstance(thing, ir.Interface)
    assert thing.bases == (ir.Ref("Base"), ir.Derived("Omit", ir.Ref("Wide"), ("a", "b")))
    assert thing.index == ir.IndexSig("key", ir.Prim("unknown"))
    inline = ir.Obj((ir.Field("a", STRING, optional=True),), ir.IndexSig("rest", ir.Prim("unknown")))
    assert thing.fields == (
        ir.Field("name", STRING),
        ir.Field("quoted-name/x", NUMBER, optional=True),
        ir.Field("single", ir.Lit(True)),
        ir.Field("inline", inline),
    )


def test_source_order_and_lines_are_kept() -> None:
    module = parse(
        '\n// c\nexport const B = 1;\n\nexport type A =\n  | "a"\n  | "b";\nexport interface Z {}\n'
    )
    assert [d.name for d in module.decls] == ["B", "A", "Z"]
    assert [(d.span.line, d.span.end_line) for d in module.decls] == [(3, 3), (5, 7), (8, 8)]


def test_a_forward_reference_is_fine() -> None:
    assert list(parse("export type A = B;\nexport type B = string;").types) == ["A", "B"]


def test_an_empty_file_declares_nothing() -> None:
    assert parse("") == parse("// only a comment\n") == ir.Module(())


# -- comments --------------------------------------------------------------------------------------------


def doc_of(source: str, name: str = "A") -> ir.Doc:
    return next(d.doc for d in parse(source).decls if d.name == name)


def member_doc(body: str, name: str = "a") -> ir.Doc:
    decl = parse(f"export interface A {{\n{body}\n}}").types["A"]
    assert isinstance(decl, ir.Interface)
    return next(f.doc for f in decl.fields if f.name == name)


def test_jsdoc_loses_its_stars_and_keeps_its_lines() -> None:
    found = doc_of("/**\n * One.\n *\n * - two\n *   three\n */\nexport type A = string;")
    assert found.text == "One.\n\n- two\n  three"


def test_jsdoc_behind_a_line_comment_still_counts() -> None:
    found = doc_of("/** Text.\n * @category C */\n// a line in between\nexport type A = string;")
    assert found.text == "Text."
    tagged = parse("/** @category C */\n// a line\nexport type A = string;").types["A"]
    assert tagged.tags.category == "C"


INNER: dict[str, tuple[tuple[int, str], ...]] = {
    "/** The size. @minimum 0 */": ((1, "minimum"),),
    "/**\n * The size,\n * never negative (see @minimum 0).\n */": ((3, "minimum"),),
    "/** @format email @minLength 3 */": ((1, "minLength"),),
    "/**\n * @see others\n * of @maximum 5 @pattern x\n */": ((3, "maximum"), (3, "pattern")),
    "/** The `@minimum` of a@default.example, {@link Size}, somebody@minimum and @nobody. */": (),
    "/**\n * @example a @minimum 0\n * b @minimum 0\n */": (),
    "/**\n * The size.\n * @minimum 0\n */": (),
}
"""Comments, and the tags in the middle of their lines, each with its line."""


@pytest.mark.parametrize("comment", INNER)
def test_a_tag_in_the_middle_of_a_line_is_text_and_a_warning(comment: str) -> None:
    found = typescript.parse(f"export interface A {{\n{comment}\na: number }}", "schema.ts")
    assert found.warnings == tuple(
        f"schema.ts:{line + 1}: the JSDoc tag '@{name}' in the middle of a line is kept as prose; put it on a line of its own"
        for line, name in INNER[comment]
    )


def test_the_last_jsdoc_comment_counts() -> None:
    assert doc_of("/** First. */\n/** Second. */\nexport type A = string;").text == "Second."


def test_a_line_comment_is_no_documentation() -> None:
    assert doc_of("// eslint-disable-next-line\nexport type A = string;") == ir.NO_DOC
    assert member_doc("// eslint-disable-next-line\na: string;") == ir.NO_DOC


def test_a_one_line_block_comment_is_a_heading_and_no_text() -> None:
    source = "/* Tools */\n/** Text. */\nexport type A = string;\n/* Other */\nexport type B = string;"
    assert [d.doc for d in parse(source).decls] == [ir.Doc(text="Text."), ir.NO_DOC]


def test_a_heading_cuts_off_the_comments_above_it() -> None:
    found = doc_of("/** Stray. */\n\n/* Tools */\nexport type A = string;")
    assert found == ir.NO_DOC


def test_a_block_comment_of_several_lines_is_a_note_and_no_heading() -> None:
    found = doc_of("/* Policy\n * in two lines.\n */\nexport type A = string;")
    assert (found.text, found.notes) == (None, "Policy\nin two lines.")
    assert member_doc("/*\n * A note.\n */\na: string;").notes == "A note."


def test_a_comment_behind_a_member_belongs_to_it_and_not_to_the_next() -> None:
    body = "a: string; // about a\n/** About b. */\nb: string; // ignored\nc: string;"
    assert member_doc(body).notes == "about a"
    assert (member_doc(body, "b").text, member_doc(body, "b").notes) == ("About b.", None)
    assert member_doc(body, "c") == ir.NO_DOC


def test_a_comment_between_two_members_on_a_line_belongs_to_the_one_that_it_stands_before() -> None:
    (found,) = parse(
        "export interface A { a: string; /** @minimum 1 */ b: number; c: string; // about c\n}"
    ).decls
    assert isinstance(found, ir.Interface)
    a, b, c = found.fields
    assert (a.doc.text, a.tags.minimum) == (None, None)
    assert b.tags.minimum == 1
    assert c.doc.notes == "about c"


def test_comments_behind_enum_literals_are_kept_by_member() -> None:
    found = doc_of(
        'export type A =\n  | "a" // first\n  | "b"\n  | "c" // third\n  | "d"; // last\n\n/** B. */\nexport type B = string;'
    )
    assert found.members == ((0, "first"), (2, "third"), (3, "last"))


def test_the_comment_behind_the_last_literal_is_not_the_next_declarations() -> None:
    source = 'export type A = \n  | "a"\n  | "b"; // last\nexport interface B { a: string }'
    assert doc_of(source).members == ((1, "last"),)
    assert doc_of(source, "B") == ir.NO_DOC


def test_the_text_of_a_tag_runs_to_the_next_tag() -> None:
    source = "/**\n * Text.\n *\n * @deprecated Use\n * something else.\n * @see {@link B}\n * @internal\n */\nexport type A = string;"
    decl = parse(source).types["A"]
    assert decl.doc.text == "Text."
    assert decl.doc.tags == (("deprecated", "Use\nsomething else."), ("see", "{@link B}"))
    assert decl.tags == ir.Tags(deprecated=True, internal=True)


def test_every_tag_that_machines_act_on_is_read() -> None:
    source = """\
export interface A {
  /**
   * @format uri-template
   * @TJS-type number
   * @minimum 0
   * @maximum 1.5
   * @maxItems 100
   * @nullable
   * @category C D
   */
  a: number;
}
"""
    decl = parse(source).types["A"]
    assert isinstance(decl, ir.Interface)
    assert decl.fields[0].tags == ir.Tags(
        format="uri-template", minimum=0, maximum=1.5, max_items=100, tjs_type="number", nullable=True, category="C D"
    )  # fmt: skip


def test_an_at_sign_inside_a_line_is_no_tag() -> None:
    assert (
        doc_of("/** Mail a@b.c or {@link A}. */\nexport type A = string;").text == "Mail a@b.c or {@link A}."
    )


def test_an_empty_block_comment_is_nothing() -> None:
    assert doc_of("/**/\nexport type A = string;").text is None


# -- fragments -------------------------------------------------------------------------------------------


def test_a_fragment_is_one_member_whose_names_are_not_looked_up() -> None:
    found = typescript.parse_fragment("a?: Missing | integer;", "overlay.toml")
    assert found == ir.Field("a", ir.Union((ir.Ref("Missing"), ir.Ref("integer"))), optional=True)


@pytest.mark.parametrize("text", ["a: ;", "never", "a(): string", "}", "a: never"])
def test_a_fragment_that_is_no_member_is_refused(text: str) -> None:
    with pytest.raises(SchemaError):
        typescript.parse_fragment(text, "overlay.toml")


@pytest.mark.parametrize("text", ["", "a: string; b: string;"])
def test_a_fragment_that_is_not_one_member_is_refused(text: str) -> None:
    with pytest.raises(SchemaError):
        typescript.parse_fragment(text, "overlay.toml")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a {@link B} c", "a B c"),
        ("{@link B | the b}, {@link B the b}, {@link B|b}", "the b, the b, b"),
        ("{@link B\n| the\nb}", "the\nb"),
        ("{@link B |}", "B"),
        ("{@link }", "{@link }"),
        ("{@link {@link B}}", "{@link B}"),
        ("{@link B", "{@link B"),
    ],
)
def test_a_link_is_shown_as_its_label(text: str, shown: str) -> None:
    assert comments.plain_text(text) == shown


def test_constants_of_several_values_are_left_out_and_counted() -> None:
    module = parse(
        "export const A = ['a'] as const;\nexport declare const B: { readonly b: 1 };\nexport type T = typeof A[number];"
    )
    assert [decl.name for decl in module.decls] == ["T"]
    (warning,) = module.warnings
    assert warning.endswith("2 are left out, of which this is the first")
    assert warning.split(":")[1] == "1"
