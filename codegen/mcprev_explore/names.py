"""Makes file names and fragments of names that a schema chooses: only what is checked becomes part of a path."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from typing import Final

_SAFE: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_-]|\.(?!\.)){0,99}")
_RESERVED: Final = re.compile(r"(?i)(?:con|prn|aux|nul|com\d|lpt\d)(?:\..*)?|x-[0-9a-f]{16}")
"""Names of devices that Windows takes no files of, and names like our own."""


def file_names(names: Iterable[str]) -> dict[str, str]:
    """Return a name for the file of each name, all different even where case does not count.

    A name of letters, digits, `_`, `-`, `.` and `/` stays what it is, with `.` for `/`; any other becomes a digest.
    """
    found: dict[str, str] = {}
    taken: set[str] = set()
    for name in sorted(set(names)):
        plain = name.replace("/", ".")
        key = plain.lower()
        if not _SAFE.fullmatch(plain) or plain.endswith(".") or _RESERVED.fullmatch(plain) or key in taken:
            plain = f"x-{hashlib.sha256(name.encode()).hexdigest()[:16]}"
        taken.add(plain.lower())
        found[name] = plain
    return found


def fragment(text: str) -> str:
    """Return a text as the fragment of a URL and the id of an element; different texts give different ones."""
    plain = re.sub(r"[^A-Za-z0-9._-]", "-", text)
    return plain if plain == text else f"{plain[:80]}-{hashlib.sha256(text.encode()).hexdigest()[:6]}"
