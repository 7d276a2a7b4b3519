"""The OAuth client of one step of a login (AUTH-10, AUTH-11)."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from mcprev.auth.client.grants import OAuth

if TYPE_CHECKING:
    from mcprev.auth.client.credentials import Obtained, Scopes
    from mcprev.auth.client.discovery import ProtectedServer
    from mcprev.auth.client.runner import FlowRunner
    from mcprev.auth.client.store import Registration
    from mcprev.bridge.several.login_state import LoginStep


class OfferOAuth(OAuth):
    """Offers a login, and sends nothing to the authorization page: the user has not allowed it yet."""

    def __init__(self, offer: Callable[[str], Awaitable[str]], **of_login: Any) -> None:  # noqa: ANN401
        super().__init__(open=offer, **of_login)
        self.checks_page: bool = False


class LoginOAuth(OAuth):
    """Sends a browser to an authorization server in one step, and gets the tokens in another one, perhaps of another process."""

    def __init__(self, step: LoginStep, **options: Any) -> None:  # noqa: ANN401 - those of `OAuth`
        super().__init__(open=step.open, **options)
        self._step = step
        self.secret: Callable[[], str] = step.secret
        # The browser that is back has seen the page; another page is not told the state of the login.
        self.checks_page: bool = step.back is None

    @override
    async def obtain(
        self, runner: FlowRunner, place: ProtectedServer, client: Registration | None, scopes: Scopes
    ) -> Obtained:
        server = place.server
        self._step.begin_at(json.dumps([server.issuer, server.token_endpoint, place.resource]))
        return await super().obtain(runner, place, client, scopes)
