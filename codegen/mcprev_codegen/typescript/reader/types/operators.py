"""Evaluates what TypeScript computes from types: keyof, indexed access, mapped types, utility types and templates.

The result is the type as one would write it out. What cannot be written out is refused.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import Final, NoReturn

from tree_sitter import Node

from mcprev_codegen import ir
from mcprev_codegen.typescript.bounds import MAX_DEPTH, MAX_TEMPLATES
from mcprev_codegen.typescript.reader.text.literals import shown_number
from mcprev_codegen.typescript.reader.text.source_file import SourceFile, named_children, node_text
from mcprev_codegen.typescript.reader.types.scope import TypeScope
from mcprev_codegen.typescript.reader.unsupported import NOT_JSON, no_json

_OPTIONAL: Final = (
    "the member is optional, and an absent value is meaningful only as the value of another member; write the type out"
)
UNDEFINED: Final = ir.Prim("undefined")
"""The value of an absent member; it stands only in the type of a member, until the member is read."""
_NULLISH: Final = (ir.Prim("null"), UNDEFINED)
_PLAIN: Final = (ir.Prim("string"), ir.Prim("number"), ir.Prim("null"))
_PLACEHOLDER: Final = re.compile(r"\$\{(\w+)\}")
_OBJECT_UTILITIES: Final = {"Pick": 2, "Omit": 2, "Partial": 1, "Required": 1}
"""The types that derive an object type from another one, with the number of their arguments."""
_CHANGED_STRINGS: Final[Mapping[str, Callable[[str], str]]] = {
    "Uppercase": str.upper,
    "Lowercase": str.lower,
    "Capitalize": lambda text: text[:1].upper() + text[1:],
    "Uncapitalize": lambda text: text[:1].lower() + text[1:],
}
_KNOWN: Final = (
    f"Array<T>, Readonly<T>, Partial<T>, Required<T>, NonNullable<T>, {'<T>, '.join(_CHANGED_STRINGS)}<T>, "
    "Pick<T, Keys>, Omit<T, Keys>, Record<Keys, T>, Exclude<T, U>, Extract<T, U>"
)


class Operators:
    """Evaluates the operators on types in one file."""

    def __init__(
        self,
        file: SourceFile,
        scope: TypeScope,
        read: Callable[[Node], ir.TypeExpr],
        read_member: Callable[[Node], tuple[ir.TypeExpr, bool]],
    ) -> None:
        self._file = file
        self._scope = scope
        self._read = read
        self._read_member = read_member
        """Reads the type of a member, with whether it may be absent."""
        self._members: dict[ir.Ref, Mapping[str, ir.Field] | None] = {}
        """The members of the declared types that were asked for; None while they are being collected."""
        self._never_null: set[ir.Ref] = set()
        """Declared types that are known to have neither null nor any value among theirs."""
        self._collecting = 0

    # -- the parts of a type -------------------------------------------------------------------------

    def alternatives(self, node: Node, type_: ir.TypeExpr) -> Iterator[ir.TypeExpr]:
        """Yield the members of a union, through aliases and enums, each of which is opened once."""
        pending, opened = [type_], set[ir.Ref]()
        while pending:
            found = pending.pop()
            if isinstance(found, ir.Ref) and found in opened:
                continue
            decl = self._scope.opened(node, found) if isinstance(found, ir.Ref) else None
            if isinstance(found, ir.Union):
                self._file.count(node, len(found.members))
                pending += found.members[::-1]
                continue
            if isinstance(found, ir.Ref) and isinstance(decl, ir.Alias):
                opened.add(found)
                pending.append(decl.type)
                continue
            yield found

    def keys(self, node: Node, type_: ir.TypeExpr) -> tuple[str, ...] | None:
        """Return the member names in a type of keys; None for any string."""
        values = [self._key(node, member) for member in self.alternatives(node, type_)]
        keys = [value for value in values if value is not None]
        return tuple(dict.fromkeys(keys)) if len(keys) == len(values) else None

    def _named(self, node: Node, *, literally: bool = False) -> tuple[str, ...]:
        """Return the member names in a type of keys. Raises `SchemaError` for any string, and for an enum if told so."""
        type_ = self._read(node)
        keys = self.keys(node, type_)
        if literally and any(isinstance(t, ir.Lit) and t.of_enum for t in self.alternatives(node, type_)):
            self._refuse_enum(node)
        if keys is None:
            self._file.fail(
                node, "member names are expected here; write string literals, or an alias or enum of them"
            )
        return keys

    def _refuse_enum(self, node: Node) -> NoReturn:
        self._file.fail(node, "enum members are not supported here; write the literals")

    def _key(self, node: Node, type_: ir.TypeExpr) -> str | None:
        if type_ == ir.Prim("string"):
            return None
        if isinstance(type_, ir.Lit) and not isinstance(type_.value, bool):
            key = type_.value if isinstance(type_.value, str) else shown_number(type_.value)
            if key is not None:
                return key
        self._file.fail(
            node, "member names are expected here; write string literals, an alias or enum of them, or string"
        )

    def members(self, node: Node, type_: ir.TypeExpr) -> Mapping[str, ir.Field]:
        """Return the members of an object type, inherited ones included. Raises `SchemaError` for any other type."""
        match type_:
            case ir.Obj(fields, index):
                self._no_index(node, index)
                return {field.name: field for field in fields}
            case ir.Derived(kind, base, keys):
                given = [*self.members(node, base).values()]
                self._file.count(node, len(given))
                return {field.name: field for field in ir.derive(kind, given, None, keys)[0]}
            case ir.Ref():
                return self._declared_members(node, type_)
            case _:
                self._file.fail(node, "the members of this type cannot be determined; write the type out")

    def _declared_members(self, node: Node, reference: ir.Ref) -> Mapping[str, ir.Field]:
        if reference not in self._members:
            if self._collecting == MAX_DEPTH:
                self._file.fail(
                    node, f"more than {MAX_DEPTH} types that extend one another are not supported here"
                )
            self._members[reference] = None
            self._collecting += 1
            try:
                self._members[reference] = self._collected_members(node, reference)
            finally:
                self._collecting -= 1
                if self._members[reference] is None:
                    del self._members[reference]
        members = self._members[reference]
        if members is None:
            self._file.fail(
                node, f"'{reference.name}' has members that are defined in terms of itself; write them out"
            )
        return members

    def _collected_members(self, node: Node, reference: ir.Ref) -> Mapping[str, ir.Field]:
        found: dict[str, ir.Field] = {}
        match self._scope.opened(node, reference):
            case ir.Alias(type=type_):
                found |= self.members(node, type_)
            case ir.Interface(bases=bases, fields=fields, index=index):
                self._no_index(node, index)
                for base in bases:
                    for name, field in self.members(node, base).items():
                        found.setdefault(name, field)
                found |= {field.name: field for field in fields}
            case None:
                self._file.fail(node, f"the members of '{reference.name}' cannot be determined here")
        self._file.count(node, len(found))
        return found

    def index(self, node: Node, type_: ir.TypeExpr) -> ir.IndexSig | None:
        """Return the index signature of an object type, an inherited one included; None if it has none."""
        pending, opened = [type_], set[ir.Ref]()
        while pending:
            match pending.pop():
                case ir.Obj(_, index) if index is not None:
                    return index
                case ir.Record(value):
                    return ir.IndexSig("key", value)
                case ir.Ref() as reference if reference not in opened:
                    opened.add(reference)
                    decl = self._scope.opened(node, reference)
                    if isinstance(decl, ir.Interface):
                        pending += [*decl.bases, ir.Obj((), decl.index)]
                    elif decl is not None:
                        pending.append(decl.type)
                case _:
                    pass
        return None

    def _no_index(self, node: Node, index: ir.IndexSig | None) -> None:
        if index is not None:
            self._file.fail(
                node,
                "this type has an index signature, so its members cannot be determined; write the type out",
            )

    def written_out(self, node: Node, type_: ir.TypeExpr) -> ir.TypeExpr:
        """Return a type that is repeated here. Raises `SchemaError` if that makes the file too large or deep."""
        self._charge(node, type_, 0)
        return type_

    def _charge(self, node: Node, part: ir.Node, depth: int) -> ir.Node:
        if depth == MAX_DEPTH:
            self._file.fail(node, f"types are nested more than {MAX_DEPTH} deep; give the inner ones names")
        self._file.count(node)
        return ir.map_inner(part, lambda inner: self._charge(node, inner, depth + 1))

    # -- operators -----------------------------------------------------------------------------------

    def keyof(self, node: Node) -> ir.TypeExpr:
        """Return `keyof T`: the names of the members of an object type."""
        names = [*self.members(node, self._read(named_children(node)[0]))]
        self._file.count(node, len(names))
        if not names:
            self._file.fail(node, "this keyof type has no values, because the type has no members")
        if any(name.lstrip("-").isdecimal() for name in names):
            self._file.fail(node, "the member names are numbers here; write them as a union of literals")
        return ir.union_of(ir.Lit(name) for name in names)

    def lookup(self, node: Node, *, absent: bool) -> ir.TypeExpr:
        """Return `T["member"]` or `T[number]`; with `absent`, `undefined` may be a part of it."""
        of, key = named_children(node)
        types = [*self.alternatives(of, self._read(of))]
        if node_text(key) == "number":
            items = [part for type_ in types for part in self._items(of, type_)]
            return self.written_out(node, ir.union_of(dict.fromkeys(items)))
        indices = [self.index(of, type_) for type_ in types]
        if all(indices) and self.keys(key, self._read(key)) is None:
            return ir.union_of(dict.fromkeys(index.value for index in indices if index))
        keys = self._named(key)
        fields = [self._member(node, type_, name) for type_ in types for name in keys]
        found = [self.written_out(node, field.type) for field in fields]
        if any(field.optional for field in fields):
            if not absent:
                self._file.fail(node, _OPTIONAL)
            found.append(UNDEFINED)
        return ir.union_of(dict.fromkeys(found))

    def member_type(self, node: Node, type_: ir.TypeExpr, name: str) -> ir.TypeExpr:
        """Return the type of one member, as behind `typeof constant.member`."""
        fields = [self._member(node, part, name) for part in self.alternatives(node, type_)]
        if any(field.optional for field in fields):
            self._file.fail(node, _OPTIONAL)
        return ir.union_of(dict.fromkeys(field.type for field in fields))

    def _member(self, node: Node, type_: ir.TypeExpr, name: str) -> ir.Field:
        members = self.members(node, type_)
        if name not in members:
            self._file.fail(node, f"there is no member '{name}'")
        return members[name]

    def _items(self, node: Node, type_: ir.TypeExpr) -> tuple[ir.TypeExpr, ...]:
        match type_:
            case ir.Array(item):
                return (item,)
            case ir.Tuple():
                return type_.parts
            case _:
                self._file.fail(node, "only an array or tuple has items")

    def mapped(self, node: Node, read_member: Callable[[Node], tuple[ir.TypeExpr, bool]]) -> ir.TypeExpr:
        """Return `{ [K in Keys]: T }` as an object with these members."""
        clause, annotation = named_children(node)
        parameter, source, *renamed = named_children(clause)
        if renamed:
            self._file.unsupported(clause, "with renamed members")
        modifier = annotation.children[0].type.removesuffix(":")
        if source.type == "index_type_query":
            (of,) = named_children(source)
            if self.index(of, self._read(of)) is not None:
                return self._mapped_index(parameter, annotation, read_member)
        given = self._mapped_members(source)
        if given is None:
            return self._mapped_index(parameter, annotation, read_member)
        fields: list[ir.Field] = []
        for name, was_optional in given.items():
            with self._scope.bound({node_text(parameter): ir.Lit(name)}):
                type_, absent = read_member(annotation)
            optional = modifier in ("?", "+?") or (modifier != "-?" and was_optional)
            # `-?` takes `undefined` from the members that had `?`.
            undefined = absent and not (optional or was_optional)
            fields.append(ir.Field(name, type_, optional or undefined, undefined=undefined))
        return ir.Obj(tuple(fields))

    def _mapped_index(
        self, parameter: Node, annotation: Node, read_member: Callable[[Node], tuple[ir.TypeExpr, bool]]
    ) -> ir.TypeExpr:
        with self._scope.bound({node_text(parameter): ir.Prim("string")}):
            return ir.Record(read_member(annotation)[0])

    def _mapped_members(self, source: Node) -> dict[str, bool] | None:
        """Return the names of mapped members, and whether each has `?` in the type that `keyof` names them of."""
        if source.type == "index_type_query":
            (of,) = named_children(source)
            members = self.members(of, self._read(of)).items()
            return {name: field.optional and not field.undefined for name, field in members}
        keys = self.keys(source, self._read(source))
        return None if keys is None else dict.fromkeys(keys, False)

    # -- utility types -------------------------------------------------------------------------------

    def utility(self, node: Node, name: str, args: Sequence[Node]) -> ir.TypeExpr:
        """Return the type that a utility type of TypeScript stands for."""
        match name, len(args):
            case ("Array" | "ReadonlyArray"), 1:
                return ir.Array(self._read(args[0]))
            case "Readonly", 1:
                return self._read(args[0])
            case "Record", 2:
                keys = self.keys(args[0], self._read(args[0]))
                value, absent = self._read_member(args[1])
                if keys is not None:
                    return ir.Obj(tuple(ir.Field(key, value, absent, undefined=absent) for key in keys))
                closed = value == ir.NEVER
                return (
                    ir.Obj((), ir.IndexSig("key", value, absent))
                    if absent and not closed
                    else ir.Record(value)
                )
            case _, count if count == _OBJECT_UTILITIES.get(name):
                keys = self._named(args[1], literally=True) if count == 2 else ()
                return self._derived(node, name, self._read(args[0]), keys)
            case "NonNullable", 1:
                return self._non_nullable(node, self._read_member(args[0])[0])
            case ("Exclude" | "Extract"), 2:
                return self._filtered(node, args, keep=name == "Extract")
            case _, 1 if name in _CHANGED_STRINGS:
                texts = [
                    self._text(args[0], part) for part in self.alternatives(args[0], self._read(args[0]))
                ]
                return ir.union_of(ir.Lit(_CHANGED_STRINGS[name](text)) for text in texts)
            case _:
                if name in NOT_JSON:
                    self._file.fail(node, no_json(name), code=f"values of {name}")
                self._file.fail(
                    node,
                    f"the generic type '{name}' is not supported; supported are {_KNOWN}, and those declared in this file",
                    code="other generic types",
                )

    def _derived(self, node: Node, kind: str, base: ir.TypeExpr, keys: tuple[str, ...]) -> ir.TypeExpr:
        match base:
            case ir.Ref() | ir.Derived():
                return ir.Derived(kind, base, keys)
            case ir.Obj(fields, index):
                return ir.Obj(*ir.derive(kind, fields, index, keys))
            case ir.Record(value):
                index = ir.IndexSig("key", value)
                found = ir.Obj(*ir.derive(kind, (), index, keys))
                return base if found.index is index else found
            case _:
                self._file.fail(
                    node, f"{kind} is only supported for an interface or object; give this type a name"
                )

    def _non_nullable(self, node: Node, type_: ir.TypeExpr) -> ir.TypeExpr:
        """Return a type without null; of the names in it, only those that may be null are written out."""
        kept: list[ir.TypeExpr] = []
        for part in type_.members if isinstance(type_, ir.Union) else (type_,):
            if isinstance(part, ir.Ref) and not self._may_be_null(node, part):
                kept.append(part)
                continue
            parts = [*self.alternatives(node, part)]
            if any(one == ir.Prim("unknown") for one in parts):
                self._file.fail(node, "NonNullable of an unknown value is not supported; write the type out")
            kept += [self.written_out(node, one) for one in parts if one not in _NULLISH]
        if not kept:
            self._file.fail(node, "this type has no values")
        return ir.union_of(dict.fromkeys(kept))

    def _may_be_null(self, node: Node, reference: ir.Ref) -> bool:
        """Return whether null or any value is one of a declared type; what aliases lead to is looked through once."""
        pending: list[ir.TypeExpr] = [reference]
        opened: dict[ir.Ref, None] = {}
        while pending:
            found = pending.pop()
            if isinstance(found, ir.Union):
                pending += found.members
            elif found in (*_NULLISH, ir.Prim("unknown")):
                self._file.count(node, len(opened))
                return True
            elif isinstance(found, ir.Ref) and found not in opened and found not in self._never_null:
                opened[found] = None
                decl = self._scope.opened(node, found)
                pending += [decl.type] if isinstance(decl, ir.Alias) else []
        self._never_null |= opened.keys()
        return False

    def _filtered(self, node: Node, args: Sequence[Node], *, keep: bool) -> ir.TypeExpr:
        """Return the members of a union of plain values that another one has, or that it has not."""
        types, of = ([*self.alternatives(arg, self._read(arg))] for arg in args)
        if any(isinstance(part, ir.Ref | ir.Obj) for part in types):
            return self._filtered_objects(node, types, of, keep=keep)
        for arg, parts in zip(args, (types, of), strict=True):
            for part in parts:
                if not isinstance(part, ir.Lit) and part not in _PLAIN:
                    self._file.fail(
                        arg, "only literals, string, number and null are supported here; write the union out"
                    )
        literals = [part for part in (*types, *of) if isinstance(part, ir.Lit)]
        if len({(part, part.of_enum) for part in literals}) > len({*literals}):
            self._refuse_enum(node)
        wanted = {_identity(part) for part in of}
        kept = [part for part in types if any(kind in wanted for kind in _kinds(part)) == keep]
        if not kept:
            self._file.fail(node, "this type has no values")
        return ir.union_of(dict.fromkeys(kept))

    def _filtered_objects(
        self, node: Node, types: Sequence[ir.TypeExpr], of: Sequence[ir.TypeExpr], *, keep: bool
    ) -> ir.TypeExpr:
        """Return the members of a union of objects that extend another type, or those that do not."""
        kept = [one for one in types if any(self._extends(node, one, other) for other in of) == keep]
        if not kept:
            self._file.fail(node, "this type has no values")
        return ir.union_of(dict.fromkeys(kept))

    def _extends(self, node: Node, type_: ir.TypeExpr, other: ir.TypeExpr) -> bool:
        """Return whether a type extends another one. Raises `SchemaError` if it cannot be told."""
        if type_ == other or self._inherits(node, type_, other, 0):
            return True
        objects = (ir.Ref, ir.Obj, ir.Derived)
        if not isinstance(type_, objects) or not isinstance(other, objects):
            if isinstance(type_, objects) != isinstance(other, objects):
                return False
            return any(kind == _identity(other) for kind in _kinds(type_))
        if self.index(node, type_) or self.index(node, other):
            self._file.fail(
                node, "whether one of these types extends another cannot be told; write the union out"
            )
        mine, theirs = self.members(node, type_), self.members(node, other)
        same = True
        for name, wanted in theirs.items():
            found = mine.get(name)
            if found is None or (found.optional and not wanted.optional):
                if not wanted.optional:
                    return False
                continue
            parts, accepted = (set(self.alternatives(node, f.type)) for f in (found, wanted))
            if all(isinstance(part, ir.Lit) for part in parts | accepted) and not parts <= accepted:
                return False
            same = same and all(self._is_within(node, part, accepted) for part in parts)
        if not same:
            self._file.fail(
                node, "whether one of these types extends another cannot be told; write the union out"
            )
        return True

    def _is_within(self, node: Node, part: ir.TypeExpr, accepted: Collection[ir.TypeExpr]) -> bool:
        """Return whether all values of a type are known to be some of others."""
        if any(one in ir.ANYTHING or self._inherits(node, part, one, 0) for one in accepted):
            return True
        if isinstance(part, ir.Array):
            items = [
                one
                for other in accepted
                if isinstance(other, ir.Array)
                for one in self.alternatives(node, other.item)
            ]
            return all(
                any(self._inherits(node, one, item, 0) for item in items)
                for one in self.alternatives(node, part.item)
            )
        return any(kind in accepted for kind in _kinds(part))

    def _inherits(self, node: Node, type_: ir.TypeExpr, other: ir.TypeExpr, depth: int) -> bool:
        if type_ == other:
            return True
        if not isinstance(type_, ir.Ref) or depth == MAX_DEPTH:
            return False
        decl = self._scope.opened(node, type_)
        bases = decl.bases if isinstance(decl, ir.Interface) else ()
        return any(self._inherits(node, base, other, depth + 1) for base in bases)

    def _text(self, node: Node, type_: ir.TypeExpr) -> str:
        if isinstance(type_, ir.Lit) and isinstance(type_.value, str) and type_.value[:1] <= "\uffff":
            return type_.value
        self._file.fail(node, "only string literals are supported here; write the result out")

    # -- template literal types ----------------------------------------------------------------------

    def template(self, node: Node) -> ir.TypeExpr:
        """Return a template literal type; one with unions in its placeholders is the union of all their combinations."""
        whole, start = node.text or b"", 1
        parts: list[list[tuple[str, ...]]] = []
        for part in (child for child in node.children if child.type == "template_type"):
            first, last = part.start_byte - node.start_byte, part.end_byte - node.start_byte
            parts.append([(whole[start:first].decode().replace("\r\n", "\n"),)])
            (inner,) = named_children(part)
            parts.append([self._pieces(part, one) for one in self.alternatives(part, self._read(inner))])
            start = last
        parts.append([(whole[start:-1].decode().replace("\r\n", "\n"),)])
        if all(len(one) == 1 and len(one[0]) == 3 and not one[0][0] + one[0][2] for one in parts[1::2]):
            texts = (one[0][0] if n % 2 == 0 else f"${{{one[0][1]}}}" for n, one in enumerate(parts))
            return ir.Template(self._file.short(node, "".join(texts)))  # as it is written
        count = math.prod(map(len, parts))
        if count > MAX_TEMPLATES:
            self._file.fail(node, f"this stands for more than {MAX_TEMPLATES} templates; use ${{string}}")
        self._file.count(node, count * len(parts))
        return ir.union_of(dict.fromkeys(self._combined(node, pieces) for pieces in product(*parts)))

    def _pieces(self, node: Node, type_: ir.TypeExpr) -> tuple[str, ...]:
        """Return a type in a placeholder as texts, with the names of simple placeholders between them."""
        match type_:
            case ir.Prim(name) if name in ir.PLACEHOLDERS:
                return "", name, ""
            case ir.Lit(bool() as value):
                return (str(value).lower(),)
            case ir.Lit(str() as text):
                return (text,)
            case ir.Lit(int() | float() as value) if digits := shown_number(value):
                return (digits,)
            case ir.Template(text):
                return tuple(_PLACEHOLDER.split(text))
            case _:
                shown = ", ".join(f"${{{name}}}" for name in ir.PLACEHOLDERS)
                self._file.fail(
                    node,
                    f"only {shown}, literals and unions of them are supported in a template literal type; write string",
                )

    def _combined(self, node: Node, pieces: Iterable[tuple[str, ...]]) -> ir.Lit | ir.Template:
        texts = [""]
        for piece in pieces:
            texts[-1:] = [texts[-1] + piece[0], *piece[1:]]
        if len(texts) == 1:
            return ir.Lit(self._file.short(node, texts[0]))
        if any(mark in text for text in texts[::2] for mark in ("`", "\\", "${", "\r")):
            self._file.fail(
                node,
                "backticks, backslashes and ${ are not supported in a template literal type; write string with a `@pattern`",
            )
        shown = (f"${{{text}}}" if n % 2 else text for n, text in enumerate(texts))
        return ir.Template(self._file.short(node, "".join(shown)))


def _kinds(part: ir.TypeExpr) -> tuple[object, ...]:
    """Return the identities of a plain type and of the type of all values of its kind."""
    match part:
        case ir.Lit(bool()):
            return (_identity(part),)
        case ir.Lit(str()):
            return _identity(part), ir.Prim("string")
        case ir.Lit():
            return _identity(part), ir.Prim("number")
        case _:
            return (part,)


def _identity(part: ir.TypeExpr) -> object:
    """Return what is equal for equal types; Python takes `1` and `true` as equal."""
    return (part.value, isinstance(part.value, bool)) if isinstance(part, ir.Lit) else part
