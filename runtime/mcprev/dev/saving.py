"""A session as a file: one JSON object on each line, which `mcprev validate` reads, and `mcprev dev --open` shows again.

The first line says the format. A line with a `message`, or `raw` bytes that are no message, is an event; its last member
is the message as it was on the wire, of the `size` that the first member says. Other lines hold HTTP exchanges, calls,
questions and lists. Secrets are masked as in recordings, and so are the headers that carry credentials or sessions.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from pydantic_core import from_json

from mcprev.dev.channels import to_json
from mcprev.dev.event_log import EventLog
from mcprev.dev.events import DIRECTIONS, Seen, SeenEvent, SeenExchange
from mcprev.errors import Json
from mcprev.json_schema.redaction import Redactor
from mcprev.transports.http.urls import mask_url
from mcprev.wire.json_values import is_json_list, is_json_object
from mcprev.wire.jsonrpc import MAX_LINE
from mcprev.wire.payloads import MASK, is_secret, mask_text

if TYPE_CHECKING:
    from mcprev.dev.inspector import Inspector

FORMAT: Final = 2
LINE: Final = 2 * MAX_LINE
"""The maximum length of a line, in bytes."""
LINES: Final = 1_000_000
"""How many lines of a file are read."""
INVALID: Final = (ArithmeticError, LookupError, RecursionError, TypeError, ValueError)
"""What reading a line, or a part of a session, raises if it is not valid."""
_PART: Final = 256 * 1024
_HEAD: Final = re.compile(rb'\{"size":(\d{1,9}),')
_MESSAGE: Final = b'"message":'
_SESSION_ID: Final = "mcp-session-id"
_KEPT: Final = ("call", "question", "list")
_TARGET: Final[dict[str, type]] = {
    **dict.fromkeys(("label", "transport", "revision", "pinned", "era", "instructions"), str),
    **dict.fromkeys(("server_info", "capabilities", "client_capabilities", "error"), dict),
    **dict.fromkeys(("revisions", "server_revisions", "evidence"), list),
    "requires_authorization": bool,
}
"""The members of a target that are shown of a saved session, with their types; the lists are of texts."""
_WORDS: Final = {direction.value: word for word, direction in DIRECTIONS.items()}


class Unreadable(ValueError):
    """A file that is no saved session."""


# -- writing -------------------------------------------------------------------------------------------------


def saved(inspector: Inspector, *, raw: bool) -> Iterator[bytes]:
    """Return the session as it is now, in parts, which may be taken in a thread; `raw` leaves the secrets in it."""
    lines = _Writer(inspector, None if raw else Redactor()).lines()

    def parts() -> Iterator[bytes]:
        part = bytearray()
        for line in lines:
            part += line
            if len(part) >= _PART:
                yield bytes(part)
                part.clear()
        yield bytes(part)

    return parts()


class _Writer:
    """Writes one session."""

    def __init__(self, inspector: Inspector, redactor: Redactor | None) -> None:
        self._log, self._redactor = inspector.log, redactor
        self._exchanges: set[int] = set()
        self._events = list(inspector.log.all())
        self._head: dict[str, Json] = {
            "format": FORMAT, "session": inspector.id, "began": self._log.began, "first": self._log.first,
        }  # fmt: skip
        self._target: Json = inspector.target()
        self._documents: dict[str, list[Json]] = {
            "call": inspector.calls.documents(0),
            "question": inspector.questions.documents(),
            "list": list(inspector.lists.documents().values()),
        }

    def lines(self) -> Iterator[bytes]:
        """Yield the lines."""
        yield _line({**self._head, "target": self._masked(self._target)})
        for event in self._events:
            exchange = event.exchange
            if exchange is not None and exchange.n not in self._exchanges:
                self._exchanges.add(exchange.n)
                yield _line(self._exchange(exchange))
            yield self._event(event)
        for kind, documents in self._documents.items():
            for document in documents:
                yield _line({kind: self._masked(document)})

    def _event(self, event: SeenEvent) -> bytes:
        body = self._log.body(event.n)
        head: dict[str, Json] = {
            "n": event.n, "at": round(event.at, 6), "kind": event.kind, "session": event.conn,
            "direction": DIRECTIONS[event.dir].value, "own": event.own,
        }  # fmt: skip
        if event.exchange is not None:
            head["exchange"] = event.exchange.n
        more = {
            "event_id": event.event_id, "event_name": event.event_name, "call": event.call,
            "revision": event.revision,
        }  # fmt: skip
        head |= {name: value for name, value in more.items() if value is not None}
        if event.kind != "message" or body is None:
            text = event.label if body is None else self._text(body)
            return _line({**head, "raw": text, "dropped": body is None and event.size > 0})
        if self._redactor is not None:
            body = self._redactor.message(body)
        # A line end in valid JSON is white space.
        body = body.strip().replace(b"\n", b" ").replace(b"\r", b" ")
        return b'{"size":%d,%b,"message":%b}\n' % (len(body), to_json(head).encode()[1:-1], body)

    def _text(self, body: bytes) -> Json:
        """Return bytes that are no message: text if they are, else an object with their base64."""
        try:
            text = body.decode()
        except UnicodeDecodeError:
            if self._redactor is not None:
                return mask_text(body.decode(errors="backslashreplace"))
            return {"base64": base64.b64encode(body).decode()}
        return text if self._redactor is None else mask_text(text)

    def _exchange(self, exchange: SeenExchange) -> dict[str, Json]:
        hidden = self._redactor is not None
        return {
            "http": exchange.n, "verb": exchange.verb, "url": mask_url(exchange.url) if hidden else exchange.url,
            "sent": masked_headers(exchange.sent) if hidden else [list(pair) for pair in exchange.sent],
            "status": exchange.status, "reason": exchange.reason, "answered": exchange.answered,
            "received": masked_headers(exchange.received) if hidden else [list(p) for p in exchange.received],
        }  # fmt: skip

    def _masked(self, value: Json) -> Json:
        return value if self._redactor is None else self._redactor.json(value)


def masked_headers(pairs: Iterable[tuple[str, str]]) -> list[Json]:
    """Return headers with a mask in place of credentials, cookies and session ids."""
    return [
        [name, MASK if is_secret(name) or name.lower() == _SESSION_ID else mask_text(value)]
        for name, value in pairs
    ]


def _line(value: dict[str, Json]) -> bytes:
    return to_json(value).encode() + b"\n"


# -- reading -------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class SavedSession:
    """What a file says."""

    log: EventLog
    session: str = ""
    target: dict[str, Json] = field(default_factory=dict[str, Json])
    documents: dict[str, list[dict[str, Json]]] = field(default_factory=lambda: {kind: [] for kind in _KEPT})
    """The calls, questions and lists."""


def read_session(lines: Iterable[bytes], log: EventLog) -> SavedSession:
    """Read a saved session, or a recording of `connect(record=...)`, into a log that is empty.

    Raises `Unreadable` with the number of the line.
    """
    found, exchanges = SavedSession(log), dict[int, SeenExchange]()
    first = True
    for number, line in enumerate(lines, 1):
        if number > LINES or len(line) > LINE:
            raise Unreadable(f"line {number}: a session may have at most {LINES} lines of {LINE} bytes")
        if not line.strip():
            continue
        try:
            head, message = _split(line)
            if first and "format" in head:
                _begin(found, head)
            elif message is not None or "raw" in head:
                _add(found.log, head, message, exchanges)
            elif isinstance(head.get("http"), int):
                _read_exchange(head, exchanges)
            else:
                _keep(found, head)
        except INVALID as error:
            raise Unreadable(f"line {number}: {_why(error)}") from None
        first = False
    return found


def _split(line: bytes) -> tuple[dict[str, Any], bytes | None]:
    """Return a line without its message, and the message as it was on the wire; None if it has none."""
    line = line.strip()
    size = _HEAD.match(line)
    if size is not None:
        at = len(line) - 1 - int(size[1])
        if at > 0 and line[at - len(_MESSAGE) : at] == _MESSAGE:
            return _object(line[:at] + b"null}"), line[at:-1]
    head = _object(line)
    if "message" in head and "jsonrpc" not in head:
        return head, json.dumps(head.pop("message")).encode()
    if "jsonrpc" in head:
        return {}, line
    return head, None


def _object(line: bytes) -> dict[str, Any]:
    try:
        found: object = from_json(line)
    except ValueError:
        found = json.loads(line)  # reads halves of surrogate pairs too, and its errors say where
    if not is_json_object(found):
        raise TypeError("it is not an object")
    return found


def _begin(found: SavedSession, head: dict[str, Any]) -> None:
    if head["format"] != FORMAT:
        raise ValueError(f"the format is {head['format']!r:.20}, and this version reads {FORMAT}")
    found.session = str(head.get("session", ""))[:100]
    found.target = _target_of(head.get("target", {}))
    if isinstance(head.get("began"), int | float):
        found.log.began = float(head["began"])
    if isinstance(head.get("first"), int):
        found.log.begin(head["first"])


def _target_of(value: object) -> dict[str, Json]:
    """Return what a file says of the server, without members that the page has no use for. Raises `TypeError`."""
    if not is_json_object(value):
        raise TypeError("the target is not an object")
    found = {name: item for name, item in value.items() if name in _TARGET}
    for name, item in found.items():
        wanted: type = _TARGET[name]
        texts = item if wanted is list and is_json_list(item) else []
        if item is not None and not (
            isinstance(item, wanted) and all(isinstance(text, str) for text in texts)
        ):
            raise TypeError(f"the {name} of the target is not what a session has there")
    return {name: item for name, item in found.items() if item is not None}


def _add(
    log: EventLog, head: dict[str, Any], message: bytes | None, exchanges: dict[int, SeenExchange]
) -> None:
    raw: Any = head.get("raw")
    data = message
    if data is None:
        text = None if isinstance(raw, str) else str(raw["base64"])
        data = str(raw).encode(errors="replace") if text is None else base64.b64decode(text)
    kind = str(head.get("kind", "message"))
    at = head.get("at")
    log.add(
        Seen(
            kind if message is not None or kind != "message" else "dropped",
            _WORDS.get(str(head.get("direction")), "in"),
            str(head.get("session", ""))[:100],
            data,
            exchanges.get(head.get("exchange", 0)),
            _text_of(head.get("event_id")),
            _text_of(head.get("event_name")),
            float(at) if isinstance(at, int | float) else 0.0,
            head.get("own") is True,
            _text_of(head.get("call")),
            _text_of(head.get("revision")),
        )
    )


def _read_exchange(head: dict[str, Any], exchanges: dict[int, SeenExchange]) -> None:
    status, answered = head.get("status"), head.get("answered")
    exchanges[head["http"]] = SeenExchange(
        head["http"],
        str(head.get("verb", "")),
        str(head.get("url", "")),
        _pairs(head.get("sent")),
        status if isinstance(status, int) else None,
        str(head.get("reason", "")),
        _pairs(head.get("received")),
        answered if isinstance(answered, float | int) else None,
    )


def _pairs(value: object) -> Sequence[tuple[str, str]]:
    found: list[Any] = [*value] if is_json_list(value) else []
    return tuple((str(pair[0]), str(pair[1])) for pair in found)


def _keep(found: SavedSession, head: dict[str, Any]) -> None:
    for kind in _KEPT:
        document: object = head.get(kind)
        if is_json_object(document):
            found.documents[kind].append(document)
            return
    raise ValueError("it is neither a message nor another part of a session")


def _text_of(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _why(error: Exception) -> str:
    return (str(error) or type(error).__name__)[:300]
