"""DPoP: proofs that a token is used by the client that it was issued to (RFC 9449). Needs mcprev[jwt].

The key lives in this process only. Tokens that are bound to it are therefore not stored.
"""

from __future__ import annotations

import base64
import hashlib
import secrets
import time
from typing import Final

from typing_extensions import override

from mcprev.errors import MissingExtra
from mcprev.transports.http.client.oauth.discovery import origin

try:
    from joserfc import jwt
    from joserfc.jwk import ECKey
except ImportError as _error:
    raise MissingExtra("proving who uses a token", "joserfc", "jwt") from _error

ALGORITHM: Final = "ES256"


class KeyProver:
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
        header = {"typ": "dpop+jwt", "alg": ALGORITHM, "jwk": self._key.as_dict(private=False)}
        return jwt.encode(header, claims, self._key, algorithms=[ALGORITHM])

    def learn(self, url: str, nonce: str) -> None:
        """Remember the nonce that a server requires from now on."""
        self._nonces[origin(url)] = nonce

    @override
    def __repr__(self) -> str:
        return "<KeyProver>"
