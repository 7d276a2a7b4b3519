"""Tools called by code that a model has written: clients list two tools, one that finds the others and one that runs the code.

Only the value that the code returns, and what it prints, reaches the model: results of tools stay in the code.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Protocol

from pydantic import Field
from pydantic_core import MISSING, to_json

from mcprev.app.app import App
from mcprev.app.entries import RegisteredTool
from mcprev.app.registry import Registry
from mcprev.core.interfaces import client_of
from mcprev.core.options import check_option
from mcprev.core.shares import Shares, share_of
from mcprev.core.tool_schemas import WRAPPER
from mcprev.errors import Json, RpcError, ToolError, one_line
from mcprev.json_schema.bounds import LIST, OBJECT
from mcprev.protocol.mrtr import input_requests_of
from mcprev.protocol.tasks import Support
from mcprev.server.context import Context
from mcprev.transforms.requests import ask, inner_context, served
from mcprev.transforms.sandbox import MAX_DIGITS, MAX_NESTING, CallTool, MontySandbox
from mcprev.transforms.search import (
    LIMIT,
    MAX_QUERY,
    callable_tool,
    find_tools,
    found_result,
    is_finder,
    list_only,
    searched,
)
from mcprev.transports.http.server.access import AccessRefused
from mcprev_types.latest import models

_logger: Final = logging.getLogger("mcprev.transforms")
_DIGITS_OF_A_BIT: Final = math.log10(2)
_SHOWN: Final = ("name", "description", "inputSchema", "outputSchema", "annotations")


class Sandbox(Protocol):
    """Runs Python code that a model has written where it can harm nothing: `MontySandbox`, or one of yours, such as a container."""

    async def run(self, code: str, call_tool: CallTool, write: Callable[[str], None]) -> object:
        """Run code and return its value. Called on the event loop; must not block it, and must end the code when it is cancelled.

        - `call_tool` is for the function `await call_tool(name, arguments)` of the code; an error that it raises is an
          exception in the code, which can catch it.
        - `write` takes what the code prints, in parts.

        Raise `ToolError` for code that fails or exceeds a limit of the sandbox: its text is sent to the model, which can
        write better code. The value may be anything: what is not JSON is refused afterwards.
        """
        ...


@dataclass(frozen=True, slots=True)
class _Limits:
    """The options of `tools_by_code` that are limits."""

    timeout: float
    max_code: int
    max_calls: int
    max_concurrent: int
    max_bytes: int
    max_result: int
    max_printed: int
    max_running: int
    max_running_each: int

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if not getattr(self, name) > 0:  # as NaN is not
                raise ValueError(f"`{name}` is {getattr(self, name)}; use a number above 0")


def tools_by_code(
    app: App,
    *,
    sandbox: Sandbox | None = None,
    limit: int = 5,
    always: Collection[str] = (),
    search_name: str = "search_tools",
    run_name: str = "run_code",
    timeout: float = 60.0,
    max_code: int = 32_768,
    max_calls: int = 100,
    max_concurrent: int = 10,
    max_bytes: int = 1_048_576,
    max_result: int = 65_536,
    max_printed: int = 8_192,
    max_running: int = 16,
    max_running_each: int | None = None,
) -> App:
    """List only the tools `search_tools` and `run_code`, which runs Python code that calls all the others; return the app.

    The code calls a tool with `await call_tool(name, arguments)`, and gets its data if it has an output schema, its text,
    or its content as a list. A tool that fails raises `RuntimeError` in the code. Of the results, the model gets what the
    code returns and prints. A tool that asks the user waits for the answer at revisions with sessions, and raises at
    others; one that runs as a task only raises.

    - `sandbox` runs the code. Default: `MontySandbox()`, which needs `mcprev[sandbox]`.
    - `limit` is the number of tools that a search returns if the model does not say, and from 1 to 50.
    - `always` are the names of registered tools that are listed as well.
    - `search_name` and `run_name` are the names of the two tools.
    - `timeout` is the maximum duration of a run in seconds, with the calls of tools.
    - `max_code` is the maximum size of the code in bytes.
    - `max_calls` is the maximum number of calls of tools in a run.
    - `max_concurrent` is the number of tools that a run calls at once; further calls wait, if the arguments of all of them
      have at most `max_concurrent` times `max_bytes`.
    - `max_bytes` is the maximum size of the arguments of a call, and of its result, in bytes.
    - `max_result` is the maximum size of the value that the code returns, in bytes.
    - `max_printed` is the maximum number of characters of what the code prints; the rest is dropped.
    - `max_running` is the maximum number of runs at once, of all clients; a further one is refused.
    - `max_running_each` is that of one principal, or of one network address without authentication. Default: a quarter
      of `max_running`.

    The code calls what the client of the request finds, and no more: visibility, scopes and middleware of the app hold
    for each call. Tools that find or call others are not among it. A value has the size of its texts and numbers in JSON,
    and 16 bytes for each of its values, 64 for a list or dict. `MontySandbox` lets out at most 2 MiB at once. Raises `TypeError` for a sandbox that is none, `ValueError` for an unknown
    name in `always`, a number outside its range, a name that exists already and a second search, and `mcprev.errors.MissingExtra` if the
    library of the default sandbox is not installed.
    """
    limits = _Limits(
        timeout,
        max_code,
        max_calls,
        max_concurrent,
        max_bytes,
        max_result,
        max_printed,
        max_running,
        share_of(max_running) if max_running_each is None else max_running_each,
    )
    check_option("sandbox", sandbox, "run", "MontySandbox(), or a sandbox of yours")
    box: Sandbox = MontySandbox() if sandbox is None else sandbox
    registry = searched(app, limit, always)
    runs = Shares(max_running, limits.max_running_each)

    async def search_tools(
        query: Annotated[str, Field(description="Words about the task.", max_length=MAX_QUERY)],
        ctx: Context,
        limit: Annotated[int, Field(description=LIMIT, ge=1, le=50)] = limit,
    ) -> list[dict[str, Any]] | models.CallToolResult:
        found, matching = await find_tools(registry, ctx, query, limit, _SHOWN)
        for each in found:
            tool = await callable_tool(registry, ctx, each["name"])
            if tool is not None and "outputSchema" in each and _wraps(tool, ctx):
                each["outputSchema"] = tool.returns.schema
        return found_result(found, matching, ctx)

    async def run_code(
        code: Annotated[str, Field(description="Python code; its value is that of its last expression.")],
        ctx: Context,
    ) -> models.CallToolResult:
        if len(code.encode(errors="replace")) > limits.max_code:
            raise ToolError(f"the code has more than {limits.max_code:,} bytes; write a shorter one")
        client = client_of(ctx.request)
        if not runs.take(client):
            of = " of this client" if runs.exceeds_share(client) else ""
            raise ToolError(f"too much code{of} runs at present; try again later")
        try:
            return await _Run(registry, ctx, limits, run_name).result(box, code)
        finally:
            runs.give(client)

    app.tool(
        search_tools,
        name=search_name,
        description=f"Find tools by words about what they do. Call what is found in the code of `{run_name}`.",
        annotations=models.ToolAnnotations(read_only_hint=True),
    )
    app.tool(
        run_code,
        name=run_name,
        description=(
            "Run Python code that calls tools, and get the value of its last expression, which has to be JSON, and what it "
            f"prints. `await call_tool(name, arguments)` calls a tool that `{search_name}` found, with a dict of arguments as its "
            "inputSchema says. It returns the data that the outputSchema describes; without one, the text. A tool that fails "
            "raises RuntimeError. `asyncio.gather` calls several at once. There are no files and no network; json, math, re, "
            "datetime and asyncio can be imported."
        ),
    )
    list_only(registry, {search_name, run_name}, always)
    return app


@dataclass(eq=False)
class _Run:
    """One run of code."""

    registry: Registry
    ctx: Context
    limits: _Limits
    name: str
    """The name of the tool that runs the code."""
    calls: int = 0
    ended: bool = False
    tasks: set[asyncio.Task[Json]] = field(default_factory=set[asyncio.Task[Json]])
    """The calls of tools that have not ended."""
    printed: str = ""
    held: int = 0
    """The size of the arguments of these calls."""
    refused: AccessRefused | None = None
    """Why the only call of the code so far needs scopes that the token lacks."""

    def __post_init__(self) -> None:
        self._free = asyncio.Semaphore(self.limits.max_concurrent)

    async def result(self, sandbox: Sandbox, code: str) -> models.CallToolResult:
        """Run the code and return its value and what it printed. Raises `ToolError`; calls of tools that have not ended are cancelled."""
        deadline = asyncio.timeout(self.limits.timeout)
        try:
            async with deadline:
                value = await sandbox.run(code, self.call_tool, self.write)
                plain = (await _copied("the value of the code", self.limits.max_result, value)).value
        except TimeoutError:
            if not deadline.expired():
                raise
            text = f"the code took longer than {self.limits.timeout:g} s"
            hint = "call fewer tools, or several at once" if self.calls else "do less, or sleep for less time"
            raise ToolError(self._with_printed(f"{text}; {hint}")) from None
        except ToolError as error:
            if (
                self.refused is not None and self.calls == 1
            ):  # nothing has been done, so the code may run again
                raise self.refused from None
            raise ToolError(self._with_printed(str(error))) from None
        finally:
            self.ended = True
            for task in self.tasks:
                task.cancel()
            await asyncio.gather(*self.tasks, return_exceptions=True)
        text = plain if isinstance(plain, str) else to_json(plain).decode()
        return models.CallToolResult(content=[models.TextContent(text=self._with_printed(text))])

    def write(self, text: str) -> None:
        """Keep what the code prints, up to the limit."""
        self.printed += text[: self.limits.max_printed - len(self.printed)].encode(errors="replace").decode()

    def _with_printed(self, text: str) -> str:
        return f"{text}\n\nprinted:\n{self.printed}" if self.printed else text

    async def call_tool(self, name: str, arguments: Mapping[str, Json]) -> Json:
        """Call a tool for the code and return its value. Raises `ToolError`."""
        self.calls += 1
        if self.calls > self.limits.max_calls or self.ended:
            raise ToolError(f"the code called tools more than {self.limits.max_calls:,} times")
        task = asyncio.create_task(self._call(name, arguments))
        self.tasks.add(task)
        try:
            return await task
        finally:
            self.tasks.discard(task)

    async def _call(self, name: str, arguments: Mapping[str, Json]) -> Json:
        """Call a tool. Raises `ToolError` for everything that can go wrong but cancellation."""
        try:
            return await self._result(name, arguments)
        except (ToolError, RpcError) as error:
            self.refused = error if isinstance(error, AccessRefused) else None
            raise ToolError(str(error)[: self.limits.max_bytes]) from None
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # SystemExit would end the event loop
            if input_requests_of(error) is not None:
                raise _asks(name) from None
            _logger.exception("the tool '%s' failed, which '%s' called", one_line(name), self.name)
            raise ToolError(f"the tool '{name:.100}' failed") from None

    async def _result(self, name: object, arguments: object) -> Json:
        if not isinstance(name, str) or not isinstance(arguments, OBJECT):
            raise ToolError("call_tool takes the name of a tool and a dict with its arguments")
        copy = await _copied("the arguments", self.limits.max_bytes, arguments)
        params = {"name": name, "arguments": copy.value}
        if self.held + copy.size > self.limits.max_concurrent * self.limits.max_bytes:
            raise ToolError(
                "the arguments of calls that have not ended are too large together; await some first"
            )
        self.held += copy.size
        try:
            return await self._answer(name, params)
        finally:
            self.held -= copy.size

    async def _answer(self, name: str, params: Mapping[str, Json]) -> Json:
        async with self._free:
            ctx = inner_context(self.registry, self.ctx)
            tool = await callable_tool(self.registry, ctx, name)
            if tool is None and await is_finder(self.registry, ctx, name):
                raise ToolError(
                    f"the tool '{name}' is for the model, not for code; call what a search has found"
                )
            if tool is None:
                raise ToolError(f"Unknown tool: {name:.100}; find one with a search")
            if served(self.registry, ctx).task_support(name) is Support.REQUIRED:
                raise ToolError(f"the tool '{name}' runs as a task only; call it without code")
            found = await ask(self.registry, ctx, "tools/call", params)
        if not isinstance(found, models.CallToolResult):
            raise _asks(name)
        if found.is_error is True:
            raise ToolError(_text(found) or f"the tool '{name}' failed")
        value = _value(found, unwrap=_wraps(tool, ctx))
        return (await _copied(f"the result of '{name}'", self.limits.max_bytes, value)).value


def _asks(name: str) -> ToolError:
    return ToolError(
        f"the tool '{name}' asks the user, for which code cannot wait at this revision; call it without code"
    )


def _wraps(tool: RegisteredTool, ctx: Context) -> bool:
    """Return whether the data of a tool is wrapped in an object, because the client's revision wants one."""
    schema = tool.returns.schema
    return ctx.request.revision.structured_objects and schema is not None and schema.get("type") != "object"


