"""`mcprev validate FILE`: validate a captured transcript against a revision, or a value against a type (BASE-10).

`mcprev.analysis` validates; this module reads the file and prints. Exit codes: 0 no violations, 1 violations,
2 usage error, 3 a file that is unreadable or has no message.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, NoReturn

import click

from mcprev.cli import completing
from mcprev.cli.options import revision_option
from mcprev.cli.table import echo, echo_json, echo_table

if TYPE_CHECKING:
    from mcprev.analysis.judging import Violation
    from mcprev.analysis.transcript import TranscriptValidator
    from mcprev.revisions import Revision

MAX_SHOWN: Final = 20
"""The maximum number of requests without a response that are named."""
MAX_LINES: Final = 5
"""The maximum number of lines that are named of a fault that occurs again."""
UNREADABLE: Final = 3
"""The exit code for a file that cannot be read."""


@click.command("validate")
@click.argument("file", metavar="FILE")
@click.option(
    "--revision",
    "name",
    metavar="REV|auto",
    shell_complete=completing.revisions,
    default="auto",
    show_default=True,
    help="The revision to validate all messages against, as of a recording that --as REV made; auto determines that of each from "
    "the transcript.",
)
@click.option(
    "--schema",
    metavar="PACKAGE|DIR|FILE.ts",
    help="Validate against a schema of your own: a package that `mcprev generate --schema` made, its folder, or the file in "
    "TypeScript itself, which requires mcprev[codegen].",
)
@click.option(
    "--type",
    "type_name",
    metavar="TYPE",
    help="FILE is one JSON value, of this type of the schema or of --revision, and no transcript.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON (versioned by its 'format').")
def validate_command(
    *, file: str, name: str, schema: str | None, type_name: str | None, as_json: bool
) -> None:
    """Validate a transcript of messages against its revision, or a JSON value against a type.

    FILE has one message on each line; `-` reads standard input. A line may also be {"direction": "client_to_server"
    or "server_to_client", "session": ..., "message": {...}}, as `mcprev.connect(record=...)` writes them; direction
    and session may be left out. With --type, FILE is one value.

    Exit codes: 0 all is valid, 1 there are violations, 2 usage, 3 the file or the schema cannot be read, or the file
    has no message.
    """
    if schema is not None and name != "auto":
        raise click.UsageError(
            "--schema and --revision cannot be combined: a schema of your own is one version"
        )
    if type_name is not None and schema is None and name == "auto":
        raise click.UsageError("--type requires --schema or --revision, which says whose type it is")
    with ExitStack() as stack:
        if type_name is not None:
            _validate_value(file, name, schema, type_name, stack, as_json=as_json)
        else:
            _validate_transcript(file, name, _own_row(schema, stack), as_json=as_json)


def _own_row(schema: str | None, stack: ExitStack) -> Revision | None:
    """Return the row of the revision that a schema of one's own extends."""
    if schema is None:
        return None
    from mcprev.analysis.judging import judged_row
    from mcprev.cli.own_schema import own_schema

    try:
        return judged_row(stack.enter_context(own_schema(schema, None)))
    except TypeError as error:
        raise click.UsageError(str(error)) from None
    except ValueError:
        raise click.UsageError(
            f"'{schema}' extends no revision of MCP, so there are no messages of it: name the type of the value with --type"
        ) from None


def _validate_value(
    file: str, name: str, schema: str | None, type_name: str, stack: ExitStack, *, as_json: bool
) -> None:
    """Validate the value in a file against a type, print the violations, and exit."""
    from mcprev.analysis.judging import judge_value
    from mcprev.analysis.schemas import TypedPackage, own_package
    from mcprev.cli.own_schema import own_schema

    package: TypedPackage
    try:
        if schema is None:
            package = revision_option(name)
        else:
            package = own_package(stack.enter_context(own_schema(schema, type_name)), schema)
        data = _read(file)
        found = judge_value(data, package, type_name)
    except (TypeError, ValueError) as error:
        raise click.UsageError(str(error)) from None
    if as_json:
        places = [{"path": each.path, "message": each.message} for each in found]
        echo_json({"format": 1, "schema": package.name, "type": type_name, "violations": places})
    else:
        if found:
            echo_table(("PATH", "VIOLATION"), [(each.path, each.message) for each in found])
        echo(f"{_counted(len(found), 'violation')} of {type_name} in {package.name}")
    sys.exit(1 if found else 0)


