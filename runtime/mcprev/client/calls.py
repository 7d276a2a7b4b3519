"""How a client calls a method: what is the same for each call of it is worked out once (MOD-1, SEAM-4, SEAM-10).

A `RequestSender` belongs to one connection, whose revision and whose server's capabilities do not change, and has a `MethodPlan` for
each method. A way is to a client what a `MethodBinding` of `seam` is to whoever serves: the conversions are run from here,
step by step, and only where there is something to change, for a call more or less for each message is seen in the rate.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

from pydantic_core import ValidationError

from mcprev.client.options import Options
from mcprev.convert import PayloadKind, converter
from mcprev.convert.ladder import failure
from mcprev.convert.rules import NotRepresentable, without
from mcprev.core.capabilities import ClientCapabilities
from mcprev.core.method_binding import reader
from mcprev.errors import ConnectionLost, Json, LocalProtocolError
from mcprev.protocol.endpoint import ClientProtocol
from mcprev.protocol.pending_calls import Call
from mcprev.protocol.tasks import TASK, is_task
from mcprev.revisions import LATEST

if TYPE_CHECKING:
    from mcprev.core.connection import Connection


class MethodPlan:
    """How params of the latest revision get to a server, and how its result gets back."""

    __slots__ = ("_down", "_introduction", "_judge", "_meta", "_revision", "_up", "up")

    def __init__(self, method: str, protocol: ClientProtocol, identity: ClientCapabilities) -> None:
        """Raises `LocalProtocolError` for a method that the server's revision or the server does not have."""
        protocol.check(method)
        self._revision = revision = protocol.revision
        self._down = converter(method, PayloadKind.PARAMS, from_=LATEST, to=revision)
        self._judge = reader(revision, revision.methods[method].params)
        # A session has introduced itself already: what is said of that would be taken out again on the way down.
        self._introduction: dict[str, Json] = {} if revision.handshake else identity.introduction(LATEST)
        self._meta: object = None
        """The same as the model of the params reads it, once it was judged."""
        self._up = converter(method, PayloadKind.RESULT, from_=revision, to=LATEST)
        self.up: Callable[[dict[str, Json]], dict[str, Json]] | None = (
            self._convert_up if self._up.steps else None
        )
        """Makes of a result one of the latest revision; None where every result is one."""

    def params(self, given: dict[str, Json], meta: Mapping[str, Json]) -> dict[str, Json]:
        """The params to send, which are those given where nothing changes; `meta` is what is added to `_meta`.

        Raises `ConversionError` for what the server could not take.
        """
        down, hello = self._down, self._introduction
        if meta or hello:
            wire = {**given, "_meta": {**meta, **hello} if meta else hello}
        else:
            wire = without(given, "_meta") if "_meta" in given else given
        out: dict[str, Json] = wire
        try:
            if down.touches is None or not down.touches.isdisjoint(wire):
                for step in down.steps:
                    out = step(out, down.context)
            if out.get("_meta") is not hello:
                self._judge(out)
            elif self._meta is None:
                self._meta = getattr(self._judge(out), "meta", None)
            else:
                # What was judged before is not judged again: its model stands for it.
                self._judge({**out, "_meta": self._meta})
        except (NotRepresentable, ValidationError):
            out = down(wire)  # which says what is wrong and where
        return out

    def _convert_up(self, wire: dict[str, Json]) -> dict[str, Json]:
        """A task in the place of a result stays as it is. Raises `ConversionError` for what is no result."""
        if (TASK in wire or "resultType" in wire) and is_task(wire, self._revision):
            return wire
        up = self._up
        out: dict[str, Json] = wire
        try:
            for step in up.steps:
                out = step(out, up.context)
        except NotRepresentable as error:
            raise failure(error, LATEST.name) from None
        return out


class RequestSender:
    """Sends requests over one connection."""

    def __init__(self, connection: Connection, identity: ClientCapabilities, idle: float | None) -> None:
        """`idle` is the timeout of calls that have none of their own."""
        self._connection = connection
        self._identity = identity
        self._idle = idle
        self._protocol = cast("ClientProtocol", connection.protocol)
        self._send = self._protocol.caller
        self.plans: dict[str, MethodPlan] = {}
        """Those that were found."""

    def find(self, method: str) -> MethodPlan:
        """Find the way of a method. Raises `LocalProtocolError` where there is none."""
        found = self.plans[method] = MethodPlan(method, self._protocol, self._identity)
        return found

    def open(self, method: str, params: dict[str, Json] | None, options: Options, end: float | None) -> Call:
        """Send a request whose params are those of the server's revision. Raises `ConnectionLost`."""
        if self._connection.error is not None:
            self.check_open()
        now = self._connection.now()
        return self._send(
            method,
            params,
            now,
            idle=options.get("timeout", self._idle),
            total=None if end is None else max(end - now, 0.0),
            progress="progress" in options,
            unchecked=True,
        )

    def check_open(self) -> None:
        """Raise `ConnectionLost` where nothing can be sent any more."""
        error = self._connection.error
        if error is not None:
            raise ConnectionLost(str(error), in_flight=False, retry_safe=True) from error


def listener(options: Options) -> Callable[[Mapping[str, Json]], None] | None:
    """What takes the progress reports of a call; None where nobody wants any."""
    told = options.get("progress")
    if told is None:
        return None
    return lambda report: told(report.get("progress", 0.0), report.get("total"), report.get("message"))


def result_reader(method: str) -> Callable[[Any], Any]:
    """What reads the result of a method of the latest revision. Raises `LocalProtocolError` for what is none."""
    spec = LATEST.methods.get(method)
    if spec is None or spec.result is None:
        raise LocalProtocolError(f"'{method}' is no request of {LATEST.name}")
    return reader(LATEST, spec.result)
