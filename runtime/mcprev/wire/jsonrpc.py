"""Bytes to JSON-RPC messages and back (BASE-1, 2, 5 to 8, 10, 16, 17; BATCH-1, 5, 6; STDIO-1, STDIO-9).

Parsing never raises: invalid input becomes a `Malformed`, which holds the error to send and whether to send one.
Parsing tolerates unknown envelope members, `"params": null`, a null `error` beside a `result` and the reverse, a byte
order mark, and `1.0` as an id. It keeps `1`, `1.0` and `"1"` distinct, integers of any size and lone surrogates, which are
not written but in ids.
Decisions where the requirements are silent:

- Scalar params make an invalid request (-32600); array params are valid JSON-RPC but fit no MCP method (-32602).
- A malformed response or notification gets no reply: the sender could match the reply to one of its own requests.
- A line over the limit is -32600, not -32700: the line is not parsed, so it may be valid JSON.
- A message with a `method` is a request or notification, whatever other members it has.
- A number beyond the range of a double is refused as invalid JSON. A number that JSON cannot represent is written as
  null, as the generated models and JavaScript peers write it.
- An error for a message that is refused unparsed carries the id its text shows (see `unread`), so the call ends.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from math import inf, isinf
from typing import Final, Never, TypeAlias, TypeVar, dataclass_transform

from pydantic_core import from_json, to_json

from mcprev.errors import INVALID_PARAMS, INVALID_REQUEST, PARSE_ERROR, Json, LocalProtocolError
from mcprev.wire.bounds import (
    MAX_DEPTH,
    UNCHECKED,
    OutOfBoundsError,
    check_names,
    check_values,
    count_values,
    few_values,
    json_bounds,
    without_strings,
)
from mcprev.wire.text import replaced
from mcprev.wire.unread import find_id

RequestId: TypeAlias = int | str | float
"""An id as received. A float is a whole number that was written with a fraction part."""  # BASE-16

MAX_LINE: Final = 16 * 1024 * 1024
"""The default limit of a line, in bytes."""  # STDIO-9
MAX_BATCH: Final = 10_000
"""A batch of more members is refused as a whole: each member may cost an error response."""
EXCERPT: Final = 200
"""How many characters of a malformed message are kept for the log."""

T = TypeVar("T")
_kind: Callable[[object], type[object]] = type
"""`type` under another name, so that type checkers do not narrow a JSON value to a container of unknown types."""


@dataclass_transform(frozen_default=True)
def record(cls: type[T]) -> type[T]:
    """Return a dataclass with slots that only type checkers treat as frozen; a frozen one is three times slower to
    create.
    """
    made: type[T] = dataclass(slots=True)(cls)
    return made


class Shape(StrEnum):
    """The kind of message that a malformed one was probably meant to be."""

    NOT_JSON = "not JSON"
    UNKNOWN = "unknown"
    REQUEST = "request"
    NOTIFICATION = "notification"
    RESPONSE = "response"
    ID_ONLY = "an id, but neither a method nor a result nor an error"
    """A response without its result if the id is a pending one; any other such message gets an error response."""


@record
class Request:
    """A message that expects a response."""

    id: RequestId
    method: str
    params: dict[str, Json] | None = None
    origin: object = field(default=None, compare=False, repr=False)
    """The transport's own reference to the source of the message; set by transports that carry several streams."""


@record
class Notification:
    """A message that gets no response."""

    method: str
    params: dict[str, Json] | None = None
    origin: object = field(default=None, compare=False, repr=False)
    """As in `Request`."""


@record
class Response:
    """The successful response to a request. MCP requires an object; the code that knows the method validates the
    result.
    """

    id: RequestId
    result: Json


@record
class ErrorResponse:
    """The error response to a request. The id is None if the request had no readable id."""  # BASE-7

    id: RequestId | None
    error: dict[str, Json]


@record
class Malformed:
    """Invalid input, as data, so that one malformed message does not affect the others."""  # BASE-10

    code: int
    message: str
    """What is invalid, without quoting the input."""
    id: RequestId | None
    """The id, if the input has a valid one."""
    excerpt: str
    """The beginning of the input."""
    shape: Shape

    @property
    def answer(self) -> ErrorResponse | None:
        """Return the error response to send, or None for input that gets no response."""  # BASE-8
        if self.shape is Shape.RESPONSE or self.shape is Shape.NOTIFICATION:
            return None
        return ErrorResponse(self.id, {"code": self.code, "message": self.message})


