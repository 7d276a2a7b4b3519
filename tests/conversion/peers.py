"""What the tests of the ladder share: upstream's judgement of payloads, and conversions that watch their input."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from functools import cache
from typing import Any, Final, cast

from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

from helpers import named
from helpers.support import UPSTREAM, complaints, same, upstream_definitions, validator
from mcprev.conversion import OnDowngrade, PayloadKind, convert
from mcprev.revisions import Revision, revision_named

Json = Any
A, B, C, D, E = named.A, named.B, named.C, named.D, named.E
OLDER: Final = tuple(name for name in named.NAMES if revision_named(name).handshake)
"""The revisions with sessions, which is where most is converted to."""
MINTED: Final = "minted-id"

has_upstream: Final = (UPSTREAM / E / "schema.json").is_file()


def go(payload: Json, method: str, kind: str, from_: str, to: str, **options: Json) -> Json:
    """Convert, with upstream's opinion of what comes out, and the payload found as it was."""
    before = copy.deepcopy(payload)
    try:
        found = convert(payload, method, kind, from_=from_, to=to, mint=lambda: MINTED, **options)
    finally:
        assert same(payload, before), "the payload was changed"
    if payload is not None:
        assert not objections(found, method, kind, to)
    return found


def down(payload: Json, method: str, kind: str, to: str, **options: Json) -> Json:
    """From the latest revision to an older one."""
    return go(payload, method, kind, E, to, **options)


def up(payload: Json, method: str, kind: str, from_: str, **options: Json) -> Json:
    """From an older revision to the latest one."""
    return go(payload, method, kind, from_, E, **options)


def instead(found: Json, *, of: str = "") -> OnDowngrade:
    """An author who always gives the same in the place of what would be lost, for one reason or for any."""

    def hook(_value: Json, reason: str, _revision: str) -> Json:
        return found if of in {"", reason} else None

    return hook


def unchanged(value: Json, _reason: str, _revision: str) -> Json:
    """An author who gives back what cannot be."""
    return value


def type_name(row: Revision, method: str, kind: str, value: Json) -> str:
    """The type of a payload in a revision's schema."""
    named: Mapping[str, str] = {
        PayloadKind.CLIENT_CAPABILITIES: "ClientCapabilities",
        PayloadKind.SERVER_CAPABILITIES: "ServerCapabilities",
        PayloadKind.IMPLEMENTATION: "Implementation",
    }
    if kind in named:
        return named[kind]
    spec = row.methods[method]
    name = spec.params if kind == PayloadKind.PARAMS else spec.result
    if kind == PayloadKind.RESULT and value.get("resultType") == "input_required":
        name = "InputRequiredResult"
    elif kind == PayloadKind.RESULT and "task" in value and "CreateTaskResult" in spec.alternate_results:
        name = "CreateTaskResult"
    assert name is not None
    return name


@cache
def _judge(row: str, method: str, kind: str, name: str) -> Draft202012Validator:
    """Upstream's schema.json has the params of many methods inside their requests only."""
    definitions = upstream_definitions(row)
    if kind == PayloadKind.ERROR:
        holder = next(n for n in ("JSONRPCErrorResponse", "JSONRPCError") if n in definitions)
        return validator({**definitions, "_": definitions[holder]["properties"]["error"]}, "_")
    if name in definitions:
        return validator(definitions, name)
    message = definitions[revision_named(row).methods[method].type]
    return validator({**definitions, "_": message["properties"]["params"]}, "_")


def objections(value: Json, method: str, kind: str, row: str) -> list[str]:
    """What upstream's schema.json of a revision has against a payload; nothing where upstream's files are not."""
    if not has_upstream:
        return []
    name = "" if kind == PayloadKind.ERROR else type_name(revision_named(row), method, kind, value)
    judge = _judge(row, method, kind, name)
    return complaints(judge, value)


def levelled(value: Json, member: str = "") -> Json:
    """A value without what upstream's schema.json loses in places: fractions, and nulls inside JSON values."""
    if isinstance(value, dict):
        return {key: levelled(item, key) for key, item in cast("dict[str, Json]", value).items()}
    if isinstance(value, list):
        return [levelled(item) for item in cast("list[object]", value)]
    if isinstance(value, float) and not value.is_integer():
        return int(value)
    return "null" if value is None and member != "structuredContent" else value
