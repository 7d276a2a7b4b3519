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
    method#name_param       the parameter that the Mcp-Name header repeats; new may be "" for none

and refer to types after `hoist`, in which inline objects have names. A union whose members are distinguished by their
`type` is open unless an entry closes it: it gets a further member that keeps unknown objects unchanged.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, NotRequired, cast

from pydantic import JsonValue, TypeAdapter
from typing_extensions import TypedDict

from mcprev_codegen import ir, typescript
from mcprev_codegen.errors import InputError, SchemaError, at_line
from mcprev_codegen.ir import Json
from mcprev_codegen.printer import print_inline, print_member
from mcprev_codegen.resolve import Schema
from mcprev_codegen.tables import checked, read_table

OVERLAY_FILE: Final = "overlay.toml"
FACETS: Final = frozenset({"default", "closed", "was", "capability", "alternate", "name_param"})
_OPEN_BY: Final = "type"
_BOUND: Final = re.compile(r"\d{4}-\d{2}-\d{2}|draft")


@dataclass(frozen=True, slots=True)
class OverlayEntry:
    """One entry of the overlay."""

    path: Path
    lines: Sequence[str] = field(repr=False, compare=False)
    line: int
    since: str | None
    until: str | None
    pointers: tuple[str, ...]
    expected: Json
    new: Json
    why: str

    def holds_for(self, revision: str) -> bool:
        """Return whether the entry applies to a revision; a name that is not a date is newer than all dates."""
        for bound in (self.since, self.until):
            if bound is not None and not _BOUND.fullmatch(bound):
                raise self.fail(f"'{bound}' is not a revision: use a date (YYYY-MM-DD) or 'draft'")
        after = self.since is None or age(self.since) <= age(revision)
        return after and (self.until is None or age(revision) <= age(self.until))

    def fail(self, message: str) -> SchemaError:
        """Return an error at this entry's pointer."""
        return at_line(self.path, self.lines, self.line, message)


def age(revision: str) -> tuple[bool, str]:
    """Return the sort key of a revision, oldest first."""
    return not revision[:1].isdigit(), revision


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
    patched: list[str] = field(default_factory=list[str])
    """The members that an entry replaced or added, as `Type.member`."""
    entries: dict[str, OverlayEntry] = field(default_factory=dict[str, OverlayEntry])
    """The entry of each pointer with a facet."""
    errors: list[SchemaError] = field(default_factory=list[SchemaError])
    """The errors of entries that do not fit the schema."""
    revision: str = ""
    based_on: str | None = None
    """The dated revision that a draft is based on; later entries apply to the draft only if they fit."""

    def add_error(self, entry: OverlayEntry, message: str) -> None:
        """Record that an entry does not fit the schema of this revision."""
        if self.based_on is None or entry.since is None or age(entry.since) <= age(self.based_on):
            self.errors.append(entry.fail(f"{self.revision}: {message}"))


def load_overlay(folder: Path) -> tuple[OverlayEntry, ...]:
    """Return every entry of the overlay. Raises `InputError` or `SchemaError` for a malformed entry."""
    path = folder / OVERLAY_FILE
    text, data = read_table(path)
    lines = text.split("\n")
    starts = [n for n, line in enumerate(lines, 1) if line.strip() == "[[entry]]"]
    tables = data.get("entry", [])
    if not isinstance(tables, list) or len(tables := cast("list[dict[str, Any]]", tables)) != len(starts):
        raise InputError(f"{path}: begin each entry with a line that consists of [[entry]]")
    return tuple(_entry(path, lines, start, table) for start, table in zip(starts, tables, strict=True))


class _Table(TypedDict):
    since: NotRequired[str]
    until: NotRequired[str]
    pointer: NotRequired[str]
    pointers: NotRequired[list[str]]
    expected: JsonValue
    new: JsonValue
    why: str


_TABLE: Final = TypeAdapter(_Table)


