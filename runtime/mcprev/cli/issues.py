"""What a validator found wrong with a message, as texts for people: the path and the error of each place."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from mcprev.errors import McpError

MAX_ISSUES: Final = 5
"""The maximum number of mistakes of one value that are shown."""
_HEADING: Final = re.compile(r":? ?\d+ validation errors? for .*", re.DOTALL)
"""What pydantic writes, with the names of classes and types of errors."""


def issues_of(error: BaseException) -> list[str]:
    """Return the path and the error of each place; the text of another error than a validator's."""
    from pydantic import ValidationError

    from mcprev_types import details_of

    if not isinstance(error, ValidationError):
        return [str(error)]
    found = details_of(error)
    return [" ".join([".".join(map(str, ("$", *one["loc"]))), one["msg"]]) for one in found[:MAX_ISSUES]]


def readable(error: McpError | OSError | ValueError) -> str:
    """Return the text of an error; for a result that is not valid its paths, as `mcprev validate` has them."""
    from mcprev.errors import RemoteProtocolError

    cause = error.__context__
    if not isinstance(error, RemoteProtocolError) or not _HEADING.search(str(error)) or cause is None:
        return str(error)
    from pydantic import ValidationError

    from mcprev_types import with_json_paths

    found = with_json_paths(cause, error.raw) if isinstance(cause, ValidationError) else cause
    return "\n".join([_HEADING.sub("", str(error)), *issues_of(found)])
