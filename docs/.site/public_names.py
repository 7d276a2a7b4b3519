"""Public names in the guides, such as `mcprev.App`, `App` or `ctx.log` in backticks, and the place in the reference that each leads to."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Final

MARKED: Final = re.compile(
    r"\[[^\]]*\][(\[][^)\]]*[)\]]|(?<!`)`@?((?:mcprev\.)?\w+(?:\.\w+)*)(?:\([^`]*\))?`(?!`)"
)
"""A link, which is left alone, or a name in backticks, with or without a call."""
DOCS: Final = Path(__file__).parents[1]
NAMES: Final = frozenset(
    name
    for page in sorted((DOCS / "reference").glob("*.md"))
    for name in re.findall(r"^::: mcprev\.([\w.]+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
)
"""What the reference has, without `mcprev.`."""
SHORT: Final[Mapping[str, str]] = MappingProxyType(
    {name.rpartition(".")[2]: name for name in sorted(NAMES, key=lambda name: (-name.count("."), name))}
    | {"mcprev.convert": "convert"}
)
"""The names of the reference by their last part; a name of `mcprev` itself comes before one of a module."""
VARIABLES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "app": "App",
        "client": "Client",
        "clients": "Clients",
        "ctx": "Context",
        "ctx.session": "server.session_state.SessionState",
        "login": "Login",
        "server": "Server",
        "app.server": "Server",
    }
)
"""What the variables of the guides are."""
ELSEWHERE: Final[Mapping[tuple[str, str], str]] = MappingProxyType(
    {
        ("auth.md", "Authorization"): "the header",
        ("command.md", "Authorization"): "the header",
        ("clients.md", "Bearer"): "the scheme of a header",
        ("extensions.md", "ClientHandler"): "the class of a generated package",
        ("extensions.md", "ServerHandler"): "the class of a generated package",
        ("packages.md", "ClientHandler"): "the class of a generated package",
        ("packages.md", "ServerHandler"): "the class of a generated package",
        ("vendor.md", "ServerHandler"): "the class of a generated package",
        ("peers.md", "Context.elicit"): "the class of FastMCP",
        ("typescript.md", "Record"): "the type of TypeScript",
    }
)
"""Names that mean something else on a page, with what they mean there."""
THEIRS: Final = frozenset({"porting.md", "names.md", "sites.md"})
"""Pages whose tables have names of other libraries in the first column."""


def target(name: str) -> str | None:
    """The full name by which the reference knows a name of a guide, or None if it is no public name."""
    owner, _, member = name.rpartition(".")
    if owner in VARIABLES:
        return _known(VARIABLES[owner], member)
    short = name.removeprefix("mcprev.")
    if short == name and not name[0].isupper():
        return None
    return _known(SHORT.get(name, short), "") or _known(*short.rpartition(".")[::2])


def _known(owner: str, member: str) -> str | None:
    """The full name of a public name or of its member, if there is such a member."""
    owner = owner if owner in NAMES else SHORT.get(owner, "")
    if not owner:
        return None
    module, _, name = owner.rpartition(".")
    public: object = getattr(import_module(f"mcprev.{module}".removesuffix(".")), name)
    if member and (member[0] == "_" or not _has(public, member)):
        return None
    return ".".join(("mcprev", owner, *filter(None, [member])))


def _has(public: object, member: str) -> bool:
    return isinstance(public, type) and any(
        member in {*vars(each), *getattr(each, "__annotations__", ())} for each in public.__mro__
    )


def linked(line: str, path: str = "") -> str:
    """A line of Markdown whose public names are references; headings stay as they are, for the sake of their anchors."""
    if line.startswith("#"):
        return line
    start = line.find(" | ") + 1 if path in THEIRS and line.startswith("| ") else 0
    return line[:start] + MARKED.sub(
        lambda found: found[0] if found[1] is None else _reference(found, path), line[start:]
    )


def _reference(found: re.Match[str], path: str) -> str:
    name = found[1]
    full = None if (path, name) in ELSEWHERE else target(name)
    return f"[{found[0]}][{full}]" if full else found[0]
