"""One method between wire and handler: validate, convert up, call, convert down, validate (SEAM-1, 4, 5, 9; ERR-1..3).

A handler is written for the latest revision, or for exactly the peer's revision if the author registers one. The
conversions of a method are prepared once for each revision and kept as a `MethodBinding`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from inspect import iscoroutinefunction
from typing import Any, cast

from pydantic_core import ValidationError

from mcprev.callbacks import finished, is_cancelled
from mcprev.conversion import ConversionContext, Converter, PayloadKind, convert, converter
from mcprev.conversion.rules import NotRepresentable
from mcprev.core.capabilities import Capabilities, bindings
from mcprev.core.union_errors import alternatives, meant, of_meant_types
from mcprev.error_text import internal_error
from mcprev.errors import (
    ConversionError,
    InvalidParams,
    Json,
    LocalProtocolError,
    MethodNotFound,
    RemoteProtocolError,
    ResourceNotFound,
    RpcError,
    StoreError,
    one_line,
)
from mcprev.protocol.connection_state import IncomingRequest
from mcprev.protocol.meta import advise
from mcprev.protocol.result_rules import CALL, RULES, outgoing
from mcprev.protocol.stateless import COMPLETE
from mcprev.revisions import REPEATABLE, Revision
from mcprev.wire.json_values import is_json_mapping
from mcprev_types import MethodNotHandled, details_of, locate, with_json_paths

Stub = Callable[[Any, Any], Awaitable[Any]]
Wrap = Callable[[str, Stub], Stub]
"""Puts something around a handler's method, which it gets by name."""
Read = Callable[[Any], Any]


class MethodBinding:
    """The handler method and the conversions of one method at one revision.

    The conversion steps are called directly from here: one more call per message is measurable in the throughput.
    """

    __slots__ = (
        "_judge",
        "_read",
        "down",
        "may_ask",
        "method",
        "plain",
        "revision",
        "rule",
        "stub",
        "up",
    )

    def __init__(
        self, method: str, revision: Revision, written: Revision, stub: Stub, params: str | None
    ) -> None:
        spec = written.methods[method]
        self.method: str = method
        self.revision: Revision = revision
        self.stub: Stub = stub if iscoroutinefunction(stub) else _awaited(stub)
        self.may_ask: bool = spec.input_responses
        """Whether the handler may return `InputRequiredResult`."""  # MRTR-1
        self.rule: Callable[[dict[str, Json]], dict[str, Json]] | None = RULES.get(method)
        """The rule that results of the method keep beyond their types."""
        self.up: Converter = converter(method, PayloadKind.PARAMS, from_=revision, to=written)
        self._read = reader(written, params)
        self.down: Converter | None = None
        self._judge: Read = _as_is
        if spec.result is not None:
            self.down = converter(method, PayloadKind.RESULT, from_=written, to=revision)
            self._judge = reader(revision, revision.methods[method].result)
        self.plain: frozenset[str] | None = None
        """The members that the conversion keeps of a tool result with only text; None if such a result is converted
        normally.
        """
        if method == CALL:
            self.plain = self._try_text()

    def params(self, given: dict[str, Json] | None, context: ConversionContext | None) -> object:
        """Return the params for the handler; `context` is that of a session, whose `_meta` they get.

        Raises `InvalidParams`, whose message does not quote the input.
        """
        try:
            if given is None:
                given = self.up(given, context, validate=False)
                return None if given is None else self._read(given)
            stamped = self.up.only_stamped
            if context is not None and stamped is not None and stamped.isdisjoint(given):
                given = {**given, "_meta": context.stamp}
            else:
                for step in self.up.steps:
                    given = step(given, context or self.up.context)
            return self._read(given)
        except ValidationError as error:
            raise InvalidParams(f"Invalid params: {first(error, given)}") from None
        except (ConversionError, NotRepresentable) as error:
            raise InvalidParams(f"Invalid params: {error}") from None

    def result(self, wire: dict[str, Json], context: ConversionContext | None = None) -> dict[str, Json]:
        """Return the result at the peer's revision. Raises `ConversionError` for an invalid result."""  # SEAM-4
        down = self.down
        assert down is not None
        if self.plain is not None and only_text(wire):
            # Conversion keeps the same members of every text-only result.
            kept = self.plain
            if not kept.issuperset(wire):
                wire = wire.copy()
                for name in wire.keys() - kept:
                    del wire[name]
            return wire
        if self.rule is not None:
            wire = self.rule(wire)
        if "_meta" in wire:
            advise(wire["_meta"] or {})
        try:
            out = wire
            for step in down.steps:
                out = step(out, context or down.context)
            self._judge(out)
        except (NotRepresentable, ValidationError):
            # Another type of the result may match; if none does, the converter raises with the path and the reason.
            out = down(wire, context)
        return out

    def _try_text(self) -> frozenset[str] | None:
        """Convert a sample text-only result and return the members that are kept, or None if their values change."""
        given: dict[str, Json] = {  # makes CallToolResult
            "resultType": COMPLETE,
            "content": [{"type": "text", "text": ""}],
        }
        found = self.result(dict(given))
        return frozenset(found) if all(given.get(name) == value for name, value in found.items()) else None


