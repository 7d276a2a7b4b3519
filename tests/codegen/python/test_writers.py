"""The ways of a text into generated files: each holds any text, and a template or pattern takes nothing else."""

from __future__ import annotations

import ast
import json
import tomllib
from pathlib import Path
from typing import Any, Final

import jinja2
import pytest
from hypothesis import given, strategies as st

import mcprev_codegen
from helpers.hostile import HOSTILE, MIXED
from mcprev_codegen.errors import InputError
from mcprev_codegen.python import writers
from mcprev_codegen.python.formatting import format_python
from mcprev_codegen.python.writers import (
    LINE_LENGTH,
    Code,
    NotCodeError,
    code,
    comment,
    docstring,
    joined,
    literal,
    toml_string,
)
from mcprev_codegen.support import Kind

SOURCES: Final = sorted(Path(mcprev_codegen.__file__).parent.rglob("*.py"))
TEXTS: Final = [*(text for texts in HOSTILE for text in texts), *MIXED]
texts: Final = (
    st.text() | st.text(st.sampled_from("\"'\\\n\r\0 ax{}#\u2028\u202e\ud800\x1b🎉")) | st.sampled_from(TEXTS)
)
values: Final = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(texts, inner),
    max_leaves=8,
)


@given(values)
def test_a_literal_is_the_value(value: Any) -> None:
    assert ast.literal_eval(literal(value)) == value
    assert literal(value).isprintable()


def test_the_member_of_an_enum_is_named_even_if_it_is_text() -> None:
    assert literal(Kind.REQUEST) == "Kind.REQUEST"
    assert literal([Kind.REQUEST, "request"]) == "[Kind.REQUEST, 'request']"


@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), -float("inf"), {1}, object(), b"", [float("nan")], int]
)
def test_what_has_no_literal_is_refused(value: object) -> None:
    with pytest.raises(NotCodeError):
        literal(value)


@given(st.lists(texts, max_size=3), st.sampled_from([0, 4, 8]))
def test_a_docstring_is_one_string(paragraphs: list[str], indent: int) -> None:
    source = docstring("\n\n".join(paragraphs), indent)
    assert bool(source) == any(text.strip() for text in paragraphs)
    assert {c for c in source if not c.isprintable()} <= {"\n"}
    body = ast.parse(source).body
    assert [type(ast.literal_eval(node.value)) for node in body if isinstance(node, ast.Expr)] == [
        str
    ] * bool(source)
    assert len(body) == bool(source)


@given(st.lists(st.text(st.sampled_from('ab" -\\`')) | texts, max_size=9), st.sampled_from([0, 4, 8]))
def test_a_docstring_is_laid_out_as_by_hand(words: list[str], indent: int) -> None:
    """As wide as the code, indented as the code, closed on its own line if it has several lines."""
    source = docstring(" ".join(words), indent)
    first, *rest = source.split("\n")
    assert all(not line or (line.startswith(" " * indent) and line[indent] != " ") for line in rest)
    assert (rest[-1].strip() if rest else '"""') == '"""' or not source
    assert not rest or first[3:].strip()
    assert all(line == line.rstrip() for line in (first, *rest))
    for line in (" " * indent + first, *rest):
        assert len(line) <= LINE_LENGTH or len(line.removesuffix('"""').split()) == 1


@pytest.mark.parametrize("indent", [0, 4, 8])
@pytest.mark.parametrize("length", range(90, 120))
@pytest.mark.parametrize("end", [".", '"'])
def test_the_formatter_leaves_a_docstring_as_it_is(indent: int, length: int, end: str) -> None:
    text = ("words " * 40)[:length].strip() + end
    opening = {0: "", 4: "class C:\n    ", 8: "class C:\n    def f(self) -> None:\n        "}[indent]
    assert ("\n" in docstring(text, indent)) == (len(text) > LINE_LENGTH - indent - len('""" """'))
    for source in (docstring(text, indent), docstring(f"{text}\n\n{text}", indent)):
        assert format_python(f"{opening}{source}\n") == f"{opening}{source}\n"


@given(st.lists(texts, max_size=3))
def test_a_comment_is_nothing_but_comments(lines: list[str]) -> None:
    assert ast.parse(comment(lines)).body == []
    assert len(comment(lines).split("\n")) == max(len(lines), 1)


