"""`mcprev ask`: stay connected to a server, answer its requests, and show its log messages and changes.

Uses the public client API. What a server says is printed without control characters.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import click

from mcprev.cli.call import no_more
from mcprev.cli.command_target import TargetCommand
from mcprev.cli.exit_codes import ExitCode, Failure
from mcprev.cli.options import NumberRange, words_argument
from mcprev.cli.server_use import server_use_of, session_options
from mcprev.cli.table import clean, echo

if TYPE_CHECKING:
    from mcprev.client.client import Client


@click.command("ask", cls=TargetCommand)
@session_options
@click.option(
    "--for", "seconds", type=NumberRange(min=0), metavar="SECONDS", help="Disconnect after this time."
)
@words_argument("TARGET | -- COMMAND", "tools")
def ask_command(
    *, words: tuple[str, ...], seconds: float | None, **options: Any  # noqa: ANN401 - as declared
) -> None:
    """Stay connected, and answer the requests of the server.

    Its log messages and change notifications are shown.

    Elicitation (forms and URLs) and sampling requests are answered at the terminal, or from --answer FILE, as in every
    other command that connects to a server. Ctrl+C disconnects. Exit codes are those of `mcprev call`.
    """
    no_more(words[1:], "this command takes a TARGET only")
    session = server_use_of(words, **options)

    async def use(client: Client) -> int:
        from mcprev.errors import McpError, TransportError

        echo(f"connected at revision {client.revision}; Ctrl+C disconnects", err=True)
        changes = client.listen(tools=True, prompts=True, resources=True)
        try:
            async with asyncio.timeout(seconds):
                try:
                    async with changes:
                        async for change in changes:
                            echo(f"changed: {change.what}{'' if change.uri is None else f' {change.uri}'}")
                except TransportError:
                    raise
                except McpError as error:
                    echo(f"the server does not report changes: {clean(str(error))}", err=True)
                await asyncio.shield(client.connection.closed)
        except TimeoutError:
            return ExitCode.OK
        raise Failure("the server has closed the connection", ExitCode.UNREACHED)

    session.run(use)
