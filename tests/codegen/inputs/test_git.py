"""Repositories are read without their configuration: nothing that it names is run, and their content is found.

Each hostile repository names a program in every place in which git looks for one. The program leaves a file behind.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from helpers.mini import SOURCE, write_folder
from helpers.shell import git as run_git
from helpers.support import FOLDER
from mcprev_codegen.checkout.pinning import import_schema
from mcprev_codegen.diff import load_input
from mcprev_codegen.errors import InputError
from mcprev_codegen.inputs import SchemaFolder, git
from mcprev_codegen.inputs.files import read_file

REVISION: Final = "2099-03-03"
TEXT: Final = SOURCE.replace("2099-01-01", REVISION)
CONFIG: Final = """
[core]
    fsmonitor = {run}
    hooksPath = {hooks}
    pager = {run}
    editor = {run}
    sshCommand = {run}
    gitProxy = {run}
    askPass = {run}
    alternateRefsCommand = {run}
    attributesFile = {attributes}
    untrackedCache = true
[include]
    path = {more}
[includeIf "gitdir:**"]
    path = {more}
[filter "evil"]
    clean = {run}
    smudge = {run}
    process = {run}
    required = true
[diff]
    external = {run}
[diff "evil"]
    textconv = {run}
    command = {run}
[gpg]
    program = {run}
[gpg "ssh"]
    program = {run}
[log]
    showSignature = true
[credential]
    helper = !{run}
[alias]
    cat-file = !{run}
    rev-list = !{run}
    status = !{run}
[pager]
    cat-file = {run}
    rev-list = {run}
[remote "origin"]
    url = ext::{run}
    promisor = true
    partialclonefilter = blob:none
    uploadpack = {run}
    vcs = ext
[protocol]
    allow = always
[protocol "ext"]
    allow = always
[trailer "x"]
    command = {run}
[uploadpack]
    packObjectsHook = {run}
