"""What a bridge offers of one of its servers: which entries, under which names and with which descriptions (SEC-5)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final, TypeAlias, cast

from mcprev.error_text import did_you_mean
from mcprev.errors import Json
from mcprev.protocol.uris import MAX_LENGTH, comparable, normalized, spellings
from mcprev.wire.json_values import is_json_list, is_json_object

if TYPE_CHECKING:
    from mcprev.auth.client.store import TokenStore
    from mcprev.client.targets import HasServer, Target
    from mcprev.transports.memory import PipeServer

TOOLS, PROMPTS, RESOURCES = "tools", "prompts", "resources"
KINDS: Final = (TOOLS, PROMPTS, RESOURCES)
Patterns: TypeAlias = Mapping[str, Sequence[str]]
"""Patterns by kind, such as `{"tools": ["read_*"]}`."""
Texts: TypeAlias = Mapping[str, Mapping[str, str]]
"""Texts by kind and name, such as `{"tools": {"read_file": "Reads a file."}}`."""
KEY: Final = "bridge"
"""The member of an entry of the configuration that holds these options."""
_MEMBERS: Final = ("prefix", "allow", "deny", "rename", "describe", "perPrincipal", "auth")
_DOTS: Final = re.compile(r"%2e|%2f|%5c|\\|(?:^|[/:])\.\.?(?:[/?#]|$)", re.IGNORECASE)
"""What lets a URI lead elsewhere than its text says: segments of dots, and separators that are encoded."""


@dataclass(frozen=True, kw_only=True)
class Offer:
    """Which entries of a server are offered. Names and URIs are those of the server."""

    allow: Patterns = field(default_factory=dict[str, "Sequence[str]"])
    """What is offered, by kind: patterns with `*`, `?` and `[...]`. Of a kind that is not named, everything is
    offered."""
    deny: Patterns = field(default_factory=dict[str, "Sequence[str]"])
    """What is not offered, by kind, even if `allow` names it."""
    rename: Texts = field(default_factory=dict[str, "Mapping[str, str]"])
    """Other names of tools and prompts, by the names that the server gives."""
    describe: Texts = field(default_factory=dict[str, "Mapping[str, str]"])
    """Other descriptions, by the names or URIs that the server gives."""

    def __post_init__(self) -> None:
        """Raise `ValueError` for a kind that does not exist and for two entries with one name, `TypeError` for a text."""
        for name, kinds in (("allow", KINDS), ("deny", KINDS), ("rename", KINDS[:2]), ("describe", KINDS)):
            for kind, value in cast("Mapping[str, object]", getattr(self, name)).items():
                if kind not in kinds:
                    raise ValueError(f"`{name}` has no `{kind}`; it has {', '.join(kinds)}")
                if isinstance(value, str):
                    raise TypeError(f"`{name}.{kind}` is a string; it must be a list or an object")
        for kind, names in self.rename.items():
            if len(set(names.values())) < len(names):
                raise ValueError(f"`rename.{kind}` has the same new name twice")

    def allows(self, kind: str, key: str) -> bool:
        """Return whether an entry is offered. A URI of which that cannot be decided is not."""
        allowed, denied = self.allow.get(kind), self.deny.get(kind)
        decides = kind == RESOURCES and (allowed is not None or denied is not None)
        # Of a URI that is too long, nothing is known; dots may be encoded.
        if decides and (len(key) > MAX_LENGTH or _DOTS.search(key) or _DOTS.search(normalized(key))):
            return False
        matches = _matches_in_any_spelling if kind == RESOURCES else _matches
        return (allowed is None or matches(key, allowed)) and not matches(key, denied or ())

    def shown(self, kind: str, key: str) -> str | None:
        """Return the name of an entry before it gets a prefix, or None if it is not offered."""
        if not self.allows(kind, key):
            return None
        renamed = self.rename.get(kind) or {}
        if key in renamed:
            return renamed[key]
        return None if key in renamed.values() else key

    def meant(self, kind: str, name: str) -> str | None:
        """Return the name that a server gives to what is offered under a name, or None if nothing is."""
        renamed = self.rename.get(kind) or {}
        own = next((key for key, value in renamed.items() if value == name), None)
        if own is None:
            own = None if name in renamed else name
        return own if own is not None and self.allows(kind, own) else None

    def description(self, kind: str, key: str) -> str | None:
        """Return the description that replaces that of an entry, or None."""
        return (self.describe.get(kind) or {}).get(key)


@dataclass(frozen=True, kw_only=True)
class UserLogin:
    """The client registration of the bridge at the authorization server of a server at which users log in themselves.

    The members are those of `mcprev.OAuth`.
    """

    client_id: str | None = None
    client_secret: str | None = field(default=None, repr=False)
    issuer: str | None = None
    resource: str | None = None
    scopes: tuple[str, ...] | None = None
    client_name: str = "mcprev bridge"
    store: TokenStore | None = field(default=None, repr=False)
    """Where the tokens of the user of a pipe are stored. Those of other users are in the store of the `logins`."""
    private: bool = False
    trust_env: bool = False


@dataclass(frozen=True, kw_only=True)
class BridgedServer:
    """One of several servers of a `mcprev.Bridge`, with options for it."""

    target: Target | PipeServer | HasServer | str
    """A URL, `mcprev.http(...)`, `mcprev.stdio(...)`, or a server of this process."""
    prefix: str | None = None
    """What stands before `__` in the names of its tools and prompts, and before `+` in its URIs. None: its name."""
    offer: Offer = Offer()
    """Which of its entries are offered, and how."""
    per_principal: bool = False
    """Whether principals have connections of their own also to a server that keeps nothing of its clients."""
    login: UserLogin | None = None
    """Lets users log in at the server themselves; `target` is its URL then. None: all users have the rights of the bridge."""


def options_of(entry: Json) -> dict[str, Json]:
    """Return the options in an entry of the configuration. Raises `ValueError` for what cannot be meant."""
    found: Json = entry.get(KEY) if is_json_object(entry) else None
    if found is None:
        return {}
    if not is_json_object(found):
        raise ValueError(f"`{KEY}` is not an object")
    members: dict[str, Json] = found
    for name in members:
        if name not in _MEMBERS:
            hint = did_you_mean(name, _MEMBERS)
            raise ValueError(f"`{KEY}` has no member `{name}`{hint}; it has {', '.join(_MEMBERS)}")
    return members


def offer_of(members: Mapping[str, Json]) -> Offer:
    """Return which entries are offered, of the options in a configuration. Raises `ValueError`."""
    return Offer(
        allow=_by_kind(members, "allow", _patterns),
        deny=_by_kind(members, "deny", _patterns),
        rename=_by_kind(members, "rename", _texts),
        describe=_by_kind(members, "describe", _texts),
    )


def _by_kind(
    members: Mapping[str, Json], name: str, wrong_in: Callable[[Json], str | None]
) -> dict[str, Json]:
    value: Json = members.get(name)
    if value is None:
        return {}
    if not is_json_object(value):
        raise TypeError(f"`{KEY}.{name}` is not an object with lists by kind, such as {{'tools': ...}}")
    for kind, given in value.items():
        if wrong := wrong_in(given):
            raise ValueError(f"`{KEY}.{name}.{kind}` is not {wrong}")
    return value


def _patterns(value: Json) -> str | None:
    items = value if is_json_list(value) else (None,)
    return None if all(isinstance(item, str) for item in items) else "a list of strings"


def _texts(value: Json) -> str | None:
    items = value.values() if is_json_object(value) else (None,)
    return None if all(isinstance(item, str) for item in items) else "an object of strings"


def _matches_in_any_spelling(uri: str, patterns: Sequence[str]) -> bool:
    """Return whether a spelling of a URI matches a pattern, or the spelling that all have in common that of a pattern."""
    if any(_matches(each, patterns) for each in spellings(uri)):
        return True
    return _matches(comparable(uri), tuple(map(comparable, patterns)))


def _matches(key: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(key, pattern) for pattern in patterns)
