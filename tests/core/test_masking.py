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
from helpers.linear import assert_linear
from helpers.requirements import req
from helpers.running import run
from mcprev.client.recording.recording import Recording
from mcprev.json_schema.redaction import Redactor
from mcprev.transports.http import urls
from mcprev.transports.http.urls import mask_url, printable
from mcprev.wire import payloads
from mcprev.wire.payloads import MASK, MOST, is_secret, mask_arguments, mask_text, redacted
from mcprev_types import Direction

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
    '["-y", "--{name}", "{secret} more"]', "['--{name}={secret} {secret}']", '{{"name": "{name}", "value": "{secret}"}}',
    "- name: {name}\n  value: {secret}", '[["{name}", "{secret}"], ["a", "b"]]', "[(b'a', b'b'),\n (b'{name}', b'{secret}')]",
    '<add key="{name}" kind="x" value="{secret}"/>', "<name>{name}</name>\n<value>{secret}</value>", "Selector='#{name}' text={secret}",
    "https://x/a?X-Amz-Signature={secret}&b", "{{'{name}': '{secret}'}}", r'{{\"{name}\": [\"{secret}\"]}}', "https://x/#{name}={secret}", "to=x%3Fa%3D1%26{name}%3D{secret}",
]  # fmt: skip
"""Texts with secrets; those without a name show it in another way."""


