"""`mcprev dev TARGET`: a local page to use a server with, and to see what is on the wire (SEC-3, SEC-6)."""

from __future__ import annotations

import asyncio
import re
import sys
import webbrowser
from contextlib import suppress
from functools import partial
from shutil import which
from typing import TYPE_CHECKING, Final

import click

from mcprev.cli.command_target import command_target, is_url
from mcprev.cli.options import header_option, revision_option, target_argument
from mcprev.cli.serve import log_to_stderr
from mcprev.cli.table import clean, echo_lines

if TYPE_CHECKING:
    from mcprev.dev.app import DevApp
    from mcprev.dev.launch import Launcher

_HOST: Final = "127.0.0.1"
_VARIABLE: Final = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_MODULE: Final = re.compile(r"[^:]+\.py(?::[\w.]+)?|[\w.]+:[\w.]+")


@click.command("dev")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    metavar="N",
    help="The port of the page at 127.0.0.1; a free one by default.",
)
@click.option("--no-browser", is_flag=True, help="Print the URL of the page, and open no browser.")
@click.option(
    "--http", "over_http", is_flag=True, help="Run the server of a file or module over HTTP, not stdio."
)
@click.option(
    "-e",
    "--env",
    "variables",
    metavar="NAME=VALUE",
    multiple=True,
    help="Set a variable of the environment of a server that is started; may be repeated.",
)
@click.option("--revision", "name", metavar="REV", help="Speak this revision first; the page can switch.")
@header_option
@target_argument
def dev_command(
    *,
    port: int,
    no_browser: bool,
    over_http: bool,
    variables: tuple[str, ...],
    name: str | None,
    headers: tuple[str, ...],
    argv: tuple[str, ...],
) -> None:
    """Open a page to use a server with: its tools, resources and prompts, and every message on the wire.

    The server is a file or module with a mcprev.Server or mcprev.App, an http or https URL, or a command to start. The
    page is served at 127.0.0.1 only, and only to the URL that is printed, which has a token.
    """
    revision = None if name is None else revision_option(name).name
    log_to_stderr("warning", named=True)
    try:
        from mcprev.dev.app import DevApp
        from mcprev.dev.inspector import Inspector

        launcher = _launcher(argv, headers, _environment(variables), over_http=over_http)
        app = DevApp(Inspector(launcher, revision))
        asyncio.run(_serve(app, port, browse=not no_browser))
    except (ImportError, OSError) as error:
        raise click.ClickException(clean(str(error))) from error


def _launcher(
    argv: tuple[str, ...], headers: tuple[str, ...], environment: dict[str, str], *, over_http: bool
) -> Launcher:
    """Return how the server of a command line is started or reached. Raises `click.ClickException`."""
    from mcprev.dev.launch import Ready, Served
    from mcprev.transports.stdio.client import stdio

    if is_url(argv):
        target = command_target(argv, headers, login=False)
        return Ready(argv[0], argv, lambda _: target, kind="url", transport="http")
    command_target(argv, headers, login=False)  # raises what it finds
    if len(argv) == 1 and _MODULE.fullmatch(argv[0]) and which(argv[0]) is None:
        return Served(argv[0], environment, over_http=over_http)
    if over_http:
        raise click.UsageError("--http requires a file or module; name a server over HTTP by its URL")
    return Ready(
        " ".join(argv),
        ("--", *argv),
        lambda stderr: stdio(*argv, env=environment, stderr=stderr),
        kind="command",
        transport="stdio",
    )


def _environment(variables: tuple[str, ...]) -> dict[str, str]:
    pairs = [variable.partition("=") for variable in variables]
    if not all(_VARIABLE.fullmatch(name) and equals for name, equals, _ in pairs):
        raise click.BadParameter("write a variable as NAME=VALUE", param_hint="-e")
    return {name: value for name, _, value in pairs}


async def _serve(app: DevApp, port: int, *, browse: bool) -> None:
    from mcprev.serving.running import serve_http

    await serve_http(app, _HOST, port, ready=partial(_tell, app, browse))


def _tell(app: DevApp, browse: bool, port: int) -> None:  # noqa: FBT001 - a callback
    url = app.listens(port)
    echo_lines(f"the page is at {url}")
    sys.stdout.flush()
    if browse:
        with suppress(webbrowser.Error):
            webbrowser.open(url)
