"""Compares two method tables: methods, directions, transport, optional params, results."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from mcprev_codegen import ir
from mcprev_codegen.diff.context import SENDERS, Context, Scope
from mcprev_codegen.diff.model import METHOD_PREFIX, Change, Place
from mcprev_codegen.diff.shapes import relation
from mcprev_codegen.methods import CLIENT_TO_SERVER, SERVER_TO_CLIENT, Method

_SENDER: Final = {CLIENT_TO_SERVER: "client", SERVER_TO_CLIENT: "server"}
_WAY: Final = {CLIENT_TO_SERVER: "client to server", SERVER_TO_CLIENT: "server to client"}


def compare_methods(context: Context) -> Iterator[Change]:
    """Yield every change of methods, by their wire names."""
    old, new = context.old.revision.methods, context.new.revision.methods
    for name in {**old, **new}:
        before, after = old.get(name), new.get(name)
        spot = _Spot(context, before, after)
        if before is None and after is not None:
            yield spot.change(
                "method-added", _gated(after), None, spot.new(_summary(after)), after.directions
            )
        elif after is None and before is not None:
            yield spot.change(
                "method-removed", _gated(before), spot.old(_summary(before)), None, before.directions
            )
        elif before is not None and after is not None:
            yield from _directions(spot, before, after)
            yield from _carriage(spot, before, after)
            yield from _results(spot, before, after)


def _gated(method: Method) -> str:
    return f"gated-{method.kind}" if method.capability else method.kind


def _summary(method: Method) -> str:
    ways = " and ".join(_WAY[d] for d in method.directions)
    transport = "" if method.transport == "jsonrpc" else f", {method.transport}"
    return f"{method.kind} ({ways}{transport})"


@dataclass(frozen=True, slots=True)
class _Spot:
    context: Context
    before: Method | None
    after: Method | None

    @property
    def path(self) -> str:
        method = self.after or self.before
        return f"{METHOD_PREFIX}{method.method if method else ''}"

    def old(self, text: str) -> Place:
        decl = self.context.old.schema.types[self.before.type] if self.before else None
        return Place(self.path, text, text, decl.span if decl else None)

    def new(self, text: str) -> Place:
        decl = self.context.new.schema.types[self.after.type] if self.after else None
        return Place(self.path, text, text, decl.span if decl else None)

    def change(
        self,
        rule: str,
        case: str,
        old: Place | None,
        new: Place | None,
        directions: tuple[str, ...],
        *,
        answer: bool = False,
    ) -> Change:
        """Return a change of the data sent in some directions; with `answer`, of the responses to it."""
        senders = {_SENDER[d] for d in directions}
        if answer:
            senders = {other for other in SENDERS for sender in senders if other != sender}
        scope = Scope(
            self.before.type if self.before else None,
            self.after.type if self.after else None,
            self.path,
            self.path,
            senders=tuple(s for s in SENDERS if s in senders),
            methods=frozenset({self.path.removeprefix(METHOD_PREFIX)}),
        )
        return self.context.change(rule, case, old, new, scope)


def _common(before: Method, after: Method) -> tuple[str, ...]:
    return tuple(d for d in before.directions if d in after.directions) or after.directions


def _directions(spot: _Spot, before: Method, after: Method) -> Iterator[Change]:
    for direction in after.directions:
        if direction not in before.directions:
            yield spot.change("direction-added", after.kind, None, spot.new(_WAY[direction]), (direction,))
    for direction in before.directions:
        if direction not in after.directions:
            yield spot.change("direction-removed", before.kind, spot.old(_WAY[direction]), None, (direction,))


def _carriage(spot: _Spot, before: Method, after: Method) -> Iterator[Change]:
    common = _common(before, after)
    old, new = _transport(before), _transport(after)
    if old != new:
        yield spot.change("transport-changed", "any", spot.old(old), spot.new(new), common)
    if before.params_optional != after.params_optional:
        rule = "params-optional" if after.params_optional else "params-required"
        texts = ["params?" if method.params_optional else "params" for method in (before, after)]
        yield spot.change(rule, "any", spot.old(texts[0]), spot.new(texts[1]), common)


def _transport(method: Method) -> str:
    """Return how a message is sent: separately, or inside the result of another request."""
    return (
        f"a {method.kind} of its own" if method.transport == "jsonrpc" else f"a {method.kind} inside a result"
    )


def _results(spot: _Spot, before: Method, after: Method) -> Iterator[Change]:
    context, common = spot.context, _common(before, after)
    if before.result and after.result and not context.paired(before.result, after.result):
        effect = relation(context.old, context.new, ir.Ref(before.result), ir.Ref(after.result))
        places = spot.old(before.result), spot.new(after.result)
        yield spot.change("result-changed", effect.value, *places, common, answer=True)
    old = {context.pairing.new_of.get(name, name): name for name in before.alternates}
    new = {name: name for name in after.alternates}
    for key, name in new.items():
        if key not in old:
            yield spot.change("result-alternate-added", "any", None, spot.new(name), common, answer=True)
    for key, name in old.items():
        if key not in new:
            yield spot.change("result-alternate-removed", "any", spot.old(name), None, common, answer=True)
