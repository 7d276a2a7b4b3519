"""The history of each type over the revisions, and the mechanical differences between neighbouring revisions.

Types are compared member by member in a normal form, in which spellings with the same meaning on the wire are equal:
an inline object and the same object with a name, `object` and a map of any value, a moved envelope member.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, cast

from mcprev_codegen import ir
from mcprev_codegen.limits import within
from mcprev_codegen.resolve import FlatType, Schema
from mcprev_codegen.sources import Revision
from mcprev_codegen.templates.support._spec import Child, TypeDelta

ENVELOPE_MEMBERS: Final = frozenset({"jsonrpc", "id"})
ANY_VALUE: Final = ("anything",)
_NO_PATH: Final = "?"
_PAYLOADS: Final = (
    "ClientCapabilities",
    "ServerCapabilities",
    "Implementation",
    "Error",
    "JSONRPCErrorError",
)
"""Types that are converted although they are neither params nor results of a method."""
Shape = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class TypeHistory:
    """The first revision of a type and the revisions that changed its own members, up to a given revision."""

    since: str
    changed: tuple[str, ...]


def pairing(older: Revision, newer: Revision) -> dict[str, str]:
    """Return the types that two neighbouring revisions share, as a mapping of newer to older names.

    A name whose meaning changed is not paired; the overlay states the new name of the old type.
    """
    renamed = {
        new: old
        for new, old in newer.facts.was.items()
        if new not in older.schema.types and old in older.schema.types
    }
    same = {name: name for name in newer.schema.types if name in older.schema.types}
    moved = set(renamed.values())
    return {new: old for new, old in (same | renamed).items() if new in renamed or old not in moved}


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
    return repr([getattr(tags, name) for name in ir.CONSTRAINTS])


def normalised(
    schema: Schema, type_: ir.TypeExpr, names: Mapping[str, str], inside: frozenset[str] = frozenset()
) -> Shape:
    """Return the normal form of a type; a recursive reference becomes the name of the type.

    Aliases in it are written out; `checks` bounds what that takes.
    """
    if is_anything(schema, type_):
        return ANY_VALUE
    if isinstance(type_, ir.Ref):
        if type_.name in inside:
            return ("ref", names.get(type_.name, type_.name))
        inside |= {type_.name}
    followed = schema.follow(type_)
    match followed:
        case ir.Prim(name):
            return ("map", ANY_VALUE) if name == "object" else ("prim", name)
        case ir.Lit() | ir.ConstRef():
            return ("lit", repr(schema.literal(followed)))
        case ir.Ref(name) if schema.is_map(followed):
            index = schema.flat(name).index
            return ("map", normalised(schema, index.value, names, inside) if index else ANY_VALUE)
        case ir.Ref(name):
            return ("ref", names.get(name, name))
        case ir.Array(item):
            return ("list", normalised(schema, item, names, inside))
        case ir.Tuple(items):
            return ("tuple", *(normalised(schema, item, names, inside) for item in items))
        case ir.Template(text):
            return ("template", text)
        case ir.Record(value):
            return ("map", normalised(schema, value, names, inside))
        case ir.Obj(_, index):
            return ("map", normalised(schema, index.value, names, inside) if index else ANY_VALUE)
        case ir.Union():
            members = {normalised(schema, m, names, inside) for m in schema.members(type_)}
            return ("union", *sorted(members, key=repr))
        case _:
            raise AssertionError(f"hoisting leaves no {type(followed).__name__}")


def is_anything(schema: Schema, type_: ir.TypeExpr) -> bool:
    """Return whether a type accepts every JSON value: unknown, any, or the recursive union of all JSON types."""
    if isinstance(type_, ir.Prim):
        return type_ in ir.ANYTHING
    decl = schema.types[type_.name] if isinstance(type_, ir.Ref) else None
    if not isinstance(decl, ir.Alias) or not isinstance(decl.type, ir.Union):
        return False
    primitives = {member.name for member in decl.type.members if isinstance(member, ir.Prim)}
    return {"string", "number", "boolean", "null"} <= primitives


# -- deltas ---------------------------------------------------------------------------------------------


def conversion_deltas(here: Revision, there: Revision, names: Mapping[str, str]) -> dict[str, TypeDelta]:
    """Return the changes that objects of each type need in a neighbouring revision.

    Only types that need changes, or that contain such types, have an entry: object types, and params that are unions.
    `names` maps the names of the types of `here` to their names in `there`. Whole messages and their bases are left
    out, since only params, results, errors and capabilities are converted.
    """
    found: dict[str, TypeDelta] = {}
    untagged: dict[str, list[tuple[str, str]]] = {}
    params = {method.params for method in here.methods.values()}
    for name in payloads(here):
        other = names.get(name)
        if other is None:
            continue
        if here.schema.is_object(ir.Ref(name)):
            if there.schema.is_object(ir.Ref(other)):
                found[name] = _delta(here, there, name, names)
                untagged[name] = _untagged_members(here, there, found[name], name)
        elif name in params:
            found[name] = TypeDelta(
                other, children=tuple(object_children(here.schema, ir.Field("", ir.Ref(name))))
            )
    return _pruned(found, untagged)


def payloads(revision: Revision) -> list[str]:
    """Return the payload types and the types that they contain, in source order."""
    types = revision.schema.types
    pending = [name for name in _PAYLOADS if name in types]
    for method in revision.methods.values():
        pending += [*([method.params] if method.params else []), *method.results]
    reached = ir.reachable(pending, lambda name: ir.references(types[name]))
    return [name for name in types if name in reached]


def _delta(here: Revision, there: Revision, name: str, names: Mapping[str, str]) -> TypeDelta:
    other = names[name]
    mine, theirs = here.schema.flat(name), there.schema.flat(other)
    message = mine.get("method") is not None
    ignored = ENVELOPE_MEMBERS if message else frozenset[str]()
    known = {f.name for f in theirs.fields}
    # A member that the index signature of the other type covers is kept, although that type does not declare it.
    taken_over = theirs.index is not None and mine.index is None
    unknown = () if taken_over else tuple(f.name for f in mine.fields if f.name not in known)
    drop = tuple(name for name in unknown if name not in ignored)
    fill: list[tuple[str, ir.Literal]] = []
    missing: list[str] = []
    retyped: list[str] = []
    for f in theirs.fields:
        own = mine.get(f.name)
        if f.name in ignored:
            continue
        if not f.field.optional and (own is None or own.optional):
            value = _known_value(there, other, f.field)
            if value is None:
                missing.append(f.name)
            else:
                fill.append((f.name, value))
        if own is not None and not (
            _fits(normalised(here.schema, own.type, names), normalised(there.schema, f.field.type, {}))
            and within(own.tags, f.field.tags)
        ):
            retyped.append(f.name)
    children = tuple(
        c for f in mine.fields if f.name not in drop for c in object_children(here.schema, f.field)
    )
    lost = tuple(
        c
        for f in mine.fields
        if (field := theirs.get(f.name)) is not None
        for c in _lost(
            object_children(here.schema, f.field), there.schema, object_children(there.schema, field)
        )
    )
    return TypeDelta(other, drop, tuple(fill), tuple(missing), tuple(retyped), lost, children)


def _untagged_members(here: Revision, there: Revision, delta: TypeDelta, name: str) -> list[tuple[str, str]]:
    """Return the unconverted members with types that cannot be distinguished, paired with each such type."""
    theirs = there.schema.flat(delta.there)
    return [
        (f.name, type_)
        for f in here.schema.flat(name).fields
        if theirs.get(f.name) is not None and f.name not in delta.retyped
        for type_ in untagged_types(here.schema, f.field)
    ]


def _lost(mine: Sequence[Child], schema: Schema, theirs: Sequence[Child]) -> Iterator[Child]:
    """Yield the members that are tagged unions with tags that the neighbour's union does not have."""
    for child in mine:
        others = [other for other in theirs if other.through == child.through]
        if not child.tag or not others:
            continue
        known = {tag for other in others for tag in _tags(schema, other, child.tag)}
        lost = tuple(pair for pair in child.types if pair[0] not in known)
        if lost:
            yield Child(child.member, child.through, lost, child.tag)


