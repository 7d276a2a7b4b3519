"""The files beside the packages: support modules, the index, `latest`, and a project's pyproject.toml."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, Final

from mcprev_codegen.emit.package import public_names
from mcprev_codegen.emit.provenance import FROM_ALL, SUPPORT_FILES, header_lines
from mcprev_codegen.facts import Revision
from mcprev_codegen.python import code, comment, docstring, identifier, is_identifier, module_name, render
from mcprev_codegen.python.formatting import format_python
from mcprev_codegen.support import Kind

_SUPPORT: Final = Path(__file__).parents[1] / "support"


def shared_files(
    revisions: Sequence[Revision], pending: Collection[str], latest: Revision, name: str
) -> dict[str, str]:
    """Return the files next to the packages: support modules, the index and `latest`.

    `name` is the name of the outer package.
    """
    pinned = latest.pin is not None
    everything = comment(FROM_ALL if pinned else header_lines(latest))
    package = module_name(latest.name)
    outer = identifier(name) if is_identifier(name) else code("package")
    texts = {file: f"{everything}\n{(_SUPPORT / file).read_text(encoding='utf-8')}" for file in SUPPORT_FILES}
    infos = [_info(r) | ({"status": "pending"} if r.name in pending else {}) for r in revisions]
    texts["index.py"] = render("index.py", header=everything, infos=infos, latest=latest.name)
    texts["latest.py"] = render(
        "__init__.py",
        header=comment(header_lines(latest)),
        doc=docstring(f"The {'newest complete dated' if pinned else 'generated'} revision, under a stable name."),
        dots=code("."),
        exports={
            code(".{}", identifier(package)): tuple(sorted(n for names in public_names(latest).values() for n in names))
        },
    )  # fmt: skip
    texts["__init__.py"] = render(
        "__init__.py",
        header=everything,
        doc=code(
            '"""The types of {} of the Model Context Protocol, one package each.\n\n'
            "`from {}.{} import CallToolResult` imports a type of one revision; `{}.latest`\n"
            "has the types of the newest complete dated revision. `REVISIONS` lists the revisions. Importing this package\n"
            'imports none of them.\n"""',
            code("every revision") if pinned else code("a revision"), outer, identifier(package), outer,
        ),
        dots=code("."),
        exports={
            code("._base"): ("ABSENT", "Absent", "Model"),
            code("._errors"): ("locate", "with_json_paths"),
            code("._open"): ("UnknownContent",),
            code("._spec"): (
                "Binding", "Child", "Direction", "Kind", "MethodNotHandled", "MethodSpec", "RevisionInfo", "Sender",
                "Transport", "TypeDelta",
            ),
            code(".index"): ("LATEST", "REVISIONS"),
        },
    )  # fmt: skip
    return {file: format_python(text) for file, text in texts.items()} | {"py.typed": ""}


def project_file(distribution: str, package: str, made_of: Revision) -> str:
    """Return the pyproject.toml of a standalone package."""
    extends = f", an extension of {made_of.like}" if made_of.like not in (None, made_of.name) else ""
    description = f"Typed models of MCP {made_of.name}{extends}, generated from its schema.ts."
    return render("pyproject.toml", distribution=distribution, package=package, description=description)


def _info(revision: Revision) -> dict[str, Any]:
    pin = revision.pin
    kinds = [m.kind for m in revision.methods.values()]
    return {
        "revision": revision.name,
        "protocol_version": revision.protocol_version,
        "package": module_name(revision.name),
        "status": pin.status if pin else "file",
        "era": revision.era,
        "requests": kinds.count(Kind.REQUEST),
        "notifications": kinds.count(Kind.NOTIFICATION),
        "types": len(revision.declared.types),
        "source": pin.location if pin else revision.declared.path,
        "commit": pin.commit if pin else "",
        "sha256": pin.sha256 if pin else "",
        "spec": pin.spec if pin else "",
    }
