"""What the commands that connect to a server tell of it: its failures with the next step, and the runtime's warnings."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import click
from typing_extensions import override

from mcprev.cli.exit_codes import ExitCode, Failure, failure_of
from mcprev.cli.logins import takes_login
from mcprev.cli.options import STDERR
from mcprev.cli.table import clean, echo, echo_lines, show_progress
from mcprev.wire.payloads import mask_text

if TYPE_CHECKING:
    from mcprev.errors import Json
    from mcprev.hosts.named_server import NamedServer
    from mcprev.protocol.negotiation.steps import Plan

_NOT_FOUND: Final = frozenset({404, 405})
_PROBING: Final = "mcprev.client.probing"
"""The logger that says at INFO what the first message of a connection waits for."""
_STRAY: Final = "a response to no pending request"
MAX_WARNINGS: Final = 20
"""The maximum number of warnings that are shown."""
MAX_OUTPUT: Final = 8 * 1024
"""The maximum number of bytes of a server's stderr that are shown."""


class _StrayResponses(logging.Handler):
    """Keeps the last response of the server that answers no request, of which the client logs at DEBUG only."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.last = ""

    @override
    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if text.startswith(_STRAY):
            self.last = clean(text)


@contextmanager
def _stray_responses() -> Iterator[_StrayResponses]:
    kept, logger = _StrayResponses(), logging.getLogger("mcprev.client")
    level = logger.level
    logger.addHandler(kept)
    logger.setLevel(logging.DEBUG)
    try:
        yield kept
    finally:
        logger.setLevel(level)
        logger.removeHandler(kept)


class _Warnings(logging.Handler):
    """Prints the first warnings of the runtime about a server, each once; what it waits for is shown as progress."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self._told = set[str]()
        self.more = 0

    @override
    def emit(self, record: logging.LogRecord) -> None:
        text = clean(record.getMessage())
        if record.levelno < logging.WARNING:
            if record.name == _PROBING:
                show_progress(text)
        elif len(self._told) >= MAX_WARNINGS:
            self.more += 1
        elif text not in self._told:
            self._told.add(text)
            warn(text)


def warn(text: str) -> None:
    """Print a warning about a server to stderr."""
    show_progress("")
    echo(f"Warning: {text}", err=True)


@contextmanager
def told_warnings() -> Iterator[None]:
    """Print the warnings of the runtime about the server of the block at once: it may say nothing else before a timeout."""
    kept, logger, probing = _Warnings(), logging.getLogger("mcprev"), logging.getLogger(_PROBING)
    level = probing.level
    logger.addHandler(kept)
    if level == logging.NOTSET:
        probing.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(kept)
        probing.setLevel(level)
        if kept.more:
            warn(f"and {kept.more} more")


class ServerOutput:
    """The end of what a server process writes to stderr; with `live`, all of it is printed as it comes."""

    def __init__(self, *, live: bool = False) -> None:
        self._live, self._line = live, b""
        self._tail = bytearray()
        self._left_out = list[str]()

    def read(self, data: bytes) -> None:
        """Keep the end of what the process has written until now, or print its whole lines."""
        if self._live:
            *lines, rest = (self._line + data).split(b"\n")
            self._print(*lines)
            self._line = rest[-MAX_OUTPUT:]
            return
        self._tail.extend(data)
        del self._tail[:-MAX_OUTPUT]

    def end(self) -> None:
        """Print the last line, which nothing has ended."""
        self._print(*filter(None, (self._line,)))
        self._line = b""

    @staticmethod
    def _print(*lines: bytes) -> None:
        for line in lines:
            show_progress("")
            echo(clean(mask_text(line.decode(errors="replace").rstrip("\r").replace("\t", "    "))), err=True)

    def connected(self, plan: Plan) -> None:
        """Forget what an old server has written until now, much of it about `server/discover`, which it does not know."""
        from mcprev.protocol.negotiation.steps import Discover, Method, Ready

        step = plan.step
        assert isinstance(step, Ready)
        probed = any(isinstance(each, Discover) for each in plan.asked)
        if self._tail and probed and step.method is Method.INITIALIZE:
            self._tail.clear()
            text = f"--as {step.revision.name} sends no server/discover, and shows all"
            self._left_out = [f"[lines from before it was connected are left out; {text}]"]

    def lines(self) -> list[str]:
        """Return the lines to print."""
        text = mask_text(self._tail.decode(errors="replace")).rstrip()
        rows = text.replace("\r\n", "\n").replace("\t", "    ").split("\n") if text else ()
        return [*self._left_out, *map(clean, rows)]


