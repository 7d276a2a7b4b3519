"""The verifiers of tokens: JSON Web Tokens by the issuer's keys, and introspection, against servers on this machine."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, cast

import aiohttp
import pytest
from aiohttp import web

import mcprev
from api.transports import http
from helpers.named import ROW_D, ROW_E
from helpers.running import run, until
from mcprev.auth.verifiers import COOLDOWN, LEEWAY, MAX_AGE, MAX_BODY, MAX_KEYS
from mcprev.errors import TokenRejected

jwk = pytest.importorskip("joserfc.jwk")
jwt = pytest.importorskip("joserfc.jwt")

ISSUER: Final = "https://as.example"
HERE: Final = "https://mcp.example/mcp"
KEY: Final = jwk.ECKey.generate_key("P-256", {"kid": "one"})
RSA: Final = jwk.RSAKey.generate_key(2048, {"kid": "two"})
FOREIGN: Final = jwk.ECKey.generate_key("P-256", {"kid": "one"})
SECRET: Final = jwk.OctKey.generate_key(256, {"kid": "secret"})
NOW: Final = 1_000_000.0


class Endpoint:
    """Answers with what it is told."""

    def __init__(self, answer: object) -> None:
        self.answer = answer
        self.status = 200
        self.asked: list[tuple[str | None, Mapping[str, Any]]] = []
        self.open = asyncio.Event()
        self.open.set()

    async def respond(self, request: web.Request) -> web.Response:
        self.asked.append((request.headers.get("authorization"), dict(await request.post())))
        await self.open.wait()
        if isinstance(self.answer, str):
            raise web.HTTPTemporaryRedirect(self.answer)
        if isinstance(self.answer, bytes):
            return web.Response(body=self.answer, status=self.status)
        return web.json_response(self.answer, status=self.status)


@asynccontextmanager
async def served(endpoint: Endpoint) -> AsyncGenerator[str, None]:
    app = web.Application()
    app.router.add_route("*", "/x", endpoint.respond)
    runner = web.AppRunner(app, shutdown_timeout=1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/x"
    finally:
        await runner.cleanup()


def public(*keys: Any) -> dict[str, Any]:
    return {"keys": [key.as_dict(private=False) for key in keys]}


def token(key: Any = KEY, alg: str = "ES256", header: Mapping[str, Any] | None = None, **claims: Any) -> str:
    said = {
        "iss": ISSUER, "sub": "ann", "aud": HERE, "scope": "a b", "client_id": "c", "exp": int(NOW) + 600, **claims,
    }  # fmt: skip
    head = {"alg": alg, "kid": key.kid} if header is None else {"alg": alg, **header}
    return str(
        jwt.encode(
            head, {name: value for name, value in said.items() if value is not None}, key, algorithms=[alg]
        )
    )


class Clock:
    """The time since 1970; the clock of `steady` is another."""

    now = NOW

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def steady(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock that is never set."""
    clock = Clock()
    monkeypatch.setattr("mcprev.auth.verifiers.monotonic", clock)
    return clock


async def judged(verify: Any, text: str) -> mcprev.Access | None:
    """What a verifier says: the content of a token, or None for one that it refuses."""
    with contextlib.suppress(mcprev.InvalidToken):
        return cast("mcprev.Access", await verify(text))
    return None


def verified(text: str, keys: object = None) -> mcprev.Access | None:
    async def main() -> mcprev.Access | None:
        endpoint = Endpoint(public(KEY, RSA) if keys is None else keys)
        async with served(endpoint) as url:
            return await judged(mcprev.JwtVerifier(url, issuer=ISSUER, clock=Clock()), text)

    return run(main())


@pytest.mark.parametrize(
    "text",
    [token(), token(RSA, "RS256"), token(header={}), token(scope=None, scp=["a", "b"])],
    ids=["EC", "RSA", "no kid", "scp"],
)
def test_a_token_of_the_issuer_is_read(text: str) -> None:
    found = verified(text)
    assert found is not None
    assert (found.subject, found.audience, sorted(found.scopes)) == ("ann", (HERE,), ["a", "b"])
    assert (found.client_id, found.expires) == ("c", NOW + 600 + LEEWAY)
    assert found.claims["iss"] == ISSUER


@pytest.mark.parametrize(
    "text",
    [
        token(iss="https://other.example"), token(iss=None), token(sub=None), token(exp=None), token(sub=4),
        token(exp=10**400), token(exp=int(NOW) - 120), token(nbf=int(NOW) + 120), token(FOREIGN), token(scope=4),
        token(SECRET, "HS256"), token(SECRET, "HS256", header={"kid": "one"}), "x", "a.b.c", token()[:-8] + "AAAAAAAA",
    ],
)  # fmt: skip
def test_any_other_token_is_invalid(text: str) -> None:
    assert verified(text, public(KEY, RSA)) is None


