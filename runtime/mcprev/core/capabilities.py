"""The capabilities and the info that a peer declares at each revision, derived from its handler's overrides.

Requirements: LIFE-11, LIFE-12, LIFE-14, SEAM-2, SEAM-3, MOD-1, MOD-2, MOD-9. Results for a revision are computed when
a peer first negotiates it, so that only the generated packages in use are imported.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol

from typing_extensions import override

from mcprev.conversion import PayloadKind as Payload, convert
from mcprev.errors import Json
from mcprev.protocol.connection_state import RequestKind
from mcprev.protocol.engine import declares
from mcprev.protocol.meta import extension_error
from mcprev.protocol.negotiation.versions import of_era
from mcprev.protocol.subscriptions import LISTEN, SUBSCRIBABLE
from mcprev.protocol.tasks import CORE_CAPABILITY, METHODS as TASK_METHODS, NEEDS as TASK_NEEDS, TASK
from mcprev.revisions import LATEST, Era, Revision, TaskSupport, extended, load, revision_named
from mcprev.wire.json_values import is_json_mapping, is_json_object, json_object
from mcprev.wire.meta_keys import CLIENT_CAPABILITIES, CLIENT_INFO, SERVER_INFO, VERSION
from mcprev_types import Binding, Direction, Kind as MethodKind, MethodSpec

if TYPE_CHECKING:
    from mcprev_types import Model

_SESSION: Final[Mapping[str, RequestKind]] = {
    "logging/setLevel": RequestKind.SET_LEVEL,
    "resources/subscribe": RequestKind.SUBSCRIBE,
    "resources/unsubscribe": RequestKind.SUBSCRIBE,
}
"""Session requests that the runtime serves itself if the capability is declared."""
_OWN: Final[Mapping[str, RequestKind]] = {"server/discover": RequestKind.DISCOVER, LISTEN: RequestKind.LISTEN}
"""Requests that the runtime serves itself at revisions without sessions."""
_TASKS: Final[Mapping[TaskSupport, Mapping[str, Json]]] = {
    TaskSupport.NONE: {},
    TaskSupport.CORE: {"tasks": CORE_CAPABILITY},
    TaskSupport.EXTENSION: TASK_NEEDS,
}
"""The capability with which a server declares that its tools can run as tasks."""  # TASK-1, TASKX-1
_ROOTS_CHANGED: Final = "notifications/roots/list_changed"
_INTERNAL: Final = frozenset(
    {"notifications/cancelled", "notifications/progress", "notifications/initialized", "initialize", "ping"}
)
"""Methods that the engines handle, whatever a handler overrides."""


class AddedMethod(Protocol):
    """A method that an extension adds to those of the revisions."""

    kind: MethodKind

    def bind(
        self, revision: Revision, /
    ) -> Any:  # noqa: ANN401 - a MethodBinding, which is defined above this module
        """Return the method's binding at a revision."""
        ...


class DeclaredExtension(Protocol):
    """An extension as a peer declares it; `mcprev.Extension` is one."""

    name: str
    """The name in the capabilities."""
    settings: Mapping[str, Json]
    """What the capabilities say of it."""

    def methods(self, base: str, /) -> Mapping[str, AddedMethod]:
        """Return the methods that it adds to those of a handler class, by name."""
        ...


