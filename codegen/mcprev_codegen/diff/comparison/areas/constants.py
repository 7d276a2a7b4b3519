"""Compares exported constants: error codes, and values that occur in messages or not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from mcprev_codegen import ir
from mcprev_codegen.diff.changes import Change, Place
from mcprev_codegen.diff.comparison.areas.members import described
from mcprev_codegen.diff.comparison.context import Context, Scope
from mcprev_codegen.diff.comparison.view import View
from mcprev_codegen.facts import VERSION_CONSTANT, Side
from mcprev_codegen.support import Kind, Transport

KIND: Final = "constant"


def compare_constants(context: Context) -> Iterator[Change]:
    """Yield every change of constants, by name."""
    old, new = context.old.schema.consts, context.new.schema.consts
    for name in {**old, **new}:
        before, after = old.get(name), new.get(name)
        code = all(isinstance(c.value, int) for c in (before, after) if c is not None)
        senders = _answering(context) if code else tuple(Side)
        scope = Scope(None, None, name, name, senders=senders, methods=frozenset())
        if before is None or after is None or before.value != after.value:
            yield _change(context, name, before, after, scope, code=code)
        if before is not None and after is not None:
            for change in described(context, scope, before, after, _place(before), _place(after)):
                yield replace(change, kind=KIND)


def _change(
    context: Context, name: str, old: ir.Const | None, new: ir.Const | None, scope: Scope, *, code: bool
) -> Change:
    action = "removed" if new is None else "added" if old is None else "changed"
    return context.change(
        f"{'error-code' if code else 'constant'}-{action}",
        "any" if code or action != "changed" else _case(context, name),
        _place(old) if old else None,
        _place(new) if new else None,
        scope,
    )


def _place(const: ir.Const) -> Place:
    text = str(const.value)
    return Place(const.name, text, text, const.span)


def _case(context: Context, name: str) -> str:
    if name == VERSION_CONSTANT:
        return "version"
    return "sent" if _carried(context.old, name) or _carried(context.new, name) else "unsent"


def _carried(side: View, name: str) -> bool:
    """Return whether a type has the constant as its value."""
    return any(node == ir.ConstRef(name) for node in ir.walk(side.schema.module))


def _answering(context: Context) -> tuple[Side, ...]:
    """Return the sides that answer requests, and therefore may send errors."""
    methods = [m for side in (context.old, context.new) for m in side.revision.methods.values()]
    requests = [m for m in methods if m.kind is Kind.REQUEST and m.transport is Transport.JSONRPC]
    return tuple(side for side in Side if any(side.other in m.senders for m in requests))