@pytest.mark.parametrize(
    ("text", "good"),
    [
        (token(exp=int(NOW) - LEEWAY + 1), True), (token(exp=int(NOW) - LEEWAY - 1), False),
        (token(nbf=int(NOW) + LEEWAY), True), (token(nbf=int(NOW) + LEEWAY + 1), False),
    ],
)  # fmt: skip
def test_clocks_may_differ_a_little(text: str, good: bool) -> None:
    assert (verified(text) is not None) is good


def test_only_the_algorithms_of_the_author_are_accepted() -> None:
    async def main() -> None:
        async with served(Endpoint(public(KEY, RSA))) as url:
            verify = mcprev.JwtVerifier(url, issuer=ISSUER, clock=Clock(), algorithms=["RS256"])
            assert await judged(verify, token(RSA, "RS256"))
            assert await judged(verify, token(RSA, "PS256")) is None
            assert await judged(verify, token()) is None

    run(main())


def test_as_many_keys_as_the_limit_are_read() -> None:
    others: list[dict[str, str]] = [{}] * (MAX_KEYS - 1)
    assert verified(token(), {"keys": [*others, *public(KEY)["keys"]]})


def test_the_client_is_named_by_either_claim() -> None:
    found = verified(token(client_id=None, azp="d"))
    assert found is not None
    assert found.client_id == "d"


def test_secrets_and_unknown_keys_in_the_set_are_left_out() -> None:
    keys = {"keys": [{"kty": "new"}, SECRET.as_dict(), *public(KEY)["keys"]]}
    assert verified(token(), keys) is not None
    assert verified(token(SECRET, "HS256"), keys) is None


def test_keys_are_kept_and_read_again_when_they_are_old_or_one_is_unknown(steady: Clock) -> None:
    async def main() -> None:
        endpoint = Endpoint(public(KEY))
        async with served(endpoint) as url, aiohttp.ClientSession() as session:
            verify = mcprev.JwtVerifier(url, issuer=ISSUER, clock=Clock(), session=session)
            assert all(await asyncio.gather(*(judged(verify, token()) for _ in range(3))))
            assert len(endpoint.asked) == 1
            endpoint.answer = public(KEY, RSA)
            assert await judged(verify, token(RSA, "RS256")) is None
            steady.now += COOLDOWN
            assert await judged(verify, token(RSA, "RS256"))
            assert len(endpoint.asked) == 2
            steady.now += MAX_AGE
            endpoint.answer = public(RSA)
            assert await judged(verify, token()) is None
            assert len(endpoint.asked) == 3

    run(main())


@pytest.mark.parametrize("step", [-1e9, -MAX_AGE, -1.0, MAX_AGE, 1e9])
def test_the_age_of_keys_does_not_depend_on_the_time_of_day(step: float, steady: Clock) -> None:
    """The clock is set: new keys are read no later and no more often than else, also where reading failed."""

    async def main() -> None:
        endpoint, clock = Endpoint(public(KEY)), Clock()
        async with served(endpoint) as url, aiohttp.ClientSession() as session:
            verify = mcprev.JwtVerifier(url, issuer=ISSUER, clock=clock, session=session)
            assert await judged(verify, token())
            clock.now += step
            later = int(clock.now) + 600
            assert await judged(verify, token(exp=later))
            assert len(endpoint.asked) == 1
            endpoint.answer = public(RSA)
            steady.now += COOLDOWN
            assert await judged(verify, token(RSA, "RS256", exp=later))
            endpoint.status = 500
            steady.now += MAX_AGE
            with pytest.raises(ValueError, match="status 500"):
                await verify(token(RSA, "RS256", exp=later))
            clock.now -= step
            endpoint.status = 200
            with pytest.raises(ValueError, match="a moment ago"):
                await verify(token(RSA, "RS256", exp=later))
            steady.now += COOLDOWN
            clock.now += step
            assert await judged(verify, token(RSA, "RS256", exp=later))

    run(main())


def test_nobody_waits_for_keys_that_are_read_for_the_token_of_another(steady: Clock) -> None:
    """A token with an unknown key costs its sender alone, also one that does not wait for the answer."""

    async def main() -> None:
        endpoint = Endpoint(public(KEY))
        async with served(endpoint) as url, aiohttp.ClientSession() as session:
            verify = mcprev.JwtVerifier(url, issuer=ISSUER, clock=Clock(), session=session)
            assert await judged(verify, token())
            steady.now += COOLDOWN
            endpoint.answer = public(KEY, RSA)
            endpoint.open.clear()
            impatient, patient = (asyncio.create_task(verify(token(RSA, "RS256"))) for _ in range(2))
            await until(lambda: len(endpoint.asked) == 2)
            assert await judged(verify, token())
            impatient.cancel()
            await asyncio.wait({impatient})
            endpoint.open.set()
            assert (await patient).subject == "ann"
            assert len(endpoint.asked) == 2

    run(main())


