"""The server that a command line names, with the errors and the login of a command."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import click

from mcprev.cli.exit_codes import ExitCode, Failure
from mcprev.cli.table import clean
from mcprev.hosts.named_server import NamedServer, named_server, with_values

if TYPE_CHECKING:
    from mcprev.client.targets import Target
    from mcprev.transports.http.client.authorization import Authorization

_VARIABLE: Final = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_DASHES: Final = "--"
_ONE: Final = f"{__name__}.one"


class TargetCommand(click.Command):
    """A command with a TARGET: words after `--` are a command to start, whatever they look like."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Take away the words after `--`, which `words_after_dashes` returns, unless the command is for one server."""
        if _DASHES in args and OneServer.of(ctx) is None:
            at = args.index(_DASHES)
            ctx.meta[__name__] = tuple(args[at + 1 :])
            args = args[:at]
            if not ctx.meta[__name__] and not ctx.resilient_parsing:
                raise click.UsageError(
                    "the command after -- is missing; write one, as in -- python server.py", ctx
                )
        return super().parse_args(ctx, args)


@dataclass(frozen=True, slots=True)
class OneServer:
    """The server of a command that is for this one alone, so that its subcommands take no TARGET."""

    read: Callable[[], NamedServer]
    """Returns the server. Raises `OSError` and `ValueError`."""
    names: Callable[[str], Mapping[str, Sequence[str]]]
    """Returns the names of the entries of a list, for completion, each with those of its arguments."""

    def put(self, ctx: click.Context) -> None:
        """Let the subcommands of a context use the server."""
        ctx.meta[_ONE] = self

    @staticmethod
    def of(ctx: click.Context) -> OneServer | None:
        """Return the server of a context; None if its command takes a TARGET."""
        return ctx.meta.get(_ONE)


def words_after_dashes() -> tuple[str, ...]:
    """Return the words of the command line after `--`; none without `--`."""
    found: tuple[str, ...] = click.get_current_context().meta.get(__name__, ())
    return found


def read_target(words: Sequence[str], *, headers: Sequence[str] = (), env: Sequence[str] = ()) -> NamedServer:
    """Return the server that words, or those after `--`, name. Raises `click.ClickException`."""
    one = OneServer.of(click.get_current_context())
    if one is not None:
        if words:
            raise click.UsageError(f"unexpected argument '{clean(words[0][:80])}'")
        return told_server(lambda: with_values(one.read(), env=_variables(env), headers=_headers(headers)))
    command = words_after_dashes()
    if command and words:
        raise click.UsageError(f"give the server either before -- or after it, not both: {clean(words[0])}")
    if not command and not words:
        raise click.UsageError("Missing argument TARGET: name a server, or write -- COMMAND")
    return told_server(
        lambda: named_server(
            command or words, command=bool(command), env=_variables(env), headers=_headers(headers)
        )
    )


def told_server(read: Callable[[], NamedServer]) -> NamedServer:
    """Return the server that a function reads. Raises `click.ClickException` for what is wrong with its name."""
    try:
        return read()
    except OSError as error:
        raise Failure(
            f"cannot read '{clean(str(error.filename))}': {error.strerror}", ExitCode.USAGE
        ) from None
    except ValueError as error:
        raise Failure(clean(str(error)), ExitCode.USAGE) from None


def target_of_server(
    server: NamedServer,
    *,
    login: bool | None,
    stderr: Callable[[bytes], None] | None = None,
    terminal: bool = True,
) -> Target:
    """Return what to connect to. `login` says whether a browser may be opened; None: only tokens of earlier logins are
    used unless stderr is a `terminal`. `stderr` reads that of a process. Raises `click.ClickException`.
    """
    url, named = server.entry.url, server.entry.headers
    wanted = url is not None and not any(name.lower() == "authorization" for name in named)
    try:
        return server.target(
            auth=_authorization(url, login, terminal=terminal) if wanted and url is not None else None,
            stderr=stderr,
        )
    except ImportError as error:
        raise click.ClickException(str(error)) from None
    except ValueError as error:
        raise click.BadParameter(clean(str(error)), param_hint="URL") from None


def command_target(argv: Sequence[str], headers: Sequence[str], *, login: bool | None) -> Target:
    """Return the target of a URL, of a file or module, or of a command, at which only `login=True` opens a browser.

    Raises `click.ClickException`.
    """
    return target_of_server(read_target(argv, headers=headers), login=login, terminal=False)


def variables_and_headers(
    env: Sequence[str], headers: Sequence[str]
) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """Return the variables and headers that options say. Raises `click.BadParameter`."""
    return _variables(env), _headers(headers)


def _headers(given: Sequence[str]) -> Mapping[str, str]:
    pairs = [header.partition(":") for header in given]
    if not all(name.strip() and colon for name, colon, _ in pairs):
        raise click.BadParameter("write a header as 'NAME: VALUE'", param_hint="--header")
    found = {name.strip(): value.strip() for name, _, value in pairs}
    if any(
        name.lower() == "authorization" and value.lower() in {"", "bearer"} for name, value in found.items()
    ):
        text = "the Authorization header has no token; look at the file or variable that the token comes from"
        raise click.BadParameter(text, param_hint="--header")
    return found


def _variables(given: Sequence[str]) -> Mapping[str, str]:
    pairs = [variable.partition("=") for variable in given]
    if not all(_VARIABLE.fullmatch(name) and equals for name, equals, _ in pairs):
        raise click.BadParameter("write an environment variable as NAME=VALUE", param_hint="-e")
    return {name: value for name, _, value in pairs}


# -- logins ------------------------------------------------------------------------------------------------


def _authorization(url: str, login: bool | None, *, terminal: bool) -> Authorization | None:  # noqa: FBT001
    """Return an authorization with kept tokens and the user's browser, if tokens may be sent to the URL."""
    from mcprev.auth.client.credentials import check_server
    from mcprev.cli.logins import LoginArguments, has_login, tell_tried

    options = LoginArguments.of_command()
    asks = (options.device or (terminal and sys.stderr.isatty())) if login is None else login
    if login is False or (not asks and not has_login(url)):
        return None
    try:
        check_server(url, private=options.private)
    except ValueError:
        return None
    if asks:
        tell_tried()
    return options.authorization(url, asks=asks)
