"""Which tests of a suite run in the copies: those that name no revision, and those that name an affected one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from helpers.support import DATED, ROOT

TESTS = """\
import pytest
from mcprev.revisions import DEFAULT

@pytest.mark.parametrize("row", DEFAULT)
def test_rows(row): pass

@pytest.mark.parametrize("place", ["{0} to {1}", "to {2}", "nowhere"])
def test_ids(place): pass

def test_plain(): pass
"""


@pytest.mark.slow
def test_what_can_differ_runs(tmp_path: Path) -> None:
    for folder in ("api", "generated"):
        path = tmp_path / "tests" / folder / f"test_{folder}.py"
        path.parent.mkdir(parents=True)
        path.write_text(TESTS.format(*DATED), encoding="utf-8")
    (tmp_path / "pytest.ini").touch()
    paths = [str(ROOT / name) for name in ("tests", "codegen", "generated", "runtime")]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--collect-only", "-p", "no:cacheprovider",
         "-p", "rehearsal.selection", f"--affected={DATED[1]},2999-01-01", f"--regenerated={DATED[2]}"],
        cwd=tmp_path, env={"PYTHONPATH": ":".join(paths)}, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert not done.returncode, done.stdout + done.stderr
    assert [line.partition("::")[2] for line in done.stdout.splitlines() if "::" in line] == [
        *("test_rows[row1]", f"test_ids[{DATED[0]} to {DATED[1]}]", "test_ids[nowhere]", "test_plain"),
        *("test_rows[row2]", f"test_ids[to {DATED[2]}]", "test_ids[nowhere]", "test_plain"),
    ]
