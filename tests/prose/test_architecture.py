"""The pages on the runtime and on the generator name only files, classes, functions and members that exist; so do links between pages."""

from __future__ import annotations

import ast
import re
from configparser import ConfigParser
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from helpers.support import ROOT

HOUSES: Final = {
    "architecture.md": (ROOT / "runtime" / "mcprev", 80),
    "generator.md": (ROOT / "codegen" / "mcprev_codegen", 80),
}
"""The pages with the folder that their paths are below, and how many references each has at least."""
REFERENCE: Final = re.compile(r"`([\w./]+\.(?:py|toml|md))(?:::([\w.]+))?`")
"""`path.py` or `path.py::Name.member`."""
FOLDER: Final = re.compile(r"`((?:\w+/)+)`")
LINK: Final = re.compile(r"\]\(([^)#\s]*)(?:#([\w-]+))?\)")
PAGES: Final = [ROOT / "README.md", ROOT / "SECURITY.md", *sorted((ROOT / "docs").glob("*.md"))]


def located(path: str, house: Path) -> Path | None:
    """The file or folder that a path names, below a house, beside it or from the root of the repository."""
    return next((base / path for base in (house, house.parent, ROOT) if (base / path).exists()), None)


@cache
def defined(file: Path) -> frozenset[str]:
    """The names at the top level of a module, and the members of its classes as `Class.member`."""
    found: set[str] = set()
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        for name in names(node):
            found.add(name)
            if isinstance(node, ast.ClassDef):
                found.update(f"{name}.{member}" for inner in node.body for member in names(inner))
    return frozenset(found)


def names(node: ast.stmt) -> list[str]:
    """The names that a statement defines."""
    match node:
        case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            return [name]
        case ast.AnnAssign(target=ast.Name(id=name)):
            return [name]
        case ast.Assign(targets=targets):
            return [target.id for target in targets if isinstance(target, ast.Name)]
        case _:
            return []


def wrong(text: str, house: Path) -> list[str]:
    """The references of a text that lead nowhere."""
    found: list[str] = [f"no folder {path}" for path in FOLDER.findall(text) if located(path, house) is None]
    for path, name in REFERENCE.findall(text):
        file = located(path, house)
        if file is None:
            found.append(f"no file {path}")
        elif name and name not in defined(file):
            found.append(f"no {name} in {path}")
    return found


@pytest.mark.parametrize("page", HOUSES)
def test_every_file_and_name_of_the_page_exists(page: str) -> None:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    house, references = HOUSES[page]
    assert wrong(text, house) == []
    assert len(REFERENCE.findall(text)) > references


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("`core/nothing.py`", "no file core/nothing.py"),
        ("`core/connection.py::Nothing`", "no Nothing in core/connection.py"),
        ("`core/connection.py::Connection.nothing`", "no Connection.nothing in core/connection.py"),
        ("`nowhere/`", "no folder nowhere/"),
    ],
)
def test_a_reference_that_leads_nowhere_is_found(text: str, message: str) -> None:
    assert wrong(text, HOUSES["architecture.md"][0]) == [message]


@pytest.mark.parametrize("page", HOUSES)
def test_every_layer_of_the_page_is_one_of_the_contract(page: str) -> None:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    drawn = text.split("## Layers")[1].split("```")[1].split("-----")[0].strip("\n").split("\n")
    contracts = ConfigParser()
    contracts.read(ROOT / ".importlinter", encoding="utf-8")
    (layers,) = (
        each["layers"].split("\n")[1:]
        for each in contracts.values()
        if each.get("containers") == HOUSES[page][0].name and "layers" in each
    )
    assert [re.split(r"\s{3,}", re.split(r"\s{4,}", line)[0]) for line in drawn] == [
        layer.split(" | ") for layer in layers
    ]


def test_every_folder_of_the_generator_is_a_room_of_its_page() -> None:
    house = HOUSES["generator.md"][0]
    rooms = (
        (ROOT / "docs" / "generator.md").read_text(encoding="utf-8").split("## Rooms")[1].split("\n## ")[0]
    )
    named = set(re.findall(r"^\| `(\w+)/`", rooms, re.MULTILINE))
    assert named == {path.parent.name for path in house.glob("*/__init__.py")}


def anchors(page: Path) -> set[str]:
    """The anchors of the headings of a page."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    missing = [
        f"{path}#{anchor}"
        for path, anchor in LINK.findall(page.read_text(encoding="utf-8"))
        if not path.startswith("http")
        and not (
            (target := page.parent / path if path else page).exists()
            and (not anchor or anchor in anchors(target))
        )
    ]
    assert missing == []
