"""The threats of `docs/security.md`: each line names tests that are there, and no kind of attacker is left out."""

from __future__ import annotations

import ast
import re
from functools import cache
from typing import Final

import pytest

from helpers.bounds import constants, options
from helpers.support import ROOT

PAGE: Final = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
POLICY: Final = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
ATTACKERS: Final = (
    "A hostile server", "A hostile client", "A hostile authorization server", "A hostile page", "A hostile neighbour process",
)  # fmt: skip
NODE: Final = re.compile(r"`([\w/]+\.py)::(test_\w+)`")
LINK: Final = re.compile(r"\]\(([^)#]*)(?:#([^)]*))?\)")


def lines(attacker: str) -> list[str]:
    """The lines of the table about one kind of attacker, without its head."""
    section = (
        PAGE.split("\n## Threats and their tests\n")[1].split(f"\n### {attacker}\n")[1].split("\n### ")[0]
    )
    return [line for line in section.splitlines() if line.startswith("|")][2:]


THREATS: Final = [(attacker, line) for attacker in ATTACKERS for line in lines(attacker)]


@cache
def functions(name: str) -> frozenset[str]:
    """The tests that a module has."""
    tree = ast.parse((ROOT / "tests" / name).read_text(encoding="utf-8"))
    return frozenset(
        node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )


@pytest.mark.parametrize("attacker", ATTACKERS)
def test_every_kind_of_attacker_has_threats(attacker: str) -> None:
    assert len(lines(attacker)) >= 5


@pytest.mark.parametrize(("attacker", "line"), THREATS)
def test_each_threat_names_tests_that_are_there(attacker: str, line: str) -> None:
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    assert len(cells) == 3
    assert all(cells)
    named = NODE.findall(cells[2])
    assert len(named) == cells[2].count("`") // 2 > 0, cells[2]
    for module, function in named:
        assert function in functions(module), f"tests/{module} has no {function}"


def test_every_fuzzer_is_the_answer_to_a_threat() -> None:
    there = {f"fuzz/{path.name}" for path in (ROOT / "tests" / "fuzz").glob("test_*.py")}
    named = {module for _, line in THREATS for module, _ in NODE.findall(line)}
    assert there - named == set()


def test_the_policy_leads_to_places_that_are_there() -> None:
    headings = {
        re.sub(r"[^\w -]", "", line.lstrip("# ").lower()).replace(" ", "-")
        for line in PAGE.splitlines()
        if line[:1] == "#"
    }
    found = LINK.findall(POLICY)
    assert found
    for path, place in found:
        assert (ROOT / path).is_file()
        assert not place or place in headings


# -- bounds and shares ---------------------------------------------------------------------------------------

SHARES: Final = PAGE.split("\n## Bounds and shares\n")[1].split("\n## ")[0]
HEADS: Final = (
    "| Bound | Share of one client | Who makes room | Tests |",
    "| Not shared: for each | Bounds |",
)


def rows(head: str) -> list[list[str]]:
    """The cells of each row of a table."""
    table = SHARES.split(head)[1].split("\n\n")[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]


def named_bounds() -> list[str]:
    """The bounds that the tables name: a constant with its module, an option, or all constants of a folder or module."""
    cells = [text for row in rows(HEADS[0]) for text in row[:2]] + [row[1] for row in rows(HEADS[1])]
    return [name for cell in cells for name in re.findall(r"`([^`()]+)(?:\([^`]*\))?`", cell)]


def is_named(bound: str) -> bool:
    """Whether a table has a bound."""
    folders = [bound[: place.end()] + "*" for place in re.finditer(r"[/.]", bound)]
    return not {bound, *folders}.isdisjoint(named_bounds())


@pytest.mark.parametrize("bound", sorted({*constants(), *options()}))
def test_each_bound_is_shared_with_a_share_or_belongs_to_one_alone(bound: str) -> None:
    assert is_named(bound), (
        f"docs/security.md, 'Bounds and shares', does not say whether clients share {bound}: add it with the share of a client "
        "and its test to the first table, or to what it belongs to in the second"
    )


def test_the_tables_name_no_bound_that_is_gone() -> None:
    there = {*constants(), *options(), "RateLimit", "StateLimits"}
    gone = [
        name
        for name in named_bounds()
        if name not in there and not any(bound.startswith(name[:-1]) for bound in there if name.endswith("*"))
    ]
    assert gone == []


@pytest.mark.parametrize("row", rows(HEADS[0]), ids=lambda row: row[0])
def test_each_shared_bound_says_the_share_who_makes_room_and_its_tests(row: list[str]) -> None:
    assert len(row) == 4
    assert all(row)
    named = NODE.findall(row[3])
    assert len(named) == row[3].count("`") // 2 > 0, row[3]
    for module, function in named:
        assert function in functions(module), f"tests/{module} has no {function}"


def test_a_bound_that_no_table_has_is_found() -> None:
    assert not is_named("server/new_module.MAX_NEW")
    assert not is_named("max_new_things")
    assert "core/limits.MAX_HANDLERS" in set(constants())
    assert {"max_requests", "per_key"} <= set(options())
