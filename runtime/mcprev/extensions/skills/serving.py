"""Serves skills: their list, each by its URI, and the folders in them (SK-1, SK-2, SK-8..SK-15).

What is served comes from a `Catalogue`, such as an app; files are resources, which it serves itself.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol, TypeAlias

from mcprev.errors import InvalidParams, Json
from mcprev.extensions.extension import Extension
from mcprev.extensions.skills.content import DIRECTORY, SkillContent
from mcprev.extensions.skills.paths import SKILL_FILE, folder_of, path_below, quoted
from mcprev.extensions.skills.rules import NAME
from mcprev.protocol.uris import comparable
from mcprev.server.context import Context
from mcprev_types.extensions import skills as types

CacheScope: TypeAlias = Literal["public", "private"]
MAX_PAGE_SKILLS: Final = 100
"""The maximum number of skills on a page of `skills/list`."""
MAX_PAGE_FILES: Final = 5_000
"""The number of files on such a page after which no further skill is added."""
MAX_PAGE_ENTRIES: Final = 250
"""The maximum number of entries on a page of a folder."""


@dataclass(frozen=True, slots=True, eq=False)
class Published:
    """How a skill is served."""

    content: Callable[[Context], Awaitable[SkillContent]]
    """Returns its files, for the client of a request."""
    dynamic: bool = False
    """Whether the files may be others at the next request, so that no digests are given."""
    listed: bool = True
    """Whether the list has it; by its URI it is served in any case."""
    ttl_ms: int = 0
    """How long a client may keep the entry, in milliseconds."""
    scope: CacheScope = "public"
    """Whether shared caches may keep it: `private` for what not every client sees."""


class Catalogue(Protocol):
    """The skills of a server."""

    async def skills(self, ctx: Context) -> Mapping[str, Published]:
        """Return the skills that the client of a request sees, by the URI of their SKILL.md, in a fixed order."""
        ...

    async def check(self, ctx: Context, uri: str) -> None:
        """Raise the error of a request for a skill that the client may not read."""
        ...


def skill_entry(uri: str, skill: Published, content: SkillContent) -> types.Skill:
    """Return the entry of a skill, as `skills/list` and `skills/get` have it."""
    folder = folder_of(uri)
    files: Json = "dynamic"
    if not skill.dynamic:
        files = [
            {"uri": f"{folder}/{quoted(path)}", "digest": file.digest, "size": len(file.data)}
            for path, file in content.files.items()
        ]
    return types.Skill.from_wire({"uri": uri, "frontmatter": dict(content.front_matter), "resources": files})


class SkillsHandler(types.ServerHandler[Context]):
    """Serves the methods of the extension from a catalogue."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue

    async def list_skills(
        self, ctx: Context, params: types.models.PaginatedRequestParams
    ) -> types.ListSkillsResult:
        """Return a page of whole entries; the cursor is the URI of its last one."""
        known = await self._catalogue.skills(ctx)
        listed = [(uri, skill) for uri, skill in known.items() if skill.listed]
        after = params.cursor
        start = 0
        if isinstance(after, str):
            start = next((at for at, (uri, _) in enumerate(listed, 1) if uri == after), 0)
            if not start:
                raise InvalidParams("Invalid params: the cursor is unknown; list again without a cursor")
        page: list[types.Skill] = []
        files = 0
        for uri, skill in listed[start : start + MAX_PAGE_SKILLS]:
            if files >= MAX_PAGE_FILES:
                break
            content = await skill.content(ctx)
            page.append(skill_entry(uri, skill, content))
            files += len(content.files)
        end = start + len(page)
        return types.ListSkillsResult.from_wire(
            {
                "resultType": "complete",
                "skills": [each.to_wire() for each in page],
                **({"nextCursor": listed[end - 1][0]} if end < len(listed) else {}),
                # The page tells which skills there are, which every entry of the list decides.
                **_cache([skill for _, skill in listed]),
            }
        )

    async def get_skill(self, ctx: Context, params: types.GetSkillRequestParams) -> types.GetSkillResult:
        """Return the entry of a skill, listed or not."""
        uri, skill = await self._find(ctx, params.uri)
        entry = skill_entry(uri, skill, await skill.content(ctx))
        return types.GetSkillResult.from_wire(
            {"resultType": "complete", "skill": entry.to_wire(), **_cache([skill])}
        )

    async def read_resource_directory(
        self, ctx: Context, params: types.ReadResourceDirectoryRequestParams
    ) -> types.ReadResourceDirectoryResult:
        """Return the files and folders in a folder of a skill."""
        wanted = comparable(params.uri)
        for uri, skill in (await self._catalogue.skills(ctx)).items():
            folder = comparable(folder_of(uri))
            path = "" if wanted == folder else path_below(folder, wanted) or None  # SK-15
            if path is None:
                continue
            await self._catalogue.check(ctx, uri)
            content = await skill.content(ctx)
            if path in content.folders:
                return _directory(folder_of(uri), path, content, params.cursor)
        raise InvalidParams(f"Invalid params: there is no folder {params.uri:.200}")

    async def _find(self, ctx: Context, uri: str) -> tuple[str, Published]:
        wanted = comparable(uri)
        for known, skill in (await self._catalogue.skills(ctx)).items():
            if known == uri or comparable(known) == wanted:
                await self._catalogue.check(ctx, known)
                return known, skill
        raise InvalidParams(f"Invalid params: there is no skill {uri:.200}")


