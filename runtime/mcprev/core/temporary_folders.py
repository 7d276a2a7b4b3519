"""Folders for temporary files, on systems that may have no place for one, such as a container with a read-only root."""

from __future__ import annotations

import tempfile


class NoTemporaryFolder(OSError):
    """There is no folder to which this process may write temporary files."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"{what} requires a folder for temporary files, and none can be written to: set TMPDIR to one that can, such as a "
            "volume in memory"
        )


def temporary_folder(what: str) -> tempfile.TemporaryDirectory[str]:
    """Return a new folder, which is removed with the object. Raises `NoTemporaryFolder`, which says `what` it is for."""
    try:
        return tempfile.TemporaryDirectory(prefix="mcprev-")
    except OSError as error:
        raise NoTemporaryFolder(what) from error
