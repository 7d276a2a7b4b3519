"""The functions of an app by the names that clients use, and how they change: added, removed, disabled, mounted.

A registry that is mounted in others passes each change on to them, so that looking up an entry costs nothing more.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, TypeAlias, TypeVar
from weakref import WeakKeyDictionary

from mcprev.app.results import ToolReturns
from mcprev.app.signatures import Function
from mcprev.app.uri_templates import Template
from mcprev.callbacks import allows
from mcprev.errors import LocalProtocolError, did_you_mean
from mcprev.protocol.subscriptions import Changed
from mcprev.protocol.tasks import Support
from mcprev.server.context import Context
from mcprev.server.middleware import CallNext, HandlerCall, HandlerResult, Middleware, wrap
from mcprev_types.latest import models

E = TypeVar("E", bound="Entry")
Visible: TypeAlias = Callable[[Context, frozenset[str]], bool | Awaitable[bool]]
Check: TypeAlias = tuple[Callable[..., object], tuple[object, ...]]
"""A function that says whether the client of a request sees an entry, and its arguments after the context."""
Key: TypeAlias = "str | tuple[str, str]"
"""What an entry is registered under: its name or URI; of a completion that and the name of the argument."""
KINDS: Final[Mapping[str, Changed | None]] = {
    "tools": Changed.TOOLS, "resources": Changed.RESOURCES, "templates": Changed.RESOURCES,
    "prompts": Changed.PROMPTS, "completions": None,
}  # fmt: skip
"""The kinds of functions, and the notification that the list of a kind changed."""
LISTED: Final = tuple(kind for kind, changed in KINDS.items() if changed is not None)
"""The kinds that clients can list; their functions are in an `Entry`."""
MAX_TOOL_NAME: Final = 128
_SCHEME: Final = "^([^:]*:(?://)?)"
"""The part of a URI that precedes a prefix."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Entry:
    """What tools, resources, templates and prompts have in common."""

    listed: Any
    """The entry as clients see it, a model."""
    function: Function
    tags: frozenset[str] = frozenset()
    checks: tuple[Check, ...] = ()
    """All of them have to hold for a client to see the entry; for any other client it does not exist."""
    around: tuple[Middleware, ...] = ()
    """The middleware of the mounted apps that the entry comes from."""

    async def shown(self, ctx: Context) -> bool:
        """Return whether the client of a request sees the entry; the functions are called once for each request."""
        if not self.checks:
            return True
        known = _SHOWN.setdefault(ctx, {})
        if self not in known:
            found = True
            for function, more in self.checks:
                found = found and await allows(function, ctx, *more)
            known[self] = found  # only now: another task may ask meanwhile, or this one be cancelled
        return known[self]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RegisteredTool(Entry):
    """A function that is a tool."""

    listed: models.Tool
    returns: ToolReturns
    task: Support | None = None
    """Whether it can run as a task; None to do as the option `tasks` of the served app says."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Resource(Entry):
    """A function that reads one resource."""

    listed: models.Resource
    cache: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """How long and for whom a client may keep what it read, as members of the result."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ResourceTemplate(Entry):
    """A function that reads the resources of a template."""

    listed: models.ResourceTemplate
    template: Template
    cache: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Prompt(Entry):
    """A function that is a prompt."""

    listed: models.Prompt


_SHOWN: Final = WeakKeyDictionary[Context, dict[Entry, bool]]()
"""The entries that the clients of requests see or do not see, as far as it was asked."""


