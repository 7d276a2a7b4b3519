"""Tools made of other tools: other names and descriptions, arguments renamed, fixed or hidden, and a function around it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from pydantic_core import MISSING

from mcprev.app.app import App
from mcprev.app.arguments import ArgumentError
from mcprev.app.dependencies import read_hints
from mcprev.app.entries import RegisteredTool
from mcprev.app.options import EntryOptions
from mcprev.app.registry import Registry
from mcprev.app.results import ToolReturns
from mcprev.app.signatures import Function
from mcprev.callbacks import finished, title_of
from mcprev.core.tool_schemas import refusal
from mcprev.error_text import did_you_mean
from mcprev.errors import Json, LocalProtocolError
from mcprev.json_schema.bounds import LIST, OBJECT, ValidationIssue
from mcprev.json_schema.validation import describe
from mcprev.protocol.tool_names import TOOL_NAME
from mcprev.revisions import LATEST
from mcprev.server.context import Context
from mcprev.server.middleware import HandlerResult, wrap as wrapped
from mcprev.transforms.requests import result_of
from mcprev.wire.payloads import is_secret
from mcprev_types.latest import models

if TYPE_CHECKING:
    from typing_extensions import Unpack

_ABSENT: Final[Any] = MISSING
_LISTED: Final = ("title", "description", "icons", "annotations", "meta")
_UNKNOWN: Final = "is not known here"


class ToolChanges(EntryOptions, total=False):
    """The options of `transform_tool` that replace those of the original tool. Default: the original's."""

    annotations: models.ToolAnnotations | Mapping[str, Json]
    """Hints about the tool's behaviour."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """How an argument of the original tool becomes one of the changed tool. An argument with a `value` or `factory` is hidden."""

    name: str | None = None
    """Another name. None: the same."""
    title: str | None = None
    description: str | None = None
    """Another description. None: the same."""
    default: Json = _ABSENT
    """The value if the client leaves the argument out, which it then may."""
    value: Json = _ABSENT
    """The value of every call; clients do not see the argument."""
    factory: Callable[[Context], Json | Awaitable[Json]] | None = None
    """Makes the value of each call; clients do not see the argument. It may be async and must not block."""
    hide: bool = False
    """Whether clients do not see the argument: the original uses its own default."""

    @property
    def hidden(self) -> bool:
        """Whether the argument is hidden from clients."""
        return self.hide or self.value is not MISSING or self.factory is not None


class _InputRequired(BaseException):
    """The original answered that it needs input, which the function around it passes over."""

    def __init__(self, result: models.InputRequiredResult) -> None:
        super().__init__("input required")
        self.result = result


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call of a changed tool, for the function around it; `await call()` calls the original."""

    ctx: Context
    """The context of the request."""
    arguments: dict[str, Json]
    """The arguments under the names of the original, with those that clients do not see; they are validated."""
    _tool: RegisteredTool

    async def __call__(self, arguments: Mapping[str, Json] | None = None) -> models.CallToolResult:
        """Call the original, with other arguments if given, and return its result. Raises the errors of the original.

        Structured content is the data itself at every revision. Raises `LocalProtocolError` for arguments that the
        original does not allow.
        """
        try:
            found = await _original(self._tool, self.ctx, self.arguments if arguments is None else arguments)
        except ArgumentError as error:
            text = describe(error.complaints, "arguments")
            raise LocalProtocolError(
                f"the tool '{self._tool.listed.name}' is called with invalid arguments: {text}"
            ) from None
        if isinstance(found, models.InputRequiredResult):
            raise _InputRequired(found)
        return found


Wrapper: TypeAlias = Callable[[ToolCall], Awaitable[object]]


def transform_tool(
    app: App,
    tool: str,
    *,
    arguments: Mapping[str, Argument] | None = None,
    wrap: Wrapper | None = None,
    keep: bool = False,
    **changes: Unpack[ToolChanges],
) -> None:
    """Replace a tool of an app by a changed one.

    - `tool` is the name of the original, also of one that the app has from a mounted app. It has to be registered.
    - `arguments` are changes of its arguments, by name; all others stay as they are.
    - `wrap` is an async function that gets a `ToolCall` and returns the result; `await call()` in it calls the original.
      Its return annotation makes the output schema as that of a tool does; without one, the tool keeps the output
      schema of the original.
    - `keep` keeps the original beside the changed tool, which then needs a `name`.
    - `name`, `title`, `description`, `icons`, `annotations`, `meta` and `tags` replace those of the original. `visible` is
      a further check: only clients that see the original see the tool. A call needs the scopes of both names.

    Arguments are validated as for the original, and its middleware (of the app that is mounted), dependencies, progress,
    tasks and errors stay. If the original is disabled or removed, the tool is, too. Raises `ValueError` for a tool, argument
    or value that is wrong, and `TypeError` for an unknown option.
    """
    for option in changes.keys() - ToolChanges.__annotations__.keys():
        raise TypeError(f"no option '{option}'; the options are {', '.join(ToolChanges.__annotations__)}")
    name = changes.get("name", tool)
    if name != tool and TOOL_NAME.fullmatch(name) is None:
        raise ValueError(
            f"'{name}' is not a valid tool name; use 1 to 128 characters of A-Z, a-z, 0-9, _, - and ."
        )
    made = _Change(app.registry, name, dict(arguments or {}), wrap, changes)
    app.registry.derive(tool, name, made, keep=keep)


