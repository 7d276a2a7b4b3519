"""The revisions in which each type appeared and changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mcprev_codegen import ir
from mcprev_codegen.facts import ENVELOPE_MEMBERS, Revision
from mcprev_codegen.lineage.normal_form import NormalForm, normalised
from mcprev_codegen.lineage.pairs import pairing
from mcprev_codegen.resolve import FlatType, Schema


@dataclass(frozen=True, slots=True)
class TypeHistory:
    """The first revision of a type and the revisions that changed its own members, up to a given revision."""

    since: str
    changed: tuple[str, ...]
    members: Mapping[str, str]
    """The first revision of each member, those of the envelope of a message excepted."""


def type_histories(chain: Sequence[Revision]) -> dict[str, TypeHistory]:
    """Return the history of every type of the last revision; `chain` is oldest first."""
    found: dict[str, TypeHistory] = {}
    previous: Revision | None = None
    for revision in chain:
        names = pairing(previous, revision) if previous else {}
        current: dict[str, TypeHistory] = {}
        for name in revision.schema.types:
            if previous is None or name not in names:
                current[name] = TypeHistory(revision.name, (), _members(revision, name, {}))
                continue
            life = found[names[name]]
            before = normalised_type(previous.schema, names[name], {})
            same = normalised_type(revision.schema, name, names) == before
            changed = life.changed if same else (*life.changed, revision.name)
            current[name] = TypeHistory(life.since, changed, _members(revision, name, life.members))
        found, previous = current, revision
    return found


def _members(revision: Revision, name: str, before: Mapping[str, str]) -> dict[str, str]:
    """Return the first revision of each member of a type; `before` has those of the revision before."""
    schema = revision.schema
    fields = _own_fields(schema.flat(name)) if schema.is_object(ir.Ref(name)) else []
    return {f.name: before.get(f.name, revision.name) for f in fields}


def normalised_type(schema: Schema, name: str, names: Mapping[str, str]) -> NormalForm:
    """Return the normal form of a type's own members; other types are names, translated by `names`."""
    if not schema.is_object(ir.Ref(name)):
        return normalised(schema, ir.Ref(name), names)
    own = _own_fields(schema.flat(name))
    return tuple(
        sorted((f.name, f.optional, _limits(f.tags), normalised(schema, f.type, names)) for f in own)
    )


def _own_fields(flat: FlatType) -> list[ir.Field]:
    """Return the members of an object without those of the envelope of a message."""
    message = flat.get("method") is not None
    return [f.field for f in flat.fields if not (message and f.name in ENVELOPE_MEMBERS)]


def _limits(tags: ir.Tags) -> str:
    return repr([row.of(tags) for row in ir.CONSTRAINTS])
