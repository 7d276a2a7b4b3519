"""What becomes of the operations of an OpenAPI document: tools, resources and templates, or nothing."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Literal

from pydantic_core import from_json

from mcprev.app.arguments import ArgumentError
from mcprev.app.entries import RegisteredTool, Resource, ResourceTemplate
from mcprev.app.openapi.calls import ApiError, Operation
from mcprev.app.openapi.document import refuse
from mcprev.app.openapi.parameters import ApiArgument
from mcprev.app.signatures import Function
from mcprev.app.uri_templates import Template
from mcprev.errors import InternalError, Json, ToolError
from mcprev.json_schema.bounds import Validator
from mcprev_types.latest import models

_NO_NAME: Final = re.compile(r"\W", re.ASCII)


@dataclass(frozen=True, slots=True)
class OpenApiRoute:
    """A rule that decides what operations of an OpenAPI document become, for `App.from_openapi(..., routes=[...])`.

    The first rule that matches an operation decides; an operation that none matches becomes a tool. A rule with the target
    `resource` matches GET operations without arguments, which become resources, and those whose arguments are all in the
    path, which become templates. Raises `ValueError` for another target, and for a path that is not a regular expression, and `TypeError` for one string instead of several.
    """

    to: Literal["tool", "resource", "exclude"]
    """What the operation becomes: a `tool`, a `resource`, or nothing (`exclude`)."""
    methods: Collection[str] = ()
    """The methods of the operation, such as `GET`; none: any method."""
    path: str = ".*"
    """A regular expression for the whole path."""
    tags: Collection[str] = ()
    """Tags that the operation must have, all of them; none: any tags."""

    def __post_init__(self) -> None:
        if self.to not in {"tool", "resource", "exclude"}:
            raise ValueError(f"the target `to` of a route is {self.to!r:.50}; use tool, resource or exclude")
        if isinstance(self.methods, str) or isinstance(self.tags, str):
            raise TypeError("`methods` or `tags` of a route is one string; pass several in a list")
        try:
            re.compile(self.path)
        except re.error as error:
            raise ValueError(
                f"the path {self.path!r:.100} of a route is not a regular expression: {error}"
            ) from None

    def matches(self, method: str, path: str, tags: Collection[str], *, readable: bool) -> bool:
        """Return whether the rule matches an operation; `readable` tells whether the operation could be a resource."""
        methods = {name.lower() for name in self.methods}
        return (
            (readable or self.to != "resource")
            and (not methods or method in methods)
            and set(self.tags) <= set(tags)
            and re.fullmatch(self.path, path) is not None
        )


def is_readable(method: str, arguments: Mapping[str, ApiArgument]) -> bool:
    """Return whether an operation can be a resource: it only reads, and has no arguments but in the path."""
    return method == "get" and all(argument.place == "path" for argument in arguments.values())


class _Reader:
    """Reads a resource by calling an operation."""

    def __init__(self, operation: Operation) -> None:
        self._operation = operation
        self.__name__: str = operation.__name__

    async def __call__(self, arguments: dict[str, Json] | None = None) -> object:
        """Return the answer. Raises `InternalError`."""
        try:
            result = await self._operation(arguments or {})
        except ToolError as error:
            if isinstance(error, ApiError) and error.status in {404, 410}:
                return None
            raise InternalError(str(error)) from None
        wire = result.to_wire()
        if "structuredContent" in wire:
            return wire["structuredContent"]
        return "".join(part.text for part in result.content if isinstance(part, models.TextContent))


class _Read(Function):
    """The function of a resource: it reads the variables of its URI as the schema of the operation says."""

    def __init__(self, operation: Operation, check: Validator) -> None:
        super().__init__(_Reader(operation))
        self._check = check

    def read_texts(self, given: Mapping[str, str | list[str]]) -> dict[str, Any]:
        """Validate string arguments; numbers and such are converted. Raises `ArgumentError`."""
        found: dict[str, Json] = {**given}
        for path, _ in self._check(found):
            text = given.get(str(path[0])) if path else None
            if isinstance(text, str):
                with suppress(ValueError):
                    found[str(path[0])] = from_json(text, allow_inf_nan=False)
        wrong = self._check(found)
        if wrong:
            raise ArgumentError(wrong)
        return {"arguments": found}


def resource_of(
    tool: RegisteredTool,
    operation: Operation,
    check: Validator,
    path: str,
    arguments: Mapping[str, ApiArgument],
    mime_type: str | None,
    at: str,
) -> tuple[str, str, Resource | ResourceTemplate]:
    """Return the kind, the URI and the entry of an operation that is a resource. Raises `ValueError`."""
    uri = f"api://{path[1:] or '/'}"
    for key, argument in arguments.items():
        if _NO_NAME.search(key) or key[0].isdigit():
            refuse(
                at, f"has the path parameter '{key}', which cannot be in a URI template; make a tool of it"
            )
        uri = uri.replace(f"{{{argument.name}}}", f"{{{'+' if argument.reserved else ''}{key}}}")
    said: dict[str, Any] = {
        "name": tool.listed.name,
        "description": tool.listed.description,
        "mime_type": mime_type,
    }
    common: dict[str, Any] = {"function": _Read(operation, check), "tags": tool.tags}
    try:
        template = Template(uri)
    except ValueError as error:
        refuse(at, f"{error}; make a tool of it")
    if not arguments:
        return (
            "resources",
            uri,
            Resource(listed=models.Resource(**said, uri=uri), **common),
        )
    listed = models.ResourceTemplate(**said, uri_template=uri)
    return "templates", uri, ResourceTemplate(listed=listed, template=template, **common)
