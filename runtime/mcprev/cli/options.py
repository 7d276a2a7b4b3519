"""Options that several subcommands have."""

from __future__ import annotations

import os
from collections.abc import Callable
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click
from typing_extensions import override

from mcprev.cli import completing
from mcprev.cli.logins import login_options
from mcprev.cli.table import clean

if TYPE_CHECKING:
    from mcprev.revisions import Revision

Command = TypeVar("Command", bound=Callable[..., object])


def target_argument(command: Command) -> Command:
    """Add the argument for the server that a command connects to."""
    return click.argument(
        "argv",
        metavar="TARGET | -- COMMAND [ARGS]...",
        nargs=-1,
        type=click.UNPROCESSED,
        shell_complete=completing.targets,
    )(command)


def words_argument(metavar: str, name: str) -> Callable[[Command], Command]:
    """Return what adds the argument for a server and what is used there: an entry of its list `name`."""
    return click.argument(
        "words", metavar=metavar, nargs=-1, type=click.UNPROCESSED, shell_complete=completing.words_of(name)
    )


class RecordFile(click.Path):
    """A file that messages are appended to; it may be missing, but its folder may not."""

    def __init__(self) -> None:
        super().__init__(dir_okay=False, writable=True)

    @override
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        folder = Path(value).absolute().parent
        if not folder.is_dir():
            self.fail(f"there is no folder {clean(str(folder))}", param, ctx)
        if not os.access(folder, os.W_OK):
            self.fail(f"the folder {clean(str(folder))} cannot be written to", param, ctx)
        return super().convert(value, param, ctx)


class NumberRange(click.FloatRange):
    """A number within limits, which `nan` never is."""

    @override
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number = float(super().convert(value, param, ctx))
        if isnan(number):
            self.fail(f"{value} is not in the range {self._describe_range()}.", param, ctx)
        return number


if TYPE_CHECKING:
    _Type = click.ParamType[str]
else:
    _Type = click.ParamType  # not generic before click 8.4


class _Line(_Type):
    """A text; an environment variable has one on each line."""

    name = "text"
    envvar_list_splitter = "\n"


def header_option(command: Command, *, variable: str | None = None) -> Command:
    """Add the option for headers that a server at a URL gets, with the environment variable for its default."""
    default = (
        f" Default: the lines of the environment variable {variable}, which lists of processes do not show."
    )
    return click.option(
        "--header",
        "headers",
        metavar="'NAME: VALUE'",
        multiple=True,
        type=_Line(),
        envvar=variable,
        help=f"Send this header to a server at a URL; may be repeated.{default if variable else ''}",
    )(command)


def env_option(command: Command) -> Command:
    """Add the option for variables of a server that the command starts."""
    return click.option(
        "-e",
        "--env",
        "env",
        metavar="NAME=VALUE",
        multiple=True,
        help="Set this environment variable for a server that is started; may be repeated.",
    )(command)


def stderr_option(command: Command) -> Command:
    """Add the option that shows what a server process writes to stderr."""

    def keep(ctx: click.Context, _param: click.Parameter, value: object) -> None:
        ctx.meta[STDERR] = value

    return click.option(
        "--stderr",
        is_flag=True,
        expose_value=False,
        callback=keep,
        help="Print what a server that is started writes to stderr. Default: the end of it, if the command fails.",
    )(command)


def login_option(command: Command) -> Command:
    """Add the options for logins at a server at a URL."""
    return click.option(
        "--login/--no-login",
        default=None,
        help="Log in with a browser if a server at a URL requires it, and store the tokens. Default: only at a terminal; "
        "otherwise with the tokens of earlier logins.",
    )(login_options(command))


def revisions_option(command: Command) -> Command:
    """Add the option for the revisions that a command negotiates."""
    return click.option(
        "--revision",
        "--as",
        "names",
        metavar="REV",
        multiple=True,
        shell_complete=completing.revisions,
        help="Speak only this revision with the server; may be repeated.",
    )(command)


def timeout_option(command: Command) -> Command:
    """Add the option for the time of each step."""
    return click.option(
        "--timeout",
        type=NumberRange(min=0, min_open=True),
        default=TIMEOUT,
        show_default=True,
        metavar="SECONDS",
        help="The maximum time of each step: opening the connection, reading a list with all its pages, and a call "
        "without progress.",
    )(command)


record_option: Final = click.option(
    "--record",
    metavar="FILE",
    type=RecordFile(),
    help="Append the messages of both sides to a file, for `mcprev validate` and `mcprev dev`.",
)
unchecked_option: Final = click.option(
    "--unchecked",
    is_flag=True,
    help="Send the name and the arguments as they are: the server's list is not read, nothing is checked against it, and "
    "each VALUE is a string. Shows what the server refuses.",
)
STDERR: Final = f"{__name__}.stderr"
"""The name under which a context has the value of --stderr."""
TIMEOUT: Final = 30.0
"""The default timeout of each step, in seconds."""


def revision_names(given: tuple[str, ...]) -> list[str] | None:
    """Return the names of the revisions of `--revision`; None if there is none. Raises `click.BadParameter`."""
    return [revision_option(name).name for name in given] or None


def revision_option(name: str) -> Revision:
    """Return the revision that `--revision` names. Raises `click.BadParameter`."""
    from mcprev.revisions import LATEST, revision_named

    try:
        return LATEST if name == "latest" else revision_named(name)
    except ValueError as error:
        raise click.BadParameter(clean(str(error)), param_hint="--revision") from None
