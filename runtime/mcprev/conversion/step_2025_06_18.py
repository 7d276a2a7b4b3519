"""Between 2025-03-26 and 2025-06-18: resource links, structured content, titles (CONV-2, 3, 10, 12, 37).

The generated tables drop other titles, `_meta`, output schemas, `lastModified` and the context of completions. Upwards
nothing changes: the older types are a subset, and a title in the annotations stays valid.
"""

from __future__ import annotations

from typing import Final

from mcprev.conversion.rules import (
    ConversionContext,
    JsonObject,
    Reason,
    Rules,
    as_object,
    replacement,
    require_members,
    structured_as_text,
)

_CONTENT: Final = frozenset({"text", "image", "audio", "resource"})


def _link_to_text(block: JsonObject, context: ConversionContext) -> JsonObject:
    """Replace a resource link by a text with its title or name and its URI."""
    require_members(block, "uri", "name")
    found = replacement(block, Reason.RESOURCE_LINK, context, _CONTENT)
    if found is not None:
        return found
    text: JsonObject = {
        "type": "text",
        "text": f"{block.get('title') or block.get('name') or ''}: {block.get('uri')}",
    }
    if "annotations" in block:
        text["annotations"] = block["annotations"]
    return text


def _without_structure(result: JsonObject, _: ConversionContext) -> JsonObject:
    """Replace structured content by a text block with its JSON, unless a block has that text already."""
    # Null means absent at this revision.
    return structured_as_text(result) if result.get("structuredContent") is not None else result


def _title_to_annotations(tool: JsonObject, _: ConversionContext) -> JsonObject:
    """Move the title of a tool to its annotations, the only place for it at the older revision."""
    title, annotations = tool.get("title"), tool.get("annotations", {})
    if not isinstance(title, str) or not isinstance(annotations, dict):
        return tool
    known = as_object(annotations)
    return tool if known.get("title") is not None else {**tool, "annotations": {**known, "title": title}}


DOWN: Final = Rules(
    before={"CallToolResult": _without_structure, "Tool": _title_to_annotations},
    substitutes={"ResourceLink": _link_to_text},
)
UP: Final = Rules()
