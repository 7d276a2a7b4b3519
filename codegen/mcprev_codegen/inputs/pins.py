"""The pinned revisions: the upstream file of each contract, and the contract's path.

`schema/revisions.toml` holds one table per revision, oldest first, the draft last. A contract that does not match its
pin has been edited by hand and is refused: such a change belongs upstream or into the overlay.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Final

from mcprev_codegen.errors import InputError, at_line
from mcprev_codegen.inputs.files import refuse_link, write_whole
from mcprev_codegen.inputs.folder import PINS, SchemaFolder, read_once
from mcprev_codegen.inputs.tables import Table
from mcprev_codegen.python import Code, check_revision, code, identifier, joined, module_name, toml_string

_HEADER: Final = """\
# The pin of every revision: where its schema.ts came from and what it was. Written by `mcprev import`.
# `sha256` is that of upstream's file, `contract` that of the canonical file beside this one.
"""

OF_SCHEMA: Final = "schema"
OF_TEXT: Final = "text"


@dataclass(frozen=True, slots=True)
class Pin:
    """The source of one revision's schema."""

    revision: str
    location: str
    """The URL of the file at upstream."""
    commit: str
    """The upstream commit that last changed the file."""
    sha256: str
    contract: str
    spec: str
    """The URL of the specification of this revision."""
    base: str = ""
    """The revision that a version of an extension is based on; empty for a revision."""
    origin: str = OF_SCHEMA
    """Whether the contract is that of a schema.ts (`schema`), or was written from the text at `location` (`text`)."""

    @property
    def status(self) -> str:
        """`final` for a dated revision, `draft` for one that still changes."""
        return "final" if is_dated(self.revision) else "draft"


_OPTIONAL: Final = {"base": "", "origin": OF_SCHEMA}
_VALUES: Final = tuple(name for name in Pin.__dataclass_fields__ if name not in ("revision", *_OPTIONAL))


def is_dated(revision: str) -> bool:
    """Return whether the name of a revision is a date; one that is not is newer than all dates, and still changes."""
    return revision[:1].isdigit()


def age(revision: str) -> tuple[bool, str]:
    """Return the sort key of a revision, oldest first."""
    return not is_dated(revision), revision


def is_date(text: str) -> bool:
    """Return whether a text is a date of the calendar, written YYYY-MM-DD."""
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def digest(data: bytes) -> str:
    """Return the SHA-256 of some bytes in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


@read_once
def load_pins(folder: SchemaFolder) -> Mapping[str, Pin]:
    """Return the pins by revision, in file order. Raises `SchemaError` for an incomplete pin."""
    path = folder.path / PINS
    if not path.exists():
        return {}
    table = folder.table(PINS, dict[str, dict[str, str]])
    pins = {revision: _pin(folder, table, revision, values) for revision, values in table.values.items()}
    try:
        _check_modules(pins)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    return pins


def _check_modules(revisions: Iterable[str]) -> None:
    """Raise `InputError` for two revisions whose packages or step modules would have one name."""
    seen: dict[str, str] = {}
    for revision in revisions:
        other = seen.setdefault(module_name(revision).lower().removeprefix("v"), revision)
        if other != revision:
            raise InputError(f"the revisions '{other}' and '{revision}' would have modules of the same name")


def _pin(
    folder: SchemaFolder, table: Table[dict[str, dict[str, str]]], revision: str, values: Mapping[str, str]
) -> Pin:
    try:
        check_revision(revision)
    except InputError as error:
        raise table.fail(str(error), revision) from None
    needed = (*_VALUES, "base") if folder.core else _VALUES
    if missing := [name for name in needed if not values.get(name)]:
        message = f"the pin of '{revision}' has no {', '.join(missing)}; {_import_hint(folder, revision)}"
        raise table.fail(message, revision)
    return Pin(revision, **{name: values[name] for name in (*_VALUES, *_OPTIONAL) if name in values})


def _import_hint(folder: SchemaFolder, revision: str) -> str:
    extension = f" --extension {folder.path.name} --base REV" if folder.core else ""
    return f"run `mcprev import PATH_OR_URL --revision {revision}{extension}`"


def require_pin(folder: SchemaFolder, revision: str) -> Pin:
    """Return the pin of one revision. Raises `SchemaError` that lists the known revisions if it is not pinned."""
    pins = load_pins(folder)
    if revision not in pins:
        path = folder.path / PINS
        lines = folder.read(path).decode("utf-8").split("\n") if path.is_file() else []
        known = ", ".join(pins) or "none yet"
        raise at_line(
            path,
            lines,
            1,
            f"no pin for revision '{revision}' (known: {known}); {_import_hint(folder, revision)}",
        )
    return pins[revision]


def contract_path(folder: SchemaFolder, revision: str) -> Path:
    """Return the path of a revision's contract. Raises `InputError` if the revision has no valid name."""
    return folder.path / check_revision(revision) / "schema.ts"


def read_contract(folder: SchemaFolder, pin: Pin) -> str:
    """Return the text of a pinned contract. Raises `InputError` if it is missing or was changed."""
    path = contract_path(folder, pin.revision)
    try:
        data = folder.read(path)
    except FileNotFoundError:
        raise InputError(f"{path}: pinned but missing; {_import_hint(folder, pin.revision)} again") from None
    if digest(data) != pin.contract:
        raise InputError(
            f"{path}: its sha256 is {digest(data)[:12]}…, but the pin has {pin.contract[:12]}…; "
            f"this file is not edited by hand: run `mcprev import` again, or put the change into overlay.toml"
        )
    return data.decode("utf-8")


def save_contract(folder: SchemaFolder, pin: Pin, text: str) -> None:
    """Write a contract and its pin, and keep the other pins: dated revisions in order, drafts last.

    Raises `InputError`, with nothing written, for a link and for a name that leaves no name for a module.
    """
    path = contract_path(folder, pin.revision)
    pins = {**load_pins(folder), pin.revision: pin}
    _check_modules(pins)
    for place in (path.parent, path, folder.path / PINS):
        refuse_link(place)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, text)
    _write_pins(folder, pins)


def remove_pin(folder: SchemaFolder, revision: str) -> None:
    """Delete the pin and the contract of a revision. Raises `InputError` if it is not pinned."""
    pins = dict(load_pins(folder))
    if pins.pop(revision, None) is None:
        raise InputError(f"revision '{revision}' is not pinned; pinned are {', '.join(pins) or 'none'}")
    path = contract_path(folder, revision)
    refuse_link(path.parent)
    _write_pins(folder, pins)
    path.unlink(missing_ok=True)
    if path.parent.is_dir() and not any(path.parent.iterdir()):
        path.parent.rmdir()


def _write_pins(folder: SchemaFolder, pins: Mapping[str, Pin]) -> None:
    ordered = sorted(pins.values(), key=lambda pin: age(pin.revision))
    write_whole(folder.path / PINS, "\n".join([_HEADER, *map(_block, ordered)]))
    folder.forget()


def _block(pin: Pin) -> Code:
    stated = [*_VALUES, *(name for name, usual in _OPTIONAL.items() if getattr(pin, name) != usual)]
    values = (code("{} = {}", identifier(name), toml_string(getattr(pin, name))) for name in stated)
    return code("[{}]\n{}\n", toml_string(pin.revision), joined("\n", values))


def with_contract(pin: Pin, text: str) -> Pin:
    """Return the pin with the digest of a new contract, which is also that of the file if there is none at upstream."""
    found = digest(text.encode("utf-8"))
    return replace(pin, contract=found, sha256=pin.sha256 if pin.origin == OF_SCHEMA else found)
