"""`mcprev generate` writes only into generated folders and loses no other file, even if it is killed.

A folder counts as generated if its files say so. Other files in it are kept and reported; a folder that is neither
empty nor generated is refused. The tests kill a run before each single change that it makes to the disk.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from helpers.mini import COMMIT, REVISION, SOURCE, snapshot, write_folder, write_source
from helpers.shell import invoke
from mcprev_codegen import output_folder as trees
from mcprev_codegen.build import packages as pipeline
from mcprev_codegen.checkout.pinning import import_schema
from mcprev_codegen.emit.provenance import GENERATOR_VERSION, SHARED
from mcprev_codegen.errors import InputError
from mcprev_codegen.inputs import SchemaFolder
from mcprev_codegen.inputs.pins import load_pins
from mcprev_codegen.output_folder import Tree
from mcprev_codegen.python import module_name

pytestmark = pytest.mark.usefixtures("in_one_process")

MARK: Final = "# ours\n"


def owns(name: str, head: str) -> bool:
    return head.startswith(MARK)


def tree(target: Path, whole: bool = True, **files: str) -> Tree:
    """A tree whose files are given by name, with `__` for a slash."""
    named = {name.replace("__", "/") + ".txt": MARK + text for name, text in files.items()}
    return Tree(target, named, whole, owns, ("first.txt", "last.txt"))


def put(tree_: Tree) -> trees.Plan:
    plan = trees.planned_changes(tree_)
    trees.apply_plans([plan])
    return plan


# -- whose folder it is ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["notes.txt", ".git/HEAD", "deep/er/notes.txt", "first.txt", "index.py"])
def test_a_folder_with_files_of_somebody_elses_is_refused(tmp_path: Path, name: str) -> None:
    path = tmp_path / "out" / name
    path.parent.mkdir(parents=True)
    path.write_text("theirs", encoding="utf-8")
    with pytest.raises(InputError, match="neither empty nor written by"):
        put(tree(tmp_path / "out", first="1", last="2"))
    assert snapshot(tmp_path) == {f"out/{name}": b"theirs"}


def test_a_folder_that_holds_one_of_ours_further_down_is_refused(tmp_path: Path) -> None:
    put(tree(tmp_path / "project" / "types", first="1"))
    before = snapshot(tmp_path)
    with pytest.raises(InputError, match="neither empty nor written by"):
        put(tree(tmp_path / "project", first="1"))
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize("made", [False, True])
def test_an_empty_folder_is_taken(tmp_path: Path, made: bool) -> None:
    if made:
        (tmp_path / "out" / "sub" / "__pycache__").mkdir(parents=True)
        (tmp_path / "out" / "sub" / "__pycache__" / "x.pyc").touch()
    plan = put(tree(tmp_path / "out", first="1", sub__a="2"))
    assert plan.written == ("first.txt", "sub/a.txt")
    assert (tmp_path / "out" / "sub" / "a.txt").read_text(encoding="utf-8") == MARK + "2"


def test_a_file_in_the_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("theirs", encoding="utf-8")
    with pytest.raises(InputError, match="this is a file"):
        put(tree(tmp_path / "out", first="1"))
    assert snapshot(tmp_path) == {"out": b"theirs"}


# -- what is in it ---------------------------------------------------------------------------------------


def test_our_files_are_replaced_and_deleted_and_theirs_are_named(tmp_path: Path) -> None:
    out = tmp_path / "out"
    put(tree(out, first="1", a__one="1", a__two="2", b__one="1"))
    (out / "a" / "notes.txt").write_text("theirs", encoding="utf-8")
    (out / "c").mkdir()
    (out / "c" / "notes.txt").write_text("theirs", encoding="utf-8")
    plan = put(tree(out, first="1", a__one="new"))
    assert plan.written == ("a/one.txt",)
    assert plan.deleted == ("a/two.txt", "b/one.txt")
    assert plan.foreign == ("a/notes.txt", "c/notes.txt")
    assert snapshot(out) == {
        "first.txt": b"# ours\n1",
        "a/one.txt": b"# ours\nnew",
        "a/notes.txt": b"theirs",
        "c/notes.txt": b"theirs",
    }
    assert not (out / "b").exists()


def test_a_part_of_a_folder_neither_deletes_nor_names_the_rest(tmp_path: Path) -> None:
    out = tmp_path / "out"
    put(tree(out, first="1", a__one="1", b__one="1"))
    (out / "notes.txt").write_text("theirs", encoding="utf-8")
    plan = put(tree(out, whole=False, a__one="2"))
    assert (plan.written, plan.deleted, plan.foreign) == (("a/one.txt",), (), ())
    assert (out / "b" / "one.txt").is_file()


@pytest.mark.parametrize("what", ["file", "folder", "link", "above"])
def test_what_stands_in_the_way_is_refused_and_nothing_is_changed(tmp_path: Path, what: str) -> None:
    out = tmp_path / "out"
    put(tree(out, first="1"))
    if what == "above":
        (out / "a").write_text("theirs", encoding="utf-8")
    else:
        (out / "a").mkdir()
        if what == "file":
            (out / "a" / "one.txt").write_text("theirs", encoding="utf-8")
        elif what == "link":
            (out / "a" / "one.txt").symlink_to(tmp_path / "elsewhere")
        else:
            (out / "a" / "one.txt").mkdir()
            (out / "a" / "one.txt" / "notes").write_text("theirs", encoding="utf-8")
    before = snapshot(tmp_path)
    with pytest.raises(InputError, match=r"move (it|this file) away"):
        put(tree(out, first="new", a__one="1"))
    assert snapshot(tmp_path) == before


def test_a_link_to_a_file_of_ours_is_not_followed(tmp_path: Path) -> None:
    out = tmp_path / "out"
    put(tree(out, first="1"))
    (tmp_path / "kept.txt").write_text(MARK + "kept", encoding="utf-8")
    (out / "link.txt").symlink_to(tmp_path / "kept.txt")
    plan = put(tree(out, first="1"))
    assert plan.foreign == ("link.txt",)
    assert (out / "link.txt").is_symlink()


def test_a_folder_of_that_name_beside_it_is_refused_unless_a_killed_run_has_left_it(tmp_path: Path) -> None:
    beside = tmp_path / ".out.new"
    beside.mkdir()
    (beside / "notes.txt").write_text("theirs", encoding="utf-8")
    with pytest.raises(InputError, match="move it away"):
        put(tree(tmp_path / "out", first="1"))
    assert snapshot(tmp_path) == {".out.new/notes.txt": b"theirs"}
    (beside / ".mcprev-generate").touch()
    put(tree(tmp_path / "out", first="1"))
    assert snapshot(tmp_path) == {"out/first.txt": b"# ours\n1"}


# -- killed ----------------------------------------------------------------------------------------------

KILLED: Final = """
import json, os, pathlib, sys
from mcprev_codegen import emit, output_folder as trees

