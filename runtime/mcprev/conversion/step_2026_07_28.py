"""Between 2025-11-25 and 2026-07-28: metadata of the stateless era, open schemas (CONV-4..7, 12, 15..18, 33, 34).

The generated tables drop and fill in result types, cache hints and members of embedded requests; the rules below fill
in the `_meta` of requests. The JSON Schemas of tools belong to the author and are kept, except for boolean subschemas,
which older revisions do not allow, and output schemas of other types than object.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from mcprev.conversion.rules import (
    OBJECT,
    ConversionContext,
    JsonObject,
    NotRepresentable,
    Reason,
    Rules,
    as_list,
    as_object,
    no_request_id,
    no_task,
    structured_as_text,
    without,
)
from mcprev.errors import (
    HEADER_MISMATCH,
    INVALID_PARAMS,
    INVALID_REQUEST,
    MISSING_CLIENT_CAPABILITY,
    RESOURCE_NOT_FOUND,
    UNSUPPORTED_PROTOCOL_VERSION,
    URL_ELICITATION_REQUIRED,
)
from mcprev.revisions import revision_named
from mcprev.wire.meta_keys import CLIENT_CAPABILITIES, VERSION
from mcprev_types import Child, TypeDelta
from mcprev_types.v2026_07_28.constants import MAX_ITEMS, META_KEYS

_MOST_VALUES: Final = MAX_ITEMS["CompleteResultCompletion.values"]
"""The maximum number of completions in a result."""  # COMP-1
_NEW_CODES: Final[Mapping[int, int]] = {
    HEADER_MISMATCH: INVALID_REQUEST,
    MISSING_CLIENT_CAPABILITY: INVALID_PARAMS,
    UNSUPPORTED_PROTOCOL_VERSION: INVALID_PARAMS,
}


# -- results ---------------------------------------------------------------------------------------------


def _complete(result: JsonObject, context: ConversionContext) -> JsonObject:
    """Refuse a result that is not complete; the author may replace one that asks for input by a complete one."""  # CONV-17
    kind = result.get("resultType", "complete")
    if kind == "input_required":
        found = context.downgrade(result, Reason.INPUT_REQUIRED)
        if found is not None and found.get("resultType", "complete") == "complete":
            return found
        raise NotRepresentable(
            "this revision has no results that ask for input: send each input request as a request, then call again",
            "resultType",
        )
    if kind != "complete":
        raise NotRepresentable(
            f"a result of type {kind!r} cannot be converted: complete it first", "resultType"
        )
    return result


def _tool_result_down(result: JsonObject, context: ConversionContext) -> JsonObject:
    """Refuse a tool result that is not complete, and replace structured content that is not an object by its JSON as text."""
    if result.get("resultType", "complete") != "complete":
        result = _complete(result, context)
    return _objects_only(result, context) if "structuredContent" in result else result


def _objects_only(result: JsonObject, _: ConversionContext) -> JsonObject:
    """Convert structured content that is not an object to text, also in tool results inside sampling
    messages.
    """  # CONV-4
    if "structuredContent" not in result or isinstance(result["structuredContent"], dict):
        return result
    return structured_as_text(result)


def _tool_result_up(result: JsonObject, context: ConversionContext) -> JsonObject:
    """Remove null structured content: it means absent at the older revision and is a value at the newer one."""
    if "task" in result:
        result = no_task(result, context)
    return without(result, "structuredContent") if result.get("structuredContent", 0) is None else result


def _block_up(block: JsonObject, _: ConversionContext) -> JsonObject:
    """Remove null structured content of tool results in sampling: it means absent at the older revision."""
    return without(block, "structuredContent") if block.get("structuredContent", 0) is None else block


def _completion(result: JsonObject, _: ConversionContext) -> JsonObject:
    """Cut the completions to the maximum, which older schemas do not state."""
    values = as_list(result.get("values")) or []
    if len(values) <= _MOST_VALUES:
        return result
    return {**result, "values": values[:_MOST_VALUES], "hasMore": True}


# -- tools -----------------------------------------------------------------------------------------------


def _tool(tool: JsonObject, _: ConversionContext) -> JsonObject:
    """Remove an output schema of another type than object, which the older revision does not allow."""
    output = tool.get("outputSchema")
    unusable = isinstance(output, dict) and as_object(output).get("type") != "object"
    return without(tool, "outputSchema") if unusable else tool


def _schema(schema: JsonObject, _: ConversionContext) -> JsonObject:
    """Replace boolean subschemas by equivalent objects."""
    known = as_object(schema.get("properties"))
    if not any(item is True or item is False for item in known.values()):
        return schema
    spelled: Mapping[bool, JsonObject] = {True: {}, False: {"not": {}}}
    fields = {name: spelled[item] if isinstance(item, bool) else item for name, item in known.items()}
    return {**schema, "properties": fields}


# -- requests --------------------------------------------------------------------------------------------


def _stamp(params: JsonObject, context: ConversionContext) -> JsonObject:
    """Set the `_meta` of a stateless request from the caller of `convert`, ignoring what the peer sent."""  # MOD-1, META-9
    given = params.get("_meta")
    if given is None:
        given = {}
    elif not isinstance(given, OBJECT):
        return params
    meta: JsonObject = {**given, CLIENT_CAPABILITIES: {}, **context.stamp}
    if VERSION not in context.stamp:
        meta[VERSION] = revision_named(context.revision).version
    return {**params, "_meta": meta}


def _elicitation_id(params: JsonObject, context: ConversionContext) -> JsonObject:
    """Give an elicitation by URL the id that the older revision requires."""
    return params if "elicitationId" in params else {**params, "elicitationId": context.mint()}


def _roots(capabilities: JsonObject, _: ConversionContext) -> JsonObject:
    """Remove `roots.listChanged`: only the handshake era announces changes of roots."""
    roots = as_object(capabilities.get("roots"))
    if "listChanged" not in roots:
        return capabilities
    return {**capabilities, "roots": without(roots, "listChanged")}


# -- errors ----------------------------------------------------------------------------------------------


def _error_down(error: JsonObject, method: str, _: ConversionContext) -> JsonObject:
    """Replace error codes that the older revision does not have by those that it has for the same errors."""
    code = error.get("code")
    if method == "resources/read" and code == INVALID_PARAMS and "uri" in as_object(error.get("data")):
        return {**error, "code": RESOURCE_NOT_FOUND}
    if isinstance(code, int) and code in _NEW_CODES:
        return {**error, "code": _NEW_CODES[code]}
    return error


def _error_up(error: JsonObject, _method: str, _: ConversionContext) -> JsonObject:
    """Refuse an error that asks for a URL, and replace the old codes of an unknown resource and of a missing capability."""
    code = error.get("code")
    if code == URL_ELICITATION_REQUIRED:
        raise NotRepresentable(
            "this revision requests input in a result: return an InputRequiredResult", "code"
        )
    if code == INVALID_PARAMS and isinstance(as_object(error.get("data")).get("requiredCapabilities"), dict):
        return {**error, "code": MISSING_CLIENT_CAPABILITY}
    return {**error, "code": INVALID_PARAMS} if code == RESOURCE_NOT_FOUND else error


# -- tables ----------------------------------------------------------------------------------------------

_BLOCKS: Final = (
    *((tag, "Block") for tag in ("text", "image", "audio", "resource_link", "tool_use")),
    ("resource", "EmbeddedResource"),
)
_BLOCK: Final = Child("content", (), _BLOCKS, "type")
_BLOCK_LIST: Final = Child("content", ("[]",), _BLOCKS, "type")


def _list_of(member: str, type_name: str) -> tuple[Child, ...]:
    return (Child(member, ("[]",), (("", type_name),), ""),)


DOWN: Final = Rules(
    before={
        **dict.fromkeys(
            (
                "Result", "EmptyResult", "ListResourcesResult", "ListResourceTemplatesResult", "ListPromptsResult",
                "ListToolsResult", "ReadResourceResult", "GetPromptResult", "CompleteResult",
            ),
            _complete,
        ),
        "CallToolResult": _tool_result_down,
        "ToolResultContent": _objects_only,
        "Tool": _tool,
        "ToolInputSchema": _schema,
        "ToolOutputSchema": _schema,
        "ClientCapabilities": _roots,
    },
    # Keys of this era are removed from every `_meta`, keys of vendors are kept (CONV-12, 42, 43).
    children={
        "CallToolResult": (_BLOCK_LIST,),
        "ToolResultContent": (_BLOCK_LIST,),
        "PromptMessage": (_BLOCK,),
        "SamplingMessage": (_BLOCK, _BLOCK_LIST),
        "CreateMessageResult": (_BLOCK, _BLOCK_LIST),
        "EmbeddedResource": (Child("resource", (), (("", "Block"),), ""),),
        "GetPromptResult": _list_of("messages", "PromptMessage"),
        "ListPromptsResult": _list_of("prompts", "Block"),
        "ListResourcesResult": _list_of("resources", "Block"),
        "ListResourceTemplatesResult": _list_of("resourceTemplates", "Block"),
        "ReadResourceResult": _list_of("contents", "Block"),
        "ListRootsResult": _list_of("roots", "Block"),
        "Tool": (Child("inputSchema", (), (("", "ToolInputSchema"),), ""),),
    },
    deltas={
        "Block": TypeDelta("Block"),
        "EmbeddedResource": TypeDelta("EmbeddedResource"),
        "ListRootsRequestParams": TypeDelta("RequestParams"),
        "RequestMetaObject": None,
    },
    missing={"elicitationId": _elicitation_id},
    strip_meta=META_KEYS,
    errors=_error_down,
    accepted={
        "*._meta": "without the keys of strip_meta, any object is one there",
        "ListRootsRequest.params": "requests inside results are refused with the result (_complete)",
    },
)  # fmt: skip
UP: Final = Rules(
    before={
        "CallToolResult": _tool_result_up,
        "CreateMessageResult": no_task,
        "ElicitResult": no_task,
        "ToolResultContent": _block_up,
        "CompleteResultCompletion": _completion,
        "ClientCapabilities": _roots,
    },
    children={
        "CompleteResult": (Child("completion", (), (("", "CompleteResultCompletion"),), ""),),
    },
    # What an older server says of its tasks is kept for clients that ask: those can be used there.
    deltas={"RequestParamsMeta": None, "ServerCapabilities": None, "Tool": None},
    missing={"_meta": _stamp, "requestId": no_request_id},
    roots={("roots/list", "params"): None},
    fresh=frozenset({"resultType", "ttlMs", "cacheScope"}),
    strip_meta=META_KEYS,
    errors=_error_up,
    accepted={"*._meta": "only the keys of strip_meta have a meaning here, and those are taken out"},
)
