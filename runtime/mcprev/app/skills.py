"""Skills of an app: instructions with files that hosts load for their models; see `mcprev.extensions.skills`.

The extension is imported when an app has a skill.
"""

from __future__ import annotations

import asyncio
import base64
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from mcprev.app.dependencies import is_async
from mcprev.app.entries import Resource, ResourceTemplate
from mcprev.app.handlers import check_scopes
from mcprev.app.options import SkillOptions, check_skill_options
from mcprev.app.registry import Registry
from mcprev.app.signatures import Function
from mcprev.app.uri_templates import Template
from mcprev.protocol.subscriptions import Changed
from mcprev.server.context import Context
from mcprev_types.latest import models

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from typing_extensions import Unpack

    from mcprev.core.capabilities import DeclaredExtension
    from mcprev.extensions.skills.content import Content, SkillContent
    from mcprev.extensions.skills.serving import Published
    from mcprev.server.server import Server, ServerOptions

F = TypeVar("F", bound=Callable[..., object])
SCHEME: Final = "skill://"
"""The beginning of the URIs of the skills of an app."""
_ANY_FILE: Final = "{+path}"


@dataclass(slots=True, eq=False)
class _Source:
    """Where skills come from, what is taken of it again when they change, and what of it is served."""

    read: Callable[[], list[SkillContent]]
    options: SkillOptions
    served: dict[str, tuple[Content, SkillContent | None]] = field(
        default_factory=dict[str, "tuple[Content, SkillContent | None]"]
    )
    """The files by URI; a SKILL.md with its skill."""


