"""What members of enums compute is what JavaScript computes, within bounds; other constants say what they stand for."""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers.support import parse
from mcprev_codegen import ir
from mcprev_codegen.errors import SchemaError
from mcprev_codegen.inputs import TypeScriptFiles
from mcprev_codegen.typescript import parse as parse_file
from mcprev_codegen.typescript.bounds import MAX_DEPTH, MAX_TEXT


def values(source: str) -> list[ir.Literal]:
    """The values of the type E."""
    type_ = parse(source).types["E"]
    assert isinstance(type_, ir.Alias)
    found = type_.type.members if isinstance(type_.type, ir.Union) else (type_.type,)
    return [member.value for member in found if isinstance(member, ir.Lit)]


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("1 << 4", 16),
        ("1 << 31", -2147483648),
        ("1 << 33", 2),
        ("-1 >>> 28", 15),
        ("-16 >> 2", -4),
        ("0xff & ~1", 254),
        ("2 ** 10", 1024),
        ("4294967297 | 0", 1),
        ("7 / 2", 3.5),
        ("8 / 2", 4),
        ("-7 % 4", -3),
        ("7 % -4", 3),
        ("+2 - -3", 5),
        ("1 + 2 * 3", 7),
        ("(1 + 2) * 3", 9),
        ("2.5 | 0", 2),
        ('"a" + 1 + 2', "a12"),
        ('1 + 2 + "a"', "3a"),
        ("`a${1 + 1}\\n${'b'}`", "a2\nb"),
        ("3 satisfies number", None),
    ],
)
def test_operators_are_those_of_javascript(written: str, value: ir.Literal | None) -> None:
    source = f"enum E {{ A = {written} }}"
    if value is None:
        with pytest.raises(SchemaError):
            parse(source)
    else:
        assert list(map(repr, values(source))) == [repr(value)]


def test_members_name_earlier_members_other_enums_and_constants() -> None:
    others = 'const P = "p"; namespace N { enum F { X = 4 } const Q = 8 } enum G { A = 1 }'
    source = f"{others} enum E {{ A = 16, B = A, C = E.A << 1, D = N.F.X, F = N.Q, H = G['A'], I = P + '-', J = 32, K }}"
    assert values(source) == [16, 32, 4, 8, 1, "p-", 33]


def test_a_member_comes_before_a_constant_of_its_name() -> None:
    assert values("const A = 5; enum E { A = 1, B = A }") == [1]


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("1 / 0", "no value that JSON has"),
        ("0 / 0", "no value that JSON has"),
        ("2 ** 2000", "no value that JSON has"),
        ('"a" - 1', "a computed value is not supported"),
        ('~"a"', "is not supported as a number"),
        ("1 < 2", "a computed value is not supported"),
        ("B", "'B' is no constant that is known here"),
        ("E.A", "'E.A' is no constant that is known here"),
        ("O", "'O' is no constant that is known here"),
        ("'a'.length", "no constant that is known here"),
        ("E[0]", "is not supported as the name of a member"),
        ("(" * (MAX_DEPTH + 1) + "1" + ")" * (MAX_DEPTH + 1), "nested more than"),
        (" + ".join(['"' + "a" * 100 + '"'] * (MAX_TEXT // 100 + 1)), f"more than {MAX_TEXT} characters"),
        ('2 ** 70 + "a"', "no short notation"),
    ],
    ids=lambda text: text[:20],
)
def test_what_is_no_constant_is_refused_at_its_place(written: str, told: str) -> None:
    with pytest.raises(SchemaError) as caught:
        parse(f"const O = {{ a: 1 }} as const; enum E {{ A = {written}, B = 2 }}")
    assert told in caught.value.message
    assert (caught.value.line or 0, caught.value.column or 0) > (1, 40)


def test_enums_that_need_each_other_are_refused() -> None:
    with pytest.raises(SchemaError, match="is no constant that is known here"):
        parse("enum E { A = F.A } enum F { A = E.A }")


def test_long_chains_are_read_without_nesting() -> None:
    assert values(f"enum E {{ A = {' | '.join(['1'] * 3_000)} }}") == [1]


def test_remarks_stay_with_the_first_member_of_a_value() -> None:
    text = "enum E {\n  A = 1, // one\n  B = E.A, // again\n  C = 1 << 1, // two\n}"
    type_ = parse(text).types["E"]
    assert type_.doc.members == ((0, "one"), (1, "two"))


def test_constants_of_another_file_are_read_there(tmp_path: Path) -> None:
    (tmp_path / "flags.ts").write_text(
        "const BASE = 1;\nexport enum F { A = BASE << 2 }\nexport declare const V: F;\n", encoding="utf-8"
    )
    source = 'import { F, V } from "./flags";\nexport enum E { A = F.A | 1 }\nexport type T = typeof V;\n'
    module = parse_file(source, str(tmp_path / "a.ts"), TypeScriptFiles(lambda _: None))
    assert module.types["E"] == ir.Alias("E", ir.Lit(5))


def test_what_json_has_no_value_of_is_left_out_of_a_file_of_its_own() -> None:
    source = "export interface A { a: 1 }\nexport interface B { b: Map<string, 1> }\nexport interface C { c: URL }\n"
    module = parse_file(source, "a.ts", strict=False)
    assert [*module.types] == ["A"]
    told = "\n".join(module.warnings)
    assert "Map" in told
    assert "URL" in told