@dataclass(eq=False, kw_only=True)
class Capabilities:
    """The part shared by both roles: the methods that a handler serves, and a cache of the computed results."""

    handler: object
    info: Mapping[str, Json]
    revisions: tuple[Revision, ...]
    exact: Mapping[str, object]
    """The handlers for one revision each."""
    declared: Mapping[str, Json]
    """The capabilities that the author declares."""
    tasks: bool
    added: Mapping[str, AddedMethod] = field(default_factory=dict[str, AddedMethod])
    """The methods that extensions add."""
    base: ClassVar[str]
    """The name of the handler's base class in each package."""
    relays = False
    """Whether this peer passes on messages of others, see `LocalInfo`."""
    _direction: ClassVar[Direction]

    def __post_init__(self) -> None:
        for name in self.extensions:
            error = extension_error(name)
            if error is not None:
                raise ValueError(error)
        self.received: Callable[[Revision], frozenset[str]] = cache(self._find_received)
        """Returns the notifications that the handler has methods for."""
        self.kinds: Callable[[Revision], Mapping[str, RequestKind]] = cache(self.find_kinds)
        """Returns how each served request is handled, by method."""
        self.capabilities: Callable[[Revision], dict[str, Json]] = cache(self.find_capabilities)
        """Returns the capabilities at a revision."""
        self.introduction: Callable[[Revision], dict[str, Json]] = cache(self.find_introduction)
        """Returns the result or params that declare the info and the capabilities at a revision."""

    @property
    def extensions(self) -> Collection[str]:
        """The extensions that the author declares."""  # MOD-17
        return self.declared.get("extensions") or ()

    def handler_at(self, revision: Revision) -> tuple[object, Revision]:
        """Return the handler that serves a revision, and the revision it is written for."""  # SEAM-9
        own = self.exact.get(revision.name)
        return (self.handler, LATEST) if own is None else (own, revision)

    def overridden(self, revision: Revision, kind: MethodKind) -> list[MethodSpec]:
        """Return the methods of a revision, of one kind, that its handler overrides.

        Notifications that were removed before the revision of the handler have no replacement, so the handler class
        keeps their stubs under their old names.
        """
        handler, written = self.handler_at(revision)
        served = set(overridden(handler, written, self.base))
        return [
            spec
            for method, spec in revision.methods.items()
            if spec.kind == kind
            and self._direction in spec.directions
            and method not in _INTERNAL
            and (method in served or _keeps_stub(handler, spec, written))
        ]

    def notifications(self, revision: Revision) -> Container[str]:
        """Return the notifications that the handler receives."""
        return self.received(revision)

    def _find_received(self, revision: Revision) -> frozenset[str]:
        own = frozenset(spec.method for spec in self.overridden(revision, MethodKind.NOTIFICATION))
        return own | self._added(MethodKind.NOTIFICATION)

    def _added(self, kind: MethodKind) -> frozenset[str]:
        return frozenset(method for method, added in self.added.items() if added.kind == kind)

    def requirements(self, method: str) -> Mapping[str, Json]:
        """Return the client capabilities that a method requires; none by default."""
        del method
        return {}

    def info_at(self, revision: Revision) -> dict[str, Json]:
        """Return the Implementation of this peer with the members that a revision knows."""
        # Strings are valid at every revision; validating them would import the models before the first response.
        judged = not all(isinstance(value, str) for value in self.info.values())
        found: dict[str, Json] = convert(
            dict(self.info), "", Payload.IMPLEMENTATION, from_=LATEST, to=revision, validate=judged
        )
        return found

    def find_kinds(self, revision: Revision) -> Mapping[str, RequestKind]:
        """Compute what `kinds` returns and keeps."""
        raise NotImplementedError

    def find_capabilities(self, revision: Revision) -> dict[str, Json]:
        """Compute what `capabilities` returns and keeps."""
        raise NotImplementedError

    def find_introduction(self, revision: Revision) -> dict[str, Json]:
        """Compute what `introduction` returns and keeps."""
        raise NotImplementedError


@dataclass(eq=False, kw_only=True)
class ServerCapabilities(Capabilities):
    """The capabilities and the info of a server."""

    base = "ServerHandler"
    _direction = Direction.CLIENT_TO_SERVER
    instructions: str | None
    requires: Mapping[str, Mapping[str, Json]]
    """The client capabilities that methods require."""
    notifies: bool = True
    """Whether sessions can be notified of changes."""

    def silent(self) -> ServerCapabilities:
        """Return the declaration without subscriptions and change notifications in sessions.

        It is for a transport that cannot send what belongs to no request.
        """
        return replace(self, notifies=False)

    def with_sessions(self) -> ServerCapabilities:
        """Return the declaration at the revisions with `initialize` only."""
        return replace(self, revisions=of_era(self.revisions, Era.HANDSHAKE))

    @override
    def requirements(self, method: str) -> Mapping[str, Json]:
        if self.tasks and method in TASK_METHODS[TaskSupport.EXTENSION]:
            return TASK_NEEDS
        return self.requires.get(method) or {}

    @override
    def find_kinds(self, revision: Revision) -> Mapping[str, RequestKind]:
        kinds = {spec.method: RequestKind.SERVED for spec in self.overridden(revision, MethodKind.REQUEST)}
        kinds.update(dict.fromkeys(self._added(MethodKind.REQUEST), RequestKind.SERVED))
        if self.tasks:
            kinds.update(dict.fromkeys(TASK_METHODS[revision.tasks], RequestKind.SERVED))
        if not revision.handshake:
            return {**kinds, **_OWN}
        capabilities = self.capabilities(revision)
        for method, kind in _SESSION.items():
            spec = revision.methods.get(method)
            if spec and spec.capability and declares(capabilities, spec.capability):
                kinds.setdefault(method, kind)
        return kinds

    @override
    def find_capabilities(self, revision: Revision) -> dict[str, Json]:
        served = self.overridden(revision, MethodKind.REQUEST)
        found = _nested(spec.capability for spec in served)
        if self.notifies or not revision.handshake:
            for name in found.keys() & {"tools", "prompts", "resources"}:
                found[name] = {"listChanged": True, **found[name]}
            if any(spec.method == "resources/read" for spec in served):
                found["resources"]["subscribe"] = True
        if served:
            # The runtime serves logging for every server that serves any method (LOG-1).
            found["logging"] = {}
        if self.tasks:
            found = _merged(found, _TASKS[revision.tasks])
        return _merged(found, _at(self.declared, Payload.SERVER_CAPABILITIES, revision))

    @override
    def find_introduction(self, revision: Revision) -> dict[str, Json]:
        members: dict[str, Json] = {"capabilities": self.capabilities(revision)}
        if self.instructions is not None:
            members["instructions"] = self.instructions
        if revision.handshake:
            return {"protocolVersion": revision.version, "serverInfo": self.info_at(revision), **members}
        return {  # makes DiscoverResult
            "supportedVersions": [r.version for r in reversed(self.revisions)],
            "resultType": "complete",
            "ttlMs": 0,
            "cacheScope": "private",
            "_meta": {SERVER_INFO: self.info_at(revision)},
            **members,
        }


