"""The figures of the house are counted as they are described: circles, code lines, limits, the way of a call."""

from __future__ import annotations

from pathlib import Path

import pytest

from house_figures import (
    EQUALS,
    LIMITS,
    LONG,
    ROOT,
    Details,
    above,
    circles,
    code_lines,
    count_ways,
    layers,
    long_functions,
    shared_names,
    side_by_side,
    top_level_names,
)


def test_a_circle_is_every_module_that_imports_itself_through_others() -> None:
    graph = {"a": ["b"], "b": ["c", "d"], "c": ["a"], "d": [], "e": ["f"], "f": ["e"], "g": ["a"]}
    assert circles(graph) == [["a", "b", "c"], ["e", "f"]]


def test_modules_that_import_one_way_are_no_circle() -> None:
    assert circles({"a": ["b", "c"], "b": ["c"], "c": []}) == []


CODE = '''"""Three lines
of documentation
here."""

# a comment
import a  # counts


class B:
    """None."""

    c = 1
    """None either."""
    d = """counts
    twice"""
'''


def test_code_lines_are_neither_blank_nor_prose() -> None:
    assert code_lines(CODE) == 5


def test_names_are_public_classes_and_functions() -> None:
    assert sorted(
        top_level_names("class A: ...\ndef b(): ...\nasync def c(): ...\nd = 1\nclass _E: ...")
    ) == ["A", "b", "c"]


def test_a_name_of_two_modules_is_found_with_both() -> None:
    modules = {"a.py": "def f(): ...\nclass C: ...", "b/a.py": "class f: ...", "b/c.py": "def _g(): ..."}
    assert shared_names({**modules, "d.py": "def _g(): ..."}) == {"f": ["a.py", "b/a.py"]}


@pytest.mark.parametrize(("lines", "found"), [(LONG, []), (LONG + 1, ["m.py::f"])])
def test_a_function_is_long_from_one_line_too_many_on(lines: int, found: list[str]) -> None:
    text = "class C:\n    def f(self):\n" + "        pass\n" * (lines - 1)
    assert list(long_functions({"m.py": text})) == found


def test_the_fullest_folder_counts_without_doors_and_lists_of_equals() -> None:
    folders = {"": 3, "a": 4, "a/b": 2, **dict.fromkeys(EQUALS, 9)}
    modules = [f"{folder}/m{n}.py".lstrip("/") for folder, count in folders.items() for n in range(count)]
    assert side_by_side([*modules, "a/__init__.py"]) == 4
    assert side_by_side(["diff/m.py", "diff/n.py"]) == 2


def test_lists_of_equals_are_folders_of_the_generator() -> None:
    assert all((ROOT / "codegen" / "mcprev_codegen" / folder).is_dir() for folder in EQUALS)


def test_layers_are_those_of_the_contract(tmp_path: Path) -> None:
    contract = "[importlinter:contract:layers]\ncontainers = p\nlayers =\n    a | b\n    c\n"
    (tmp_path / ".importlinter").write_text(contract, encoding="utf-8")
    assert layers(tmp_path, "p") == 2


def test_a_figure_above_its_limit_is_named() -> None:
    figures = {limit.figure: limit.most for limit in LIMITS}
    assert above(figures) == []
    first = LIMITS[0]
    (named,) = above({**figures, first.figure: first.most + 1})
    assert named.startswith(f"{first.figure}: {first.most + 1}, more than the limit of {first.most}; ")


@pytest.mark.parametrize("name", ["stdio session", "HTTP session", "stateless HTTP"])
def test_the_way_of_a_call_goes_from_the_transport_to_the_handler_and_back(name: str) -> None:
    details = Details()
    figures = dict(count_ways(ROOT, details, {name}))
    way = details.ways[name]
    assert way[0] == "the handler"
    assert figures == {f"{name}: files": len(set(way)), f"{name}: changes of file": len(way)}
    for layer in ("core/", "protocol/", "transports/", "wire/"):
        assert any(station.startswith(f"runtime/mcprev/{layer}") for station in way)
