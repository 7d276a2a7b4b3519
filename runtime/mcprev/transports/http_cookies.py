"""Cookies that a server sets, for servers that tell their machines apart by them (HTTP-4).

They are kept as long as the connections they came on, and are sent only to where they belong. Imported when the first
one comes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from http.cookiejar import CookieJar
from typing import TYPE_CHECKING, Final, Self, cast
from urllib.request import Request

from mcprev.transports.http_heads import CONTROL, TOKEN

if TYPE_CHECKING:
    from http.client import HTTPResponse

_NAMED: Final = re.compile(rf"\s*{TOKEN.pattern}\s*=")
_VOID: Final = re.compile(
    r";\s*(?:domain\s*=\s*(?=;|$)|max-age\s*=(?!\s*-?[0-9]+\s*(?:;|$))[^;]*)", re.IGNORECASE
)
"""What RFC 6265 has ignored, for which a jar would refuse the whole cookie."""
MOST: Final = 100
"""How many are kept; beyond that all are forgotten."""


class Cookies:
    """The cookies of one connection to a server."""

    def __init__(self) -> None:
        self._jar = CookieJar()

    def learn(self, url: str, values: Sequence[str]) -> None:
        """Keep what an answer sets."""
        fit = [_VOID.sub("", value) for value in values if _NAMED.match(value) and not CONTROL.search(value)]
        self._jar.extract_cookies(cast("HTTPResponse", _Setting(fit)), _to(url))
        if len(self._jar) > MOST:
            self._jar.clear()

    def header(self, url: str) -> str | None:
        """What to send with a request."""
        request = _to(url)
        self._jar.add_cookie_header(request)
        return request.get_header("Cookie")


def _to(url: str) -> Request:
    url = url.encode(errors="surrogateescape").decode(errors="replace")  # what is no Unicode stops a jar
    return Request(url)  # noqa: S310 - a jar looks at it, and nothing is opened


class _Setting:
    """As much of an answer as a jar looks at."""

    def __init__(self, values: Sequence[str]) -> None:
        self._values = values

    def info(self) -> Self:
        return self

    def get_all(self, name: str, default: Sequence[str]) -> Sequence[str]:
        return self._values if name == "Set-Cookie" else default
