"""The generated packages that a command line names: those of revisions, and of versions of the extensions of MCP."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any, Final, NamedTuple

AT: Final = "@"
"""What stands between the names of an extension and of its version: `tasks@draft`."""
LATEST_NAME: Final = "latest"


class Described(NamedTuple):
    """A package, as the command line names it."""

    label: str
    """The name of a revision, or that of an extension and its version."""
    package: str
    """The dotted name of its module."""
    subject: str
    """What it is of, in texts."""

    def document(self) -> dict[str, Any]:
        """Return the description of all that it has, from its meta.json."""
        outer, *inner = self.package.split(".")
        text = files(outer).joinpath(*inner, "meta.json").read_text(encoding="utf-8")
        found: dict[str, Any] = json.loads(text)
        return found


def described_package(name: str) -> Described:
    """Return the package that is meant by the name of a revision, `latest`, an extension, or `EXTENSION@VERSION`.

    Raises `ValueError` for any other name, with those that are known.
    """
    from mcprev_types.extensions.index import EXTENSIONS
    from mcprev_types.index import LATEST, REVISIONS

    revision = LATEST if name == LATEST_NAME else name
    if revision in REVISIONS:
        return Described(revision, f"mcprev_types.{REVISIONS[revision].package}", f"MCP {revision}")
    extension, _, version = name.partition(AT)
    info = EXTENSIONS.get(extension)
    if info is None:
        raise ValueError(
            f"unknown revision '{name}'; known: {', '.join(REVISIONS)}; of extensions: {', '.join(extension_names())}"
        )
    version = info.latest if version in ("", LATEST_NAME) else version
    if version not in info.versions:
        raise ValueError(f"'{extension}' has no version '{version}'; known: {', '.join(info.versions)}")
    package = f"mcprev_types.extensions.{info.package}.{info.versions[version].package}"
    return Described(f"{extension}{AT}{version}", package, f"the extension {extension}{AT}{version}")


def extension_names() -> list[str]:
    """Return the versions of all extensions, as `EXTENSION@VERSION`."""
    from mcprev_types.extensions.index import EXTENSIONS

    return [f"{name}{AT}{version}" for name, info in EXTENSIONS.items() for version in info.versions]
