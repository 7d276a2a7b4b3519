"""A copy of the tree to try things in: a clone in a folder of its own, and an environment that finds only its code.

What a person writes is told apart from what the commands write by git: an edit is what differs between the trees
before and after it.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import venv
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
BOUND: Final = 900.0
"""Seconds that one command may take."""
_CODE: Final = ("codegen", "generated", "runtime")
_SCRIPT: Final = """\
#!{python}
import sys
from mcprev.cli import main
if __name__ == "__main__":
    sys.exit(main())
"""


class Failed(Exception):
    """The rehearsal has shown that something is not as promised."""


@dataclass(frozen=True, slots=True)
class Done:
    """What came of a command."""

    code: int
    text: str
    """What it wrote, errors included."""


@dataclass
class Effort:
    """What was written by hand."""

    files: set[str] = field(default_factory=set[str])
    lines: int = 0
    """Lines added or changed, blank ones left out; of lines that were only deleted none."""


@dataclass
class Scratch:
    """The copy, and what has been written in it by hand."""

    root: Path
    effort: Effort = field(default_factory=Effort)

    @property
    def python(self) -> str:
        """The interpreter of its environment."""
        return str(self.root / ".venv" / "bin" / "python")

    def run(self, *command: str, bound: float = BOUND) -> Done:
        """Run a command in the copy, as on a machine that has nothing of upstream's."""
        environment = {k: v for k, v in os.environ.items() if k not in _NOT_PASSED_ON}
        environment["MCPREV_UPSTREAM_SCHEMA"] = str(self.root / "none")
        done = subprocess.run(
            command, cwd=self.root, env=environment, check=False, timeout=bound,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        return Done(done.returncode, done.stdout)

    def mcprev(self, *arguments: str) -> Done:
        """Run the command of the project."""
        return self.run(str(self.root / ".venv" / "bin" / "mcprev"), *arguments)

    def must(self, done: Done, what: str) -> str:
        """The output of a command that has to succeed. Raises `Failed` with it otherwise."""
        if done.code:
            raise Failed(f"{what} failed:\n{done.text}")
        return done.text

    # -- by hand and by command ----------------------------------------------------------------------

    def path(self, name: str) -> Path:
        """A file of the copy."""
        return self.root / name

    @contextmanager
    def by_hand(self) -> Generator[None]:
        """Count what is written inside as written by hand; everything before it is somebody else's."""
        before = self._tree()
        yield
        changes = self._git("diff", "--no-renames", "--unified=0", before, self._tree()).splitlines()
        for line in changes:
            if line.startswith(("--- a/", "+++ b/")):
                self.effort.files.add(line[6:])
            elif line.startswith("+") and line[1:].strip() and not line.startswith("+++ "):
                self.effort.lines += 1

    def _tree(self) -> str:
        """What all files say now, as a tree of git's."""
        self._git("add", "--all")
        return self._git("write-tree").strip()

    def put_back(self) -> None:
        """Make every file what it was when the tree was copied."""
        self._git("reset", "--hard", "--quiet")
        self._git("clean", "--force", "-d", "--quiet")

    def edit(self, name: str, old: str, new: str) -> None:
        """Replace a text that stands exactly once in a file. Raises `Failed` where it does not."""
        path = self.path(name)
        text = path.read_text(encoding="utf-8")
        if text.count(old) != 1:
            raise Failed(f"{name}: {old!r} stands there {text.count(old)} times")
        path.write_text(text.replace(old, new), encoding="utf-8")

    def append(self, name: str, text: str) -> None:
        """Write more at the end of a file."""
        path = self.path(name)
        path.write_text(path.read_text(encoding="utf-8") + text, encoding="utf-8")

    def _git(self, *arguments: str) -> str:
        done = self.run("git", *arguments)
        return self.must(done, f"git {arguments[0]}")


_NOT_PASSED_ON: Final = frozenset(
    {"MCPREV_SCHEMA", "MCPREV_UPSTREAM_SCHEMA", "PYTHONPATH", "VIRTUAL_ENV", "MAKEFLAGS"}
)


def copy(into: Path) -> Scratch:
    """Clone the checked-in tree into a folder and give it an environment of its own.

    The environment has the installed packages of the one that runs this, and the code of the clone before them.
    """
    root = into / "mcprev"
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(root)], check=True, timeout=BOUND)
    environment = root / ".venv"
    venv.create(environment, symlinks=True, with_pip=False)
    paths = [str(root / name) for name in _CODE]
    installed = [path for path in sys.path if path.endswith("site-packages")]
    site = next(environment.glob("lib/python*/site-packages"))
    (site / "mcprev.pth").write_text("\n".join([*paths, *installed, ""]), encoding="utf-8")
    script = environment / "bin" / "mcprev"
    script.write_text(_SCRIPT.format(python=environment / "bin" / "python"), encoding="utf-8")
    script.chmod(0o755)
    (environment / ".ready").touch()  # what `make` looks for
    return Scratch(root)


@dataclass(frozen=True, slots=True)
class Tested:
    """What came of a run of tests."""

    passed: int
    failures: tuple[str, ...]


def run_tests(
    scratch: Scratch, suites: Sequence[str], workers: int, *, affected: Sequence[str], same: Sequence[str]
) -> Tested:
    """Run the tests of some folders of the copy that can differ.

    `affected` are the revisions that are not spoken as before; tests of others are left out, and so is what `same`
    lists: files, and tests as `file::function`.
    """
    command = [
        *(
            "env",
            f"PYTHONPATH={scratch.path('tests')}",
            scratch.python,
            "-m",
            "pytest",
            "-q",
            "-n",
            str(workers),
        ),
        *("-p", "no:cacheprovider", "-p", "rehearsal.selection", "-rfE", "--tb=short", "--dist", "worksteal"),
        *(f"--deselect={name}" if "::" in name else f"--ignore={name}" for name in same),
        *(f"--affected={','.join(affected)}", f"--regenerated={','.join(_regenerated(scratch))}", *suites),
    ]
    done = scratch.run(*command)
    scratch.path("../pytest.txt").write_text(done.text, encoding="utf-8")
    lines = re.findall(r"^(?:FAILED|ERROR) tests/.*$", done.text, re.MULTILINE)
    passed = re.search(r"(\d+) passed", done.text)
    if (done.code and not lines) or passed is None:
        raise Failed(f"pytest did not run:\n{done.text[-3000:]}")
    return Tested(int(passed[1]), tuple(lines))


def _regenerated(scratch: Scratch) -> list[str]:
    """The revisions whose packages differ in more than the deltas to their neighbours from what is checked in."""
    command = ("git", "diff", "--name-only", "HEAD", "--", "generated/mcprev_types/v*")
    changed = scratch.must(scratch.run(*command), "git diff").splitlines()
    folders = {Path(name).parent.name for name in changed if Path(name).name != "deltas.py"}
    return sorted(name.removeprefix("v").replace("_", "-") for name in folders)
