"""`mcprev validate --schema` and `judge` with a schema of one's own: each violation is named by its JSON path."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import pytest
from click.testing import CliRunner, Result

import mcprev
from helpers.named import ROW_D
from mcprev.cli import main
from mcprev_codegen.build import packages as pipeline
from mcprev_codegen.emit import rendering, shared
from mcprev_codegen.inputs import schema_folder

SOURCE: Final = """
export interface Point { type: "point"; x: number; y: number; /** @format byte */ raw?: string }
export interface Circle { type: "circle"; radius: number; centre: Point }
export type Shape = Point | Circle;
export interface Drawing {
  shapes: Shape[];
  "line-width"?: number;
  note?: string | null;
  grid?: Point[][];
  named?: Record<string, Record<string, Point>>;
  pair?: [Point, ...string[]];
  level?: Level;
}
export interface Open { known?: string; [k: string]: Point | string | undefined }
export enum Level { Low = 1, High = 2 }
export type Names = string[];
export interface Model { class: string }
export interface Page<T = string> { items: T[] }
export function draw(drawing: Drawing): void;
"""
POINT: Final = {"type": "point", "x": 1, "y": 0.5}
CASES: Final[list[tuple[str, Any, list[str]]]] = [
    ("Drawing", {"shapes": []}, []),
    ("Drawing", {"shapes": [POINT, {"type": "circle", "radius": 1.0, "centre": POINT}], "more": {}}, []),
    ("Drawing", {"shapes": [], "note": None, "line-width": 2, "level": 2.0}, []),
    ("Drawing", {}, ["$.shapes"]),
    ("Drawing", [], ["$"]),
    ("Drawing", {"shapes": [POINT, {**POINT, "y": "0"}]}, ["$.shapes[1].y"]),
    ("Drawing", {"shapes": [{"type": "point", "x": 1}]}, ["$.shapes[0].y"]),
    ("Drawing", {"shapes": [], "line-width": True}, ['$["line-width"]']),
    ("Drawing", {"shapes": [], "line-width": None}, ['$["line-width"]']),
    ("Drawing", {"shapes": [], "grid": [[POINT, {**POINT, "raw": None}]]}, ["$.grid[0][1].raw"]),
    ("Drawing", {"shapes": [], "named": {"a": {"b c": {**POINT, "raw": "%"}}}}, ['$.named.a["b c"].raw']),
    ("Drawing", {"shapes": [], "pair": [{**POINT, "raw": None}]}, ["$.pair[0].raw"]),
    ("Drawing", {"shapes": [], "pair": [POINT, 1]}, ["$.pair[1]"]),
    ("Drawing", {"shapes": [], "level": True}, ["$.level"]),
    ("Shape", {"type": "square"}, ["$"]),
    ("Open", {"known": "a", "other": POINT}, []),
    ("Open", {"other": {**POINT, "raw": None}}, ["$.other.raw"]),
    ("Names", ["a"], []),
    ("Names", ["a", 1], ["$[1]"]),
    ("Level", 1, []),
    ("Level", "1", ["$"]),
    ("Model", {"class": 1}, ["$.class"]),
    ("Page", {"items": ["a", 1]}, ["$.items[1]"]),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with the file and its package, which is importable."""
    path = tmp_path_factory.mktemp("own")
    (path / "shapes.ts").write_text(SOURCE, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "cpu_count", lambda: 1)
        for module in (rendering, shared):
            patch.setattr(module, "format_python", str)
        out = path / "shapes-of-judge"
        pipeline.generate_project(schema_folder(), path / "shapes.ts", out, "3.0", overlay=False)
        patch.setattr(sys, "path", [str(out), *sys.path])
        patch.chdir(path)
        yield path


@pytest.fixture(scope="module")
def package(folder: Path) -> ModuleType:
    return import_module("shapes_of_judge")


def validate(value: object, *words: str) -> Result:
    given = value if isinstance(value, bytes) else json.dumps(value).encode()
    return CliRunner().invoke(main, ["validate", "-", *words], input=given)


@pytest.mark.parametrize(("name", "value", "paths"), CASES, ids=lambda each: json.dumps(each)[:50])
def test_values_are_judged_by_a_type_of_a_package(
    package: ModuleType, name: str, value: Any, paths: list[str]
) -> None:
    found = mcprev.judge(value, package, type_name=name)
    assert [one.path for one in found] == paths
    assert mcprev.judge(json.dumps(value).encode(), package, type_name=name) == found


