"""Verifiers of bearer tokens for `mcprev.Bearer`: JSON Web Tokens by public keys, and introspection (RFC 7662).

Keys and answers come only from the URL that the author sets or that the metadata of the author's issuer names, never
from one that a token names. If it cannot be reached, the verifier raises: the response is 503, and the client keeps its
token. For an invalid token it raises `InvalidToken` with the reason, for the log: 401.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from time import monotonic
from typing import Any, Final, cast
from urllib.parse import quote_plus

from mcprev.auth.client.discovery import server_urls
from mcprev.auth.token_kinds import ACCESS_TOKEN, ANY_TOKEN, token_type, wrong_kind, wrong_type
from mcprev.auth.urls import check_issuer, is_secure, issuer_spellings
from mcprev.errors import Json, MissingExtra
from mcprev.revisions import ADVERTISED
from mcprev.transports.http.server.access import Access, InvalidToken, as_texts
from mcprev.transports.http.urls import mask_url
from mcprev.wire.json_values import is_json_object

try:
    import aiohttp
except ImportError as _error:
    raise MissingExtra("verifying tokens", "aiohttp", "http") from _error

ALGORITHMS: Final = (
    "RS256",
    "RS384",
    "RS512",
    "PS256",
    "PS384",
    "PS512",
    "ES256",
    "ES384",
    "ES512",
    "EdDSA",
    "Ed25519",
)
"""The algorithms with public keys; with a shared secret, every verifier could issue tokens."""
MAX_AGE: Final = 300.0
"""Seconds after which keys are read again."""
COOLDOWN: Final = 10.0
"""Seconds within which keys that are unknown or cannot be read are asked for only once."""
MAX_BODY: Final = 256 * 1024
"""The maximum size of a response in bytes, such as a set of keys."""
MAX_KEYS: Final = 100
TIMEOUT: Final = 10.0
LEEWAY: Final = 60
"""The default of the seconds by which clocks may differ."""
SCOPE_CLAIMS: Final = ("scope", "scp")
_PEM: Final = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----[^-]+-----END \1-----")
_PUBLIC: Final = frozenset({"PUBLIC KEY", "RSA PUBLIC KEY"})


class JwtVerifier:
    """Verifies JSON Web Tokens with public keys: those of their issuer, or those that you pass. Needs mcprev[http,jwt]."""

    def __init__(
        self,
        keys: str | bytes | Path | Mapping[str, Json] | None = None,
        *,
        issuer: str,
        audience: str | Sequence[str] = (),
        algorithms: Sequence[str] = ALGORITHMS,
        required: Sequence[str] | Mapping[str, Json] = (),
        scope_claims: Sequence[str] = SCOPE_CLAIMS,
        leeway: float = LEEWAY,
        types: Sequence[str] = (ACCESS_TOKEN, ANY_TOKEN),
        id_tokens: bool = False,
        session: aiohttp.ClientSession | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Set the issuer, which is the `iss` that tokens must have, and where its public keys are.

        - `keys` are the URL of the keys (the `jwks_uri` of the authorization server), or the keys themselves: PEM, a
          JSON Web Key (Set) as JSON or as a dict, or the `Path` of a file with one of these. None: the URL that the
          metadata of the issuer names.
        - `audience` are values of `aud` that name this server, one or several. Default: the `resource` of the `Bearer`.
        - `algorithms` are the accepted signature algorithms. Default: all that have public keys; no others are allowed.
        - `required` are names of claims that a token must have, or a dict of names and their values. `exp` and `sub`
          are always required.
        - `scope_claims` are the claims that hold scopes, as a string or a list: `scope` and `scp` by default. Entra has
          `roles` for programs.
        - `leeway` is the number of seconds by which the clocks of issuer and server may differ: 60 by default.
        - `types` are the accepted values of the header `typ`. Default: `at+jwt` and `JWT`, which is assumed where there
          is none. Pass `["at+jwt"]` for an issuer that follows RFC 9068.
        - `id_tokens` accepts ID tokens, which are for the client that logged a user in. False: what is known as an ID
          token by its claims is refused, unless its type is `at+jwt`. A logout or refresh token is refused in any
          case.
        - `session` is an `aiohttp.ClientSession` that sends the requests. None: a new session for each request.
        - `clock` returns the time in seconds since 1970, for the expiry of tokens.

        Keys at a URL are cached. Raises `ValueError` for a URL that is neither https nor of this machine, for keys
        that are not public and for other algorithms, `OSError` for a file that cannot be read, and
        `mcprev.errors.MissingExtra` if mcprev[jwt] is not installed.
        """
        try:
            from joserfc import jwk, jws, jwt
            from joserfc.errors import JoseError
        except ImportError as error:
            raise MissingExtra("verifying JSON Web Tokens", "joserfc", "jwt") from error
        check_issuer(issuer)
        others = [name for name in algorithms if name not in ALGORITHMS]
        if others or not algorithms or isinstance(algorithms, str):
            wrong = f"'{others[0]}' is none" if others else f"{algorithms!r} is not a list of them"
            raise ValueError(
                f"`algorithms` must be algorithms with public keys, {', '.join(ALGORITHMS)}: {wrong}"
            )
        self._types = {token_type(name) or "" for name in as_texts(_audience(types))}
        if not self._types - {""}:
            raise ValueError("`types` is empty; pass values of the header `typ`, such as 'at+jwt'")
        self._id_tokens = id_tokens
        if not leeway >= 0:
            raise ValueError("`leeway` must be a number of seconds, not less than 0")
        self.issuers: tuple[str, ...] = (issuer,)
        """The issuer of the tokens, which a `Bearer` names to clients."""
        self._issuer, self._algorithms, self._leeway = issuer, list(algorithms), leeway
        self._audience, self._scope_claims = _audience(audience), as_texts(scope_claims)
        self._required = (
            dict(required) if isinstance(required, Mapping) else dict.fromkeys(as_texts(required), _ANY)
        )
        self._session, self._clock = session, clock
        self._jwk, self._jws, self._jwt, self._errors = jwk, jws, jwt, JoseError
        self._url: str | None = None
        self._keys: list[Any] = []
        self._given = True
        """Whether the keys are those that the author passes, which are neither read again nor chosen by their id."""
        if isinstance(keys, Path):
            keys = keys.read_bytes()
        if isinstance(keys, bytes):
            keys = keys.decode()
        if isinstance(keys, str) and "-----BEGIN" in keys:
            self._keys = self._read_pem(keys)
        elif isinstance(keys, Mapping) or (keys or "").lstrip().startswith("{"):
            document = keys if isinstance(keys, Mapping) else json.loads(keys or "")
            self._keys = self._read_set(document if "keys" in document else {"keys": [document]}, "`keys`")
            if not self._keys:
                raise ValueError("`keys` contains no public key of a supported type: RSA, EC or Ed25519")
        else:
            self._given = False
            self._url = None if keys is None else _checked(keys)
        self._read_at = self._failed_at = float("-inf")
        self._reading: asyncio.Task[Exception | None] | None = None

    async def __call__(self, token: str) -> Access:
        """Return the content of a token. Raises `InvalidToken` for an invalid one, and other errors if keys cannot be read."""
        try:
            parsed = self._jws.extract_compact(token.encode())
            head, unproved = parsed.headers(), json.loads(parsed.payload)
            issuer, algorithm, kid = unproved.get("iss"), head.get("alg"), head.get("kid")
        except (self._errors, ValueError, TypeError, AttributeError, RecursionError):
            raise InvalidToken("it is not a JSON Web Token") from None
        if issuer not in issuer_spellings(self._issuer):
            raise InvalidToken(f"its issuer is {_shown(issuer)}, not {self._issuer!r}")
        if algorithm not in self._algorithms:
            raise InvalidToken(
                f"its algorithm is {_shown(algorithm)}, not one of {', '.join(self._algorithms)}"
            )
        if wrong_type(head, self._types):
            raise InvalidToken(f"its type is {_shown(head.get('typ'))}, which is not that of an access token")
        typed = token_type(head.get("typ")) == ACCESS_TOKEN
        kind = None if typed else wrong_kind(unproved, id_tokens=self._id_tokens)
        if kind is not None:
            raise InvalidToken(
                f"it is not an access token, because of its claim {kind!r}; `id_tokens` accepts ID tokens"
            )
        keys = await self._keys_for(kid)
        if not keys:
            raise InvalidToken(f"the issuer has no key with the id {_shown(kid)}")
        for key in keys:
            try:
                return self._accepted(self._jwt.decode(token, key, algorithms=self._algorithms).claims)
            except (self._errors, ValueError, TypeError):
                continue
        raise InvalidToken("its signature is not from a key of the issuer")

    def _accepted(self, claims: dict[str, Json]) -> Access:
        """Return the content of a token whose signature is valid. Raises `InvalidToken`."""
        registry = self._jwt.JWTClaimsRegistry(
            now=int(self._clock()),
            leeway=cast("int", self._leeway),
            iss={"essential": True, "values": list(issuer_spellings(self._issuer))},
            exp={"essential": True},
            sub={"essential": True},
        )
        try:
            registry.validate(claims)
            expires: float = claims["exp"] + self._leeway
        except (self._errors, ValueError, TypeError, OverflowError) as error:
            raise InvalidToken(f"{getattr(error, 'description', error)}") from None
        for name, value in self._required.items():
            if name not in claims or (value is not _ANY and not _same(claims[name], value)):
                found = _shown(claims[name]) if name in claims else "missing"
                raise InvalidToken(f"its claim {name!r} is {found}")
        return _access(claims, self._audience, self._scope_claims, expires=expires)

    def _read_pem(self, text: str) -> list[Any]:
        """Return the public keys in PEM. Raises `ValueError` for anything else."""
        labels = [found[1] for found in _PEM.finditer(text)]
        for label in labels or ["text without an end"]:
            if label not in _PUBLIC:
                raise ValueError(
                    f"`keys` contains a {label} in PEM: pass a PUBLIC KEY, which is enough to verify tokens"
                )
        found: list[Any] = []
        for pem in _PEM.finditer(text):
            for kind in (self._jwk.RSAKey, self._jwk.ECKey, self._jwk.OKPKey):
                try:
                    found.append(kind.import_key(pem[0]))
                except (self._errors, ValueError, TypeError):
                    continue
        if len(found) < len(labels):
            raise ValueError(
                "`keys` contains a key in PEM that cannot be read; supported are RSA, EC and Ed25519"
            )
        return found

    def _read_set(self, document: Mapping[str, Json], at: str) -> list[Any]:
        """Return the public keys of a JSON Web Key Set. Raises `ValueError` for anything else."""
        keys: Json = document.get("keys")
        if keys.__class__ is not list or len(keys) > MAX_KEYS:
            raise ValueError(f"{at} is not a JSON Web Key Set of at most {MAX_KEYS} keys")
        found: list[Any] = []
        for key in keys:
            try:
                found += self._jwk.KeySet.import_key_set({"keys": [key]}).keys
            except (self._errors, ValueError, TypeError, KeyError):
                continue  # of a type that is not known here
        return [key for key in found if key.key_type != "oct"]

    async def _keys_for(self, kid: object) -> list[Any]:
        """Return the keys that may have signed a token; read them again if they are old or lack the key id."""
        if self._given:
            return self._keys
        age = monotonic() - self._read_at
        if age >= MAX_AGE or (not self._matching(kid) and age >= COOLDOWN):
            if self._reading is None or self._reading.done():
                if monotonic() - self._failed_at < COOLDOWN:
                    raise ValueError(
                        f"the keys at {mask_url(self._url or self._issuer)} could not be read a moment ago"
                    )
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
        url = await self._discover() if self._url is None else self._url
        return self._read_set(await _json(self._session, "GET", url), mask_url(url))

    def _key_set(self, document: Mapping[str, Json], url: str) -> str:
        """Return the URL of the keys that metadata names. Raises `ValueError` for that of another issuer."""
        if document.get("issuer") not in issuer_spellings(self._issuer):
            raise ValueError(f"{mask_url(url)} is the metadata of another issuer")
        return _checked(document.get("jwks_uri"))

    async def _discover(self) -> str:
        """Return the URL of the keys that the metadata of the issuer names; the first of its places that has any."""
        failures: list[str] = []
        for url in server_urls(self._issuer, ADVERTISED):
            try:
                return self._key_set(await _json(self._session, "GET", url), url)
            except ValueError as error:
                failures.append(str(error))
        raise ValueError(
            f"the issuer publishes no usable metadata; pass the URL of its keys: {'; '.join(failures)}"
        )


