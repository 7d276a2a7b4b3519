"""Logins of machines without a browser (RFC 8628): when the server is asked, what is shown, and how it ends."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any, Final

import pytest

import mcprev
from auth.test_client_discovery import ISSUER, URL, place
from auth.world import World, form, world
from helpers.raw_server import Exchange, text
from helpers.requirements import req
from helpers.running import run
from mcprev.auth.client import device
from mcprev.auth.client.steps import HttpFetch, HttpReply, Pause, ShowCode
from mcprev.auth.client.store import Registration
from mcprev.revisions import DEFAULT, Revision

ROW: Final = DEFAULT[-1]
SECURED: Final = [row for row in DEFAULT if row.auth is not None]
at_each = pytest.mark.parametrize("row", SECURED, ids=lambda row: row.name)
CODE: Final = {
    "device_code": "hidden-device-code", "user_code": "WDJB-MJHT", "verification_uri": "https://auth.example/device",
    "expires_in": 60, "interval": 5,
}  # fmt: skip
DONE: Final = {"access_token": "t", "token_type": "bearer"}
PENDING: Final = {"error": "authorization_pending"}
SLOW: Final = {"error": "slow_down"}


class Machine:
    """Carries the flow out with answers in order, on a clock of its own."""

    def __init__(self, code: dict[str, Any], answers: Iterator[object]) -> None:
        self.now = 1000.0
        self.asked: list[float] = []
        self.shown: list[mcprev.DeviceCode] = []
        self._code, self._answers = code, answers

    def log_in(self, client: Registration | None = None, **options: Any) -> Any:
        at = place(ROW, device_endpoint=f"{ISSUER}/device")
        work = device.device_login(at, client or Registration("me"), ("a", "b"), lambda: self.now, **options)
        step = next(work)
        try:
            while True:
                answer: Any = ""
                match step:
                    case Pause(seconds):
                        self.now += seconds
                    case ShowCode(code):
                        self.shown.append(code)
                    case HttpFetch(url) if url.endswith("/device"):
                        assert step.body is not None
                        assert b"scope=a+b" in step.body
                        assert f"resource={URL}".encode() in step.body.replace(b"%3A", b":").replace(
                            b"%2F", b"/"
                        )
                        answer = HttpReply(200, json.dumps(self._code).encode())
                    case HttpFetch():
                        self.asked.append(self.now - 1000)
                        found = next(self._answers)
                        status = found if isinstance(found, int) else 400 if "error" in str(found) else 200
                        answer = HttpReply(status, json.dumps(found).encode())
                    case _:
                        raise AssertionError(step)
                step = work.send(answer)
        except StopIteration as done:
            return done.value


@pytest.mark.parametrize(
    ("code", "answers", "asked"),
    [
        ({}, [PENDING, PENDING, DONE], [5, 10, 15]),
        ({"interval": 2}, [PENDING, DONE], [2, 4]),
        ({"interval": "2"}, [PENDING, DONE], [2, 4]),
        ({"interval": None}, [PENDING, DONE], [5, 10]),
        ({"interval": 0}, [PENDING, DONE], [5, 10]),
        ({"interval": 0.001}, [PENDING, DONE], [1, 2]),
        ({"interval": -3}, [PENDING, DONE], [5, 10]),
        ({}, [SLOW, PENDING, SLOW, DONE], [5, 15, 25, 40]),
        ({}, [503, 429, 0, DONE], [5, 15, 30, 50]),
    ],
)
@req("AUTH-18", everywhere=True)
def test_when_the_server_is_asked(code: dict[str, Any], answers: list[object], asked: list[float]) -> None:
    machine = Machine({**CODE, **code}, iter(answers))
    assert machine.log_in().access_token == "t"
    assert machine.asked == asked
    assert machine.shown == [mcprev.DeviceCode("WDJB-MJHT", "https://auth.example/device", None, 60)]


@pytest.mark.parametrize(
    ("lasts", "longest", "asked", "ends"),
    [(12, 3600, 2, 12), (3, 3600, 0, 3), (900, 30, 5, 30), (None, 3600, 719, 3600), (1e9, 3600, 719, 3600)],
)
@req("AUTH-18", "SEC-6", everywhere=True)
def test_a_code_is_asked_about_until_it_expires_and_within_bounds(
    lasts: float | None, longest: float, asked: int, ends: float
) -> None:
    machine = Machine({**CODE, "expires_in": lasts}, iter([PENDING] * 1000))
    with pytest.raises(mcprev.AuthError, match="its code has expired; try again"):
        machine.log_in(longest=longest)
    assert (len(machine.asked), machine.now - 1000) == (asked, ends)


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        ("access_denied", mcprev.AuthorizationDenied, "denied it"),
        ("expired_token", mcprev.AuthorizationDenied, "the code has expired"),
        ("invalid_grant", mcprev.TokenRejected, "invalid_grant"),
        ("unauthorized_client", mcprev.TokenRejected, "unauthorized_client"),
    ],
)
@req("AUTH-18", everywhere=True)
def test_an_answer_that_ends_the_login_is_the_last(error: str, kind: type[Exception], words: str) -> None:
    machine = Machine(CODE, iter([PENDING, {"error": error}]))
    with pytest.raises(kind, match=words) as caught:
        machine.log_in()
    assert "hidden" not in repr(caught.value)


@pytest.mark.parametrize(
    "wrong",
    [
        {"verification_uri": "http://auth.example/device"}, {"verification_uri": "javascript:alert(1)"},
        {"verification_uri": None}, {"verification_uri_complete": "file:///x"}, {"user_code": "a\x1b[2J"},
        {"user_code": "x" * 101}, {"user_code": None}, {"device_code": None},
    ],
)  # fmt: skip
@req("SEC-2", "SEC-6", everywhere=True)
def test_a_code_that_nobody_should_see_is_not_shown(wrong: dict[str, Any]) -> None:
    machine = Machine({**CODE, **wrong}, iter([DONE]))
    with pytest.raises(mcprev.AuthError):
        machine.log_in()
    assert (machine.shown, machine.asked) == ([], [])


@req("AUTH-2", everywhere=True)
def test_codes_are_in_no_representation() -> None:
    code = mcprev.DeviceCode(
        "WDJB-MJHT", "https://a.example/d", "https://a.example/d?user_code=WDJB-MJHT", 60
    )
    assert "WDJB" not in repr(code)


# -- over HTTP ---------------------------------------------------------------------------------------------


def offer(at: World, pending: int) -> list[dict[str, str]]:
    """The server takes codes; the user has entered one after so many questions."""
    at.metadata["device_authorization_endpoint"] = f"{at.issuer}/device"
    for name in ("authorization_endpoint", "code_challenge_methods_supported"):
        del at.metadata[name]
    seen: list[dict[str, str]] = []

    async def begin(exchange: Exchange) -> None:
        seen.append(form(exchange))
        at.log.append("device")
        whole = {"verification_uri_complete": "https://auth.example/device?c=WDJB-MJHT", "interval": 0.001}
        await exchange.json({**CODE, **whole})

    async def tokens(exchange: Exchange) -> None:
        said = form(exchange)
        if said["grant_type"] != device.GRANT:
            await at.token(exchange)
            return
        seen.append(said)
        if len(seen) <= pending + 1:
            await exchange.json(PENDING, 400)
        else:
            await at.give(exchange, *seen[0].get("scope", "").split())

    at.documents[f"{at.issuer}/device"] = begin
    at.tokens = tokens
    return seen


@pytest.fixture(name="at_once")
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers may be asked as often as they allow, which those of `offer` do at once."""
    monkeypatch.setattr(device, "SHORTEST", 0.0)


