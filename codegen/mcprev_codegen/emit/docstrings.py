"""The docstrings of generated code: description, sender, first revision, and a link to the specification."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from mcprev_codegen import ir
from mcprev_codegen.facts import Method, Revision, Side
from mcprev_codegen.lineage import TypeHistory
from mcprev_codegen.python import Code, docstring
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
    """Builds the docstrings of one revision."""

    revision: Revision
    histories: Mapping[str, TypeHistory]
    oldest: str
    """The oldest pinned revision; a type that it has may be older."""

    def types(self) -> dict[str, Code]:
        """Return the docstring of every type by its name in the schema."""
        return {name: self.type(name) for name in self.revision.schema.types}

    def type(self, name: str) -> Code:
        """Return the docstring of one type."""
        decl = self.revision.schema.types[name]
        sentences = [
            _SENDERS[self.revision.senders[name]],
            *self._history(name, deprecated=decl.tags.deprecated),
        ]
        sentences += _since(decl.doc)
        carriers = self._carriers.get(name, [])
        inline = name not in self.revision.declared.types and carriers
        summary = f"Parameters of `{'`, `'.join(carriers)}`." if inline else self._summary(decl)
        return docstring(summary, " ".join(sentences), self._link(name))

    @cached_property
    def _carriers(self) -> Mapping[str | None, list[str]]:
        """The methods that each type holds the parameters of."""
        found: dict[str | None, list[str]] = {}
        for method in self.revision.methods.values():
            found.setdefault(method.params, []).append(method.method)
        return found

    def method(self, method: Method) -> Code:
        """Return the docstring of a stub or caller."""
        decl = self.revision.schema.types[method.type]
        summary = self._summary(decl)
        named = "" if f"`{method.method}`" in summary else f"`{method.method}`: "
        directions = [side.direction_text for side in method.senders]
        direction = directions[0] if len(directions) == 1 else "either direction"
        sentences = [f"{named}A {method.kind}, {direction}."]
        if method.transport is Transport.EMBEDDED:
            sentences.append("It is sent inside an InputRequiredResult.")
        if method.capability:
            sentences.append(f"Needs the capability `{method.capability}`.")
        sentences += self._history(method.type, deprecated=method.deprecated)
        return docstring(summary, " ".join(sentences), self._link(method.type))

    def summary(self, method: Method) -> str:
        """Return the description of a method's message."""
        return self._summary(self.revision.schema.types[method.type])

    def _summary(self, decl: ir.Decl) -> str:
        text = plain_text(decl.doc.text or decl.doc.notes or "")
        return text.split("\n\n")[0].replace("\n", " ").strip() or f"The type {decl.name}."

    def _history(self, name: str, *, deprecated: bool) -> Iterator[str]:
        history = self.histories.get(name)
        if history is not None:
            at_least = "at least " if history.since == self.oldest else ""
            changed = f", changed in {', '.join(history.changed)}" if history.changed else ""
            yield f"Since {at_least}{history.since}{changed}."
        if deprecated:
            yield "Deprecated."

    def _link(self, name: str) -> str:
        """Return the best link to the specification that the schema allows; empty for a file that is not pinned."""
        if self.revision.pin is None:
            return ""
        spec = self.revision.pin.spec
        decl = self.revision.declared.types.get(name)
        if any(d.tags.category for d in self.revision.declared.types.values()):
            shown = decl is not None and not decl.tags.internal
            return f"See {spec}/schema#{name.lower()}" if shown else f"See {spec}/schema"
        methods = [m for m in self.revision.methods.values() if name in (m.type, m.params, *m.results)]
        pages = {page for m in methods for prefix, page in _PAGES.items() if m.method.startswith(prefix)}
        return f"See {spec}/{pages.pop()}" if len(pages) == 1 else f"See {spec}"


def member_docstring(field: ir.Field) -> Code:
    """Return the docstring of a member: its comment, its default, and the revision that `@since` names."""
    sentences = [f"Default: `{field.tags.default}`."] if field.tags.default is not None else []
    sentences += _since(field.doc)
    if field.tags.deprecated:
        sentences.append("Deprecated.")
    return docstring(*plain_text(field.doc.text or field.doc.notes or "").split("\n\n"), " ".join(sentences))


def _since(doc: ir.Doc) -> list[str]:
    return [f"Since {text} (`@since`)." for name, text in doc.tags if name == "since"]


def prose_docstring(text: str) -> Code:
    """Return a comment as a docstring, with links replaced by their labels."""
    return docstring(*plain_text(text).split("\n\n"))