def _tags(schema: Schema, child: Child, tag: str) -> Iterator[str]:
    """Yield the possible tags at one place, also if only one type is possible."""
    for value, name in child.types:
        if child.tag:
            yield value
        elif (member := schema.flat(name).get(tag)) is not None:
            yield str(schema.literal(member.type))


def _fits(mine: Shape, theirs: Shape) -> bool:
    """Return whether every value of one type has the same meaning in another; both types are in normal form.

    A type that becomes `unknown` does not fit: null may then be a value of its own.
    """
    if mine == theirs:
        return True
    match mine, theirs:
        case ("union", *members), _:
            return all(_fits(cast("Shape", member), theirs) for member in members)
        case _, ("union", *members):
            return any(_fits(mine, cast("Shape", member)) for member in members)
        case ("list" | "map" as kind, item), (other_kind, other) if kind == other_kind:
            return _fits(cast("Shape", item), cast("Shape", other))
        case ("lit", str() as text), ("prim", "string"):
            return text[0] in "'\""
        case ("template", _), ("prim", "string"):
            return True
        case ("tuple", *items), ("list", other):
            return all(_fits(cast("Shape", item), cast("Shape", other)) for item in items)
        case _:
            return False


def _known_value(revision: Revision, owner: str, member: ir.Field) -> ir.Literal | None:
    """Return the only or default value of a required member; None if it has neither."""
    literal = revision.schema.literal(member.type)
    if literal is not None:
        return literal
    names = (owner, *revision.schema.supertypes(owner))
    facts = revision.facts.default
    value = next((facts[f"{n}.{member.name}"] for n in names if f"{n}.{member.name}" in facts), None)
    return value if isinstance(value, str | int | float) else None


