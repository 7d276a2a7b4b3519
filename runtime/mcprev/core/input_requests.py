"""Validity of input requests and of their responses, beyond the types of the schema.

ROOT-1, SAMP-2, SAMP-3, ELIC-1, ELIC-2, ELIC-3, ELIC-7, ELIC-8, MRTR-3, CONV-17. Pure functions over requests of the
latest revision, for requests in sessions and for those inside results. Most return the error as text, or None; the
caller knows which side made the mistake.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from mcprev.errors import InvalidParams, Json, LocalProtocolError, MissingClientCapability
from mcprev.protocol.stateless import missing_capability, uncovered
from mcprev.revisions import DEFAULT, LATEST, Revision
from mcprev.wire.json_values import is_json_mapping, json_list

ELICIT: Final = "elicitation/create"
SAMPLE: Final = "sampling/createMessage"
ROOTS: Final = "roots/list"
_FIELDS: Final = frozenset({"string", "number", "integer", "boolean"})
_KEYWORDS: Final = frozenset(
    {"type", "enum", "minLength", "maxLength", "minimum", "maximum", "minItems", "maxItems"}
)
"""The keywords that restrict the value of a form's field, besides choices with titles."""
_USE: Final = "tool_use"
_RESULT: Final = "tool_result"


def _object(value: Json) -> Mapping[str, Any]:
    return value if is_json_mapping(value) else {}


def _list(value: Json) -> Sequence[Any]:
    return json_list(value)


# -- questions -------------------------------------------------------------------------------------------


def request_error(method: str, params: Json) -> str | None:
    """Return the error in an input request that no client could answer, or None."""  # ELIC-2, SAMP-3
    if method == ELICIT:
        return _form_schema_error(_object(params))
    return _tool_message_error(_object(params)) if method == SAMPLE else None


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


def check_askable(
    request: Mapping[str, Json], capabilities: Mapping[str, Json], revision: Revision | None = None
) -> MissingClientCapability | None:
    """Return the error for an input request that the client's capabilities do not cover, or None.

    With the client's `revision`, the error says if that has no such request, whatever the client declares.
    """  # MRTR-3, ELIC-1, SAMP-2
    missing = uncovered(capabilities, _needed(request, capabilities))
    lack = None if revision is None else _not_at(request, revision)
    if lack is not None:
        return MissingClientCapability(
            lack, data={"requiredCapabilities": missing or _needed(request, capabilities)}
        )
    return missing_capability(missing) if missing else None


def _not_at(request: Mapping[str, Json], revision: Revision) -> str | None:
    """Return the error for an input request that a revision does not have; None if it has it."""
    params, method = _object(request.get("params")), request.get("method")
    mode = str(params.get("mode", "form"))

    def has(row: Revision) -> bool:
        if method == SAMPLE:
            return row.sampling_tools or not ("tools" in params or "toolChoice" in params)
        return method != ELICIT or mode in row.elicitation_modes

    if has(revision):
        return None
    what = "sampling with tools" if method == SAMPLE else f"elicitation in the mode '{mode}'"
    others = ", ".join(row.name for row in DEFAULT if has(row))
    return (
        f"{revision.name}, the revision that client and server speak, has no {what}; {others} have it: "
        "do without it where `ctx.revision` is another, or take what is asked for as an argument"
    )


def unmet(request: Mapping[str, Json], revision: Revision) -> str:
    """Return the text for a request that fails because the client does not support this input request.

    It holds the message and the URL of the input request, so that a user can act on it.
    """  # CONV-17
    params: Mapping[str, Json] = request.get("params") or {}
    details = [str(params[name]) for name in ("message", "url") if name in params]
    need = "elicitation" if request.get("method") == ELICIT else f"'{request.get('method')}'"
    lack = _not_at(request, revision) or f"This requires {need}, which the client does not offer"
    return ": ".join([lack, *details])


