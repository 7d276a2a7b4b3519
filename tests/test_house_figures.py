"""The figures of the house are counted as they are described: circles, code lines, limits, the way of a call."""

from __future__ import annotations

import pytest

from house_figures import LIMITS, ROOT, Details, above, circles, code_lines, count_ways, top_level_names


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
