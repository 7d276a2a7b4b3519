"""Middleware about what a call ends with: the size of results, and errors that are told in other words."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Final, TypeAlias, cast

from mcprev.callbacks import finished
from mcprev.errors import InternalError, Json, McpError, RpcError, ToolError
from mcprev.middleware.records import wire_of
from mcprev.protocol.mrtr import input_requests_of
from mcprev.server.middleware import CallNext, HandlerCall, HandlerResult
from mcprev.wire.text import json_size

LIMITED: Final = ("tools/call", "resources/read", "prompts/get")
_CALL: Final = "tools/call"


class SizeLimit:
    """Limits the size of results: `App(..., middleware=[SizeLimit(100_000, truncate=True)])`."""

    def __init__(self, max_bytes: int, *, truncate: bool = False, methods: Collection[str] = LIMITED) -> None:
        """Set the maximum size of a result as JSON in bytes.

        A larger one is an error: a `ToolError` for a tool, which its model reads, and `InternalError` for any other
        method. `truncate` shortens the text blocks of a tool's result instead, the last one first, and says so in the
        text, also of a `ToolError`; a result with other content or structured content that is too large is an error still. Raises `ValueError` for
        a limit below 256 bytes.
        """
        if max_bytes < 256:
            raise ValueError("a SizeLimit must be at least 256 bytes")
        self._most, self._truncate, self._methods = max_bytes, truncate, frozenset(methods)

    def for_method(self, method: str) -> SizeLimit | None:
        """Return this middleware for a method whose results are bounded."""
        return self if method in self._methods else None

    async def __call__(self, call: HandlerCall, call_next: CallNext) -> HandlerResult:
        """Pass a call on. Raises `ToolError` or `InternalError` for a result that is too large."""
        failed: dict[str, Json] = {}
        result: HandlerResult = None
        try:
            result = await call_next(call)
            wire = wire_of(result)
        except ToolError as error:  # its text is the result that the model reads
            wire = failed = {"content": [{"type": "text", "text": str(error)}], "isError": True}
            if json_size(wire) <= self._most:
                raise
        size = json_size(wire)
        if size <= self._most:
            return result
        if self._truncate and call.method == _CALL and self._shorten(cast("dict[str, Json]", wire), size):
            if failed:
                raise ToolError(failed["content"][0]["text"])
            if result is None or isinstance(result, Mapping):
                return cast("HandlerResult", wire)
            return type(result).from_wire(wire)
        text = f"the result has {size} bytes, more than the {self._most} that are allowed; ask for less"
        raise ToolError(text) if call.method == _CALL else InternalError(text)

    def _shorten(self, wire: dict[str, Json], size: int) -> bool:
        """Shorten the text blocks of a result in place; return whether it is small enough then."""
        if "structuredContent" in wire:
            return False
        note = f"\n[shortened: the result had {size} bytes, of which {self._most} are allowed]"
        over, added = size - self._most, _written(note)
        blocks: list[dict[str, Json]] = wire.get("content", [])
        for block in reversed(blocks):
            if block.get("type") != "text":
                continue
            text = str(block["text"])
            if (has := _written(text)) < over + added:
                block["text"] = ""
                over -= has
                continue
            low, high = 0, len(text)
            while low < high:  # the longest beginning whose removal of the rest is enough
                middle = (low + high + 1) // 2
                low, high = (middle, high) if _written(text[middle:]) >= over + added else (low, middle - 1)
            block["text"] = text[:low] + note
            return True
        return False


def _written(text: str) -> int:
    """Return how many bytes a text has in JSON, without its quotes."""
    return json_size(text) - 2


Told: TypeAlias = str | type[McpError] | Callable[[Exception], Exception | Awaitable[Exception]]
"""What a mapped error becomes: a text, a type that gets the text of the error, or what a function returns."""


class ErrorMapping:
    """Converts exceptions of handlers into errors for clients: `ErrorMapping({KeyError: "there is no such item"})`."""

    def __init__(self, table: Mapping[type[Exception], Told]) -> None:
        """Set what each type of exception becomes; the nearest base class of an exception decides.

        - A string is the text of a `ToolError` for a tool, and of an `InternalError` for any other method.
        - A type of error, such as `mcprev.ResourceNotFound`, is raised with the text of the exception: clients read it.
        - A function gets the exception and returns the one to raise instead; it may be async.

        Errors that are `ToolError` or `RpcError` already, and cancellations, stay as they are.
        """
        self._table = dict(table)

    async def __call__(self, call: HandlerCall, call_next: CallNext) -> HandlerResult:
        """Pass a call on. Raises what the table says."""
        try:
            return await call_next(call)
        except Exception as error:
            if isinstance(error, RpcError | ToolError) or input_requests_of(error) is not None:
                raise
            told = next((self._table[base] for base in type(error).__mro__ if base in self._table), None)
            if told is None:
                raise
            if isinstance(told, str):
                raise (ToolError if call.method == _CALL else InternalError)(told) from error
            if isinstance(told, type):
                raise told(str(error)) from error
            raise await finished(told(error)) from error
