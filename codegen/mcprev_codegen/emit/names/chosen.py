"""The names in Python that are chosen for types, members and constants of a schema whose own names do not do.

Only a file that is not pinned gets them: the names of MCP's revisions are decisions, in `schema/names.toml`. The rules are in
`python.names`; here is what depends on other names: one that is taken gets a `_` behind it if Python or the package takes
it, and otherwise the next free number. The first declaration keeps its name, and among members the one that is
called like its attribute. A name is the same in all types, so that subclasses agree with their bases.
"""

from __future__ import annotations

import builtins
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace

from mcprev_codegen import ir
from mcprev_codegen.emit.models.sections import COMMON, MESSAGES, categories, section_module
from mcprev_codegen.emit.pydantic import hides_member
from mcprev_codegen.facts import Revision
from mcprev_codegen.python import PythonNames, legal_name, module_name
from mcprev_codegen.resolve import Schema


def with_chosen_names(revision: Revision, reserved: Collection[str]) -> Revision:
    """Return a revision with a valid and unique name for each type, member and constant that was given none.

    `reserved` are the names that the generated modules use themselves.
    """
    schema, given = revision.schema, revision.names
    members = _members(schema, given)
    attributes = {
        members.get(f.name) or given.attribute(f.name) for name in schema.types for f in schema.fields(name)
    }
    titles = (*categories(revision, ()).values(), COMMON, MESSAGES)
    modules = {module_name(revision.name), *map(section_module, titles)}
    used = {*reserved, *modules}
    stated = {*map(given.class_name, given.types.keys() & schema.types.keys())}
    types = _chosen(
        # A given name that another type has is refused: it was a mistake.
        [name for name in schema.types if name not in given.types and name not in stated],
        stated,
        lambda name: name in used or is_builtin(name) or (name in attributes and name[:1].islower()),
    )
    taken = {types.get(name) or given.class_name(name) for name in schema.types}
    constants = _chosen(schema.consts, taken, lambda name: name in used or hasattr(builtins, name))
    names = PythonNames({**given.types, **types}, {**given.members, **members})
    return replace(revision, names=names, schema=_renamed(schema, constants) if constants else schema)


def is_builtin(name: str) -> bool:
    """Return whether a name is that of a builtin function or type; exceptions may be hidden."""
    return name[:1].islower() and hasattr(builtins, name)


def _members(schema: Schema, given: PythonNames) -> dict[str, str]:
    """Return the attributes that differ from what the rules make of the members' names."""
    objects = [[f.name for f in schema.fields(name)] for name in schema.types]
    together: dict[str, set[str]] = defaultdict(set)
    for members in objects:
        same: dict[str, list[str]] = defaultdict(list)
        for member in members:
            same[_attribute(given, member)].append(member)
        for attribute, found in same.items():
            if len(found) > 1:
                together[attribute].update(found)
    wanted = dict.fromkeys(member for members in objects for member in members)
    own = {member: _attribute(given, member) for member in wanted}
    taken = {*own.values()}
    chosen = {m: a for m, a in own.items() if a != given.attribute(m)}
    for attribute, clashing in together.items():
        ordered = sorted(
            (member for member in wanted if member in clashing),
            key=lambda member: member != attribute,
        )
        for member in ordered[1:] if clashing.isdisjoint(given.members) else ():
            chosen[member] = _free(attribute, taken, "_")
            taken.add(chosen[member])
    return chosen


def _attribute(given: PythonNames, member: str) -> str:
    name = given.attribute(member)
    return name if member in given.members or not hides_member(name) else f"{name}_"


def _chosen(names: Iterable[str], taken: Collection[str], is_used: Callable[[str], bool]) -> dict[str, str]:
    """Return the names that differ from those of the schema."""
    wanted = [*names]
    kept = {n for n in wanted if n not in taken and legal_name(n) == n and not is_used(n)}
    seen = {*taken, *kept}
    found: dict[str, str] = {}
    for name in wanted:
        if name not in kept:
            legal = legal_name(name)
            legal = f"{legal}_" if is_used(legal) else legal
            found[name] = legal if legal not in seen else _free(legal, seen, "")
            seen.add(found[name])
    return found


def _free(name: str, taken: Collection[str], separator: str) -> str:
    number = 2
    while (found := f"{name}{separator}{number}") in taken:
        number += 1
    return found


def _renamed(schema: Schema, constants: Mapping[str, str]) -> Schema:
    def change(node: ir.Node) -> ir.Node:
        match node:
            case ir.Const(name) | ir.ConstRef(name) if name in constants:
                return replace(node, name=constants[name])
            case _:
                return node

    return replace(schema, module=ir.map_nodes(schema.module, change))
