"""The `_meta` keys that the specification defines and that the runtime reads or writes (MOD-1, META-7, META-8, META-9)."""

from __future__ import annotations

from typing import Final

PREFIX: Final = "io.modelcontextprotocol/"
VERSION: Final = PREFIX + "protocolVersion"
"""Marks a request of the stateless era."""  # NEG-8
CLIENT_INFO: Final = PREFIX + "clientInfo"
CLIENT_CAPABILITIES: Final = PREFIX + "clientCapabilities"
LOG_LEVEL: Final = PREFIX + "logLevel"
SERVER_INFO: Final = PREFIX + "serverInfo"
SUBSCRIPTION_ID: Final = PREFIX + "subscriptionId"
RELATED: Final = PREFIX + "related-task"
"""Relates a message to a task."""  # META-8, TASK-6
DEFINED: Final = frozenset(
    {
        VERSION, CLIENT_INFO, CLIENT_CAPABILITIES, LOG_LEVEL, SERVER_INFO, SUBSCRIPTION_ID, RELATED,
        PREFIX + "model-immediate-response",
    }
)  # fmt: skip
"""The reserved keys that the specification defines."""
