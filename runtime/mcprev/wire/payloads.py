"""Logging of message contents, off by default, and the masking of secrets in logs, recordings and errors (SEC-6).

Messages hold the arguments and results of tools. They are written only to the logger `mcprev.payloads`, at level
DEBUG. Importing this module sets the level of that logger to WARNING unless it has a level, so that DEBUG on `mcprev`
or on the root logger does not show them.

Secrets are recognised by their names, in any spelling: in JSON, in JSON within texts, in headers, cookies, forms and
queries, in options of commands, in elements of XML and HTML, and where one member has the name and another the value; by
their forms: the words `Bearer`, `Basic` and `DPoP`, private keys in PEM, JWTs and the prefixes of well-known services; and
by their place in a URL. Others cannot be recognised. What cannot be decided is masked. Every function takes time linear in
its input.
"""

from __future__ import annotations

import json
import logging
import re
from bisect import bisect_left
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
MAX_GAP: Final = 500
"""The maximum number of characters between the name of a secret and its value, in a text that has them in two members."""
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
    "id", "error", "exception", "failed", "server", "file", "path", "ref", "arn", "status", "strength", "label",
    "title", "description", "placeholder", "address", "symbol", "decimal", "price",
})  # fmt: skip
"""Last words of names that are about a secret, such as `token_type`."""
_AMOUNTS: Final = frozenset({
    "max", "min", "input", "output", "total", "prompt", "completion", "cached", "reasoning", "thinking",
    "budget", "num", "used", "cache", "audio", "image", "context", "generated", "new", "per", "remaining", "limit",
})  # fmt: skip
"""First words of names of numbers, such as `maxTokens`; any word of names with a plural, such as `tokens_per_minute`."""
_LAST: Final = frozenset({"pass", "pw"})
"""Last words of names of secrets; as a part of another word they mean something else."""
_IN_QUERIES: Final = frozenset({
    "sig", "signature", "code", "state", "key", "auth", "session", "sid", "ticket",
})  # fmt: skip
"""Names that are secrets in the query of a URL, also behind a dash, as in `X-Amz-Signature`."""
_VALUES: Final = frozenset({"value", "values", "val"})
VALUES_OF: Final = {
    **dict.fromkeys(("name", "header", "field", "label", "variable", "param", "parameter", "property"), _VALUES),
    "key": _VALUES | {"string"}, "id": _VALUES, "selector": _VALUES | {"text"}, "element": _VALUES | {"text"},
}  # fmt: skip
"""Members, in lower case, whose value is a name, with the members beside them that hold what has this name."""

