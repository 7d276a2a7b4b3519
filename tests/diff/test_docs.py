"""Every snippet of `docs/diff.md` is run and prints the output on the page."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path
from typing import Final, cast

import pytest
import yaml  # type: ignore[import-untyped]
from click.testing import CliRunner, Result

from helpers.support import FOURTH, ROOT, SCHEMA
from mcprev.cli import main
from mcprev_codegen.diff.comparison.pairing import MAX_ALIKE

PAGE: Final = (ROOT / "docs" / "diff.md").read_text(encoding="utf-8")
BLOCKS: Final = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL)
COMMANDS: Final = [line for kind, block in BLOCKS if kind == "sh" for line in block.splitlines()]
TOML, YAML = (next(block for kind, block in BLOCKS if kind == name) for name in ("toml", "yaml"))
PRINTED: Final = [block for kind, block in BLOCKS if not kind]


def test_the_page_says_among_how_many_types_exchanged_names_are_recognised() -> None:
    assert f"among at most {MAX_ALIKE} changed types" in PAGE


@pytest.fixture(autouse=True)
def vendor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A clone, in its folder, with the change that the page describes."""
    origin, clone = tmp_path / "origin", tmp_path / "clone"
    origin.mkdir()
    text = (SCHEMA / FOURTH / "schema.ts").read_text(encoding="utf-8")
    (origin / "schema.ts").write_text(text, encoding="utf-8")
    for arguments in (
        ("init", "-q", "-b", "main"),
        ("add", "schema.ts"),
        ("-c", "user.name=A", "-c", "user.email=a@example.org", "commit", "-q", "-m", "Begin"),
        ("clone", "-q", ".", str(clone)),
    ):
        subprocess.run(["git", *arguments], cwd=origin, check=True)
    tool = text.index("export interface Tool ")
    text = text[:tool] + text[tool:].replace("description?:", "description:", 1)
    text = text.replace("LoggingLevel = ", 'LoggingLevel = "trace" | ')
    (clone / "schema.ts").write_text(text, encoding="utf-8")
    (clone / "diff-ignore.toml").write_text(TOML, encoding="utf-8")
    monkeypatch.chdir(clone)


def run(line: str) -> Result:
    name, *arguments = shlex.split(line, comments=True)
    assert name == "mcprev"
    return CliRunner().invoke(main, arguments, catch_exceptions=False)


@pytest.mark.parametrize("line", COMMANDS)
def test_each_command_of_the_page_works(line: str) -> None:
    done = run(line)
    assert done.exit_code == 0, done.output
    outputs = re.findall(r"-o (\S+)", line)
    assert all(Path(name).stat().st_size for name in outputs)
    assert bool(done.stdout) != bool(outputs)


def _step() -> str:
    """The step of the workflow that compares, with what GitHub puts in its place."""
    workflow = cast("dict[str, dict[str, dict[str, list[dict[str, str]]]]]", yaml.safe_load(YAML))
    (step,) = [s["run"] for s in workflow["jobs"]["schema"]["steps"] if s.get("run", "").startswith("mcprev")]
    return step.replace("$GITHUB_BASE_REF", "main")


def test_the_step_of_the_workflow_prints_what_the_page_shows() -> None:
    done = run(_step())
    assert done.stdout == PRINTED[0]
    assert done.exit_code == 1


def test_the_ignore_file_of_the_page_does_what_the_page_shows() -> None:
    done = run(f"{_step()} --ignore-file diff-ignore.toml")
    assert done.stdout == PRINTED[1]
    assert done.exit_code == 0


def test_the_page_shows_every_format_and_option() -> None:
    shown = run("mcprev diff --help").stdout
    formats = re.findall(r"--format \[([^]]+)\]", shown)[0].split("|")
    assert {f"--format {form}" for form in formats if form != "table"} <= set(
        re.findall(r"--format \w+", PAGE)
    )
    options = set(re.findall(r"--[a-z-]+", shown)) - {"--help", "--output"}
    assert options <= set(re.findall(r"--[a-z-]+", PAGE))