@contextmanager
def told_output() -> Iterator[ServerOutput]:
    """Yield what reads the stderr of a server process; if the command of the block fails, print its end.

    A server logs there why a call failed. What the error of the command says already is not printed twice.
    """
    ctx = click.get_current_context(silent=True)
    output = ServerOutput(live=ctx is not None and ctx.meta.get(STDERR) is True)
    try:
        try:
            yield output
        finally:
            output.end()
    except (click.ClickException, click.exceptions.Exit) as error:
        lines = output.lines()
        told = lines and isinstance(error, click.ClickException) and lines[-1] in error.message
        if lines and error.exit_code not in {ExitCode.OK, ExitCode.USAGE} and not told:
            echo_lines("\n  ".join(["the server wrote to stderr:", *lines]), err=True)
        raise


@contextmanager
def told_failures(server: NamedServer, seconds: float) -> Iterator[None]:
    """Raise `Failure`, with what to do next, for what a connection to a server or a call of it raises."""
    from pydantic import ValidationError

    from mcprev.errors import McpError, RequestTimeout

    with _stray_responses() as stray:
        try:
            yield
        except TimeoutError:
            text = f"the server did not respond within {seconds:g} s; pass a longer --timeout SECONDS"
            raise Failure("\n".join([text, *_stray_hint(stray)]), ExitCode.UNREACHED) from None
        except RequestTimeout as error:
            raise failure_of(error, *_hints(server, error), *_stray_hint(stray)) from None
        except (McpError, OSError, ValidationError) as error:
            raise failure_of(error, *_hints(server, error)) from None


def _stray_hint(stray: _StrayResponses) -> Iterator[str]:
    if stray.last:
        yield f"it sent {stray.last}; a response must have the id of its request: record the messages with --record FILE, then run `mcprev validate FILE`"


def _hints(server: NamedServer, error: Exception) -> Iterator[str]:
    """Yield what to do about an error."""
    from mcprev import errors

    url = server.entry.url
    if url is not None and _is_no_endpoint(url, error):
        yield f"there may be a server at {' or '.join(_usual_urls(url))}"
    elif url is not None and "its certificate is not accepted" in str(error):
        yield "Python does not trust its certificate: set SSL_CERT_FILE to a PEM file with the certificate that signed it"
    elif isinstance(error, errors.StreamEnded):
        yield "its stream ended before the response: the blank line after an event may be missing, or a proxy may have ended the stream"
    elif url is not None and isinstance(error, errors.TransportError) and _status(error) is None:
        yield "check that the server runs and that the URL names its host, port and path"
    if isinstance(error, errors.AuthError) and takes_login():
        yield "log in with --login, or send a token with --header 'Authorization: Bearer TOKEN'"
    if isinstance(error, errors.NegotiationError) and any(
        "no response within" in step for step in error.evidence
    ):
        yield "if it needs longer to start, pass --timeout SECONDS"
    if isinstance(error, errors.NegotiationError) and error.theirs:
        yield f"use one of its revisions: --as {clean(error.theirs[-1])}"
    elif isinstance(error, errors.ProcessExited | errors.NegotiationError) and not url and not server.module:
        yield "try the command by itself: it must speak MCP on stdin and stdout, and write nothing else to stdout"
        yield "it gets few of your environment variables: pass others with -e NAME=VALUE"
    if url is not None and isinstance(error, errors.InternalError):
        yield "the log of the server says why"
    if isinstance(error, errors.RemoteProtocolError) and isinstance(error.__cause__, errors.ConversionError):
        yield from _places_of_initialize(error.raw)
    if isinstance(error, errors.MissingClientCapability):
        yield "the server asks the user: answer at a terminal, or with --answer FILE"


def _places_of_initialize(result: Json) -> Iterator[str]:
    """Yield what is wrong with the result of `initialize`, at the paths and for the revision of the server."""
    from mcprev.analysis.judging import INITIALIZE, judge_result, session_revision

    revision = session_revision(result)
    if revision is not None:
        for path, text in judge_result(INITIALIZE, revision, result)[:MAX_WARNINGS]:
            yield clean(f"at {revision.name}: {path} {text}")


def _usual_urls(url: str) -> list[str]:
    """Return where a server usually is that is not at a URL: at /mcp of its host, or below it."""
    parts = urlsplit(url)
    found = [
        f"{parts.scheme}://{parts.netloc}/mcp",
        f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}/mcp",
    ]
    return [clean(each) for each in dict.fromkeys(found)]


def _is_no_endpoint(url: str, error: Exception) -> bool:
    """Return whether a URL without a usual path leads to something that is no MCP server: a missing page, or HTML."""
    if urlsplit(url).path.rstrip("/").endswith(("/mcp", "/sse")):
        return False
    return _status(error) in _NOT_FOUND or "text/html" in str(error) or "<html" in str(error).lower()


def _status(error: BaseException | None) -> int | None:
    """Return the HTTP status that an error comes from; None if it comes from none."""
    while error is not None:
        status: object = getattr(error, "http_status", None) or getattr(error, "status", None)
        if isinstance(status, int):
            return status
        error = error.__cause__ or error.__context__
    return None
