"""The schema folder is one object: each file is read once, however many steps need it; errors name file, line and key."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from helpers.mini import REVISION, write_folder
from helpers.support import DATED, FIFTH, FIRST, FOLDER, FOURTH, REVISIONS, SCHEMA
from mcprev_codegen.build import packages
from mcprev_codegen.checkout import input_digest
from mcprev_codegen.commands.diff import diff_command
from mcprev_codegen.errors import CodegenError
from mcprev_codegen.facts import load, load_pinned, load_revision, overlay_file
from mcprev_codegen.inputs import SchemaFolder, load_pins, read_table, remove_pin


class Calls:
    """Counts the calls of functions and the files that are opened in the repo's schema folder."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.found: Counter[str] = Counter()
        self._patch = monkeypatch
        opened: Any = Path.open

        def counted(path: Path, *arguments: Any, **more: Any) -> Any:
            if path.is_relative_to(SCHEMA):
                self.found[path.relative_to(SCHEMA).as_posix()] += 1
            return opened(path, *arguments, **more)

        monkeypatch.setattr(Path, "open", counted)

    def count(self, module: Any, name: str) -> None:
        function = getattr(module, name)

        def counted(*arguments: Any) -> Any:
            self.found[name] += 1
            return function(*arguments)

        self._patch.setattr(module, name, counted)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    found = Calls(monkeypatch)
    found.count(load, "hoist")
    found.count(load, "parse")
    found.count(overlay_file, "_entry")
    return found


TABLES = ("revisions.toml", "overlay.toml", "descriptions.toml", "names.toml")


@pytest.mark.parametrize(
    ("sides", "needed"),
    [
        ((FIRST, FIFTH), DATED[: DATED.index(FIFTH) + 1]),
        ((FOURTH, "latest"), REVISIONS),
        ((FIFTH, FIFTH), [FIFTH]),
    ],
)
def test_a_diff_reads_each_file_once(
    calls: Calls, monkeypatch: pytest.MonkeyPatch, sides: tuple[str, str], needed: Sequence[str]
) -> None:
    """So it parses and hoists each revision once, and makes each entry of the overlay once."""
    entries = len(overlay_file.load_overlay(FOLDER))
    calls.found.clear()
    monkeypatch.setattr("mcprev_codegen.inputs.schema_folder", lambda: SchemaFolder(SCHEMA))
    assert CliRunner().invoke(diff_command, sides, catch_exceptions=False).exit_code == 0
    files = dict.fromkeys((*TABLES, *(f"{name}/schema.ts" for name in needed)), 1)
    assert calls.found == {"hoist": len(needed), "parse": len(needed), "_entry": entries, **files}


@pytest.mark.slow
def test_a_generate_reads_each_file_once(
    calls: Calls, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def no_packages(
        _job: object, names: Sequence[str], _report: object
    ) -> Iterator[tuple[str, dict[str, str]]]:
        yield from ((name, {}) for name in names)

    monkeypatch.setattr(packages, "_packages", no_packages)
    folder = SchemaFolder(SCHEMA)
    read = input_digest(folder)
    assert packages.generate(folder, tmp_path / "out", docs=tmp_path / "docs", write=False).written
    assert input_digest(folder) == read
    files = {name: count for name, count in calls.found.items() if "." in name}
    contracts = {path.relative_to(SCHEMA).as_posix() for path in SCHEMA.rglob("schema.ts")}
    assert files.keys() >= {*TABLES, "extensions.toml", *contracts}
    assert {*files.values()} == {1}
    assert calls.found["hoist"] == calls.found["parse"] == len(contracts)


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    folder = SchemaFolder(write_folder(tmp_path))
    assert load_revision(folder, REVISION) is load_revision(folder, REVISION)
    remove_pin(folder, REVISION)
    assert not load_pins(folder)
    with pytest.raises(CodegenError, match="no pin"):
        load_revision(folder, REVISION)


def test_an_error_is_not_remembered(tmp_path: Path) -> None:
    folder = SchemaFolder(write_folder(tmp_path))
    text = (folder.path / "overlay.toml").read_text(encoding="utf-8")
    (folder.path / "overlay.toml").unlink()
    with pytest.raises(CodegenError, match="cannot be read"):
        load_revision(folder, REVISION)
    (folder.path / "overlay.toml").write_text(text, encoding="utf-8")
    assert load_revision(folder, REVISION).name == REVISION


def test_a_worker_process_gets_the_path_alone(tmp_path: Path) -> None:
    folder = SchemaFolder(write_folder(tmp_path))
    load_pinned(folder)
    sent = pickle.dumps(folder)
    assert len(sent) < 500 + len(str(tmp_path))
    assert list(load_pinned(pickle.loads(sent))) == [REVISION]  # noqa: S301 - our own


# -- tables ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Inner:
    name: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    name: str = ""
    inner: tuple[Inner, ...] = ()
    texts: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class File:
    name: str = ""
    rows: tuple[Row, ...] = ()
    texts: Mapping[str, str] = field(default_factory=dict[str, str])
    things: tuple[str, ...] = ()


@pytest.mark.parametrize(
    ("text", "line", "key"),
    [
        ("name = 1", 1, "name"),
        ("\n\n  name = 1", 3, "name"),
        ("other = 1\n", 1, "other"),
        ('"name" = 1', 1, "name"),
        ("things = [\n'a',\n1]", 1, "things"),
        ("[texts] # here\na = 'b'\n'c d' = 1 # there", 3, "texts.c d"),
        ("texts.a = 'b'\ntexts.b = 1", 2, "texts.b"),
        ("# [[rows]]\n[[rows]]\nname = 'a'\n[[ rows ]] # second\nname = 1", 5, "rows.name"),
        (
            "[[rows]]\n[[rows.inner]]\n[[rows]]\n[[rows.inner]]\n[[rows.inner]]\nname = 1",
            6,
            "rows.inner.name",
        ),
        ("[[rows]]\n[rows.texts]\na = 1", 3, "rows.texts.a"),
        ("rows = [{ name = 'a' },\n{ name = 1 }]", 1, "rows.name"),
        ("[rows]\nname = 'a'", 1, "rows"),
    ],
)
def test_a_value_of_another_kind_is_an_error_at_its_line_that_names_its_key(
    tmp_path: Path, text: str, line: int, key: str
) -> None:
    path = tmp_path / "a.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(CodegenError) as caught:
        read_table(path, File)
    (error,) = caught.value.parts
    assert str(error).startswith(f"{path}:{line}:")
    assert f"'{key}' " in str(error)


def test_all_values_of_other_kinds_are_told_at_once_up_to_a_bound(tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    path.write_text("[texts]\n" + "".join(f"k{n} = 1\n" for n in range(30)), encoding="utf-8")
    with pytest.raises(CodegenError) as caught:
        read_table(path, File)
    assert [str(e).partition(": ")[0] for e in caught.value.parts] == [f"{path}:{n}:1" for n in range(2, 22)]
