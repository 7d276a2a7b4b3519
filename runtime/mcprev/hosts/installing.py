"""The entry of a server in the configuration of a host, and the change that adds or removes it."""

from __future__ import annotations

import difflib
import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from mcprev.errors import Json
from mcprev.hosts.jsonc import JsoncError, parse_jsonc, with_member, without_member
from mcprev.hosts.masking import masked
from mcprev.hosts.named_server import HEADERS_VARIABLE
from mcprev.hosts.table import ANY_FILE, HOSTS, Host, MemberPath
from mcprev.hosts.writing import read_own, replace_text
from mcprev.json_schema.bounds import OBJECT
from mcprev.platforms import HERE

if TYPE_CHECKING:
    from mcprev.hosts.named_server import NamedServer

_FILE: Final = Host("file", "the file", "")
_UNUSUAL: Final = re.compile(r"[^A-Za-z0-9_-]+")
MAX_NAME: Final = 64
"""The maximum length of the name of a server, so that every host takes it."""
_ENDINGS: Final = (".json", ".jsonc")


@dataclass(frozen=True, slots=True)
class Place:
    """The file in which a server is added or removed."""

    host: Host
    file: Path
    below: Path | None
    """The folder of the project whose file it is; None for a file of the user."""

    def members(self, text: str | None) -> MemberPath:
        """Return where the servers are in a text: for a file that the user names, where it has some already."""
        if self.host is not _FILE:
            return self.host.members[0]
        found: Json = {} if text is None else parse_jsonc(text).value
        known = [path for path in ANY_FILE if isinstance(found, dict) and path[0] in found]
        return known[0] if known else ANY_FILE[0]


def place_of(host: str, *, project: bool) -> Place:
    """Return the file of a host, or of a path that ends with .json. Raises `ValueError`."""
    known = HOSTS.get(host)
    if known is not None:
        file = known.file(project=project)
        return Place(known, file, Path.cwd() if project else None)
    if not host.endswith(_ENDINGS):
        raise ValueError(
            f"no host '{host}' is known; write one of {', '.join(HOSTS)}, or the path of a file that ends with .json"
        )
    if project:
        raise ValueError(
            "--project cannot be combined with the path of a file; pass the path of the project's file instead"
        )
    return Place(_FILE, Path(host), None)


@dataclass(frozen=True, slots=True)
class FileChange:
    """A change of one file, which is shown before it is made."""

    place: Place
    before: str | None
    after: str

    @property
    def diff(self) -> list[str]:
        """The lines that differ, with those around them; what looks like a secret is masked."""
        old = [] if self.before is None else masked(self.before).splitlines()
        name = str(self.place.file)
        new = masked(self.after).splitlines()
        found = [*difflib.unified_diff(old, new, name, name, lineterm="")]
        if not found and self.before != self.after:
            return ["only values change that look like secrets, which are not shown"]
        return found

    def make(self) -> Path | None:
        """Write the file, and return the copy of the one before. Raises `OSError` and `ValueError`."""
        if self.place.below is not None:
            self.place.file.parent.mkdir(exist_ok=True)
        return replace_text(self.place.file, self.before, self.after)


def added(place: Place, name: str, entry: Mapping[str, Json], *, replace: bool) -> FileChange:
    """Return the change that adds an entry. Raises `OSError`, and `ValueError` that says what to do."""
    if not place.file.parent.is_dir() and place.below is None:
        raise ValueError(
            f"{place.host.title} keeps its servers in '{place.file}', whose folder does not exist; start it once, or "
            "name another file that ends with .json"
        )
    before = read_own(place.file, below=place.below)
    try:
        path = (*place.members(before), name)
        if before is not None and not replace and _has(before, path):
            raise ValueError(
                f"'{place.file}' has a server '{name}' already; pass --replace, or another --name"
            )
        return FileChange(place, before, with_member(before or "", path, dict(entry)))
    except JsoncError as error:
        raise ValueError(f"{place.file}: {error}") from None


def removed(place: Place, name: str) -> FileChange:
    """Return the change that removes an entry. Raises `OSError`, and `ValueError` that says what to do."""
    before = read_own(place.file, below=place.below)
    if before is None:
        raise ValueError(f"there is no file '{place.file}'")
    try:
        return FileChange(place, before, without_member(before, (*place.members(before), name)))
    except JsoncError as error:
        raise ValueError(f"{place.file}: {error}") from None
    except KeyError:
        known = ", ".join(sorted(_names(before, place.members(before)))[:20]) or "none"
        raise ValueError(f"'{place.file}' has no server '{name}'; it has {known}") from None


