"""Verdicts that come again: the same head, with a body that says the same, is the same request (performance.md).

A client of the stateless era repeats in its headers what stands in the body, and one of a session names its session,
so that both send the same heads again and again. What `http_classify` found once about such a head is kept with it
and compared with each new body, instead of being found again. Whatever does not fit goes to `http_classify`.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from mcprev.errors import Json
from mcprev.protocol.http_classify import Endpoint
from mcprev.protocol.http_verdicts import LegacySession, Modern, Verdict
from mcprev.protocol.negotiate import VERSION_KEY
from mcprev.revisions import Revision
from mcprev.wire.headers import Headers
from mcprev.wire.jsonrpc import Batch, ErrorResponse, Malformed, Message, Request, Response
from mcprev.wire.media import Accept

_ANSWERS: Final = (Response, ErrorResponse)


class AgainModern:
    """A head that says what the requests say that came with it."""

    __slots__ = ("_accept", "_method", "_name", "_name_of", "_state", "_version")

    def __init__(
        self, message: Request, version: Json, name_of: str | None, accept: Accept, state: object
    ) -> None:
        """`state` is whatever else the verdict depends on, which has to be equal to have it again."""
        self._method, self._version = message.method, version
        self._name_of = name_of
        self._name: Json = None if name_of is None else (message.params or {}).get(name_of)
        self._accept, self._state = accept, state

    def verdict(self, message: Message | Batch, live: Revision | None, state: object) -> Verdict | None:
        """What a request is that came with this head; None where that has to be found out."""
        del live
        if not isinstance(message, Request) or message.method != self._method or state != self._state:
            return None
        params = message.params
        meta: Json = None if params is None else params.get("_meta")
        if params is None or meta.__class__ is not dict or meta.get(VERSION_KEY) != self._version:
            return None
        if self._name_of is not None and params.get(self._name_of) != self._name:
            return None
        return Modern(message, self._accept)


class AgainSession:
    """A head that names a session, in its revision."""

    __slots__ = ("_accept", "_live")

    def __init__(self, live: Revision, accept: Accept) -> None:
        self._live, self._accept = live, accept

    def verdict(self, message: Message | Batch, live: Revision | None, state: object) -> Verdict | None:
        """What a message is that came with this head; None where that has to be found out."""
        del state
        if live is None or live is not self._live or isinstance(message, (Malformed, Batch)):
            return None
        if not isinstance(message, _ANSWERS):
            meta: Json = None if message.params is None else message.params.get("_meta")
            if meta.__class__ is dict and VERSION_KEY in meta:
                return None
        return LegacySession(message, live, self._accept)


Again: TypeAlias = AgainModern | AgainSession


def again(
    endpoint: Endpoint,
    headers: Headers,
    message: Message | Batch,
    verdict: Verdict,
    state: object,
) -> Again | None:
    """What to keep with a head once `classify` gave a verdict on a request; None where the next may be another."""
    if isinstance(verdict, Modern) and isinstance(message, Request):
        params = message.params or {}
        meta: Json = params.get("_meta")
        version: Json = meta.get(VERSION_KEY) if meta.__class__ is dict else None
        name_of = endpoint.name_param(message.method)
        if endpoint.says(headers, version, message.method, params):
            return AgainModern(message, version, name_of, verdict.accept, state)
    elif (
        isinstance(verdict, LegacySession)
        and not isinstance(message, Batch)
        and endpoint.agrees(headers, verdict.row)
    ):
        return AgainSession(verdict.row, verdict.accept)
    return None
