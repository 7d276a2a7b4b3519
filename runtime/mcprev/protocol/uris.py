"""URIs from the peer: their validation (RES-1), and the spellings of one URI (RFC 3986, section 6.2.2).

Any scheme is accepted; the author defines its meaning. Two URIs that differ in spelling only are one: `notes://%73ecret`,
`NOTES://secret` and `notes://secret`. Each function here takes time that grows with the length of the URI, which is
limited.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final, Protocol, cast
from urllib.parse import quote

from mcprev.errors import InvalidParams, Json
from mcprev.wire.json_values import is_json_list, json_object
from mcprev.wire.jsonrpc import Batch, Message, Request

MAX_LENGTH: Final = 16_384
"""The maximum length of a URI in characters; a longer one is refused."""
OF_RESOURCES: Final = frozenset(
    {
        "resources/read",
        "resources/subscribe",
        "resources/unsubscribe",
        "subscriptions/listen",
        "completion/complete",
    }
)
"""The methods whose params hold URIs of resources."""
SERVED: Final = frozenset({"resources/read", "completion/complete"})
"""Those of them that a handler serves."""
_COMPLETE: Final = "completion/complete"
_LISTEN: Final = "subscriptions/listen"
_SUBSCRIPTIONS: Final = "resourceSubscriptions"
_URI: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[^\s\x00-\x20\x7f]+")
"""A scheme and a non-empty rest without blanks and control characters. Letters of every script are accepted."""
_UNRESERVED: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_ESCAPE: Final = re.compile(r"%([0-9A-Fa-f]{2})")
_ESCAPES: Final = {
    f"{code:02X}": chr(code) if chr(code) in _UNRESERVED else f"%{code:02X}" for code in range(256)
}
"""What each escape is in a URI that is normalized."""
_NO_URI: Final = re.compile(r"[^!#-;=?-\[\]_a-z~]+")
"""The characters that no URI has, such as quotes, backslashes and letters with accents: they are percent-encoded."""
_ENCODED: Final = re.compile(r"(?:%[89A-F][0-9A-F])+")
_END: Final = re.compile(r"[/?#]")


def is_uri(text: str) -> bool:
    """Return whether a text can be an absolute URI."""
    return len(text) <= MAX_LENGTH and _URI.fullmatch(text) is not None


def foreign_character(text: str) -> str | None:
    """Return a character of a text that no URI has, in no script; None if there is none."""
    wrong = (
        char for char in text if not (char.isprintable() if char > "\x7f" else _NO_URI.match(char) is None)
    )
    return next(wrong, None)


def check_uri(uri: object) -> None:
    """Raise `InvalidParams` unless the value is an absolute URI."""  # RES-1
    if not isinstance(uri, str) or not is_uri(uri):
        blank = isinstance(uri, str) and re.search(r"[\s\x00-\x20\x7f]", uri)
        why = f"has {blank[0]!r}, which no URI has; percent-encode it" if blank else "is not an absolute URI"
        raise InvalidParams(f"Invalid params: uri {why}: {uri!r:.80}")


def normalized(uri: str) -> str:
    """Return a URI with its scheme in lower case, and without escapes that need not be or are in lower case.

    The case of the host is kept, because it may be the value of a variable; so are characters that no URI has. A text
    that is too long is returned unchanged.
    """
    if len(uri) > MAX_LENGTH:
        return uri
    scheme, colon, rest = uri.partition(":")
    if "%" in rest:
        rest = _ESCAPE.sub(lambda found: _ESCAPES[found[1].upper()], rest)
    return f"{scheme.lower()}{colon}{rest}"


def encoded(uri: str) -> str:
    """Return a URI, normalized, in which the characters that no URI has are percent-encoded."""
    if len(uri) > MAX_LENGTH:
        return uri
    return _NO_URI.sub(lambda found: quote(found[0], safe="", errors="surrogatepass"), normalized(uri))


def host_in_lower_case(uri: str) -> str:
    """Return a URI with its host in lower case."""
    start = uri.find("://") + 3
    if start < 3 or ":" in uri[: start - 3]:
        return uri
    end = _END.search(uri, start)
    stop = len(uri) if end is None else end.start()
    start = uri.rfind("@", start, stop) + 1 or start
    host = _ESCAPE.sub(lambda found: found[0].upper(), uri[start:stop].lower())
    return f"{uri[:start]}{host}{uri[stop:]}"


@lru_cache(maxsize=1024)
def _short_comparable(uri: str) -> str:
    return host_in_lower_case(encoded(uri))


def comparable(uri: str) -> str:
    """Return what all spellings of a URI have in common."""
    return _short_comparable(uri) if len(uri) <= 1024 else host_in_lower_case(encoded(uri))


def same_uri(one: str, other: str) -> bool:
    """Return whether two texts are spellings of one URI."""
    return one == other or comparable(one) == comparable(other)


def spellings(uri: str) -> tuple[str, ...]:
    """Return the spellings of a URI that a policy may be written in: as it is, normalized, and with letters decoded."""
    if len(uri) > MAX_LENGTH:
        return (uri,)
    plain = encoded(uri)
    decoded = _ENCODED.sub(_decoded, plain)
    both = (plain, decoded)
    return tuple(dict.fromkeys((uri, normalized(uri), *both, *map(host_in_lower_case, both))))


def _decoded(found: re.Match[str]) -> str:
    try:
        text = bytes.fromhex(found[0].replace("%", "")).decode()
    except ValueError:
        return found[0]
    return text if text.isprintable() else found[0]


class ComparedUris:
    """URIs in the spellings in which they were added; two spellings of one URI are one member."""

    def __init__(self, uris: Iterable[str] = ()) -> None:
        self._spelled: dict[str, str] = {}
        for uri in uris:
            self.add(uri)

    def add(self, uri: str) -> None:
        """Add a URI; its last spelling is kept."""
        self._spelled[comparable(uri)] = uri

    def discard(self, uri: str) -> None:
        """Remove a URI, in any spelling."""
        self._spelled.pop(comparable(uri), None)

    def spelled(self, uri: str) -> str | None:
        """Return a member as it was added, for any spelling of it; None if it is no member."""
        return self._spelled.get(comparable(uri))

    def __contains__(self, uri: object) -> bool:
        return isinstance(uri, str) and comparable(uri) in self._spelled

    def __iter__(self) -> Iterator[str]:
        return iter(tuple(self._spelled.values()))

    def __len__(self) -> int:
        return len(self._spelled)


class Spell(Protocol):
    """Returns the spelling of a URI, or of the text of a template, for which a request is served."""

    def __call__(self, uri: str, /, *, of_template: bool = False) -> str:
        """Return it."""
        ...


def spelled_as_usual(uri: str, /, *, of_template: bool = False) -> str:
    """Return the spelling of a URI for policies of a server whose resources are not known; templates stay as they are."""
    return uri if of_template else normalized(uri)


def unescaped(uri: str, /, *, of_template: bool = False) -> str:
    """Return the spelling of a URI for a handler written by hand, which compares it with what it lists.

    Escapes are as `normalized` has them; the scheme stays in the case of the client.
    """
    scheme = uri.partition(":")[0]
    return uri if of_template else scheme + normalized(f"x{uri[len(scheme) :]}")[1:]


def with_uris(method: str, params: Mapping[str, Json], spell: Spell) -> Mapping[str, Json]:
    """Return the params of a method of `OF_RESOURCES`, with each URI of a resource in the spelling that `spell` returns."""
    if method == _COMPLETE:
        ref = json_object(params.get("ref"))
        uri = ref.get("uri")
        if not isinstance(uri, str):
            return params
        return {**params, "ref": {**ref, "uri": spell(uri, of_template=True)}}
    if method == _LISTEN:
        wanted = json_object(params.get("notifications"))
        uris = wanted.get(_SUBSCRIPTIONS)
        if not is_json_list(uris):
            return params
        several = [spell(each) if isinstance(each, str) else each for each in uris]
        return {**params, "notifications": {**wanted, _SUBSCRIPTIONS: several}}
    uri = params.get("uri")
    return {**params, "uri": spell(uri)} if isinstance(uri, str) else params


def uris_in(method: str, params: Mapping[str, Json]) -> list[str]:
    """Return the URIs of resources that the params of a method of `OF_RESOURCES` hold."""
    found: list[str] = []

    def take(uri: str, /, *, of_template: bool = False) -> str:
        del of_template
        found.append(uri)
        return uri

    with_uris(method, params, take)
    return found


def has_long_uris(method: str, params: Mapping[str, Json]) -> bool:
    """Return whether params hold a URI that is too long to have other spellings, so that no policy can decide about it."""
    return any(len(uri) > MAX_LENGTH for uri in uris_in(method, params))


def too_long() -> InvalidParams:
    """Return the error of a request with such a URI."""
    return InvalidParams(f"Invalid params: a URI has more than {MAX_LENGTH} characters")


def other_spellings(method: str, params: Mapping[str, Json]) -> Iterator[Mapping[str, Json]]:
    """Yield params with their URIs in the other spellings in which a policy may name them."""
    found = [spellings(uri) for uri in uris_in(method, params)]
    for turn in range(1, max(map(len, found), default=0)):
        of_uri = {several[0]: several[min(turn, len(several) - 1)] for several in found}

        def spell(uri: str, /, *, of_template: bool = False, of_uri: dict[str, str] = of_uri) -> str:
            del of_template
            return of_uri[uri]

        yield with_uris(method, params, spell)


def canonical_message(message: Message | Batch, spell: Spell) -> Message | Batch:
    """Return a message with each URI of a resource in the spelling that `spell` returns; itself if it has no other."""
    if isinstance(message, Batch):
        members = tuple(canonical_message(each, spell) for each in message.messages)
        same = all(one is other for one, other in zip(members, message.messages, strict=True))
        return message if same else Batch(cast("Any", members))
    if not isinstance(message, Request) or message.method not in OF_RESOURCES or message.params is None:
        return message
    params = dict(with_uris(message.method, message.params, spell))
    return (
        message if params == message.params else Request(message.id, message.method, params, message.origin)
    )
