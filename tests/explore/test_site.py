"""What the site says is what `mcprev diff` and `mcprev show` say, its links lead somewhere, and it is the same each time."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import pytest

import mcprev
import mcprev_explore
from explore.page_tree import Element, ids
from fuzz.fuzzing import sampled_of
from helpers.support import GENERATED, REVISIONS, ROOT
from mcprev_codegen.diff import Selection, compare_revisions, select
from mcprev_codegen.diff.render.json import report_json
from mcprev_codegen.errors import clean
from mcprev_codegen.facts import load_revision
from mcprev_codegen.inputs import schema_folder

Pages = Mapping[str, Element]
MOST: Final = 8_000_000
PRESENCE: Final = {True: "optional", False: "required"}


def plain(text: str) -> str:
    """A text as a page shows it."""
    return re.sub(r"\s+", " ", clean(text)).strip()


def meta(revision: str) -> dict[str, Any]:
    """What `mcprev show REV --json` prints."""
    folder = revision if not revision[0].isdigit() else f"v{revision.replace('-', '_')}"
    document: dict[str, Any] = json.loads((GENERATED / folder / "meta.json").read_text(encoding="utf-8"))
    return document


# -- what the commands say ---------------------------------------------------------------------------------------------


PAIRS: Final = [*combinations(REVISIONS, 2)]
SOME: Final = [*pairwise(REVISIONS), (REVISIONS[0], REVISIONS[-1])]
"""Neighbours, and those farthest apart: the pages of other pairs are made of the same changes by the same templates."""


@pytest.mark.slow
@pytest.mark.parametrize(("old", "new"), sampled_of(PAIRS, SOME))
def test_every_fact_of_a_difference_is_on_the_page_of_its_pair(old: str, new: str, pages: Pages) -> None:
    folder = schema_folder()
    report = select(
        compare_revisions(folder, load_revision(folder, old), load_revision(folder, new)), Selection()
    )
    document = json.loads(report_json(report))
    page = pages[f"diff/{old}..{new}.html"]
    places, whole, facts = ids(page), page.text, 0
    for change in document["changes"]:
        own = places[change["fingerprint"]]
        row = own.around("li", "data-verdict")
        shared = [change[name] for name in ("id", "case", "kind", "action", "level", "effect")]
        shared += [change["note"], *change["senders"]]
        for way in ("old_to_new", "new_to_old"):
            shared += [change[way]["verdict"], change[way]["reason"]]
        single = [change["headline"], change["fingerprint"], *change["methods"], *change["affects"]]
        for side in ("old", "new"):
            if change[side] is not None:
                single += [change[side]["path"], change[side]["text"]]
                lines = [change[side]["line"], change[side]["end_line"]]
                if lines[0]:
                    same = lines[0] == lines[1]
                    single.append(f"line {lines[0]}" if same else f"lines {lines[0]}–{lines[1]}")
        assert [fact for fact in shared if fact and plain(fact) not in row.text] == []
        assert [fact for fact in single if fact and plain(fact) not in own.text] == []
        facts += len(shared) + len(single)
    assert facts >= 10 * len(document["changes"])
    summary = document["summary"]
    names = [f"{number} {verdict}" for verdict, number in summary["verdicts"].items()]
    names += [
        name
        for kind in ("requests", "notifications", "types")
        for side in summary[kind].values()
        for name in side
    ]
    names += [f"{each['old']} → {each['new']}" for each in summary["renamed"]] + summary["notes"]
    for mix in ("old_client_new_server", "new_client_old_server"):
        names += [
            f"{n} {verdict}" for verdict, n in summary[mix].items() if verdict != "ok" and document["changes"]
        ]
    assert [name for name in names if plain(name) not in whole] == []


@pytest.mark.slow
@pytest.mark.parametrize("revision", REVISIONS)
def test_every_page_of_a_type_says_what_show_says(revision: str, pages: Pages) -> None:
    facts = 0
    for type_ in meta(revision)["types"]:
        section = ids(pages[f"type/{type_['name']}.html"])[revision].around("section")
        line = section.all("p", "facts-line")[0].text
        assert line.startswith(f"{type_['kind']}sent by: {type_['sent_by']}")
        members = [
            (li.attributes["data-member"], li.all("code", "type")[0].text, li.all("span", "presence")[0].text)
            for li in section.all("li")
            if "data-member" in li.attributes
        ]
        assert members == [(f["name"], plain(f["type"]), PRESENCE[f["optional"]]) for f in type_["fields"]]
        facts += 2 + 3 * len(members)
    assert facts > 600


@pytest.mark.slow
@pytest.mark.parametrize("revision", REVISIONS)
def test_every_page_of_a_method_says_what_show_says(revision: str, pages: Pages) -> None:
    ways = {
        ("client_to_server",): "client → server",
        ("server_to_client",): "server → client",
        ("client_to_server", "server_to_client"): "both ways",
    }
    for method in meta(revision)["methods"]:
        section = ids(pages[f"method/{method['method'].replace('/', '.')}.html"])[revision].around("section")
        shown = {
            div.all("dt")[0].text: div.all("dd")[0].text
            for div in section.all("dl", "properties")[0].all("div")
        }
        results = [method["result"], *method["alternate_results"]] if method["result"] else []
        optional = " (optional)" if method["params"] and method["params_optional"] else ""
        wanted = {
            "kind": method["kind"],
            "direction": ways[tuple(method["directions"])],
            "transport": method["transport"],
            "message": method["type"],
            "params": f"{method['params']}{optional}" if method["params"] else "none",
            "result": " or ".join(results) or "none",
            "capability": method["capability"] or "none",
        }
        assert {name: shown[name] for name in wanted} == wanted
        assert section.all("svg", "sequence")


@pytest.mark.slow
@pytest.mark.parametrize("revision", REVISIONS)
def test_the_page_of_constants_has_each_value(revision: str, pages: Pages) -> None:
    rows = ids(pages["constants.html"])
    column = REVISIONS.index(revision)
    for name, value in meta(revision)["constants"].items():
        assert rows[name].all("td")[column].text == str(value)


@pytest.mark.slow
def test_each_rule_is_on_the_page_of_its_step_with_its_sentence(pages: Pages) -> None:
    examples, rules = 0, [rule for rule in mcprev.catalog() if rule.source]
    for rule in rules:
        newer = max(rule.source, rule.target, key=REVISIONS.index)
        text = rule.text.replace("`", "")
        (item,) = [li for li in pages[f"rules/{newer}.html"].all("ul", "rule-list") for li in li.all("li") if rule.id in [c.text for c in li.all("code")]]  # fmt: skip
        assert plain(text) in item.text
        examples += bool(item.all("div", "sides"))
    assert examples > 0.6 * len(rules)
    assert set(pages) >= {f"rules/{newer}.html" for _, newer in pairwise(REVISIONS)}


@pytest.mark.slow
def test_a_difference_names_the_rules_that_spare_an_older_peer(pages: Pages) -> None:
    rule = next(r for r in mcprev.catalog() if r.id.endswith("/down/drop/Tool.icons"))
    page = pages[f"diff/{rule.target}..{rule.source}.html"]
    row = next(
        li
        for li in page.all("li")
        if "data-verdict" in li.attributes and "icons" in li.text and "Tool" in li.text
    )
    assert rule.id in row.text


@pytest.mark.slow
def test_lives_are_those_of_the_history(pages: Pages) -> None:
    svgs = {li.all("a")[0].text: li.all("svg")[0].attributes["aria-label"] for li in pages["lives.html"].all("ul", "lives") for li in li.all("li")}  # fmt: skip
    (
        first,
        *_,
    ) = REVISIONS
    assert svgs["Tool"].startswith(f"present {first}, changed ")
    assert any("renamed to " in label for label in svgs.values())
    assert any("removed " in label for label in svgs.values())
    assert set(svgs) >= {m["method"] for r in REVISIONS for m in meta(r)["methods"]}
    assert set(svgs) >= {t["name"] for r in REVISIONS for t in meta(r)["types"]}


# -- the site as a whole -----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_every_link_leads_to_a_page_and_a_place_of_the_site(site: Mapping[str, str], pages: Pages) -> None:
    known = {name: set(ids(page)) for name, page in pages.items()}
    links = 0
    for name, page in pages.items():
        for each in page.walk():
            for attribute in ("href", "src", "action"):
                target = each.attributes.get(attribute)
                if target is None or target == "data:,":
                    continue
                parts = urlsplit(target)
                assert not parts.scheme
                assert not parts.netloc
                path = f"{name.rpartition('/')[0]}/{unquote(parts.path)}" if parts.path else name
                path = path.partition("/../")[2] if "/../" in path else path.removeprefix("/")
                assert path in site, (name, target)
                assert not parts.fragment or unquote(parts.fragment) in known[path], (name, target)
                links += 1
    entries: list[list[str]] = json.loads(site["search-data.js"].partition("= ")[2].rstrip(";\n"))
    for _, _, path, _ in entries:
        parts = urlsplit(path)
        assert not parts.fragment or unquote(parts.fragment) in known[parts.path], path
        assert parts.path in site
        links += 1
    assert links > 10_000


@pytest.mark.slow
def test_pages_hold_no_script_and_no_style_of_their_own(pages: Pages) -> None:
    for name, page in pages.items():
        scripts = page.all("script")
        assert [s.text for s in scripts] == [""], name
        assert not page.all("style")
        for each in page.walk():
            assert not [a for a in each.attributes if a.startswith("on") or a == "style"], (name, each.tag)


@pytest.mark.slow
def test_the_site_is_small(site: Mapping[str, str]) -> None:
    assert sum(len(text.encode()) for text in site.values()) <= MOST


@pytest.mark.slow
@pytest.mark.parametrize(
    "names", sampled_of([(), REVISIONS[-2:]], [REVISIONS[-2:]]), ids=lambda names: f"{len(names)} revisions"
)
def test_the_site_is_the_same_in_another_process_whose_sets_have_another_order(
    names: tuple[str, ...], ladder: mcprev_explore.Ladder, tmp_path: Path
) -> None:
    """The site of two revisions; in `make fuzz`, also that of all."""
    folder, out = schema_folder(), tmp_path / "site"
    site = mcprev_explore.site_files(folder, mcprev_explore.load_revisions(folder, names), ladder)
    environment = {**os.environ, "PYTHONHASHSEED": "7"}
    command = [sys.executable, "-m", "mcprev", "explore", *names, "--out", str(out)]
    subprocess.run(command, env=environment, check=True, cwd=ROOT, capture_output=True)
    assert {
        path.relative_to(out).as_posix(): path.read_text(encoding="utf-8") for path in out.rglob("*") if path.is_file()
    } == site  # fmt: skip


@pytest.mark.slow
def test_colours_are_those_of_the_page_of_dev() -> None:
    variables = re.compile(r"^\s*(--[\w-]+: [^;]+(?:;[^\n]*)?)$", re.MULTILINE)
    page = ROOT / "runtime" / "mcprev" / "dev" / "page" / "style.css"
    own = ROOT / "codegen" / "mcprev_explore" / "templates" / "site.css"
    theirs, ours = (set(variables.findall(path.read_text(encoding="utf-8"))) for path in (page, own))
    assert ours == theirs
