"""The result of a tool as clients return it: the generated model, with its text and its data (TOOL-5, TOOL-6).

Imported with the first call of a tool, because it needs the models.
"""

from __future__ import annotations

import json
from typing import TypeVar, cast

from pydantic import TypeAdapter, ValidationError

from mcprev.core.method_binding import first
from mcprev.core.tool_schemas import WRAPPER
from mcprev.errors import Json, RemoteProtocolError, ToolError
from mcprev_types import ABSENT
from mcprev_types.latest import models

T = TypeVar("T")


class ToolResult(models.CallToolResult):
    """A `CallToolResult` of the latest revision, with its text and its data."""

    @property
    def text(self) -> str:
        """The text of all text blocks, one to a line; other content is left out."""
        return "\n".join(block.text for block in self.content if isinstance(block, models.TextContent))

    @property
    def data(self) -> Json:
        """The structured content. Without any, as at revisions that have none: the text as JSON, None if it is none."""
        if self.structured_content is not ABSENT:
            return self.structured_content
        try:
            return json.loads(self.text)
        except (ValueError, RecursionError):
            return None

    def read(self, type_: type[T]) -> T:
        """Return the data as a type that pydantic validates, such as a model or `list[int]`.

        A value that is no object is also found in the member `result` of an object, where servers put it; a `str` is the
        text if there is no structured content. Raises `ToolError` with the text if the tool failed, and
        `RemoteProtocolError` for data that is not of the type.
        """
        if self.is_error:
            raise ToolError(self.text or "the tool failed and does not say why")
        adapter, data = TypeAdapter(type_), self.data
        if type_ is str and self.structured_content is ABSENT:
            data = self.text
        try:
            return adapter.validate_python(data)
        except ValidationError as error:
            if isinstance(data, dict) and data.keys() == {WRAPPER}:
                try:
                    return adapter.validate_python(cast("dict[str, Json]", data)[WRAPPER])
                except ValidationError:
                    pass  # the error of the whole says more
            name = getattr(type_, "__name__", str(type_))
            text = f"the data of the result is no {name}: {first(error, cast('object', data))}"
            raise RemoteProtocolError(text, raw=self.to_wire()) from None
