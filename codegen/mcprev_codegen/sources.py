"""Loads one revision: the input of `diff` and of all later steps of generation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mcprev_codegen import descriptions, overlay, typescript
from mcprev_codegen.errors import CodegenError, InputError, SchemaError, reason, together
from mcprev_codegen.fetch import LIMIT
from mcprev_codegen.hoist import hoist
from mcprev_codegen.methods import MESSAGE_UNIONS, Method, method_table, unlisted
from mcprev_codegen.naming import check_revision
from mcprev_codegen.overlay import OverlayFacts
from mcprev_codegen.resolve import Schema
from mcprev_codegen.revisions import Pin, contract_path, load_pins, read_contract, require_pin
from mcprev_codegen.senders import find_senders


@dataclass(frozen=True)
class Revision:
    """A revision: its schema as declared and as generated from, and the facts derived from it."""

    name: str
    pin: Pin | None
    """None for a file that is not pinned."""
    declared: Schema
    """The schema as in the file: inline objects inline, without the overlay."""
    schema: Schema
    """The schema after `hoist` and with the overlay applied: every object has a name."""
    facts: OverlayFacts
    methods: Mapping[str, Method]
    senders: Mapping[str, frozenset[str]]
    """The senders of each type of `schema`: `client`, `server`, both or neither."""
    like: str | None = None
    """The pinned revision that a file extends; None for a pinned revision, and for a file that extends none."""
    warnings: tuple[str, ...] = ()
    """Ignored parts of the file, each with its place."""

    @property
    def negotiated_as(self) -> str:
        """The revision that peers negotiate to use this one."""
        return self.like or self.name

    @property
    def protocol_version(self) -> str:
        """The version string in the schema; a draft has that of the revision it is based on."""
        const = self.schema.consts.get("LATEST_PROTOCOL_VERSION")
        return str(const.value) if const else self.name

    @property
    def era(self) -> str:
        """`handshake` if sessions start with `initialize`, else `stateless`."""
        return "handshake" if "initialize" in self.methods else "stateless"


def load_revision(folder: Path, revision: str) -> Revision:
    """Return a pinned revision. Raises `CodegenError` if its pin, contract or overlay is invalid."""
    pin = require_pin(folder, revision)
    path = contract_path(folder, revision)
    texts = descriptions.load_descriptions(folder, revision)
    text = read_contract(folder, pin)
    module = texts.attach(typescript.parse(text, str(path)))
    return _derive(folder, revision, pin, Schema(module, str(path), text.split("\n")))


def load_pinned(folder: Path) -> dict[str, Revision]:
    """Return every pinned revision, oldest first. Raises `CodegenError` with all errors of all revisions."""
    found: dict[str, Revision] = {}
    errors: list[CodegenError] = []
    for name in load_pins(folder):
        try:
            found[name] = load_revision(folder, name)
        except CodegenError as error:
            errors += error.parts
    if errors:
        raise together(errors)
    return found


def load_file(folder: Path, path: Path, revision: str | None = None, *, lenient: bool = False) -> Revision:
    """Return the revision of a schema.ts that is not pinned, with its comments.

    `revision` selects the overlay entries. Without it, they are those of the pinned revision that the file's folder is
    named after, else of the version that the file declares. Raises `CodegenError`; with `lenient`, overlay entries
    that do not match are ignored.
    """
    return load_bytes(
        folder, read_file(path), str(path), path.resolve().parent.name, revision, lenient=lenient
    )


def load_bytes(
    folder: Path,
    data: bytes,
    source: str,
    folder_name: str,
    revision: str | None = None,
    *,
    lenient: bool = False,
) -> Revision:
    """Return what `load_file` returns for a file that has been read.

    `source` is its name in errors, `folder_name` the name of its folder.
    """
    declared = _declared(data, source)
    if revision is None:
        version = declared.consts.get("LATEST_PROTOCOL_VERSION")
        revision = folder_name if folder_name in load_pins(folder) or not version else str(version.value)
    return _derive(folder, revision, None, declared, lenient=lenient)


def load_extension(
    folder: Path, path: Path, name: str | None, like: str | None, *, overlay: bool
) -> Revision:
    """Return the revision of a schema.ts that is not pinned, to generate packages from.

    `like` is the pinned revision that it extends, whose overlay facts apply if they fit; by default the version that
    the file declares. Without `overlay` it extends none. `name` is the name of the generated revision; by default
    `like` or the version. Raises `CodegenError`; problems that do not stop generation become warnings.
    """
    declared = _declared(read_file(path), str(path))
    if not any(union in declared.types for union in MESSAGE_UNIONS):
        raise InputError(
            f"{path}: this is not a schema of MCP: it declares none of {', '.join(MESSAGE_UNIONS)}"
        )
    pins = load_pins(folder)
    version = declared.consts.get("LATEST_PROTOCOL_VERSION")
    if overlay and like is None:
        named = (name, str(version.value) if version else None)
        like = next((n for n in named if n in pins), None)
        if like is None:
            raise InputError(
                f"{path}: its LATEST_PROTOCOL_VERSION is {repr(version.value)[:60] if version else 'missing'}, which is not "
                f"a known revision: pass the one it extends with --like ({', '.join(pins)}), or --no-overlay for none"
            )
    if like is not None and like not in pins:
        raise InputError(f"--like '{like}' is not a known revision; known are {', '.join(pins)}")
    name = name or like or _version(declared)
    if name is None:
        raise InputError(
            f"{path}: it declares no LATEST_PROTOCOL_VERSION; pass the name of the revision: mcprev generate REV ..."
        )
    return _derive(folder, name, None, declared, like=like, extension=True)


def read_file(path: Path) -> bytes:
    """Return the content of a file. Raises `InputError` if it cannot be read or is too large."""
    try:
        with path.open("rb") as file:
            data = file.read(LIMIT + 1)
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read: {reason(error)}") from None
    if len(data) > LIMIT:
        raise InputError(f"{path}: larger than {LIMIT} bytes, so it is not a schema.ts")
    return data


def decoded(data: bytes, source: str) -> str:
    """Return the text of a file. Raises `InputError`."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{source}: not UTF-8: {error}") from None


