"""The headers that repeat what a body says, and their check (HDR-1 to 6, HDR-8; HTTP-20, HTTP-25; AMB-8).

Names are compared without regard to case, values with it (HDR-4). A server gets header pairs as ASGI gives them,
names in lower case; a client gets pairs of text to send. Which parameters are repeated by `Mcp-Param-*` is said by
a tool's schema, see `param_headers`.

Decided here because the requirements are silent or disagree:

- A value with a tab is encoded, although it need not be: some readers refuse it. Reading takes it either way.
- A value that begins as an encoded one does is encoded, whether or not it ends so and in whatever case.
- White space around a value belongs to HTTP and not to the value.
- `Mcp-Name` on a method without a name has nothing to be compared with and is ignored.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Final, TypeAlias, cast

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
_SPACE: Final = b" \t"


def encode_value(text: str) -> str:
    """Write a value: plain if it can be, else in base64 (HDR-5). Raises `LocalProtocolError` for lone surrogates."""
    if _PLAIN.fullmatch(text) and text[: len(_OPEN)].lower() != _OPEN:
        return text
    try:
        raw = text.encode()
    except UnicodeEncodeError as error:
        raise LocalProtocolError(
            f"this cannot be put in a header, it is not Unicode: {text[:40]!r}"
        ) from error
    return f"{_OPEN}{binascii.b2a_base64(raw, newline=False).decode()}{_CLOSE}"


def decode_value(value: str) -> str:
    """Read a value (HDR-5). Raises `ValueError` for characters that a header has not, and for broken base64."""
    if not _READABLE.fullmatch(value):
        raise ValueError("it has characters that no header has")
    if len(value) < len(_OPEN) + len(_CLOSE) or not (value.startswith(_OPEN) and value.endswith(_CLOSE)):
        return value
    try:
        return binascii.a2b_base64(value[len(_OPEN) : -len(_CLOSE)], strict_mode=True).decode()
    except ValueError as error:
        raise ValueError("its base64 is broken") from error


# -- the client ------------------------------------------------------------------------------------------

TASK_NAMES: Final[Mapping[str, str]] = dict.fromkeys(("tasks/get", "tasks/update", "tasks/cancel"), "taskId")
"""The methods of the tasks extension are in no schema (HDR-2, TASKX-5)."""


def name_param(revision: Revision, method: str) -> str | None:
    """The parameter that `Mcp-Name` repeats for a method at a revision; None when there is none (HDR-2)."""
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
    """What a client says in headers of a request or notification at a revision, the session id apart.

    `row` is what was agreed on; `initialize`, which agrees on it, gets no version of the handshake era (HTTP-25).
    `method` is None for GET and DELETE. `param_headers` are those of the tool that is called (HDR-6). The notifications
    of a revision with these headers carry them too, which no server may demand (AMB-8). Raises `LocalProtocolError`
    for an argument that no header can carry.
    """
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
    """An argument as a header says it: text as it is, integers in decimal, booleans in words (HDR-6).

    An argument that is not of the declared type is rendered by its own, for the server to judge. Raises
    `LocalProtocolError` for one that has no such form.
    """
    if isinstance(value, str):
        return encode_value(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float) and value == value // 1 and abs(value) <= MAX_SAFE:
        return str(int(value))
    where = ".".join(header.path)
    raise LocalProtocolError(
        f"the argument {where} cannot be sent in the header {header.header}: {value!r:.60}"
    )


# -- the server ------------------------------------------------------------------------------------------


_NONE: Final[frozenset[bytes]] = frozenset()


class Headers:
    """The headers of one request, by name in lower case.

    A repeated header is one list, as HTTP has it; `repeated` says which are, for those that may come only once.
    """

    __slots__ = ("found", "repeated")

    def __init__(self, pairs: Sequence[tuple[bytes, bytes]]) -> None:
        """Take header pairs as in an ASGI scope."""
        self.found: dict[bytes, bytes] = dict(pairs)
        """The values as they came, which may have white space around them."""
        self.repeated: frozenset[bytes] = _NONE
        if len(self.found) != len(pairs):
            self._merge(pairs)

    def _merge(self, pairs: Sequence[tuple[bytes, bytes]]) -> None:
        values: dict[bytes, list[bytes]] = {}
        for name, value in pairs:
            values.setdefault(name, []).append(value)
        self.found = {name: b", ".join(found) for name, found in values.items()}
        self.repeated = frozenset(name for name, found in values.items() if len(found) > 1)

    def get(self, name: bytes) -> bytes | None:
        """The value of a header without the white space around it; None when it is not there."""
        value = self.found.get(name)
        return None if value is None else value.strip(_SPACE)

    def __contains__(self, name: bytes) -> bool:
        return name in self.found

    def text(self, name: bytes) -> str | None:
        """The same as text, a character for each byte."""
        value = self.found.get(name)
        return None if value is None else value.strip(_SPACE).decode("latin-1")


def mismatch(
    headers: Headers,
    version: str,
    method: str,
    params: Mapping[str, Json],
    name_of: str | None,
    param_headers: Sequence[ParamHeader] = (),
) -> HeaderMismatch | None:
    """What is wrong with the headers of a request, if something is (HDR-1, HDR-3, HDR-8).

    `version` is the one in `_meta`, `name_of` the parameter that `Mcp-Name` repeats (`name_param`), `param_headers`
    those of the tool that is called.
    """
    wrong = _compare(headers, VERSION_KEY, VERSION, version) or _compare(headers, METHOD_KEY, METHOD, method)
    if wrong is None and name_of is not None:
        name = params.get(name_of)
        if isinstance(name, str):
            wrong = _compare(headers, NAME_KEY, NAME, name)
        elif headers.get(NAME_KEY) is not None:
            wrong = HeaderMismatch(f"Header mismatch: {NAME} is there, but no {name_of} in the params")
    if wrong is None and param_headers:
        return param_mismatch(headers, params.get("arguments"), param_headers)
    return wrong


def _compare(headers: Headers, key: bytes, name: str, expected: str) -> HeaderMismatch | None:
    text = headers.text(key) or ""
    # Most requests are right, and their values plain.
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
    return None if found == expected else HeaderMismatch(f"Header mismatch: {name} is not what the body says")


def _read(headers: Headers, key: bytes, name: str) -> str | HeaderMismatch | None:
    """A header that may come only once, decoded."""
    if key in headers.repeated:
        return HeaderMismatch(f"Header mismatch: {name} is there more than once")
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
    """What is wrong with the `Mcp-Param-*` headers of a call, if something is; others than the tool's are ignored (HDR-8)."""
    for header in param_headers:
        found = _read(headers, header.key, header.header)
        if isinstance(found, HeaderMismatch):
            return found
        value = header.value_in(arguments)
        where = ".".join(header.path)
        if found is None and value is not None:
            return HeaderMismatch(
                f"Header mismatch: {header.header} is missing, but not the argument {where}"
            )
        if found is not None and value is None:
            return HeaderMismatch(f"Header mismatch: {header.header} is there, but not the argument {where}")
        if found is not None and not says(found, value):
            return HeaderMismatch(f"Header mismatch: {header.header} is not what the argument {where} says")
    return None


_NUMBER: Final = re.compile(r"-?[0-9]{1,40}(?:\.[0-9]{1,40})?(?:[eE][+-]?[0-9]{1,3})?")


def says(text: str, value: Json) -> bool:
    """Whether a decoded header says the same as an argument; numbers are compared as such (HDR-8)."""
    if isinstance(value, str):
        return text == value
    if isinstance(value, bool):
        return text == ("true" if value else "false")
    if isinstance(value, int | float):
        return _NUMBER.fullmatch(text) is not None and Decimal(text) == Decimal(cast("float", value))
    return False