@dataclass(eq=False, kw_only=True)
class ClientCapabilities(Capabilities):
    """The capabilities and the info of a client."""

    base = "ClientHandler"
    _direction = Direction.SERVER_TO_CLIENT

    @property
    def result_types(self) -> frozenset[str]:
        """The result types that the client accepts besides those of the schema."""  # BASE-15
        return frozenset({TASK}) if self.tasks else frozenset()

    @override
    def notifications(self, revision: Revision) -> Container[str]:
        # Change notifications are always received: subscriptions may need them (SUB-7).
        return self.received(revision) | (revision.methods.keys() & SUBSCRIBABLE)

    @override
    def find_kinds(self, revision: Revision) -> Mapping[str, RequestKind]:
        if not revision.handshake:
            return {}
        own = (spec.method for spec in self.overridden(revision, MethodKind.REQUEST))
        return dict.fromkeys((*own, *self._added(MethodKind.REQUEST)), RequestKind.SERVED)

    @override
    def find_capabilities(self, revision: Revision) -> dict[str, Json]:
        found = _nested(spec.capability for spec in self.overridden(revision, MethodKind.REQUEST))
        if "elicitation" in found and "url" in revision.elicitation_modes:
            found["elicitation"] = {"form": {}}
        if "roots" in found and _ROOTS_CHANGED in revision.methods:
            found["roots"] = {"listChanged": True}
        if self.tasks and revision.tasks is TaskSupport.EXTENSION:
            found = _merged(found, TASK_NEEDS)
        return _merged(found, _at(self.declared, Payload.CLIENT_CAPABILITIES, revision))

    @override
    def find_introduction(self, revision: Revision) -> dict[str, Json]:
        info, capabilities = self.info_at(revision), self.capabilities(revision)
        if revision.handshake:
            return {"protocolVersion": revision.version, "capabilities": capabilities, "clientInfo": info}
        return {VERSION: revision.version, CLIENT_INFO: info, CLIENT_CAPABILITIES: capabilities}


def _keeps_stub(handler: object, spec: MethodSpec, written: Revision) -> bool:
    """Return whether a handler has the stub of a notification that was removed before its revision."""
    removed = spec.kind == MethodKind.NOTIFICATION and spec.method not in written.methods
    return removed and getattr(type(handler), spec.attr, None) is not None


def introduction(name: str, version: str, icons: Sequence[Model], **texts: str | None) -> dict[str, Json]:
    """Return the info of a peer as members of the latest revision's Implementation."""  # LIFE-14
    given = {"name": name, "version": version, **texts, "icons": [icon.to_wire() for icon in icons] or None}
    return {member: value for member, value in given.items() if value is not None}


def checked_handler(handler: object, base: str) -> object:
    """Return the handler. Raises `TypeError` for a class, and for a method whose name is almost one that it lacks."""
    if isinstance(handler, type):
        raise TypeError(f"{handler.__name__} is a class; pass an instance of it: {handler.__name__}()")
    served = {binding.stub: method for method, binding in bindings(LATEST, base).items()}
    lacks = served.keys() - vars(type(handler)).keys()
    for name, member in vars(type(handler)).items():
        if name[:1] != "_" and name not in served and callable(member):
            from difflib import get_close_matches  # imported late: most handlers have stubs only

            meant = get_close_matches(name, lacks, 1, cutoff=0.85)
            if meant:
                raise TypeError(
                    f"{type(handler).__name__}.{name} does not override a method; did you mean '{meant[0]}', which serves "
                    f"'{served[meant[0]]}'? (otherwise choose a less similar name, or begin it with _)"
                )
    return handler


