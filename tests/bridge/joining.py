"""Several servers by hand behind one bridge."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias, cast

import pytest
from typing_extensions import override

import mcprev
from api.wire import HandServer, Message, Reply
from bridge.hands import Servers, Upstream, Work, question, text
from mcprev.bridge.bridge import Bridge
from mcprev.bridge.several.options import BridgedServer
from mcprev.client.targets import Target
from mcprev.revisions import DEFAULT, Revision

SESSION: Final = [row for row in DEFAULT if row.handshake][-1]
MODERN: Final = DEFAULT[-1]
each_cell = pytest.mark.parametrize(
    ("row", "there"),
    [(row, there) for row in (SESSION, MODERN) for there in (SESSION, MODERN)],
    ids=lambda row: row.name,
)
each_client = pytest.mark.parametrize("row", [SESSION, MODERN], ids=lambda row: row.name)
Ends: TypeAlias = Mapping[str, "Group"]


async def who(up: Upstream, request: Message) -> Message:
    """Say which server it is, with the arguments as they came."""
    return text([name_of(up), request["params"]["name"], request["params"].get("arguments")])


async def asks(up: Upstream, request: Message) -> Message:
    return await up.asking(request, question(up.revision, "form", f" {name_of(up)}"))


async def reports(up: Upstream, request: Message) -> Message:
    up.progresses(request, 1)
    up.logs(request, "warning", f"from {name_of(up)}")
    up.progresses(request, 2)
    return text(name_of(up))


TOOLS: Final[Mapping[str, Work]] = {function.__name__: function for function in (who, asks, reports)}


def name_of(up: HandServer) -> str:
    """The name of a server by hand."""
    assert isinstance(up, Named)
    return up.name


def tools(*names: str) -> Message:
    return {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in names]}


def resources(*uris: str) -> Message:
    return {"resources": [{"uri": uri, "name": "a resource"} for uri in uris]}


class Named(Upstream):
    """A server by hand that knows its name."""

    def __init__(
        self, name: str, there: Revision, works: Mapping[str, Work], replies: Mapping[str, Reply]
    ) -> None:
        usual: dict[str, Reply] = {
            "tools/list": tools(*works),
            "resources/list": resources(f"{name}:one", "all:one"),
        }
        super().__init__(there, works, {**usual, "prompts/list": {"prompts": []}, **replies})
        self.name = name


class Group(Servers):
    """The servers by hand of one name."""

    def __init__(self, make: Callable[[], HandServer]) -> None:
        super().__init__(make)
        self.capabilities: Message = {}
        """What they declare besides what all do."""

    @override
    def connection(self) -> HandServer:
        found = super().connection()
        found.capabilities |= self.capabilities
        return found


def ends(
    there: Revision, *names: str, works: Mapping[str, Work] = TOOLS, **replies: Mapping[str, Reply]
) -> Ends:
    """Servers by hand by name, of one revision."""

    def made(name: str) -> Group:
        return Group(lambda: Named(name, there, works, replies.get(name, {})))

    return {name: made(name) for name in names}


def target_of(server: Group) -> Target:
    """A server by hand as a target."""
    return mcprev.memory(cast("Any", server))


def joined(
    servers: Ends, there: Revision, options: Mapping[str, Mapping[str, Any]] | None = None, **rest: Any
) -> Bridge:
    """A bridge to servers by hand."""
    targets = {
        name: BridgedServer(target=target_of(server), **(options or {}).get(name, {}))
        for name, server in servers.items()
    }
    return Bridge(targets, server_revisions=[there.name], **rest)


def last(servers: Ends, name: str) -> Named:
    """The server by hand that was made last under a name."""
    return cast("Named", servers[name].made[-1])


def asked(servers: Ends, name: str, method: str) -> list[Message]:
    """What all that were made under a name were asked."""
    return [params for server in servers[name].made for params in server.asked(method)]


def all_tools(answer: Message) -> list[str]:
    return [tool["name"] for tool in answer["tools"]]