ENCRYPTING: Final = jwk.ECKey.generate_key("P-256", {"kid": "enc", "use": "enc"})


@pytest.mark.parametrize(
    ("key", "alg"), [(SECRET, "HS256"), (ENCRYPTING, "ES256")], ids=["secret", "encrypts"]
)
def test_a_key_that_is_not_for_signatures_of_the_issuer_verifies_nothing(key: Any, alg: str) -> None:
    """A key that is published is no secret: whoever reads it could sign, where the author allows the algorithm."""

    async def main() -> None:
        async with served(Endpoint({"keys": [key.as_dict(private=True)]})) as url:
            verify = mcprev.JwtVerifier(url, issuer=ISSUER, clock=Clock(), algorithms=["ES256"])
            signed = jwt.encode(
                {"alg": alg, "kid": key.kid},
                {"iss": ISSUER, "sub": "ann", "aud": HERE, "exp": int(NOW) + 600},
                jwk.ECKey.import_key({**key.as_dict(private=True), "use": "sig"}) if alg == "ES256" else key,
                algorithms=[alg],
            )
            assert await judged(verify, str(signed)) is None

    run(main())


def test_redirects_of_keys_and_of_introspection_are_not_followed() -> None:
    """The credentials of the server are for the URL that the author set."""

    async def main() -> None:
        target = Endpoint({**public(KEY), "active": True, "sub": "ann", "aud": HERE})
        async with served(target) as there, served(Endpoint(there)) as url:
            for verify in (
                mcprev.JwtVerifier(url, issuer=ISSUER, clock=Clock()),
                mcprev.IntrospectionVerifier(url, "me", "p"),
            ):
                with pytest.raises(ValueError, match="status 307"):
                    await verify(token())
        assert target.asked == []

    run(main())


UNUSABLE: Final[list[tuple[object, int]]] = [
    (b"{", 200), ([], 200), ({"keys": 3}, 200), ({}, 200), (b"x" * (MAX_BODY + 1), 200), ({"keys": []}, 500),
    ({"keys": [{}] * (MAX_KEYS + 1)}, 200),
]  # fmt: skip


@pytest.mark.parametrize(("answer", "status"), UNUSABLE)
def test_keys_that_cannot_be_read_are_no_verdict(answer: object, status: int) -> None:
    async def main() -> None:
        endpoint = Endpoint(answer)
        endpoint.status = status
        async with served(endpoint) as url:
            with pytest.raises(ValueError, match=r"returned|is not a JSON Web Key Set|Expecting"):
                await mcprev.JwtVerifier(url, issuer=ISSUER)(token())

    run(main())


def test_keys_that_cannot_be_read_are_asked_for_once_in_a_while(steady: Clock) -> None:
    """However many requests wait for them, each of which would wait for the ones before."""

    async def main() -> None:
        endpoint = Endpoint(public(KEY))
        endpoint.status = 500
        async with served(endpoint) as url, aiohttp.ClientSession() as session:
            verify = mcprev.JwtVerifier(url, issuer=ISSUER, clock=Clock(), session=session)
            failed = await asyncio.gather(*(verify(token()) for _ in range(3)), return_exceptions=True)
            assert [type(each) for each in failed] == [ValueError] * 3
            assert len(endpoint.asked) == 1
            endpoint.status = 200
            steady.now += COOLDOWN
            assert await judged(verify, token())

    run(main())


def asked(answer: object, *, status: int = 200, **options: Any) -> tuple[mcprev.Access | None, Endpoint]:
    async def main() -> tuple[mcprev.Access | None, Endpoint]:
        endpoint = Endpoint(answer)
        endpoint.status = status
        async with served(endpoint) as url:
            verify = mcprev.IntrospectionVerifier(url, "me", "p w", **options)
            return await judged(verify, "the-token"), endpoint

    return run(main())


ACTIVE: Final = {
    "active": True,
    "sub": "ann",
    "aud": [HERE],
    "scope": "a b",
    "exp": 5,
    "client_id": "c",
    "iss": ISSUER,
}


