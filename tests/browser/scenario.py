"""A scripted server for the page: a few tools, a question, progress, an image, errors; what each message is at other revisions."""

from __future__ import annotations

import base64
import json
import struct
import threading
import time
import zlib
from typing import Any, Final

from browser.fake import DATED, OWN, Api, Json

OLDEST: Final = DATED[0]


def png(width: int, height: int) -> str:
    """A picture of a slope of two colours, in Base64."""
    rows = b"".join(
        b"\0"
        + bytes(
            channel for x in range(width) for channel in (36 + 180 * x // width, 86 + 60 * y // height, 166)
        )
        for y in range(height)
    )

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return base64.b64encode(
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", head)
        + chunk(b"IDAT", zlib.compress(rows))
        + chunk(b"IEND", b"")
    ).decode()


TOOLS: Final[list[Json]] = [
    {
        "name": "forecast", "title": "Forecast", "description": "The weather of a **city** for some days, from [the office](https://weather.example/about).",
        "inputSchema": {
            "type": "object", "required": ["city"],
            "properties": {
                "city": {"type": "string", "description": "Name of a city"},
                "days": {"type": "integer", "minimum": 1, "maximum": 7, "default": 3, "description": "How many days"},
                "unit": {"type": "string", "enum": ["celsius", "fahrenheit", "kelvin"]},
                "hourly": {"type": "boolean"},
            },
        },
        "outputSchema": {"type": "object", "properties": {"city": {"type": "string"}, "celsius": {"type": "array", "items": {"type": "number"}}}},
        "annotations": {"readOnlyHint": True, "openWorldHint": True},
    },
    {
        "name": "plan", "description": "Makes a plan for a trip.",
        "inputSchema": {
            "type": "object", "required": ["way", "name"],
            "properties": {
                "name": {"type": "string"},
                "way": {"anyOf": [{"$ref": "#/$defs/Train"}, {"$ref": "#/$defs/Walk"}]},
                "stops": {"type": "array", "items": {"allOf": [{"$ref": "#/$defs/Stop"}, {"properties": {"note": {"type": "string"}}}]}},
                "tags": {"type": "array", "items": {"type": "string", "enum": ["slow", "cheap", "scenic"]}},
                "budget": {"type": ["number", "null"]},
                "meta": {"type": "object", "properties": {"by": {"type": "string"}, "inner": {"type": "object", "properties": {"deep": {"type": "string"}}}}},
                "next": {"$ref": "#"},
                "version": {"const": 2},
            },
            "$defs": {
                "Train": {"type": "object", "required": ["kind", "seat"], "properties": {"kind": {"const": "train"}, "seat": {"type": "string", "enum": ["aisle", "window"]}}},
                "Walk": {"type": "object", "required": ["kind"], "properties": {"kind": {"const": "walk"}, "km": {"type": "number"}}},
                "Stop": {"type": "object", "required": ["place"], "properties": {"place": {"type": "string"}, "hours": {"type": "integer"}}},
            },
        },
    },
    {"name": "book", "description": "Books a table; asks how many come.", "inputSchema": {"type": "object", "properties": {"place": {"type": "string"}}, "required": ["place"]}, "execution": {"taskSupport": "optional"}, "annotations": {"destructiveHint": True}},
    {"name": "picture", "description": "A picture, a sound, a link.", "inputSchema": {"type": "object"}},
    {"name": "broken", "description": "Always fails.", "inputSchema": {"type": "object"}},
]  # fmt: skip
RESOURCES: Final[list[Json]] = [
    {
        "uri": "note://all",
        "name": "All notes",
        "mimeType": "text/markdown",
        "description": "Everything that was noted.",
    }
]
TEMPLATES: Final[list[Json]] = [
    {"uriTemplate": "note://{year}/{name}", "name": "note", "description": "One note."}
]
PROMPTS: Final[list[Json]] = [
    {
        "name": "review",
        "title": "Review",
        "description": "Asks for a review.",
        "arguments": [{"name": "topic", "required": True, "description": "What to review"}, {"name": "tone"}],
    }
]
QUESTION: Final[Json] = {
    "type": "object",
    "required": ["guests"],
    "properties": {
        "guests": {"type": "integer", "minimum": 1, "maximum": 8, "description": "How many come"},
        "outside": {"type": "boolean", "default": True},
    },
}
RESULT: Final = (
    '{"content":[{"type":"text","text":"Rome: 21, 24 and 23.5 °C, mostly **sunny**."},{"type":"resource_link","uri":"note://all","name":"All notes","icons":[{"src":"https://weather.example/i.png"}]}],"structuredContent":{"city":"Rome","celsius":[21.0,24.0,23.5]},"resultType":"complete"}'
)


class Scenario:
    """What the scripted server does."""

    def __init__(self, api: Api, *, pace: float = 0.0) -> None:
        self.api = api
        self.pace = pace
        self.ids = 10
        self.waiting: dict[str, threading.Event] = {}
        self.content: dict[str, Any] = {}
        api.called, api.answered = self.called, self.answered
        api.revisions, api.revision = self.revisions, self.revision
        api.target = {
            "label": "http://127.0.0.1:8123/mcp", "state": "connected", "kind": "url", "revision": OWN, "revisions": DATED, "server_revisions": DATED, "era": "stateless",
            "transport": "Streamable HTTP", "server_info": {"name": "harbour", "title": "Harbour", "version": "1.4.0"},
            "capabilities": {"tools": {"listChanged": True}, "resources": {"subscribe": True}, "prompts": {}, "completions": {}, "logging": {}},
            "instructions": "Ask for a forecast first.\n\n- one\n- two",
        }  # fmt: skip
        for kind, items in (
            ("tools", TOOLS),
            ("resources", RESOURCES),
            ("templates", TEMPLATES),
            ("prompts", PROMPTS),
        ):
            api.list(kind, items)
        for number, (method, result) in enumerate(
            [("server/discover", {"supportedVersions": DATED}), ("tools/list", {"tools": TOOLS})], 1
        ):
            n = self.http(
                "out",
                {"jsonrpc": "2.0", "id": number, "method": method, "params": {}},
                exchange=number,
                own=True,
            )
            self.pause(0.002)
            self.http(
                "in",
                {"jsonrpc": "2.0", "id": number, "result": result},
                exchange=number,
                own=True,
                answers=n,
                method=method,
            )

    def pause(self, seconds: float) -> None:
        if self.pace:
            time.sleep(seconds * self.pace)

    def http(self, direction: str, message: Json | str, *, exchange: int, **more: Any) -> int:
        n = self.api.wire(
            direction,
            message,
            exchange={"n": exchange, "verb": "POST", "path": "/mcp", "status": 200},
            **more,
        )
        self.api.details[n] = {
            "type": "CallToolResult" if more.get("answers") else "CallToolRequest",
            "exchange": {
                "n": exchange, "verb": "POST", "url": "http://127.0.0.1:8123/mcp", "path": "/mcp", "status": 200, "reason": "OK",
                "request_headers": [["Accept", "application/json, text/event-stream"], ["MCP-Protocol-Version", OWN], ["Mcp-Method", "tools/call"]],
                "response_headers": [["Content-Type", "text/event-stream"], ["Cache-Control", "no-cache"]],
            },
        }  # fmt: skip
        return n

    def called(self, call: str, body: Json) -> None:
        api = self.api
        self.ids += 1
        name = body["params"].get("name", "")
        exchange = self.ids
        method = body["method"]
        message = {"jsonrpc": "2.0", "id": self.ids, "method": method, "params": body["params"]}
        revision = body.get("revision") or OWN
        shared: Json = {"exchange": exchange, "call": call, "revision": revision}
        n = self.http("out", message, label=name, **shared)
        self.pause(0.004)

        def end(result: str, *, failed: Json | None = None, problems: int = 0) -> None:
            text = f'{{"jsonrpc":"2.0","id":{message["id"]},' + (
                f'"error":{json.dumps(failed)}}}' if failed else f'"result":{result}}}'
            )
            last = self.http(
                "in",
                text,
                answers=n,
                method=method,
                shape="error" if failed else "result",
                problems=problems,
                label=name,
                **shared,
            )
            if problems:
                api.details[last]["problems"] = [
                    {"path": "$.result.structuredContent.celsius[0]", "text": "a number is wanted"}
                ]
            api.state(
                "call",
                {
                    "call": call,
                    "state": "failed" if failed else "done",
                    "result": None if failed else result,
                    "error": failed,
                    "ended": api.now(),
                    "last": last,
                },
            )

        if method == "completion/complete":
            values = [
                each
                for each in ("solemn", "soft", "stern")
                if each.startswith(body["params"]["argument"]["value"])
            ]
            return end(json.dumps({"completion": {"values": values}}))
        if method == "resources/read":
            return end(
                json.dumps(
                    {
                        "contents": [
                            {
                                "uri": body["params"]["uri"],
                                "mimeType": "text/markdown",
                                "text": "# Notes\n\n- **sunny** in Rome",
                            }
                        ]
                    }
                )
            )
        if method == "prompts/get":
            return end(
                json.dumps(
                    {
                        "messages": [
                            {
                                "role": "user",
                                "content": {
                                    "type": "text",
                                    "text": f"Review {body['params']['arguments'].get('topic')}",
                                },
                            }
                        ]
                    }
                )
            )
        if name == "forecast":
            for done in (1, 2, 3):
                self.http(
                    "in",
                    {
                        "jsonrpc": "2.0",
                        "method": "notifications/progress",
                        "params": {"progressToken": n, "progress": done, "total": 3},
                    },
                    answers=n,
                    label=f"{done} of 3",
                    **shared,
                )
                api.state("call", {"call": call, "state": "open", "progress": {"progress": done, "total": 3}})
                self.pause(0.012)
            return end(RESULT)
        if name == "book":
            api.log(level="info", logger="table", data="looking for a table", call=call)
            asked = self.http(
                "in",
                {
                    "jsonrpc": "2.0",
                    "id": "q1",
                    "method": "elicitation/create",
                    "params": {"message": "How many come?", "requestedSchema": QUESTION},
                },
                label="How many come?",
                **shared,
            )
            question = f"q{self.ids}"
            self.waiting[question] = threading.Event()
            api.state("call", {"call": call, "state": "asking"})
            api.state(
                "question",
                {
                    "question": question,
                    "call": call,
                    "method": "elicitation/create",
                    "params": {"message": "How many come?", "requestedSchema": QUESTION},
                    "state": "open",
                },
            )
            while not self.waiting[question].wait(0.05):
                if api.closed:
                    return None
            answer = self.content[question]
            self.http(
                "out",
                {"jsonrpc": "2.0", "id": "q1", "result": answer},
                answers=asked,
                method="elicitation/create",
                label=str(answer.get("action", "")),
                **shared,
            )
            api.state("question", {"question": question, "state": "answered", "action": answer.get("action")})
            api.state("call", {"call": call, "state": "open"})
            self.pause(0.008)
            return end(
                json.dumps(
                    {
                        "content": [
                            {
                                "type": "text",
                                "text": f"A table for {answer.get('content', {}).get('guests')}.",
                            }
                        ]
                    }
                )
            )
        if name == "picture":
            return end(
                json.dumps(
                    {
                        "content": [
                            {"type": "image", "mimeType": "image/png", "data": png(160, 90)},
                            {"type": "text", "text": '{"a": 1.0}'},
                            {
                                "type": "image",
                                "mimeType": "image/svg+xml",
                                "data": base64.b64encode(b"<svg onload='alert(1)'/>").decode(),
                            },
                        ]
                    }
                ),
                problems=1,
            )
        if name == "broken":
            return end(
                "", failed={"code": -32603, "message": "The barometer is broken.", "data": {"since": 1.0}}
            )
        return end(json.dumps({"content": [{"type": "text", "text": "done"}]}))

    def answered(self, question: str, body: Json) -> None:
        self.content[question] = body
        self.waiting[question].set()

    def revisions(self, n: int) -> list[Json]:
        """As the ladder would say it of the forecast: the older, the less is left."""
        text = self.api.texts[n]
        rich = '"structuredContent"' in text
        outcomes: dict[str, Json] = {OWN: {"outcome": "same"}}
        for place, revision in enumerate(reversed(DATED[:-1])):
            outcomes[revision] = (
                {"outcome": "lost", "lost": place + 1, "changes": place + 2} if rich else {"outcome": "same"}
            )
        if "elicitation/create" in text:
            outcomes[OLDEST] = outcomes[DATED[1]] = {
                "outcome": "absent",
                "counterpart": "Not sent: clients of this revision cannot be asked.",
            }
        if "server/discover" in text:
            outcomes[OLDEST] = {
                "outcome": "changed",
                "changes": 2,
                "counterpart": "Sent as initialize, followed by notifications/initialized.",
            }
        return [{"revision": each, "changes": 0, "lost": 0, **outcomes[each]} for each in DATED]

    def revision(self, n: int, revision: str) -> Json:
        text = self.api.texts[n]
        if '"structuredContent"' not in text:
            if (
                next(each for each in self.revisions(n) if each["revision"] == revision)["outcome"]
                == "absent"
            ):
                return {
                    "text": "",
                    "changes": [],
                    "problems": [],
                    "counterpart": "Not sent: clients of this revision cannot be asked.",
                }
            return {"text": text, "changes": [], "problems": []}
        message = json.loads(text)
        result = message["result"]
        changes: list[Json] = [
            {
                "step": f"{OWN} → {DATED[-2]}",
                "rule": f"{OWN}/down/before/CallToolResult.resultType",
                "sentence": "A result says of what kind it is only where there are several kinds.",
                "path": "$.result.resultType",
                "what": "dropped",
                "old": "complete",
            }
        ]
        del result["resultType"]
        if revision in DATED[:3]:
            del result["content"][1]["icons"]
            changes.append(
                {
                    "step": f"{DATED[-2]} → {DATED[-3]}",
                    "rule": f"{DATED[-2]}/down/drop/ResourceLink.icons",
                    "sentence": "Icons are not known to this revision.",
                    "path": "$.result.content[1].icons",
                    "what": "dropped",
                    "old": [{"src": "https://weather.example/i.png"}],
                }
            )
        if revision in DATED[:2]:
            result["content"][1] = {"type": "text", "text": "All notes: note://all"}
            del result["structuredContent"]
            changes += [
                {
                    "step": f"{DATED[2]} → {DATED[1]}",
                    "rule": f"{DATED[2]}/down/substitute/ResourceLink",
                    "sentence": "A link to a resource becomes text with its address, which older clients can show.",
                    "path": "$.result.content[1]",
                    "what": "changed",
                    "old": {"type": "resource_link", "uri": "note://all"},
                    "new": {"type": "text", "text": "All notes: note://all"},
                },
                {
                    "step": f"{DATED[2]} → {DATED[1]}",
                    "rule": f"{DATED[2]}/down/drop/CallToolResult.structuredContent",
                    "sentence": "Structured content is not known to this revision; the text of the result stays.",
                    "path": "$.result.structuredContent",
                    "what": "dropped",
                    "old": {"city": "Rome", "celsius": [21.0, 24.0, 23.5]},
                },
            ]
        return {
            "text": json.dumps(message, ensure_ascii=False),
            "changes": changes,
            "problems": [],
            "headers": [["MCP-Protocol-Version", revision]],
            "type": "CallToolResult",
        }
