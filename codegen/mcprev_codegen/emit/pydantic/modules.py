"""The modules of models: their imports, classes and aliases."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Final, LiteralString

from mcprev_codegen import ir
from mcprev_codegen.emit.models.plan import (
    ModelAlias,
    ModelClass,
    ModelModule,
    ModelParameter,
    ModelPlan,
    OpenUnion,
)
from mcprev_codegen.emit.pydantic.annotations import Annotation, Annotations
from mcprev_codegen.emit.pydantic.attributes import Attribute, attributes, discriminator
from mcprev_codegen.emit.rendering import GeneratedFile, up_of
from mcprev_codegen.facts import Revision
from mcprev_codegen.inputs import EXTENSIONS
from mcprev_codegen.python import Code, code, docstring, identifier, module_name

_IMPORTS: Final[tuple[Mapping[Code, tuple[str, ...]], ...]] = (
    {code("typing"): ("TYPE_CHECKING", "Annotated", "Any", "Generic", "Literal", "TypeAlias", "Union")},
    {
        code("pydantic"): ("Field", "Tag"),
        code("typing_extensions"): ("TypeAliasType", "TypeVar", "deprecated"),
    },
)
_SHARED: Final[Mapping[LiteralString, tuple[str, ...]]] = {
    "_base": (
        "ABSENT", "DEPRECATED", "EXACT", "EXACTLY", "FURTHER", "Integer", "Model", "Nothing", "Nullable", "Opt", "Whole", "constant", "deep", "fallback", "limited", "stated", "wire",
    ),
    "_open": ("UNKNOWN", "UnknownContent", "exact_union", "open_union"),
}  # fmt: skip
"""The names that a module of models may import, by module: first by import group, last from beside the packages."""
IMPORTED: Final = frozenset(
    name
    for names in (*_SHARED.values(), *(n for group in _IMPORTS for n in group.values()))
    for name in names
)
"""The names that no type may have."""


FLAT: Final = 30
"""How many models may lead to one another within Python's own limit of recursion, with room for what uses them."""


@dataclass(frozen=True, slots=True)
class PydanticClass:
    """A class as its template prints it."""

    TEMPLATE: ClassVar[LiteralString] = "class.py.jinja2"
    name: Code
    doc: str
    deprecated: str | None
    """The message of its deprecation."""
    bases: Sequence[Code]
    attributes: Sequence[Attribute]
    parameters: Sequence[str] = ()
    """The names of its type variables."""
    further: Annotation | None = None
    """The type of what is kept beside its attributes, by name."""

    @property
    def names(self) -> frozenset[str]:
        """The names that it refers to."""
        own = {*self.bases, *self.parameters, *(["deprecated"] if self.deprecated else [])}
        if self.parameters:
            own.add("Generic")
        if self.further:
            own |= {"TYPE_CHECKING", *self.further.names}
        return frozenset(own).union(*(one.names for one in self.attributes))


@dataclass(frozen=True, slots=True)
class PydanticAlias:
    """An alias as its template prints it."""

    TEMPLATE: ClassVar[LiteralString] = "alias.py.jinja2"
    name: Code
    doc: str
    annotation: Annotation
    recursive: bool
    discriminator: str | None
    """The attribute whose strings distinguish the members of a union."""
    open: OpenUnion | None
    """Its types are class names."""
    parameters: Sequence[str] = ()
    """The names of its type variables."""
    exact: tuple[str, Sequence[tuple[Annotation, ir.Literal]]] | None = None
    """The member whose tags, not only strings, distinguish the members of a union, and those with a tag each."""

    @property
    def names(self) -> frozenset[str]:
        """The names that it refers to."""
        if self.parameters:
            return self.annotation.names | {"TypeAlias", "TYPE_CHECKING", "TypeAliasType", *self.parameters}
        if self.exact and not self.recursive:
            used = (annotation.names for annotation, _ in self.exact[1])
            return frozenset({"TypeAlias", "Annotated", "Tag", "exact_union"}).union(*used)
        if self.open and not self.recursive:
            return frozenset(
                {
                    *(name for name, _ in self.open.tags),
                    "TypeAlias",
                    "Annotated",
                    "Tag",
                    "UNKNOWN",
                    "UnknownContent",
                    "open_union",
                }
            )
        own = self.annotation.names | {"TypeAlias"}
        if self.recursive:
            return own | {"TYPE_CHECKING", "TypeAliasType"}
        return own | {"Annotated", "Field"} if self.discriminator else own


@dataclass(frozen=True, slots=True)
class PydanticParameter:
    """A type variable as its template prints it."""

    TEMPLATE: ClassVar[LiteralString] = "parameter.py.jinja2"
    name: Code
    doc: str
    default: Annotation
    bound: Annotation | None

    @property
    def names(self) -> frozenset[str]:
        """The names that it refers to."""
        return self.default.names | {"TypeVar"} | (self.bound.names if self.bound else frozenset[str]())


@dataclass(frozen=True, slots=True)
class Package:
    """The package of a revision, as quoted annotations refer to it."""

    folder: Code
    """The folder from which a module of models imports `name`."""
    name: Code
    path: Code
    """What annotations call it: `name`, or what leads from there to the package of an extension's version."""


