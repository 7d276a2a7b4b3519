"""Fills in the templates of generated files, and formats Python with black."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Final, LiteralString

from mcprev_codegen.facts import Revision
from mcprev_codegen.python import Code, code, render
from mcprev_codegen.python.formatting import format_python

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_MAX_FORMATTED: Final = 300_000
"""The maximum number of characters of a package that black formats, a third more than those of the largest revision.

Formatting takes most of the time; a larger package has its modules as the templates write them.
"""


@dataclass(frozen=True, slots=True)
class GeneratedFile:
    """One generated Python file, not yet written."""

    path: str
    template: LiteralString
    data: DataclassInstance
    """What the template prints; it refers to the attributes by name."""
    exports: tuple[str, ...] = ()
    """Names that the package exports from it."""


def up_of(revision: Revision) -> Code:
    """Return the way from a module of a package up to the folder of all packages, in dots."""
    return code("....") if revision.extension else code("..")


def python_files(files: Iterable[GeneratedFile], **common: Code) -> dict[str, str]:
    """Return the text of each file by path; `common` is what all templates print."""
    texts = {file.path: _filled(file, common) for file in files}
    if sum(map(len, texts.values())) > _MAX_FORMATTED:
        return dict(texts)
    return {path: format_python(text) for path, text in texts.items()}


def _filled(file: GeneratedFile, common: Mapping[str, Code]) -> Code:
    values = {field.name: getattr(file.data, field.name) for field in fields(file.data)}
    return render(file.template, **common, **values)
