"""No secret that has a name, a scheme or its place in a URL is shown: in logs, recordings and errors (SEC-6)."""

from __future__ import annotations

import asyncio
import json
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import pytest
from hypothesis import given, strategies as st

import mcprev
from linear import assert_linear
from mcprev.client.recording import Recording
from mcprev.json_schema.redaction import Redactor
from mcprev.transports.http import urls
from mcprev.transports.http.urls import mask_url, printable
from mcprev.wire import payloads
from mcprev.wire.payloads import MASK, MOST, is_secret, mask_arguments, mask_text, redacted
from mcprev_types import Direction
from requirements import req
from running import run

SECRET: Final = "hunter2-s3cr3t"  # noqa: S105 - none
WORDS: Final = [
    "token", "tokens", "access token", "refresh tokens", "id token", "password", "passwords", "db password", "passwd",
    "passphrase", "secret", "secrets", "client secret", "api key", "api keys", "x api key", "private key",
    "authorization", "proxy authorization", "cookie", "set cookie", "cookies", "credential", "aws credentials",
    "assertion", "code verifier", "secret access key", "password hash", "token value", "secret 1", "pass word",
    "shared access key", "pass", "db pass", "subscription key",
]  # fmt: skip
"""Names of secrets, word by word."""


def _camel(words: list[str]) -> str:
    return words[0] + "".join(word.capitalize() for word in words[1:])


def _pascal(words: list[str]) -> str:
    return "".join(word.capitalize() for word in words)


def _upper(words: list[str]) -> str:
    return "_".join(words).upper()


def _header(words: list[str]) -> str:
    return "-".join(word.capitalize() for word in words)


def _name(words: str, style: str) -> str:
    return STYLES[style](words.split())


STYLES: Final[dict[str, Callable[[list[str]], str]]] = {
    "snake": "_".join, "kebab": "-".join, "camel": _camel, "dotted": ".".join,
    "upper": _upper, "Pascal": _pascal, "Header": _header, "encoded": "%5F".join,
}  # fmt: skip
NAMES: Final = st.builds(_name, st.sampled_from(WORDS), st.sampled_from(list(STYLES)))
VALUES: Final[list[Any]] = [
    SECRET, 4711471147, 47114711.5, [SECRET], [{"a": SECRET}], {"a": {"b": [SECRET, 1]}}, [[4711471147]], {SECRET: 1},
]  # fmt: skip
PLACES: Final[list[Callable[[Any], Any]]] = [
    lambda found: found,
    lambda found: {"method": "tools/call", "params": {"arguments": {"x": [found]}}},
    lambda found: {"result": {"structuredContent": found}},
    lambda found: {"result": {"content": [{"type": "text", "text": json.dumps(found)}]}},
    lambda found: {"result": {"content": [{"type": "text", "text": json.dumps(json.dumps(found))}]}},
    lambda found: {"error": {"message": f"failed: {json.dumps(found, indent=1)} in line 5"}},
    lambda found: {"result": {"content": {"answer": found}, "action": "accept"}},
    lambda found: {"params": {"arguments": {"inputSchema": {"properties": found}}}},
]
TEXTS: Final = [
    "{name}={secret}", "?a=1&{name}={secret}&b=2", "{name}: {secret}\nnext", "{name} = '{secret}'", '{name}="{secret}',
    "https://user:{secret}@example.com/", "https://{secret}@example.com/x", "say Bearer {secret}==", "Basic {secret}",
    "dpop {secret}", "https://example.com/cb?code={secret}&state={secret}", "next=https%3A%2F%2Fx%3F{name}%3D{secret}",
    "Cookie: a={secret}; b={secret}", "{name}: Digest a={secret}, b={secret}", '"{name}":["{secret}', "{name}: {{'a': '{secret}'}}",
    '{name} == "{secret}"', "run --{name} {secret} now", "-{name} '{secret}'", '"{name}"\n:\n"{secret}"', "{name}=true-{secret}",
    "https://x/a?X-Amz-Signature={secret}&b", "{{'{name}': '{secret}'}}", r'{{\"{name}\": [\"{secret}\"]}}', "https://x/#{name}={secret}", "to=x%3Fa%3D1%26{name}%3D{secret}",
]  # fmt: skip
"""Texts with secrets; those without a name show it in another way."""


