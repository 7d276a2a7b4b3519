"""`mcprev login` and `logout`: the tokens that other commands use at a server, without and before them (AUTH-22)."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import click

from mcprev.cli.command_target import TargetCommand, read_target
from mcprev.cli.connecting import told_failures, told_warnings
from mcprev.cli.exit_codes import ExitCode, Failure
from mcprev.cli.logins import LoginArguments, login_options, tell_tried, token_folder
from mcprev.cli.options import revision_names, revisions_option, target_argument, timeout_option
from mcprev.cli.stopping import run
from mcprev.cli.table import clean, echo

if TYPE_CHECKING:
    from mcprev.auth.client.grants import OAuth
    from mcprev.auth.client.store import TokenKey
    from mcprev.hosts.named_server import NamedServer

_AT_URL: Final = (
    "a login is for a server at a URL; what a server is started with goes into its environment, with -e"
)


@click.command("login", cls=TargetCommand)
@revisions_option
@timeout_option
@login_options
@target_argument
def login_command(*, names: tuple[str, ...], timeout: float, argv: tuple[str, ...]) -> None:
    """Log in at a server, for the commands that use it later.

    TARGET is an http or https URL, or NAME or NAME@HOST from the configuration of a host. The tokens are kept in files that
    only you can read; `mcprev logout` deletes them. A client that is named with --client-id is remembered with its secret.

    Exit codes: 0 logged in, or no login is required; 3 the login failed.
    """
    server, url = _server_at_url(argv)
    tell_tried()
    auth = LoginArguments.of_command().authorization(url, asks=True)
    with told_failures(server, timeout), told_warnings():
        run(_log_in(server, auth, revision_names(names), timeout))
    for each in auth.authorizers.values():
        active = each.active
        if active is not None:
            who = f" as {clean(auth.user)}" if auth.user else ""
            echo(f"logged in at {clean(active.key.issuer)}{who}, for {clean(active.key.resource)}")
            return
    echo(f"{clean(server.label)} requires no login")


@click.command("logout", cls=TargetCommand)
@target_argument
def logout_command(*, argv: tuple[str, ...]) -> None:
    """Delete the tokens of the logins at a server, and the registration where they were the last.

    TARGET is as for `mcprev login`. The authorization server is not told: the tokens end there when they expire.

    Exit codes: 0 logged out, or not logged in; 3 the tokens cannot be read or deleted.
    """
    _, url = _server_at_url(argv)
    try:
        gone = run(_log_out(url))
    except OSError as error:
        raise Failure(clean(str(error)), ExitCode.UNREACHED) from None
    if not gone:
        echo(f"there is no login at {clean(url)}")
    for key in gone:
        echo(f"logged out at {clean(key.issuer)}, for {clean(key.resource)}")


def _server_at_url(argv: tuple[str, ...]) -> tuple[NamedServer, str]:
    """Return the server of a command line, and its URL. Raises `click.UsageError` for one without."""
    server = read_target(argv)
    if server.entry.url is None:
        raise click.UsageError(_AT_URL)
    return server, server.entry.url


async def _log_in(server: NamedServer, auth: OAuth, names: list[str] | None, seconds: float) -> None:
    """Connect, and read a list, as some servers require a token for no less; remember the client that logged in."""
    import mcprev
    from mcprev import errors
    from mcprev.client.connect_options import PROBE

    target = server.target(auth=auth)
    opening = mcprev.connect(
        target,
        revisions=names,
        timeout=seconds,
        open_timeout=seconds,
        probe_timeout=min(PROBE, seconds),
        validate="off",
    )
    async with opening as client:
        if client.capabilities.tools is not None:
            with suppress(errors.RpcError, errors.ProtocolError):
                await client.list_tools()
    for each in auth.authorizers.values():
        if each.active is not None:
            await auth.records.keep_registration(each.active.key.issuer, each.active.client)


async def _log_out(url: str) -> list[TokenKey]:
    """Delete the tokens for the server of a URL; return their keys. Raises `OSError`."""
    import mcprev
    from mcprev.auth.client.discovery import is_resource
    from mcprev.auth.client.token_stores import keys_on_disk

    above = LoginArguments.of_command().resource
    kept = await asyncio.to_thread(keys_on_disk, token_folder())
    gone = sorted(key for key in kept if key.resource == url or is_resource(key.resource, url, above))
    store = mcprev.DiskTokens(token_folder())
    for key in gone:
        await store.keep_tokens(key, None)
    for issuer in {key.issuer for key in gone} - {key.issuer for key in kept.difference(gone)}:
        await store.keep_registration(issuer, None)
    return gone
