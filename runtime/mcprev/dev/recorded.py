"""A saved session that is opened again: everything can be looked at, and nothing is sent."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from typing_extensions import override

from mcprev.dev.inspector import READ_ONLY, Inspector, NotConnected
from mcprev.dev.launch import DirectLauncher
from mcprev.dev.saving import INVALID, Unreadable, read_session
from mcprev.errors import Json

if TYPE_CHECKING:
    from mcprev.client.targets import Target


def _no_target() -> Target:
    raise NotConnected(READ_ONLY)


class RecordedSession(Inspector):
    """A session out of a file."""

    read_only = True

    def __init__(self, name: str, lines: Iterable[bytes]) -> None:
        """Raises `Unreadable` for lines that are no session."""
        super().__init__(DirectLauncher(name, (), _no_target, kind="recording", transport="file"))
        found = read_session(lines, self.log)
        self._saved = found.target
        try:
            self.calls.restore(found.documents["call"])
            self.questions.restore(found.documents["question"])
            self.lists.restore(found.documents["list"])
        except INVALID as error:
            raise Unreadable(
                f"a call, question or list lacks a member, or has an invalid one: {error}"
            ) from None

    @override
    async def start(self) -> None:
        self._background.start(self.verdicts.run())

    @override
    def target(self) -> dict[str, Json]:
        """Return what was shown of the server when the session was saved."""
        own = super().target()
        return {**own, **self._saved, "kind": "recording", "state": "stopped", "file": self.launcher.label}
