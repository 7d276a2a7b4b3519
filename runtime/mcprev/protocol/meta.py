"""Rules for `_meta` keys and for names of extensions (META-2, 3, 5, 6, 9; MOD-17; AMB-13).

The rules apply to authors of keys. Keys that a peer sent are accepted: unknown, reserved or malformed ones are passed
on or ignored, never an error (META-1, META-4). Of the two rules for reserved prefixes, the later one applies at every
revision: the *second* label of the prefix is `modelcontextprotocol` or `mcp` (AMB-13).

A caller who breaks a rule gets an error. A handler's result may be forwarded from another server, so its violations
are logged and the result is sent unchanged (BASE-17).
"""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from typing import Final

from mcprev.errors import Json
from mcprev.wire.meta_keys import DEFINED

_logger: Final = logging.getLogger("mcprev.server")
_LABEL: Final = r"[A-Za-z](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_NAME: Final = r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"
_PREFIXED: Final = re.compile(rf"({_LABEL}(?:\.{_LABEL})*)/({_NAME})?")
_BARE: Final = re.compile(_NAME)
_OWNERS: Final = frozenset({"modelcontextprotocol", "mcp"})
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


def key_error(key: str) -> str | None:
    """Return the error in the form of a key, or None; a key is an optional prefix of labels and a name."""  # META-2
    if (_PREFIXED if "/" in key else _BARE).fullmatch(key) or key == "":
        return None
    return f"'{key:.80}' is not a valid key of _meta: use a name, or dotted labels, a slash and a name"


def reserved(key: str) -> bool:
    """Return whether a key is reserved for the specification."""  # META-3
    labels = key.split("/", maxsplit=1)[0].split(".")
    return "/" in key and len(labels) > 1 and labels[1] in _OWNERS


def extension_error(name: str) -> str | None:
    """Return the error in the name of an extension, or None; it has the form of a `_meta` key with prefix and name."""  # MOD-17
    if "/" in name and not name.endswith("/") and key_error(name) is None:
        return None
    return f"'{name:.80}' is not a valid name of an extension: use dotted labels, a slash and a name, as in 'org.example/name'"


def caller_meta_error(
    meta: Mapping[str, Json], *, stamped: Collection[str] = (), extensions: Collection[str] = ()
) -> str | None:
    """Return the error in `_meta` members that a caller set, or None.

    `stamped` are the keys that the runtime sets. `extensions` are those that this side declares: keys with
    the prefix of such an extension are allowed.
    """  # META-9
    for key, value in meta.items():
        if key in stamped:
            return f"'{key}' is set by the runtime: pass its value to `connect` or to the call instead"
        error = key_error(key) or trace_error(key, value)
        if error is not None:
            return error
        if reserved(key) and key not in DEFINED and not _owned(key, extensions):
            return f"'{key:.80}' is reserved: the specification gives keys with this prefix their meaning"
    return None


def _owned(key: str, extensions: Iterable[str]) -> bool:
    prefix = key.split("/", maxsplit=1)[0]
    return any(name.split("/")[0] == prefix for name in extensions)


def trace_error(key: str, value: Json) -> str | None:
    """Return the error in a trace context member, or None; the formats are W3C's."""  # META-6
    check = _TRACES.get(key)
    if check is None or (isinstance(value, str) and check(value)):
        return None
    return f"the value of '{key}' does not have the format that W3C defines"


def _parent(value: str) -> bool:
    # Later versions may have more fields after the flags; version 00 does not.
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
    """Log the violations in `_meta` of a handler's result, once for each key."""
    for key, value in meta.items():
        error = key_error(key) or trace_error(key, value)
        if error is not None:
            _advise(error)


@lru_cache(maxsize=4096)
def _advise(error: str) -> None:
    _logger.warning("a result is sent although %s", error)


_TRACES: Final = {"traceparent": _parent, "tracestate": _state, "baggage": _baggage}