def is_shown(text: str) -> bool:
    return SECRET in text or "4711" in text


@req("SEC-6", everywhere=True)
@given(NAMES, st.sampled_from(VALUES), st.sampled_from(PLACES))
def test_a_value_of_a_secret_name_is_masked_wherever_it_is(name: str, value: Any, place: Any) -> None:
    message = json.dumps(place({name: value, "shown": "here", "count": 5})).encode()
    masked = Redactor().message(message)
    assert not is_shown(masked.decode())
    assert "shown" in masked.decode()
    assert "here" in masked.decode()
    json.loads(masked)
    assert not is_shown(redacted(message))
    assert Redactor().message(masked) == masked, "what is masked stays as it is"


@req("SEC-6", everywhere=True)
@given(NAMES, st.sampled_from(TEXTS))
def test_a_secret_is_masked_in_a_text(name: str, form: str) -> None:
    text = form.format(name=name, secret=SECRET)
    assert SECRET not in mask_text(f"before {text} after")
    assert mask_text(f"before {text} after").startswith("before ")
    assert SECRET not in json.loads(Redactor().message(json.dumps({"message": text}).encode()))["message"]


@req("SEC-6", everywhere=True)
@pytest.mark.parametrize(
    "value",
    [
        {"_meta": {"progressToken": "abc"}}, {"maxTokens": 100}, {"usage": {"input_tokens": 5, "totalTokens": 7}},
        {"token_type": "bearer"}, {"secretary": "ann"}, {"passwordRequired": True}, {"token": None}, {"tokens": []},
        {"capabilities": {"extensions": {"x/client-credentials": {}}}}, {"nextCursor": "abc"}, {"uri": "https://a/b?q=x"},
        {"text": "AssertionError: 1 != 2"}, {"text": "Basic information, Bearer authentication."}, {"text": "- token or - bypass=1"},
        {"token_expires": 5, "secret": False, "text": "token=null, compass: 1"}, {"data": "aGVsbG8=" * 9}, {"message": "max_tokens: 5"}, {"message": "password: false"}, {"message": "token=None, secret: true"}, {"a": 1.0, "b": 10**30},
        {"result": {"tools": [{"inputSchema": {"properties": {"token": {"type": "string", "description": "d"}}}}]}},
    ],
    ids=str,
)  # fmt: skip
def test_what_is_no_secret_stays_as_it_is(value: Any) -> None:
    message = json.dumps(value, indent=2).encode()
    assert Redactor().message(message) == message


@req("SEC-6", everywhere=True)
def test_the_examples_of_a_secret_property_are_masked_and_its_schema_is_shown() -> None:
    schema = {
        "type": "object",
        "properties": {
            "apiKey": {
                "type": "string",
                "default": SECRET,
                "examples": [SECRET],
                "anyOf": [{"const": SECRET}],
            },
            "pin": {"type": "string", "format": "password", "enum": [SECRET]},
            "note": {"type": "string", "default": "shown"},
            "password": SECRET,
        },
        "$defs": {"token": {"type": "string", "default": SECRET}},
    }
    for message in (
        {"result": {"tools": [{"name": "x", "inputSchema": schema}]}},
        {"params": {"requestedSchema": schema}},
    ):
        masked = json.loads(Redactor().message(json.dumps(message).encode()))
        assert not is_shown(json.dumps(masked))
        text = json.dumps(masked)
        assert text.count('"type": "string"') == text.count('"type"') - 1 == 4
        assert '"default": "shown"' in text


ANSWERS: Final[list[Any]] = [
    (
        {"params": {"requestedSchema": {"properties": {"pin": {}}}}},
        {"result": {"action": "accept", "content": {"pin": 47114711, "name": "bob"}}},
    ),
    (
        {"result": {"tools": [{"inputSchema": {"properties": {"pin": {}}}}]}},
        {"params": {"name": "pin", "arguments": {"pin": SECRET, "name": "bob"}}},
    ),
    (
        {"result": {"inputRequests": {"k": {"params": {"requestedSchema": {"properties": {"pin": {}}}}}}}},
        {"params": {"inputResponses": {"k": {"content": {"pin": SECRET, "name": "bob"}}}}},
    ),
]
"""Messages with a schema, and with the answers to it."""


