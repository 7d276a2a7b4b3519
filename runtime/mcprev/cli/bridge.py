"""`mcprev bridge URL`, `-- COMMAND` or `--config FILE`: put servers of any revision in front of clients of every revision (SEAM-10)."""

from __future__ import annotations

from functools import partial
from ipaddress import ip_address
from typing import TYPE_CHECKING

import click

from mcprev.cli import completing
from mcprev.cli.command_target import TargetCommand, command_target, words_after_dashes
from mcprev.cli.exit_codes import ExitCode, Failure
from mcprev.cli.http_options import NAMES, given_options, http_options
from mcprev.cli.loading import Loaded
from mcprev.cli.logs import log_format_option, log_to_stderr
from mcprev.cli.options import RecordFile, header_option, login_option, revision_option, target_argument
from mcprev.cli.serve import (
    UNIX,
    address,
    health_option,
    opened_store,
    serve_loaded,
    store_option,
    supervise_workers,
    worker_of_command,
    workers_option,
)
from mcprev.cli.table import clean, echo_lines
from mcprev.hosts.named_server import HEADERS_VARIABLE
from mcprev.platforms import HERE

if TYPE_CHECKING:
    from mcprev.bridge.pair import ConversionReport
    from mcprev.bridge.several.names import Prefixes
    from mcprev.bridge.several.servers import ConfigFile


