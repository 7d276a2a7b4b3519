"""Loads one revision: the input of `diff` and of all later steps of generation."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from mcprev_codegen import inputs, ir
from mcprev_codegen.errors import CodegenError, InputError, SchemaError, together
from mcprev_codegen.facts.base_types import with_types_of
from mcprev_codegen.facts.descriptions import load_descriptions
from mcprev_codegen.facts.methods import check_methods, method_table, unlisted
from mcprev_codegen.facts.overlay import apply_overlay, with_descriptions
from mcprev_codegen.facts.overlay_file import Problems, load_overlay
from mcprev_codegen.facts.revision import Revision
from mcprev_codegen.facts.senders import find_senders
from mcprev_codegen.facts.vocabulary import MESSAGE_UNIONS, VERSION_CONSTANT
from mcprev_codegen.python import check_revision
from mcprev_codegen.resolve import Schema, distribute, hoist
from mcprev_codegen.typescript import Sources, parse

_MCP_MODULES: Final = "@modelcontextprotocol/"
"""The start of the names of modules that have MCP's own types, which a pinned revision has as well."""


@inputs.read_once
def load_revision(folder: inputs.SchemaFolder, revision: str) -> Revision:
    """Return a pinned revision. Raises `CodegenError` if its pin, contract or overlay is invalid."""
    pin = inputs.require_pin(folder, revision)
    path = inputs.contract_path(folder, revision)
    texts = load_descriptions(folder, revision)
    text = inputs.read_contract(folder, pin)
    base = load_revision(folder.core, pin.base) if folder.core else None
    files = inputs.BaseFiles(folder.core, inputs.require_pin(folder.core, pin.base)) if folder.core else None
    module = parse(text, str(path), files)
    declared = Schema(texts.attach(module), str(path), text.split("\n"))
    problems = Problems(revision, _version(declared))
    try:
        found = _derived(folder, declared, revision, problems, pin=pin, base=base)
        if not problems.found:
            check_methods(found.schema, found.facts, found.methods, unions=base is None)
    except SchemaError:
        problems.stop()  # which may be the cause
        raise
    problems.stop()
    return found


def load_pinned(folder: inputs.SchemaFolder) -> dict[str, Revision]:
    """Return every pinned revision, oldest first. Raises `CodegenError` with all errors of all revisions."""
    found: dict[str, Revision] = {}
    errors: list[CodegenError] = []
    for name in inputs.load_pins(folder):
        try:
            found[name] = load_revision(folder, name)
        except CodegenError as error:
            errors += error.parts
    if errors:
        raise together(errors)
    return found


def load_versions(folder: inputs.SchemaFolder) -> dict[str, Revision]:
    """Return every pinned version of every extension by its label, those of one oldest first. Raises `CodegenError`."""
    found: dict[str, Revision] = {}
    errors: list[CodegenError] = []
    for extension, pins in inputs.extension_versions(folder):
        own = inputs.extension_folder(folder, extension.name)
        for name in pins:
            try:
                found[inputs.joined_name(extension.name, name)] = load_revision(own, name)
            except CodegenError as error:
                errors += error.parts
    if errors:
        raise together(errors)
    return found


def load_file(
    folder: inputs.SchemaFolder, path: Path, revision: str | None = None, roots: Sequence[str] = ()
) -> Revision:
    """Return the revision of a schema.ts that is not pinned, with its comments and the files that it imports.

    `revision` selects the overlay entries; those that do not fit are ignored. Without it, they are those of the pinned
    revision that the file's folder is named after, else of the version that the file declares. `roots` are the types to read, with
    what they need; without them, what describes no data is left out with a warning. Raises `CodegenError`.
    """
    data, files = inputs.read_file(path), inputs.TypeScriptFiles(
        lambda name: _pinned_file(folder, None, name)
    )
    return load_bytes(
        folder, data, str(path), inputs.resolved(path).parent.name, revision, files=files, roots=roots
    )


def load_bytes(
    folder: inputs.SchemaFolder,
    data: bytes,
    source: str,
    folder_name: str,
    revision: str | None = None,
    *,
    files: Sources | None = None,
    roots: Sequence[str] = (),
) -> Revision:
    """Return what `load_file` returns for a file that has been read.

    `source` is its name in errors, `folder_name` the name of its folder, `files` has what it imports. Without them it is read
    strictly.
    """
    text = inputs.decoded(data, source)
    module = parse(text, source, files, strict=files is None, roots=roots)
    declared = Schema(module, source, text.split("\n"))
    version = _version(declared)
    name = revision or (folder_name if folder_name in inputs.load_pins(folder) or not version else version)
    return _derived(folder, declared, name, Problems(name, version))


