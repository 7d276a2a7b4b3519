"""The options of `mcprev.App` and of its decorators."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, TypedDict

from mcprev.app.signatures import Function
from mcprev.app.uri_templates import Template
from mcprev.core.options.names import no_such_option
from mcprev.core.options.server import check_server_kinds
from mcprev.errors import Json
from mcprev.json_schema.typed import Schema
from mcprev.server.context import Context
from mcprev_types.latest import models

if TYPE_CHECKING:
    from mcprev.auth.bearer import Bearer
    from mcprev.conversion import OnDowngrade
    from mcprev.core.capabilities import DeclaredExtension
    from mcprev.core.store import Records
    from mcprev.extensions.ui import ToolInterface, UserInterface
    from mcprev.protocol.request_state import RequestStateSealer
    from mcprev.server.middleware import Middleware
    from mcprev.server.server import Lifespan
    from mcprev.server.session_state import StateLimits
    from mcprev.server.tasks import Tasks
    from mcprev.transports.http.server.options import HttpOptions

_OWN: Final = (
    "tags", "visible", "task", "ui", "version", "timeout", "strict_arguments", "ttl_ms", "cache_scope",
)  # fmt: skip
"""Options that are not sent to clients as members of the entry."""
_OF_APPS: Final = ("visible", "executor", "strict_arguments", "list_ttl_ms")
"""The options of `mcprev.App` that are its own."""
NOT_MOUNTED: Final = {
    "show_errors": "pass it to the app that mounts it, or raise `mcprev.ToolError` in the tools",
    **dict.fromkeys(
        ("exact", "requires", "on_downgrade", "capabilities", "extensions", "auth", "http", "store", "state"),
        "pass it to the app that mounts it",
    ),
}
"""Options that would have no effect in a mounted app, and what to do instead."""


class ServerOptions(TypedDict, total=False):
    """The options of `mcprev.App` that it passes to `mcprev.Server`."""

    revisions: tuple[str, ...] | list[str] | None
    """The revisions to offer, such as `["2025-11-25"]`. None: every dated one; the draft is offered only if named."""
    instructions: str | None
    """Advice on how to use the server, for the model of the client."""
    title: str | None
    """The name of the server that clients display."""
    description: str | None
    """A description of the server, for people."""
    website_url: str | None
    """The URL of the server's website."""
    icons: Sequence[models.Icon]
    """Icons of the server that clients display."""
    exact: Mapping[str, object] | None
    """Handlers by revision, each written in the types of that revision. Clients of that revision are served by its
    handler and not by the app's functions."""
    capabilities: models.ServerCapabilities | None
    """Capabilities to declare in addition to those that follow from the registered functions."""
    extensions: Sequence[DeclaredExtension]
    """The extensions to declare, each a `mcprev.Extension`, with the methods that they add."""
    requires: Mapping[str, models.ClientCapabilities] | None
    """Client capabilities that a method requires, by method, such as `tools/call`. A client that does not declare them
    gets the error `MissingClientCapability`."""
    states: RequestStateSealer | None
    """Signs request state. Pass a `mcprev.RequestStateSealer` with keys if several processes serve the same clients.
    None: keys in the `store`, or a key of this process."""
    store: Records | None
    """What processes that serve the same clients share: `ctx.session`, tasks, keys of request states, changes and rate
    limits. None: the memory of this process."""
    state: StateLimits | None
    """The limits of `ctx.session` for each session. None: the defaults of `mcprev.StateLimits`."""
    tasks: Tasks | None
    """The tools that can run as tasks, and the limits of tasks; see `mcprev.Tasks`. None: those with the option `task`."""
    lifespan: Lifespan | Sequence[Lifespan]
    """An async generator function that gets the server, opens what functions need, yields it, and closes it; or
    several, entered in order. It runs once, from before the first request until after the last one."""
    middleware: Sequence[Middleware]
    """Functions `async def f(call, call_next)` around every call of a registered function, the first one outermost."""
    auth: Bearer | None
    """Requires and verifies access tokens of HTTP clients, such as a `mcprev.Bearer`. None: no tokens are required."""
    http: HttpOptions | None
    """The other options of serving over HTTP, such as `{"origins": ["https://app.example"], "drain": 10}`. They hold for
    `run_http`, `asgi` and `mcprev serve`, whose own options replace them one by one."""
    on_downgrade: OnDowngrade | None
    """Called with each value that the revision of the client cannot represent; returns the value to send instead. None:
    the default replacements."""
    show_errors: bool
    """Whether the text of every exception of a tool is sent to the model. Default: only that of `ToolError`."""
    ping_interval: float | None
    """Seconds between pings to clients with a session. A client that does not respond within 10 s is disconnected.
    None: no pings."""
    max_line: int
    """The maximum size of a message in bytes on stdio and in memory: 16 MiB by default."""
    max_handlers: int
    """The maximum number of requests of one connection that are served at a time: 1,024 by default."""


