"""Converts the params of a client's calls and reads their results (MOD-1, SEAM-4, SEAM-10).

A `MethodPlan` holds everything that is the same for all calls of a method over one connection, whose revision and
server capabilities do not change. It runs the conversion steps itself, and only those that change something, because
each Python call counts here.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from pydantic_core import ValidationError

from mcprev.callbacks import finished
from mcprev.client.callback_queue import CallbackQueue
from mcprev.client.options import Options
from mcprev.conversion import PayloadKind, converter
from mcprev.conversion.ladder import failure
from mcprev.conversion.rules import NotRepresentable, without
from mcprev.core.capabilities import ClientCapabilities
from mcprev.core.lists import LISTS
from mcprev.core.method_binding import reader
from mcprev.core.pauses import Clock
from mcprev.core.tool_schemas import CALL
from mcprev.core.valid_entries import InvalidEntry, valid_page
from mcprev.errors import Json, LocalProtocolError, RequestTimeout
from mcprev.protocol.connection_state import PROGRESS
from mcprev.protocol.endpoint import ClientProtocol
from mcprev.protocol.stateless import COMPLETE
from mcprev.protocol.tasks import TASK, is_task
from mcprev.revisions import LATEST, Revision


class MethodPlan:
    """Converts the params of one method to the server's revision, and its results back to the latest one."""

    __slots__ = ("_down", "_introduction", "_judge", "_meta", "_method", "_report", "_revision", "_up", "up")

    def __init__(
        self,
        method: str,
        protocol: ClientProtocol,
        identity: ClientCapabilities,
        report: Callable[[Sequence[InvalidEntry]], None] | None,
    ) -> None:
        """`report` takes the entries of a list that are not valid and left out; None: then the result is not valid.

        Raises `LocalProtocolError` for a method that the server's revision or the server does not have.
        """
        self._method, self._report = method, report
        protocol.engine.check_sendable(method)
        self._revision = revision = protocol.revision
        self._down = converter(method, PayloadKind.PARAMS, from_=LATEST, to=revision)
        self._judge = reader(revision, revision.methods[method].params)
        # In a session, `initialize` has already sent these members; the conversion would remove them.
        self._introduction: dict[str, Json] = {} if revision.handshake else identity.introduction(LATEST)
        self._meta: object = None
        """The model of `_introduction` after its first validation."""
        self._up = converter(method, PayloadKind.RESULT, from_=revision, to=LATEST)
        self.up: Callable[[dict[str, Json]], dict[str, Json]] | None = (
            self._convert_up if self._up.steps else None
        )
        if method in LISTS and report is not None:
            self.up = self._list_up
        """Converts a result to the latest revision; None if no result of this method needs it."""

    def params(self, given: dict[str, Json], meta: Mapping[str, Json]) -> dict[str, Json]:
        """Return the params to send; `meta` is added to `_meta`. The result is `given` itself if nothing changes.

        Raises `ConversionError` if the server's revision cannot express the params.
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
                # `_meta` is already validated: pass its model in place of the raw members.
                self._judge({**out, "_meta": self._meta})
        except (NotRepresentable, ValidationError):
            out = down(wire)  # raises the error with the path of the invalid member
        return out

    def _list_up(self, wire: dict[str, Json]) -> dict[str, Json]:
        """Convert a page of a list; entries that are not valid are left out and reported."""
        read = result_reader(self._method)

        def judge(page: dict[str, Json]) -> dict[str, Json]:
            found = self._convert_up(page)
            if found.get("resultType", COMPLETE) == COMPLETE and TASK not in found:
                read(found)
            return found

        try:
            found, invalid = valid_page(self._method, wire, judge)
        except ValidationError:
            return self._convert_up(wire)  # who reads it tells what is wrong with the page
        if invalid:
            assert self._report is not None
            self._report(invalid)
        return found

    def _convert_up(self, wire: dict[str, Json]) -> dict[str, Json]:
        """Convert a result; a task in its place is returned unchanged. Raises `ConversionError`."""
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


def listener(options: Options, callbacks: CallbackQueue) -> Callable[[str, Mapping[str, Json]], None] | None:
    """Return a callback for the progress notifications of a call; None without the option `progress`.

    The user's callback is called after the `callbacks` of earlier messages.
    """
    report_progress = options.get("progress")
    if report_progress is None:
        return None

    def report(method: str, params: Mapping[str, Json]) -> None:
        if method == PROGRESS:
            callbacks.put(partial(called, params))

    async def called(params: Mapping[str, Json]) -> None:
        await finished(
            report_progress(params.get("progress", 0.0), params.get("total"), params.get("message"))
        )

    return report


@asynccontextmanager
async def until(end: float | None, what: str, clock: Clock) -> AsyncGenerator[None, None]:
    """Limit a block to the time `end` of a clock. Raises `RequestTimeout`, whose text begins with `what`."""
    began, bound = clock.now(), None
    try:
        async with clock.bound(None if end is None else end - began) as bound:
            yield
    except TimeoutError:
        if bound is None or not bound.expired():
            raise  # the block raised it
        elapsed = clock.now() - began
        text = f"{what} within {elapsed:.3g} s"
        raise RequestTimeout(text, elapsed=elapsed, kind="total") from None


def result_reader(method: str, spoken: Revision = LATEST) -> Callable[[Any], Any]:
    """Return the function that validates a result of the latest revision. Raises `LocalProtocolError`, which names the spoken
    revision, for an unknown method.
    """
    spec = LATEST.methods.get(method)
    if spec is None or spec.result is None:
        raise LocalProtocolError(f"'{method}' is not a request of {spoken.name}")
    if method == CALL:
        from mcprev.client.tool_result import ToolResult

        ToolResult.model_rebuild()
        return ToolResult.__pydantic_validator__.validate_python
    if method == "resources/read":
        from mcprev.client.resource_result import ResourceResult

        ResourceResult.model_rebuild()
        return ResourceResult.__pydantic_validator__.validate_python
    return reader(LATEST, spec.result)
