"""The site of `mcprev explore` that the page links to: at a URL, or out of a folder, which is served beside the page (SEC-6).

The files of a folder are documents of their own: they are served with a policy that makes them a foreign origin, so that
no script among them can ask the page for its token.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

PREFIX: Final = "/explore/"
TYPES: Final = {
    "html": b"text/html; charset=utf-8",
    "css": b"text/css; charset=utf-8",
    "js": b"text/javascript; charset=utf-8",
}
"""The content type of each kind of file of the site; files of other kinds are not served."""
POLICY: Final = (
    b"sandbox allow-scripts allow-forms; default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    b"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS: Final = (
    (b"content-security-policy", POLICY),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
)
"""The headers of each file of the site."""
_PART: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,249}")
_DEPTH: Final = 2


class ExploreSite:
    """Where the site is."""

    def __init__(self, place: str) -> None:
        """Take the URL of a site, or the folder of one. Raises `ValueError` for anything else."""
        self._folder: Path | None = None
        scheme = urlsplit(place).scheme
        if scheme in ("http", "https"):
            if not urlsplit(place).hostname or set("?#") & set(place):
                raise ValueError(f"'{place}' is not the URL of a site: no host, or a query or fragment")
            self.base: str = place.rstrip("/")
            """What the addresses of its pages begin with, without the last slash."""
            return
        folder = Path(place)
        if not (folder / "index.html").is_file() or not (folder / "type").is_dir():
            raise ValueError(
                f"there is no site in '{place}'; `mcprev explore --out {place}` writes one, and a URL may be named too"
            )
        self._folder, self.base = folder.resolve(), PREFIX.rstrip("/")

    def file(self, path: str) -> tuple[bytes, bytes] | None:
        """Return the content type and the bytes of a file by the path of a URL; None if there is none in the folder."""
        parts = (path.removeprefix(PREFIX) or "index.html").split("/")
        kind = TYPES.get(parts[-1].rpartition(".")[2])
        if (
            self._folder is None
            or kind is None
            or len(parts) > _DEPTH
            or not all(map(_PART.fullmatch, parts))
        ):
            return None
        file = self._folder.joinpath(*parts).resolve()
        if not file.is_relative_to(self._folder) or not file.is_file():
            return None
        return kind, file.read_bytes()