class IntrospectionVerifier:
    """Verifies each token at the authorization server (token introspection, RFC 7662), so that a revoked one is refused at once."""

    def __init__(
        self,
        url: str,
        client_id: str,
        client_secret: str,
        *,
        issuer: str | None = None,
        audience: str | Sequence[str] = (),
        assume_audience: bool = False,
        scope_claims: Sequence[str] = SCOPE_CLAIMS,
        session: aiohttp.ClientSession | None = None,
    ) -> None:
        """Set the URL of the introspection endpoint, and the id and secret of this server there.

        - `issuer` is compared with the `iss` of a response, if the response has one. None: it is not compared.
        - `audience` are values of `aud` that name this server, one or several. Default: the `resource` of the `Bearer`.
        - `assume_audience`: whether a token whose response has no `aud` is for this server. Set it only if the
          authorization server issues tokens for this server alone. False: these tokens are refused.
        - `scope_claims` are the members that hold scopes, as a string or a list: `scope` and `scp` by default.
        - `session` is an `aiohttp.ClientSession` that sends the requests. None: a new session for each request.

        Raises `ValueError` for a URL that is neither https nor of this machine.
        """
        self._url, self._issuer, self._session = _checked(url), issuer, session
        if issuer is not None:
            check_issuer(issuer)
        self.issuers: tuple[str, ...] | None = None if issuer is None else (issuer,)
        """The issuer of the tokens, which a `Bearer` names to clients; None if it is not known."""
        basic = aiohttp.encode_basic_auth(quote_plus(client_id), quote_plus(client_secret))
        self._credentials = {"authorization": basic}
        self._audience, self._assume = _audience(audience), assume_audience
        self._scope_claims = as_texts(scope_claims)

    async def __call__(self, token: str) -> Access:
        """Return the content of a token. Raises `InvalidToken` for a token that is not active, and other errors if the endpoint does not respond."""
        form = {"token": token, "token_type_hint": "access_token"}
        answer = await _json(self._session, "POST", self._url, form, self._credentials)
        if answer.get("active") is not True:
            raise InvalidToken("its authorization server says that it is not active")
        if self._issuer is not None and answer.get("iss", self._issuer) not in issuer_spellings(self._issuer):
            raise InvalidToken(f"its issuer is {_shown(answer['iss'])}, not {self._issuer!r}")
        kind = wrong_kind(answer)
        if kind is not None:
            raise InvalidToken(f"it is not an access token, because of its claim {kind!r}")
        assumed = self._assume and "aud" not in answer
        return _access(answer, self._audience, self._scope_claims, assumed=assumed, expires=answer.get("exp"))


