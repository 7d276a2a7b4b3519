"""The files beside the packages: support modules, the index, `latest`, and a project's pyproject.toml."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

from mcprev_codegen.emit.package import public_names
from mcprev_codegen.emit.provenance import FROM_ALL, SUPPORT_FILES, header_lines
from mcprev_codegen.facts import Revision
from mcprev_codegen.inputs import EXTENSIONS, is_dated
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
from mcprev_codegen.support import ExtensionInfo, Kind, RevisionInfo, VersionInfo

_SUPPORT: Final = Path(__file__).parents[1] / "support"
_PUBLIC: Final[Mapping[Code, tuple[str, ...]]] = {
    code("._base"): ("ABSENT", "Absent", "MisspeltMember", "Model"),
    code("._errors"): ("MAX_ERRORS", "details_of", "locate", "with_json_paths"),
    code("._open"): ("UnknownContent",),
    code("._spec"): (
        "Binding", "Child", "Direction", "ExtensionInfo", "Kind", "MethodNotHandled", "MethodSpec", "RevisionInfo", "Sender",
        "Transport", "TypeDelta", "VersionInfo",
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


def extension_files(versions: Sequence[Revision]) -> dict[str, str]:
    """Return the files next to the packages of extensions: their index, and for each the types of its newest version.

    `versions` are those of all extensions, those of one oldest first.
    """
    by_name: dict[str, list[Revision]] = {}
    for version in versions:
        if version.extension is not None:
            by_name.setdefault(version.extension.name, []).append(version)
    header, up = comment(FROM_ALL), code("..")
    infos = {name: asdict(_extension_info(own)) for name, own in by_name.items()}
    texts = {
        "index.py": render("extensions.py", header=header, infos=infos),
        "__init__.py": render(
            "__init__.py", header=header, doc=docstring("The extensions of MCP, one package each; `EXTENSIONS` lists them."),
            dots=up, exports={code("."): tuple(sorted(info["package"] for info in infos.values())), code(".index"): ("EXTENSIONS",)},
        ),
    }  # fmt: skip
    for own in by_name.values():
        latest = _newest(own)
        assert latest.extension is not None
        names = sorted(name for names in public_names(latest).values() for name in names)
        doc = f"The extension {latest.extension.id or latest.extension.name}: {latest.extension.title}. The newest final version, and a package for each."
        exports = {
            code("."): tuple(module_name(version.name) for version in own),
            code(".{}", identifier(module_name(latest.name))): tuple(names),
        }
        texts[f"{latest.extension.package}/__init__.py"] = render(
            "__init__.py",
            header=comment(header_lines(latest)),
            doc=docstring(doc),
            dots=code("..."),
            exports=exports,
        )
    return {f"{EXTENSIONS}/{file}": format_python(text) for file, text in texts.items()}


def _newest(versions: Sequence[Revision]) -> Revision:
    """Return the newest version of an extension that is final; the draft if there is no other."""
    return ([one for one in versions if is_dated(one.name)] or versions)[-1]


def _extension_info(versions: Sequence[Revision]) -> ExtensionInfo:
    extension = versions[0].extension
    assert extension is not None
    found = {version.name: _version_info(version) for version in versions}
    return ExtensionInfo(extension.id, extension.title, extension.package, _newest(versions).name, found)


def _version_info(version: Revision) -> VersionInfo:
    pin, kinds = version.pin, [m.kind for m in version.methods.values()]
    assert pin is not None
    return VersionInfo(
        version=version.name,
        base=pin.base,
        package=module_name(version.name),
        status=pin.status,
        requests=kinds.count(Kind.REQUEST),
        notifications=kinds.count(Kind.NOTIFICATION),
        types=sum(map(version.is_own, version.declared.types.values())),
        source=pin.location,
        commit=pin.commit,
        sha256=pin.sha256,
        spec=pin.spec,
    )


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
