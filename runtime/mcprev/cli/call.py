"""`mcprev call`, `read`, `prompt` and `complete`: use a server by hand or in a script (SEAM-9, NEG-12).

Uses the public client API. What a server says is printed without control characters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import click

from mcprev.cli.arguments import HINT, check_arguments, prompt_schema, read_arguments
from mcprev.cli.command_target import (
    OneServer,
    TargetCommand,
    words_after_dashes,
)
from mcprev.cli.exit_codes import ExitCode, failure_of
from mcprev.cli.following import call_as_task, check_leaving, take_task_options, task_options
from mcprev.cli.options import (
    unchecked_option,
    words_argument,
)
from mcprev.cli.pages import URI
from mcprev.cli.repeating import repeat_call, repeat_options, repeat_plan
from mcprev.cli.server_use import server_use_of, session_options
from mcprev.cli.table import clean, echo, echo_json, echo_lines, show_progress
from mcprev.errors import RemoteProtocolError, RpcError

if TYPE_CHECKING:
    from mcprev.cli.rendering import Renderer
    from mcprev.client.client import Client
    from mcprev.client.tool_result import ToolResult
    from mcprev.errors import Json

out_option: Final = click.option(
    "--out",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write images, audio and other files of the result into this folder.",
)


def inspect_hint(rest: str) -> str:
    """Return a next step that begins with the command that shows the server."""
    ctx = click.get_current_context()
    command = "mcprev inspect" if OneServer.of(ctx) is None else f"{ctx.find_root().info_name} list"
    return f"`{command}{rest}"


def split_words(words: tuple[str, ...], what: str) -> tuple[tuple[str, ...], str, tuple[str, ...]]:
    """Return the words of the target, of what is used there, and the rest: TARGET WHAT REST, or WHAT REST -- COMMAND."""
    target: tuple[str, ...] = ()
    if not words_after_dashes() and OneServer.of(click.get_current_context()) is None:
        target, words = words[:1], words[1:]
        if not target:
            raise click.UsageError("Missing argument TARGET: name a server, or write -- COMMAND at the end")
    if not words:
        raise click.UsageError(f"Missing argument {what}; {inspect_hint('` lists those of the server')}")
    return target, words[0], words[1:]


def split_optional(words: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the words of the target, and those of what is used there, which may be none: TARGET REST, or REST -- COMMAND."""
    if words_after_dashes() or OneServer.of(click.get_current_context()) is not None:
        return (), words
    if not words:
        raise click.UsageError("Missing argument TARGET: name a server, or write -- COMMAND at the end")
    return words[:1], words[1:]


def _show_step(progress: float, total: float | None, message: str | None) -> None:
    share = f"{progress:g}" if total is None else f"{progress:g}/{total:g}"
    show_progress(f"{share} {message or ''}".rstrip())


def _document(client: Client, result: Mapping[str, Json]) -> dict[str, Json]:
    return {"format": 1, "revision": client.revision, "result": dict(result)}


# -- tools ---------------------------------------------------------------------------------------------------


@click.command("call", cls=TargetCommand)
@session_options
@repeat_options
@task_options
@out_option
@unchecked_option
@words_argument("TARGET TOOL [ARGS]... | TOOL [ARGS]... -- COMMAND", "tools")
def call_command(
    *,
    words: tuple[str, ...],
    out: Path | None,
    unchecked: bool,
    **options: Any,  # noqa: ANN401 - as declared
) -> None:
    """Call a tool.

    TARGET is a URL, FILE.py[:SERVER], MODULE:SERVER, NAME or NAME@HOST from the configuration of a host, or a command
    after --. Each of ARGS is NAME=VALUE, NAME:=JSON, a JSON object, @FILE with one, or - for standard input. The
    arguments are checked against the input schema of the tool before they are sent.

    Exit codes: 0 success, 1 the tool failed (with --repeat or --seconds, one call or more), 2 usage, 3 the server cannot be reached, 4 it breaks the protocol.
    """
    plan = repeat_plan(options, out)
    as_task, no_wait = take_task_options(options, repeated=plan is not None)
    target, tool, rest = split_words(words, "TOOL")
    session = server_use_of(target, **options)
    if no_wait:
        check_leaving(session.server)

    async def use(client: Client) -> int:
        schema: dict[str, Json] = {}
        if not unchecked:
            schema = (await session.listed(client, "tools")).named(tool, "tool").input_schema.to_wire()
        arguments = read_arguments(rest, schema)
        check_arguments(
            f"the tool '{tool}'", arguments, schema, inspect_hint(" --schemas` shows the schema of each tool")
        )
        if plan is not None:
            call = partial(client.call_tool, tool, arguments, meta=session.meta)
            return await repeat_call(call, plan, client.revision, as_json=session.as_json)
        doubt: RemoteProtocolError | None = None
        try:
            if as_task:
                start = partial(client.start_tool, tool, arguments, progress=_show_step, meta=session.meta)
                ended = await call_as_task(
                    client, start, session.server, no_wait=no_wait, as_json=session.as_json
                )
                if ended is None:
                    return ExitCode.OK
                result = ended
            else:
                result = await client.call_tool(tool, arguments, progress=_show_step, meta=session.meta)
        except RemoteProtocolError as error:
            result, doubt = _result_in(error), error
        code = print_result(client, result, out, as_json=session.as_json)
        if doubt is not None:
            raise doubt
        return code

    session.run(use)


