"""The overlay: facts that schema.ts cannot express, from `schema/overlay.toml`.

An entry has a pointer, the expected value there and the new value. If upstream no longer matches `expected`,
generation stops, and the entry has to be compared with the specification again. Pointers are

    Type.member             the member in TypeScript; empty if there is none
    Type.member#default     the value that the specification gives to an absent required member
    Type#closed             the union accepts no other members; expected is the member that distinguishes them
    Type.member#closed      the same for a union that is the type of a member
    Type#was                the name of the same type in the revision before
    method#capability       the capability that the method needs, of the receiver, or of the sender for list changes;
                            expected is the one that the method's name implies, new may be "" for none
    method#alternate        a further result type
    Type#sender             the side, `client` or `server`, that sends a message which no union lists, in an extension
    method#name_param       the parameter that the Mcp-Name header repeats; new may be "" for none

and refer to types after `hoist`, in which inline objects have names. A union whose members are distinguished by their
`type` is open unless an entry closes it, as MCP has it: it gets a further member that keeps unknown objects unchanged. Unions of other
schemas are open only if that is asked for.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from mcprev_codegen import ir
from mcprev_codegen.errors import SchemaError
from mcprev_codegen.facts.overlay_file import FACETS, OverlayEntry, Problems
from mcprev_codegen.ir import Json
from mcprev_codegen.resolve import Schema
from mcprev_codegen.typescript import parse_fragment, print_inline, print_member

_OPEN_BY: Final = "type"


@dataclass(slots=True)
class OverlayFacts:
    """The facts of the overlay that are not shapes of types, by pointer without the facet."""

    default: dict[str, Json] = field(default_factory=dict[str, Json])
    closed: dict[str, str] = field(default_factory=dict[str, str])
    open: frozenset[str] = frozenset()
    """The open unions, as `Type` or `Type.member`."""
    was: dict[str, str] = field(default_factory=dict[str, str])
    capability: dict[str, str] = field(default_factory=dict[str, str])
    alternate: dict[str, str] = field(default_factory=dict[str, str])
    name_param: dict[str, str] = field(default_factory=dict[str, str])
    sender: dict[str, str] = field(default_factory=dict[str, str])
    patched: list[str] = field(default_factory=list[str])
    """The members that an entry replaced or added, as `Type.member`."""
    entries: dict[str, OverlayEntry] = field(default_factory=dict[str, OverlayEntry])
    """The entry of each pointer with a facet."""

    def include(self, base: OverlayFacts, types: Collection[str]) -> None:
        """Add the facts about types that an extension imports, which are those of the revision `base` is of."""

        def is_known(place: str) -> bool:
            return place.partition(".")[0] in types

        self.default |= {place: value for place, value in base.default.items() if is_known(place)}
        self.closed |= {place: by for place, by in base.closed.items() if is_known(place)}
        self.open = (self.open | frozenset(filter(is_known, base.open))) - self.closed.keys()


def apply_overlay(
    schema: Schema,
    entries: Sequence[OverlayEntry],
    problems: Problems,
    *,
    may_be_open: Callable[[ir.Decl], bool] = lambda _: True,
) -> tuple[Schema, OverlayFacts]:
    """Return the hoisted schema with the entries of a revision applied, and the facts; what does not fit is a problem.

    `may_be_open` says of a declaration whether its unions follow MCP's rule.
    """
    facts = OverlayFacts()
    for entry in entries:
        try:
            for pointer in entry.pointers if entry.holds_for(problems.revision) else ():
                try:
                    schema = _apply_one(schema, entry, pointer, facts)
                except SchemaError as error:
                    problems.add(entry, error.message)
        except SchemaError as error:
            problems.found.append(error)
    facts.open = frozenset(_open_unions(schema, may_be_open)) - facts.closed.keys()
    return schema, facts


def _open_unions(schema: Schema, may_be_open: Callable[[ir.Decl], bool]) -> Iterator[str]:
    """Yield the unions of objects that are distinguished by `type`, as `Type` or `Type.member`."""
    for name, decl in schema.types.items():
        if not may_be_open(decl):
            continue
        if isinstance(decl, ir.Alias):
            places = {name: decl.type}
        else:
            places = {f"{name}.{f.name}": f.type for f in decl.fields}
        for place, type_ in places.items():
            inner = type_.item if isinstance(type_, ir.Array) else type_
            if isinstance(inner, ir.Union) and _tag(schema, inner) == _OPEN_BY:
                yield place


def _tag(schema: Schema, type_: ir.TypeExpr) -> str | None:
    found = schema.discriminator(type_.item if isinstance(type_, ir.Array) else type_)
    return found.property if found else None


def _apply_one(schema: Schema, entry: OverlayEntry, pointer: str, facts: OverlayFacts) -> Schema:
    place, _, facet = pointer.partition("#")
    if not facet:
        patched = _patch(schema, entry, place)
        facts.patched.append(place)
        return patched
    if facet not in FACETS:
        raise entry.fail(f"unknown facet '#{facet}'; known are {', '.join(sorted(FACETS))}")
    table: dict[str, Json] = getattr(facts, facet)
    if place in table:
        raise entry.fail(f"'{pointer}' has two entries for one revision")
    found = _schema_value(schema, place, facet)
    # The method table compares the expected capability, which depends on more than the method's name.
    if found != ("" if facet == "capability" else entry.expected):
        raise outdated(entry, pointer, found)
    table[place] = entry.new
    facts.entries[pointer] = entry
    return schema


def _schema_value(schema: Schema, place: str, facet: str) -> Json:
    """Return the schema's value for a facet: the text of a type, or whether a method exists."""
    if facet in ("capability", "alternate", "name_param"):
        literal = ir.Lit(place)
        named = (d for d in schema.types.values() if isinstance(d, ir.Interface))
        has = any(f.name == "method" and f.type == literal for d in named for f in d.fields)
        return "" if has else "no such method"
    type_name, _, member = place.partition(".")
    decl = schema.types.get(type_name)
    if decl is None:
        return "no such type"
    if facet == "sender":
        return ""
    if not member:
        if facet == "closed":
            return _tag(schema, ir.Ref(type_name)) or ""
        return print_inline(decl.type) if isinstance(decl, ir.Alias) else "interface"
    found = schema.flat(type_name).get(member)
    if found is None:
        return "no such member"
    return _tag(schema, found.type) or "" if facet == "closed" else print_inline(found.type)


