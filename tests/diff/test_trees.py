"""Trees of files and packages are compared as they are generated: with what they import, and each place names its file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import pytest

from diff.diffing import run

INDEX: Final = (
    'export * from "./parts/shapes";\nexport function draw(): void;\nexport interface Own { a: Shape }\nimport { Shape } from "./parts/shapes";\n'
)
SHAPES: Final = (
    "// a comment\nexport interface Shape { name: string; size?: number }\nexport interface Other { b: 1 }\n"
)


@pytest.fixture(autouse=True)
def trees(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two versions of a package, and the same as folders with an index."""
    monkeypatch.chdir(tmp_path)
    for name, shapes in (("old", SHAPES), ("new", SHAPES.replace("size?", "size").replace("b: 1", "b: 2"))):
        for folder, start in ((Path(name), "index.ts"), (Path(f"{name}-package"), "types/main.d.ts")):
            parts = (folder / start).parent / "parts"
            parts.mkdir(parents=True)
            (folder / start).write_text(INDEX, encoding="utf-8")
            (parts / "shapes.ts").write_text(shapes, encoding="utf-8")
        (Path(f"{name}-package") / "package.json").write_text(
            '{"types": "types/main.d.ts"}', encoding="utf-8"
        )
    return tmp_path


@pytest.mark.parametrize(
    "names", [("old", "new"), ("old/index.ts", "new/index.ts"), ("old-package", "new-package")]
)
def test_what_files_import_is_compared(names: tuple[str, str]) -> None:
    done = run(*names)
    assert done.exit_code == 0, done.stderr
    assert "Shape.size" in done.stdout
    assert "Other.b" in done.stdout
    assert "functions do not describe data: 1 are left out" in done.stderr


def test_roots_are_compared_alone() -> None:
    done = run("old", "new", "--root", "Own")
    assert "Shape.size" in done.stdout
    assert "Other" not in done.stdout
    missing = run("old", "new", "--root", "Nope")
    assert (missing.exit_code, missing.stdout) == (3, "")
    assert "no type 'Nope'" in missing.stderr


@pytest.mark.slow
def test_a_revision_has_no_roots() -> None:
    done = run("latest", "new", "--root", "Own")
    assert done.exit_code == 2
    assert "--root is for files" in done.stderr


def test_annotations_stand_at_the_file_that_has_the_line() -> None:
    shape, *_ = [
        line for line in run("old", "new", "--format", "github").stdout.splitlines() if "Shape.size" in line
    ]
    assert "file=new/parts/shapes.ts,line=2,endLine=2," in shape


def test_places_in_json_and_in_the_table_name_their_file() -> None:
    report = json.loads(run("old", "new", "--format", "json").stdout)
    (shape,) = [change for change in report["changes"] if change["path"] == "Shape.size"]
    places = [(change["file"], change["line"]) for change in (shape["old"], shape["new"])]
    assert places == [("old/parts/shapes.ts", 2), ("new/parts/shapes.ts", 2)]
    assert "line 2 of old/parts/shapes.ts and 2 of new/parts/shapes.ts" in " ".join(
        run("old", "new").stdout.split()
    )


def test_a_place_in_the_compared_file_itself_names_no_other(trees: Path) -> None:
    (trees / "new" / "index.ts").write_text(INDEX.replace("a: Shape", "a: Shape; c: 1"), encoding="utf-8")
    report = json.loads(run("old", "new", "--format", "json").stdout)
    (own,) = [change for change in report["changes"] if change["path"] == "Own.c"]
    assert (own["new"]["line"], "file" in own["new"]) == (3, False)
    (line,) = [
        line for line in run("old", "new", "--format", "github").stdout.splitlines() if "Own.c" in line
    ]
    assert "file=new/index.ts,line=3," in line
