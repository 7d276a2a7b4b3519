"""The result of a tool as clients return it: the generated model, with its text and its data (TOOL-5, TOOL-6).

Imported with the first call of a tool, because it needs the models.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar, cast

from pydantic import Field, TypeAdapter, ValidationError, field_validator

from mcprev.core.method_binding import first
from mcprev.core.tool_schemas import WRAPPER
from mcprev.errors import Json, RemoteProtocolError, ToolError
from mcprev.wire.bounds import check_values
from mcprev.wire.json_values import is_json_object
from mcprev_types import ABSENT
from mcprev_types.latest import models

T = TypeVar("T")


def _parsed(text: str) -> Json:
    """Return the JSON value of a text; None for any other text."""
    try:
        check_values(text.encode(errors="replace"))
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _is_wrapper(sent: Json) -> bool:
    """Return whether structured content has only the member that other values than objects are put in."""
    return is_json_object(sent) and sent.keys() == {WRAPPER}


class ToolResult(models.CallToolResult):
    """The result of `Client.call_tool`: a `CallToolResult` of the latest revision, with its text and its data."""

    if TYPE_CHECKING:
        is_error: bool  # pyright: ignore[reportIncompatibleVariableOverride,reportGeneralTypeIssues]
        """Whether the tool failed."""
    else:
        is_error: bool | None = Field(default=False, exclude_if=lambda value: value is None)

    @field_validator("is_error", mode="before")
    @classmethod
    def _null_as_absent(cls, value: object) -> object:
        return False if value is None else value

    @property
    def text(self) -> str:
        """The texts of all text blocks, joined by line breaks; other content is left out."""
        return "\n".join(block.text for block in self.content if isinstance(block, models.TextContent))

    @property
    def data(self) -> Json:
        """The structured content; without one, as at revisions that have none, the text parsed as JSON, or None.

        The value of a tool that returns no object is the same at every revision: `[1, 2]`, although some revisions send
        it as `{"result": [1, 2]}`. `structured_content` is what was sent.
        """
        if self.structured_content is ABSENT:
            return _parsed(self.text)
        sent: Json = self.structured_content
        if not _is_wrapper(sent):
            return sent
        # The text is that of the value itself if a server put it in an object.
        inner: Json = sent[WRAPPER]
        told = _parsed(self.text)
        if told == sent or (is_json_object(inner) and told != inner):
            return sent
        return inner

    def read(self, type_: type[T], where: str = "") -> T:
        """Return the data as a type that pydantic validates, such as a model or `list[int]`.

        A value that is not an object is also found in the member `result` of an object, where servers put it. For `str`
        without structured content, return the text. Raises `ToolError` with the text if the tool failed, and
        `RemoteProtocolError` for data that is not of the type; its text begins with `where`.
        """
        if self.is_error:
            raise ToolError(self.text or "the tool failed without a reason")
        sent: Json = cast("Json", self.structured_content)
        adapter, data = TypeAdapter(type_), self.data
        if type_ is str and self.structured_content is ABSENT:
            data = self.text
        try:
            return adapter.validate_python(data)
        except ValidationError as error:
            if _is_wrapper(sent):
                for other in (sent, sent[WRAPPER]):
                    with suppress(ValidationError):  # the error of the data says more
                        return adapter.validate_python(other)
            name = getattr(type_, "__name__", str(type_))
            text = (
                f"{where}the data of the result is not of type {name}: {first(error, cast('object', data))}"
            )
            raise RemoteProtocolError(text, raw=self.to_wire()) from None
