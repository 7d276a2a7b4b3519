"""The revision table: what only the prose of the specification says, one row per revision (SEAM-6, SEAM-7, NEG-13).

Engines, transports and conversions read these fields and never compare dates. What the schemas say (methods,
types, error constants, deltas) is generated and reached through `load`, which imports a package on first use.
Revisions are ordered by their place in the table, never by their names: a string that is not here is unknown.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Final, cast

from typing_extensions import override

from mcprev.errors import INVALID_PARAMS, RESOURCE_NOT_FOUND, RevisionError
from mcprev_types import index
from mcprev_types.index import REVISIONS

if TYPE_CHECKING:
    from mcprev_types import MethodSpec

REPEATABLE: Final = frozenset({
    "completion/complete", "prompts/get", "prompts/list", "resources/list", "resources/read", "resources/templates/list",
    "server/discover", "subscriptions/listen", "tasks/get", "tasks/list", "tasks/result", "tools/list",
})  # fmt: skip
"""The methods that only read: a request that failed may be sent again."""


class Era(StrEnum):
    """How a connection begins: with `initialize`, or with any request. Decides which engine speaks the revision."""

    HANDSHAKE = "handshake"
    STATELESS = "stateless"


class HttpShape(StrEnum):
    """The HTTP transport of a revision: HTTP+SSE, Streamable HTTP with sessions, or POST alone."""

    SSE = "sse"
    STREAMABLE = "streamable"
    POST_ONLY = "post_only"


class TaskSupport(StrEnum):
    """Whether the revision has tasks: none, in the specification itself, or as an extension."""

    NONE = "none"
    CORE = "core"
    EXTENSION = "extension"


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthProfile:
    """How a client finds its authorization server over HTTP, and what it asks it for.

    No field turns a check on or off: the checks are the same at every revision, because the peer chooses the revision.
    """

    resource_metadata: bool = False  # AUTH-3, AUTH-4
    """Whether the server's metadata names its authorization server; otherwise that is the server's own origin."""
    openid: bool = False  # AUTH-6
    """Whether OpenID Connect discovery is tried besides RFC 8414."""
    client_documents: bool = False  # AUTH-12
    """Whether a client id can be the URL of the client's metadata document."""
    application_type: bool = False  # AUTH-13
    """Whether a registration names its `application_type`."""


