"""The docstrings of generated code: description, sender, first revision, and a link to the specification."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile
from typing import Final

from mcprev_codegen import ir
from mcprev_codegen.facts import Method, Revision, Side
from mcprev_codegen.lineage import TypeHistory, type_histories
from mcprev_codegen.resolve import Schema
from mcprev_codegen.support import Transport
from mcprev_codegen.typescript import plain_text

_PAGES: Final = {
    "completion": "server/utilities/completion",
    "elicitation": "client/elicitation",
    "initialize": "basic/lifecycle",
    "logging": "server/utilities/logging",
    "notifications/message": "server/utilities/logging",
    "ping": "basic/utilities/ping",
    "prompts": "server/prompts",
    "resources": "server/resources",
    "roots": "client/roots",
    "sampling": "client/sampling",
    "tools": "server/tools",
}
"""The specification page of each method family, for revisions without a schema reference."""
_SENDERS: Final = {
    **{frozenset({side}): f"Sent by the {side}." for side in Side},
    frozenset(Side): "Sent by either side.",
    frozenset[Side](): "Part of no message.",
}


@dataclass(frozen=True)
class Docs:
    """The texts of the docstrings of one revision; blank lines separate paragraphs."""

    chain: Sequence[Revision]
    """The revision and all before it, oldest first; a type of the oldest may be older."""

    @property
    def revision(self) -> Revision:
        """The revision."""
        return self.chain[-1]

    @cached_property
    def histories(self) -> Mapping[str, TypeHistory]:
        """The history of every type of the revision."""
        return type_histories(self.chain)

    def models(self, planned: Schema) -> dict[str, str]:
        """Return the text of every type by its name in the schema, and of its members by `Type.member`.

        `planned` has the types of the revision, and an alias for each open union that is the type of a member.
        """
        schema = self.revision.schema
        owners = {used: name for name, found in planned.references.items() for used in found}
        found = {name: self.type(name) for name in schema.types}
        found |= {
            name: self._alias(decl, owners[name])
            for name, decl in planned.types.items()
            if name not in schema.types
        }
        for name in schema.types:
            for f in schema.fields(name):
                found[f"{name}.{f.name}"] = self.member(name, f.field)
        return found

    def type(self, name: str) -> str:
        """Return the text of one type."""
        decl = self.revision.schema.types[name]
        sentences = [
            _SENDERS[self.revision.senders[name]],
            *self._history(name, deprecated=decl.tags.deprecated),
        ]
        sentences += _since(decl.doc)
        summary = self._summary(name) or f"The type {name}."
        return _text(summary, " ".join(sentences), self._link(name))

    def _summary(self, name: str) -> str:
        """Return the first paragraph of a type's comment, or of what it holds; empty if neither is known."""
        carriers = self._carriers.get(name)
        if carriers and name not in self.revision.declared.types:
            return f"Parameters of `{'`, `'.join(carriers)}`."
        return _first_paragraph(self.revision.schema.types[name].doc)

    def _alias(self, decl: ir.Decl, owner: str) -> str:
        """Return the text of an alias for the type of a member; `owner` has the member."""
        since = self._first(self.histories[owner].since)
        return _text(
            _first_paragraph(decl.doc), f"{_SENDERS[self.revision.senders[owner]]} {since}", self._link(owner)
        )

    @cached_property
    def _carriers(self) -> Mapping[str | None, list[str]]:
        """The methods that each type holds the parameters of."""
        found: dict[str | None, list[str]] = {}
        for method in self.revision.methods.values():
            found.setdefault(method.params, []).append(method.method)
        return found

    def member(self, owner: str, field: ir.Field) -> str:
        """Return the text of a member: its comment, else that of its type; its default; its first revision."""
        of_type = self._summary(field.type.name) if isinstance(field.type, ir.Ref) else ""
        text = _prose(field.doc) or of_type
        sentences = [f"Default: `{field.tags.default}`."] if field.tags.default is not None else []
        history = self.histories[owner]
        since = history.members.get(field.name, history.since)
        if since != history.since:
            sentences.append(f"Since {since}.")
        sentences += _since(field.doc)
        if field.tags.deprecated:
            sentences.append("Deprecated.")
        return _continued(text, sentences)

    def method(self, method: Method) -> str:
        """Return the text of a member of an enum, a stub or a caller."""
        summary = self._summary(method.type) or f"The type {method.type}."
        named = "" if f"`{method.method}`" in summary else f"`{method.method}`: "
        directions = [side.direction_text for side in method.senders]
        direction = directions[0] if len(directions) == 1 else "either direction"
        sentences = [f"{named}A {method.kind}, {direction}."]
        if method.transport is Transport.EMBEDDED:
            sentences.append("It is sent inside an InputRequiredResult.")
        if method.capability:
            sentences.append(f"Needs the capability `{method.capability}`.")
        sentences += self._history(method.type, deprecated=method.deprecated)
        return _text(summary, " ".join(sentences), self._link(method.type))

    def constant(self, constant: ir.Const) -> str:
        """Return the text of a constant."""
        having = takewhile(lambda r: constant.name in r.schema.consts, reversed(self.chain))
        *_, first = having
        sentences = [self._first(first.name), *_since(constant.doc)]
        if constant.tags.deprecated:
            sentences.append("Deprecated.")
        return _text(_continued(_prose(constant.doc), sentences), self._page())

    def _history(self, name: str, *, deprecated: bool) -> Iterator[str]:
        history = self.histories[name]
        changed = f", changed in {', '.join(history.changed)}" if history.changed else ""
        yield f"{self._first(history.since)[:-1]}{changed}."
        if deprecated:
            yield "Deprecated."

    def _first(self, since: str) -> str:
        return f"Since {'at least ' if since == self.chain[0].name else ''}{since}."

    def _link(self, name: str) -> str:
        """Return the best link to the specification that the schema allows; empty for a file that is not pinned."""
        if self.revision.extension is not None:
            return self._page()
        decl = self.revision.declared.types.get(name)
        if self.revision.pin is None or self._has_reference:
            shown = decl is not None and not decl.tags.internal
            return self._page(f"#{name.lower()}" if shown else "")
        methods = [m for m in self.revision.methods.values() if name in (m.type, m.params, *m.results)]
        pages = {page for m in methods for prefix, page in _PAGES.items() if m.method.startswith(prefix)}
        return self._page(f"/{pages.pop()}" if len(pages) == 1 else "")

    def _page(self, within: str = "") -> str:
        """Return a link to the schema reference, else to the specification; empty for a file that is not pinned."""
        if self.revision.pin is None:
            return ""
        if self.revision.extension is not None:
            return f"See {self.revision.pin.spec}"
        return f"See {self.revision.pin.spec}{'/schema' * self._has_reference}{within}"

    @cached_property
    def _has_reference(self) -> bool:
        """Whether the specification has a page with the schema: its types are in categories then."""
        return any(decl.tags.category for decl in self.revision.declared.types.values())


def _text(*paragraphs: str) -> str:
    return "\n\n".join(filter(None, paragraphs))


def _continued(text: str, sentences: Sequence[str]) -> str:
    """Return a text and further sentences: in one paragraph if it ends with a sentence."""
    return " ".join([text, *sentences]) if text.endswith(".") else _text(text, " ".join(sentences))


def _prose(doc: ir.Doc) -> str:
    """Return a comment with links replaced by their labels."""
    return plain_text(doc.text or doc.notes or "")


def _first_paragraph(doc: ir.Doc) -> str:
    return _prose(doc).split("\n\n")[0].replace("\n", " ").strip()


def _since(doc: ir.Doc) -> list[str]:
    return [f"Since {text} (`@since`)." for name, text in doc.tags if name == "since"]
