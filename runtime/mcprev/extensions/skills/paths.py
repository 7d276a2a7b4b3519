"""Paths of the files of a skill: which ones every system can have, and their URIs.

A path is relative to the folder of the skill, with `/` between its names. What is refused here is what would lead out of a
folder, or be another file, on some system: the files of a skill are written to disks of others.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from typing import Final
from urllib.parse import quote, unquote

SKILL_FILE: Final = "SKILL.md"
"""The file at the root of each skill."""
MAX_PATH: Final = 1_024
"""The maximum number of characters of the path of a file in a skill."""
MAX_PATH_DEPTH: Final = 32
"""The maximum number of names in it."""
_MAX_NAME_BYTES: Final = 255
_DEVICE: Final = re.compile(
    r"(?:con|prn|aux|nul|conin\$|conout\$|clock\$|(?:com|lpt)[0-9\u00b9\u00b2\u00b3])(?:[. :].*)?",
    re.IGNORECASE,
)
"""The names of devices on Windows, whatever comes after a dot."""
_FOREIGN: Final = frozenset('<>:"|?*\\/')
_IN_URI: Final = "-._~!$&'()*+,;=:@"
"""The characters that are not percent-encoded in a segment of a URI, beside letters and digits."""


def path_error(path: str, *, hidden: bool = False) -> str | None:
    """Return why a path is none of a file of a skill, or None. `hidden` allows names that begin with a dot."""
    if not path or len(path) > MAX_PATH:
        return f"it has not 1 to {MAX_PATH} characters"
    names = path.split("/")
    if len(names) > MAX_PATH_DEPTH:
        return f"it has more than {MAX_PATH_DEPTH} names"
    return next((wrong for name in names if (wrong := name_error(name, hidden=hidden)) is not None), None)


def name_error(name: str, *, hidden: bool = False) -> str | None:
    """Return why one name of a path is refused, or None."""
    if name in {"", ".", ".."}:
        return "it has an empty name, '.' or '..'"
    if not hidden and name.startswith("."):
        return "it has a name that begins with a dot"
    if any(unicodedata.category(char) in {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"} for char in name):
        return "it has a character that cannot be seen"
    if not _FOREIGN.isdisjoint(name):
        return "it has one of the characters " + " ".join(sorted(_FOREIGN))
    if name[-1] in ". " or name[0] == " ":
        return "it has a name that begins or ends with a space, or ends with a dot"
    if _DEVICE.fullmatch(name):
        return "it has the name of a device on Windows"
    if len(name.encode()) > _MAX_NAME_BYTES:
        return f"it has a name of more than {_MAX_NAME_BYTES} bytes"
    return None


def clash_among(paths: Iterable[str]) -> tuple[str, str] | None:
    """Return two paths that are one on some systems: in other letters or forms, or a file where a folder is."""
    known: dict[str, tuple[str, bool]] = {}
    for path in paths:
        names = path.split("/")
        for count in range(1, len(names) + 1):
            part, is_file = "/".join(names[:count]), count == len(names)
            other, was_file = known.setdefault(folded(part), (part, is_file))
            if other != part or was_file is not is_file:
                return other, path
    return None


def folded(path: str) -> str:
    """Return what is the same for all paths that are one file where case and Unicode form do not count."""
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", path).casefold())


def quoted(path: str) -> str:
    """Return a path as it stands in a URI."""
    return "/".join(quote(name, safe=_IN_URI) for name in path.split("/"))


def path_below(folder: str, uri: str) -> str | None:
    """Return the path that a URI has below the URI of a folder; None if it is not below it, or its escapes are wrong.

    An escaped `/` would be another path for some readers: there is no such path.
    """
    if not uri.startswith(f"{folder}/"):
        return None
    rest = uri[len(folder) + 1 :]
    if re.search(r"[?#]|%(?![0-9A-Fa-f]{2})|%2[Ff]|%5[Cc]|%00", rest):
        return None
    try:
        return unquote(rest, errors="strict")
    except UnicodeDecodeError:
        return None


def folder_of(uri: str) -> str:
    """Return the URI of the folder of a SKILL.md."""
    return uri.rpartition("/")[0]
