"""Rules for the whole house: where revisions may be named, what every file starts with, what must not stand in it.

Handwritten code is what git has under codegen/, runtime/ and benchmarks/. Tests take revisions from the table too:
`named.py` names those that are told apart, and what is about others' programs or about static types is exempt.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Callable, Iterable
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from helpers.named import NAMED
from helpers.requirements import REQUIREMENTS
from helpers.support import GENERATED, REVISIONS, ROOT, load
from mcprev_codegen.python.names import module_name

DATE: Final = re.compile(r"20\d\d[-_]\d\d[-_]\d\d")
REVISION_TABLES: Final = ("runtime/mcprev/revisions.py", "runtime/mcprev/conversion/")
"""The one table of revisions, and the modules that are each about one step between two of them."""
MACHINE: Final = re.compile(
    r"(?<![\w.])/(?:home|Users|root|work|mnt|private|tmp|var/folders)/\w|[A-Z]:\\\\?Users"
)

FOREIGN: Final = {"__pycache__", "node_modules"}


def files(*folders: str, suffixes: tuple[str, ...] = (".py",)) -> list[str]:
    """The files below some folders, by their path in the repo."""
    found = (path for folder in folders for path in (ROOT / folder).rglob("*") if path.suffix in suffixes)
    return sorted(str(path.relative_to(ROOT)) for path in found if not FOREIGN & set(path.parts))


HANDWRITTEN: Final = files("codegen", "runtime", "benchmarks")
TESTS: Final = files("tests", "tools")
PACKAGES: Final = files("generated")


def of_each(names: Iterable[str]) -> Callable[[Callable[[str], None]], Callable[[], None]]:
    """Make one test of what is checked of each file; it names every file that fails."""

    def decorate(check: Callable[[str], None]) -> Callable[[], None]:
        def test() -> None:
            failed: list[str] = []
            for name in names:
                try:
                    check(name)
                except AssertionError as error:
                    failed.append(f"{name}: {error}")
            assert not failed, "\n".join(failed)

        return test

    return decorate


def names_in(node: ast.AST) -> str:
    match node:
        case ast.ImportFrom(module=str(module)):
            return module
        case ast.alias(name) | ast.Name(name) | ast.Attribute(attr=name):
            return name
        case _:
            return ""


def test_every_file_that_fails_a_check_is_named() -> None:
    @of_each(["a", "b", "c"])
    def test(name: str) -> None:
        assert name == "b", "not b"

    with pytest.raises(AssertionError, match=r"(?s)^a: not b.*\n  c: not b"):
        test()


class Facts(NamedTuple):
    """What the syntax tree of a file says, for the checks that ask: the tree is made once and not kept."""

    doc: str | None
    """The docstring of the module."""
    revisions: list[str]
    """Revisions that code names: whole strings, modules and attributes; not those in prose."""
    prose: list[str]
    """The docstrings below the module's own, attribute docstrings included."""


def facts(text: str) -> Facts:
    tree = ast.parse(text)
    nodes = list(ast.walk(tree))
    prose = [
        node.value for node in nodes if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    ]
    skipped = set(map(id, prose))
    revisions: list[str] = []
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in skipped:
            if re.fullmatch(rf"v?{DATE.pattern}(?:\..*)?", node.value):
                revisions.append(node.value)
        elif DATE.search(names_in(node)):
            revisions.append(names_in(node))
    first = tree.body[0] if tree.body else None
    own = first.value if isinstance(first, ast.Expr) else None
    below = [str(node.value) for node in prose if node is not own]
    return Facts(ast.get_docstring(tree), revisions, below)


@cache
def facts_of(name: str) -> Facts:
    return facts((ROOT / name).read_text(encoding="utf-8"))


@of_each(HANDWRITTEN)
def test_handwritten_code_names_no_revision(name: str) -> None:
    if name.startswith(REVISION_TABLES):
        return
    assert facts_of(name).revisions == []


NAMING_TESTS: Final = (
    "tests/helpers/named.py", "tests/conformance/", "tests/interop/", "tests/generated/typing/",
    "tests/prose/test_house.py",
)  # fmt: skip
"""Tests that may name revisions: the table of names, peers of others, and what a type checker has to see."""


@of_each(TESTS)
def test_tests_name_no_pinned_revision(name: str) -> None:
    if name.startswith(NAMING_TESTS):
        return
    pinned = {spelling for each in (*REVISIONS, *NAMED) for spelling in (each, module_name(each))} - {"draft"}
    assert [text for text in facts_of(name).revisions if pinned & set(text.split("."))] == []


def test_the_search_for_revisions_finds_them() -> None:
    source = '"""About 2025-11-25."""\nx = "2025-11-25"\nfrom a.v2025_11_25 import b\ny = "such as 2025-11-25"\na.v2024_11_05'
    assert sorted(facts(source).revisions) == ["2025-11-25", "a.v2025_11_25", "v2024_11_05"]


@of_each([*HANDWRITTEN, *TESTS, *PACKAGES])
def test_every_module_says_what_it_is_for(name: str) -> None:
    doc = facts_of(name).doc
    assert doc
    assert len(doc.split("\n")[0]) > 15


