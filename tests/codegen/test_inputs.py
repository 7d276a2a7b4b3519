"""Type files of npm packages, which `make inputs` installs: each generates and imports, or is refused at its place."""

from __future__ import annotations

import json
import re
import sys
from importlib import import_module
from pathlib import Path
from typing import Final

import pytest

from helpers.support import FOLDER, ROOT, check_metaschema
from mcprev_codegen.build import packages as pipeline
from mcprev_codegen.errors import SchemaError

INSTALLED: Final = ROOT / ".inputs" / "node_modules"
"""Where `make inputs` puts the packages."""
PAGE: Final = (ROOT / "docs" / "typescript.md").read_text(encoding="utf-8")
ROW: Final = re.compile(r"^\| `([^` ]+)` ([\d.]+) \| `([^`]+)` \| (.*) \|$", re.MULTILINE)
INPUTS: Final = ROW.findall(PAGE)
"""The package, version, file and result of each row of the page."""


def result(file: Path, out: Path, package: str) -> str:
    """What comes of a file: the number of its types, all of which are imported, or the error."""
    try:
        pipeline.generate_project(FOLDER, file, out / package, "1.0", overlay=False, strict=True)
    except SchemaError as error:
        return f"{error.line}:{error.column}: {error.message.partition(';')[0]}"
    models = import_module(f"{package}.v1_0.models")
    names = [name for name in models.__all__ if getattr(models, name) is not None]
    import_module(f"{package}.v1_0.methods")
    check_metaschema(
        json.loads((out / package / package / "v1_0" / "schema.json").read_text(encoding="utf-8"))
    )
    return f"a package of {len(names)} types"


@pytest.mark.parametrize(("name", "version", "path", "expected"), INPUTS, ids=[row[0] for row in INPUTS])
def test_a_file_does_what_the_page_says(
    name: str, version: str, path: str, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not (INSTALLED / name).is_dir():
        pytest.skip("the packages are missing: `make inputs`")
    package = re.sub(r"\W+", "_", name).strip("_") + "_types"
    (tmp_path / package).mkdir()  # before it is searched, or it counts as missing
    monkeypatch.setattr(sys, "path", [str(tmp_path / package), *sys.path])
    described = json.loads((INSTALLED / name / "package.json").read_text(encoding="utf-8"))
    assert described["version"] == version
    assert result(INSTALLED / name / path, tmp_path, package) == expected


def test_the_page_has_enough_files_of_both_kinds() -> None:
    assert len(INPUTS) >= 10
    assert len({row[3].startswith("a package of") for row in INPUTS}) == 2
