"""How a command logs in: the options of its command line, the kept logins, and what is shown to the user."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import urlsplit

import click

from mcprev.cli.table import clean, echo_lines
from mcprev.platforms import HERE

if TYPE_CHECKING:
    from mcprev.auth.client.credentials import SecretSource
    from mcprev.auth.client.grants import OAuth
    from mcprev.auth.client.steps import DeviceCode

Command = TypeVar("Command", bound=Callable[..., object])
SECRET_VARIABLE: Final = "MCPREV_CLIENT_SECRET"  # noqa: S105 - a name and no secret
"""The variable of the environment with the client secret: command lines are shown in lists of processes."""
_KEPT: Final = __name__
_TRIED: Final = f"{__name__}.tried"


def _keep(ctx: click.Context, param: click.Parameter, value: object) -> None:
    ctx.meta.setdefault(_KEPT, {})[param.name] = value


def login_options(command: Command) -> Command:
    """Add the options that say as which client and for what a command logs in, which `LoginArguments.of_command` returns."""
    kept: dict[str, Any] = {"expose_value": False, "callback": _keep}
    for option in (
        click.option(
            "--client-id",
            metavar="ID",
            help="Log in as this client, which the authorization server knows.",
            **kept,
        ),
        click.option(
            "--client-secret",
            is_flag=True,
            help="The client has a secret: ask for it, unless it is in the environment variable "
            f"{SECRET_VARIABLE}, which is used with --client-id.",
            **kept,
        ),
        click.option("--issuer", metavar="URL", help="Log in at this authorization server only.", **kept),
        click.option(
            "--resource",
            metavar="URL",
            help="Request tokens for this URL above that of the server, if its metadata names it.",
            **kept,
        ),
        click.option(
            "--scope",
            "scopes",
            metavar="SCOPE",
            multiple=True,
            help="Request this scope, too; may be repeated.",
            **kept,
        ),
        click.option(
            "--private",
            is_flag=True,
            help="Allow authorization servers in a private network, and a server without https.",
            **kept,
        ),
        click.option(
            "--device",
            is_flag=True,
            help="Log in with a code that is entered on another machine, without a browser.",
            **kept,
        ),
    ):
        command = option(command)
    return command


@dataclass(frozen=True, slots=True)
class LoginArguments:
    """The options of a command that logs in."""

    client_id: str | None = None
    client_secret: bool = False
    issuer: str | None = None
    resource: str | None = None
    scopes: tuple[str, ...] = ()
    private: bool = False
    device: bool = False

    @staticmethod
    def of_command() -> LoginArguments:
        """Return the options of the command that runs. Raises `click.UsageError` for those that do not go together."""
        ctx = click.get_current_context(silent=True)
        kept: dict[str, Any] = {} if ctx is None else ctx.meta.get(_KEPT, {})
        found = LoginArguments(**kept)
        if found.client_secret and found.client_id is None:
            raise click.UsageError("--client-secret requires --client-id")
        return found

    def authorization(
        self, url: str, *, asks: bool, **options: Any  # noqa: ANN401 - those of `OAuth`
    ) -> OAuth:
        """Return the authorization at the server of a URL, with kept tokens; one that does not ask opens no browser.

        Raises `click.BadParameter` for an option that is wrong.
        """
        import mcprev
        from mcprev.cli.no_login import NoLogin

        if asks and "loopback" not in options:
            options = {**(_with_code() if self.device else _with_browser()), **options}
        kind = mcprev.OAuth if asks else NoLogin
        options = {"client_name": "mcprev", "store": mcprev.DiskTokens(token_folder()), **options}
        try:
            return kind(
                client_id=self.client_id,
                client_secret=self._secret(url),
                issuer=self.issuer,
                resource=self.resource,
                scopes=[name for each in self.scopes for name in each.split()] or None,
                private=self.private,
                trust_env=True,
                **options,
            )
        except ValueError as error:
            hint = "--issuer" if "authorization server" in str(error) else "--resource"
            raise click.BadParameter(clean(str(error)).replace("`resource`", "it"), param_hint=hint) from None

    def _secret(self, url: str) -> SecretSource | None:
        if self.client_id is None or not (self.client_secret or os.environ.get(SECRET_VARIABLE)):
            return None
        return _Secret(self.client_id, urlsplit(url).hostname, self.issuer)


class _Secret:
    """Gets the secret of a client, once for each issuer, and only for one that the user has agreed to."""

    def __init__(self, client_id: str, host: str | None, issuer: str | None) -> None:
        self._client_id, self._host, self._issuer = client_id, host, issuer
        self._known: dict[str, str] = {}

    async def __call__(self, issuer: str) -> str:
        if issuer not in self._known:
            self._known[issuer] = await asyncio.to_thread(self._ask, issuer)
        return self._known[issuer]

    def _ask(self, issuer: str) -> str:
        """Return the secret for an issuer. Raises `AuthError` if the user has not agreed to send it there."""
        from mcprev.errors import AuthError

        shown, found = clean(issuer), os.environ.get(SECRET_VARIABLE)
        try:
            if found is None:
                if not sys.stdin.isatty():
                    raise AuthError(
                        f"the secret of the client is not known: set {SECRET_VARIABLE}, or run this at a terminal"
                    )
                asked: str = click.prompt(
                    f"Secret of the client {clean(self._client_id)} at {shown}", hide_input=True, err=True
                )
                return asked
            if self._issuer is not None or urlsplit(issuer).hostname == self._host:
                return found
            if sys.stdin.isatty() and click.confirm(f"Send the client secret to {shown}?", err=True):
                return found
        except click.Abort:
            raise AuthError("the login was given up") from None
        raise AuthError(
            f"the server names the authorization server {shown}: pass --issuer {shown} if {SECRET_VARIABLE} is for that one"
        )


def tell_tried() -> None:
    """Note that the command that runs logs in by itself, so that no error advises it."""
    ctx = click.get_current_context(silent=True)
    if ctx is not None:
        ctx.meta[_TRIED] = True


def takes_login() -> bool:
    """Return whether the command that runs has a login, and has not used it."""
    ctx = click.get_current_context(silent=True)
    return ctx is None or not ctx.meta.get(_TRIED)


# -- what the user sees ------------------------------------------------------------------------------------


def _with_browser() -> dict[str, Any]:
    import mcprev
    from mcprev.auth.client.loopback import open_browser

    def show(page: str) -> bool:
        echo_lines(f"the server requires a login: log in at\n  {clean(page)}", err=True)
        open_browser(page)
        return True

    return {"loopback": mcprev.Loopback(open=show)}


def _with_code() -> dict[str, Any]:
    def show(code: DeviceCode) -> None:
        lines = f"the server requires a login: enter the code\n  {clean(code.user_code)}\nat\n  {clean(code.verification_uri)}"
        if code.verification_uri_complete is not None:
            lines += f"\nor open\n  {clean(code.verification_uri_complete)}"
        echo_lines(lines, err=True)

    return {"device": show}


# -- kept logins -------------------------------------------------------------------------------------------


def token_folder() -> Path:
    """Return the folder in which tokens and registrations of logins are kept, which only its owner can read."""
    return HERE.config_folder() / "tokens"


def has_login(url: str) -> bool:
    """Return whether tokens of an earlier login at the server of a URL are kept; True if the folder cannot be read."""
    from mcprev.auth.client.discovery import is_resource
    from mcprev.auth.client.token_stores import keys_on_disk

    above = LoginArguments.of_command().resource
    try:
        return any(
            key.resource == url or is_resource(key.resource, url, above)
            for key in keys_on_disk(token_folder())
        )
    except OSError:
        return True  # the store says why, if the server requires a token
