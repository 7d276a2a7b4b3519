"""The `mcpServers` configuration of hosts: the servers by name, as targets of `connect` (STDIO-1, HTTP-1)."""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from mcprev.client.targets import HasServer, Target, target_of
from mcprev.error_text import did_you_mean
from mcprev.errors import Json
from mcprev.transports.http.urls import mask_url
from mcprev.wire.json_values import is_json_list, is_json_mapping
from mcprev.wire.payloads import mask_text

if TYPE_CHECKING:
    from mcprev.transports.http.client.authorization import Authorization
    from mcprev.transports.memory import PipeServer

MAX_FILE: Final = 32 * 1024 * 1024
"""The maximum size of a configuration in bytes."""
SEPARATOR: Final = "__"
"""What stands between the name of a server and that of a tool or prompt, or a URI."""
Entry: TypeAlias = "Mapping[str, Json] | Target | PipeServer | HasServer | str"
"""An entry of the configuration: JSON, or any target of `connect`."""
Config: TypeAlias = "str | os.PathLike[str] | Mapping[str, Entry]"
_MEMBERS: Final = ("command", "args", "env", "cwd", "url", "headers", "type", "disabled")
"""The members that are read. Hosts have more; only what looks like one of these is refused."""
CONTAINERS: Final = ("mcpServers", "servers", "context_servers")
"""The members that hold the servers in the files of hosts."""
_URL_MEMBERS: Final = ("httpUrl", "serverUrl")
"""Members of some hosts with a URL, beside `url`."""
_BELONG: Final = {"url": ("args", "env", "cwd"), "command": ("headers",)}
"""Members that the other kind of entry has."""
_TYPES: Final = ("stdio", "http", "streamable-http", "streamableHttp", "streamable_http", "sse")
"""What hosts write in `type` and `transport`; the first goes with `command`, all others with `url`."""
_FOREIGN: Final = re.compile(r"[^A-Za-z0-9_.-]+")
_SEVERAL: Final = re.compile(r"_{2,}")
_VARIABLE: Final = re.compile(r"\$\{(?:(env|input|config|command):)?(\w+)(?::-([^}]*))?\}")
_COMMENT: Final = re.compile(
    r'("[^"\\]*+(?:\\.[^"\\]*+)*+"?|/\*(?!.*?\*/).*+)|//[^\n]*+|/\*.*?\*/|,(?=\s*+[\]}])', re.DOTALL
)
"""A string, which is kept, or what hosts allow in addition to JSON: a comment, or a comma after the last value.

What does not end is kept to the end, so that nothing is looked for twice.
"""


def targets_of(config: Config, separator: str = SEPARATOR) -> dict[str, Target]:
    """Return the targets by the prefixes of their names. Raises `OSError`, and `ValueError` that names the invalid entry."""
    targets: dict[str, Target] = {}
    for name, entry in config_entries(config).items():
        prefix = prefix_of(name)
        if not prefix or f"{prefix}{separator}".find(separator) != len(prefix):
            raise ValueError(
                f"'{name}' cannot be a prefix with '{separator}'; rename it or pass another `separator`"
            )
        if prefix in targets:
            raise ValueError(f"two servers have the prefix '{prefix}'; rename '{name}'")
        with naming(name):
            targets[prefix] = target_of_entry(entry)
    return targets


def prefix_of(server: str) -> str:
    """Return what stands before the names of a server's tools: its name, with `-` for what no name of a tool may have.

    What separates it from them is not in it: several `_` become one.
    """
    return _SEVERAL.sub("_", _FOREIGN.sub("-", server)).strip("-_")


def config_entries(config: Config) -> dict[str, Json]:
    """Return the entries by name that are not disabled. Raises `OSError` and `ValueError`."""
    found: Json = config if isinstance(config, Mapping) else _parsed(config)
    if is_json_mapping(found):
        root, held = found, dict[str, Json]()
        for key in CONTAINERS:
            if isinstance(root.get(key), list):
                why = f"`{key}` is a list; write an object with the servers by name"
                raise ValueError(why)  # noqa: TRY004 - a file may say anything
            if is_json_mapping(servers := root.get(key)):
                found = held = {**servers, **held}
    if not is_json_mapping(found):
        raise ValueError(
            "the configuration is not an object with servers by name, such as {'mcpServers': {...}}"
        )
    if not found:
        raise ValueError("the configuration has no servers; name at least one, as in {'mcpServers': {...}}")
    return {
        name: entry
        for name, entry in found.items()
        if not (is_json_mapping(entry) and entry.get("disabled") is True)
    }


