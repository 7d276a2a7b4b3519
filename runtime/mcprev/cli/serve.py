"""`mcprev serve`: run a server of a module on stdin and stdout or over HTTP, in one process or in several (HTTP-3)."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import click

from mcprev.cli import completing
from mcprev.cli.http_options import NAMES, given_options, http_options
from mcprev.cli.loading import Loaded, author_errors, load_server
from mcprev.cli.logs import log_format_option, log_to_stderr
from mcprev.cli.reloaded import reloaded_process
from mcprev.cli.table import echo
from mcprev.platforms import HERE
from mcprev.serving.source_files import reported_imports

if TYPE_CHECKING:
    import socket

    from mcprev.core.store import Store
    from mcprev.server.service import Service
    from mcprev.serving.worker import SupervisedWorker

_logger: Final = logging.getLogger("mcprev.server")
_NO_AUTH: Final = {"auth": None, "principal": None}
_LEVELS: Final = ("debug", "info", "warning", "error")
STORE: Final = "MCPREV_STORE"
"""The environment variable with the URL of the store, whose credentials others would see among the arguments."""
UNIX: Final = "unix:"
"""How the address of a Unix socket begins."""
MAX_WORKERS: Final = 256
MIN_BODIES: Final = 64 * 1024 * 1024
"""The least that a worker takes for all request bodies, of `max_bodies` of the whole server."""

store_option: Final = click.option(
    "--store",
    metavar="URL",
    envvar=STORE,
    help="The store that the processes of the server share: sqlite:///FILE, or redis://HOST:PORT/0. Default: the "
    f"environment variable {STORE}, which keeps a password out of the command line.",
)
workers_option: Final = click.option(
    "--workers",
    type=click.IntRange(1, MAX_WORKERS),
    help="Serve in this number of processes, and replace those that end; SIGHUP replaces all, one after another.",
)
health_option: Final = click.option(
    "--health", is_flag=True, help="Also serve health probes at /healthz and /ready."
)


@click.command("serve")
@click.argument("target", metavar="MODULE[:SERVER]", shell_complete=completing.python_files)
@click.argument("arguments", metavar="[-- ARGS...]", nargs=-1, type=click.UNPROCESSED)
@click.option("--stdio", is_flag=True, help="Serve one client on stdin and stdout; the default.")
@click.option(
    "--http",
    metavar="HOST:PORT",
    help="Serve over HTTP; HOST or PORT may be left out, and [::] is all addresses, of IPv4 too. Or unix:PATH, a Unix socket.",
)
@http_options
@store_option
@workers_option
@health_option
@click.option(
    "--reload", "reload_", is_flag=True, help="Restart the server when one of its source files changes."
)
@click.option("--no-auth", is_flag=True, help="Serve without authentication, even if the server has some.")
@click.option(
    "--log-level",
    type=click.Choice(_LEVELS, case_sensitive=False),
    help="What to log to stderr; info, with a line for each request over HTTP, by default; on stdio warning.",
)
@log_format_option
def serve_command(
    *,
    target: str,
    arguments: tuple[str, ...],
    stdio: bool,
    http: str | None,
    store: str | None,
    workers: int | None,
    health: bool,
    reload_: bool,
    no_auth: bool,
    log_level: str | None,
    log_format: str | None,
    **options: object,  # named as those of `run_http`
) -> None:
    """Serve an MCP server over stdio, or over HTTP with --http.

    MODULE is the name of a module or the path of a file. SERVER is a mcprev.Server, a mcprev.App or the ASGI app of
    one, or a function without parameters that returns one; it may be left out if the module has one server. Options
    replace those that the server was made with. The module reads ARGS in sys.argv.

    With --reload, clients keep their session, its state and their streams: they are told that lists have changed.

    With --workers, the exit code is 0 after SIGTERM or SIGINT, and not 0 if the server does not start or its processes end one
    after another.
    """
    if stdio and http is not None:
        raise click.UsageError("pass --stdio or --http, not both")
    given = given_options(options)
    if http is None and (given or no_auth or health or workers):
        raise click.UsageError(f"{NAMES}, --workers, --health and --no-auth require --http")
    where = None if http is None else address(http)
    HERE.go_on_in_child()
    if reload_:
        if workers is not None:
            raise click.UsageError("pass --reload or --workers, not both; SIGHUP replaces workers")
        from mcprev.cli.reload import run_reloading

        raise click.exceptions.Exit(run_reloading(target, where))
    opened = None if store is None else opened_store(store)
    reloaded = reloaded_process()
    worker = worker_of_command()
    log = partial(
        log_to_stderr,
        log_level or ("warning" if http is None else "info"),
        named=log_level is not None,
        process=workers is not None,
        form=log_format,
    )
    if where is not None and workers is not None and worker is None:
        log()
        raise click.exceptions.Exit(supervise_workers(*where, workers, store))
    if where is None:
        from mcprev.transports.stdio.server import reserved_stdio

        with reserved_stdio(), reloaded.session_kept():
            with shared_by_servers(opened), reloaded.state_kept(), reported_imports():
                loaded = load_server(target, arguments)
            log()
            _report_stdio(loaded.server)
            with author_errors():
                loaded.server.run_stdio()
        return
    with shared_by_servers(opened), reloaded.state_kept(), reported_imports():
        loaded = load_server(target, arguments)
    log()
    if reloaded.listening is not None:
        given |= {"shutdown_delay": 0.0}
        reloaded.tell_changes(loaded.server)
    if no_auth:
        given |= _NO_AUTH
    try:
        with author_errors(but=(ImportError, OSError, ValueError)):
            serve_loaded(
                loaded, *where, given,
                checked=not no_auth, health=health, worker=worker, listening=reloaded.listening,
            )  # fmt: skip
    except (ImportError, OSError, ValueError) as error:
        raise click.ClickException(str(error)) from error


def _report_stdio(server: Service) -> None:
    """Tell where the server listens and at which revisions: in the log, or who stands at a terminal."""
    from mcprev.bridge.shared_name import readable_name

    names = ", ".join(revision.name for revision in server.identity.revisions)
    name = readable_name(str(server.identity.info["name"]))
    text = f"serving '{name}' on stdin and stdout; revisions: {names}"
    _logger.info("%s", text)
    if sys.stderr.isatty() and not _logger.isEnabledFor(logging.INFO):
        echo(f"{text}; press Ctrl+C to stop", err=True)


def serve_loaded(
    loaded: Loaded,
    host: str,
    port: int,
    given: dict[str, Any],
    *,
    checked: bool,
    health: bool,
    worker: SupervisedWorker | None,
    listening: socket.socket | None = None,
) -> None:
    """Serve a server over HTTP, in this process or as one of several workers, or at a socket that the next process has too."""
    from mcprev.cli.protection import protecting_line, wrapping_line
    from mcprev.server.http_app import http_app
    from mcprev.serving import running

    app = loaded.asgi or loaded.server.asgi()
    settings = replace(app.settings, **given)
    if checked and settings.auth is None and settings.principal is None:
        line = protecting_line(loaded.modules)
        if line is not None:
            raise click.ClickException(
                f"the server has no authentication here, but {line} sets some up, which this command does not run: pass it "
                "as `auth=` to mcprev.App or mcprev.Server (`principal` in `http=`), where it holds for every way of "
                "serving; or serve everybody with --no-auth"
            )
        line = wrapping_line(loaded.modules)
        if line is not None and (worker is None or worker.settings.reports):
            _logger.warning(
                "%s wraps the server in other code, which this command does not run: if that code authenticates clients, "
                "run it with an ASGI server such as uvicorn instead",
                line,
            )
    routes = {**loaded.server.routes()}
    if health:
        from mcprev.transports.http.server.health import health_routes

        routes = {**health_routes(), **routes}
    if worker is None:
        app = http_app(loaded.server, loaded.server.changes, routes, settings)
        running.run_http(app, host, port, listening=listening)
        return
    from mcprev.cli.workers import check_workers

    check_workers(loaded.server, settings, worker)
    settings = replace(settings, max_bodies=max(settings.max_bodies // worker.settings.workers, MIN_BODIES))
    served = http_app(loaded.server, loaded.server.changes, routes, settings)
    running.run_worker(served, worker, served.probe.answers)


# -- several processes ---------------------------------------------------------------------------------------


def supervise_workers(host: str, port: int, workers: int, store: str | None) -> int:
    """Run workers with the command line of this process; return the exit code."""
    if not HERE.shares_sockets:
        raise click.ClickException(
            "--workers requires processes that share a socket, which Windows does not support: start several servers at ports "
            "of their own, with one --store and a load balancer in front of them"
        )
    from mcprev.cli.workers import shared_metrics
    from mcprev.serving.sockets import listen
    from mcprev.serving.supervisor import supervise

    try:
        listening = listen(host, port)
    except OSError as error:
        raise click.ClickException(str(error)) from error
    environment = {} if store is None else {STORE: store}
    with listening, shared_metrics() as (variables, ended):
        command = [sys.executable, *sys.orig_argv[1:]]
        return supervise(command, listening, workers, environment={**environment, **variables}, ended=ended)


def worker_of_command() -> SupervisedWorker | None:
    """Return the worker that this process is; None if no supervisor has started it."""
    from mcprev.serving.worker import this_worker

    try:
        return this_worker()
    except ValueError as error:
        raise click.ClickException(str(error)) from None


def opened_store(url: str) -> Store:
    """Return the store at a URL. Raises `click.BadParameter`."""
    from mcprev.errors import MissingExtra
    from mcprev.stores.opening import open_store

    try:
        return open_store(url)
    except (ValueError, MissingExtra) as error:
        raise click.BadParameter(str(error), param_hint=f"--store or {STORE}") from None


@contextmanager
def shared_by_servers(store: Store | None) -> Iterator[None]:
    """Let servers that are made in the block use a store."""
    from mcprev.core.store import COMMAND_STORE

    token = COMMAND_STORE.set(store)
    try:
        yield
    finally:
        COMMAND_STORE.reset(token)


def address(text: str) -> tuple[str, int]:
    """Parse HOST:PORT; either part may be missing. An IPv6 address is in brackets. `unix:PATH` is a Unix socket."""
    from mcprev.server.service import HOST, PORT

    if text.startswith(UNIX):
        return text, 0
    text = f":{text}" if text.isdecimal() else text
    try:
        parts = urlsplit(f"//{text}")
        port = parts.port
    except ValueError as error:
        raise click.BadParameter(f"'{text}': {error}", param_hint="--http") from None
    if parts.netloc != text:
        raise click.BadParameter(
            f"'{text}' is not HOST:PORT; write one such as 127.0.0.1:8000, or a port", param_hint="--http"
        )
    return parts.hostname or HOST, PORT if port is None else port
