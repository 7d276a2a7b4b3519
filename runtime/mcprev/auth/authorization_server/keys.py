"""Keys of an authorization server: they seal records, forms and refresh tokens (AES-GCM), and sign access tokens (ES256).

All keys are derived from secrets of the operator (HKDF), one for each use, so a secret is all that has to outlive a
process. Of several secrets the first one seals and signs; the others only open and verify, until they are removed.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping, Sequence
from typing import Final

from mcprev.errors import Json, MissingExtra

try:
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF
    from joserfc import jwt
    from joserfc.errors import JoseError
    from joserfc.jwk import ECKey
except ImportError as _error:
    raise MissingExtra("an authorization server", "joserfc", "jwt") from _error

SECRET_BYTES: Final = 32
ALGORITHM: Final = "ES256"
_TYPE: Final = "at+jwt"
_NONCE: Final = 12
_ORDER: Final = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
"""The order of the group of P-256."""
_log: Final = logging.getLogger("mcprev.auth")


class ServerKeys:
    """The keys that are derived from the secrets of an authorization server."""

    def __init__(self, secrets: str | bytes | Sequence[str | bytes] | None = None) -> None:
        """Derive the keys. Without secrets, the process makes one, and no login outlives it.

        Raises `ValueError` for a secret of less than 32 bytes.
        """
        given = [secrets] if isinstance(secrets, str | bytes) else [*(secrets or ())]
        known = [secret.encode() if isinstance(secret, str) else secret for secret in given]
        if any(len(secret) < SECRET_BYTES for secret in known):
            raise ValueError(
                f"a secret of an authorization server must have at least {SECRET_BYTES} random bytes: "
                "`python -c 'import secrets; print(secrets.token_urlsafe(32))'` prints one"
            )
        if not known:
            _log.info(
                "logins end with this process, because it uses a random secret; pass `secrets` to keep them"
            )
            known = [os.urandom(SECRET_BYTES)]
        self._secrets = known
        self._sealers: dict[str, list[AESGCM]] = {}
        self._signers = [_signer(_derived(secret, "access tokens", 48)) for secret in known]

    # -- sealing ---------------------------------------------------------------------------------------------

    def seal(self, use: str, bound: str, value: Json) -> str:
        """Return JSON encrypted and authenticated; only `open` with the same use and `bound` reads it."""
        nonce = os.urandom(_NONCE)
        plain = json.dumps(value, separators=(",", ":")).encode()
        return _text(nonce + self._sealers_of(use)[0].encrypt(nonce, plain, bound.encode()))

    def open(self, use: str, bound: str, sealed: str) -> Json:
        """Return what was sealed, or None if it was not, for another use, or with a secret that is not known any more."""
        try:
            data = urlsafe_b64decode(sealed.encode("ascii") + b"==")
        except ValueError:
            return None
        if len(data) < _NONCE or _text(data) != sealed:
            return None  # decoding passes over foreign characters; only the exact encoding is accepted
        for sealer in self._sealers_of(use):
            try:
                return json.loads(sealer.decrypt(data[:_NONCE], data[_NONCE:], bound.encode()))
            except InvalidTag:
                continue
        return None

    def _sealers_of(self, use: str) -> list[AESGCM]:
        if use not in self._sealers:
            self._sealers[use] = [AESGCM(_derived(secret, use, 32)) for secret in self._secrets]
        return self._sealers[use]

    # -- signing ---------------------------------------------------------------------------------------------

    def sign(self, claims: Mapping[str, Json]) -> str:
        """Return an access token with these claims (RFC 9068)."""
        key = self._signers[0]
        return jwt.encode({"alg": ALGORITHM, "typ": _TYPE, "kid": key.kid}, dict(claims), key)

    def verified(self, token: str) -> dict[str, Json] | None:
        """Return the claims of an access token that one of the keys signed, or None. Times are not checked."""
        for key in self._signers:
            try:
                found = jwt.decode(token, key, algorithms=[ALGORITHM])
            except (JoseError, ValueError, TypeError):
                continue
            return dict(found.claims) if found.header.get("typ") == _TYPE else None
        return None

    @property
    def key_set(self) -> dict[str, Json]:
        """The public keys, as a JSON Web Key Set."""
        used = {"use": "sig", "alg": ALGORITHM}
        return {"keys": [{**key.as_dict(private=False), "kid": key.kid, **used} for key in self._signers]}


def digest_of(*parts: str) -> str:
    """Return the SHA-256 of strings, of which none can be shifted into its neighbour."""
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def challenge_of_verifier(verifier: str) -> str:
    """Return the S256 code challenge of a verifier (RFC 7636)."""
    return _text(hashlib.sha256(verifier.encode()).digest())


def _text(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def _derived(secret: bytes, use: str, size: int) -> bytes:
    info = f"mcprev authorization server 1: {use}".encode()
    return HKDF(hashes.SHA256(), size, salt=None, info=info).derive(secret)


def _signer(seed: bytes) -> ECKey:
    """Return the signing key of a seed, which is longer than the key so that every key is about equally likely."""
    private = ec.derive_private_key(int.from_bytes(seed) % (_ORDER - 1) + 1, ec.SECP256R1())
    pem = private.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    key = ECKey.import_key(pem)
    key.ensure_kid()
    return key
