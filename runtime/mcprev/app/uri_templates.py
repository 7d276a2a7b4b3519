"""URI templates and how they match URIs (RES-3, RES-4, RFC 6570).

`{name}` matches one part of a URI, without `/`, `?`, `#` and `&`; `{+name}`, at most one in a template, matches any
text. Both match at least one character and are percent-decoded. The values come from the client: check them before you
use them in a path or a query (`file_path` does so for files).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final
from urllib.parse import quote, unquote, urlsplit

from mcprev.errors import InvalidParams, ResourceNotFound
from mcprev.protocol.uris import comparable, encoded, foreign_character, is_uri

_EXPRESSION: Final = re.compile(r"\{(\+?)([A-Za-z_][A-Za-z0-9_]*)\}")
_DELIMITERS: Final = frozenset("/?#&")
_IN_PART: Final = frozenset("!$'()*+,;=:@")
_IN_TEXT: Final = "!#$&'()*+,/:;=?@[]"
"""The characters that need not be percent-encoded in a `{+name}`, beside letters and digits."""


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
        foreign = foreign_character("".join(literals))
        if foreign is not None:
            raise ValueError(f"'{text}' has {foreign!r}, which no URI has; percent-encode it")
        if len(set(names)) < len(names):
            raise ValueError(f"'{text}' has the same variable twice")
        if pluses.count("+") > 1:
            raise ValueError(f"'{text}' has more than one {{+variable}}, so their values are ambiguous")
        if not all(literals[1:-1]):
            raise ValueError(f"'{text}' has no text between two variables, so their values are ambiguous")
        self._literals = literals
        self._compared = _compared(literals)
        self._safe = "".join(_IN_PART - set("".join(literals[1:])))
        """The characters that need not be percent-encoded in a `{name}`, beside letters and digits."""
        self._plus = pluses.index("+") if "+" in pluses else len(names)
        """The index of the variable that matches any text; if there is none, the number of variables."""

    def match(self, uri: str) -> dict[str, str] | None:
        """Return the variables of a matching URI; None if it does not match.

        `{+name}` matches as much as possible, and other variables as little. Each literal is looked for once from either
        end, so that the time grows with the length of the URI.
        """
        spans = self._spans(uri, self._literals)
        if spans is None:
            return None
        return {name: unquote(uri[slice(*span)]) for name, span in zip(self.names, spans, strict=True)}

    def canonical(self, uri: str) -> str | None:
        """Return the spelling of a matching URI that has the literals of the template; None for any other URI.

        All URIs with the same variables have the same one, in which characters are percent-encoded that the template or a
        URI does not allow in the variable.
        """
        spans = self._spans(comparable(uri), self._compared)
        if spans is None:
            return None
        plain, found = encoded(uri), [self._literals[0]]
        for index, (span, literal) in enumerate(zip(spans, self._literals[1:], strict=True)):
            safe = _IN_TEXT if index == self._plus else self._safe
            found += [quote(unquote(plain[slice(*span)]), safe=safe), literal]
        return "".join(found)

    def _spans(self, uri: str, literals: Sequence[str]) -> list[tuple[int, int]] | None:
        """Return where the variables of a URI begin and end; None if it does not match these literals."""
        first, *inner, last = literals if self.names else (*literals, "")
        begin, end = len(first), len(uri) - len(last)
        if not uri.startswith(first) or not uri.endswith(last):
            return None
        if not self.names:
            return [] if begin == end else None
        rest = end  # where the text after `{+name}` begins
        for literal in reversed(inner[self._plus :]):
            rest = uri.rfind(literal, begin, rest - 1)
            if rest < 0:
                return None
        spans: list[tuple[int, int]] = []
        for index, literal in enumerate(inner):
            at = rest if index == self._plus else uri.find(literal, begin + 1, end)
            spans.append((begin, max(at, 0)))
            begin = at + len(literal)
        spans.append((begin, end))
        for index, span in enumerate(spans):
            value = uri[slice(*span)]
            if not value or (index != self._plus and not _DELIMITERS.isdisjoint(value)):
                return None
        return spans


def _compared(literals: Sequence[str]) -> list[str]:
    """Return the literals of a template as they are in what all spellings of a URI have in common."""
    mark = (
        f"~{'0' * sum(map(len, literals))}~"  # longer than what it stands between, so that no literal has it
    )
    return comparable(mark.join(literals)).split(mark)


def file_path(uri: str, root: Path) -> Path:
    """Return the path below `root` for a `file://` URI, with links resolved; the file need not exist.

    Raises `InvalidParams` for any other URI, and `ResourceNotFound` for a path outside of `root`, whether it exists or
    not.
    """
    parts = urlsplit(uri)
    path = unquote(parts.path)
    if parts.scheme.lower() != "file" or parts.netloc not in {"", "localhost"} or "\0" in path:
        raise InvalidParams(f"Invalid params: not a file:// URI of this machine: {uri!r:.80}")
    base = root.resolve()
    found = base.joinpath(path).resolve()
    if not found.is_relative_to(base):
        raise ResourceNotFound("no such resource", data={"uri": uri})
    return found