@req("SEC-6", everywhere=True)
@pytest.mark.parametrize("keyword", [{"format": "password"}, {"writeOnly": True}], ids=str)
@pytest.mark.parametrize(
    ("asked", "answered"),
    ANSWERS,
    ids=["elicitation", "tool", "input request"],
)
def test_a_recording_masks_the_answers_to_what_a_schema_says_is_a_password(
    asked: Any, answered: Any, keyword: dict[str, Any], tmp_path: Path
) -> None:
    question = json.dumps(asked).replace('"pin": {}', f'"pin": {json.dumps(keyword)}')
    recording = Recording(tmp_path / "r")
    recording.write("s", Direction.SERVER_TO_CLIENT, question.encode())
    recording.write("s", Direction.CLIENT_TO_SERVER, json.dumps(answered).encode())
    recording.close()
    said, found = (tmp_path / "r").read_text().splitlines()
    assert json.loads(said)["message"] == json.loads(question)
    assert not is_shown(found)
    assert "bob" in found
    assert json.loads(found)["message"].get("params", {}).get("name") in (None, "pin")


URLS: Final = [
    "https://example.com/mcp?token={secret}", "https://example.com/mcp?{secret}", "https://u:{secret}@example.com/mcp",
    "https://example.com/mcp#{secret}", "https://example.com/o'neill?{secret}", "https://u:'{secret}@example.com/mcp", "https://{secret}@example.com/mcp?x={secret}", "redis://:{secret}@host:1/0",
]  # fmt: skip


@req("SEC-6", everywhere=True)
@pytest.mark.parametrize("url", URLS)
def test_a_url_is_shown_without_user_and_query(url: str) -> None:
    text = url.format(secret=SECRET)
    for shown in (
        mask_url(text),
        mask_url(f"cannot connect to {text} or '{text}'"),
        printable(text),
        printable("x" * 190 + text),
    ):
        assert SECRET[:7] not in shown
    assert mask_url("https://example.com:5/mcp") == "https://example.com:5/mcp"


@req("SEC-6", everywhere=True)
def test_a_command_is_shown_without_its_secrets() -> None:
    words = [
        "npx",
        "server",
        "--api-key",
        SECRET,
        f"--token={SECRET}",
        f"DB_PASSWORD={SECRET}",
        "-v",
        f"https://a:{SECRET}@b",
    ]
    shown = " ".join(mask_arguments(words))
    assert SECRET not in shown
    assert shown.startswith(f"npx server --api-key {MASK} --token={MASK} DB_PASSWORD={MASK} -v https://")
    target = mcprev.stdio(*words, env={"TOKEN": SECRET})
    for each in (target, mcprev.connect(target)):
        assert SECRET not in repr(each)
        assert "npx server" in repr(each)


@req("SEC-6", everywhere=True)
def test_a_command_of_one_word_is_shown_without_its_secrets() -> None:
    """Users pass a whole command as one word, and shells take one."""
    line = f"no-such-server --token {SECRET}"

    async def main() -> None:
        with pytest.raises(mcprev.ProcessExited) as caught:
            await mcprev.connect(mcprev.stdio(line))
        assert SECRET not in everything(caught.value)
        assert "no-such-server" in str(caught.value)

    run(main())
    assert SECRET not in repr(mcprev.stdio("sh", "-c", line))
    with pytest.raises(TypeError) as caught:
        mcprev.connect(line)
    assert SECRET not in everything(caught.value)


@req("SEC-6", everywhere=True)
@pytest.mark.parametrize(
    "url", ["https://u:{} 1@x/", "https://u:p/{}@x/", 'https://u:"{}@x/', "https://u:[{}@x/"]
)
def test_a_password_that_makes_a_url_invalid_is_not_shown(url: str) -> None:
    with pytest.raises(ValueError, match=r"URL of (a|the) server") as caught:
        mcprev.http(url.format(SECRET))
    assert SECRET not in everything(caught.value)


@req("SEC-6", everywhere=True)
def test_a_target_is_shown_without_its_secrets() -> None:
    auth = mcprev.ClientCredentials("me", SECRET, issuer="https://as.example")
    target = mcprev.http(
        f"https://example.com/mcp?token={SECRET}", headers={"Authorization": SECRET}, auth=auth
    )
    for each in (target, mcprev.connect(target), auth):
        assert SECRET not in repr(each)
    assert "https://example.com/mcp" in repr(target)


