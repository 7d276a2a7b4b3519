"""One revision, read and understood: the object every later step and `diff` start from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mcprev_codegen import descriptions, overlay, typescript
from mcprev_codegen.errors import CodegenError, InputError, SchemaError, together
from mcprev_codegen.hoist import hoist
from mcprev_codegen.methods import Method, method_table
from mcprev_codegen.overlay import OverlayFacts
from mcprev_codegen.resolve import Schema
from mcprev_codegen.revisions import Pin, load_pins, read_contract, require_pin
from mcprev_codegen.usage import senders


@dataclass(frozen=True)
class Revision:
    """A revision's schema as written, as generated from, and what follows from it."""

    name: str
    pin: Pin | None
    """None for a file that was given by its path."""
    declared: Schema
    """What the file declares, inline objects inline, without the overlay."""
    schema: Schema
    """The same hoisted and overlaid: one name for every object."""
    facts: OverlayFacts
    methods: Mapping[str, Method]
    senders: Mapping[str, frozenset[str]]
    """Who sends each type of `schema`: `client`, `server`, both or neither."""

    @property
    def protocol_version(self) -> str:
        """The version string the schema itself names; a draft names the revision it grew from."""
        const = self.schema.consts.get("LATEST_PROTOCOL_VERSION")
        return str(const.value) if const else self.name

    @property
    def era(self) -> str:
        """`handshake` when a session starts with `initialize`, else `stateless`."""
        return "handshake" if "initialize" in self.methods else "stateless"


def load(folder: Path, revision: str) -> Revision:
    """A pinned revision. Raises `CodegenError` when its pin, contract or overlay is not in order."""
    pin = require_pin(folder, revision)
    path = folder / revision / "schema.ts"
    texts = descriptions.load(folder, revision)
    text = read_contract(folder, pin)
    module = texts.attach(typescript.parse(text, str(path)))
    return _understand(folder, revision, pin, Schema(module, str(path), text.split("\n")))


def load_pinned(folder: Path) -> dict[str, Revision]:
    """Every pinned revision, oldest first. Raises `CodegenError` with all that is not in order in any of them."""
    found: dict[str, Revision] = {}
    errors: list[CodegenError] = []
    for name in load_pins(folder):
        try:
            found[name] = load(folder, name)
        except CodegenError as error:
            errors += error.parts
    if errors:
        raise together(errors)
    return found


def load_file(folder: Path, path: Path, revision: str | None = None, *, lenient: bool = False) -> Revision:
    """A schema.ts that is not pinned, its own comments kept.

    `revision` decides which overlay entries hold; left out, it is the name of the file's folder when that
    is a pinned revision, else the version that the file names. Raises `CodegenError`; `lenient` passes over
    overlay entries that do not match.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error}") from None
    return load_bytes(folder, data, str(path), path.resolve().parent.name, revision, lenient=lenient)


def load_bytes(
    folder: Path,
    data: bytes,
    source: str,
    folder_name: str,
    revision: str | None = None,
    *,
    lenient: bool = False,
) -> Revision:
    """`load_file` for what is read already: `source` is named in errors, `folder_name` is that of its folder."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{source}: not UTF-8: {error}") from None
    module = typescript.parse(text, source)
    if revision is None:
        version = module.consts.get("LATEST_PROTOCOL_VERSION")
        revision = folder_name if folder_name in load_pins(folder) or not version else str(version.value)
    return _understand(folder, revision, None, Schema(module, source, text.split("\n")), lenient=lenient)


def _understand(
    folder: Path, name: str, pin: Pin | None, declared: Schema, *, lenient: bool = False
) -> Revision:
    declared.check_aliases()
    hoisted = hoist(declared)
    schema, facts = overlay.apply(hoisted, overlay.load(folder), name, lenient=lenient)
    schema = overlay.documented(facts, descriptions.load(folder, name).fields, schema)
    try:
        methods = method_table(schema, facts, lenient=lenient)
    except SchemaError:
        if facts.errors:  # which may be why
            raise together(facts.errors) from None
        raise
    if facts.errors:
        raise together(facts.errors)
    return Revision(name, pin, declared, schema, facts, methods, senders(schema, methods))


def dated(folder: Path) -> list[str]:
    """The pinned revisions that are final, oldest first."""
    return [name for name, pin in load_pins(folder).items() if pin.status == "final"]
