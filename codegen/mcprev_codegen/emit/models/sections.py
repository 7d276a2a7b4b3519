"""Divides the types of a revision into modules of `models`, by the sections of the schema.

`@category` names the section of a type. A revision without categories uses those of a later revision. Sections with at
most two types that share the first word of their title, such as those of the notifications, form one module. A module
imports others only for base classes and for the types that its aliases consist of. Using one class therefore builds
few others.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from graphlib import TopologicalSorter
from heapq import heappop, heappush
from typing import Final

from mcprev_codegen import ir
from mcprev_codegen.facts import Revision
from mcprev_codegen.lineage import pairing
from mcprev_codegen.python import snake_case

COMMON: Final = "Common Types"
"""The section of types that refer to no type with a section."""
MESSAGES: Final = "Messages"
"""The section of aliases without users: the unions of all messages of a side."""
SMALL: Final = 2
"""The maximum number of types in a section that shares its module with others."""
_NOT_ASCII: Final = re.compile(r"[^\x00-\x7f]+")


def section_module(title: str) -> str:
    """Return the name of the module of a section, without the letters of its title that are not in ASCII."""
    return snake_case(_NOT_ASCII.sub("_", title))


@dataclass(frozen=True, slots=True)
class Section:
    """One module of `models`."""

    title: str
    types: tuple[str, ...]
    """In source order, except that the types that a type needs at definition come first."""

    @property
    def module(self) -> str:
        """The name of the module: `tools/list` gives `tools_list`; it is one of a file too, so in ASCII."""
        return section_module(self.title)


def categories(revision: Revision, later: Sequence[Revision]) -> dict[str, str]:
    """Return the category of each type; without any, those of the first revision of `later` that has some."""
    own = {name: d.tags.category.strip("`") for name, d in revision.schema.types.items() if d.tags.category}
    if own or not later:
        return own
    following = categories(later[0], later[1:])
    return {old: following[new] for new, old in pairing(revision, later[0]).items() if new in following}


@dataclass(frozen=True)
class Layout:
    """Assigns the types of a module to sections."""

    module: ir.Module
    """It has a declaration for each class and alias, in source order."""
    declared: Collection[str]
    """The types that the file declares; any other type belongs to the section of the next declared one."""
    categories: Mapping[str, str]
    needs: Callable[[str], Collection[str]]
    """Returns the types that have to be defined before a type."""

    @cached_property
    def sections(self) -> tuple[Section, ...]:
        """The sections that have types, in source order."""
        titles = self._with_cycles_merged(self._with_modules_merged(self._with_small_merged(self._titles)))
        grouped: dict[str, list[str]] = {}
        for name in self.module.types:
            grouped.setdefault(titles[name], []).append(name)
        return tuple(Section(title, self._ordered(names)) for title, names in grouped.items())

    @cached_property
    def _titles(self) -> dict[str, str]:
        """The section of each type before sections are merged."""
        found: dict[str, str] = {}
        owner = ""
        for name in reversed(self.module.types):
            owner = name if name in self.declared else owner or name
            found[name] = self.categories.get(owner) or self._place(owner)
        return found

    def _place(self, name: str) -> str:
        """Return the section of a type without a category: that of all its users, else of a type that it uses."""
        users = self._reached(name, self._users)
        if len(users) == 1:
            return users[0]
        if not self._users[name] and isinstance(self.module.types[name], ir.Alias):
            return MESSAGES
        return next((title for title in reversed(self._reached(name, self._uses)) if title != COMMON), COMMON)

    def _reached(self, name: str, references: Mapping[str, Collection[str]]) -> list[str]:
        """Return the sections that a type refers to, also through types without a category, in source order."""
        seen, pending, titles = {name}, [*references[name]], set[str]()
        while pending:
            other = pending.pop()
            if other in self.categories:
                titles.add(self.categories[other])
            elif other not in seen:
                pending += references[other]
            seen.add(other)
        return sorted(titles, key=self._places.__getitem__)

    @cached_property
    def _places(self) -> dict[str, int]:
        """The place of each section among those of types with a category, in source order."""
        return {title: n for n, title in enumerate(dict.fromkeys(self.categories.values()))}

    @cached_property
    def _uses(self) -> dict[str, tuple[str, ...]]:
        types = self.module.types
        return {name: tuple(n for n in ir.references(decl) if n in types) for name, decl in types.items()}

    @cached_property
    def _users(self) -> dict[str, list[str]]:
        users: dict[str, list[str]] = {name: [] for name in self.module.types}
        for name, used in self._uses.items():
            for other in used:
                users[other].append(name)
        return users

    def _with_small_merged(self, titles: Mapping[str, str]) -> dict[str, str]:
        """Return the titles with the small sections of one family merged, since each module takes time to import."""
        sizes = Counter(titles.values())
        families = {title: title.partition("/")[0] for title, size in sizes.items() if size <= SMALL}
        members = Counter(families.values())
        shared = {title: family for title, family in families.items() if members[family] > 1}
        return {name: shared.get(title, title) for name, title in titles.items()}

    def _with_modules_merged(self, titles: Mapping[str, str]) -> dict[str, str]:
        """Return the titles with one title for each module: `Tools` and `tools` have the same one."""
        first: dict[str, str] = {}
        return {name: first.setdefault(section_module(title), title) for name, title in titles.items()}

    def _with_cycles_merged(self, titles: Mapping[str, str]) -> dict[str, str]:
        """Return the titles with sections that need each other merged: import cycles are not allowed."""
        needed: dict[str, set[str]] = {title: set() for title in titles.values()}
        for name in titles:
            needed[titles[name]].update(titles[other] for other in self.needs(name) if other in titles)
        cycles = ir.cycles(needed)
        first: dict[frozenset[str], str] = {}
        for name in self.module.types:
            if (title := titles[name]) in cycles:
                first.setdefault(cycles[title], title)
        return {n: first[cycles[title]] if title in cycles else title for n, title in titles.items()}

    def _ordered(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return the types of a section in source order, each after the types that it needs."""
        here = set(names)
        sorter = TopologicalSorter({name: here.intersection(self.needs(name)) for name in names})
        sorter.prepare()
        place = {name: n for n, name in enumerate(names)}
        ordered: list[str] = []
        ready: list[int] = []
        while sorter.is_active():
            for name in sorter.get_ready():
                heappush(ready, place[name])
            ordered.append(names[heappop(ready)])
            sorter.done(ordered[-1])
        return tuple(ordered)
