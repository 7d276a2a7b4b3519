"""Rules for results and errors beyond their types.

CACHE-1, COMP-1, ERR-3, ERR-4, TOOL-5, TOOL-7, RES-1, PROM-2. Those for results are the same at every revision.

The functions are pure, except that one logs names of tools, each once.
"""

from __future__ import annotations

import binascii
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeAlias
from uuid import uuid4

from mcprev.errors import URL_ELICITATION_REQUIRED, ConversionError, Json
from mcprev.protocol.tool_names import tell_invalid
from mcprev.revisions import LATEST, Revision, load
from mcprev.wire.json_values import is_json_object, json_list, json_object

Result: TypeAlias = dict[str, Json]
CALL: Final = "tools/call"
MOST_VALUES: Final[int] = load(LATEST, "constants").MAX_ITEMS["CompleteResultCompletion.values"]
"""The maximum number of completions in a result."""  # COMP-1
_BASE64: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_PIECE: Final = 64 * 1024
"""How many characters of base64 are looked at together."""


def _list(value: object) -> list[object]:
    return json_list(value)


def _member(value: object, name: str) -> object:
    """Return a member of an object; None for any other value."""
    return json_object(value).get(name)


def _items(value: Json) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the objects in a list with their indexes."""
    for index, item in enumerate(_list(value)):
        if is_json_object(item):
            yield index, item


def _wrong(message: str, path: str) -> ConversionError:
    return ConversionError(message, path=path, revision=LATEST.name)


# -- content ---------------------------------------------------------------------------------------------


def _check_base64(holder: object, member: str, path: str) -> None:
    data = _member(holder, member)
    if not isinstance(data, str) or _is_base64(data):
        return
    try:
        binascii.a2b_base64(data, strict_mode=True)
    except ValueError as error:
        raise _wrong(f"binary data must be base64: {error}", f"{path}.{member}") from None


def _is_base64(data: str) -> bool:
    """Return whether data is base64, without decoding it."""
    if len(data) % 4 or not data.isascii():
        return False
    for start in range(0, len(data), _PIECE):  # a copy of the whole costs more than looking at it
        left = data[start : start + _PIECE].encode().translate(None, _BASE64)
        if left:
            is_last = start + _PIECE >= len(data)
            return is_last and left in {b"=", b"=="} and data.endswith(left.decode())
    return True


def _check_block(block: object, path: str) -> None:
    _check_base64(block, "data", path)
    _check_base64(_member(block, "resource"), "blob", f"{path}.resource")


def _tool_result(result: Result) -> Result:
    """Check base64 data, and add structured content as text for models that read only text."""  # TOOL-5
    readable = False
    content: Json = result.get("content")
    for index, block in enumerate(content if content.__class__ is list else ()):
        if block.__class__ is dict:
            if block.get("type") == "text":
                readable = True  # a text block needs no check
            else:
                _check_block(block, f"$.content[{index}]")
    if readable or "structuredContent" not in result or not isinstance(result.get("content"), list):
        return result
    text = json.dumps(result["structuredContent"], ensure_ascii=False, separators=(",", ":"))
    return {**result, "content": [*_list(result["content"]), {"type": "text", "text": text}]}


def _prompt(result: Result) -> Result:
    for index, message in _items(result.get("messages")):
        _check_block(message.get("content"), f"$.messages[{index}].content")
    return result


def _contents(result: Result) -> Result:
    for index, item in _items(result.get("contents")):
        _check_base64(item, "blob", f"$.contents[{index}]")
    return _hinted(result)


def _hinted(result: Result) -> Result:
    """Check that `ttlMs` is an integer, which the schemas do not require."""  # CACHE-1
    ttl = result.get("ttlMs")
    if isinstance(ttl, float):
        raise _wrong("ttlMs must be a whole number of milliseconds", "$.ttlMs")
    return result


# -- lists -----------------------------------------------------------------------------------------------


def _completions(result: Result) -> Result:
    if len(_list(_member(result.get("completion"), "values"))) > MOST_VALUES:
        raise _wrong(
            f"at most {MOST_VALUES} values are allowed: return the best ones and set hasMore",
            "$.completion.values",
        )
    return result


def _tools(result: Result) -> Result:
    tell_invalid(tool.get("name") for _, tool in _items(result.get("tools")))
    return _hinted(result)


RULES: Final[Mapping[str, Callable[[Result], Result]]] = {
    CALL: _tool_result,
    "tools/list": _tools,
    "prompts/list": _hinted,
    "resources/list": _hinted,
    "resources/templates/list": _hinted,
    "prompts/get": _prompt,
    "resources/read": _contents,
    "completion/complete": _completions,
}
"""By method: returns the result or a changed copy. Raises `ConversionError` for an invalid result."""


# -- errors -------------------------------------------------------------------------------------------------


def outgoing(wire: dict[str, Json], revision: Revision) -> dict[str, Json]:
    """Return an error object as a revision allows it. Raises `ConversionError` for a code or data it does not allow."""
    code = wire["code"]
    if code in revision.barred_codes:
        raise ConversionError(
            f"this revision does not allow the error code {code}", path="$.code", revision=revision.name
        )
    if code == URL_ELICITATION_REQUIRED and code in load(revision, "constants").ERROR_CODES:
        data = wire.get("data")
        elicitations = [_by_url(item, revision) for item in _list(_member(data, "elicitations"))]
        if not elicitations:
            raise ConversionError(
                "the error requires at least one elicitation",
                path="$.data.elicitations",
                revision=revision.name,
            )
        return {**wire, "data": {**json_object(data), "elicitations": elicitations}}
    return wire


def _by_url(item: object, revision: Revision) -> dict[str, Json]:
    """Return an elicitation by URL, with an id if it has none: later revisions have no elicitation ids."""
    given = json_object(item)
    error = given.get("mode", "url") != "url" or not all(
        isinstance(given.get(name), str) for name in ("url", "message")
    )
    if error:
        path = "$.data.elicitations"
        raise ConversionError(
            "an elicitation must have mode 'url', a url and a message", path=path, revision=revision.name
        )
    return {"mode": "url", "elicitationId": uuid4().hex, **given}