async def _original(
    tool: RegisteredTool, ctx: Context, arguments: Mapping[str, Json]
) -> models.CallToolResult | models.InputRequiredResult:
    """Call a tool inside its middleware. Raises `ArgumentError` and the errors of the tool."""

    async def serve(ctx: Context, params: Any) -> HandlerResult:  # noqa: ANN401 - of its method
        value = await tool.function(ctx, tool.function.read(params.arguments or {}))
        return tool.returns.result(value, LATEST)

    given = {"name": tool.listed.name, "arguments": dict(arguments), "_meta": {**ctx.stamp}}
    params = models.CallToolRequestParams.from_wire(given)
    return result_of(await wrapped(tool.around, "tools/call", serve)(ctx, params), models.CallToolResult)


@dataclass(frozen=True, slots=True, eq=False)
class _Change:
    """Makes the changed tool of an original."""

    registry: Registry
    name: str
    arguments: Mapping[str, Argument]
    wrapper: Wrapper | None
    changes: Mapping[str, Any]

    def __call__(self, tool: RegisteredTool) -> RegisteredTool:
        schema = self._schema(tool)
        call = _Call(self.name, tool, self.arguments, self.wrapper)
        returns, output = tool.returns, tool.listed.output_schema
        shape = None if self.wrapper is None else _returned(self.wrapper)
        if shape is not None:
            returns = ToolReturns(self.name, shape)
            output = None if returns.schema is None else models.ToolOutputSchema.from_wire(returns.schema)
        said = {member: self.changes[member] for member in _LISTED if member in self.changes}
        said |= {"name": self.name, "output_schema": output}
        tags, checks = frozenset[str](self.changes.get("tags", tool.tags)), tool.checks
        if tags != tool.tags or "visible" in self.changes:
            checks += self.registry.checks(tags, self.changes.get("visible"))
        given = models.ToolInputSchema.from_wire(schema)
        return replace(
            tool,
            listed=tool.listed.model_copy(update={**said, "input_schema": given}),
            function=_Changed(call, schema),
            returns=returns,
            tags=tags,
            checks=checks,
            around=(),
            originals=(*tool.originals, tool.listed.name),
            task=tool.task or self.registry.tasks.get(tool.listed.name.partition("@")[0]),
        )

    def _schema(self, tool: RegisteredTool) -> dict[str, Json]:
        """Return the input schema of the changed tool. Raises `ValueError`."""
        schema: dict[str, Json] = tool.listed.input_schema.to_wire()
        properties, required = schema.get("properties", {}), set(schema.get("required", ()))
        for name in self.arguments.keys() - properties.keys():
            hint = did_you_mean(name, properties)
            raise ValueError(f"the tool '{tool.listed.name}' has no argument '{name}'{hint}")
        found: dict[str, Json] = {}
        needed: list[str] = []
        for original, given in properties.items():
            change = self.arguments.get(original, Argument())
            self._check(tool, original, change, needed=original in required)
            if change.hidden:
                continue
            name = change.name or original
            if name in found:
                raise ValueError(f"two arguments of '{self.name}' have the name '{name}'; rename one of them")
            said = {"title": change.title, "description": change.description}
            found[name] = {
                **(given if isinstance(given, OBJECT) else {}),
                **{member: text for member, text in said.items() if text is not None},
                **({} if change.default is MISSING else {"default": change.default}),
                **({"writeOnly": True} if is_secret(original) and not is_secret(name) else {}),
            }
            if original in required and change.default is MISSING:
                needed.append(name)
        kept = {key: item for key, item in schema.items() if key not in {"properties", "required", "$defs"}}
        if found:
            kept["properties"] = found
        if needed:
            kept["required"] = needed
        defs = schema.get("$defs", {})
        used = _used(found, defs)
        return {**kept, "$defs": {name: defs[name] for name in defs if name in used}} if used else kept

    def _check(self, tool: RegisteredTool, name: str, change: Argument, *, needed: bool) -> None:
        told = [change.value is not MISSING, change.factory is not None, change.default is not MISSING]
        if sum(told) > 1 or (change.hide and change.default is not MISSING):
            raise ValueError(
                f"the argument '{name}' has several of value, factory, default and hide; pass one of them"
            )
        if change.hidden and needed and not any(told):
            raise ValueError(
                f"the argument '{name}' is required, so it cannot be hidden without value= or factory="
            )
        value = change.default if change.value is MISSING else change.value
        if value is not MISSING:
            try:
                tool.function.read({name: value})
            except ArgumentError as error:  # other arguments are missing
                wrong = [each for each in error.complaints if each[0][:1] == (name,)]
                if wrong:
                    raise ValueError(
                        f"the value of '{name}' is wrong: {describe(wrong, 'arguments')}"
                    ) from None


