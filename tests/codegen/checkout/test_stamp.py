"""A run without changed inputs is skipped, and every change that can affect the output is detected."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

import mcprev_codegen
from fuzz.fuzzing import sampled_of
from mcprev.cli import main
from mcprev_codegen.checkout import stamp
from mcprev_codegen.inputs import SchemaFolder, schema_folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The schema folder of a checkout for which the last run left nothing to do."""
    for name in (
        "schema/overlay.toml",
        "runtime/mcprev/revisions.py",
        "runtime/mcprev/conversion/step_x.py",
        "generated/mcprev_types/index.py",
        "docs/revisions/README.md",
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name, encoding="utf-8")
    folder = tmp_path / "schema"
    stamp.write_stamp(SchemaFolder(folder), stamp.input_digest(SchemaFolder(folder)))
    assert stamp.up_to_date(SchemaFolder(folder))
    return folder


Change = Callable[[Path, pytest.MonkeyPatch], object]


def edit(name: str) -> Change:
    return lambda root, _: (root / name).write_text("other", encoding="utf-8")


def delete(name: str) -> Change:
    return lambda root, _: (root / name).unlink()


def rename(name: str, other: str) -> Change:
    return lambda root, _: (root / name).rename(root / other)


def use_other_library(_: Path, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(stamp, "version", "{}.0".format)


@pytest.mark.parametrize(
    "change",
    [
        edit("schema/overlay.toml"),
        edit("schema/new.toml"),
        edit("runtime/mcprev/revisions.py"),
        edit("runtime/mcprev/conversion/step_x.py"),
        edit("generated/mcprev_types/index.py"),
        edit("docs/revisions/README.md"),
        delete("generated/mcprev_types/index.py"),
        rename("schema/overlay.toml", "schema/other.toml"),
        delete(str(stamp.STAMP_FILE)),
        use_other_library,
    ],
)
def test_every_difference_is_noticed(folder: Path, monkeypatch: pytest.MonkeyPatch, change: Change) -> None:
    change(folder.parent, monkeypatch)
    assert not stamp.up_to_date(SchemaFolder(folder))


@pytest.mark.slow
def test_a_change_of_any_file_of_the_generator_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Modules, `support`, templates and rules: one of each kind in each folder; in `make fuzz`, all files."""
    generator = shutil.copytree(
        Path(mcprev_codegen.__file__).parent,
        tmp_path / "mcprev_codegen",
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    monkeypatch.setattr(stamp, "__file__", str(generator / "checkout" / "stamp.py"))
    (folder := tmp_path / "schema").mkdir()
    unchanged = stamp.input_digest(SchemaFolder(folder))
    files = [path for path in generator.rglob("*") if path.is_file()]
    assert {path.suffix for path in files} >= {".py", ".jinja2", ".toml"}
    unnoticed: list[str] = []
    for path in sampled_of(files, [*{(path.parent, path.suffix): path for path in files}.values()]):
        data = path.read_bytes()
        path.write_bytes(data + b"#")
        if stamp.input_digest(SchemaFolder(folder)) == unchanged:
            unnoticed.append(str(path.relative_to(generator)))
        path.write_bytes(data)
    assert unnoticed == []
    assert stamp.input_digest(SchemaFolder(folder)) == unchanged


def test_what_changes_during_a_run_is_noticed_by_the_next(folder: Path) -> None:
    read = stamp.input_digest(SchemaFolder(folder))
    (folder / "overlay.toml").write_text("other", encoding="utf-8")
    stamp.write_stamp(SchemaFolder(folder), read)
    assert not stamp.up_to_date(SchemaFolder(folder))


def test_the_command_says_that_nothing_has_changed(folder: Path) -> None:
    result = CliRunner().invoke(main, ["generate"], env={"MCPREV_SCHEMA": str(folder)})
    assert (result.exit_code, result.output.startswith("nothing has changed")) == (0, True)


def test_the_digest_is_written_through_no_link(folder: Path, tmp_path: Path) -> None:
    away = tmp_path / "away"
    away.write_text("theirs", encoding="utf-8")
    (tmp_path / stamp.STAMP_FILE).unlink()
    (tmp_path / stamp.STAMP_FILE).symlink_to(away)
    stamp.write_stamp(SchemaFolder(folder), stamp.input_digest(SchemaFolder(folder)))
    assert stamp.up_to_date(SchemaFolder(folder))
    assert away.read_text(encoding="utf-8") == "theirs"


def test_a_library_of_another_version_than_the_pinned_one_is_named(tmp_path: Path) -> None:
    (tmp_path / stamp.LIBRARY_VERSIONS).write_text("# pins\nblack==1.2\n", encoding="utf-8")
    (line,) = stamp.other_versions(SchemaFolder(tmp_path / "schema"))
    assert (line.startswith("black "), "the files are generated with 1.2: run" in line) == (True, True)
    assert stamp.other_versions(SchemaFolder(tmp_path / "elsewhere" / "schema")) == []


def test_the_checkout_has_what_it_pins() -> None:
    assert stamp.other_versions(schema_folder()) == []
