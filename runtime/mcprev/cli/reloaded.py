"""What a process of `mcprev serve --reload` has from the one before: the state of sessions, and the socket (HTTP-3, LIFE-1)."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from mcprev.server.service import Service

VARIABLE: Final = "MCPREV_RELOADED"
"""The environment variable in which the command tells its child."""
LISTS: Final = ("tools", "prompts", "resources")


@dataclass(frozen=True, slots=True)
class Reloaded:
    """What this process goes on with; nothing, if `mcprev serve --reload` has not started it."""

    store: str = ""
    """The URL of the store of servers that have none."""
    session: str = ""
    """The name of the session on stdio."""
    again: bool = False
    """Whether another process has served before."""
    listening: socket.socket | None = None

    @contextmanager
    def state_kept(self) -> Iterator[None]:
        """Let servers that are made in the block, and have no store, keep their state for the next process."""
        if not self.store:
            yield
            return
        from mcprev.core.store import SPARE_STORE
        from mcprev.stores.opening import open_store

        token = SPARE_STORE.set(open_store(self.store))
        try:
            yield
        finally:
            SPARE_STORE.reset(token)

    @contextmanager
    def session_kept(self) -> Iterator[None]:
        """Let the session on stdio that is served in the block be that of the process before."""
        if not self.session:
            yield
            return
        from mcprev.core.store import PIPE_SESSION

        token = PIPE_SESSION.set(self.session)
        try:
            yield
        finally:
            PIPE_SESSION.reset(token)

    def tell_changes(self, server: Service) -> None:
        """Tell the clients that have been served before that all lists may have changed."""
        for name in LISTS if self.again else ():
            server.changed(name)


def reloaded_process() -> Reloaded:
    """Return what this process goes on with; processes that it starts have nothing of it."""
    told = os.environ.pop(VARIABLE, "")
    if not told:
        return Reloaded()
    found = json.loads(told)
    number = found.pop("socket", None)
    listening = None if number is None else socket.socket(fileno=number)
    if listening is not None:
        listening.set_inheritable(False)
    return Reloaded(**found, listening=listening)
