"""Senders of typed calls: in exactly the spoken revision's types, or in the latest revision's (SEAM-9, CONV-29)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from pydantic import ValidationError

from mcprev.client.calls import read_result
from mcprev.convert import PayloadKind, convert
from mcprev.core.method_binding import reader, to_wire
from mcprev.errors import Json, LocalProtocolError
from mcprev.revisions import LATEST, extended

if TYPE_CHECKING:
    from mcprev.client.session import ClientSession
    from mcprev_types import MethodSpec


class ExactSender:
    """Sends calls of exactly the spoken revision."""

    def __init__(self, session: ClientSession, package: str) -> None:
        """`package` has the types: the revision's own, or one that extends it."""
        self._session = session
        self._revision = extended(session.revision, package)

    async def send(self, method: MethodSpec, params: object | None, /) -> object:
        """Send a request or notification; return the result as one of the revision's types."""
        session, revision = self._session, self._revision
        wire = None if params is None else to_wire(params)
        if method.result is None:
            session.notify(method.method, wire)
            return None
        result = await session.raw(method.method, wire)
        for name in method.alternate_results:
            try:
                return reader(revision, name)(result)
            except ValidationError:
                continue
        return read_result(reader(revision, method.result), result)


class LatestSender:
    """Sends calls of the latest revision, converted to the spoken one."""

    def __init__(
        self, session: ClientSession, call: Callable[[str, dict[str, Json]], Awaitable[object]]
    ) -> None:
        """`call` makes a call of the latest revision; it is `Client.call`."""
        self._session = session
        self._call = call

    async def send(self, method: MethodSpec, params: object | None, /) -> object:
        """Send a request or notification; return the result as one of the latest revision's types."""
        revision = self._session.revision
        wire = None if params is None else to_wire(params)
        if method.result is not None:
            return await self._call(method.method, wire or {})
        if method.method not in revision.methods:
            raise LocalProtocolError(f"{revision.name} has no '{method.method}'")
        converted = convert(wire, method.method, PayloadKind.PARAMS, from_=LATEST, to=revision)
        self._session.notify(method.method, converted)
        return None