_ANY: Final = object()
"""The value of a required claim that may have any."""


def _access(
    claims: Mapping[str, Json],
    audience: tuple[str, ...],
    scope_claims: Sequence[str],
    *,
    assumed: bool = False,
    expires: float | None,
) -> Access:
    """Return the content of a token. Raises `InvalidToken` for claims of a wrong type and for another audience."""
    client = claims.get("client_id", claims.get("azp"))
    try:
        scopes = [
            scope
            for name in scope_claims
            for scope in (
                claims[name].split()
                if isinstance(claims.get(name), str)
                else as_texts(claims.get(name) or ())
            )
        ]
        found = Access(
            claims.get("sub", client),
            audience=claims.get("aud", ()),
            scopes=scopes,
            client_id=client,
            expires=expires,
            audience_checked=assumed or not set(audience).isdisjoint(_audience(claims.get("aud", ()))),
            claims=claims,
        )
    except (ValueError, TypeError) as error:
        raise InvalidToken(f"its claims are not valid: {error}") from None
    if audience and not found.audience_checked:
        raise InvalidToken(f"it is for {_shown(found.audience)}, not for {' or '.join(map(repr, audience))}")
    return found


def _audience(given: str | Sequence[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else as_texts(given)


def _same(one: Json, other: Json) -> bool:
    """Return whether two JSON values are equal; 1, 1.0, True and "1" are four values."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def _shown(value: object) -> str:
    """Return the beginning of a value that a token names, for a log."""
    return ascii(value)[:200]


def _checked(url: object) -> str:
    if not isinstance(url, str) or not is_secure(url):
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
                raise ValueError(f"{mask_url(url)} returned more than {MAX_BODY} bytes")
        if response.status != 200:
            raise ValueError(f"{mask_url(url)} returned status {response.status}")
    found: Json = json.loads(body)
    if is_json_object(found):
        return found
    raise ValueError(f"{mask_url(url)} returned JSON that is not an object")
