"""One side of a comparison: a revision's hoisted schema, with the names and paths of the declared one.

Comparisons use the schema as declared, without the overlay, so that they agree with upstream's own schema.json. The
overlay only supplies defaults, added members and renames.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from mcprev_codegen import ir
from mcprev_codegen.diff.changes import METHOD_PREFIX, Place
from mcprev_codegen.facts import LISTING_UNIONS, Revision, Side
from mcprev_codegen.resolve import FlatType, Schema
from mcprev_codegen.support import Transport
from mcprev_codegen.typescript import print_inline


@dataclass(frozen=True, eq=False)
class View:
    """A revision as the comparison uses it."""

    revision: Revision

    @cached_property
    def schema(self) -> Schema:
        """The schema in which every object has a name."""
        return self.revision.hoisted

    @cached_property
    def has_prose(self) -> bool:
        """Whether the schema has upstream's prose; contracts have none, and descriptions of pins are our own."""
        nodes = ir.walk(self.revision.declared.module)
        docs = (node.doc for node in nodes if isinstance(node, ir.Interface | ir.Alias | ir.Field))
        return self.revision.pin is None and any(doc.text or doc.notes or doc.tags for doc in docs)

    @cached_property
    def _owners(self) -> Mapping[str, tuple[str, str]]:
        """The place of each inline object: the name of its owner and the member, `*` for an index signature."""
        found: dict[str, tuple[str, str]] = {}
        for name, decl in self.schema.types.items():
            parts: list[tuple[str, ir.Node]] = []
            if isinstance(decl, ir.Interface):
                parts += [(f.name, f.type) for f in decl.fields]
                parts += [("*", decl.index)] if decl.index else []
            else:
                parts.append(("*", decl.type))
            for member, node in parts:
                found |= {ref: (name, member) for ref in ir.references(node) if self.is_inline(ref)}
        return found

    def is_inline(self, name: str) -> bool:
        """Return whether an object is inline in the source."""
        return name in self.schema.types and not self.declares(name)

    def declares(self, name: str) -> bool:
        """Return whether the source declares a type of this name; that of an extension, or of the revision it imports from."""
        base = self.revision.base
        if (
            base is not None
            and name in self.schema.types
            and not self.revision.is_own(self.schema.types[name])
        ):
            return name in base.declared.types
        return name in self.revision.declared.types

    def path(self, name: str) -> str:
        """Return the name of a declared type, or the path of an inline object, such as `Tool.inputSchema`."""
        if not self.is_inline(name):
            return name
        owner, member = self._owners[name]
        return f"{self.path(owner)}.{member}"

    def inheritors(self, name: str) -> tuple[str, ...]:
        """Return the declared types that inherit the member that holds an inline object."""
        if not self.is_inline(name):
            return ()
        owner, member = self._owners[name]
        if self.is_inline(owner):
            return self.inheritors(owner)
        return tuple(name for name in self._inheriting.get((owner, member), ()) if name != owner)

    @cached_property
    def _inheriting(self) -> Mapping[tuple[str, str], list[str]]:
        """The declared types that have a member, by the type that declares it and its name."""
        found: dict[tuple[str, str], list[str]] = {}
        for name in filter(self.is_object, self.revision.declared.types):
            for member in self.schema.flat(name).fields:
                found.setdefault((member.declared_in, member.name), []).append(name)
        return found

    def is_object(self, name: str) -> bool:
        """Return whether a type is declared as an object, not as an alias."""
        return isinstance(self.schema.types.get(name), ir.Interface)

    def flat_object(self, type_: ir.TypeExpr) -> FlatType | None:
        """Return a type as an object with members and index signature; None if it is not a single object."""
        match type_:
            case ir.Prim("object"):
                return FlatType((), ir.IndexSig("key", ir.Prim("unknown")), own_index=True)
            case ir.Ref() | ir.Obj() | ir.Record() | ir.Intersection() | ir.Derived():
                return self.schema.flatten(type_)
            case ir.Prim() | ir.Lit() | ir.ConstRef() | ir.Array() | ir.Union() | ir.Tuple() | ir.Template():
                return None

    def text(self, type_: ir.TypeExpr) -> str:
        """Return a type as in the source, on one line: inline objects inline."""
        return print_inline(self.inlined(type_))

    def stable(self, type_: ir.TypeExpr) -> str:
        """Return the same text with the members of unions and objects in a fixed order."""
        return print_inline(ir.map_nodes(self.inlined(type_), _sorted))

    def inlined(self, type_: ir.TypeExpr) -> ir.TypeExpr:
        """Return a type with every inline object in place of its hoisted name."""

        def expand(node: ir.Node) -> ir.Node:
            if isinstance(node, ir.Ref) and self.is_inline(node.name):
                decl = self.schema.types[node.name]
                if isinstance(decl, ir.Interface):
                    inline = ir.Obj(tuple(self._bare(f) for f in decl.fields), decl.index)
                    parts = (*decl.bases, inline) if decl.fields or decl.index else decl.bases
                    return ir.Intersection(parts) if len(parts) > 1 else (*parts, inline)[0]
            return node

        return ir.map_nodes(type_, expand)

    def _bare(self, member: ir.Field) -> ir.Field:
        return ir.Field(member.name, self.inlined(member.type), member.optional)

    def member(self, member: ir.Field, path: str) -> Place:
        """Return a member as one side of a change: `name?: Type`."""
        sign = "?" if member.optional else ""
        text, stable = self.text(member.type), self.stable(member.type)
        return Place(path, f"{member.name}{sign}: {text}", f"{sign}: {stable}", member.span)

    def type_place(self, type_: ir.TypeExpr, path: str, span: ir.Span | None) -> Place:
        """Return a type as one side of a change."""
        return Place(path, self.text(type_), self.stable(type_), span)

    def decl_place(self, name: str, text: str) -> Place:
        """Return a whole declaration as one side of a change."""
        return Place(self.path(name), text, text, self.schema.types[name].span)

    def effective(self, member: ir.Field) -> ir.TypeExpr:
        """Return a member's type with its tags applied."""
        type_ = ir.stated_type(member.type, member.tags)
        null = ir.Prim("null")
        if member.tags.nullable and null not in [self.schema.follow(m) for m in self.schema.members(type_)]:
            return ir.Union((*self.schema.members(type_), null))
        return type_

    @cached_property
    def uses(self) -> Mapping[str, frozenset[tuple[str, str]]]:
        """The uses of each type: the type or method that uses it, and as what; `LISTING_UNIONS` excepted."""
        found: dict[str, set[tuple[str, str]]] = {name: set() for name in self.schema.types}

        def use(owner: str, what: str, node: ir.Node) -> None:
            for name in ir.references(node):
                found[name].add((owner, what))

        for name, decl in self.schema.types.items():
            if isinstance(decl, ir.Alias):
                if name not in LISTING_UNIONS:
                    use(name, "*", decl.type)
                continue
            for base in decl.bases:
                use(name, "extends", base)
            flat = self.schema.flat(name)
            for member in (f.field for f in flat.fields):
                use(name, member.name, member.type)
            if flat.index:
                use(name, "*", flat.index)
        for method in self.revision.methods.values():
            owner = f"{METHOD_PREFIX}{method.method}"
            use(owner, "message", ir.Ref(method.type))
            if method.params:
                use(owner, "params", ir.Ref(method.params))
            for result in method.results:
                use(owner, "result", ir.Ref(result))
        return {name: frozenset(places) for name, places in found.items()}

    @cached_property
    def message_types(self) -> Mapping[str, Transport]:
        """The message types, each with its transport."""
        return {m.type: m.transport for m in self.revision.methods.values()}

    def is_message_base(self, name: str) -> bool:
        """Return whether a type is a base of messages: its `method` is any string."""
        if not self.is_object(name) or name in self.message_types:
            return False
        method = self.schema.flat(name).get("method")
        return method is not None and method.type == ir.Prim("string")

    def transport(self, name: str) -> Transport | None:
        """Return the transport of a message type; None for a type that is no message."""
        return Transport.JSONRPC if self.is_message_base(name) else self.message_types.get(name)

    @cached_property
    def _reached(self) -> Mapping[str, frozenset[str]]:
        types = self.schema.types
        found: dict[str, set[str]] = {name: set() for name in types}
        for method in self.revision.methods.values():
            names = [name for name in (method.type, *method.results) if name in types]
            for name in ir.reachable(names, self.schema.references.__getitem__):
                found[name].add(method.method)
        return {name: frozenset(methods) for name, methods in found.items()}

    def reached_by(self, name: str) -> frozenset[str]:
        """Return the methods whose messages or results contain a type."""
        return self._reached.get(name, frozenset())

    def senders(self, name: str) -> frozenset[Side]:
        """Return the senders of a type; in a schema without messages either side may send any of them."""
        if not self.revision.methods:
            return frozenset(Side)
        return self.revision.senders.get(name, frozenset())


def _sorted(node: ir.Node) -> ir.Node:
    match node:
        case ir.Union(members):
            return ir.Union(tuple(sorted(members, key=repr)))
        case ir.Intersection(members):
            return ir.Intersection(tuple(sorted(members, key=repr)))
        case ir.Obj(fields, index):
            return ir.Obj(tuple(sorted(fields, key=lambda f: f.name)), index)
        case _:
            return node
