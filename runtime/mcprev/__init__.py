"""mcprev: every dated revision of the Model Context Protocol, as server and as client.

Names are imported on first use, so that importing the package costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from mcprev.analysis.catalog import RuleInfo as RuleInfo, catalog as catalog
    from mcprev.analysis.counterparts import (
        Counterpart as Counterpart,
        counterpart as counterpart,
        http_headers as http_headers,
    )
    from mcprev.analysis.explaining import (
        ConversionChange as ConversionChange,
        Explanation as Explanation,
        explain as explain,
    )
    from mcprev.analysis.judging import Violation as Violation, judge as judge, judge_headers as judge_headers
    from mcprev.analysis.schemas import schema_of as schema_of
    from mcprev.app.app import App as App
    from mcprev.app.content import Audio as Audio, File as File, Image as Image
    from mcprev.app.dependencies import Depends as Depends, FromLifespan as FromLifespan
    from mcprev.app.openapi.routes import OpenApiRoute as OpenApiRoute
    from mcprev.app.routes import RouteRequest as RouteRequest
    from mcprev.auth.any_verifier import AnyVerifier as AnyVerifier
    from mcprev.auth.authorization_server.grants import User as User
    from mcprev.auth.authorization_server.login import Login as Login
    from mcprev.auth.authorization_server.providers import Provider as Provider
    from mcprev.auth.bearer import Bearer as Bearer
    from mcprev.auth.client.grants import (
        ClientCredentials as ClientCredentials,
        EnterpriseManaged as EnterpriseManaged,
        OAuth as OAuth,
        WorkloadIdentity as WorkloadIdentity,
    )
    from mcprev.auth.client.loopback import Loopback as Loopback
    from mcprev.auth.client.steps import DeviceCode as DeviceCode
    from mcprev.auth.client.store import (
        MemoryTokens as MemoryTokens,
        Registration as Registration,
        TokenKey as TokenKey,
        Tokens as Tokens,
        TokenStore as TokenStore,
    )
    from mcprev.auth.client.token_stores import (
        DiskTokens as DiskTokens,
        KeyringTokens as KeyringTokens,
    )
    from mcprev.auth.static_tokens import StaticTokens as StaticTokens
    from mcprev.auth.verifiers import (
        IntrospectionVerifier as IntrospectionVerifier,
        JwtVerifier as JwtVerifier,
    )
    from mcprev.bridge.bridge import Bridge as Bridge
    from mcprev.client.client import Client as Client
    from mcprev.client.connect import connect as connect
    from mcprev.client.connect_all import Clients as Clients, connect_all as connect_all
    from mcprev.client.connect_options import ConnectOptions as ConnectOptions
    from mcprev.client.options import Options as Options
    from mcprev.client.recording.tap import (
        HttpExchange as HttpExchange,
        WireEvent as WireEvent,
        WireKind as WireKind,
    )
    from mcprev.client.request_handler import (
        ClientContext as ClientContext,
        ClientHandler as ClientHandler,
        form_defaults as form_defaults,
    )
    from mcprev.client.resource_result import ResourceResult as ResourceResult
    from mcprev.client.subscriptions import Change as Change, Subscription as Subscription
    from mcprev.client.targets import Target as Target
    from mcprev.client.tasks import ClientTask as ClientTask
    from mcprev.client.tool_result import ToolResult as ToolResult
    from mcprev.conversion.ladder import convert as convert
    from mcprev.core.questions import (
        Accepted as Accepted,
        Cancelled as Cancelled,
        Declined as Declined,
        Sampled as Sampled,
    )
    from mcprev.core.reconnect_policy import ReconnectPolicy as ReconnectPolicy
    from mcprev.core.store import (
        LogBounds as LogBounds,
        LogItem as LogItem,
        LogTail as LogTail,
        Record as Record,
        Records as Records,
        Store as Store,
    )
    from mcprev.errors import (
        AuthError as AuthError,
        AuthorizationDenied as AuthorizationDenied,
        ConnectionLost as ConnectionLost,
        ConversionError as ConversionError,
        DiscoveryFailed as DiscoveryFailed,
        HttpStatusError as HttpStatusError,
        InputDeclined as InputDeclined,
        InsufficientScope as InsufficientScope,
        InternalError as InternalError,
        InvalidParams as InvalidParams,
        InvalidRequest as InvalidRequest,
        IssuerMismatch as IssuerMismatch,
        LocalProtocolError as LocalProtocolError,
        McpError as McpError,
        MethodNotFound as MethodNotFound,
        MissingClientCapability as MissingClientCapability,
        NegotiationError as NegotiationError,
        ProcessExited as ProcessExited,
        RegistrationRejected as RegistrationRejected,
        RemoteProtocolError as RemoteProtocolError,
        RequestTimeout as RequestTimeout,
        ResourceNotFound as ResourceNotFound,
        RpcError as RpcError,
        SchemaError as SchemaError,
        ServersFailed as ServersFailed,
        SessionExpired as SessionExpired,
        StateTooLarge as StateTooLarge,
        StoreError as StoreError,
        StoreShareError as StoreShareError,
        TaskCancelled as TaskCancelled,
        TokenRejected as TokenRejected,
        ToolError as ToolError,
        TransportError as TransportError,
        WorkerLost as WorkerLost,
    )
    from mcprev.extensions.extension import Extension as Extension
    from mcprev.extensions.skills.client import (
        HeldSkill as HeldSkill,
        InvalidSkill as InvalidSkill,
        SkillChanged as SkillChanged,
        SkillFile as SkillFile,
    )
    from mcprev.middleware.rate_limit import RateLimit as RateLimit
    from mcprev.middleware.telemetry import Telemetry as Telemetry
    from mcprev.protocol.cache import ResultCache as ResultCache
    from mcprev.protocol.request_state import RequestStateSealer as RequestStateSealer
    from mcprev.protocol.subscriptions import Changed as Changed
    from mcprev.server.context import Context as Context
    from mcprev.server.middleware import (
        CallNext as CallNext,
        HandlerCall as HandlerCall,
        HandlerResult as HandlerResult,
        Middleware as Middleware,
    )
    from mcprev.server.server import Server as Server, ServerHandler as ServerHandler
    from mcprev.server.session_state import StateLimits as StateLimits
    from mcprev.server.tasks import MemoryTaskStore as MemoryTaskStore, Tasks as Tasks
    from mcprev.stores.memory import MemoryRecords as MemoryRecords, MemoryStore as MemoryStore
    from mcprev.stores.opening import open_store as open_store
    from mcprev.transports.http.client.authorization import (
        Authorization as Authorization,
        AuthorizedRequest as AuthorizedRequest,
    )
    from mcprev.transports.http.client.target import http as http
    from mcprev.transports.http.server.access import Access as Access, InvalidToken as InvalidToken
    from mcprev.transports.http.server.cors import cors as cors
    from mcprev.transports.http.server.routes import Route as Route
    from mcprev.transports.memory import memory as memory
    from mcprev.transports.stdio.client import stdio as stdio
    from mcprev.wire.bounds import json_bounds as json_bounds

__version__: str

_HOMES: Final = {
    "app.app": ("App",),
    "app.routes": ("RouteRequest",),
    "bridge.bridge": ("Bridge",),
    "app.dependencies": ("Depends", "FromLifespan"),
    "app.openapi.routes": ("OpenApiRoute",),
    "extensions.extension": ("Extension",),
    "extensions.skills.client": ("HeldSkill", "InvalidSkill", "SkillChanged", "SkillFile"),
    "transports.http.server.cors": ("cors",),
    "middleware.rate_limit": ("RateLimit",),
    "middleware.telemetry": ("Telemetry",),
    "analysis.catalog": ("RuleInfo", "catalog"),
    "analysis.counterparts": ("Counterpart", "counterpart", "http_headers"),
    "analysis.explaining": ("ConversionChange", "Explanation", "explain"),
    "analysis.judging": ("Violation", "judge", "judge_headers"),
    "analysis.schemas": ("schema_of",),
    "auth.client.grants": ("ClientCredentials", "EnterpriseManaged", "OAuth", "WorkloadIdentity"),
    "auth.client.token_stores": ("DiskTokens", "KeyringTokens"),
    "auth.client.loopback": ("Loopback",),
    "auth.client.steps": ("DeviceCode",),
    "auth.client.store": ("MemoryTokens", "Registration", "TokenKey", "TokenStore", "Tokens"),
    "transports.http.server.access": ("Access", "InvalidToken"),
    "auth.bearer": ("Bearer",),
    "transports.http.server.routes": ("Route",),
    "auth.static_tokens": ("StaticTokens",),
    "auth.any_verifier": ("AnyVerifier",),
    "auth.verifiers": ("IntrospectionVerifier", "JwtVerifier"),
    "auth.authorization_server.grants": ("User",),
    "auth.authorization_server.login": ("Login",),
    "auth.authorization_server.providers": ("Provider",),
    "client.client": ("Client",),
    "client.connect": ("connect",),
    "client.targets": ("Target",),
    "app.content": ("Audio", "File", "Image"),
    "server.context": ("Context",),
    "server.middleware": ("CallNext", "HandlerCall", "HandlerResult", "Middleware"),
    "core.questions": ("Accepted", "Cancelled", "Declined", "Sampled"),
    "errors": (
        "AuthError", "AuthorizationDenied", "ConnectionLost", "ConversionError", "DiscoveryFailed",
        "HttpStatusError", "InputDeclined", "InsufficientScope", "InternalError", "InvalidParams",
        "InvalidRequest", "IssuerMismatch", "LocalProtocolError", "McpError", "MethodNotFound",
        "MissingClientCapability", "NegotiationError", "ProcessExited", "RegistrationRejected",
        "RemoteProtocolError", "RequestTimeout", "ResourceNotFound", "RpcError", "SchemaError",
        "ServersFailed", "SessionExpired", "StateTooLarge", "StoreError", "StoreShareError", "TaskCancelled", "TokenRejected", "ToolError", "TransportError", "WorkerLost",
    ),
    "client.connect_all": ("Clients", "connect_all"),
    "client.connect_options": ("ConnectOptions",),
    "client.subscriptions": ("Change", "Subscription"),
    "client.options": ("Options",),
    "protocol.cache": ("ResultCache",),
    "protocol.request_state": ("RequestStateSealer",),
    "protocol.subscriptions": ("Changed",),
    "core.reconnect_policy": ("ReconnectPolicy",),
    "server.server": ("Server", "ServerHandler"),
    "client.request_handler": ("ClientContext", "ClientHandler", "form_defaults"),
    "client.tasks": ("ClientTask",),
    "client.resource_result": ("ResourceResult",),
    "client.tool_result": ("ToolResult",),
    "server.tasks": ("MemoryTaskStore", "Tasks"),
    "server.session_state": ("StateLimits",),
    "stores.memory": ("MemoryRecords", "MemoryStore"),
    "stores.opening": ("open_store",),
    "client.recording.tap": ("HttpExchange", "WireEvent", "WireKind"),
    "conversion.ladder": ("convert",),
    "core.store": ("LogBounds", "LogItem", "LogTail", "Record", "Records", "Store"),
    "transports.http.client.authorization": ("Authorization", "AuthorizedRequest"),
    "transports.http.client.target": ("http",),
    "transports.memory": ("memory",),
    "transports.stdio.client": ("stdio",),
    "wire.bounds": ("json_bounds",),
}  # fmt: skip
_HOME_OF: Final = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> object:
    if name == "__version__":
        return import_module("mcprev.version").__version__
    if name not in _HOME_OF:
        raise AttributeError(f"module 'mcprev' has no attribute '{name}'")
    value: object = getattr(import_module(f"mcprev.{_HOME_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME_OF])