@of_each(HANDWRITTEN)
def test_requirements_are_named_in_comments_and_module_headers(name: str) -> None:
    """Not in what `help()` and editors show."""
    assert {id_ for text in facts_of(name).prose for id_ in re.findall(r"[A-Z]+-\d+", text)}.isdisjoint(
        REQUIREMENTS
    )


@of_each(PACKAGES)
def test_a_generated_module_says_what_made_it_and_from_what(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    first, *rest = [line for line in text.split('"""')[0].split("\n") if line.startswith("#")]
    header = " ".join(line.removeprefix("# ") for line in rest)
    assert re.fullmatch(r"# Generated by mcprev generate; not edited by hand\.", first)
    folder = name.split("/")[2]
    revision = next((r for r in REVISIONS if module_name(r) == folder), None)
    if revision is None:
        assert header.startswith("From ")
        return
    pin = load(revision).pin
    assert pin is not None
    assert f"schema.ts of {revision}" in header
    assert pin.sha256 in header


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_generated_schema_says_what_made_it(revision: str) -> None:
    text = (GENERATED / module_name(revision) / "schema.json").read_text(encoding="utf-8")
    pin = load(revision).pin
    assert pin is not None
    assert "not edited by hand" in text.split("$defs")[0]
    assert pin.sha256 in text.split("$defs")[0]


EVERYTHING: Final = [
    *files("codegen", "runtime", "benchmarks", "generated", "schema", suffixes=(".py", ".toml", ".ts", ".json", ".jinja2")),
    *files("tests", suffixes=(".py", ".toml")),
    "README.md", "Makefile", "pyproject.toml", ".ci/run",
]  # fmt: skip


@of_each(EVERYTHING)
def test_no_file_names_a_path_of_somebodys_machine(name: str) -> None:
    if name == str(Path(__file__).relative_to(ROOT)):
        return
    assert MACHINE.findall((ROOT / name).read_text(encoding="utf-8")) == []


@of_each([*HANDWRITTEN, *TESTS])
def test_nothing_is_left_to_do(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    words = ("TO" + "DO", "FIX" + "ME", "X" + "XX")
    assert not any(re.search(rf"\b{word}\b", text) for word in words)


@cache
def passed_over() -> list[str]:
    """The patterns of folders in which pytest looks for no tests."""
    options = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["pytest"]
    patterns: list[str] = options["ini_options"]["norecursedirs"]
    return patterns


@of_each(TESTS)
def test_every_test_is_collected(name: str) -> None:
    folders = Path(name.removeprefix("tests/prose/")).parts[:-1]  # which `make prose` names
    assert not [part for part in folders if any(fnmatch(part, each) for each in passed_over())]


ROOT_PAGES: Final = ("CHANGELOG.md", "CODE_OF_CONDUCT.md", "CONTRIBUTING.md", "README.md", "SECURITY.md")
PROSE: Final = [
    *HANDWRITTEN,
    *TESTS,
    *ROOT_PAGES,
    "Makefile",
    *files("docs", suffixes=(".md",)),
]
PAGES: Final = {Path(name).name for name in files("docs", suffixes=(".md",))} | {*ROOT_PAGES, "SKILL.md"}
PAGE: Final = re.compile(r"\b[\w-]+\.md\b")
OUTSIDE: Final = re.compile(
    r"§ ?\d|\b(?:design|house|requirements|performance|conformance)\.md\b|\bissue #?\d"
)
"""How one refers to a plan or an issue, which readers of the repo do not have."""
MADE_UP: Final = (
    "docs/skills.md", "tests/codegen/", "tests/conformance/server.py", "tests/diff/", "tests/extensions/",
    "tests/prose/test_house.py", "tests/runtime/test_skill_command.py",
)  # fmt: skip
"""What writes pages of its own, such as the files of skills."""


def references_outside(text: str, *, pages: bool = True) -> list[str]:
    """The references of a text to pages that are not in the repo."""
    named = (
        [page for page in PAGE.findall(text) if page not in PAGES and not DATE.search(page)] if pages else []
    )
    return [*OUTSIDE.findall(text), *named]


@of_each(PROSE)
def test_no_file_refers_to_a_page_that_is_not_here(name: str) -> None:
    if name not in {
        "tests/prose/test_house.py",
        "tests/codegen/typescript/test_typescript.py",
    }:  # the sign is a mark in the latter
        text = (ROOT / name).read_text(encoding="utf-8")
        assert references_outside(text, pages=not name.startswith(MADE_UP)) == []


MERGED: Final = re.compile(r"^(?:<{7}|>{7}) ", re.MULTILINE)
"""A line that git writes where two versions of a file differ."""


@of_each(PROSE)
def test_no_file_has_both_versions_of_a_merge(name: str) -> None:
    assert MERGED.findall((ROOT / name).read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "text", ["as design §4 says", "see plan.md", "requirements.md", "(issue 16)", "issue #3"]
)
def test_a_reference_to_a_page_that_is_not_here_is_found(text: str) -> None:
    assert references_outside(text)


@pytest.mark.parametrize(
    "text", ["RFC 9110, section 7.8", "docs/architecture.md", "the README.md", "tissue 3"]
)
def test_a_reference_that_can_be_followed_is_none_of_those(text: str) -> None:
    assert references_outside(text) == []
