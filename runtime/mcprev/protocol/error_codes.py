"""Which error codes a handler may have sent at a revision, and with what (ERR-3, ERR-4)."""

from __future__ import annotations

from typing import Any, cast
from uuid import uuid4

from mcprev.errors import URL_ELICITATION_REQUIRED, ConversionError, Json
from mcprev.revisions import Revision, load


def outgoing(wire: dict[str, Json], revision: Revision) -> dict[str, Json]:
    """An error object as a revision allows it. Raises `ConversionError` for one that it does not."""
    code = wire["code"]
    if code in revision.barred_codes:
        raise ConversionError(
            f"an error of code {code} may not be sent", path="$.code", revision=revision.name
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
                "no elicitation is given", path="$.data.elicitations", revision=revision.name
            )
        return {**wire, "data": {**cast("dict[str, Any]", data), "elicitations": elicitations}}
    return wire


def _by_url(item: object, revision: Revision) -> dict[str, Json]:
    """One thing to be done at a URL; it gets an id if its author gave none, as later revisions have none."""
    given = cast("dict[str, Any]", item) if isinstance(item, dict) else {}
    wrong = given.get("mode", "url") != "url" or not all(
        isinstance(given.get(name), str) for name in ("url", "message")
    )
    if wrong:
        path = "$.data.elicitations"
        raise ConversionError(
            "an elicitation is none of mode 'url' with url and message", path=path, revision=revision.name
        )
    return {"mode": "url", "elicitationId": uuid4().hex, **given}
