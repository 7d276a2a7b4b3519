"""Validity of input requests and of their responses, beyond the types of the schema.

ROOT-1, SAMP-2, SAMP-3, ELIC-1, ELIC-2, ELIC-3, ELIC-7, ELIC-8. Pure functions over requests of the latest revision,
for requests in sessions and for those inside results. Each returns the error as text, or None; the caller knows which
side made the mistake.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, cast

from mcprev.errors import Json

ELICIT: Final = "elicitation/create"
SAMPLE: Final = "sampling/createMessage"
ROOTS: Final = "roots/list"
_FIELDS: Final = frozenset({"string", "number", "integer", "boolean"})
_USE: Final = "tool_use"
_RESULT: Final = "tool_result"


def _object(value: Json) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def _list(value: Json) -> Sequence[Any]:
    return cast("Sequence[Any]", value) if isinstance(value, list) else ()


# -- questions -------------------------------------------------------------------------------------------


def request_error(method: str, params: Json) -> str | None:
    """Return the error in an input request that no client could answer, or None."""  # ELIC-2, SAMP-3
    if method == ELICIT:
        return _form_schema_error(_object(params))
    return _tool_message_error(_object(params)) if method == SAMPLE else None


def undeclared(method: str, params: Json, capabilities: Mapping[str, Json]) -> str | None:
    """Return the part of an input request that the client's capabilities do not cover, or None."""  # ELIC-8, SAMP-2
    given = _object(params)
    if method == ELICIT:
        mode, modes = given.get("mode", "form"), _object(capabilities.get("elicitation"))
        # A declaration without modes means forms, as before modes existed (ELIC-1).
        return (
            None if mode in modes or (mode == "form" and not modes) else f"elicitation in mode {mode!r:.40}"
        )
    if method == SAMPLE and ("tools" in given or "toolChoice" in given):
        return None if "tools" in _object(capabilities.get("sampling")) else "sampling with tools"
    return None


def without_context(
    method: str, params: dict[str, Json], capabilities: Mapping[str, Json]
) -> dict[str, Json]:
    """Return the params without `includeContext` unless the client declared `sampling.context`."""  # SAMP-2
    if method != SAMPLE or "context" in _object(capabilities.get("sampling")):
        return params
    return {name: value for name, value in params.items() if name != "includeContext"}


def _form_schema_error(params: Mapping[str, Any]) -> str | None:
    """Return the error in a form schema, or None; forms are flat, one field for each member."""  # ELIC-2
    if params.get("mode", "form") != "form":
        return None
    fields = _object(_object(params.get("requestedSchema")).get("properties"))
    for name, field in fields.items():
        given = _object(field)
        if given.get("type") not in _FIELDS and not _is_choice(given):
            kind = given.get("type", "anything")
            return (
                f"requestedSchema.properties.{name}: a form has no field for {kind!r:.40}; it is flat: "
                "ask for strings, numbers, booleans and choices, each under a name of its own"
            )
    return None


def _is_choice(field: Mapping[str, Any]) -> bool:
    """Return whether a field takes several of a list of strings."""
    items = _object(field.get("items"))
    return field.get("type") == "array" and (items.get("type") == "string" or "anyOf" in items)


def _tool_message_error(params: Mapping[str, Any]) -> str | None:
    """Check that tool results are alone in their message and match the tool uses of the message before."""  # SAMP-3
    used: set[str] = set()
    for index, message in enumerate(_list(params.get("messages"))):
        place = f"messages.{index}"
        blocks = _blocks(_object(message))
        answered = {str(block.get("toolUseId")) for block in blocks if block.get("type") == _RESULT}
        if answered and any(block.get("type") != _RESULT for block in blocks):
            return f"{place}: a message with tool results may contain nothing else"
        if answered != used:
            ids = ", ".join(sorted(answered ^ used))
            return f"{place}: tool uses and tool results do not match: {ids:.80}"
        used = {str(block.get("id")) for block in blocks if block.get("type") == _USE}
    return f"a tool use has no result: {', '.join(sorted(used)):.80}" if used else None


