"""The server that a command line names: a URL, a file, a module or a command to start."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from shutil import which
from typing import TYPE_CHECKING, Final

import click

from mcprev.cli.table import clean, echo_lines

if TYPE_CHECKING:
    from mcprev.client.targets import Target
    from mcprev.transports.http.client.authorization import Authorization

_MODULE: Final = re.compile(r"[^:]+\.py(?::[\w.]+)?|[\w.]+:[\w.]+")
"""The file or module of a server, as `mcprev serve` takes it."""


def command_target(argv: tuple[str, ...], headers: tuple[str, ...], *, login: bool) -> Target:
    """Return the target of a URL, of a file or module, or of a command. Raises `click.ClickException`."""
    import mcprev

    if not is_url(argv):
        if len(argv) == 1 and "://" in argv[0]:
            raise click.BadParameter("write a URL that begins with http:// or https://", param_hint="URL")
        if headers:
            raise click.BadParameter("headers require a server at a URL", param_hint="--header")
        if len(argv) == 1 and _MODULE.fullmatch(argv[0]) and which(argv[0]) is None:
            file, is_file, _ = argv[0].rpartition(".py")
            if is_file and not Path(f"{file}.py").is_file():
                raise click.ClickException(f"there is no file '{clean(file)}.py'")
            return mcprev.stdio(sys.executable, "-m", "mcprev", "serve", argv[0])
        return mcprev.stdio(*argv)
    pairs = [header.partition(":") for header in headers]
    if not all(name.strip() and colon for name, colon, _ in pairs):
        raise click.BadParameter("write a header as 'NAME: VALUE'", param_hint="--header")
    named = {name.strip(): value.strip() for name, _, value in pairs}
    wanted = login and not any(name.lower() == "authorization" for name in named)
    try:
        return mcprev.http(argv[0], headers=named, auth=_authorization(argv[0]) if wanted else None)
    except ImportError as error:
        raise click.ClickException(str(error)) from None
    except ValueError as error:
        raise click.BadParameter(clean(str(error)), param_hint="URL") from None


def is_url(argv: tuple[str, ...]) -> bool:
    """Return whether the server is named by a URL."""
    return len(argv) == 1 and argv[0].lower().startswith(("http://", "https://"))


def _authorization(url: str) -> Authorization | None:
    """Return an authorization with the user's browser, if tokens may be sent to the URL."""
    import mcprev
    from mcprev.oauth.credentials import check_server
    from mcprev.oauth.loopback import open_browser

    def show(page: str) -> bool:
        echo_lines(f"the server wants you to log in at\n  {clean(page)}", err=True)
        open_browser(page)
        return True

    try:
        check_server(url, private=False)
    except ValueError:
        return None
    return mcprev.OAuth(client_name="mcprev inspect", loopback=mcprev.Loopback(open=show))
