"""A server whose users log in with GitHub: `GITHUB_ID=... GITHUB_SECRET=... LOGIN_SECRET=... python examples/github_login.py`.

Register an OAuth app at https://github.com/settings/developers with the redirect URI http://127.0.0.1:8000/callback.
"""

from __future__ import annotations

import os
from typing import Any

import aiohttp

import mcprev

login = mcprev.Login(
    mcprev.Provider.github(os.environ.get("GITHUB_ID", "id"), os.environ.get("GITHUB_SECRET", "secret")),
    resource=os.environ.get("RESOURCE", "http://127.0.0.1:8000/mcp"),
    secrets=os.environ.get("LOGIN_SECRET"),
)
app = mcprev.App("issues", "1.0", auth=login)


@app.tool
async def whoami(ctx: mcprev.Context) -> dict[str, Any]:
    """Say as whom the caller is logged in."""
    return {"principal": ctx.principal, **(ctx.access.claims if ctx.access else {})}


@app.tool
async def my_repositories(ctx: mcprev.Context) -> list[str]:
    """List the caller's repositories, as GitHub shows them to the caller."""
    headers = {"Authorization": f"Bearer {await login.provider_token(ctx.access)}"}
    async with (
        aiohttp.ClientSession(headers=headers) as github,
        github.get("https://api.github.com/user/repos") as found,
    ):
        found.raise_for_status()
        return [repository["full_name"] for repository in await found.json()]


if __name__ == "__main__":
    app.run_http()
