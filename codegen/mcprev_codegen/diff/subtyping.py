"""Compares types by the values they accept: whether a receiver's type accepts every value of a sender's type.

Objects are open: a receiver ignores members that it does not know, and a sender sends only members that its type
declares. Recursive types are compared under the assumption that the comparison holds.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from pydantic_core import SchemaError, SchemaValidator, core_schema

from mcprev_codegen import ir
from mcprev_codegen.diff.model import Effect
from mcprev_codegen.diff.view import View
from mcprev_codegen.limits import within
from mcprev_codegen.resolve import FlatType

_NULL: Final = ir.Prim("null")
_ANY_OBJECT: Final = ir.Prim("object")
_ANY_ARRAY: Final = ir.Array(ir.Prim("unknown"))
_EVERYTHING: Final[tuple[ir.TypeExpr, ...]] = (
    ir.Prim("string"), ir.Prim("number"), ir.Prim("boolean"), _NULL, _ANY_OBJECT, _ANY_ARRAY,
)  # fmt: skip


@dataclass(frozen=True)
class Subtyping:
    """Compares types of two schemas by the values they accept."""

    sender: View
    receiver: View
    _assumed: dict[tuple[ir.TypeExpr, ir.TypeExpr], None] = field(
        default_factory=dict[tuple[ir.TypeExpr, ir.TypeExpr], None]
    )

    def accepts(self, sent: ir.TypeExpr, expected: ir.TypeExpr) -> bool:
        """Return whether the receiver's type accepts every value of the sender's type."""
        if (sent, expected) in self._assumed:
            return True
        mark = len(self._assumed)
        self._assumed[sent, expected] = None
        holds = self._accepts(sent, expected)
        while not holds and len(self._assumed) > mark:  # these results depend on a false assumption
            self._assumed.popitem()
        return holds

    def _accepts(self, sent: ir.TypeExpr, expected: ir.TypeExpr) -> bool:
        receiving = [self.receiver.schema.follow(m) for m in self.receiver.schema.members(expected)]
        if any(m in ir.ANYTHING for m in receiving):
            return True
        sending = [self.sender.schema.follow(m) for m in self.sender.schema.members(sent)]
        if any(m in ir.ANYTHING for m in sending):
            sending = list(_EVERYTHING)
        return all(any(self._member(s, r) for r in receiving) for s in sending)

    def _member(self, sent: ir.TypeExpr, expected: ir.TypeExpr) -> bool:
        value = self.sender.schema.literal(sent)
        if value is not None:
            wanted = self.receiver.schema.literal(expected)
            if wanted is not None:
                return value == wanted and isinstance(value, bool) == isinstance(wanted, bool)
            if isinstance(expected, ir.Template):
                return isinstance(value, str) and _matches(expected, value)
            return isinstance(expected, ir.Prim) and expected.name in _kinds(value)
        match sent, expected:
            case ir.Prim("integer"), ir.Prim("number"):
                return True
            case ir.Array(item), ir.Array(wanted_item):
                return self.accepts(item, wanted_item)
            case ir.Tuple(items), ir.Array(wanted_item):
                return all(self.accepts(item, wanted_item) for item in items)
            case ir.Tuple(items), ir.Tuple(wanted_items):
                return len(items) == len(wanted_items) and all(map(self.accepts, items, wanted_items))
            case ir.Template(), ir.Template() | ir.Prim("string"):
                return expected in (sent, ir.Prim("string"))
            case (ir.Prim(a), ir.Prim(b)) if a == b:
                return True
            case _:
                left, right = self.sender.flat_object(sent), self.receiver.flat_object(expected)
                return left is not None and right is not None and self._objects(left, right)

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
        if not within(sent.tags, wanted.tags):
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


def relation(old: View, new: View, before: ir.TypeExpr, after: ir.TypeExpr) -> Effect:
    """Return the effect of a change of type on the set of accepted values."""
    forth = Subtyping(old, new).accepts(before, after)
    back = Subtyping(new, old).accepts(after, before)
    if forth:
        return Effect.EQUAL if back else Effect.WIDER
    return Effect.NARROWER if back else Effect.OTHER
