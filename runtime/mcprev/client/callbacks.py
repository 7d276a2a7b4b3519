"""A client's handler made of plain functions, and a callback for the changes of a server (SEAM-1, ROOT-1, SUB-7)."""

from __future__ import annotations

import logging
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias, cast

from mcprev.callbacks import finished
from mcprev.client.request_handler import ClientHandler
from mcprev.client.subscriptions import Change
from mcprev.errors import Json, McpError, one_line
from mcprev_types.latest import dispatch

if TYPE_CHECKING:
    from mcprev.client.client import Client
    from mcprev.client.recording.tap import WireEvent
    from mcprev.core.questions import Reply
    from mcprev_types.latest import models

Roots: TypeAlias = "Sequence[str | os.PathLike[str] | models.Root]"
Message: TypeAlias = "models.CreateMessageResult | Mapping[str, Json]"
Sampling: TypeAlias = "Callable[[models.CreateMessageRequestParams], Awaitable[Message] | Message]"
Elicitation: TypeAlias = "Callable[[models.ElicitRequestParams], Awaitable[Reply] | Reply]"
LogMessage: TypeAlias = "Callable[[models.LoggingMessageNotificationParams], Awaitable[None] | None]"
OnWire: TypeAlias = "Callable[[WireEvent], object]"
OnChange: TypeAlias = Callable[[Change], Awaitable[None] | None]
logger: Final = logging.getLogger("mcprev.client")


def handler_of(
    roots: Roots | None, sampling: Sampling | None, elicitation: Elicitation | None, log: LogMessage | None
) -> ClientHandler | None:
    """Return a handler with a method for each function that is given; None if none is.

    Only these methods are overridden, and the client declares what its handler overrides.
    """
    if isinstance(roots, str):
        raise TypeError(f"`roots` must be a sequence, as in roots=[{roots!r}]")

    stubs: dict[str, object] = {}
    if roots is not None:

        async def list_roots(*_: object) -> models.ListRootsResult:
            from mcprev_types.latest import models

            return models.ListRootsResult(roots=[_root(each) for each in roots])

        stubs["list_roots"] = list_roots
    if sampling is not None:

        async def create_message(
            _self: object, _ctx: object, params: models.CreateMessageRequestParams
        ) -> object:
            return await finished(sampling(params))

        stubs["create_message"] = create_message
    if elicitation is not None:

        async def elicit(_self: object, _ctx: object, params: models.ElicitRequestParams) -> object:
            from mcprev.core.questions import reply_of

            return reply_of(await finished(elicitation(params)))

        stubs["elicit"] = elicit
    if log is not None:

        async def logging_message(
            _self: object, _ctx: object, params: models.LoggingMessageNotificationParams
        ) -> None:
            await finished(log(params))

        stubs["logging_message"] = logging_message
    return cast("ClientHandler", type("Callbacks", (dispatch.ClientHandler,), stubs)()) if stubs else None


def _root(given: str | os.PathLike[str] | models.Root) -> models.Root:
    from mcprev_types.latest import models

    if isinstance(given, models.Root):
        return given
    is_uri = isinstance(given, str) and "://" in given
    return models.Root(uri=str(given) if is_uri else Path(given).absolute().as_uri())


async def report_changes(client: Client, report: OnChange) -> None:
    """Report changes from now on. A server that cannot report them is no failure; one that is away is tried again."""
    changes = client.listen(tools=True, prompts=True, resources=True)

    async def report_next() -> None:
        await finished(report(changes.take()))

    changes.on_note = lambda: client.session.callbacks.put(report_next)
    try:
        await changes.begin()
    except McpError as error:
        logger.warning("the server does not report changes: %s", one_line(error))
    except BaseException:
        await client.aclose()
        raise
