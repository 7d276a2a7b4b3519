"""The names of tools, prompts and resources of several servers, as clients see them, and which server each leads to.

A name gets the prefix `<server>__`, a URI `<server>+`. The name of a tool that is too long then, or has characters that no name may have, has
a form that is valid: lists say which tool it is. With `needed`, a name or URI that only one server lists has no prefix;
what is decided follows from the lists and their order alone, so that all workers decide alike.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from mcprev.bridge.several.options import PROMPTS, RESOURCES, TOOLS, Offer
from mcprev.client.host_config import SEPARATOR, prefix_of
from mcprev.protocol.tool_names import TOOL_NAME, name_digest, stands_for, with_prefix
from mcprev.protocol.uris import comparable

Prefixes: TypeAlias = Literal["always", "needed"]
PLUS: Final = "+"
_SKILL: Final = "skill:"
_PREFIX: Final = re.compile(r"[A-Za-z0-9_.-]+")
_NO_SCHEME: Final = re.compile(r"[^a-z0-9.-]+")


@dataclass(frozen=True)
class Naming:
    """The names of one server."""

    server: str
    """Its name in the configuration."""
    prefix: str
    """What stands before `__` in names."""
    scheme: str
    """What stands before `+` in URIs: a valid beginning of a scheme, in lower case as clients write schemes."""
    offer: Offer

    @classmethod
    def of(cls, server: str, prefix: str | None, offer: Offer) -> Naming:
        """Return the names of a server. Raises `ValueError` for a prefix that cannot be told from a name."""
        chosen = prefix_of(server) if prefix is None else prefix
        if (
            not chosen
            or not _PREFIX.fullmatch(chosen)
            or f"{chosen}{SEPARATOR}".find(SEPARATOR) != len(chosen)
        ):
            raise ValueError(
                f"the server '{server}' cannot have the prefix '{chosen}'; use letters, digits, '.', '-' and single '_', which "
                "is not the last"
            )
        scheme = _NO_SCHEME.sub("-", chosen.lower())
        return cls(server, chosen, scheme if scheme[0].isalpha() else f"s{scheme}", offer)

    def name(self, base: str) -> str:
        """Return a name with the prefix."""
        return f"{self.prefix}{SEPARATOR}{base}"

    def uri(self, own: str) -> str:
        """Return a URI or template with the prefix."""
        return f"{self.scheme}{PLUS}{own}"

    def own_uri(self, uri: str) -> str:
        """Return a URI without the prefix, if it has it."""
        scheme, plus, own = uri.partition(PLUS)
        return own if plus and scheme.lower() == self.scheme else uri


class Namings:
    """The names of all servers, in the order of the configuration."""

    def __init__(self, servers: Iterable[Naming]) -> None:
        """Raises `ValueError` for two servers with one prefix."""
        self.servers: dict[str, Naming] = {each.server: each for each in servers}
        self._by_prefix: dict[str, Naming] = {}
        self._by_scheme: dict[str, Naming] = {}
        for each in self.servers.values():
            for known, key in ((self._by_prefix, each.prefix), (self._by_scheme, each.scheme)):
                if key in known:
                    raise ValueError(
                        f"the servers '{known[key].server}' and '{each.server}' have the same prefix, '{key}'; set another "
                        "`prefix` for one of them"
                    )
                known[key] = each

    def of_name(self, name: str) -> tuple[Naming, str] | None:
        """Return the server whose prefix a name has, and the rest of the name."""
        prefix, separator, base = name.partition(SEPARATOR)
        found = self._by_prefix.get(prefix) if separator else None
        return None if found is None else (found, base)

    def of_uri(self, uri: str) -> tuple[Naming, str] | None:
        """Return the server whose prefix a URI has, and the rest of the URI."""
        scheme, plus, own = uri.partition(PLUS)
        found = self._by_scheme.get(scheme.lower()) if plus else None
        return None if found is None else (found, own)


@dataclass
class Listed:
    """What servers list, as last seen by one client: by kind, the servers of each name (without prefix) or URI."""

    servers: dict[str, dict[str, list[str]]] = field(
        default_factory=lambda: {TOOLS: {}, PROMPTS: {}, RESOURCES: {}}
    )
    answered: dict[str, set[str]] = field(
        default_factory=lambda: {TOOLS: set(), PROMPTS: set(), RESOURCES: set()}
    )
    """By kind, the servers whose lists were seen."""
    by_digest: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    """The names of tools, by what their valid forms end with."""
    read_at: dict[str, float] = field(default_factory=dict[str, float])
    """The time of the loop at which the lists of a kind were read."""

    def only(self, kind: str, key: str) -> str | None:
        """Return the server that lists a name or URI, if exactly one does."""
        found = self.servers[kind].get(compared(kind, key), ())
        return found[0] if len(found) == 1 else None

    def replace(self, kind: str, lists: Mapping[str, Iterable[str]], now: float) -> None:
        """Take new lists of servers; what a server that is not among them has listed before still counts."""
        kept: dict[str, list[str]] = {}
        for key, servers in self.servers[kind].items():
            left = [each for each in servers if each not in lists]
            if left:
                kept[key] = left
        for server, keys in lists.items():
            for key in dict.fromkeys(compared(kind, key) for key in keys):
                kept.setdefault(key, []).append(server)
        self.answered[kind].update(lists)
        self.servers[kind], self.read_at[kind] = kept, now
        if kind == TOOLS:
            self.by_digest = {}
            for key in kept:
                self.by_digest.setdefault(name_digest(key), []).append(key)


MayList: TypeAlias = Callable[[str, str, str], bool]
"""Returns whether a server that a client has not heard of may list a name (without prefix) or URI of a kind."""


def compared(kind: str, key: str) -> str:
    """Return what all spellings of a URI have in common; a name has only one."""
    return comparable(key) if kind == RESOURCES else key


class Names:
    """The names that one client sees."""

    def __init__(
        self,
        namings: Callable[[], Namings],
        prefixes: Prefixes,
        may_list: MayList = lambda _server, _kind, _key: False,
    ) -> None:
        """`namings` returns the names of the servers that the bridge has now."""
        self._find_namings, self._may_list = namings, may_list
        self._before: Namings = namings()
        self.needed: bool = prefixes == "needed"
        """Whether only what several servers list gets a prefix."""
        self.listed: Listed = Listed()

    @property
    def namings(self) -> Namings:
        """The names of the servers; when they are others than before, what was listed is forgotten."""
        found = self._find_namings()
        if found is not self._before:
            self._before, self.listed = found, Listed()
        return found

    def name(self, naming: Naming, kind: str, base: str) -> str:
        """Return the name that clients see for a name of a server, after it was renamed."""
        bare = self.needed and self.namings.of_name(base) is None
        if bare and self._only(kind, base) == naming.server and (kind != TOOLS or TOOL_NAME.fullmatch(base)):
            return base
        # A form has its prefix always, so that no server makes a name whose form is the name of another one's tool.
        return with_prefix(naming.name(""), base) if kind == TOOLS else naming.name(base)

    def uri(self, naming: Naming, own: str) -> str:
        """Return the URI that clients see for a URI of a server."""
        # Files of a skill are in no list: with its prefix all of them stay below one folder.
        bare = self.needed and self.namings.of_uri(own) is None and not own.startswith(_SKILL)
        return own if bare and self._only(RESOURCES, own) == naming.server else naming.uri(own)

    def spelled(self, naming: Naming, kind: str, key: str) -> str:
        """Return the name or URI that clients see for one of a server, after it was renamed."""
        if kind == TOOLS and naming.server not in self.listed.servers[TOOLS].get(key, ()):
            return naming.name(key)  # such as `name@version`: no list has a form that would lead back to it
        return self.uri(naming, key) if kind == RESOURCES else self.name(naming, kind, key)

    def all_names(self, naming: Naming, kind: str, key: str) -> list[str]:
        """Return the names or URIs by which a policy may name one of a server: what has a prefix today may have none tomorrow."""
        full = naming.uri(key) if kind == RESOURCES else naming.name(key)
        return [full, key] if self.needed else [full]

    def _only(self, kind: str, key: str) -> str | None:
        """Return the server that lists a name or URI, if exactly one does, and none that cannot be reached may do so."""
        namings, found = self.namings, self.listed.only(kind, key)
        away = namings.servers.keys() - self.listed.answered[kind]
        return None if any(self._may_list(server, kind, key) for server in away) else found

    def find(self, kind: str, name: str) -> tuple[Naming, str] | None:
        """Return the server that a name or URI leads to, and the rest of it without prefix.

        None if it leads to none, or to several.
        """
        stands = self._stands_for(name) if kind == TOOLS else None
        if stands is not None:
            return stands
        found = self.namings.of_uri(name) if kind == RESOURCES else self.namings.of_name(name)
        if found is not None:
            return found
        server = self._only(kind, name)
        naming = None if server is None else self.namings.servers.get(server)
        return None if naming is None else (naming, name)

    def may_stand_for(self, kind: str, name: str) -> bool:
        """Return whether a name may be the form of another one that no list has shown yet."""
        if kind != TOOLS or stands_for(name) is None or self._stands_for(name) is not None:
            return False
        found = self.namings.of_name(name)
        return found is None or found[0].server not in self.listed.servers[TOOLS].get(found[1], ())

    def _stands_for(self, name: str) -> tuple[Naming, str] | None:
        """Return the tool that is listed under a form of its name, which not every client takes, and its server."""
        for key in self.listed.by_digest.get(stands_for(name) or "", ()):
            for server in self.listed.servers[TOOLS][key]:
                naming = self.namings.servers.get(server)
                if naming is not None and self.name(naming, TOOLS, key) == name:
                    return naming, key
        return None
