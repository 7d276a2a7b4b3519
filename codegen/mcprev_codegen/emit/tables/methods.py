"""The methods of a revision: their names by direction and kind, and what is known of each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields

from mcprev_codegen.emit.docstrings import Docs
from mcprev_codegen.facts import Method, Revision, Side
from mcprev_codegen.support import Kind, MethodSpec


@dataclass(frozen=True, slots=True)
class MethodEnum:
    """The names of the methods of one side and kind."""

    name: str
    doc: str
    methods: Sequence[tuple[Method, str]]
    """Each with its docstring."""


@dataclass(frozen=True, slots=True)
class MethodTables:
    """The data of methods.py."""

    enums: Sequence[MethodEnum]
    methods: Sequence[Method]
    members: Sequence[str]
    """The names of the members of a `MethodSpec`."""


def method_tables(revision: Revision, docs: Docs) -> MethodTables:
    """Return the methods of a revision."""
    methods = [*revision.methods.values()]
    return MethodTables([*_enums(methods, docs)], methods, [member.name for member in fields(MethodSpec)])


def _enums(methods: Sequence[Method], docs: Docs) -> Iterator[MethodEnum]:
    """Yield the method enums: one for each side and kind with methods."""
    for side in Side:
        for kind in Kind:
            chosen = [m for m in methods if side in m.senders and m.kind is kind]
            if chosen:
                yield MethodEnum(
                    side.type_name(kind.capitalize()),
                    f"The {kind}s that a {side} may send.",
                    [(m, docs.method(m)) for m in chosen],
                )
