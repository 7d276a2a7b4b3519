"""Signed assertions that authenticate a client by its private key (RFC 7523). Needs mcprev[jwt]."""

from __future__ import annotations

import secrets
import time
from typing import Final

from mcprev.errors import MissingExtra
from mcprev.transports.http.client.oauth.steps import Signer

try:
    from joserfc import jwt
    from joserfc.errors import JoseError
    from joserfc.jwk import JWKRegistry
except ImportError as _error:
    raise MissingExtra("signing assertions", "joserfc", "jwt") from _error

LIFETIME: Final = 120
"""Seconds until an assertion expires."""
_TYPES: Final = {"RS": "RSA", "PS": "RSA", "ES": "EC", "Ed": "OKP"}


def signer(client_id: str, private_key: str, algorithm: str) -> Signer:
    """Return a function that signs assertions for a client. Raises `ValueError` for an unusable key or algorithm."""
    kind = _TYPES.get(algorithm[:2])
    if kind is None:
        raise ValueError(f"'{algorithm}' is not a supported algorithm: use RS, PS, ES or Ed, such as ES256")
    try:
        key = JWKRegistry.import_key(private_key, kind)
    except (ValueError, TypeError, JoseError):
        # The text of the library's error may contain part of the key.
        raise ValueError(
            f"the private key cannot be used with {algorithm}: pass a matching key as PEM"
        ) from None

    def sign(audience: str) -> str:
        now = int(time.time())
        claims = {
            "iss": client_id,
            "sub": client_id,
            "aud": audience,
            "iat": now,
            "exp": now + LIFETIME,
            "jti": secrets.token_urlsafe(16),
        }
        return jwt.encode({"alg": algorithm, "typ": "JWT"}, claims, key, algorithms=[algorithm])

    sign("")
    return sign
