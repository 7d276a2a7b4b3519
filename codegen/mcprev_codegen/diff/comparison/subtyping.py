"""Compares types by the values they accept: whether a receiver's type accepts every value of a sender's type.

Objects are open: a receiver ignores members that it does not know, and a sender sends only members that its type
declares. Recursive types are compared under the assumption that the comparison holds.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, NoReturn, TypeAlias

from pydantic_core import SchemaError, SchemaValidator, core_schema

from mcprev_codegen import ir
from mcprev_codegen.diff.changes import Effect
from mcprev_codegen.diff.comparison.view import View
from mcprev_codegen.resolve import FlatType

_MAX_DEPTH: Final = 60
"""The maximum number of types that contain one another and are compared at once."""
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
            for other in others:
                if self._member(member, other):
                    break
            else:
                return False
        return True

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
                return expected in (sent, ir.Prim("string"))
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

    def members_fit(self, sent: ir.Field, wanted: ir.Field) -> bool:
        """Return whether a member as sent satisfies the member as expected: presence, type and limits."""
        if sent.optional and not wanted.optional:
            return False
        if ir.exceeded(sent.tags, wanted.tags):
            return False
        return self.accepts(self.sender.effective(sent), self.receiver.effective(wanted))


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
