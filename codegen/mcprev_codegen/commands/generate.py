"""`mcprev generate`: the packages of all or some revisions, and the pages that compare them."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Final

import click

from mcprev_codegen.errors import EXIT_CODE, CodegenError

_SHOWN: Final = 10


@click.command("generate")
@click.argument("revisions", nargs=-1, metavar="[REV]...")
@click.option(
    "--schema",
    "schema_file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Take the one REV from this schema.ts instead of the pinned contract; its own comments become docs.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    help="Write the packages here (default: the checkout's).",
)
@click.option("--check", is_flag=True, help="Write nothing; exit with 1 when something is not up to date.")
def command(*, revisions: tuple[str, ...], schema_file: Path | None, out: Path | None, check: bool) -> None:
    """Generate the packages of REV... (default: every pinned revision, and docs/revisions as well).

    Nothing is written unless everything could be generated. Exit codes: 0 done, 1 out of date (--check),
    2 usage, 3 a schema, pin or overlay entry is not in order.
    """
    from mcprev_codegen import pipeline
    from mcprev_codegen.revisions import schema_folder

    if schema_file is not None and out is None:
        raise click.UsageError(
            "--schema needs --out: a file that is not pinned does not go among the pinned packages"
        )
    started = time.perf_counter()
    try:
        folder = schema_folder()
        root = schema_folder(to_write=out is None).parent
        result = pipeline.generate(
            folder,
            out or root / "generated" / pipeline.PACKAGE,
            revisions,
            schema_file=schema_file,
            docs=None if out or revisions else root / "docs" / "revisions",
            write=not check,
            report=_progress,
        )
    except CodegenError as error:
        _clear()
        click.echo(str(error), err=True)
        sys.exit(EXIT_CODE)
    _clear()
    seconds = time.perf_counter() - started
    for path in result.foreign:
        click.echo(f"left alone, as it is not generated: {os.path.relpath(path)}", err=True)
    for decision in result.decisions:
        click.echo(str(decision), err=True)
    if not result.changed:
        click.echo(f"{len(result.files)} files, up to date ({seconds:.1f} s)")
        return
    verbs = ("out of date", "to be deleted") if check else ("written", "deleted")
    counts = [f"{len(result.written)} of {len(result.files)} files {verbs[0]}"] if result.written else []
    counts += [f"{len(result.deleted)} {verbs[1]}"] if result.deleted else []
    click.echo(f"{', '.join(counts)} ({seconds:.1f} s):")
    for path in result.changed[:_SHOWN]:
        click.echo(f"  {os.path.relpath(path)}")
    if len(result.changed) > _SHOWN:
        click.echo(f"  and {len(result.changed) - _SHOWN} more")
    if check:
        click.echo("run `mcprev generate` and commit what it writes", err=True)
        sys.exit(1)


def _progress(name: str, done: int, total: int) -> None:
    """One line that is written over, on a terminal only."""
    if sys.stderr.isatty():
        click.echo(f"\r\x1b[Kgenerated {done} of {total} revisions: {name}", nl=False, err=True)


def _clear() -> None:
    if sys.stderr.isatty():
        click.echo("\r\x1b[K", nl=False, err=True)
