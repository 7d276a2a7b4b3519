"""What `mcprev serve --workers` cares for beside the processes.

It checks that no worker keeps to itself what a client needs at another one, and gives them a folder for metrics.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Generator, Mapping
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from mcprev.core.store import is_whole
from mcprev.core.temporary_folders import NoTemporaryFolder, temporary_folder

if TYPE_CHECKING:
    from mcprev.server.service import Service
    from mcprev.serving.worker import SupervisedWorker
    from mcprev.transports.http.server.options import HttpSettings

SESSIONS: Final = "mcprev.sharing"
"""The package that shares sessions between workers."""
METRICS: Final = "PROMETHEUS_MULTIPROC_DIR"
"""The environment variable of `prometheus-client` with the folder in which several processes keep their metrics."""
NO_FOLDER: Final = "MCPREV_NO_METRICS_FOLDER"
"""The environment variable that tells a worker that there is no such folder; `mcprev.middleware.metrics` reads it."""
MAX_NAMED: Final = 5
"""The maximum number of tools that are named."""
_logger: Final = logging.getLogger("mcprev.server")


def check_workers(server: Service, settings: HttpSettings, worker: SupervisedWorker) -> None:
    """Raise `click.ClickException` if several workers cannot serve the clients of a server, and say what would fail.

    What works with limits is logged, by one worker for all.
    """
    count = worker.settings.workers
    if count == 1:
        return
    login = None if settings.auth is None else settings.auth.unshared(server.records)
    found = (_sessions(server, settings), _tasks(server), _memory(server), login)
    kept = [each for each in found if each]
    if kept:
        raise click.ClickException(
            f"{count} workers cannot serve this server:\n- "
            + "\n- ".join(kept)
            + "\nor serve with --workers 1"
        )
    if server.records is None and worker.settings.reports:
        _logger.warning(
            "without a store, each of the %d workers keeps to itself: the key of request states, so that tools that ask "
            "with `ctx.ask` need `states=`; `ctx.session`; what `changed` tells clients; the counts of rate limits. --store URL "
            "shares them",
            count,
        )


def _sessions(server: Service, settings: HttpSettings) -> str | None:
    """Return why clients with sessions cannot be served, and what to do."""
    with_sessions = [revision.name for revision in server.identity.revisions if revision.handshake]
    if not with_sessions or not (settings.sessions or settings.sse):
        return None
    only = 'serve only revisions without sessions, with `revisions=` or `http={"sessions": False}`'
    if find_spec(SESSIONS) is None:
        return f"sessions ({', '.join(with_sessions)}) are known to one worker only: {only}"
    if not is_whole(server.records):
        return (
            f"sessions ({', '.join(with_sessions)}) are known to one worker only: pass --store URL, such as sqlite:///app.db for "
            f"workers of one machine, or {only}"
        )
    return None


def _tasks(server: Service) -> str | None:
    """Return why tasks cannot be served, and what to do."""
    if server.tasks is None or server.records is not None:
        return None
    if not server.identity.tasks:  # a bridge, whose tasks are those of its servers
        return "tasks are known only to the worker that runs them: pass --store URL"
    from mcprev.app.handlers import Handler

    named, handler = server.tasks.settings.tools, server.identity.handler
    own = [name for name in handler.with_task if name not in named] if isinstance(handler, Handler) else []
    written = ["`tasks=`"] if named or not own else []
    if own:
        more = "" if len(own) <= MAX_NAMED else f" and {len(own) - MAX_NAMED} more"
        tools = ", ".join(f"'{name}'" for name in own[:MAX_NAMED])
        written.append(f"`task=` of the tool{'s' if own[1:] else ''} {tools}{more}")
    return f"tasks are known only to the worker that runs them: pass --store URL, or leave out {' and '.join(written)}"


def _memory(server: Service) -> str | None:
    """Return why the store is of no use, and what to do."""
    from mcprev.stores.memory import MemoryRecords

    if not isinstance(server.records, MemoryRecords):
        return None
    return "the store is in the memory of each worker: pass --store URL, such as sqlite:///app.db"


@contextmanager
def shared_metrics() -> Generator[tuple[Mapping[str, str], Callable[[int], None]]]:
    """Yield the environment variables with which workers count together, and what to call with each process that has ended.

    Without the library, nothing is counted. Without a place for a folder, the workers serve, but count nothing either.
    """
    if find_spec("prometheus_client") is None:
        yield {}, lambda _: None
        return
    with ExitStack() as stack:
        folder = os.environ.get(METRICS)
        try:
            folder = folder or stack.enter_context(temporary_folder("counting"))
        except NoTemporaryFolder:
            yield {NO_FOLDER: "1"}, lambda _: None
            return

        def ended(process: int) -> None:
            for file in Path(folder).glob(f"gauge_live*_{process}.db"):
                file.unlink(missing_ok=True)

        yield {METRICS: folder}, ended
