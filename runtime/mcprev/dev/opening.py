"""Opens the page in the user's browser without its URL in the arguments of a process, which other users can read (SEC-3).

The browser is given a file that only its owner can read, and which sends it to the page. The file is removed when a page has shown
the token, and when the command ends.
"""

from __future__ import annotations

import os
import tempfile
import threading
import webbrowser
from contextlib import suppress
from html import escape
from pathlib import Path
from typing import Final

REDIRECT: Final = (
    '<!doctype html><meta charset="utf-8"><meta name="referrer" content="no-referrer"><title>mcprev dev</title>'
    '<meta http-equiv="refresh" content="0;url={0}"><a href="{0}">The page of mcprev dev</a>\n'
)


class BrowserPage:
    """Opens a URL that has a secret, and removes what it needed for that."""

    def __init__(self) -> None:
        self._file: Path | None = None

    def open(self, url: str) -> None:
        """Start the browser, without waiting for it. Without a place for a private file, no browser is started."""
        try:
            # Readable by its owner alone.
            descriptor, name = tempfile.mkstemp(prefix="mcprev-dev-", suffix=".html")
            self._file = Path(name)
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(REDIRECT.format(escape(url)))
        except OSError:
            self.remove()
            return
        # A browser in the terminal runs until it is closed.
        threading.Thread(target=_start, args=(self._file.as_uri(),), daemon=True).start()

    def remove(self) -> None:
        """Remove the file, if it is still there."""
        file, self._file = self._file, None
        if file is not None:
            with suppress(OSError):
                file.unlink()


def _start(url: str) -> None:
    with suppress(webbrowser.Error, OSError):
        webbrowser.open(url)