def _read(file: str) -> bytes:
    """Return a file with one value, within the limit of a message; exit if it cannot be read."""
    from mcprev.wire.jsonrpc import MAX_LINE

    try:
        with nullcontext(sys.stdin.buffer) if file == "-" else Path(file).open("rb") as stream:
            data = stream.read(MAX_LINE + 1)
    except (OSError, ValueError) as error:
        _unreadable(file, error)
    if len(data) > MAX_LINE:
        _unreadable(file, ValueError(f"more than {MAX_LINE} bytes"))
    return data


def _unreadable(file: str, error: OSError | ValueError) -> NoReturn:
    why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    echo(f"Error: cannot read '{file}': {why}", err=True)
    sys.exit(UNREADABLE)


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _validate_transcript(file: str, name: str, own: Revision | None, *, as_json: bool) -> None:
    """Validate the messages in a file, print the violations, and exit."""
    from mcprev.analysis.transcript import TranscriptValidator

    checker = TranscriptValidator(own or (None if name == "auto" else revision_option(name)))
    try:
        found = _check(file, checker)
    except (OSError, ValueError) as error:
        _unreadable(file, error)
    if not checker.messages:
        echo(f"Error: there is no message in '{file}'", err=True)
        sys.exit(UNREADABLE)
    if as_json:
        _print_json(checker, found)
    else:
        _print_table(checker, found)
        if checker.mixed:
            echo(
                f"messages say another revision than {name}: without --revision each is held against its own; a recording "
                f"of {name} alone is made by a command with --as {name}"
            )
    sys.exit(1 if found else 0)


def _check(file: str, checker: TranscriptValidator) -> list[Violation]:
    """Validate the lines of a file. Raises `OSError`, or `ValueError` for an invalid path."""
    found: list[Violation] = []
    with nullcontext(sys.stdin.buffer) if file == "-" else Path(file).open("rb") as stream:
        for number, line in enumerate(_lines(stream), 1):
            found += checker.feed(number, line)
    return found


def _lines(stream: BinaryIO) -> Iterator[bytes]:
    r"""Yield the lines of a file, truncated after the maximum length of a message; only `\n` ends a line."""
    from mcprev.wire.jsonrpc import MAX_LINE

    limit = MAX_LINE + 3  # room for the line end, so that a truncated line exceeds the limit without it
    while line := stream.readline(limit):
        yield line
        while len(line) == limit and not line.endswith(b"\n"):
            line = stream.readline(limit)


def _print_json(checker: TranscriptValidator, found: list[Violation]) -> None:
    revisions = [{"line": v.line, "method": v.method, "path": v.path, "message": v.message} for v in found]
    document = {
        "format": 1,
        "revisions": checker.revisions,
        "messages": checker.messages,
        "without_response": len(checker.without_response),
        "requests_without_response": [
            {"line": each.line, "method": each.method, "id": each.id} for each in checker.without_response
        ],
        "violations": revisions,
    }
    echo_json(document)


def _rows(found: list[Violation]) -> list[tuple[str, str, str, str]]:
    """Return the rows of the table: what occurs again in other messages is said once, with its lines."""
    rows: dict[object, tuple[Violation, list[str]]] = {}
    for one in found:
        rows.setdefault((one.method, one.path, one.message), (one, []))[1].append(str(one.line))
    return [(_lines_named(lines), v.method or "", v.path, v.message) for v, lines in rows.values()]


def _lines_named(lines: list[str]) -> str:
    more = f" and {len(lines) - MAX_LINES} more" if len(lines) > MAX_LINES else ""
    return ", ".join(lines[:MAX_LINES]) + more


def _print_table(checker: TranscriptValidator, found: list[Violation]) -> None:
    if found:
        echo_table(("LINE", "METHOD", "PATH", "VIOLATION"), _rows(found))
    count = _counted(len(found), "violation")
    against = ", ".join(checker.revisions) or "no revision"
    total = _counted(checker.messages, "message")
    waiting = checker.without_response
    echo(
        f"{count} in {total} against {against}; {len(waiting)} {'request' if len(waiting) == 1 else 'requests'} without a response"
    )
    for each in waiting[:MAX_SHOWN]:
        echo(f"no response: line {each.line}, {each.method or 'a request'} with id {json.dumps(each.id)}")
    if len(waiting) > MAX_SHOWN:
        echo(f"and {len(waiting) - MAX_SHOWN} more; --json has all")