@click.command("bridge", cls=TargetCommand)
@click.option(
    "--http",
    metavar="HOST:PORT",
    help="Serve over HTTP; HOST or PORT may be left out. Default: one client on stdin and stdout.",
)
@http_options
@store_option
@click.option(
    "--name",
    help="The name of the bridge in the store: processes with one name are one bridge. Default: made of the URL, of the command "
    "and the folder, or of the path of the file.",
)
@workers_option
@health_option
@click.option(
    "--metrics",
    is_flag=True,
    help="Also serve metrics for Prometheus at /metrics: calls by method, outcome, server and pair of revisions.",
)
@click.option(
    "--no-auth",
    is_flag=True,
    help="Serve without authentication: everybody who can reach HOST uses the server with the credentials of the bridge.",
)
@click.option(
    "--shared",
    is_flag=True,
    help="Let stateless clients over HTTP that are not authenticated share connections to a server with sessions, and so "
    "the state of those sessions.",
)
@login_option
@partial(header_option, variable=HEADERS_VARIABLE)
@click.option(
    "--revision",
    "revisions",
    metavar="REV",
    multiple=True,
    shell_complete=completing.revisions,
    help="Offer only this revision to clients; may be repeated.",
)
@click.option(
    "--server-revision",
    "server_revisions",
    metavar="REV",
    multiple=True,
    shell_complete=completing.revisions,
    help="Negotiate only this revision with the server; may be repeated.",
)
@click.option(
    "--config",
    metavar="FILE",
    type=click.Path(),
    help="Serve all servers in this JSON file, which has `mcpServers` as the configuration of a host; it is read again "
    "when it changes, and on SIGHUP.",
)
@click.option(
    "--prefixes",
    type=click.Choice(("always", "needed")),
    default="always",
    show_default=True,
    help="With several servers, which names get the name of their server as a prefix: all (always), or only those that "
    "several servers have (needed).",
)
@click.option(
    "--strict", is_flag=True, help="Refuse what a revision cannot express, instead of replacing it."
)
@click.option(
    "--cache",
    is_flag=True,
    help="Cache lists and resources for as long as their server allows.",
)
@click.option("--explain", is_flag=True, help="Write to stderr what each conversion changed, without values.")
@click.option(
    "--record",
    metavar="FILE",
    type=RecordFile(),
    help="Append the messages of both sides to a file, for `mcprev validate`.",
)
@click.option(
    "--log-level",
    type=click.Choice(("debug", "info", "warning", "error"), case_sensitive=False),
    default="warning",
    show_default=True,
    help="What to log to stderr.",
)
@log_format_option
@target_argument
def bridge_command(
    *,
    http: str | None,
    no_auth: bool,
    login: bool | None,
    headers: tuple[str, ...],
    revisions: tuple[str, ...],
    server_revisions: tuple[str, ...],
    explain: bool,
    log_level: str,
    log_format: str | None,
    argv: tuple[str, ...],
    shared: bool,
    strict: bool,
    record: str | None,
    config: str | None,
    prefixes: Prefixes,
    store: str | None,
    name: str | None,
    workers: int | None,
    health: bool,
    metrics: bool,
    cache: bool,
    **options: object,
) -> None:
    """Serve clients of every revision in front of other servers.

    The bridge speaks stdio, or HTTP with --http.

    The server is an http or https URL; a file or module with a mcprev.Server or mcprev.App, as for `mcprev serve`; or a
    command to start. Each client speaks its own revision, the server another one or the same. The command inherits few
    environment variables; `-- env NAME=VALUE COMMAND` adds more. Several servers are those of a file, with --config.

    With --workers, several processes serve clients, each with its own connections to the servers; --store says where they find
    what they share.
    """
    from mcprev.bridge.bridge import Bridge
    from mcprev.middleware.metrics import Metrics
    from mcprev.protocol.cache import ResultCache
    from mcprev.transports.http.server.routes import Route

    given = given_options(options)
    if http is None and (given or shared or no_auth or health or metrics or workers):
        raise click.UsageError(
            f"{NAMES}, --shared, --no-auth, --workers, --health and --metrics require --http"
        )
    where = None if http is None else address(http)
    if where is not None and not no_auth and not _is_this_machine(where[0]):
        raise click.UsageError(
            f"everybody who reaches {clean(where[0])} could use the server with the rights that this bridge has; listen on "
            "127.0.0.1, pass --no-auth if that is wanted, or serve a mcprev.Bridge(..., auth=mcprev.Bearer(...))"
        )
    if bool(argv or words_after_dashes()) == (config is not None):
        raise click.UsageError("name one server, or a file with --config")
    if config is not None and headers:
        raise click.UsageError("--header is for one server; write `headers` in the file of --config")
    if record is not None and workers is not None and workers > 1:
        raise click.UsageError("--record writes what one process passes on; pass it with --workers 1")
    if cache and (store is not None or (workers is not None and workers > 1)):
        raise click.UsageError(
            "--cache is for one process, which does not hear of the changes that others are told of; pass neither --store nor --workers"
        )
    if where is not None and login is None:
        login = False  # everybody who reaches the bridge would use the login of the user
    HERE.go_on_in_child()
    opened = None if store is None else opened_store(store)
    file = None if config is None else _file(config)
    worker = worker_of_command()
    if where is not None and workers is not None and worker is None:
        log_to_stderr("info", named=True, process=True, form=log_format)
        raise click.exceptions.Exit(supervise_workers(*where, workers, store))
    try:
        counted = Metrics() if metrics else None
        bridge = Bridge(
            command_target(argv, headers, login=login) if file is None else file,
            name,
            revisions=_names(revisions),
            server_revisions=_names(server_revisions),
            shared=shared,
            strict=strict,
            report=_explain if explain else None,
            record=record,
            prefixes=prefixes,
            store=opened,
            cache=ResultCache() if cache else None,
            middleware=() if counted is None else (counted,),
        )
    except (ImportError, OSError, ValueError) as error:
        raise click.ClickException(clean(str(error))) from error
    if counted is not None:
        bridge.routes = partial(dict, {"/metrics": Route(counted.app)})
    log_to_stderr(log_level, named=True, process=workers is not None, form=log_format)
    try:
        if where is None:
            bridge.run_stdio()
        else:
            loaded = Loaded(bridge, None, ())
            serve_loaded(loaded, *where, given, checked=False, health=health, worker=worker)
    except (ImportError, OSError, ValueError) as error:
        raise click.ClickException(str(error)) from error


def _file(path: str) -> ConfigFile:
    """Return the file of --config, which can be used now. Raises `Failure` that names the file and what to do."""
    from mcprev.bridge.several.names import Namings
    from mcprev.bridge.several.servers import ConfigFile

    file = ConfigFile(path, hangup=True)
    try:
        Namings(spec.naming for spec in file.read().values())
    except OSError as error:
        why = f"cannot read '{clean(path):.100}': {error.strerror}; pass a file with `mcpServers` to --config"
        raise Failure(why, ExitCode.USAGE) from None
    except ValueError as error:
        why = str(error) if f"'{path}'" in str(error) else f"'{path}': {error}"
        raise Failure(clean(why), ExitCode.USAGE) from None
    return file


def _names(given: tuple[str, ...]) -> list[str] | None:
    return [revision_option(name).name for name in given] or None


def _is_this_machine(host: str) -> bool:
    if host.startswith(UNIX):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _explain(change: ConversionReport) -> None:
    from mcprev.bridge.explain import explained

    for line in explained(change):
        echo_lines(clean(line), err=True)
