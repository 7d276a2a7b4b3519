"""Everything that the site says, collected over all revisions before a page is written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations, pairwise
from typing import Final, Generic, TypeVar

from mcprev_codegen import ir
from mcprev_codegen.diff import Change, Level, Report, Selection, compare_revisions, history_of, select
from mcprev_codegen.facts import Method, Revision, Side
from mcprev_codegen.inputs import SchemaFolder
from mcprev_codegen.resolve import Schema
from mcprev_codegen.support import Transport
from mcprev_codegen.typescript import print_inline, print_module
from mcprev_explore.examples import Sampler
from mcprev_explore.flows import FlowStep, flow
from mcprev_explore.ladder import Ladder
from mcprev_explore.names import file_names, fragment
from mcprev_explore.recorded import recorded_flow

T = TypeVar("T")
_SENT: Final = {0: "none", 2: "both"}


@dataclass(frozen=True, slots=True)
class Column:
    """One revision of the site."""

    label: str
    """Its name on the site, which differs from that of every other one."""
    revision: Revision
    source: str
    """Where its schema came from."""

    @property
    def anchor(self) -> str:
        """The fragment of its section on each page."""
        return fragment(self.label)


@dataclass(frozen=True, slots=True)
class Member:
    """One member of a type at a revision."""

    name: str
    type: str
    optional: bool
    doc: str
    inherited: str
    """The type that declares it, if that is another one."""
    notes: tuple[str, ...]
    """What its tags say."""


@dataclass(frozen=True, slots=True)
class TypeFacts:
    """What a revision says of a type."""

    kind: str
    sent_by: str
    declared: bool
    """Whether the schema declares it; else it is an inline object that has been given a name."""
    bases: tuple[str, ...]
    members: tuple[Member, ...]
    definition: str
    """The type that an alias stands for; empty for an interface."""
    doc: str
    deprecated: bool
    source: str
    """The declaration as TypeScript."""


@dataclass(frozen=True, slots=True)
class MethodFacts:
    """What a revision says of a method."""

    method: Method
    steps: tuple[FlowStep, ...]
    recorded: bool
    """Whether the steps were recorded; otherwise they follow from the schema."""


@dataclass(frozen=True, slots=True)
class Version(Generic[T]):
    """What one or several neighbouring revisions say alike."""

    columns: tuple[Column, ...]
    facts: T


@dataclass(frozen=True, slots=True)
class LifePoint:
    """The state of a name in one revision."""

    state: str
    """`absent`, `present`, `added`, `changed`, `renamed`, `unchanged` or `removed`."""
    name: str | None
    """Its name there; None if it is not there."""
    changes: tuple[Change, ...] = ()
    """The changes since the revision before."""

    @property
    def present(self) -> bool:
        """Whether it is there."""
        return self.name is not None


@dataclass(frozen=True, slots=True)
class MapEntry:
    """One method of the map."""

    method: str
    href: str
    title: str
    kind: str
    senders: tuple[Side, ...]
    embedded: bool
    area: str


@dataclass(frozen=True, slots=True)
class Carrier:
    """A method that carries a type, and in which of its messages."""

    method: str
    role: str
    """`request`, `notification` or `result`."""
    columns: tuple[str, ...]
    """The labels of the revisions in which it does."""


@dataclass(frozen=True)
class Book:
    """All revisions of the site, and what is known of each name over them."""

    folder: SchemaFolder
    columns: tuple[Column, ...]
    """Oldest first."""
    ladder: Ladder = field(default_factory=Ladder)

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The names of all revisions, oldest first."""
        return tuple(column.label for column in self.columns)

    @cached_property
    def revision_files(self) -> Mapping[str, str]:
        """The part of a file name that stands for each revision."""
        return file_names([*self.labels, *self.ladder.order])

    # -- types ---------------------------------------------------------------------------------------

    @cached_property
    def type_files(self) -> Mapping[str, str]:
        """The file name of each type of any revision."""
        return file_names(name for column in self.columns for name in column.revision.schema.types)

    @cached_property
    def types(self) -> Mapping[str, Mapping[str, TypeFacts]]:
        """By type and label, what each revision says of it."""
        found: dict[str, dict[str, TypeFacts]] = {name: {} for name in sorted(self.type_files)}
        for column in self.columns:
            for name in column.revision.schema.types:
                found[name][column.label] = _type_facts(column.revision, name)
        return found

    def versions(self, facts: Mapping[str, T]) -> list[Version[T]]:
        """Return the facts of a name with those of neighbouring revisions joined that say the same."""
        return _versions(self.columns, facts)

    @cached_property
    def _samplers(self) -> Mapping[str, Sampler]:
        return {column.label: Sampler(column.revision) for column in self.columns}

    def example(self, label: str, name: str, variant: int = 0, *, optional: bool = True) -> ir.Json:
        """Return an example of a type at a revision."""
        return self._samplers[label].of(name, variant, optional=optional)

    @cached_property
    def carriers(self) -> Mapping[str, tuple[Carrier, ...]]:
        """The methods that carry each type, directly or inside of other types."""
        found: dict[str, dict[tuple[str, str], list[str]]] = {}
        for column in self.columns:
            schema = column.revision.schema
            for method in column.revision.methods.values():
                parts = [(str(method.kind), (method.type,)), ("result", method.results)]
                for role, names in parts:
                    for name in sorted(ir.reachable(names, lambda n, s=schema: s.references.get(n, ()))):  # type: ignore[misc]
                        found.setdefault(name, {}).setdefault((method.method, role), []).append(column.label)
        return {
            name: tuple(Carrier(*key, tuple(labels)) for key, labels in sorted(by.items()))
            for name, by in found.items()
        }

    @cached_property
    def used_by(self) -> Mapping[str, tuple[str, ...]]:
        """The types that refer to each type in any revision."""
        found: dict[str, set[str]] = {}
        for column in self.columns:
            for name, others in column.revision.schema.references.items():
                for other in others:
                    found.setdefault(other, set()).add(name)
        return {name: tuple(sorted(users)) for name, users in found.items()}

    # -- methods -------------------------------------------------------------------------------------

    @cached_property
    def method_files(self) -> Mapping[str, str]:
        """The file name of each method of any revision."""
        return file_names(name for column in self.columns for name in column.revision.methods)

    @cached_property
    def methods(self) -> Mapping[str, Mapping[str, MethodFacts]]:
        """By method and label, what each revision says of it."""
        found: dict[str, dict[str, MethodFacts]] = {name: {} for name in sorted(self.method_files)}
        for column in self.columns:
            for name, method in column.revision.methods.items():
                seen = recorded_flow(column.revision, method)
                steps = flow(column.revision, method) if seen is None else seen
                found[name][column.label] = MethodFacts(method, steps, seen is not None)
        return found

    @cached_property
    def constants(self) -> Mapping[str, Mapping[str, ir.Const]]:
        """By constant and label, its declaration."""
        found: dict[str, dict[str, ir.Const]] = {}
        for column in self.columns:
            for name, const in column.revision.declared.consts.items():
                found.setdefault(name, {})[column.label] = const
        return found

    @cached_property
    def errors(self) -> Mapping[str, Mapping[str, ir.Literal]]:
        """By type of an error and label, its code."""
        found: dict[str, dict[str, ir.Literal]] = {}
        for column in self.columns:
            schema = column.revision.schema
            for name in schema.types:
                if (code := _error_code(schema, name)) is not None:
                    found.setdefault(name, {})[column.label] = code
        return found

    # -- over revisions ------------------------------------------------------------------------------

    @cached_property
    def reports(self) -> Mapping[tuple[str, str], Report]:
        """The comparison of any two revisions, the older one first."""
        return {
            (old.label, new.label): select(
                compare_revisions(self.folder, old.revision, new.revision), Selection(Level.NOMINAL)
            )
            for old, new in combinations(self.columns, 2)
        }

    @cached_property
    def neighbours(self) -> tuple[Report, ...]:
        """The comparisons of each two neighbours."""
        return tuple(self.reports[pair] for pair in pairwise(self.labels))

    @cached_property
    def lives(self) -> Mapping[tuple[str, str], tuple[LifePoint, ...]]:
        """By kind (`type`, `method`, `constant`) and name, the state in each revision."""
        revisions = [column.revision for column in self.columns]
        declared = {name for revision in revisions for name in revision.declared.types}
        found: dict[tuple[str, str], tuple[LifePoint, ...]] = {}
        for kind, names in (("method", self.methods), ("type", self.types)):
            for name in names:
                if kind == "method" or (name in declared and name not in self.methods):
                    entries = history_of(name, revisions, self.neighbours).entries
                    raw = [LifePoint(e.state, e.name, e.changes) for e in entries]
                    found[kind, name] = tuple(_renamed(raw))
                else:
                    found[kind, name] = tuple(self._plain_life(self.types[name], name))
        for name, values in self.constants.items():
            found["constant", name] = tuple(self._plain_life({k: v.value for k, v in values.items()}, name))
        return found

    def _plain_life(self, facts: Mapping[str, object], name: str) -> Iterator[LifePoint]:
        """Yield the states of what `diff` has no history of."""
        for n, label in enumerate(self.labels):
            here, before = facts.get(label), facts.get(self.labels[n - 1]) if n else None
            if here is None:
                yield LifePoint("absent" if before is None else "removed", None)
            elif before is None:
                yield LifePoint("added" if n else "present", name)
            else:
                yield LifePoint("unchanged" if here == before else "changed", name)


