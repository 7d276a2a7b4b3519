"""The recipes of docs/generator.md, walked in a copy of the generator: each change takes effect with the steps of the page.

A generated file, a diff rule, a diff format and a command are added at once, and tried by one process. The recipes for
constructs and overlay facts are walked by the tables of `test_constructs` and `test_overlay`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from helpers.mini import SOURCE, write_folder
from helpers.support import ROOT

TEMPLATE = '''\
{{ header }}
"""The limits of MCP {{ revision }}."""

LIMITS = {{ bounds | literal }}
'''
RULE = """
[[rule]]
id = "digit-added"
kind = "field"
action = "tightened"
headline = "a digit more: {new}"
[[rule.case]]
name = "any"
level = "wire"
effect = "equal"
mirror = "digit-added:any"
old_to_new = ["ok", "It is ok."]
new_to_old = ["dangerous", "It may hurt."]
"""
FOUND = """\
    if new.field.tags.maximum == 99:
        yield site.change("digit-added")
"""
FORMAT = '''\
"""Renders a report as the ids of its changes."""

from mcprev_codegen.diff.changes import Report


def report_ids(report: Report) -> str:
    """Return one id on each line."""
    return "".join(f"{change.id}\\n" for change in report.changes)
'''
COMMAND = '''\
"""`mcprev greet`: prints a word."""

import click

from mcprev_codegen.terminal import echo


@click.command("greet")
def greet_command() -> None:
    """Print a word."""
    echo("hello")
'''
TRIED = """
import json, sys
from click.testing import CliRunner
from mcprev.cli import main
told = [CliRunner().invoke(main, arguments) for arguments in json.loads(sys.argv[1])]
print(json.dumps([[result.exit_code, result.output or repr(result.exception)] for result in told]))
"""


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the code in which every recipe is walked."""
    root = tmp_path_factory.mktemp("recipes")
    for name in ("codegen/mcprev_codegen", "runtime/mcprev"):
        shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
    house = root / "codegen" / "mcprev_codegen"

    def edit(path: Path, before: str, new: str) -> None:
        """Put a text behind another one, as people do."""
        text = path.read_text(encoding="utf-8")
        assert text.count(before) == 1, f"{path.name} has changed: {before}"
        path.write_text(text.replace(before, before + new), encoding="utf-8")

    (house / "templates" / "package" / "limits.py.jinja2").write_text(TEMPLATE, encoding="utf-8")
    package = house / "emit" / "package.py"
    edit(
        package,
        "MODULES: Final = (\n",
        '    PackageModule("limits", lambda p: constant_tables(p.revision, p.docs), ("LIMITS",)),\n',
    )

    with (house / "diff" / "changes" / "rules" / "members.toml").open("a", encoding="utf-8") as file:
        file.write(RULE)
    areas = house / "diff" / "comparison" / "areas"
    edit(areas / "members.py", "    yield from _limits(site, old.field.tags, new.field.tags)\n", FOUND)

    (house / "diff" / "render" / "ids.py").write_text(FORMAT, encoding="utf-8")
    edit(house / "commands" / "diff.py", '_FORMATS: Final = ("table",', ' "ids",')
    formats = house / "diff" / "render" / "__init__.py"
    edit(
        formats,
        "from mcprev_codegen.diff.render.html import report_html\n",
        "from mcprev_codegen.diff.render.ids import report_ids\n",
    )
    edit(
        formats,
        '    "html": lambda report, _style, _worst: report_html(report),\n',
        '    "ids": lambda report, _style, _worst: report_ids(report),\n',
    )

    (house / "commands" / "greet.py").write_text(COMMAND, encoding="utf-8")
    edit(
        root / "runtime" / "mcprev" / "cli" / "__init__.py",
        '    "diff": ("mcprev_codegen.commands.diff", _DIFF),\n',
        '    "greet": ("mcprev_codegen.commands.greet", _DIFF),\n',
    )
    return root


@pytest.mark.slow
def test_what_the_recipes_add_is_there(copy: Path, tmp_path: Path) -> None:
    schema, out = write_folder(tmp_path), tmp_path / "types_"
    clash, renamed = SOURCE.replace("NOT_THERE", "LIMITS"), tmp_path / "renamed"
    sides = [tmp_path / "old.ts", tmp_path / "new.ts", tmp_path / "clash.ts"]
    limited = SOURCE.replace("  size?", "  /** @maximum 99 */\n  size?")
    for path, text in zip(sides, (SOURCE, limited, clash), strict=True):
        path.write_text(text, encoding="utf-8")
    old, new, clashing = map(str, sides)
    calls = [
        ["greet"],
        ["diff", old, new, "--format", "ids"],
        ["generate", "--out", str(out)],
        ["generate", "x1", "--schema", clashing, "--no-overlay", "--out", str(renamed)],
    ]
    done = subprocess.run(
        [sys.executable, "-c", TRIED, json.dumps(calls)],
        env=os.environ
        | {
            "PYTHONPATH": os.pathsep.join(str(copy / name) for name in ("codegen", "runtime")),
            "MCPREV_SCHEMA": str(schema),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told: list[Any] = json.loads(done.stdout)
    assert told[0] == [0, "hello\n"]
    assert told[1] == [0, "constraint-tightened\ndigit-added\n"]
    assert told[2][0] == 0, told[2][1]
    assert told[3][0] == 0, told[3][1]
    used = "package.limits.LIMITS == package.LIMITS == package.MAX_ITEMS"
    for folder, name, true in (
        (tmp_path, "types_.v2099_01_01", used),
        (renamed, "renamed.x1", f"{used} != package.LIMITS_"),
    ):
        code = f"import {name} as package; assert {true}"
        subprocess.run([sys.executable, "-W", "error", "-c", code], cwd=folder, check=True)