class Skills:
    """The part of `App` that registers skills."""

    _registered: Registry
    _options: ServerOptions
    _executor: Executor | None
    _mounted: list[Any]

    def __init__(self) -> None:
        super().__init__()
        self._skill_sources: list[_Source] = []
        self._tells_skills = False
        """Whether this process itself tells of a change of skills at the moment."""

    def add_skills(self, folder: str | Path, **options: Unpack[SkillOptions]) -> None:
        """Serve skills of a folder: each folder below it with a file `SKILL.md` is one, with all files below that.

        `skills/git-workflow/SKILL.md` has the URI `skill://git-workflow/SKILL.md`. It begins with front matter in YAML, with
        the `name` of its folder and a `description`. The files are read now; `skills_changed` reads them again. Files and
        folders whose names begin with a dot are left out. Needs `pip install 'mcprev[skills]'`.

        Options: `listed`, `list_files`, `tags`, `visible`, `ttl_ms` and `cache_scope`; see `mcprev.app.options.SkillOptions`.
        Raises `ValueError` that names the file for what no skill can have: other names, links out of the folder, more than 512
        files or 16 MiB, front matter that is not valid; and for a URI that is registered already. Raises `OSError` for what
        cannot be read, `LocalProtocolError` for the first skill after the server was created, and `MissingExtra`.
        """
        from mcprev.extensions.skills.folder import paths_in, read_skills
        from mcprev.serving.source_files import watch_too

        check_skill_options("add_skills", options)
        place = Path(folder).absolute()
        watch_too(paths_in(place))
        self._add_source(_Source(partial(read_skills, place), options))

    def skill(self, name: str, *, dynamic: bool = False, **options: Unpack[SkillOptions]) -> Callable[[F], F]:
        """Register a function that returns the files of a skill: a mapping of their paths to text or bytes.

        One of them is `SKILL.md`, whose front matter has this name. The function is called now, without arguments, and
        again by `skills_changed`. With `dynamic=True` it is called for each request instead, may be async and may take the
        context: for content that changes, or depends on the client. Clients cannot check the digests of such files.

        Options and errors are those of `add_skills`; raises `TypeError` for a function with other parameters.
        """
        check_skill_options("skill", options)
        if callable(name):
            raise TypeError("pass the name of the skill, as in @app.skill('git-workflow')")

        def register(function: F) -> F:
            if dynamic:
                read = Function(function, self._executor)
                if read.names:
                    read.refuse("a skill has no arguments; it may take the context")
                self._add_dynamic(name, read, options)
                return function
            needed = [
                each for each in inspect.signature(function).parameters.values() if each.default is each.empty
            ]
            if is_async(function) or needed:
                raise TypeError(
                    f"the function of the skill '{name}' is called when it is registered, so it cannot be async or have "
                    "arguments: pass dynamic=True, or write `def` without parameters"
                )
            self._add_source(_Source(partial(_read_function, name, function), options))
            return function

        return register

    def skills_changed(self) -> None:
        """Read all skills again that come from folders and functions, and notify clients of what changed.

        With a `store` and several processes, the others do the same. Skills of mounted apps are read again, too. May be
        called in any thread. Raises the errors of `add_skills`; the skills that were served before stay then.
        """
        self._take_again()
        tell = self._registered.on_changed or self._registered.tell_outer
        self._tells_skills = True
        try:
            tell(Changed.RESOURCE, SCHEME)
        finally:
            self._tells_skills = False

    # -- sources ---------------------------------------------------------------------------------------------

    def _add_source(self, source: _Source) -> None:
        found = _files_of(source.read())
        self._registered.check_skills(next(iter(found)))
        for uri in found:
            self._registered.check_addable("resources", uri, None)
        self._replace(source, found)
        self._skill_sources.append(source)

    def _take_again(self) -> None:
        for app in self._mounted:
            app._take_again()  # noqa: SLF001 - another app
        taken = [(source, _files_of(source.read())) for source in self._skill_sources]
        with self._registered.one_notification():
            for source, found in taken:
                self._replace(source, found)

    def _replace(self, source: _Source, found: dict[str, tuple[Content, SkillContent | None]]) -> None:
        """Serve what was found in place of what a source had before."""
        registered, before = self._registered, source.served
        for uri in before.keys() - found.keys():
            if registered.knows("resources", uri):
                registered.remove("resources", uri)
        source.served = found
        tell = registered.on_changed or registered.tell_outer
        for uri, (file, skill) in found.items():
            if uri not in before:
                registered.add("resources", uri, self._resource(uri, file, skill, source.options))
            elif before[uri] != (file, skill) and registered.knows("resources", uri):
                registered.set_entry("resources", uri, self._resource(uri, file, skill, source.options))
                tell(Changed.RESOURCE, uri)

    def _resource(
        self, uri: str, file: Content, skill: SkillContent | None, options: SkillOptions
    ) -> Resource:
        from mcprev.extensions.skills.paths import SKILL_FILE

        async def read(ctx: Context) -> object:
            del ctx
            return file.wire

        listed = options.get("listed", True) and (skill is not None or options.get("list_files", False))
        said: dict[str, Any] = {"name": uri.removeprefix(SCHEME)}
        if skill is not None and uri.endswith(f"/{SKILL_FILE}"):
            said = {"name": skill.name, "description": skill.description}
        model = models.Resource.from_wire(
            {"uri": uri, **said, "mimeType": file.mime_type, "size": len(file.data)}
        )
        made = Resource(
            listed=model, function=Function(read, None), unlisted=not listed, cache=self._cache(options),
            **self._seen_by(options),
        )  # fmt: skip
        return made if skill is None else replace(made, skill=self._published(partial(_same, skill), options))

    def _add_dynamic(self, name: str, function: Function, options: SkillOptions) -> None:
        from mcprev.extensions.skills.content import skill_content
        from mcprev.extensions.skills.paths import quoted
        from mcprev.extensions.skills.rules import check_skill_name

        check_skill_name(name)
        text = f"{SCHEME}{quoted(name)}/{_ANY_FILE}"

        async def content(ctx: Context) -> SkillContent:
            return skill_content(name, _checked(name, await function(ctx, {})))

        async def read(path: str, ctx: Context) -> object:
            file = (await content(ctx)).files.get(path)
            if file is None:
                return None
            uri, wire = str((ctx.request.params or {}).get("uri")), file.wire
            if isinstance(wire, str):
                return models.TextResourceContents(uri=uri, mime_type=file.mime_type, text=wire)
            data = base64.b64encode(wire).decode()
            return models.BlobResourceContents(uri=uri, mime_type=file.mime_type, blob=data)

        self._registered.check_skills(text)
        entry = ResourceTemplate(
            listed=models.ResourceTemplate(name=name, uri_template=text), template=Template(text),
            function=Function(read, None), skill=self._published(content, options, dynamic=True),
            cache=self._cache(options), **self._seen_by(options),
        )  # fmt: skip
        self._registered.add("templates", text, entry)

    def _seen_by(self, options: SkillOptions) -> dict[str, Any]:
        tags = frozenset[str](options.get("tags", ()))
        return {"tags": tags, "checks": self._registered.checks(tags, options.get("visible"))}

    def _cache(self, options: SkillOptions) -> dict[str, Any]:
        found = {name: value for name, value in options.items() if name in {"ttl_ms", "cache_scope"}}
        models.ReadResourceResult(contents=[], **cast("Any", found))  # raises for what no result can say
        return found

    def _published(
        self, content: Any, options: SkillOptions, *, dynamic: bool = False  # noqa: ANN401 - a function
    ) -> Published:
        from mcprev.extensions.skills.serving import Published

        ttl: int = options.get("ttl_ms", self._registered.list_cache.get("ttl_ms", 0))
        private = self._seen_by(options)["checks"] or options.get("cache_scope") != "public"
        return Published(
            content, dynamic=dynamic, listed=options.get("listed", True), ttl_ms=ttl,
            scope="private" if private else "public",
        )  # fmt: skip

    # -- the server ------------------------------------------------------------------------------------------

    def _with_skills(self, declared: tuple[DeclaredExtension, ...]) -> tuple[DeclaredExtension, ...]:
        """Return the extensions of the server, with that for skills if there are any."""
        if not self._registered.has_skills:
            return declared
        from mcprev.extensions.skills.rules import NAME
        from mcprev.extensions.skills.serving import extension_of

        known = {each.name for each in declared}
        return declared if NAME in known else (*declared, extension_of(RegisteredSkills(self._registered)))

    def _follow_skills(self, server: Server) -> None:
        """Read skills again when another process of the server tells of a change."""

        def told(kind: Changed, uri: str | None) -> None:
            if kind is not Changed.RESOURCE or not (uri or "").startswith(SCHEME) or (uri or "")[-1:] != "/":
                return
            if not self._tells_any():
                asyncio.get_running_loop().run_in_executor(None, self._take_again)

        server.on_change(told)

    def _tells_any(self) -> bool:
        return self._tells_skills or any(
            app._tells_any() for app in self._mounted  # noqa: SLF001 - another app
        )


