"""Attacks on what a bridge keeps and shows: tokens of its users, recordings and explanations (SEC-6, AUTH-22)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

from api.wire import Message
from bridge.hands import Downstream, Servers, Upstream, bridge_to, bridged, text
from helpers.requirements import E, req
from helpers.running import run
from mcprev.auth.client.store import MemoryTokens, TokenKey, Tokens
from mcprev.bridge.introduction import Sender
from mcprev.bridge.pair import ConversionReport
from mcprev.bridge.several.logins import PrincipalTokens
from mcprev.bridge.several.sealed import SealedTokens
from mcprev.cli import bridge as command
from mcprev.revisions import DEFAULT, Revision
from mcprev.stores.memory import MemoryRecords

SESSION: Final = [row for row in DEFAULT if row.handshake][-1]
MODERN: Final = DEFAULT[-1]
KEY: Final = TokenKey("https://as.example", "https://a.example/mcp", "me")
TOKENS: Final = Tokens("secret-token", "secret-refresh")
OWNERS: Final[list[tuple[Sender, str]]] = [
    (("ann", "app"), "bank"),
    (("ann", "app"), "files"),
    (("ann", "other"), "bank"),
    (("ann", None), "bank"),
    (("bob", "app"), "bank"),
    (("ann&client=app", ""), "bank"),
    (("ann", "app&server=bank"), ""),
    (("ann ", "app"), "bank"),
    (("", "app"), "bank"),
]
"""Who may have tokens at which server; the first one has some."""


@req("SEC-7", "AUTH-22", everywhere=True)
@pytest.mark.parametrize(("sender", "server"), OWNERS[1:], ids=repr)
def test_tokens_of_one_server_user_and_client_are_none_of_another(sender: Sender, server: str) -> None:
    async def main() -> None:
        store = MemoryTokens()
        await PrincipalTokens(store, *OWNERS[0]).keep_tokens(KEY, TOKENS)
        other = PrincipalTokens(store, sender, server)
        assert await other.tokens(KEY) is None
        await other.keep_tokens(KEY, None)
        assert await PrincipalTokens(store, *OWNERS[0]).tokens(KEY) == TOKENS
        assert (
            await PrincipalTokens(store, *OWNERS[0]).tokens(KEY._replace(resource="https://b.example/mcp"))
            is None
        )

    run(main())


@req("SEC-7", "AUTH-22", everywhere=True)
def test_sealed_tokens_that_are_moved_or_changed_in_the_store_do_not_open() -> None:
    """Whoever writes to the store gives no user the tokens of another one."""

    class Seen(MemoryRecords):
        """Records whose last key is known."""

        last = ""

        async def write(self, key: str, value: bytes, /, **options: Any) -> int | None:
            self.last = key
            return await super().write(key, value, **options)

    async def main() -> None:
        records = Seen()
        sealed = SealedTokens(records, "x" * 32)
        ann, bob = (PrincipalTokens(sealed, (name, "app"), "bank") for name in ("ann", "bob"))
        await ann.keep_tokens(KEY, TOKENS)
        of_ann = records.last
        await bob.keep_tokens(KEY, Tokens("of-bob"))
        of_bob = records.last
        first = await records.read(of_ann)
        assert first is not None
        await records.write(of_bob, first.value)
        assert await bob.tokens(KEY) is None
        assert (await ann.tokens(KEY)) is not None
        for wrong in (first.value[:-3], first.value[:-3] + b'AA"', b'""', b"3", b"", b"\xff"):
            await records.write(of_ann, wrong)
            assert await ann.tokens(KEY) is None, wrong

    run(main())


EVIL: Final = "\x1b[2J\x1b]0;evil\x07\r\nWARNING forged: line\u202e\u2028\x00\x9b31m"


@req("SEC-6", everywhere=True)
def test_an_explanation_shows_no_control_characters_and_forges_no_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Names of members are the other side's."""
    before: Message = {"a": {EVIL: 1, "kept": 1}}
    command._explain(  # pyright: ignore[reportPrivateUsage]
        ConversionReport("one", "two", f"tools/call{EVIL}", "result", before, {"a": {"kept": 1}}, (EVIL,))
    )
    shown = capsys.readouterr().err
    assert "dropped" in shown
    assert len(shown.splitlines()) == 1
    assert not any(character in shown for character in "\x1b\x07\r\x00\x9b\u202e\u2028")


SECRETS: Final[dict[str, Any]] = {
    "password": "hunter2-hunter2",
    "api_key": "sk-hunter2-hunter2",
    "nested": {"Authorization": "Bearer hunter2-hunter2", "list": [{"client_secret": "hunter2-hunter2"}]},
    "url": "https://user:hunter2-hunter2@a.example/?access_token=hunter2-hunter2",
}


@req("SEC-6", "BASE-10", at=(SESSION.name, E))
@pytest.mark.parametrize("there", [SESSION, MODERN], ids=lambda row: f"to {row.name}")
@pytest.mark.parametrize("row", [SESSION, MODERN], ids=lambda row: row.name)
def test_a_recording_has_no_secrets_and_no_control_characters(
    row: Revision, there: Revision, tmp_path: Path
) -> None:
    """On neither side: in arguments, results, errors, `_meta` and what the user fills in."""
    form = {
        "mode": "form",
        "message": EVIL,
        "requestedSchema": {
            "type": "object",
            "properties": {"password": {"type": "string"}},
        },
    }

    async def asks(up: Upstream, request: Message) -> Any:
        found = await up.asks(request, ("elicitation/create", form))
        return found if isinstance(found, dict) else {**text(EVIL), "structuredContent": SECRETS}

    file = tmp_path / "both.jsonl"
    client, servers = Downstream(row), Servers(lambda: Upstream(there, {"asks": asks}))
    client.replies["elicitation/create"] = {"action": "accept", "content": {"password": "hunter2-hunter2"}}

    async def main() -> None:
        async with bridged(bridge_to(servers, there, record=file), client):
            result = await client.call("asks", SECRETS, **{"com.example/token": "hunter2-hunter2"})
            assert result["structuredContent"] == SECRETS
            assert client.asked_for == ([] if row.handshake else ["elicitation/create"])

    run(main())
    recorded = file.read_bytes()
    assert b"hunter2" not in recorded
    assert not any(byte < 0x20 and byte != 0x0A for byte in recorded)
    assert all(json.loads(line)["message"]["jsonrpc"] == "2.0" for line in recorded.splitlines())
