"""Logging of message contents, off by default, and the masking of secrets in logs, recordings and errors (SEC-6).

Messages hold the arguments and results of tools. They are written only to the logger `mcprev.payloads`, at level
DEBUG. Importing this module sets the level of that logger to WARNING unless it has a level, so that DEBUG on `mcprev`
or on the root logger does not show them.

Secrets are recognised by their names, in any spelling: in JSON, in JSON within texts, in headers, cookies, forms and
queries, and in options of commands; and by the words `Bearer`, `Basic` and `DPoP`, and their place in a URL. Others cannot be recognised. What
cannot be decided is masked. Every function takes time linear in its input.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final
from urllib.parse import unquote

MOST: Final = 2000
"""How many bytes of a message are logged."""
MASK: Final = "[...]"
"""What takes the place of a secret."""
MAX_NAME: Final = 256
"""The number of characters, from its end, of a name that are looked at."""
payloads: Final = logging.getLogger("mcprev.payloads")
"""The logger of message contents; set its level to DEBUG to see them."""
if payloads.level == logging.NOTSET:
    payloads.setLevel(logging.WARNING)

_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_PLURAL: Final = re.compile(r"(?<!s)s\Z")
_SECRET_WORDS: Final = frozenset({
    "token", "secret", "password", "passwd", "passphrase", "passcode", "pwd", "credential", "cookie",
    "authorization", "assertion", "jwt", "apikey",
})  # fmt: skip
_COMPOUNDS: Final = (
    "apikey", "privatekey", "secretkey", "accesskey", "signingkey", "encryptionkey", "authkey", "accountkey",
    "subscriptionkey", "codeverifier", "requeststate",
)  # fmt: skip
_ABOUT: Final = frozenset({
    "type", "count", "limit", "budget", "expiry", "expire", "expiration", "at", "in", "endpoint", "url",
    "uri", "name", "required", "supported", "enabled", "method", "length", "size", "ttl", "policy", "usage",
    "id", "error", "exception", "failed",
})  # fmt: skip
"""Last words of names that are about a secret, such as `token_type`."""
_AMOUNTS: Final = frozenset({
    "max", "min", "input", "output", "total", "prompt", "completion", "cached", "reasoning", "thinking",
    "budget", "num", "used",
})  # fmt: skip
"""First words of names of numbers, such as `maxTokens`."""
_LAST: Final = frozenset({"pass", "pw"})
"""Last words of names of secrets; as a part of another word they mean something else."""
_IN_QUERIES: Final = frozenset({
    "sig", "signature", "code", "state", "key", "auth", "session", "sid", "ticket",
})  # fmt: skip
"""Names that are secrets in the query of a URL, also behind a dash, as in `X-Amz-Signature`."""

# Possessive quantifiers, and starts that exclude each other: no text is read more than a few times.
_PAIR: Final = re.compile(
    r"""
    (?:(?<![\w.%-])|(?<=%3[DdAaFf])|(?<=%26))
    (?:
        -(?P<option>[\w.%-]++)[ \t]++(?=[^\s:=-])
    |
        (?P<name>(?:[\w.-]|%(?!3[ADFadf]|26)[0-9A-Fa-f]{2})++)
        (?:(?P<quote>\\*+["'])\s*+|[ \t]*+)
        (?P<sign>:=?|=+>?|%3[AaDd])\s*+
    )
    """,
    re.VERBOSE,
)
_OPENING: Final = re.compile(r"\\*+[\"']")
_LINE: Final = re.compile(r"[^\r\n\"'<>]*+")
_ITEM: Final = re.compile(r"(?:(?:Bearer|Basic|DPoP)\s++)?+[^\s&;,\"'<>)\]}\\]*+", re.IGNORECASE)
_NOTHING: Final = re.compile(r"(?:null|none|true|false)(?![^\s&;,\"'<>)\]}\\])", re.IGNORECASE)
_BRACKET: Final = re.compile(r"[\[\]{}]")
_SCHEME: Final = re.compile(
    r"""
    \b(Bearer|Basic|DPoP)[ ]++
    (?!(?:access|authenti|authori[sz]|certificat|challenge|credential|informati)[a-z]*+(?![\w~+/=-]|\.\S))
    [A-Za-z0-9._~+/=-]{8,}+
    """,
    re.IGNORECASE | re.VERBOSE,
)
"""A scheme with what it carries, unless that is a word of a sentence about the scheme."""
_USER: Final = re.compile(r"(?<=//)[^/?#\s\"<>]*@")
_DECODER: Final = json.JSONDecoder()


def redacted(message: bytes) -> str:
    """Return the beginning of a message, with its secrets masked."""
    return repr(mask_text(message[: 2 * MOST].decode(errors="replace")).encode(errors="replace")[:MOST])


def mask_arguments(arguments: Sequence[str]) -> list[str]:
    """Return the words of a command, with the values of options and variables that are named like secrets masked."""
    shown: list[str] = []
    hides_next = False
    for word in arguments:
        name, equals, value = word.partition("=")
        hides = hides_next or (equals and is_secret(name))
        shown.append((MASK if hides_next else f"{name}={MASK}") if hides else mask_text(word))
        hides_next = not hides_next and not value and word.startswith("-") and is_secret(word)
    return shown


def mask_text(text: str) -> str:
    """Return a text with the values of secret names masked, as in JSON, headers, cookies, forms and queries."""
    if not any(sign in text for sign in (":", " ", "%3", "//")) and "=" not in text.rstrip("="):
        return text
    parts: list[str] = []
    start = at = 0
    while (pair := _PAIR.search(text, at)) is not None:
        at, name = pair.end(), pair["name"] or pair["option"]
        in_query = pair.start() > 0 and text[pair.start() - 1] in "?&"
        in_query = in_query and name.lower().rpartition("-")[2] in _IN_QUERIES
        if not (in_query or is_secret(name)) or _NOTHING.match(text, at):
            continue
        end, masked = _value(text, at, pair)
        if end > at:
            parts += (text[start:at], masked)
            start = at = end
    shown = "".join([*parts, text[start:]])
    return _USER.sub("...@", _SCHEME.sub(rf"\1 {MASK}", shown))


def _value(text: str, at: int, pair: re.Match[str]) -> tuple[int, str]:
    """Return the end of a secret value, and what takes its place."""
    quote: str = pair["quote"] or ""
    opening = _OPENING.match(text, at)
    if opening is not None:
        delimiter, end = opening[0], text.find(opening[0], opening.end())
        while end > 0 and text[end - 1] == "\\":
            end = text.find(delimiter, end + 1)
        return (len(text) if end < 0 else end + len(delimiter)), f"{delimiter}{MASK}{delimiter}"
    masked = f"{quote}{MASK}{quote}"
    if text[at : at + 1] in ("[", "{"):
        return _end_of_brackets(text, at, is_json=quote == '"'), masked
    pattern = _LINE if (pair["sign"] or "").startswith(":") and not quote else _ITEM
    found = pattern.match(text, at)
    return (at if found is None else found.end()), masked


def _end_of_brackets(text: str, at: int, *, is_json: bool) -> int:
    """Return the end of a list or an object; the end of the text if it has none."""
    if is_json:
        try:
            return _DECODER.raw_decode(text, at)[1]
        except (ValueError, RecursionError):
            return len(text)
    depth = 0
    for bracket in _BRACKET.finditer(text, at):
        depth += 1 if bracket[0] in "[{" else -1
        if not depth:
            return bracket.end()
    return len(text)


def is_secret(name: str) -> bool:
    """Return whether a name is that of a secret: `token`, `apiKeys`, `DB_PASSWORD`, `x-auth-token`."""
    return _is_secret(name[-MAX_NAME:])


@lru_cache(maxsize=4096)
def _is_secret(name: str) -> bool:
    words = [_PLURAL.sub("", word.lower()) for word in _WORD.findall(unquote(name))]
    if not words or words == ["progress", "token"] or (words[-1] == "token" and words[0] in _AMOUNTS):
        return False
    joined = "".join(words)
    if joined.endswith((*_SECRET_WORDS, *_COMPOUNDS)) or words[-1] in _LAST:
        return True
    named = not _SECRET_WORDS.isdisjoint(words) or any(each in joined for each in _COMPOUNDS)
    return named and words[-1] not in _ABOUT
