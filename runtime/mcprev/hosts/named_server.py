"""The server that a command line names: a URL, a file, a module, a command, or a name of a host's configuration.

`mcprev call`, `inspect`, `bridge`, `dev` and `install` read their TARGET here.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

from mcprev.client.host_config import ServerEntry, entry_of, read_text, usual
from mcprev.error_text import did_you_mean
from mcprev.errors import Json
from mcprev.hosts.jsonc import JsoncError, parse_jsonc
from mcprev.hosts.table import ANY_FILE, HOSTS, MemberPath
from mcprev.json_schema.bounds import LIST
from mcprev.platforms import HERE

if TYPE_CHECKING:
    from mcprev.client.targets import Target
    from mcprev.transports.http.client.authorization import Authorization

_MODULE: Final = re.compile(r"(?s:.+)\.py(?::[\w.]+)?|[\w.]+:[\w.]+")
"""The file or module of a server, as `mcprev serve` takes it."""
NAMES: Final = (
    "write a URL, FILE.py[:SERVER], MODULE:SERVER, NAME or NAME@HOST of a configuration, or -- COMMAND"
)
HEADERS_VARIABLE: Final = "MCPREV_HEADERS"
"""The variable of the environment with headers for the server of `mcprev bridge URL`, one on each line."""


@dataclass(frozen=True, slots=True)
class NamedServer:
    """A server that a command line names."""

    given: tuple[str, ...]
    """The words that name it on the command line, `--` included."""
    entry: ServerEntry
    """How it is started or reached."""
    module: str | None = None
    """The FILE.py[:SERVER] or MODULE:SERVER whose server `mcprev serve` runs; None for any other target."""
    name: str | None = None
    """Its name in the configuration where it was found."""

    @property
    def label(self) -> str:
        """The text that names the server for people, with what looks like a secret masked."""
        from mcprev.hosts.masking import masked_words

        return " ".join(masked_words(self.given[1:] if self.given[0] == "--" else self.given))

    def target(
        self, *, auth: Authorization | None = None, stderr: Callable[[bytes], None] | None = None
    ) -> Target:
        """Return what `mcprev.connect` takes. `stderr` reads that of a process, for people who want to see what it prints.

        Raises `ValueError` for an invalid URL, and `MissingExtra` without HTTP.
        """
        import mcprev

        entry = self.entry
        if entry.url is not None:
            return mcprev.http(entry.url, headers=entry.headers, auth=auth, trust_env=True)
        # Python else keeps what a server prints to stdout by mistake in a buffer, until it ends.
        env = entry.env if stderr is None else {"PYTHONUNBUFFERED": "1", **entry.env}
        return mcprev.stdio(*entry.words, env=env, cwd=entry.cwd, stderr=stderr)


def named_server(
    words: Sequence[str],
    *,
    command: bool = False,
    env: Mapping[str, str] | None = None,
    headers: Mapping[str, str] | None = None,
) -> NamedServer:
    """Return the server that words of a command line name; with `command`, they are a command to start.

    `env` is added to the variables of a command, `headers` to those of requests to a URL. Raises `ValueError` that says
    what to write, `OSError` for a configuration that cannot be read.
    """
    if not words:
        raise ValueError(f"no server is named; {NAMES}")
    server = _started(words) if command or len(words) > 1 else _named(words[0])
    return with_values(server, env=env or {}, headers=headers or {})


def with_values(server: NamedServer, *, env: Mapping[str, str], headers: Mapping[str, str]) -> NamedServer:
    """Return a server with more variables of its command, or headers of requests to its URL. Raises `ValueError`."""
    entry = server.entry
    if headers and entry.url is None:
        raise ValueError("headers require a server at a URL")
    if env and entry.url is not None:
        raise ValueError("environment variables require a server that is started, not a URL")
    entry = entry._replace(env={**entry.env, **env}, headers={**entry.headers, **headers})
    return replace(server, entry=entry)


def is_url(text: str) -> bool:
    """Return whether a text is taken for the URL of a server."""
    return text.lower().startswith(("http://", "https://"))


def _started(words: Sequence[str]) -> NamedServer:
    if not words[0]:
        raise ValueError("the command is empty; write it after --, as in -- python server.py")
    return NamedServer(("--", *words), ServerEntry(tuple(words)))


def _named(word: str) -> NamedServer:
    given = (word,)
    if is_url(word):
        return NamedServer(given, ServerEntry(url=word))
    if "://" in word:
        raise ValueError("write a URL that begins with http:// or https://")
    name, at, place = word.rpartition("@")
    if at and name and (place in HOSTS or place.endswith((".json", ".jsonc"))):
        return _configured(given, name, _places(place), place)
    if word.endswith((".json", ".jsonc")):
        return _only(given, word)
    if _MODULE.fullmatch(word) and HERE.find_program(word) is None:
        file, is_file, _ = word.rpartition(".py")
        if is_file and not Path(f"{file}.py").is_file():
            raise ValueError(f"there is no file '{file}.py'")
        run = (sys.executable, "-m", "mcprev", "serve", word)
        return NamedServer(given, ServerEntry(run), module=word)
    try:
        return _configured(given, word, [place for host in HOSTS for place in _places(host)], None)
    except LookupError as error:
        if HERE.find_program(word) is not None:
            return _started(given)
        raise ValueError(f"{error.args[0]}; {NAMES}") from None


# -- configurations ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Configured:
    """A server of a configuration."""

    name: str
    host: str
    """The name of the host, or the path of the file."""
    file: Path
    members: Json
    """Its entry as the file says it."""


@dataclass(frozen=True, slots=True)
class _Place:
    host: str
    file: Path
    members: tuple[MemberPath, ...] = field(default=ANY_FILE)


def configured_servers(host: str | None = None) -> Iterator[Configured]:
    """Yield the servers of all hosts, or of one; files that are missing or broken are left out."""
    for name in HOSTS if host is None else (host,):
        for place in _places(name):
            try:
                yield from _servers(place)
            except (OSError, ValueError):
                continue


def entry_text(server: Configured) -> str:
    """Return the command or URL of a server for people, with what looks like a secret masked."""
    from mcprev.hosts.masking import masked_words

    try:
        members = usual(server.members)
    except TypeError as error:
        return f"({error})"
    url: Json = members.get("url")
    command: Json = members.get("command")
    given: Json = members.get("args")
    if isinstance(url, str):
        return " ".join(masked_words([url]))
    if not isinstance(command, str):
        return "(no command)"
    arguments: list[str] = [str(each) for each in given] if isinstance(given, LIST) else []
    return " ".join(masked_words([command, *arguments]))


def _places(name: str) -> list[_Place]:
    host = HOSTS.get(name)
    if host is None:
        return [_Place(name, Path(name))]
    return [_Place(name, file, members) for file, members in host.places()]


def _servers(place: _Place) -> Iterator[Configured]:
    """Yield the servers of a file. Raises `OSError`, and `ValueError` with the place of a mistake."""
    try:
        root: Json = parse_jsonc(read_text(place.file)).value
    except JsoncError as error:
        raise ValueError(f"{place.file}: {error}") from None
    for path in place.members:
        found: Json = root
        for part in path:
            found = cast("Mapping[str, Json]", found).get(part) if isinstance(found, Mapping) else None
        if isinstance(found, Mapping):
            for name, members in cast("Mapping[str, Json]", found).items():
                yield Configured(name, place.host, place.file, members)


def _configured(
    given: tuple[str, ...], name: str, places: Sequence[_Place], named: str | None
) -> NamedServer:
    """Return a server by its name. Raises `LookupError` if no place has it, which is a `ValueError` for a named one."""
    found: list[Configured] = []
    known: set[str] = set()
    for place in places:
        try:
            servers = [*_servers(place)]
        except FileNotFoundError:
            if named is not None and place is places[-1] and not known:
                raise ValueError(f"there is no file '{place.file}'") from None
            continue
        except (OSError, ValueError):
            if named is not None:
                raise
            continue
        known |= {each.name for each in servers}
        found += [each for each in servers if each.name == name]
        if found and named is not None:
            break  # the file of a project goes before that of the user
    if not found:
        hint = did_you_mean(name, known)
        if named is None:
            raise LookupError(f"no configuration has a server '{name}'{hint}")
        names = f"; its servers are {', '.join(sorted(known)[:20])}" if known and not hint else ""
        raise ValueError(f"the configuration of {named} has no server '{name}'{hint}{names}")
    if len({repr(each.members) for each in found}) > 1:
        choices = ", ".join(f"{name}@{host}" for host in dict.fromkeys(each.host for each in found))
        if len({each.host for each in found}) > 1:
            raise ValueError(f"several configurations have a server '{name}'; write one of {choices}")
    return _read(given, found[0])


def _only(given: tuple[str, ...], file: str) -> NamedServer:
    """Return the one server of a configuration."""
    try:
        servers = [*_servers(_Place(file, Path(file)))]
    except FileNotFoundError:
        raise ValueError(f"there is no file '{file}'") from None
    if len(servers) == 1:
        return _read(given, servers[0])
    if not servers:
        raise ValueError(f"'{file}' has no servers; it requires {{\"mcpServers\": {{NAME: ...}}}}")
    names = ", ".join(f"{each.name}@{file}" for each in servers[:20])
    raise ValueError(f"'{file}' has several servers; pass one of {names}")


def _read(given: tuple[str, ...], found: Configured) -> NamedServer:
    try:
        return NamedServer(given, entry_of(usual(found.members)), name=found.name)
    except (TypeError, ValueError) as error:
        raise ValueError(f"the server '{found.name}' in '{found.file}': {error}") from error
