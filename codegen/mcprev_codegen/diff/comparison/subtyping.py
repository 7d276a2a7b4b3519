"""Compares types by the values they accept: whether a receiver's type accepts every value of a sender's type.

Objects are open: a receiver ignores members that it does not know, and a sender sends only members that its type
declares. Recursive types are compared under the assumption that the comparison holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Final, NoReturn, TypeAlias

from pydantic_core import SchemaError, SchemaValidator, core_schema

from mcprev_codegen import ir
from mcprev_codegen.diff.changes import Effect
from mcprev_codegen.diff.comparison.languages import lies_within
from mcprev_codegen.diff.comparison.view import View
from mcprev_codegen.resolve import FlatType

_MAX_DEPTH: Final = 60
"""The maximum number of types that contain one another and are compared at once."""
_MAX_DIVIDED: Final = 2
"""How many members of an object are divided into their alternatives at once, at most one more."""
_NULL: Final = ir.Prim("null")
_ANY_OBJECT: Final = ir.Prim("object")
_ANY_ARRAY: Final = ir.Array(ir.Prim("unknown"))
_EVERYTHING: Final[tuple[ir.TypeExpr, ...]] = (
    ir.Prim("string"), ir.Prim("number"), ir.Prim("boolean"), _NULL, _ANY_OBJECT, _ANY_ARRAY,
)  # fmt: skip


_Pair: TypeAlias = tuple[ir.TypeExpr, ir.TypeExpr]


@dataclass(frozen=True)
class Subtyping:
    """Compares types of two schemas by the values they accept."""

    sender: View
    receiver: View
    _assumed: dict[_Pair, None] = field(default_factory=dict[_Pair, None])
    _refused: set[_Pair] = field(default_factory=set[_Pair])
    """Pairs that do not fit. That holds for good: an assumption only makes more pairs fit."""
    _open: list[ir.TypeExpr] = field(default_factory=list[ir.TypeExpr])
    """The types that are being compared, from the outermost one on."""

    def accepts(self, sent: ir.TypeExpr, expected: ir.TypeExpr) -> bool:
        """Return whether the receiver's type accepts every value of the sender's type."""
        pair = sent, expected
        if pair in self._assumed or pair in self._refused:
            return pair in self._assumed
        if len(self._open) == _MAX_DEPTH:
            self._fail()
        mark = len(self._assumed)
        self._assumed[pair] = None
        self._open.append(sent)
        try:
            holds = self._accepts(sent, expected)
        finally:
            self._open.pop()
        if not holds:
            self._refused.add(pair)
            while len(self._assumed) > mark:  # these results depend on a false assumption
                self._assumed.popitem()
        return holds

    def _fail(self) -> NoReturn:
        schema = self.sender.schema
        name = next((type_.name for type_ in self._open if isinstance(type_, ir.Ref)), "")
        raise schema.fail(
            name,
            f"more than {_MAX_DEPTH} types nested in one another cannot be compared; this is the outermost",
        )

    def _accepts(self, sent: ir.TypeExpr, expected: ir.TypeExpr) -> bool:
        receiving = [self.receiver.schema.follow(m) for m in self.receiver.schema.members(expected)]
        if any(m in ir.ANYTHING for m in receiving):
            return True
        sending = [self.sender.schema.follow(m) for m in self.sender.schema.members(sent)]
        sending = [member for member in sending if member != ir.NEVER]  # which has no value to refuse
        if any(m in ir.ANYTHING for m in sending):
            sending = list(_EVERYTHING)
        wanted = {
            (isinstance(value, bool), value)
            for value in map(self.receiver.schema.literal, receiving)
            if value is not None
        }
        others = [r for r in receiving if self.receiver.schema.literal(r) is None]
        for member in sending:
            value = self.sender.schema.literal(member)
            if value is not None and (isinstance(value, bool), value) in wanted:
                continue
            if member == ir.Prim("boolean") and {(True, True), (True, False)} <= wanted:
                continue
            for other in others:
                if self._member(member, other):
                    break
            else:
                if not self._together(member, [value for _, value in wanted], others):
                    return False
        return True

    def _together(
        self, sent: ir.TypeExpr, literals: Sequence[ir.Literal], others: Sequence[ir.TypeExpr]
    ) -> bool:
        """Return whether several members of a union accept together what none of them accepts alone."""
        if isinstance(sent, ir.Template):
            texts = [value for value in literals if isinstance(value, str)]
            return lies_within(sent, [*texts, *(one for one in others if isinstance(one, ir.Template))])
        if isinstance(sent, ir.Tuple):
            tuples = [one for one in others if isinstance(one, ir.Tuple)]
            return len(tuples) > 1 and self._divided_tuple(sent, tuples, 0)
        flat = self.sender.flat_object(sent)
        found = [one for one in map(self.receiver.flat_object, others) if one is not None]
        return flat is not None and len(found) > 1 and self._divided(flat, found, 0)

    def _divided_tuple(self, sent: ir.Tuple, receiving: Sequence[ir.Tuple], first: int) -> bool:
        """Return whether tuples accept together what another one accepts, divided by the alternatives of its items."""
        if any(self._tuples(sent, one) for one in receiving):
            return True
        for place, item in enumerate(sent.items if first <= _MAX_DIVIDED else ()):
            divided = [
                replace(sent, items=(*sent.items[:place], part, *sent.items[place + 1 :]))
                for part in self._alternatives(item)
            ]
            if len(divided) > 1 and all(self._divided_tuple(one, receiving, first + 1) for one in divided):
                return True
        return False

    def _divided(self, sent: FlatType, receiving: Sequence[FlatType], first: int) -> bool:
        """Return whether objects accept together what another one accepts, divided by the alternatives of its members."""
        if any(self._objects(sent, one) for one in receiving):
            return True
        if first > _MAX_DIVIDED:
            return False
        for place, member in enumerate(f.field for f in sent.fields):
            parts = self._parts(member)
            others = {
                repr(self.receiver.schema.members(m.type)) for one in receiving if (m := one.get(member.name))
            }
            if len(parts) < 2 or len(others) < 2:
                continue
            if all(self._divided(_with_member(sent, place, part), receiving, first + 1) for part in parts):
                return True
        return False

    def _parts(self, member: ir.Field) -> list[ir.Field | None]:
        """Return what a member may be: absent, or of each alternative of its type."""
        type_ = self.sender.effective(member)
        tags = replace(member.tags, tjs_type=None, nullable=False)
        present = [replace(member, type=one, optional=False, tags=tags) for one in self._alternatives(type_)]
        return [*present, None] if member.optional else [*present]

    def _member(self, sent: ir.TypeExpr, expected: ir.TypeExpr) -> bool:
        value = self.sender.schema.literal(sent)
        if value is not None:
            wanted = self.receiver.schema.literal(expected)
            if wanted is not None:
                return value == wanted and isinstance(value, bool) == isinstance(wanted, bool)
            if isinstance(expected, ir.Template):
                return isinstance(value, str) and _matches(expected, value)
            return isinstance(expected, ir.Prim) and expected.name in _kinds(value)
        match sent:
            case ir.Prim(name) if isinstance(expected, ir.Prim):
                return name == expected.name or (name, expected.name) == ("integer", "number")
            case ir.Array(item):
                return isinstance(expected, ir.Array) and self.accepts(item, expected.item)
            case ir.Tuple():
                if isinstance(expected, ir.Array):
                    return all(self.accepts(part, expected.item) for part in sent.parts)
                return isinstance(expected, ir.Tuple) and self._tuples(sent, expected)
            case ir.Template():
                return expected in (
                    sent,
                    ir.Prim("string"),
                )  # those of several templates are compared together
            case ir.Prim() | ir.Ref() | ir.Record() | ir.Obj() | ir.Intersection() | ir.Derived():
                left, right = self.sender.flat_object(sent), self.receiver.flat_object(expected)
                return left is not None and right is not None and self._objects(left, right)
            case ir.Lit() | ir.ConstRef() | ir.Union():
                return False  # a literal is compared above, and a union by its members

    def _tuples(self, sent: ir.Tuple, expected: ir.Tuple) -> bool:
        fixed, further = len(expected.items), expected.rest
        if len(sent.items) < fixed or (further is None and len(sent.parts) > fixed):
            return False
        if not all(map(self.accepts, sent.items, expected.items)):
            return False
        return further is None or all(self.accepts(part, further) for part in sent.parts[fixed:])

    def _objects(self, sent: FlatType, expected: FlatType) -> bool:
        names = {f.name for f in sent.fields}
        value = sent.index.value if sent.index else None
        for wanted in (f.field for f in expected.fields):
            if wanted.name in names:
                member = sent.get(wanted.name)
                if member is None or not self.members_fit(member, wanted):
                    return False
            elif not wanted.optional or (
                value is not None and value not in ir.ANYTHING and not self.accepts(value, wanted.type)
            ):
                return False
        if expected.index is None or expected.index.value in ir.ANYTHING:
            return True
        declared = {f.name for f in expected.fields}
        rest = [self.sender.effective(f.field) for f in sent.fields if f.name not in declared]
        rest += [value] if value is not None else []
        return all(self.accepts(type_, expected.index.value) for type_ in rest)

    def _alternatives(self, type_: ir.TypeExpr) -> list[ir.TypeExpr]:
        found: list[ir.TypeExpr] = []
        for one in self.sender.schema.members(type_):
            boolean = self.sender.schema.follow(one) == ir.Prim("boolean")
            found += [ir.Lit(value) for value in (True, False)] if boolean else [one]
        return found

    def members_fit(self, sent: ir.Field, wanted: ir.Field) -> bool:
        """Return whether a member as sent satisfies the member as expected: presence, type and limits."""
        if sent.optional and not wanted.optional:
            return False
        if ir.exceeded(sent.tags, wanted.tags):
            return False
        return self.accepts(self.sender.effective(sent), self.receiver.effective(wanted))


def _with_member(flat: FlatType, place: int, member: ir.Field | None) -> FlatType:
    """Return an object with another member at a place, or without one."""
    fields = flat.fields
    found = () if member is None else (replace(fields[place], field=member),)
    return FlatType((*fields[:place], *found, *fields[place + 1 :]), flat.index, flat.own_index)


def _matches(template: ir.Template, value: str) -> bool:
    """Return whether a template literal type has a value, in linear time; no if its expression is too large."""
    try:
        schema = core_schema.str_schema(pattern=template.pattern, regex_engine="rust-regex", strict=True)
        return SchemaValidator(schema).isinstance_python(value)
    except SchemaError:
        return False


def _kinds(value: ir.Literal) -> tuple[str, ...]:
    if isinstance(value, bool):
        return ("boolean",)
    if isinstance(value, str):
        return ("string",)
    return ("number", "integer") if float(value).is_integer() else ("number",)


@lru_cache(maxsize=8)
def subtyping_of(sender: View, receiver: View) -> Subtyping:
    """Return the comparison of two views, which remembers what it has found."""
    return Subtyping(sender, receiver)


def relation(old: View, new: View, before: ir.TypeExpr, after: ir.TypeExpr) -> Effect:
    """Return the effect of a change of type on the set of accepted values."""
    forth = subtyping_of(old, new).accepts(before, after)
    back = subtyping_of(new, old).accepts(after, before)
    if forth:
        return Effect.EQUAL if back else Effect.WIDER
    return Effect.NARROWER if back else Effect.OTHER
