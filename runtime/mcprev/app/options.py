"""The options of `mcprev.App` and of its decorators."""

from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypedDict

from mcprev.app.signatures import Function
from mcprev.app.uri_templates import Template
from mcprev.core.options import Takes, fits, has, is_a
from mcprev.errors import Json
from mcprev.json_schema.typed import Schema
from mcprev.server.context import Context
from mcprev.server.server import ServerOptions
from mcprev_types.latest import models

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from mcprev.app.entries import Visible
    from mcprev.extensions.ui import ToolInterface, UserInterface

_OWN: Final = (
    "tags", "visible", "task", "ui", "version", "timeout", "strict_arguments", "ttl_ms", "cache_scope",
)  # fmt: skip
"""Options that are not sent to clients as members of the entry."""
NOT_MOUNTED: Final = {
    "show_errors": "pass it to the app that mounts it, or raise `mcprev.ToolError` in the tools",
    **dict.fromkeys(
        ("exact", "requires", "on_downgrade", "capabilities", "extensions", "auth", "http", "store", "state"),
        "pass it to the app that mounts it",
    ),
}
"""Options that would have no effect in a mounted app, and what to do instead."""


class FunctionOptions(TypedDict, total=False):
    """The options of `mcprev.App` about its functions."""

    visible: Annotated["Visible | None", Takes(fits(callable), "a function of the context and the tags")]
    """Called as `visible(context, tags)` for each request and each tool, resource, template and prompt. If it returns False,
    the client of this request does not see the entry: it is not listed, and a call gets the error of an unknown name. None:
    every client sees every entry. It may be async. If it raises, or returns anything but True and False, that is logged, and
    the entry is not seen."""
    executor: Annotated[
        "Executor | None",
        Takes(has("submit"), "an executor, such as concurrent.futures.ThreadPoolExecutor(64)"),
    ]
    """Runs the functions that are not async, such as a `concurrent.futures.ThreadPoolExecutor(64)`. The app does not shut it
    down. None: threads that the apps of an event loop share, and nothing else: functions that block do not delay what else
    uses the event loop's executor, such as looking up host names."""
    strict_arguments: Annotated[bool, Takes(is_a(bool), "True or False", default=False)]
    """True refuses an argument of a tool whose JSON type is not that of the schema. False, the default: it is converted where
    that loses nothing, as models often send text: `"1"` is 1 for an `int`, `"true"` is True for a `bool`, JSON text is the
    object or list that it holds, and `""` is None for an optional one."""
    list_ttl_ms: Annotated[int, Takes(is_a(int), "a number of milliseconds", 0)]
    """How long each client may keep the lists of tools, resources, templates and prompts, in milliseconds; it has no effect
    at revisions without such hints. 0, the default: clients ask each time."""


class AppOptions(FunctionOptions, ServerOptions, total=False):
    """The options of `mcprev.App`."""


class EntryOptions(TypedDict, total=False):
    """The options of every decorator. None is required."""

    name: str
    """The name that clients use. Default: the function's name."""
    title: str
    """The name that clients display. Default: none."""
    description: str
    """The description, for the model or the user. Default: the docstring of the function, without its section about arguments, which describes each of them in the schema."""
    icons: Sequence[models.Icon | Mapping[str, Json]]
    """Icons that clients display."""
    meta: dict[str, Json]
    """The `_meta` of the entry in lists."""
    tags: Collection[str]
    """Labels for `App(visible=...)`, `App.disable` and `App.enable`; clients do not see them."""
    visible: Callable[[Context], bool | Awaitable[bool]]
    """Returns whether the client of a request sees the entry. If not, the entry is not listed, and a call gets the
    error of an unknown name. It may be async. Anything but True counts as False."""


class ToolOptions(EntryOptions, total=False):
    """The options of `App.tool`."""

    annotations: models.ToolAnnotations | Mapping[str, Json]
    """Hints about the tool's behaviour, such as `ToolAnnotations(read_only_hint=True)`."""
    task: Literal["optional", "required"]
    """`optional`: clients can call the tool as a task. `required`: they must. Default: as `mcprev.Tasks` says, or
    never."""
    version: str
    """A version of the tool: numbers joined by dots or dashes, such as `2` or `2026-01-31`. Clients see the newest
    under the plain name, and call any as `name@version`. Default: the tool has no versions."""
    timeout: float
    """The seconds in which a call has to end; then the tool fails with an error that says so. Questions to the user count at
    revisions with sessions; at others each answer is another request, which has these seconds anew. A function that is not
    async runs on, as its thread cannot be stopped. Default: no limit."""
    strict_arguments: bool
    """True refuses arguments of other types, as `App` describes. Default: the option of the app."""
    ui: "UserInterface | ToolInterface"
    """The page that shows the results in clients that show pages, as `App.ui` returns it; with `page.app_only`, the page
    calls the tool and the model does not see it. Default: none."""


