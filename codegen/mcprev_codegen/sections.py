"""Which module of `models` each type stands in, and in which order: the sections of the schema itself.

A section is what `@category` says; types of a revision that says nothing stand where later revisions have them.
Sections of a type or two that share their first word, such as those of the notifications, are one module.
A module imports another one for base classes and for what its aliases are made of, and for nothing else, so that
few classes are built for the one that is asked for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from graphlib import TopologicalSorter
from typing import Final

from mcprev_codegen import ir
from mcprev_codegen.lineage import pairing
from mcprev_codegen.naming import snake_case
from mcprev_codegen.sources import Revision

COMMON: Final = "Common Types"
"""The section of what is made of nothing that has a section."""
MESSAGES: Final = "Messages"
"""The section of the aliases that nothing uses: the unions of all messages of a side."""
SMALL: Final = 2
"""The most types of a section that shares a module with others."""


@dataclass(frozen=True, slots=True)
class Section:
    """One module of `models`."""

    title: str
    types: tuple[str, ...]
    """Source order, but for what a type needs when it is defined: that comes first."""

    @property
    def module(self) -> str:
        """The name of its module: `tools/list` is `tools_list`."""
        return snake_case(self.title)


def categories(revision: Revision, later: Sequence[Revision]) -> dict[str, str]:
    """The section that the schema names for its types; without any, the one that the first of `later` to name some has."""
    own = {name: d.tags.category.strip("`") for name, d in revision.schema.types.items() if d.tags.category}
    if own or not later:
        return own
    following = categories(later[0], later[1:])
    return {old: following[new] for new, old in pairing(revision, later[0]).items() if new in following}


@dataclass(frozen=True)
class Layout:
    """Puts the types of a module into sections."""

    module: ir.Module
    """With a declaration for each class and alias, in source order."""
    declared: Collection[str]
    """The types that the file names; the others stand with the next one that it does."""
    categories: Mapping[str, str]
    needs: Callable[[str], Collection[str]]
    """The types that have to be defined before a type."""

    @cached_property
    def sections(self) -> tuple[Section, ...]:
        """The sections that have types, in source order."""
        titles = self._merged(self._joined(self._titles))
        grouped: dict[str, list[str]] = {}
        for name in self.module.types:
            grouped.setdefault(titles[name], []).append(name)
        return tuple(Section(title, self._ordered(names)) for title, names in grouped.items())

    @cached_property
    def _titles(self) -> dict[str, str]:
        """The section of each type, before any are merged."""
        found: dict[str, str] = {}
        owner = ""
        for name in reversed(self.module.types):
            owner = name if name in self.declared else owner or name
            found[name] = self.categories.get(owner) or self._place(owner)
        return found

    def _place(self, name: str) -> str:
        """The section of a type that has none: the only one that uses it, else the last of those it is made of."""
        users = self._reached(name, self._users)
        if len(users) == 1:
            return users[0]
        if not self._users[name] and isinstance(self.module.types[name], ir.Alias):
            return MESSAGES
        return next((title for title in reversed(self._reached(name, self._uses)) if title != COMMON), COMMON)

    def _reached(self, name: str, ways: Mapping[str, Collection[str]]) -> list[str]:
        """The sections that the ways from a type lead to, through types that have none, in source order."""
        seen, pending, titles = {name}, [*ways[name]], set[str]()
        while pending:
            other = pending.pop()
            if other in self.categories:
                titles.add(self.categories[other])
            elif other not in seen:
                pending += ways[other]
            seen.add(other)
        return [title for title in dict.fromkeys(self.categories.values()) if title in titles]

    @cached_property
    def _uses(self) -> dict[str, tuple[str, ...]]:
        return {name: tuple(ir.references(decl)) for name, decl in self.module.types.items()}

    @cached_property
    def _users(self) -> dict[str, list[str]]:
        users: dict[str, list[str]] = {name: [] for name in self.module.types}
        for name, used in self._uses.items():
            for other in used:
                users[other].append(name)
        return users

    def _joined(self, titles: Mapping[str, str]) -> dict[str, str]:
        """The same with one section for the small ones of a family: each module takes time to import."""
        sizes = Counter(titles.values())
        families = {title: title.partition("/")[0] for title, size in sizes.items() if size <= SMALL}
        shared = {
            title: family for title, family in families.items() if [*families.values()].count(family) > 1
        }
        return {name: shared.get(title, title) for name, title in titles.items()}

    def _merged(self, titles: Mapping[str, str]) -> dict[str, str]:
        """The same with one section for those that need each other: modules must not import in a circle."""
        needed: dict[str, set[str]] = {title: set() for title in titles.values()}
        for name in titles:
            needed[titles[name]].update(titles[other] for other in self.needs(name))
        ways = {title: set(_closure(title, needed)) for title in needed}
        order = list(dict.fromkeys(titles[name] for name in self.module.types))
        one = {
            title: next(o for o in order if o == title or (o in ways[title] and title in ways[o]))
            for title in order
        }
        return {name: one[title] for name, title in titles.items()}

    def _ordered(self, names: Sequence[str]) -> tuple[str, ...]:
        """The types of a section, each as early as source order and its needs allow."""
        here = set(names)
        sorter = TopologicalSorter({name: here.intersection(self.needs(name)) for name in names})
        sorter.prepare()
        ordered: list[str] = []
        ready: set[str] = set()
        while sorter.is_active():
            ready.update(sorter.get_ready())
            first = min(ready, key=names.index)
            ready.remove(first)
            sorter.done(first)
            ordered.append(first)
        return tuple(ordered)


def _closure(start: str, ways: Mapping[str, Collection[str]]) -> Iterator[str]:
    seen: set[str] = set()
    pending = [*ways[start]]
    while pending:
        title = pending.pop()
        if title not in seen:
            seen.add(title)
            yield title
            pending += ways[title]
