"""Servers made of functions: decorators that register tools, resources and prompts.

An app only builds a handler: `App.server` is a normal `mcprev.Server`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from copy import copy
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast, overload

from mcprev.app.handlers import HANDLERS, Handler
from mcprev.app.options import (
    EntryOptions,
    ResourceOptions,
    ServerOptions,
    ToolOptions,
    check_texts,
    check_variables,
    checked,
    read_options,
)
from mcprev.app.registry import Key, Prompt, RegisteredTool, Registry, Resource, ResourceTemplate
from mcprev.app.results import ToolReturns
from mcprev.app.signatures import Function
from mcprev.app.uri_templates import Template
from mcprev.errors import LocalProtocolError
from mcprev.protocol.tasks import Support
from mcprev.server.context import Context
from mcprev.server.server import HOST, PORT, Server
from mcprev_types.latest import models

if TYPE_CHECKING:
    from concurrent.futures import Executor
    from pathlib import Path
    from typing import Self

    import aiohttp
    from typing_extensions import Unpack

    from mcprev.errors import Json
    from mcprev.server.server import Lifespan
    from mcprev.server.tasks import Tasks
    from mcprev.transports.http.server.asgi import AsgiApp
    from mcprev.transports.http.server.options import HttpOptions

F = TypeVar("F", bound=Callable[..., object])
_PREFIX: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_LOST: Final = ("middleware", "exact", "requires", "tasks", "on_downgrade", "capabilities", "show_errors")
"""Options that change how an app serves, and that would have no effect in another one."""
_TOOL_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,128}")
_COMPLETES: Final = frozenset({"value", "arguments"})


class App:
    """A server made of functions, for clients of every revision.

    A parameter with the annotation `mcprev.Context` receives the context and is not an argument. Coroutine functions
    run in the event loop. All other functions run in threads, by default as many as cores plus four: they may block,
    and can read the context but not send messages with it. A call waits while no thread is free. If a request is
    cancelled, its thread keeps running, and a warning is logged.

    Decorators raise `TypeError` for a function without a schema and `ValueError` for a duplicate or invalid name. They
    raise `LocalProtocolError` for the first function of a kind that is registered after the server was created, because
    clients learn on connecting which kinds exist. Later functions of an existing kind are announced to clients;
    register them in the thread of the event loop.
    """

    def __init__(
        self,
        name: str,
        version: str,
        *,
        visible: Callable[[Context, frozenset[str]], bool] | None = None,
        executor: Executor | None = None,
        **options: Unpack[ServerOptions],
    ) -> None:
        """Set the name and version of the server; the options are those of `mcprev.Server`.

        `visible` is called with the context of a request and the tags of an entry, and says whether the client sees it;
        for a client that does not, it does not exist. `executor` runs the functions that are not async, such as a
        `concurrent.futures.ThreadPoolExecutor` with more threads; it is not shut down. Default: that of the event loop.
        """
        self._executor = executor
        self._name, self._version, self._options = name, version, options
        self._registered = Registry(visible=None if visible is None else checked(visible))
        self._mounted: list[App] = []

    @classmethod
    def from_openapi(
        cls,
        document: Mapping[str, Json] | str | Path,
        *,
        base_url: str | None = None,
        session: aiohttp.ClientSession | None = None,
        headers: Mapping[str, str] | None = None,
        name: str | None = None,
        version: str | None = None,
        select: Callable[[str, str, Mapping[str, Json]], bool] | None = None,
        **options: Unpack[ServerOptions],
    ) -> Self:
        """Return an app whose tools are the operations of an OpenAPI 3.0 or 3.1 document, and call its HTTP API.

        `document` is the document or the path of a JSON or YAML file. `base_url` is where the API is; default: its
        first server. `session` makes the requests; default: a new one each time. `headers` are sent with each request,
        and are no arguments of tools. `name` and `version` are by default those of the document. `select` is called
        with the method, the path and the operation, and says whether it becomes a tool. The tags of operations are
        those of entries. Raises `ValueError` for a document that cannot be used, with the place in it, `OSError` for
        a file that cannot be read, and `mcprev.errors.MissingExtra` without aiohttp.
        """
        from mcprev.app.openapi import Api

        api = Api(document, base_url, session, headers, select)
        app = cls(name or api.info("title"), version or api.info("version"), **options)
        for tool in api.tools():
            app._registered.add("tools", tool.listed.name, tool)
        return app

    @property
    def server(self) -> Server:
        """The server. The first access creates it with the kinds of functions registered so far."""
        return self._server

    @cached_property
    def _server(self) -> Server:
        registered = self._registered
        # A server declares what its handler class overrides, so create a class with the registered kinds.
        kinds = tuple(dict.fromkeys(HANDLERS[kind] for kind in registered.kinds()))
        made = cast("type[Handler]", type("AppHandler", kinds or (Handler,), {}))
        tasks = self._tasks()
        options: ServerOptions = {**self._options, "lifespan": self._lifespans(), "tasks": tasks}
        # Pydantic validates arguments with the same annotations, so the server need not validate them again.
        server = Server(made(registered), self._name, self._version, validate=False, **options)
        registered.served = frozenset(kind for kind, handler in HANDLERS.items() if handler in kinds)
        if tasks is not None and server.tasks is not None:
            server.tasks.shown = self._shows
            given = self._options.get("tasks")
            before = {} if given is None else given.tools
            registered.serves_tasks, registered.on_set = True, partial(_set_task, tasks, before)
        registered.on_changed = server.changed
        return server

    def _tasks(self) -> Tasks | None:
        """Return the settings of tasks with what the decorators say."""
        tasks = self._options.get("tasks")
        tools: dict[str, RegisteredTool] = {
            **{
                str(name): tool for (kind, name), tool in self._registered.disabled.items() if kind == "tools"
            },
            **self._registered.tools,
        }
        for name in () if tasks is None else tasks.tools.keys() - tools.keys():
            from difflib import get_close_matches

            meant = get_close_matches(name, tools, 1)
            hint = f"; did you mean '{meant[0]}'?" if meant else ": register it before `app.server` is used"
            raise ValueError(f"`tasks` names '{name}', which is no tool of this app{hint}")
        declared = {name: tool.task for name, tool in tools.items() if tool.task is not None}
        if tasks is None and not declared:
            return None
        from mcprev.server.tasks import Tasks

        tasks = Tasks({}) if tasks is None else copy(tasks)
        tasks.tools = {**tasks.tools, **declared}
        return tasks

    def _shows(self, name: str, ctx: Context) -> bool:
        tool = self._registered.tools.get(name)
        return tool is not None and tool.shown(ctx)

    def _lifespans(self) -> tuple[Lifespan, ...]:
        own = self._options.get("lifespan", ())
        several = (own,) if callable(own) else tuple(own)
        for app in self._mounted:
            several += app._lifespans()  # noqa: SLF001 - another app
        return tuple(dict.fromkeys(several))

    def run_stdio(self) -> None:
        """Serve one client on stdin and stdout; see `Server.run_stdio`."""
        self.server.run_stdio()

    def run_http(self, host: str = HOST, port: int = PORT, **options: Unpack[HttpOptions]) -> None:
        """Serve over HTTP until the process receives a signal to stop; see `Server.run_http`."""
        self.server.run_http(host, port, **options)

    def asgi(self, **options: Unpack[HttpOptions]) -> AsgiApp:
        """Return an ASGI app, to run in an ASGI server or to mount; see `Server.asgi`."""
        return self.server.asgi(**options)

    def _common(self, own: Mapping[str, Any]) -> dict[str, Any]:
        """Return the members that all entries have."""
        tags = frozenset[str](own.get("tags", ()))
        visible = checked(own["visible"]) if "visible" in own else None
        return {"tags": tags, "checks": self._registered.checks(tags, visible)}

    # -- decorators ------------------------------------------------------------------------------------------

    @overload
    def tool(self, function: F, /, **options: Unpack[ToolOptions]) -> F: ...
    @overload
    def tool(self, /, **options: Unpack[ToolOptions]) -> Callable[[F], F]: ...
    def tool(self, function: F | None = None, /, **options: Unpack[ToolOptions]) -> F | Callable[[F], F]:
        """Register a function as a tool; usable with or without parentheses.

        The function's parameters are the arguments. Their annotations make the schema, and arguments are validated
        before the function runs; `Annotated[int, Field(description="...", ge=1)]` adds to it. Return values: text,
        content blocks and lists with content blocks are sent as content, bytes as an embedded resource; None is no
        content. With any other annotation (a model, dataclass, TypedDict, dict, list, number or bool), the return value
        is structured content, and the annotation makes the output schema. A `CallToolResult` or `InputRequiredResult` is
        sent unchanged. Raise `mcprev.ToolError` to report a failure with its reason to the model. Any other exception is
        logged, and the model reads only that the tool failed, unless the app is made with `show_errors=True`.
        """

        def register(function: F) -> F:
            read = Function(function, self._executor)
            said, own = read_options(read, options, ToolOptions)
            if _TOOL_NAME.fullmatch(said["name"]) is None:
                raise ValueError(
                    f"{read.title}(): '{said['name']}' is not a valid tool name; pass name= with 1 to 128 characters of A-Z, a-z, 0-9, _, - and ."
                )
            task = Support(own["task"]) if "task" in own else None
            returns = ToolReturns(said["name"], read)
            output = returns.schema
            listed = models.Tool(
                **said,
                input_schema=models.ToolInputSchema.from_wire(read.schema),
                output_schema=None if output is None else models.ToolOutputSchema.from_wire(output),
            )
            entry = RegisteredTool(
                listed=listed, function=read, returns=returns, task=task, **self._common(own)
            )
            self._registered.add("tools", listed.name, entry)
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
            said, own = read_options(read, options, ResourceOptions)
            cache = {name: own[name] for name in ("ttl_ms", "cache_scope") if name in own}
            models.ReadResourceResult(contents=[], **cache)  # raises for what no result can say
            common: dict[str, Any] = {"function": read, "cache": cache, **self._common(own)}
            template = Template(uri)
            check_variables(read, template)
            if template.names:
                listed = models.ResourceTemplate(**said, uri_template=uri)
                self._registered.add(
                    "templates", uri, ResourceTemplate(listed=listed, template=template, **common)
                )
            else:
                self._registered.add(
                    "resources", uri, Resource(listed=models.Resource(**said, uri=uri), **common)
                )
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
            check_texts(read, read.names, "prompts")
            said, own = read_options(read, options, EntryOptions)
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
            self._registered.add(
                "prompts", listed.name, Prompt(listed=listed, function=read, **self._common(own))
            )
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
            self._registered.add("completions", (of, argument), read)
            return function

        return register

    # -- changes -------------------------------------------------------------------------------------------

    def remove_tool(self, name: str) -> None:
        """Remove a tool and notify clients. Raises `ValueError` if there is none of this name."""
        self._registered.remove("tools", name)

    def remove_resource(self, uri: str) -> None:
        """Remove a resource, or a template of resources, and notify clients. Raises `ValueError` if there is none."""
        self._registered.remove("templates" if self._registered.knows("templates", uri) else "resources", uri)

    def remove_prompt(self, name: str) -> None:
        """Remove a prompt and notify clients. Raises `ValueError` if there is none of this name."""
        self._registered.remove("prompts", name)

    def disable(self, *names: str, tags: Collection[str] = ()) -> None:
        """Take tools, resources and prompts out of service, by name or URI or by tag, and notify clients.

        It applies to what is registered so far. Raises `ValueError` for a name that is not registered.
        """
        self._registered.disable(names, tags)

    def enable(self, *names: str, tags: Collection[str] = ()) -> None:
        """Put what was disabled back into service, by name or URI or by tag, and notify clients.

        Raises `ValueError` for a name that is not registered.
        """
        self._registered.enable(names, tags)

    def mount(self, app: App, prefix: str | None = None) -> None:
        """Serve everything that another app has and will have, with its lifespan.

        With a prefix `shop`, the tool or prompt `buy` is `shop_buy`, and the resource `notes://all` is
        `notes://shop/all`. Options that describe the other app, such as its instructions, are not used. Raises
        `ValueError` for a name that exists already, for an app that is mounted in itself, and for one with options that
        would be lost, such as `middleware`: pass them to this app. Raises `LocalProtocolError` for a new kind of
        functions, and for a lifespan, when the server was created already.
        """
        lost = [name for name in _LOST if app._options.get(name)]
        if lost:
            raise ValueError(
                f"{', '.join(lost)} of the mounted app would have no effect; pass it to the app that serves"
            )
        if prefix is not None and _PREFIX.fullmatch(prefix) is None:
            raise ValueError(f"'{prefix}' is no prefix; use 1 to 64 characters of A-Z, a-z, 0-9, _, - and .")
        if self._registered.served is not None and app._lifespans():
            raise LocalProtocolError("the server exists already: mount an app with a lifespan before")
        self._registered.mount(app._registered, prefix)
        self._mounted.append(app)


def _set_task(
    tasks: Tasks, before: Mapping[str, Support], kind: str, key: Key, entry: Any  # noqa: ANN401 - of its kind
) -> None:
    """Tell a running server whether a new tool can run as a task; `before` says so for tools that do not say it."""
    if kind == "tools":
        tasks.tools[str(key)] = entry.task or before.get(str(key), Support.FORBIDDEN)
