"""Typed questions to the client: a form of a Python type, a message to its model (ELIC-2, ELIC-3, SAMP-3)."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence, Set as AbstractSet
from dataclasses import dataclass, is_dataclass
from enum import Enum
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, TypeAlias, TypeVar, cast

from pydantic import BaseModel, ValidationError
from pydantic_core import from_json, to_json, to_jsonable_python

from mcprev.core.method_binding import first
from mcprev.errors import InvalidParams, Json
from mcprev.json_schema.bounds import OBJECT
from mcprev.json_schema.typed import NO_SCHEMA, Schema, adapter_of, first_sentence, schema_from
from mcprev_types import details_of
from mcprev_types.latest import models

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
VALUE: Final = "value"
"""The name of the only field of a form for a single value."""
_FORMATS: Final = frozenset({"date", "date-time", "email", "uri"})
"""The formats of texts that forms know."""
Prompt: TypeAlias = "str | models.SamplingMessage | models.ImageContent | models.AudioContent"
"""One message for the client's model; its role is `user`, unless it is a `SamplingMessage` with a role of its own."""


@dataclass(frozen=True, slots=True)
class Accepted(Generic[T_co]):
    """The user filled in the form of `Context.elicit`."""

    data: T_co
    """The data of the form, of the type that `elicit` was called with."""
    action: Literal["accept"] = "accept"


@dataclass(frozen=True, slots=True)
class Declined:
    """The user refused to answer the question of `Context.elicit`."""

    data: None = None
    action: Literal["decline"] = "decline"


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The user closed the form of `Context.elicit` without an answer."""

    data: None = None
    action: Literal["cancel"] = "cancel"


Elicited: TypeAlias = Accepted[T] | Declined | Cancelled


Reply: TypeAlias = (
    "models.ElicitResult | Mapping[str, Json] | BaseModel | DataclassInstance | Elicited[Any] | None"
)
"""What a client's function may answer: the fields of the form, None to decline, or the result itself."""


def reply_of(answer: Reply) -> object:
    """Return the result for an answer of the function that a client has for questions.

    The fields of the form are a mapping, a model or a dataclass; `Accepted` holds them, or the single value that is asked
    for. Raises `TypeError` for anything else.
    """
    if answer is None:
        return {"action": "decline"}  # makes ElicitResult
    if isinstance(answer, Mapping):
        return {"action": "accept", "content": dict(answer)}  # makes ElicitResult
    if isinstance(answer, Declined | Cancelled):
        return {"action": answer.action}  # makes ElicitResult
    if hasattr(answer, "to_wire"):  # a result, whose package may have a base of its own
        return answer
    if not isinstance(answer, BaseModel) and not is_dataclass(answer):
        raise TypeError(
            f"a function for elicitation returned {type(answer).__name__}: return the fields of the form as a mapping, "
            "`mcprev.Accepted(value)` for a single value, or None to decline"
        )
    given = cast("Accepted[object]", answer).data if isinstance(answer, Accepted) else answer
    data: Json = to_jsonable_python(given)  # the runtime leaves out the fields that are None
    return {  # makes ElicitResult
        "action": "accept",
        "content": data if isinstance(data, OBJECT) else {VALUE: data},
    }


@dataclass(frozen=True, slots=True)
class Sampled:
    """The message of the client's model, as `Context.sample` returns it."""

    text: str
    """The texts of all text blocks of the message, joined."""
    result: models.CreateMessageResult
    """The whole result: role, content, name of the model, and the reason why it stopped."""


