"""Object types with all their members, and how the members of several are joined."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from mcprev_codegen import ir


@dataclass(frozen=True, slots=True)
class FlatField:
    """A member as on the wire, with the types that declare it and that it overrides."""

    field: ir.Field
    declared_in: str
    overrides: str | None = None

    @property
    def name(self) -> str:
        """The member's name on the wire."""
        return self.field.name


@dataclass(frozen=True)
class FlatType:
    """An object type with all its members; an inherited member keeps the position of its first declaration."""

    fields: tuple[FlatField, ...]
    index: ir.IndexSig | None = None
    own_index: bool = False

    def get(self, name: str) -> ir.Field | None:
        """Return the member with a wire name; None if there is none."""
        return self._by_name.get(name)

    @cached_property
    def _by_name(self) -> Mapping[str, ir.Field]:
        return {f.name: f.field for f in self.fields}


def join(bases: Iterable[FlatType]) -> FlatType:
    """Return the members of several bases; the first declaration of a member counts."""
    fields: dict[str, FlatField] = {}
    index: ir.IndexSig | None = None
    for base in bases:
        for f in base.fields:
            fields.setdefault(f.name, f)
        index = index or base.index
    return FlatType(tuple(fields.values()), index)


def override(base: FlatType, own: FlatType) -> FlatType:
    """Return inherited members overridden by declared ones, which keep the inherited comment if they have none."""
    fields = {f.name: f for f in base.fields}
    for f in own.fields:
        inherited = fields.get(f.name)
        if inherited is None:
            fields[f.name] = f
        else:
            doc = f.field.doc if f.field.doc.text else inherited.field.doc
            fields[f.name] = FlatField(replace(f.field, doc=doc), f.declared_in, inherited.declared_in)
    return FlatType(tuple(fields.values()), own.index or base.index, own.own_index)
