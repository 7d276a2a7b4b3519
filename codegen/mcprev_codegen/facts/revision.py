"""One revision with the facts derived from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from mcprev_codegen import ir
from mcprev_codegen.facts.methods import Method
from mcprev_codegen.facts.overlay import OverlayFacts
from mcprev_codegen.facts.vocabulary import STATED, VERSION_CONSTANT, Side
from mcprev_codegen.inputs import Extension, Pin, joined_name
from mcprev_codegen.ir import Json
from mcprev_codegen.python import PythonNames
from mcprev_codegen.resolve import Schema


@dataclass(frozen=True)
class Revision:
    """A revision: its schema as declared and as generated from, and the facts derived from it."""

    name: str
    pin: Pin | None
    """None for a file that is not pinned."""
    declared: Schema
    """The schema as in the file: inline objects inline, without the overlay."""
    hoisted: Schema
    """The schema after `hoist`: every object has a name; without the overlay."""
    schema: Schema
    """The hoisted schema with the overlay applied."""
    facts: OverlayFacts
    methods: Mapping[str, Method]
    senders: Mapping[str, frozenset[Side]]
    """The senders of each type of `schema`: one side, both or neither."""
    like: str | None = None
    """The pinned revision that a file extends; None for a pinned revision, and for a file that extends none."""
    names: PythonNames = field(default_factory=PythonNames)
    """The names in Python of its types and members."""
    warnings: tuple[str, ...] = ()
    """Ignored parts of the file, each with its place."""
    base: Revision | None = None
    """For a version of an extension, the revision whose types it imports."""
    extension: Extension | None = None
    """The extension that this is a version of."""

    @property
    def label(self) -> str:
        """The name that a command takes: `2026-07-28`, or `tasks@draft` for a version of an extension."""
        return joined_name(self.extension.name, self.name) if self.extension else self.name

    @property
    def subject(self) -> str:
        """What its package is about, in texts."""
        return f"the extension {self.label}" if self.extension else f"MCP {self.name}"

    def is_own(self, decl: ir.Decl) -> bool:
        """Return whether this declares a type or constant, rather than to import it from the revision that it is based on."""
        return self.base is None or not decl.span.path

    def own_consts(self) -> list[ir.Const]:
        """Return the constants that are declared here."""
        return [const for const in self.schema.consts.values() if self.is_own(const)]

    def owns(self, name: str) -> bool:
        """Return whether a type of the schema is declared here."""
        return self.is_own(self.schema.types[name])

    def default(self, owner: str, member: str) -> Json:
        """Return the overlay's value for an absent member, stated at its type or at a supertype; None without one."""
        places = (f"{name}.{member}" for name in (owner, *self.schema.supertypes(owner)))
        return next((self.facts.default[place] for place in places if place in self.facts.default), None)

    def stated(self, member: ir.Field) -> Json:
        """Return the least value of a member that the runtime states of its side in each request; None for any other.

        The runtime replaces what constructors fill in: the caller of a method knows nothing of it.
        """
        if member.name != STATED or member.optional:
            return None
        type_ = self.schema.follow(member.type)
        if not isinstance(type_, ir.Ref):
            return None
        fields = [each.field for each in self.schema.flat(type_.name).fields if not each.field.optional]
        text, found = ir.Prim("string"), dict[str, Json]()
        for each in fields:
            kind = self.schema.follow(each.type)
            if kind != text and not isinstance(kind, ir.Ref):
                return None  # an id of the other side, which this one does not know
            found[each.name] = self.negotiated_as if kind == text else {}
        return found

    def needs_params(self, method: Method) -> bool:
        """Return whether a caller of a method has to give params."""
        if method.params is None or method.params_optional:
            return False
        type_ = self.schema.follow(ir.Ref(method.params))
        if not isinstance(type_, ir.Ref):
            return True
        fields = [each.field for each in self.schema.flat(type_.name).fields]
        return any(not f.optional and self.stated(f) is None for f in fields)

    @property
    def of_mcp(self) -> bool:
        """Whether this is a revision of MCP or extends one."""
        return self.pin is not None or self.like is not None

    @property
    def whole_numbers(self) -> bool:
        """Whether its members of the type number are integers, as upstream's schema.json of each revision has it."""
        return self.of_mcp and (self.extension is None or self.extension.numbers == "whole")

    @property
    def negotiated_as(self) -> str:
        """The revision that peers negotiate to use this one."""
        return self.base.name if self.base else self.like or self.name

    @property
    def protocol_version(self) -> str:
        """The version string in the schema; a draft has that of the revision it is based on."""
        if self.base is not None:
            return self.base.protocol_version
        const = self.schema.consts.get(VERSION_CONSTANT)
        return str(const.value) if const else self.name

    @property
    def era(self) -> str:
        """`handshake` if sessions start with `initialize`, else `stateless`."""
        if self.base is not None:
            return self.base.era
        return "handshake" if "initialize" in self.methods else "stateless"