@dataclass(slots=True, eq=False)
class Registry:
    """All functions of an app."""

    tools: dict[str, RegisteredTool] = field(default_factory=dict[str, RegisteredTool])
    resources: dict[str, Resource] = field(default_factory=dict[str, Resource])
    templates: dict[str, ResourceTemplate] = field(default_factory=dict[str, ResourceTemplate])
    prompts: dict[str, Prompt] = field(default_factory=dict[str, Prompt])
    completions: dict[tuple[str, str], Function] = field(default_factory=dict[tuple[str, str], Function])
    disabled: dict[tuple[str, Key], Any] = field(default_factory=dict[tuple[str, Key], Any])
    """Entries that are out of service, by kind and key."""
    visible: Visible | None = None
    """Whether the client of a request sees the entries with some tags."""
    tasks: Mapping[str, Support] = field(default_factory=dict[str, Support])
    """Which tools can or must run as tasks, where a tool itself does not say so."""
    middleware: tuple[Middleware, ...] = ()
    """Runs around calls of these functions where they are mounted; the server runs its own around all calls."""
    served: frozenset[str] | None = None
    """The kinds that the server declares; None before it is created."""
    runs_tasks: bool = False
    """Whether the server offers tasks."""
    on_changed: Callable[[Changed], None] | None = None
    """Notifies clients of a changed list."""
    outer: list[tuple[Registry, str | None]] = field(default_factory=list[tuple["Registry", "str | None"]])
    """Where this registry is mounted, with the prefix there."""

    def of(self, kind: str) -> dict[Any, Any]:
        """Return the functions of a kind, one of `KINDS`."""
        found: dict[Any, Any] = getattr(self, kind)
        return found

    def kinds(self) -> Iterable[str]:
        """Return the kinds that have at least one function, in service or not."""
        there = {kind for kind, _ in self.disabled}
        return (kind for kind in KINDS if self.of(kind) or kind in there)

    def knows(self, kind: str, key: Key) -> bool:
        """Return whether something is registered, in service or not."""
        return key in self.of(kind) or (kind, key) in self.disabled

    def checks(
        self, tags: frozenset[str], own: Callable[[Context], object] | None = None
    ) -> tuple[Check, ...]:
        """Return the checks of an entry that is registered here, with one of its own."""
        found: tuple[Check, ...] = () if own is None else ((own, ()),)
        return found if self.visible is None else (*found, (self.visible, (tags,)))

    # -- tools that run as tasks ---------------------------------------------------------------------------

    def every_tool(self) -> dict[str, RegisteredTool]:
        """Return the tools by name, in service or not."""
        away = {str(name): tool for (kind, name), tool in self.disabled.items() if kind == "tools"}
        return {**away, **self.tools}

    def check_tasks(self, app: str) -> None:
        """Raise `ValueError` if `tasks` names a tool that is not registered; `app` is the name of the app."""
        tools = self.every_tool()
        for name in self.tasks.keys() - tools.keys():
            hint = did_you_mean(name, tools) or ": register it before `app.server` is used"
            raise ValueError(f"`tasks` names '{name}', which is not a tool of the app '{app}'{hint}")

    def task_support(self, name: object) -> Support:
        """Return whether a tool in service can run as a task."""
        tool = self.tools.get(name) if isinstance(name, str) else None
        if tool is None:
            return Support.FORBIDDEN
        return tool.task or self.tasks.get(tool.listed.name, Support.FORBIDDEN)

    async def sees_tool(self, name: object, ctx: Context) -> bool:
        """Return whether the client of a request sees a tool."""
        tool = self.tools.get(name) if isinstance(name, str) else None
        return tool is not None and await tool.shown(ctx)

    # -- changes -------------------------------------------------------------------------------------------

    def add(self, kind: str, key: Key, entry: Entry | Function) -> None:
        """Add a function. Raises `ValueError` for a name that exists, `LocalProtocolError` for a new kind."""
        if isinstance(entry, RegisteredTool) and entry.task is None:
            entry = replace(entry, task=self.tasks.get(str(key)))
        self.check_addable(kind, key, getattr(entry, "task", None))
        self.set_entry(kind, key, entry)

    def remove(self, kind: str, key: str) -> None:
        """Remove an entry and its completions. Raises `ValueError` if there is none."""
        if not self.knows(kind, key):
            raise ValueError(f"'{key}' is not registered")
        for completion in [completion for completion in self.completions if completion[0] == key]:
            self.discard("completions", completion, forget=True)
        self.discard(kind, key, forget=True)

    def disable(self, names: Collection[str], tags: Collection[str]) -> None:
        """Take entries out of service. Raises `ValueError` for a name that is not registered."""
        self._check_known(names)
        for kind in LISTED:
            for key, entry in tuple(self.of(kind).items()):
                if key in names or entry.tags.intersection(tags):
                    self.discard(kind, key, forget=False)
                    self.disabled[kind, key] = entry

    def enable(self, names: Collection[str], tags: Collection[str]) -> None:
        """Put entries back into service. Raises `ValueError` for a name that is not registered."""
        self._check_known(names)
        for (kind, key), entry in tuple(self.disabled.items()):
            if key in names or entry.tags.intersection(tags):
                del self.disabled[kind, key]
                self.set_entry(kind, key, entry)

    def mount(self, inner: Registry, prefix: str | None) -> None:
        """Take over all that another registry has and will have. Raises as `add`, before anything is changed."""
        if inner.holds(self):
            raise ValueError("an app cannot be mounted in itself")
        found = [(kind, key, entry) for kind in KINDS for key, entry in inner.of(kind).items()]
        for kind, key, entry in found:
            self.check_addable(kind, inner.key_within(kind, prefix, key), getattr(entry, "task", None))
        inner.outer.append((self, prefix))
        for kind, key, entry in found:
            self.set_mounted(inner, prefix, kind, key, entry)

    def holds(self, other: Registry) -> bool:
        """Return whether another registry is this one, or mounted in it."""
        return other is self or any(self.holds(outer) for outer, _ in other.outer)

    @property
    def is_served(self) -> bool:
        """Whether a server was created for this registry, or for one in which it is mounted."""
        return self.served is not None or any(outer.is_served for outer, _ in self.outer)

    def key_within(self, kind: str, prefix: str | None, key: Key) -> Key:
        """Return the key of an entry in a registry that mounts this one. Raises `ValueError` for one that is too long."""
        if isinstance(key, tuple):
            of = prefixed("templates" if self.knows("templates", key[0]) else "prompts", prefix, key[0])
            return of, key[1]
        return prefixed(kind, prefix, key)

    def _check_known(self, names: Collection[str]) -> None:
        for name in names:
            if not any(self.knows(kind, name) for kind in LISTED):
                raise ValueError(f"'{name}' is not registered")

    def check_addable(self, kind: str, key: Key, task: Support | None) -> None:
        """Raise the error of `add` for what cannot be added here, or where this is mounted; `task` is as of a tool."""
        if self.knows(kind, key):
            raise ValueError(f"{key!r} is registered already")
        if self.served is not None and kind not in self.served:
            raise LocalProtocolError(
                f"{key!r} is the first of the {kind}, but the server was created already. Clients learn on connecting which kinds exist: "
                "register one before the first use of `app.server`"
            )
        if task is not None and self.served is not None and not self.runs_tasks:
            raise LocalProtocolError(
                f"{key!r} is the first tool that can run as a task, but the server exists already: register it before"
            )
        for outer, prefix in self.outer:
            outer.check_addable(kind, self.key_within(kind, prefix, key), task)

    def set_entry(self, kind: str, key: Key, entry: Any) -> None:  # noqa: ANN401 - of its kind
        """Put an entry into service here and where this is mounted."""
        if (kind, key) in self.disabled:
            self.disabled[kind, key] = entry  # it changed where it comes from, and stays out of service here
            return
        self.of(kind)[key] = entry
        self._notify(kind)
        for outer, prefix in self.outer:
            outer.set_mounted(self, prefix, kind, key, entry)

    def set_mounted(
        self,
        inner: Registry,
        prefix: str | None,
        kind: str,
        key: Key,
        entry: Any,  # noqa: ANN401 - of its kind
    ) -> None:
        """Put an entry of a mounted registry into service, under its name here."""
        key = inner.key_within(kind, prefix, key)
        if kind in LISTED:
            around = (*inner.middleware, *entry.around)
            if prefix is not None and around:
                around = (partial(_with_own_names, kind, prefix, around),)
            entry = renamed(entry, str(key), self.checks(entry.tags), around)
        self.set_entry(kind, key, entry)

    def discard(self, kind: str, key: Key, *, forget: bool) -> None:
        """Remove an entry here and where this is mounted; one that is disabled stays so unless it is forgotten."""
        for outer, prefix in self.outer:
            outer.discard(kind, self.key_within(kind, prefix, key), forget=forget)
        if forget:
            self.disabled.pop((kind, key), None)
        if self.of(kind).pop(key, None) is not None:
            self._notify(kind)

    def _notify(self, kind: str) -> None:
        what = KINDS[kind]
        if self.on_changed is not None and what is not None:
            self.on_changed(what)


