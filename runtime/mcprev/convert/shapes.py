"""Rules that several steps share, so that a step module can be deleted without affecting the others."""

from __future__ import annotations

import json

from mcprev.convert.rules import (
    ConversionContext,
    Json,
    JsonObject,
    NotRepresentable,
    as_list,
    as_object,
    tag_of,
)


def structured_as_text(result: JsonObject) -> JsonObject:
    """Return the result with a text block that holds the structured content as JSON in its place."""  # CONV-3, CONV-4, TOOL-5
    structured = result["structuredContent"]
    out = {name: item for name, item in result.items() if name != "structuredContent"}
    content = as_list(out.get("content"))
    if content is not None and not any(_is_json_of(block, structured) for block in content):
        text = json.dumps(structured, ensure_ascii=False, separators=(",", ":"))
        out["content"] = [*content, {"type": "text", "text": text}]
    return out


def _is_json_of(block: Json, structured: Json) -> bool:
    """Return whether a block is the JSON text of a value."""
    text = as_object(block).get("text") if tag_of(block) == "text" else None
    if not isinstance(text, str):
        return False
    try:
        return bool(json.loads(text) == structured)
    except (ValueError, RecursionError):
        return False


def no_task(result: JsonObject, _: ConversionContext) -> JsonObject:
    """Refuse a task in place of a result: the task id is valid only in the session that created it."""  # TASKX-6
    if isinstance(result.get("task"), dict) and not result.keys() & {"content", "action"}:
        raise NotRepresentable("a task cannot be converted: wait for its result and convert that")
    return result


def no_request_id(params: JsonObject, _: ConversionContext) -> JsonObject:
    """Refuse a cancellation without a request id, which one revision allows for tasks."""  # CANC-4, CANC-5
    if "requestId" not in params:
        raise NotRepresentable("a cancellation has to name its request; a task is ended by tasks/cancel")
    return params


def elicitation_params(params: JsonObject) -> str:
    """Return the type of elicitation params; form is the default mode."""  # ELIC-8
    return "ElicitRequestURLParams" if params.get("mode") == "url" else "ElicitRequestFormParams"
