"""The revisions in which each type appeared and changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mcprev_codegen import ir
from mcprev_codegen.facts import ENVELOPE_MEMBERS, Revision
from mcprev_codegen.lineage.normal_form import Shape, normalised
from mcprev_codegen.lineage.pairs import pairing
from mcprev_codegen.resolve import FlatType, Schema


@dataclass(frozen=True, slots=True)
class TypeHistory:
    """The first revision of a type and the revisions that changed its own members, up to a given revision."""

    since: str
    changed: tuple[str, ...]


def type_histories(chain: Sequence[Revision]) -> dict[str, TypeHistory]:
    """Return the history of every type of the last revision; `chain` is oldest first."""
    found: dict[str, TypeHistory] = {}
    previous: Revision | None = None
    for revision in chain:
        names = pairing(previous, revision) if previous else {}
        current: dict[str, TypeHistory] = {}
        for name in revision.schema.types:
            if previous is None or name not in names:
                current[name] = TypeHistory(revision.name, ())
                continue
            life = found[names[name]]
            same = shape(revision.schema, name, names) == shape(previous.schema, names[name], {})
            current[name] = life if same else TypeHistory(life.since, (*life.changed, revision.name))
        found, previous = current, revision
    return found


def shape(schema: Schema, name: str, names: Mapping[str, str]) -> Shape:
    """Return the normal form of a type's own members; other types are names, translated by `names`."""
    if schema.is_object(ir.Ref(name)):
        return _object(schema, schema.flat(name), names)
    return normalised(schema, ir.Ref(name), names)


def _object(schema: Schema, flat: FlatType, names: Mapping[str, str]) -> Shape:
    message = flat.get("method") is not None
    fields = [f.field for f in flat.fields if not (message and f.name in ENVELOPE_MEMBERS)]
    return tuple(
        sorted((f.name, f.optional, _limits(f.tags), normalised(schema, f.type, names)) for f in fields)
    )


def _limits(tags: ir.Tags) -> str:
    return repr([row.of(tags) for row in ir.CONSTRAINTS])
