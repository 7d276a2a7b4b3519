"""The connection to a server that the options of a command describe (SEAM-9, NEG-12)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import click

from mcprev.cli.answering import Answers, read_answers
from mcprev.cli.arguments import read_arguments
from mcprev.cli.command_target import read_target, target_of_server
from mcprev.cli.connecting import ServerOutput, told_failures, told_output, told_warnings, warn
from mcprev.cli.known_names import recall_era, remember, remember_era
from mcprev.cli.options import (
    env_option,
    header_option,
    login_option,
    record_option,
    revision_names,
    revisions_option,
    stderr_option,
    timeout_option,
)
from mcprev.cli.pages import hidden_pages, page_extensions, pages_option
from mcprev.cli.stopping import run
from mcprev.cli.table import echo, show_progress
from mcprev.cli.valid_entries import ListedEntries, listed_entries

if TYPE_CHECKING:
    from mcprev.client.client import Client
    from mcprev.errors import Json
    from mcprev.hosts.named_server import NamedServer
    from mcprev_types.latest import models

Command = TypeVar("Command", bound=Callable[..., object])
_LEVELS: Final = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")


def session_options(command: Command) -> Command:
    """Add the options that all commands have that use a server."""
    for option in (
        click.option("--json", "as_json", is_flag=True, help="Print JSON (versioned by its 'format')."),
        click.option(
            "--meta",
            "meta",
            metavar="NAME=VALUE",
            multiple=True,
            help="Add a member to the _meta of the request, or NAME:=JSON for a value that is not a string; may be repeated.",
        ),
        click.option(
            "--log-level",
            type=click.Choice(_LEVELS, case_sensitive=False),
            help="Request log messages of this and higher levels from the server, and print them to stderr.",
        ),
        record_option,
        pages_option,
        click.option(
            "--answer",
            metavar="FILE",
            type=click.Path(),
            help="Answer elicitation and sampling requests of the server from this JSON file. Default: ask at a terminal; "
            "without one, the client does not declare these capabilities.",
        ),
        click.option(
            "--root",
            "roots",
            metavar="PATH",
            multiple=True,
            help="Declare this root to the server; may be repeated.",
        ),
        stderr_option,
        login_option,
        header_option,
        env_option,
        timeout_option,
        revisions_option,
    ):
        command = option(command)
    return command


@dataclass(frozen=True, slots=True)
class ServerUse:
    """A connection that the options of a command describe."""

    server: NamedServer
    names: list[str] | None
    timeout: float
    record: str | None
    answers: Answers
    log_level: str | None
    login: bool | None
    as_json: bool
    meta: dict[str, Json]
    """What is added to the `_meta` of requests."""
    pages: bool
    """Whether the client declares that it shows pages."""

    def run(self, use: Callable[[Client], Awaitable[int]]) -> None:
        """Connect, use the client, and end the command with the exit code that `use` returns."""
        with told_output() as output:
            with told_failures(self.server, self.timeout), told_warnings():
                try:
                    code = run(self._run(use, output))
                finally:
                    show_progress("")
            raise click.exceptions.Exit(code)

    async def _run(self, use: Callable[[Client], Awaitable[int]], output: ServerOutput) -> int:
        async with self._connected(output) as client:
            return await use(client)

    @asynccontextmanager
    async def _connected(self, output: ServerOutput) -> AsyncIterator[Client]:
        import mcprev
        from mcprev.client.connect_options import PROBE

        options = self.answers.options()
        limit = None if self.answers.by_hand else self.timeout  # who is asked takes his time
        opening = mcprev.connect(
            target_of_server(self.server, login=self.login, stderr=output.read),
            revisions=self.names,
            era=recall_era(self.server.given),
            timeout=limit,
            total_timeout=None,
            probe_timeout=min(PROBE, self.timeout),
            open_timeout=self.timeout,
            record=self.record,
            restart=self.server.entry.url is not None,
            logging=_show_log,
            validate="strict",
            extensions=page_extensions(pages=self.pages),
            **options,
        )
        async with opening as client:
            output.connected(client.plan)
            remember_era(self.server, client.plan)
            if self.log_level is not None:
                await self._set_log_level(client, self.log_level)
            yield client

    async def _set_log_level(self, client: Client, level: str) -> None:
        """Ask for log messages from a level on. Servers that declare no logging may log all the same."""
        from mcprev.errors import LocalProtocolError

        try:
            await client.set_log_level(cast("Any", level))
        except LocalProtocolError:
            warn("the server declares no logging, so it is not asked for a level; what it logs is printed")

    def hidden(self, client: Client) -> str:
        """Return the next step if the server may hide pages and tools from this client; else nothing."""
        return "" if self.pages else hidden_pages(client.capabilities.to_wire(), client.revision)

    async def listed(self, client: Client, name: str) -> ListedEntries:
        """Return the entries of a list of the server, whose names are remembered for completion."""
        found = await listed_entries(client, name, self.timeout)
        if name == "tools":
            found = replace(found, hidden=self.hidden(client))
        remember(self.server, name, [entry.to_wire() for entry in found.valid])
        return found


def server_use_of(
    words: Sequence[str],
    *,
    names: tuple[str, ...],
    timeout: float,
    headers: tuple[str, ...],
    env: tuple[str, ...],
    login: bool | None,
    record: str | None,
    answer: str | None,
    roots: tuple[str, ...],
    log_level: str | None,
    as_json: bool,
    meta: tuple[str, ...],
    pages: bool,
) -> ServerUse:
    """Return the connection that the words and options of a command describe. Raises `click.ClickException`."""
    return ServerUse(
        read_target(words, headers=headers, env=env),
        revision_names(names),
        timeout,
        record,
        Answers(None if answer is None else read_answers(answer), roots),
        log_level,
        login,
        as_json,
        read_arguments(meta, {}),
        pages,
    )


def _show_log(message: models.LoggingMessageNotificationParams) -> None:
    import json

    data = message.data if isinstance(message.data, str) else json.dumps(message.data, ensure_ascii=False)
    show_progress("")
    echo(f"{message.level} {message.logger or 'server'}: {data[:10_000]}", err=True)
