"""`mcprev diff`: what changed between two revisions or schema.ts files, and whom it breaks."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from mcprev_codegen.errors import EXIT_CODE, CodegenError

if TYPE_CHECKING:
    from mcprev_codegen.diff import Report, Selection
    from mcprev_codegen.diff.render_text import TextStyle

_FORMATS: Final = ("table", "markdown", "json", "html")
_LEVELS: Final = ("wire", "nominal", "source")
_THRESHOLDS: Final = ("breaking", "dangerous", "any")
_MET: Final = 1
_PIPED_WIDTH: Final = 100


class _UsageError(click.ClickException):
    """Wrong arguments, told in one line."""

    exit_code = 2


@click.command("diff")
@click.argument("sides", nargs=-1, metavar="[OLD NEW]")
@click.option("--format", "form", type=click.Choice(_FORMATS), default="table", show_default=True)
@click.option(
    "--level",
    type=click.Choice(_LEVELS),
    default="nominal",
    show_default=True,
    help="How deep to look: what is sent; names, too; the generated code, too.",
)
@click.option("--direction", type=click.Choice(("client", "server")), help="Only data that this side sends.")
@click.option("--type", "types", multiple=True, metavar="NAME", help="Only this type. May be repeated.")
@click.option(
    "--method",
    "methods",
    multiple=True,
    metavar="NAME",
    help="Only what this method carries. May be repeated.",
)
@click.option("--only", multiple=True, metavar="ID", help="Only this rule or fingerprint. May be repeated.")
@click.option("--ignore", multiple=True, metavar="ID", help="Not this rule or fingerprint. May be repeated.")
@click.option("--docs", is_flag=True, help="Show changes of the documentation as well.")
@click.option(
    "--fail-on", type=click.Choice(_THRESHOLDS), help="Exit with 1 when a shown change is that bad."
)
@click.option(
    "--history", "subject", metavar="NAME", help="The life of one type or method over all revisions."
)
@click.option("--rules", "list_rules", is_flag=True, help="List every rule with its levels and verdicts.")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path, dir_okay=False), help="Write there instead of printing."
)
def command(
    *,
    sides: tuple[str, ...],
    form: str,
    level: str,
    direction: str | None,
    types: tuple[str, ...],
    methods: tuple[str, ...],
    only: tuple[str, ...],
    ignore: tuple[str, ...],
    docs: bool,
    fail_on: str | None,
    subject: str | None,
    list_rules: bool,
    output: Path | None,
) -> None:
    """Show what changed from OLD to NEW, each a revision or the path of a schema.ts.

    Every change has two verdicts, for what an old peer sends to a new one and the other way round: breaking,
    dangerous or ok. They hold for peers that mix the two without negotiating a revision.

    Exit codes: 0 done, 1 --fail-on is met, 2 usage, 3 a schema cannot be loaded.
    """
    from mcprev_codegen.diff import Level, Selection

    paper = _paper(output)
    try:
        if list_rules or subject is not None:
            if sides or (list_rules and subject is not None):
                raise _UsageError("--rules and --history stand alone, without OLD and NEW")
            _deliver(_rules(form, paper) if subject is None else _history(subject, form, paper), output)
            return
        if len(sides) != 2:
            raise _UsageError("name two sides, OLD and NEW: revisions or paths of schema.ts files")
        selection = Selection(Level(level), docs, direction, types, methods, only, ignore)
        report = _compared(sides[0], sides[1], selection)
        _deliver(_rendered(report, form, paper), output)
    except CodegenError as error:
        click.echo(str(error).partition("\n")[0], err=True)
        sys.exit(EXIT_CODE)
    if fail_on is not None and _reached(report, fail_on):
        sys.exit(_MET)


def _paper(output: Path | None) -> TextStyle:
    """Colour and the window's width on a terminal; plain lines of a fixed width elsewhere."""
    from mcprev_codegen.diff.render_text import TextStyle

    if output is None and sys.stdout.isatty():
        return TextStyle(shutil.get_terminal_size().columns, colour=True)
    return TextStyle(_PIPED_WIDTH)


def _deliver(text: str, output: Path | None) -> None:
    if output is None:
        click.echo(text, nl=False)
    else:
        output.write_text(text, encoding="utf-8")


def _compared(old_name: str, new_name: str, selection: Selection) -> Report:
    from mcprev_codegen.diff import (
        SelectionError,
        UnknownRevisionError,
        compare_sides,
        load_side,
        select,
    )
    from mcprev_codegen.revisions import schema_folder

    folder = schema_folder()
    try:
        old, new = load_side(folder, old_name), load_side(folder, new_name)
        known = {*old.declared.types, *new.declared.types}, {*old.methods, *new.methods}
        for named, names, what in (
            (selection.types, known[0], "type"),
            (selection.methods, known[1], "method"),
        ):
            if unknown := [name for name in named if name not in names]:
                raise _UsageError(f"no {what} '{unknown[0]}' on either side")
        return select(compare_sides(folder, old, new), selection)
    except (UnknownRevisionError, SelectionError) as error:
        raise _UsageError(str(error)) from None


def _rendered(report: Report, form: str, paper: TextStyle) -> str:
    if form == "json":
        from mcprev_codegen.diff.render_json import dumped, report_json

        return dumped(report_json(report))
    if form == "html":
        from mcprev_codegen.diff.render_html import report_html

        return report_html(report)
    if form == "markdown":
        from mcprev_codegen.diff.render_markdown import report_markdown

        return report_markdown(report)
    from mcprev_codegen.diff.render_text import report_text

    return report_text(report, paper)


def _history(name: str, form: str, paper: TextStyle) -> str:
    from mcprev_codegen.diff import history
    from mcprev_codegen.diff.render_json import dumped, history_json
    from mcprev_codegen.diff.render_markdown import history_markdown
    from mcprev_codegen.diff.render_text import history_text
    from mcprev_codegen.revisions import schema_folder

    if form == "html":
        raise _UsageError("--history is told as table, markdown or json")
    try:
        told = history(schema_folder(), name)
    except LookupError as error:
        raise _UsageError(str(error.args[0])) from None
    if form == "json":
        return dumped(history_json(told))
    return history_markdown(told) if form == "markdown" else history_text(told, paper)


def _rules(form: str, paper: TextStyle) -> str:
    from mcprev_codegen.diff import table
    from mcprev_codegen.diff.render_json import dumped, rules_json
    from mcprev_codegen.diff.render_markdown import rules_markdown
    from mcprev_codegen.diff.render_text import rules_text

    if form == "html":
        raise _UsageError("--rules are listed as table, markdown or json")
    if form == "json":
        return dumped(rules_json(table()))
    return rules_markdown(table()) if form == "markdown" else rules_text(table(), paper)


def _reached(report: Report, threshold: str) -> bool:
    from mcprev_codegen.diff import Verdict

    return bool(report.changes if threshold == "any" else report.at_least(Verdict(threshold)))
