"""What an app registers: its tools, resources, templates and prompts, and who sees them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from mcprev.app.results import ToolReturns
from mcprev.app.signatures import Function
from mcprev.app.uri_templates import Template
from mcprev.callbacks import allows
from mcprev.protocol.tasks import Support
from mcprev.server.context import Context
from mcprev.server.kept import Kept
from mcprev_types.latest import models

if TYPE_CHECKING:
    from mcprev.extensions.skills.serving import Published
    from mcprev.extensions.ui import ToolInterface
    from mcprev.server.middleware import Middleware

E = TypeVar("E", bound="Entry")
Visible: TypeAlias = Callable[[Context, frozenset[str]], bool | Awaitable[bool]]
Check: TypeAlias = tuple[Callable[..., object], tuple[object, ...]]
"""A function that says whether the client of a request sees an entry, and its arguments after the context."""


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
        known = _SHOWN[ctx]
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
    ui: ToolInterface | None = None
    """The page that shows its results, and who sees the tool."""
    originals: tuple[str, ...] = ()
    """The names of the tools that it is made of: a call needs the scopes of each of them."""

    def shown_as(self, ctx: Context, resources: Collection[str]) -> models.Tool:
        """Return the tool as the client of a request sees it: with its page if the client shows pages."""
        if self.ui is None or (self.ui.uri is not None and self.ui.uri not in resources):
            return self.listed
        from mcprev.extensions.ui import shown_to

        meta = {**(self.listed.meta or {}), **self.ui.meta}
        return self.listed.model_copy(update={"meta": meta}) if shown_to(ctx) else self.listed


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Resource(Entry):
    """A function that reads one resource."""

    listed: models.Resource
    cache: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """How long and for whom a client may keep what it read, as members of the result."""
    unlisted: bool = False
    """Whether lists leave it out."""
    skill: Published | None = None
    """How the skill is served whose SKILL.md this is."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ResourceTemplate(Entry):
    """A function that reads the resources of a template."""

    listed: models.ResourceTemplate
    template: Template
    cache: Mapping[str, Any] = field(default_factory=dict[str, Any])
    skill: Published | None = None
    """How the skill is served whose files these are."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Prompt(Entry):
    """A function that is a prompt."""

    listed: models.Prompt


_SHOWN: Final = Kept[dict[Entry, bool]](dict)
"""The entries that the clients of requests see or do not see, as far as it was asked."""


def renamed(entry: E, key: str, checks: tuple[Check, ...], around: tuple[Middleware, ...]) -> E:
    """Return an entry under another name or URI, with further checks of who sees it, and with middleware."""
    told: dict[str, Any] = {"checks": (*entry.checks, *checks), "around": around}
    if isinstance(entry, ResourceTemplate):
        told["template"] = entry.template.renamed(key)
    name = next(name for name in ("uri_template", "uri", "name") if hasattr(entry.listed, name))
    return replace(entry, listed=entry.listed.model_copy(update={name: key}), **told)