def columns_of(revisions: Iterable[tuple[Revision, str]]) -> tuple[Column, ...]:
    """Return revisions with their sources as columns; a name that is taken is counted."""
    found: dict[str, Column] = {}
    for revision, source in revisions:
        label, number = revision.name, 1
        while label in found:
            number += 1
            label = f"{revision.name}-{number}"
        found[label] = Column(label, revision, source)
    return tuple(found.values())


def _versions(columns: Sequence[Column], facts: Mapping[str, T]) -> list[Version[T]]:
    found: list[Version[T]] = []
    last: object = None
    for column in columns:
        here = facts.get(column.label)
        if here is not None:
            if found and here == last:
                found[-1] = Version((*found[-1].columns, column), here)
            else:
                found.append(Version((column,), here))
        last = here
    return found


def _renamed(points: Sequence[LifePoint]) -> Iterator[LifePoint]:
    """Yield states with `renamed` where the name differs from the one before."""
    for n, point in enumerate(points):
        before = points[n - 1].name if n else None
        new_name = before is not None and point.name is not None and before != point.name
        yield LifePoint("renamed", point.name, point.changes) if new_name else point


def _type_facts(revision: Revision, name: str) -> TypeFacts:
    declared = name in revision.declared.types
    schema = revision.declared if declared else revision.schema
    decl = schema.types[name]
    senders = revision.senders.get(name, frozenset[Side]())
    return TypeFacts(
        kind=schema.alias_kind(name),
        sent_by=_SENT.get(len(senders)) or str(next(iter(senders))),
        declared=declared,
        bases=tuple(map(print_inline, decl.bases)) if isinstance(decl, ir.Interface) else (),
        members=tuple(
            Member(
                f.name,
                print_inline(f.field.type),
                f.field.optional,
                f.field.doc.text or "",
                f.declared_in if f.declared_in != name else "",
                tuple(_notes(f.field.tags)),
            )
            for f in schema.fields(name)
        ),
        definition=print_inline(decl.type) if isinstance(decl, ir.Alias) else "",
        doc=decl.doc.text or "",
        deprecated=decl.tags.deprecated,
        source=print_module(ir.contract(ir.Module((decl,)))).strip("\n"),
    )