def counted(name):
    real = getattr(pathlib.Path, name)
    def change(self, *arguments, **options):
        global left
        left -= 1
        if left < 0:
            os._exit(9)
        return real(self, *arguments, **options)
    setattr(pathlib.Path, name, change)

def write(wanted, target):
    files = {p.relative_to(wanted).as_posix(): p.read_text() for p in wanted.rglob("*") if p.is_file()}
    row = emit.TARGETS["pydantic"]
    plan = trees.planned_changes(trees.Tree(target, files, True, row.is_generated, row.known_by))
    for name in ("mkdir", "touch", "write_text", "replace", "unlink", "rmdir"):
        counted(name)
    trees.apply_plans([plan])

for line in sys.stdin:
    wanted, target, left = json.loads(line)
    child = os.fork()
    if not child:
        write(pathlib.Path(wanted), pathlib.Path(target))
        print(json.dumps([0, left]), flush=True)
        os._exit(0)
    if code := os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
        print(json.dumps([code, None]), flush=True)
"""
"""Writes in a process for each line, which ends at once, as by SIGKILL, before so many changes to the disk."""


class Writer:
    """What writes trees and can be killed at it; it imports the generator once for all its processes."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def killed_after(self, changes: int, wanted: Path, target: Path) -> int | None:
        """Write what is wanted, killed after some changes; how many were left, when there are not so many."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([str(wanted), str(target), changes]) + "\n")
        self._process.stdin.flush()
        code, left = json.loads(self._process.stdout.readline())
        assert code in (0, 9)
        assert left is None or isinstance(left, int)
        return left


@pytest.fixture(scope="module")
def writer() -> Iterator[Writer]:
    command = [sys.executable, "-c", KILLED]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield Writer(process)


@pytest.mark.slow
def test_a_run_that_is_killed_leaves_each_file_old_or_new_and_the_next_completes_it(
    tmp_path: Path, writer: Writer
) -> None:
    """One revision goes, one comes and one changes: before each change to the disk, at any rate in steps."""
    schema, target = write_folder(tmp_path), tmp_path / "out"
    other = write_source(tmp_path, SOURCE.replace("2099-01-01", "2099-02-02"))
    import_schema(SchemaFolder(schema), str(other), "2099-02-02", commit=COMMIT)
    pipeline.generate(SchemaFolder(schema), target)
    theirs = {"notes.txt": b"theirs", "v2099_01_01/notes.txt": b"theirs", "v2099_02_02/models.txt": b"theirs"}
    for name, data in theirs.items():
        (target / name).write_bytes(data)
    old = snapshot(target)
    pins = load_pins(SchemaFolder(schema))
    text = (schema / "revisions.toml").read_text(encoding="utf-8")
    (schema / "revisions.toml").write_text(text.split('["2099-02-02"]')[0], encoding="utf-8")
    newest = write_source(
        tmp_path, SOURCE.replace("2099-01-01", "2099-03-03") + "export type More = string;\n"
    )
    import_schema(SchemaFolder(schema), str(newest), "2099-03-03", commit=COMMIT)
    assert list(pins) == [REVISION, "2099-02-02"]
    pipeline.generate(SchemaFolder(schema), tmp_path / "wanted")
    new = {**snapshot(tmp_path / "wanted"), **theirs}

    total = 500 - (writer.killed_after(500, tmp_path / "wanted", _copy(target, tmp_path / "counted")) or 0)
    assert total > 40
    for changes in sorted({*range(0, total, 8), total - 1}):
        out = _copy(target, tmp_path / str(changes) / "out")
        assert writer.killed_after(changes, tmp_path / "wanted", out) is None
        found = snapshot(out)
        for name, data in theirs.items():
            assert found[name] == data
        for name, data in found.items():
            assert data in (old.get(name), new.get(name)), name
        named = old["index.py"] if found["index.py"] == old["index.py"] else new["index.py"]
        for package in ("v2099_01_01", "v2099_02_02", "v2099_03_03"):
            if package.encode() in named:
                assert f"{package}/__init__.py" in found, "what the index names is there"
        assert writer.killed_after(500, tmp_path / "wanted", out) is not None
        assert snapshot(out) == new
        assert sorted(path.name for path in out.parent.iterdir()) == ["out"]


@pytest.mark.slow
def test_a_first_run_that_is_killed_leaves_whole_files_that_the_next_knows_as_its_own(
    tmp_path: Path, writer: Writer
) -> None:
    pipeline.generate(SchemaFolder(write_folder(tmp_path)), tmp_path / "wanted")
    new = snapshot(tmp_path / "wanted")
    total = 500 - (writer.killed_after(500, tmp_path / "wanted", tmp_path / "counted") or 0)
    assert total > 30
    for changes in sorted({*range(0, total, 6), total - 1}):
        out = tmp_path / str(changes) / "out"
        assert writer.killed_after(changes, tmp_path / "wanted", out) is None
        assert snapshot(out).items() <= new.items()
        assert writer.killed_after(500, tmp_path / "wanted", out) is not None
        assert snapshot(out) == new
        assert sorted(path.name for path in out.parent.iterdir()) == ["out"]


def _copy(target: Path, place: Path) -> Path:
    for name, data in snapshot(target).items():
        path = place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return place


# -- the command -----------------------------------------------------------------------------------------


def test_out_on_a_folder_of_somebody_elses_is_refused_and_nothing_is_changed(tmp_path: Path) -> None:
    schema, project = write_folder(tmp_path), tmp_path / "project"
    for name in (".git/HEAD", "src/app.py", "index.py"):
        path = project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("theirs\n", encoding="utf-8")
    before = snapshot(tmp_path)
    for arguments in ([], ["--check"], [REVISION]):
        result = invoke(schema, "generate", *arguments, "--out", str(project))
        assert result.exit_code == 3
        assert f"{project}: this folder is neither empty nor written by `mcprev generate`" in result.stderr
        assert snapshot(tmp_path) == before


def test_a_folder_of_somebody_elses_is_refused_before_packages_are_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def made(*_: object) -> None:
        pytest.fail("a package is made for a folder that is refused")

    schema, out = write_folder(tmp_path), tmp_path / "project"
    monkeypatch.setattr("mcprev_codegen.build.packages._packages", made)
    out.mkdir()
    (out / "notes.txt").write_text("theirs\n", encoding="utf-8")
    result = invoke(schema, "generate", "--out", str(out))
    assert (result.exit_code, "(it contains notes.txt); nothing was changed" in result.stderr) == (3, True)


def test_a_file_of_somebody_elses_is_named(tmp_path: Path) -> None:
    schema, out = write_folder(tmp_path), tmp_path / "types"
    invoke(schema, "generate", "--out", str(out))
    (out / "notes.txt").write_text("theirs\n", encoding="utf-8")
    result = invoke(schema, "generate", "--out", str(out))
    assert result.exit_code == 0
    assert "notes.txt" in result.stderr
    assert "up to date" in result.output


@pytest.mark.parametrize("version", [1, 4, 10])
def test_files_of_an_earlier_version_are_known_as_generated_and_written_anew(
    tmp_path: Path, version: int
) -> None:
    """Their headers name the version of the generator; today's is in `meta.json` alone."""
    schema, out = write_folder(tmp_path), tmp_path / "types"
    invoke(schema, "generate", "--out", str(out))
    fresh = snapshot(out)
    package = module_name(REVISION)
    fresh_header = b"Generated by mcprev generate;"
    assert sum(fresh_header in data for data in fresh.values()) == len(fresh) - 2  # meta.json, py.typed
    for name, data in fresh.items():
        header = f"Generated by mcprev generate (generator {version});".encode()
        older = data.replace(fresh_header, header).replace(
            f' "generator": {GENERATOR_VERSION},\n'.encode(), b""
        )
        assert (older != data) == (not name.endswith("py.typed"))
        (out / name).write_bytes(older)
    obsolete = out / package / "models" / "obsolete.py"
    obsolete.write_bytes((out / package / "constants.py").read_bytes())
    (out / "_obsolete.py").write_text("# theirs\n", encoding="utf-8")
    result = invoke(schema, "generate", "--out", str(out))
    assert result.exit_code == 0
    assert snapshot(out) == fresh | {"_obsolete.py": b"# theirs\n"}