def spoken(
    revisions: Iterable[Revision], exact: Mapping[str, object] | None, base: str
) -> tuple[tuple[Revision, ...], dict[str, object]]:
    """Return the rows that a peer speaks and its exact handlers by revision.

    A handler whose base class is from a package that extends its revision makes that package the one that is spoken.
    Raises `ValueError` for an unknown revision, and for a package that extends another one.
    """
    handlers = {revision_named(key).name: value for key, value in (exact or {}).items()}
    return tuple(_extended(r, handlers.get(r.name), base) for r in revisions), handlers


def _extended(revision: Revision, handler: object, base: str) -> Revision:
    for cls in type(handler).__mro__:
        package, _, module = cls.__module__.rpartition(".")
        if cls.__name__ == base and module == "dispatch" and not package.startswith("mcprev_types."):
            return extended(revision, package)
    return revision


def overridden(handler: object, revision: Revision, base: str) -> list[str]:
    """Return the methods whose stubs in the revision's base class a handler overrides."""
    stubs = getattr(load(revision, "dispatch"), base)
    return [
        method
        for method, binding in bindings(revision, base).items()
        if getattr(type(handler), binding.stub, None) not in (None, getattr(stubs, binding.stub))
    ]


@cache
def bindings(revision: Revision, base: str) -> Mapping[str, Binding]:
    """Return the stubs of a handler class and their types, by method."""
    table = "SERVER_BINDINGS" if base == "ServerHandler" else "CLIENT_BINDINGS"
    found: Mapping[str, Binding] = getattr(load(revision, "dispatch"), table)
    return found


def _at(capabilities: Mapping[str, Json], kind: Payload, revision: Revision) -> dict[str, Json]:
    """Convert declared capabilities to a revision."""
    found = convert(dict(capabilities), "", kind, from_=LATEST, to=revision, validate=False)
    return keep_extensions(capabilities, found)


def keep_extensions(capabilities: Mapping[str, Json], found: dict[str, Json]) -> dict[str, Json]:
    """Return capabilities that were converted, `found`, with the extensions that they had before.

    Revisions without `extensions` define `experimental` for what they do not know, and allow further members.
    Extensions are declared in both: peers of these revisions look for them in either.
    """  # CONV-31, MOD-16
    extensions = capabilities.get("extensions")
    if not extensions or "extensions" in found:
        return found
    experimental: dict[str, Json] = {**extensions, **(found.get("experimental") or {})}
    return {**found, "extensions": extensions, "experimental": experimental}


def with_extensions(
    declared: Mapping[str, Json], extensions: Sequence[DeclaredExtension], base: str
) -> tuple[Mapping[str, Json], dict[str, AddedMethod]]:
    """Return the declared capabilities with those of extensions, and the methods that the extensions add.

    Raises `ValueError` for an extension or a method that is there twice, and `TypeError` for the name of an extension.
    """
    settings = dict[str, Json](declared.get("extensions") or {})
    added: dict[str, AddedMethod] = {}
    for extension in extensions:
        if isinstance(extension, str):
            raise TypeError(
                f"an extension must not be a string: pass extensions=[mcprev.Extension({extension!r})]"
            )
        methods = extension.methods(base)
        for name in ({extension.name} & settings.keys()) or (added.keys() & methods.keys()):
            raise ValueError(f"the extension '{name}' is declared twice; keep one of them")
        settings[extension.name] = dict(extension.settings)
        added.update(methods)
    return ({**declared, "extensions": settings} if settings else declared), added


def extension_settings(capabilities: Mapping[str, Json], name: str) -> Mapping[str, Json] | None:
    """Return what a peer's capabilities say of an extension, or None if they do not declare it."""  # MOD-16
    for member in ("extensions", "experimental"):
        declared = capabilities.get(member)
        found = json_object(declared).get(name)
        if is_json_object(found):
            return found
    return None


def _nested(paths: Iterable[str | None]) -> dict[str, Any]:
    """Turn dotted paths into nested objects."""
    found: dict[str, Any] = {}
    for path in paths:
        inner = found
        for name in path.split(".") if path else ():
            inner = inner.setdefault(name, {})
    return found


def _merged(one: Mapping[str, Json], other: Mapping[str, Json]) -> dict[str, Json]:
    """Merge two objects recursively; the second one wins."""
    merged = dict(one)
    for name, value in other.items():
        mine = merged.get(name)
        merged[name] = _merged(mine, value) if is_json_mapping(mine) and is_json_mapping(value) else value
    return merged