def _declared(data: bytes, source: str) -> Schema:
    """Return the schema of a file as declared. Raises `CodegenError`."""
    text = decoded(data, source)
    return Schema(typescript.parse(text, source), source, text.split("\n"))


def _version(declared: Schema) -> str | None:
    """Return the version that a file declares, if it does. Raises `SchemaError` if it is not a name of a revision."""
    const = declared.consts.get("LATEST_PROTOCOL_VERSION")
    if const is None:
        return None
    try:
        return check_revision(str(const.value))
    except InputError as error:
        raise declared.fail(const, f"LATEST_PROTOCOL_VERSION: {error}") from None


def _derive(
    folder: Path,
    name: str,
    pin: Pin | None,
    declared: Schema,
    *,
    lenient: bool = False,
    like: str | None = None,
    extension: bool = False,
) -> Revision:
    declared.check_aliases()
    hoisted = hoist(declared)
    entries = overlay.load_overlay(folder) if like or not extension else ()
    schema, facts = overlay.apply_overlay(hoisted, entries, like or name, lenient=lenient)
    schema.check_aliases()
    schema = overlay.with_descriptions(
        facts, descriptions.load_descriptions(folder, like or name).fields, schema
    )
    try:
        methods = method_table(schema, facts, lenient=lenient or extension)
    except SchemaError:
        if facts.errors and not extension:  # which may be the cause
            raise together(facts.errors) from None
        raise
    warnings = list(declared.module.warnings)
    if extension:
        inherited = load_revision(folder, like).methods if like else None
        warnings += [*overlay.overlay_warnings(facts), *unlisted(schema, methods, inherited)]
    elif facts.errors:
        raise together(facts.errors)
    type_senders = find_senders(schema, methods)
    return Revision(name, pin, declared, schema, facts, methods, type_senders, like, tuple(warnings))


def dated(folder: Path) -> list[str]:
    """Return the pinned revisions that are final, oldest first."""
    return [name for name, pin in load_pins(folder).items() if pin.status == "final"]
