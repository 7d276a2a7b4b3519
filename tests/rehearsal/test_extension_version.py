"""The day a new version of an extension appears: it is imported, described, generated and compared as a revision is."""

from __future__ import annotations

import importlib
import shutil
import sys
from pathlib import Path
from typing import Final

import pytest

from helpers.mini import COMMIT
from helpers.support import DATED, SCHEMA
from mcprev_codegen.build import generate
from mcprev_codegen.checkout import decision_lines, import_schema
from mcprev_codegen.diff import compare_revisions
from mcprev_codegen.facts import load_revision
from mcprev_codegen.inputs import SchemaFolder, extension_folder

NAME: Final = "tasks"
NEW: Final = "2099-01-01"
PACKAGE: Final = "rehearsed_types"
ADDED: Final = "export interface TaskPriority {\n  level: number;\n}\n"


@pytest.mark.slow
def test_a_new_version_is_imported_compared_and_generated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = tmp_path / "schema"
    shutil.copytree(SCHEMA, schema)
    own = extension_folder(SchemaFolder(schema), NAME)
    text = (own.path / DATED[-1] / "schema.ts").read_text(encoding="utf-8")
    file = tmp_path / "schema.ts"
    file.write_text(
        text.replace("  taskId: string;\n  status", "  taskId: string;\n  priority?: TaskPriority;\n  status")
        + ADDED,
        encoding="utf-8",
    )
    place = f"https://example.com/{NAME}.ts"
    import_schema(own, str(file), NEW, commit=COMMIT, location=place, base=DATED[-1], spec=place)

    folder = SchemaFolder(schema)
    own = extension_folder(folder, NAME)
    (line,) = decision_lines(folder)  # what is left to do
    assert line.startswith(f"{NAME}@{NEW}  ")
    assert "[types.TaskPriority]" in line
    report = compare_revisions(folder, load_revision(own, DATED[-1]), load_revision(own, NEW))
    assert report.types.added == ("TaskPriority",)
    assert "Task.priority" in {change.path for change in report.changes}

    monkeypatch.setattr("os.cpu_count", lambda: 1)
    generate(folder, tmp_path / PACKAGE, [f"{NAME}@{DATED[-1]}", f"{NAME}@{NEW}"])
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    found = importlib.import_module(f"{PACKAGE}.extensions")
    assert found.EXTENSIONS[NAME].latest == NEW
    package = importlib.import_module(f"{PACKAGE}.extensions.{NAME}")
    assert DATED[-1] == package.deltas.PREVIOUS
    assert package.Task.model_fields["priority"].annotation is not None
    assert "priority" in package.deltas.TO_PREVIOUS["GetTaskResult1"].drop
    for name in [name for name in sys.modules if name.partition(".")[0] == PACKAGE]:
        del sys.modules[name]
