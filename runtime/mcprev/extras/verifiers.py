"""Verifiers of bearer tokens for `mcprev.Bearer`: JSON Web Tokens by published keys, and introspection (RFC 7662).

Keys and answers come only from the URL that the author sets, never from one that a token names. If it cannot be
reached, the verifier raises: the response is 503, and the client keeps its token. For an invalid token it returns None:
401.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from time import monotonic
from typing import Any, Final, cast
from urllib.parse import quote_plus

from mcprev.errors import Json, MissingExtra
from mcprev.transports.http.server.access import Access
from mcprev.transports.http.urls import check_issuer, is_secure, mask_url

try:
    import aiohttp
except ImportError as _error:
    raise MissingExtra("verifying tokens", "aiohttp", "http") from _error

ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""The algorithms with public keys; with a shared secret, every verifier could issue tokens."""
MAX_AGE: Final = 300.0
"""Seconds after which keys are read again."""
COOLDOWN: Final = 10.0
"""Seconds within which keys that are unknown or cannot be read are asked for only once."""
MAX_BODY: Final = 256 * 1024
"""The maximum size of keys and answers in bytes."""
MAX_KEYS: Final = 100
TIMEOUT: Final = 10.0
LEEWAY: Final = 60
"""Seconds by which clocks may differ."""


