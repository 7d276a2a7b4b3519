"""Helpers of the diff tests: reports between pinned revisions, and revisions built from a text or a module."""

from __future__ import annotations

import tempfile
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Final

from click.testing import CliRunner, Result

from helpers.support import DATED, FOLDER, load
from mcprev_codegen import ir
from mcprev_codegen.commands.diff import diff_command
from mcprev_codegen.diff import Change, Report, compare_revisions
from mcprev_codegen.diff.comparison.view import View
from mcprev_codegen.facts.load import load_file
from mcprev_codegen.facts.revision import Revision
from mcprev_codegen.typescript.printer import print_module

PAIRS: Final = tuple(pairwise(DATED))


@cache
def report(old: str, new: str) -> Report:
    """The report between two pinned revisions."""
    return compare_revisions(FOLDER, load(old), load(new))


@cache
def revision_of(text: str, name: str | None = None) -> Revision:
    """A revision that is not pinned, from the text of its schema.ts."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "schema.ts"
        path.write_text(text, encoding="utf-8")
        return load_file(FOLDER, path, name)


def revision_from(module: ir.Module, name: str) -> Revision:
    """A revision that is not pinned, from its declarations."""
    return revision_of(print_module(module), name)


@cache
def without_prose(name: str) -> View:
    """A pinned revision without its prose and without its pin."""
    return View(revision_from(load(name).declared.module, name))


def expanded(change: Change) -> list[str]:
    """The paths a change is about: its own, and the same member of every type that inherits it."""
    rest = change.path.partition(".")[2]
    return [change.path, *(f"{heir}.{rest}" for heir in change.affects)]


def run(*arguments: str) -> Result:
    """Run `mcprev diff`; an error that it does not tell is raised."""
    return CliRunner().invoke(diff_command, list(arguments), catch_exceptions=False)


def found(told: Report, path: str, rule: str) -> list[Change]:
    """The changes of one rule at one path."""
    return [change for change in told.changes if change.path == path and change.id == rule]
