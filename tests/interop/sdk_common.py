"""What the scripts on the official SDK share: what they offer, what they observed, and how they are reached."""

# mypy: ignore-errors
# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false

import json
import os
import socket
import sys
import traceback

import anyio
from pydantic import BaseModel

PAGE = 5
"""How many tools a page has; other lists have one item a page."""
LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
RESOURCES = {"memo:///one": "one", "memo:///bytes": b"\x00\xff"}
SCHEMA = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
"""What a form asks for."""
URL = "https://example.com/sign-in"
SUM_TOOL = {"type": "object", "properties": {"a": {"type": "number"}, "b": {"type": "number"}}}
FOUND = {"type": "object", "properties": {"sum": {"type": "number"}}, "required": ["sum"]}
"""The output schema of `add`."""

_journal = []


def note(what, **details):
    """Keep what was observed, for the other side to fetch."""
    _journal.append({"what": what, **details})
    print(f"noted {what}", file=sys.stderr, flush=True)  # noqa: T201 - there when nothing else is any more


def take():
    """What was observed since this was last asked."""
    taken = json.dumps(_journal)
    _journal.clear()
    return taken


def page(items, cursor, size=1):
    """A page of a list, and the cursor of the next."""
    start = int(cursor or 0)
    after = start + size
    return list(items)[start:after], str(after) if after < len(items) else None


def bound(path):
    """A socket that listens, once its URL has been said on stdout."""
    listener = socket.socket(proto=socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    print(f"http://127.0.0.1:{listener.getsockname()[1]}{path}", flush=True)  # noqa: T201
    return listener


# -- clients -----------------------------------------------------------------------------------------------------

LIMIT = 8
"""Seconds that one case gets."""


class Heard(list):
    """What a client's callbacks were given."""

    def __init__(self):
        super().__init__()
        self._news = anyio.Event()

    def add(self, *what):
        self.append(what)
        self._news.set()

    async def until(self, condition):
        while not condition(self):
            self._news = anyio.Event()
            await self._news.wait()


class Cases:
    """The cases of a client; each is run by itself, and said on stdout with what both sides observed."""

    def __init__(self):
        self.heard = Heard()
        self._cases = []

    def __call__(self, case):
        self._cases.append(case)
        return case

    async def run(self, session, journal):
        wanted = os.environ.get("CASES")
        for case in self._cases:
            if wanted and case.__name__ not in wanted.split(","):
                continue
            self.heard.clear()
            said = {"case": case.__name__}
            try:
                with anyio.fail_after(LIMIT):
                    await journal(session)
                    self.heard.clear()
                    said["saw"] = await case(session)
                    said["heard"] = list(self.heard)
                    said["noted"] = await journal(session)
            except Exception:  # noqa: BLE001 - it is told, and the other cases are tried
                said["failed"] = traceback.format_exc()
            print(json.dumps(said, default=str), flush=True)  # noqa: T201


async def until_noted(session, journal, what):
    """Ask until the server observed something of a kind."""
    while True:
        found = [entry for entry in await journal(session) if entry["what"] == what]
        if found:
            return found


# -- decorated servers -------------------------------------------------------------------------------------------


gates = []
"""What tools wait for."""


class Weather(BaseModel):
    city: str
    degrees: float


def decorate(mcp, image):
    """What a server in the decorated style has in every release."""

    @mcp.tool()
    def add(a: int, b: int = 1) -> int:
        """Adds."""
        note("call", a=a, b=b)
        return a + b

    @mcp.tool()
    def weather(city: str) -> Weather:
        """Tells the weather."""
        return Weather(city=city, degrees=21.5)

    def picture():
        """Draws."""
        return image(data=b"\x89PNG", format="png")

    picture.__annotations__["return"] = image
    mcp.tool()(picture)

    @mcp.tool()
    async def proceed() -> str:
        """Lets the tool that waits go on."""
        gates.pop().set()
        return "done"

    @mcp.tool()
    def fail() -> str:
        """Fails."""
        raise ValueError("it failed")

    @mcp.tool()
    def journal() -> str:
        """What was observed."""
        return take()

    @mcp.resource("memo:///one", mime_type="text/x-memo")
    def one() -> str:
        return "one"

    @mcp.resource("memo:///bytes", mime_type="application/octet-stream")
    def some_bytes() -> bytes:
        return b"\x00\xff"

    @mcp.resource("memo:///{name}/copy")
    def copy(name: str) -> str:
        return f"a copy of {name}"


async def serve(path, app):
    """Serve a decorated server's app."""
    import uvicorn

    config = uvicorn.Config(app(), log_level="warning", timeout_graceful_shutdown=1)
    await uvicorn.Server(config).serve(sockets=[bound(path)])
