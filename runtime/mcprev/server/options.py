"""The options of what serves clients, of `mcprev.Server` and of `mcprev.Bridge`."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Final, TypedDict

from mcprev.core.limits import MAX_HANDLERS
from mcprev.core.options import Takes, either, fits, has, is_a, several
from mcprev.wire.jsonrpc import MAX_LINE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mcprev.auth.bearer import Bearer
    from mcprev.conversion import OnDowngrade
    from mcprev.core.capabilities import DeclaredExtension
    from mcprev.core.store import Records
    from mcprev.protocol.request_state import RequestStateSealer
    from mcprev.server.middleware import Middleware
    from mcprev.server.session_state import StateLimits
    from mcprev.server.tasks import Tasks
    from mcprev.transports.http.server.options import HttpOptions
    from mcprev_types.latest import models

_ICON: Final = "mcprev_types.latest.Icon(src='https://...')"
_TOOL_CALL: Final = "{'tools/call': mcprev_types.latest.ClientCapabilities(...)}"


class OfferOptions(TypedDict, total=False):
    """The options of `mcprev.Server` that say what it is and what it offers."""

    revisions: Annotated[
        "tuple[str, ...] | list[str] | None", Takes(several(is_a(str)), "the names of revisions in a list")
    ]
    """The revisions to offer, such as `["2025-11-25"]`. None: every dated one, or those in `exact` without a handler; the
    draft is offered only if named."""
    instructions: Annotated["str | None", Takes(is_a(str), "a text")]
    """Advice on how to use the server, for the model of the client."""
    title: Annotated["str | None", Takes(is_a(str), "a text")]
    """The name of the server that clients display, at the revisions that have it."""
    description: Annotated["str | None", Takes(is_a(str), "a text")]
    """A description of the server, for people."""
    website_url: Annotated["str | None", Takes(is_a(str), "a URL as a text")]
    """The URL of the server's website."""
    icons: Annotated[
        "Sequence[models.Icon]",
        Takes(several(has("to_wire")), f"icons in a list, such as [{_ICON}]", ()),
    ]
    """Icons of the server that clients display."""
    exact: Annotated["Mapping[str, object] | None", Takes(is_a(Mapping), "handlers by revision in a dict")]
    """Handlers by revision, such as a subclass of `mcprev_types.v2025_06_18.ServerHandler`, each written in the types of that
    revision. Clients of that revision are served by its handler, without conversion, and not by the server's handler or the
    app's functions."""
    capabilities: Annotated[
        "models.ServerCapabilities | None",
        Takes(has("to_wire"), "mcprev_types.latest.ServerCapabilities(...)"),
    ]
    """Capabilities to declare in addition to those that follow from the overridden methods or the registered functions."""
    extensions: Annotated[
        "Sequence[DeclaredExtension]",
        # A text is refused where its name is known, by an error that has it.
        Takes(
            several(either(is_a(str), has("methods"))),
            "extensions in a list, such as [mcprev.Extension('com.example/name')]",
            (),
        ),
    ]
    """The extensions to declare, each a `mcprev.Extension`, with the methods that they add."""
    requires: Annotated[
        "Mapping[str, models.ClientCapabilities] | None",
        Takes(
            several(has("to_wire"), within=Mapping),
            f"client capabilities by method, such as {_TOOL_CALL}",
        ),
    ]
    """Client capabilities that a method requires, by method, such as `tools/call`. A client that does not declare them
    gets the error `MissingClientCapability`."""


class ServiceOptions(TypedDict, total=False):
    """The options of whatever serves clients: what its processes share, what runs around calls, HTTP, and limits."""

    states: Annotated[
        "RequestStateSealer | None", Takes(has("seal", "open"), "mcprev.RequestStateSealer(...)")
    ]
    """Signs the request state that clients of stateless revisions carry. Pass a `mcprev.RequestStateSealer` with keys if several
    processes serve the same clients. None: keys in the `store`, or a key of this process."""
    store: Annotated[
        "Records | None", Takes(has("read"), "a store, such as mcprev.open_store('sqlite:///app.db')")
    ]
    """What processes that serve the same clients under the same name share: `ctx.session`, tasks, keys of request states,
    changes and rate limits. None: the memory of this process."""
    state: Annotated["StateLimits | None", Takes(has("max_keys", "max_bytes"), "mcprev.StateLimits(...)")]
    """The limits of `ctx.session` for each session. None: the defaults of `mcprev.StateLimits`."""
    tasks: Annotated[
        "Tasks | None",
        Takes(
            has("tools", "support"),
            "mcprev.Tasks({'build': 'optional'}) with the names of tools; of an App, task='optional' on the tool is enough",
        ),
    ]
    """The tools that can run as tasks, and the limits of tasks; see `mcprev.Tasks`. None: no tool can, or those of an app with
    the option `task`."""
    middleware: Annotated[
        "Sequence[Middleware]",
        Takes(
            several(either(fits(callable), has("connected"))),
            "middleware in a list: functions `async def f(call, call_next)`",
            (),
        ),
    ]
    """Functions `async def f(call, call_next)` around every call of a handler's method or a registered function, the first one
    outermost. They are not called for what the runtime serves itself: the handshake, pings, subscriptions and requests
    about tasks."""
    # Checked with the options of HTTP, which have it too.
    auth: Annotated["Bearer | None", Takes(fits(lambda _: True), "mcprev.Bearer(...)")]
    """Requires and verifies access tokens of HTTP clients, such as a `mcprev.Bearer`. None: no tokens are required."""
    http: Annotated[
        "HttpOptions | None",
        Takes(is_a(Mapping), "the options of HTTP in a dict, such as {'drain': 10}"),
    ]
    """The other options of serving over HTTP, such as `{"origins": ["https://app.example"], "drain": 10}`. They hold for
    `run_http`, `serve_http`, `asgi` and `mcprev serve`, whose own options replace them one by one."""
    on_downgrade: Annotated[
        "OnDowngrade | None", Takes(fits(callable), "a function of a value, the reason and the revision")
    ]
    """Called as `on_downgrade(value, reason, revision)` with each value that the revision of the client cannot represent; returns
    the value to send instead, or None for the default replacement. None: the default replacements."""
    ping_interval: Annotated["float | None", Takes(is_a(int, float), "a number of seconds")]
    """Seconds between pings to clients with a session. A client that does not respond within 10 s is disconnected.
    None: no pings."""
    max_line: Annotated[int, Takes(is_a(int), "a number of bytes", MAX_LINE, above_zero=True)]
    """The maximum size of a message in bytes on stdio and in memory: 16 MiB by default."""
    max_handlers: Annotated[int, Takes(is_a(int), "a number of requests", MAX_HANDLERS, above_zero=True)]
    """The maximum number of requests of one connection that are served at a time: 1,024 by default."""


def options_of_http(options: ServiceOptions) -> "HttpOptions":
    """Return the options of HTTP that a server is made with. Raises `TypeError` and `ValueError` for wrong ones."""
    given, auth = options.get("http"), options.get("auth")
    found: HttpOptions = {} if given is None else {**given}
    if auth is not None:
        if "auth" in found:
            raise ValueError("`auth` is given twice: pass it as `auth=` or in `http`, not both")
        found["auth"] = auth
    if found:
        from mcprev.transports.http.server.options import http_settings

        http_settings(found)
    return found
