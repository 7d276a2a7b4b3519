"""Schemas of several files, and of files that mix types with code: what they mean, written as one file of data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import pytest

from mcprev_codegen import ir
from mcprev_codegen.errors import CodegenError
from mcprev_codegen.inputs import TypeScriptFiles, schema_file
from mcprev_codegen.typescript import parse, print_module

X: Final = "export interface A { a: 1 } interface B { b: A }"
FILES: Final[dict[str, tuple[dict[str, str], str]]] = {
    "a name from a file beside it": (
        {"s.ts": 'import { A } from "./x"; export type T = A[]', "x.ts": X},
        "type T = A[]; interface A { a: 1 }",
    ),
    "only what is needed, under its own name": (
        {"s.ts": 'import type { B as C, type A } from "./x.js"; export interface T { c: C }', "x.d.ts": X},
        "interface T { c: B } interface B { b: A } interface A { a: 1 }",
    ),
    "all names of a file": (
        {"s.ts": 'import * as N from "./x.mjs"; interface T extends N.A { b: N.M.D }', "x.mts": X + "namespace M { type D = 2 }"},
        "interface T extends A { b: MD } interface A { a: 1 } type MD = 2",
    ),
    "an import with an equals sign": (
        {"s.ts": 'import N = require("./x"); import Y = N.A; type T = Y', "x/index.d.ts": X},
        "type T = A; interface A { a: 1 }",
    ),
    "variance, with comments before it": (
        {"s.ts": "interface P<\n/** @ts-ignore, with, commas */\nout T, /* , */ in out U = T> { t: T; u: U } export interface A { p: P<1, 2> }"},
        "interface A { p: P12 } interface P12 { t: 1; u: 2 }",
    ),
    "default exports": (
        {"s.ts": 'import A, { type C } from "./x"; type T = A | C', "x.ts": "export default interface D { a: 1 } type C = 1; export { C }"},
        "type T = D | C; interface D { a: 1 } type C = 1",
    ),
    "a default export by name": (
        {"s.ts": 'import A from "./x"; type T = A', "x.ts": "type D = 1; export default D"},
        "type T = D; type D = 1",
    ),
    "export =": (
        {"s.ts": 'import D from "./x"; import { B } from "./x"; type T = D.B | B', "x.ts": "declare namespace N { type B = 1 } export = N"},
        "type T = NB | NB; type NB = 1",
    ),
    "exports from other files": (
        {"s.ts": 'export * from "./x"; export { C as D } from "./y"; export type * as N from "./y"; export { C };  type C = 3', "x.ts": X, "y.ts": "export type C = 2"},
        "type C = 3; interface A { a: 1 } interface B { b: A } type D = 2; type NC = D",
    ),
    "exports through several files, with circles": (
        {"s.ts": 'import { A, C } from "./x"; type T = A | C', "x.ts": 'export * from "./y"; export type C = 1', "y.ts": 'export * from "./x"; export { Z as A } from "./z"', "z.ts": "export type Z = 2"},
        "type T = Z | C; type C = 1; type Z = 2",
    ),
    "an export under another name": (
        {"s.ts": "interface a { x: b } type b = 1; export { a as Parser, b as Name }"},
        "interface Parser { x: Name } type Name = 1",
    ),
    "exports of names in a namespace": (
        {"s.ts": "interface A { a: R.C } declare namespace R { export { A as C, type A as A } } type T = R.A"},
        "interface A { a: A } type T = A",
    ),
    "names that clash": (
        {"s.ts": 'import { A as C } from "./some-module"; type A = 1; type T = C', "some-module.ts": "export type A = 2"},
        "type A = 1; type T = SomeModuleA; type SomeModuleA = 2",
    ),
    "packages": (
        {"s.ts": 'import type { A } from "p"; import type { B } from "@s/q/sub"; import { C } from "r"; import { D } from "p/deep/x"; type T = A | B | C | D',
         "node_modules/p/package.json": json.dumps({"exports": {".": {"import": {"types": "./t.d.mts", "default": "./t.mjs"}}, "./deep/*": "./d/*.js"}}),
         "node_modules/p/t.d.mts": "export type A = 1", "node_modules/p/d/x.d.ts": "export type D = 4",
         "node_modules/@s/q/sub/index.d.ts": "export type B = 2", "node_modules/@types/r/package.json": '{"types": "i"}',
         "node_modules/@types/r/i.d.ts": "export type C = 3"},
        "type T = A | B | C | D; type A = 1; type B = 2; type C = 3; type D = 4",
    ),
    "globals within a module in quotes": (
        {"s.ts": 'declare module "m" { interface A { a: 1 } global { interface B { b: 2 } } } import { A } from "m"; type T = A'},
        "interface A { a: 1 } interface B { b: 2 } type T = A",
    ),
    "modules in quotes and globals": (
        {"s.ts": 'declare module "m" { interface A { a: G } } declare module "m" { namespace N { type B = A } } declare global { type G = 1 } type T = 2'},
        "interface A { a: G } type NB = A; type G = 1; type T = 2",
    ),
    "a part of a package's own module": (
        {"node_modules/p/package.json": '{"name": "p", "types": "i.d.ts"}', "node_modules/p/i.d.ts": "///<reference path='./o.d.ts' />\n",
         "node_modules/p/o.d.ts": 'declare module "p" { namespace N { interface B { b: 1 } } }',
         "node_modules/p/s.d.ts": 'declare module "p" { namespace N { interface A { a: N.B } } }'},
        "interface NA { a: NB } interface NB { b: 1 }",
    ),
    "references to files of globals": (
        {"s.ts": '/// <reference path="g.d.ts" />\n/// <reference types="t" />\ntype T = G.A | H', "g.d.ts": "declare namespace G { type A = 1 }", "node_modules/t/index.d.ts": "type H = 2"},
        "type T = GA | H; type GA = 1; type H = 2",
    ),
    "import types": (
        {"s.ts": 'type T = import("./x").A | import("./x").N.B', "x.ts": "export type A = 1; namespace N { type B = 2 }"},
        "type T = A | NB; type A = 1; type NB = 2",
    ),
    "a namespace that a file is known as": (
        {"s.ts": "type A = 1; namespace N { type B = g.A } export as namespace g"}, "type A = 1; type NB = A",
    ),
    "undefined in aliases": (
        {"s.ts": "type A = string | undefined; type B = A; interface C { a: A; b: B[]; c: B | null; d: 1 }"},
        "type A = string; type B = A; interface C { a: A | undefined; b: B[]; c: B | null | undefined; d: 1 }",
    ),
    "an interface that another file adds to": (
        {"s.ts": 'import { A } from "./x"; declare module "./x" { interface A { b: 2 } } type T = A', "x.ts": X},
        "interface A { a: 1; b: 2 } type T = A",
    ),
    "generics, enums and constants of other files": (
        {"s.ts": 'import { P, E, C } from "./x"; type T = P<E.B>; type K = typeof C; type F = E',
         "x.ts": 'type D = 1; export interface P<T, U = D> { t: T; u: U } export enum E { A, B = "b" } export const C = "c"'},
        'type T = PBD; type K = typeof C; type F = E; type D = 1; interface PBD { t: "b"; u: D } type E = 0 | "b"; const C = "c"',
    ),
}  # fmt: skip
CODE: Final[dict[str, tuple[str, str, list[str]]]] = {
    "classes, functions and values": (
        "export declare class C {} export function f(): void {} declare let x: 1; const y = f(); var z; export abstract class D {} export default f(); interface A { a: 1 }",
        "interface A { a: 1 }",
        ["classes do not describe data: 2 are left out", "functions do not describe data", "constants without a value", "variables do not", "values do not"],
    ),
    "methods and functions of a type": (
        "type F = (a: 1) => void; interface A { a: 1; f(): 1; g?: F; h: (() => 1) | string; i: new () => A; (): 1; [Symbol.iterator](): 1; [S.x]: 1 }",
        "interface A { a: 1; h: string | undefined }",
        ["functions do not describe data: 6 are left out", "1 declarations are left out for functions: 'F'"],
    ),
    "members that a constant names": (
        'const K = "k"; enum E { A = "a" } interface A { [K]: 1; [E.A]: 2; ["x"]: 3 }',
        'const K = "k"; type E = "a"; interface A { k: 1; a: 2; x: 3 }', [],
    ),
    "types that need code": (
        "class C {} interface A { c: { x: C[] } } interface B { a?: A } interface D { d: 1 } declare const u: unique symbol; type S = typeof u",
        "interface D { d: 1 }",
        ["2 declarations are left out for classes: 'A', 'B' (B.a -> A)", "2 declarations are left out for constants without a value that is written out: 'u', 'S'"],
    ),
    "what has no value": (
        "type V = void; type U = undefined; type N = never; interface A { n: never } interface B { b?: never }", "interface B { b?: never }",
        ["left out for what has no value: 'V', 'U', 'N', 'A'"],
    ),
    "other types of the language": (
        "interface A { m: Map<string, 1> } interface B { r: RegExp } type C = bigint; interface D { [k: symbol]: 1; d: 1 }",
        "interface D { d: 1 }", ["for values of Map: 'A'", "for values of RegExp: 'B'", "for values of bigint: 'C'", "symbols do not describe data"],
    ),
    "conditional types": (
        "type N<T> = T extends string ? 1 : 2; type A = N<1>; interface B { b: 1 }", "interface B { b: 1 }",
        ["1 declarations are left out for conditional types: 'A'"],
    ),
    "types of the platform": (
        "interface A { b: ReadableStream } interface B { b: 1 }", "interface B { b: 1 }",
        ["left out for types of the platform"],
    ),
    "packages that are not there": (
        'import { X } from "nowhere"; interface A { x: X } interface B { b: 1 }', "interface B { b: 1 }",
        ["'X' is imported from 'nowhere', which cannot be found; install that package"],
    ),
}  # fmt: skip


def folder(place: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(text)
    return next(place / name for name in files if Path(name).stem.partition(".")[0] == "s")


def printed(module: ir.Module) -> list[str]:
    return sorted(print_module(ir.Module((decl,))) for decl in ir.contract(module).decls)


@pytest.mark.parametrize("name", FILES)
def test_several_files_mean_what_one_file_means(tmp_path: Path, name: str) -> None:
    files, meaning = FILES[name]
    path = folder(tmp_path, files)
    found = parse(path.read_text(), str(path), TypeScriptFiles(), strict=False)
    assert printed(found) == printed(parse(meaning, "meaning.ts"))


@pytest.mark.parametrize("name", CODE)
def test_what_describes_no_data_is_left_out_and_told(name: str) -> None:
    source, meaning, told = CODE[name]
    found = parse(source, "s.d.ts", TypeScriptFiles(), strict=False)
    assert printed(found) == printed(parse(meaning, "meaning.ts"))
    for one in told:
        assert any(one in warning for warning in found.warnings), found.warnings
    if told:
        with pytest.raises(CodegenError):
            parse(source, "s.d.ts", TypeScriptFiles())


ROOTS: Final = (
    "class C {} interface A { b?: B } interface B { x: D[] } interface D { c: C } interface E { e: F } type F = 1; namespace N { type G = 1 }"
)


def test_roots_are_generated_with_what_they_need() -> None:
    for roots, meaning in (
        (["E"], "interface E { e: F } type F = 1"),
        (["F", "N.G"], "type F = 1; type NG = 1"),
    ):
        assert printed(parse(ROOTS, "s.ts", strict=False, roots=roots)) == printed(
            parse(meaning, "meaning.ts")
        )


@pytest.mark.parametrize(
    ("root", "told"),
    [
        ("A", r"s\.ts:1:\d+: 'C' is a class .* \(needed by A\.b -> B\.x -> D\)"),
        ("D", "'C' is a class or function"),
        ("Z", "s.ts: it declares and exports no type 'Z'"),
    ],
)
def test_a_root_that_needs_code_is_refused_with_the_path_to_it(root: str, told: str) -> None:
    with pytest.raises(CodegenError, match=told):
        parse(ROOTS, "s.ts", strict=False, roots=[root])


def test_a_file_of_code_alone_is_refused() -> None:
    with pytest.raises(CodegenError, match="'C' is a class"):
        parse("class C {} interface A { c: C }", "s.ts", strict=False)


def test_an_error_names_the_file_that_it_is_in(tmp_path: Path) -> None:
    path = folder(
        tmp_path, {"s.ts": 'import { A } from "./x"; type T = A', "x.ts": "\nexport type A =\n  [...string];"}
    )
    with pytest.raises(CodegenError, match=r"x\.ts:3:4: only arrays and tuples"):
        parse(path.read_text(), str(path), TypeScriptFiles(), strict=False)


def test_a_schema_is_a_file_a_folder_or_a_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder(
        tmp_path,
        {"f/index.ts": "", "node_modules/p/package.json": '{"types": "s.d.ts"}', "node_modules/p/s.d.ts": ""},
    )
    monkeypatch.chdir(tmp_path)
    assert schema_file(tmp_path / "f") == schema_file(tmp_path / "f/index.ts") == tmp_path / "f/index.ts"
    assert schema_file(Path("p")) == tmp_path / "node_modules/p/s.d.ts"
    with pytest.raises(CodegenError, match="there is no such file"):
        schema_file(Path("q"))


@pytest.mark.parametrize(
    "data",
    ["[", "[" * 100_000, '"x"', '{"exports": ' + '{"types": ' * 100 + "1" + "}" * 101, '{"types": "../../s.ts", "main": "."}', '{"exports": {".": [null, {"default": "./x/../../s"}]}}', '{"types": "HERE/s.ts"}', '{"types": "x\\u0000.ts"}'],
    ids=range(8),
)  # fmt: skip
def test_a_package_that_is_no_package_is_not_found(tmp_path: Path, data: str) -> None:
    path = folder(tmp_path, {"s.ts": "", "node_modules/p/package.json": data.replace("HERE", str(tmp_path))})
    assert TypeScriptFiles().find("p", str(path)) is None
    for name in ("p/../../s", "../\0", "p/\0", "", ".", "..", "/etc/passwd"):
        assert TypeScriptFiles().find(name, str(path)) is None


class Chain:
    """Files of which each has a text that names the next one."""

    def __init__(self, text: str) -> None:
        self.text = text

    def find(self, name: str, importer: str) -> str:
        return name.rpartition("/")[2]

    def read(self, path: str) -> str:
        return self.text.replace("NEXT", str(int(path) + 1))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('export * from "./NEXT";', "'A' is not declared"),
        ('import { A } from "./NEXT"; export { A };', "'A' is not declared"),
        ('/// <reference path="./NEXT" />\n', "files, or 100 that refer to one another"),
        ('declare module "./NEXT" { }', "files, or 100 that refer to one another"),
        ('export { A as default } from "./NEXT"; export * as A from "./NEXT"', "'A' is not declared"),
    ],
)
def test_many_files_and_long_chains_of_them_end(text: str, told: str) -> None:
    with pytest.raises(CodegenError, match=told):
        parse('import { A } from "./0"; type T = A', "s.ts", Chain(text), strict=False)


@pytest.mark.slow
def test_more_files_than_the_bound_are_refused() -> None:
    many = "".join(f'import {{ A as A{n} }} from "./{n}"; type T{n} = A{n};' for n in range(1_001))
    with pytest.raises(CodegenError, match="more than 1000 files"):
        parse(many, "s.ts", Chain("export type A = 1"), strict=False)


@pytest.mark.parametrize(
    ("module", "found"), [("sdk/types.js", "pinned"), ("client", "pinned"), ("ext-apps", "installed")]
)
def test_types_of_mcp_that_an_sdk_makes_by_code_are_those_of_a_pinned_revision(
    module: str, found: str, tmp_path: Path
) -> None:
    package = tmp_path / "node_modules" / "@modelcontextprotocol" / module.partition("/")[0]
    package.mkdir(parents=True)
    for name in ("index.d.ts", "types.d.ts"):
        (package / name).write_text("export {}", encoding="utf-8")
    files = TypeScriptFiles(lambda _: "pinned")
    path = files.find(f"@modelcontextprotocol/{module}", str(tmp_path / "s.ts")) or ""
    assert path.replace(str(package / "index.d.ts"), "installed") == found