AT_ORIGIN: Final = AuthProfile()
NAMED: Final = AuthProfile(resource_metadata=True)
ADVERTISED: Final = replace(NAMED, openid=True, client_documents=True)
TYPED: Final = replace(ADVERTISED, application_type=True)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Revision:
    """One row of the table. There is one object per row; rows compare by identity.

    The default of a field is the behaviour of a revision that does not have the feature.
    """

    name: str
    """The key, which is also the folder of its schema."""
    version: str = field(init=False)  # SEAM-8
    """The version string on the wire, from the schema; the draft has that of the revision it is based on."""
    era: Era = field(init=False)
    http: HttpShape
    accepts_batch: bool = False  # BATCH-*
    """Whether an array of messages is a message."""
    version_header: bool = False
    """Whether each HTTP request after the first names its revision in `MCP-Protocol-Version`."""
    routing_headers: bool = False
    """Whether HTTP requests repeat their method and subject in `Mcp-Method`, `Mcp-Name` and `Mcp-Param-*`."""
    sse_resume: bool = False
    """Whether a client can resume a broken event stream with `Last-Event-ID`."""
    sse_priming: bool = False
    """Whether an event stream begins with an empty event that has an id, so that it can be resumed at once."""
    disconnect_cancels: bool = False  # HTTP-9, HTTPM-6
    """Whether closing the response stream cancels its request."""
    id_unique_in_session: bool = True  # BASE-3, BASE-4
    """Whether request ids are unique within the session (True) or only among requests in flight (False)."""
    null_id_in_errors: bool = False  # BASE-7
    """Whether an error that belongs to no request has `id: null` (True) or no `id` (False)."""
    resource_not_found: int = RESOURCE_NOT_FOUND  # ERR-2
    """The error code for a missing resource."""
    barred_codes: frozenset[int] = frozenset()  # ERR-4
    """Error codes that no server may send: reserved without a definition, or withdrawn."""
    tool_argument_errors_are_results: bool = False  # TOOL-2
    """Whether invalid tool arguments give an `isError` result (True) or a JSON-RPC error (False)."""
    log_level_per_request: bool = False  # LOG-2, LOG-3
    """Whether each request carries the log level (True) or the session has one (False)."""
    listens: bool = False  # SUB-*
    """Whether change notifications need `subscriptions/listen`."""
    input_in_results: bool = False  # MRTR-*
    """Whether a server asks for input in results (True) or by requests of its own (False)."""
    elicitation_modes: tuple[str, ...] = ()
    """The modes in which a server can ask a user: `form`, `url`."""
    sampling_tools: bool = False
    """Whether a sampling request may offer tools to the model."""
    structured_objects: bool = False  # TOOL-4
    """Whether a tool's result may have structured content, of JSON objects only."""
    tasks: TaskSupport = TaskSupport.NONE
    auth: AuthProfile | None = None
    """How clients are authorized over HTTP; None where the revision does not define it."""
    negotiable: bool = True  # SEAM-8
    """Whether it is allowed by default, without being configured by name."""
    extension: str | None = None  # SEAM-9
    """The package whose types and methods are spoken instead: a vendor's extension of the revision."""

    def __post_init__(self) -> None:
        """Look up what the schema says. Raises `RevisionError` for a row without a generated package."""
        if self.name not in REVISIONS:
            raise RevisionError(
                f"the row '{self.name}' of {__file__} has no generated package: pin its schema with `mcprev import` and "
                "run `mcprev generate`, or delete the row"
            )
        object.__setattr__(self, "version", REVISIONS[self.name].protocol_version)
        object.__setattr__(self, "era", Era(REVISIONS[self.name].era))

    @override
    def __repr__(self) -> str:
        return f"<Revision {self.name}>"

    @property
    def package(self) -> str:
        """The generated package's module name."""
        return self.extension or f"mcprev_types.{REVISIONS[self.name].package}"

    @property
    def handshake(self) -> bool:
        """Whether sessions start with `initialize`."""
        return self.era is Era.HANDSHAKE

    @property
    def methods(self) -> Mapping[str, MethodSpec]:
        """The method specs of the schema, by method."""
        return cast("Mapping[str, MethodSpec]", load(self, "methods").METHODS)

    @property
    def models(self) -> ModuleType:
        """The module of its models."""
        return load(self, "models")


@cache
def extended(revision: Revision, package: str) -> Revision:
    """The row of a revision with the types and methods of a package that extends it; the row itself for its own.

    Raises `ValueError` for a package that was not generated like the revision.
    """
    if package == revision.package:
        return revision
    spoken: str = import_module(f"{package}.constants").REVISION
    if spoken != revision.name:
        raise ValueError(f"{package} is of {spoken} and not of {revision.name}: use it for that revision")
    return replace(revision, extension=package)


@cache
def load(revision: Revision, module: str) -> ModuleType:
    """A module of a revision's package, imported on first use."""
    return import_module(f"{revision.package}.{module}")


_logger: Final = logging.getLogger("mcprev.revisions")
_A: Final = Revision(
    name="2024-11-05",
    http=HttpShape.SSE,
    disconnect_cancels=True,
    null_id_in_errors=True,
)
_B: Final = Revision(
    name="2025-03-26",
    http=HttpShape.STREAMABLE,
    accepts_batch=True,
    sse_resume=True,
    null_id_in_errors=True,
    auth=AT_ORIGIN,
)
_C: Final = Revision(
    name="2025-06-18",
    http=HttpShape.STREAMABLE,
    version_header=True,
    sse_resume=True,
    null_id_in_errors=True,
    elicitation_modes=("form",),
    structured_objects=True,
    auth=NAMED,
)
_D: Final = Revision(
    name="2025-11-25",
    http=HttpShape.STREAMABLE,
    version_header=True,
    sse_resume=True,
    sse_priming=True,
    tool_argument_errors_are_results=True,
    elicitation_modes=("form", "url"),
    sampling_tools=True,
    structured_objects=True,
    tasks=TaskSupport.CORE,
    auth=ADVERTISED,
)
_E: Final = Revision(
    name="2026-07-28",
    http=HttpShape.POST_ONLY,
    version_header=True,
    routing_headers=True,
    disconnect_cancels=True,
    id_unique_in_session=False,
    resource_not_found=INVALID_PARAMS,
    barred_codes=frozenset(range(-32099, -32019)) - {-32020, -32021, -32022} | {-32002},
    tool_argument_errors_are_results=True,
    log_level_per_request=True,
    listens=True,
    input_in_results=True,
    elicitation_modes=("form", "url"),
    sampling_tools=True,
    tasks=TaskSupport.EXTENSION,
    auth=TYPED,
)
_ROWS: Final = (_A, _B, _C, _D, _E)
"""The dated revisions, oldest first. The row of a new one is `replace(the one before, name=..., what differs=...)`."""
_DRAFT: Final = replace(_ROWS[-1], name="draft", negotiable=False)


