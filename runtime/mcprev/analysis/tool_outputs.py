"""Holds results of tools against the output schemas that the server has listed, in a transcript (STRUCT-1)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Final

from mcprev.analysis.payloads import Place, step
from mcprev.analysis.schemas import definitions_of
from mcprev.errors import Json, SchemaError
from mcprev.json_schema.bounds import OBJECT, Validator
from mcprev.json_schema.validation import compile_schema
from mcprev.protocol.stateless import COMPLETE
from mcprev.protocol.tasks import TASK
from mcprev.revisions import Revision
from mcprev.wire.json_values import is_json_list

CALL: Final = "tools/call"
LIST_TOOLS: Final = "tools/list"
MAX_SCHEMAS: Final = 10_000
"""The maximum number of tools of a session whose output schema is kept."""
MAX_ISSUES: Final = 20
"""The maximum number of errors of one result that are reported."""
_MEMBER: Final = "$.result.structuredContent"


class ToolOutputs:
    """The output schemas of the tools of a session."""

    def __init__(self) -> None:
        self._schemas: dict[str, Json] = {}
        self._compiled: dict[str, Validator | SchemaError] = {}

    def learn(self, revision: Revision, result: Json) -> None:
        """Keep the output schemas of one page of `tools/list`, if the revision has any."""
        tools = _members(result).get("tools")
        if not is_json_list(tools) or not _has_outputs(revision):
            return
        for each in tools:
            tool = _members(each)
            name, schema = tool.get("name"), tool.get("outputSchema")
            if not isinstance(name, str) or self._schemas.get(name) == schema:
                continue
            self._schemas.pop(name, None)
            self._compiled.pop(name, None)
            if schema is not None and len(self._schemas) < MAX_SCHEMAS:
                self._schemas[name] = schema

    def judge(self, name: str | None, result: Json) -> list[Place]:
        """Return the errors of the result of a tool. One that failed needs no structured content."""
        if name is None or name not in self._schemas:
            return []
        return output_places(result, partial(self._check_of, name))

    def _check_of(self, name: str) -> Validator:
        """Return the check of a tool's results. Raises `SchemaError` for a schema that cannot be used."""
        found = self._compiled.get(name)
        if found is None:
            try:
                found = compile_schema(self._schemas[name], trusted=False)
            except SchemaError as error:
                found = error
            self._compiled[name] = found
        if isinstance(found, SchemaError):
            raise found
        return found


def output_places(result: Json, check_of: Callable[[], Validator]) -> list[Place]:
    """Return the errors of the result of a tool that has an output schema, which `check_of` compiles.

    A result that failed, or that is only the beginning of a task or of a question, needs no structured content.
    """
    members = _members(result)
    if members.get("isError") is True or TASK in members or members.get("resultType", COMPLETE) != COMPLETE:
        return []
    if "structuredContent" not in members:
        return [(_MEMBER, "Field required, because the tool has an outputSchema")]
    try:
        issues = check_of()(members["structuredContent"])
    except SchemaError as error:
        return [(_MEMBER, f"not checked: the outputSchema of the tool cannot be used: {error}")]
    return [
        (_MEMBER + "".join(map(step, path)), f"{text} (by the outputSchema of the tool)")
        for path, text in issues[:MAX_ISSUES]
    ]


@cache
def _has_outputs(revision: Revision) -> bool:
    """Return whether tools of a revision have output schemas."""
    return "outputSchema" in _members(definitions_of(revision)["Tool"].get("properties"))


def _members(value: Json) -> Mapping[str, Json]:
    found: Mapping[str, Json] = value if isinstance(value, OBJECT) else {}
    return found
