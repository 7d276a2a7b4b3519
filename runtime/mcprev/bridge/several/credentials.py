"""How a bridge authenticates at its servers: what `auth` says in the options of a configuration, and logins of users."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from mcprev.bridge.introduction import Sender
from mcprev.bridge.several.options import KEY, UserLogin
from mcprev.client.host_config import filled
from mcprev.client.targets import Target
from mcprev.conversion.rules import as_list
from mcprev.error_text import did_you_mean
from mcprev.errors import Json
from mcprev.platforms import HERE
from mcprev.wire.json_values import is_json_object

if TYPE_CHECKING:
    from mcprev.bridge.several.login_state import LoginStep
    from mcprev.bridge.several.logins import Logins
    from mcprev.transports.http.client.authorization import Authorization

PROGRAM, USER = "client_credentials", "oauth"
_MEMBERS: Final[Mapping[str, tuple[str, ...]]] = {
    PROGRAM: ("type", "issuer", "clientId", "clientSecret", "privateKey", "algorithm", "resource", "scopes"),
    USER: ("type", "issuer", "clientId", "clientSecret", "clientName", "resource", "scopes"),
}
_NAMES: Final = {
    "issuer": "issuer",
    "clientId": "client_id",
    "clientSecret": "client_secret",
    "clientName": "client_name",
    "privateKey": "private_key",
    "algorithm": "algorithm",
    "resource": "resource",
    "scopes": "scopes",
}


def auth_of(options: Mapping[str, Json]) -> Authorization | UserLogin | None:
    """Return what the options of a server say about authentication. Raises `TypeError` and `ValueError`."""
    given: Json = options.get("auth")
    if given is None:
        return None
    if not is_json_object(given):
        raise TypeError(f"`{KEY}.auth` is not an object")
    members: dict[str, Json] = given
    kind: Json = members.get("type")
    if kind not in _MEMBERS:
        raise ValueError(f"`{KEY}.auth.type` is {kind!r:.50}; use {' or '.join(map(repr, _MEMBERS))}")
    for name in members:
        if name not in _MEMBERS[kind]:
            hint = did_you_mean(name, _MEMBERS[kind])
            raise ValueError(f"`{KEY}.auth` has no member `{name}`{hint}; it has {', '.join(_MEMBERS[kind])}")
    found: dict[str, Any] = {}
    for name, value in members.items():
        if name == "scopes":
            scopes = as_list(value)
            if scopes is None:
                raise TypeError(f"`{KEY}.auth.scopes` is not a list of strings")
            found["scopes"] = tuple(map(filled, scopes))
        elif name != "type":
            found[_NAMES[name]] = filled(value)
    if kind == USER:
        from mcprev.auth.client.token_stores import DiskTokens

        return UserLogin(store=DiskTokens(HERE.config_folder() / "bridge"), trust_env=True, **found)
    if "client_id" not in found:
        raise ValueError(f"`{KEY}.auth` requires `clientId`")
    from mcprev.auth.client.grants import ClientCredentials

    return ClientCredentials(trust_env=True, **found)


def targets_for(
    server: str, new_target: Callable[[Authorization | None], Target], login: UserLogin, logins: Logins | None
) -> tuple[Callable[[Sender | None], Target], Callable[[Sender, LoginStep], Target] | None]:
    """Return the functions that return a server as a user who logs in there reaches it: in calls, and in steps of the login."""
    from mcprev.auth.client.grants import OAuth

    shared: dict[str, Any] = {
        "client_id": login.client_id,
        "client_secret": login.client_secret,
        "client_name": login.client_name,
        "issuer": login.issuer,
        "resource": login.resource,
        "scopes": login.scopes,
        "private": login.private,
        "trust_env": login.trust_env,
    }
    if logins is None:  # the user of a pipe, in a browser of this machine
        return lambda _: new_target(OAuth(store=login.store, **shared)), None
    known = logins

    def of_sender(sender: Sender) -> dict[str, Any]:
        from mcprev.bridge.several.logins import PrincipalTokens

        store = PrincipalTokens(known.store, sender, server)
        return {"redirect_uri": known.redirect_uri, "store": store, **shared}

    def target(sender: Sender | None) -> Target:
        if sender is None:
            return new_target(OAuth(store=login.store, **shared))
        from mcprev.bridge.several.login_flow import OfferOAuth

        return new_target(OfferOAuth(known.opener(server, sender), **of_sender(sender)))

    def login_target(sender: Sender, step: LoginStep) -> Target:
        from mcprev.bridge.several.login_flow import LoginOAuth

        return new_target(LoginOAuth(step, **of_sender(sender)))

    return target, login_target
