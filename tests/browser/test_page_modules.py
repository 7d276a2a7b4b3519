"""The modules of the page of `mcprev dev`, each in Chromium as it is served: JSON, forms, Markdown, templates, texts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import given, settings, strategies as st

from browser.fake import PAGE, Fake

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


@pytest.fixture(scope="module")
def blank(browser: Browser) -> Iterator[Page]:
    """A page under the policy of the real one, without its program."""
    fake = Fake()
    with fake:
        page = browser.new_page()
        page.route("**/main.js", lambda route: route.fulfill(body="", content_type="text/javascript"))
        page.goto(fake.origin)
        page.evaluate("""async () => {
              for (const name of ["dom", "json", "form", "markdown", "use", "stream", "result", "timeline", "store"]) window[name] = await import(`/page/${name}.js`);
            }""")
        yield page
        page.close()


# -- JSON --------------------------------------------------------------------------------------------------------------

TEXTS: Final = [
    ("1.0", "number"), ("-0", "number"), ("12345678901234567890", "number"), ("1e400", "number"), ('"a\\u0041\\n"', "string"),
    ('{"b":1,"a":2,"2":3,"1":4,"b":5}', "object"), ("[]", "array"), ("{}", "object"), ("[[],{}]", "array"), (" [ 1 , 2.50 ] ", "array"),
    ('"\\\\"', "string"), ('["\\\\\\"",null,true,false]', "array"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "kind"), TEXTS)
def test_json_keeps_every_value_as_it_is_written(blank: Page, text: str, kind: str) -> None:
    found, written = blank.evaluate(
        "text => { const node = json.parse(text); return [node.kind, json.compact(node)]; }", text
    )
    assert found == kind
    inside = "".join(text.split())
    assert written == inside


@pytest.mark.parametrize(
    "text",
    ["", "01", "1.", ".5", "+1", "NaN", "'a'", "[1,]", '{"a":1,}', '{"a"}', "{1:2}", "[1 2]", "[", "]", '{"a":1]', '"a', '"\\x"', '"\t"', "nul", "[1]x", "{,}", "[,1]"],
)  # fmt: skip
def test_what_is_no_json_is_none(blank: Page, text: str) -> None:
    assert blank.evaluate("text => json.parse(text)", text) is None
    with pytest.raises(ValueError):  # noqa: PT011
        json.loads(text, parse_constant=lambda _: json.loads("x"))


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), max_size=5), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


@settings(max_examples=15)
@given(st.lists(values, min_size=20, max_size=20))
def test_json_reads_what_python_writes(blank: Page, found: list[Any]) -> None:
    texts = [
        json.dumps(value, separators=(",", ":"), ensure_ascii=place % 2 == 0)
        for place, value in enumerate(found)
    ]
    written: list[str] = blank.evaluate("texts => texts.map((text) => json.compact(json.parse(text)))", texts)
    assert [json.loads(text) for text in written] == found


def test_json_ten_thousand_deep_and_ten_megabytes_long_is_read_and_shown(blank: Page) -> None:
    deep, rows = blank.evaluate("""() => {
          const text = "[".repeat(10000) + "]".repeat(10000);
          const view = json.view(text);
          document.body.append(view);
          return [json.compact(json.parse(text)).length, view.querySelectorAll("[role=treeitem]").length];
        }""")
    assert deep == 20_000
    assert 0 < rows < 200
    length, shown = blank.evaluate("""() => {
          const text = JSON.stringify({ a: "x".repeat(10_000_000) });
          const view = json.view(text);
          return [json.compact(json.parse(text)).length, view.textContent.length];
        }""")
    assert length == 10_000_008
    assert shown < 5_000


@pytest.mark.parametrize(
    ("parts", "path"),
    [
        ([], "$"),
        (["content", 0, "text"], "$.content[0].text"),
        (["odd name", "a.b", "it's", "é"], "$['odd name']['a.b']['it\\'s'].é"),
    ],
)
def test_paths_are_those_of_the_runtime(blank: Page, parts: list[Any], path: str) -> None:
    assert blank.evaluate("parts => json.path_text(parts)", parts) == path
    assert blank.evaluate("path => json.path_parts(path)", path) == parts


def test_differences_say_what_is_lost_added_and_changed(blank: Page) -> None:
    mine, theirs = blank.evaluate(
        """() => json.differences('{"a":1.0,"b":{"c":1},"d":[1,2]}', '{"a":1,"d":[1,2,3],"e":null}')
             .map((marks) => marks.map(({ parts, kind }) => `${kind} ${parts.join(".")}`))"""
    )
    assert mine == ["changed a", "lost b", "lost b.c"]
    assert theirs == ["changed a", "added d.2", "added e"]


def test_a_json_view_folds_by_keyboard_and_marks_what_is_wrong(blank: Page) -> None:
    blank.evaluate("""() => {
          const view = json.view('{"a":{"b":[1,2]},"c":3}', { marks: [{ path: "$.a.b[1]", kind: "problem", text: "too much" }] });
          view.id = "folded";
          document.body.replaceChildren(view);
          view.focus();
        }""")
    tree = blank.locator("#folded")
    assert tree.locator(".problem .note").text_content() == "problem: too much"
    assert tree.locator(".problem").text_content() == "!2problem: too much"
    for key, lines in (
        ("ArrowDown", 9),
        ("ArrowLeft", 4),
        ("ArrowRight", 9),
        ("ArrowRight", 9),
        ("Enter", 6),
    ):
        tree.press(key)
        assert tree.locator("[role=treeitem]").count() == lines, key
    assert tree.locator(".active").text_content() == '"b": [… 2 items]'


# -- forms -------------------------------------------------------------------------------------------------------------

Schema = dict[str, Any]
UNION: Final[Schema] = {
    "$defs": {
        "Train": {"type": "object", "required": ["kind", "seat"], "properties": {"kind": {"const": "train"}, "seat": {"type": "string"}}},
        "Walk": {"type": "object", "required": ["kind"], "properties": {"kind": {"const": "walk"}, "km": {"type": "number"}}},
    },
    "type": "object", "required": ["way"], "properties": {"way": {"anyOf": [{"$ref": "#/$defs/Train"}, {"$ref": "#/$defs/Walk"}]}},
}  # fmt: skip
EMPTY: Final[list[tuple[Schema, str]]] = [
    ({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "object", "properties": {"c": {"type": "string", "default": "x"}}}, "d": {"type": "array"}, "e": {"type": "boolean"}, "f": {"const": 1}, "g": {"enum": [1]}, "h": {"type": ["string", "null"]}}}, "{}"),
    ({"type": "object", "required": ["a", "b", "c", "d"], "properties": {"a": {"type": "string", "default": "x"}, "b": {"const": {"k": 1}}, "c": {"type": "array", "items": {}}, "d": {"type": "object", "properties": {"e": {"type": "string"}}}}}, '{"a":"x","b":{"k":1},"c":[],"d":{}}'),
    ({"allOf": [{"properties": {"a": {"type": "integer", "default": 3}}, "required": ["a"]}, {"$ref": "#/$defs/B"}], "$defs": {"B": {"properties": {"b": {"default": True, "type": "boolean"}}, "required": ["b"]}}}, '{"a":3,"b":true}'),
    ({"$ref": "#/$defs/Node", "$defs": {"Node": {"type": "object", "required": ["next"], "properties": {"next": {"$ref": "#/$defs/Node"}}}}}, '{"next":{"next":{"next":{"next":{"next":{}}}}}}'),
    (UNION, "{}"),
    ({}, "{}"), ({"type": "object", "properties": {"a": True, "b": False}}, "{}"), ({"$ref": "#/nowhere"}, "{}"), ({"$ref": "#"}, "{}"),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "text"), EMPTY)
def test_what_nobody_touched_stays_absent(blank: Page, schema: Schema, text: str) -> None:
    assert blank.evaluate("schema => new form.Form(schema).get()", schema) == text


SET: Final[list[tuple[Schema, str]]] = [
    (UNION, '{"way":{"kind":"walk","km":1.0}}'),
    (UNION, '{"way":{"kind":"train","seat":"a"}}'),
    ({"type": "object", "properties": {"n": {"type": "number"}, "i": {"type": "integer"}}}, '{"n":1.50,"i":12345678901234567890}'),
    ({"type": "object", "properties": {"a": {"type": "array", "items": {"type": "object", "properties": {"b": {"type": "array", "items": {"type": "string"}}}}}}}, '{"a":[{"b":["x",""]},{}]}'),
    ({"type": "object", "properties": {"a": {"type": "string"}}}, '{"a":"","other":{"x":[1.0]}}'),
    ({"type": "object", "properties": {"a": {"type": "array", "items": {"enum": ["x", "y"]}}}}, '{"a":["y"]}'),
    ({"type": "object", "properties": {"a": {"type": ["number", "null"]}, "b": {"oneOf": [{"const": "r", "title": "Red"}, {"const": "g"}]}}}, '{"a":null,"b":"r"}'),
    ({"type": "object", "additionalProperties": {"type": "integer"}}, '{"x":1,"y":2}'),
    ({"type": "object", "properties": {"a": {}}}, '{"a":[1.0,{"b":null}]}'),
    ({"type": "object", "properties": {"a": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None}}}, '{"a":null}'),
    ({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "object"}, "c": {"type": "array"}, "d": {"enum": ["x"]}, "e": {"const": 1}, "f": {"type": "array", "items": {"enum": ["x"]}}}}, '{"a":5,"b":[1.0],"c":{"k":"v"},"d":"y","e":2,"f":["z"]}'),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "text"), SET)
def test_a_form_gives_back_what_was_put_in_digit_by_digit(blank: Page, schema: Schema, text: str) -> None:
    assert (
        blank.evaluate(
            "([schema, text]) => { const made = new form.Form(schema); made.set(text); return made.get(); }",
            [schema, text],
        )
        == text
    )


def test_a_form_and_its_json_are_two_views_of_one_value(blank: Page) -> None:
    blank.evaluate(
        """(schema) => {
          window.made = new form.Form(schema);
          document.body.replaceChildren(made.element);
        }""",
        {
            "type": "object",
            "properties": {
                "n": {"type": "number"},
                "o": {"type": "object", "properties": {"s": {"type": "string"}}},
            },
        },
    )
    blank.get_by_label("n", exact=True).fill("2.0")
    blank.get_by_role("button", name="Add o").click()
    blank.get_by_label("s", exact=True).fill("x")
    blank.get_by_role("button", name="JSON", exact=True).click()
    code = blank.get_by_label("Arguments as JSON")
    assert code.input_value() == '{\n  "n": 2.0,\n  "o": {\n    "s": "x"\n  }\n}'
    code.fill('{"n": 3.10, "o": {"s": "y"}}')
    blank.get_by_role("button", name="Form", exact=True).click()
    assert blank.get_by_label("n", exact=True).input_value() == "3.10"
    assert blank.evaluate("made.get()") == '{"n":3.10,"o":{"s":"y"}}'
    blank.get_by_role("button", name="JSON", exact=True).click()
    code.fill("{")
    blank.get_by_role("button", name="Form", exact=True).click()
    assert "not a JSON object" in (blank.locator(".form > .problems").text_content() or "")
    assert blank.evaluate("made.get()") is None


def test_problems_stand_at_their_fields_and_the_others_below(blank: Page) -> None:
    blank.evaluate(
        """(schema) => {
          window.made = new form.Form(schema);
          document.body.replaceChildren(made.element);
          made.set('{"list":[{"x":1}]}');
          made.show([{ path: "$.list[0].x", text: "a string is wanted" }, { path: "$.gone", text: "not known" }, { path: "$", text: "too few" }]);
        }""",
        {
            "type": "object",
            "properties": {
                "list": {
                    "type": "array",
                    "items": {"type": "object", "properties": {"x": {"type": "string"}}},
                }
            },
        },
    )
    wrong = blank.get_by_label("x", exact=True)
    assert wrong.get_attribute("aria-invalid") == "true"
    about = (wrong.get_attribute("aria-describedby") or "").split()
    assert "a string is wanted" in " ".join(
        blank.locator(f"#{each}").text_content() or "" for each in about if blank.locator(f"#{each}").count()
    )
    assert blank.locator(".form > .problems li").all_text_contents() == ["$.gone not known", "too few"]


# -- texts -------------------------------------------------------------------------------------------------------------

MARKDOWN: Final = [
    ("# A *b*", '<p class="heading h1" role="heading" aria-level="3">A <em>b</em></p>'),
    ("- a\n- [x] b", '<ul><li><span>a</span></li><li class="task">☑ <span>b</span></li></ul>'),
    ("`<b>` &lt; &amp;#60;", "<p><code>&lt;b&gt;</code> &lt; &amp;#60;</p>"),
    ("<img src=x onerror=alert(1)>", '<p class="source">&lt;img src=x onerror=alert(1)&gt;</p>'),
    ("a <b>b</b>", '<p>a <code class="source">&lt;b&gt;</code>b<code class="source">&lt;/b&gt;</code></p>'),
    ("[a](javascript:alert(1))", '<p><span>a <code class="address">javascript:alert(1)</code></span></p>'),
    ("![a](https://x.example/i.png)", None),
]


@pytest.mark.parametrize(("text", "markup"), MARKDOWN)
def test_markdown_becomes_nodes_of_few_kinds(blank: Page, text: str, markup: str | None) -> None:
    inside = blank.evaluate("text => markdown.markdown(text).innerHTML", text)
    if markup is not None:
        assert inside == markup
    assert "<img" not in inside
    assert "<script" not in inside


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        "*a **a " * 15_000,
        ">" * 5_000,
        "- " * 5_000,
        "<" * 100_000,
        "`a``b" * 20_000,
        "|a|b|\n|-|-|\n" + "|a|b|\n" * 20_000,
    ],
)
def test_markdown_that_is_made_to_hang_is_shown_at_once(blank: Page, text: str) -> None:
    took = blank.evaluate(
        "text => { const start = performance.now(); markdown.markdown(text); return performance.now() - start; }",
        text,
    )
    assert took < 4_000


def test_characters_that_hide_or_turn_text_are_drawn(blank: Page) -> None:
    assert blank.evaluate(
        '() => dom.h("p", { title: "a\\u202eb" }, "\\u001b[31mred \\u202eevil\\u200b \\u{e0041}").textContent'
    ) == "␛[31mred U+202Eevil\u200b U+E0041".replace("\u200b", "U+200B")
    assert blank.evaluate('() => dom.h("p", { title: "a\\u202eb" }).title') == "aU+202Eb"


@pytest.mark.parametrize("name", ["onclick", "style", "href", "src", "srcdoc", "innerHTML"])
def test_an_attribute_that_runs_or_loads_is_refused(blank: Page, name: str) -> None:
    assert (
        blank.evaluate(
            'name => { try { dom.h("a", { [name]: "x" }); return "made"; } catch (error) { return error.message; } }',
            name,
        )
        == f"{name} is not set here"
    )


def test_html_cannot_be_made_under_the_policy(blank: Page) -> None:
    assert "TrustedHTML" in blank.evaluate(
        "() => { try { document.body.innerHTML = '<b>'; return 'made'; } catch (error) { return error.message; } }"
    )


ADDRESSES: Final = [
    ("https://a.example/b", "https://a.example/b"), ("http://a.example", "http://a.example/"), ("javascript:alert(1)", None), ("data:text/html,x", None),
    ("file:///etc", None), ("https://user:secret@a.example/", None), ("//a.example", None), ("", None), ("https://a.example/\u202egnp", "https://a.example/%E2%80%AEgnp"),
]  # fmt: skip


@pytest.mark.parametrize(("address", "href"), ADDRESSES)
def test_only_addresses_of_the_web_are_links_and_show_where_they_go(
    blank: Page, address: str, href: str | None
) -> None:
    found = blank.evaluate(
        """address => {
          const made = dom.link(address, "here");
          const anchor = made.querySelector("a");
          return anchor && [anchor.getAttribute("href"), anchor.textContent, anchor.rel, anchor.target, made.open];
        }""",
        address,
    )
    assert found == (None if href is None else [href, href, "noopener noreferrer", "_blank", False])


def test_a_long_text_is_cut_and_shown_whole_when_asked(blank: Page) -> None:
    blank.evaluate(
        '() => { const made = dom.long("y".repeat(900_000)); made.id = "long"; document.body.replaceChildren(made); }'
    )
    assert len(blank.locator("#long").text_content() or "") < 200_100
    blank.get_by_role("button", name="Show all (900 kB)").click()
    blank.wait_for_function("() => document.getElementById('long').textContent.length === 900_000")


@pytest.mark.parametrize(
    ("template", "values", "uri"),
    [
        ("note://{year}/{name}", {"year": "2026", "name": "a b"}, "note://2026/a%20b"),
        ("f://{+path}{?q,r}", {"path": "a/b", "q": "1"}, "f://a/b?q=1"),
        ("x:{/a,b*}{#c:2}", {"a": "1", "b": "2", "c": "long"}, "x:/1/2#lo"),
        ("y:{;a,b}{&c}{.d}", {"a": "", "b": "2", "c": "3", "d": "z"}, "y:;a;b=2&c=3.z"),
    ],
)
def test_a_template_is_expanded_as_rfc_6570_says(
    blank: Page, template: str, values: dict[str, str], uri: str
) -> None:
    assert blank.evaluate("([template, values]) => use.expanded(template, values)", [template, values]) == uri


def test_server_sent_events_are_read_across_chunks(blank: Page) -> None:
    assert blank.evaluate("""async () => {
          const found = [];
          const text = 'event: a\\r\\ndata: {"x":\\ndata: 1}\\n\\n: comment\\n\\ndata:"é"\\n\\nevent: lost\\ndata: 1';
          const bytes = new TextEncoder().encode(text);
          const body = new ReadableStream({ start(to) { for (const byte of bytes) to.enqueue(new Uint8Array([byte])); to.close(); } });
          await stream.stream_events(body, (name, data) => found.push([name, data]));
          return found;
        }""") == [["a", {"x": 1}], ["message", "é"]]


def test_bars_are_open_from_a_request_to_its_response(blank: Page) -> None:
    assert blank.evaluate("""() => {
          const lanes = new timeline.Lanes();
          const feed = (n, dir, shape, answers, more = {}) => lanes.feed({ n, dir, shape, answers, kind: "message", conn: "c", ...more });
          feed(1, "out", "request");
          feed(2, "out", "request");
          feed(3, "in", "request");
          feed(4, "in", "result", 1);
          feed(5, "out", "result", 3);
          feed(6, "out", "notification", 2, { method: "notifications/cancelled" });
          feed(7, "out", "request");
          lanes.feed({ n: 8, kind: "closed", conn: "c", dir: "in" });
          return [...lanes.after.slice(0, 8)];
        }""") == [1, 3, 19, 18, 2, 0, 1, 0]


# -- the files ---------------------------------------------------------------------------------------------------------


def test_the_page_is_small_and_takes_nothing_from_outside() -> None:
    assert sum(file.stat().st_size for file in PAGE.iterdir()) < 310_000
    for file in PAGE.iterdir():
        if file.name.startswith("marked"):
            continue
        text = file.read_text(encoding="utf-8")
        assert "http://" not in text.replace("http://www.w3.org/2000/svg", "").replace(
            "http://127.0.0.1:…", ""
        ), file.name
        for word in ("innerHTML =", "insertAdjacentHTML", "document.write", "eval(", "new Function"):
            assert word not in text, f"{file.name}: {word}"


def test_the_lexer_is_whole_and_has_its_licence() -> None:
    lexer = (PAGE / "marked.js").read_text(encoding="utf-8")
    assert "Copyright" in (PAGE / "marked.LICENSE").read_text(encoding="utf-8")
    assert lexer.startswith("/**\n * marked v18.2.1")