def _cache(skills: list[Published]) -> dict[str, Json]:
    """Return the members that say how long and for whom a result may be kept: of several skills the strictest."""
    private = any(skill.scope == "private" for skill in skills)
    ttl = min((skill.ttl_ms for skill in skills if not skill.dynamic), default=0)
    return {
        "ttlMs": 0 if any(skill.dynamic for skill in skills) else ttl,
        "cacheScope": "private" if private else "public",
    }


def _directory(
    folder: str, path: str, content: SkillContent, cursor: Any  # noqa: ANN401 - a text, or absent
) -> types.ReadResourceDirectoryResult:
    """Return a page of what is in a folder; the cursor is the last name on it."""
    start = f"{path}/" if path else ""
    found: dict[str, dict[str, Json]] = {}
    for each in content.folders:
        if each != path and each.startswith(start) and "/" not in each[len(start) :]:
            name = each[len(start) :]
            found[name] = {"uri": f"{folder}/{quoted(each)}", "name": name, "mimeType": DIRECTORY}
    for each, file in content.files.items():
        if each.startswith(start) and "/" not in each[len(start) :]:
            found[each[len(start) :]] = _file_entry(folder, each, content, len(file.data), file.mime_type)
    names = sorted(found)
    if isinstance(cursor, str):
        if cursor not in found:
            raise InvalidParams(
                "Invalid params: the cursor is unknown; read the folder again without a cursor"
            )
        names = names[names.index(cursor) + 1 :]
    page = names[:MAX_PAGE_ENTRIES]
    following: dict[str, Json] = {"nextCursor": page[-1]} if len(page) < len(names) else {}
    return types.ReadResourceDirectoryResult.from_wire(
        {"resultType": "complete", "resources": [found[name] for name in page], **following}
    )


def _file_entry(folder: str, path: str, content: SkillContent, size: int, mime_type: str) -> dict[str, Json]:
    """Return a file as a resource; SKILL.md has the name and description of its skill."""  # SK-6
    said: dict[str, Json] = {"name": path.rpartition("/")[2]}
    if path == SKILL_FILE:
        said = {"name": content.name, "description": content.description}
    return {"uri": f"{folder}/{quoted(path)}", **said, "mimeType": mime_type, "size": size}


def extension_of(catalogue: Catalogue) -> Extension[types.ClientCalls, types.ServerCalls]:
    """Return the extension as a server with skills declares it."""
    return Extension(
        NAME, {"directoryRead": True}, types=types, server=SkillsHandler(catalogue), needs="server"
    )