# Possessive quantifiers, and starts that exclude each other: no text is read more than a few times.
_PAIR: Final = re.compile(
    r"""
    [<&\\](?:(?<=<)|(?<=&)lt;|(?<=\\)u003[Cc])(?P<tag>[A-Za-z_][\w.:-]*+)
    |
    (?P<end>[>&\\])(?:(?<=>)|(?<=&)gt;|(?<=\\)u003[Ee])\s*+(?!</)
    |
    [\[(\])],?+(?:\s|\\++[nrt])*+[\[(](?:\s|\\++[nrt])*+b?\\*+["'](?P<first>[\w.%-]++)\\*+["']
    \s*+,(?:\s|\\++[nrt])*+b?(?=["'\\])
    |
    (?:(?<![\w.%-])|(?<=%3[DdAaFf])|(?<=%26))
    (?:
        -(?P<option>[\w.%-]++)(?:[ \t]++(?=[^\s:=-])|\\*+["']\s*+,(?:\s|\\++[nrt])*+(?=\\*+["'][^-]))
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
_NOTHING: Final = re.compile(
    r"(?:null|none|true|false|\"\"(?!\")|''(?!'))(?![^\s&;,\"'<>)\]}\\])", re.IGNORECASE
)
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
_NAME: Final = re.compile(r"[\w.%-]++")
_OPTION: Final = re.compile(r"-[A-Za-z]|--[A-Za-z][A-Za-z-]{0,40}")
_BRACE: Final = re.compile(r"[{}]")
_CLOSING: Final = re.compile(r"(?:<|&lt;|\\u003c)\\*+/([\w.:-]++)", re.IGNORECASE)
_LABEL: Final = re.compile(r"(?:\\*+[\"'])?+([^\"'\\<>{}&;,\r\n]{1,64})")
_ROW_END: Final = re.compile(r"(?:\s|\\++[nrt])*+(?:[\])]|\Z)")
_PRIVATE_KEY: Final = re.compile(
    r"""
    (-----BEGIN[ ](?:[A-Z0-9]{1,16}[ ]){0,3}PRIVATE[ ]KEY(?:[ ]BLOCK)?-----)
    (?:[\s"',+]|\\++[nr"'])*+(?=[A-Za-z0-9+/]{16}|[A-Z][A-Za-z-]{1,32}:)
    (?:(?:[^-]++|-(?!----))*+(?=-----)|[^"']*+)
    """,
    re.VERBOSE,
)
_FORMS: Final = re.compile(
    r"""
    (?<![\w-])(?:
        eyJ[\w-]{8,}+\.[\w-]*+\.[\w-]{8,}+(?:\.[\w-]++)*+
    |
        (?:gh[oprsu]|npm|hf|[rs]k_live|[rs]k_test|whsec|shpat|lin_api|dop_v1)_[A-Za-z0-9]{24,}+
    |
        (?:github_pat_|dckr_pat_|glpat-|xox[abeoprs]-|xapp-\d-|ya29\.|pypi-AgE|AIza)[\w-]{20,}+
    |
        SG\.[\w-]{22}\.[\w-]{43}
    |
        sk-(?:[a-z0-9]{1,8}-){0,3}+(?=[A-Za-z_-]{0,19}[0-9])[\w-]{24,}+
    )
    """,
    re.VERBOSE,
)
"""JWTs, and keys of services that mark them with a prefix of their own."""
_SIGNS: Final = (":", " ", "%3", "//", ",", "<", "&lt;", "\\u003", ".", "_", "-", "AIza")
"""What a text has that is masked, unless it has an equals sign before its end."""
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
        hides_next = hides_next and _OPTION.fullmatch(word) is None
        hides = hides_next or (equals and _NAME.fullmatch(name) and is_secret(name))
        shown.append((MASK if hides_next else f"{name}={MASK}") if hides else mask_text(word))
        is_option = word.startswith("-") and not value and _NAME.fullmatch(name) is not None
        hides_next = not hides_next and is_option and is_secret(name)
    return shown


def mask_text(text: str) -> str:
    """Return a text with the values of secret names masked, as in JSON, headers, cookies, forms, queries and XML."""
    if not any(sign in text for sign in _SIGNS) and "=" not in text.rstrip("="):
        return text
    shown = _FORMS.sub(MASK, _PRIVATE_KEY.sub(rf"\1{MASK}", _masked_pairs(text)))
    return _USER.sub("...@", _SCHEME.sub(rf"\1 {MASK}", shown))


def _masked_pairs(text: str) -> str:
    """Return a text with the values of secret names masked."""
    parts: list[str] = []
    start = at = labelled = 0
    element, values = "", frozenset[str]()
    closings: dict[str, list[int]] | None = None
    while (pair := _PAIR.search(text, at)) is not None:
        at = pair.end()
        if pair["tag"]:
            element = pair["tag"]
            values, labelled = (_VALUES, at) if is_secret(element) else (values, labelled)
            continue
        name: str = pair["name"] or pair["option"] or pair["first"] or element
        element, key = "" if pair["end"] else element, name.lower()
        in_query = pair.start() > 0 and text[pair.start() - 1] in "?&"
        hides = is_secret(name) or (in_query and key.rpartition("-")[2] in _IN_QUERIES)
        if key in values and pair.start() - labelled <= MAX_GAP:
            hides = hides or _BRACE.search(text[labelled : pair.start()]) is None
        if key in VALUES_OF:
            label = _LABEL.match(text, at)
            values, labelled = VALUES_OF[key] if label and is_secret(label[1]) else frozenset[str](), at
        if not hides or _NOTHING.match(text, at):
            continue
        if pair["end"]:
            closings = _closing_tags(text) if closings is None else closings
            ends = closings.get(key, [])
            place = bisect_left(ends, at)
            end, masked = ends[place] if place < len(ends) else at, MASK
        else:
            end, masked = _value(text, at, pair)
        if end > at and not (pair["first"] and end - at < MAX_GAP and not _ROW_END.match(text, end)):
            parts += (text[start:at], masked)
            start = at = end
    return "".join([*parts, text[start:]])


def _closing_tags(text: str) -> dict[str, list[int]]:
    """Return where each element ends, by its name in lower case."""
    found: dict[str, list[int]] = {}
    for tag in _CLOSING.finditer(text):
        found.setdefault(tag[1].lower(), []).append(tag.start())
    return found


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
    is_line = (pair["sign"] or "").startswith(":") and not quote
    is_word = pair[0].startswith("-") and pair["sign"] and text[max(pair.start() - 1, 0)] in "\"'"
    pattern = _LINE if is_line or is_word else _ITEM
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
    found = [word.lower() for word in _WORD.findall(unquote(name))]
    words = [_PLURAL.sub("", word) for word in found]
    if not words or words == ["progress", "token"]:
        return False
    is_number = (words[-1] == "token" and words[0] in _AMOUNTS) or (
        "tokens" in found and not _AMOUNTS.isdisjoint(found)
    )
    if is_number and "=" not in name:  # `input[name=token]` selects the field of a token
        return False
    joined = "".join(words)
    if joined.endswith((*_SECRET_WORDS, *_COMPOUNDS)) or words[-1] in _LAST:
        return True
    named = not _SECRET_WORDS.isdisjoint(words) or any(each in joined for each in _COMPOUNDS)
    return named and words[-1] not in _ABOUT