@pytest.mark.usefixtures("at_once")
@at_each
@req("AUTH-12", "AUTH-18", everywhere=True)
def test_a_user_logs_in_with_a_code(row: Revision, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with world(row, {"tools/call": text("hi")}) as at:
            at.challenge["scope"], at.refreshes = "read", True
            seen, shown, store = offer(at, 2), list[mcprev.DeviceCode](), mcprev.MemoryTokens()

            async def call() -> None:
                auth = mcprev.OAuth(device=shown.append, store=store)
                target = mcprev.http(at.mcp.url, auth=auth)
                async with mcprev.connect(target, revisions=[row.name]) as client:
                    await client.call_tool("any", {})

            await call()
            assert [code.user_code for code in shown] == ["WDJB-MJHT"]
            assert len(seen) == 4, "the code, and three questions"
            assert {said["client_id"] for said in seen} == {"client-1"}
            assert {said["resource"] for said in seen} == {at.mcp.url}
            assert seen[0]["scope"] == "read"
            assert device.GRANT in at.registered[0]["grant_types"]
            at.good.clear()
            await call()
            assert at.log == ["register", "device", "refresh_token"], "the next process needs no login"

    with caplog.at_level("DEBUG"):
        run(main())
    assert "hidden-device-code" not in caplog.text
    assert "WDJB" not in caplog.text


@at_each
@req("AUTH-12", everywhere=True)
def test_a_server_without_codes_says_what_to_do_and_registers_nobody(row: Revision) -> None:
    async def main() -> None:
        async with world(row) as at:
            target = mcprev.http(at.mcp.url, auth=mcprev.OAuth(device=lambda _: None))
            with pytest.raises(
                mcprev.DiscoveryFailed, match="no device authorization endpoint: log in with a browser"
            ):
                await mcprev.connect(target, revisions=[row.name])
            assert at.log == []

    run(main())


@req("SEC-1", everywhere=True)
def test_a_code_is_not_fetched_from_a_private_network() -> None:
    async def main() -> None:
        async with world(ROW) as at:
            offer(at, 0)
            seen: list[str] = []
            auth = mcprev.OAuth(device=lambda code: seen.append(code.user_code), client_id="me")
            target = mcprev.http(at.mcp.url, auth=auth)
            at.metadata["device_authorization_endpoint"] = "http://10.0.0.1:1/device"
            with pytest.raises(mcprev.AuthError, match="not https"):
                await mcprev.connect(target, revisions=[ROW.name])
            assert seen == []

    run(main())


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("how", ["sync", "async", "raises"])
@req("AUTH-11", everywhere=True)
def test_a_code_is_shown_by_any_kind_of_function(how: str) -> None:
    async def main() -> None:
        async with world(ROW) as at:
            offer(at, 0)
            shown: list[str] = []

            def show(code: mcprev.DeviceCode) -> None:
                shown.append(code.user_code)

            async def show_later(code: mcprev.DeviceCode) -> None:
                await asyncio.sleep(0)
                show(code)

            def fail(code: mcprev.DeviceCode) -> None:
                raise KeyError(code.user_code)

            functions: dict[str, Any] = {"sync": show, "async": show_later, "raises": fail}
            target = mcprev.http(at.mcp.url, auth=mcprev.OAuth(device=functions[how]))
            opening = mcprev.connect(target, revisions=[ROW.name])

            async def enter() -> None:
                async with opening:
                    pass

            if how != "raises":
                await enter()
                assert shown == ["WDJB-MJHT"]
                return
            with pytest.raises(mcprev.AuthError, match="`device` raised KeyError") as caught:
                await enter()
            assert "WDJB" not in str(caught.value)

    run(main())


@pytest.mark.parametrize(
    "options", [{"loopback": mcprev.Loopback()}, {"open": 1, "redirect_uri": "http://a/b"}]
)
@req("AUTH-11", everywhere=True)
def test_a_code_and_a_browser_exclude_each_other(options: Any) -> None:
    with pytest.raises(ValueError, match="needs no browser"):
        mcprev.OAuth(device=lambda _: None, **options)
