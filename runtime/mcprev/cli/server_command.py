"""The command of one server, which a script of `mcprev generate-cli` is: its tools as subcommands with options.

Everything that connects is `mcprev call` and the commands beside it. Help and completion come from the snapshot in the
script, and connect to nothing.
"""

from __future__ import annotations

import json
import os
import sys
import textwrap
from collections.abc import Mapping, Sequence
from copy import copy
from functools import cached_property, partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

import click
from click.core import ParameterSource
from typing_extensions import override

from mcprev.cli import ToldGroup, completing_variable, main
from mcprev.cli.command_target import OneServer
from mcprev.cli.exit_codes import ExitCode, Failure, MismatchError
from mcprev.cli.options import login_option, timeout_option
from mcprev.cli.snapshot import Snapshot, changes, read_snapshot, taken_snapshot
from mcprev.cli.table import clean, echo, echo_lines, encodable
from mcprev.error_text import did_you_mean

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from mcprev.cli.tool_options import ArgumentOption
    from mcprev.errors import Json

OWN: Final[Mapping[str, tuple[str, str]]] = {
    "list": ("inspect", "Show the tools, resources and prompts that the server has now."),
    "call": (
        "call",
        "Call a tool by its exact name. Each of ARGS is NAME=VALUE, NAME:=JSON, a JSON object, @FILE with one, or -.",
    ),
    "read": ("read", "Read a resource."),
    "prompt": ("prompt", "Get a prompt with its messages. ARGS are those of `call`."),
    "complete": (
        "complete",
        "Show the values that the server suggests for an argument of the prompt or URI template REF.",
    ),
    "task": ("task", "Wait for a task that `--task` has started, and show its result."),
    "completion": ("completion", "Print a completion script for bash, zsh or fish."),
}
"""The subcommands beside the tools: the command of `mcprev` that each is, and its help."""
_FEW: Final = ("as_json", "out", "timeout", "help_all")
"""The options that the help of a tool shows; `--help-all` shows the others too."""
_SETTINGS: Final = {"help_option_names": ["-h", "--help"]}
_WIDTH: Final = 120


def run_command(file: str, data: str) -> NoReturn:
    """Run the command of one server; `file` is the script, and `data` its snapshot."""
    program = Path(sys.argv[0]).name
    variable = completing_variable(program)
    if variable in os.environ:
        import_module("mcprev.cli.bash_completion")
    try:
        command = ServerCommand(Path(file), read_snapshot(data))
    except Failure as error:
        echo(f"Error: {error.message}", err=True)
        sys.exit(error.exit_code)
    command.main(prog_name=program, complete_var=variable)


