"""Skills of a server as a client uses them: their list, each by its URI, and files that are checked as they are read.

SK-20..SK-27, SK-30..SK-34. Nothing is read before it is asked for. What a skill says is of its server, and to be treated so.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import logging
from collections.abc import AsyncGenerator, Awaitable, Generator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from pydantic_core import ValidationError
from typing_extensions import Unpack

from mcprev.client.options import Options
from mcprev.conversion.rules import as_list
from mcprev.core.lists import ListBudget, read_pages, text_of
from mcprev.errors import (
    InvalidParams,
    Json,
    LocalProtocolError,
    RemoteProtocolError,
    ResourceNotFound,
    one_line,
)
from mcprev.extensions.skills.paths import SKILL_FILE, folder_of, path_below, path_error, quoted
from mcprev.extensions.skills.rules import (
    MAX_SKILL_BYTES,
    MAX_SKILL_FILES,
    NAME,
    FrontMatterError,
    is_digest,
    named,
    skill_digest,
)
from mcprev.protocol.uris import is_uri, same_uri
from mcprev_types.extensions import skills as types
from mcprev_types.latest import models

if TYPE_CHECKING:
    from mcprev.client.resource_result import ResourceResult
    from mcprev.client.session import ClientSession

_LIST: Final = "skills/list"
_GET: Final = "skills/get"
_DIRECTORY: Final = "resources/directory/read"
_logger: Final = logging.getLogger("mcprev.client")


class SkillChanged(RemoteProtocolError):
    """A file is not the one that the entry of its skill names, or is not in it; it must not be used.

    `refresh` of the skill fetches its entry again. If its files are others then, what a user approved before is void.
    """

    def __init__(self, message: str, *, uri: str, path: str) -> None:
        super().__init__(message)
        self.uri = uri
        """The URI of the skill."""
        self.path = path
        """The path of the file in the skill."""


class InvalidSkill(RemoteProtocolError):
    """The entry of a skill is not valid, or exceeds a limit; it is not loaded."""


class SkillsClient(Protocol):
    """The client of one server."""

    session: ClientSession
    server_name: str | None

    def extension_settings(self, extension: str, /) -> Mapping[str, Json] | None:
        """Return what the server declares about an extension; None for nothing."""
        ...

    async def raw(
        self, method: str, params: Mapping[str, Json] | None = None, **options: Unpack[Options]
    ) -> dict[str, Json]:
        """Call any method in JSON."""
        ...

    async def read_resource(self, uri: str, **options: Unpack[Options]) -> ResourceResult:
        """Return the contents of a resource."""
        ...


@dataclass(frozen=True, slots=True)
class SkillFile:
    """A file of a skill as it was read, and checked if its skill has digests."""

    path: str
    uri: str
    mime_type: str | None
    data: bytes

    @property
    def text(self) -> str:
        """The content as text in UTF-8. Raises `UnicodeDecodeError` for what is none."""
        return self.data.decode()


class HeldSkill:
    """A skill of a server, with the entry that was loaded: `await (await client.skill(uri)).read("templates/email.txt")`.

    Its files are those of this entry as long as it is held. Awaiting it, or reading a file, loads the entry if that has not
    happened yet. Names are not unique: `identity` is.
    """

    def __init__(self, client: SkillsClient, uri: str, entry: Mapping[str, Json] | None = None) -> None:
        """Hold a skill by the URI of its SKILL.md; `Client.skill` and `Client.skills` call this. Raises `InvalidSkill`."""
        self.uri: str = uri
        """The URI of the SKILL.md."""
        self._client = client
        self._read: dict[str, SkillFile] = {}
        self._entry: types.Skill | None = None
        self._files: Mapping[str, types.SkillResource] = {}
        if entry is not None:
            self._entry, self._files = checked_entry(entry)

    def __await__(self) -> Generator[Any, None, HeldSkill]:
        return self.load().__await__()

    async def load(self, **options: Unpack[Options]) -> HeldSkill:
        """Fetch the entry, unless it is there; return this skill. The options are those of `Client.call_tool`.

        Raises `LocalProtocolError` if the server declares no skills, `InvalidParams` if it has none at the URI,
        `InvalidSkill` for an entry that is not valid or too large, and the errors of `Client.call_tool`.
        """
        if self._entry is None:
            self._entry, self._files = await self._fetch(options)
        return self

    async def refresh(self, **options: Unpack[Options]) -> HeldSkill:
        """Fetch the entry again and return a skill that holds it; this one keeps its own. Raises the errors of `load`."""
        return await HeldSkill(self._client, self.uri).load(**options)

    async def _fetch(self, options: Options) -> tuple[types.Skill, Mapping[str, types.SkillResource]]:
        _settings(self._client)
        result = await self._client.raw(_GET, {"uri": self.uri}, **options)
        entry: Json = result.get("skill")
        found = checked_entry(cast("Mapping[str, Json]", entry) if isinstance(entry, dict) else {})
        if not same_uri(found[0].uri, self.uri):
            raise InvalidSkill(f"'{self.uri:.200}' was asked for, and the server returned another skill")
        return found

    # -- the entry -------------------------------------------------------------------------------------------

    @property
    def entry(self) -> types.Skill:
        """The entry as the server sent it. Raises `LocalProtocolError` before it is loaded."""
        if self._entry is None:
            raise LocalProtocolError(f"'{self.uri:.200}' is not loaded yet: await it first")
        return self._entry

    @property
    def identity(self) -> tuple[str | None, str]:
        """What tells it from every other skill: the name of the server in the configuration of this client, and the URI."""
        return self._client.server_name, self.uri

    @property
    def front_matter(self) -> dict[str, Json]:
        """The front matter as JSON. Nothing of it is acted on: what it allows is for the user to decide."""
        return self.entry.frontmatter.to_wire()

    @property
    def name(self) -> str:
        """The name of the skill, which others may have, too."""
        return self.entry.frontmatter.name

    @property
    def description(self) -> str:
        """What the skill is for, in the words of the server."""
        return self.entry.frontmatter.description

    @property
    def dynamic(self) -> bool:
        """Whether the server gives no digests, so that its files cannot be checked."""
        return self.entry.resources == "dynamic"

    @property
    def files(self) -> Mapping[str, types.SkillResource]:
        """The files of the entry by their paths in the skill; empty for a dynamic one."""
        return self._files if self.entry.resources else {}

    @property
    def fingerprint(self) -> str | None:
        """A digest of the URIs and digests of all files: if it is another than at an approval, that is void. None if dynamic."""
        if self.dynamic:
            return None
        both = sorted((file.uri, file.digest) for file in self._files.values())
        return hashlib.sha256(json.dumps(both).encode()).hexdigest()

    # -- files -----------------------------------------------------------------------------------------------

    async def read(self, path: str = SKILL_FILE, **options: Unpack[Options]) -> SkillFile:
        """Read a file by its path in the skill, check it against the entry, and keep it.

        The entry has to list it, with this size and this digest; the front matter of SKILL.md has to be that of the entry,
        which needs `pip install 'mcprev[skills]'`. `path` is relative to the folder of the SKILL.md.

        Raises `SkillChanged` for a file that is not so, `ValueError` for a path out of the skill, and the errors of `load` and of
        `Client.read_resource`.
        """
        path = path.removeprefix("./")
        wrong = path_error(path, hidden=True)
        if wrong is not None:
            raise ValueError(f"{path!r:.200} is no path in a skill: {wrong}")
        await self.load(**options)
        if path in self._read:
            return self._read[path]
        if self.dynamic:
            uri = self.uri if path == SKILL_FILE else f"{folder_of(self.uri)}/{quoted(path)}"
        elif path in self._files:
            uri = self._files[path].uri
        else:
            raise self._changed(path, "it is not in the entry of the skill")
        read: Options = {"fresh": True, **options}
        try:
            found = await self._client.read_resource(uri, **read)
        except (ResourceNotFound, InvalidParams) as error:
            raise self._changed(path, "the server does not have it") from error
        file = SkillFile(path, uri, *_content(found, uri))
        self._check(file)
        if not self.dynamic:
            self._read[path] = file
        return file

    def _check(self, file: SkillFile) -> None:
        known = self._files.get(file.path)
        if len(file.data) > MAX_SKILL_BYTES:
            raise self._changed(file.path, f"it has more than {MAX_SKILL_BYTES} bytes")
        if known is not None and len(file.data) != known.size:
            raise self._changed(file.path, f"it has {len(file.data)} bytes, and the entry says {known.size}")
        if known is not None and skill_digest(file.data) != known.digest:
            raise self._changed(file.path, "it has another digest than the entry")
        if file.path == SKILL_FILE:
            from mcprev.extensions.skills.front_matter import read_front_matter, says_the_same

            try:
                same = says_the_same(read_front_matter(file.data), self.front_matter)
            except FrontMatterError as error:
                raise self._changed(file.path, str(error)) from None
            if not same:
                raise self._changed(file.path, "its front matter is not that of the entry")

    def _changed(self, path: str, why: str) -> SkillChanged:
        return SkillChanged(
            f"{path:.200} of the skill '{self.uri:.200}' must not be used: {one_line(why)}; call `refresh`, and ask the user again",
            uri=self.uri,
            path=path,
        )

    async def folder(
        self, path: str = "", **options: Unpack[Options]
    ) -> AsyncGenerator[models.Resource, None]:
        """Iterate over the files and folders in a folder of the skill, as the server lists them now.

        They are not added to the files of the entry. Raises `LocalProtocolError` if the server lists no folders, and the errors
        of `load`.
        """
        await self.load(**options)
        if _settings(self._client).get("directoryRead") is not True:
            raise LocalProtocolError(
                "the server does not list folders of skills: it does not declare `directoryRead`"
            )
        uri = folder_of(self.uri) + (f"/{quoted(path)}" if path else "")
        async with aclosing(_pages(self._client, _DIRECTORY, "resources", {"uri": uri}, options)) as pages:
            async for entry in pages:
                try:
                    yield models.Resource.from_wire(cast("dict[str, Json]", entry))
                except ValidationError:
                    raise RemoteProtocolError(
                        f"'{_DIRECTORY}' has an entry that is not valid", raw=entry
                    ) from None


def skill_of(client: SkillsClient, uri: str) -> HeldSkill:
    """Return a skill by the URI of its SKILL.md, listed or not; `Client.skill` calls this. Raises `ValueError` for no URI."""
    if not is_uri(uri) or not uri.endswith(f"/{SKILL_FILE}"):
        raise ValueError(
            f"{uri!r:.200} is not the URI of a {SKILL_FILE}, such as skill://git-workflow/{SKILL_FILE}"
        )
    return HeldSkill(client, uri)


async def skills_of(client: SkillsClient, options: Options) -> AsyncGenerator[HeldSkill, None]:
    """Iterate over the skills that a server lists; `Client.skills` calls this."""
    _settings(client)
    known: set[str] = set()
    async with aclosing(_pages(client, _LIST, "skills", {}, options)) as pages:
        async for entry in pages:
            members = cast("dict[str, Json]", entry) if isinstance(entry, dict) else {}
            uri: Json = members.get("uri")
            why = "it is listed twice" if str(uri) in known else None
            try:
                skill = HeldSkill(client, str(uri), members)
            except InvalidSkill as error:
                why = one_line(str(error))
            else:
                if why is None:
                    known.add(skill.uri)
                    yield skill
                    continue
            _logger.warning("the skill %r is left out: %s", str(uri)[:200], why)


def _settings(client: SkillsClient) -> Mapping[str, Json]:
    """Return what the server declares about skills. Raises `LocalProtocolError` if it declares none."""  # SK-20
    found = client.extension_settings(NAME)
    if found is None:
        raise LocalProtocolError(f"the server has no skills: it does not declare '{NAME}'")
    return found


async def _pages(
    client: SkillsClient, method: str, member: str, params: Mapping[str, Json], options: Options
) -> AsyncGenerator[Json, None]:
    """Iterate over the entries of a list, within the bounds of `mcprev.core.lists`."""

    def fetch(cursor: str | None) -> Awaitable[dict[str, Json]]:
        more = {} if cursor is None else {"cursor": cursor}
        return client.raw(method, {**params, **more}, **options)

    def take(budget: ListBudget, page: dict[str, Json]) -> str | None:
        entries, cursor = as_list(page.get(member)), page.get("nextCursor")
        if entries is None:
            raise RemoteProtocolError(f"the result of '{method}' has no list '{member}'", raw=page)
        following = cursor if isinstance(cursor, str) else None
        return budget.count(text_of(page), len(entries), following)

    session = client.session
    seconds = session.total_timeout(options)
    async with aclosing(read_pages(method, fetch, take, seconds=seconds, clock=session.clock)) as pages:
        async for page in pages:
            for entry in as_list(page[member]) or ():
                yield entry


def checked_entry(given: Mapping[str, Json]) -> tuple[types.Skill, Mapping[str, types.SkillResource]]:
    """Return the entry of a skill, with its files by path. Raises `InvalidSkill` for one that is not to be loaded."""
    try:
        entry = types.Skill.from_wire(dict(given))
        name, _ = named(entry.frontmatter.to_wire())
    except ValidationError as error:
        where = next((".".join(map(str, each["loc"])) for each in error.errors()), "")
        raise InvalidSkill(
            f"the entry of the skill is not valid: {one_line(where)[:200]}", raw=dict(given)
        ) from None
    except FrontMatterError as error:
        raise InvalidSkill(f"the entry of the skill is not valid: {error}", raw=dict(given)) from None
    folder = folder_of(entry.uri)
    wrong = None
    if not is_uri(entry.uri) or entry.uri != f"{folder}/{SKILL_FILE}":
        wrong = f"its URI is not that of a {SKILL_FILE}"
    elif path_below(folder.rpartition("/")[0], folder) != name:
        wrong = "its name is not that of its folder"
    if wrong is not None:
        raise InvalidSkill(f"the skill {entry.uri!r:.200} is not valid: {wrong}", raw=dict(given))
    if isinstance(entry.resources, str):
        return entry, {}
    return entry, _files_of_entry(entry, folder, entry.resources)


def _files_of_entry(
    entry: types.Skill, folder: str, resources: list[types.SkillResource]
) -> Mapping[str, types.SkillResource]:
    files: dict[str, types.SkillResource] = {}
    size = 0
    for file in resources:
        path = path_below(folder, file.uri)
        why = "is not below it" if path is None else path_error(path, hidden=True)
        if path is None or why is not None or path in files or not is_digest(file.digest):
            why = why or ("is there twice" if path in files else "has no digest by SHA-256")
            raise InvalidSkill(
                f"the skill {entry.uri!r:.200} has the file {file.uri!r:.200}: it {why.removeprefix('it ')}"
            )
        files[path] = file
        size += int(file.size)
    if SKILL_FILE not in files:
        raise InvalidSkill(f"the skill {entry.uri!r:.200} does not list its {SKILL_FILE}")
    if len(files) > MAX_SKILL_FILES or size > MAX_SKILL_BYTES:
        raise InvalidSkill(
            f"the skill {entry.uri!r:.200} has {len(files)} files with {size} bytes; at most {MAX_SKILL_FILES} with "
            f"{MAX_SKILL_BYTES} are loaded"
        )
    return files


def _content(found: ResourceResult, uri: str) -> tuple[str | None, bytes]:
    """Return the MIME type and the bytes of the contents of one file."""
    if len(found.contents) != 1 or not same_uri(found.contents[0].uri, uri):
        raise RemoteProtocolError(f"'{uri:.200}' is not read as one file with this URI", raw=found.to_wire())
    [content] = found.contents
    mime_type = content.mime_type if isinstance(content.mime_type, str) else None
    if isinstance(content, models.TextResourceContents):
        return mime_type, content.text.encode(errors="surrogatepass")
    try:
        return mime_type, base64.b64decode(content.blob, validate=True)
    except binascii.Error:
        raise RemoteProtocolError(f"'{uri:.200}' is not in Base64") from None
