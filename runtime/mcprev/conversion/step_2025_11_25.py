"""Between 2025-06-18 and 2025-11-25: sampling with tools and lists, forms, modes (CONV-18..26, 32).

The generated tables drop icons, descriptions and websites of implementations, `execution` and the task capabilities.
The JSON Schemas of tools belong to the author and are kept whole (CONV-5, 7).
"""

from __future__ import annotations

from typing import Final

from mcprev.conversion.rules import (
    ConversionContext,
    Json,
    JsonObject,
    NotRepresentable,
    Reason,
    Rules,
    as_list,
    as_object,
    elicitation_params,
    no_request_id,
    no_task,
    tag_of,
    without,
)
from mcprev.errors import URL_ELICITATION_REQUIRED

_TOOL_BLOCKS: Final = frozenset({"tool_use", "tool_result"})
_NO_SAMPLING_TOOLS: Final = "the peer has no sampling with tools: send the request without tools"
_MODES: Final = {"sampling": ("context", "tools"), "elicitation": ("form", "url")}


# -- sampling --------------------------------------------------------------------------------------------


def _sampling_request(params: JsonObject, _: ConversionContext) -> JsonObject:
    """Refuse tools in sampling, and split messages with several blocks into messages with one block each."""
    if params.get("tools"):
        raise NotRepresentable(_NO_SAMPLING_TOOLS, "tools")
    if as_object(params.get("toolChoice")).get("mode") == "required":
        raise NotRepresentable(_NO_SAMPLING_TOOLS, "toolChoice")
    messages = as_list(params.get("messages")) or []
    split = [
        part for i, item in enumerate(messages) for part in _split(item, i)
    ]  # fmt: skip
    return params if split == messages else {**params, "messages": split}


def _split(message: Json, index: int) -> list[Json]:
    """Split a message with several blocks into one message per block, with the same role."""  # CONV-25, CONV-26
    content = as_object(message).get("content")
    blocks = as_list(content)
    for at, block in enumerate(blocks or [content]):
        if tag_of(block) in _TOOL_BLOCKS:
            steps = ("messages", index, "content") if blocks is None else ("messages", index, "content", at)
            raise NotRepresentable(_NO_SAMPLING_TOOLS, *steps)
    return [message] if blocks is None else [{**message, "content": block} for block in blocks]


def _sampling_result(result: JsonObject, context: ConversionContext) -> JsonObject:
    """Refuse a sampled message with tools or several blocks, and take the only block out of its list."""
    no_task(result, context)
    blocks = as_list(result.get("content"))
    if blocks is not None:
        if len(blocks) > 1:
            raise NotRepresentable("the peer's revision allows one content block: return one", "content")
        result = {**result, "content": blocks[0] if blocks else {"type": "text", "text": ""}}
    if tag_of(result.get("content")) in _TOOL_BLOCKS:
        raise NotRepresentable("the peer's revision has no sampling with tools: return text", "content")
    return result


# -- elicitation -----------------------------------------------------------------------------------------


def _no_url(_params: JsonObject, _: ConversionContext) -> JsonObject:
    """Refuse elicitation by URL, which the older revision does not have."""
    raise NotRepresentable(
        "the peer's revision has no elicitation by URL: put the URL in a result or an error", "mode"
    )


def _form(schema: JsonObject, context: ConversionContext) -> JsonObject:
    """Convert the fields of a form: titled choices to `enumNames`, without defaults but for booleans; refuse several choices."""
    properties = as_object(schema.get("properties"))
    fields = {name: _field(name, item, context) for name, item in properties.items()}
    return schema if fields == properties else {**schema, "properties": fields}


def _field(name: str, field: Json, context: ConversionContext) -> Json:
    schema = as_object(field)
    if schema is not field:
        return field
    if schema.get("type") == "array":
        found = context.downgrade(schema, Reason.MULTI_SELECT)
        if found is None or found.get("type") == "array":
            raise NotRepresentable(
                "the peer's revision has no field for several choices: request one choice, or text (with on_downgrade)",
                *("properties", name),
            )
        schema = found
    options = as_list(schema.get("oneOf"))
    if options is not None:
        choices = [as_object(option) for option in options]
        schema = {
            **without(schema, "oneOf"),
            "enum": [choice.get("const") for choice in choices],
            "enumNames": [choice.get("title") for choice in choices],
        }
    return schema if schema.get("type") == "boolean" else without(schema, "default")


# -- capabilities, errors --------------------------------------------------------------------------------


def _modes_down(capabilities: JsonObject, context: ConversionContext) -> JsonObject:
    """Remove modes; elicitation without a mode means forms, so a client with URLs only loses the capability."""  # ELIC-1
    elicitation = as_object(capabilities.get("elicitation"))
    if "url" in elicitation and "form" not in elicitation:
        capabilities = without(capabilities, "elicitation")
    return _modes_up(capabilities, context)


def _modes_up(capabilities: JsonObject, _: ConversionContext) -> JsonObject:
    """Remove the modes of both capabilities, which have no meaning at the older revision."""
    for name, modes in _MODES.items():
        value = as_object(capabilities.get(name))
        plain = without(value, *modes)
        capabilities = capabilities if plain is value else {**capabilities, name: plain}
    return capabilities


def _url_error(error: JsonObject, _method: str, _: ConversionContext) -> JsonObject:
    """Add the URLs to the message of the error, because the peer does not know its code."""  # CONV-17, ERR-3
    if error.get("code") != URL_ELICITATION_REQUIRED:
        return error
    asked = as_list(as_object(error.get("data")).get("elicitations")) or []
    urls = [str(as_object(item).get("url")) for item in asked]
    message = str(error.get("message"))
    return {**error, "message": " ".join([message, *(url for url in urls if url not in message)])}


DOWN: Final = Rules(
    before={
        "CallToolResult": no_task,
        "ElicitResult": no_task,
        "CreateMessageResult": _sampling_result,
        "CreateMessageRequestParams": _sampling_request,
        "ElicitRequestURLParams": _no_url,
        "ElicitRequestFormParamsRequestedSchema": _form,
        "ClientCapabilities": _modes_down,
    },
    deltas={"ToolInputSchema": None, "ToolOutputSchema": None},
    missing={"requestId": no_request_id},
    choose={"ElicitRequestParams": elicitation_params},
    errors=_url_error,
    accepted={"SamplingMessage.content": "_sampling_request has split lists and refused blocks of tools"},
)
UP: Final = Rules(before={"ClientCapabilities": _modes_up})
