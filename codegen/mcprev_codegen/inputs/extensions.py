"""The extensions of MCP: the table of them, and the folder of each.

`schema/extensions.toml` holds one table per extension. `schema/extensions/NAME/` is a schema folder of its own: the pins,
contracts, overlay and descriptions of the extension's versions. What its contracts import is taken from the pinned
revision that a version is based on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from mcprev_codegen.errors import InputError
from mcprev_codegen.inputs.folder import SchemaFolder, read_once
from mcprev_codegen.inputs.pins import Pin, contract_path, load_pins, read_contract
from mcprev_codegen.python import is_module, module_name

EXTENSIONS: Final = "extensions"
"""The folder of all extensions in the schema folder, and the name of the package of their packages."""
EXTENSIONS_FILE: Final = f"{EXTENSIONS}.toml"
_AT: Final = "@"
"""What stands between the names of an extension and of its version."""


@dataclass(frozen=True, slots=True)
class Extension:
    """A row of the table."""

    id: str
    """The name in the capabilities of both sides; empty for one that no capability declares."""
    title: str
    """What it is called in texts."""
    numbers: str = "whole"
    """`whole` if a `number` in its schemas is an integer, as in those of revisions; `any` if it may have a fraction."""
    name: str = ""
    """The key of the row, which is the name of its folder."""

    @property
    def package(self) -> str:
        """The name of the package of its packages."""
        return module_name(self.name)


@read_once
def load_extensions(folder: SchemaFolder) -> Mapping[str, Extension]:
    """Return the extensions by name, in file order; none if the folder has no table. Raises `CodegenError`."""
    if not (folder.path / EXTENSIONS_FILE).is_file():
        return {}
    table = folder.table(EXTENSIONS_FILE, dict[str, Extension])
    found: dict[str, Extension] = {}
    for name, row in table.values.items():
        try:
            package = module_name(name)
        except InputError:
            package = ""
        if not is_module(package) or _AT in name:
            raise table.fail(
                f"'{name}' cannot be the name of an extension, since it is that of a package", name
            )
        found[name] = replace(row, name=name)
    return found


@read_once
def extension_folder(folder: SchemaFolder, name: str) -> SchemaFolder:
    """Return the schema folder of an extension. Raises `InputError` if the table has no such row."""
    known = load_extensions(folder)
    if name not in known:
        raise InputError(
            f"'{name}' is not an extension in {folder.path / EXTENSIONS_FILE}; known are {', '.join(known) or 'none'}: add a row "
            f"with its id and title for a new one"
        )
    return SchemaFolder(folder.path / EXTENSIONS / name, folder)


def extension_of(folder: SchemaFolder) -> Extension:
    """Return the extension that a folder is of."""
    assert folder.core is not None
    return load_extensions(folder.core)[folder.path.name]


def split_name(name: str) -> tuple[str | None, str]:
    """Return the extension and the version of a name such as `tasks@draft`; a revision has no extension."""
    extension, at, version = name.rpartition(_AT)
    return (extension, version) if at else (None, name)


def joined_name(extension: str, version: str) -> str:
    """Return the name of a version of an extension, such as `tasks@draft`."""
    return f"{extension}{_AT}{version}"


def extension_versions(folder: SchemaFolder) -> Iterator[tuple[Extension, Mapping[str, Pin]]]:
    """Yield each extension with its pins, oldest first."""
    for name, extension in load_extensions(folder).items():
        yield extension, load_pins(extension_folder(folder, name))


@dataclass(frozen=True)
class BaseFiles:
    """What the schema of an extension imports: the contract of the revision that it is based on, whatever it names it."""

    folder: SchemaFolder
    """The folder of the revisions."""
    pin: Pin

    @property
    def path(self) -> str:
        """The path of the contract."""
        return str(contract_path(self.folder, self.pin.revision))

    def find(self, name: str, importer: str) -> str | None:  # noqa: ARG002 - all that it imports is there
        """Return the contract for every module that the first file imports."""
        return None if importer == self.path else self.path

    def read(self, path: str) -> str:
        """Return the text of the contract. Raises `InputError` if it was changed."""
        assert Path(path) == Path(self.path)
        return read_contract(self.folder, self.pin)

    def imported_as(self, names: tuple[str, ...]) -> str:
        """Return the statement by which a contract in the folder of an extension imports types."""
        listed = "".join(f"  {name},\n" for name in names)
        return f'import type {{\n{listed}}} from "../../../{self.pin.revision}/schema.js";\n'