Message: TypeAlias = Request | Notification | Response | ErrorResponse | Malformed


@record
class Batch:
    """The messages of a JSON array, in order."""  # BATCH-1

    messages: tuple[Message, ...]


# -- reading ---------------------------------------------------------------------------------------------

_logger: Final = logging.getLogger("mcprev.wire")
_BOM: Final = b"\xef\xbb\xbf"
_SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F]")
_DIGITS: Final = bytes.maketrans(b"123456789E", b"000000000e")
_EXPONENT: Final = b"0e000"
_STRINGS: Final = 1024
"""The number of bytes for each value above which a message is mostly strings."""
_TOO_LARGE: Final = "a number beyond the range of a double"
_LONG: Final = b"0" * 200
"""With every digit replaced by 0 and plus signs removed, each number beyond the range of a double contains one of
these.
"""


def parse(data: bytes | bytearray, *, batch: bool, max_values: int | None = None) -> Message | Batch:
    """Parse one line or one HTTP body. Never raises.

    `batch` says whether the revision allows arrays, `max_values` how many values a server accepts, if fewer than the process.
    """  # BATCH-6
    try:
        # A text has at most as many values as bytes.
        most = json_bounds.max_values if max_values is None else max_values
        large = len(data) > UNCHECKED or len(data) > most or len(data) > json_bounds.max_values
        values = count_values(data, max_values) if large else 0
        value = from_json(data, allow_inf_nan=False)
        if not (large and _check_long_strings(data, values, value)):
            digits = data.translate(_DIGITS, b"+")
            if _EXPONENT in digits or _LONG in digits:
                _refuse_infinity(data)
    except ValueError as error:
        value = _reread(bytes(data), error, max_values)
        if isinstance(value, Malformed):
            return value
    if _kind(value) is not list:
        return _envelope(value, data)
    if not batch:
        return _malformed("batches are not part of this revision", value, data)
    if not value:
        return _malformed("an empty batch", value, data)
    if len(value) > MAX_BATCH:
        return _malformed(f"a batch of more than {MAX_BATCH} messages", value, data)
    return Batch(tuple([_envelope(member, None) for member in value]))


def _reread(data: bytes, error: ValueError, max_values: int | None) -> Json:
    """Parse valid JSON that the fast parser refuses, or return the error."""
    try:
        if not isinstance(error, OutOfBoundsError) and (data.startswith(_BOM) or _SURROGATE.search(data)):
            check_values(data, max_values)
            data = data.removeprefix(_BOM)
            value = _read_slowly(data)
            if _within(value, MAX_DEPTH):
                return value
            error = ValueError(f"nested deeper than {MAX_DEPTH}")
    except (ValueError, RecursionError) as second:
        error = second if isinstance(second, ValueError) else ValueError(f"nested deeper than {MAX_DEPTH}")
    if isinstance(error, OutOfBoundsError):
        return unread(INVALID_REQUEST, f"Invalid Request: {error}", data, data)
    # The message goes to the peer; it does not name internal codecs.
    why = "not UTF-8" if isinstance(error, UnicodeDecodeError) else str(error)
    if "recursion" in why:
        why = f"nested deeper than {MAX_DEPTH}"
    return unread(PARSE_ERROR, f"Parse error: {why}", data, data)


