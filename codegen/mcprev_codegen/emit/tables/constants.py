"""The constants of a revision: those that the schema declares, and its limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from mcprev_codegen import ir
from mcprev_codegen.emit.docstrings import Docs
from mcprev_codegen.facts import Revision

CONSTANT_TABLES: Final = ("REVISION", "ERROR_CODES", "MAX_ITEMS", "META_KEYS")
OF_EXTENSION: Final = ("EXTENSION", "VERSION")
"""What only the package of an extension has."""


@dataclass(frozen=True, slots=True)
class Constant:
    """A constant of the schema."""

    name: str
    value: ir.Literal
    doc: str


@dataclass(frozen=True, slots=True)
class ConstantTables:
    """The data of constants.py."""

    negotiated_as: str
    like: str | None
    extension: str | None
    """The name in the capabilities of the extension that this is a version of."""
    version: str
    constants: Sequence[Constant]
    bounds: Mapping[str, int]
    """The maximum number of items of a list, by `Type.member`."""
    meta_keys: tuple[str, ...]


def constant_tables(revision: Revision, docs: Docs) -> ConstantTables:
    """Return the constants of a revision."""
    schema = revision.schema
    fields = [(name, f) for name in schema.types if revision.owns(name) for f in schema.fields(name)]
    bounds = {f"{name}.{f.name}": f.field.tags.max_items for name, f in fields}
    return ConstantTables(
        revision.negotiated_as,
        revision.like,
        revision.extension.id if revision.extension else None,
        revision.name,
        [Constant(c.name, c.value, docs.constant(c)) for c in revision.own_consts()],
        {place: bound for place, bound in bounds.items() if bound is not None},
        tuple(sorted({f.name for _, f in fields if "/" in f.name})),
    )
