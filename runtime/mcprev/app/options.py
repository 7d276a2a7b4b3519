"""The options of an app and of its decorators."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any, Final, Literal, TypedDict, TypeVar

from mcprev.app.signatures import Function
from mcprev.app.uri_templates import Template
from mcprev.errors import Json
from mcprev.json_schema.typed import Schema
from mcprev.server.context import Context
from mcprev_types.latest import models

if TYPE_CHECKING:
    from mcprev.convert import OnDowngrade
    from mcprev.protocol.request_state import RequestStateSealer
    from mcprev.server.middleware import Middleware
    from mcprev.server.server import Lifespan
    from mcprev.server.tasks import Tasks

_OWN: Final = ("tags", "visible", "task", "ttl_ms", "cache_scope")
"""Options that are not sent to clients as members of the entry."""


class ServerOptions(TypedDict, total=False):
    """The options of `mcprev.Server`; see there."""

    revisions: tuple[str, ...] | list[str] | None
    instructions: str | None
    title: str | None
    description: str | None
    website_url: str | None
    icons: Sequence[models.Icon]
    exact: Mapping[str, object] | None
    capabilities: models.ServerCapabilities | None
    requires: Mapping[str, models.ClientCapabilities] | None
    states: RequestStateSealer | None
    tasks: Tasks | None
    lifespan: Lifespan | Sequence[Lifespan]
    middleware: Sequence[Middleware]
    on_downgrade: OnDowngrade | None
    show_errors: bool
    ping_interval: float | None
    max_line: int
    max_handlers: int


class EntryOptions(TypedDict, total=False):
    """Options of all decorators; their defaults come from the function."""

    name: str
    """The name for clients; default: the function's name."""
    title: str
    """The name for people."""
    description: str
    """The description; default: the first paragraph of the docstring."""
    icons: list[models.Icon]
    meta: dict[str, Json]
    tags: Collection[str]
    """Words of your own, for `App(visible=...)`, `App.disable` and `App.enable`; clients do not see them."""
    visible: Callable[[Context], bool]
    """Whether the client of a request sees the entry; for a client that does not, it does not exist."""


class ToolOptions(EntryOptions, total=False):
    """Options of `App.tool`."""

    annotations: models.ToolAnnotations
    """Hints about the tool's behaviour."""
    task: Literal["optional", "required"]
    """Whether calls can, or have to, run as tasks; see `mcprev.Tasks`."""


class ResourceOptions(EntryOptions, total=False):
    """Options of `App.resource`."""

    mime_type: str
    annotations: models.Annotations
    """The audience of the resource and its priority."""
    ttl_ms: int
    """How long a client may keep what it read, in milliseconds, at the revisions that say so; default: not at all."""
    cache_scope: Literal["public", "private"]
    """Whether what was read may be shared between users (`public`), or is for its reader alone, the default."""


def read_options(
    function: Function, options: Mapping[str, Any], known: type
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the members of the entry that clients see, with defaults from the function, and the other options."""
    for name in options.keys() - known.__annotations__.keys():
        function.refuse(f"'{name}' cannot be said of it; there are {', '.join(known.__annotations__)}")
    if isinstance(options.get("tags"), str):
        function.refuse("`tags` is one string; pass several in a set, as in tags={'admin'}")
    said = {"name": function.name, "description": function.description, **options}
    return {name: said[name] for name in said if name not in _OWN}, {
        name: said[name] for name in said if name in _OWN
    }


V = TypeVar("V", bound=Callable[..., bool])


def checked(visible: V) -> V:
    """Return a function that says who sees an entry. Raises `TypeError` for a coroutine function, which is always true."""
    if iscoroutinefunction(visible):
        raise TypeError(
            "`visible` cannot be awaited; what takes time belongs into a middleware or a dependency"
        )
    return visible


def check_variables(function: Function, template: Template) -> None:
    """Raise `TypeError` if the parameters of a function are not the variables of its template."""
    for name in template.names:
        if name not in function.names:
            function.refuse(f"does not take '{name}', a variable of '{template.text}'; add the parameter")
    for name in function.required.difference(template.names):
        function.refuse(
            f"is no variable of '{template.text}'; put it there in braces, or give it a default", name
        )
    check_texts(function, template.names, "URIs")


def check_texts(function: Function, names: Sequence[str], of: str) -> None:
    """Raise `TypeError` for an argument that cannot be made of text."""
    for name in names:
        if not _is_text(function.schema["properties"][name], function.schema):
            function.refuse(f"is neither text nor made of one, and {of} have texts only", name)


def _is_text(schema: Schema, root: Schema) -> bool:
    """Return whether a schema accepts a string."""
    if "$ref" in schema:
        schema = root["$defs"][schema["$ref"].rpartition("/")[2]]
    options = schema.get("anyOf") or schema.get("oneOf")
    if options:
        return any(_is_text(option, root) for option in options)
    return schema.get("type") not in {"array", "object", "null"}
