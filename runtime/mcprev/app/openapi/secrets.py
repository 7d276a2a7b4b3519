"""Credentials of requests that an HTTP API repeats in its answers, which the model must not read.

They are recognised in the usual spellings: in other case, percent-encoded, escaped as in JSON or HTML, in hexadecimal, in
base64 also within a longer text, and divided by blanks, line breaks or punctuation. An API that wants to tell the model a
credential, and enciphers it, is not kept from that.
"""

from __future__ import annotations

import html.entities
import re
from base64 import b64decode, b64encode
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final
from urllib.parse import unquote

from mcprev.errors import Json
from mcprev.json_schema.bounds import LIST, OBJECT

HIDDEN: Final = "***"
SHORT: Final = 4
"""The number of characters from which on a value is a secret if its name is that of a credential."""
LONG: Final = 8
"""The number of characters from which on any other value is a secret."""
ROUNDS: Final = 4
"""How often a text may be escaped, each time with what was escaped before."""
WORD: Final = 6
"""The number of letters and digits below which a secret is looked for as a word only: any text may have them by chance."""
_HARMLESS: Final = re.compile(
    r"accept.*|cache-control|connection|content-.*|expect|from|host|if-.*|origin|prefer|range|referer|te|traceparent"
    r"|tracestate|user-agent|x-requested-with|.*-version"
)
_CREDENTIAL: Final = re.compile(
    r"auth|cookie|cred|csrf|jwt|login|pass(?![aeio])|secret|sess|ticket|token|xsrf|key(?![a-z])|(?:^|access[-_]?)code"
    r"|(?<![a-z])(?:pin|sid|sig)(?![a-z])"
)
_WORD: Final = r"(?:\d{1,15}|[A-Z]?[a-z]{1,15}|[A-Z]{1,15})(?![A-Za-z0-9])"
_WORDS: Final = re.compile(rf"[ ._/,:@-]*+(?:{_WORD}[ ._/,:@-]*+)*+")
"""Words and numbers, such as the name of an environment or a tenant; what is made at random seldom looks so."""
_PARTS: Final = re.compile(r"[\s,;&|]+")
_SCHEMES: Final = frozenset({"apikey", "basic", "bearer", "digest", "dpop", "negotiate", "token"})
_ESCAPE: Final = re.compile(
    r"&#[xX]0{0,8}([0-9a-fA-F]{1,6});?|[\\%]u([0-9a-fA-F]{4})|\\u\{([0-9a-fA-F]{1,6})\}|\\x([0-9a-fA-F]{2})"
    r"|&#0{0,8}([0-9]{1,7});?|&([A-Za-z][A-Za-z0-9]{1,31};)|\\([^ux])",
    re.DOTALL,
)
_BLANKS: Final = frozenset("bfnrt")
"""The letters that stand for blanks behind a backslash."""
_PUNCTUATION: Final = re.compile(r"[\W_]+")
_ASCII_PUNCTUATION: Final = bytes(code for code in range(128) if not chr(code).isalnum())


def credentials(headers: Mapping[str, str], given: Collection[str] = ()) -> Iterator[str]:
    """Yield the secrets of the headers of a request.

    `given` are the lower-case names of headers, and the cookies as `name=value`, that the caller chose and knows.
    """
    for name, value in headers.items():
        lower = name.lower()
        if lower in given or _HARMLESS.fullmatch(lower):
            continue
        pairs = [(lower, value)]
        if lower == "cookie":
            cookies = [each.strip() for each in value.split(";")]
            pairs = [each.partition("=")[::2] for each in cookies if each not in given]
        for key, text in pairs:
            named = _CREDENTIAL.search(key.lower()) is not None
            scheme, *rest = text.split(maxsplit=1) or [""]
            known = scheme.lower() in _SCHEMES and bool(rest)
            sure = named or known or lower == "cookie"
            if not sure and _WORDS.fullmatch(text):
                continue
            words = {text, *_parts(text, sure=sure)}
            if known:
                words -= {scheme}
                words |= {*_basic(rest[0])} if scheme.lower() == "basic" else set[str]()
            yield from (word for word in words if len(word) >= (SHORT if named else LONG))


