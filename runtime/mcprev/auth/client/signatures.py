"""Signatures with the keys of a client: assertions of its identity (RFC 7523) and DPoP proofs (RFC 9449).

Needs mcprev[jwt]. A DPoP proof shows that a token is used by the client that it was issued to. Its key lives in this
process only. Tokens that are bound to it are therefore not stored.
"""

from __future__ import annotations

import base64
import hashlib
import secrets
import time
from collections.abc import Callable, Mapping
from typing import Final

from typing_extensions import override

from mcprev.auth.client.discovery import origin
from mcprev.errors import MissingExtra

try:
    from joserfc import jwt
    from joserfc.errors import JoseError
    from joserfc.jwk import ECKey, JWKRegistry
except ImportError as _error:
    raise MissingExtra("signing assertions and DPoP proofs", "joserfc", "jwt") from _error

LIFETIME: Final = 120
"""Seconds until an assertion expires."""
DPOP_ALGORITHM: Final = "ES256"
_TYPES: Final = {"RS": "RSA", "PS": "RSA", "ES": "EC", "Ed": "OKP"}


def signer(
    client_id: str, private_key: str, algorithm: str, header: Mapping[str, str] | None = None
) -> Callable[[str], str]:
    """Return a function that signs assertions for a client; `header` are members of their header, such as `kid`.

    Raises `ValueError` for an unusable key or algorithm.
    """
    kind = _TYPES.get(algorithm[:2])
    if kind is None:
        raise ValueError(f"'{algorithm}' is not a supported algorithm: use RS, PS, ES or Ed, such as ES256")
    try:
        key = JWKRegistry.import_key(private_key, kind)
        jwt.encode(
            {"alg": algorithm}, {}, key, algorithms=[algorithm]
        )  # a public key, or of another curve, cannot
    except (ValueError, TypeError, JoseError):
        # The text of the library's error may contain part of the key.
        raise ValueError(
            f"the private key cannot be used with {algorithm}: pass a matching private key as PEM"
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
        return jwt.encode({**(header or {}), "alg": algorithm}, claims, key, algorithms=[algorithm])

    return sign


class DpopSigner:
    """Signs DPoP proofs with one key and remembers the nonce of each server."""

    def __init__(self) -> None:
        self._key = ECKey.generate_key("P-256", private=True)
        self._nonces: dict[str, str] = {}

    def prove(self, verb: str, url: str, token: str | None = None) -> str:
        """Return the proof for one request and the token that it carries."""
        claims: dict[str, object] = {
            "jti": secrets.token_urlsafe(16),
            "htm": verb,
            "htu": url.partition("#")[0].partition("?")[0],
            "iat": int(time.time()),
        }
        if token is not None:
            digest = hashlib.sha256(token.encode()).digest()
            claims["ath"] = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        nonce = self._nonces.get(origin(url))
        if nonce is not None:
            claims["nonce"] = nonce
        header = {"typ": "dpop+jwt", "alg": DPOP_ALGORITHM, "jwk": self._key.as_dict(private=False)}
        return jwt.encode(header, claims, self._key, algorithms=[DPOP_ALGORITHM])

    def learn(self, url: str, nonce: str) -> None:
        """Remember the nonce that a server requires from now on."""
        self._nonces[origin(url)] = nonce

    @override
    def __repr__(self) -> str:
        return "<DpopSigner>"