def _reached() -> int:
    """How many rows are of revisions up to the one that `mcprev_types.latest` holds."""
    names = [revision.name for revision in _ROWS]
    if index.LATEST not in names:
        raise RevisionError(
            f"`mcprev_types.latest` is {index.LATEST}, which has no row: write one in {__file__}, or run `mcprev generate`"
        )
    return names.index(index.LATEST) + 1


ALL: Final[tuple[Revision, ...]] = (*_ROWS[: _reached()], _DRAFT)
"""Every revision that the runtime speaks, oldest first, the draft last."""
DEFAULT: Final[tuple[Revision, ...]] = tuple(r for r in ALL if r.negotiable)
"""The revisions that are offered unless others are asked for, oldest first."""
LATEST: Final[Revision] = DEFAULT[-1]
"""The newest dated revision: the one that handlers and callers are written in."""
_BY_NAME: Final = {r.name: r for r in ALL}


def revision_named(name: str) -> Revision:
    """The row of a revision by its name. Raises `ValueError` with the known names.

    Raises `RevisionError` for one that is generated and not spoken yet.
    """
    try:
        return _BY_NAME[name]
    except KeyError:
        if name in UNSPOKEN:
            raise RevisionError(UNSPOKEN[name]) from None
        raise ValueError(f"unknown revision '{name}'; known are {', '.join(_BY_NAME)}") from None


def _unspoken() -> Mapping[str, str]:
    revisions = {revision.name for revision in (*_ROWS, _DRAFT)}
    step = Path(__file__).parent / "conversion"
    found: dict[str, str] = {}
    for name, info in REVISIONS.items():
        if name not in revisions:
            wanted = f"a row in {__file__}"
        elif name not in _BY_NAME:
            wanted = f"{step}/step_{name.replace('-', '_')}.py, decided, and `mcprev generate`"
        else:
            continue
        found[name] = f"revision {name} is generated ({info.package}) and not spoken: it requires {wanted}"
    return found


UNSPOKEN: Final[Mapping[str, str]] = _unspoken()
"""The generated revisions that the runtime does not speak yet, and what each one lacks."""


@cache
def _warn() -> None:
    """Log once which revisions are generated and not spoken."""
    for reason in UNSPOKEN.values():
        _logger.warning("%s", reason)


def select(names: tuple[str, ...] | None) -> tuple[Revision, ...]:
    """The revisions allowed by configuration, oldest first; None allows every negotiable one.

    Raises `ValueError` for an unknown name or an empty choice.
    """
    if names is None:
        _warn()
        return DEFAULT
    chosen = {revision_named(name) for name in names}
    if not chosen:
        raise ValueError("`revisions` must contain at least one revision")
    return tuple(r for r in ALL if r in chosen)


def by_version(version: str, allowed: tuple[Revision, ...] = DEFAULT) -> Revision | None:
    """The allowed revision that a version string on the wire means; None for one that is not allowed.

    A dated revision takes precedence over a draft that bears the same string.
    """
    found = [r for r in allowed if r.version == version]
    return min(found, key=position) if found else None


def place(revision: Revision) -> int:
    """The position of a revision in the order of all; the draft shares the place of what it grew from."""
    return position(by_version(revision.version, ALL) or revision)


def path(source: Revision, target: Revision) -> tuple[Revision, ...]:
    """The rows from one revision to another, both included; the ends are the rows that are given."""
    if source.name == target.name:
        return (source,)
    start, end = position(source), position(target)
    between = ALL[start + 1 : end] if start < end else ALL[end + 1 : start][::-1]
    return (source, *between, target)


def position(revision: Revision) -> int:
    """The place of a revision's row in the table."""
    return ALL.index(_BY_NAME[revision.name])
