"""`mcprev generate`: writes the packages of all or some revisions, and the pages that compare revisions."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

import click

from mcprev_codegen.commands import FILE, errors_told
from mcprev_codegen.terminal import echo, show_progress

if TYPE_CHECKING:  # it loads the code generator of the models
    from mcprev_codegen.build import Result

_SHOWN: Final = 10
_PLACE: Final = re.compile(r"(.*?)(:\d+: )(.*)", re.DOTALL)
"""The place and the text of a warning."""


def _target(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Return the name of a target. The table of targets is loaded only if the option is given, since that takes long."""
    if value is None:
        return None
    from mcprev_codegen.emit import TARGETS

    if value not in TARGETS:
        raise click.BadParameter(f"'{value}' is not a target; use one of {', '.join(TARGETS)}", ctx, param)
    return value


@click.command("generate")
@click.argument("revisions", nargs=-1, metavar="[REV]...")
@click.option(
    "--schema",
    "schema_file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Generate an installable package from this schema.ts, folder or npm package into --out; REV is the name of its revision.",
)
@click.option(
    "--like", metavar="REV", help="The revision that FILE extends (default: the one that FILE declares)."
)
@click.option(
    "--no-overlay",
    is_flag=True,
    help="FILE does not extend a known revision; it need not be a schema of MCP.",
)
@click.option(
    "--names",
    "names_file",
    type=FILE,
    metavar="TOML",
    help="A file with Python names for types and members of FILE whose own names cannot be used: tables [types], [members].",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="The folder to write. With --schema, it also names the package.",
)
@click.option(
    "--target",
    callback=_target,
    metavar="NAME",
    help="The library to generate types for: pydantic (default); or types only, into --out: dataclass, typeddict, msgspec.",
)
@click.option(
    "--root",
    "roots",
    multiple=True,
    metavar="TYPE",
    help="Generate this type of FILE and what it needs, and nothing else; may be given several times.",
)
@click.option(
    "--strict", is_flag=True, help="Refuse FILE if anything in it describes no data, such as a function."
)
@click.option(
    "--open",
    "open_unions",
    is_flag=True,
    help="Keep objects of an unknown `type` in unions that `type` tells apart, as MCP does; without it, only a FILE that extends a revision does.",
)
@click.option("--check", is_flag=True, help="Write nothing; exit with 1 if a file is out of date.")
def generate_command(
    *,
    revisions: tuple[str, ...],
    schema_file: Path | None,
    like: str | None,
    no_overlay: bool,
    names_file: Path | None,
    out: Path | None,
    target: str | None,
    roots: tuple[str, ...],
    strict: bool,
    open_unions: bool,
    check: bool,
) -> None:
    """Generate the typed packages of revisions.

    REV is a pinned revision. Default: every pinned revision, and docs/revisions as well.

    With --schema, generate one package from a file that is not pinned, such as a revision with an extension. With
    --target, generate types for a library other than pydantic: one module for each revision. Files are written only if all
    could be generated. Exit codes: 0 done, 1 out of date (--check), 2 usage, 3 an invalid schema, pin or overlay entry.
    """
    from mcprev_codegen.checkout import input_digest, other_versions, up_to_date, write_stamp
    from mcprev_codegen.inputs import schema_folder

    _check_usage(
        revisions, schema_file, like, out, target,
        no_overlay=no_overlay, names_file=names_file, open_unions=open_unions,
    )  # fmt: skip
    started = time.perf_counter()
    everything = not (revisions or schema_file or out)
    with errors_told():
        folder = schema_folder()
        if everything and up_to_date(folder):
            echo(f"nothing has changed: up to date ({time.perf_counter() - started:.1f} s)")
            return
        read = input_digest(folder) if everything else ""
        from mcprev_codegen import build  # imported late: it loads the code generator of the models

        used = target or build.DEFAULT_TARGET
        if schema_file is not None and out is not None:
            result = build.generate_project(
                folder, schema_file, out, next(iter(revisions), None),
                like=like, overlay=not no_overlay, names=names_file, roots=roots, strict=strict,
                open_unions=open_unions, target=used, write=not check,
            )  # fmt: skip
        else:
            root = schema_folder(to_write=out is None).path.parent
            docs = None if out or revisions else root / "docs" / "revisions"
            package = out or root / "generated" / build.PACKAGE
            result = build.generate(
                folder, package, revisions, target=used, docs=docs, write=not check, report=_progress
            )
    if everything and not (result.decisions or result.foreign or (check and result.changed)):
        write_stamp(folder, read)
    _report(result, time.perf_counter() - started, check=check)
    if result.changed and check:
        _end_out_of_date(other_versions(folder) if everything else [])
    if result.changed and schema_file is not None and out is not None:
        _tell_how_to_install(out)


