"""A server whose tokens are JSON Web Tokens, from a client's call to the handler (AUTH-1, AUTH-10, AUTH-16)."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import time
from collections.abc import Callable
from typing import Any, Final

import pytest

import mcprev
from auth.guarded import ISSUER, ROWS, Guarded, asked, challenge, over_http, shows
from helpers.requirements import req
from helpers.running import run
from mcprev.revisions import Revision
from mcprev_types.latest import models as m

if importlib.util.find_spec("joserfc") is None:
    pytest.skip("joserfc is not installed", allow_module_level=True)

from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, OctKey

KEY: Final = ECKey.generate_key("P-256")
OTHER: Final = ECKey.generate_key("P-256")
SECRET: Final = OctKey.import_key(json.dumps(KEY.as_dict(private=False)))
"""What everybody knows, as if it were a secret."""
HERE: Final = "https://mcp.example/mcp"


async def verify(token: str) -> mcprev.Access | None:
    """As an author would write it."""
    try:
        claims = jwt.decode(token, KEY, algorithms=["ES256"]).claims
    except (JoseError, ValueError):
        return None
    if claims.get("iss") != ISSUER:
        return None
    return mcprev.Access(
        claims["sub"],
        audience=claims["aud"],
        scopes=claims["scope"],
        client_id=claims["client_id"],
        expires=claims["exp"],
        claims=claims,
    )


def issue(key: Any = KEY, alg: str = "ES256", **said: Any) -> str:
    claims = {"iss": ISSUER, "sub": "alice", "client_id": "c", "scope": "tools", "aud": HERE}
    return jwt.encode({"alg": alg}, {**claims, "exp": int(time.time()) + 600, **said}, key, algorithms=[alg])


def forged() -> str:
    """What a good token says, changed."""
    head, _, signature = issue().split(".")
    return f"{head}.{issue(sub='bob').split('.')[1]}.{signature}"


BAD: Final[dict[str, Callable[[], str]]] = {
    "of another key": lambda: issue(OTHER),
    "changed": forged,
    "signed with what is public": lambda: issue(SECRET, "HS256"),
    "of another issuer": lambda: issue(iss="https://other.example"),
    "for another server": lambda: issue(aud="https://other.example/mcp"),
    "for nobody": lambda: issue(aud=[]),
    "expired": lambda: issue(exp=int(time.time()) - 1),
    "no JWT": lambda: "x.y.z",
}


def bearer() -> mcprev.Bearer:
    return mcprev.Bearer(verify, resource=HERE, authorization_servers=[ISSUER], scopes=["tools"])


@req("AUTH-1", "AUTH-10")
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_client_with_a_good_token_is_served(row: Revision) -> None:
    async def main() -> None:
        port: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        server = mcprev.Server(Guarded(), "s", "1")
        serving = asyncio.ensure_future(server.serve_http(port=0, ready=port.set_result, auth=bearer()))
        headers = shows(issue(aud=["https://mcp.example/other", HERE], scope="tools more", jti="7"))
        target = mcprev.http(f"http://127.0.0.1:{await port}/mcp", headers=headers)
        async with mcprev.connect(target, mode=row.name) as client:
            (block,) = (await client.call_tool("access")).content
            assert isinstance(block, m.TextContent)
            assert block.text.startswith('["alice", "c", ["more", "tools"], {"iss": ')
        serving.cancel()
        await asyncio.wait({serving})

    run(main())


@req("AUTH-1", "AUTH-10", "AUTH-16")
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_no_other_token_is(row: Revision) -> None:
    async def main() -> None:
        handler = Guarded()
        verb, target, headers, body = asked(row)
        async with over_http(mcprev.Server(handler, "s", "1"), auth=bearer()) as ask:
            for case, make in BAD.items():
                answer = await ask(verb, target, [*(headers | shows(make())).items()], body)
                assert (answer.status, challenge(answer.headers)["error"]) == (401, "invalid_token"), case
            poor = await ask(verb, target, [*(headers | shows(issue(scope="other"))).items()], body)
            assert (poor.status, challenge(poor.headers)["scope"]) == (403, "tools other")
        assert handler.runs == 0

    run(main())
