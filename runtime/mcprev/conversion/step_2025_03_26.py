"""Between 2024-11-05 and 2025-03-26: audio content (CONV-1).

The generated tables drop tool annotations (CONV-9), progress messages (CONV-28) and the completions capability
(CONV-30). Upwards nothing changes: the older types are a subset.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

from mcprev.conversion.rules import (
    ConversionContext,
    JsonObject,
    NotRepresentable,
    Reason,
    Rules,
    replacement,
    require_members,
)
from mcprev_types import Child

_TOOL_CONTENT: Final = frozenset({"text", "image", "resource"})
_SAMPLING_CONTENT: Final = frozenset({"text", "image"})


def _audio_to_resource(block: JsonObject, context: ConversionContext) -> JsonObject:
    """Convert audio to an embedded resource with a `data:` URI, because nothing else identifies it."""
    require_members(block, "data", "mimeType")
    found = replacement(block, Reason.AUDIO, context, _TOOL_CONTENT)
    if found is not None:
        return found
    rest = {name: item for name, item in block.items() if name not in {"type", "data", "mimeType"}}
    mime, data = block.get("mimeType"), block.get("data")
    uri = f"data:{quote(str(mime), safe='/;=+.-')};base64,{data}"
    return {"type": "resource", "resource": {"uri": uri, "mimeType": mime, "blob": data}, **rest}


def _sampled_audio(block: JsonObject, context: ConversionContext) -> JsonObject:
    """Refuse audio in sampling, unless the author replaces it: the older revision has only text and images there."""
    found = replacement(block, Reason.AUDIO, context, _SAMPLING_CONTENT)
    if found is None:
        raise NotRepresentable(
            "sampling with audio is not possible: send text or an image, or return a transcript from on_downgrade"
        )
    return found


_SAMPLED: Final = (("audio", "SampledAudio"),)

DOWN: Final = Rules(
    substitutes={"AudioContent": _audio_to_resource, "SampledAudio": _sampled_audio},
    children={
        "SamplingMessage": (Child("content", (), _SAMPLED, "type"),),
        "CreateMessageResult": (Child("content", (), _SAMPLED, "type"),),
    },
)
UP: Final = Rules()
