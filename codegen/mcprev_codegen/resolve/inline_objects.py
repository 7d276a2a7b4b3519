"""Gives every inline object a name, so that each object on the wire is one class.

The name is the path in PascalCase: `CallToolRequest.params` becomes `CallToolRequestParams`, the items of `X.oneOf`
become `XOneOf`. Later revisions name many of these objects in the same way, so most objects have one name in every
revision. Several objects in one union get the value of a literal member that distinguishes them, or a number; a name that another type has gets the next
free number, from 2 on. Aliases
of objects and intersections become interfaces: `A & { x: T }` extends A and declares x.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from mcprev_codegen import ir
from mcprev_codegen.ir import pascal_case
from mcprev_codegen.resolve.schema import Schema


@dataclass
class _Hoister:
    schema: Schema
    added: list[ir.Interface] = field(default_factory=list[ir.Interface])
    names: set[str] = field(default_factory=set[str])
    numbers: Counter[str] = field(default_factory=Counter[str])
    """How often each name was taken."""

    def declaration(self, decl: ir.Decl) -> ir.Decl:
        match decl:
            case ir.Const():
                return decl
            case ir.Interface():
                return replace(
                    decl, fields=self._fields(decl.fields, decl), index=self._index(decl.index, decl)
                )
            case ir.Alias(parameter=True, bound=bound):
                type_ = self._type(decl.type, f"{decl.name}Default", decl)
                return replace(decl, type=type_, bound=None if bound is None or _is_inline(bound) else bound)
            case ir.Alias(type=(ir.Obj((_, *_)) | ir.Intersection() | ir.Derived()) as type_):
                return self._interface(type_, decl.name, decl)
            case ir.Alias():
                return replace(decl, type=self._type(decl.type, decl.name, decl))

    def _fields(self, fields: tuple[ir.Field, ...], owner: ir.Decl) -> tuple[ir.Field, ...]:
        return tuple(
            replace(f, type=self._type(f.type, owner.name + pascal_case(f.name), replace(owner, doc=f.doc)))
            for f in fields
        )

    def _index(self, index: ir.IndexSig | None, owner: ir.Decl) -> ir.IndexSig | None:
        return index and replace(index, value=self._type(index.value, owner.name + "Value", owner))

    def _type(self, type_: ir.TypeExpr, name: str, owner: ir.Decl) -> ir.TypeExpr:
        inner = f"{name}Item" if name == owner.name else name
        match type_:
            case ir.Obj((_, *_)) | ir.Intersection() | ir.Derived():
                return self._add(type_, name, owner)
            case ir.Array(item):
                return ir.Array(self._type(item, inner, owner))
            case ir.Union(members):
                names = self._names(members, name, owner)
                return ir.Union(tuple(self._type(m, n, owner) for m, n in zip(members, names, strict=True)))
            case ir.Tuple(_, rest):
                names = self._names(type_.parts, inner, owner)
                parts = [self._type(i, n, owner) for i, n in zip(type_.parts, names, strict=True)]
                return ir.Tuple.of(parts, rest=rest is not None)
            case ir.Record(value):
                return ir.Record(self._type(value, inner, owner))
            case ir.Obj((), ir.IndexSig() as index):
                return ir.Obj((), replace(index, value=self._type(index.value, inner, owner)))
            case ir.Prim() | ir.Lit() | ir.ConstRef() | ir.Ref() | ir.Obj() | ir.Template():
                return type_

    def _names(self, members: tuple[ir.TypeExpr, ...], name: str, owner: ir.Decl) -> list[str]:
        """Return a name for the inline object of each member of a union or tuple."""
        inline = [member for member in members if _is_inline(member)]
        if len(inline) < 2:
            return [f"{name}Object" if name == owner.name else name] * len(members)
        endings = iter(self._endings([_element(member) for member in inline]))
        return [name + next(endings) if _is_inline(member) else name for member in members]

    def _endings(self, objects: Sequence[ir.TypeExpr]) -> list[str]:
        """Return the suffixes of several inline objects: the values of a distinguishing literal, else numbers."""
        found = [o.fields if isinstance(o, ir.Obj) else () for o in objects]
        for candidate in found[0]:
            values = [
                self.schema.literal(f.type) for fields in found for f in fields if f.name == candidate.name
            ]
            endings = [pascal_case(str(value)) for value in values if isinstance(value, str)]
            if len(endings) == len(set(endings)) == len(objects) and all(endings):
                return endings
        return [str(number) for number in range(1, len(objects) + 1)]

    def _add(self, type_: ir.Obj | ir.Intersection | ir.Derived, name: str, owner: ir.Decl) -> ir.Ref:
        name = self._free(name)
        self.names.add(name)
        place = len(self.added)
        self.added.insert(place, self._interface(type_, name, owner))
        return ir.Ref(name)

    def _free(self, name: str) -> str:
        """Return a name that no type has: this one, or else with the next number behind it, from 2 on."""
        found = name
        while found in self.schema.types or found in self.names:
            self.numbers[name] += 1
            found = f"{name}{self.numbers[name] + 1}"
        return found

    def _interface(
        self, type_: ir.Obj | ir.Intersection | ir.Derived, name: str, owner: ir.Decl
    ) -> ir.Interface:
        members = type_.members if isinstance(type_, ir.Intersection) else (type_,)
        parts = tuple(map(_as_object, members))
        maps = {p: self.schema.flatten(p, owner.name).index for p in parts if self.schema.is_map(p)}
        bases = tuple(p for p in parts if isinstance(p, ir.Ref | ir.Derived) and p not in maps)
        named = ir.Interface(name, bases, tags=owner.tags, doc=owner.doc, span=owner.span)
        if name != owner.name:
            named = replace(named, tags=ir.NO_TAGS)
        fields: dict[str, ir.Field] = {}
        index: ir.IndexSig | None = None
        for part in parts:
            if isinstance(part, ir.Obj):
                fields |= {f.name: f for f in part.fields}
                index = index or part.index
            elif part in maps:
                index = index or maps[part]
            elif part not in bases:
                raise self.schema.fail(
                    owner,
                    f"'{name}' intersects something that is not an object; write out what it stands for",
                )
        if isinstance(type_, ir.Intersection):
            fields |= self.schema.narrowed(type_, owner.name)
            index = self.schema.narrowed_index(type_, bases, owner.name) or index
        return replace(
            named, fields=self._fields(tuple(fields.values()), named), index=self._index(index, named)
        )


def _as_object(type_: ir.TypeExpr) -> ir.TypeExpr:
    """Return a `Record` as an object with an index signature; any other type unchanged."""
    return ir.Obj((), ir.IndexSig("key", type_.value)) if isinstance(type_, ir.Record) else type_


def _element(type_: ir.TypeExpr) -> ir.TypeExpr:
    """Return the item type of an array or map, at any depth; any other type unchanged."""
    match type_:
        case ir.Array(item):
            return _element(item)
        case ir.Record(value) | ir.Obj((), ir.IndexSig(value=value)):
            return _element(value)
        case (
            ir.Prim() | ir.Lit() | ir.ConstRef() | ir.Ref() | ir.Union() | ir.Intersection() | ir.Obj() |
            ir.Derived() | ir.Tuple() | ir.Template()
        ):  # fmt: skip
            return type_


def _is_inline(type_: ir.TypeExpr) -> bool:
    """Return whether a type is an inline object or contains one."""
    match _element(type_):
        case ir.Obj(fields):
            return bool(fields)
        case ir.Union(members):
            return any(map(_is_inline, members))
        case ir.Tuple() as found:
            return any(map(_is_inline, found.parts))
        case ir.Intersection() | ir.Derived():
            return True
        case ir.Prim() | ir.Lit() | ir.ConstRef() | ir.Ref() | ir.Array() | ir.Record() | ir.Template():
            return False


def hoist(schema: Schema) -> Schema:
    """Return the schema with every inline object declared right before the declaration that uses it.

    Raises `SchemaError` if an intersection contains a non-object.
    """
    hoister = _Hoister(schema)
    decls: list[ir.Decl] = []
    for decl in schema.module.decls:
        hoister.added.clear()
        hoisted = hoister.declaration(decl)
        decls += [*hoister.added, hoisted]
    return replace(schema, module=ir.Module(tuple(decls), texts=schema.module.texts))