@contextmanager
def naming(server: str) -> Generator[None, None, None]:
    """Raise `ValueError` with the name of a server for what is wrong with its entry."""
    try:
        yield
    except (TypeError, ValueError) as error:
        raise ValueError(f"the server '{server}' of the configuration: {error}") from error


def _parsed(path: str | os.PathLike[str]) -> Json:
    text = read_text(Path(path)).removeprefix("\ufeff")
    try:
        # The second pass finds commas that were followed by a comment.
        return json.loads(_COMMENT.sub(_blank, _COMMENT.sub(_blank, text)))
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}: {error.msg}"
        raise ValueError(f"'{os.fspath(path)}' is not JSON: {where}") from error
    except (ValueError, RecursionError) as error:
        raise ValueError(f"'{os.fspath(path)}' is not JSON: {error}") from error


def _blank(found: re.Match[str]) -> str:
    """Return a string as it is, and spaces for what JSON does not allow, so that places in the text stay the same."""
    return found[1] or re.sub(r"[^\n]", " ", found[0])


def read_text(
    file: Path, *, flags: int = 0, check: Callable[[Path, os.stat_result], None] | None = None
) -> str:
    """Return the text of a configuration, line ends as they are, and wait for no pipe or device in its place.

    `flags` are for `os.open`; `check` raises for an open file that must not be read. Raises `OSError`, and `ValueError` for
    what is no regular file, too large, or not UTF-8.
    """
    flags |= os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    descriptor = os.open(file, flags)
    try:
        found = os.fstat(descriptor)
        _check_regular(file, found)
        if check is not None:
            check(file, found)
    except BaseException:
        os.close(descriptor)
        raise
    with os.fdopen(descriptor, "rb") as stream:
        data = stream.read(MAX_FILE + 1)
    if len(data) > MAX_FILE:
        raise ValueError(f"'{file}' has more than {MAX_FILE // 1024 // 1024} MiB, which no configuration has")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"'{file}' is not UTF-8 text: byte {error.start} is {data[error.start]:#04x}"
        ) from None


