"""Imports a schema.ts from upstream: checks it, writes its contract and pins it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from mcprev_codegen import inputs, ir
from mcprev_codegen.errors import CodegenError, InputError
from mcprev_codegen.facts import VERSION_CONSTANT
from mcprev_codegen.typescript import parse, print_module

SPEC: Final = "https://modelcontextprotocol.io/specification/{revision}"
LOCATION: Final = (
    "https://github.com/modelcontextprotocol/modelcontextprotocol/blob/{commit}/schema/{revision}/schema.ts"
)
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
) -> inputs.Pin:
    """Read a schema.ts from a path or URL, write its contract into `folder` and pin it.

    `commit` is the upstream commit. Without it, the commit is taken from the URL, from the git checkout of the file,
    or from the existing pin if the file has not changed. `location` is the URL of the file at upstream. An existing
    pin is replaced by a different file only with `repin`. Raises `CodegenError`, with nothing written, if the file
    cannot be read or parsed, if its commit is unknown, or if it declares another revision.
    """
    _check_name(revision)
    if commit is not None and not _COMMIT.fullmatch(commit):
        raise InputError(
            f"--commit '{commit}' is not a commit id: pass all 40 hexadecimal digits, in lower case"
        )
    data = inputs.fetch(source) if inputs.is_url(source) else inputs.read_file(Path(source))
    commit = commit or _commit_of(source, data)
    source = inputs.without_secrets(source)
    module = ir.contract(parse(inputs.decoded(data, source), source))
    if not module.types:
        raise InputError(f"{source}: it declares no type, so it is not a schema")
    _check_version(module, source, revision)
    pin = _pin(folder, source, revision, inputs.digest(data), commit, location)
    _check_change(inputs.load_pins(folder).get(revision), pin, source, repin=repin)
    header = (
        f"The contract of {pin.location}, without its prose.\nWritten by `mcprev import`; not edited by hand."
    )
    text = print_module(module, header)
    if parse(text, "the canonical form") != module:
        raise CodegenError(f"{source}: the canonical form does not parse to the same contract; report this")
    pin = inputs.with_contract(pin, text)
    inputs.save_contract(folder, pin, text)
    return pin


def _check_name(revision: str) -> None:
    if not (inputs.is_date(revision) or _NAME.fullmatch(revision)):
        raise InputError(f"'{revision}' is not a valid revision: use a date (YYYY-MM-DD) or 'draft'")


def _check_version(module: ir.Module, source: str, revision: str) -> None:
    """Raise `InputError` unless the file declares this revision. A draft declares the revision that it is based on."""
    if not inputs.is_dated(revision):
        return
    const = module.consts.get(VERSION_CONSTANT)
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
    where = location or (same.location if same else None) or LOCATION.format(commit=found, revision=revision)
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
