"""The name of the extension for skills, and its rules for names, digests and sizes (SK-3, SK-5, SK-11)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Final

from mcprev.errors import Json

NAME: Final = "io.modelcontextprotocol/skills"
"""The name of the extension."""
MAX_SKILL_NAME: Final = 64
"""The maximum number of characters of the name of a skill."""
MAX_SKILL_DESCRIPTION: Final = 1_024
"""The same for its description."""
MAX_SKILL_FILES: Final = 512
"""The maximum number of files of a skill, SKILL.md included."""
MAX_SKILL_BYTES: Final = 16 * 1024 * 1024
"""The maximum number of bytes of all files of a skill together."""
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")
_NAME: Final = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")


class FrontMatterError(ValueError):
    """The front matter of a skill cannot be used; the message says why and in which line."""


def check_skill_name(name: Json) -> str:
    """Return the name of a skill. Raises `FrontMatterError` for any other value."""
    if not isinstance(name, str) or _NAME.fullmatch(name) is None or len(name) > MAX_SKILL_NAME:
        raise FrontMatterError(
            f"its `name` is {name!r:.80}: use 1 to {MAX_SKILL_NAME} lower-case letters, digits and single hyphens between them"
        )
    return name


def named(front_matter: Mapping[str, Json]) -> tuple[str, str]:
    """Return the name and the description of front matter. Raises `FrontMatterError`."""
    name, description = check_skill_name(front_matter.get("name")), front_matter.get("description")
    if (
        not isinstance(description, str)
        or not description.strip()
        or len(description) > MAX_SKILL_DESCRIPTION
    ):
        raise FrontMatterError(f"its `description` is not a text of 1 to {MAX_SKILL_DESCRIPTION} characters")
    return name, description


def skill_digest(data: bytes) -> str:
    """Return the digest of a file as manifests have it."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def is_digest(text: object) -> bool:
    """Return whether a value of a peer is a digest that can be compared."""
    return isinstance(text, str) and _DIGEST.fullmatch(text) is not None
