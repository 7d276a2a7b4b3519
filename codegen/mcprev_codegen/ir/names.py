"""The names of types that a schema gives no name to."""

from __future__ import annotations

import re


def pascal_case(member: str) -> str:
    """Return the part that a member adds to the class name of its inline object: `oneOf` gives `OneOf`."""
    words = re.split(r"[^A-Za-z0-9]+", member.rpartition("/")[2])
    return "".join(word[0].upper() + word[1:] for word in words if word)
