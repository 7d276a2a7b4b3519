"""URI templates and how they match URIs (RES-4, RFC 6570).

`{name}` matches one part of a URI, without `/`, `?`, `#` and `&`; `{+name}`, at most one in a template, matches any
text. Both match at least one character and are percent-decoded. The values come from the client: check them before you
use them in a path or a query (`mcprev.protocol.uris.file_path` does so for files).
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import unquote

from mcprev.protocol.uris import is_uri

MAX_URI: Final = 2048
"""The maximum length of a matching URI, because the time of a match grows with the square of the length."""
_EXPRESSION: Final = re.compile(r"\{(\+?)([A-Za-z_][A-Za-z0-9_]*)\}")
_PART: Final = "[^/?#&]+?"


class Template:
    """A URI template."""

    def __init__(self, text: str) -> None:
        """Parse a template. Raises `ValueError` for an invalid one, and for one that can match in more than one way."""
        split = _EXPRESSION.split(text)
        literals, pluses, names = split[0::3], split[1::3], split[2::3]
        wrong = next((literal for literal in literals if set("{}") & set(literal)), None)
        if wrong is not None:
            raise ValueError(f"'{text}' holds '{wrong}': only {{name}} and {{+name}} are supported")
        self.text = text
        self.names: Final = tuple(names)
        if not is_uri(_EXPRESSION.sub("x", text)):
            raise ValueError(
                f"'{text}' is not a template of absolute URIs; begin with a scheme, as in 'notes://'"
            )
        if len(set(names)) < len(names):
            raise ValueError(f"'{text}' has the same variable twice")
        if pluses.count("+") > 1:
            raise ValueError(f"'{text}' has more than one {{+variable}}, so their values are ambiguous")
        if not all(literals[1:-1]):
            raise ValueError(f"'{text}' has no text between two variables, so their values are ambiguous")
        self._pattern = re.compile(_pattern(literals, names, pluses), re.DOTALL)

    def match(self, uri: str) -> dict[str, str] | None:
        """Return the variables of a matching URI; None if it does not match."""
        found = self._pattern.fullmatch(uri) if len(uri) <= MAX_URI else None
        return None if found is None else {name: unquote(text) for name, text in found.groupdict().items()}


def _pattern(literals: list[str], names: list[str], pluses: list[str]) -> str:
    """Return a regular expression of lazy, atomic groups, so that matching never takes long."""
    pattern, ends = re.escape(literals[0]), [re.escape(literal) for literal in literals[1:]]
    ends[-1:] = [end + r"\Z" for end in ends[-1:]]
    for name, plus, end in zip(names, pluses, ends, strict=True):
        pattern += f"(?P<{name}>.+){end}" if plus else f"(?>(?P<{name}>{_PART}){end})"
    return pattern
