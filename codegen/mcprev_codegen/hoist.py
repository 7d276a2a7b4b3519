"""Gives every inline object a name of its own, so that each object of the wire is one class.

`CallToolRequest.params` becomes `CallToolRequestParams`, the items of `X.oneOf` become `XOneOf`: the path,
in PascalCase. Later revisions name many of the same objects this way themselves, so one shape tends to have
one name in every revision. Aliases of objects and intersections become interfaces: `A & { x: T }` extends A and declares x.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from mcprev_codegen import ir
from mcprev_codegen.naming import pascal_case
from mcprev_codegen.resolve import Schema


@dataclass
class _Hoister:
    schema: Schema
    added: list[ir.Interface] = field(default_factory=list[ir.Interface])
    names: set[str] = field(default_factory=set[str])

    def declaration(self, decl: ir.Decl) -> ir.Decl:
        match decl:
            case ir.Const():
                return decl
            case ir.Interface():
                return replace(
                    decl, fields=self._fields(decl.fields, decl), index=self._index(decl.index, decl)
                )
            case ir.Alias(type=ir.Intersection() as type_):
                return self._interface(type_, decl.name, decl)
            case ir.Alias(type=ir.Obj(fields) as type_) if fields:
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
        match type_:
            case ir.Obj(fields) if fields:
                return self._add(type_, name, owner)
            case ir.Intersection():
                return self._add(type_, name, owner)
            case ir.Array(item):
                return ir.Array(self._type(item, name, owner))
            case ir.Union(members):
                return ir.Union(tuple(self._type(m, name, owner) for m in members))
            case ir.Record(value):
                return ir.Record(self._type(value, name, owner))
            case ir.Obj((), ir.IndexSig() as index):
                return ir.Obj((), replace(index, value=self._type(index.value, name, owner)))
            case _:
                return type_

    def _add(self, type_: ir.Obj | ir.Intersection, name: str, owner: ir.Decl) -> ir.Ref:
        if name in self.schema.types or name in self.names:
            raise self.schema.fail(
                owner, f"the inline object here would be called '{name}', a name already taken"
            )
        self.names.add(name)
        place = len(self.added)
        self.added.insert(place, self._interface(type_, name, owner))
        return ir.Ref(name)

    def _interface(self, type_: ir.Obj | ir.Intersection, name: str, owner: ir.Decl) -> ir.Interface:
        parts = type_.members if isinstance(type_, ir.Intersection) else (type_,)
        bases = tuple(p for p in parts if isinstance(p, ir.Ref | ir.Omit))
        named = ir.Interface(name, bases, tags=owner.tags, doc=owner.doc, span=owner.span)
        if name != owner.name:
            named = replace(named, tags=ir.NO_TAGS)
        fields: tuple[ir.Field, ...] = ()
        index: ir.IndexSig | None = None
        for part in parts:
            if isinstance(part, ir.Obj):
                fields += self._fields(part.fields, named)
                index = index or self._index(part.index, named)
            elif part not in bases:
                raise self.schema.fail(owner, f"'{name}' intersects something that is not an object")
        return replace(named, fields=fields, index=index)


def hoist(schema: Schema) -> Schema:
    """The same schema with every inline object declared, right before the declaration that uses it.

    Raises `SchemaError` when a path's name is taken or an intersection holds something else than objects.
    """
    hoister = _Hoister(schema)
    decls: list[ir.Decl] = []
    for decl in schema.module.decls:
        hoister.added.clear()
        hoisted = hoister.declaration(decl)
        decls += [*hoister.added, hoisted]
    return replace(schema, module=ir.Module(tuple(decls)))
