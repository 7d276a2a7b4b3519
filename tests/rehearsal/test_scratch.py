"""What the rehearsal counts as written by hand, and that its copy of the tree finds nothing but itself."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from helpers.support import DATED
from rehearsal.scratch import Effort, Failed, Scratch, copy


@pytest.fixture
def scratch(tmp_path: Path) -> Scratch:
    subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True)
    for name, text in (("a.txt", "one\ntwo\n"), ("b.txt", "x\n" * 5)):
        (tmp_path / name).write_text(text, encoding="utf-8")
    return Scratch(tmp_path)


def test_what_is_written_by_hand_is_counted(scratch: Scratch) -> None:
    with scratch.by_hand():
        scratch.edit("a.txt", "two\n", "2\n3\n")
    scratch.append("a.txt", "a command wrote this\n")
    with scratch.by_hand():
        scratch.path("b.txt").unlink()
        scratch.path("c.txt").write_text("\nnew\n\n", encoding="utf-8")
    with scratch.by_hand():
        pass
    assert scratch.effort == Effort({"a.txt", "b.txt", "c.txt"}, lines=3)


def test_what_was_done_to_a_copy_is_put_back(scratch: Scratch) -> None:
    commit = ("git", "-c", "user.name=x", "-c", "user.email=x", "commit", "--quiet", "--all", "--message=x")
    scratch.must(scratch.run("git", "add", "--all"), "git add")
    scratch.must(scratch.run(*commit), "git commit")
    scratch.append("a.txt", "more\n")
    scratch.path("b.txt").unlink()
    scratch.path("new").mkdir()
    scratch.path("new/c.txt").write_text("new\n", encoding="utf-8")
    with scratch.by_hand():
        pass
    scratch.put_back()
    assert sorted(path.name for path in scratch.root.iterdir()) == [".git", "a.txt", "b.txt"]
    assert scratch.path("a.txt").read_text(encoding="utf-8") == "one\ntwo\n"


def test_an_edit_says_what_it_does_not_find(scratch: Scratch) -> None:
    with pytest.raises(Failed, match=r"a\.txt: 'three' stands there 0 times"):
        scratch.edit("a.txt", "three", "")
    with pytest.raises(Failed, match="5 times"):
        scratch.edit("b.txt", "x", "")


@pytest.mark.slow
def test_a_copy_finds_its_own_code(tmp_path: Path) -> None:
    made = copy(tmp_path)
    done = made.run(
        made.python, "-c", "import mcprev, mcprev_types, mcprev_codegen, pytest; print(mcprev.__file__)"
    )
    assert done.text.strip() == str(made.path("runtime/mcprev/__init__.py"))
    assert DATED[1] in made.must(made.mcprev("list"), "mcprev list")
    with pytest.raises(Failed, match=r"mcprev no failed:\n"):
        made.must(made.mcprev("no"), "mcprev no")
