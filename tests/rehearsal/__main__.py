"""Rehearses the day a new revision appears: `python -m rehearsal [SEED...]`, or `make rehearse SEEDS="1 2 3"`.

For each seed a copy of the checked-in tree gets a made-up draft by the recipe of docs/new-revision.md and runs the suites that depend on
revisions. Put back, it gets the same as a dated revision, runs them, loses its oldest revision by the recipe backwards
and runs them again. Whatever had to be edited beyond the recipe shows as a failed test.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click

from mcprev_codegen import ir
from mcprev_codegen.facts import load as sources
from mcprev_codegen.inputs import SchemaFolder
from rehearsal import page, recipe
from rehearsal.mutations import plan
from rehearsal.scratch import ROOT, Effort, Failed, Scratch, copy, run_tests

SUITES: Final = tuple(
    f"tests/{name}"
    for name in (
        "rehearsal",
        "generated",
        "conversion",
        "engine",
        "protocol",
        "api",
        "runtime",
        "codegen",
    )
)
SAME: Final = (
    *("tests/rehearsal/test_scratch.py", "tests/rehearsal/test_selection.py"),
    *(
        f"tests/codegen/{name}.py"
        for name in (
            "build/test_pipeline",
            "build/test_trees",
            "python/test_naming",
            "test_errors",
            "typescript/test_constructs",
            "typescript/test_typescript",
        )
    ),
    "tests/codegen/commands/test_commands.py",
    *(f"tests/codegen/checkout/test_decisions.py::test_{begin}" for begin in ("a_", "of_", "w")),
    "tests/codegen/typescript/test_contract.py::test_any_module_survives_printing",
    "tests/codegen/typescript/test_contract.py::test_any_module_survives_reformatting",
    *(f"tests/runtime/test_{name}.py" for name in ("plainschema", "schema_bounds", "validation")),
)
"""Tests in those folders whose inputs are their own, so that no revision changes what they say."""
MOST: Final = {"draft": (3, 60), "added": (4, 60), "removed": (5, None), "page": (7, 70)}
"""At most so many files and lines may be written by hand."""
PAGE: Final = "page"
"""The part that walks what docs/new-revision.md shows, on request only: it is like the second, with one revision always."""


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a rehearsal: what was written by hand, and what the tests said."""

    name: str
    effort: Effort
    passed: int
    failures: tuple[str, ...]
    seconds: float
    stopped: bool = False
    """Whether the recipe could not be walked to its end."""

    def problems(self) -> list[str]:
        """What was promised and is not so."""
        files, lines = MOST[self.name]
        found = list(self.failures)
        if len(self.effort.files) > files:
            found.append(
                f"{len(self.effort.files)} files by hand, not {files}: {', '.join(sorted(self.effort.files))}"
            )
        if lines is not None and self.effort.lines > lines:
            found.append(f"{self.effort.lines} lines by hand, not {lines}")
        return found

    def __str__(self) -> str:
        """The figures on one line."""
        effort = self.effort
        return (
            f"{self.name}: {len(effort.files)} files, {effort.lines} lines by hand; "
            f"{self.passed} tests passed, {len(self.failures)} failed; {self.seconds / 60:.1f} min"
        )


def main() -> int:
    """Rehearse each seed; the exit code is 1 when anything is not as promised."""
    parser = argparse.ArgumentParser(prog="rehearsal", description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("seeds", nargs="*", type=int, default=[1], metavar="SEED", help="default: 1")
    parser.add_argument("-n", "--workers", type=int, default=2, help="processes that the tests run in")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="leave the copies of the tree here")
    parser.add_argument("--part", action="append", choices=MOST, help="only this part; may be repeated")
    options = parser.parse_args()
    parts = options.part or [name for name in MOST if name != PAGE]
    bad = [seed for seed in options.seeds if not rehearse(seed, options.workers, options.keep, parts)]
    if bad:
        click.echo(f"not as promised: seeds {', '.join(map(str, bad))}")
    return 1 if bad else 0


def rehearse(seed: int, workers: int, keep: Path | None, wanted: Sequence[str]) -> bool:
    """One seed from beginning to end; whether everything is as promised."""
    names = sources.dated(SchemaFolder(ROOT / "schema"))
    made = plan(
        ir.contract(sources.load_revision(SchemaFolder(ROOT / "schema"), names[-1]).declared.module),
        names[-1],
        seed,
    )
    click.echo(f"seed {seed}: {made.revision} after {names[-1]}")
    for mutation in made.mutations:
        click.echo(f"  {mutation.kind}: {mutation.subject}")
    with tempfile.TemporaryDirectory(prefix="rehearsal-") as folder:
        scratch = copy(Path(folder) if keep is None else keep / f"seed-{seed}")
        parts: Sequence[tuple[str, Callable[[], None], tuple[str, ...]]] = (
            ("draft", lambda: recipe.draft(scratch, made, names[-1]), (recipe.DRAFT,)),
            ("added", lambda: recipe.add(scratch, made, names[-1]), (made.revision, names[-1])),
            ("removed", lambda: recipe.remove(scratch, names[0], names[1]), (names[1],)),
            (PAGE, lambda: page.walk(scratch), (page.REVISION, names[-1])),
        )
        problems: list[str] = []
        for name, walk, affected in parts:
            if name not in wanted:
                continue
            if name == PAGE:
                scratch.put_back()
            part = _walked(scratch, name, walk, affected, workers)
            click.echo(f"  {part}")
            problems += part.problems()
            for problem in part.problems():
                click.echo(f"    {problem}")
            if part.stopped:
                break
            if name == "draft":
                scratch.put_back()
    return not problems


def _walked(
    scratch: Scratch, name: str, walk: Callable[[], None], affected: Sequence[str], workers: int
) -> Part:
    """Walk one part of the recipe and run the tests."""
    started = time.perf_counter()
    scratch.effort = Effort()
    try:
        _show(f"{name}: the recipe")
        walk()
        _show(f"{name}: {', '.join(SUITES)}")
        tested = run_tests(scratch, SUITES, workers, affected=affected, same=SAME)
    except Failed as error:
        return Part(name, scratch.effort, 0, (str(error),), time.perf_counter() - started, stopped=True)
    finally:
        _show("")
    return Part(name, scratch.effort, tested.passed, tested.failures, time.perf_counter() - started)


def _show(text: str) -> None:
    """One line that is written over, on a terminal only."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{text}")
        sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
