"""Sealing and opening of `requestState`, which a server sends to a client and receives back (MRTR-4, SEC-5).

The client is not trusted. A state is accepted only with a valid HMAC-SHA256, before it expires, and for the request it
was made for: the same method, params (without the members that a retry adds), principal and audience. A token is the
URL-safe base64 of the MAC, of three tags and of `{"expires", "payload"}`; the other signed values come from the retry
itself and are not in the token. The tags only tell the server's log why a token is refused: its key, its principal, or the
rest of its request. The client can read the payload: it is signed, not encrypted. Replays within the lifetime are not
detected, because that needs storage shared by all processes.

Time is passed in as seconds since the epoch, because another process may open the state.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import math
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from functools import cache
from typing import Final

from mcprev.errors import InvalidParams, Json

MAX_TOKEN: Final = 256 * 1024
"""The default limit of a token, in characters."""
LIFETIME: Final = 600.0
"""The default lifetime of a state in seconds; a person may have to answer in between."""
SKEW: Final = 60.0
"""Seconds by which the clocks of processes may differ."""
KEY_BYTES: Final = 32
"""The minimum length of a key in bytes: the size of the hash, below which guessing gets cheaper."""

TAG_BYTES: Final = 6
"""The length of a tag, long enough for a log."""

_USE: Final = "mcprev requestState 1"
"""Part of the signed data, so that the MAC is not valid for another purpose with the same key."""
_ADDED_BY_RETRY: Final = frozenset({"inputResponses", "requestState", "_meta"})
_REFUSED: Final = "requestState is not valid for this request; send the request again without it"
_CANONICAL: Final = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)
"""The canonical JSON of a value: sorted members, no white space, ASCII only, which covers lone surrogates."""
_COMPARED: Final = json.JSONEncoder(sort_keys=True, separators=(",", ":"))
_log: Final = logging.getLogger("mcprev.server")


class RequestStateSealer:
    """Signs the request states that clients of stateless revisions carry, for `Server(states=...)`.

    States are signed, not encrypted: a client can read its state, but it can neither change it nor use it for another
    request.
    """

    def __init__(
        self,
        keys: Sequence[bytes] | Callable[[], Sequence[bytes]] = (),
        *,
        audience: str = "",
        lifetime: float = LIFETIME,
        limit: int = MAX_TOKEN,
    ) -> None:
        """Set the keys and the limits of states.

        - `keys` have at least 32 bytes each. The first one signs; states that any of them has signed are accepted. To
          rotate keys, add the new one as the last, put it first when every process accepts it, and remove the old one when
          its last state has expired. A function that returns the keys of the moment is called for each state, and must
          not block. Without keys, the process creates one, and no other process accepts its states.
        - `audience` identifies the service. Services that share keys but not states need different ones.
        - `lifetime` is the time in seconds after which a state is no longer accepted: 600 by default.
        - `limit` is the maximum size of a state in characters: 262,144 by default.

        Raises `ValueError` for a short key and for a lifetime that is not positive.
        """
        if not lifetime > 0:
            raise ValueError("the `lifetime` of a request state must be a positive number of seconds")
        self._given = keys if callable(keys) else _checked(tuple(keys))
        self._audience = audience
        self._lifetime = lifetime
        self._limit = limit

    def with_lifetime(self, lifetime: float) -> RequestStateSealer:
        """Return a copy whose states have another lifetime in seconds."""
        found = copy(self)
        found._lifetime = lifetime  # noqa: SLF001 - a copy of ours
        return found

    def _keys(self) -> Sequence[bytes]:
        """Return the keys of the moment, the one that signs first. Raises `ValueError` if a function returns none."""
        if not callable(self._given):
            return self._given or _process_keys()
        keys = _checked(self._given())
        if not keys:
            raise ValueError(
                "the function `keys` of a RequestStateSealer returned no keys; return at least one"
            )
        return keys

    def seal(
        self,
        payload: Json,
        *,
        method: str,
        params: Mapping[str, Json] | None,
        principal: str | None,
        now: float,
    ) -> str:
        """Return a signed token that holds a payload and that `open` accepts only with a retry of this request.

        Raises `ValueError` for a payload that is not JSON, or if the token would exceed the limit.
        """
        try:
            body = _canonical({"expires": math.ceil(now + self._lifetime), "payload": payload})
        except (TypeError, RecursionError) as error:
            raise ValueError(f"the payload of a request state is not JSON: {error}") from error
        key = self._keys()[0]
        body = b"".join(self._tags(key, method, params, principal)) + body
        signed = self._signed(body, method, params, principal)
        token = urlsafe_b64encode(_mac(key, signed) + body).rstrip(b"=").decode()
        if len(token) > self._limit:
            raise ValueError(
                f"a request state of {len(token)} characters exceeds the limit of {self._limit}; keep less in it, or raise `limit`"
            )
        return token

    def open(
        self,
        token: object,
        *,
        method: str,
        params: Mapping[str, Json] | None,
        principal: str | None,
        now: float,
    ) -> Json:
        """Return the payload. Raises `InvalidParams`, with the same message for every reason; the reason is logged."""
        if not isinstance(token, str) or len(token) > self._limit:
            raise _refused("it is not a string, or too long")
        try:
            sealed = urlsafe_b64decode(token.encode("ascii") + b"==")
        except ValueError:
            raise _refused("it is not base64") from None
        mac, body = sealed[:KEY_BYTES], sealed[KEY_BYTES:]
        signed = self._signed(body, method, params, principal)
        # Every key is tried, so that the duration does not reveal which one matches.
        matches = [hmac.compare_digest(_mac(key, signed), mac) for key in self._keys()]
        # Decoding ignores characters outside the alphabet and surplus bits; only the exact encoding is accepted.
        is_canonical = urlsafe_b64encode(sealed).rstrip(b"=").decode() == token
        if not any(matches) or not is_canonical:
            raise self._mismatch(body, method, params, principal)
        state = json.loads(body[3 * TAG_BYTES :])  # written by `seal`: the MAC is valid
        if not now < state["expires"] <= now + self._lifetime + SKEW:
            # If the clock was set back, its age is unknown.
            raise _refused(f"it has expired, {self._lifetime:g} s after it was sealed (`lifetime`)")
        return state["payload"]

    def _tags(
        self, key: bytes, method: str, params: Mapping[str, Json] | None, principal: str | None
    ) -> tuple[bytes, ...]:
        """Return what tells a key, a principal and the rest of a request from others, without naming them."""
        parts = ("key", principal, [self._audience, method, params_digest(params)])
        return tuple(_mac(key, b"tag %b" % _canonical(part))[:TAG_BYTES] for part in parts)

    def _mismatch(
        self, body: bytes, method: str, params: Mapping[str, Json] | None, principal: str | None
    ) -> InvalidParams:
        """Return the error for a state without a valid MAC, and log what differs as far as its tags tell."""
        told = tuple(body[start : start + TAG_BYTES] for start in range(0, 3 * TAG_BYTES, TAG_BYTES))
        for key in self._keys():
            own = self._tags(key, method, params, principal)
            if own[0] == told[0]:
                if own[1] != told[1]:
                    return _refused("it was made for another principal")
                if own[2] != told[2]:
                    return _refused("it was made for another request: its method, params or audience differ")
                return _refused("it was modified in transit")
        return _refused(
            "it is sealed with a key that this process does not have; if another process made it, give all of them the same "
            "keys: states=mcprev.RequestStateSealer([key]), or store=",
            logging.WARNING,
        )

    def _signed(
        self, body: bytes, method: str, params: Mapping[str, Json] | None, principal: str | None
    ) -> bytes:
        """Return the data to sign: the canonical JSON of the request's binding, then that of the state."""
        binding = {
            "audience": self._audience,
            "method": method,
            "params": params_digest(params),
            "principal": principal,
            "use": _USE,
        }
        return b"[%b,%b]" % (_canonical(binding), body)


