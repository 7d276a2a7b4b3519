"""Servers made of functions: decorators that register tools, resources and prompts.

An app only builds a handler: `App.server` is a normal `mcprev.Server`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, TypedDict, TypeVar, cast, overload

from mcprev.app.registry import Handler, Prompt, RegisteredTool, Registry, Resource, ResourceTemplate
from mcprev.app.results import ToolReturns
from mcprev.app.signatures import Function
from mcprev.app.uri_templates import Template
from mcprev.errors import Json, LocalProtocolError
from mcprev.json_schema.typed import Schema
from mcprev.protocol.subscriptions import Changed
from mcprev.server.server import HOST, PORT, Server
from mcprev_types.latest import models

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from typing_extensions import Unpack

    from mcprev.convert import OnDowngrade
    from mcprev.protocol.request_state import RequestStateSealer
    from mcprev.server.lifespan import Lifespan
    from mcprev.server.middleware import Middleware
    from mcprev.server.tasks import Tasks
    from mcprev.transports.http.server.asgi import AsgiApp
    from mcprev.transports.http.server.options import HttpOptions

F = TypeVar("F", bound=Callable[..., object])
K = TypeVar("K")
V = TypeVar("V")
_TOOL_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,128}")
_COMPLETES: Final = frozenset({"value", "arguments"})


class ServerOptions(TypedDict, total=False):
    """The options of `mcprev.Server`; see there."""

    revisions: tuple[str, ...] | list[str] | None
    instructions: str | None
    title: str | None
    description: str | None
    website_url: str | None
    icons: Sequence[models.Icon]
    exact: Mapping[str, object] | None
    capabilities: models.ServerCapabilities | None
    requires: Mapping[str, models.ClientCapabilities] | None
    states: RequestStateSealer | None
    tasks: Tasks | None
    lifespan: Lifespan | Sequence[Lifespan]
    middleware: Sequence[Middleware]
    on_downgrade: OnDowngrade | None
    show_errors: bool
    ping_interval: float | None
    max_line: int
    max_handlers: int


class EntryOptions(TypedDict, total=False):
    """Options of all decorators; their defaults come from the function."""

    name: str
    """The name for clients; default: the function's name."""
    title: str
    """The name for people."""
    description: str
    """The description; default: the first paragraph of the docstring."""
    icons: list[models.Icon]
    meta: dict[str, Json]


class ToolOptions(EntryOptions, total=False):
    """Options of `App.tool`."""

    annotations: models.ToolAnnotations
    """Hints about the tool's behaviour."""


class ResourceOptions(EntryOptions, total=False):
    """Options of `App.resource`."""

    mime_type: str
    annotations: models.Annotations
    """The audience of the resource and its priority."""