def _blocks(message: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    content = message.get("content")
    return [_object(block) for block in (_list(content) if isinstance(content, list) else [content])]


# -- answers ---------------------------------------------------------------------------------------------


def response_error(method: str, params: Json, answer: Mapping[str, Json]) -> str | None:
    """Return the error in a well-typed response before the client sends it, or None."""  # ROOT-1, ELIC-3
    if method == ROOTS:
        uris = [str(_object(root).get("uri")) for root in _list(answer.get("roots"))]
        other = [uri for uri in uris if not uri.lower().startswith("file://")]
        return f"{other[0]!r:.80} is not a file:// URI, which every root must be" if other else None
    return response_mismatch(method, params, answer)


def response_mismatch(method: str, params: Json, answer: Mapping[str, Json]) -> str | None:
    """Return why a response does not match its request, or None."""  # ELIC-3
    if method != ELICIT or answer.get("action") != "accept" or _object(params).get("mode") == "url":
        return None
    return form_error(_object(_object(params).get("requestedSchema")), _object(answer.get("content")))


def without_unaccepted_content(method: str, params: Json, answer: dict[str, Json]) -> dict[str, Json]:
    """Return a response without `content` unless it is an accepted form."""  # ELIC-3
    kept = answer.get("action") == "accept" and _object(params).get("mode") != "url"
    if method != ELICIT or kept or "content" not in answer:
        return answer
    return {name: value for name, value in answer.items() if name != "content"}


def form_error(schema: Mapping[str, Json], content: Mapping[str, Json]) -> str | None:
    """Return why content does not match a form schema, or None; unknown members are ignored."""  # ELIC-3
    fields = _object(schema.get("properties"))
    for name in _list(schema.get("required")):
        if name not in content:
            return f"content.{name} is missing"
    for name, value in content.items():
        if name in fields:
            error = next(_field_errors(_object(fields[name]), value), None)
            if error is not None:
                return f"content.{name} {error}"
    return None


def defaults(schema: Mapping[str, Json]) -> dict[str, Json]:
    """Return the default values of a form's fields, for fields that have one."""  # ELIC-7
    fields = _object(schema.get("properties"))
    return {name: _object(field)["default"] for name, field in fields.items() if "default" in _object(field)}


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_whole(value: object) -> bool:
    return _is_number(value) and (isinstance(value, int) or cast("float", value).is_integer())


_TYPES: Final[Mapping[str, Callable[[object], bool]]] = {
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "number": _is_number,
    "integer": _is_whole,
    "array": lambda value: isinstance(value, list) and all(isinstance(item, str) for item in _list(value)),
}
_BOUNDS: Final[Mapping[str, tuple[str, Callable[[Any, Any], bool]]]] = {
    # By keyword: the type it applies to, and the comparison.
    "minLength": ("string", lambda value, bound: len(value) >= bound),
    "maxLength": ("string", lambda value, bound: len(value) <= bound),
    "minimum": ("number", lambda value, bound: value >= bound),
    "maximum": ("number", lambda value, bound: value <= bound),
    "minItems": ("array", lambda value, bound: len(value) >= bound),
    "maxItems": ("array", lambda value, bound: len(value) <= bound),
}


def _field_errors(field: Mapping[str, Any], value: Json) -> Iterator[str]:
    """Yield the errors in the value of one field, the type first."""
    type_ = str(field.get("type"))
    if type_ not in _TYPES or not _TYPES[type_](value):
        yield f"is not of type {type_}"
        return
    for keyword, (of, keeps) in _BOUNDS.items():
        if keyword in field and _TYPES[of](value) and not keeps(value, field[keyword]):
            yield f"does not satisfy {keyword} {field[keyword]}"
    allowed = _choices(_object(field.get("items")) if type_ == "array" else field)
    if allowed is not None and not set(value if type_ == "array" else [value]) <= allowed:
        yield f"is not one of the choices: {', '.join(sorted(allowed)):.80}"


def _choices(field: Mapping[str, Any]) -> frozenset[str] | None:
    """Return the allowed values of a field; None if it is not a choice."""
    if "enum" in field:
        return frozenset(str(item) for item in _list(field["enum"]))
    options = field.get("oneOf", field.get("anyOf"))
    return None if options is None else frozenset(str(_object(item).get("const")) for item in _list(options))
