"""The `mcprev` command: a group that imports a subcommand only when it is called.

A subcommand whose extra is not installed names the extra instead of showing a traceback.
"""

from __future__ import annotations

import atexit
import gc
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from io import StringIO
from typing import Any, Final

import click
from typing_extensions import override

from mcprev.cli.table import close_broken_pipes, echo_lines
from mcprev.core.temporary_folders import NoTemporaryFolder
from mcprev.version import __version__

_READING: Final = ("tree_sitter", "tree_sitter_typescript", "jinja2")
_DIFF: Final = ("diff", _READING)
_CODEGEN: Final = ("codegen", (*_READING, "datamodel_code_generator", "black"))
_NOTHING: Final = ("", ())
_COMMANDS: Final[dict[str, tuple[str, tuple[str, tuple[str, ...]]]]] = {
    "list": ("mcprev.cli.list_", _NOTHING),
    "show": ("mcprev.cli.show", _NOTHING),
    "serve": ("mcprev.cli.serve", _NOTHING),
    "bridge": ("mcprev.cli.bridge", _NOTHING),
    "inspect": ("mcprev.cli.inspect_", _NOTHING),
    "dev": ("mcprev.cli.dev", _NOTHING),
    "call": ("mcprev.cli.call", _NOTHING),
    "read": ("mcprev.cli.call", _NOTHING),
    "prompt": ("mcprev.cli.call", _NOTHING),
    "complete": ("mcprev.cli.call", _NOTHING),
    "skill": ("mcprev.cli.skills", _NOTHING),
    "ask": ("mcprev.cli.ask", _NOTHING),
    "task": ("mcprev.cli.task", _NOTHING),
    "login": ("mcprev.cli.login", _NOTHING),
    "logout": ("mcprev.cli.login", _NOTHING),
    "install": ("mcprev.cli.install", _NOTHING),
    "uninstall": ("mcprev.cli.install", _NOTHING),
    "hosts": ("mcprev.cli.hosts_", _NOTHING),
    "generate-cli": ("mcprev.cli.generate_cli", _NOTHING),
    "completion": ("mcprev.cli.completion", _NOTHING),
    "validate": ("mcprev.cli.validate", _NOTHING),
    "generate": ("mcprev_codegen.commands.generate", _CODEGEN),
    "import": ("mcprev_codegen.commands.import_", _CODEGEN),
    "unpin": ("mcprev_codegen.commands.unpin", _CODEGEN),
    "diff": ("mcprev_codegen.commands.diff", _DIFF),
    "explore": ("mcprev.cli.explore", _DIFF),
}
"""The module of each subcommand, with a function `<name>_command`, a dash written as `_`; its extra, and the packages that it installs."""


def completing_variable(program: str) -> str:
    """Return the variable of the environment with which the script of a shell asks a program for suggestions."""
    return f"_{re.sub(r'[^A-Za-z0-9]', '_', program).upper()}_COMPLETE"


COMPLETING: Final = completing_variable("mcprev")
"""The variable for this command."""


class ToldGroup(click.Group):
    """A group whose errors are printed without control characters."""

    @override
    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        if os.environ.get("NO_COLOR"):
            extra["color"] = False  # holds for every subcommand
        with _printed_errors():
            return super().make_context(info_name, args, parent, **extra)

    @override
    def invoke(self, ctx: click.Context) -> object:
        # What is alive at the end goes with the process. To look through it for garbage takes a sixth of a short command.
        atexit.register(gc.freeze)
        with _printed_errors():
            return super().invoke(ctx)


class _LazyGroup(ToldGroup):
    @override
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    @override
    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module = _COMMANDS[cmd_name][0]
        missing = missing_for(cmd_name)
        if missing:
            return _unavailable(cmd_name, module, missing)
        return _command(cmd_name, module)


def missing_for(command: str) -> str:
    """Return what has to be installed before a command can run; an empty text if nothing is missing."""
    extra, needs = _COMMANDS[command][1]
    missing = [name for name in needs if find_spec(name) is None]
    return f"`mcprev {command}` requires {', '.join(missing)}; install mcprev[{extra}]" if missing else ""


@contextmanager
def _printed_errors() -> Iterator[None]:
    """Print errors of the command line here, since click prints the arguments that they repeat as they are."""
    try:
        yield
    except BrokenPipeError:
        close_broken_pipes()
        raise click.exceptions.Exit(0) from None
    except (click.ClickException, NoTemporaryFolder) as caught:
        error = caught if isinstance(caught, click.ClickException) else click.ClickException(str(caught))
        shown = StringIO()
        error.show(shown)
        usage, label, message = shown.getvalue().partition("Error: ")
        shown_message = message.removesuffix("\n").replace("\n\t", "\n").replace("\n", "\n  ")
        echo_lines(usage + label + _LONG.sub(_shortened, shown_message), err=True)
        raise click.exceptions.Exit(error.exit_code) from None


_SHOWN: Final = 200
_LONG: Final = re.compile(rf"\S{{{_SHOWN + 100},}}")
"""A word that no message needs whole, such as a name of thousands of characters."""


def _shortened(match: re.Match[str]) -> str:
    return f"{match[0][:_SHOWN]}... ({len(match[0]) - _SHOWN} more characters)"


def _command(name: str, module: str) -> click.Command:
    command: object = getattr(import_module(module), f"{name.replace('-', '_')}_command")
    assert isinstance(command, click.Command)
    if COMPLETING in os.environ:
        from mcprev.cli.completing import complete_generator

        complete_generator(name, command)
    return command


def _unavailable(name: str, module: str, text: str) -> click.Command:
    """Return a placeholder with the help of the command, which, when called, says what has to be installed."""
    extra = _COMMANDS[name][1][0]

    @click.command(
        name,
        short_help=f"(requires mcprev[{extra}])",
        context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
        add_help_option=False,
    )
    @click.pass_context
    def explain(ctx: click.Context) -> None:
        if not {"-h", "--help"}.intersection(ctx.args):
            raise click.ClickException(text)
        echo_lines(f"{_command(name, module).get_help(ctx)}\n\n{text}")

    return explain


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="mcprev")
def main() -> None:
    """Speak every revision of the Model Context Protocol: inspect, call, serve, bridge and install servers, compare revisions, generate types."""


if COMPLETING in os.environ:
    import_module("mcprev.cli.bash_completion")