class RegisteredSkills:
    """The skills of a registry, as the extension serves them."""

    def __init__(self, registered: Registry) -> None:
        self._registered = registered

    async def skills(self, ctx: Context) -> Mapping[str, Published]:
        """Return the skills that the client of a request sees."""
        found: dict[str, Published] = {}
        for uri, entry in tuple(self._registered.resources.items()):
            if entry.skill is not None and await entry.shown(ctx):
                found[uri] = entry.skill
        for text, each in tuple(self._registered.templates.items()):
            if each.skill is not None and await each.shown(ctx):
                found[text.replace(_ANY_FILE, "SKILL.md")] = each.skill
        return found

    async def check(self, ctx: Context, uri: str) -> None:
        """Raise the error of a client whose token does not allow it to read the skill."""
        await check_scopes(ctx, "resources/read", {"uri": uri})


async def _same(content: SkillContent, ctx: Context) -> SkillContent:
    del ctx
    return content


def _read_function(name: str, function: Callable[..., object]) -> list[SkillContent]:
    from mcprev.extensions.skills.content import skill_content

    return [skill_content(name, _checked(name, function()))]


def _checked(name: str, files: object) -> Mapping[str, str | bytes]:
    if not isinstance(files, Mapping):
        raise TypeError(
            f"the skill '{name}' is a {type(files).__name__}; return a mapping of paths to text or bytes"
        )
    found = cast("Mapping[object, object]", files)
    for path, data in found.items():
        if not isinstance(path, str) or not isinstance(data, str | bytes):
            raise TypeError(
                f"the skill '{name}' has {path!r:.100} of type {type(data).__name__}; return paths with text or bytes"
            )
    return cast("Mapping[str, str | bytes]", found)


def _files_of(skills: Sequence[SkillContent]) -> dict[str, tuple[Content, SkillContent | None]]:
    """Return the files of skills by URI; those of a nested skill are also files of the enclosing one."""  # SK-14
    from mcprev.extensions.skills.paths import SKILL_FILE, quoted

    found: dict[str, tuple[Content, SkillContent | None]] = {}
    for skill in skills:
        start = f"{SCHEME}{quoted(skill.path)}/"
        for path, file in skill.files.items():
            uri = start + quoted(path)
            if path == SKILL_FILE:
                found[uri] = file, skill
            else:
                found.setdefault(uri, (file, None))
    return found
