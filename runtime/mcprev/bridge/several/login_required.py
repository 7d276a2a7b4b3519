"""The error of a server behind a bridge at which a user has to log in first."""

from __future__ import annotations

from mcprev.errors import AuthError


class LoginRequired(AuthError):
    """A user has to log in at a server behind the bridge."""

    def __init__(self, server: str, url: str) -> None:
        super().__init__(f"log in at the server '{server}' first: {url}")
        self.server = server
        self.url = url
        """The page of the bridge at which that begins."""
