"""The names and URIs of an app's functions: valid names of tools, versions, and the prefixes of mounted apps."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from mcprev.protocol.tool_names import MAX_TOOL_NAME
from mcprev_types.latest import models

if TYPE_CHECKING:
    from mcprev.server.context import Context
    from mcprev.server.middleware import CallNext, HandlerCall, HandlerResult, Middleware

VERSION: Final = "mcprev/version"
"""The member of the `_meta` of a listed tool that has its version, if it has versions."""
VERSIONS: Final = "mcprev/versions"
"""The same for all versions, the newest first. Each is called as `name@version`."""
_SCHEME: Final = "^([^:]*:(?://)?)"
"""The part of a URI that precedes a prefix."""


def versions_among(name: str, keys: Iterable[str]) -> list[str]:
    """Return the keys `name@version` of the versions of a tool, the newest first: their numbers are compared."""

    def order(key: str) -> tuple[int, ...]:
        return tuple(int(part) for part in re.split("[.-]", key.removeprefix(f"{name}@")))

    return sorted((key for key in keys if key.startswith(f"{name}@")), key=order, reverse=True)


def check_versions(key: str, task: object, tools: Mapping[str, object]) -> None:
    """Raise `ValueError` for a tool that has no version beside some that have, or another `task`, the value in `tools`."""
    name, _, version = key.partition("@")
    versions = versions_among(name, tools)
    if versions and not version:
        raise ValueError(f"'{name}' has versions already; pass version= for this one, too")
    if version and name in tools:
        raise ValueError(f"'{name}' is registered without a version; pass version= for that one, too")
    if any(tools[each] is not task for each in versions):
        raise ValueError(
            f"the versions of '{name}' have different values of `task`; pass the same one for each"
        )


def prefixed(kind: str, prefix: str | None, key: str) -> str:
    """Return a name or URI with a prefix. Raises `ValueError` for a tool name that gets too long."""
    if prefix is None:
        return key
    if kind in {"resources", "templates"}:
        return re.sub(_SCHEME, rf"\g<1>{prefix}/", key)
    name = f"{prefix}_{key}"
    if kind == "tools" and len(name) > MAX_TOOL_NAME:
        raise ValueError(f"'{name}' is too long for a tool name; use a shorter prefix")
    return name


def unprefixed(kind: str, prefix: str, key: str) -> str:
    """Return a name or URI without the prefix that `prefixed` adds."""
    if kind in {"resources", "templates"}:
        return re.sub(f"{_SCHEME}{re.escape(prefix)}/", r"\1", key)
    return key.removeprefix(f"{prefix}_")


async def with_own_names(
    kind: str,
    prefix: str,
    middleware: Sequence[Middleware],
    serves: Callable[[str], bool],
    call: HandlerCall,
    call_next: CallNext,
) -> HandlerResult:
    """Run the middleware of an app that is mounted with a prefix: its params have the names of that app.

    In its result, links to resources that it `serves` lead to them under their names outside.
    """
    from mcprev.server.middleware import wrap

    async def outside(ctx: Context, params: Any) -> HandlerResult:  # noqa: ANN401 - of its method
        return await call_next(
            replace(call, ctx=ctx, params=_rename(params, partial(prefixed, kind, prefix)))
        )

    own = _rename(call.params, partial(unprefixed, kind, prefix))
    found: HandlerResult = await wrap(middleware, call.method, outside)(call.ctx, own)

    def outer(uri: str) -> str:
        inner = unprefixed("resources", prefix, uri)
        if uri == getattr(call.params, "uri", None) or (inner != uri and serves(inner)) or not serves(uri):
            return uri  # the name outside already, or of another server
        return prefixed("resources", prefix, uri)

    return _linked(found, outer)


def _linked(result: HandlerResult, change: Callable[[str], str]) -> HandlerResult:
    """Return a result with the URIs changed of the resources that it links to or contains."""

    def contents(part: Any) -> Any:  # noqa: ANN401 - of several models
        uri = change(part.uri)
        return part if uri == part.uri else part.model_copy(update={"uri": uri})

    def block(part: Any) -> Any:  # noqa: ANN401 - of several models
        if isinstance(part, models.ResourceLink):
            return contents(part)
        if not isinstance(part, models.EmbeddedResource):
            return part
        inside = contents(part.resource)
        return part if inside is part.resource else part.model_copy(update={"resource": inside})

    if isinstance(result, models.CallToolResult):
        return result.model_copy(update={"content": [block(part) for part in result.content]})
    if isinstance(result, models.GetPromptResult):
        messages = [each.model_copy(update={"content": block(each.content)}) for each in result.messages]
        return result.model_copy(update={"messages": messages})
    if isinstance(result, models.ReadResourceResult):
        return result.model_copy(update={"contents": [contents(part) for part in result.contents]})
    return result


def _rename(params: Any, change: Callable[[str], str]) -> Any:  # noqa: ANN401 - a model
    """Return the params of a call with the name or URI of its entry changed."""
    if isinstance(params, models.CompleteRequestParams):
        return params.model_copy(update={"ref": _rename(params.ref, change)})
    name = "uri" if hasattr(params, "uri") else "name"
    return params.model_copy(update={name: change(getattr(params, name))})