def everything(error: BaseException) -> str:
    """What a traceback or a tool that walks along exceptions can show."""
    shown = [*traceback.format_exception(error)]
    todo: list[BaseException | None] = [error]
    while todo:
        each = todo.pop()
        if each is not None:
            shown += [str(each), repr(each)]
            todo += [each.__cause__, each.__context__]
    return "\n".join(shown)


@req("SEC-6", everywhere=True)
@pytest.mark.parametrize("how", ["refuses", "is silent", "hangs up", "is no host"])
def test_no_error_of_a_connection_shows_the_query(how: str) -> None:
    async def main() -> None:
        async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        if how == "refuses":
            server.close()
        host = "127.0.0.1" if how != "is no host" else "no.invalid"
        target = mcprev.http(
            f"http://{host}:{port}/mcp?token={SECRET}",
            connect_timeout=1e-9 if how == "is silent" else 5,
        )
        with pytest.raises(mcprev.McpError) as caught:
            await mcprev.connect(target)
        server.close()
        assert SECRET not in everything(caught.value)
        assert f"http://{host}:{port}/mcp" in everything(caught.value)

    run(main())


@req("SEC-6", everywhere=True)
def test_what_a_program_prints_is_shown_without_its_secrets(caplog: pytest.LogCaptureFixture) -> None:
    """A line that is no message is logged, and an error shows what was written to stderr."""
    code = f"import sys; print('API_KEY={SECRET}'); sys.exit('DB_PASSWORD={SECRET}')"

    async def main() -> None:
        with pytest.raises(mcprev.McpError) as caught:
            await mcprev.connect(mcprev.stdio(sys.executable, "-c", code))
        assert f"DB_PASSWORD={MASK}" in str(caught.value)
        assert not is_shown(everything(caught.value))

    with caplog.at_level("DEBUG", logger="mcprev"):
        run(main())
    assert f"API_KEY={MASK}" in caplog.text
    assert not is_shown(caplog.text)


@req("SEC-6", everywhere=True)
def test_errors_about_arguments_show_no_secrets() -> None:
    url = f"ftp://u:{SECRET}@example.com/?token={SECRET}"
    calls: list[Callable[[], object]] = [
        lambda: mcprev.connect(url),
        lambda: mcprev.http(url),
        lambda: mcprev.OAuth(issuer=url),
        lambda: mcprev.JwtVerifier(url, issuer="https://a.example"),
        lambda: mcprev.JwtVerifier("https://a.example", issuer=url),
        lambda: mcprev.RateLimit("1/second", storage=f"memory://:{SECRET}@host/0"),
        lambda: mcprev.Bearer(_verify, resource=url, authorization_servers=["https://a.example"]),
    ]
    for call in calls:
        with pytest.raises((ValueError, TypeError, mcprev.McpError)) as caught:
            call()
        assert SECRET not in everything(caught.value)


async def _verify(_: str) -> None:
    return None


@req("SEC-6", everywhere=True)
@pytest.mark.parametrize(
    "part",
    [
        "a", "a:", '"token":["]",', "://", "//", '"\\', 'token="\\', "%3D", "token: ", "Bearer ", "a b ", '"password":"x",',
        '\\"token\\":\\"\\', "//a@", "token:{", "--token ", "-", '"a"\n', '"token":{', "=", "a=", "@",
    ],
)  # fmt: skip
def test_the_steps_of_masking_grow_with_the_text_only(part: str) -> None:
    def make(size: int) -> str:
        return part * (size // len(part))

    assert_linear(mask_text, make, payloads)
    assert_linear(mask_url, make, urls)


@req("SEC-6", everywhere=True)
def test_names_are_bounded() -> None:
    assert is_secret("x" * 10_000 + "_token")
    redactor = Redactor()
    for number in range(1100):
        schema = {"params": {"requestedSchema": {"properties": {f"p{number}": {"format": "password"}}}}}
        redactor.json(schema)
    shown = redactor.json({"arguments": {f"p{number}": SECRET for number in (999, 1000)}})
    assert shown == {"arguments": {"p999": MASK, "p1000": SECRET}}
    assert len(redacted(json.dumps({"token": quote(SECRET) * 10 * MOST}).encode())) <= MOST + 10
