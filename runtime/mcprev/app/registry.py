"""The functions of an app by the names that clients use, and how they change: added, removed, disabled, mounted.

A registry that is mounted in others passes each change on to them, so that looking up an entry costs nothing more.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from mcprev.app.entries import (
    Check,
    Entry,
    Prompt,
    RegisteredTool,
    Resource,
    ResourceTemplate,
    Visible,
    renamed,
)
from mcprev.app.names import check_versions, prefixed, versions_among, with_own_names
from mcprev.app.signatures import Function
from mcprev.error_text import did_you_mean
from mcprev.errors import LocalProtocolError
from mcprev.protocol.subscriptions import Changed
from mcprev.protocol.tasks import Support
from mcprev.protocol.uris import comparable
from mcprev.server.context import Context
from mcprev_types.latest import models

if TYPE_CHECKING:
    from mcprev.server.middleware import Middleware

Key: TypeAlias = "str | tuple[str, str]"
"""What an entry is registered under: its name or URI; of a completion that and the name of the argument."""
KINDS: Final[Mapping[str, Changed | None]] = {
    "tools": Changed.TOOLS, "resources": Changed.RESOURCES, "templates": Changed.RESOURCES,
    "prompts": Changed.PROMPTS, "completions": None,
}  # fmt: skip
"""The kinds of functions, and the notification that the list of a kind changed."""
LISTED: Final = tuple(kind for kind, changed in KINDS.items() if changed is not None)
"""The kinds that clients can list; their functions are in an `Entry`."""


Derive: TypeAlias = Callable[[RegisteredTool], RegisteredTool]
"""Makes a tool of another one."""


@dataclass(slots=True, eq=False)
class Registry:
    """All functions of an app."""

    tools: dict[str, RegisteredTool] = field(default_factory=dict[str, RegisteredTool])
    resources: dict[str, Resource] = field(default_factory=dict[str, Resource])
    templates: dict[str, ResourceTemplate] = field(default_factory=dict[str, ResourceTemplate])
    prompts: dict[str, Prompt] = field(default_factory=dict[str, Prompt])
    spelled: dict[str, str] = field(default_factory=dict[str, str])
    """The URIs of the resources in service, by what all spellings of each have in common."""
    completions: dict[tuple[str, str], Function] = field(default_factory=dict[tuple[str, str], Function])
    disabled: dict[tuple[str, Key], Any] = field(default_factory=dict[tuple[str, Key], Any])
    """Entries that are out of service, by kind and key."""
    visible: Visible | None = None
    """Whether the client of a request sees the entries with some tags."""
    list_cache: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The members of a list that say how long clients may keep it."""
    tasks: Mapping[str, Support] = field(default_factory=dict[str, Support])
    """Which tools can or must run as tasks, where a tool itself does not say so."""
    middleware: tuple[Middleware, ...] = ()
    """Runs around calls of these functions where they are mounted; the server runs its own around all calls."""
    served: frozenset[str] | None = None
    """The kinds that the server declares; None before it is created."""
    declares_pages: bool = False
    """Whether the server declares the extension for user interfaces."""
    declares_skills: bool = False
    """The same for skills."""
    runs_tasks: bool = False
    """Whether the server offers tasks."""
    on_changed: Callable[[Changed, str | None], None] | None = None
    """Notifies clients of a changed list, or of a changed resource."""
    notifies: bool = False
    """Whether it does so for a list of this registry at the moment."""
    waiting: set[str] | None = None
    """The kinds whose lists have changed, while notifications wait; see `one_notification`."""
    outer: list[tuple[Registry, str | None]] = field(default_factory=list[tuple["Registry", "str | None"]])
    """Where this registry is mounted, with the prefix there."""
    versions: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    """The keys `name@version` of tools in service that have versions, by name, the newest version first."""
    derived: dict[str, dict[str, Derive]] = field(default_factory=dict[str, "dict[str, Derive]"])
    """The tools that are made of others: by the key of the original, the new keys and how they are made."""
    replaced: dict[str, RegisteredTool | None] = field(default_factory=dict[str, "RegisteredTool | None"])
    """The originals that clients do not see, because other tools take their place; None while one is out of service."""
    listed_tools: frozenset[str] | None = None
    """The names of the tools that are listed, where clients search for the others; None to list all of them."""
    finders: frozenset[str] = frozenset()
    """The names of the tools that find and call the others, of `listed_tools`."""
    reflects: bool = False
    """Whether tools here or in a mounted registry list or call the other functions; see `mcprev.transforms.requests`."""
    requires: Mapping[str, models.ClientCapabilities] = field(
        default_factory=dict[str, models.ClientCapabilities]
    )
    """Client capabilities that methods require."""
    inner: list[Registry] = field(default_factory=list["Registry"])
    """The registries that are mounted in this one."""

    def of(self, kind: str) -> dict[Any, Any]:
        """Return the functions of a kind, one of `KINDS`."""
        found: dict[Any, Any] = getattr(self, kind)
        return found

    def kinds(self) -> Iterable[str]:
        """Return the kinds that have at least one function, in service or not."""
        there = {kind for kind, _ in self.disabled}
        return (kind for kind in KINDS if self.of(kind) or kind in there)

    @property
    def has_pages(self) -> bool:
        """Whether there are pages, or tools that only pages call."""
        pages = (key for key in self.resources if key.startswith("ui://"))
        return any(pages) or any(tool.ui is not None for tool in self.every_tool().values())

    @property
    def has_skills(self) -> bool:
        """Whether there are skills, in service or not."""
        away = (each for (kind, _), each in self.disabled.items() if kind in {"resources", "templates"})
        return any(
            each.skill is not None for each in (*self.resources.values(), *self.templates.values(), *away)
        )

    def knows(self, kind: str, key: Key) -> bool:
        """Return whether something is registered, in service or not."""
        away = (kind, key) in self.disabled or (kind == "tools" and key in self.replaced)
        return away or key in self.of(kind)

    def away(self, kind: str) -> Iterator[Key]:
        """Yield the keys here of entries that may come back into service: disabled where they come from, or made of such."""
        yield from (key for of, key in self.disabled if of == kind)
        if kind == "tools":
            yield from (key for made in self.derived.values() for key in made)
        for inner in self.inner:
            for outer, prefix in inner.outer:
                if outer is self:
                    yield from (inner.key_within(kind, prefix, key) for key in inner.away(kind))

    def checks(
        self, tags: frozenset[str], own: Callable[[Context], object] | None = None
    ) -> tuple[Check, ...]:
        """Return the checks of an entry that is registered here, with one of its own."""
        found: tuple[Check, ...] = () if own is None else ((own, ()),)
        return found if self.visible is None else (*found, (self.visible, (tags,)))

    def names_in(self, root: Registry, kind: str, keys: Iterable[Any]) -> set[Any]:
        """Return the keys that entries of this registry have in one in which it is mounted, or in itself."""
        if root is self:
            return set(keys)
        found = set[Any]()
        for outer, prefix in self.outer:
            found |= outer.names_in(root, kind, {self.key_within(kind, prefix, key) for key in keys})
        return found

    def each(self) -> Iterator[Registry]:
        """Yield this registry and those that are mounted in it."""
        yield self
        for inner in self.inner:
            yield from inner.each()

    def unlisted(self) -> set[str]:
        """Return the names of tools that clients search for and that are not listed, here or in mounted apps."""
        if self.listed_tools is not None:
            return {key.partition("@")[0] for key in self.tools} - self.listed_tools
        return {name for inner in self.inner for name in inner.names_in(self, "tools", inner.unlisted())}

    def set_reflecting(self) -> None:
        """Note here, and where this is mounted, that tools list or call the other functions."""
        self.reflects = True
        for outer, _ in self.outer:
            outer.set_reflecting()

    # -- tools that run as tasks ---------------------------------------------------------------------------

    def every_tool(self) -> dict[str, RegisteredTool]:
        """Return the tools by name, in service or not."""
        away = {str(name): tool for (kind, name), tool in self.disabled.items() if kind == "tools"}
        replaced = {name: tool for name, tool in self.replaced.items() if tool is not None}
        return {**replaced, **away, **self.tools}

    def check_tasks(self, app: str) -> None:
        """Raise `ValueError` if `tasks` names a tool that is not registered; `app` is the name of the app."""
        tools = self.every_tool()
        for name in self.tasks.keys() - tools.keys() - {name.partition("@")[0] for name in tools}:
            hint = did_you_mean(name, tools) or ": register it before `app.server` is used"
            raise ValueError(f"`tasks` names '{name}', which is not a tool of the app '{app}'{hint}")

    def task_support(self, name: object) -> Support:
        """Return whether a tool in service can run as a task."""
        tool = self.tools.get(name) if isinstance(name, str) else None
        if tool is None and isinstance(name, str) and name in self.versions:
            tool = self.tools[self.versions[name][0]]  # all versions have the same
        if tool is None:
            return Support.FORBIDDEN
        return tool.task or self.tasks.get(tool.listed.name.partition("@")[0], Support.FORBIDDEN)

    async def tool(self, name: str, ctx: Context) -> RegisteredTool | None:
        """Return the tool that the client of a request calls, of several versions the newest that it sees; None for none."""
        for key in (name, *self.versions.get(name, ())) if self.versions else (name,):
            tool = self.tools.get(key)
            if tool is not None and (not tool.checks or await tool.shown(ctx)):
                return tool
        return None

    async def sees_tool(self, name: object, ctx: Context) -> bool:
        """Return whether the client of a request sees a tool."""
        return isinstance(name, str) and await self.tool(name, ctx) is not None

    # -- changes -------------------------------------------------------------------------------------------

    def add(self, kind: str, key: Key, entry: Entry | Function) -> None:
        """Add a function. Raises `ValueError` for a name that exists, `LocalProtocolError` for a new kind."""
        if isinstance(entry, RegisteredTool) and entry.task is None:
            entry = replace(entry, task=self.tasks.get(str(key).partition("@")[0]))
        self.check_addable(kind, key, getattr(entry, "task", None))
        self.set_entry(kind, key, entry)

    def derive(self, name: str, key: str, derive: Derive, *, keep: bool) -> None:
        """Add a tool that is made of another one, and is in service as long as that is; `keep` keeps the original, too.

        Raises as `add`, and `ValueError` if the original is not registered or was replaced under its own name before.
        """
        tool = self.replaced.get(name) or self.tools.get(name)
        if tool is None:
            hint = f"; name a version, such as '{self.versions[name][0]}'" if name in self.versions else ""
            raise ValueError(
                f"'{name}' is disabled or not registered{hint or did_you_mean(name, self.tools)}"
            )
        if keep and key == name:
            raise ValueError(f"'{name}' cannot be kept beside a tool of the same name; pass another name")
        if key in self.derived.get(name, ()) or (not keep and name in self.replaced):
            raise ValueError(f"'{name}' is replaced already; make all changes in one call, or pass keep=True")
        if key != name:
            self.check_addable("tools", key, tool.task)
        made = derive(tool)
        self.derived.setdefault(name, {})[key] = derive
        if not keep:
            self.replaced[name] = tool
            if key != name:
                self._drop("tools", name, forget=True)
        (self._put if key == name else self.set_entry)("tools", key, made)

    def remove(self, kind: str, key: str) -> None:
        """Remove an entry and its completions. Raises `ValueError` if there is none."""
        several = self._keys_of(key) if kind == "tools" else [key]
        if several != [key]:
            for each in several:
                self.remove(kind, each)
            return
        if not self.knows(kind, key):
            raise ValueError(f"'{key}' is not registered{did_you_mean(key, map(str, getattr(self, kind)))}")
        for completion in [completion for completion in self.completions if completion[0] == key]:
            self.discard("completions", completion, forget=True)
        self.discard(kind, key, forget=True)
        for original, made in self.derived.items():
            if original != key:
                made.pop(key, None)

    def disable(self, names: Collection[str], tags: Collection[str]) -> None:
        """Take entries out of service. Raises `ValueError` for a name that is not registered."""
        names = self._check_known(names)
        for kind in LISTED:
            for key, entry in tuple(self.of(kind).items()):
                if key in names or entry.tags.intersection(tags):
                    (self._drop if self._in_place(kind, key) else self.discard)(kind, key, forget=False)
                    self.disabled[kind, key] = entry

    def enable(self, names: Collection[str], tags: Collection[str]) -> None:
        """Put entries back into service. Raises `ValueError` for a name that is not registered."""
        names = self._check_known(names)
        for (kind, key), entry in tuple(self.disabled.items()):
            if key in names or entry.tags.intersection(tags):
                if kind == "tools" and not self._has_original(str(key)):
                    continue  # what it is made of is out of service
                del self.disabled[kind, key]
                (self._put if self._in_place(kind, key) else self.set_entry)(kind, key, entry)

    def mount(self, inner: Registry, prefix: str | None) -> None:
        """Take over all that another registry has and will have. Raises as `add`, before anything is changed."""
        if inner.holds(self):
            raise ValueError("an app cannot be mounted in itself")
        found = [(kind, key, entry) for kind in KINDS for key, entry in inner.of(kind).items()]
        for kind, key, entry in found:
            self.check_addable(kind, inner.key_within(kind, prefix, key), getattr(entry, "task", None))
        for kind in LISTED:
            for key in set(inner.away(kind)).difference(inner.of(kind)):
                self.check_addable(kind, inner.key_within(kind, prefix, key), None)
        inner.outer.append((self, prefix))
        self.inner.append(inner)
        if inner.reflects:
            self.set_reflecting()
        for kind, key, entry in found:
            self.set_mounted(inner, prefix, kind, key, entry)

    def holds(self, other: Registry) -> bool:
        """Return whether another registry is this one, or mounted in it."""
        return other is self or any(self.holds(outer) for outer, _ in other.outer)

    @property
    def is_served(self) -> bool:
        """Whether a server was created for this registry, or for one in which it is mounted."""
        return self.served is not None or any(outer.is_served for outer, _ in self.outer)

    def check_pages(self, what: str) -> None:
        """Raise `LocalProtocolError` if a server was created that does not declare pages, so that clients never see them."""
        if self.served is not None and not self.declares_pages:
            raise LocalProtocolError(
                f"{what} is the first page, but the server was created already: register it before the first use of "
                "`app.server`"
            )
        for outer, _ in self.outer:
            outer.check_pages(what)

    def check_skills(self, what: str) -> None:
        """Raise `LocalProtocolError` if a server was created that does not declare skills, so that clients never ask for them."""
        if self.served is not None and not self.declares_skills:
            raise LocalProtocolError(
                f"'{what}' is of the first skill, but the server was created already: register it before the first use of "
                "`app.server`"
            )
        for outer, _ in self.outer:
            outer.check_skills(what)

    def key_within(self, kind: str, prefix: str | None, key: Key) -> Key:
        """Return the key of an entry in a registry that mounts this one. Raises `ValueError` for one that is too long."""
        if isinstance(key, tuple):
            of = prefixed("templates" if self.knows("templates", key[0]) else "prompts", prefix, key[0])
            return of, key[1]
        return prefixed(kind, prefix, key)

    def _check_known(self, names: Collection[str]) -> list[str]:
        """Return the keys of entries; a tool with versions has several. Raises `ValueError` for an unknown name."""
        found = [key for name in names for key in self._keys_of(name)]
        for name in found:
            if not any(self.knows(kind, name) for kind in LISTED):
                known = (str(key) for kind in LISTED for key in getattr(self, kind))
                raise ValueError(f"'{name}' is not registered{did_you_mean(name, known)}")
        return found

    def _keys_of(self, name: str) -> list[str]:
        """Return the keys of the versions of a tool, of the tools that replace it, or the name itself."""
        versions = [key for key in self.every_tool() if key.startswith(f"{name}@")]
        if name in self.replaced and name not in self.derived.get(name, ()):
            versions += [key for made in self.derived.get(name, ()) for key in self._keys_of(made)]
        return versions or [name]

    def check_addable(self, kind: str, key: Key, task: Support | None) -> None:
        """Raise the error of `add` for what cannot be added here, or where this is mounted; `task` is as of a tool."""
        if self.knows(kind, key):
            raise ValueError(f"{key!r} is registered already")
        if kind == "resources" and comparable(str(key)) in self.spelled:
            other = self.spelled[comparable(str(key))]
            raise ValueError(f"{key!r} is registered already, in another spelling: {other!r}")
        if key in self.away(kind):
            raise ValueError(
                f"{key!r} is registered already and disabled at present; remove it first, or use another name"
            )
        if kind == "tools":
            check_versions(str(key), task, {name: tool.task for name, tool in self.every_tool().items()})
        if self.served is not None and kind not in self.served:
            raise LocalProtocolError(
                f"{key!r} is the first of the {kind}, but the server was created already. Clients learn on connecting which kinds exist: "
                "register one before the first use of `app.server`"
            )
        if task is not None and self.served is not None and not self.runs_tasks:
            raise LocalProtocolError(
                f"{key!r} is the first tool that can run as a task, but the server was created already: register it before the first use of `app.server`"
            )
        for outer, prefix in self.outer:
            outer.check_addable(kind, self.key_within(kind, prefix, key), task)

    def set_entry(self, kind: str, key: Key, entry: Any) -> None:  # noqa: ANN401 - of its kind
        """Put an entry into service here and where this is mounted, and with it the tools that are made of it."""
        made = self.derived.get(str(key), {}) if kind == "tools" else {}
        for name, derive in made.items():
            (self._put if name == key else self.set_entry)(kind, name, derive(entry))
        if kind == "tools" and key in self.replaced:
            self.replaced[str(key)] = entry
        else:
            self._put(kind, key, entry)

    def _put(self, kind: str, key: Key, entry: Any) -> None:  # noqa: ANN401 - of its kind
        if (kind, key) in self.disabled:
            self.disabled[kind, key] = entry  # it changed where it comes from, and stays out of service here
            return
        self.of(kind)[key] = entry
        if kind == "tools":
            self._index(str(key))
        elif kind == "resources":
            self.spelled[comparable(str(key))] = str(key)
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
            if prefix is not None:
                around = (partial(with_own_names, kind, prefix, around, inner.serves),)
            entry = renamed(entry, str(key), self.checks(entry.tags), around)
            if isinstance(entry, RegisteredTool) and entry.ui is not None:
                entry = replace(entry, ui=entry.ui.renamed(partial(prefixed, "resources", prefix)))
            if isinstance(entry, RegisteredTool) and entry.originals and prefix is not None:
                entry = replace(entry, originals=tuple(f"{prefix}_{name}" for name in entry.originals))
        self.set_entry(kind, key, entry)

    def discard(self, kind: str, key: Key, *, forget: bool) -> None:
        """Remove an entry here and where this is mounted; one that is disabled stays so unless it is forgotten."""
        if kind == "tools":
            for name in self.derived.get(str(key), ()):
                if name != key:
                    self.discard(kind, name, forget=forget)
            if key in self.replaced:
                self.replaced[str(key)] = None
        self._drop(kind, key, forget=forget)

    def _has_original(self, key: str) -> bool:
        """Return whether all is in service that a tool is made of."""
        originals = (name for name, made in self.derived.items() if key in made)
        return all(self.replaced.get(name) or (name != key and name in self.tools) for name in originals)

    def _in_place(self, kind: str, key: Key) -> bool:
        """Return whether a tool is made of one that had the same name."""
        return kind == "tools" and key in self.derived.get(str(key), ())

    def _drop(self, kind: str, key: Key, *, forget: bool) -> None:
        for outer, prefix in self.outer:
            outer.discard(kind, self.key_within(kind, prefix, key), forget=forget)
        if forget:
            self.disabled.pop((kind, key), None)
        if self.of(kind).pop(key, None) is not None:
            if kind == "tools":
                self._index(str(key))
            elif kind == "resources":
                del self.spelled[comparable(str(key))]
            self._notify(kind)

    def _index(self, key: str) -> None:
        """Order the versions of a tool again, after one of them came or went."""
        name, _, version = key.partition("@")
        if not version:
            return
        self.versions[name] = versions_among(name, self.tools)
        if not self.versions[name]:
            del self.versions[name]

    @contextmanager
    def one_notification(self) -> Iterator[None]:
        """Notify clients of the lists that change in the block once, at its end, here and where this is mounted."""
        with ExitStack() as outside:
            for outer, _ in self.outer:
                outside.enter_context(outer.one_notification())
            before, self.waiting = self.waiting, set() if self.waiting is None else self.waiting
            try:
                yield
            finally:
                changed, self.waiting = self.waiting, before
                if before is None:
                    for kind in sorted(changed):
                        self._notify(kind)

    def _notify(self, kind: str) -> None:
        if self.waiting is not None:
            self.waiting.add(kind)
            return
        what = KINDS[kind]
        if self.on_changed is not None and what is not None:
            self.notifies = True
            try:
                self.on_changed(what, None)
            finally:
                self.notifies = False

    def tell_outer(self, kind: Changed, uri: str | None) -> None:
        """Notify the clients of the apps that mount this one of a change that its own server was told of."""
        if self.notifies:  # who mounts this is notified as its own lists change
            return
        for outer, prefix in self.outer:
            outside = None if uri is None else prefixed("resources", prefix, uri)
            (outer.on_changed or outer.tell_outer)(kind, outside)

    def serves(self, uri: str) -> bool:
        """Return whether a URI is that of a resource here, for some clients or all."""
        if comparable(uri) in self.spelled:
            return True
        return any(each.template.canonical(uri) is not None for each in tuple(self.templates.values()))
