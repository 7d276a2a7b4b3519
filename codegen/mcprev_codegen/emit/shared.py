"""The files beside the packages: support modules, the index, `latest`, and a project's pyproject.toml."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

from mcprev_codegen.emit.package import public_names
from mcprev_codegen.emit.provenance import FROM_ALL, SUPPORT_FILES, header_lines
from mcprev_codegen.facts import Revision
from mcprev_codegen.python import (
    Code,
    code,
    comment,
    docstring,
    identifier,
    is_identifier,
    module_name,
    render,
)
from mcprev_codegen.python.formatting import format_python
from mcprev_codegen.support import Kind, RevisionInfo

_SUPPORT: Final = Path(__file__).parents[1] / "support"
_PUBLIC: Final[Mapping[Code, tuple[str, ...]]] = {
    code("._base"): ("ABSENT", "Absent", "MisspeltMember", "Model"),
    code("._errors"): ("MAX_ERRORS", "details_of", "locate", "with_json_paths"),
    code("._open"): ("UnknownContent",),
    code("._spec"): (
        "Binding", "Child", "Direction", "Kind", "MethodNotHandled", "MethodSpec", "RevisionInfo", "Sender",
        "Transport", "TypeDelta",
    ),
    code(".index"): ("LATEST", "REVISIONS"),
}  # fmt: skip
"""The public names beside the packages."""


def shared_files(
    revisions: Sequence[Revision], pending: Collection[str], latest: Revision, name: str
) -> dict[str, str]:
    """Return the files next to the packages: support modules, the index and `latest`.

    `name` is the name of the outer package.
    """
    pinned = latest.pin is not None
    header, dots = comment(FROM_ALL if pinned else header_lines(latest)), code(".")
    package = identifier(module_name(latest.name))
    outer = identifier(name) if is_identifier(name) else code("package")
    infos = [asdict(_info(revision, pending)) for revision in revisions]
    kind = "newest complete dated" if pinned else "generated"
    doc = docstring(f"The {kind} revision, under a stable name.")
    names = sorted(name for names in public_names(latest).values() for name in names)
    newest, own = {code(".{}", package): tuple(names)}, comment(header_lines(latest))
    texts = {file: f"{header}\n{(_SUPPORT / file).read_text(encoding='utf-8')}" for file in SUPPORT_FILES}
    texts["index.py"] = render("index.py", header=header, infos=infos, latest=latest.name)
    texts["latest.py"] = render("__init__.py", header=own, doc=doc, dots=dots, exports=newest)
    texts["__init__.py"] = render(
        "packages.py", header=header, dots=dots, exports=_PUBLIC, outer=outer, package=package, every=pinned
    )
    return {file: format_python(text) for file, text in texts.items()} | {"py.typed": ""}


def project_file(distribution: str, package: str, made_of: Revision, dependencies: Sequence[str]) -> str:
    """Return the pyproject.toml of a standalone package."""
    extends = f", an extension of {made_of.like}" if made_of.like not in (None, made_of.name) else ""
    description = f"Typed models of MCP {made_of.name}{extends}, generated from its schema.ts."
    return render(
        "pyproject.toml", distribution=distribution, package=package, description=description, dependencies=dependencies
    )  # fmt: skip


def _info(revision: Revision, pending: Collection[str]) -> RevisionInfo:
    pin = revision.pin
    status = pin.status if pin else "file"
    kinds = [m.kind for m in revision.methods.values()]
    return RevisionInfo(
        revision=revision.name,
        protocol_version=revision.protocol_version,
        package=module_name(revision.name),
        status="pending" if revision.name in pending else status,
        era=revision.era,
        requests=kinds.count(Kind.REQUEST),
        notifications=kinds.count(Kind.NOTIFICATION),
        types=len(revision.declared.types),
        source=pin.location if pin else revision.declared.path,
        commit=pin.commit if pin else "",
        sha256=pin.sha256 if pin else "",
        spec=pin.spec if pin else "",
    )
