"""Judges one message by the schema of a revision (BASE-1 to 4, 10; MOD-3; ERR-1)."""

from __future__ import annotations

import json
from codecs import BOM_UTF8
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import Final

from pydantic_core import from_json

from mcprev.analysis.extension_rows import TASKS, extension_row, row_of_extension, stamped
from mcprev.analysis.payloads import NO_NULL, Place, judge_payload, quote
from mcprev.analysis.schemas import TypedPackage, class_of, definitions_of, own_package, package_of
from mcprev.errors import Json, LocalProtocolError
from mcprev.json_schema.bounds import OBJECT
from mcprev.protocol.tasks import GET, is_task
from mcprev.revisions import ALL, DEFAULT, Revision, TaskSupport, by_version, extended, revision_named
from mcprev.wire.bounds import MAX_DEPTH, check_values
from mcprev.wire.headers import request_headers
from mcprev.wire.jsonrpc import (
    Batch,
    ErrorResponse,
    Malformed,
    Message,
    Notification,
    Request,
    Response,
    parse,
)
from mcprev.wire.meta_keys import VERSION
from mcprev_types import Direction, Kind, MethodSpec, Transport

INITIALIZE: Final = "initialize"
_TASK: Final = "CreateTaskResult"
"""The type of a result that is a task, in the extension."""
_MAY_BE_ABSENT: Final = frozenset({"method", "params", "result", "error"})
"""The members of a message that `parse` reads as absent if they are null; a null `id` has a meaning in errors."""
_ERRORS: Final = ("Error", "JSONRPCErrorError")
"""The names of the type of an error without a type of its own."""


@dataclass(frozen=True, slots=True)
class Violation:
    """One violation of the schema in one message."""

    path: str
    """The path from the root of the JSON-RPC message, such as `$.params.name`; of a batch, `$[0].params.name`."""
    message: str
    """What is wrong, and what is expected."""
    method: str | None = None
    """The method of the message, or of the request that it responds to; None if unknown."""
    line: int | None = None
    """The line of a transcript; None for a single message."""


def judge(
    message: Json | bytes,
    revision: str | Revision | ModuleType,
    *,
    method: str | None = None,
    direction: Direction | None = None,
    type_name: str | None = None,
) -> list[Violation]:
    """Return the violations of a message at a revision, in the order in which they stand in it; none if it is valid.

    - `message` is a JSON-RPC message or batch as it went over the wire, or as decoded JSON.
    - `revision` is the name of a revision, or the package of a schema of one's own that `mcprev generate` made, such as
      `acme_types`.
    - `method` is the method of the request that a response belongs to; without it, only the form of a result is judged.
    - `direction` tells which side sent the message; None: either side that may send it.
    - `type_name` says that `message` is no message but any value, which should be of this type of the schema.

    Deviations that the runtime tolerates, such as unknown members, are not violations. Raises `ValueError` for an
    unknown revision or type, and for a message by a package that extends no revision; and `TypeError` for a value that is
    not JSON, and a module that is no such package.
    """
    try:
        data = message if isinstance(message, bytes) else json.dumps(message).encode()
    except RecursionError:
        return [Violation("$", f"nested deeper than {MAX_DEPTH}", method)]
    if type_name is not None:
        return judge_value(data, package_of(revision), type_name)
    row = judged_row(revision)
    read = parse(data, batch=row.accepts_batch)
    if not isinstance(read, Batch):
        return [*_nulls(read, _decoded(data), "$"), *_judge_one(read, row, method, direction, "$")]
    found: list[Violation] = []
    given: Json = _decoded(data) or [None] * len(read.messages)
    for number, one in enumerate(read.messages):
        root = f"$[{number}]"
        found += [*_nulls(one, given[number], root), *_judge_one(one, row, method, direction, root)]
    return found


def judged_row(revision: str | Revision | ModuleType) -> Revision:
    """Return the row of a revision, or of the one that a package extends. Raises `ValueError` if it extends none."""
    if not isinstance(revision, ModuleType):
        return revision_named(revision) if isinstance(revision, str) else revision
    own = own_package(revision)
    try:
        return extended(revision_named(own.revision), own.package)
    except ValueError:
        raise ValueError(
            f"{own.name} extends no revision of MCP, so there are no messages of it: name the type of the value"
        ) from None


def judge_value(data: bytes, package: TypedPackage, type_name: str) -> list[Violation]:
    """Return where a JSON text is not of a type of a package. Raises `ValueError` for an unknown type."""
    name = class_of(package, type_name)
    try:
        check_values(data)
        value: Json = from_json(data.removeprefix(BOM_UTF8), allow_inf_nan=False)
    except ValueError as error:
        return [Violation("$", f"is not JSON: {error}")]
    return [Violation(path, said) for path, said in judge_payload(package, (name,), value, "$")]


def _decoded(data: bytes) -> Json:
    """Return what a text with a null in it holds; None for any other, and for one that only `parse` reads."""
    try:
        return from_json(data) if b"null" in data else None
    except ValueError:
        return None


def _nulls(read: Message, given: Json, root: str) -> list[Violation]:
    """Return which members of the message itself are null, which `parse` reads as absent."""
    if isinstance(read, Malformed):
        return []
    method = read.method if isinstance(read, Request | Notification) else None
    left_out = _MAY_BE_ABSENT - ({"result"} if isinstance(read, Response) else set())
    nulls = [name for name, value in members_of(given).items() if value is None and name in left_out]
    return [Violation(f"{root}.{name}", NO_NULL, method) for name in nulls]