def checked_request(
    request: Mapping[str, Json], revision: Revision, capabilities: Mapping[str, Json]
) -> dict[str, Json]:
    """Return an input request as it is sent: without `includeContext` unless the client declared `sampling.context`.

    Raises `LocalProtocolError` for an invalid one.
    """  # ELIC-2, SAMP-2, SAMP-3
    method, params = str(request.get("method")), request.get("params")
    askable = method in (ELICIT, SAMPLE, ROOTS)
    error = request_error(method, params) if askable else "servers cannot ask clients for it"
    if error is not None:
        raise LocalProtocolError(f"'{method}' is not a valid input request: {error}")
    if (
        method == SAMPLE
        and revision.sampling_tools
        and "context" not in _object(capabilities.get("sampling"))
    ):
        params = {name: value for name, value in _object(params).items() if name != "includeContext"}
    return dict(request) if params is None else {**request, "params": params}


def _needed(request: Mapping[str, Json], capabilities: Mapping[str, Json]) -> dict[str, Json]:
    """Return the capabilities that an input request needs, in the shape of ClientCapabilities."""
    params, method = _object(request.get("params")), request.get("method")
    if method == SAMPLE:
        return {"sampling": {"tools": {}} if "tools" in params or "toolChoice" in params else {}}
    if method == ELICIT:
        mode = params.get("mode", "form")
        # An empty object means forms only, as before modes existed (ELIC-1).
        forms = mode == "form" and capabilities.get("elicitation") == {}
        return {"elicitation": {} if forms else {mode: {}}}
    return {"roots": {}} if method == ROOTS else {}


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
    from mcprev.json_schema.plain import compile_plain

    for name in _list(schema.get("required")):
        if name not in content:
            return f"content.{name} is missing"
    for name, field in _object(schema.get("properties")).items():
        if name in content:
            check = compile_plain(_known_keywords(_object(field)))
            if check is None:
                return f"content.{name} answers a field that is not valid"
            issues = check(content[name])
            if issues:
                [(path, text), *_] = issues
                return f"content.{name} {''.join(f'[{part}] ' for part in path)}{text}"
    return None


def _known_keywords(field: Mapping[str, Any]) -> dict[str, Json]:
    """Return the schema of a field with the keywords that forms have; choices become an `enum`."""
    known = {keyword: field[keyword] for keyword in field.keys() & _KEYWORDS}
    options = field.get("oneOf", field.get("anyOf"))
    if options is not None:
        known["enum"] = [_object(option).get("const") for option in _list(options)]
    if "items" in field:
        known["items"] = _known_keywords(_object(field["items"]))
    return known


def defaults(schema: Mapping[str, Json]) -> dict[str, Json]:
    """Return the default values of a form's fields, for fields that have one."""  # ELIC-7
    fields = _object(schema.get("properties"))
    return {name: _object(field)["default"] for name, field in fields.items() if "default" in _object(field)}


def read_answer(key: str, request: Mapping[str, Json], answer: Mapping[str, Json]) -> object:
    """Return the answer to a question as a model. Raises `InvalidParams` for an answer of another type."""  # MRTR-7
    from pydantic import ValidationError

    from mcprev.core.method_binding import first

    method = str(request["method"])
    model: Any = getattr(LATEST.models, str(LATEST.methods[method].result))
    try:
        return model.from_wire(answer)
    except ValidationError as error:
        raise InvalidParams(
            f"Invalid params: the input response '{key}' is not a valid result of '{method}': {first(error, answer)}"
        ) from None


def fitting(key: str, request: Mapping[str, Json], answer: dict[str, Json]) -> dict[str, Json]:
    """Return the answer that a request carried. Raises `InvalidParams` if it answers another question."""  # ELIC-3
    method, params = str(request["method"]), request.get("params")
    wrong = response_mismatch(method, params, answer)
    if wrong is not None:
        raise InvalidParams(f"Invalid params: the input response '{key}': {wrong}")
    return without_unaccepted_content(method, params, answer)
