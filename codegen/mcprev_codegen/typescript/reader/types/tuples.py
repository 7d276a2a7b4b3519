"""Puts a tuple together: required and optional items, arrays and tuples that are spread in it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tree_sitter import Node

from mcprev_codegen import ir
from mcprev_codegen.typescript.reader.text.source_file import SourceFile


@dataclass
class Items:
    """The items of one tuple, as far as they are read."""

    _file: SourceFile
    _forms: list[ir.Tuple] = field(default_factory=lambda: [ir.Tuple(())])
    """The tuples that it stands for, as long as they can be; several if a union of tuples is spread."""
    _shorter: list[ir.Tuple] = field(default_factory=list[ir.Tuple])
    """Those that end before an optional item."""
    _ended: bool = False
    """Whether tuples of several lengths are spread: it is not known whether those are optional items or a union."""

    def required(self, node: Node, type_: ir.TypeExpr) -> None:
        """Add an item. Raises `SchemaError` if it can be at several places."""
        self._append(node, [ir.Tuple((type_,))])

    def optional(self, node: Node, type_: ir.TypeExpr) -> None:
        """Add an item that may be absent. Raises `SchemaError` if it can be at several places."""
        before, shorter = self._forms, self._shorter
        self._shorter = []
        self._append(node, [ir.Tuple((type_,))])
        self._shorter = [*shorter, *before]

    def spread(self, node: Node, types: Iterable[ir.TypeExpr]) -> None:
        """Add the items of an array or tuple, or of each of several. Raises `SchemaError` for any other type."""
        found: list[ir.Tuple] = []
        for type_ in types:
            match type_:
                case ir.Array(item):
                    found.append(ir.Tuple((), item))
                case ir.Tuple():
                    found.append(type_)
                case _:
                    self._file.fail(node, "only arrays and tuples have items to spread; write the items out")
        self._append(node, found)
        self._ended = len({(len(one.items), one.rest is None) for one in found}) > 1

    def type(self) -> ir.TypeExpr:
        """Return the tuple, or the union of those that it stands for."""
        found = dict.fromkeys((*self._shorter, *self._forms))
        return ir.union_of(ir.Array(t.rest) if t.rest and not t.items else t for t in found)

    def _append(self, node: Node, others: Sequence[ir.Tuple]) -> None:
        behind = bool(self._shorter) or any(form.rest for form in self._forms)
        if self._ended or (behind and any(other.items for other in others)):
            self._file.fail(
                node,
                "an item behind others of which there may be more or fewer is not supported in a tuple; "
                "use an array of a union",
            )
        self._file.count(node, sum(len(f.parts) + len(o.parts) for f in self._forms for o in others))
        self._forms = [_joined(form, other) for form in self._forms for other in others]


def _joined(first: ir.Tuple, then: ir.Tuple) -> ir.Tuple:
    further = [rest for rest in (first.rest, then.rest) if rest is not None]
    return ir.Tuple((*first.items, *then.items), ir.union_of(dict.fromkeys(further)) if further else None)
