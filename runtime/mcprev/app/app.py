"""Servers made of functions: decorators that register tools, resources and prompts.

An app is a way to write a handler, and no other kind of server: `App.server` is a `mcprev.Server` like any.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, TypedDict, TypeVar, cast, overload

from mcprev.app.registry import Handler, Prompt, RegisteredTool, Registry, Resource, ResourceTemplate
from mcprev.app.results import ToolReturns
from mcprev.app.signatures import Function, Schema
from mcprev.app.uri_templates import Template
from mcprev.errors import Json, LocalProtocolError
from mcprev.protocol.subscriptions import Changed
from mcprev.server.server import HOST, PORT, Server
from mcprev_types.latest import models

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from mcprev.convert import OnDowngrade
    from mcprev.protocol.request_state import RequestStateSealer
    from mcprev.server.tasks import Tasks
    from mcprev.transports.http.server.asgi import AsgiApp
    from mcprev.transports.http.server.options import HttpOptions

F = TypeVar("F", bound=Callable[..., object])
K = TypeVar("K")
V = TypeVar("V")
_TOOL_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,128}")
_COMPLETES: Final = frozenset({"value", "arguments"})


class ServerOptions(TypedDict, total=False):
    """What `mcprev.Server` can be told besides; see there."""

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
    on_downgrade: OnDowngrade | None
    ping_interval: float | None
    max_line: int
    max_handlers: int


class EntryOptions(TypedDict, total=False):
    """What can be said of anything that is registered; the rest is told by the function."""

    name: str
    """What clients call it; the function's name if nothing is said."""
    title: str
    """What people see."""
    description: str
    """What it is for; the first paragraph of the docstring if nothing is said."""
    icons: list[models.Icon]
    meta: dict[str, Json]


class ToolOptions(EntryOptions, total=False):
    """What can be said of a tool."""

    annotations: models.ToolAnnotations
    """Hints on how it behaves."""


class ResourceOptions(EntryOptions, total=False):
    """What can be said of a resource."""

    mime_type: str
    annotations: models.Annotations
    """Whom it is for, and how important it is."""