BESIDE: Final[list[Callable[[str, Any], Any]]] = [
    lambda name, value: {"name": name, "value": value},
    lambda name, value: {"type": "string", "Value": value, "isSecret": True, "Key": name},
    lambda name, value: [{"header": name, "values": [value]}, {"header": "Accept", "values": ["*/*"]}],
    lambda name, value: {"selector": f"input[name={name}]", "text": value},
    lambda name, value: [[name, value]],
    lambda name, value: {"headers": [["Accept", "*/*"], [name, value]]},
    lambda name, value: {"args": ["-y", "server", f"--{name}", f"{value}", "-v"]},
    lambda name, value: ["run", f"--{name}={value} {value}", f"{name}={value} {value}"],
    lambda name, value: {"content": json.dumps(["run", f"--{name}=x {value}".replace("'", "")])},
]
"""Values that stand beside the names of secrets."""
FORMS: Final = [
    "-----BEGIN {kind}PRIVATE KEY-----\n{body}\n{body}\nhunter2+s3cr3t==\n-----END {kind}PRIVATE KEY-----",
    "-----BEGIN {kind}PRIVATE KEY-----\r\nProc-Type: 4,ENCRYPTED\r\n\r\n{body}\r\n-----END {kind}PRIVATE KEY-----",
    "-----BEGIN PRIVATE KEY----- {body} {body} -----END PRIVATE KEY-----", "-----BEGIN PRIVATE KEY-----\\n' +\n '{body}\\n'\n '{body}'\n'-----END", "-----BEGIN PRIVATE KEY-----{body}\n{body}",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.{body}", "eyJhbGciOiJkaXIifQ..{body}.{body}.{body}", "ghp_{body}", "github_pat_{body}_{body}",
    "glpat-{body}", "xoxb-{body}-{body}", "sk-{body}", "sk-ant-api03-{body}-{body}", "sk_live_{body}", "npm_{body}", "hf_{body}",
    "AIza{body}", "ya29.{body}",
]  # fmt: skip
"""What is seen to be a secret by its form; written in pieces, so that nobody takes it for one that was lost here."""
ELEMENTS: Final = [
    "<{name}>{secret}</{name}>", "<{name} a='x'>\n {secret}\n</{name}>", "<x:{name}>{secret}</x:{name}>", "<{name} a='b' value=\"{secret}\"/>",
    "&lt;{name}&gt;{secret}&lt;/{name}&gt;", "<{name}><![CDATA[<{secret}]]></{name}>", "<{name}><a>{secret}</a><a>{secret}</a></{name}>",
    "\\u003c{name}\\u003e{secret}\\u003c/{name}\\u003e", "<entry key='{name}'>x</entry><{name}>{secret}<\\/{name}>",
    "</{name}><{name}>{secret}</{name}>", "<{name}>{secret}</{name}><{name}>{secret}</{name}>", "<dict><key>{name}</key><string>{secret}</string></dict>",
]  # fmt: skip
HONEST: Final[list[Any]] = [
    {"max_tokens": 1500, "maxTokens": 4096, "max_new_tokens": 2000},
    {"cache_read_input_tokens": 2048, "cache_creation_input_tokens": 9999},
    {"tokens_used": 1234, "tokensRemaining": 8766, "tokens_per_minute": 90000, "audio_tokens": 1000},
    {"completion_tokens_details": {"reasoning_tokens": 5000}},
    {"x-ratelimit-remaining-tokens": "149984", "x-ratelimit-limit-tokens": "150000"},
    {"tokenizer": "cl100k_base", "tokenize": "yes", "tokenizers": ["bpe"]},
    {"password": None},
    {"password": ""},
    {"name": "password", "type": "string"},
    {"name": "password", "in": "query", "required": True},
    {"sessionId": "abc-123"},
    {"name": "apiKey", "description": "Your key.", "required": True},
    {"key": "page", "value": "token"},
    {"name": "limit", "value": 50},
    {"value": "password"},
    {"name": "get_token", "arguments": {"user": "bob"}},
    {"title": "Reset your password", "text": "Follow the link."},
    {"label": "Save", "value": "save"},
    {"required": ["password", "token"]},
    {"enum": ["token", "password"]},
    {"args": ["--verbose", "--token", "--help"]},
    {"args": ["- token", "one"]},
    ["token", "password", "key"],
    {"rows": [["name", "type"], ["id", "int"]]},
    [{"name": "password", "type": "string"}, {"value": "shoes"}],
    {"properties": [{"name": "password", "in": {"value": "query"}}]},
    {"rows": [["password", "varchar", "20"]]},
    [["a", "b"], ["c", "d"]],
    {"selector": "#search", "text": "shoes"},
    [[], {}],
    {"authorization_servers": ["https://as.example"]},
    {"token_address": "0xabc", "tokenSymbol": "ETH", "token_decimals": "18"},
    {"password_strength": "weak"},
    {"secret_arn": "arn:aws:x", "password_file": "/run/x", "secret_ref": "x", "token_path": "/v1"},
    {"author": "ann", "authored": "by", "keyboard": "de", "monkey": "x"},
    {"public_key": "abc", "primary_key": "id", "foreignKey": "user_id", "sort_key": "x", "key": "a"},
    {"passenger": "x", "passage": "y", "compass": "z", "bypass": "w"},
    {"id": "token", "title": "Tokens"},
    {"element": "Search box", "text": "hunter"},
    {"header": "Accept", "value": "text/html"},
    {"name": "x", "value": None},
    {"name": "password", "value": None},
    {"name": "password", "value": ""},
    {"name": "passwordRequired", "value": True},
    {"name": "token_count", "value": 5000},
]
HONEST_TEXTS: Final = [
    "Usage: login --token <token> [--verbose]",
    "GET /users/<token>/posts",
    "Map<String, Token> map = new HashMap<>();",
    "a -> b, b => c, x > y",
    "<title>Password</title><h1>Reset password</h1>",
    '<label for="password">Password</label>',
    '<a href="/password">Forgot it?</a>',
    "<token></token>",
    "<password>null</password>",
    '<input name="password" placeholder="at least 8" value="">',
    '<input name="q" value="shoes">',
    "<name>limit</name><value>50</value>",
    "if (a <token && b> c) go",
    "expected -----BEGIN PRIVATE KEY----- at the top of the file, and -----END",
    "-----BEGIN CERTIFICATE-----\nMIIBszCCAVmgAwIBAgIUAAAA\n-----END CERTIFICATE-----",
    "-----BEGIN PUBLIC KEY-----\nMIIBszCCAVmgAwIBAgIUAAAA\n-----END PUBLIC KEY-----",
    "a cursor eyJvZmZzZXQiOjEwMH0 and eyJwYWdlIjoyfQ==",
    "eyJhbGciOi... is how a JWT begins",
    "sk-circle-fade-and-a-long-name-of-a-class",
    "sk-circlefadeandalongnameofaclass",
    f"name: token, {'and so on ' * 60} value: 5",
    "npm_config_cache_lower_and_other_names_here",
    "npm_lifecycle_event",
    "hf_hub_download_with_a_rather_long_name_of_a_function",
    "sk-SK",
    "from sk-learn import ghp_tools",
    "v1.2.3 of gho_st, SG.Namespace.Class.Method",
    "name: password\ntype: string",
    "- name: limit\n  value: 50",
    "name: x\nvalue: token",
    'f("token", "value")',
    '["token", "password"]',
    "x = [1, 2], ('a', 'b')",
    "(see [token], 'b')",
    "prompt_tokens: 1200, completion_tokens: 3400, tokens_used=4600",
    "The tokenizer splits 5 tokens.",
    "1000 tokens per minute",
    "password=null",
    'password: "", user: bob',
    "token='' and user=bob",
    "passwords are not stored",
    "the secret of good tea",
    "- --verbose\n- token",
    "args: [--token, --verbose]",
    "git commit -m 'rotate tokens'",
    "https://example.com/token/refresh?page=2",
    "d41d8cd98f00b204e9800998ecf8427e",
    "550e8400-e29b-41d4-a716-446655440000",
    "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "secretary: ann",
    "2024-01-01T00:00:00.000Z INFO x.y.z: done",
]
"""What honest users send, and want to find again."""


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
@pytest.mark.parametrize("form", TEXTS)
@given(name=NAMES)
def test_a_secret_is_masked_in_a_text(form: str, name: str) -> None:
    text = form.format(name=name, secret=SECRET)
    assert SECRET not in mask_text(f"before {text} after")
    assert mask_text(f"before {text} after").startswith("before ")
    assert SECRET not in json.loads(Redactor().message(json.dumps({"message": text}).encode()))["message"]