@pytest.mark.parametrize("module", ["shapes_of_judge", "shapes_of_judge.latest", "shapes_of_judge.v3_0"])
def test_a_package_may_be_named_by_each_of_its_modules(folder: Path, module: str) -> None:
    found = mcprev.judge({"type": "point", "x": 1}, import_module(module), type_name="Point")
    assert [one.path for one in found] == ["$.y"]
    assert mcprev.schema_of(import_module(module), "Point")["$ref"] == "#/$defs/Point"


def test_values_are_judged_by_a_type_of_a_revision() -> None:
    assert mcprev.judge({"name": "a", "inputSchema": {"type": "object"}}, ROW_D, type_name="Tool") == []
    found = mcprev.judge({"name": 1, "title": None, "inputSchema": {}}, ROW_D.name, type_name="Tool")
    assert [one.path for one in found] == ["$.name", "$.inputSchema.type"]


@pytest.mark.parametrize("text", [b"", b"{", b"[NaN]", b"1 2", b"[" * 300, b'{"a": 1' + b"0" * 5000 + b"}"])
def test_what_is_not_json_is_a_violation(package: ModuleType, text: bytes) -> None:
    (found,) = mcprev.judge(text, package, type_name="Drawing")
    assert found.path == "$"
    assert found.message.startswith("is not JSON: ")


def test_what_cannot_be_judged_is_an_error(package: ModuleType) -> None:
    with pytest.raises(ValueError, match="no type 'Drawings'; there are Drawing"):
        mcprev.judge({}, package, type_name="Drawings")
    with pytest.raises(TypeError, match="json is no package of pydantic models"):
        mcprev.judge({}, json, type_name="Drawing")
    with pytest.raises(ValueError, match=r"shapes_of_judge 3\.0 extends no revision of MCP"):
        mcprev.judge({"jsonrpc": "2.0", "id": 1, "method": "ping"}, package)


@pytest.mark.parametrize(
    "schema", ["shapes_of_judge", "shapes-of-judge", "shapes-of-judge/shapes_of_judge", "shapes.ts"]
)
def test_the_command_takes_a_package_its_folder_or_the_file(folder: Path, schema: str) -> None:
    words = ("--schema", schema, "--type", "Drawing")
    assert validate({"shapes": [POINT]}, *words).exit_code == 0
    told = validate({"shapes": [{**POINT, "y": None}]}, *words)
    assert told.exit_code == 1
    assert "$.shapes[0].y\t" in told.stdout
    assert f"1 violation of Drawing in {schema}\n" in told.stdout


def test_the_command_reads_a_file_and_prints_json(folder: Path) -> None:
    (folder / "value.json").write_bytes(b'\xef\xbb\xbf{"items": [1]}')
    words = ["validate", "value.json", "--schema", "shapes_of_judge", "--type", "Page", "--json"]
    told = CliRunner().invoke(main, words)
    assert told.exit_code == 1
    assert json.loads(told.stdout) == {
        "format": 1,
        "schema": "shapes_of_judge",
        "type": "Page",
        "violations": [{"path": "$.items[0]", "message": "Input should be a valid string"}],
    }


def test_the_command_takes_a_type_of_a_revision() -> None:
    told = validate({"name": "a"}, "--revision", ROW_D.name, "--type", "Tool")
    assert told.exit_code == 1
    assert "$.inputSchema\tField required\n" in told.stdout


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--type", "Drawing"), 2, "--type requires --schema or --revision"),
        (("--schema", "shapes.ts", "--revision", "latest"), 2, "cannot be combined"),
        (("--schema", "shapes_of_judge"), 2, "extends no revision of MCP"),
        (("--schema", "shapes_of_judge", "--type", "Nope"), 2, "has no type 'Nope'"),
        (("--schema", "missing_package", "--type", "A"), 2, "there is no package 'missing_package'"),
        (("--schema", ".relative", "--type", "A"), 2, "there is no package '.relative'"),
        (("--schema", "json", "--type", "A"), 2, "json is no package of pydantic models"),
        (("--schema", "/", "--type", "A"), 2, "there is no package in '/'"),
        (("--schema", "missing.ts", "--type", "A"), 3, "missing.ts: there is no such file"),
        (("--schema", "shapes.ts", "--type", "Nope"), 3, "no type 'Nope'"),
    ],
)
def test_what_the_command_cannot_use_is_told(
    folder: Path, words: tuple[str, ...], code: int, said: str
) -> None:
    told = validate({}, *words)
    assert told.exit_code == code
    assert said in told.stderr


def test_a_file_that_cannot_be_read_is_told(folder: Path) -> None:
    words = ["validate", "missing.json", "--schema", "shapes_of_judge", "--type", "Page"]
    told = CliRunner().invoke(main, words)
    assert (told.exit_code, told.stderr) == (
        3,
        "Error: cannot read 'missing.json': No such file or directory\n",
    )