def _parts(text: str, *, sure: bool) -> Iterator[str]:
    """Yield the words of the value of a header or cookie, and the values of its parameters, such as `token="..."`."""
    for part in _PARTS.split(text):
        if sure or not _WORDS.fullmatch(part):
            yield part
        name, _, value = part.partition("=")
        value = value.strip('="')
        if _CREDENTIAL.search(name.lower()) or not _WORDS.fullmatch(value):
            yield value


def _basic(text: str) -> Iterator[str]:
    """Yield the secrets of the credentials of the scheme `Basic`."""
    try:
        both = b64decode(text.strip() + "==").decode()
    except ValueError:
        return
    user, _, password = both.partition(":")
    yield both
    yield password
    if not password or len(user) >= LONG:
        yield user


class Secrets:
    """Replaces secrets in texts and JSON values by `***`."""

    def __init__(self, secrets: Collection[str]) -> None:
        """Set the secrets, as they are sent."""
        ordered = sorted(secrets, key=lambda each: (-len(each), each))
        short = [each for each in ordered if len(_bare(each)) < WORD]
        self._plain = _any_of(_as_word(each) if each in short else re.escape(each) for each in ordered)
        self._short = _any_of(map(_as_word, short))
        spelled = {form for each in secrets for form in _spellings(each)}
        self._forms = sorted(form for form in map(_bare, spelled) if len(form) >= WORD)
        self._least: int = min(map(len, (*short, *self._forms)), default=0)

    def hide(self, text: str) -> str:
        """Return a text without the secrets: without their characters, else without their lines, else without all."""
        if not self._has(text):
            return text
        text = self._plain.sub(HIDDEN, text)
        if self._has(text):
            text = "\n".join(HIDDEN if self._has(line) else line for line in text.split("\n"))
        return HIDDEN if self._has(text) else text

    def hide_in(self, value: Json) -> Json:
        """Return a JSON value without the secrets in its strings, names and numbers."""
        if isinstance(value, OBJECT):
            return {self.hide(name): self.hide_in(item) for name, item in value.items()}
        if isinstance(value, LIST):
            return [self.hide_in(item) for item in value]
        if value is None or isinstance(value, bool):
            return value
        text = str(value)
        hidden = self.hide(text)
        return value if hidden == text else hidden

    def _has(self, text: str) -> bool:
        """Return whether a text has a secret in any spelling."""
        if len(text) < self._least and text.isascii():
            return False
        for _ in range(ROUNDS):
            bare = _bare(text)
            if any(form in bare for form in self._forms) or self._short.search(text):
                return True
            before, text = text, _decoded(text)
            if text == before:
                break
        return False


def _any_of(expressions: Iterable[str]) -> re.Pattern[str]:
    return re.compile("|".join(expressions) or r"(?!)", re.IGNORECASE)


def _as_word(secret: str) -> str:
    """Return an expression for a secret that is no part of a longer word."""
    before, after = (r"(?<![^\W_])" if end.isalnum() else "" for end in (secret[:1], secret[-1:]))
    return before + re.escape(secret) + after.replace("?<!", "?!")


def _spellings(secret: str) -> Iterator[str]:
    """Yield a secret, and what it is in hexadecimal and in base64, at each place of a longer text."""
    yield secret
    yield _decoded(secret)  # which is what is found where the secret itself looks like an escaped text
    raw = secret.encode(errors="replace")
    yield raw.hex()
    for before in range(3):
        # The characters at both ends also depend on what stands before and behind.
        end = (before + len(raw)) * 8 // 6
        form = b64encode(b"\0" * before + raw)[(0, 2, 3)[before] : end].decode()
        if len(form) >= LONG:
            yield form


def _bare(text: str) -> str:
    """Return the letters and digits of a text, in lower case."""
    raw = text.casefold().encode(errors="surrogatepass").translate(None, _ASCII_PUNCTUATION)
    found = raw.decode(errors="surrogatepass")
    return found if found.isascii() else _PUNCTUATION.sub("", found)


def _decoded(text: str) -> str:
    """Return a text without one layer of percent-encoding and of the escapes of JSON and HTML."""
    return _ESCAPE.sub(_unescaped, unquote(text, errors="replace"))


def _unescaped(found: re.Match[str]) -> str:
    kind, text = found.lastindex, found[found.lastindex or 0]
    if kind == 7:
        return " " if text in _BLANKS else text
    if kind == 6:
        return html.entities.html5.get(text, "")
    code = int(text, 10 if kind == 5 else 16)
    return chr(code) if code <= 0x10FFFF else ""