class EntryOptions(TypedDict, total=False):
    """The options of every decorator. None is required."""

    name: str
    """The name that clients use. Default: the function's name."""
    title: str
    """The name that clients display. Default: none."""
    description: str
    """The description, for the model or the user. Default: the docstring of the function, without its section about arguments, which describes each of them in the schema."""
    icons: Sequence[models.Icon | Mapping[str, Json]]
    """Icons that clients display."""
    meta: dict[str, Json]
    """The `_meta` of the entry in lists."""
    tags: Collection[str]
    """Labels for `App(visible=...)`, `App.disable` and `App.enable`; clients do not see them."""
    visible: Callable[[Context], bool | Awaitable[bool]]
    """Returns whether the client of a request sees the entry. If not, the entry is not listed, and a call gets the
    error of an unknown name. It may be async. Anything but True counts as False."""


class ToolOptions(EntryOptions, total=False):
    """The options of `App.tool`."""

    annotations: models.ToolAnnotations | Mapping[str, Json]
    """Hints about the tool's behaviour, such as `ToolAnnotations(read_only_hint=True)`."""
    task: Literal["optional", "required"]
    """`optional`: clients can call the tool as a task. `required`: they must. Default: as `mcprev.Tasks` says, or
    never."""
    version: str
    """A version of the tool: numbers joined by dots or dashes, such as `2` or `2026-01-31`. Clients see the newest
    under the plain name, and call any as `name@version`. Default: the tool has no versions."""
    timeout: float
    """The seconds in which a call has to end; then the tool fails with an error that says so. Questions to the user count at
    revisions with sessions; at others each answer is another request, which has these seconds anew. A function that is not
    async runs on, as its thread cannot be stopped. Default: no limit."""
    strict_arguments: bool
    """True refuses arguments of other types, as `App` describes. Default: the option of the app."""
    ui: UserInterface | ToolInterface
    """The page that shows the results in clients that show pages, as `App.ui` returns it; with `page.app_only`, the page
    calls the tool and the model does not see it. Default: none."""


class ResourceOptions(EntryOptions, total=False):
    """The options of `App.resource`."""

    mime_type: str
    """The MIME type of the contents. Default: none for text and bytes, `application/json` for other values."""
    annotations: models.Annotations | Mapping[str, Json]
    """The audience of the resource and its priority."""
    ttl_ms: int
    """How long a client may cache the contents, in milliseconds; sent at revisions with `ttlMs`. Default: 0, no caching."""
    cache_scope: Literal["public", "private"]
    """`public`: clients may share cached contents between users. `private`, the default, and for what only some clients
    see: they must not.
    """


def check_server_options(options: Mapping[str, object]) -> None:
    """Raise `TypeError` for an unknown option of `App`, and for one whose value is of another kind: what to pass.

    `options` has the name and the version too.
    """
    for name in options.keys() - {"name", "version", *_OF_APPS, *ServerOptions.__annotations__}:
        raise no_such_option("App", name, (*_OF_APPS, *ServerOptions.__annotations__))
    check_server_kinds(options)


def read_options(
    function: Function, options: Mapping[str, Any], known: type
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the members of the entry that clients see, with defaults from the function, and the other options."""
    for name in options.keys() - known.__annotations__.keys():
        function.refuse(f"no option '{name}'; the options are {', '.join(known.__annotations__)}")
    if isinstance(options.get("tags"), str):
        function.refuse("`tags` is one string; pass several in a set, as in tags={'admin'}")
    said = {"name": function.name, "description": function.description, **options}
    return {name: said[name] for name in said if name not in _OWN}, {
        name: said[name] for name in said if name in _OWN
    }


def check_variables(function: Function, template: Template) -> None:
    """Raise `TypeError` if the parameters of a function are not the variables of its template."""
    for name in template.names:
        if name not in function.names:
            function.refuse(f"has no parameter '{name}', which is a variable of '{template.text}'; add it")
    for name in function.required & template.left_out:
        function.refuse(f"needs a default: a URI of '{template.text}' may leave it out", name)
    for name in function.required.difference(template.names):
        function.refuse(
            f"is not a variable of '{template.text}'; add it there in braces, or give it a default", name
        )
    lists = lists_of(function)
    check_texts(function, [name for name in template.names if name not in lists], "URIs")


def lists_of(function: Function) -> frozenset[str]:
    """Return the names of the arguments that are lists of what can be converted from text."""
    schema = function.schema

    def is_list(argument: Schema) -> bool:
        if _is_text(argument, schema):
            return False
        return any(
            _is_text(each.get("items", {}), schema) for each in _alternatives(argument, schema, {"array"})
        )

    return frozenset(name for name, argument in schema.get("properties", {}).items() if is_list(argument))


def check_texts(function: Function, names: Sequence[str], of: str) -> None:
    """Raise `TypeError` for an argument that cannot be converted from text."""
    for name in names:
        if not _is_text(function.schema["properties"][name], function.schema):
            function.refuse(f"cannot be converted from text, and arguments of {of} are text", name)


def _is_text(schema: Schema, root: Schema) -> bool:
    """Return whether a schema accepts a string."""
    return any(each.get("type") not in {"array", "object", "null"} for each in _alternatives(schema, root))


def _alternatives(schema: Schema, root: Schema, types: Collection[str] = ()) -> Iterator[Schema]:
    """Yield the schemas one of which a value has to fit, of some types or of all."""
    if "$ref" in schema:
        schema = root["$defs"][schema["$ref"].rpartition("/")[2]]
    for option in schema.get("anyOf") or schema.get("oneOf") or ():
        yield from _alternatives(option, root, types)
    if not {"anyOf", "oneOf"} & schema.keys() and (not types or schema.get("type") in types):
        yield schema