def _value(result: models.CallToolResult, *, unwrap: bool) -> Json:
    """Return what a result is in the code: its data, its text, None without content, or its content as JSON."""
    wire: dict[str, Json] = result.to_wire()
    if (data := wire.get("structuredContent", MISSING)) is not MISSING:
        return data[WRAPPER] if unwrap and isinstance(data, OBJECT) and data.keys() == {WRAPPER} else data
    if not wire["content"]:
        return None
    return _text(result) if all(block["type"] == "text" for block in wire["content"]) else wire["content"]


def _text(result: models.CallToolResult) -> str:
    return "\n".join(block.text for block in result.content if isinstance(block, models.TextContent))


@dataclass(frozen=True, slots=True)
class _Copied:
    value: Json
    size: int


async def _copied(what: str, most: int, value: object) -> _Copied:
    """Copy a value that comes from code or goes into it. Raises `ToolError` for what is no JSON, too large or too deep.

    In a thread, since 65,536 values take a tenth of a second.
    """
    copy = _Copy(what, most)
    made = (
        await asyncio.to_thread(copy.of, value)
        if isinstance(value, LIST | tuple | OBJECT)
        else copy.of(value)
    )
    return _Copied(made, most - copy.left)


class _Copy:
    """Copies a value and checks that it is JSON within a size.

    The size is that of the texts and numbers in JSON, without quotes, and 16 for each value, 64 for a list or dict. Each
    occurrence of a shared object counts, so that a small value whose JSON is endless has an end.
    """

    def __init__(self, what: str, most: int) -> None:
        self._what, self._most, self.left = what, most, most

    def of(self, value: Any, depth: int = 0) -> Json:  # noqa: ANN401 - whatever code makes
        """Return a copy. Raises `ToolError` for what is no JSON, too large or too deep."""
        if isinstance(value, str):
            return self._text(value)
        if value is None or isinstance(value, int) or (isinstance(value, float) and math.isfinite(value)):
            self._take(16 + self._digits(value))
            return value
        self._take(64)
        if depth == MAX_NESTING:
            raise ToolError(f"{self._what} nests deeper than {MAX_NESTING}")
        return self._container(value, depth + 1)

    def _text(self, text: str) -> str:
        self._take(16 + len(text))
        text = text.encode(errors="replace").decode()
        self._take(len(to_json(text)) - 2 - len(text))
        return text

    def _digits(self, value: float | None) -> int:
        """Return the length of a number in JSON, without making it of an integer, which takes the square of its digits."""
        if value is None or isinstance(value, float):
            return 0 if value is None else len(repr(value))
        digits = 1 + int(value.bit_length() * _DIGITS_OF_A_BIT)
        if digits > MAX_DIGITS:
            raise ToolError(f"{self._what} has an integer of more than {MAX_DIGITS:,} digits")
        return digits

    def _container(self, value: Any, depth: int) -> Json:  # noqa: ANN401 - whatever code makes
        if isinstance(value, LIST | tuple):
            return [self.of(item, depth) for item in value]
        if not isinstance(value, OBJECT):
            named = repr(value) if isinstance(value, float) else type(value).__name__
            raise ToolError(
                f"{self._what} has {named:.100}, which is not JSON; convert it to a str, list or dict"
            )
        if not all(isinstance(key, str) for key in value):
            raise ToolError(f"{self._what} has a dict with keys that are no strings; convert them")
        return {self.of(key): self.of(item, depth) for key, item in value.items()}

    def _take(self, size: int) -> None:
        self.left -= size
        if self.left < 0:
            raise ToolError(f"{self._what} has more than {self._most:,} bytes; use less of it")
