"""Compares two method tables: methods, directions, transport, optional params, results."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from mcprev_codegen import ir
from mcprev_codegen.diff.changes import METHOD_PREFIX, Change, Place
from mcprev_codegen.diff.comparison.context import Context, Scope
from mcprev_codegen.diff.comparison.subtyping import relation
from mcprev_codegen.facts import Method, Side
from mcprev_codegen.support import Transport


def compare_methods(context: Context) -> Iterator[Change]:
    """Yield every change of methods, by their wire names."""
    old, new = context.old.revision.methods, context.new.revision.methods
    for name in {**old, **new}:
        before, after = old.get(name), new.get(name)
        site = _MethodSite(context, name, before, after)
        if before is None and after is not None:
            yield site.change("method-added", _gated(after), None, _summary(after), after.senders)
        elif after is None and before is not None:
            yield site.change("method-removed", _gated(before), _summary(before), None, before.senders)
        elif before is not None and after is not None:
            yield from _directions(site, before, after)
            yield from _transport_and_params(site, before, after)
            yield from _results(site, before, after)


def _gated(method: Method) -> str:
    return f"gated-{method.kind}" if method.capability else method.kind


def _summary(method: Method) -> str:
    directions = " and ".join(side.direction_text for side in method.senders)
    transport = "" if method.transport is Transport.JSONRPC else f", {method.transport}"
    return f"{method.kind} ({directions}{transport})"


@dataclass(frozen=True, slots=True)
class _MethodSite:
    context: Context
    name: str
    before: Method | None
    after: Method | None

    def change(
        self,
        rule: str,
        case: str,
        old: str | None,
        new: str | None,
        senders: tuple[Side, ...],
        *,
        answer: bool = False,
    ) -> Change:
        """Return a change of the data that some sides send; with `answer`, of the responses to it."""
        path, context = f"{METHOD_PREFIX}{self.name}", self.context
        sides = (context.old, self.before, old), (context.new, self.after, new)
        before, after = (
            Place(path, text, text, view.schema.types[method.type].span) if method and text else None
            for view, method, text in sides
        )
        old_type, new_type = (method.type if method else None for _, method, _ in sides)
        sent = tuple(side for side in Side if (side.other if answer else side) in senders)
        scope = Scope(old_type, new_type, path, path, senders=sent, methods=frozenset({self.name}))
        return context.change(rule, case, before, after, scope)


def _common(before: Method, after: Method) -> tuple[Side, ...]:
    return tuple(side for side in before.senders if side in after.senders) or after.senders


def _directions(site: _MethodSite, before: Method, after: Method) -> Iterator[Change]:
    for side in after.senders:
        if side not in before.senders:
            yield site.change("direction-added", after.kind, None, side.direction_text, (side,))
    for side in before.senders:
        if side not in after.senders:
            yield site.change("direction-removed", before.kind, side.direction_text, None, (side,))


def _transport_and_params(site: _MethodSite, before: Method, after: Method) -> Iterator[Change]:
    common = _common(before, after)
    old, new = _transport(before), _transport(after)
    if old != new:
        yield site.change("transport-changed", "any", old, new, common)
    if before.params_optional != after.params_optional:
        rule = "params-optional" if after.params_optional else "params-required"
        texts = ["params?" if method.params_optional else "params" for method in (before, after)]
        yield site.change(rule, "any", texts[0], texts[1], common)


def _transport(method: Method) -> str:
    """Return how a message is sent: separately, or inside the result of another request."""
    return f"a {method.kind} {'of its own' if method.transport is Transport.JSONRPC else 'inside a result'}"


def _results(site: _MethodSite, before: Method, after: Method) -> Iterator[Change]:
    context, common = site.context, _common(before, after)
    if before.result and after.result:
        types = ir.Ref(before.result), ir.Ref(after.result)
        if not context.paired(*types):
            case = relation(context.old, context.new, *types).value
            yield site.change("result-changed", case, before.result, after.result, common, answer=True)
    old = {context.pairing.new_of.get(name, name): name for name in before.alternate_results}
    new = {name: name for name in after.alternate_results}
    for key, name in new.items():
        if key not in old:
            yield site.change("result-alternate-added", "any", None, name, common, answer=True)
    for key, name in old.items():
        if key not in new:
            yield site.change("result-alternate-removed", "any", name, None, common, answer=True)