def _check_long_strings(data: bytes | bytearray, values: int, value: Json) -> bool:
    """Check the member names of a large message; if it is mostly strings, check its numbers too and return True.

    The values of such a message are few, so looking at each takes less time than looking at the text.
    """
    few = few_values(value, len(data) // _STRINGS)
    check_names(data, values, few and few[1])
    if few is not None and (inf in few[0] or -inf in few[0]):
        raise ValueError(_TOO_LARGE)
    return few is not None


def _refuse_infinity(data: bytes | bytearray) -> None:
    """Raise `ValueError` if JSON that may contain a number beyond the range of a double does contain one."""
    digits = without_strings(data).translate(_DIGITS, b"+")
    if _EXPONENT in digits or _LONG in digits:
        _read_slowly(data)


def _read_slowly(data: bytes | bytearray) -> Json:
    """Parse JSON with lone surrogates and check each number. Raises `ValueError` and `RecursionError`."""
    return json.loads(data.decode(), parse_constant=_no_constant, parse_float=_finite)


def unread(code: int, message: str, head: bytes | bytearray, tail: bytes | bytearray) -> Malformed:
    """Return the `Malformed` for a message refused unparsed, with the id found at its beginning or end."""
    found, names = find_id(head, tail)
    request_id, shape = _id({"id": found}), Shape.NOT_JSON if code == PARSE_ERROR else Shape.UNKNOWN
    if request_id is not None:
        shape = Shape.ID_ONLY
        if b"method" in names:
            shape = Shape.REQUEST
        elif names & {b"result", b"error"}:
            shape = Shape.RESPONSE
    return Malformed(code, message, request_id, _quote(head), shape)


def _finite(text: str) -> float:
    number = float(text)
    if isinf(number):
        raise ValueError(_TOO_LARGE)
    return number


def _no_constant(name: str) -> Never:
    raise ValueError(f"{name} is not JSON")


def _within(value: Json, depth: int) -> bool:
    """Return whether containers nest at most `depth` levels; checked level by level, without recursion."""
    level: list[Json] = [value]
    for _ in range(depth + 1):
        inside: list[Iterable[Json]] = [
            item.values() if _kind(item) is dict else item for item in level if _kind(item) in (dict, list)
        ]
        level = [item for items in inside for item in items]
        if not level:
            return True
    return False


def _envelope(value: Json, data: bytes | bytearray | None) -> Message:
    """Return the message that a value represents. Valid messages are recognised first; errors are analysed after
    that.
    """
    if _kind(value) is not dict:
        return _malformed("a message is an object", value, data)
    if value.get("jsonrpc") != "2.0":
        return _malformed('jsonrpc is not "2.0"', value, data)
    method = value.get("method")
    if method is None:
        request_id = value.get("id")
        if type(request_id) is int and "result" in value and value.get("error") is None:
            return Response(request_id, value["result"])
        return _response(value, data)
    params = value.get("params")
    kind = _kind(params)
    if type(method) is str and (params is None or kind is dict):
        if "id" not in value:
            return Notification(method, params)
        request_id = value["id"]
        if type(request_id) is int or type(request_id) is str or _integral(request_id):
            return Request(request_id, method, params)
    if type(method) is not str:
        return _malformed("method is not a string", value, data)
    if "id" in value and _id(value) is None:
        # A request with a null id is a malformed request, never a notification (BASE-2).
        return _malformed("id is neither a string nor an integer", value, data)
    code = INVALID_PARAMS if kind is list else INVALID_REQUEST
    return _malformed("params is not an object", value, data, code=code)


def _response(value: dict[str, Json], data: bytes | bytearray | None) -> Message:
    error = value.get("error")
    request_id = _id(value)
    if error is None:
        if "result" not in value:
            return _malformed("neither method nor result nor error", value, data)
        if request_id is None:
            return _malformed("a result without a valid id", value, data)
        return Response(request_id, value["result"])
    if value.get("result") is not None:
        return _malformed("both result and error", value, data)
    if request_id is None and value.get("id") is not None:
        return _malformed("id is neither a string nor an integer", value, data)
    kind = _kind(error)
    if kind is not dict or type(error.get("message")) is not str:
        return _malformed("error is not an object with a message", value, data)
    code = error.get("code")
    if type(code) is not int and not _integral(code):
        return _malformed("error has no integer code", value, data)
    return ErrorResponse(request_id, error)


def _integral(value: object) -> bool:
    return type(value) is float and value.is_integer()


def _id(value: dict[str, Json]) -> RequestId | None:
    """Return the id of an envelope if it is valid; a bool is invalid, although it is an int in Python."""  # BASE-2
    found = value.get("id")
    if type(found) is int or type(found) is str or (type(found) is float and found.is_integer()):
        return found
    return None


def _malformed(
    why: str, value: Json, data: bytes | bytearray | None, *, code: int = INVALID_REQUEST
) -> Malformed:
    request_id, shape = None, Shape.UNKNOWN
    kind = _kind(value)
    if kind is dict:
        request_id = _id(value)
        if isinstance(value.get("method"), str):
            shape = Shape.REQUEST if "id" in value else Shape.NOTIFICATION
        elif value.get("method") is None:
            if "result" in value or "error" in value:
                shape = Shape.RESPONSE
            elif request_id is not None:
                shape = Shape.ID_ONLY
    name = "Invalid params" if code == INVALID_PARAMS else "Invalid Request"
    excerpt = _quote(data) if data is not None else json.dumps(value)[:EXCERPT]
    return Malformed(code, f"{name}: {why}", request_id, excerpt, shape)


def _quote(data: bytes | bytearray) -> str:
    return data[:EXCERPT].decode(errors="replace")


# -- writing ---------------------------------------------------------------------------------------------

_SEPARATORS: Final = re.compile(rb"\xe2\x80[\xa8\xa9]")
_ESCAPED: Final = {b"\xe2\x80\xa8": rb"\u2028", b"\xe2\x80\xa9": rb"\u2029"}


def encode(message: Request | Notification | Response | ErrorResponse, *, null_id_in_errors: bool) -> bytes:
    """Encode a message as one line without a line end. Raises `LocalProtocolError` for values that JSON cannot
    represent.
    """
    if type(message) is Response:
        return encode_result(message.id, message.result)
    if type(message) is Request:
        return encode_request(message.id, message.method, message.params)
    if type(message) is Notification:
        return encode_notification(message.method, message.params)
    assert isinstance(message, ErrorResponse)
    return encode_error(message.id, message.error, null_id=null_id_in_errors)


def encode_request(request_id: RequestId, method: str, params: dict[str, Json] | None) -> bytes:
    """Encode a request."""
    message: dict[str, Json] = {"jsonrpc": "2.0", "id": request_id, "method": method}
    if params is not None:
        message["params"] = params
    return _dump(message)


def encode_notification(method: str, params: dict[str, Json] | None) -> bytes:
    """Encode a notification."""
    envelope: dict[str, Json] = {"jsonrpc": "2.0", "method": method}
    if params is not None:
        envelope["params"] = params
    return _dump(envelope)


def encode_result(request_id: RequestId, result: Json) -> bytes:
    """Encode a response."""
    return _dump({"jsonrpc": "2.0", "id": request_id, "result": result})


def encode_error(request_id: RequestId | None, error: dict[str, Json], *, null_id: bool = False) -> bytes:
    """Encode an error response. `null_id` writes `"id": null` for one without an id; else the member is omitted."""  # BASE-7
    if request_id is None and not null_id:
        return _dump({"jsonrpc": "2.0", "error": error})
    return _dump({"jsonrpc": "2.0", "id": request_id, "error": error})


def encode_batch(messages: Iterable[bytes]) -> bytes:
    """Join encoded responses into one array, the response to a batch."""  # BATCH-2
    return b"[%b]" % b",".join(messages)


def _dump(value: dict[str, Json]) -> bytes:
    """Return JSON without line ends."""
    try:
        text = to_json(value, inf_nan_mode="null")
    except ValueError:
        # UTF-8 cannot encode lone surrogates. A value that `json.dumps` refuses too is not JSON.
        try:
            text = _dump_replacing(value)
        except (ValueError, TypeError, RecursionError) as error:
            raise LocalProtocolError(f"the message cannot be written as JSON: {error}") from error
    # Node's readline ends lines at U+2028 and U+2029 too, which occur only inside strings (STDIO-1).
    return _SEPARATORS.sub(_escape, text) if b"\xe2" in text else text


def _dump_replacing(value: dict[str, Json]) -> bytes:
    """Return JSON in which U+FFFD takes the place of lone surrogates, which many readers of JSON refuse.

    The id stays: the peer has made it, and compares it.
    """
    without_id = {**value, "id": None} if "id" in value else value
    message = json.dumps(without_id, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    cleaned = replaced(message)
    if cleaned != message:
        _tell_once()
    if "id" in value:
        cleaned = cleaned.replace('"id":null', f'"id":{json.dumps(value["id"])}', 1)
    return cleaned.encode()


@cache
def _tell_once() -> None:
    _logger.warning(
        "a message held text that is not Unicode (a lone surrogate, as in a file name that is not UTF-8); it was sent "
        "with U+FFFD in that place, and so are later ones"
    )


def _escape(found: re.Match[bytes]) -> bytes:
    return _ESCAPED[found[0]]