def _tell_how_to_install(out: Path) -> None:
    """Print the command; without a path separator, pip would look the name up in its package index."""
    echo(f"install it with: pip install .{os.sep}{os.path.relpath(out)}")


def _end_out_of_date(others: Sequence[str]) -> NoReturn:
    """Say that `--check` found differences, and which other versions of tools may be the cause; end with code 1."""
    for line in others or ["run the same command without --check, and commit what it writes"]:
        echo(line, err=True)
    sys.exit(1)


def _report(result: Result, seconds: float, *, check: bool) -> None:
    """Print the warnings, the open decisions and the first of the files that changed."""
    for warning in _counted(result.warnings):
        echo(f"warning: {warning}", err=True)
    show_progress("")
    for path in result.foreign:
        echo(f"kept, because it is not generated: {os.path.relpath(path)}", err=True)
    for decision in result.decisions:
        echo(str(decision), err=True)
    if not result.changed:
        echo(f"{len(result.files)} files, up to date ({seconds:.1f} s)")
        return
    verbs = ("out of date", "to be deleted") if check else ("written", "deleted")
    counts = [f"{len(result.written)} of {len(result.files)} files {verbs[0]}"] if result.written else []
    counts += [f"{len(result.deleted)} {verbs[1]}"] if result.deleted else []
    echo(f"{', '.join(counts)} ({seconds:.1f} s):")
    for package in (path.parent for path in result.deleted if path.name == "meta.json"):
        echo(f"  {verbs[1]}: the package {os.path.relpath(package)}")
    for path in result.changed[:_SHOWN]:
        echo(f"  {os.path.relpath(path)}")
    if len(result.changed) > _SHOWN:
        echo(f"  and {len(result.changed) - _SHOWN} more")


def _counted(warnings: Sequence[str]) -> list[str]:
    """Return warnings with equal ones told once, at the first of their places, with their number."""
    places: dict[str, list[str]] = {}
    for warning in warnings:
        found = _PLACE.fullmatch(warning)
        text = found[3] if found else warning
        places.setdefault(text, []).append(f"{found[1]}{found[2]}" if found else "")
    return [
        f"{first}{text}" + (f" ({1 + len(others)} times, here first)" if others else "")
        for text, (first, *others) in places.items()
    ]


def _check_usage(
    names: Sequence[str],
    schema_file: Path | None,
    like: str | None,
    out: Path | None,
    target: str | None,
    *,
    no_overlay: bool,
    names_file: Path | None,
    open_unions: bool,
) -> None:
    """Raise `click.UsageError` for options that cannot be combined."""
    if schema_file is None:
        if like is not None or no_overlay or names_file is not None or open_unions:
            raise click.UsageError("--like, --no-overlay, --names and --open require --schema FILE")
        if out is None and target is not None:
            from mcprev_codegen.build import DEFAULT_TARGET

            if target != DEFAULT_TARGET:
                raise click.UsageError(f"--target {target} requires --out, the folder of the types")
    elif out is None:
        raise click.UsageError("--schema requires --out, the folder of the package")
    elif len(names) > 1:
        raise click.UsageError("--schema takes at most one REV, the name of the revision of FILE")
    elif like is not None and no_overlay:
        raise click.UsageError("--like and --no-overlay cannot be combined")


def _progress(name: str, done: int, total: int) -> None:
    show_progress(f"generated {done} of {total} revisions: {name}")
