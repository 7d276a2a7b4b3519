"""The threats of `docs/security.md`: each line names tests that are there, and no kind of attacker is left out."""

from __future__ import annotations

import ast
import re
from functools import cache
from typing import Final

import pytest

from support import ROOT

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
