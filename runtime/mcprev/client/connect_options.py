"""The options of `mcprev.connect` and of `mcprev.connect_all`, whose functions also get the name of the server."""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias, TypedDict

from mcprev.client.options import TIMEOUT, TOTAL
from mcprev.core.options import Takes, either, fits, has, is_a, several
from mcprev.version import __version__

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from mcprev.client.callbacks import Elicitation, LogMessage, OnChange, OnWire, Roots, Sampling
    from mcprev.client.recording.tap import WireEvent
    from mcprev.client.request_handler import ClientHandler
    from mcprev.client.server_cache import Policy
    from mcprev.client.session import SessionFactory
    from mcprev.client.subscriptions import Change
    from mcprev.core.capabilities import DeclaredExtension
    from mcprev.core.questions import Reply
    from mcprev.core.reconnect_policy import ReconnectPolicy
    from mcprev.protocol.cache import ResultCache
    from mcprev.revisions import Era
    from mcprev_types.latest import models

PROBE: Final = 10.0
"""Seconds to wait for the response to `server/discover`: longer than a server takes to start."""
OPEN: Final = 60.0
"""Seconds to wait for the response to `initialize`."""
RootsOf: TypeAlias = "Roots | Callable[[str], Roots]"
SamplingOf: TypeAlias = (
    "Callable[[str, models.CreateMessageRequestParams], Awaitable[models.CreateMessageResult] | models.CreateMessageResult]"
)
ElicitationOf: TypeAlias = "Callable[[str, models.ElicitRequestParams], Awaitable[Reply] | Reply]"
LogMessageOf: TypeAlias = "Callable[[str, models.LoggingMessageNotificationParams], Awaitable[None] | None]"
OnWireOf: TypeAlias = "Callable[[str, WireEvent], object]"
OnChangeOf: TypeAlias = "Callable[[str, Change], Awaitable[None] | None]"
_TEXT: Final = Takes(is_a(str), "a text")
_SECONDS: Final = is_a(int, float)
_ANY: Final = fits(lambda _: True)
_FUNCTION: Final = fits(callable)


class ClientOptions(TypedDict, total=False):
    """The options of `mcprev.connect` and `mcprev.connect_all` that are the same. Times are in seconds."""

    handler: Annotated["ClientHandler | None", Takes(_ANY, "a mcprev.ClientHandler")]
    """A `mcprev.ClientHandler` for the server's requests and notifications; the client declares the capabilities of the methods
    that it overrides."""
    name: Annotated[str, Takes(is_a(str), "a text", "mcprev")]
    """The name of this client, for the server."""
    version: Annotated[str, Takes(is_a(str), "a text, such as '1.0'", __version__)]
    """The version of this client, for the server."""
    title: Annotated["str | None", _TEXT]
    """The name of this client that servers display."""
    description: Annotated["str | None", _TEXT]
    """A description of this client, for people."""
    website_url: Annotated["str | None", Takes(is_a(str), "a URL as a text")]
    """The URL of this client's website."""
    icons: Annotated[
        "Sequence[models.Icon]",
        Takes(
            several(has("to_wire")),
            "icons in a list, such as [mcprev_types.latest.Icon(src='https://...')]",
            (),
        ),
    ]
    """Icons of this client."""
    revisions: Annotated[
        "Sequence[str] | None", Takes(several(is_a(str)), "the names of revisions in a list")
    ]
    """The revisions to negotiate. None: every dated revision."""
    mode: Annotated[str, Takes(is_a(str), "'auto', 'legacy' or the name of a revision", "auto")]
    """Narrows the revisions: `auto` keeps all, `legacy` keeps those with an `initialize` handshake, and the name of a revision
    keeps that one."""
    capabilities: Annotated[
        "models.ClientCapabilities | None",
        Takes(has("to_wire"), "mcprev_types.latest.ClientCapabilities(...)"),
    ]
    """Capabilities to declare in addition to those of the handler, such as the URL mode of elicitation."""
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
    exact: Annotated["Mapping[str, object] | None", Takes(is_a(Mapping), "handlers by revision in a dict")]
    """Handlers by revision that get params in the types of that revision."""
    prior: Annotated[
        "models.DiscoverResult | None", Takes(has("to_wire"), "the earlier result of `server/discover`")
    ]
    """An earlier result of `server/discover` of this server, which saves a request."""
    era: Annotated["Era | None", Takes(_ANY, "the `client.spoken.era` of an earlier connection")]
    """The `client.spoken.era` of an earlier connection, which saves a request."""
    timeout: Annotated["float | None", Takes(_SECONDS, "a number of seconds", TIMEOUT)]
    """The maximum time without a response or progress: 60 by default. None: no maximum."""
    total_timeout: Annotated["float | None", Takes(_SECONDS, "a number of seconds", TOTAL)]
    """The maximum time of a whole call: 600 by default. None: no maximum."""
    probe_timeout: Annotated[float, Takes(_SECONDS, "a number of seconds", PROBE)]
    """The maximum time until the response to `server/discover`, 10 by default, behind which `initialize` is sent after 1 s."""
    open_timeout: Annotated[float, Takes(_SECONDS, "a number of seconds", OPEN)]
    """The maximum time until the response to `initialize`: 60 by default."""
    restart: Annotated[
        "ReconnectPolicy | bool",
        Takes(either(is_a(bool), has("delay")), "True, False or a mcprev.ReconnectPolicy(...)", default=True),
    ]
    """A `mcprev.ReconnectPolicy` for lost connections. True, the default: that of the target, `ReconnectPolicy()` for `stdio`
    and `http`. False: a lost connection is not opened again. A call in progress fails when the connection is lost; it is not
    repeated, because a new server process has no state."""
    cache: Annotated[
        "ResultCache | bool",
        Takes(either(is_a(bool), has("put")), "True, False or a mcprev.ResultCache(...)", default=True),
    ]
    """Stores results for as long as the server allows. True, the default: in a cache of this client alone. False: not. A
    `mcprev.ResultCache` can be shared by targets with a `cache_key`, its private results by the same `principal`."""
    validate: Annotated["Policy", Takes(_ANY, "'warn', 'strict' or 'off'", "warn")]
    """If a tool's result does not match the tool's output schema, `warn`, the default, logs it, `strict` raises
    `RemoteProtocolError`, and `off` does not check."""
    strict: Annotated[bool, Takes(is_a(bool), "True or False", default=False)]
    """True raises `RemoteProtocolError` for a list with an entry that is not valid. False, the default: the entry is left out, a
    warning is logged, and `Client.invalid_entries` has it."""
    ping_interval: Annotated["float | None", Takes(_SECONDS, "a number of seconds")]
    """The time between pings, at revisions with `ping`. The connection to a server that does not respond within 10 s is closed.
    None: no pings."""
    tasks: Annotated[bool, Takes(is_a(bool), "True or False", default=True)]
    """Whether the client declares that the server may respond to a call with a task, whose result it waits for: True by
    default."""
    record: Annotated[
        "str | os.PathLike[str] | None", Takes(is_a(str, os.PathLike), "the path of a file to append to")
    ]
    """The path of a file to which every message is appended, for `mcprev validate`, with arguments and results, and the status
    and media type of HTTP responses, but without HTTP headers and members with names of secrets. None: no recording."""
    telemetry: Annotated["SessionFactory | None", Takes(has("session", "wrap"), "mcprev.Telemetry(...)")]
    """A `mcprev.Telemetry`, which records a span for each request and sends its id in `_meta`."""


