"""The plan of the models of one revision: modules of classes and aliases, from which a target writes text.

Names of types and members are those of the schema; a target writes them as Python names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mcprev_codegen import ir
from mcprev_codegen.facts import Revision
from mcprev_codegen.ir import Json
from mcprev_codegen.resolve import Schema


@dataclass(frozen=True, slots=True)
class ModelMember:
    """A member that a class declares itself."""

    field: ir.Field
    fallback: Json
    """The overlay's value for a required member that a peer leaves out; None without one."""
    stated: Json
    """What constructors fill in for a required member that the runtime states of its side; None for any other."""
    doc: str
    """The text of its docstring, as that of a class or alias; empty without one."""


@dataclass(frozen=True, slots=True)
class ModelClass:
    """An object type that becomes a class."""

    name: str
    doc: str
    deprecated: bool
    bases: tuple[str, ...]
    members: tuple[ModelMember, ...]
    parameters: tuple[str, ...]
    """Its type parameters."""
    further: ir.TypeExpr | None = None
    """The type of the members without a name of their own, if it is another one than in the bases."""


@dataclass(frozen=True, slots=True)
class OpenUnion:
    """A union that also takes objects with a tag that it does not know."""

    property: str
    """The member that holds the tag."""
    tags: Sequence[tuple[str, ir.Literal]]
    """The types, each with a tag; once for each of its tags."""


@dataclass(frozen=True, slots=True)
class ExactUnion:
    """A union whose objects are told apart by tags that are not only strings."""

    property: str
    """The member that holds the tag."""
    tags: Sequence[tuple[ir.TypeExpr, ir.Literal]]
    """The types, each with a tag; once for each of its tags."""


@dataclass(frozen=True, slots=True)
class ModelAlias:
    """A type that becomes an alias."""

    name: str
    doc: str
    type: ir.TypeExpr
    tags: ir.Tags
    """Those with the limits of its values."""
    cycle: frozenset[str]
    """For an alias that refers to itself: the aliases of its cycle, itself included; else empty."""
    discriminator: str | None
    """The member whose strings distinguish the members of a union."""
    open: OpenUnion | None
    exact: ExactUnion | None


@dataclass(frozen=True, slots=True)
class ModelParameter:
    """A type parameter, which becomes a type variable."""

    name: str
    doc: str
    default: ir.TypeExpr
    bound: ir.TypeExpr | None


@dataclass(frozen=True, slots=True)
class ModelModule:
    """One module of models."""

    title: str
    """The section of the schema."""
    module: str
    models: tuple[ModelClass | ModelAlias | ModelParameter, ...]
    """A model stands below those that it needs at definition."""
    loaded: Mapping[str, str]
    """The types of other modules that are there when this one is executed, each with its module."""
    imported: tuple[str, ...] = ()
    """The same of the revision that an extension is based on."""


@dataclass(frozen=True, slots=True)
class ModelPlan:
    """The models of one revision."""

    revision: Revision
    schema: Schema
    """The revision's schema, with a name for each type that has a model."""
    modules: tuple[ModelModule, ...]
    """In source order."""
    parameters: Mapping[str, tuple[str, ...]]
    """The type parameters of each type that has any."""
    imported: frozenset[str] = frozenset()
    """The types of an extension that are those of the revision it is based on."""