def _entry(path: Path, lines: Sequence[str], start: int, table: Mapping[str, Any]) -> OverlayEntry:
    line = next((n for n in range(start, len(lines)) if lines[n - 1].startswith("pointer")), start)
    required = {"expected", "new", "why"}
    known = required | {"since", "until", "pointer", "pointers"}
    if wrong := sorted(set(table) - known) + sorted(required - set(table)):
        raise at_line(path, lines, line, f"unknown or missing keys in this entry: {', '.join(wrong)}")
    try:
        checked(_TABLE, table)
        json.dumps(table, allow_nan=False)
    except ValueError as error:
        raise at_line(path, lines, line, str(error)) from None
    pointers: Sequence[str] = table.get("pointers", [table["pointer"]] if "pointer" in table else [])
    if not all(isinstance(table["new"], str) or pointer.endswith("#default") for pointer in pointers):
        raise at_line(path, lines, line, "'new' must be a text")
    if not pointers:
        raise at_line(path, lines, line, "this entry needs 'pointer' or 'pointers'")
    since, until = table.get("since"), table.get("until")
    return OverlayEntry(
        path, lines, line, since, until, tuple(pointers), table["expected"], table["new"], table["why"]
    )


def apply_overlay(
    schema: Schema, entries: Sequence[OverlayEntry], revision: str, *, lenient: bool = False
) -> tuple[Schema, OverlayFacts]:
    """Return the hoisted schema with this revision's entries applied, and the facts.

    Entries that do not fit become errors of the facts; with `lenient`, for files that are not pinned, they are
    ignored.
    """
    version = schema.consts.get("LATEST_PROTOCOL_VERSION")
    drafted = version is not None and not revision[:1].isdigit()
    facts = OverlayFacts(revision=revision, based_on=str(version.value) if version and drafted else None)
    for entry in entries:
        try:
            for pointer in entry.pointers if entry.holds_for(revision) else ():
                try:
                    schema = _apply_one(schema, entry, pointer, facts)
                except SchemaError as error:
                    facts.add_error(entry, error.message)
        except SchemaError as error:
            facts.errors.append(error)
    if lenient:
        facts.errors.clear()
    facts.open = frozenset(_open_unions(schema)) - facts.closed.keys()
    return schema, facts


def overlay_warnings(facts: OverlayFacts) -> Iterator[str]:
    """Yield a warning for each fact that does not fit a file that extends a revision."""
    for error in facts.errors:
        what = error.message.partition(";")[0]
        yield f"a fact from the prose of {facts.revision} is ignored, since the file contradicts it: {what}"


def _open_unions(schema: Schema) -> Iterator[str]:
    """Yield the unions of objects that are distinguished by `type`, as `Type` or `Type.member`."""
    for name, decl in schema.types.items():
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
        if not isinstance(decl, ir.Alias) or ir.contract(ir.Module((decl,))).decls[0] != replace(
            decl, doc=ir.NO_DOC, type=expected.type
        ):
            raise outdated(
                entry, place, print_inline(decl.type) if isinstance(decl, ir.Alias) else "an interface"
            )
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
        member = typescript.parse_fragment(str(text), str(entry.path))
    except SchemaError as error:
        raise entry.fail(f"this is not a TypeScript member: {error.message}") from None
    return ir.map_nodes(member, lambda n: ir.Prim("integer") if n == ir.Ref("integer") else n)


def with_descriptions(facts: OverlayFacts, texts: Mapping[str, str], schema: Schema) -> Schema:
    """Return the schema with the shared description for each member that the overlay added."""

    def describe(node: ir.Node) -> ir.Node:
        if isinstance(node, ir.Field) and node.doc.text is None and node.name in names:
            return replace(node, doc=ir.Doc(text=texts.get(node.name)))
        return node

    names = {re.sub(r"^.*?\.", "", place) for place in facts.patched}
    return replace(schema, module=ir.map_nodes(schema.module, describe))