@dataclass(frozen=True, slots=True)
class PydanticModule:
    """A module of models as its template prints it."""

    doc: Code
    imports: Sequence[Mapping[Code, Sequence[str]]]
    """The imported names by module, in groups."""
    models: Sequence[PydanticClass | PydanticAlias | PydanticParameter]
    packages: Sequence[Package]
    """The packages that quoted annotations refer to."""
    deep: int | None
    """How many models lead to one another, if those are more than `FLAT`."""


def model_files(plan: ModelPlan) -> Iterator[GeneratedFile]:
    """Yield the modules of a revision's models, in source order."""
    chain = ir.longest_chain({name: ir.references(decl) for name, decl in plan.schema.types.items()})
    for module in plan.modules:
        yield GeneratedFile(
            f"models/{module.module}.py",
            "module.py",
            _module(plan, module, chain if chain > FLAT else None),
            exports=tuple(plan.revision.names.class_name(model.name) for model in module.models),
        )


def _module(plan: ModelPlan, module: ModelModule, deep: int | None) -> PydanticModule:
    own, imported = _packages(plan.revision)
    known = {*module.loaded, *module.imported}
    models: list[PydanticClass | PydanticAlias | PydanticParameter] = []
    for model in module.models:
        annotations = Annotations(
            plan.schema, plan.revision.names, own.path, known,
            parameters=plan.parameters, whole=plan.revision.whole_numbers,
            imported=plan.imported, imported_package=(imported or own).path,
        )  # fmt: skip
        if isinstance(model, ModelClass):
            models.append(_class(model, annotations, plan.revision.subject))
        elif isinstance(model, ModelParameter):
            models.append(_parameter(model, annotations))
        else:
            models.append(_alias(model, annotations))
        known.add(model.name)
    names = frozenset({"deep"} if deep else ()).union(*(model.names for model in models))
    # A quoted annotation of a base is resolved in the module of the subclass.
    derived = any(isinstance(model, ModelClass) and model.bases for model in module.models)
    title = f'The pydantic models of {plan.revision.subject} in the section "{module.title}".'
    return PydanticModule(
        docstring(title),
        _imports(module, names, plan.revision, imported),
        models,
        [one for one in (imported, own) if one and (derived or str(one.name) in names)],
        deep,
    )


def _packages(revision: Revision) -> tuple[Package, Package | None]:
    """Return the package of a revision, and that from which it imports types: an extension from what it is based on."""
    name = identifier(module_name(revision.name))
    if revision.base is None or revision.extension is None:
        return Package(code("..."), name, name), None
    up, base, all_ = (
        code(".{}", up_of(revision)),
        identifier(module_name(revision.base.name)),
        identifier(EXTENSIONS),
    )
    path = code("{}.{}.{}", all_, identifier(revision.extension.package), name)
    return Package(up, all_, path), Package(up, base, base)


def _imports(
    module: ModelModule, names: frozenset[str], revision: Revision, base: Package | None
) -> list[Mapping[Code, Sequence[str]]]:
    """Return the imports of a module that refers to these names."""
    python, up = revision.names, code(".{}", up_of(revision))
    others: dict[Code, list[str]] = {}
    if base is not None:
        others[code("{}{}.models", base.folder, base.name)] = sorted(map(python.class_name, module.imported))
    for name, home in sorted(module.loaded.items(), key=lambda item: (item[1], item[0])):
        others.setdefault(code(".{}", identifier(home)), []).append(python.class_name(name))
    shared = {code("{}{}", up, identifier(home)): offered for home, offered in _SHARED.items()}
    groups = [*_IMPORTS, {**shared, **others}]
    needed = [{home: [n for n in offered if n in names] for home, offered in g.items()} for g in groups]
    used = [{home: found for home, found in group.items() if found} for group in needed]
    return [group for group in used if group]


def _class(model: ModelClass, annotations: Annotations, subject: str) -> PydanticClass:
    class_name = annotations.names.class_name
    return PydanticClass(
        identifier(class_name(model.name)),
        model.doc,
        f"Deprecated in {subject}." if model.deprecated else None,
        [identifier(class_name(base)) for base in model.bases] or [code("Model")],
        [*attributes(model.members, annotations)],
        [class_name(one) for one in model.parameters],
        annotations.annotation(ir.Record(model.further)) if model.further else None,
    )


def _parameter(model: ModelParameter, annotations: Annotations) -> PydanticParameter:
    return PydanticParameter(
        identifier(annotations.names.class_name(model.name)),
        model.doc,
        annotations.annotation(model.default),
        annotations.annotation(model.bound) if model.bound else None,
    )


def _alias(model: ModelAlias, annotations: Annotations) -> PydanticAlias:
    class_name = annotations.names.class_name
    if model.cycle:
        known = {*annotations.known, model.name}
        annotations = replace(annotations, known=known, inline=model.cycle - {model.name})
    annotation = annotations.within(model.type, model.tags)
    union = model.open and OpenUnion(
        model.open.property, [(class_name(name), tag) for name, tag in model.open.tags]
    )
    exact = None
    if model.exact:
        exact = model.exact.property, [(annotations.annotation(t), tag) for t, tag in model.exact.tags]
    return PydanticAlias(
        identifier(class_name(model.name)),
        model.doc,
        replace(annotation, quoted=bool(model.cycle)),
        bool(model.cycle),
        discriminator(model.discriminator, annotations) if model.discriminator else None,
        union,
        [class_name(one) for one in annotations.parameters.get(model.name, ())],
        exact,
    )