def _notes(tags: ir.Tags) -> Iterator[str]:
    if tags.deprecated:
        yield "deprecated"
    if tags.format:
        yield f"format {tags.format}"
    if tags.pattern:
        yield f"pattern {tags.pattern}"
    if tags.default is not None:
        yield f"default {tags.default}"
    yield from (f"{row.keyword} {value}" for row, value in ir.limits_of(tags).items())


def _error_code(schema: Schema, name: str) -> ir.Literal | None:
    """Return the code of a type that is an error, or a response with one."""
    if not schema.is_object(ir.Ref(name)):
        return None
    flat = schema.flat(name)
    inner = flat.get("error")
    if inner is not None and schema.is_object(inner.type):
        flat = schema.flatten(inner.type)
    member = flat.get("code")
    if member is None or flat.get("message") is None:
        return None
    return schema.literal(member.type)


def map_groups(book: Book, href: Callable[[str], str]) -> list[tuple[str, list[MapEntry]]]:
    """Return the methods by the eras in which they exist, then by direction and area."""
    groups: dict[tuple[str, ...], list[MapEntry]] = {}
    for name, by_label in book.methods.items():
        columns = [c for c in book.columns if c.label in by_label]
        eras = tuple(sorted({c.revision.era for c in columns}))
        last = by_label[columns[-1].label].method
        when = ", ".join(c.label for c in columns)
        embedded = last.transport is Transport.EMBEDDED
        area = name.removeprefix("notifications/").split("/")[0]
        senders = tuple(
            side for side in Side if any(side in by_label[c.label].method.senders for c in columns)
        )
        entry = MapEntry(name, href(name), f"{name}: {when}", str(last.kind), senders, embedded, area)
        groups.setdefault(eras, []).append(entry)
    titles: dict[tuple[str, ...], str] = {
        ("handshake",): "Only with a handshake",
        ("handshake", "stateless"): "In both eras",
        ("stateless",): "Only without a handshake",
    }
    order = list(titles)
    return [
        (titles[eras], sorted(entries, key=lambda e: (e.kind != "request", e.senders, e.area, e.method)))
        for eras, entries in sorted(groups.items(), key=lambda item: order.index(item[0]))
    ]