@given(texts)
def test_a_document_holds_the_text(text: str) -> None:
    document = writers.json_document({text: [text]})
    assert json.loads(document) == {text: [text]}
    assert document.replace("\n", "").isprintable()
    if any("\ud800" <= sign <= "\udfff" for sign in text):
        with pytest.raises(InputError, match="surrogate"):
            toml_string(text)
    else:
        assert tomllib.loads(f"a = {toml_string(text)}") == {"a": text}
        assert toml_string(text).isprintable()


def test_the_formatter_changes_no_text() -> None:
    """All strings at once: black takes its time for each call."""
    parts: list[Code] = []
    for n, text in enumerate(TEXTS):
        parts += [
            code("a{} = {}", literal(n), literal(text)),
            docstring(f'{text}\n\n{text}"'),
            code("class C{}:\n    {}\n    b = {}\n    {}", literal(n), docstring(f'"{text}"'), literal((text, [text])), docstring(text)),
            comment([text]),
        ]  # fmt: skip
    plain = joined("\n", parts)
    found, expected = ast.parse(format_python(plain)), ast.parse(plain)
    for tree in (found, expected):
        for node in ast.walk(tree):
            if isinstance(node, ast.Expr):
                assert isinstance(node.value, ast.Constant)
                node.value.value = " ".join(str(node.value.value).split())
    assert ast.dump(found) == ast.dump(expected)


# -- nothing else ----------------------------------------------------------------------------------------

PLAIN: Final[list[Any]] = [
    "text",
    1,
    None,
    b"",
    literal("a") + "b",
    f"{literal('a')}",
    "".join([literal("a")]),
]


@pytest.mark.parametrize("part", PLAIN)
def test_plain_text_is_no_part_of_source(part: Any) -> None:
    with pytest.raises(NotCodeError):
        code("{}", part)
    with pytest.raises(NotCodeError):
        joined("", [part])


@pytest.mark.parametrize(
    "template",
    ["{{ x }}", "{{ x | upper }}", "{{ y ~ x }}", "{{ y | upper }}", "{{ 'a' }}", "{{ 1 }}", "{{ x if x else y }}", "{{ [y] | join }}",
     "{% set z %}{{ y }}{% endset %}{{ z }}", "{% macro m() %}{{ y }}{% endmacro %}{{ m() }}", "{{ x | safe }}", "{{ y | e }}", "{{ y | indent }}",
     "{% for c in x %}{{ c }}{% endfor %}", "{{ y[0] }}", "{{ y.upper() }}", "{{ '%s' % x }}", "{{ '{}'.format(x) }}", "{{ missing }}"],
)  # fmt: skip
def test_a_template_prints_nothing_but_source(template: str) -> None:
    with pytest.raises((NotCodeError, jinja2.UndefinedError)):
        writers.environment().from_string(template).render(x="text", y=literal("a"))


@pytest.mark.parametrize(
    "template",
    [
        "{{ y }}",
        "{{ x | literal }}",
        "{{ x | identifier }}",
        "{{ x | docstring }}",
        "{{ x | docstring(4) }}",
        "{{ 'a' | literal }}",
    ],
)
def test_a_template_prints_source(template: str) -> None:
    printed = writers.environment().from_string(template).render(x="text", y=literal("a"))
    assert len(ast.parse(printed).body) == 1


@pytest.mark.parametrize(
    "text", ["", "a b", "1", "class", "None", "e\u0301", "a\n", "a.b", "__a", "a-b", "a(", "ª", "𝐚"]
)
def test_a_text_that_is_no_name_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="cannot be a name"):
        writers.identifier(text)


@pytest.mark.slow
def test_one_module_makes_source_and_patterns_are_written_out() -> None:
    """`Code` is constructed where its rules are; a pattern that is put together could hold a text of a schema."""
    for path in SOURCES:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        imported = {
            alias.name
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and node.module == writers.__name__
            for alias in node.names
        }
        for call in ast.walk(tree):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in imported:
                assert call.func.id != "Code", (path.name, call.lineno)
                if call.func.id in ("code", "joined", "render"):
                    assert not isinstance(call.args[0], ast.JoinedStr | ast.BinOp | ast.Call), (
                        path.name,
                        call.lineno,
                    )


def test_no_template_filters_what_it_has_printed() -> None:
    """A filter of a block is the one output that the environment does not look at."""
    for path in SOURCES[0].parent.rglob("*.jinja*"):
        assert "{% filter" not in path.read_text(encoding="utf-8").replace("{%-", "{%").replace("{%+", "{%")