class ResourceOptions(EntryOptions, total=False):
    """The options of `App.resource`."""

    mime_type: str
    """The MIME type of the contents. Default: none for text and bytes, `application/json` for other values."""
    annotations: models.Annotations | Mapping[str, Json]
    """The audience of the resource and its priority."""
    ttl_ms: int
    """How long a client may cache the contents, in milliseconds; sent at revisions with `ttlMs`. Default: 0, no caching."""
    cache_scope: Literal["public", "private"]
    """`public`: clients may share cached contents between users. `private`, the default, and for what only some clients
    see: they must not.
    """


class SkillOptions(TypedDict, total=False):
    """The options of `App.add_skills` and `App.skill`. None is required."""

    listed: bool
    """Whether `skills/list` has the skill and `resources/list` its SKILL.md. Clients that know its URI can use it in any
    case. Default: True."""
    list_files: bool
    """Whether `resources/list` has the other files of the skill, too. Default: False."""
    tags: Collection[str]
    """Labels for `App(visible=...)`, `App.disable` and `App.enable`; clients do not see them."""
    visible: Callable[[Context], bool | Awaitable[bool]]
    """Returns whether the client of a request sees the skill and its files. It may be async. Anything but True counts as False."""
    ttl_ms: int
    """How long a client may keep the entry and the files, in milliseconds. Default: `list_ttl_ms` of the app for the entry, 0
    for the files."""
    cache_scope: Literal["public", "private"]
    """`public`: clients may share what they keep between users. `private`, the default, and for what only some clients see:
    they must not."""


def check_skill_options(of: str, options: Mapping[str, object]) -> None:
    """Raise `TypeError` for an option that skills do not have, and for tags that are one text."""
    known = SkillOptions.__annotations__
    for name in options.keys() - known.keys():
        raise TypeError(f"{of} has no option '{name}'; the options are {', '.join(known)}")
    if isinstance(options.get("tags"), str):
        raise TypeError(f"{of}: `tags` is one string; pass several in a set, as in tags={{'admin'}}")


def read_options(
    function: Function, options: Mapping[str, Any], known: type
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the members of the entry that clients see, with defaults from the function, and the other options."""
    for name in options.keys() - known.__annotations__.keys():
        function.refuse(f"no option '{name}'; the options are {', '.join(known.__annotations__)}")
    if isinstance(options.get("tags"), str):
        function.refuse("`tags` is one string; pass several in a set, as in tags={'admin'}")
    said = {"name": function.name, "description": function.description, **options}
    return {name: said[name] for name in said if name not in _OWN}, {
        name: said[name] for name in said if name in _OWN
    }


def check_variables(function: Function, template: Template) -> None:
    """Raise `TypeError` if the parameters of a function are not the variables of its template."""
    for name in template.names:
        if name not in function.names:
            function.refuse(f"has no parameter '{name}', which is a variable of '{template.text}'; add it")
    for name in function.required & template.left_out:
        function.refuse(f"needs a default: a URI of '{template.text}' may leave it out", name)
    for name in function.required.difference(template.names):
        function.refuse(
            f"is not a variable of '{template.text}'; add it there in braces, or give it a default", name
        )
    lists = lists_of(function)
    check_texts(function, [name for name in template.names if name not in lists], "URIs")


def lists_of(function: Function) -> frozenset[str]:
    """Return the names of the arguments that are lists of what can be converted from text."""
    schema = function.schema

    def is_list(argument: Schema) -> bool:
        if _is_text(argument, schema):
            return False
        return any(
            _is_text(each.get("items", {}), schema) for each in _alternatives(argument, schema, {"array"})
        )

    return frozenset(name for name, argument in schema.get("properties", {}).items() if is_list(argument))


def check_texts(function: Function, names: Sequence[str], of: str) -> None:
    """Raise `TypeError` for an argument that cannot be converted from text."""
    for name in names:
        if not _is_text(function.schema["properties"][name], function.schema):
            function.refuse(f"cannot be converted from text, and arguments of {of} are text", name)


def _is_text(schema: Schema, root: Schema) -> bool:
    """Return whether a schema accepts a string."""
    return any(each.get("type") not in {"array", "object", "null"} for each in _alternatives(schema, root))


def _alternatives(schema: Schema, root: Schema, types: Collection[str] = ()) -> Iterator[Schema]:
    """Yield the schemas one of which a value has to fit, of some types or of all."""
    if "$ref" in schema:
        schema = root["$defs"][schema["$ref"].rpartition("/")[2]]
    for option in schema.get("anyOf") or schema.get("oneOf") or ():
        yield from _alternatives(option, root, types)
    if not {"anyOf", "oneOf"} & schema.keys() and (not types or schema.get("type") in types):
        yield schema
