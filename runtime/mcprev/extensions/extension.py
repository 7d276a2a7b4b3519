"""An extension of MCP: a name and settings that peers declare, and methods that a schema of its own describes.

MOD-16, MOD-17. The methods are those of a package that `mcprev generate --schema` has written. They are the same at every
revision: their params and results are not converted. A peer that has not declared the extension does not find them, unless
the extension says that the declaration of the server suffices.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, TypeAlias, cast, get_args

from pydantic import ValidationError
from typing_extensions import TypeVar, Unpack, override

from mcprev.callbacks import finished
from mcprev.client.options import Options
from mcprev.client.request_handler import ClientContext
from mcprev.conversion import ConversionContext
from mcprev.core.capabilities import overridden
from mcprev.core.exact import ExactSender, Package, read_any, row_of
from mcprev.core.method_binding import MethodBinding, Stub, first, reader
from mcprev.errors import ConversionError, InvalidParams, Json, LocalProtocolError, MethodNotFound
from mcprev.protocol.meta import extension_error
from mcprev.protocol.stateless import missing_capability
from mcprev.protocol.tasks import METHODS as TASK_METHODS
from mcprev.revisions import ALL, Revision, load
from mcprev.server.context import Context
from mcprev.server.sending import ASK_TIMEOUT
from mcprev_types import Kind, MethodSpec
from mcprev_types.latest import models

if TYPE_CHECKING:
    from mcprev.client.client import Client

C_co = TypeVar("C_co", covariant=True, default=object)
S_co = TypeVar("S_co", covariant=True, default=object)
Needs: TypeAlias = Literal["both", "server"]
"""Who has to declare an extension before it is used: client and server, or the server alone."""
_logger: Final = logging.getLogger("mcprev.extensions")


class Extension(Generic[C_co, S_co]):
    """An extension that a peer declares: `mcprev.App(..., extensions=[Extension("com.acme/forecast")])`.

    It is used with peers that declare it too: `ctx.client_supports(name)` and `client.supports(name)` say whether the
    peer of a request or a connection does. With `needs="server"` it is used with every server that declares it.
    """

    def __init__(
        self,
        name: str,
        settings: Mapping[str, Json] | None = None,
        *,
        types: Package[C_co, S_co] | None = None,
        server: object = None,
        client: object = None,
        needs: Needs = "both",
    ) -> None:
        """Set what is declared, and the methods.

        - `name` is the name in the capabilities: dotted labels, a slash and a name, as in `com.acme/forecast`.
        - `settings` are what this side declares about the extension, a JSON object. None: an empty one.
        - `types` is the package with the extension's methods and types, which `mcprev generate --schema` writes; see
          docs/extensions.md. Methods of MCP that it repeats are not those of the extension. None: there are no methods.
        - `server` serves the methods that clients send: a subclass of the package's `ServerHandler`, whose methods get a
          `mcprev.Context`. `client` serves those that servers send: a subclass of its `ClientHandler`, whose methods get
          a `mcprev.ClientContext`. Either may be left out, and is not used on the other side.
        - `needs` says whose declaration the extension's methods need: that of `both` sides, or of the `server` alone, for
          an extension whose text asks nothing of clients. It is the same on both sides.

        Raises `ValueError` for an invalid name, for settings that are not JSON, for a package of an unknown revision, for
        another `needs`, and for a handler of a method of MCP; `TypeError` for a handler of another class.
        """
        wrong = extension_error(name)
        if wrong is not None:
            raise ValueError(wrong)
        if needs not in get_args(Needs):
            raise ValueError(f"`needs` is {needs!r:.40}; use 'both' or 'server'")
        self.name: str = name
        """The name in the capabilities."""
        self.needs: Needs = needs
        """Whose declaration its methods need."""
        declared = models.ServerCapabilities(extensions={name: dict(settings or {})}).to_wire()
        self.settings: Mapping[str, Json] = declared["extensions"][name]
        """What this side declares about the extension."""
        self._types = types
        self._row: Revision | None = None if types is None else row_of(types)
        self._handlers = {"ServerHandler": server, "ClientHandler": client}
        for base, handler in self._handlers.items():
            self._check_handler(base, handler)

    @override
    def __repr__(self) -> str:
        return f"<Extension {self.name}>"

    def _check_handler(self, base: str, handler: object) -> None:
        if handler is None:
            return
        if self._row is None:
            raise TypeError(f"pass `types`, the package of the methods that {type(handler).__name__} serves")
        if not isinstance(handler, getattr(load(self._row, "dispatch"), base)):
            kind = handler.__name__ if isinstance(handler, type) else type(handler).__name__
            raise TypeError(f"{kind} must be an instance of a subclass of {self._row.package}.{base}")
        for method in overridden(handler, self._row, base):
            if method in _methods_of_mcp():
                raise ValueError(
                    f"'{method}' is a method of MCP and not of the extension: serve it with the handler of the peer, or "
                    "with `exact`"
                )

    def methods(self, base: str, /) -> dict[str, AddedBinding]:
        """Return the methods that the handler for a side serves, by name; the runtime calls this."""
        handler, row = self._handlers[base], self._row
        if handler is None or row is None:
            return {}
        return {
            method: AddedBinding(self.name, self.needs, row, row.methods[method], handler)
            for method in overridden(handler, row, base)
        }

    def client_calls(self, client: Client, **options: Unpack[Options]) -> C_co:
        """Return the methods that a client sends, typed: `await FORECAST.client_calls(client).acme_forecast(params)`.

        `options` are those of `Client.call_tool`, for each call. A call raises `LocalProtocolError` if the server has not
        declared the extension or, unless it needs only that, the client has not; and for a notification at a revision whose
        clients send none; and the errors of `Client.call_tool`.
        """

        def check(method: str) -> None:
            if not declared_to(client, self.name, self.needs):
                who = (
                    "the server does not declare"
                    if self.needs == "server"
                    else "client and server do not both declare"
                )
                raise LocalProtocolError(f"'{method}' is of the extension '{self.name}', which {who}")

        async def request(method: str, params: dict[str, Json] | None) -> dict[str, Json]:
            check(method)
            return await client.raw(method, params, **options)

        def notify(method: str, params: dict[str, Json] | None) -> None:
            check(method)
            if not client.spoken.handshake:
                raise LocalProtocolError(
                    f"'{method}' cannot be sent: clients of {client.revision} send no notifications"
                )
            client.session.notify(method, params)

        return self._required_types.ClientCalls(ExactSender(self._required_row, request, notify))

    def server_calls(self, ctx: Context, *, timeout: float | None = ASK_TIMEOUT) -> S_co:
        """Return the methods that a server sends while it serves a request, typed.

        `timeout` is the time in seconds that the client has to answer a request. A call raises `MissingClientCapability`
        if the client has not declared the extension, and it needs both declarations; `LocalProtocolError` for a request at a
        revision whose servers send none; and the errors of `Context.ask`.
        """

        def check() -> None:
            if self.needs == "both" and not ctx.client_supports(self.name):
                raise missing_capability({"extensions": {self.name: {}}})

        async def request(method: str, params: dict[str, Json] | None) -> dict[str, Json]:
            check()
            return await ctx.raw(method, params, timeout=timeout, unchecked=True)

        async def notify(method: str, params: dict[str, Json] | None) -> None:
            check()
            await ctx.notify(method, params)

        return self._required_types.ServerCalls(ExactSender(self._required_row, request, notify))

    @property
    def _required_types(self) -> Package[C_co, S_co]:
        if self._types is None:
            raise LocalProtocolError(f"the extension '{self.name}' has no methods: pass `types`")
        return self._types

    @property
    def _required_row(self) -> Revision:
        return cast("Revision", self._row)


def declared_to(client: Client, extension: str, needs: Needs) -> bool:
    """Return whether a client may use an extension with its server."""
    if needs == "both":
        return client.supports(extension)
    return client.extension_settings(extension) is not None


@cache
def _methods_of_mcp() -> frozenset[str]:
    """Return the methods that some revision defines."""
    return frozenset[str]().union(*(row.methods for row in ALL), *TASK_METHODS.values())


class AddedBinding(MethodBinding):
    """A method of an extension, in place of one of the revision: nothing is converted."""

    __slots__ = ("_extension", "_handler", "_needs", "_row", "_spec", "kind")

    def __init__(
        self, extension: str, needs: Needs, row: Revision, spec: MethodSpec, handler: object
    ) -> None:  # pyright: ignore[reportMissingSuperCall]
        self.method: str = spec.method
        self.revision: Revision = row
        self.may_ask: bool = False
        self.kind: Kind = Kind(spec.kind)
        self.stub: Stub = self._guarded(getattr(handler, spec.attr))
        self._extension = extension
        self._needs: Needs = needs
        self._row, self._spec, self._handler = row, spec, handler
        self._read = reader(row, spec.params)

    def bind(self, _revision: Revision, /) -> AddedBinding:
        """Return the binding for a revision, around whose stub the caller puts its middleware."""
        return AddedBinding(self._extension, self._needs, self._row, self._spec, self._handler)

    @override
    def params(self, given: dict[str, Json] | None, context: ConversionContext | None) -> object:
        """Return the params as a model, or as they are if they are not valid: it is not known yet whether the peer has
        declared the extension.
        """
        try:
            return self._read(given)
        except ValidationError:
            return given

    @override
    def result(self, wire: dict[str, Json], context: ConversionContext | None = None) -> dict[str, Json]:
        """Return the result. Raises `ConversionError` for one that the schema does not allow."""
        try:
            read_any(self._row, self._spec, wire)
        except ValidationError as error:
            raise ConversionError(
                f"the result is not valid: {first(error, wire)}", path="$", revision=self._row.package
            ) from None
        return wire

    def _guarded(self, stub: Callable[[Any, Any], object]) -> Stub:
        async def served(ctx: Context | ClientContext, params: object) -> object:
            if isinstance(ctx, Context):
                # A server that has this binding declares the extension.
                declared = self._needs == "server" or ctx.client_supports(self._extension)
                stamp = ctx.stamp
            else:
                declared, stamp = declared_to(ctx.client, self._extension, self._needs), dict[str, Json]()
            if not declared:
                if self.kind is Kind.NOTIFICATION:
                    _logger.debug("'%s' is ignored: '%s' is not declared", self.method, self._extension)
                    return None
                who = "the server" if self._needs == "server" else "both sides"
                raise MethodNotFound(
                    f"Method not found: {self.method} is of the extension '{self._extension}', which is not declared by {who}"
                )
            return await finished(stub(ctx, self._checked(params, stamp)))

        return served

    def _checked(self, params: Any, stamp: Mapping[str, Json]) -> object:  # noqa: ANN401 - JSON or a model
        """Return the params as a model; where sessions carry it, `_meta` is filled in. Raises `InvalidParams`."""
        if hasattr(params, "to_wire"):
            return params
        given: dict[str, Json] = dict(params or {})
        meta: Json = given.get("_meta", {})
        if isinstance(meta, dict) and stamp:
            given["_meta"] = {**stamp, **meta}
        try:
            return self._read(given)
        except ValidationError as error:
            raise InvalidParams(f"Invalid params: {first(error, given)}") from None
