"""The error codes that a handler may send at a revision, and the data they require (ERR-3, ERR-4)."""

from __future__ import annotations

from typing import Any, cast
from uuid import uuid4

from mcprev.errors import URL_ELICITATION_REQUIRED, ConversionError, Json
from mcprev.revisions import Revision, load


def outgoing(wire: dict[str, Json], revision: Revision) -> dict[str, Json]:
    """Return an error object as a revision allows it. Raises `ConversionError` for a code or data it does not allow."""
    code = wire["code"]
    if code in revision.barred_codes:
        raise ConversionError(
            f"this revision does not allow the error code {code}", path="$.code", revision=revision.name
        )
    if code == URL_ELICITATION_REQUIRED and code in load(revision, "constants").ERROR_CODES:
        data = wire.get("data")
        found = cast("dict[str, Any]", data).get("elicitations") if isinstance(data, dict) else None
        elicitations = (
            [_by_url(item, revision) for item in cast("list[object]", found)]
            if isinstance(found, list)
            else []
        )
        if not elicitations:
            raise ConversionError(
                "the error needs at least one elicitation", path="$.data.elicitations", revision=revision.name
            )
        return {**wire, "data": {**cast("dict[str, Any]", data), "elicitations": elicitations}}
    return wire


def _by_url(item: object, revision: Revision) -> dict[str, Json]:
    """Return an elicitation by URL, with an id if it has none: later revisions have no elicitation ids."""
    given = cast("dict[str, Any]", item) if isinstance(item, dict) else {}
    error = given.get("mode", "url") != "url" or not all(
        isinstance(given.get(name), str) for name in ("url", "message")
    )
    if error:
        path = "$.data.elicitations"
        raise ConversionError(
            "an elicitation must have mode 'url', a url and a message", path=path, revision=revision.name
        )
    return {"mode": "url", "elicitationId": uuid4().hex, **given}
