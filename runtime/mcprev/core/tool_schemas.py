"""The schemas of tools, and the checks of arguments, results and headers against them (TOOL-2, 3, 4, CONV-35, JSCH-1..3, HDR-8)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from pydantic_core import MISSING

from mcprev.errors import HeaderMismatch, InvalidParams, Json, LocalProtocolError, SchemaError
from mcprev.json_schema.bounds import ValidationIssue, Validator
from mcprev.protocol.stateless import COMPLETE
from mcprev.wire.headers import Headers, param_mismatch
from mcprev.wire.param_headers import ParamHeader, find_annotations

if TYPE_CHECKING:
    from mcprev.revisions import Revision

CALL: Final = "tools/call"
LIST: Final = "tools/list"
WRAPPER: Final = "result"
"""The only member of structured content that stands for data which is no object, where content must be one."""
MAX_TOOLS: Final = 5_000
"""The maximum number of names that are kept besides those of the current list."""
MAX_NAME: Final = 256
"""The maximum length of an unlisted name that is kept."""


class ToolSchemas:
    """The schemas of one tool, compiled on first use."""

    __slots__ = ("_arguments", "_compiled", "_result", "input", "listed", "name", "output", "param_headers")

    def __init__(self, name: str, input_: Json, output: Json, *, listed: bool = True) -> None:
        self.name: str = name
        self.listed: bool = listed
        """Whether the handler lists it."""
        self.input: Json = input_
        self.output: Json = output
        self.param_headers: Sequence[ParamHeader] | None = None
        """The headers that repeat arguments; None until they are needed."""
        self._compiled = False
        self._arguments: Validator | None = None
        self._result: Validator | None = None

    def header_mismatch(self, headers: Headers, arguments: Json) -> HeaderMismatch | None:
        """Return the error for headers that do not repeat the arguments, or None. An invalid annotation voids all."""
        if self.param_headers is None:
            found = find_annotations(self.input)
            self.param_headers = () if found.problems else found.headers
        return param_mismatch(headers, arguments, self.param_headers)

    def check(self, params: Mapping[str, Json], revision: Revision) -> dict[str, Json] | None:
        """Return the result for a call with invalid arguments, or None.

        Raises `InvalidParams` if the revision reports them as an error.
        """  # TOOL-2, TOOL-3, CONV-35
        arguments = params.get("arguments")
        check = self._arguments
        if check is None:
            if self.input is None:
                return None
            check = self._arguments = self._compile("inputSchema", self.input)
        found = check({} if arguments is None else arguments)
        return refusal(self.name, found, revision) if found else None

    def conform(self, result: dict[str, Json]) -> None:
        """Raise `LocalProtocolError` for a structured result that does not match its schema."""  # TOOL-4
        structured = result.get("structuredContent", MISSING)
        if (
            result.get("isError") is True
            or "task" in result
            or result.get("resultType", COMPLETE) != COMPLETE
        ):
            return
        if self.output is not None:
            if structured is MISSING:
                raise LocalProtocolError(
                    f"the tool '{self.name}' has an outputSchema, but returned no structured content"
                )
            check = self._result
            if check is None:
                check = self._result = self._compile("outputSchema", self.output)
            found = check(structured)
            if found:
                from mcprev.json_schema.validation import describe

                text = describe(found, "structuredContent")
                raise LocalProtocolError(
                    f"the result of the tool '{self.name}' does not match its outputSchema: {text}"
                )

    def _compile(self, member: str, schema: Json) -> Validator:
        from mcprev.json_schema.validation import compile_schema

        try:
            return compile_schema(schema, trusted=True)
        except SchemaError as error:
            raise SchemaError(
                f"the {member} of the tool '{self.name}' cannot be used, so its calls are refused: {error} "
                "(a server made with validate=False checks nothing)"
            ) from error


def refusal(name: str, found: list[ValidationIssue], revision: Revision) -> dict[str, Json]:
    """Return the result for invalid arguments. Raises `InvalidParams` if the revision reports them as an error."""  # CONV-35
    from mcprev.json_schema.validation import describe

    text = f"Invalid arguments for tool '{name}': {describe(found, 'arguments')}"
    if revision.tool_argument_errors_are_results:
        return {"content": [{"type": "text", "text": text}], "isError": True}  # makes CallToolResult
    raise InvalidParams(text)