def object_children(schema: Schema, member: ir.Field) -> list[Child]:
    """Return the object types in a member, for each place where they can be distinguished."""
    return [child for child, _ in _places(schema, member) if child is not None]


def untagged_types(schema: Schema, member: ir.Field) -> list[str]:
    """Return the object types in a member that cannot be distinguished."""
    return [name for child, names in _places(schema, member) if child is None for name in names]


def _places(schema: Schema, member: ir.Field) -> Iterator[tuple[Child | None, list[str]]]:
    """Yield each place of objects in a member, with the types there; None as place if they cannot be distinguished."""
    grouped: dict[tuple[str, ...], list[str]] = {}
    for through, name in dict.fromkeys(object_places_in(schema, member.type)):
        grouped.setdefault(through, []).append(name)
    for through, names in grouped.items():
        if _NO_PATH in through:
            yield None, names
        elif len(names) == 1:
            yield Child(member.name, through, (("", names[0]),), ""), names
        elif found := schema.discriminator(ir.Union(tuple(ir.Ref(name) for name in names))):
            pairs = tuple((str(values[0]), name) for values, name in zip(found.values, names, strict=True))
            yield Child(member.name, through, pairs, found.property), names
        else:
            own = [next(_own_members(schema, name, names), None) for name in names]
            pairs = tuple((only, name) for only, name in zip(own, names, strict=True) if only is not None)
            yield Child(member.name, through, pairs, "") if len(pairs) == len(names) else None, names


def _own_members(schema: Schema, name: str, names: Sequence[str]) -> Iterator[str]:
    """Yield the members that one of several types requires and the others do not have."""
    others = {f.name for other in names if other != name for f in schema.flat(other).fields}
    return (f.name for f in schema.flat(name).fields if not f.field.optional and f.name not in others)


def object_places_in(schema: Schema, type_: ir.TypeExpr) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield the object types in a type, each with the path of lists and maps to it.

    The path of a tuple item or of a recursive type contains `_NO_PATH`, since a `Child` cannot express it.
    """
    pending: list[tuple[ir.TypeExpr, tuple[str, ...], frozenset[str]]] = [(type_, (), frozenset())]
    seen: set[tuple[str, tuple[str, ...]]] = set()
    while pending:
        type_, through, inside_of = pending.pop()
        if isinstance(type_, ir.Ref):
            if type_.name in inside_of:
                for name in schema.references[type_.name]:
                    if schema.is_object(ir.Ref(name)):
                        yield (*through, _NO_PATH), name
                continue
            if (type_.name, through) in seen:
                continue
            seen.add((type_.name, through))
            inside_of |= {type_.name}
        type_ = _followed(schema, type_)
        if (inside := _inside(schema, type_)) is not None:
            pending.append((inside[1], (*through, inside[0]), inside_of))
        elif isinstance(type_, ir.Tuple):
            pending += [(item, (*through, _NO_PATH), inside_of) for item in type_.items[::-1]]
        elif isinstance(type_, ir.Union):
            pending += [(option, through, inside_of) for option in type_.members[::-1]]
        elif isinstance(type_, ir.Ref) and schema.is_object(type_):
            yield through, type_.name


def _inside(schema: Schema, type_: ir.TypeExpr) -> tuple[str, ir.TypeExpr] | None:
    """Return the path element of a list (`[]`) or map (`{}`) and its item type; None for another type."""
    match type_:
        case ir.Array(held):
            return "[]", held
        case ir.Record(held):
            return "{}", held
        case ir.Obj((), ir.IndexSig(value=held)):
            return "{}", held
        case ir.Ref(name) if schema.is_map(type_) and (index := schema.flat(name).index) is not None:
            return "{}", index.value
        case _:
            return None


def _followed(schema: Schema, type_: ir.TypeExpr) -> ir.TypeExpr:
    """Return the type behind aliases; a type that accepts every value is not resolved further."""
    return ir.Prim("unknown") if is_anything(schema, type_) else schema.follow(type_)


def _pruned(
    found: Mapping[str, TypeDelta], untagged: Mapping[str, Sequence[tuple[str, str]]]
) -> dict[str, TypeDelta]:
    """Return only the types that change or contain a type that changes, each with only such children.

    A member that contains such a type among types that cannot be distinguished counts as retyped.
    """

    def kept(child: Child) -> tuple[tuple[str, str], ...]:
        return tuple(pair for pair in child.types if pair[1] in alive)

    alive = {n for n, d in found.items() if d.drop or d.fill or d.missing or d.retyped or d.lost}
    grown = True
    while grown:
        more = {
            n
            for n, d in found.items()
            if any(kept(c) for c in d.children) or any(type_ in alive for _, type_ in untagged.get(n, ()))
        }
        grown = not more <= alive
        alive |= more
    return {
        name: replace(
            delta,
            children=tuple(replace(c, types=kept(c)) for c in delta.children if kept(c)),
            retyped=tuple(
                dict.fromkeys((*delta.retyped, *(m for m, t in untagged.get(name, ()) if t in alive)))
            ),
        )
        for name, delta in found.items()
        if name in alive
    }
