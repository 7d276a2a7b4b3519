"""Templates of URIs with queries, paths and lists: served, listed, completed, seen by policies, mounted, bridged."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final

import pytest
from hypothesis import given, strategies as st

import mcprev
from fuzz.fuzzing import each_once
from helpers.linear import Text, assert_linear
from helpers.requirements import req
from helpers.running import run
from mcprev.app import uri_templates
from mcprev.app.uri_templates import Template
from mcprev.revisions import DEFAULT, Revision

ROWS: Final = pytest.mark.parametrize("row", DEFAULT, ids=str)
LISTS: Final = ("list", "items")
OPTIONAL: Final = ("ext", "p", "frag", "part")
READS: Final[Mapping[str, Mapping[str, Mapping[str, object] | None]]] = {
    "s://x{?q,page}": {
        "s://x": {}, "s://x?": {}, "s://x?q=a": {"q": "a"}, "S://x?page=2&q=b": {"q": "b", "page": "2"}, "s://x?q=a&z=1": {"q": "a"},
        "s://x?q=": {"q": ""}, "s://x?q": {"q": ""}, "s://x?q=a%20b+c%26": {"q": "a b+c&"}, "s://x?q=a&q=b": {"q": "a"},
        "s://x?%71=a": {"q": "a"}, "s://x?q=caf%c3%a9": {"q": "caf\u00e9"}, "s://x?q=a#b": None, "s://x/y?q=a": None, "s://x#y": None,
    },
    "s://x?a=1&b={b}{&q}": {
        "s://x?a=1&b=2": {"b": "2"}, "s://x?q=3&b=2&a=1": {"b": "2", "q": "3"}, "s://x?a=2&b=2": None, "s://x?b=2": None,
        "s://x?a=1&b=": None, "s://x?%61=%31&b=2": {"b": "2"},
    },
    "s://{path*}": {"s://a": {"path": "a"}, "s://a/b%2Fc": {"path": "a/b/c"}},
    "s://{path*}{?q}": {"s://a/b?q=c": {"path": "a/b", "q": "c"}, "s://a%3Fb": {"path": "a?b"}},
    "s://{list*}": {"s://a": {"list": ["a"]}, "s://a,b%2Cc": {"list": ["a", "b,c"]}, "s://a/b": None},
    "s://x{/path*}": {"s://x": {"path": ""}, "s://x/a/b": {"path": "a/b"}, "s://xa": None, "s://x/a?b": None},
    "s://{a}{/list*}": {
        "s://x": {"a": "x", "list": []}, "s://x/b": {"a": "x", "list": ["b"]}, "s://x/b/c%2Fd": {"a": "x", "list": ["b", "c/d"]},
    },
    "s://x{/list*}/end": {"s://x/end": {"list": []}, "s://x/a/b/end": {"list": ["a", "b"]}, "s://x/a": None},
    "s://x{?list*}": {"s://x?list=a&list=b,c": {"list": ["a", "b,c"]}, "s://x": {}},
    "s://x{?list,q}": {"s://x?q=1,2&list=a,b%2Cc": {"list": ["a", "b,c"], "q": "1,2"}, "s://x?list=": {"list": []}},
    "s://{a,b}": {"s://1,2": {"a": "1", "b": "2"}, "s://1": None},
    "s://x{/a,b}": {"s://x/1/2": {"a": "1", "b": "2"}, "s://x/1": None},
    "s://x{/a}{/part}": {"s://x/1/2": {"a": "1", "part": "2"}, "s://x/1": {"a": "1"}, "s://x/1/2/3": None},
    "s://x{.ext}": {"s://x.tar": {"ext": "tar"}, "s://x": {}},
    "s://x{;p}": {"s://x;p=1": {"p": "1"}, "s://x": {}, "s://x;q=1": None},
    "s://x{#frag}": {"s://x#a/b?c": {"frag": "a/b?c"}, "s://x": {}},
    "s://h/{a}{/part}{.ext}{;p}{#frag}": {
        "s://h/1": {"a": "1"}, "s://h/1/2.e;p=3#f/g": {"a": "1", "part": "2", "ext": "e", "p": "3", "frag": "f/g"},
        "s://H/1#f": {"a": "1", "frag": "f"},
    },
}  # fmt: skip
"""By template, by URI: the values, or None for a URI that does not match."""
EVERY: Final = [
    pytest.param(template, uri, wanted, id=f"{template} {uri}")
    for template, several in READS.items()
    for uri, wanted in several.items()
]


def read(text: str) -> Template:
    return Template(text, lists=LISTS, optional=OPTIONAL)


@req("RES-4", everywhere=True)
@pytest.mark.parametrize(("template", "uri", "wanted"), EVERY)
def test_what_a_uri_says(template: str, uri: str, wanted: Mapping[str, object] | None) -> None:
    canonical = read(template).canonical(uri)
    assert (None if canonical is None else read(template).match(canonical)) == wanted


WORDS: Final = st.text("a1/?#&=,;.%+ \u00e9", max_size=6)


@req("RES-4", everywhere=True)
@pytest.mark.parametrize("template", READS)
@given(rest=WORDS, query=st.lists(st.tuples(st.sampled_from("abq"), WORDS), max_size=3))
def test_each_spelling_has_one_that_says_the_same(
    template: str, rest: str, query: list[tuple[str, str]]
) -> None:
    """What decides about the one spelling decides about what the function gets."""
    uri = f"s://x{rest}" + "?" * bool(query) + "&".join(f"{name}={value}" for name, value in query)
    canonical = read(template).canonical(uri)
    if canonical is not None:
        assert read(template).canonical(canonical) == canonical
        assert read(template).match(canonical) is not None


@req("RES-4", "SEC-6", everywhere=True)
@each_once
@pytest.mark.parametrize("template", READS)
@pytest.mark.parametrize("again", ["a", "/", "/a", "&q=1", ",", "?", ".a"])
def test_the_steps_of_a_match_grow_with_the_uri(template: str, again: str) -> None:
    assert_linear(read(template).match, lambda size: Text("s://x" + again * size), uri_templates)


# -- an app with such templates ------------------------------------------------------------------------------

TEMPLATES: Final = ("q://items{?word,page}", "f://docs{/path*}", "g://{path*}", "h://x?fixed=1{&y*}")
ASKED: Final = {
    "q://items?page=2&word=a%20b": ("q://items?word=a%20b&page=2", "a b/2"),
    "q://items": ("q://items", "all/1"),
    "f://docs/a/b%2fc": ("f://docs/a/b%2Fc", "a+b/c"),
    "f://docs": ("f://docs", ""),
    "g://a%2Fb/c": ("g://a/b/c", "a/b/c"),
    "h://x?y=1&y=2&fixed=1&z=3": ("h://x?fixed=1&y=1&y=2", "3"),
}
"""By URI: the spelling that a policy sees, and the text."""


def library(**options: Any) -> mcprev.App:
    app = mcprev.App("library", "1", **options)

    @app.resource(TEMPLATES[0], visible=lambda _: True)
    def items(word: str = "all", page: int = 1) -> str:
        return f"{word}/{page}"

    @app.resource(TEMPLATES[1])
    def docs(path: list[str]) -> str:
        return "+".join(path)

    @app.resource(TEMPLATES[2])
    def text(path: str) -> str:
        return path

    @app.resource(TEMPLATES[3])
    def total(y: list[int] = []) -> str:  # noqa: B006 - each call gets a copy
        return str(sum(y))

    @app.completion(TEMPLATES[0], "word")
    def words(value: str) -> list[str]:
        return [f"{value}!"]

    return app


def mounted() -> mcprev.App:
    outer = mcprev.App("outer", "1")
    outer.mount(library(), "in")
    return outer


WAYS: Final[Mapping[str, tuple[Callable[[], Any], Callable[[str], str]]]] = {
    "itself": (library, str),
    "mounted": (mounted, lambda uri: uri.replace("://", "://in/", 1)),
    "bridged": (lambda: mcprev.Bridge(library()), str),
    "one of two": (lambda: mcprev.Bridge({"one": library(), "two": mcprev.App("two", "1")}), "one+{}".format),
}


@req("RES-3", "RES-4", everywhere=True)
@ROWS
@each_once
@pytest.mark.parametrize("way", WAYS)
def test_templates_are_listed_read_and_completed(way: str, row: Revision) -> None:
    make, named = WAYS[way]

    async def main() -> None:
        async with mcprev.connect(make(), mode=row.name) as client:
            listed = [each.uri_template async for each in client.resource_templates()]
            assert listed == [named(each) for each in TEMPLATES]
            for uri, (_, text) in ASKED.items():
                assert (await client.read_resource(named(uri))).text == text, uri
            done = await client.complete(named(TEMPLATES[0]), "word", "ab")
            assert done.completion.values == ["ab!"]

    run(main())


@req("RES-4", everywhere=True)
@ROWS
def test_a_policy_sees_one_spelling(row: Revision) -> None:
    seen: list[str] = []

    async def sees(call: mcprev.HandlerCall, call_next: mcprev.CallNext) -> mcprev.HandlerResult:
        seen.append(getattr(call.params, "uri", ""))
        return await call_next(call)

    async def main() -> None:
        async with mcprev.connect(library(middleware=[sees]), mode=row.name) as client:
            for uri in ASKED:
                await client.read_resource(uri)

    run(main())
    assert seen == [canonical for canonical, _ in ASKED.values()]


@req("SUB-1", "SUB-3", everywhere=True)
@ROWS
@each_once
@pytest.mark.parametrize("inside", ["", "in/"])
@pytest.mark.parametrize(
    ("wanted", "changed"),
    [
        ("q://%sitems?page=2&word=a%%20b", "q://%sitems?word=a b&page=2"),
        ("g://%sa%%2Fb", "g://%sa/b"),
        ("g://%sa/b", "g://%sa%%2Fb"),
        ("h://%sx?y=1&fixed=1", "h://%sx?fixed=1&y=1&z=2"),
    ],
)
def test_who_subscribed_in_one_spelling_hears_of_another(
    wanted: str, changed: str, inside: str, row: Revision
) -> None:
    async def main() -> None:
        app = mounted() if inside else library()
        async with (
            mcprev.connect(app, mode=row.name) as client,
            client.listen(uris=wanted % inside) as changes,
        ):
            app.server.changed("resource", "g://other")
            app.server.changed("resource", changed % inside)
            async with asyncio.timeout(10):
                assert (await anext(aiter(changes))).uri == wanted % inside

    run(main())


def test_a_query_that_clients_may_leave_out_needs_a_default() -> None:
    def by(word: str) -> str:
        return word

    with pytest.raises(TypeError, match=r"the parameter 'word' needs a default: .* may leave it out"):
        mcprev.App("library", "1").resource("q://items{?word}")(by)
