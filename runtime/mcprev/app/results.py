"""Converts return values to results (TOOL-4, TOOL-5, RES-1, RES-2, PROM-2, COMP-1).

A tool whose return annotation is a data type has an output schema and structured content; the value is validated
against the annotation before it is sent. Results are of the newest revision and are converted for older ones, as for
any handler.
"""

from __future__ import annotations

import base64
import inspect
from collections.abc import Iterable, Mapping, Sequence
from math import isfinite
from types import NoneType, UnionType
from typing import Annotated, Any, Final, TypeAlias, Union, cast, get_args, get_origin

from pydantic import TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError, to_json, to_jsonable_python

from mcprev.app.signatures import Function
from mcprev.core.tool_schemas import WRAPPER, ToolSchemas as Schemas
from mcprev.errors import Json, LocalProtocolError, ResourceNotFound
from mcprev.json_schema.bounds import LIST, OBJECT
from mcprev.json_schema.plain import compile_plain
from mcprev.json_schema.typed import NO_SCHEMA, Schema, adapter_of, first_sentence, schema_from
from mcprev.protocol.result_rules import MOST_VALUES
from mcprev.revisions import Revision
from mcprev.wire.text import unicode_only
from mcprev_types import MAX_ERRORS, details_of
from mcprev_types.latest import models

Block: TypeAlias = models.ContentBlock
Contents: TypeAlias = models.TextResourceContents | models.BlobResourceContents
CALL_RESULTS: Final = (models.CallToolResult, models.InputRequiredResult)
_SHOWN: Final = 3
"""How many of the places of a value that does not fit are told."""
_UNION: Final[Any] = Union
JSON_TYPE: Final = "application/json"
BINARY_TYPE: Final = "application/octet-stream"


def _members(hint: Any) -> list[Any]:  # noqa: ANN401 - any annotation
    """Return the types of a union or a single type; an empty list for `Any` and missing annotations."""
    while hasattr(hint, "__value__"):  # a type alias
        hint = hint.__value__
    origin = get_origin(hint)
    if origin is Annotated:
        return _members(get_args(hint)[0])
    if origin in (Union, UnionType):
        return [member for arg in get_args(hint) for member in _members(arg)]
    if hint is None:
        return [NoneType]
    return [] if hint in (inspect.Signature.empty, Any, object) else [hint]


BLOCKS: Final[tuple[type[Any], ...]] = tuple(_members(models.ContentBlock))
"""The content block types of the latest revision, and the one for unknown types."""
_ITEMS: Final[tuple[type[Any], ...]] = (bytes, *BLOCKS)
"""The types of what is content in a list."""


# -- tools -----------------------------------------------------------------------------------------------


def _where(error: ValueError) -> str:
    """Return the places of a value that does not fit, such as `[1].b[0]`, with what they should be."""
    if not isinstance(error, ValidationError):
        return f": {first_sentence(error)}"
    found: list[str] = []
    for each in details_of(error)[:_SHOWN]:
        steps = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in each["loc"])
        found.append(f"{''.join(steps).removeprefix('.')} {each['msg'].partition(', unable to')[0]}".strip())
    count = error.error_count()
    more = count - len(found) if count <= MAX_ERRORS else 0
    return f": {'; '.join(found)}" + (f"; and {more} more" if more else "")