def _awaited(stub: Callable[[Any, Any], object]) -> Stub:
    """Return a stub that a handler defines without `async` as one that can be awaited."""

    async def awaited(context: object, params: object) -> object:
        return await finished(stub(context, params))

    return awaited


async def call_stub(stub: Stub, context: object, params: object) -> dict[str, Json]:
    """Call a handler's method and return its result, which is a model or a mapping of JSON values, as JSON."""
    result = await stub(context, params)
    write: Callable[[], dict[str, Json]] | None = getattr(result, "to_wire", None)
    if write is not None:  # of a model, whose package may have a base of its own
        return write()
    if is_json_mapping(result):
        return dict(result)
    given = type(result).__name__
    raise TypeError(
        f"a handler returned {given}: return the result as a model, such as `CreateMessageResult`, or a dict"
    )


def only_text(result: dict[str, Json]) -> bool:
    """Return whether a tool result is complete and has only ASCII text blocks.

    Most results are, and every revision represents them alike, except for `resultType`.
    """
    content: Json = result.get("content")
    if content.__class__ is not list or len(result) > 2:
        return False
    for block in content:
        if block.__class__ is not dict or len(block) != 2 or block.get("type") != "text":
            return False
        text = block.get("text")
        if text.__class__ is not str or not text.isascii():
            return False
    return len(result) == 1 or result.get("resultType") == "complete"


def reader(revision: Revision, name: str | None) -> Read:
    """Return the function that validates a JSON value as a named type; without a name it returns the value unchanged."""
    if name is None:
        return _as_is
    found: Any = getattr(revision.models, name)
    if isinstance(found, type) and hasattr(found, "model_rebuild"):
        cast("Any", found).model_rebuild()
        return cast("Read", cast("Any", found).__pydantic_validator__.validate_python)
    from pydantic import TypeAdapter  # imported late: it loads all that models need

    adapter: TypeAdapter[Any] = TypeAdapter(cast("Any", found))
    return adapter.validate_python


def read_result(read: Callable[[Any], Any], result: dict[str, Json]) -> object:
    """Return a result as its model. Raises `RemoteProtocolError`."""
    try:
        return read(result)
    except ValidationError as error:
        found = with_json_paths(of_meant_types(error, result), result)
        raise RemoteProtocolError(f"the result is not valid: {found}", raw=result) from None


def _as_is(value: Json) -> Json:
    return value


def first(error: ValidationError, value: object) -> str:
    """Return the first error of a JSON value that was refused as JSON path and message, without the value.

    Where the value may have one of several types, the message says what each of them wants.
    """
    errors = meant(details_of(error), value)
    told: dict[str, list[str]] = {}
    for one in alternatives(errors, value):
        steps, _ = locate(value, one["loc"], missing=one["type"] == "missing")
        texts = told.setdefault(".".join(map(str, steps)), [])
        text = one["msg"]
        texts.append(text.removeprefix("Input should be ") if texts else text)
    depth = min(place.count(".") for place in told)
    found = {place: " or ".join(dict.fromkeys(texts)) for place, texts in told.items()}
    shown = (
        f"{place}: {text}" if place else text for place, text in found.items() if place.count(".") == depth
    )
    return "; or ".join(shown)