def test_the_authorization_server_is_asked_about_a_token_with_our_credentials() -> None:
    found, endpoint = asked(ACTIVE)
    assert found is not None
    assert (found.subject, found.audience, sorted(found.scopes)) == ("ann", (HERE,), ["a", "b"])
    assert (found.expires, found.client_id) == (5, "c")
    credentials = aiohttp.encode_basic_auth("me", "p+w")
    assert endpoint.asked == [(credentials, {"token": "the-token", "token_type_hint": "access_token"})]


@pytest.mark.parametrize(
    ("answer", "options"),
    [
        ({"active": False}, {}), ({}, {}), ({**ACTIVE, "active": "true"}, {}), ({**ACTIVE, "sub": 4}, {}),
        ({**ACTIVE, "iss": "https://other.example"}, {"issuer": ISSUER}),
        ({**ACTIVE, "typ": "Refresh"}, {}), ({**ACTIVE, "typ": "ID"}, {}), ({**ACTIVE, "at_hash": "x"}, {}),
        ({**ACTIVE, "scope": {"admin": False}}, {}), ({**ACTIVE, "scp": {"admin": False}}, {}),
        ({**ACTIVE, "aud": {HERE: False}}, {}), ({**ACTIVE, "aud": {HERE: False}}, {"audience": HERE}),
        ({**ACTIVE, "aud": [[HERE]]}, {}), ({**ACTIVE, "exp": "5"}, {}), ({**ACTIVE, "client_id": {"c": 1}}, {}),
    ],
)  # fmt: skip
def test_a_token_that_is_not_active_is_invalid(answer: object, options: Any) -> None:
    assert asked(answer, **options)[0] is None


def test_an_issuer_that_is_not_said_is_not_compared() -> None:
    bare = {name: value for name, value in ACTIVE.items() if name != "iss"}
    assert asked(bare, issuer=ISSUER)[0]


def test_the_audience_is_assumed_only_where_the_author_says_so() -> None:
    bare = {"active": True, "client_id": "c"}
    found, _ = asked(bare)
    assert found is not None
    assert (found.subject, found.audience, found.audience_checked) == ("c", (), False)
    found, _ = asked(bare, assume_audience=True)
    assert found is not None
    assert found.audience_checked
    assert asked(bare, audience="api://shop")[0] is None
    found, _ = asked({**bare, "aud": "api://other"}, assume_audience=True)
    assert found is not None
    assert not found.audience_checked
    found, _ = asked({**bare, "aud": ["x", "api://shop"]}, audience="api://shop")
    assert found is not None
    assert found.audience_checked


def test_an_endpoint_that_refuses_us_gives_no_verdict() -> None:
    with pytest.raises(ValueError, match="returned status 401"):
        asked({"error": "invalid_client"}, status=401)


@pytest.mark.parametrize("url", ["http://as.example/x", "as.example", "ftp://as.example"])
def test_a_url_that_others_can_read_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="is neither an https URL nor one of this machine"):
        mcprev.IntrospectionVerifier(url, "a", "b")
    with pytest.raises(ValueError, match="is neither an https URL nor one of this machine"):
        mcprev.JwtVerifier(url, issuer=ISSUER)


@pytest.mark.parametrize("row", [ROW_D, ROW_E], ids=lambda row: row.name)
def test_a_server_lets_in_who_has_a_token(row: Any) -> None:
    app = mcprev.App("a", "1")

    @app.tool
    async def who(ctx: mcprev.Context) -> str:
        return str(ctx.principal)

    async def main() -> None:
        async with served(Endpoint(public(KEY))) as url:
            verify = mcprev.JwtVerifier(url, issuer=ISSUER)
            auth = mcprev.Bearer(verify, resource=HERE, authorization_servers=[ISSUER])
            good = {"authorization": f"Bearer {token(exp=int(time.time()) + 600)}"}
            bad = {
                "authorization": f"Bearer {token(aud='https://other.example', exp=int(time.time()) + 600)}"
            }
            async with http(auth=auth)(app.server, row) as target:
                assert isinstance(target, mcprev.http)
                for headers in (good, bad):
                    async with aiohttp.ClientSession(headers=headers) as session:
                        to = mcprev.http(target.url, session=session)
                        if headers is bad:
                            with pytest.raises(TokenRejected):
                                await mcprev.connect(to, mode=row.name)
                            continue
                        async with mcprev.connect(to, mode=row.name) as client:
                            result = await client.call_tool("who", {})
                            assert result.to_wire()["content"] == [{"type": "text", "text": "ann"}]

    run(main())


@pytest.mark.slow
def test_without_joserfc_the_extra_is_named() -> None:
    code = "import sys; sys.modules['joserfc'] = None; import mcprev; mcprev.JwtVerifier('https://x', issuer='https://x')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "mcprev[jwt]" in done.stderr
