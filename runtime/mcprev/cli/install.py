"""`mcprev install` and `uninstall`: write a server into the configuration of a host, or remove it (SEC-6)."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import click

from mcprev.cli import completing
from mcprev.cli.command_target import TargetCommand, read_target, words_after_dashes
from mcprev.cli.exit_codes import ExitCode, Failure
from mcprev.cli.options import env_option, header_option, target_argument
from mcprev.cli.table import clean, echo, echo_lines
from mcprev.cli.terminal_input import TerminalInput
from mcprev.hosts.installing import FileChange, added, check_name, entry_for, place_of, removed, usual_name

Command = TypeVar("Command", bound=Callable[..., object])


def change_options(command: Command) -> Command:
    """Add the options that both commands have."""
    for option in (
        click.option("--dry-run", is_flag=True, help="Show the change, and do not make it."),
        click.option("--yes", is_flag=True, help="Do not ask before the change is made."),
        click.option("--project", is_flag=True, help="Change the file of the project in this folder."),
    ):
        command = option(command)
    return command


@click.command("install", cls=TargetCommand)
@click.option(
    "--name", metavar="NAME", help="The name of the server. Default: that of its file, host or command."
)
@click.option("--replace", is_flag=True, help="Replace a server of the same name.")
@click.option(
    "--print", "print_only", is_flag=True, help="Print the entry as JSON, and do not change any file."
)
@change_options
@header_option
@env_option
@click.argument("host", metavar="HOST", shell_complete=completing.hosts)
@target_argument
def install_command(
    *,
    host: str,
    argv: tuple[str, ...],
    name: str | None,
    replace: bool,
    print_only: bool,
    project: bool,
    yes: bool,
    dry_run: bool,
    headers: tuple[str, ...],
    env: tuple[str, ...],
) -> None:
    """Write a server into the configuration of a host.

    HOST is claude-code, claude-desktop, cursor, gemini-cli, lm-studio, vscode, windsurf or zed, or the path of a file
    that ends with .json. TARGET is as for `mcprev inspect`; paths are made absolute. The change is shown first, and
    everything else in the file stays as it is, comments too. A copy of the previous file is kept next to it.

    Exit codes: 0 success, 1 the change was declined, 2 usage, or a file that cannot be changed.
    """
    if not words_after_dashes() and not argv:
        raise click.UsageError("Missing argument TARGET: name a server, or write -- COMMAND")
    server = read_target(argv, headers=headers, env=env)
    with _told():
        place = place_of(host, project=project)
        chosen = usual_name(server) if name is None else name
        check_name(chosen)
        entry = entry_for(place.host, server)
        if print_only:
            echo_lines(json.dumps({chosen: entry}, indent=2))
            return
        change = added(place, chosen, entry, replace=replace)
        _make(change, f"write the server '{chosen}'", yes=yes, dry_run=dry_run)


@click.command("uninstall")
@change_options
@click.argument("host", metavar="HOST", shell_complete=completing.hosts)
@click.argument("name", metavar="NAME", shell_complete=completing.configured_names)
def uninstall_command(*, host: str, name: str, project: bool, yes: bool, dry_run: bool) -> None:
    """Remove a server from the configuration of a host.

    HOST and exit codes are those of `mcprev install`. The change is shown first, and a copy of the file is kept.
    """
    with _told():
        change = removed(place_of(host, project=project), name)
        _make(change, f"remove the server '{name}'", yes=yes, dry_run=dry_run)


@contextmanager
def _told() -> Iterator[None]:
    """End the command for a file that cannot be changed, or a line that names none."""
    try:
        yield
    except OSError as error:
        name = "the file" if error.filename is None else f"'{clean(str(error.filename))}'"
        raise Failure(
            f"cannot change {name}: {error.strerror}; nothing was changed", ExitCode.USAGE
        ) from None
    except ValueError as error:
        raise Failure(clean(str(error)), ExitCode.USAGE) from None


def _make(change: FileChange, what: str, *, yes: bool, dry_run: bool) -> None:
    """Show a change, and make it if the user wants that. Raises `click.exceptions.Exit` if not."""
    if change.before == change.after:
        echo(f"nothing to change in {change.place.file}")
        return
    for line in change.diff:
        echo(line)
    if dry_run:
        return
    if not yes:
        if not TerminalInput.is_there():
            raise Failure(
                "there is no terminal to ask for confirmation: pass --yes, or --dry-run", ExitCode.USAGE
            )
        sys.stdout.flush()
        if not click.confirm(f"{clean(what)}?", err=True):
            echo("nothing was changed", err=True)
            sys.exit(ExitCode.FAILED)
    copy = change.make()
    echo(f"changed {change.place.file}" + ("" if copy is None else f"; the previous file is kept as {copy}"))
    echo(f"restart {change.place.host.title}, or reload its MCP servers", err=True)