class App:
    """Functions that are served to clients of every revision, and the server that does.

    A parameter that is annotated `mcprev.Context` is given the context and is none of the arguments. Coroutine functions
    run in the loop; all others run in threads, where they may block and can read the context but not talk through it. The
    threads are those of `asyncio.to_thread`, by default four more than there are cores: what finds none free waits for one.
    A thread whose request is cancelled runs on, which is logged.

    Decorators raise `TypeError` for a function that cannot be described to clients, `ValueError` for a name that is taken
    or not allowed, and `LocalProtocolError` for the first of a kind once the server is made: clients are told when they
    connect which kinds there are. What is registered later, in the thread of the loop, is announced to those that listen.
    """

    def __init__(self, name: str, version: str, **options: Unpack[ServerOptions]) -> None:
        """Name the server; the options are those of `mcprev.Server`."""
        self._name, self._version, self._options = name, version, options
        self._registered = Registry()

    @cached_property
    def server(self) -> Server:
        """The server. It is made when it is first asked for, of the kinds that are registered by then."""
        kinds = self._registered.kinds()
        # What a handler serves is what its class overrides, so there is a class for the kinds that there are.
        made = cast("type[Handler]", type("AppHandler", kinds or (Handler,), {}))
        # Pydantic judges arguments by what their schemas were made of; once is enough.
        return Server(made(self._registered), self._name, self._version, validate=False, **self._options)

    def run_stdio(self) -> None:
        """Serve one client on stdin and stdout; see `Server.run_stdio`."""
        self.server.run_stdio()

    def run_http(self, host: str = HOST, port: int = PORT, **options: Unpack[HttpOptions]) -> None:
        """Serve over HTTP until the process is told to stop; see `Server.run_http`."""
        self.server.run_http(host, port, **options)

    def asgi(self, **options: Unpack[HttpOptions]) -> AsgiApp:
        """An ASGI app, to be run by an ASGI server or mounted; see `Server.asgi`."""
        return self.server.asgi(**options)

    # -- what is served --------------------------------------------------------------------------------------

    @overload
    def tool(self, function: F, /, **options: Unpack[ToolOptions]) -> F: ...
    @overload
    def tool(self, /, **options: Unpack[ToolOptions]) -> Callable[[F], F]: ...
    def tool(self, function: F | None = None, /, **options: Unpack[ToolOptions]) -> F | Callable[[F], F]:
        """Serve a function as a tool; also without parentheses.

        The parameters are the arguments, and their annotations the schema, by which arguments are judged before the
        function runs; `Annotated[int, Field(description="...", ge=1)]` says more of one. What is returned: text, content
        blocks or a list with blocks in it are sent as they are, None is nothing. Of any other annotation (a model,
        dataclass, TypedDict, dict, list, also one of texts, number, bool) the output schema is made, and the value is the
        structured content. A `CallToolResult` or `InputRequiredResult` is the result itself. `mcprev.ToolError` tells the
        model that and why the tool failed; any other exception is logged, and the client learns nothing but that there
        was one.
        """

        def register(function: F) -> F:
            read = Function(function)
            said = _said(read, options, ToolOptions)
            if _TOOL_NAME.fullmatch(said["name"]) is None:
                raise ValueError(
                    f"{read.title}(): '{said['name']}' is no name of a tool; say name= with 1 to 128 of A-Z, a-z, 0-9, _, - and ."
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
        """Serve a function as what reads a resource, or all resources of a template such as `users://{user}/profile`.

        The variables of a template are the arguments, converted to their annotations; see `mcprev.app.uri_templates` for
        what they stand for, and `mcprev.app.registry` for which template comes first. Text, bytes, contents or a list of
        contents are sent as they are, anything else as JSON; None says that there is no such resource.
        """
        if callable(uri):
            raise TypeError(f"{uri!r} is no URI; say which one is read, as in @app.resource('notes://all')")

        def register(function: F) -> F:
            read = Function(function)
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
        """Serve a function as a prompt; also without parentheses.

        Arguments come as text and are converted to their annotations. Text and content blocks are what the user says;
        a `PromptMessage` says who does. A list has several of these.
        """

        def register(function: F) -> F:
            read = Function(function)
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
        """Complete an argument with what a function returns: a list of texts, the best first.

        `of` is the name of a prompt or a template that is registered already. The function takes `value`, which is what
        has been typed, and may take `arguments`, a dict of those that are settled. Raises `ValueError` where there is
        no such argument.
        """

        def register(function: F) -> F:
            read = Function(function)
            if "value" not in read.names or set(read.names) - _COMPLETES:
                read.refuse(
                    "completes what is typed: it takes `value: str` and may take `arguments: dict[str, str]`"
                )
            entry = self._registered.templates.get(of) or self._registered.prompts.get(of)
            if entry is None or argument not in entry.function.names:
                raise ValueError(
                    f"no prompt or template '{of}' with an argument '{argument}' is registered yet"
                )
            self._add(self._registered.completions, (of, argument), read, None)
            return function

        return register

    # -- registering -----------------------------------------------------------------------------------------

    def _add(self, entries: dict[K, V], key: K, entry: V, changed: Changed | None) -> None:
        if key in entries:
            raise ValueError(f"{key!r} is registered already")
        before = self._registered.kinds()
        entries[key] = entry
        made = "server" in self.__dict__
        if made and self._registered.kinds() != before:
            del entries[key]
            raise LocalProtocolError(
                f"{key!r} is the first of its kind and comes late: clients are told when they connect what there is, so "
                "register one before the server is made"
            )
        if made and changed is not None:
            self.server.changed(changed)


def _said(function: Function, options: Mapping[str, Any], known: type) -> dict[str, Any]:
    """What is told of a function, whoever said it."""
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
    """Whether a value can be made of a text."""
    if "$ref" in schema:
        schema = root["$defs"][schema["$ref"].rpartition("/")[2]]
    options = schema.get("anyOf") or schema.get("oneOf")
    if options:
        return any(_is_text(option, root) for option in options)
    return schema.get("type") not in {"array", "object", "null"}
