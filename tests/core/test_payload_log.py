"""What the log shows of messages: nothing unless it is asked for, and no secrets even then (SEC-6)."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Iterator

import pytest
from hypothesis import given, strategies as st

import mcprev
from helpers.requirements import req
from helpers.running import run
from mcprev.revisions import DEFAULT, Revision
from mcprev.wire.payloads import MOST, payloads, redacted
from mcprev_types.latest import models as m

ARGUMENT = "name of a patient"
EVERY = pytest.mark.parametrize("row", DEFAULT, ids=[row.name for row in DEFAULT])


class Echo(mcprev.ServerHandler):
    async def call_tool(self, ctx: mcprev.Context, params: m.CallToolRequestParams) -> m.CallToolResult:
        await ctx.log("error", params.arguments)
        return m.CallToolResult(content=[m.TextContent(text=str(params.arguments))])


@pytest.fixture
def asked() -> Iterator[None]:
    """Payloads are asked for."""
    before = payloads.level
    payloads.setLevel(logging.DEBUG)
    yield
    payloads.setLevel(before)


def talk(row: Revision) -> None:
    """Call a tool in the process, so that both roles log."""

    async def main() -> None:
        server = mcprev.Server(Echo(), "echo", "1")
        async with mcprev.connect(mcprev.memory(server), mode=row.name) as client:
            given = {
                "name": ARGUMENT,
                "access_token": "abcdefgh",
                "note": "Authorization: Bearer ijklmnopqrst",
            }
            result = await client.call_tool("echo", given)
            assert ARGUMENT in str(result)

    run(main())


@req("SEC-6")
@EVERY
def test_debug_logs_of_neither_role_show_arguments(row: Revision, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG), caplog.at_level(logging.DEBUG, logger="mcprev"):
        talk(row)
    assert caplog.records
    assert ARGUMENT not in caplog.text
    assert "abcdefgh" not in caplog.text


@req("SEC-6")
@EVERY
@pytest.mark.usefixtures("asked")
def test_payloads_are_logged_by_both_roles_where_they_are_asked_for(
    row: Revision, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG, logger="mcprev.payloads"):
        talk(row)
    for role in ("mcprev.client", "mcprev.server"):
        said = [record.getMessage() for record in caplog.records if record.getMessage().startswith(role)]
        assert any(ARGUMENT in text for text in said)
    assert {record.name for record in caplog.records if ARGUMENT in record.getMessage()} == {
        "mcprev.payloads"
    }
    sent = [text for text in caplog.messages if "tools/call" in text]
    assert sent
    assert not any("abcdefgh" in text or "ijklmnopqrst" in text for text in sent)


@pytest.mark.slow
@req("SEC-6", everywhere=True)
def test_a_level_that_was_set_before_is_left_alone() -> None:
    code = (
        "import logging, sys\n"
        "logging.getLogger('mcprev.payloads').setLevel(int(sys.argv[1]))\n"
        "import mcprev.server.server\n"
        "print(logging.getLogger('mcprev.payloads').level)"
    )
    for given_, found in ((logging.DEBUG, logging.DEBUG), (logging.NOTSET, logging.WARNING)):
        done = subprocess.run([sys.executable, "-c", code, str(given_)], capture_output=True, check=True)
        assert int(done.stdout) == found


@req("SEC-6", everywhere=True)
@given(
    st.sampled_from(
        [
            "access_token",
            "refreshToken",
            "api_key",
            "my-password",
            "client_secret",
            "Authorization",
            "X-API-Key",
            "clientSecret",
            "dbPassword",
            "authToken",
            "credentials",
            "private-key",
        ]
    ),
    st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=9),
    st.sampled_from(['{"%s":"%s"}', '{"a":{"%s" : "%s"}}', '{"%s":"\\"%s"}', '{"%s":"%s']),
)
def test_values_of_members_that_are_named_like_secrets_are_left_out(name: str, value: str, form: str) -> None:
    secret = "§".join(value)
    text = redacted((form % (name, secret)).encode())
    assert name in text
    assert repr(secret.encode())[2:-1] not in text


@req("SEC-6", everywhere=True)
@pytest.mark.parametrize("name", ["progressToken", "maxTokens", "token_type", "secretary", "cursor"])
def test_other_members_are_shown(name: str) -> None:
    assert "value" in redacted(b'{"%s":"value"}' % name.encode())


@req("SEC-6", everywhere=True)
def test_long_messages_are_cut_and_a_secret_on_the_edge_is_not_shown() -> None:
    assert len(redacted(b"x" * 10 * MOST)) <= MOST + 10
    assert "secret" not in redacted(b" " * (MOST - 30) + b'{"password":"' + b"secret" * 10 * MOST)
