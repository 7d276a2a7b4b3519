"""Masks what looks like a secret where entries of hosts and their commands are shown (SEC-6)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Final

from mcprev.hosts.jsonc import Node, parse_jsonc
from mcprev.json_schema.bounds import LIST, OBJECT
from mcprev.transports.http.urls import mask_url
from mcprev.wire.payloads import MASK, is_secret, mask_arguments, mask_text

_SECRET: Final = frozenset({"env", "headers"})
"""The members of which every value is masked."""
HEADER_OPTIONS: Final = frozenset({"-H", "--header"})
"""Options of commands whose value is a header."""
_VARIABLE: Final = frozenset({"-e", "--env"})
"""Options of commands whose value is a variable of the environment."""
_ASSIGNMENT: Final = re.compile(r"((?:-e=?|--env=)?[A-Za-z_]\w*)=.*", re.DOTALL)


def masked_words(words: Sequence[str]) -> list[str]:
    """Return the words of a command, with what looks like a secret masked, and each header and variable."""
    shown: list[str] = []
    for before, word, plain in zip(["", *words], words, mask_arguments(words), strict=False):
        option, equals, _ = word.partition("=")
        variable = _ASSIGNMENT.fullmatch(word)
        if before in HEADER_OPTIONS:
            shown.append(MASK)
        elif equals and option in HEADER_OPTIONS:
            shown.append(f"{option}={MASK}")
        elif variable is not None and (before in _VARIABLE or word.startswith("-")):
            shown.append(f"{variable[1]}={MASK}")
        else:
            shown.append(mask_url(plain))
    return shown


def masked(text: str) -> str:
    """Return the text of a configuration, with what looks like a secret masked. Raises `JsoncError`."""
    parts: list[str] = []
    at = 0
    for start, end, shown in _values(parse_jsonc(text), secret=False):
        parts += (_masked_space(text[at:start]), text[start:end] if shown is None else json.dumps(shown))
        at = end
    return "".join([*parts, _masked_space(text[at:])])


def _masked_space(text: str) -> str:
    """Return what stands between two values, with its comments masked."""
    return mask_text(text) if "/" in text else text


def _values(node: Node, *, secret: bool) -> Iterator[tuple[int, int, str | None]]:
    """Yield the place of each name and value in the order of the text, with what is shown in its place, if anything."""
    for member in node.members:
        yield member.start, member.end, None
        named = member.name in _SECRET or (is_secret(member.name) and not member.node.members)
        yield from _values(member.node, secret=secret or named)
    words = masked_words([item.value if isinstance(item.value, str) else "" for item in node.items])
    for item, word in zip(node.items, words, strict=True):
        if isinstance(item.value, str) and word != item.value and not secret:
            yield item.start, item.end, word
        else:
            yield from _values(item, secret=secret)
    if isinstance(node.value, (OBJECT, LIST)):
        return
    if secret:
        yield node.start, node.end, MASK
    elif isinstance(node.value, str) and (shown := mask_text(mask_url(node.value))) != node.value:
        yield node.start, node.end, shown