def prefixed(kind: str, prefix: str | None, key: str) -> str:
    """Return a name or URI with a prefix. Raises `ValueError` for a tool name that gets too long."""
    if prefix is None:
        return key
    if kind in {"resources", "templates"}:
        return re.sub(_SCHEME, rf"\g<1>{prefix}/", key)
    name = f"{prefix}_{key}"
    if kind == "tools" and len(name) > MAX_TOOL_NAME:
        raise ValueError(f"'{name}' is too long for the name of a tool; use a shorter prefix")
    return name


def unprefixed(kind: str, prefix: str, key: str) -> str:
    """Return a name or URI without the prefix that `prefixed` adds."""
    if kind in {"resources", "templates"}:
        return re.sub(f"{_SCHEME}{re.escape(prefix)}/", r"\1", key)
    return key.removeprefix(f"{prefix}_")


async def _with_own_names(
    kind: str, prefix: str, middleware: Sequence[Middleware], call: HandlerCall, call_next: CallNext
) -> HandlerResult:
    """Run the middleware of an app that is mounted with a prefix: its params have the names of that app."""

    async def outside(ctx: Context, params: Any) -> HandlerResult:  # noqa: ANN401 - of its method
        return await call_next(
            replace(call, ctx=ctx, params=_rename(params, partial(prefixed, kind, prefix)))
        )

    own = _rename(call.params, partial(unprefixed, kind, prefix))
    found: HandlerResult = await wrap(middleware, call.method, outside)(call.ctx, own)
    return found


def _rename(params: Any, change: Callable[[str], str]) -> Any:  # noqa: ANN401 - a model
    """Return the params of a call with the name or URI of its entry changed."""
    if isinstance(params, models.CompleteRequestParams):
        return params.model_copy(update={"ref": _rename(params.ref, change)})
    name = "uri" if hasattr(params, "uri") else "name"
    return params.model_copy(update={name: change(getattr(params, name))})


def renamed(entry: E, key: str, checks: tuple[Check, ...], around: tuple[Middleware, ...]) -> E:
    """Return an entry under another name or URI, with further checks of who sees it, and with middleware."""
    told: dict[str, Any] = {"checks": (*entry.checks, *checks), "around": around}
    if isinstance(entry, ResourceTemplate):
        told["template"] = Template(key)
    name = next(name for name in ("uri_template", "uri", "name") if hasattr(entry.listed, name))
    return replace(entry, listed=entry.listed.model_copy(update={name: key}), **told)
