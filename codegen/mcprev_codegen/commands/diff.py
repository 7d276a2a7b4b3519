"""`mcprev diff`: reports the changes between two revisions or schema.ts files, and which peers each change breaks."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from mcprev_codegen.commands import FILE, errors_told
from mcprev_codegen.errors import reason
from mcprev_codegen.terminal import echo, echo_lines

if TYPE_CHECKING:
    from mcprev_codegen.diff import Report, Selection, Verdict
    from mcprev_codegen.diff.render import TextStyle
    from mcprev_codegen.inputs import SchemaFolder

_FORMATS: Final = ("table", "markdown", "json", "html", "github", "junit")
_SIDES: Final = ("client", "server")
_LEVELS: Final = ("wire", "nominal", "source")
_THRESHOLDS: Final = ("breaking", "dangerous", "any")
_THRESHOLD_REACHED: Final = 1
_OUTPUT_FAILED: Final = 4
F = TypeVar("F", bound=Callable[..., Any])
_LATEST: Final = "latest"
_PLAIN_WIDTH: Final = 100


class _UsageError(click.ClickException):
    """Invalid arguments; the message is one line."""

    exit_code = 2


def _filter(option: str, name: str, metavar: str, told: str) -> Callable[[F], F]:
    """Return an option that selects changes and may be repeated."""
    return click.option(option, name, multiple=True, metavar=metavar, help=f"{told}; may be repeated.")


@click.command("diff")
@click.argument("inputs", nargs=-1, metavar="[OLD NEW]")
@click.option("--format", "form", type=click.Choice(_FORMATS), default="table", show_default=True)
@click.option(
    "--level",
    type=click.Choice(_LEVELS),
    default="nominal",
    show_default=True,
    help="Which changes to show: of data on the wire; also of names (nominal); also of generated code (source).",
)
@click.option(
    "--direction", type=click.Choice(_SIDES), help="Show only changes of data that this side sends."
)
@_filter("--type", "types", "NAME", "Show only changes of this type")
@_filter("--method", "methods", "NAME", "Show only changes of data that this method carries")
@_filter("--only", "only", "ID", "Show only changes with this rule or fingerprint")
@_filter("--ignore", "ignore", "ID", "Leave out changes with this rule or fingerprint")
@click.option(
    "--root",
    "roots",
    multiple=True,
    metavar="TYPE",
    help="Read only this type of two files and what it needs; may be repeated.",
)
@click.option(
    "--ignore-file",
    type=FILE,
    metavar="FILE",
    help="Leave out the changes that FILE lists: TOML, tables [[ignore]] of rule, path or fingerprint, and a reason.",
)
@click.option("--docs", is_flag=True, help="Also show changes of the descriptions in the upstream schema.")
@click.option(
    "--fail-on",
    type=click.Choice(_THRESHOLDS),
    help="Exit with 1 if a shown change has this verdict or a worse one.",
)
@click.option(
    "--history", "subject", metavar="NAME", help="Show the history of one type or method over all revisions."
)
@click.option("--rules", "list_rules", is_flag=True, help="List every rule with its levels and verdicts.")
@click.option("-o", "--output", type=FILE, help="Write to FILE instead of standard output.")
def diff_command(
    *,
    inputs: tuple[str, ...],
    form: str,
    level: str,
    direction: str | None,
    types: tuple[str, ...],
    methods: tuple[str, ...],
    only: tuple[str, ...],
    ignore: tuple[str, ...],
    roots: tuple[str, ...],
    ignore_file: Path | None,
    docs: bool,
    fail_on: str | None,
    subject: str | None,
    list_rules: bool,
    output: Path | None,
) -> None:
    """Show the changes from OLD to NEW, and which peers they break.

    Each is a pinned revision, `latest`, a version of an extension such as tasks@draft, or a schema.ts: a path, an https URL, or REF:PATH of a git checkout. A file on disk is read with
    the files that it imports, a folder may be an npm package.

    Every change has two verdicts: for data that an old peer sends to a new one, and for the reverse. A verdict is
    breaking, dangerous or ok. It applies to peers that use different revisions without negotiating one.

    Exit codes: 0 done, 1 a change reaches --fail-on, 2 usage, 3 an invalid input, 4 the output cannot be written.
    """
    from mcprev_codegen.diff import Level, Selection
    from mcprev_codegen.diff.render import REPORTS

    style = _text_style(output)
    with errors_told(briefly=True):
        if list_rules or subject is not None:
            if inputs or (list_rules and subject is not None):
                raise _UsageError(
                    "--rules and --history cannot be combined with OLD and NEW or with each other"
                )
            _output(_rules_or_history(subject, form, style), output, style)
            return
        if len(inputs) != 2:
            raise _UsageError("pass two inputs, OLD and NEW: revisions or schema.ts files")
        selection = Selection(Level(level), docs, direction, types, methods, only, ignore)
        report = _compare(inputs[0], inputs[1], roots, selection, ignore_file)
        _output(REPORTS[form](report, style, _threshold(fail_on or "breaking")), output, style)
    if fail_on is not None and report.at_least(_threshold(fail_on)):
        sys.exit(_THRESHOLD_REACHED)


def _text_style(output: Path | None) -> TextStyle:
    """Return the style of the output: colours and the width of a terminal, else plain text of fixed width."""
    from mcprev_codegen.diff.render import TextStyle

    if output is None and sys.stdout.isatty():
        return TextStyle(shutil.get_terminal_size().columns, colour=True)
    return TextStyle(_PLAIN_WIDTH)


def _output(text: str, output: Path | None, style: TextStyle) -> None:
    """Print the report or write it to a file; exit with 4 if that fails."""
    from mcprev_codegen.inputs import write_whole

    try:
        if output is None:
            echo_lines(text, coloured=style.colour)
        elif output.exists() and not output.is_file():  # a device or a pipe
            output.write_text(text, encoding="utf-8")
        else:
            write_whole(output.resolve(), text)
    except (OSError, RuntimeError) as error:  # the latter for a link that leads to itself
        echo(f"{output or 'standard output'}: cannot be written: {reason(error)}", err=True)
        sys.exit(_OUTPUT_FAILED)


def _compare(
    old_name: str, new_name: str, roots: Sequence[str], selection: Selection, ignore_file: Path | None
) -> Report:
    from mcprev_codegen import diff
    from mcprev_codegen.inputs import schema_folder

    folder = schema_folder()
    entries = diff.read_ignores(ignore_file) if ignore_file else ()
    try:
        old, new = (
            diff.load_input(folder, _latest(folder) if name == _LATEST else name, roots)
            for name in (old_name, new_name)
        )
        for warning in (*old.warnings, *new.warnings):
            echo(f"warning: {warning}", err=True)
        types, methods = {*old.declared.types, *new.declared.types}, {*old.methods, *new.methods}
        for what, named, known in (("type", selection.types, types), ("method", selection.methods, methods)):
            if unknown := [name for name in named if name not in known]:
                raise _UsageError(f"no {what} '{unknown[0]}' in OLD or NEW")
        report = diff.compare_revisions(folder, old, new)
        report = diff.ignore(report, entries, str(ignore_file)) if entries else report
        return diff.select(report, selection)
    except (diff.UnknownRevisionError, diff.SelectionError) as error:
        raise _UsageError(str(error)) from None


def _latest(folder: SchemaFolder) -> str:
    """Return the newest dated revision without open decisions."""
    from mcprev_codegen.checkout import decision_status
    from mcprev_codegen.facts import dated, load_pinned

    pending = decision_status(folder, load_pinned(folder)).pending
    names = [name for name in dated(folder) if name not in pending]
    if not names:
        raise _UsageError(
            "no pinned revision is complete, so `latest` is undefined; pass the name of a revision"
        )
    return names[-1]


def _rules_or_history(subject: str | None, form: str, style: TextStyle) -> str:
    """Return the history of a type or method; that of none is the list of rules."""
    from mcprev_codegen.diff import history, table
    from mcprev_codegen.diff.render import HISTORIES, RULES
    from mcprev_codegen.inputs import schema_folder

    if form not in RULES:
        option = "--rules" if subject is None else "--history"
        raise _UsageError(f"{option} supports only the formats table, markdown and json")
    if subject is None:
        return RULES[form](table(), style)
    try:
        return HISTORIES[form](history(schema_folder(), subject), style)
    except LookupError as error:
        raise _UsageError(str(error.args[0])) from None


def _threshold(named: str) -> Verdict:
    from mcprev_codegen.diff import Verdict

    return Verdict.OK if named == "any" else Verdict(named)
