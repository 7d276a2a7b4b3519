"""Renders the pages; all text of a schema is escaped by the templates, and printable."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from importlib.resources import files
from itertools import combinations
from typing import Any, Final

import jinja2
from markupsafe import Markup, escape

from mcprev_codegen.diff import Change, Report, Verdict
from mcprev_codegen.diff.render.html import groups, html_environment, pairs
from mcprev_codegen.diff.report import wording
from mcprev_codegen.errors import clean
from mcprev_codegen.ir import Json
from mcprev_explore import drawings
from mcprev_explore.book import Book, Column, LifePoint, MethodFacts, TypeFacts, Version, map_groups
from mcprev_explore.ladder import Rule
from mcprev_explore.names import fragment
from mcprev_explore.rule_examples import RuleExample, rule_examples

MARK: Final = "Written by mcprev explore; not edited by hand."
_TOKENS: Final = re.compile(r"\"(?:[^\"\\]|\\.)*\"|`[^`]*`|[A-Za-z_$][\w$]*(?!\w*\??:)")
_CODE: Final = re.compile(r"`([^`]+)`")
_EXAMPLE: Final = 6_000
"""How long an example may be before only its required members are shown."""
_CUT: Final = 1_500


@dataclass(frozen=True, slots=True)
class PairRules:
    """What a peer of one revision gets instead, of one step on the way."""

    source: str
    target: str
    href: str
    rules: tuple[Rule, ...]


@dataclass(frozen=True)
class Site:
    """The pages of a book."""

    book: Book

    def files(self) -> dict[str, str]:
        """Return every file of the site by its path."""
        found = {
            "index.html": self._page("start", "", "Revisions"),
            "map.html": self._page("map", "", "Map", groups=self._map()),
            "lives.html": self._page("lives", "", "History"),
            "constants.html": self._page("constants", "", "Constants and errors"),
            "search.html": self._page("search", "", "Search"),
            "site.css": f"/* {MARK} */\n{_asset('site.css')}",
            "site.js": f"/* {MARK} */\n{_asset('site.js')}",
            "search-data.js": self._search_data(),
        }
        for name, facts in self.book.types.items():
            path = f"type/{self.book.type_files[name]}.html"
            found[path] = self._page("type", "../", name, **self._type(name, facts))
        for name, methods in self.book.methods.items():
            path = f"method/{self.book.method_files[name]}.html"
            found[path] = self._page("method", "../", name, **self._method(name, methods))
        for (old, new), report in self.book.reports.items():
            context = self._pair(old, new, report)
            found[f"{self.pair_href(old, new)}"] = self._page("diff", "../", f"{old} → {new}", **context)
        for older, newer in self.steps:
            context = self._step(older, newer)
            found[f"rules/{self.book.revision_files[newer]}.html"] = self._page(
                "rules", "../", f"Rules between {older} and {newer}", **context
            )
        return found

    # -- links ---------------------------------------------------------------------------------------

    def pair_href(self, old: str, new: str) -> str:
        """Return the path of the page of two revisions."""
        return f"diff/{self.book.revision_files[old]}..{self.book.revision_files[new]}.html"

    def type_href(self, name: str) -> str:
        """Return the path of the page of a type."""
        return f"type/{self.book.type_files[name]}.html"

    def method_href(self, name: str) -> str:
        """Return the path of the page of a method."""
        return f"method/{self.book.method_files[name]}.html"

    def rule_href(self, rule: Rule) -> str:
        """Return the path of a rule in the page of its step."""
        order = self.book.ladder.order
        newer = max(rule.source, rule.target, key=order.index)
        return f"rules/{self.book.revision_files[newer]}.html#{fragment(rule.id)}"

    @cached_property
    def steps(self) -> list[tuple[str, str]]:
        """The steps of the ladder between the pinned revisions of the site, each the older and the newer one."""
        names = {c.revision.name for c in self.book.columns if c.revision.pin is not None}
        here = [name for name in self.book.ladder.order if name in names]
        return self.book.ladder.steps(here[0], here[-1]) if here else []

    @cached_property
    def rule_examples(self) -> Mapping[str, RuleExample]:
        """An example of each rule, by id."""
        return rule_examples(self.book)

    # -- pages ---------------------------------------------------------------------------------------

    @cached_property
    def _environment(self) -> jinja2.Environment:
        environment = html_environment(jinja2.FunctionLoader(lambda name: _asset(f"{name}.html.jinja")))
        filters: dict[str, Any] = environment.filters
        filters |= {"typed": self._typed, "code": _code, "sentence": _sentence, "fragment": fragment}
        return environment

    def _page(self, template: str, root: str, title: str, **context: object) -> str:
        return self._environment.get_template(template).render(
            site=self, book=self.book, root=root, title=title, page=template, mark=MARK, drawings=drawings,
            wording=wording, verdicts=list(reversed(Verdict)), **context,
        )  # fmt: skip

    def _type(self, name: str, facts: Mapping[str, TypeFacts]) -> dict[str, object]:
        versions = self.book.versions(facts)
        members = list(dict.fromkeys(m.name for version in versions for m in version.facts.members))
        return {
            "name": name,
            "versions": versions,
            "members": members,
            "grid": {member: [self._cell(facts, n, member) for n in range(len(self.book.columns))] for member in members},
            "life": self.book.lives["type", name],
            "carriers": self.book.carriers.get(name, ()),
            "used_by": self.book.used_by.get(name, ()),
            "rules": self._rules_about(name),
            "examples": [self._type_example(name, version) for version in versions],
        }  # fmt: skip

    def _cell(self, facts: Mapping[str, TypeFacts], n: int, member: str) -> tuple[str, str]:
        """Return the mark of a member in one revision, and what it means."""
        here = facts.get(self.book.labels[n])
        found = next((m for m in here.members if m.name == member), None) if here else None
        if found is None:
            return ("", "no such type" if here is None else "absent")
        before = facts.get(self.book.labels[n - 1]) if n else None
        old = next((m for m in before.members if m.name == member), None) if before else None
        presence = "optional" if found.optional else "required"
        if before is not None and old is None:
            return (f"{presence} new", f"{presence}, new")
        if old is not None and (old.type, old.optional) != (found.type, found.optional):
            return (f"{presence} changed", f"{presence}, changed")
        return (presence, presence)

    def _type_example(self, name: str, version: Version[TypeFacts]) -> str:
        label = version.columns[0].label
        text = _dumped(self.book.example(label, name))
        if len(text) > _EXAMPLE:
            text = _dumped(self.book.example(label, name, optional=False))
        return _shortened(text, _EXAMPLE)

    def _rules_about(self, name: str) -> list[Rule]:
        steps = {frozenset(step) for step in self.steps}
        return [
            rule
            for rule in self.book.ladder.rules
            if rule.subject.partition(".")[0] == name and frozenset((rule.source, rule.target)) in steps
        ]

    def _method(self, name: str, facts: Mapping[str, MethodFacts]) -> dict[str, object]:
        versions = self.book.versions(facts)
        return {
            "name": name,
            "versions": versions,
            "life": self.book.lives["method", name],
            "examples": [list(self._method_examples(version)) for version in versions],
            "instead": [
                (column, sentence)
                for column in self.book.columns
                if (sentence := self.book.ladder.counterparts.get(column.revision.name, {}).get(name, ""))
            ],
        }

    def _method_examples(self, version: Version[MethodFacts]) -> Iterator[tuple[str, str]]:
        """Yield examples of the message and of its results."""
        label, method = version.columns[0].label, version.facts.method
        message: dict[str, Json] = {"jsonrpc": "2.0"}
        if method.kind == "request":
            message["id"] = 1
        message["method"] = method.method
        parts: list[tuple[str, Json]] = []
        if method.params is not None:
            message["params"] = self._lean(label, method.params)
        parts.append((str(method.kind), message))
        parts += [
            (result, {"jsonrpc": "2.0", "id": 1, "result": self._lean(label, result)})
            for result in method.results
        ]
        yield from ((title, _shortened(_dumped(value), _EXAMPLE)) for title, value in parts)

    def _lean(self, label: str, name: str) -> Json:
        """Return a full example of a type; one with required members only if it is long."""
        full = self.book.example(label, name)
        return full if len(_dumped(full)) <= _CUT else self.book.example(label, name, optional=False)

    def _pair(self, old: str, new: str, report: Report) -> dict[str, object]:
        first, last = (self._pinned(label) for label in (old, new))
        steps = self.book.ladder.steps(first, last) if first and last else []
        down = [self._step_rules(newer, older) for older, newer in reversed(steps)]
        up = [self._step_rules(older, newer) for older, newer in steps]
        by_subject: dict[str, list[Rule]] = {}
        for step in (*down, *up):
            for rule in step.rules:
                by_subject.setdefault(rule.subject, []).append(rule)
        return {
            "old": old,
            "new": new,
            "report": report,
            "groups": groups(report),
            "pairs": pairs,
            "down": down,
            "up": up,
            "instead": partial(self._instead, by_subject),
            "counterparts": self._counterparts(first, last),
        }

    def _pinned(self, label: str) -> str:
        """Return the name of a pinned revision; empty for another schema."""
        column = next(c for c in self.book.columns if c.label == label)
        return column.revision.name if column.revision.pin is not None else ""

    def _step_rules(self, source: str, target: str) -> PairRules:
        newer = max(source, target, key=self.book.ladder.order.index)
        href = f"rules/{self.book.revision_files[newer]}.html"
        return PairRules(source, target, href, tuple(self.book.ladder.of_step(source, target)))

    def _instead(
        self, by_subject: Mapping[str, list[Rule]], changes: Sequence[Change]
    ) -> dict[str, list[Rule]]:
        """Return the rules about what changed, and those about the types that it is in."""
        exact: dict[str, None] = {}
        for change in changes:
            paths = [place.path for place in (change.old, change.new) if place is not None]
            exact |= dict.fromkeys(paths)
            exact |= {
                f"{heir}.{p.partition('.')[2]}": None for heir in change.affects for p in paths if "." in p
            }
        types = dict.fromkeys(path.partition(".")[0] for path in exact if "." in path)
        found = {
            "what the other peer gets instead": [rule for each in exact for rule in by_subject.get(each, ())],
            "rules about the type as a whole": [rule for each in types for rule in by_subject.get(each, ())],
        }
        return {title: rules for title, rules in found.items() if rules}

    def _counterparts(self, old: str, new: str) -> list[tuple[str, str, str]]:
        """Return the methods that only one of two revisions sends, the other revision, and what it does instead."""
        found: list[tuple[str, str, str]] = []
        for here, there in ((new, old), (old, new)):
            sentences = self.book.ladder.counterparts.get(there, {})
            own = (c for c in self.book.columns if c.revision.name == here)
            found += [
                (name, there, sentences[name])
                for column in own
                for name in column.revision.methods
                if sentences.get(name)
            ]
        return found

    def _step(self, older: str, newer: str) -> dict[str, object]:
        return {"older": older, "newer": newer, "ways": [self._step_rules(newer, older), self._step_rules(older, newer)]}  # fmt: skip

    def _map(self) -> object:
        return map_groups(self.book, self.method_href)

    def example_json(self, value: Json) -> Markup:
        """Return a JSON value as text; None is what is not there before a rule, or after it."""
        return Markup("absent") if value is None else _code(_shortened(_dumped(value), _CUT))

    def life_label(self, points: Sequence[LifePoint]) -> str:
        """Return a life in words."""
        told = [
            f"{point.state}{f' to {point.name}' if point.state == 'renamed' else ''} {label}"
            for label, point in zip(self.book.labels, points, strict=True)
            if point.state not in {"absent", "unchanged"}
        ]
        return ", ".join(told)

    # -- search --------------------------------------------------------------------------------------

    def _search_data(self) -> str:
        """Return the script that defines what can be searched: name, kind, path and further words of each entry."""
        entries: list[list[str]] = []
        for name, methods in self.book.methods.items():
            entries.append([name, "method", self.method_href(name), " ".join(methods)])
        for name, facts in self.book.types.items():
            latest = list(facts.values())[-1]
            entries.append([name, "type", self.type_href(name), f"{latest.doc} {' '.join(facts)}".strip()])
        for name, facts in self.book.types.items():
            own = dict.fromkeys(m.name for each in facts.values() for m in each.members if not m.inherited)
            docs = {m.name: m.doc for each in facts.values() for m in each.members}
            entries += [
                [f"{name}.{m}", "member", f"{self.type_href(name)}#{fragment('member-' + m)}", docs[m]]
                for m in own
            ]
        entries += [
            [name, "constant", f"constants.html#{fragment(name)}", str(list(values.values())[-1].value)]
            for name, values in self.book.constants.items()
        ]
        entries += [
            [f"{old} → {new}", "difference", self.pair_href(old, new), "diff compare changes"]
            for old, new in combinations(self.book.labels, 2)
        ]
        steps = {frozenset(step) for step in self.steps}
        entries += [
            [rule.id, "rule", self.rule_href(rule), rule.text]
            for rule in self.book.ladder.rules
            if frozenset((rule.source, rule.target)) in steps
        ]
        text = json.dumps([[clean(part) for part in entry] for entry in entries], separators=(",", ":"))
        return f"/* {MARK} */\nwindow.mcprevSearch = {text.replace('<', chr(92) + 'u003c')};\n"

    def _typed(self, text: str, label: str, root: str) -> Markup:
        """Return a TypeScript type with each name of a type of a revision as a link to its page."""
        column = self.column(label)
        known = column.revision.schema.types
        parts, last = Markup(""), 0
        for match in _TOKENS.finditer(text):
            if match[0] in known:
                parts += escape(clean(text[last : match.start()]))
                parts += Markup('<a href="{}{}#{}">{}</a>').format(
                    root, self.type_href(match[0]), column.anchor, match[0]
                )
                last = match.end()
        return parts + escape(clean(text[last:]))

    def column(self, label: str) -> Column:
        """Return a revision by its name."""
        return next(c for c in self.book.columns if c.label == label)


def _asset(name: str) -> str:
    return files("mcprev_explore").joinpath("templates", name).read_text(encoding="utf-8")


def _code(text: str) -> Markup:
    """Return text of several lines, each cleaned and escaped."""
    return Markup("\n").join(escape(clean(line)) for line in text.split("\n"))


def _sentence(text: str) -> Markup:
    """Return a sentence with what stands between backticks as code."""
    parts = _CODE.split(text)
    return Markup("").join(
        Markup("<code>{}</code>").format(clean(part)) if n % 2 else escape(clean(part))
        for n, part in enumerate(parts)
    )


def _dumped(value: Json) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)


def _shortened(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most].rpartition(chr(10))[0]}\n…"