class ToolReturns:
    """The return type of one tool: content, or data with a schema."""

    def __init__(self, name: str, function: Function, schema: Schema | None = None) -> None:
        """Read the annotation. Raises `TypeError` for a type without a schema.

        A `schema` is that of the data in the results that the function makes, and checks itself.
        """
        self._name = name
        self.schema: Schema | None = schema
        """JSON Schema of the data; None for a tool that returns content."""
        self._data: TypeAdapter[Any] | None = None
        members = _members(function.returns)
        kept = [member for member in members if member not in CALL_RESULTS]
        if not all(map(_is_content, kept)):
            hint = function.returns if len(kept) == len(members) else _UNION[tuple(kept)]
            try:
                self._data = adapter_of(hint)
                self.schema = schema_from(self._data, "serialization")
            except NO_SCHEMA as error:
                function.refuse(
                    f"returns a type that has no JSON Schema ({first_sentence(error)}); annotate a model, dataclass, TypedDict or "
                    "a type of JSON, or leave the annotation out"
                )
        self._open = any(member in (list, tuple) for member in kept)
        """Whether the annotation may admit content among data, as `list` does."""
        self._wraps = self.schema is not None and self.schema.get("type") != "object"
        # Simple schemas are checked; for others, trust pydantic, which wrote the schema, but for numbers.
        plain = schema is None and self.schema is not None and compile_plain(self.schema) is not None
        self._schemas = Schemas(name, None, self.schema if plain else None)
        self._whole = None if plain or self._data is None else Schemas(name, None, self.schema)

    def wrapped_tool(self, tool: models.Tool) -> models.Tool:
        """Return the tool as clients see it whose structured content is always an object: other data is in `result`."""
        if not self._wraps or self.schema is None:
            return tool
        schema = {name: value for name, value in self.schema.items() if name != "$defs"}
        output: Schema = {"type": "object", "properties": {WRAPPER: schema}, "required": [WRAPPER]}
        if "$defs" in self.schema:
            output["$defs"] = self.schema["$defs"]
        return tool.model_copy(update={"output_schema": models.ToolOutputSchema.from_wire(output)})

    def result(self, value: object, revision: Revision) -> models.CallToolResult | models.InputRequiredResult:
        """Return the result for a value. Raises `LocalProtocolError` for data that does not fit the annotation."""
        if isinstance(value, CALL_RESULTS):
            if isinstance(value, models.CallToolResult) and self.schema is not None:
                wire = value.to_wire()
                self._schemas.conform(wire)
                if self._wraps and revision.structured_objects and "structuredContent" in wire:
                    return value.model_copy(update=_wrapped(wire["structuredContent"], value.content))
            return value
        if self._data is None:
            return models.CallToolResult(content=_content(value, self._name))
        if self._open and any(isinstance(item, BLOCKS) for item in _several(value)):
            raise LocalProtocolError(
                f"the tool '{self._name}' returned content, but its return annotation describes structured content; annotate content, as in "
                "`list[str | mcprev.Image]`"
            )
        structured = self._structured(self._data, value)
        self._schemas.conform({"structuredContent": structured})
        if self._whole is not None and _has_no_number(structured):
            self._whole.conform({"structuredContent": structured})
        if self._wraps and revision.structured_objects:
            return models.CallToolResult(**_wrapped(structured, []))
        # The server adds the JSON text (TOOL-5).
        return models.CallToolResult(content=[], structured_content=structured)

    def _structured(self, data: TypeAdapter[Any], value: object) -> Json:
        def dumped(value: object) -> Json:
            return data.dump_python(data.validate_python(value), mode="json", by_alias=True, warnings="error")

        try:
            try:
                return dumped(value)
            except ValueError:  # a `ValidationError` is one
                return dumped(unicode_only(value))  # raises it again if it was for another reason
        except (ValidationError, ValueError) as error:
            raise LocalProtocolError(
                f"the tool '{self._name}' returned a value that its return annotation does not allow{_where(error)}"
            ) from error


def _wrapped(structured: Json, content: list[Block]) -> dict[str, Any]:
    """Return the members of a result whose structured content has to be an object."""
    text = models.TextContent(text=_json(structured))
    return {"content": content or [text], "structured_content": {WRAPPER: structured}}


def _has_no_number(value: Json) -> bool:
    """Return whether a value holds a float that JSON does not have, in whose place null is sent."""
    if isinstance(value, float):
        return not isfinite(value)
    if isinstance(value, OBJECT):
        return any(map(_has_no_number, value.values()))
    return isinstance(value, LIST) and any(map(_has_no_number, value))


def _is_content(hint: Any) -> bool:  # noqa: ANN401 - any annotation
    """Return whether values of a type are content rather than data."""
    if hint in (str, bytes, NoneType) or _is_block(hint):
        return True
    origin = get_origin(hint)
    if not (isinstance(origin, type) and issubclass(origin, Iterable)) or issubclass(origin, Mapping):
        return False
    inner = [member for arg in get_args(hint) if arg is not Ellipsis for member in _members(arg)]
    return any(member is bytes or _is_block(member) for member in inner)


def _is_block(hint: object) -> bool:
    return isinstance(hint, type) and issubclass(hint, BLOCKS)


