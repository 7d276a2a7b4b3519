"""Options that several subcommands have."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import click

from mcprev.cli.table import clean

if TYPE_CHECKING:
    from mcprev.revisions import Revision

Command = TypeVar("Command", bound=Callable[..., object])


def target_argument(command: Command, *, required: bool = True) -> Command:
    """Add the argument for the server that a command connects to."""
    return click.argument(
        "argv",
        metavar="URL | FILE.py[:SERVER] | -- COMMAND [ARGS]...",
        nargs=-1,
        required=required,
        type=click.UNPROCESSED,
    )(command)


def header_option(command: Command) -> Command:
    """Add the option for headers that a server at a URL gets."""
    return click.option(
        "--header",
        "headers",
        metavar="'NAME: VALUE'",
        multiple=True,
        help="Send this header to a server at a URL; may be repeated.",
    )(command)


def revision_option(name: str) -> Revision:
    """Return the revision that `--revision` names. Raises `click.BadParameter`."""
    from mcprev.revisions import LATEST, revision_named

    try:
        return LATEST if name == "latest" else revision_named(name)
    except ValueError as error:
        raise click.BadParameter(clean(str(error)), param_hint="--revision") from None