class App:
    """A server made of functions, for clients of every revision.

    A parameter with the annotation `mcprev.Context` receives the context and is not an argument. Coroutine functions
    run in the event loop. All other functions run in threads, by default as many as cores plus four: they may block,
    and can read the context but not send messages with it. A call waits while no thread is free. If a request is cancelled, its thread keeps running, and a warning is logged.

    Decorators raise `TypeError` for a function without a schema and `ValueError` for a duplicate or invalid name. They
    raise `LocalProtocolError` for the first function of a kind that is registered after the server was created, because
    clients learn on connecting which kinds exist. Later functions of an existing kind are announced to clients;
    register them in the thread of the event loop.
    """

    def __init__(
        self, name: str, version: str, *, executor: Executor | None = None, **options: Unpack[ServerOptions]
    ) -> None:
        """Set the name and version of the server; the options are those of `mcprev.Server`.

        `executor` runs the functions that are not async, such as a `concurrent.futures.ThreadPoolExecutor` with more
        threads; it is not shut down. Default: that of the event loop.
        """
        self._executor = executor
        self._name, self._version, self._options = name, version, options
        self._registered = Registry()

    @property
    def server(self) -> Server:
        """The server. The first access creates it with the kinds of functions registered so far."""
        return self._server

    @cached_property
    def _server(self) -> Server:
        kinds = self._registered.kinds()
        # A server declares what its handler class overrides, so create a class with the registered kinds.
        made = cast("type[Handler]", type("AppHandler", kinds or (Handler,), {}))
        tasks = self._options.get("tasks")
        for name in () if tasks is None else tasks.tools.keys() - self._registered.tools.keys():
            from difflib import get_close_matches

            meant = get_close_matches(name, self._registered.tools, 1)
            hint = f"; did you mean '{meant[0]}'?" if meant else ": register it before `app.server` is used"
            raise ValueError(f"`tasks` names '{name}', which is no tool of this app{hint}")
        # Pydantic validates arguments with the same annotations, so the server need not validate them again.
        return Server(made(self._registered), self._name, self._version, validate=False, **self._options)

    def run_stdio(self) -> None:
        """Serve one client on stdin and stdout; see `Server.run_stdio`."""
        self.server.run_stdio()

    def run_http(self, host: str = HOST, port: int = PORT, **options: Unpack[HttpOptions]) -> None:
        """Serve over HTTP until the process receives a signal to stop; see `Server.run_http`."""
        self.server.run_http(host, port, **options)

    def asgi(self, **options: Unpack[HttpOptions]) -> AsgiApp:
        """Return an ASGI app, to run in an ASGI server or to mount; see `Server.asgi`."""
        return self.server.asgi(**options)

    # -- decorators ------------------------------------------------------------------------------------------

    @overload
    def tool(self, function: F, /, **options: Unpack[ToolOptions]) -> F: ...
    @overload
    def tool(self, /, **options: Unpack[ToolOptions]) -> Callable[[F], F]: ...
    def tool(self, function: F | None = None, /, **options: Unpack[ToolOptions]) -> F | Callable[[F], F]:
        """Register a function as a tool; usable with or without parentheses.

        The function's parameters are the arguments. Their annotations make the schema, and arguments are validated
        before the function runs; `Annotated[int, Field(description="...", ge=1)]` adds to it. Return values: text,
        content blocks and lists with content blocks are sent as content, bytes as an embedded resource; None is no content. With any other annotation
        (a model, dataclass, TypedDict, dict, list, number or bool), the return value is structured content, and the
        annotation makes the output schema. A `CallToolResult` or `InputRequiredResult` is sent unchanged. Raise
        `mcprev.ToolError` to report a failure with its reason to the model. Any other exception is logged, and the
        model reads only that the tool failed, unless the app is made with `show_errors=True`.
        """

        def register(function: F) -> F:
            read = Function(function, self._executor)
            said = _said(read, options, ToolOptions)
            if _TOOL_NAME.fullmatch(said["name"]) is None:
                raise ValueError(
                    f"{read.title}(): '{said['name']}' is not a valid tool name; pass name= with 1 to 128 characters of A-Z, a-z, 0-9, _, - and ."
                )
            returns = ToolReturns(said["name"], read)
            output = returns.schema
            listed = models.Tool(
                **said,
                input_schema=models.ToolInputSchema.from_wire(read.schema),
                output_schema=None if output is None else models.ToolOutputSchema.from_wire(output),
            )
            self._add(
                self._registered.tools, listed.name, RegisteredTool(listed, read, returns), Changed.TOOLS
            )
            return function

        return register if function is None else register(function)

    def resource(self, uri: str, **options: Unpack[ResourceOptions]) -> Callable[[F], F]:
        """Register a function that reads a resource, or all resources of a template such as `users://{user}/profile`.

        The variables of a template are the arguments, converted to their annotations. `mcprev.app.uri_templates`
        describes what they match, and `mcprev.app.registry` the order of templates. Text, bytes, contents and lists of
        contents are sent as they are, other values as JSON; None means that the resource does not exist.
        """
        if callable(uri):
            raise TypeError(f"{uri!r} is not a URI; pass one, as in @app.resource('notes://all')")

        def register(function: F) -> F:
            read = Function(function, self._executor)
            said = _said(read, options, ResourceOptions)
            template = Template(uri)
            _check_variables(read, template)
            if template.names:
                entry = ResourceTemplate(models.ResourceTemplate(**said, uri_template=uri), read, template)
                self._add(self._registered.templates, uri, entry, Changed.RESOURCES)
            else:
                fixed = Resource(models.Resource(**said, uri=uri), read)
                self._add(self._registered.resources, uri, fixed, Changed.RESOURCES)
            return function

        return register

    @overload
    def prompt(self, function: F, /, **options: Unpack[EntryOptions]) -> F: ...
    @overload
    def prompt(self, /, **options: Unpack[EntryOptions]) -> Callable[[F], F]: ...
    def prompt(self, function: F | None = None, /, **options: Unpack[EntryOptions]) -> F | Callable[[F], F]:
        """Register a function as a prompt; usable with or without parentheses.

        Arguments arrive as text and are converted to their annotations. Returned text and content blocks become
        messages of the user; a `PromptMessage` sets its role itself. A list may mix these.
        """

        def register(function: F) -> F:
            read = Function(function, self._executor)
            _check_texts(read, read.names, "prompts")
            said = _said(read, options, EntryOptions)
            arguments = [
                models.PromptArgument(
                    name=name,
                    required=name in read.required,
                    description=schema.get("description"),
                    title=schema.get("title"),
                )
                for name, schema in read.schema.get("properties", {}).items()
            ]
            listed = models.Prompt(**said, arguments=arguments or None)
            self._add(self._registered.prompts, listed.name, Prompt(listed, read), Changed.PROMPTS)
            return function

        return register if function is None else register(function)

    def completion(self, of: str, argument: str) -> Callable[[F], F]:
        """Register a function that completes an argument; it returns a list of strings, the best first.

        `of` is the name of a registered prompt or template. The function takes `value`, the text typed so far, and
        optionally `arguments`, a dict of the other arguments. Raises `ValueError` if there is no such argument.
        """

        def register(function: F) -> F:
            read = Function(function, self._executor)
            if "value" not in read.names or set(read.names) - _COMPLETES:
                read.refuse(
                    "completes what is typed: it takes `value: str` and may take `arguments: dict[str, str]`"
                )
            entry = self._registered.templates.get(of) or self._registered.prompts.get(of)
            if entry is None or argument not in entry.function.names:
                raise ValueError(
                    f"no prompt or template '{of}' with an argument '{argument}' is registered yet; register it first"
                )
            self._add(self._registered.completions, (of, argument), read, None)
            return function

        return register

    # -- registration ----------------------------------------------------------------------------------------

    def _add(self, entries: dict[K, V], key: K, entry: V, changed: Changed | None) -> None:
        if key in entries:
            raise ValueError(f"{key!r} is registered already")
        before = self._registered.kinds()
        entries[key] = entry
        made = "_server" in self.__dict__
        if made and self._registered.kinds() != before:
            del entries[key]
            raise LocalProtocolError(
                f"{key!r} is the first of its kind, but the server exists already. Clients learn on connecting which kinds exist: "
                "register one before the first use of `app.server`"
            )
        if made and changed is not None:
            self.server.changed(changed)