def print_result(client: Client, result: ToolResult, out: Path | None, *, as_json: bool) -> ExitCode:
    """Print the result of a tool, and return the exit code that it means."""
    show_progress("")
    if as_json:
        echo_json(_document(client, result.to_wire()))
    else:
        _renderer(out).tool(result)
    return ExitCode.FAILED if result.is_error else ExitCode.OK


def _result_in(error: RemoteProtocolError) -> ToolResult:
    """Return the result that does not match the output schema of its tool; it is shown with the error. Raises any other error."""
    from pydantic import ValidationError

    from mcprev.client.tool_result import ToolResult

    try:
        return ToolResult.from_wire(error.raw)
    except (TypeError, ValidationError):
        raise error from None


def _renderer(out: Path | None) -> Renderer:
    from mcprev.cli.rendering import Renderer

    return Renderer(out)


# -- resources, prompts, completion ---------------------------------------------------------------------------


@click.command("read", cls=TargetCommand)
@session_options
@out_option
@words_argument("TARGET URI | URI -- COMMAND", "resources")
def read_command(
    *, words: tuple[str, ...], out: Path | None, **options: Any  # noqa: ANN401 - as declared
) -> None:
    """Read a resource.

    Text is printed; other contents are written to files with --out, HTML too, as it is. Exit codes are those of `mcprev call`.
    """
    target, uri, rest = split_words(words, "URI")
    no_more(rest, "a resource has one URI")
    session = server_use_of(target, **options)

    async def use(client: Client) -> int:
        try:
            result = await client.read_resource(uri, progress=_show_step, meta=session.meta)
        except RpcError as error:
            hidden = session.hidden(client) if uri.startswith(URI) else ""
            if not hidden:
                raise
            raise failure_of(error, hidden) from None
        show_progress("")
        if session.as_json:
            echo_json(_document(client, result.to_wire()))
        else:
            renderer = _renderer(out)
            for contents in result.contents:
                renderer.resource(contents)
        return ExitCode.OK

    session.run(use)


def no_more(rest: Sequence[str], why: str) -> None:
    """Raise `click.UsageError` if words are left on the command line."""
    if rest:
        raise click.UsageError(f"unexpected argument '{clean(rest[0][:80])}': {why}")


@click.command("prompt", cls=TargetCommand)
@session_options
@out_option
@unchecked_option
@words_argument("TARGET PROMPT [ARGS]... | PROMPT [ARGS]... -- COMMAND", "prompts")
def prompt_command(
    *,
    words: tuple[str, ...],
    out: Path | None,
    unchecked: bool,
    **options: Any,  # noqa: ANN401 - as declared
) -> None:
    """Get a prompt with its messages.

    Each of ARGS is NAME=VALUE, a JSON object of strings, @FILE with one, or - for standard input. Exit codes are those of
    `mcprev call`.
    """
    target, name, rest = split_words(words, "PROMPT")
    session = server_use_of(target, **options)

    async def use(client: Client) -> int:
        schema: dict[str, Json] = {"additionalProperties": {"type": "string"}}
        if not unchecked:
            schema = prompt_schema((await session.listed(client, "prompts")).named(name, "prompt"))
        arguments = read_arguments(rest, schema)
        check_arguments(
            f"the prompt '{name}'",
            arguments,
            schema,
            inspect_hint(" --schemas` shows the arguments of each prompt"),
        )
        result = await client.get_prompt(
            name, cast("dict[str, str]", arguments), progress=_show_step, meta=session.meta
        )
        show_progress("")
        if session.as_json:
            echo_json(_document(client, result.to_wire()))
            return ExitCode.OK
        if result.description:
            echo(result.description, err=True)
        _renderer(out).messages(result.messages)
        return ExitCode.OK

    session.run(use)


@click.command("complete", cls=TargetCommand)
@session_options
@words_argument("TARGET REF NAME=VALUE [OTHER=VALUE]... | REF NAME=VALUE... -- COMMAND", "prompts")
def complete_command(*, words: tuple[str, ...], **options: Any) -> None:  # noqa: ANN401 - as declared
    """Show the values that a server suggests for an argument.

    REF is the name of a prompt, or a URI template. NAME=VALUE is the argument to complete with the text so far;
    OTHER=VALUE are arguments that have a value already. Exit codes are those of `mcprev call`.
    """
    target, ref, rest = split_words(words, "REF")
    if not rest:
        raise click.UsageError("Missing argument NAME=VALUE: what is to be completed, such as city=Par")
    texts = {name: {"type": "string"} for name in (word.partition("=")[0] for word in rest)}
    given = cast("dict[str, str]", read_arguments(rest, {"properties": texts}))
    wrong = next((name for name, value in given.items() if not isinstance(cast("object", value), str)), None)
    if wrong is not None:
        raise click.BadParameter(f"the value of '{clean(wrong)}' is not a string", param_hint=HINT)
    name = next(iter(given))
    session = server_use_of(target, **options)

    async def use(client: Client) -> int:
        others = {key: value for key, value in given.items() if key != name}
        result = await client.complete(ref, name, given[name], others or None, meta=session.meta)
        if session.as_json:
            echo_json(_document(client, result.to_wire()))
            return ExitCode.OK
        found = result.completion
        echo_lines("\n".join(map(clean, found.values))) if found.values else None
        if found.has_more:
            echo(f"and more{'' if found.total is None else f', {found.total} in all'}", err=True)
        return ExitCode.OK

    session.run(use)
