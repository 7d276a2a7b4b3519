"""Sealing and opening of `requestState` (MRTR-4, SEC-5): what a server hands to a client and gets back unread.

The client is not trusted with it. A state is accepted only with a valid HMAC-SHA256, before it expires, and for
the request it was made for: same method, same params (without what a retry adds), same principal, same audience.
A token is URL-safe text of the MAC and `{"expires", "payload"}`; the rest of what is signed is taken from the
request at hand, so it costs no bytes and tells the client nothing. The payload is readable by the client: it is
signed, not encrypted. Replays within the lifetime are not noticed, for that takes a memory across processes.

Time is passed in as seconds since the epoch, because another process may open what this one sealed.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import math
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Final

from mcprev.errors import InvalidParams, Json

MAX_TOKEN: Final = 256 * 1024
"""The default bound of a token, in characters."""
LIFETIME: Final = 600.0
"""How many seconds a state is good for unless said otherwise: a person may have to answer in between."""
KEY_BYTES: Final = 32
"""The least a key may hold: the size of the hash, below which guessing gets cheaper."""

_USE: Final = "mcprev requestState 1"
"""Keeps a MAC made here from being valid anywhere else the same key is used."""
_ADDED_BY_RETRY: Final = frozenset({"inputResponses", "requestState", "_meta"})
_REFUSED: Final = "requestState is not valid for this request"
_CANONICAL: Final = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)
"""One spelling for one value: sorted members, no white space, ASCII only (so lone surrogates have one too)."""
_COMPARED: Final = json.JSONEncoder(sort_keys=True, separators=(",", ":"))
_log: Final = logging.getLogger("mcprev.server")


class RequestStateSealer:
    """Seals states with the first key of a ring and opens what any of its keys has sealed.

    To change keys, put the new one in front and take the old one out once its last state has expired. Without
    keys the process makes one of its own, and no other process can open its states. `audience` names the
    service; servers that share keys but not their states have different ones.
    """

    __slots__ = ("_audience", "_keys", "_lifetime", "_limit")

    def __init__(
        self,
        keys: Sequence[bytes] = (),
        *,
        audience: str = "",
        lifetime: float = LIFETIME,
        limit: int = MAX_TOKEN,
    ) -> None:
        if any(len(key) < KEY_BYTES for key in keys):
            raise ValueError(f"a key for request states holds at least {KEY_BYTES} bytes")
        if not lifetime > 0:
            raise ValueError("the lifetime of a request state is a positive number of seconds")
        self._keys = tuple(keys)
        self._audience = audience
        self._lifetime = lifetime
        self._limit = limit

    def seal(
        self,
        payload: Json,
        *,
        method: str,
        params: Mapping[str, Json] | None,
        principal: str | None,
        now: float,
    ) -> str:
        """Make the token that brings a payload back with the retry of this request.

        Raises `ValueError` for a payload that is not JSON or makes the token longer than the limit.
        """
        try:
            body = _canonical({"expires": math.ceil(now + self._lifetime), "payload": payload})
        except (TypeError, RecursionError) as error:
            raise ValueError(f"the payload of a request state is not JSON: {error}") from error
        signed = self._signed(body, method, params, principal)
        token = urlsafe_b64encode(_mac(self._ring()[0], signed) + body).rstrip(b"=").decode()
        if len(token) > self._limit:
            raise ValueError(f"a request state of {len(token)} characters is over the limit of {self._limit}")
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
        """Give back the payload. Raises `InvalidParams`, the same for every reason there is to refuse."""
        if not isinstance(token, str) or len(token) > self._limit:
            raise InvalidParams(_REFUSED)
        try:
            sealed = urlsafe_b64decode(token.encode("ascii") + b"==")
        except ValueError:
            raise InvalidParams(_REFUSED) from None
        mac, body = sealed[:KEY_BYTES], sealed[KEY_BYTES:]
        signed = self._signed(body, method, params, principal)
        # Every key is tried, so that the time taken does not tell which of them fits.
        fits = [hmac.compare_digest(_mac(key, signed), mac) for key in self._ring()]
        # Decoding skips what is not in the alphabet and drops odd bits: only the one true spelling is a token.
        spelled = urlsafe_b64encode(sealed).rstrip(b"=").decode() == token
        if not any(fits) or not spelled:
            raise InvalidParams(_REFUSED)
        state = json.loads(body)  # written by `seal`: nothing else has this MAC
        if now >= state["expires"]:
            raise InvalidParams(_REFUSED)
        return state["payload"]

    def _ring(self) -> tuple[bytes, ...]:
        return self._keys or _process_keys()

    def _signed(
        self, body: bytes, method: str, params: Mapping[str, Json] | None, principal: str | None
    ) -> bytes:
        """What the MAC is taken over: the canonical JSON of the request's binding, then that of the state."""
        binding = {
            "audience": self._audience,
            "method": method,
            "params": params_digest(params),
            "principal": principal,
            "use": _USE,
        }
        return b"[%b,%b]" % (_canonical(binding), body)


def params_digest(params: Mapping[str, Json] | None) -> str:
    """SHA-256 of what a retry repeats: the params without input responses, state and `_meta` (MRTR-5).

    Members may come in any order. Absent params and empty ones are the same.
    """
    repeated = {name: value for name, value in (params or {}).items() if name not in _ADDED_BY_RETRY}
    # A number beyond a double was read as infinity; it is only compared here, never written to a peer.
    return hashlib.sha256(_COMPARED.encode(repeated).encode()).hexdigest()


def _canonical(value: Json) -> bytes:
    return _CANONICAL.encode(value).encode()


def _mac(key: bytes, signed: bytes) -> bytes:
    return hmac.digest(key, signed, "sha256")


@cache
def _process_keys() -> tuple[bytes, ...]:
    """The key of a process that was given none, made when it is first needed."""
    _log.info(
        "request states are sealed with a key of this process; set one to share them with other processes"
    )
    return (secrets.token_bytes(KEY_BYTES),)