def _content(value: object, tool: str) -> list[Any]:
    """Return the content of a value: blocks as they are, text, bytes as a resource, or other values as JSON.

    The items of a list are blocks of their own if one of them is a block or bytes; otherwise the list is data.
    """
    if value is None:
        return []
    items = _several(value)
    # By type: data may have half a million items, of few types.
    if isinstance(value, str) or not items or any(issubclass(kind, _ITEMS) for kind in set(map(type, items))):
        items = [_block(item, tool) for item in items]
        return [item if isinstance(item, BLOCKS) else models.TextContent(text=_text(item)) for item in items]
    return [models.TextContent(text=_json(value))]


def _text(item: object) -> str:
    return item if isinstance(item, str) else _json(item)


def _block(item: object, tool: str) -> object:
    """Return the embedded resource of bytes, and any other item as it is."""
    if not isinstance(item, bytes):
        return item
    return models.EmbeddedResource(resource=_blob(item, f"tool:{tool}", BINARY_TYPE))


def _several(value: object) -> Sequence[object]:
    """Return the items of a list or tuple, or a list of the single value."""
    return cast("Sequence[object]", value) if isinstance(value, list | tuple) else (value,)


def _json(value: object) -> str:
    try:
        return to_json(value, by_alias=True, inf_nan_mode="null").decode()
    except PydanticSerializationError:
        plain = to_jsonable_python(unicode_only(value), by_alias=True, inf_nan_mode="null")
        return to_json(
            unicode_only(plain), inf_nan_mode="null"
        ).decode()  # raises it again if it was for another reason


# -- resources, prompts, completions ---------------------------------------------------------------------


def contents_of(
    value: object, uri: str, mime_type: str | None, cache: Mapping[str, Any]
) -> models.ReadResourceResult | models.InputRequiredResult:
    """Return the contents of a resource, with the members about caching. Raises `ResourceNotFound` for None."""
    if isinstance(value, models.ReadResourceResult | models.InputRequiredResult):
        return value
    if value is None:
        raise ResourceNotFound("Resource not found", data={"uri": uri})
    items = [item for item in _several(value) if isinstance(item, Contents)]
    if not items or len(items) < len(_several(value)):
        items = [_contents(value, uri, mime_type)]
    return models.ReadResourceResult(contents=items, **cache)


def _contents(value: object, uri: str, mime_type: str | None) -> Contents:
    if isinstance(value, bytes):
        return _blob(value, uri, mime_type)
    if isinstance(value, str):
        return models.TextResourceContents(uri=uri, mime_type=mime_type, text=value)
    return models.TextResourceContents(uri=uri, mime_type=mime_type or JSON_TYPE, text=_json(value))


def _blob(value: bytes, uri: str, mime_type: str | None) -> models.BlobResourceContents:
    return models.BlobResourceContents(uri=uri, mime_type=mime_type, blob=base64.b64encode(value).decode())


def messages_of(
    value: object, description: str | None
) -> models.GetPromptResult | models.InputRequiredResult:
    """Return the messages of a prompt; values without a role are the user's. Raises `TypeError` for other values."""
    if isinstance(value, models.GetPromptResult | models.InputRequiredResult):
        return value
    return models.GetPromptResult(
        description=description, messages=[_message(item) for item in _several(value)]
    )


def _message(value: object) -> models.PromptMessage:
    if isinstance(value, models.PromptMessage):
        return value
    if isinstance(value, str):
        value = models.TextContent(text=value)
    if isinstance(value, BLOCKS):
        return models.PromptMessage(role="user", content=cast("Block", value))
    raise TypeError(
        f"a prompt returned {type(value).__name__}, which is not a message; return text, a content block or a `PromptMessage`"
    )


def completion_of(value: object) -> models.CompleteResult:
    """Return completion values, up to the limit of the protocol. Raises `TypeError` for other values."""
    if isinstance(value, models.CompleteResult):
        return value
    if isinstance(value, models.CompleteResultCompletion):
        return models.CompleteResult(completion=value)
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise TypeError(f"a completion returned {type(value).__name__}; return a list of strings")
    values = list(cast("Iterable[str]", value))
    completion = models.CompleteResultCompletion(
        values=values[:MOST_VALUES], total=len(values), has_more=len(values) > MOST_VALUES
    )
    return models.CompleteResult(completion=completion)