def load_custom(
    folder: inputs.SchemaFolder,
    path: Path,
    name: str | None,
    like: str | None,
    *,
    overlay: bool,
    names: Path | None = None,
    roots: Sequence[str] = (),
    strict: bool = False,
    open_unions: bool = False,
) -> Revision:
    """Return the revision of a schema.ts that is not pinned, to generate packages from.

    `like` is the pinned revision that it extends, whose overlay facts apply if they fit; by default the version that
    the file declares. Without `overlay` it extends none, and may be a file of types without messages. `name` is the
    name of the generated revision; by default `like` or the version. `names` is a file of names in Python. `roots`
    are the types to generate, with what they need; without them, all are. Unless it is `strict`, what describes no data is left
    out where no root needs it. A file that extends no revision has closed unions, but for types of MCP that it imports, unless
    `open_unions` are asked for. Raises `CodegenError`; problems that do not stop generation become warnings.
    """
    path = inputs.schema_file(path)
    text = inputs.decoded(inputs.read_file(path), str(path))
    files = inputs.TypeScriptFiles(lambda module: _pinned_file(folder, like, module))
    module = parse(text, str(path), files, strict=strict, roots=roots)
    declared = Schema(module, str(path), text.split("\n"))
    pins = inputs.load_pins(folder)
    version = _version(declared)
    name, like = _extended(path, declared, name, like, version, pins, overlay=overlay)
    problems = Problems(like or name, version)
    pinned = {str(inputs.contract_path(folder, pin)) for pin in pins}

    def may_be_open(decl: ir.Decl) -> bool:
        path = decl.span.path
        return open_unions or like is not None or path in pinned or f"/node_modules/{_MCP_MODULES}" in path

    found = _derived(
        folder, declared, name, problems, like=like, overlay=like is not None, may_be_open=may_be_open
    )
    inherited = load_revision(folder, like).methods if like else None
    told = (*problems.warnings(), *unlisted(found.schema, found.methods, inherited))
    if names:
        members = {f.name for name in found.schema.types for f in found.schema.fields(name)}
        found = replace(found, names=inputs.with_names(found.names, names, found.schema.types, members))
    return replace(found, warnings=(*found.warnings, *told))


def _extended(
    path: Path,
    declared: Schema,
    name: str | None,
    like: str | None,
    version: str | None,
    pins: Collection[str],
    *,
    overlay: bool,
) -> tuple[str, str | None]:
    """Return the name of the revision of a file, and the pinned revision that it extends, if any.

    Raises `InputError` where the file and what was passed do not say them.
    """
    unnamed = f"a name of its revision, which may be any, such as 1: mcprev generate 1 --schema {path.name} --no-overlay ..."
    if overlay and not any(union in declared.types for union in MESSAGE_UNIONS):
        raise InputError(
            f"{path}: this is not a schema of MCP: it declares none of {', '.join(MESSAGE_UNIONS)}; "
            "pass --no-overlay for a package of its types, which has no methods"
            + ("" if name or like or version else f", and {unnamed}")
        )
    if overlay and like is None:
        like = next((n for n in (name, version) if n in pins), None)
        if like is None:
            raise InputError(
                f"{path}: its LATEST_PROTOCOL_VERSION is {repr(version)[:60] if version else 'missing'}, which is not "
                f"a known revision: pass the one it extends with --like ({', '.join(pins)}), or --no-overlay for none"
                + ("" if name or version else f", and then {unnamed}")
            )
    if like is not None and like not in pins:
        raise InputError(f"--like '{like}' is not a known revision; known are {', '.join(pins)}")
    if not (name or like) and version is None:
        raise InputError(f"{path}: it declares no LATEST_PROTOCOL_VERSION; pass {unnamed}")
    try:
        return name or like or check_revision(version or ""), like
    except InputError as error:
        raise declared.fail(declared.consts[VERSION_CONSTANT], f"LATEST_PROTOCOL_VERSION: {error}") from None


def _pinned_file(folder: inputs.SchemaFolder, like: str | None, module: str) -> str | None:
    """Return the contract of a pinned revision for a module with MCP's own types; None for any other module."""
    if not module.startswith(_MCP_MODULES):
        return None
    known = [name for name in inputs.load_pins(folder) if inputs.is_dated(name)]
    name = like if like in inputs.load_pins(folder) else known[-1] if known else None
    return None if name is None else str(inputs.contract_path(folder, name))


def _version(declared: Schema) -> str | None:
    """Return the version that a file declares, if it does."""
    const = declared.consts.get(VERSION_CONSTANT)
    return str(const.value) if const else None


def _derived(
    folder: inputs.SchemaFolder,
    declared: Schema,
    name: str,
    problems: Problems,
    *,
    pin: inputs.Pin | None = None,
    like: str | None = None,
    base: Revision | None = None,
    overlay: bool = True,
    may_be_open: Callable[[ir.Decl], bool] = lambda _: True,
) -> Revision:
    """Return the revision of a schema; the entries of the overlay that do not fit it are added to `problems`.

    `base` is the revision of which an extension imports types.
    """
    declared.check_aliases()
    declared = distribute(declared)
    hoisted = hoist(declared)
    if base is not None:
        hoisted = with_types_of(base, hoisted, [str(entry.new) for entry in load_overlay(folder)])
    schema, facts = apply_overlay(
        hoisted, load_overlay(folder) if overlay else (), problems, may_be_open=may_be_open
    )
    schema.check_aliases()
    schema = with_descriptions(facts, load_descriptions(folder, problems.revision).fields, schema)
    if base is not None:
        facts.include(base.facts, schema.types)
    imported = [n for n, decl in schema.types.items() if decl.span.path] if base is not None else []
    methods = method_table(schema, facts, problems, imported)
    senders = find_senders(schema, methods)
    warnings = declared.module.warnings
    names = inputs.load_names(folder.core or folder)
    extension = inputs.extension_of(folder) if base is not None else None
    return Revision(
        name, pin, declared, hoisted, schema, facts, methods, senders, like, names, warnings, base, extension
    )


def dated(folder: inputs.SchemaFolder) -> list[str]:
    """Return the pinned revisions that are final, oldest first."""
    return [name for name in inputs.load_pins(folder) if inputs.is_dated(name)]