class HandlerTable(dict[tuple[Revision, str], MethodBinding]):
    """The method bindings of one handler by revision and method, created on first use."""

    def __init__(self, identity: Capabilities, wrap: Wrap | None = None) -> None:
        """Set the handler; `wrap` puts something around each of its methods."""
        super().__init__()
        self._wrap = wrap
        self._identity = identity

    def __missing__(self, key: tuple[Revision, str]) -> MethodBinding:
        revision, method = key
        handler, written = self._identity.handler_at(revision)
        found: MethodBinding
        if method in self._identity.added:
            found = self._identity.added[method].bind(revision)
        else:
            if method not in written.methods:
                # A notification that later revisions removed: the handler receives it at the revision that sends it.
                written = revision
            binding = bindings(written, self._identity.base)[method]
            found = MethodBinding(method, revision, written, getattr(handler, binding.stub), binding.params)
        if self._wrap is not None:
            found.stub = self._wrap(method, found.stub)
        self[key] = found
        return found


def error_at(error: RpcError, method: str, revision: Revision, written: Revision) -> dict[str, Json]:
    """Return the error object for the peer, with the error code of its revision."""  # ERR-2, CONV-33, CONV-34
    wire = error.to_wire()
    if isinstance(error, ResourceNotFound):
        wire["code"] = written.resource_not_found
    if method in revision.methods and method in written.methods:
        wire = convert(wire, method, PayloadKind.ERROR, from_=written, to=revision, validate=False)
    if isinstance(error, ResourceNotFound):
        wire["code"] = revision.resource_not_found
    return wire


def as_exception(error: BaseException, method: str) -> Exception:
    """Return what a handler raised as an `Exception`, so that its request is answered and nothing else ends.

    Raises it unchanged if it ends the current task (its cancellation), a coroutine that is closed outside of a task, or
    the program (`KeyboardInterrupt`).
    """
    if isinstance(error, MethodNotHandled):
        return MethodNotFound(f"Method not found: {method}")
    if isinstance(error, Exception):
        return error
    if isinstance(error, KeyboardInterrupt) or (isinstance(error, GeneratorExit) and not _is_in_task()):
        raise error
    what = f"raised {type(error).__name__}"
    if isinstance(error, asyncio.CancelledError):
        if is_cancelled():
            raise error
        what = "waited for something that was cancelled"
    wrong = RuntimeError(f"the handler of '{method}' {what}")
    wrong.__cause__ = error
    return wrong


def _is_in_task() -> bool:
    """Return whether a task runs: what is closed after the end of its event loop does not."""
    try:
        return asyncio.current_task() is not None
    except RuntimeError:
        return False


def log_failure(error: BaseException, method: str, logger: logging.Logger) -> None:
    """Log what the handler of a notification raised, or what is wrong with a notification that it cannot get."""
    if isinstance(error, InvalidParams):
        logger.warning("the peer's '%s' is not valid and was ignored: %s", method, one_line(error))
    else:
        logger.error("the handler of '%s' raised", method, exc_info=as_exception(error, method))


def log_error(logger: logging.Logger, level: int, what: str, error: BaseException) -> None:
    """Log an error with its traceback; one of a store, which each request may meet, in one line.

    What the author of the server did wrong is on the first line, too.
    """
    if isinstance(error, StoreError):
        logger.log(level, "%s: %s", what, error)
    elif isinstance(error, LocalProtocolError):
        logger.log(level, "%s: %s", what, one_line(error), exc_info=error)
    else:
        logger.log(level, "%s", what, exc_info=error)


def answer_failure(
    error: Exception, incoming: IncomingRequest, written: Revision, logger: logging.Logger
) -> None:
    """Send the error response to a request whose handler raised. Only an `RpcError` is sent; others are logged."""  # ERR-1
    if isinstance(error, ResourceNotFound) and error.data is None and "uri" in (incoming.params or ()):
        # Clients recognise the error by its URI where the revision has no code of its own for it.
        error.data = {"uri": (incoming.params or {})["uri"]}
    if isinstance(error, RpcError):
        try:
            incoming.failure = error
            found = outgoing(error_at(error, incoming.method, incoming.revision, written), incoming.revision)
            incoming.fail(found)
        except (ConversionError, LocalProtocolError) as wrong:
            error = wrong
        else:
            return
    what = "the result is not valid" if isinstance(error, ConversionError) else "the handler raised"
    log_error(logger, logging.ERROR, f"'{incoming.method}' failed: {what}", error)
    incoming.unserved = isinstance(error, StoreError) and incoming.method in REPEATABLE
    incoming.fail(internal_error(error, may_have_run=not incoming.unserved))