class _Call:
    """Calls the original with the arguments of a changed tool."""

    def __init__(
        self, name: str, tool: RegisteredTool, arguments: Mapping[str, Argument], wrapper: Wrapper | None
    ) -> None:
        self._tool, self._arguments, self._wrapper = tool, arguments, wrapper
        self._names = {change.name: original for original, change in arguments.items() if change.name}
        """The original names of the renamed arguments."""
        self.__name__: str = name

    async def __call__(self, ctx: Context, arguments: dict[str, Any]) -> object:
        given: dict[str, Json] = {self._names.get(name, name): value for name, value in arguments.items()}
        for name, change in self._arguments.items():
            if change.factory is not None:
                given[name] = await finished(change.factory(ctx))
            elif change.value is not MISSING:
                given[name] = change.value
            elif change.default is not MISSING:
                given.setdefault(name, change.default)
        try:
            if self._wrapper is None:
                return await _original(self._tool, ctx, given)
            self._tool.function.read(given)
        except ArgumentError as error:
            found = refusal(self.__name__, list(self._told(error)), ctx.request.revision)
            return models.CallToolResult.from_wire(found)
        try:
            return await finished(self._wrapper(ToolCall(ctx, given, self._tool)))
        except _InputRequired as pending:
            return pending.result

    def _told(self, error: ArgumentError) -> Iterator[ValidationIssue]:
        """Yield what is wrong, in the names of the changed tool. Raises `LocalProtocolError` for what no client sent."""
        told = {original: name for name, original in self._names.items()}
        for path, text in error.complaints:
            name = path[0] if path else None
            if isinstance(name, str) and self._arguments.get(name, Argument()).hidden:
                raise LocalProtocolError(f"the hidden argument '{name}' of the tool '{self.__name__}' {text}")
            yield ((told.get(name, name), *path[1:]) if isinstance(name, str) else path), text


class _Changed(Function):
    """The function of a changed tool: it refuses arguments that clients do not see."""

    def __init__(self, call: _Call, schema: Mapping[str, Json]) -> None:
        super().__init__(call)
        self._known, self._needed = frozenset(schema.get("properties", ())), schema.get("required", ())

    def read(self, given: Mapping[str, Json]) -> dict[str, Any]:
        """Check the names of JSON arguments. Raises `ArgumentError`; the original checks the values."""
        wrong: list[ValidationIssue] = [((name,), _UNKNOWN) for name in given if name not in self._known]
        wrong += [((name,), "is missing") for name in self._needed if name not in given]
        if wrong:
            raise ArgumentError(wrong)
        return super().read({"arguments": {**given}})


def _returned(wrapper: Wrapper) -> Function | None:
    """Return a function with the return annotation of a wrapper; None if it has none. Raises `TypeError`."""

    def refuse(why: str) -> Any:  # noqa: ANN401 - it raises
        raise TypeError(f"{title_of(wrapper)}(): {why}")

    inner = wrapper if hasattr(wrapper, "__annotations__") else cast("Wrapper", type(wrapper).__call__)
    hints = read_hints(inner, refuse)
    if "return" not in hints or hints["return"] is models.CallToolResult:
        return None

    def shape() -> None: ...

    shape.__annotations__ = {"return": hints["return"]}
    shape.__qualname__ = title_of(wrapper)
    return Function(shape)


def _used(schema: Json, defs: Mapping[str, Json]) -> set[str]:
    """Return the names of the definitions that a schema refers to."""
    found, pending = set[str](), [schema]
    while pending:
        node = pending.pop()
        if isinstance(node, LIST):
            pending += node
        elif isinstance(node, OBJECT):
            pending += node.values()
            name = str(node.get("$ref", "")).removeprefix("#/$defs/")
            if name in defs and name not in found:
                found.add(name)
                pending.append(defs[name])
    return found