class ServerCommand(ToldGroup):
    """The command of one server: a subcommand for each tool, and those of `OWN`."""

    def __init__(self, file: Path, snapshot: Snapshot) -> None:
        super().__init__(
            params=[
                click.Option(
                    ["--refresh"],
                    is_flag=True,
                    expose_value=False,
                    callback=self._refresh,
                    help="Read the tools of the server again, write this command again, and exit. The options below "
                    "are for this; those of a command come after its name.",
                )
            ],
            help=f"Use the MCP server '{clean(snapshot.name[:100])}'. Each tool is a command.",
            context_settings=_SETTINGS,
        )
        login_option(timeout_option(self))
        for param in self.params[1:]:
            param.is_eager = True  # so that `_refresh` has them
        self._file = file
        self.snapshot = snapshot

    @cached_property
    def words(self) -> dict[str, str]:
        """The names of the tools, by the word of the subcommand that calls each."""
        from mcprev.cli.tool_options import words_for

        found = words_for(self.snapshot.tools, OWN, default="tool", dashes=False)
        return {found[name]: name for name in self.snapshot.tools}

    @override
    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        OneServer(self.snapshot.server, self._names).put(ctx)
        return super().parse_args(ctx, args)

    def _names(self, name: str) -> Mapping[str, Sequence[str]]:
        from mcprev.cli.known_names import names_of

        return names_of(name, self.snapshot.lists.get(name, ()))

    @override
    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*self.words, *OWN]

    @override
    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in OWN:
            return _own(ctx, cmd_name)
        tool = self.words.get(cmd_name)
        if tool is not None:
            return ToolCommand(cmd_name, self.snapshot.tools[tool])
        word, _, version = cmd_name.partition("@")
        tool = self.words.get(word)
        return None if tool is None or not version else ToolCommand(cmd_name, _at_version(tool, version))

    @override
    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError:
            hint = did_you_mean(args[0], self.list_commands(ctx))
            text = f"No such command '{args[0]}'{hint}\n{refresh_hint(ctx, 'if the server has such a tool by now,')}"
            raise click.UsageError(text, ctx) from None

    @override
    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the two kinds of commands, without the options of any."""
        tools = [(word, _about(self.snapshot.tools[name])) for word, name in self.words.items()]
        own = [(name, text.partition(". ")[0]) for name, (_, text) in OWN.items()]
        for title, rows in (("Tools", tools), ("Commands", own)):
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)

    @override
    def get_help(self, ctx: click.Context) -> str:
        return encodable(super().get_help(ctx))

    def _refresh(self, ctx: click.Context, _: click.Parameter, value: bool) -> None:  # noqa: FBT001
        if ctx.resilient_parsing:
            return
        options = dict(ctx.params)
        if not value:
            given = [
                name for name in options if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE
            ]
            if given:
                raise click.UsageError(
                    f"--{given[0]} before a command is for --refresh; write it after the name of the command"
                )
            return
        from mcprev.hosts.writing import write_file

        old = self.snapshot
        new = taken_snapshot(old.words, old.env, old.headers, revisions=None, **options)
        file = self._file.resolve()
        try:
            write_file(file, new.script(), replace=True, mode=0o777)
        except OSError as error:
            text = f"cannot write '{clean(str(file))}': {error.strerror}; nothing was changed"
            raise Failure(text, ExitCode.USAGE) from None
        for line in changes(old, new) or ["no tool has changed"]:
            echo(line)
        ctx.exit()


def refresh_hint(ctx: click.Context, when: str) -> str:
    """Return the next step for a server that has changed since its command was written."""
    return f"{when} run `{ctx.find_root().info_name} --refresh`"


def _about(tool: Mapping[str, Json]) -> str:
    """Return the beginning of the description of a tool, for a list."""
    from mcprev.cli.tool_options import help_text

    text = help_text(tool.get("description") or tool.get("title")).partition("\n")[0]
    return textwrap.shorten(text, _WIDTH, placeholder=" ...")


def _at_version(name: str, version: str) -> Mapping[str, Json]:
    """Return a tool at a version, of which no list says the arguments; the server knows whether it has it."""
    about = f"Version {clean(version[:100])} of the tool: write its arguments as NAME=VALUE or NAME:=JSON."
    return {"name": f"{name}@{version}", "description": about}


def _own(ctx: click.Context, name: str) -> click.Command:
    """Return a command of `mcprev` without its TARGET."""
    source, text = OWN[name]
    found = main.get_command(ctx, source)
    assert found is not None
    command = copy(found)
    command.name, command.help, command.params = name, text, []
    for param in found.params:
        if param.name == "argv":
            assert found.callback is not None
            command.callback = partial(found.callback, argv=())
            continue
        if isinstance(param, click.Argument) and param.metavar is not None:
            param = copy(param)  # noqa: PLW2901
            param.metavar = str(param.metavar).removeprefix("TARGET ").partition(" |")[0]
        command.params.append(param)
    return command


class ToolCommand(click.Command):
    """The subcommand that calls one tool: its arguments as options, and the options of `mcprev call`."""

    def __init__(self, word: str, tool: Mapping[str, Json]) -> None:
        from mcprev.cli.tool_options import help_text, tool_options

        self._tool = str(tool["name"])
        self._all = False
        self._schema: Mapping[str, Json] = tool.get("inputSchema", {})
        self._known = "inputSchema" in tool
        self._arguments: list[ArgumentOption] = tool_options(self._schema)
        about = help_text(tool.get("description") or tool.get("title"))
        named = "" if word == self._tool else f"Calls the tool '{clean(self._tool[:200])}'."
        super().__init__(
            word,
            params=[
                *self._arguments,
                *_options_of_call({opt for one in self._arguments for opt in _names_of(one)}),
                click.Option(
                    ["--help-all"],
                    is_flag=True,
                    expose_value=False,
                    is_eager=True,
                    callback=self._show_all,
                    help="Show this message with every option, and exit.",
                ),
            ],
            help="\n\n".join(filter(None, (about, named))),
            short_help=_about(tool),
            epilog="ARGS are further arguments, written as `call` takes them, for what no option says.",
            callback=self._call,
            context_settings=_SETTINGS,
        )

    @override
    def get_help(self, ctx: click.Context) -> str:
        return encodable(super().get_help(ctx))

    @override
    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        self.write_arguments(ctx, formatter)
        others = [each for each in self.get_params(ctx) if isinstance(each, click.Option)]
        shown = [each for each in others if each not in self._arguments and (self._all or each.name in _FEW)]
        self._format(ctx, formatter, "Options", shown)

    def write_arguments(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the arguments of the tool alone."""
        self._format(ctx, formatter, "Arguments of the tool", self._arguments)

    def _show_all(self, ctx: click.Context, _: click.Parameter, value: bool) -> None:  # noqa: FBT001
        if value and not ctx.resilient_parsing:
            self._all = True
            echo_lines(self.get_help(ctx))
            ctx.exit()

    def _format(
        self,
        ctx: click.Context,
        formatter: click.HelpFormatter,
        title: str,
        params: Sequence[click.Parameter],
    ) -> None:
        records = [record for param in params if (record := param.get_help_record(ctx)) is not None]
        if records:
            with formatter.section(title):
                formatter.write_dl(records)

    def _call(self, *, words: tuple[str, ...], **options: Any) -> None:  # noqa: ANN401 - as declared
        from mcprev.cli.arguments import read_arguments
        from mcprev.cli.call import call_command

        ctx = click.get_current_context()
        values = {each: options.pop(str(each.name)) for each in self._arguments}
        given = {
            each.argument: each.value_of(value) for each, value in values.items() if value not in (None, ())
        }
        said = words
        if self._known:
            arguments = read_arguments((json.dumps(given), *words), self._schema)
            if not options["unchecked"]:
                self._check(ctx, arguments)
            said = (json.dumps(arguments),)
        assert call_command.callback is not None
        try:
            call_command.callback(words=(self._tool, *said), **options)
        except MismatchError as error:
            hint = refresh_hint(ctx, "the server has changed since this command was written:")
            raise MismatchError(error.problem, ExitCode(error.exit_code), hint) from None

    def _check(self, ctx: click.Context, arguments: Mapping[str, Json]) -> None:
        """Raise `click.ClickException` for arguments that the schema of the snapshot does not allow."""
        from mcprev.cli.arguments import check_arguments
        from mcprev.errors import SchemaError
        from mcprev.json_schema.validation import compile_schema

        for option in self._arguments:
            if option.required and option.argument not in arguments:
                raise click.MissingParameter(ctx=ctx, param=option)
        try:
            compile_schema(self._schema, trusted=False)
        except SchemaError:
            return  # the call says why
        hint = refresh_hint(
            ctx, f"`{ctx.command_path} --help` shows its arguments; if the server has changed,"
        )
        check_arguments(f"the tool '{self._tool}'", arguments, self._schema, clean(hint))


def _nothing(_ctx: click.Context, _param: click.Parameter, _incomplete: str) -> list[CompletionItem]:
    """Suggest nothing, since the options name the arguments already."""
    return []


def _names_of(option: click.Parameter) -> list[str]:
    return [*option.opts, *option.secondary_opts]


def _options_of_call(taken: set[str]) -> list[click.Parameter]:
    """Return the parameters of `mcprev call`; those that an argument of the tool takes begin with `--mcprev-`."""
    from mcprev.cli.call import call_command

    found: list[click.Parameter] = []
    for param in call_command.params:
        param = copy(param)  # noqa: PLW2901
        if isinstance(param, click.Argument):
            param.metavar = "[ARGS]..."
            vars(param)["shell_complete"] = _nothing
        elif not taken.isdisjoint(_names_of(param)):
            param.opts, param.secondary_opts = (
                [_free_name(each, taken) for each in names] for names in (param.opts, param.secondary_opts)
            )
        found.append(param)
    return found


def _free_name(option: str, taken: set[str]) -> str:
    while option in taken:
        option = f"--mcprev-{option.lstrip('-')}"
    return option