def outdated(entry: OverlayEntry, pointer: str, found: Json) -> SchemaError:
    """Return the error for an entry whose expected value differs from the schema."""
    shown = json.dumps(found, ensure_ascii=False) if found != "" else "nothing"
    expected = json.dumps(entry.expected, ensure_ascii=False) if entry.expected != "" else "nothing"
    return entry.fail(
        f"'{pointer}' no longer matches: the schema has {shown}, the entry expects {expected}; read the "
        f"specification again, then correct the entry, or end it with `until` and add another with `since`"
    )


def _patch(schema: Schema, entry: OverlayEntry, place: str) -> Schema:
    type_name, _, member = place.partition(".")
    decl = schema.types.get(type_name)
    if decl is None:
        raise outdated(entry, place, "no such type")
    new = _fragment(entry, entry.new if member else f"_: {entry.new};")
    expected = _fragment(entry, entry.expected if member else f"_: {entry.expected};")
    for name in ir.references(new):
        if name not in schema.types:
            raise entry.fail(f"'{name}' is not declared in this revision")
    if not member:
        if isinstance(decl, ir.Interface):
            raise outdated(entry, place, "an interface")
        if ir.contract(ir.Module((decl,))).decls[0] != replace(decl, doc=ir.NO_DOC, type=expected.type):
            raise outdated(entry, place, print_inline(decl.type))
        return _with_declaration(schema, replace(decl, type=new.type))
    found = schema.flat(type_name).get(member) if schema.is_object(ir.Ref(type_name)) else None
    if isinstance(decl, ir.Alias) or (found is None) != (entry.expected == ""):
        raise outdated(entry, place, print_member(found) if found else "")
    if found and (found.type, found.optional) != (expected.type, expected.optional):
        raise outdated(entry, place, print_member(found))
    return _with_declaration(schema, replace(decl, fields=tuple(_members(decl, new, found))))


def _members(decl: ir.Interface, new: ir.Field, found: ir.Field | None) -> Iterator[ir.Field]:
    """Yield the members of an interface with `new` in place of `found`; first if it is new or inherited."""
    if found:
        new = replace(new, doc=found.doc, tags=found.tags)
    if all(f.name != new.name for f in decl.fields):
        yield new
    for f in decl.fields:
        yield new if f.name == new.name else f


def _with_declaration(schema: Schema, decl: ir.Decl) -> Schema:
    decls = tuple(decl if d.name == decl.name else d for d in schema.module.decls)
    return replace(schema, module=ir.Module(decls))


def _fragment(entry: OverlayEntry, text: Json) -> ir.Field:
    """Return a member parsed from TypeScript, in which `integer` is allowed; a placeholder if the text is empty."""
    if not text:
        return ir.Field("", ir.Prim("unknown"))
    try:
        member = parse_fragment(str(text), str(entry.table.path))
    except SchemaError as error:
        raise entry.fail(f"this is not a member in TypeScript: {error.message}") from None
    return ir.map_nodes(member, lambda n: ir.Prim("integer") if n == ir.Ref("integer") else n)


def with_descriptions(facts: OverlayFacts, texts: Mapping[str, str], schema: Schema) -> Schema:
    """Return the schema with the shared description for each member that the overlay added."""

    def describe(node: ir.Node) -> ir.Node:
        if isinstance(node, ir.Field) and node.doc.text is None and node.name in names:
            return replace(node, doc=ir.Doc(text=texts.get(node.name)))
        return node

    names = {re.sub(r"^.*?\.", "", place) for place in facts.patched}
    return replace(schema, module=ir.map_nodes(schema.module, describe))