"""
HOOKS: Final = (
    "fsmonitor-watchman",
    "query-watchman",
    "post-index-change",
    "reference-transaction",
    "post-checkout",
)


def commit(folder: Path, text: str, *options: str) -> str:
    """Commit a schema.ts in a folder of the repository; the commit."""
    path = folder / "api" / "schema.ts"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
    run_git(folder, "add", ".")
    run_git(folder, "commit", "-q", "-m", "change", *options)
    return run_git(folder, "rev-parse", "HEAD")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "foreign"
    folder.mkdir()
    run_git(folder, "init", "-q", "-b", "main")
    return folder


def arm(folder: Path, place: Path, config: Path) -> Path:
    """Name a program in every place of the repository; the file that the program leaves behind."""
    canary, program, hooks = place / "was-run", place / "run.sh", place / "hooks"
    program.write_text(f'#!/bin/sh\necho "$0 $@" >>{canary}\nexit 1\n', encoding="utf-8")
    program.chmod(0o755)
    hooks.mkdir()
    for hook in HOOKS:
        for parent in (hooks, folder / ".git" / "hooks"):
            parent.mkdir(exist_ok=True)
            (parent / hook).write_bytes(program.read_bytes())
            (parent / hook).chmod(0o755)
    (place / "more").write_text(f"[core]\n fsmonitor = {program}\n pager = {program}\n", encoding="utf-8")
    (place / "attributes").write_text("* filter=evil diff=evil\n", encoding="utf-8")
    (folder / ".gitattributes").write_text("* filter=evil diff=evil\n", encoding="utf-8")
    text = CONFIG.format(run=program, hooks=hooks, more=place / "more", attributes=place / "attributes")
    with config.open("a", encoding="utf-8") as file:
        file.write(text)
    return canary


def test_the_trap_works(repository: Path, tmp_path: Path) -> None:
    commit(repository, TEXT)
    canary = arm(repository, tmp_path, repository / ".git" / "config")
    subprocess.run(["git", "status"], cwd=repository, capture_output=True, check=False)
    assert canary.exists(), "git itself runs what the configuration names"


def missing_objects(folder: Path) -> None:
    """Take the files of all commits away, which a partial clone would fetch."""
    for line in run_git(folder, "rev-list", "--objects", "--all").splitlines():
        name = line.split()[0]
        if run_git(folder, "cat-file", "-t", name) == "blob":
            (folder / ".git" / "objects" / name[:2] / name[2:]).unlink()


def as_it_is(_folder: Path) -> None:
    pass


def signed(folder: Path) -> None:
    """Put a signature on the commit, which git would have a program check."""
    lines = run_git(folder, "cat-file", "commit", "HEAD").split("\n")
    lines.insert(lines.index(""), "gpgsig -----BEGIN PGP SIGNATURE-----\n \n -----END PGP SIGNATURE-----")
    name = run_git(folder, "hash-object", "-t", "commit", "-w", "--stdin", text="\n".join(lines) + "\n")
    run_git(folder, "update-ref", "HEAD", name)


@pytest.mark.parametrize("change", [as_it_is, signed, missing_objects])
def test_nothing_that_a_repository_names_is_run(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[Path], None]
) -> None:
    commit(repository, TEXT)
    change(repository)
    canary = arm(repository, tmp_path, repository / ".git" / "config")
    schema = write_folder(tmp_path / "own")
    found = change is not missing_objects
    path = repository / "api" / "schema.ts"
    if found:
        assert len(import_schema(SchemaFolder(schema), str(path), REVISION).commit) == 40
    else:
        with pytest.raises(InputError, match="pass it with --commit"):
            import_schema(SchemaFolder(schema), str(path), REVISION)
    monkeypatch.chdir(repository)
    for named in ("HEAD:api/schema.ts", "main:api", "HEAD:./api/schema.ts"):
        if found:
            assert load_input(FOLDER, named).name == REVISION
        else:
            with pytest.raises(InputError):
                load_input(FOLDER, named)
    assert not canary.exists(), canary.read_text(encoding="utf-8")


def test_nor_what_a_linked_checkout_or_the_environment_names(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = commit(repository, TEXT)
    linked = tmp_path / "linked"
    run_git(repository, "worktree", "add", "-q", "-b", "other", str(linked))
    second = commit(linked, TEXT + "export type More = string;\n")
    canary = arm(repository, tmp_path, repository / ".git" / "config")
    program = str(tmp_path / "run.sh")
    for name in ("GIT_EXTERNAL_DIFF", "GIT_PAGER", "GIT_SSH_COMMAND", "GIT_ASKPASS", "GIT_EXEC_PATH"):
        monkeypatch.setenv(name, program)
    monkeypatch.setenv("GIT_DIR", str(tmp_path))
    for folder, expected in ((repository, first), (linked, second)):
        found = git.find_repository(folder / "api")
        assert found is not None
        path = folder / "api" / "schema.ts"
        assert found.last_change(path, path.read_bytes()) == expected
    monkeypatch.chdir(linked / "api")
    for named, more in (("HEAD:./schema.ts", True), ("HEAD:../api", True), ("main:api/schema.ts", False)):
        assert ("More" in load_input(FOLDER, named).declared.types) == more
    assert not canary.exists(), canary.read_text(encoding="utf-8")


@pytest.mark.parametrize("storage", [["--object-format=sha256"], []], ids=["sha256", "sha1"])
@pytest.mark.parametrize("packed", [False, True], ids=["loose", "packed"])
def test_repositories_of_each_kind_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, storage: list[str], packed: bool
) -> None:
    run_git(tmp_path, "init", "-q", "-b", "main", *storage)
    commit(tmp_path, TEXT)
    run_git(tmp_path, "tag", "-m", "one", "v1")
    commit(tmp_path, TEXT + "export type More = string;\n")
    if packed:
        run_git(tmp_path, "gc", "-q")
    monkeypatch.chdir(tmp_path)
    for named, more in (
        ("v1:api", False),
        ("HEAD~1:api/", False),
        ("main@{0}:api", True),
        ("HEAD:api", True),
    ):
        assert ("More" in load_input(FOLDER, named).declared.types) == more
    found = git.find_repository(tmp_path)
    assert found is not None
    path = tmp_path / "api" / "schema.ts"
    assert bool(found.last_change(path, path.read_bytes())) == (not storage), "pins have 40 digits"


def test_objects_of_a_repository_that_another_one_borrows_are_found(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit(repository, TEXT)
    run_git(tmp_path, "clone", "-q", "--shared", str(repository), "borrower")
    alternates = tmp_path / "borrower" / ".git" / "objects" / "info" / "alternates"
    alternates.write_text("../../../foreign/.git/objects\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path / "borrower")
    assert load_input(FOLDER, "HEAD:api").name == REVISION


@pytest.mark.parametrize("named", ["--batch:x.ts", "-x:schema.ts", "--output=x:schema.ts"])
def test_a_reference_is_never_an_option(
    repository: Path, monkeypatch: pytest.MonkeyPatch, named: str
) -> None:
    commit(repository, TEXT)
    monkeypatch.chdir(repository)
    with pytest.raises((InputError, ValueError), match=r"no such file|neither a revision"):
        load_input(FOLDER, named)


def a_pipe(folder: Path) -> None:
    (folder / ".git" / "HEAD").unlink()
    os.mkfifo(folder / ".git" / "HEAD")


def a_configuration_without_end(folder: Path) -> None:
    (folder / ".git" / "config").unlink()
    (folder / ".git" / "config").symlink_to("/dev/zero")


def a_link_to_nowhere(folder: Path) -> None:
    for name in ("HEAD", "config"):
        (folder / ".git" / name).unlink()
    (folder / ".git" / "HEAD").symlink_to("nowhere")


def a_folder_that_is_none(folder: Path) -> None:
    (folder / ".git").rename(folder / "git")
    (folder / ".git").write_bytes(b"gitdir: \xff\0")


@pytest.mark.parametrize(
    "spoil", [a_pipe, a_configuration_without_end, a_link_to_nowhere, a_folder_that_is_none]
)
def test_a_repository_that_is_none_is_an_error(
    repository: Path, monkeypatch: pytest.MonkeyPatch, spoil: Callable[[Path], None]
) -> None:
    commit(repository, TEXT)
    spoil(repository)
    monkeypatch.chdir(repository)
    with pytest.raises(InputError, match="not a git repository"):
        load_input(FOLDER, "HEAD:api/schema.ts")


def test_a_file_of_any_size_is_not_read(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commit(repository, TEXT)
    monkeypatch.chdir(repository)
    for module in ("mcprev_codegen.inputs", "mcprev_codegen.inputs.files"):
        monkeypatch.setattr(f"{module}.LIMIT", len(TEXT.encode()) - 1)
    for named in ("HEAD:api", "api/schema.ts"):
        with pytest.raises(InputError, match="larger than"):
            load_input(FOLDER, named)
    with pytest.raises(InputError, match="larger than"):
        read_file(Path("/dev/zero"))


def test_what_a_repository_puts_in_the_place_of_a_commit_is_not_pinned_as_that_commit(
    repository: Path, tmp_path: Path
) -> None:
    """`git replace` shows another file under the name of a commit that everybody knows."""
    known = commit(repository, TEXT)
    other = commit(repository, TEXT.replace("size?: number", "size?: string"))
    changed = (repository / "api" / "schema.ts").read_bytes()
    run_git(repository, "reset", "-q", "--hard", known)
    run_git(repository, "replace", known, other)
    path = repository / "api" / "schema.ts"
    path.write_bytes(changed)
    found = git.find_repository(path.parent)
    assert found is not None
    assert found.last_change(path, changed) is None
    assert found.read("HEAD:api/schema.ts", "", 10_000)[1].decode() == TEXT
    folder = SchemaFolder(write_folder(tmp_path))
    with pytest.raises(InputError, match="the upstream commit is unknown"):
        import_schema(folder, str(path), REVISION)
