"""The exit codes of the commands that connect to a server, and the error that ends a command with one of them."""

from __future__ import annotations

import re
from enum import IntEnum
from typing import TYPE_CHECKING, Final

import click

from mcprev.cli.issues import readable
from mcprev.cli.table import clean

if TYPE_CHECKING:
    from mcprev.errors import McpError


_WORDS: Final = {
    "pass its `client_id`": "pass it with --client-id ID",
    "pass it as `resource`": "pass it with --resource URL",
    "pass credentials for that authorization server": "pass the --client-id and --issuer of that authorization server",
    "pass credentials for one of these": "pass the --client-id and --issuer of one of these",
    "pass `private=True`, as in `OAuth(private=True)`,": "pass --private",
    "`private=True` allows that": "--private allows that",
    "pass an `open` function that shows the URL to the user": "log in with a code, with --device",
    ": log in with a browser": ": log in with a browser, without --device",
    "use a newer revision, or let the server use `mcprev.Login`": "speak a newer revision with --revision",
}
"""What errors advise a program to do, and what does it on a command line."""


class ExitCode(IntEnum):
    """How a command ended."""

    OK = 0
    FAILED = 1
    """The tool failed, or the server responded with an error."""
    USAGE = 2
    """The command line, or a file that it names, cannot be used; nothing was sent."""
    UNREACHED = 3
    """The server cannot be reached or started, does not respond in time, or requires a login."""
    PROTOCOL = 4
    """The server responds, but no revision is common, or it breaks the protocol."""


class Failure(click.ClickException):
    """Ends a command with a message and an exit code."""

    def __init__(self, message: str, code: ExitCode) -> None:
        super().__init__(message)
        vars(self)["exit_code"] = int(code)  # click types it as one of the class


class MismatchError(Failure):
    """Ends a command whose tool or prompt the server does not have, or whose arguments do not fit it.

    `problem` is the message without the next step.
    """

    def __init__(self, problem: str, code: ExitCode, next_step: str = "") -> None:
        super().__init__(f"{problem}\n{next_step}" if next_step else problem, code)
        self.problem = problem


def code_of(error: BaseException) -> ExitCode:
    """Return the exit code for an error of a connection or call."""
    from pydantic import ValidationError

    from mcprev import errors

    if isinstance(error, errors.RpcError | errors.ToolError | errors.InputDeclined | errors.TaskCancelled):
        return ExitCode.FAILED
    if isinstance(error, errors.LocalProtocolError):
        return ExitCode.USAGE  # nothing was sent
    if isinstance(error, errors.NegotiationError):
        answered = error.theirs or isinstance(error.__cause__, errors.RpcError)
        return ExitCode.PROTOCOL if answered else ExitCode.UNREACHED
    if isinstance(
        error, errors.ProtocolError | errors.ConversionError | errors.SchemaError | ValidationError
    ):
        return ExitCode.PROTOCOL
    return ExitCode.UNREACHED


def failure_of(error: McpError | OSError | ValueError, *hints: str) -> Failure:
    """Return the error of a connection or call as the command tells it: its lines, and what to do next.

    Of a token that is refused at once these are the words of the server, without the arguments of Python to pass instead.
    """
    said = re.sub("; the server .*`mcprev.http`.*", "", readable(error))
    for of_python, of_command in _WORDS.items():
        said = said.replace(of_python, of_command)
    lines = [clean(line) for line in said.split("\n")]
    text = "\n".join([*lines, *hints]).strip() or type(error).__name__
    return Failure(text, code_of(error))