class ConnectionOptions(ClientOptions, total=False):
    """The options of `mcprev.connect`. Times are in seconds."""

    roots: Annotated["Roots | None", Takes(_ANY, "paths, `file:` URIs or `Root` models in a list")]
    """Paths, `file:` URIs or `Root` models in a sequence, which is read again for each request. Like the three functions below
    it, instead of a `handler`."""
    sampling: Annotated["Sampling | None", Takes(_FUNCTION, "a function of the params")]
    """A function of the params, async or not, that returns a `CreateMessageResult`."""
    elicitation: Annotated["Elicitation | None", Takes(_FUNCTION, "a function of the params")]
    """A function of the params, async or not, that returns the content of the form as a dict, None to decline, or an
    `ElicitResult`."""
    logging: Annotated["LogMessage | None", Takes(_FUNCTION, "a function of the params")]
    """A function, async or not, that gets log messages, which `client.set_log_level` requests."""
    on_change: Annotated["OnChange | None", Takes(_FUNCTION, "a function of a mcprev.Change")]
    """A function, async or not, that is called with each `mcprev.Change` of the lists of tools, prompts and resources."""
    tap: Annotated["OnWire | None", Takes(_FUNCTION, "a function, which is called with each WireEvent")]
    """A function that is called with each `mcprev.WireEvent`: all that is sent and received, with its secrets, in the order of
    the wire. It must not be async or block. If it raises, it is not called again."""


class ConnectOptions(ClientOptions, total=False):
    """The options of `mcprev.connect_all`: those of `mcprev.connect`; functions among them get the name of the server first."""

    roots: Annotated[
        "RootsOf | None", Takes(_ANY, "a list of roots, or a function of the name that returns one")
    ]
    """Those of `mcprev.connect`, or a function of the name of the server that returns them."""
    sampling: Annotated[
        "SamplingOf | None", Takes(_FUNCTION, "a function of the server's name and the params")
    ]
    """That of `mcprev.connect`, called as `sampling(server, params)`."""
    elicitation: Annotated[
        "ElicitationOf | None", Takes(_FUNCTION, "a function of the server's name and the params")
    ]
    """That of `mcprev.connect`, called as `elicitation(server, params)`."""
    logging: Annotated[
        "LogMessageOf | None", Takes(_FUNCTION, "a function of the server's name and the params")
    ]
    """That of `mcprev.connect`, called as `logging(server, params)`."""
    on_change: Annotated[
        "OnChangeOf | None", Takes(_FUNCTION, "a function of the server's name and a mcprev.Change")
    ]
    """That of `mcprev.connect`, called as `on_change(server, change)`."""
    tap: Annotated["OnWireOf | None", Takes(_FUNCTION, "a function of the server's name and a WireEvent")]
    """That of `mcprev.connect`, called as `tap(server, event)`."""