def _judge_one(
    message: Message, revision: Revision, method: str | None, direction: Direction | None, root: str
) -> list[Violation]:
    places: list[Place] = []
    match message:
        case Malformed():
            places = [("$", message.message)]
        case Request() | Notification():
            method = message.method
            version = members_of((message.params or {}).get("_meta")).get(VERSION)
            if isinstance(version, str):
                places = same_version(version, revision, f"$.params._meta[{json.dumps(VERSION)}]")
            places += judge_call(message, revision, direction)
        case ErrorResponse():
            places = judge_error(message.error, revision)
        case Response() if method is not None:
            version = members_of(message.result).get("protocolVersion")
            if method == INITIALIZE and isinstance(version, str):
                places = same_version(version, revision, "$.result.protocolVersion")
            places += judge_result(method, revision, message.result)
        case _:
            pass
    return [Violation(root + path[1:], said, method) for path, said in places]


def judge_headers(
    headers: Iterable[tuple[str, str]], message: bytes, revision: str | Revision
) -> list[Violation]:
    """Return which headers of the POST of a message are missing or differ from those of its revision.

    Headers that depend on the schema of a tool are not judged. Raises `ValueError` for an unknown revision.
    """  # HTTP-25, HDR-6
    row = revision_named(revision) if isinstance(revision, str) else revision
    read = parse(message, batch=False)
    called = read if isinstance(read, Request | Notification) else None
    method, params = (None, None) if called is None else (called.method, called.params)
    sent = {name.lower(): value for name, value in headers}
    try:
        wanted = request_headers(row, method, params)
    except LocalProtocolError as error:
        return [Violation("$", str(error), method)]
    return [
        Violation(
            f"headers[{json.dumps(name)}]",
            f"{row.name} requires {quote(value)}, not {quote(sent[name.lower()]) if name.lower() in sent else 'none'}",
            method,
        )
        for name, value in wanted
        if sent.get(name.lower()) != value
    ]


def judge_call(
    message: Request | Notification, revision: Revision, direction: Direction | None
) -> list[Place]:
    """Return the errors of a request or notification."""
    spec, row, params = revision.methods.get(message.method), revision, message.params
    if spec is None and (added := extension_row(message.method, revision)) is not None:
        spec, row = added.methods[message.method], added
        params = stamped(params or {}, revision, row) if spec.kind == Kind.REQUEST else params
    if spec is None:
        return [("$.method", _unknown(message.method, revision))]
    found = _misused(message, spec, direction, revision)
    if params is not None:
        found += judge_payload(row, (spec.params,), params, "$.params")
    elif spec.params is not None and not spec.params_optional:
        found.append(("$.params", "Field required"))
    return found


def judge_result(method: str, revision: Revision, result: Json) -> list[Place]:
    """Return the errors of the result of a method."""
    may_be_task = revision.tasks is TaskSupport.EXTENSION and isinstance(result, OBJECT)
    if may_be_task and method != GET and is_task(result, revision):
        return judge_payload(row_of_extension(TASKS, revision), (_TASK,), result, "$.result")
    row = revision if method in revision.methods else extension_row(method, revision) or revision
    spec = row.methods.get(method)
    if spec is None or spec.result is None:
        return []
    return judge_payload(row, (spec.result, *spec.alternate_results), result, "$.result")


def judge_error(error: Json, revision: Revision) -> list[Place]:
    """Return the errors of the `error` of a response: by the type of its code, if the revision has one."""  # ERR-1
    code = members_of(error).get("code")
    name = _error_types(revision).get(code) if isinstance(code, int) else None
    general = next(name for name in _ERRORS if name in definitions_of(revision))
    return judge_payload(revision, (name or general,), error, "$.error")


@cache
def _error_types(revision: Revision) -> Mapping[int, str]:
    """Return the names of the types of errors by their codes."""
    found: dict[int, str] = {}
    for name, schema in definitions_of(revision).items():
        code = members_of(members_of(schema.get("properties")).get("code")).get("const")
        if isinstance(code, int):
            found[code] = name
    return found


def members_of(value: Json) -> dict[str, Json]:
    """Return the members of an object; none for any other value."""
    found: dict[str, Json] = value if isinstance(value, OBJECT) else {}
    return found


def session_revision(result: Json) -> Revision | None:
    """Return the revision of the session that a result of `initialize` opens."""
    version = members_of(result).get("protocolVersion")
    revision = by_version(version, ALL) if isinstance(version, str) else None
    return revision if revision is not None and revision.handshake else None


def same_version(version: str, revision: Revision, path: str) -> list[Place]:
    """Return the error of a stated version that is not that of the revision."""
    if version == revision.version:
        return []
    return [(path, f"says {quote(version)}, but is checked against '{revision.version}'")]


def _unknown(method: str, revision: Revision) -> str:
    others = [r.name for r in DEFAULT if method in r.methods]
    hint = f" (there is one at {', '.join(others)})" if others else ""
    return f"{revision.name} has no method {quote(method)}{hint}"


def _misused(
    message: Request | Notification, spec: MethodSpec, direction: Direction | None, revision: Revision
) -> list[Place]:
    """Return why a method cannot be sent in this direction or as this kind of message, whatever its params are."""
    found: list[Place] = []
    if isinstance(message, Request) and spec.kind != Kind.REQUEST:
        found.append(("$.id", "a notification has no id"))
    elif isinstance(message, Notification) and spec.kind != Kind.NOTIFICATION:
        found.append(("$.id", "a request requires an id"))
    if spec.transport == Transport.EMBEDDED:
        found.append(
            ("$.method", f"at {revision.name} it is asked inside results, not by a message of its own")
        )
    elif direction is not None and direction not in spec.directions:
        found.append(("$.method", f"never goes from {direction.replace('_', ' ')} at {revision.name}"))
    return found
