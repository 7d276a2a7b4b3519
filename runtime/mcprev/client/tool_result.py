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
from mcprev.wire.bounds import check_values
from mcprev_types import ABSENT
from mcprev_types.latest import models

T = TypeVar("T")


class ToolResult(models.CallToolResult):
    """The result of `Client.call_tool`: a `CallToolResult` of the latest revision, with its text and its data."""

    @property
    def text(self) -> str:
        """The texts of all text blocks, joined by line breaks; other content is left out."""
        return "\n".join(block.text for block in self.content if isinstance(block, models.TextContent))

    @property
    def data(self) -> Json:
        """The structured content; without one, as at revisions that have none, the text parsed as JSON, or None."""
        if self.structured_content is not ABSENT:
            return self.structured_content
        try:
            check_values(self.text.encode(errors="replace"))
            return json.loads(self.text)
        except (ValueError, RecursionError):
            return None

    def read(self, type_: type[T], where: str = "") -> T:
        """Return the data as a type that pydantic validates, such as a model or `list[int]`.

        A value that is not an object is also found in the member `result` of an object, where servers put it. For `str`
        without structured content, return the text. Raises `ToolError` with the text if the tool failed, and
        `RemoteProtocolError` for data that is not of the type; its text begins with `where`.
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
            text = (
                f"{where}the data of the result is not of type {name}: {first(error, cast('object', data))}"
            )
            raise RemoteProtocolError(text, raw=self.to_wire()) from None
