"""What may stand in `_meta`, and how extensions are named (META-2, 3, 5, 6, 9; MOD-17; AMB-13).

These rules bind whoever writes a key. What a peer sent is taken as it is: unknown, reserved or malformed keys of
its own are passed on or disregarded, never an error (META-1, META-4). Of the two rules for reserved prefixes the
later one is kept at every revision: the prefix whose *second* label is one of two words (AMB-13).

A caller who breaks them is told at once. A handler's result may be that of another server, passed on, so what is
wrong with it is logged and it goes out as it is (BASE-17).
"""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from typing import Final

from mcprev.errors import Json

_logger: Final = logging.getLogger("mcprev.server")
_LABEL: Final = r"[A-Za-z](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_NAME: Final = r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"
_PREFIXED: Final = re.compile(rf"({_LABEL}(?:\.{_LABEL})*)/({_NAME})?")
_BARE: Final = re.compile(_NAME)
_OWNERS: Final = frozenset({"modelcontextprotocol", "mcp"})
_DEFINED: Final = frozenset(
    f"io.modelcontextprotocol/{name}"
    for name in (
        "protocolVersion", "clientInfo", "clientCapabilities", "serverInfo", "logLevel", "subscriptionId",
        "related-task", "model-immediate-response",
    )
)  # fmt: skip
"""The reserved keys that the specification gives a meaning."""
_PARENT: Final = re.compile(
    r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(?:-.*)?"
)
_STATE_KEY: Final = r"(?:[a-z][a-z0-9_*/-]{0,255}|[a-z0-9][a-z0-9_*/-]{0,240}@[a-z][a-z0-9_*/-]{0,13})"
_STATE: Final = re.compile(
    rf"[ \t]*+(?:{_STATE_KEY}=[\x20-\x2b\x2d-\x3c\x3e-\x7e]{{0,255}}[\x21-\x2b\x2d-\x3c\x3e-\x7e])?[ \t]*+"
)
_STATE_MEMBERS: Final = 32
_WORD: Final = r"[!#$%&'*+.^_`|~0-9A-Za-z-]++"
_VALUE: Final = r"[\x21\x23-\x2b\x2d-\x3a\x3c-\x5b\x5d-\x7e]*+"
_PROPERTY: Final = rf"[ \t]*+;[ \t]*+{_WORD}(?:[ \t]*+=[ \t]*+{_VALUE})?"
_BAGGAGE: Final = re.compile(rf"[ \t]*+{_WORD}[ \t]*+=[ \t]*+{_VALUE}(?:{_PROPERTY})*+[ \t]*+")
_BAGGAGE_SIZE: Final = 8192


def wrong_key(key: str) -> str | None:
    """What is wrong with the form of a key: an optional prefix of labels, and a name (META-2)."""
    if (_PREFIXED if "/" in key else _BARE).fullmatch(key) or key == "":
        return None
    return f"'{key:.80}' is no key of _meta: a name, or dotted labels, a slash and a name"


def reserved(key: str) -> bool:
    """Whether a key is the specification's own to define (META-3)."""
    labels = key.split("/", maxsplit=1)[0].split(".")
    return "/" in key and len(labels) > 1 and labels[1] in _OWNERS


def wrong_extension(name: str) -> str | None:
    """What is wrong with the name of an extension: a key of `_meta` with a prefix and a name (MOD-17)."""
    if "/" in name and not name.endswith("/") and wrong_key(name) is None:
        return None
    return f"'{name:.80}' names no extension: it takes dotted labels, a slash and a name, as in 'org.example/name'"


def wrong_meta(
    meta: Mapping[str, Json], *, stamped: Collection[str] = (), extensions: Collection[str] = ()
) -> str | None:
    """What is wrong with the members of `_meta` that a caller wrote.

    `stamped` are the keys that are the runtime's to set (META-9), `extensions` those that this side declares: what
    an extension's owner has reserved is its own to use.
    """
    for key, value in meta.items():
        if key in stamped:
            return f"'{key}' is set by the runtime: give it what it is made of, to `connect` or to the call"
        wrong = wrong_key(key) or wrong_trace(key, value)
        if wrong is not None:
            return wrong
        if reserved(key) and key not in _DEFINED and not _owned(key, extensions):
            return f"'{key:.80}' is reserved: the specification gives keys with this prefix their meaning"
    return None


def _owned(key: str, extensions: Iterable[str]) -> bool:
    prefix = key.split("/", maxsplit=1)[0]
    return any(name.split("/")[0] == prefix for name in extensions)


def wrong_trace(key: str, value: Json) -> str | None:
    """What is wrong with a member that carries trace context, in the formats of W3C (META-6)."""
    check = _TRACES.get(key)
    if check is None or (isinstance(value, str) and check(value)):
        return None
    return f"the value of '{key}' is not in the format that W3C gives it"


def _parent(value: str) -> bool:
    # Later versions may say more behind the flags; the first does not.
    return _PARENT.fullmatch(value) is not None and not (value.startswith("00") and len(value) > 55)


def _state(value: str) -> bool:
    members = value.split(",")
    if len(members) > _STATE_MEMBERS or not all(_STATE.fullmatch(member) for member in members):
        return False
    keys = [member.split("=")[0].strip() for member in members if member.strip()]
    return len(keys) == len(set(keys))


def _baggage(value: str) -> bool:
    return len(value) <= _BAGGAGE_SIZE and all(_BAGGAGE.fullmatch(member) for member in value.split(","))


def advise(meta: Mapping[str, Json]) -> None:
    """Log what is wrong with members of a handler's result, once for each key."""
    for key, value in meta.items():
        wrong = wrong_key(key) or wrong_trace(key, value)
        if wrong is not None:
            _advise(wrong)


@lru_cache(maxsize=4096)
def _advise(wrong: str) -> None:
    _logger.warning("a result goes out although %s", wrong)


_TRACES: Final = {"traceparent": _parent, "tracestate": _state, "baggage": _baggage}
