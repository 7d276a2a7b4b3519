"""SEC-6: what the generator reads of a schema with regular expressions takes steps that grow no faster than the text."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Final

import pytest

from fuzz.fuzzing import each_once
from helpers.linear import Text, assert_linear
from helpers.requirements import req
from mcprev_codegen import ir
from mcprev_codegen.diff.comparison import subtyping
from mcprev_codegen.ir import names
from mcprev_codegen.python import names as naming
from mcprev_codegen.typescript import jsdoc as comments, printer


def inline(text: str) -> object:
    """What is printed of a literal type and of a member with a tag."""
    member = ir.Field("m", ir.Lit(str(text)), tags=ir.Tags(category=str(text)))
    return printer.print_inline(ir.Obj((member,), None))


READERS: Final[Mapping[str, Callable[[str], object]]] = {
    "a link": comments.plain_text,
    "a comment": lambda text: comments.read_comments([Text("/** " + text + " */")]),
    "the body of a comment": comments.comment_body,
    "a name": naming.snake_case,
    "a member": names.pascal_case,
    "a type": naming.stub,
}
PIECES: Final = (
    "{@link", "{@link ", "{@link a", "{@link a ", " ", "|", " | ", "{", "}", "@", "@a", "\n", "\n * @a ", "/**", "*/", "a",
    "A", "Aa", "-", "Request",
)  # fmt: skip


@each_once
@req("SEC-6", everywhere=True)
@pytest.mark.parametrize("what", READERS)
@pytest.mark.parametrize("again", PIECES)
@pytest.mark.parametrize("start", ["", "{@link ", "{@link a "])
def test_the_steps_of_reading_a_schema_grow_with_it(what: str, again: str, start: str) -> None:
    assert_linear(
        READERS[what],
        lambda size: Text(start + again * size + "!"),
        comments,
        naming,
        printer,
        sizes=(32, 64, 128),
    )


@req("SEC-6", everywhere=True)
@pytest.mark.parametrize("again", ["/**", "/** ", "*/", "\n", " "])
def test_printing_a_type_takes_time_that_grows_with_it(again: str) -> None:
    start = time.process_time()
    inline(again * 100_000)
    assert time.process_time() - start < 5


def test_a_type_on_one_line_has_its_literals_and_no_tags() -> None:
    member = ir.Field("m", ir.Lit("a /** b */ c"), tags=ir.Tags(category="secret"))
    assert printer.print_inline(ir.Obj((member,), None)) == '{ m: "a /** b */ c" }'


WRAPS: Final[list[Callable[[ir.Obj], ir.TypeExpr]]] = [
    ir.Array, ir.Record, lambda inner: ir.Union((inner, ir.Prim("null")))
]  # fmt: skip


@pytest.mark.parametrize("wrap", WRAPS)
def test_a_type_on_one_line_has_no_tags_of_several_lines(wrap: Callable[[ir.Obj], ir.TypeExpr]) -> None:
    tags = ir.Tags(minimum=0, maximum=1, format="byte")
    inner = wrap(ir.Obj((ir.Field("m", ir.Prim("number"), tags=tags),)))
    text = printer.print_inline(ir.Obj((ir.Field("outer", inner, tags=tags),)))
    assert "{ m: number }" in text
    assert not {"\n", "@", "*"} & {*text}


TEMPLATES: Final = [
    ("user-${string}", "user-", True), ("user-${string}", "user-a\nb", True), ("user-${string}", "users", False),
    ("${number}px", "-1.5e3px", True), ("${number}px", "1.px", True), ("${number}px", "1..px", False), ("a${boolean}", "atrue", True),
    ("a/b[${string}]", "a/b[c]", True), ("a", "a\n", False), ("(<#&~-\u00e9)", "(<#&~-\u00e9)", True),
    ("${string}a" * 30, "a" * 10_000 + "b", False), ("${number}${number}" * 20, "1" * 2_000 + "x", False),
]  # fmt: skip


@req("SEC-6", everywhere=True)
@pytest.mark.parametrize(("text", "value", "expected"), TEMPLATES)
def test_a_template_literal_type_is_matched_in_linear_time(text: str, value: str, expected: bool) -> None:
    start = time.process_time()
    found = subtyping._matches(ir.Template(text), value)  # pyright: ignore[reportPrivateUsage]
    assert (found, time.process_time() - start < 5) == (expected, True)
