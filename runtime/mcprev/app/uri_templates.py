"""URI templates and how they match URIs (RES-3, RES-4, RFC 6570).

`{name}` matches one part of a URI, without `/`, `?`, `#` and `&`. `{+name}` and `{name*}` match any text, `{/name*}` any
number of segments; at most one of these is in a template. `{?name,other}` and `{&name}` at the end match the members of a
query in any order; those that are left out have no value. The values are percent-decoded, and come from the client: check
them before you use them in a path or a query (`file_path` does so for files).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Final
from urllib.parse import quote, unquote, urlsplit

from mcprev.errors import InvalidParams, ResourceNotFound
from mcprev.protocol.uris import comparable, encoded, foreign_character, is_uri

_NAME: Final = r"[A-Za-z_][A-Za-z0-9_]*"
_EXPRESSION: Final = re.compile(rf"\{{([+#./;?&]?)({_NAME}\*?(?:,{_NAME}\*?)*)\}}")
_QUERY: Final = re.compile(rf"\{{[?&]{_NAME}\*?(?:,{_NAME}\*?)*\}}")
_MEMBER: Final = re.compile(rf"([^={{}}]+)=(?:([^{{}}]*)|\{{({_NAME})\}})")
_KINDS: Final = "{name}, {+name}, {#name}, {.name}, {/name}, {/name*}, {;name}, {?name} and {&name}"
_MOST: Final = 4
"""How many expressions of a template, before its query, may be left out of a URI."""
_DELIMITERS: Final = frozenset("/?#&")
_OF_SEGMENTS: Final = frozenset("?#&")
_IN_PART: Final = frozenset("!$'()*+,;=:@")
_IN_MEMBER: Final = "!$'()*,/:;?@"
_IN_TEXT: Final = "!#$&'()*+,/:;=?@[]"
"""The characters that need not be percent-encoded in a member of a query, and in any text, beside letters and digits."""


@dataclass(frozen=True, slots=True)
class _Variable:
    """A variable of a template before its query, and the text that stands before it if it has a value."""

    name: str
    before: str = ""
    any_text: bool = False
    segments: bool = False
    optional: bool = False


@dataclass(frozen=True, slots=True)
class _Member:
    """A member of a query: its name, and its value in the template if that is not a variable."""

    name: str
    value: str | None = None
    variable: str = ""
    repeated: bool = False
    optional: bool = False


class _Form:
    """A template before its query, with those of its variables that have values."""

    def __init__(self, parts: Sequence[str | _Variable]) -> None:
        self.literals = [""]
        self.variables: list[_Variable] = []
        for part in parts:
            if isinstance(part, str):
                self.literals[-1] += part
            else:
                self.literals[-1] += part.before
                self.variables.append(part)
                self.literals.append("")
        several = [at for at, each in enumerate(self.variables) if each.any_text or each.segments]
        self.several = len(several) > 1
        """Whether more than one variable matches any text."""
        self._plus = several[0] if several else len(self.variables)
        """The index of the variable that matches any text; if there is none, the number of variables."""
        self._compared = _compared(self.literals)

    def spans(self, uri: str, *, compared: bool) -> list[tuple[int, int]] | None:
        """Return where the variables of a URI begin and end; None if it does not match.

        `compared` URIs are as `comparable` returns them. What matches any text matches as much as possible, and other
        variables as little. Each literal is looked for once from either end, so that the time grows with the length of
        the URI.
        """
        literals = self._compared if compared else self.literals
        first, *inner, last = literals if self.variables else (*literals, "")
        begin, end = len(first), len(uri) - len(last)
        if not uri.startswith(first) or not uri.endswith(last):
            return None
        if not self.variables:
            return [] if begin == end else None
        rest = end  # where the text after the variable of any text begins
        for literal in reversed(inner[self._plus :]):
            rest = uri.rfind(literal, begin, rest - 1)
            if rest < 0:
                return None
        spans: list[tuple[int, int]] = []
        for index, literal in enumerate(inner):
            at = rest if index == self._plus else uri.find(literal, begin + 1, end)
            spans.append((begin, max(at, 0)))
            begin = at + len(literal)
        spans.append((begin, end))
        for variable, span in zip(self.variables, spans, strict=True):
            value = uri[slice(*span)]
            wrong = _OF_SEGMENTS if variable.segments else _DELIMITERS
            if not value or (not variable.any_text and not wrong.isdisjoint(value)):
                return None
        return spans


class Template:
    """A URI template."""

    def __init__(self, text: str, *, lists: Collection[str] = (), optional: Collection[str] = ()) -> None:
        """Parse a template; `lists` are the variables whose values are lists, `optional` those that may be left out.

        The variables of `{?name}` and `{&name}` always may. Raises `ValueError` for an invalid template, and for one that
        can match in more than one way.
        """
        self.text = text
        self._lists, self._optional = frozenset(lists), frozenset(optional)
        literals = _EXPRESSION.split(text)[0::3]
        wrong = next((literal for literal in literals if set("{}") & set(literal)), None)
        if wrong is not None:
            raise ValueError(f"'{text}' holds '{wrong}': only {_KINDS} are supported")
        foreign = foreign_character("".join(literals))
        if foreign is not None:
            code = "".join(f"%{byte:02X}" for byte in foreign.encode(errors="replace"))
            raise ValueError(f"'{text}' has {foreign!r}, which no URI has; write {code}")
        if not is_uri(_EXPRESSION.sub("x", text)):
            raise ValueError(
                f"'{text}' is not a template of absolute URIs; begin with a scheme, as in 'notes://'"
            )
        path, self._members = self._query()
        self._parts = tuple(self._path(path))
        names = [each.name for each in self._parts if isinstance(each, _Variable)]
        names += [each.variable for each in self._members or () if each.variable]
        self.names: Final = tuple(names)
        if len(set(names)) < len(names):
            raise ValueError(f"'{text}' has the same variable twice")
        self.left_out: Final = frozenset(each.variable for each in self._members or () if each.optional)
        """The variables of the query that a URI may leave out."""
        self._forms = tuple(self._all_forms())
        between = self._forms[0].literals[1:]
        self._safe = "".join(_IN_PART - set("".join(between)))
        """The characters that need not be percent-encoded in a `{name}`, beside letters and digits."""
        self._in_text = "".join(set(_IN_TEXT) - (set() if self._members is None else set("?#")))

    def renamed(self, text: str) -> Template:
        """Return a template of another text, with the same lists and the same variables that may be left out."""
        return Template(text, lists=self._lists, optional=self._optional)

    def match(self, uri: str) -> dict[str, str | list[str]] | None:
        """Return the variables of a matching URI that have values; None if it does not match."""
        found = self._found(uri, uri, compared=False)
        if found is None:
            return None
        form, raw = found
        values: dict[str, str | list[str]] = {}
        for part in self._parts:
            if isinstance(part, _Variable) and (part in form.variables or part.segments):
                items = self._items(part.name, raw.get(part.name, []), "/" if part.segments else ",")
                if items or part.name not in self._optional:
                    values[part.name] = self._value(part.name, items, "/")
        for member in self._members or ():
            if member.variable in raw:
                items = self._items(member.variable, raw[member.variable], "" if member.repeated else ",")
                values[member.variable] = self._value(member.variable, items, ",")
        return {name: values[name] for name in self.names if name in values}

    def canonical(self, uri: str) -> str | None:
        """Return the spelling of a matching URI that has the literals of the template; None for any other URI.

        All URIs with the same variables have the same one: characters are percent-encoded that the template or a URI does
        not allow in the variable, the members of a query are in the order of the template, and there are no others.
        """
        found = self._found(comparable(uri), encoded(uri), compared=True)
        if found is None:
            return None
        form, raw = found
        spelled = [form.literals[0]]
        for variable, literal in zip(form.variables, form.literals[1:], strict=True):
            if variable.any_text:
                spelled.append(quote(unquote(raw[variable.name][0]), safe=self._in_text))
            else:
                separator = "/" if variable.segments else ","
                items = self._items(variable.name, raw[variable.name], separator)
                safe = self._safe
                if variable.name in self._lists:
                    safe = safe.replace(separator, "")
                elif variable.segments:
                    safe += "/"
                spelled.append(separator.join(quote(item, safe=safe) for item in items))
            spelled.append(literal)
        query: list[str] = []
        for member in self._members or ():
            values = (
                raw.get(member.variable, [])
                if member.value is None
                else [quote(member.value, safe=_IN_MEMBER)]
            )
            split = member.variable in self._lists and not member.repeated
            safe = _IN_MEMBER.replace(",", "") if split else _IN_MEMBER
            for value in values:
                items = self._items(member.variable, [value], "," if split else "")
                query.append(
                    f"{quote(member.name, safe='')}={','.join(quote(each, safe=safe) for each in items)}"
                )
        return "".join(spelled) + ("?" if query else "") + "&".join(query)

    def _items(self, name: str, raw: Sequence[str], separator: str) -> list[str]:
        """Return the decoded items of a list, or the one text of another variable."""
        if separator and (name in self._lists or separator == "/"):
            raw = [item for text in raw if text for item in text.split(separator)]
        return [unquote(item) for item in raw]

    def _value(self, name: str, items: list[str], separator: str) -> str | list[str]:
        return items if name in self._lists else separator.join(items)

    def _found(self, uri: str, plain: str, *, compared: bool) -> tuple[_Form, dict[str, list[str]]] | None:
        """Return the form that matches a URI, and the encoded values in `plain`, which is as long; None if none does."""
        raw: dict[str, list[str]] = {}
        if self._members is not None:
            uri, plain, query = uri.partition("?")[0], *plain.partition("?")[::2]
            if "#" in uri or "#" in query or not self._read_query(query, raw):
                return None
        for form in self._forms:
            spans = form.spans(uri, compared=compared)
            if spans is not None:
                for variable, span in zip(form.variables, spans, strict=True):
                    raw[variable.name] = [plain[slice(*span)]]
                return form, raw
        return None

    def _read_query(self, query: str, raw: dict[str, list[str]]) -> bool:
        """Add the encoded values of the variables of a query; return whether it has all that the template wants."""
        given: dict[str, list[str]] = {}
        for text in query.split("&"):
            name, _, value = text.partition("=")
            given.setdefault(unquote(name), []).append(value)
        for member in self._members or ():
            values = given.get(member.name, [])
            if member.value is not None:
                if not values or unquote(values[0]) != member.value:
                    return False
            elif values and (values[0] or member.optional):
                raw[member.variable] = values if member.repeated else values[:1]
            elif not member.optional:
                return False
        return True

    def _query(self) -> tuple[str, tuple[_Member, ...] | None]:
        """Return the template before its query, and the members of the query; None if it has none that may be left out."""
        found = _QUERY.search(self.text)
        if found is None:
            return self.text, None
        head, tail = self.text[: found.start()], self.text[found.start() :]
        path, question, fixed = head.partition("?")
        if _QUERY.sub("", tail) or "#" in head:
            raise ValueError(
                f"'{self.text}' has more after '{found[0]}'; {{?name}} and {{&name}} have to be last"
            )
        if (found[0][1] == "?") == bool(question) or "{?" in tail[1:]:
            raise ValueError(
                f"'{self.text}' begins its query with {{?name}}, and goes on with {{&name}}; write it so"
            )
        members: list[_Member] = []
        for text in fixed.split("&") if question else ():
            member = _MEMBER.fullmatch(text)
            if member is None:
                raise ValueError(
                    f"'{self.text}' has '{text}' in its query; write name=value or name={{variable}}"
                )
            value = None if member[3] else unquote(member[2])
            members.append(_Member(unquote(member[1]), value, member[3] or ""))
        for expression in _EXPRESSION.finditer(tail):
            for name in expression[2].split(","):
                plain = name.removesuffix("*")
                if plain != name and plain not in self._lists:
                    raise ValueError(
                        f"'{self.text}' has '{name}', whose value is no list; write it without '*'"
                    )
                members.append(_Member(plain, None, plain, repeated=plain != name, optional=True))
        return path, tuple(members)

    def _path(self, path: str) -> Iterator[str | _Variable]:
        """Yield the literals and variables of a template before its query."""
        split = _EXPRESSION.split(path)
        yield split[0]
        for operator, names, literal in zip(split[1::3], split[2::3], split[3::3], strict=True):
            for index, name in enumerate(names.split(",")):
                plain = name.removesuffix("*")
                before = {"": "," if index else "", "+": "," if index else "", ";": f";{plain}="}.get(
                    operator, operator
                )
                if plain != name and operator in {"#", ".", ";"}:
                    raise ValueError(
                        f"'{self.text}' has '{operator}{name}'; '*' is supported without an operator and with / ? &"
                    )
                segments = operator == "/" and plain != name
                any_text = operator in {"+", "#"} or (
                    not operator and plain != name and plain not in self._lists
                )
                optional = operator in {"#", ".", "/", ";"} and (segments or plain in self._optional)
                yield _Variable(plain, before, any_text, segments, optional)
            yield literal

    def _all_forms(self) -> Iterator[_Form]:
        """Yield the template before its query with all its variables, then with fewer and fewer of the optional ones."""
        first = _Form(self._parts)
        if first.several:
            raise ValueError(f"'{self.text}' has more than one {{+variable}}, so their values are ambiguous")
        if not all(first.literals[1:-1]):
            raise ValueError(
                f"'{self.text}' has no text between two variables, so their values are ambiguous"
            )
        yield first
        optional = [each for each in reversed(self._parts) if isinstance(each, _Variable) and each.optional]
        if len(optional) > _MOST:
            raise ValueError(f"'{self.text}' has more than {_MOST} variables that may be left out")
        for count in range(1, len(optional) + 1):
            for away in combinations(optional, count):
                yield _Form([each for each in self._parts if each not in away])


def _compared(literals: Sequence[str]) -> list[str]:
    """Return the literals of a template as they are in what all spellings of a URI have in common."""
    mark = (
        f"~{'0' * sum(map(len, literals))}~"  # longer than what it stands between, so that no literal has it
    )
    return comparable(mark.join(literals)).split(mark)


def file_path(uri: str, root: Path) -> Path:
    """Return the path below `root` for a `file://` URI, with links resolved; the file need not exist.

    Raises `InvalidParams` for any other URI, and `ResourceNotFound` for a path outside of `root`, whether it exists or
    not.
    """
    parts = urlsplit(uri)
    path = unquote(parts.path)
    if parts.scheme.lower() != "file" or parts.netloc not in {"", "localhost"} or "\0" in path:
        raise InvalidParams(f"Invalid params: not a file:// URI of this machine: {uri!r:.80}")
    base = root.resolve()
    found = base.joinpath(path).resolve()
    if not found.is_relative_to(base):
        raise ResourceNotFound("no such resource", data={"uri": uri})
    return found