class JwtVerifier:
    """Verifies JSON Web Tokens with the keys that their issuer publishes (JWKS). Needs mcprev[http,jwt]."""

    def __init__(
        self,
        url: str,
        *,
        issuer: str,
        algorithms: Sequence[str] = ALGORITHMS,
        session: aiohttp.ClientSession | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Set the URL of the keys (the `jwks_uri` of the authorization server), and the `iss` that tokens must have.

        - `algorithms` are the accepted signature algorithms. Default: those with public keys.
        - `session` is an `aiohttp.ClientSession` that sends the requests. None: a new session for each request.
        - `clock` returns the time in seconds since 1970, for the expiry of tokens.

        Keys are cached. The `Bearer` checks the audience and scopes of tokens. Raises `ValueError` for a URL that is
        neither https nor of this machine, and `mcprev.errors.MissingExtra` if mcprev[jwt] is not installed.
        """
        try:
            from joserfc import jws, jwt
            from joserfc.errors import JoseError
            from joserfc.jwk import KeySet
        except ImportError as error:
            raise MissingExtra("verifying JSON Web Tokens", "joserfc", "jwt") from error
        check_issuer(issuer)
        self._url, self._issuer, self._algorithms = _checked(url), issuer, list(algorithms)
        self._session, self._clock = session, clock
        self._jws, self._jwt, self._errors, self._read_keys = jws, jwt, JoseError, KeySet.import_key_set
        self._keys: list[Any] = []
        self._read_at = self._failed_at = float("-inf")
        self._reading: asyncio.Task[Exception | None] | None = None

    async def __call__(self, token: str) -> Access | None:
        """Return the content of a token, or None for an invalid one. Raises if the keys cannot be read."""
        try:
            kid = self._jws.extract_compact(token.encode()).headers().get("kid")
        except (self._errors, ValueError):
            return None
        keys = await self._keys_for(kid)
        registry = self._jwt.JWTClaimsRegistry(
            now=int(self._clock()),
            leeway=LEEWAY,
            iss={"essential": True, "value": self._issuer},
            exp={"essential": True},
            sub={"essential": True},
        )
        for key in keys:
            try:
                claims = self._jwt.decode(token, key, algorithms=self._algorithms).claims
                registry.validate(claims)
                return _access(claims, ())
            except (self._errors, ValueError, TypeError):
                continue
        return None

    async def _keys_for(self, kid: object) -> list[Any]:
        """Return the keys that may have signed a token; read them again if they are old or lack the key id."""
        age = monotonic() - self._read_at
        if age >= MAX_AGE or (not self._matching(kid) and age >= COOLDOWN):
            if self._reading is None or self._reading.done():
                if monotonic() - self._failed_at < COOLDOWN:
                    raise ValueError(f"the keys at {mask_url(self._url)} could not be read a moment ago")
                self._reading = asyncio.create_task(self._read())
            # A cancelled caller does not cancel the request that the others wait for.
            failure = await asyncio.shield(self._reading)
            if failure is not None:
                raise failure
        return self._matching(kid)

    async def _read(self) -> Exception | None:
        """Read the keys; return the error if they cannot be read."""
        try:
            self._keys = await self._fetch()
        except Exception as error:  # noqa: BLE001 - raised in every waiting call
            self._failed_at = monotonic()
            return error
        self._read_at = monotonic()
        return None

    def _matching(self, kid: object) -> list[Any]:
        return [key for key in self._keys if kid is None or key.kid == kid]

    async def _fetch(self) -> list[Any]:
        document = await _json(self._session, "GET", self._url)
        keys: Json = document.get("keys")
        if keys.__class__ is not list or len(keys) > MAX_KEYS:
            raise ValueError(f"{mask_url(self._url)} holds no JSON Web Key Set of at most {MAX_KEYS} keys")
        found: list[Any] = []
        for key in keys:
            try:
                found += self._read_keys({"keys": [key]}).keys
            except (self._errors, ValueError, TypeError, KeyError):
                continue  # of a type that is not known here
        return [key for key in found if key.key_type != "oct"]


class IntrospectionVerifier:
    """Asks the authorization server about each token (RFC 7662), so that a revoked one is refused at once."""

    def __init__(
        self,
        url: str,
        client_id: str,
        client_secret: str,
        *,
        issuer: str | None = None,
        audience: str | None = None,
        session: aiohttp.ClientSession | None = None,
    ) -> None:
        """Set the URL of the introspection endpoint, and the id and secret of this server there.

        - `issuer` is compared with the `iss` of a response, if the response has one. None: it is not compared.
        - `audience` is the audience of tokens whose response has no `aud`: pass it only if the authorization server
          issues tokens for this server alone. None: these tokens are refused.
        - `session` is an `aiohttp.ClientSession` that sends the requests. None: a new session for each request.

        Raises `ValueError` for a URL that is neither https nor of this machine.
        """
        self._url, self._issuer, self._session = _checked(url), issuer, session
        basic = aiohttp.encode_basic_auth(quote_plus(client_id), quote_plus(client_secret))
        self._credentials = {"authorization": basic}
        self._audience = () if audience is None else (audience,)

    async def __call__(self, token: str) -> Access | None:
        """Return the content of a token, or None for one that is not active. Raises if nobody answers."""
        form = {"token": token, "token_type_hint": "access_token"}
        answer = await _json(self._session, "POST", self._url, form, self._credentials)
        other = self._issuer is not None and answer.get("iss", self._issuer) != self._issuer
        if answer.get("active") is not True or other:
            return None
        try:
            return _access(answer, self._audience)
        except (ValueError, TypeError):
            return None


def _access(claims: Mapping[str, Json], audience: tuple[str, ...]) -> Access:
    """Return the content of a token. Raises `ValueError` or `TypeError` for claims of a wrong type."""
    client = claims.get("client_id", claims.get("azp"))
    return Access(
        claims.get("sub", client),
        audience=claims.get("aud", audience),
        scopes=claims.get("scope", claims.get("scp", ())),
        client_id=client,
        expires=claims.get("exp"),
        claims=claims,
    )


def _checked(url: str) -> str:
    if not is_secure(url):
        raise ValueError(f"{mask_url(repr(url))} is neither an https URL nor one of this machine")
    return url


async def _json(
    given: aiohttp.ClientSession | None,
    verb: str,
    url: str,
    form: Mapping[str, str] | None = None,
    credentials: Mapping[str, str] | None = None,
) -> dict[str, Json]:
    """Return the JSON object at a URL. Raises `ValueError` for anything else, and what aiohttp raises."""
    timeout = aiohttp.ClientTimeout(total=TIMEOUT)
    headers = {"accept": "application/json", **(credentials or {})}
    async with (
        aiohttp.ClientSession() if given is None else nullcontext(given) as session,
        session.request(
            verb, url, data=form, allow_redirects=False, timeout=timeout, headers=headers
        ) as response,
    ):
        body = b""
        async for chunk in response.content.iter_chunked(64 * 1024):
            body += chunk
            if len(body) > MAX_BODY:
                raise ValueError(f"{mask_url(url)} answers with more than {MAX_BODY} bytes")
        if response.status != 200:
            raise ValueError(f"{mask_url(url)} answers with status {response.status}")
    found: Json = json.loads(body)
    if isinstance(found, dict):
        return cast("dict[str, Json]", found)
    raise ValueError(f"{mask_url(url)} answers with JSON that is no object")
