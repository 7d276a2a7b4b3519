"""The words of the protocol that schemas share: the directions and the unions of all messages."""

from __future__ import annotations

from typing import Final

CLIENT_TO_SERVER: Final = "client_to_server"
SERVER_TO_CLIENT: Final = "server_to_client"
DIRECTIONS: Final = (CLIENT_TO_SERVER, SERVER_TO_CLIENT)
MESSAGE_UNIONS: Final = ("ClientRequest", "ClientNotification", "ServerRequest", "ServerNotification")
"""The unions of the messages that each side sends."""