def _check_regular(file: Path, found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise ValueError(f"'{file}' is not a regular file; pass the path of one")


class ServerEntry(NamedTuple):
    """An entry of a configuration: a server at a URL, or a command to start."""

    words: tuple[str, ...] = ()
    """The command and its arguments; empty for a server at a URL."""
    env: Mapping[str, str] = MappingProxyType({})
    """The variables that are added to those that the command inherits."""
    cwd: str | None = None
    """The working folder of the command."""
    url: str | None = None
    """The URL; None for a command."""
    headers: Mapping[str, str] = MappingProxyType({})
    """The headers of each request to the URL."""


def entry_of(members: Mapping[str, Json]) -> ServerEntry:
    """Return an entry with its variables replaced. Raises `TypeError` and `ValueError` that say what is wrong."""
    members = usual(members)
    _check(members)
    if "url" in members:
        return ServerEntry(url=filled(members["url"]), headers=_texts(members, "headers"))
    if "command" not in members:
        raise ValueError("it has neither `command` nor `url`; write one of them")
    arguments: Json = members.get("args") or []
    if not is_json_list(arguments):
        raise TypeError("`args` is not a list; write one of strings")
    words = [filled(word) for word in (members["command"], *arguments)]
    cwd: Json = members.get("cwd")
    return ServerEntry(tuple(words), _texts(members, "env"), None if cwd is None else filled(cwd))


def usual(members: Json) -> dict[str, Json]:
    """Return an entry as most hosts write it. Raises `TypeError` for what is no object."""
    if not is_json_mapping(members):
        raise TypeError("its entry is not an object")
    entry = dict(members)
    for name in _URL_MEMBERS:
        if name in entry:
            entry["url"] = entry.pop(name)
    command: Json = entry.get("command")
    if is_json_mapping(command):  # of older versions of Zed
        entry |= {"command": command.get("path"), "args": command.get("args"), "env": command.get("env")}
    return entry


def checked_url(entry: str) -> str:
    """Return an entry that is the URL of a server. Raises `TypeError` for another text, which says what an entry may be."""
    if entry.lower().startswith(("http://", "https://")):
        return entry
    raise TypeError(
        f"{mask_text(mask_url(entry))!r:.100} is not a URL; an entry is the URL of a server, or an object with `url`, or with `command` and "
        '`args`, such as {"command": "python", "args": ["server.py"]}'
    )


def target_of_entry(entry: Json, auth: Authorization | None = None) -> Target:
    """Return the target of an entry; `auth` is that of a server at a URL. Raises `TypeError` and `ValueError`."""
    if isinstance(entry, str):
        return target_of(checked_url(entry))
    if not is_json_mapping(entry):
        return target_of(entry)
    found = entry_of(entry)
    if found.url is not None:
        from mcprev.transports.http.client.target import http

        return http(found.url, headers=found.headers, auth=auth)
    from mcprev.transports.stdio.client import stdio

    return stdio(*found.words, env=found.env, cwd=found.cwd)


def _check(members: Mapping[str, Json]) -> None:
    """Raise `ValueError` for members that contradict each other or the transport, or that are misspelt."""
    if "url" in members and "command" in members:
        raise ValueError("it has both `command` and `url`; remove one of them")
    for name in members:
        if name not in _MEMBERS and (hint := did_you_mean(name, _MEMBERS)):
            raise ValueError(f"it has no member `{name}`{hint}")
    for here, others in _BELONG.items():
        if here in members and (wrong := [name for name in others if name in members]):
            raise ValueError(f"`{wrong[0]}` does not belong to an entry with `{here}`; remove it")
    if "auth" in members:
        raise ValueError(
            "`auth` is not supported in a configuration; write a token in `headers`, or pass `mcprev.http(url, auth=...)` "
            "in place of this entry"
        )
    for name in ("type", "transport"):
        kind: Json = members.get(name)
        if kind is not None and kind not in _TYPES:
            raise ValueError(f"its {name} {kind!r:.50} is unknown; the types are {', '.join(_TYPES)}")
        wrong_one = "url" if kind == _TYPES[0] else "command"
        if kind is not None and wrong_one in members:
            raise ValueError(f"`{name}` is {kind!r}, which has no `{wrong_one}`; remove one of them")
    if members.get("command") == "":
        raise ValueError("`command` is empty; name a program")
    if members.get("url") == "":
        raise ValueError("`url` is empty; write that of the server")
    if not isinstance(members.get("disabled", False), bool):
        raise ValueError("`disabled` is neither true nor false")  # noqa: TRY004 - a file may say anything


def _texts(members: Mapping[str, Json], name: str) -> dict[str, str]:
    found: Json = members.get(name) or {}
    if not is_json_mapping(found):
        raise TypeError(f"`{name}` is not an object")
    return {key: filled(value) for key, value in found.items()}


def with_variables(text: str, put: str) -> str:
    """Return a text with `put` in the place of variables that `filled` replaces, unless one says a value to use if it is not set."""
    return _VARIABLE.sub(lambda match: put if match[3] is None else match[0], text)


def filled(text: Json) -> str:
    """Replace the environment variables that a text names. Raises `TypeError` and `ValueError`."""
    if not isinstance(text, str):
        raise TypeError(f"{text!r:.100} is not a string")

    def value(match: re.Match[str]) -> str:
        variables: Mapping[str, str] = os.environ if match[1] in (None, "env") else {}
        if match[2] not in variables and match[3] is None:
            raise ValueError(f"the variable {match[0][2:-1]} is not set in the environment")
        found = variables.get(match[2], "")
        return found if found or match[3] is None else match[3]  # as shells do, also for an empty variable

    # No variable ends after the last brace, so that none is looked for there again and again.
    last = text.rfind("}") + 1
    return _VARIABLE.sub(value, text[:last]) + text[last:]
