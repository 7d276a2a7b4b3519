"""The senders of each type, found by following the references from every message and result.

Envelopes (types with a `jsonrpc` member) are not reached from the messages in them: their senders are the sides that
send such messages. An error type without references has the senders of the type it refines.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from mcprev_codegen import ir
from mcprev_codegen.facts.methods import Method
from mcprev_codegen.facts.vocabulary import Side
from mcprev_codegen.resolve import Schema
from mcprev_codegen.support import Kind, Transport


def find_senders(schema: Schema, methods: Mapping[str, Method]) -> dict[str, frozenset[Side]]:
    """Return the senders of each type: one side, both, or neither for a type that no message contains."""
    return _SenderSearch(schema, methods).find()


@dataclass
class _SenderSearch:
    schema: Schema
    methods: Mapping[str, Method]
    senders: dict[str, set[Side]] = field(default_factory=dict[str, set[Side]])
    envelopes: dict[str, bool] = field(default_factory=dict[str, bool])

    def find(self) -> dict[str, frozenset[Side]]:
        self.senders = {name: set() for name in self.schema.types}
        self._mark_messages()
        self._mark_envelopes()
        self._mark_refinements()
        return {name: frozenset(sender) for name, sender in self.senders.items()}

    def _mark(self, name: str, sender: Side) -> None:
        pending = [name] if name in self.senders else []
        while pending:
            name = pending.pop()
            if sender not in self.senders[name]:
                self.senders[name].add(sender)
                pending += [other for other in self.schema.references[name] if not self._is_envelope(other)]

    def _mark_messages(self) -> None:
        for side in Side:
            for ending in ("Request", "Notification", "Result"):
                self._mark(side.type_name(ending), side)
        for method in self.methods.values():
            for side in method.senders:
                self._mark(method.type, side)
                for result in method.results:
                    self._mark(result, side.other)
                    self._mark(f"{result}Response", side.other)

    def _mark_envelopes(self) -> None:
        for name in self.schema.types:
            if self._is_envelope(name) and not self.senders[name]:
                for side in self._envelope_senders(name):
                    self._mark(name, side)

    def _mark_refinements(self) -> None:
        for name, found in self.senders.items():
            if not found and self._is_error(name):
                used = [self.senders[base] for base in self.schema.supertypes(name) if self.senders[base]]
                for side in sorted(used[0]) if used else ():
                    self._mark(name, side)

    def _is_envelope(self, name: str) -> bool:
        """Return whether a type is a whole JSON-RPC message, or a union or array of them."""
        if name not in self.envelopes:
            objects = list(self._objects(ir.Ref(name)))
            flats = map(self.schema.flatten, objects)
            self.envelopes[name] = bool(objects) and all(f.get("jsonrpc") is not None for f in flats)
        return self.envelopes[name]

    def _objects(self, type_: ir.TypeExpr, *, in_array: bool = False) -> Iterator[ir.TypeExpr]:
        """Yield the object types in a union, batches opened; an empty object for a value of another kind."""
        for member in self.schema.members(type_):
            followed = self.schema.follow(member)
            if isinstance(followed, ir.Array) and not in_array:
                yield from self._objects(followed.item, in_array=True)
            else:
                yield followed if self.schema.is_object(followed) else ir.Obj()

    def _is_error(self, name: str) -> bool:
        if not self.schema.is_object(ir.Ref(name)):
            return False
        flat = self.schema.flat(name)
        return flat.get("code") is not None or flat.get("error") is not None

    def _envelope_senders(self, name: str) -> Iterator[Side]:
        """Yield the sides that send messages of the kinds that an envelope type contains."""
        kinds = {self._message_kind(o) for o in self._objects(ir.Ref(name))}
        own_messages = [m for m in self.methods.values() if m.transport is Transport.JSONRPC]
        for side in Side:
            sent: set[str] = {m.kind for m in own_messages if side in m.senders}
            if any(m.kind is Kind.REQUEST and side.other in m.senders for m in own_messages):
                sent.add("response")
            if sent & kinds:
                yield side

    def _message_kind(self, type_: ir.TypeExpr) -> str:
        flat = self.schema.flatten(type_)
        if flat.get("method") is None:
            return "response"
        return Kind.REQUEST if flat.get("id") is not None else Kind.NOTIFICATION
