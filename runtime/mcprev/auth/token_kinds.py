"""Tells access tokens from the other JSON Web Tokens that the same issuer signs with the same keys (RFC 8725, 3.11, 3.12).

RFC 9068 gives access tokens the header `typ: at+jwt`, but few providers send it: Entra, Keycloak and Auth0 say `JWT`, Okta
and Cognito nothing, as for ID tokens. So what only other tokens have decides as well: the hashes and the `nonce` of ID
tokens, the `events` of logout tokens, and the claims in which Keycloak (`typ`) and Cognito (`token_use`) name the kind.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from mcprev.errors import Json

ACCESS_TOKEN: Final = "at+jwt"  # noqa: S105 - a type and no secret
ANY_TOKEN: Final = "JWT"  # noqa: S105 - a type and no secret
"""The type of a token that names none."""
_KINDS: Final = ("typ", "token_use")
_ID: Final = "id"
_OTHERS: Final = frozenset({_ID, "refresh", "offline", "logout"})
_OF_ID_TOKENS: Final = ("at_hash", "c_hash", "s_hash")
_OF_EVENTS: Final = "events"


def token_type(name: object) -> str | None:
    """Return the value of a header `typ` in short form and lower case (RFC 7515, 4.1.9); None for what is none."""
    if not isinstance(name, str):
        return None
    return name.lower().removeprefix("application/")


def wrong_type(header: Mapping[str, object], types: Collection[str]) -> bool:
    """Return whether the header of a token names none of the `types`, which are in the form of `token_type`."""
    return token_type(header.get("typ", ANY_TOKEN)) not in types


def wrong_kind(claims: Mapping[str, Json], *, id_tokens: bool = False) -> str | None:
    """Return the claim by which a token is no access token, and with `id_tokens` no ID token; None if there is none."""
    kinds = {name: kind.lower() for name in _KINDS if isinstance(kind := claims.get(name), str)}
    refused = _OTHERS - {_ID} if id_tokens else _OTHERS
    found = [name for name, kind in kinds.items() if kind in refused]
    found += [_OF_EVENTS] if _OF_EVENTS in claims else []
    if not id_tokens:
        found += [name for name in _OF_ID_TOKENS if name in claims]
        if (
            "nonce" in claims and kinds.get("typ") != "bearer"
        ):  # which Keycloak before 25 puts into access tokens, too
            found.append("nonce")
    return found[0] if found else None
