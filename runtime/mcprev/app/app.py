"""Servers made of functions: decorators that register tools, resources and prompts.

An app only builds a handler: `App.server` is a normal `mcprev.Server`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar, cast, overload

from mcprev.app.entries import Prompt, RegisteredTool, Resource, ResourceTemplate
from mcprev.app.handlers import HANDLERS, Handler, canonical_uri, guard_of
from mcprev.app.openapi.sources import AppSources
from mcprev.app.options import (
    NOT_MOUNTED,
    AppOptions,
    EntryOptions,
    ResourceOptions,
    ToolOptions,
    check_texts,
    check_variables,
    lists_of,
    read_options,
)
from mcprev.app.pages import Pages, shows_pages
from mcprev.app.registry import Registry
from mcprev.app.results import ToolReturns
from mcprev.app.routed import Routed
from mcprev.app.signatures import Function, TimedFunction
from mcprev.app.skills import Skills
from mcprev.app.uri_templates import Template
from mcprev.core.options import check_named, check_options, shows_options
from mcprev.errors import LocalProtocolError
from mcprev.protocol.tasks import Support
from mcprev.protocol.tool_names import TOOL_NAME
from mcprev.server.server import Server
from mcprev.server.service import HOST, PORT
from mcprev_types.latest import models

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from mcprev.server.server import Lifespan, ServerOptions
    from mcprev.server.tasks import Tasks
    from mcprev.transports.http.server.asgi import AsgiApp
    from mcprev.transports.http.server.options import HttpOptions

F = TypeVar("F", bound=Callable[..., object])
_PREFIX: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_VERSION: Final = re.compile(r"[0-9]{1,9}(?:[.-][0-9]{1,9}){0,4}")
_COMPLETES: Final = frozenset({"value", "arguments"})


class App(Skills, Routed, Pages, AppSources):
    """A server made of functions, for clients of every revision.

    A parameter with the annotation `mcprev.Context` receives the context and is not an argument. Coroutine functions
    run in the event loop. All other functions run in threads, by default at most 40: they may block, and can read the
    context but not await its methods. A call waits while no thread is free; clients get free threads in turn. If a request is
    cancelled, its thread keeps running, and a warning is logged.

    Decorators raise `TypeError` for a function without a schema and `ValueError` for a duplicate or invalid name. They
    raise `LocalProtocolError` for the first function of a kind (tool, resource, template, prompt, completion) that is
    registered after the server was created, because clients learn on connecting which kinds exist. Further functions of
    an existing kind can be registered at any time, also by a function that runs in a thread; clients are notified.
    """

    @shows_options(AppOptions)
    def __init__(self, name: str, version: str = "0.0.0", **options: Unpack[AppOptions]) -> None:
        """Set the name and version that clients see, and the options: those of `AppOptions`.

        Set a version: clients and logs tell servers apart by it.

        Raises `TypeError` for an unknown option and for one of another kind, and `ValueError` for a limit of 0 and a negative number.
        """
        super().__init__()
        check_named(name, version)
        check_options("App", AppOptions, options)
        list_ttl_ms = options.pop("list_ttl_ms", 0)
        if list_ttl_ms < 0:
            raise ValueError(f"`list_ttl_ms` is {list_ttl_ms}; use 0 or a larger number")
        visible, self._executor = options.pop("visible", None), options.pop("executor", None)
        self._lenient = not options.pop("strict_arguments", False)
        self._name, self._version = name, version
        self._options: ServerOptions = options
        tasks = options.get("tasks")
        self._registered = Registry(
            visible=visible,
            # A list may depend on who asks, so clients keep it for themselves.
            list_cache={"ttl_ms": list_ttl_ms, "cache_scope": "private"} if list_ttl_ms else {},
            tasks={} if tasks is None else tasks.tools,
            middleware=tuple(options.get("middleware", ())),
            requires=options.get("requires") or {},
        )
        self._mounted: list[App] = []
        if self._registered.middleware:
            from mcprev.app.bound_middleware import bind_entries

            bind_entries(self._registered)

    @property
    def server(self) -> Server:
        """The `mcprev.Server` of the app. The first access creates it, with the kinds of functions registered so far.

        Raises `ValueError` if the option `tasks` names a tool that is not registered.
        """
        return self._server

    @cached_property
    def _server(self) -> Server:
        registered = self._registered
        # A server declares what its handler class overrides, so create a class with the registered kinds.
        kinds = tuple(dict.fromkeys(HANDLERS[kind] for kind in registered.kinds()))
        made = cast("type[Handler]", type("AppHandler", kinds or (Handler,), {}))
        tasks = self._tasks()
        options: ServerOptions = {
            **self._options, "lifespan": self._lifespans(), "tasks": tasks, "extensions": self._with_skills(self._extensions()),
        }  # fmt: skip
        # Pydantic validates arguments with the same annotations, so the server need not validate them again.
        server = Server(made(registered), self._name, self._version, validate=False, **options)
        registered.served = frozenset(kind for kind, handler in HANDLERS.items() if handler in kinds)
        if tasks is not None and server.tasks is not None:
            server.tasks.support, server.tasks.sees = registered.task_support, registered.sees_tool
            registered.runs_tasks = True
        registered.declares_pages, registered.declares_skills = registered.has_pages, registered.has_skills
        registered.on_changed = server.changed
        server.forget.append(registered.tell_outer)
        server.guard = partial(guard_of, registered)
        server.canonical_uri = partial(canonical_uri, registered)
        if registered.inner:
            from mcprev.app.bound_middleware import keepers, place_inner

            server.forget += keepers(registered)
            place_inner(registered, self._name)
        server.routes = self.all_routes
        if registered.has_skills:
            self._follow_skills(server)
        return server

    def _tasks(self) -> Tasks | None:
        """Return the settings of tasks, or None if no tool can run as a task."""
        self._check_tasks()
        tasks = self._task_settings()
        if tasks is None and any(tool.task is not None for tool in self._registered.every_tool().values()):
            from mcprev.server.tasks import Tasks

            return Tasks({})
        return tasks

    def _task_settings(self, more: Sequence[App] = ()) -> Tasks | None:
        """Return the option `tasks`, or that of the mounted app that has it; `more` are mounted too. Raises `ValueError`."""
        own = self._options.get("tasks")
        if own is not None:
            return own
        found = [app._task_settings() for app in (*self._mounted, *more)]  # noqa: SLF001 - another app
        several = {id(tasks): tasks for tasks in found if tasks is not None}
        if len(several) > 1:
            raise ValueError(
                "several mounted apps have `tasks`, but a server has one store and one set of limits: pass `tasks` to the "
                "app that mounts them, such as mcprev.Tasks({})"
            )
        return next(iter(several.values()), None)

    def _check_tasks(self) -> None:
        """Raise `ValueError` if `tasks`, of this app or of one that is mounted in it, names a tool that it does not have."""
        self._registered.check_tasks(self._name)
        for app in self._mounted:
            app._check_tasks()  # noqa: SLF001 - another app

    def _lifespans(self) -> tuple[Lifespan, ...]:
        own = self._options.get("lifespan", ())
        several = (own,) if callable(own) else tuple(own)
        for app in self._mounted:
            several += app._lifespans()  # noqa: SLF001 - another app
        return tuple(dict.fromkeys(several))

    @property
    def registry(self) -> Registry:
        """The functions of the app by the names that clients use, for add-ons such as `mcprev.transforms`."""
        return self._registered

    def run_stdio(self) -> None:
        """Serve one client on stdin and stdout, and block until it disconnects; see `Server.run_stdio`."""
        self.server.run_stdio()

    def run(
        self,
        transport: Literal["stdio", "http", "streamable-http"] = "stdio",
        *,
        host: str = HOST,
        port: int = PORT,
        **options: Unpack[HttpOptions],
    ) -> None:
        """Serve with `run_stdio`, or with `run_http` and its options, and block until the end.

        Raises `ValueError` for another transport, and `TypeError` for options of HTTP on stdio.
        """
        if transport in {"http", "streamable-http"}:
            self.run_http(host, port, **options)
        elif transport != "stdio":
            raise ValueError(
                f"there is no transport {transport!r}; use 'stdio', or 'http' (with sse=True for HTTP+SSE too)"
            )
        elif options or (host, port) != (HOST, PORT):
            raise TypeError("stdio has no host, port or options of HTTP; pass transport='http' with them")
        else:
            self.run_stdio()

    def run_http(self, host: str = HOST, port: int = PORT, **options: Unpack[HttpOptions]) -> None:
        """Serve over HTTP, and block until SIGINT, SIGTERM or SIGHUP; the options are those of `Server.asgi`.

        See `Server.run_http`. The endpoint is `http://127.0.0.1:8000/mcp` by default.
        """
        self.server.run_http(host, port, **options)

    def asgi(self, **options: Unpack[HttpOptions]) -> AsgiApp:
        """Return an ASGI app, to run in an ASGI server or to mount in another app; see `Server.asgi`, also for options."""
        return self.server.asgi(**options)

    def _common(self, own: Mapping[str, Any]) -> dict[str, Any]:
        """Return the members that all entries have."""
        tags = frozenset[str](own.get("tags", ()))
        return {"tags": tags, "checks": self._registered.checks(tags, own.get("visible"))}

    # -- decorators ------------------------------------------------------------------------------------------

    @overload
    def tool(self, function: F, /, **options: Unpack[ToolOptions]) -> F: ...
    @overload
    def tool(self, /, **options: Unpack[ToolOptions]) -> Callable[[F], F]: ...
    def tool(self, function: F | None = None, /, **options: Unpack[ToolOptions]) -> F | Callable[[F], F]:
        """Register a function as a tool; usable with or without parentheses.

        The function's parameters are the arguments of the tool. Their annotations make the input schema, and arguments
        are validated against it before the function runs. `Annotated[int, Field(description="...", ge=1)]` adds a
        description and bounds.

        The return annotation decides how the result is sent. `str`, content blocks and lists with content blocks are
        content, `bytes` an embedded resource, None no content. With any other annotation (a model, dataclass,
        TypedDict, dict, list, number or bool), the return value is structured content, and the annotation makes the
        output schema. Without an annotation there is no output schema, and values that are not content are sent as JSON
        text. A `CallToolResult` or `InputRequiredResult` is sent unchanged.

        Raise `mcprev.ToolError` to report a failure with its reason to the model. Any other exception is logged, and
        the model is told only that the tool failed, unless the app has `show_errors=True`.

        Options: `name`, `title`, `description`, `icons`, `annotations`, `meta`, `tags`, `visible`, `task`, `ui`,
        `version`, `timeout` and `strict_arguments`; see `mcprev.app.options.ToolOptions`. Raises `TypeError` for a parameter or
        return type without a JSON Schema, and `ValueError` for an invalid or duplicate name.
        """

        def register(function: F) -> F:
            lenient = not options.get("strict_arguments", not self._lenient)
            read = Function(function, self._executor, lenient=lenient)
            if "timeout" in options:
                read = TimedFunction(function, self._executor, lenient=lenient, seconds=options["timeout"])
            said, own = read_options(read, options, ToolOptions)
            if TOOL_NAME.fullmatch(said["name"]) is None:
                raise ValueError(
                    f"{read.title}(): '{said['name']}' is not a valid tool name; pass name= with 1 to 128 characters of A-Z, a-z, 0-9, _, - and ."
                )
            if "version" in own:
                if _VERSION.fullmatch(str(own["version"])) is None:
                    read.refuse(
                        f"the version {own['version']!r:.40} is not numbers joined by dots or dashes; write '2' or '1.10'"
                    )
                said["name"] += f"@{own['version']}"
            task = Support(own["task"]) if "task" in own else None
            interface = self._interface(own["ui"]) if "ui" in own else None
            returns = ToolReturns(said["name"], read)
            output = returns.schema
            listed = models.Tool(
                **said,
                input_schema=models.ToolInputSchema.from_wire(read.schema),
                output_schema=None if output is None else models.ToolOutputSchema.from_wire(output),
            )
            entry = RegisteredTool(
                listed=listed, function=read, returns=returns, task=task, ui=interface, **self._common(own)
            )
            if interface is not None and "model" not in interface.visibility:
                entry = replace(entry, checks=(*entry.checks, (shows_pages, ())))
            self._registered.add("tools", listed.name, entry)
            return function

        return register if function is None else register(function)

    def resource(self, uri: str, **options: Unpack[ResourceOptions]) -> Callable[[F], F]:
        """Register a function that reads a resource, or every resource of a template such as `users://{user}/profile`.

        The variables of a template are the parameters of the function, converted from text to their annotations.
        `{name}` matches one part of a URI, without `/`, `?`, `#` and `&`; `{+name}` and `{name*}` match any text, and
        `{/name*}` any number of segments. `{?name,other}` and `{&name}` at the end match the members of a query, each of
        which a URI may leave out. All are percent-decoded. The values come from the client: check them before you use them in a path or
        a query. A URI that is registered itself takes precedence over templates, and of several templates the first one
        that matches and accepts the variables.

        Return `str` for text, `bytes` for binary contents, resource contents or a list of them to send as they are, or
        any other value to send as JSON. None means that the resource does not exist.

        Options: `name`, `title`, `description`, `icons`, `mime_type`, `annotations`, `meta`, `tags`, `visible`,
        `ttl_ms` and `cache_scope`; see `mcprev.app.options.ResourceOptions`. Raises `TypeError` if the parameters are
        not the variables, and `ValueError` for an invalid or duplicate URI.
        """
        if callable(uri):
            raise TypeError(f"{uri!r} is not a URI; pass one, as in @app.resource('notes://all')")

        def register(function: F) -> F:
            read = Function(function, self._executor)
            said, own = read_options(read, options, ResourceOptions)
            cache = {name: own[name] for name in ("ttl_ms", "cache_scope") if name in own}
            models.ReadResourceResult(contents=[], **cache)  # raises for what no result can say
            common: dict[str, Any] = {"function": read, "cache": cache, **self._common(own)}
            template = Template(uri, lists=lists_of(read), optional=set(read.names) - read.required)
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

        The function's parameters are the arguments of the prompt; they arrive as text and are converted to their
        annotations. Returned text and content blocks become messages with the role `user`; return a `PromptMessage` for
        another role. A list may mix these.

        Options: `name`, `title`, `description`, `icons`, `meta`, `tags` and `visible`; see
        `mcprev.app.options.EntryOptions`. Raises `TypeError` for a parameter that cannot be converted from text, and
        `ValueError` for a duplicate name.
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
        """Register a function that returns suggestions for an argument of a prompt, or a variable of a URI template.

        `of` is the name of a registered prompt or the text of a registered template. The function has the parameter
        `value: str`, the text typed so far, and optionally `arguments: dict[str, str]`, the other arguments so far. It
        returns a list of strings, the best first; at most 100 are sent. Raises `ValueError` if no prompt or template of
        this name with this argument is registered, and `TypeError` for other parameters.
        """

        def register(function: F) -> F:
            read = Function(function, self._executor)
            if "value" not in read.names or set(read.names) - _COMPLETES:
                read.refuse(
                    "must have the parameter `value: str`, may have `arguments: dict[str, str]`, and no other"
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
        """Remove a tool and notify clients. Raises `ValueError` if no tool has this name."""
        self._registered.remove("tools", name)

    def remove_resource(self, uri: str) -> None:
        """Remove the resource or template registered with `uri`, and notify clients. Raises `ValueError` if none is."""
        self._registered.remove("templates" if self._registered.knows("templates", uri) else "resources", uri)

    def remove_prompt(self, name: str) -> None:
        """Remove a prompt and notify clients. Raises `ValueError` if no prompt has this name."""
        self._registered.remove("prompts", name)

    def disable(self, *names: str, tags: Collection[str] = ()) -> None:
        """Hide tools, resources, templates and prompts from all clients until `enable`, and notify clients.

        They are selected by name, URI or template, or by a tag. Functions that are registered later are not affected.
        Raises `ValueError` for a name that is not registered.
        """
        self._registered.disable(names, tags)

    def enable(self, *names: str, tags: Collection[str] = ()) -> None:
        """Serve disabled tools, resources, templates and prompts again, and notify clients.

        They are selected by name, URI or template, or by a tag. Raises `ValueError` for a name that is not registered.
        """
        self._registered.enable(names, tags)

    def mount(self, app: App, prefix: str | None = None) -> None:
        """Serve all functions of another app, also those that it registers later, and run its lifespan.

        With the prefix `shop`, the tool or prompt `buy` is named `shop_buy`, and the resource `notes://all` has the URI
        `notes://shop/all`. None: names and URIs stay the same. Options that describe the other app, such as its
        instructions, are not used.

        The middleware of the other app runs inside the middleware of this app, around calls of the other app's tools,
        resources, prompts and completions. Its params have the names without the prefix. It does not run around lists,
        which this app serves.

        The tools of the other app can run as tasks if its option `tasks` says so. The store and the limits are those of
        `tasks` of this app; if it has none, those of the only mounted app that has any.

        Raises `ValueError` for a name that exists already, for an app that is mounted in itself, for a second app with
        `tasks` if this app has none, and for an app with options that would have no effect: its message says what to do
        instead. One of them is `exact`: such a handler is a whole server at a revision, its lists included, so
        nothing of this app could be served beside it. Raises `LocalProtocolError` if
        the server was created already and the other app has a lifespan, `tasks`, the first page or functions of a new kind.
        """
        for name, instead in NOT_MOUNTED.items():
            if app._options.get(name):
                raise ValueError(f"`{name}` of the mounted app would have no effect; {instead}")
        if prefix is not None and _PREFIX.fullmatch(prefix) is None:
            raise ValueError(f"'{prefix}' is not a prefix; use 1 to 64 of A-Z, a-z, 0-9, _, - and .")
        tasks = self._task_settings([app])
        late = tasks is not self._task_settings() or bool(app._lifespans())
        if self._registered.is_served and late:
            raise LocalProtocolError(
                "mount an app with a lifespan or `tasks` before the first use of `app.server`"
            )
        if app._registered.has_pages:
            self._registered.check_pages("what the mounted app has")
        if app._registered.has_skills:
            self._registered.check_skills(app._name)
        self._registered.mount(app._registered, prefix)
        if self._registered.is_served:
            from mcprev.app.bound_middleware import place_inner

            place_inner(self._registered, self._name)
        self._mounted.append(app)
        self._inner_routes.append((app, prefix))