def _said(function: Function, options: Mapping[str, Any], known: type) -> dict[str, Any]:
    """Merge the options of a decorator with the defaults from the function."""
    for name in options.keys() - known.__annotations__.keys():
        function.refuse(f"'{name}' cannot be said of it; there are {', '.join(known.__annotations__)}")
    return {"name": function.name, "description": function.description, **options}


def _check_variables(function: Function, template: Template) -> None:
    for name in template.names:
        if name not in function.names:
            function.refuse(f"does not take '{name}', a variable of '{template.text}'; add the parameter")
    for name in function.required.difference(template.names):
        function.refuse(
            f"is no variable of '{template.text}'; put it there in braces, or give it a default", name
        )
    _check_texts(function, template.names, "URIs")


def _check_texts(function: Function, names: Sequence[str], of: str) -> None:
    for name in names:
        if not _is_text(function.schema["properties"][name], function.schema):
            function.refuse(f"is neither text nor made of one, and {of} have texts only", name)


def _is_text(schema: Schema, root: Schema) -> bool:
    """Return whether a schema accepts a string."""
    if "$ref" in schema:
        schema = root["$defs"][schema["$ref"].rpartition("/")[2]]
    options = schema.get("anyOf") or schema.get("oneOf")
    if options:
        return any(_is_text(option, root) for option in options)
    return schema.get("type") not in {"array", "object", "null"}
