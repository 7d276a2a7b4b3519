"""The state that all steps of a comparison share: the two revisions, the pairing of types, and `Context.change`."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from mcprev_codegen import ir
from mcprev_codegen.diff.changes import Change, Judgement, Level, Place, Verdict, table
from mcprev_codegen.diff.comparison.pairing import Pairing
from mcprev_codegen.diff.comparison.view import View
from mcprev_codegen.facts import Side

Name = TypeVar("Name", bound=str)
SHORT: Final = 90
"""The maximum length of a type in a headline."""


@dataclass(frozen=True, slots=True)
class Scope:
    """The types that a change belongs to, by hoisted names; None on the side without one."""

    before: str | None
    after: str | None
    old_path: str
    new_path: str
    affects: tuple[str, ...] = ()
    override: str = ""
    """A key of the rule table's overrides, for a place where a change breaks no peer."""
    openness: str = ""
    """`opened` or `closed` if an object started or ceased to allow additional members of any value."""
    senders: tuple[Side, ...] | None = None
    """The senders of the data; None if they follow from the types."""
    methods: frozenset[str] | None = None
    """The methods that carry the data; None if they follow from the types."""

    def at(self, member: str) -> Scope:
        """Return the scope of a member of the same types."""
        return replace(self, old_path=f"{self.old_path}.{member}", new_path=f"{self.new_path}.{member}")


@dataclass(frozen=True)
class Context:
    """Two revisions under comparison."""

    old: View
    new: View
    pairing: Pairing

    def scope(self, before: str | None, after: str | None) -> Scope:
        """Return the scope of a pair of types, or of one type without a counterpart."""
        old_path = self.old.path(before) if before else ""
        new_path = self.new.path(after) if after else ""
        inheritors = self.new.inheritors(after) if after else self.old.inheritors(before) if before else ()
        return Scope(before, after, old_path or new_path, new_path or old_path, inheritors)

    def same(self, before: ir.TypeExpr, after: ir.TypeExpr) -> bool:
        """Return whether two types are equal, except for renames in the pairing."""
        return self.renamed(before) == spelled_alike(after)

    def renamed(self, before: ir.TypeExpr) -> ir.TypeExpr:
        """Return an old type with the new names of the types that it refers to."""

        def rename(node: ir.Node) -> ir.Node:
            if isinstance(node, ir.Ref):
                name = self.pairing.new_of.get(node.name)
                return ir.Ref(name if name is not None else f"{node.name} of old")
            return node

        return spelled_alike(ir.map_nodes(before, rename))

    def paired(self, before: ir.TypeExpr, after: ir.TypeExpr) -> bool:
        """Return whether two types are names that are paired."""
        return isinstance(before, ir.Ref) and ir.Ref(self.pairing.new_of.get(before.name, "")) == after

    def change(
        self,
        rule_id: str,
        case_name: str,
        old: Place | None,
        new: Place | None,
        scope: Scope,
        *,
        note: str = "",
    ) -> Change:
        """Return the change of a rule, with the senders, methods and overrides that follow from its scope."""
        rule = table().rules[rule_id]
        case = rule.cases[case_name]
        senders = scope.senders
        if senders is None:
            found = self._shared(scope, View.senders)
            senders = tuple(side for side in Side if side in found)
        methods = self._shared(scope, View.reached_by) if scope.methods is None else scope.methods
        made = Change(
            id=rule.id,
            case=case.name,
            kind=rule.kind,
            action=rule.action,
            level=case.level,
            effect=case.effect,
            headline=filled_in(rule.headline, old, new),
            old=old,
            new=new,
            old_to_new=case.old_to_new,
            new_to_old=case.new_to_old,
            senders=senders,
            methods=tuple(sorted(methods)),
            affects=scope.affects,
            note=note,
        )
        override = scope.override or ("" if senders else "unreachable")
        return made if not override else _overridden(made, override)

    def _shared(self, scope: Scope, names: Callable[[View, str], frozenset[Name]]) -> frozenset[Name]:
        """Return what the types of both sides have in common, such as senders; if it is nothing, what either has."""
        before = names(self.old, scope.before) if scope.before else None
        after = names(self.new, scope.after) if scope.after else None
        if before is None or after is None:
            return before or after or frozenset()
        return before & after or before | after


def _overridden(change: Change, override: str) -> Change:
    """Return the change with both verdicts ok, for the reason of the override."""
    reason = Judgement(Verdict.OK, table().overrides[override])
    level = change.level if override == "unreachable" or change.level is Level.DOC else Level.SOURCE
    return replace(change, level=level, old_to_new=reason, new_to_old=reason)


def spelled_alike(type_: ir.TypeExpr) -> ir.TypeExpr:
    """Return a type without differences of spelling: the name of an index key, the order of literals."""

    def normalise(node: ir.Node) -> ir.Node:
        match node:
            case ir.IndexSig():
                return replace(node, key="key")
            case ir.Union(members) if all(isinstance(m, ir.Lit | ir.Prim | ir.ConstRef) for m in members):
                return ir.Union(tuple(sorted(members, key=repr)))
            case _:
                return node

    return ir.map_nodes(type_, normalise)


def filled_in(headline: str, old: Place | None, new: Place | None) -> str:
    """Return the headline of a rule with both sides filled in and shortened."""
    texts = {"{old}": old.text if old else "nothing", "{new}": new.text if new else "nothing"}
    return re.sub(r"\{(?:old|new)\}", lambda found: shortened(texts[found.group()]), headline)


def shortened(text: str, width: int = SHORT) -> str:
    """Return a text cut to a width, with an ellipsis if it was longer."""
    return text if len(text) <= width else f"{text[: width - 1].rstrip()}…"
