"""Resolves a module: flattens inheritance, follows aliases, opens unions, finds discriminators.

`Schema` derives everything from the IR of one revision and changes nothing. A member that an interface redeclares
*replaces* the inherited one; the two are not merged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from itertools import takewhile
from typing import Final

from mcprev_codegen import ir
from mcprev_codegen.errors import SchemaError, at_line
from mcprev_codegen.resolve.flat import FlatField, FlatType, join, override
from mcprev_codegen.resolve.remembered import remembered

_MAX_BASES: Final = 50
"""The maximum number of types that extend one another, one after the other."""
_MAX_FIELDS: Final = 50_000
"""The maximum number of members of all objects, inherited ones included; upstream has a tenth of that."""
_MAX_OPENED: Final = 200_000
"""The maximum number of members of all unions, those of the unions in them included."""
_PLAIN: Final = tuple(map(ir.Prim, ("string", "number", "boolean", "null")))
"""The types of which two different ones have no value in common."""


@dataclass(frozen=True, slots=True)
class Discriminator:
    """A required member whose disjoint literal values distinguish the members of a union."""

    property: str
    values: tuple[tuple[ir.Literal, ...], ...]
    """The literals of each union member, in union order."""


@dataclass(frozen=True)
class Schema:
    """The declarations of one revision, and queries about them."""

    module: ir.Module
    path: str = "schema.ts"
    lines: Sequence[str] = field(default=(), repr=False, compare=False)
    _flat: dict[str, FlatType] = field(
        default_factory=dict[str, FlatType], init=False, repr=False, compare=False
    )
    _behind: dict[str, ir.TypeExpr] = field(
        default_factory=dict[str, ir.TypeExpr], init=False, repr=False, compare=False
    )
    _counted: Counter[str] = field(default_factory=Counter[str], init=False, repr=False, compare=False)
    """The numbers of the members of all objects, and of all unions, so far."""

    @cached_property
    def types(self) -> Mapping[str, ir.Interface | ir.Alias]:
        """Interfaces and aliases by name, in source order."""
        return self.module.types

    @cached_property
    def consts(self) -> Mapping[str, ir.Const]:
        """Constants by name, in source order."""
        return self.module.consts

    @cached_property
    def references(self) -> Mapping[str, tuple[str, ...]]:
        """The types that each type refers to, each once."""
        return {name: tuple(dict.fromkeys(ir.references(decl))) for name, decl in self.types.items()}

    def fail(self, place: ir.Decl | ir.Field | str, message: str) -> SchemaError:
        """Return an error at a declaration or member, or at the type with a name; at the first one if there is none."""
        if isinstance(place, str):
            place = self.types.get(place) or next(iter(self.types.values()))
        path = place.span.path
        lines = self.module.texts.get(path, ()) if path else self.lines
        return at_line(path or self.path, lines, place.span.line, message)

    def check_aliases(self) -> None:
        """Raise `SchemaError` for an alias that refers only to itself."""
        direct = {
            name: [n for n in self._direct(decl.type) if isinstance(self.types[n], ir.Alias)]
            for name, decl in self.types.items()
            if isinstance(decl, ir.Alias)
        }
        try:
            TopologicalSorter(direct).prepare()
        except CycleError as error:
            cycle: list[str] = error.args[1]
            name = next(name for name in direct if name in cycle)
            raise self.fail(name, f"the alias '{name}' refers only to itself") from None

    def _direct(self, type_: ir.TypeExpr) -> Iterator[str]:
        """Yield the names that a type consists of, alone or in unions and intersections."""
        pending = [type_]
        while pending:
            match pending.pop():
                case ir.Union(members) | ir.Intersection(members):
                    pending += members
                case ir.Ref(name):
                    yield name
                case (
                    ir.Prim() | ir.Lit() | ir.ConstRef() | ir.Array() | ir.Record() | ir.Obj() | ir.Derived() |
                    ir.Tuple() | ir.Template()
                ):  # fmt: skip
                    pass

    # -- values and aliases --------------------------------------------------------------------------

    def literal(self, type_: ir.TypeExpr) -> ir.Literal | None:
        """Return the value of a literal type or `typeof CONST`; None for any other type."""
        match self.follow(type_):
            case ir.Lit(value):
                return value
            case ir.ConstRef(name):
                return self.consts[name].value
            case (
                ir.Prim() | ir.Ref() | ir.Array() | ir.Union() | ir.Intersection() | ir.Record() | ir.Obj() |
                ir.Derived() | ir.Tuple() | ir.Template()
            ):  # fmt: skip
                return None

    def literals(self, type_: ir.TypeExpr) -> tuple[ir.Literal, ...]:
        """Return all values of a closed set of literals; empty for any other type."""
        values = [self.literal(member) for member in self.members(type_)]
        return tuple(v for v in values if v is not None) if None not in values else ()

    def follow(self, type_: ir.TypeExpr) -> ir.TypeExpr:
        """Return the type behind a chain of aliases; a `Ref` in the result names an interface."""
        passed: list[str] = []
        while isinstance(type_, ir.Ref):
            decl = self.types[type_.name]
            if isinstance(decl, ir.Interface):
                break
            passed.append(type_.name)
            type_ = self._behind.get(type_.name, decl.type)
        if passed:
            self._behind.update(dict.fromkeys(passed, type_))
        return type_

    def members(self, type_: ir.TypeExpr) -> tuple[ir.TypeExpr, ...]:
        """Return the members of a union, nested and aliased unions opened, each once; any other type is its member."""
        return self._alternatives(type_) if isinstance(self.follow(type_), ir.Union) else (type_,)

    @remembered
    def _alternatives(self, union: ir.TypeExpr) -> tuple[ir.TypeExpr, ...]:
        found: list[ir.TypeExpr] = []
        pending, opened = [union], dict[str, None]()
        while pending:
            self._counted["union"] += 1
            if self._counted["union"] > _MAX_OPENED:
                raise self.fail(
                    next(iter(opened), ""),
                    f"unions of more than {_MAX_OPENED} members, those of the unions in them included, are not supported",
                )
            member = pending.pop()
            followed = self.follow(member)
            if isinstance(member, ir.Ref) and isinstance(followed, ir.Union):
                if member.name in opened:
                    continue
                opened[member.name] = None
            if isinstance(followed, ir.Union):
                pending += followed.members[::-1]
            else:
                found.append(member)
        return tuple(dict.fromkeys(found))

    def alias_kind(self, name: str) -> str:
        """Return `interface`, or the kind of an alias, such as `union`."""
        decl = self.types[name]
        if isinstance(decl, ir.Interface):
            return "interface"
        match decl.type:
            case ir.Prim() | ir.Template():
                return "primitive"
            case ir.Array() | ir.Tuple():
                return "array"
            case ir.Record() | ir.Obj():
                return "map"
            case ir.Intersection():
                return "intersection"
            case ir.Union():
                members = self.members(decl.type)
                literals = [m for m in members if self.literal(m) is not None]
                if len(literals) == len(members):
                    return "enum"
                return "open_enum" if self.is_open_enum(decl.type) else "union"
            case ir.Lit() | ir.ConstRef() | ir.Ref() | ir.Derived():
                return "alias"

    def is_open_enum(self, type_: ir.TypeExpr) -> bool:
        """Return whether a union lists some strings and also accepts every string."""
        members = [self.follow(m) for m in self.members(type_)]
        strings = [m for m in members if isinstance(self.literal(m), str)]
        return bool(strings) and ir.Prim("string") in members and len(strings) == len(members) - 1

    # -- objects -------------------------------------------------------------------------------------

    def is_object(self, type_: ir.TypeExpr) -> bool:
        """Return whether a type is an object with declared members, not a map, a union or a value."""
        match self.follow(type_):
            case ir.Ref() | ir.Obj() | ir.Intersection() | ir.Derived() as found:
                return not self.is_map(found)
            case (
                ir.Prim() | ir.Lit() | ir.ConstRef() | ir.Array() | ir.Union() | ir.Record() | ir.Tuple() |
                ir.Template()
            ):  # fmt: skip
                return False

    def is_map(self, type_: ir.TypeExpr) -> bool:
        """Return whether a type is an object with arbitrary keys and no declared member."""
        match self.follow(type_):
            case ir.Record():
                return True
            case ir.Obj(fields, index):
                return not fields and index is not None
            case ir.Ref(name):
                flat = self.flat(name)
                return not flat.fields and flat.own_index
            case (
                ir.Prim() | ir.Lit() | ir.ConstRef() | ir.Array() | ir.Union() | ir.Intersection() | ir.Derived() |
                ir.Tuple() | ir.Template()
            ):  # fmt: skip
                return False

    def fields(self, name: str) -> tuple[FlatField, ...]:
        """Return all members of an object type; none for any other type."""
        return self.flat(name).fields if self.is_object(ir.Ref(name)) else ()

    def flat(self, name: str, seen: tuple[str, ...] = ()) -> FlatType:
        """Return an object type with all its members; `seen` are the types that extend it, from the outermost one on.

        Raises `SchemaError` if it extends itself or a non-object.
        """
        if name in self._flat:
            return self._flat[name]
        decl = self.types[name]
        if name in seen:
            raise self.fail(decl, f"'{name}' extends itself: {' -> '.join((*seen, name))}")
        if len(seen) == _MAX_BASES:
            raise self.fail(decl, f"more than {_MAX_BASES} types that extend one another are not supported")
        if isinstance(decl, ir.Alias):
            flat = self.flatten(decl.type, name, (*seen, name))
        else:
            bases = [self.flatten(base, name, (*seen, name)) for base in decl.bases]
            own = FlatType(tuple(FlatField(f, name) for f in decl.fields), decl.index, decl.index is not None)
            flat = override(join(bases), own)
        self._flat[name] = flat
        self._counted["object"] += len(flat.fields)
        if self._counted["object"] > _MAX_FIELDS:
            raise self.fail(
                decl, f"more than {_MAX_FIELDS} members, inherited ones counted, are not supported"
            )
        return flat

    def flatten(self, type_: ir.TypeExpr, owner: str = "", seen: tuple[str, ...] = ()) -> FlatType:
        """Return an object type with all its members; `owner` is the declaring type of inline members."""
        match type_:
            case ir.Ref(name):
                return self.flat(name, seen)
            case ir.Obj(fields, index):
                return FlatType(tuple(FlatField(f, owner) for f in fields), index, index is not None)
            case ir.Record(value):
                return FlatType((), ir.IndexSig("key", value), own_index=True)
            case ir.Derived(kind, base, keys):
                flat = self.flatten(base, owner, seen)
                kept, index = ir.derive(kind, [f.field for f in flat.fields], flat.index, keys)
                if kind == "Pick" and len(kept) < len(keys):
                    missing = next(key for key in keys if flat.get(key) is None)
                    raise self.fail(owner, f"Pick: there is no member '{missing}'")
                declared = {f.name: f for f in flat.fields}
                found = (replace(declared.get(f.name, FlatField(f, owner)), field=f) for f in kept)
                return FlatType(tuple(found), index, flat.own_index and index is not None)
            case ir.Intersection(members):
                flat = self.flatten(members[0], owner, seen)
                for member in members[1:]:
                    flat = self._narrow(flat, self.flatten(member, owner, seen), owner)
                return flat
            case ir.Prim() | ir.Lit() | ir.ConstRef() | ir.Array() | ir.Union() | ir.Tuple() | ir.Template():
                raise self.fail(owner, f"'{owner}' extends a type that is not an object")

    def narrowed(self, type_: ir.Intersection, owner: str) -> dict[str, ir.Field]:
        """Return the members of an intersection that an interface that extends its parts would have with another type."""
        inline = [self.flatten(part, owner) for part in type_.members if isinstance(part, ir.Obj)]
        named = [self.flatten(part, owner) for part in type_.members if not isinstance(part, ir.Obj)]
        extended = override(join(named), join(inline))
        found = {f.name: f.field for f in self.flatten(type_, owner).fields}
        return {
            name: member
            for name, member in found.items()
            if (other := extended.get(name)) is None
            or (other.type, other.optional) != (member.type, member.optional)
        }

    def narrowed_index(
        self, type_: ir.Intersection, bases: Sequence[ir.TypeExpr], owner: str
    ) -> ir.IndexSig | None:
        """Return the index signature of an intersection, unless an interface that extends these bases has the same."""
        inherited = join(self.flatten(base, owner) for base in bases).index
        index = self.flatten(type_, owner).index
        return None if inherited == index else index

    def _narrow(self, left: FlatType, right: FlatType, owner: str) -> FlatType:
        """Return the members of an intersection; a shared one has the values that both of its types have.

        So has one beside an index signature of another part, where it has any.
        """
        fields = {f.name: self._indexed(f, right, owner) for f in left.fields}
        for f in (self._indexed(f, left, owner) for f in right.fields):
            shared = fields.get(f.name)
            if shared is None:
                fields[f.name] = f
            elif (shared.field.type, shared.field.optional) != (f.field.type, f.field.optional):
                doc = f.field.doc if f.field.doc.text else shared.field.doc
                type_ = self._common(shared.field.type, f.field.type, f"member '{f.name}'", owner)
                optional = shared.field.optional and f.field.optional
                narrowed = replace(f.field, type=type_, optional=optional, doc=doc)
                fields[f.name] = FlatField(narrowed, f.declared_in, shared.declared_in)
        index = left.index or right.index
        if left.index and right.index:
            value = self._common(left.index.value, right.index.value, "the index signature", owner)
            index = replace(left.index, value=value)
        return FlatType(tuple(fields.values()), index, left.own_index or right.own_index)

    def _indexed(self, f: FlatField, other: FlatType, owner: str) -> FlatField:
        """Return a member with the values that an index signature of another part of an intersection has too."""
        if other.get(f.name) is not None or other.index is None:
            return f
        value = other.index.value
        if any(map(self.is_object, (*self.members(f.field.type), *self.members(value)))):
            return f  # and so on in the members of both
        try:
            common = self._common(f.field.type, value, "", owner)
        except SchemaError:
            return f
        return f if common == f.field.type else replace(f, field=replace(f.field, type=common))

    def _common(self, left: ir.TypeExpr, right: ir.TypeExpr, what: str, owner: str) -> ir.TypeExpr:
        """Return the type of the values that two types have in common. Raises `SchemaError` if it is not known."""
        ours, theirs = self.members(left), self.members(right)
        sides = (left, ours, theirs), (right, theirs, ours)
        common = [
            [one for one in mine if any(self._is_within(one, o) for o in others)] for _, mine, others in sides
        ]
        for (type_, mine, _), kept in zip(sides, common, strict=True):
            if len(kept) == len(mine):
                return type_
        if all(self.is_object(type_) or self.is_map(type_) for type_ in (left, right)):
            return ir.Intersection((left, right))
        found = tuple(dict.fromkeys(common[0] + common[1]))
        if not found or any(
            self.literal(t) is None and self.follow(t) not in _PLAIN for t in (*ours, *theirs)
        ):
            raise self.fail(
                owner,
                f"{what} has two types in an intersection, and what they have in common cannot be determined; declare it once",
            )
        return ir.union_of(found)

    def common_value(self, left: ir.TypeExpr, right: ir.TypeExpr, owner: ir.Decl) -> ir.TypeExpr | None:
        """Return the type of the values that two have in common, neither of which is an object; None if there are none."""
        if self._is_within(left, right):
            return left
        if self._is_within(right, left):
            return right
        plain = (self.literal(t) is not None or self.follow(t) in _PLAIN for t in (left, right))
        kinds = isinstance(left, ir.Array | ir.Tuple) != isinstance(right, ir.Array | ir.Tuple)
        if all(plain) or kinds:
            return None
        raise self.fail(
            owner, "what the parts of an intersection have in common cannot be determined; write it out"
        )

    def _is_within(self, part: ir.TypeExpr, other: ir.TypeExpr) -> bool:
        """Return whether each value of a type is known to be one of another; neither is a union."""
        mine, theirs = self.follow(part), self.follow(other)
        if mine == ir.NEVER:
            return True
        value, wanted = self.literal(mine), self.literal(theirs)
        if value is None:
            objects = self.is_object(mine) or self.is_map(mine)
            if objects and (theirs == ir.Prim("object") or self._holds_anything(theirs)):
                return True
            return theirs in (mine, *ir.ANYTHING) or (
                isinstance(mine, ir.Template) and theirs == ir.Prim("string")
            )
        if wanted is not None:
            return repr(value) == repr(wanted)
        kind = "boolean" if isinstance(value, bool) else "string" if isinstance(value, str) else "number"
        return theirs in (ir.Prim(kind), *ir.ANYTHING)

    def _holds_anything(self, type_: ir.TypeExpr) -> bool:
        """Return whether each object is a value of a type: a map of any values."""
        if not self.is_map(type_):
            return False
        index = self.flatten(type_).index
        return index is not None and index.value in ir.ANYTHING

    def supertypes_with(self, name: str, member: str) -> Sequence[str]:
        """Return the objects that an object type extends and that have a member, nearest first."""
        return self._having(name).get(member, ())

    @remembered
    def _having(self, name: str) -> Mapping[str, Sequence[str]]:
        """Return the objects that an object type extends by the members that they have."""
        found: dict[str, list[str]] = {}
        for base in self.supertypes(name):
            for f in self.fields(base):
                found.setdefault(f.name, []).append(base)
        return found

    @remembered
    def supertypes(self, name: str) -> Mapping[str, int]:
        """Return the named types that an object type extends, nearest first, each with its place."""
        seen: dict[str, int] = {}
        pending = self._bases(name)
        while pending:
            match pending.pop():
                case ir.Ref(base):
                    if base not in seen:
                        seen[base] = len(seen)
                        pending += self._bases(base)
                case ir.Derived(base=inner):
                    pending.append(inner)
                case ir.Intersection(members):
                    pending += members[::-1]
                case (
                    ir.Prim() | ir.Lit() | ir.ConstRef() | ir.Array() | ir.Union() | ir.Record() | ir.Obj() | ir.Tuple()
                    | ir.Template()
                ):  # fmt: skip
                    pass
        return seen

    def _bases(self, name: str) -> list[ir.TypeExpr]:
        """Return what a type extends or stands for, the last first."""
        decl = self.types[name]
        return [*decl.bases[::-1]] if isinstance(decl, ir.Interface) else [decl.type]

    # -- unions --------------------------------------------------------------------------------------

    @remembered
    def discriminator(self, type_: ir.TypeExpr) -> Discriminator | None:
        """Return the required literal member that distinguishes the members of a union of objects, or None."""
        members = self.members(type_)
        if len(members) < 2 or not all(self.is_object(m) for m in members):
            return None
        flats = [self.flatten(m) for m in members]
        for candidate in flats[0].fields:
            values = list(takewhile(bool, (self._tag_values(flat, candidate.name) for flat in flats)))
            seen = [(isinstance(value, bool), value) for group in values for value in group]  # True is not 1
            if len(values) == len(flats) and len(set(seen)) == len(seen):
                return Discriminator(candidate.name, tuple(values))
        return None

    def _tag_values(self, flat: FlatType, name: str) -> tuple[ir.Literal, ...]:
        member = flat.get(name)
        return self.literals(member.type) if member is not None and not member.optional else ()
