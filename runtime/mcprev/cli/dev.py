"""`mcprev dev TARGET`: a local page to use a server with, and to see what is on the wire (SEC-3, SEC-6)."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

import click

from mcprev.cli import completing
from mcprev.cli.command_target import TargetCommand, read_target, words_after_dashes
from mcprev.cli.logs import log_to_stderr
from mcprev.cli.options import env_option, header_option, login_option, revision_option, target_argument
from mcprev.cli.pages import pages_option
from mcprev.cli.table import clean, echo_lines
from mcprev.dev.opening import BrowserPage
from mcprev.platforms import HERE

if TYPE_CHECKING:
    from mcprev.client.targets import Target
    from mcprev.dev.app import DevApp
    from mcprev.dev.authorization import LoginSteps
    from mcprev.dev.explore_site import ExploreSite
    from mcprev.dev.inspector import Inspector
    from mcprev.dev.launch import Launcher
    from mcprev.hosts.named_server import NamedServer

_HOST: Final = "127.0.0.1"
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, HERE.terminal_closed)
"""What ends the command."""
_EXIT: Final = 1.0
"""Seconds that threads have to end after everything else, such as a look-up of a host name."""


@click.command("dev", cls=TargetCommand)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    metavar="N",
    help="The port of the page on 127.0.0.1; a free port by default.",
)
@click.option("--no-browser", is_flag=True, help="Print the URL of the page, and do not open a browser.")
@click.option(
    "--http", "over_http", is_flag=True, help="Run the server of a file or module over HTTP, not stdio."
)
@click.option(
    "--open",
    "file",
    metavar="FILE.jsonl",
    type=click.Path(dir_okay=False),
    help="Show a saved session instead of a server; TARGET may then be left out.",
)
@click.option(
    "--explore",
    "site",
    metavar="URL|DIR",
    help="Link the names of types to a site that `mcprev explore` wrote: at a URL, or in a folder, which is then served "
    "with the page.",
)
@pages_option
@env_option
@click.option(
    "--revision",
    "--as",
    "name",
    metavar="REV",
    shell_complete=completing.revisions,
    help="Speak this revision at first; the page can switch to others.",
)
@header_option
@login_option
@target_argument
def dev_command(
    *,
    port: int,
    no_browser: bool,
    over_http: bool,
    file: str | None,
    site: str | None,
    pages: bool,
    env: tuple[str, ...],
    name: str | None,
    headers: tuple[str, ...],
    login: bool | None,
    argv: tuple[str, ...],
) -> None:
    """Open a web page to try a server.

    The page shows the server's tools, resources and prompts, and every message on the wire.

    TARGET is a file or module with a mcprev.Server or mcprev.App, an http or https URL, NAME or NAME@HOST from the
    configuration of a host, or a command after --. The page is served on 127.0.0.1 only, and only at the URL that is
    printed, which contains a token. The server of a file or module is restarted when its source changes.
    """
    revision = None if name is None else revision_option(name).name
    log_to_stderr("warning", named=True)
    try:
        from mcprev.dev.inspector import Inspector

        def session() -> Inspector | None:
            if file is not None and not (argv or words_after_dashes()):
                return None
            server = read_target(argv, headers=headers, env=env)
            return Inspector(_launcher(server, over_http=over_http, login=login), revision, pages=pages)

        with _Ending() as ending:
            asyncio.run(_serve(session, file, _explore_site(site), port, ending, browse=not no_browser))
    except (ImportError, OSError) as error:
        raise click.ClickException(clean(str(error))) from error


def _launcher(server: NamedServer, *, over_http: bool, login: bool | None) -> Launcher:
    """Return how the server of a command line is started or reached. Raises `click.ClickException`."""
    from mcprev.dev.authorization import LoginSteps
    from mcprev.dev.launch import ChildLauncher, DirectLauncher, ignore

    if over_http and server.module is None:
        raise click.UsageError("--http requires a file or module; name a server over HTTP by its URL")
    if server.entry.url is not None:
        logins = LoginSteps()
        target = _http_target(server, logins, login=login is not False)
        return DirectLauncher(
            server.label, server.given, lambda: target, kind="url", transport="http", logins=logins
        )
    if server.module is not None:
        return ChildLauncher(server.module, dict(server.entry.env), over_http=over_http)
    return DirectLauncher(
        server.label,
        server.given,
        lambda: server.target(stderr=ignore),
        kind="command",
        transport="stdio",
    )


def _http_target(server: NamedServer, logins: LoginSteps, *, login: bool) -> Target:
    """Return the target of a URL, at which the user can log in from the page. Raises `click.ClickException`."""
    from mcprev.auth.client.token_stores import DiskTokens
    from mcprev.cli.logins import LoginArguments, token_folder
    from mcprev.dev.authorization import can_log_in

    url = server.entry.url or ""
    has_token = any(name.lower() == "authorization" for name in server.entry.headers)
    options = LoginArguments.of_command()
    wanted = login and not has_token and (options.private or can_log_in(url))
    auth = logins.oauth(DiskTokens(token_folder()), partial(options.authorization, url)) if wanted else None
    try:
        return server.target(auth=auth)
    except ValueError as error:
        raise click.BadParameter(clean(str(error)), param_hint="URL") from None


def _explore_site(place: str | None) -> ExploreSite | None:
    """Return the site of an option. Raises `click.BadParameter`."""
    from mcprev.dev.explore_site import ExploreSite

    try:
        return None if place is None else ExploreSite(place)
    except ValueError as error:
        raise click.BadParameter(clean(str(error)), param_hint="--explore") from None


async def _serve(
    session: Callable[[], Inspector | None],
    file: str | None,
    site: ExploreSite | None,
    port: int,
    ending: _Ending,
    *,
    browse: bool,
) -> None:
    from mcprev.dev.app import DevApp
    from mcprev.serving.running import serve_http

    live = session()
    saved = None if file is None else _saved(file)
    first = live or saved
    assert first is not None
    app = DevApp(first, site)
    if saved is not None and live is not None:
        await app.show(saved)
    browser = BrowserPage() if browse else None
    try:
        with ending.serving():
            await serve_http(app, _HOST, port, ready=partial(_tell, app, browser))
    finally:
        if browser is not None:
            browser.remove()


class _Ending:
    """Lets signals cancel the task that serves, so that all that was started is ended; threads that run on are left behind.

    The server of the page takes SIGINT and SIGTERM while it runs. A further one, which comes while the session ends, hurries it.
    """

    def __init__(self) -> None:
        self._before: dict[int, Any] = {}
        self._cancel: Callable[[], object] | None = None
        self._timer = threading.Timer(_EXIT, os._exit, (0,))
        self._timer.daemon = True

    def __enter__(self) -> Self:
        # Those that the caller ignores, as `nohup` does, stay ignored.
        self._before = {
            each: old for each in _SIGNALS if (old := signal.getsignal(each)) is not signal.SIG_IGN
        }
        for number in self._before:
            signal.signal(number, self._signalled)
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        for number, old in self._before.items():
            signal.signal(number, old)

    def _signalled(self, *_: object) -> None:
        if self._cancel is None:
            raise KeyboardInterrupt
        with suppress(RuntimeError):  # the loop is closed: everything has ended
            self._cancel()

    @contextmanager
    def serving(self) -> Generator[None, None, None]:
        """Serve in this block until a signal comes; then the timer runs."""
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        self._cancel = lambda: loop.call_soon_threadsafe(task.cancel)
        with suppress(asyncio.CancelledError):  # nothing but a signal cancels the task
            yield
        logging.getLogger("asyncio").disabled = True  # what is said of processes whose end nobody waits for
        self._timer.start()


def _saved(file: str) -> Inspector:
    """Return the session of a file. Raises `click.ClickException` for another file, and `OSError`."""
    from mcprev.dev.recorded import RecordedSession
    from mcprev.dev.saving import LINE, Unreadable

    try:
        with Path(file).open("rb") as stream:
            return RecordedSession(Path(file).name, iter(partial(stream.readline, LINE + 1), b""))
    except Unreadable as error:
        raise click.ClickException(f"'{clean(file)}' is not a saved session: {clean(str(error))}") from None


def _tell(app: DevApp, browser: BrowserPage | None, port: int) -> None:
    url = app.listens(port)
    echo_lines(f"the page is at {url}")
    sys.stdout.flush()
    if browser is not None:
        app.on_token = browser.remove
        browser.open(url)
