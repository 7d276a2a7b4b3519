"""The headers that repeat parts of the body, and the check that they match (HDR-1 to 6, HDR-8; HTTP-20, HTTP-25;
AMB-8).

Names are compared case-insensitively, values case-sensitively (HDR-4). A server passes header pairs as ASGI gives
them, with names in lower case; a client gets pairs of strings to send. The tool's schema says which parameters
`Mcp-Param-*` headers repeat, see `param_headers`.

Decisions where the requirements are silent or disagree:

- A value with a tab is encoded, because some readers refuse a plain tab. Reading accepts both forms.
- A value that begins like an encoded one is encoded, whatever its end and its case.
- White space around a value belongs to HTTP, not to the value.
- `Mcp-Name` on a method without a name parameter is ignored.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from operator import eq
from typing import TYPE_CHECKING, Final, TypeAlias, cast

from mcprev.errors import HeaderMismatch, Json, LocalProtocolError
from mcprev.revisions import Revision, TaskSupport
from mcprev.wire.param_headers import MAX_SAFE, ParamHeader

VERSION: Final = "MCP-Protocol-Version"
METHOD: Final = "Mcp-Method"
NAME: Final = "Mcp-Name"
SESSION_ID: Final = "Mcp-Session-Id"
LAST_EVENT_ID: Final = "Last-Event-ID"

VERSION_KEY: Final = VERSION.lower().encode()
METHOD_KEY: Final = METHOD.lower().encode()
NAME_KEY: Final = NAME.lower().encode()
SESSION_ID_KEY: Final = SESSION_ID.lower().encode()
LAST_EVENT_ID_KEY: Final = LAST_EVENT_ID.lower().encode()

Pairs: TypeAlias = list[tuple[str, str]]
"""Headers to send, in order."""


# -- one value -------------------------------------------------------------------------------------------

_PLAIN: Final = re.compile(r"(?:[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?)?")
_READABLE: Final = re.compile(r"[\t\x20-\x7e]*")
_OPEN: Final = "=?base64?"
_CLOSE: Final = "?="
SPACE: Final = b" \t"
"""The white space that HTTP allows around a header value."""


def encode_value(text: str) -> str:
    """Encode a header value: plain if possible, else base64. Raises `LocalProtocolError` for lone surrogates."""  # HDR-5
    if _PLAIN.fullmatch(text) and text[: len(_OPEN)].lower() != _OPEN:
        return text
    try:
        raw = text.encode()
    except UnicodeEncodeError as error:
        raise LocalProtocolError(
            f"this value has no UTF-8 encoding and cannot be sent in a header: {text[:40]!r}"
        ) from error
    return f"{_OPEN}{binascii.b2a_base64(raw, newline=False).decode()}{_CLOSE}"


def decode_value(value: str) -> str:
    """Decode a header value. Raises `ValueError` for characters not allowed in a header and for invalid
    base64.
    """  # HDR-5
    if not _READABLE.fullmatch(value):
        raise ValueError("it has characters that are not allowed in a header")
    if len(value) < len(_OPEN) + len(_CLOSE) or not (value.startswith(_OPEN) and value.endswith(_CLOSE)):
        return value
    try:
        return binascii.a2b_base64(value[len(_OPEN) : -len(_CLOSE)], strict_mode=True).decode()
    except ValueError as error:
        raise ValueError("its base64 is invalid") from error


# -- the client ------------------------------------------------------------------------------------------

TASK_NAMES: Final[Mapping[str, str]] = dict.fromkeys(("tasks/get", "tasks/update", "tasks/cancel"), "taskId")
"""The parameter that `Mcp-Name` repeats for the methods of the tasks extension, which no schema lists.
"""  # HDR-2, TASKX-5


def name_param(revision: Revision, method: str) -> str | None:
    """Return the parameter that `Mcp-Name` repeats for a method at a revision, or None."""  # HDR-2
    if not revision.routing_headers:
        return None
    spec = revision.methods.get(method)
    if spec is not None:
        return spec.name_param
    return TASK_NAMES.get(method) if revision.tasks is TaskSupport.EXTENSION else None


def request_headers(
    revision: Revision,
    method: str | None = None,
    params: Mapping[str, Json] | None = None,
    param_headers: Sequence[ParamHeader] = (),
) -> Pairs:
    """Return the headers that a client sends with a request or notification at a revision, without the session id.

    `revision` is the negotiated one; `initialize`, which negotiates it, carries no version header. `method`
    is None for GET and DELETE. `param_headers` are those of the called tool. Notifications carry the routing
    headers too, although no server may require them. Raises `LocalProtocolError` for an argument that no
    header can hold.
    """  # HTTP-25, HDR-6, AMB-8
    headers: Pairs = []
    if revision.version_header and not (method == "initialize" and revision.handshake):
        headers.append((VERSION, revision.version))
    if not revision.routing_headers or method is None:
        return headers
    headers.append((METHOD, encode_value(method)))
    named_by = name_param(revision, method)
    name = (params or {}).get(named_by) if named_by is not None else None
    if isinstance(name, str):
        headers.append((NAME, encode_value(name)))
    if param_headers:
        arguments = (params or {}).get("arguments")
        for header in param_headers:
            value = header.value_in(arguments)
            if value is not None:
                headers.append((header.header, render(value, header)))
    return headers


def render(value: Json, header: ParamHeader) -> str:
    """Format an argument as a header value: text as it is, integers in decimal, booleans as `true` or `false`.

    An argument of another type than the declared one is formatted by its own type; the server validates it. Raises
    `LocalProtocolError` for a value that has no header form.
    """  # HDR-6
    if isinstance(value, str):
        return encode_value(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float) and value == value // 1 and abs(value) <= MAX_SAFE:
        return str(int(value))
    path = ".".join(header.path)
    raise LocalProtocolError(
        f"the argument {path} cannot be sent in the header {header.header}: {value!r:.60}"
    )


# -- the server ------------------------------------------------------------------------------------------


class Headers(dict[bytes, bytes]):
    """The headers of one request: names in lower case, values without white space around them.

    The values of a repeated header are joined by commas, as HTTP allows; `repeated` has the names of those headers.
    """

    repeated: frozenset[bytes] = frozenset()

    if TYPE_CHECKING:

        def __init__(self, values: Mapping[bytes, bytes], /) -> None:
            """Take headers that occur once, without white space around their values; `of` takes any."""

    @classmethod
    def of(cls, pairs: Sequence[tuple[bytes, bytes]]) -> Headers:
        """Return the headers of pairs as in an ASGI scope."""
        headers = cls({})
        for name, value in pairs:
            headers[name] = value.strip(SPACE)
        if len(headers) < len(pairs):
            values: dict[bytes, list[bytes]] = {}
            for name, value in pairs:
                values.setdefault(name, []).append(value.strip(SPACE))
            headers.repeated = frozenset(name for name, found in values.items() if len(found) > 1)
            headers.update({name: b", ".join(values[name]) for name in headers.repeated})
        return headers

    def text(self, name: bytes) -> str | None:
        """Return the value of a header decoded as Latin-1, or None."""
        value = self.get(name)
        return None if value is None else value.decode("latin-1")

    def texts(self) -> dict[str, str]:
        """Return all headers decoded as Latin-1."""
        return {name.decode("latin-1"): value.decode("latin-1") for name, value in self.items()}


def mismatch(
    headers: Headers,
    version: str,
    method: str,
    params: Mapping[str, Json],
    name_of: str | None,
    same: Callable[[str, str], bool] = eq,
) -> HeaderMismatch | None:
    """Return the error for headers that do not match the body of their request, or None.

    `version` is the version in `_meta` and `name_of` the parameter that `Mcp-Name` repeats (see `name_param`); `same`
    says whether two values of it name the same.
    """  # HDR-1, HDR-3
    error = _compare(headers, VERSION_KEY, VERSION, version) or _compare(headers, METHOD_KEY, METHOD, method)
    if error is None and name_of is not None:
        name = params.get(name_of)
        if method in TASK_NAMES and NAME_KEY not in headers:
            pass  # a widespread client omits it
        elif isinstance(name, str):
            error = _compare(headers, NAME_KEY, NAME, name, same)
        elif headers.get(NAME_KEY) is not None:
            error = HeaderMismatch(
                f"Header mismatch: {NAME} is present, but params.{name_of} is not a string"
            )
    return error


def _compare(
    headers: Headers, key: bytes, name: str, expected: str, same: Callable[[str, str], bool] = eq
) -> HeaderMismatch | None:
    text = headers.get(key, b"").decode("latin-1")
    # Fast path: most requests match and have plain values.
    if (
        text == expected
        and text.isascii()
        and text.isprintable()
        and text[:1] != "="
        and not headers.repeated
    ):
        return None
    found = _read(headers, key, name)
    if isinstance(found, HeaderMismatch):
        return found
    if found is None:
        return HeaderMismatch(f"Header mismatch: {name} is missing")
    return (
        None if same(found, expected) else HeaderMismatch(f"Header mismatch: {name} does not match the body")
    )


def _read(headers: Headers, key: bytes, name: str) -> str | HeaderMismatch | None:
    """Return the decoded value of a header that may occur only once, None if absent, or the mismatch."""
    if key in headers.repeated:
        return HeaderMismatch(f"Header mismatch: {name} is repeated")
    value = headers.text(key)
    if value is None:
        return None
    try:
        return decode_value(value)
    except ValueError as error:
        return HeaderMismatch(f"Header mismatch: {name} is malformed, {error}")


def param_mismatch(
    headers: Headers, arguments: Json, param_headers: Sequence[ParamHeader]
) -> HeaderMismatch | None:
    """Return the error for `Mcp-Param-*` headers that do not match the arguments, or None; unknown ones are ignored."""  # HDR-8
    for header in param_headers:
        found = _read(headers, header.key, header.header)
        if isinstance(found, HeaderMismatch):
            return found
        value = header.value_in(arguments)
        path = ".".join(header.path)
        if found is None and value is not None:
            return HeaderMismatch(
                f"Header mismatch: {header.header} is missing, but the argument {path} is present"
            )
        if found is not None and value is None:
            return HeaderMismatch(
                f"Header mismatch: {header.header} is present, but the argument {path} is missing"
            )
        if found is not None and not equals_argument(found, value):
            return HeaderMismatch(f"Header mismatch: {header.header} does not match the argument {path}")
    return None


_NUMBER: Final = re.compile(r"-?[0-9]{1,40}(?:\.[0-9]{1,40})?(?:[eE][+-]?[0-9]{1,3})?")


def equals_argument(text: str, value: Json) -> bool:
    """Return whether a decoded header equals an argument; numbers are compared by value."""  # HDR-8
    if isinstance(value, str):
        return text == value
    if isinstance(value, bool):
        return text == ("true" if value else "false")
    if isinstance(value, int | float):
        return _NUMBER.fullmatch(text) is not None and Decimal(text) == Decimal(cast("float", value))
    return False
