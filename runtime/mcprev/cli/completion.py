"""`mcprev completion SHELL`: the script with which a shell completes the words of this command."""

from __future__ import annotations

from importlib import import_module
from typing import Final

import click
from click.shell_completion import get_completion_class

from mcprev.cli import completing_variable
from mcprev.cli.table import echo_lines

_SHELLS: Final = ("bash", "zsh", "fish")


@click.command("completion")
@click.argument("shell", type=click.Choice(_SHELLS))
@click.pass_context
def completion_command(ctx: click.Context, *, shell: str) -> None:
    """Print a completion script for bash, zsh or fish.

    It completes revisions, methods, types, servers, tools and arguments.

    Put `eval "$(mcprev completion bash)"` into ~/.bashrc, the same with zsh into ~/.zshrc, or `mcprev completion fish
    | source` into ~/.config/fish/config.fish. The names of tools are those that the server listed at its last use: no
    server is started.
    """
    import_module("mcprev.cli.bash_completion")
    root = ctx.find_root()
    found = get_completion_class(shell)
    assert found is not None
    program = root.info_name or "mcprev"
    echo_lines(found(root.command, {}, program, completing_variable(program)).source())