class Form(Generic[T]):
    """The form for a type, and how its content is read."""

    def __init__(self, kind: object) -> None:
        """Make the form. Raises `TypeError` for a type without a JSON Schema."""
        try:
            self._adapter = adapter_of(kind)
            schema = schema_from(self._adapter, "validation", of_form=True)
        except NO_SCHEMA as error:
            raise TypeError(f"{kind!r} cannot be used for a form: {first_sentence(error)}") from None
        definitions: Mapping[str, Schema] = schema.pop("$defs", {})
        schema = _resolved(schema, definitions)
        self._single = "properties" not in schema
        if self._single:
            schema = Schema(properties={VALUE: schema}, required=[VALUE])
        fields: Mapping[str, Schema] = schema["properties"]
        required: Sequence[str] = schema.get("required", [])
        self._empty: Mapping[str, None] = {
            name: None for name in required if _may_be_null(_resolved(fields[name], definitions))
        }
        """The fields that the type demands and the user may leave empty."""
        self._schema: Schema = {
            "type": "object",
            "properties": {name: _field(field, definitions) for name, field in fields.items()},
            "required": [name for name in required if name not in self._empty],
        }

    def request(self, message: str) -> models.ElicitRequest:
        """Return the question. Raises `TypeError` for a field that no form can have."""
        params = {"mode": "form", "message": message, "requestedSchema": self._schema}
        try:
            return models.ElicitRequest.from_wire({"method": "elicitation/create", "params": params})
        except ValidationError as error:
            wrong = details_of(error)
            places = (part for each in wrong for part in each["loc"] if part in self._schema["properties"])
            name = next(places, None)
            raise TypeError(
                f"{'the value' if self._single else f'the field {name!r}'} cannot be part of a form, which is flat: ask for "
                "strings, numbers, booleans, dates, and choices as an Enum, a Literal of strings or a list of one; give "
                "each member of a nested model a field of its own"
            ) from None

    def read(self, message: str, answer: models.ElicitResult) -> Elicited[T]:
        """Return the answer. Raises `InvalidParams` for content that the type does not allow."""
        if answer.action != "accept":
            return Declined() if answer.action == "decline" else Cancelled()
        content: Json = {**self._empty, **(answer.content or {})}
        if self._single and VALUE not in content:
            raise InvalidParams(f"Invalid params: the answer to '{message:.60}': {VALUE} is missing")
        given: Json = content[VALUE] if self._single else content
        try:
            value = self._adapter.validate_json(to_json(given))
        except ValidationError as error:
            raise InvalidParams(
                f"Invalid params: the answer to '{message:.60}': {first(error, given)}"
            ) from None
        return Accepted(cast("T", value))


_form: Final = lru_cache(maxsize=256)(Form[Any])


def form_of(kind: type[T] | Sequence[str]) -> Form[T]:
    """Return the form for a type, or for a choice among strings.

    Raises `TypeError` if there is none, and `ValueError` for a list without a choice.
    """
    if isinstance(kind, str):
        raise TypeError(f"{kind!r} is neither a type nor a list of choices")
    if isinstance(kind, Sequence | AbstractSet):
        choices = tuple(cast("Sequence[object]", kind))
        if not choices:
            raise ValueError("the list of choices is empty, so there is no choice; do not ask")
        other = next((each for each in choices if not isinstance(each, str)), None)
        if other is not None:
            raise TypeError(f"the choice {other!r:.40} is no string; show each choice as text")
        kind = cast("type[T]", Literal[choices])
    return cast("Form[T]", _form(cast("Hashable", kind)))


def _resolved(schema: Schema, definitions: Mapping[str, Schema]) -> Schema:
    """Return a schema with what its reference refers to."""
    if "$ref" not in schema:
        return schema
    rest = {name: value for name, value in schema.items() if name != "$ref"}
    return {**definitions[schema["$ref"].rpartition("/")[2]], **rest}


def _may_be_null(schema: Schema) -> bool:
    return schema.get("type") == "null" or any(each.get("type") == "null" for each in schema.get("anyOf", ()))


def _field(schema: Schema, definitions: Mapping[str, Schema]) -> Schema:
    """Return the schema of a member as that of a form's field: an optional value is its type, a constant a choice."""
    schema = _resolved(schema, definitions)
    options = [option for option in schema.get("anyOf", ()) if option.get("type") != "null"]
    if len(options) == 1:
        rest = {name: value for name, value in schema.items() if name != "anyOf" and value is not None}
        schema = {**_resolved(options[0], definitions), **rest}
    if "const" in schema:
        schema = {**schema, "enum": [schema["const"]]}
        del schema["const"]
    if schema.get("type") in {"number", "integer"} and isinstance(schema.get("default"), str):
        schema = {**schema, "default": from_json(schema["default"])}  # of a `Decimal`
    if schema.get("format") not in _FORMATS:
        schema = {name: value for name, value in schema.items() if name != "format"}
    if "items" in schema:
        schema = {**schema, "items": _field(schema["items"], definitions)}
    return {name: value for name, value in schema.items() if not isinstance(value, Enum)}


def sampling_request(
    messages: Prompt | Sequence[Prompt], **settings: Any  # noqa: ANN401 - members of the model
) -> models.CreateMessageRequest:
    """Return the request for a message of the client's model."""
    several = messages if isinstance(messages, Sequence) and not isinstance(messages, str) else [messages]
    params = models.CreateMessageRequestParams(messages=[_message(each) for each in several], **settings)
    return models.CreateMessageRequest(params=params)


def _message(prompt: Prompt) -> models.SamplingMessage:
    if isinstance(prompt, models.SamplingMessage):
        return prompt
    content = models.TextContent(text=prompt) if isinstance(prompt, str) else prompt
    return models.SamplingMessage(role="user", content=content)


def sampled(result: models.CreateMessageResult) -> Sampled:
    """Return the answer with its text."""
    blocks = result.content if isinstance(result.content, list) else [result.content]
    return Sampled("".join(each.text for each in blocks if isinstance(each, models.TextContent)), result)
