"""The table of targets: what types can be made for."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from mcprev_codegen.emit.names.checks import unchecked_patterns
from mcprev_codegen.emit.package import RESERVED, RevisionChain, is_generated, package_files
from mcprev_codegen.emit.provenance import SHARED
from mcprev_codegen.emit.shared import extension_files, shared_files
from mcprev_codegen.emit.targets.types_only import INIT, TYPED, Library
from mcprev_codegen.facts import Revision
from mcprev_codegen.inputs import EXTENSIONS
from mcprev_codegen.python import code, module_name


@dataclass(frozen=True)
class Target:
    """What types are made for, and which files that gives."""

    name: str
    files: Callable[[Revision, RevisionChain], Mapping[str, str]]
    """Returns the files of one revision, by path in the folder of all revisions."""
    shared: Callable[[Sequence[Revision], Collection[str], Revision, str], Mapping[str, str]]
    """Returns the files beside them, for revisions, those of them that are pending, the newest, and the package's name."""
    is_generated: Callable[[str, str], bool]
    """Returns whether a file is generated for this target, by its path in the folder and the start of its text."""
    reserved: frozenset[str]
    """The names that its modules use themselves, which no type or constant of a schema can have."""
    known_by: tuple[str, ...]
    """Files at the top of every such folder, any of which identifies it; the first is written first."""
    dependencies: tuple[str, ...] = ()
    """What a package of such files depends on."""
    extensions: Callable[[Sequence[Revision]], Mapping[str, str]] | None = None
    """Returns the files beside the packages of versions of extensions; None for a target without such packages."""
    doubts: Callable[[Revision], Sequence[str]] = lambda _: ()
    """Returns what its types do not check although they check the like, one warning each."""


def _types_only(library: Library) -> Target:
    return Target(
        library.name,
        library.files,
        library.shared,
        library.is_generated,
        library.reserved,
        (INIT,),
        library.dependencies,
    )


def _package(revision: Revision, neighbours: RevisionChain) -> dict[str, str]:
    folder = module_name(revision.name)
    if revision.extension is not None:
        folder = f"{EXTENSIONS}/{revision.extension.package}/{folder}"
    return {f"{folder}/{name}": text for name, text in package_files(revision, neighbours).items()}


_DATACLASSES, _MSGSPEC, _TYPING = code("dataclasses"), code("msgspec"), code("typing")
LIBRARIES: Final = (
    Library(
        "dataclass",
        "dataclasses.dataclass",
        "dataclasses",
        {"dataclass": (_DATACLASSES, "class"), "field": (_DATACLASSES, "renamed")},
        (
            'Attributes are called as in JSON; one that cannot be has its name in JSON in `field.metadata["name"]`.',
            "An absent member is `None`, and so is null.",
            "Members that a class does not declare have no place.",
        ),
    ),
    Library(
        "typeddict",
        "typing.TypedDict",
        "TypedDicts",
        {"TypedDict": (_TYPING, "class"), "NotRequired": (_TYPING, "optional")},
        (
            "Nothing is checked at run time, and no value is filled in.",
            "Members that a type does not declare are kept, but type checkers refuse them.",
        ),
    ),
    Library(
        "msgspec",
        "msgspec.Struct",
        "msgspec structs",
        {
            "Struct": (_MSGSPEC, "class"), "UNSET": (_MSGSPEC, "optional"), "UnsetType": (_MSGSPEC, "optional"),
            "field": (_MSGSPEC, "renamed"),
        },
        (
            "A union of objects without a tag of one value each is `Any`: pass it to `msgspec.convert` with the type you expect.",
            "So is an alias that refers to itself.",
            "The tag of a struct is a class variable; it may be missing where only one struct fits.",
            "A literal `true` or `false` is `bool`.", "An integer refuses `1.0`.",
            "Members that a struct does not declare are dropped.",
        ),
        dependencies=("msgspec>=0.19",),
        unsupported=r'[\x00-\x1f"\\]',
        tagged=True,
        wire_names=False,
    ),
)  # fmt: skip
"""The targets whose types datamodel-code-generator writes."""
_MODULES: Final = tuple(name for name in SHARED if name != TYPED)  # for `py.typed` is empty, whoever wrote it
_NEEDED: Final = ("pydantic>=2.12,<3", "typing-extensions>=4.12")
PYDANTIC: Final = Target(
    "pydantic",
    _package,
    shared_files,
    is_generated,
    RESERVED,
    _MODULES,
    _NEEDED,
    extension_files,
    unchecked_patterns,
)
TARGETS: Final[Mapping[str, Target]] = {
    target.name: target for target in (PYDANTIC, *map(_types_only, LIBRARIES))
}
"""The targets by name, the default first."""
