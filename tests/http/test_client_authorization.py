"""What users write to authorize requests in their own way: `mcprev.http(url, auth=...)` (AUTH-2)."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import subprocess
import sys
from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any, Final, cast

import aiohttp
import pytest
from multidict import CIMultiDictProxy

import mcprev
from helpers.http_in_process import InProcess
from helpers.raw_server import Exchange, Mcp, Raw, serve
from helpers.requirements import D, E, req
from helpers.running import pass_time, run
from mcprev.revisions import Revision, revision_named
from mcprev.transports.http.client.session import MAX_RETRIES

KEY = b"key"
LIST: Final[dict[str, Any]] = {"prompts/list": {"prompts": []}}
LATEST = revision_named(E)


def signature(method: str, url: str, body: bytes | None) -> str:
    return hmac.new(KEY, f"{method} {url}\n".encode() + (body or b""), hashlib.sha256).hexdigest()


class Signed(mcprev.Authorization):
    """Signs each request, as the guide does."""

    async def headers(self, request: mcprev.AuthorizedRequest) -> dict[str, str]:
        return {"X-Signature": signature(request.method, request.url, request.body)}


class Renewed(mcprev.Authorization):
    """Sends a token, and another one after a refusal."""

    def __init__(self) -> None:
        self.number = 0
        self.seen: list[tuple[str, int, bool]] = []

    async def headers(self, request: mcprev.AuthorizedRequest) -> dict[str, str]:
        self.number += request.retries
        return {"Authorization": f"Bearer {self.number}"}

    def retry(self, request: mcprev.AuthorizedRequest, status: int, headers: CIMultiDictProxy[str]) -> bool:
        self.seen.append((request.method, status, request.interactive))
        return status == 401 and headers["www-authenticate"] == "Own" and not request.retries


class Stubborn(mcprev.Authorization):
    """Has every request sent again."""

    async def headers(self, request: mcprev.AuthorizedRequest) -> dict[str, str]:
        return {}

    def retry(self, request: mcprev.AuthorizedRequest, status: int, headers: CIMultiDictProxy[str]) -> bool:
        return True


def connect(raw: Raw, auth: mcprev.Authorization, row: Revision = LATEST, **options: Any) -> mcprev.connect:
    return mcprev.connect(mcprev.http(raw.url, auth=auth), mode=row.name, **options)


@req("AUTH-2", "SEC-1", at=E)
def test_each_attempt_may_be_redirected_as_often_as_the_first() -> None:
    """A refusal in between does not use up the redirects of the next attempt."""

    async def main() -> None:
        server, hops = Mcp(LATEST, LIST), 2 * 4

        async def answer(exchange: Exchange) -> None:
            at = int(exchange.path.strip("/")) if exchange.path != "/mcp" else 0
            if exchange.method != "prompts/list" or at == hops:
                await server(exchange)
            elif at == 4 and exchange.headers["authorization"] == "Bearer 0":
                await exchange.respond(401, b"", {"WWW-Authenticate": "Own"})
            else:
                await exchange.respond(307, b"", {"Location": f"/{at + 1}"})

        async with serve(answer) as raw, connect(raw, Renewed()) as client:
            assert (await client.list_prompts()).prompts == []

    run(main())


@req("AUTH-2")
def test_each_request_is_signed_and_that_to_the_target_of_a_redirect_too(row: Revision) -> None:
    async def main() -> None:
        server = Mcp(row, LIST)

        async def answer(exchange: Exchange) -> None:
            if exchange.path == "/mcp":
                await exchange.respond(307, b"", {"Location": "/other"})
            else:
                await server(exchange)

        async with serve(answer) as raw:
            async with connect(raw, Signed(), row) as client:
                await client.list_prompts()
            assert {seen.path for seen in raw.seen} == {"/mcp", "/other"}
            for seen in raw.seen:
                wanted = signature(seen.verb, raw.origin + seen.path, seen.body or None)
                assert seen.headers["x-signature"] == wanted
            assert {seen.verb for seen in raw.seen} == (
                {"POST", "GET", "DELETE"} if row.handshake else {"POST"}
            )

    run(main())


def wants(server: Mcp, good: set[str]) -> Any:
    async def answer(exchange: Exchange) -> None:
        if exchange.headers.get("authorization", "").removeprefix("Bearer ") in good:
            await server(exchange)
        else:
            await exchange.respond(401, b"the token is stale", {"WWW-Authenticate": "Own"})

    return answer


@req("AUTH-2")
def test_a_refused_request_is_sent_again_with_other_headers(row: Revision) -> None:
    async def main() -> None:
        good = {"0"}
        async with serve(wants(Mcp(row, LIST), good)) as raw:
            auth = Renewed()
            async with connect(raw, auth, row) as client:
                await client.list_prompts()
                good.clear()
                good.add("1")
                await client.list_prompts()
                _, first, again = raw.asked(method="prompts/list")
                assert first.body == again.body
                good.clear()
                with pytest.raises(mcprev.TokenRejected, match="the token is stale") as caught:
                    await client.list_prompts()
                assert isinstance(caught.value.__cause__, mcprev.HttpStatusError)
                assert caught.value.__cause__.status == 401
                assert len(raw.asked(method="prompts/list")) == 5
            assert {status for _, status, _ in auth.seen} >= {200, 401}
            if row.handshake:
                assert {asks for method, _, asks in auth.seen if method == "DELETE"} == {False}

    run(main())


@req("AUTH-22", everywhere=True)
@pytest.mark.parametrize("status", [200, 401])
def test_no_request_is_sent_again_and_again(status: int) -> None:
    async def main() -> None:
        async with serve(wants(Mcp(LATEST), {""} if status == 200 else set())) as raw:
            if status == 200:
                async with connect(raw, Stubborn()):
                    pass
            else:
                with pytest.raises(mcprev.TokenRejected, match="stale"):
                    await connect(raw, Stubborn())
            assert len(raw.seen) == MAX_RETRIES + 1

    run(main())


@req("AUTH-22", everywhere=True)
def test_whoever_forgets_the_retries_is_stopped_all_the_same() -> None:
    class Forgetful(Stubborn):
        def retry(self, request: mcprev.AuthorizedRequest, status: int, headers: object) -> bool:
            request.retries = 0
            return True

    async def main() -> None:
        async with serve(Mcp(LATEST)) as raw:
            async with connect(raw, Forgetful()):
                pass
            assert len(raw.seen) == MAX_RETRIES + 1

    run(main())


@req("AUTH-2", everywhere=True)
@pytest.mark.parametrize(
    ("answer", "ends"),
    [
        (True, None),
        (False, mcprev.TokenRejected),
        (None, mcprev.TokenRejected),
        ("yes", mcprev.AuthError),
        (1, mcprev.AuthError),
    ],
)
@pytest.mark.parametrize("is_async", [False, True])
def test_a_retry_may_be_async_and_only_true_sends_again(
    answer: object, ends: type[Exception] | None, *, is_async: bool
) -> None:
    class Decided(Renewed):
        def retry(self, request: mcprev.AuthorizedRequest, status: int, headers: object) -> Any:
            async def later() -> object:
                return found

            found = answer if status == 401 else False
            return later() if is_async else found

    async def main() -> None:
        async with serve(wants(Mcp(LATEST, LIST), {"1"})) as raw:
            with nullcontext() if ends is None else pytest.raises(ends):
                async with connect(raw, Decided()) as client:
                    await client.list_prompts()

    run(main())


class Faulty(Renewed):
    """Raises what a test wants."""

    def __init__(self, where: str, error: Exception) -> None:
        super().__init__()
        self.where = ""
        self.breaks = where
        self.error = error

    async def headers(self, request: mcprev.AuthorizedRequest) -> dict[str, str]:
        if self.where == "headers":
            raise self.error
        return await super().headers(request)

    def retry(self, request: mcprev.AuthorizedRequest, status: int, headers: CIMultiDictProxy[str]) -> bool:
        if self.where == "retry":
            raise self.error
        return super().retry(request, status, headers)


@pytest.mark.parametrize("where", ["headers", "retry"])
@req("AUTH-2", "ERR-5", at=(D, E))
def test_an_error_fails_the_call_alone_and_shows_no_secret(row: Revision, where: str) -> None:
    async def main() -> None:
        async with serve(wants(Mcp(row, LIST), {"0"})) as raw:
            auth = Faulty(where, OSError("s3cret"))
            async with connect(raw, auth, row) as client:
                auth.where = where
                with pytest.raises(mcprev.AuthError, match="OSError") as caught:
                    await client.list_prompts()
                assert "s3cret" not in str(caught.value)
                auth.error = mcprev.TokenRejected("no more")
                with pytest.raises(mcprev.TokenRejected, match="no more"):
                    await client.list_prompts()
                auth.where = ""
                await client.list_prompts()

    run(main())


@req("AUTH-2", "ERR-5", at=(D, E))
def test_a_login_that_somebody_else_cancels_fails_the_call_at_once(row: Revision) -> None:
    class Waiting(Signed):
        login: asyncio.Future[None] | None = None

        async def headers(self, request: mcprev.AuthorizedRequest) -> dict[str, str]:
            if self.login is not None:
                self.login.cancel()
                await self.login
            return await super().headers(request)

    async def main() -> None:
        async with serve(Mcp(row, LIST)) as raw:
            auth = Waiting()
            async with connect(raw, auth, row) as client:
                auth.login = asyncio.get_running_loop().create_future()
                with pytest.raises(mcprev.AuthError, match="cancelled"):
                    await client.list_prompts()
                auth.login = None
                assert (await client.list_prompts()).prompts == []

    run(main())


@pytest.mark.parametrize("wrong", [None, {"X-Number": 1}, {1: "a"}], ids=repr)
@req("AUTH-2", "ERR-5", at=(D, E))
def test_headers_of_wrong_types_fail_each_request_and_nothing_else(row: Revision, wrong: Any) -> None:
    class Forgetful(Signed):
        good = True

        async def headers(self, request: mcprev.AuthorizedRequest) -> dict[str, str]:
            return await super().headers(request) if self.good else wrong

    async def main() -> None:
        async with serve(Mcp(row, LIST)) as raw:
            auth = Forgetful()
            async with connect(raw, auth, row) as client:
                auth.good = False
                with pytest.raises(mcprev.AuthError, match=r"AttributeError|TypeError"):
                    await client.list_prompts()
            # The request that ends the session failed too, and the client is closed all the same.
            assert not [seen for seen in raw.seen if seen.verb == "DELETE"]

    run(main())


@req("AUTH-2", at=E)
def test_a_retry_that_returns_nothing_leaves_the_response_to_the_caller() -> None:
    class Silent(Signed):
        def retry(self, request: object, status: int, headers: object) -> bool:
            return cast("bool", None)

    async def main() -> None:
        async with serve(Mcp(LATEST, LIST)) as raw, connect(raw, Silent()) as client:
            assert (await client.list_prompts()).prompts == []

    run(main())


@req("AUTH-2", at=E)
def test_a_refusal_of_ones_own_token_is_an_error_of_authorization_that_says_what_to_do() -> None:
    class Expired(mcprev.Authorization):
        async def headers(self, request: mcprev.AuthorizedRequest) -> dict[str, str]:
            return {"Authorization": "Bearer expired"}

    async def main() -> None:
        app = mcprev.App("shop", "1", auth=mcprev.StaticTokens({"valid": "ann"}))
        async with aiohttp.ClientSession(connector=(there := InProcess(app.asgi()))) as session:
            target = mcprev.http(f"{there.origin}/mcp", auth=Expired(), session=session)
            with pytest.raises(
                mcprev.TokenRejected, match=r"^HTTP 401: .*Replace it, or pass another `auth`"
            ) as caught:
                await mcprev.connect(target)
            assert "expired;" not in str(caught.value)
            assert isinstance(caught.value.__cause__, mcprev.InvalidRequest)

    run(main())


@pytest.mark.parametrize("header", [{"X Y": "a"}, {"X-Y": "a\r\nb: c"}])
@req("AUTH-2", at=E)
def test_what_no_header_can_carry_is_not_sent(header: Mapping[str, str]) -> None:
    class Wrong(mcprev.Authorization):
        async def headers(self, request: mcprev.AuthorizedRequest) -> Mapping[str, str]:
            return header

    async def main() -> None:
        async with serve(Mcp(LATEST)) as raw:
            with pytest.raises(mcprev.LocalProtocolError, match="header"):
                await connect(raw, Wrong())
            assert raw.seen == []

    run(main())


@req("AUTH-2", at=E)
def test_the_headers_of_the_protocol_stay_and_those_of_the_user_are_replaced() -> None:
    class Own(mcprev.Authorization):
        async def headers(self, request: mcprev.AuthorizedRequest) -> dict[str, str]:
            return {"mcp-method": "mine", "authorization": "Bearer own"}

    async def main() -> None:
        async with serve(Mcp(LATEST)) as raw:
            target = mcprev.http(raw.url, auth=Own(), headers={"Authorization": "Bearer first"})
            async with mcprev.connect(target, mode=E):
                assert raw.seen[0].headers["mcp-method"] == "server/discover"
                assert raw.seen[0].headers["authorization"] == "Bearer own"

    run(main())


@req("AUTH-2", at=E)
def test_it_can_refuse_a_server() -> None:
    class Picky(Signed):
        def bind(self, url: str, session: object) -> Signed:
            if not url.startswith("https:"):
                raise ValueError("not there")
            return Signed()

    with pytest.raises(ValueError, match="not there"):
        mcprev.http("http://example.com/mcp", auth=Picky())


@req("AUTH-22", "TIME-1", at=(D, E))
def test_timeouts_pause_when_it_waits_for_a_user(row: Revision) -> None:
    class Asking(Renewed):
        pauses = True

        async def headers(self, request: mcprev.AuthorizedRequest) -> dict[str, str]:
            if request.retries and b"prompts/list" in (request.body or b""):
                with request.pausing() if self.pauses else nullcontext():
                    pass_time(100)
                    await asyncio.sleep(0.01)
            return await super().headers(request)

    async def main() -> None:
        good = {"0"}
        async with serve(wants(Mcp(row, LIST), good)) as raw:
            auth = Asking()
            async with connect(raw, auth, row, timeout=20, total_timeout=20) as client:
                await client.list_prompts()
                good.clear()
                good.update("123456789")
                await client.list_prompts()
                good.clear()
                auth.pauses = False
                with pytest.raises(mcprev.RequestTimeout):
                    await client.list_prompts()

    run(main(), limit=400)


@pytest.mark.slow
@req("AUTH-2", at=E)
def test_only_who_uses_a_login_loads_it() -> None:
    script = """
import sys
import mcprev
mcprev.http("https://example.com/mcp", auth=mcprev.Authorization())
assert not [name for name in sys.modules if name.startswith("mcprev.auth.client")]
"""
    subprocess.run([sys.executable, "-c", script], check=True)