@req("SEC-6", everywhere=True)
@pytest.mark.parametrize("form", BESIDE)
@given(name=NAMES, value=st.sampled_from([SECRET, 4711471147, [SECRET], {"a": SECRET}]))
def test_a_value_beside_the_name_of_a_secret_is_masked(form: Any, name: str, value: Any) -> None:
    for message in (form(name, value), {"params": {"arguments": {"x": form(name, value)}}}):
        masked = Redactor().message(json.dumps(message).encode())
        assert not is_shown(masked.decode())
        assert json.dumps(name) in masked.decode() or name in masked.decode()
        assert Redactor().message(masked) == masked, "what is masked stays as it is"


AMONG_OTHERS: Final[dict[str, Any]] = {
    "an option in a list with a number": ["run", "--password", SECRET, 5],
    "an option with a number": ["--password", 4711471147],
    "an option with an object": ["--api-key", {"a": SECRET}, None],
    "a pair beside what is none": [["password", SECRET], ["a", 1, 2]],
    "a pair whose name holds it": [[f"password={SECRET}", 1], ["b", 2]],
    "the name of a member": {f"https://h/?token={SECRET}": 1},
    "the user in the name of a member": {"urls": {f"https://ann:{SECRET}@h/": True}},
    "a key as the name of a member": {"ghp_" + "hunter2s3cr3t" * 3: 1},
    "a name in a schema": {"inputSchema": {"properties": {f"https://h/?token={SECRET}": {"type": "string"}}}},
}


@req("SEC-6", everywhere=True)
@pytest.mark.parametrize("case", AMONG_OTHERS)
def test_a_secret_is_masked_among_values_of_other_kinds_and_in_names(case: str) -> None:
    for value in (AMONG_OTHERS[case], {"params": {"arguments": {"x": AMONG_OTHERS[case]}}}):
        masked = Redactor().json(value)
        assert not is_shown(json.dumps(masked))
        assert "hunter2" not in json.dumps(masked)
        assert Redactor().json(masked) == masked, "what is masked stays as it is"


@req("SEC-6", everywhere=True)
def test_no_member_is_lost_whose_name_is_masked() -> None:
    keys = {f"https://h/?token={each}": each for each in range(3)}
    for found in (Redactor().json({"result": keys}), Redactor().json({"inputSchema": {"properties": keys}})):
        text = json.dumps(found)
        assert text.count("https://h/?token=") == 3


