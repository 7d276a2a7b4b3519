"""`mcprev serve`: run a server of a module on stdin and stdout or over HTTP (HTTP-3)."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import logging
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

import click

from mcprev.callbacks import at_once
from mcprev.cli.table import CleanFormatter

if TYPE_CHECKING:
    from mcprev.server.server import Server
    from mcprev.transports.http.server.asgi import AsgiApp
    from mcprev.transports.http.server.options import HttpOptions


@click.command("serve")
@click.argument("target", metavar="MODULE:SERVER")
@click.option("--stdio", is_flag=True, help="Serve one client on stdin and stdout; the default.")
@click.option("--http", metavar="HOST:PORT", help="Serve over HTTP; HOST or PORT may be left out.")
@click.option("--path", help="The path of the endpoint, /mcp by default.")
@click.option("--sse", is_flag=True, help="Also serve HTTP+SSE, the older HTTP transport.")
@click.option("--json", "json_response", is_flag=True, help="Respond with JSON, never with an event stream.")
@click.option("--origin", "origins", multiple=True, help="Accept web pages of this origin; may be repeated.")
@click.option(
    "--host", "hosts", multiple=True, help="Accept only requests with this Host header; may be repeated."
)
@click.option(
    "--drain",
    type=click.FloatRange(min=0),
    help="Seconds that calls in progress have to finish when the server stops; 30 by default.",
)
def serve_command(
    *,
    target: str,
    stdio: bool,
    http: str | None,
    **options: object,  # named as those of `run_http`
) -> None:
    """Serve an MCP server over stdio, or over HTTP with --http.

    MODULE is the name of a module or the path of a file. SERVER is a mcprev.Server, a mcprev.App or the ASGI app of
    one, or a function without parameters that returns one. Options replace those that the server was made with.
    """
    if stdio and http is not None:
        raise click.UsageError("pass --stdio or --http, not both")
    if logging.lastResort is not None:  # prints what no handler takes, which can have text of peers
        logging.lastResort.setFormatter(CleanFormatter())
    server, app = _find(target)
    given: dict[str, Any] = {
        name: value for name, value in options.items() if value not in (None, ()) and value is not False
    }
    if http is None:
        if given:
            raise click.UsageError("--path, --sse, --json, --origin, --host and --drain require --http")
        server.run_stdio()
        return
    host, port = address(http)
    try:
        if app is None:
            server.run_http(host, port, **cast("HttpOptions", given))
        else:
            from mcprev.transports.http.server import running

            running.run_http(type(app)(server, replace(app.settings, **given)), host, port)
    except (ImportError, OSError, ValueError) as error:
        raise click.ClickException(str(error)) from error


def address(text: str) -> tuple[str, int]:
    """Parse HOST:PORT; either part may be missing. An IPv6 address is in brackets."""
    from mcprev.server.server import HOST, PORT

    text = f":{text}" if text.isdecimal() else text
    try:
        parts = urlsplit(f"//{text}")
        port = parts.port
    except ValueError as error:
        raise click.BadParameter(f"'{text}': {error}", param_hint="--http") from None
    if parts.netloc != text:
        raise click.BadParameter(f"'{text}' is not HOST:PORT", param_hint="--http")
    return parts.hostname or HOST, PORT if port is None else port


def _find(target: str) -> tuple[Server, AsgiApp | None]:
    """Return the server that a target names, or that the function returns which it names, and its ASGI app if it is one."""
    from mcprev.server.server import Server

    module_name, _, name = target.rpartition(":")
    if not module_name or not name:
        raise click.UsageError(
            f"'{target}' is not MODULE:SERVER, such as server.py:server or package.module:server"
        )
    found: object = _module(module_name)
    for part in name.split("."):
        found = getattr(found, part, None)
        if found is None:
            raise click.ClickException(f"there is no '{name}' in {module_name}")
    if not hasattr(found, "server") and not isinstance(found, Server) and callable(found):
        found = _made_by(found, f"'{name}' in {module_name}")
        name += "()"
    server = getattr(found, "server", found)  # of an App
    if not isinstance(server, Server):
        raise click.ClickException(
            f"'{name}' in {module_name} is not a mcprev.Server or mcprev.App but a {type(server).__name__}"
        )
    return server, cast("AsgiApp", found) if hasattr(found, "settings") else None


def _made_by(factory: Callable[..., object], where: str) -> object:
    """Return the server that a function makes. Raises `click.ClickException` for a function that cannot be called."""
    try:
        inspect.signature(factory).bind()
    except TypeError as error:
        raise click.ClickException(f"{where} cannot be called without arguments: {error}") from None
    found = factory()
    try:
        return at_once(found, where)
    except TypeError:
        raise click.ClickException(f"{where} is async; make the server in a function that is not") from None


def _module(name: str) -> object:
    sys.path.insert(0, str(Path.cwd()))
    if not name.endswith(".py"):
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name is None or not (name == error.name or name.startswith(error.name + ".")):
                raise  # the module exists, but one of its imports does not
            raise click.ClickException(f"there is no module '{name}'") from error
    path = Path(name)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise click.ClickException(f"there is no file '{name}'")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module