def _refused(why: str, level: int = logging.INFO) -> InvalidParams:
    """Return the error for a client, which does not learn why; the server's log does."""
    _log.log(level, "a request state is refused: %s", why)
    return InvalidParams(_REFUSED)


def params_digest(params: Mapping[str, Json] | None) -> str:
    """Return the SHA-256 of the params that a retry repeats: without input responses, state and `_meta`.

    The order of members does not matter. Absent and empty params are equal.
    """  # MRTR-5
    repeated = {name: value for name, value in (params or {}).items() if name not in _ADDED_BY_RETRY}
    # A number beyond a double was parsed as infinity; the encoding is only compared, never sent.
    return hashlib.sha256(_COMPARED.encode(repeated).encode()).hexdigest()


def _checked(keys: Sequence[bytes]) -> Sequence[bytes]:
    if any(len(key) < KEY_BYTES for key in keys):
        raise ValueError(f"a key for request states must have at least {KEY_BYTES} bytes")
    return keys


def _canonical(value: Json) -> bytes:
    return _CANONICAL.encode(value).encode()


def _mac(key: bytes, signed: bytes) -> bytes:
    return hmac.digest(key, signed, "sha256")


@cache
def _process_keys() -> tuple[bytes, ...]:
    """Return the key of a process without configured keys, created on first use."""
    _log.info(
        "request states are signed with a random key of this process; pass `states` or a `store` to share them with other processes"
    )
    return (secrets.token_bytes(KEY_BYTES),)
