"""Imports a schema.ts from upstream: checks it, writes its contract and pins it."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Final

from mcprev_codegen import inputs, ir
from mcprev_codegen.errors import CodegenError, InputError
from mcprev_codegen.facts import VERSION_CONSTANT, Revision, load_revision
from mcprev_codegen.typescript import parse, print_module

SPEC: Final = "https://modelcontextprotocol.io/specification/{revision}"
LOCATION: Final = (
    "https://github.com/modelcontextprotocol/modelcontextprotocol/blob/{commit}/schema/{revision}/schema.ts"
)
RELEASE: Final = "pkg:"
"""How the location of a file begins that is part of a published package; its commit is the version of that."""
_COMMIT: Final = re.compile(r"\b[0-9a-f]{40}\b")
_NAME: Final = re.compile(r"[a-z][a-z0-9-]*")


def import_schema(
    folder: inputs.SchemaFolder,
    source: str,
    revision: str,
    *,
    commit: str | None = None,
    location: str | None = None,
    repin: bool = False,
    base: str | None = None,
    spec: str | None = None,
    written: bool = False,
) -> inputs.Pin:
    """Read a schema.ts from a path or URL, write its contract into `folder` and pin it.

    `commit` is the upstream commit. Without it, the commit is taken from the URL, from the git checkout of the file,
    or from the existing pin if the file has not changed. `location` is the URL of the file at upstream. An existing
    pin is replaced by a different file only with `repin`. In the folder of an extension, `base` is the pinned revision
    that this version is based on, from which all that the file imports is taken, and `spec` the URL of its specification;
    `written` says that there is no file at upstream, and that this one was written from the text at `location`. Raises
    `CodegenError`, with nothing written, if the file cannot be read or parsed, if its commit is unknown, or if it declares
    another revision.
    """
    _check_name(revision, of_extension=folder.core is not None)
    released = location is not None and location.startswith(RELEASE)
    if commit is not None and not (released or _COMMIT.fullmatch(commit)):
        raise InputError(
            f"--commit '{commit}' is not a commit id: pass all 40 hexadecimal digits, in lower case"
        )
    if released and commit is None:
        raise InputError("pass the version of the package with --commit")
    data = inputs.fetch(source) if inputs.is_url(source) else inputs.read_file(Path(source))
    commit = commit or _commit_of(source, data)
    source = inputs.without_secrets(source)
    files = _base_files(folder, revision, base)
    read = parse(inputs.decoded(data, source), source, files, strict=files is None)
    if files is not None:
        _check_imported(read, load_revision(files.folder, files.pin.revision), source)
    module = _own(read)
    if not module.types:
        raise InputError(f"{source}: it declares no type, so it is not a schema")
    _check_version(module, source, revision, required=files is None)
    pin = _pin(folder, source, revision, inputs.digest(data), commit, location)
    if files is not None:
        pin = _of_extension(folder, pin, files.pin.revision, spec, source, written=written)
    text = print_module(module, _header(pin), files.imported_as(_imported(module)) if files else "")
    if _own(parse(text, "the canonical form", files)) != module:
        raise CodegenError(f"{source}: the canonical form does not parse to the same contract; report this")
    pin = inputs.with_contract(pin, text)
    _check_change(inputs.load_pins(folder).get(revision), pin, source, repin=repin)
    inputs.save_contract(folder, pin, text)
    return pin


def _header(pin: inputs.Pin) -> str:
    what = (
        f"The contract of {pin.location}, without its prose."
        if pin.origin == inputs.OF_SCHEMA
        else f"Written from the text of {pin.location}, which has no schema.ts."
    )
    return f"{what}\nWritten by `mcprev import`; not edited by hand."


def _base_files(folder: inputs.SchemaFolder, version: str, base: str | None) -> inputs.BaseFiles | None:
    """Return what a version of an extension imports; None for a revision."""
    if folder.core is None:
        return None
    present = inputs.load_pins(folder).get(version)
    base = base or (present.base if present else None)
    if base is None:
        raise InputError(f"pass the revision that '{version}' is based on, with --base")
    return inputs.BaseFiles(folder.core, inputs.require_pin(folder.core, base))


def _check_imported(module: ir.Module, base: Revision, source: str) -> None:
    """Raise `InputError` if the file has another type of a name that it imports: the reader calls one of them otherwise."""
    for decl in module.decls:
        if decl.span.path and decl.name not in (*base.declared.types, *base.declared.consts):
            raise InputError(
                f"{source}: it declares a type that has the name of one of {base.name} that it imports, or that one of "
                f"these needs: the latter would be called '{decl.name}'; rename the type of this file"
            )


def _own(module: ir.Module) -> ir.Module:
    """Return the contract of what the file itself declares."""
    found = ir.contract(module)
    return replace(found, decls=tuple(decl for decl in found.decls if not decl.span.path))


def _imported(module: ir.Module) -> tuple[str, ...]:
    """Return the types that declarations refer to and that are not among them."""
    return tuple(sorted({name for decl in module.decls for name in ir.references(decl)} - {*module.types}))


def _of_extension(
    folder: inputs.SchemaFolder, pin: inputs.Pin, base: str, spec: str | None, source: str, *, written: bool
) -> inputs.Pin:
    """Return the pin of a version of an extension."""
    present = inputs.load_pins(folder).get(pin.revision)
    spec = spec or (present.spec if present else None)
    if spec is None or not spec.isprintable():
        raise InputError(f"{source}: pass the URL of the specification of this version with --spec")
    written = written or (present is not None and present.origin == inputs.OF_TEXT)
    return replace(pin, spec=spec, base=base, origin=inputs.OF_TEXT if written else inputs.OF_SCHEMA)


def _check_name(revision: str, *, of_extension: bool) -> None:
    numbered = of_extension and revision.isascii() and revision.isdecimal()
    if not (inputs.is_date(revision) or _NAME.fullmatch(revision) or numbered):
        raise InputError(f"'{revision}' is not a valid revision: use a date (YYYY-MM-DD) or 'draft'")


def _check_version(module: ir.Module, source: str, revision: str, *, required: bool) -> None:
    """Raise `InputError` unless the file declares this revision. A draft declares the revision that it is based on.

    It may declare none where that is not `required`.
    """
    const = module.consts.get(VERSION_CONSTANT)
    if not inputs.is_dated(revision) or (const is None and not required):
        return
    if const is None:
        raise InputError(
            f"{source}: it does not declare {VERSION_CONSTANT}, so it cannot be identified as {revision}"
        )
    if const.value != revision:
        raise InputError(
            f"{source}: its {VERSION_CONSTANT} is '{const.value}', so this is not the file of {revision}; "
            f"pass --revision {const.value}, or another file"
        )


def _check_change(present: inputs.Pin | None, new: inputs.Pin, source: str, *, repin: bool) -> None:
    if present is None or present.sha256 == new.sha256 or repin:
        return
    raise InputError(
        f"{source}: {new.revision} is pinned to another file; nothing was changed. The pin has commit "
        f"{present.commit}, sha256 {present.sha256}; this file has commit {new.commit}, sha256 {new.sha256}. "
        f"Compare them with `mcprev diff {new.revision} FILE`; pass --repin to pin this file instead"
    )


def _pin(
    folder: inputs.SchemaFolder,
    source: str,
    revision: str,
    sha256: str,
    commit: str | None,
    location: str | None,
) -> inputs.Pin:
    present = inputs.load_pins(folder).get(revision)
    same = present if present is not None and present.sha256 == sha256 else None
    found = commit or (same.commit if same else None)
    if found is None:
        raise InputError(f"{source}: the upstream commit is unknown; pass it with --commit")
    where = location or (same.location if same else None)
    if where is None and folder.core is not None:
        raise InputError(f"{source}: pass the upstream URL of the file with --location")
    where = where or LOCATION.format(commit=found, revision=revision)
    if not where.isprintable():
        raise InputError(f"{where!r} is not a URL: pass the upstream URL of the file with --location")
    return inputs.Pin(revision, where, found, sha256, "", SPEC.format(revision=revision))


def _commit_of(source: str, data: bytes) -> str | None:
    """Return the commit in a URL, or the one that last changed a file, if the file is as committed in a checkout."""
    if inputs.is_url(source):
        match = _COMMIT.search(inputs.without_secrets(source))
        return match[0] if match else None
    repository = inputs.find_repository(Path(source).parent)
    return repository.last_change(Path(source), data) if repository else None
