"""The content of a skill: its files as they were read once, with digests, sizes and front matter (SK-3, SK-5, SK-8..SK-11)."""

from __future__ import annotations

import logging
import mimetypes
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from mcprev.errors import Json
from mcprev.extensions.skills.front_matter import is_ambiguous, plain_json, read_front_matter
from mcprev.extensions.skills.paths import SKILL_FILE, clash_among, path_error
from mcprev.extensions.skills.rules import (
    MAX_SKILL_BYTES,
    MAX_SKILL_FILES,
    FrontMatterError,
    named,
    skill_digest,
)

MARKDOWN: Final = "text/markdown"
"""The MIME type of SKILL.md."""
DIRECTORY: Final = "inode/directory"
"""The MIME type of a folder."""
_TYPES: Final[Mapping[str, str]] = {
    ".md": MARKDOWN, ".py": "text/x-python", ".sh": "text/x-shellscript", ".js": "text/javascript", ".ts": "text/x-typescript",
    ".json": "application/json", ".yaml": "application/yaml", ".yml": "application/yaml", ".toml": "application/toml",
    ".txt": "text/plain", ".csv": "text/csv", ".html": "text/html", ".css": "text/css", ".xml": "application/xml",
    ".svg": "image/svg+xml",
}  # fmt: skip
"""The MIME types that do not depend on the machine; for other suffixes those that Python knows by itself."""
_KNOWN: Final = mimetypes.MimeTypes()
_logger: Final = logging.getLogger("mcprev.extensions")


@dataclass(frozen=True, slots=True)
class Content:
    """One file: its bytes, and what is said of them."""

    data: bytes
    digest: str
    mime_type: str

    @property
    def wire(self) -> str | bytes:
        """The content as it is sent: text if it is text, which is the same bytes again in UTF-8."""
        if b"\0" in self.data:
            return self.data
        try:
            return self.data.decode()
        except UnicodeDecodeError:
            return self.data


@dataclass(frozen=True, slots=True)
class SkillContent:
    """One skill: its files by path, its folders, and its front matter as JSON."""

    path: str
    """The path of the skill among those of its server; its last name is that of the skill."""
    front_matter: Mapping[str, Json]
    files: Mapping[str, Content]
    folders: frozenset[str]
    """The paths of all folders in it, that of its own, an empty text, included."""

    @property
    def name(self) -> str:
        """The name of the skill."""
        return str(self.front_matter["name"])

    @property
    def description(self) -> str:
        """What the skill is for."""
        return str(self.front_matter["description"])


def mime_type_of(path: str) -> str:
    """Return the MIME type of a file, by its suffix; the same on every machine."""
    name = path.rpartition("/")[2]
    dot = name.rfind(".")
    suffix = name[dot:].lower() if dot > 0 else ""
    found = _TYPES.get(suffix) or _KNOWN.guess_type(f"x{suffix}", strict=False)[0]
    return found or "application/octet-stream"


def skill_content(
    path: str, files: Mapping[str, str | bytes], folders: frozenset[str] = frozenset(), *, place: str = ""
) -> SkillContent:
    """Return a skill of its files. Raises `ValueError` that names what is wrong; `place` is where the files come from."""
    place = place or f"the skill '{path:.100}'"
    if not files or len(files) > MAX_SKILL_FILES:
        raise ValueError(f"{place} has {len(files)} files; a skill has 1 to {MAX_SKILL_FILES}")
    for name in (path, *sorted(files), *sorted(folders - {""})):
        wrong = path_error(name)
        if wrong is not None:
            raise ValueError(f"{place}: the path {name!r:.200} is refused: {wrong}; rename it")
    read: dict[str, Content] = {}
    size = 0
    for name in sorted(files):
        given = files[name]
        data = given.encode() if isinstance(given, str) else bytes(given)
        size += len(data)
        if size > MAX_SKILL_BYTES:
            raise ValueError(
                f"{place} has more than {MAX_SKILL_BYTES} bytes; hosts load no more of one skill"
            )
        read[name] = Content(data, skill_digest(data), mime_type_of(name))
    clash = clash_among(read)
    if clash is not None:
        raise ValueError(
            f"{place}: {clash[0]!r:.200} and {clash[1]!r:.200} are one path on some systems; rename one"
        )
    if SKILL_FILE not in read:
        raise ValueError(f"{place} has no file {SKILL_FILE} with its name, description and instructions")
    front_matter = _front_matter(read[SKILL_FILE].data, path, place)
    parents = {"/".join(name.split("/")[:count]) for name in read for count in range(name.count("/") + 1)}
    return SkillContent(path, front_matter, read, frozenset({"", *parents, *folders}))


def _front_matter(data: bytes, path: str, place: str) -> dict[str, Json]:
    try:
        read = read_front_matter(data)
        found = {name: plain_json(item) for name, item in read.items()}
        name, _ = named(found)
    except FrontMatterError as error:
        raise ValueError(f"{place}/{SKILL_FILE}: {error}") from None
    folder = path.rpartition("/")[2]
    if name != folder:  # SK-5
        raise ValueError(
            f"{place}/{SKILL_FILE}: its `name` is '{name}', and its folder '{folder:.100}': give both the same name"
        )
    ambiguous = is_ambiguous(read)
    if ambiguous:
        _logger.warning(
            "%s/%s: readers of YAML disagree on %r in its front matter: put it in quotes, or write true, false or a number",
            place, SKILL_FILE, ambiguous[0][:40],
        )  # fmt: skip
    return found
