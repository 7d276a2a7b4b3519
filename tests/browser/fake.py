"""Speaks the API of `mcprev dev` to its page from a script, so that the page is tried alone: exact traffic, hostile texts, any size.

The tests of the whole command use the real process; here each message, state and refusal is as the test wants it.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, cast
from urllib.parse import parse_qs, unquote, urlsplit

from helpers.support import REVISIONS, ROOT

PAGE: Final = ROOT / "runtime" / "mcprev" / "dev" / "page"
TOKEN: Final = "t" * 43
TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
}
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; media-src data: blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
Json = dict[str, Any]
DATED: Final = [revision for revision in REVISIONS if revision != "draft"]
OWN: Final = DATED[-1]


@dataclass
class Api:
    """All that the page may ask, and what it is told."""

    events: list[Json] = field(default_factory=list[Json])
    texts: dict[int, str] = field(default_factory=dict[int, str])
    details: dict[int, Json] = field(default_factory=dict[int, Json])
    target: Json = field(default_factory=dict[str, Any])
    lists: dict[str, Json] = field(default_factory=dict[str, Json])
    calls: dict[str, Json] = field(default_factory=dict[str, Json])
    questions: dict[str, Json] = field(default_factory=dict[str, Json])
    tasks: dict[str, Json] = field(default_factory=dict[str, Json])
    logs: list[Json] = field(default_factory=list[Json])
    authorization: list[Json] = field(default_factory=list[Json])
    answers: Json = field(default_factory=dict[str, Any])
    posted: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    """Paths and bodies of POST and DELETE, in order."""
    asked: list[str] = field(default_factory=list[str])
    problems: list[Json] = field(default_factory=list[Json])
    """What a check of arguments finds."""
    revisions: Callable[[int], list[Json]] = lambda _n: [
        {"revision": each, "outcome": "same", "changes": 0, "lost": 0} for each in DATED
    ]
    revision: Callable[[int, str], Json] = lambda _n, _revision: {"text": "{}", "changes": [], "problems": []}
    called: Callable[[str, Json], None] = lambda _call, _body: None
    """What happens when the page calls; the state of the call is there already."""
    answered: Callable[[str, Json], None] = lambda _question, _body: None
    began: float = field(default_factory=time.monotonic)
    session: str = "fake"
    explore: str | None = None
    """What addresses of the site of `mcprev explore` begin with."""
    streams: list[list[tuple[str, Any]]] = field(default_factory=list[list[tuple[str, Any]]])
    news: threading.Condition = field(default_factory=threading.Condition)
    closed: bool = False
    made: dict[tuple[int, int], bytes] = field(default_factory=dict[tuple[int, int], bytes])

    def now(self) -> float:
        return time.monotonic() - self.began

    def tell(self, channel: str, value: Any) -> None:
        """Tell all open streams."""
        with self.news:
            for stream in self.streams:
                stream.append((channel, value))
            self.news.notify_all()

    def state(self, channel: str, value: Json) -> None:
        """Keep and tell the state of a call, question or task."""
        kept = {"call": self.calls, "question": self.questions, "task": self.tasks}[channel]
        kept[value[channel]] = {**kept.get(value[channel], {}), **value}
        self.tell(channel, kept[value[channel]])

    def log(self, **value: Any) -> None:
        self.logs.append({"at": self.now(), **value})
        self.tell("log", self.logs[-1])

    def list(self, kind: str, items: list[Json], state: str = "ready") -> None:
        self.lists[kind] = {"state": state, "items": items}
        self.tell("lists", {"kind": kind, **self.lists[kind]})

    def wire(self, direction: str, message: Json | str, *, at: float | None = None, **more: Any) -> int:
        """Put a message on the wire and return its number."""
        n = len(self.events) + 1
        text = (
            message
            if isinstance(message, str)
            else json.dumps(message, ensure_ascii=False, separators=(",", ":"))
        )
        parsed = message if isinstance(message, dict) else {}
        shape = (
            "error"
            if "error" in parsed
            else "result" if "result" in parsed else "request" if "id" in parsed else "notification"
        )
        summary = {
            "n": n, "at": self.now() if at is None else at, "kind": "message", "dir": direction, "conn": "c1", "own": False, "problems": 0,
            "size": len(text), "shape": shape, "method": parsed.get("method"), "id": parsed.get("id"), "label": "", "revision": OWN, **more,
        }  # fmt: skip
        self.texts[n] = text
        self.events.append(summary)
        self.tell("wire", {"events": [summary]})
        return n

    def frames(self, since: int) -> bytes:
        """The events of the stream from a number on, as the wire has them; made once of each length."""
        key = (since, len(self.events))
        if key not in self.made:
            batches = [self.events[start : start + 200] for start in range(since - 1, len(self.events), 200)]
            self.made[key] = b"".join(frame("wire", {"events": batch}) for batch in batches)
        return self.made[key]

    def whole(self) -> Json:
        return {
            "target": self.target, "lists": self.lists, "calls": list(self.calls.values()), "questions": list(self.questions.values()),
            "tasks": list(self.tasks.values()), "logs": self.logs, "authorization": self.authorization, "next": len(self.events) + 1,
        }  # fmt: skip


def frame(channel: str, value: Any) -> bytes:
    """One event of the stream."""
    return f"event: {channel}\ndata: {json.dumps(value)}\n\n".encode()


class Refusal(Exception):
    """An answer with an error."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class Server(ThreadingHTTPServer):
    """The server of one API."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, api: Api) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.api = api


class Fake:
    """A server of one API, on a port of its own."""

    def __init__(self, api: Api | None = None) -> None:
        self.api = api or Api()
        self._server = Server(self.api)
        self.origin = f"http://127.0.0.1:{self._server.server_address[1]}"
        self.url = f"{self.origin}/#token={TOKEN}"
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        )

    def __enter__(self) -> Api:
        self._thread.start()
        self.api.target = self.api.target or {
            "label": "fake",
            "state": "connected",
            "revisions": DATED,
            "revision": OWN,
            "capabilities": {},
        }
        return self.api

    def __exit__(self, *_: object) -> None:
        with self.api.news:
            self.api.closed = True
            self.api.news.notify_all()
        self._server.shutdown()
        self._server.server_close()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    @property
    def api(self) -> Api:
        return cast("Server", self.server).api

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Print nothing."""

    def do_GET(self) -> None:
        self.run(self.get)

    def do_POST(self) -> None:
        self.run(self.post)

    do_DELETE = do_POST  # noqa: N815

    def run(self, answer: Callable[[str, Mapping[str, list[str]]], object]) -> None:
        parts = urlsplit(self.path)
        try:
            found = answer(unquote(parts.path), parse_qs(parts.query))
            if found is not None:
                self.send(200, json.dumps(found).encode(), "application/json")
        except Refusal as refusal:
            self.send(refusal.status, json.dumps({"error": str(refusal)}).encode(), "application/json")
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def send(self, status: int, body: bytes, content_type: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Security-Policy", POLICY)
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        self.wfile.write(body)

    def check(self) -> None:
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            raise Refusal(401, "The token is missing or wrong.")

    def get(self, path: str, query: Mapping[str, list[str]]) -> object:
        if path == "/" or path.startswith("/page/"):
            file = PAGE / ("index.html" if path == "/" else path.removeprefix("/page/"))
            if file.parent != PAGE or not file.is_file():
                raise Refusal(404, "There is no such file.")
            self.send(200, file.read_bytes(), TYPES[file.suffix])
            return None
        self.check()
        self.api.asked.append(path)
        match path.split("/")[2:]:
            case ["stream"]:
                known = query.get("session", [self.api.session])[0] == self.api.session
                self.stream(int(query["since"][0]) if known else 1)
                return None
            case ["state"]:
                return self.api.whole()
            case ["answers"]:
                return self.api.answers
            case ["search"]:
                wanted = query["text"][0].lower()
                return {"matches": [n for n, text in self.api.texts.items() if wanted in text.lower()]}
            case ["event", n]:
                return self.event(int(n))
            case ["event", n, "revisions"]:
                return self.api.revisions(int(n))
            case ["event", n, "revisions", revision]:
                return self.api.revision(int(n), revision)
            case ["save"]:
                body = "".join(f"{text}\n" for text in self.api.texts.values()).encode()
                self.send(200, body, "application/jsonl")
                return None
            case _:
                raise Refusal(404, f"There is no {path}.")

    def event(self, n: int) -> Json:
        summary = self.api.events[n - 1]
        return {
            "summary": summary, "text": self.api.texts.get(n, ""), "exchange": None, "problems": [],
            "links": {"request": summary.get("answers")}, **self.api.details.get(n, {}),
        }  # fmt: skip

    def post(self, path: str, _query: object) -> object:
        self.check()
        text = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
        self.api.posted.append((path, text))
        body = cast("Json", json.loads(text)) if text and path != "/api/open" else {}
        match path.split("/")[2:]:
            case ["call"]:
                call = f"k{len(self.api.calls) + 1}"
                more = {name: body[name] for name in ("again_of",) if name in body}
                self.api.state("call", {
                    "call": call, "state": "open", "method": body["method"], "params": body["params"], "started": self.api.now(),
                    "revision": body.get("revision") or OWN, "first": len(self.api.events) + 1, **more,
                })  # fmt: skip
                threading.Thread(target=self.api.called, args=(call, body), daemon=True).start()
                return {"call": call}
            case ["question", question]:
                threading.Thread(target=self.api.answered, args=(question, body), daemon=True).start()
                return {}
            case ["check"]:
                return {"problems": self.api.problems}
            case ["copy"]:
                return {"text": f"mcprev {body['as']}"}
            case _:
                return {}

    def stream(self, since: int) -> None:
        mine: list[tuple[str, Any]] = []
        with self.api.news:
            self.api.streams.append(mine)
            old = self.api.frames(since)
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        self.event_line(
            "hello",
            {
                "session": self.api.session,
                "next": len(self.api.events) + 1,
                "bounds": {},
                "explore": self.api.explore,
            },
        )
        self.wfile.write(old)
        try:
            for channel, value in self.waiting(mine):
                self.event_line(channel, value)
        finally:
            with self.api.news:
                self.api.streams.remove(mine)

    def waiting(self, mine: list[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
        while not self.api.closed:
            with self.api.news:
                self.api.news.wait_for(lambda: mine or self.api.closed, timeout=30)
                due, mine[:] = list(mine), []
            yield from due

    def event_line(self, channel: str, value: Any) -> None:
        self.wfile.write(frame(channel, value))
        self.wfile.flush()