@req("SEC-6", everywhere=True)
@pytest.mark.parametrize("form", FORMS)
def test_a_secret_is_seen_by_its_form(form: str) -> None:
    body = "hunter2s3cr3t" * 4
    for kind in ("", "RSA ", "OPENSSH "):
        text = form.format(kind=kind, body=body)
        for before in ("", "the key is ", "<p>", "key, ("):
            given_ = f"{before}{text}"
            for shown in (mask_text(given_), json.loads(mask_text(json.dumps({"a": given_})))["a"]):
                assert "hunter2" not in shown
                assert shown.startswith(before)
        assert mask_text(mask_text(text)) == mask_text(text)


@req("SEC-6", everywhere=True)
@pytest.mark.parametrize("form", ELEMENTS)
@given(name=NAMES.filter(lambda name: "%" not in name))
def test_the_content_of_an_element_with_the_name_of_a_secret_is_masked(form: str, name: str) -> None:
    text = form.format(name=name, secret=SECRET)
    masked = mask_text(f"<p>before</p>{text}<p>after</p>")
    assert SECRET not in masked
    assert masked.startswith("<p>before</p>")
    assert masked.endswith("<p>after</p>")
    assert mask_text(masked) == masked
    assert SECRET not in mask_text(json.dumps({"content": text}))


@req("SEC-6", everywhere=True)
@pytest.mark.parametrize("value", HONEST, ids=str)
def test_what_honest_objects_hold_stays_as_it_is(value: Any) -> None:
    for message in (value, {"params": {"arguments": value}}, {"result": {"structuredContent": [value]}}):
        assert Redactor().message(json.dumps(message).encode()) == json.dumps(message).encode()
        assert mask_text(json.dumps(message)) == json.dumps(message)
        assert mask_text(json.dumps(message, indent=2)) == json.dumps(message, indent=2)


@req("SEC-6", everywhere=True)
@pytest.mark.parametrize("text", HONEST_TEXTS)
def test_what_honest_texts_say_stays_as_it_is(text: str) -> None:
    assert mask_text(text) == text
    message = json.dumps({"result": {"content": [{"type": "text", "text": text}]}}).encode()
    assert Redactor().message(message) == message


@req("SEC-6", everywhere=True)
@pytest.mark.parametrize(
    "value",
    [
        {"_meta": {"progressToken": "abc"}}, {"maxTokens": 100}, {"usage": {"input_tokens": 5, "totalTokens": 7}},
        {"token_type": "bearer"}, {"secretary": "ann"}, {"passwordRequired": True}, {"token": None}, {"tokens": []},
        {"capabilities": {"extensions": {"x/client-credentials": {}}}}, {"nextCursor": "abc"}, {"uri": "https://a/b?q=x"},
        {"text": "AssertionError: 1 != 2"}, {"text": "Basic information, Bearer authentication."}, {"text": "- token or - bypass=1"},
        {"token_expires": 5, "secret": False, "text": "token=null, compass: 1"}, {"data": "aGVsbG8=" * 9}, {"message": "max_tokens: 5"}, {"message": "password: false"}, {"message": "token=None, secret: true"}, {"a": 1.0, "b": 10**30},
        {"inputSchema": {"type": "object", "properties": {"password": {"type": "string"}, "name": {"const": "token"}}, "required": ["password", "token"]}},
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
    flags = ["--password-stdin", "--verbose", "--token", "-v", "--token=", "x y"]
    assert mask_arguments(flags) == [*flags[:4], f"--token={MASK}", MASK]
    sentence = "why is my token == null"
    assert mask_arguments([sentence]) == [sentence]
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
        "<token ", "<a><token></a>", "\\u003ctoken>", "[\n", '[["token","x"', '[["token","x",1],', "[(b'a', b'b'), ", '"--token",',
        '"name":"token",', "name: token value: x ", "value={name=token}", "-----BEGIN PRIVATE KEY-----     ", "-----BEGIN PRIVATE KEY-----\nA:  ", "-eyJ",
        "eyJaaaaaaaa.", "sk-a1", "\\n", "[\\", ">",
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