def test_what_is_written_and_what_is_deleted_is_counted_apart(tmp_path: Path) -> None:
    schema, out = write_folder(tmp_path), tmp_path / "types"
    other = write_source(tmp_path, SOURCE.replace("2099-01-01", "2099-02-02"))
    import_schema(SchemaFolder(schema), str(other), "2099-02-02", commit=COMMIT)
    output = invoke(schema, "generate", "--out", str(out)).output
    package, shared = len(snapshot(out / "v2099_02_02")), len(SHARED)
    assert f"{shared + 2 * package} of {shared + 2 * package} files written (" in output
    text = (schema / "revisions.toml").read_text(encoding="utf-8")
    (schema / "revisions.toml").write_text(text.split('["2099-02-02"]')[0], encoding="utf-8")
    check = invoke(schema, "generate", "--out", str(out), "--check")
    assert f"4 of {shared + package} files out of date, {package} to be deleted (" in check.output
    assert f"\n  to be deleted: the package {os.path.relpath(out)}/v2099_02_02\n" in check.output
    done = invoke(schema, "generate", "--out", str(out)).output
    assert f"4 of {shared + package} files written, {package} deleted (" in done
    assert done.count("the package") == 1
    assert f"\n  deleted: the package {os.path.relpath(out)}/v2099_02_02\n" in done


@pytest.mark.slow
def test_a_package_that_takes_the_place_of_another_one_names_it(tmp_path: Path) -> None:
    schema = write_folder(tmp_path)
    file, out = tmp_path / "shop.ts", tmp_path / "shop-types"
    file.write_text("export interface Point { x: number }", encoding="utf-8")
    words = ("--schema", str(file), "--out", str(out), "--no-overlay")
    assert "the package" not in invoke(schema, "generate", "1", *words).output
    assert "\n  deleted: the package " not in invoke(schema, "generate", "1", *words).output
    replaced = invoke(schema, "generate", "2", *words).output
    assert f"\n  deleted: the package {os.path.relpath(out)}/shop_types/v1\n" in replaced
