"""What middleware records of a call: who called what, how long it took and how it ended."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, cast

from mcprev.errors import Json, RpcError, ToolError
from mcprev.protocol.mrtr import input_requests_of
from mcprev.server.context import Context
from mcprev.server.kept import Kept
from mcprev.server.middleware import CallNext, HandlerCall, HandlerResult, is_own
from mcprev.wire.meta_keys import CLIENT_INFO
from mcprev.wire.payloads import mask_text

MOST: Final = 256
"""The maximum number of characters of a name that is recorded."""
INDIRECT: Final = Kept(bool)
"""The contexts of calls that made further requests of their app, each with its own access, for the client."""
_NAMES: Final = ("name", "uri")


@dataclass(frozen=True, slots=True)
class CallRecord:
    """One call that has ended."""

    call: HandlerCall
    """The call."""
    seconds: float
    """How long it took."""
    outcome: str
    """`ok`, `tool_error`, `input_required`, `cancelled`, `refused` (the error of a protocol) or `error`."""
    error: BaseException | None
    """What it raised; None if it returned a result."""
    result: HandlerResult
    """What it returned."""


def entry_key(call: HandlerCall) -> str | None:
    """Return the name of the tool or prompt, or the URI of the resource, that a call is for; None for other methods."""
    found = (getattr(call.params, name, None) for name in _NAMES)
    return next((name for name in found if isinstance(name, str)), None)


def recordable(text: str) -> str:
    """Return the beginning of a text that a peer chose, in characters that every file and exporter can write."""
    return text[:MOST].encode(errors="replace").decode()


def entry_name(call: HandlerCall) -> str | None:
    """Return `entry_key` as it is recorded: without the secrets that a URI may have in its query."""
    found = entry_key(call)
    return None if found is None else recordable(mask_text(found))


def recorded_id(ctx: Context) -> Json:
    """Return the id of a request as it is recorded; the client chose it."""
    return recordable(ctx.request_id) if isinstance(ctx.request_id, str) else ctx.request_id


def client_name(ctx: Context) -> str | None:
    """Return the name that the client says it has."""
    info: object = ctx.stamp.get(CLIENT_INFO)
    name = (
        cast("Mapping[str, object]", info).get("name")
        if isinstance(info, Mapping)
        else getattr(info, "name", None)
    )
    return recordable(name) if isinstance(name, str) else None


def passed_on(ctx: Context) -> list[tuple[str, str]]:
    """Return the name and the revision of each server that a bridge has passed a request on to; none for any other server."""
    found = cast("Mapping[tuple[str, str], None]", getattr(ctx, "passed_on", {}))
    return [(recordable(name), revision) for name, revision in found]


def wire_of(value: HandlerResult) -> Json:
    """Return params or a result, a model of any generated package or a mapping, as JSON."""
    if isinstance(value, Mapping):
        return dict(value)
    return None if value is None else value.to_wire()


def is_failed(result: HandlerResult) -> bool:
    """Return whether the result of a tool says that the tool failed."""
    return _member(result, "is_error", "isError") is True


def asks(result: HandlerResult) -> bool:
    """Return whether a result asks for input instead of answering."""
    return _member(result, "result_type", "resultType") not in {None, "complete"}


def _member(result: HandlerResult, name: str, wire: str) -> object:
    return result.get(wire) if isinstance(result, Mapping) else getattr(result, name, None)


async def recorded(
    call: HandlerCall, call_next: CallNext, report: Callable[[CallRecord], object]
) -> HandlerResult:
    """Pass a call on, and report it when it has ended, with a result or an error; return or raise that."""
    if is_own(call):
        return await call_next(call)
    started = time.perf_counter()
    error: BaseException | None = None
    result: HandlerResult = None
    try:
        result = await call_next(call)
    except BaseException as raised:
        error = raised
        raise
    finally:
        report(CallRecord(call, time.perf_counter() - started, _outcome(error, result), error, result))
    return result


def _outcome(error: BaseException | None, result: HandlerResult) -> str:
    if error is None:
        return "tool_error" if is_failed(result) else "input_required" if asks(result) else "ok"
    if input_requests_of(error) is not None:
        return "input_required"
    if isinstance(error, ToolError):
        return "tool_error"
    if isinstance(error, RpcError):
        return "refused"
    return "error" if isinstance(error, Exception) else "cancelled"
