"""The log of a command on stderr, as lines for people or as JSON for a pipeline of logs."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

import click
from typing_extensions import override

from mcprev.cli.table import CleanFormatter

TEXT: Final = "text"
JSON: Final = "json"
FORMATS: Final = (TEXT, JSON)
_USUAL: Final = frozenset(
    {*vars(logging.LogRecord("", 0, "", 0, "", (), None)), "message", "asctime", "taskName"}
)
log_format_option: Final = click.option(
    "--log-format",
    type=click.Choice(FORMATS),
    help="How to log: text, or a JSON object in each line. Replaces how the module has set up logging, and holds for all processes.",
)


class JsonFormatter(logging.Formatter):
    """Formats each record as one line with a JSON object of ASCII characters."""

    @override
    def format(self, record: logging.LogRecord) -> str:
        said: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "process": record.process,
            "message": record.getMessage(),
            **_fields(vars(record)),
        }
        if record.exc_info:
            said["exception"] = self.formatException(record.exc_info)
        return json.dumps(said)


def _fields(record: Mapping[str, object]) -> dict[str, object]:
    """Return what a record has beside what every record has, as `extra` sets it."""
    return {
        name: value
        for name, value in record.items()
        if name not in _USUAL and isinstance(value, str | int | float | bool | None)
    }


def log_to_stderr(level: str, *, named: bool, process: bool = False, form: str | None = None) -> None:
    """Log to stderr from a level on, with the number of the `process`, unless the module has set up logging itself.

    Call this when the module has been loaded: what it has set stays, except that `named` says that the user names the
    level, and `form` that the user names a format.
    """
    ours = logging.getLogger("mcprev")
    if form is not None:
        for handler in tuple(logging.root.handlers):
            logging.root.removeHandler(handler)
    if not logging.root.handlers:
        handler = logging.StreamHandler()
        number = " [%(process)d]" if process else ""
        text = f"%(asctime)s{number} %(levelname)s %(name)s: %(message)s"
        handler.setFormatter(JsonFormatter() if form == JSON else CleanFormatter(text))
        handler.addFilter(_is_not_handled_before)
        logging.root.addHandler(handler)
        named = named or ours.level == logging.NOTSET
    if named:
        ours.setLevel(level.upper())


def _is_not_handled_before(record: logging.LogRecord) -> bool:
    """Return whether no logger below the root has a handler of its own for a record, which would be printed twice."""
    found: logging.Logger | None = logging.getLogger(record.name)
    while found is not None and found is not logging.root:
        if found.handlers:
            return False
        found = found.parent
    return True