def _names(text: str, path: MemberPath) -> Mapping[str, Json]:
    found: Json = parse_jsonc(text).value
    for part in path:
        found = found.get(part) if isinstance(found, OBJECT) else None
    return found if isinstance(found, OBJECT) else {}


def _has(text: str, path: MemberPath) -> bool:
    return path[-1] in _names(text, path[:-1])


# -- entries -----------------------------------------------------------------------------------------------


def entry_for(host: Host, server: NamedServer) -> dict[str, Json]:
    """Return the entry of a server as a host spells it; paths are absolute, since hosts start elsewhere.

    A host that starts commands only gets a bridge to a server at a URL, whose headers are in the environment: every user
    of the machine can read the words of a command.
    """
    entry = server.entry
    if entry.url is not None and host.url is not None:
        found: dict[str, Json] = {**host.url_members, host.url: entry.url}
        return found if not entry.headers else {**found, "headers": dict(entry.headers)}
    env = dict(entry.env)
    if entry.url is not None:
        words = [sys.executable, "-m", "mcprev", "bridge", entry.url]
        if any("\n" in line for pair in entry.headers.items() for line in pair):
            raise ValueError("a header has a line end; write it in one line")
        if entry.headers:
            env[HEADERS_VARIABLE] = "\n".join(f"{name}: {value}" for name, value in entry.headers.items())
    elif server.module is not None:
        words = [sys.executable, "-m", "mcprev", "serve", _absolute_module(server.module)]
        env = {**module_path(server), **env}
    else:
        words = _absolute_command(entry.words)
    made: dict[str, Json] = {**host.command_members, "command": words[0], "args": words[1:]}
    if env:
        made["env"] = env
    if entry.cwd is not None:
        made["cwd"] = str(Path(entry.cwd).absolute())
    return made


def module_path(server: NamedServer) -> dict[str, str]:
    """Return the variable by which the module of a server is found that is looked for where the user stands."""
    return {} if server.module is None or ".py" in server.module else {"PYTHONPATH": str(Path.cwd())}


def words_anywhere(server: NamedServer) -> tuple[str, ...]:
    """Return the words that name a server in any folder: with absolute paths, and with `--` before a command.

    A server of a configuration is named as it was, so that its variables and headers stay there.
    """
    if server.name is not None:
        name, at, place = server.given[0].rpartition("@")
        return (f"{name}{at}{Path(place).absolute()}" if place.endswith(_ENDINGS) else server.given[0],)
    if server.module is not None:
        return (_absolute_module(server.module),)
    return server.given if server.entry.url is not None else ("--", *_absolute_command(server.entry.words))


def _absolute_command(words: Sequence[str]) -> list[str]:
    program = HERE.find_program(words[0]) or words[0]
    if os.sep in program:
        program = str(Path(program).absolute())
    return [program, *map(_absolute, words[1:])]


def _absolute_module(module: str) -> str:
    file, ending, name = module.rpartition(".py")
    return f"{Path(f'{file}.py').absolute()}{name}" if ending else module


def _absolute(word: str) -> str:
    """Return the absolute path of a file of the working folder; any other word as it is."""
    try:
        is_file = not word.startswith("-") and Path(word).is_file()
    except OSError:  # it is too long
        is_file = False
    return str(Path(word).absolute()) if is_file else word


def usual_name(server: NamedServer) -> str:
    """Return the name for a server that the user gives none: that of its file, module, host or command."""
    if server.name is not None:
        return server.name
    if server.module is not None:
        file, ending, _ = server.module.rpartition(".py")
        text = Path(file).name if ending else server.module.partition(":")[0].rpartition(".")[2]
    elif server.entry.url is not None:
        text = urlsplit(server.entry.url).hostname or "server"
    else:
        files = [
            Path(word).stem for word in server.entry.words[1:] if word.endswith((".py", ".js", ".mjs", ".ts"))
        ]
        text = files[0] if files else Path(server.entry.words[0]).stem
    return _UNUSUAL.sub("-", text).strip("-")[:MAX_NAME] or "server"


def check_name(name: str) -> None:
    """Raise `ValueError` for a name that a host may not take."""
    if not name or len(name) > MAX_NAME or not name.isprintable() or "__" in name or name != name.strip():
        raise ValueError(
            f"'{name[:80]}' cannot be the name of a server: write up to {MAX_NAME} printable characters, without '__' "
            "and without a space at either end"
        )
