"""Compares two revisions: pairs their types, then collects the changes of methods, types and constants in a report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from mcprev_codegen.diff.changes import Change, Names, Report, Subject, ordered
from mcprev_codegen.diff.comparison.areas.constants import compare_constants
from mcprev_codegen.diff.comparison.areas.methods import compare_methods
from mcprev_codegen.diff.comparison.areas.types import compare_declarations
from mcprev_codegen.diff.comparison.context import Context
from mcprev_codegen.diff.comparison.pairing import pair, with_inferred_results
from mcprev_codegen.diff.comparison.view import View
from mcprev_codegen.diff.inputs import checkout_file
from mcprev_codegen.facts import Revision, load_revision
from mcprev_codegen.inputs import EXTENSIONS, SchemaFolder, extension_folder, load_pins
from mcprev_codegen.lineage import stated_renames
from mcprev_codegen.support import Kind


def compare(old: Revision, new: Revision, was: Mapping[str, str] | None = None) -> Report:
    """Return the report of every change from one revision to another.

    `was` maps old type names to known new names. Without it, these are the renames that the new revision's overlay
    states for the revision right before it. Other renames are detected by members and name.
    """
    if was is None:
        was = stated_renames([old, new])
    before, after = View(old), View(new)
    before, after = with_inferred_results(before, after), with_inferred_results(after, before)
    context = Context(before, after, pair(before, after, was))
    changes = [*compare_methods(context), *compare_declarations(context), *compare_constants(context)]
    return _report(context, changes)


def compare_revisions(folder: SchemaFolder, old: Revision, new: Revision) -> Report:
    """Return the report of `compare`, with the renames that the overlay states between the two revisions.

    Either revision may be the older one.
    """
    if old.extension != new.extension:
        return compare(old, new)
    if old.extension is not None:
        folder = extension_folder(folder, old.extension.name)
    order = list(load_pins(folder))
    if old.name not in order or new.name not in order:
        return compare(old, new)
    first, last = order.index(old.name), order.index(new.name)
    if first <= last:
        return compare(old, new, _lineage(folder, old, new, order[first + 1 : last]))
    backwards = _lineage(folder, new, old, order[last + 1 : first])
    return compare(old, new, {after: before for before, after in backwards.items()})


def _lineage(folder: SchemaFolder, old: Revision, new: Revision, between: Iterable[str]) -> dict[str, str]:
    if old.name == new.name:
        return {}
    return stated_renames([old, *(load_revision(folder, name) for name in between), new])


def _report(context: Context, changes: Iterable[Change]) -> Report:
    old, new = context.old, context.new
    return Report(
        old=_subject(old.revision),
        new=_subject(new.revision),
        changes=ordered(changes),
        requests=_methods(old, new, Kind.REQUEST),
        notifications=_methods(old, new, Kind.NOTIFICATION),
        types=_names(_own_types(old.revision), _own_types(new.revision)),
        renamed=tuple(
            (before, after)
            for before, after in context.pairing.new_of.items()
            if before != after
            and old.declares(before)
            and new.declares(after)
            and not (old.declares(after) or new.declares(before))
        ),
        undescribed=_undescribed(old, new),
    )


def _undescribed(old: View, new: View) -> str:
    """Return why descriptions are not compared; empty if they are."""
    sides = [side.revision for side in (old, new) if not side.has_prose]
    pins = " and ".join(dict.fromkeys(side.label for side in sides if side.pin))
    files = " and ".join(dict.fromkeys(side.declared.path for side in sides if not side.pin))
    why = [f"pinned revisions have no comments ({pins})"] if pins else []
    why += [f"there are no comments in {files}"] if files else []
    advice = "; pass upstream's own files as OLD and NEW (a path, a URL or REF:PATH)" if pins else ""
    return f"Descriptions are not compared: {', '.join(why)}{advice}" if why else ""


def _subject(revision: Revision) -> Subject:
    if revision.pin:
        folder = f"{EXTENSIONS}/{revision.extension.name}/" if revision.extension else ""
        return Subject(revision.label, f"{folder}{revision.name}/schema.ts")
    source = revision.declared.path
    return Subject(source, source, checkout_file(source))


def _own_types(revision: Revision) -> list[str]:
    """Return the types that the source itself declares."""
    return [name for name, decl in revision.declared.types.items() if revision.is_own(decl)]


def _methods(old: View, new: View, kind: Kind) -> Names:
    return _names(
        [m.method for m in old.revision.methods.values() if m.kind is kind],
        [m.method for m in new.revision.methods.values() if m.kind is kind],
    )


def _names(old: Iterable[str], new: Iterable[str]) -> Names:
    before, after = list(old), list(new)
    return Names(tuple(n for n in after if n not in before), tuple(n for n in before if n not in after))
