"""Sends the methods of a generated package in its own types, without conversion (SEAM-9, MOD-17)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

from pydantic_core import ValidationError

from mcprev.callbacks import finished
from mcprev.conversion import PayloadKind, convert
from mcprev.core.method_binding import read_result, reader
from mcprev.errors import Json, LocalProtocolError
from mcprev.revisions import LATEST, Revision, extended, revision_named
from mcprev.wire.json_values import is_json_mapping

if TYPE_CHECKING:
    from mcprev_types import MethodSpec

C_co = TypeVar("C_co", covariant=True)
S_co = TypeVar("S_co", covariant=True)


class Package(Protocol[C_co, S_co]):
    """The package of a revision, such as `mcprev_types.v2025_06_18`, or one that extends it, such as `acme_types.latest`."""

    @property
    def REVISION(self) -> str:  # noqa: N802 - as the packages spell it
        """The name of the revision that it was generated like."""
        ...

    @property
    def ClientCalls(self) -> Callable[[Any], C_co]:  # noqa: N802 - as the packages spell it
        """The class of the methods that clients send."""
        ...

    @property
    def ServerCalls(self) -> Callable[[Any], S_co]:  # noqa: N802 - as the packages spell it
        """The class of the methods that servers send."""
        ...


@dataclass(frozen=True, slots=True)
class ExactSender:
    """Sends the methods of a package."""

    revision: Revision
    """The row of the package, whose types are sent."""
    request: Callable[[str, dict[str, Json] | None], Awaitable[dict[str, Json]]]
    """Sends a request and returns its result, both as JSON."""
    notify: Callable[[str, dict[str, Json] | None], Awaitable[None] | None]
    """Sends a notification as JSON."""

    async def send(self, method: MethodSpec, params: object | None, /) -> object:
        """Send a request or notification; return the result as one of the package's types."""
        wire = plain_params(params)
        if wire is None and method.params is not None and not method.params_optional:
            wire = {}  # what it requires is what the runtime states
        if method.result is None:
            return await finished(self.notify(method.method, wire))
        result = await self.request(method.method, wire)
        return read_result(partial(read_any, self.revision, method), result)


@dataclass(frozen=True, slots=True)
class LatestSender:
    """Sends the methods of the latest revision, converted to the spoken one."""

    spoken: Callable[[], Revision]
    """Returns the revision that is spoken now."""
    request: Callable[[str, dict[str, Json]], Awaitable[object]]
    """Makes a call of the latest revision; it is `Client.call`."""
    notify: Callable[[str, dict[str, Json] | None], None]
    """Sends a notification in JSON of the spoken revision."""

    async def send(self, method: MethodSpec, params: object | None, /) -> object:
        """Send a request or notification; return the result as one of the latest revision's types."""
        wire, revision = plain_params(params), self.spoken()
        if method.result is not None:
            return await self.request(method.method, wire or {})
        if method.method not in revision.methods:
            raise LocalProtocolError(f"{revision.name} has no '{method.method}'")
        self.notify(
            method.method, convert(wire, method.method, PayloadKind.PARAMS, from_=LATEST, to=revision)
        )
        return None


def row_of(package: Package[object, object], spoken: str | None = None) -> Revision:
    """Return the row of a package. Raises `TypeError` for anything else, and `LocalProtocolError` if another revision is spoken."""
    if not hasattr(package, "REVISION"):
        shown = getattr(package, "__name__", type(package).__name__)
        raise TypeError(f"{shown} is no generated package; pass one, such as mcprev_types.latest")
    if spoken not in (None, package.REVISION):
        raise LocalProtocolError(f"{spoken} is spoken with the peer, not {package.REVISION}")
    module = cast("Any", package.ClientCalls).__module__
    return extended(revision_named(package.REVISION), module.rpartition(".")[0])


def plain_params(params: object | None) -> dict[str, Json] | None:
    """Return params, a model or a mapping of JSON values, as JSON."""
    if is_json_mapping(params):
        return dict(params)
    return None if params is None else cast("Any", params).to_wire()


def read_any(revision: Revision, method: MethodSpec, result: dict[str, Json]) -> object:
    """Return a result as the first of its types that it fits. Raises `ValidationError`."""
    for name in method.alternate_results:
        try:
            return reader(revision, name)(result)
        except ValidationError:
            continue
    return reader(revision, method.result)(result)
