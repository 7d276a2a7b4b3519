"""A server of any revision in a few lines that starts in no time and dies, chokes or babbles where it is told to.

    tiny_server.py POINT [LATER MARK]

`POINT` is where it kills itself, or how it misbehaves; `LATER` takes its place in every process but the first, which
leaves the file `MARK`. With `CHILD` in its environment it has a child that would outlive it.
"""

# ruff: noqa: PTH110, PTH123

import json
import os
import signal
import sys
import time
from typing import Any

point = sys.argv[1]
if len(sys.argv) > 2:
    if os.path.exists(sys.argv[3]):
        point = sys.argv[2]
    else:
        open(sys.argv[3], "w").close()
if os.environ.get("CHILD") and not os.fork():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if os.environ["CHILD"] == "quiet":
        for descriptor in (0, 1, 2):
            os.close(descriptor)
    time.sleep(60)
    os._exit(0)

VERSION = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES = {"tools": {"listChanged": True}, "resources": {"subscribe": True}}
FORM = {"message": "?", "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}}}


def write(data: bytes) -> None:
    while data:
        data = data[os.write(1, data) :]


def die_at(here: str, answer: bytes | None = None) -> None:
    """Die here, if this is the place; at a place called `half-`, in the middle of the answer."""
    if point == here:
        os.kill(os.getpid(), signal.SIGKILL)
    if point == "half-" + here and answer is not None:
        write(answer[: len(answer) // 2])
        os.kill(os.getpid(), signal.SIGKILL)


def encode(message: dict[str, Any]) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"


def answer(request: dict[str, Any], result: dict[str, Any]) -> None:
    """Answer a request, unless this is where to die: before, in the middle, or after."""
    method = request["method"]
    if "_meta" in request.get("params", {}) and VERSION in request["params"]["_meta"]:
        result = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private", **result}
    line = encode({"id": request["id"], "result": result})
    die_at(method, line)
    write(line)
    die_at("after-" + method)


def call(request: dict[str, Any]) -> None:
    params = request["params"]
    name, stateless = params["name"], VERSION in params.get("_meta", {})
    die_at(name)
    if name == "wait":
        return
    if name == "progress":
        token = params["_meta"]["progressToken"]
        for number in range(3):
            told = {"progressToken": token, "progress": number}
            write(encode({"method": "notifications/progress", "params": told}))
        die_at("progressing")
    if name == "ask" and not stateless:
        asked.append(request)
        write(encode({"id": "q", "method": "elicitation/create", "params": FORM}))
        die_at("asking")
        return
    if name == "ask" and "inputResponses" not in params:
        question = {"method": "elicitation/create", "params": {"mode": "form", **FORM}}
        answer(request, {"resultType": "input_required", "inputRequests": {"q": question}})
        die_at("asking")
        return
    if name == "ask":
        die_at("asked")
    answer(request, {"content": [{"type": "text", "text": name}]})


def take(message: dict[str, Any]) -> None:
    method, params = message.get("method"), message.get("params", {})
    if method is None:
        die_at("asked")
        answer(asked.pop(), {"content": []})
    elif method == "initialize":
        info = {"name": "tiny", "version": "1"}
        said = {
            "protocolVersion": params["protocolVersion"],
            "capabilities": CAPABILITIES,
            "serverInfo": info,
        }
        answer(message, said)
    elif method == "server/discover":
        answer(message, {"supportedVersions": [params["_meta"][VERSION]], "capabilities": CAPABILITIES})
    elif method == "tools/call":
        call(message)
    elif method == "tools/list":
        answer(message, {"tools": []})
    elif method == "subscriptions/listen":
        die_at("listen")
        meta = {"io.modelcontextprotocol/subscriptionId": message["id"]}
        acknowledged = {"notifications": params["notifications"], "_meta": meta}
        write(encode({"method": "notifications/subscriptions/acknowledged", "params": acknowledged}))
        die_at("listening")
    elif method == "resources/subscribe":
        die_at("listen")
        answer(message, {})
        die_at("listening")
    elif "id" in message:
        answer(message, {})
    else:
        die_at(str(method))


asked: list[dict[str, Any]] = []
die_at("start")
for line in sys.stdin:
    take(json.loads(line))
die_at("close")
