"""Skills as a client uses them: what it asks for, which entries it loads, and files that are checked (SK-20..SK-34)."""

from __future__ import annotations

import base64
import hashlib
import logging
from collections.abc import Mapping
from typing import Any

import pytest

import mcprev
from helpers.requirements import req
from helpers.running import run
from mcprev.client.resource_result import ResourceResult
from mcprev.errors import Json
from mcprev.extensions.skills.client import (
    HeldSkill,
    InvalidSkill,
    SkillChanged,
    checked_entry,
    skill_of,
    skills_of,
)
from mcprev.extensions.skills.rules import MAX_SKILL_BYTES, MAX_SKILL_FILES, NAME
from mcprev.revisions import DEFAULT, Revision

MD = "---\nname: mail\ndescription: Writes letters\n---\nSee [it](templates/a.md)\n"
URI = "skill://mail/SKILL.md"


def digest(data: bytes | str) -> str:
    return f"sha256:{hashlib.sha256(data.encode() if isinstance(data, str) else data).hexdigest()}"


def listed(path: str, data: str | bytes = "") -> dict[str, Any]:
    return {"uri": f"skill://mail/{path}", "digest": digest(data), "size": len(data)}


def entry(*more: dict[str, Any], **members: Any) -> dict[str, Any]:
    front = {"name": "mail", "description": "Writes letters"}
    return {"uri": URI, "frontmatter": front, "resources": [listed("SKILL.md", MD), *more], **members}


class Hostile:
    """A client whose server answers what a test says, in JSON."""

    server_name: str | None = "evil"

    def __init__(
        self,
        session: Any = None,
        *,
        settings: Mapping[str, Json] | None = {"directoryRead": True},
        **answers: Any,
    ) -> None:
        self.session = session
        self.asked: list[tuple[str, Any]] = []
        self._settings, self._answers = settings, answers

    def extension_settings(self, extension: str, /) -> Mapping[str, Json] | None:
        assert extension == NAME
        return self._settings

    async def raw(
        self, method: str, params: Mapping[str, Json] | None = None, **_options: Any
    ) -> dict[str, Any]:
        self.asked.append((method, params))
        found: Any = self._answers[method.rpartition("/")[2]]
        return dict(found)

    async def read_resource(self, uri: str, **_options: Any) -> ResourceResult:
        self.asked.append(("resources/read", uri))
        found: Any = self._answers["files"][uri]
        if isinstance(found, Exception):
            raise found
        if isinstance(found, str):
            found = [{"uri": uri, "text": found}]
        elif isinstance(found, bytes):
            found = [{"uri": uri, "blob": base64.b64encode(found).decode()}]
        return ResourceResult.from_wire({"contents": found})


def mail_app(**skill_options: Any) -> mcprev.App:
    app = mcprev.App("a", "1")
    app.skill("mail", **skill_options)(
        lambda: {"SKILL.md": MD, "templates/a.md": "Dear,", "b.bin": b"\0\xff"}
    )
    return app


@req("SK-20", "SK-27", "SK-30")
@pytest.mark.parametrize("row", DEFAULT, ids=lambda row: row.name)
def test_skills_are_listed_and_read_and_nothing_is_read_ahead(row: Revision) -> None:
    async def main() -> None:
        seen: list[str] = []

        async def note(call: mcprev.HandlerCall, call_next: mcprev.CallNext) -> mcprev.HandlerResult:
            seen.append(call.method)
            return await call_next(call)

        app = mcprev.App("a", "1", middleware=[note])
        app.mount(mail_app())
        async with mcprev.connect(app, revisions=[row.name]) as client:
            [skill] = [each async for each in client.skills()]
            assert seen == ["skills/list"]
            assert (skill.name, skill.description, skill.dynamic) == ("mail", "Writes letters", False)
            assert [*skill.files] == ["SKILL.md", "b.bin", "templates/a.md"]
            assert (await skill.read("./templates/a.md")).text == "Dear,"
            assert (await skill.read("b.bin")).data == b"\0\xff"
            assert (await skill.read()).text == MD
            assert (await skill.read()).mime_type == "text/markdown"
            assert seen == ["skills/list", *["resources/read"] * 3]  # what was read is kept
            assert (await client.skill(URI).read("templates/a.md")).text == "Dear,"
            assert seen[4:] == ["skills/get", "resources/read"]
            held = await client.skill(URI)
            assert held.fingerprint == skill.fingerprint
            assert [each.uri async for each in held.folder("templates")] == ["skill://mail/templates/a.md"]
            with pytest.raises(mcprev.InvalidParams):
                await client.skill("skill://other/SKILL.md")
        async with mcprev.connect(mcprev.App("b", "1"), revisions=[row.name]) as client:
            with pytest.raises(mcprev.LocalProtocolError, match="declare"):
                await client.skill(URI)
            with pytest.raises(mcprev.LocalProtocolError, match="declare"):
                await anext(client.skills())

    run(main())


@req("SK-21", "SK-33", everywhere=True)
def test_what_is_not_listed_is_loaded_by_its_uri_and_a_resource_is_no_skill() -> None:
    async def main() -> None:
        app = mail_app(listed=False)
        app.resource("skill://notes/SKILL.md")(lambda: MD)
        async with mcprev.connect(app) as client:
            assert [each async for each in client.skills()] == []
            assert (await client.skill(URI)).name == "mail"
            assert (await client.read_resource("skill://notes/SKILL.md")).text == MD
            with pytest.raises(mcprev.InvalidParams):
                await client.skill("skill://notes/SKILL.md")

    run(main())


@req("SK-22", "SK-23", everywhere=True)
def test_skills_of_one_name_are_told_apart_by_their_servers() -> None:
    async def main() -> None:
        servers = {"one": mail_app(), "two": mail_app(), "none": mcprev.App("n", "1")}
        async with mcprev.connect_all({"mcpServers": servers}) as clients:
            found = [each async for each in clients.skills()]
            assert [each.identity for each in found] == [("one", URI), ("two", URI)]
            assert [(await each.read()).text for each in found] == [MD, MD]
            assert clients["two"].skill(URI).identity == ("two", URI)

    run(main())


@req("SK-24", "SK-26", everywhere=True)
@pytest.mark.parametrize(
    ("file", "why"),
    [
        ("Dear!", "another digest"),
        ("Dear", "5"),
        ("Dear,\n", "6 bytes"),
        (b"Dear,\xff", "6 bytes"),
        (mcprev.ResourceNotFound("gone"), "does not have it"),
        (mcprev.InvalidParams("gone"), "does not have it"),
    ],
    ids=str,
)
def test_a_file_that_is_not_the_one_of_the_entry_is_not_returned(file: Any, why: str) -> None:
    async def main() -> None:
        client = Hostile(
            files={"skill://mail/templates/a.md": file},
            get={"skill": entry(listed("templates/a.md", "Dear,"))},
        )
        skill = skill_of(client, URI)
        with pytest.raises(SkillChanged, match=why) as raised:
            await skill.read("templates/a.md")
        assert (raised.value.uri, raised.value.path) == (URI, "templates/a.md")
        asked = len(client.asked)
        with pytest.raises(SkillChanged, match="not in the entry"):
            await skill.read("other.md")
        for wrong in ("../x", "/etc/passwd", "a/../../b", "a\\b", "", "x\0"):
            with pytest.raises(ValueError, match="no path in a skill"):
                await skill.read(wrong)
        assert len(client.asked) == asked

    run(main())


@req("SK-24", everywhere=True)
def test_after_a_change_the_entry_is_fetched_again_and_an_approval_is_void() -> None:
    async def main() -> None:
        text = ["Dear,"]
        app = mcprev.App("a", "1")
        app.skill("mail")(lambda: {"SKILL.md": MD, "a.md": text[0]})
        async with mcprev.connect(app) as client:
            skill = await client.skill(URI)
            same = await skill.refresh()
            assert same.fingerprint == skill.fingerprint
            text[0] = "Hi"
            app.skills_changed()
            with pytest.raises(SkillChanged):
                await skill.read("a.md")
            with pytest.raises(SkillChanged):  # the entry is held
                await skill.read("a.md")
            fresh = await skill.refresh()
            assert fresh.fingerprint != skill.fingerprint
            assert (await fresh.read("a.md")).text == "Hi"

    run(main())


@req("SK-25", everywhere=True)
@pytest.mark.parametrize(
    ("text", "dynamic"),
    [
        (MD.replace("letters", "poems"), False),
        (MD.replace("---\nSee", "allowed-tools: Bash\n---\nSee"), False),
        (MD.replace("name: mail", "name: 'other'"), True),
        ("no front matter", True),
        ("---\na: &a [*a]\n---\n", True),
    ],
)
def test_the_front_matter_that_is_read_is_that_of_the_entry(text: str, *, dynamic: bool) -> None:
    async def main() -> None:
        shown = entry(resources="dynamic" if dynamic else [listed("SKILL.md", text)])
        with pytest.raises(SkillChanged, match="front matter"):
            await skill_of(Hostile(files={URI: text}, get={"skill": shown}), URI).read()
        good = Hostile(
            files={URI: MD},
            get={"skill": entry(resources="dynamic" if dynamic else [listed("SKILL.md", MD)])},
        )
        assert (await skill_of(good, URI).read()).text == MD

    run(main())


@pytest.mark.parametrize(
    "contents",
    [
        [], [{"uri": URI, "text": MD}, {"uri": URI, "text": MD}], [{"uri": "skill://other/SKILL.md", "text": MD}],
        [{"uri": URI, "blob": "no base64!"}],
    ],
)  # fmt: skip
def test_a_file_is_read_as_one_content_with_its_uri(contents: Any) -> None:
    async def main() -> None:
        with pytest.raises(mcprev.RemoteProtocolError):
            await skill_of(Hostile(files={URI: contents}, get={"skill": entry()}), URI).read()

    run(main())


BAD_ENTRIES: dict[str, Any] = {
    "nothing": {},
    "no uri": {"frontmatter": {}, "resources": []},
    "a file": entry(uri="skill://mail/README.md"),
    "a folder": entry(uri="skill://mail/"),
    "no folder": entry(uri="SKILL.md"),
    "no name": entry(frontmatter={"description": "x"}),
    "another name": entry(frontmatter={"name": "male", "description": "x"}),
    "a name with markup": entry(frontmatter={"name": "<img src=x onerror=alert(1)>", "description": "x"}),
    "a name that is a path": entry(uri="skill://x/../SKILL.md", frontmatter={"name": "..", "description": "x"}),
    "a name with control characters": entry(frontmatter={"name": "mail\x1b[2J", "description": "x"}),
    "a name that is long": entry(frontmatter={"name": "a" * 65, "description": "x"}),
    "no description": entry(frontmatter={"name": "mail"}),
    "a description that is long": entry(frontmatter={"name": "mail", "description": "x" * 1025}),
    "a name of another type": entry(frontmatter={"name": 1, "description": "x"}),
    "no resources": {key: value for key, value in entry().items() if key != "resources"},
    "null": entry(resources=None),
    "another word": entry(resources="Dynamic"),
    "an object": entry(resources={}),
    "no files": entry(resources=[]),
    "no SKILL.md": entry(resources=[listed("a.md")]),
    "a file outside": entry({**listed("x"), "uri": "skill://other/x"}),
    "a file above": entry(listed("../x")),
    "a file above, escaped": entry(listed("%2e%2e/x")),
    "a slash, escaped": entry(listed("a%2Fb")),
    "a backslash": entry(listed("a%5C..%5Cb")),
    "a drive": entry(listed("C:/x")),
    "a device": entry(listed("aux.md")),
    "markup": entry(listed("%3Cscript%3E.md")),
    "a control character": entry(listed("a%1B%5B31m")),
    "a zero": entry(listed("a%00.md")),
    "a folder among files": entry(listed("a/")),
    "the folder itself": entry({**listed(""), "uri": "skill://mail"}),
    "a file twice": entry(listed("a"), listed("a")),
    "a file twice, escaped": entry(listed("a"), listed("%61")),
    "no digest": entry({"uri": "skill://mail/a", "size": 1}),
    "another digest": entry({**listed("a"), "digest": "md5:" + "0" * 32}),
    "a digest in capitals": entry({**listed("a"), "digest": digest("").upper()}),
    "a negative size": entry({**listed("a"), "size": -1}),
    "a size of another type": entry({**listed("a"), "size": "1"}),
    "no size": entry({"uri": "skill://mail/a", "digest": digest("")}),
    "too many files": entry(*(listed(f"f{number}") for number in range(MAX_SKILL_FILES))),
    "too many bytes": entry({**listed("a"), "size": MAX_SKILL_BYTES}),
    "a file that is no object": entry("a"),  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
}  # fmt: skip


@req("SK-3", "SK-5", "SK-8", "SK-9", "SK-11", "SK-32", everywhere=True)
@pytest.mark.parametrize("bad", BAD_ENTRIES)
def test_an_entry_that_is_not_valid_is_not_loaded(bad: str, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        with pytest.raises(InvalidSkill) as raised:
            checked_entry(BAD_ENTRIES[bad])
        assert str(raised.value).isprintable()
        with pytest.raises(InvalidSkill):
            await skill_of(Hostile(get={"skill": BAD_ENTRIES[bad]}), URI)
        async with mcprev.connect(mcprev.App("a", "1")) as client:
            hostile = Hostile(client.session, list={"skills": [BAD_ENTRIES[bad], entry(), entry()]})
            with caplog.at_level(logging.WARNING, "mcprev.client"):
                assert [each.uri async for each in skills_of(hostile, {})] == [URI]
        assert [record.getMessage().isprintable() for record in caplog.records] == [True, True]
        assert "twice" in caplog.records[1].getMessage()

    run(main())


@pytest.mark.parametrize("given", [None, [], "x", {"uri": "skill://x/SKILL.md"}])
def test_an_answer_that_is_no_entry_or_that_of_another_skill_is_refused(given: Any) -> None:
    async def main() -> None:
        for answer in (given, entry(uri="skill://x/mail/SKILL.md", resources="dynamic")):
            with pytest.raises(InvalidSkill):
                await skill_of(Hostile(get={"skill": answer}), URI)

    run(main())


@pytest.mark.parametrize("page", [{}, {"skills": None}, {"skills": {}}, {"skills": "x"}])
def test_a_list_that_is_none_is_an_error(page: Any) -> None:
    async def main() -> None:
        async with mcprev.connect(mcprev.App("a", "1")) as client:
            with pytest.raises(mcprev.RemoteProtocolError):
                await anext(skills_of(Hostile(client.session, list=page), {}))
            endless = Hostile(client.session, list={"skills": [entry()], "nextCursor": "again"})
            with pytest.raises(mcprev.RemoteProtocolError, match="do not end"):
                _ = [each async for each in skills_of(endless, {})]

    run(main())


@req("SK-31", "SK-20", everywhere=True)
def test_a_listing_of_a_folder_adds_nothing_to_the_entry() -> None:
    async def main() -> None:
        async with mcprev.connect(mcprev.App("a", "1")) as client:
            more = {"resources": [{"uri": "skill://mail/extra.md", "name": "extra.md"}]}
            hostile = Hostile(client.session, read=more, get={"skill": entry()})
            skill = await skill_of(hostile, URI)
            assert [each.uri async for each in skill.folder()] == ["skill://mail/extra.md"]
            with pytest.raises(SkillChanged, match="not in the entry"):
                await skill.read("extra.md")
            quiet = Hostile(client.session, settings={}, get={"skill": entry()})
            with pytest.raises(mcprev.LocalProtocolError, match="directoryRead"):
                await anext((await skill_of(quiet, URI)).folder())
            assert [method for method, _ in quiet.asked] == ["skills/get"]

    run(main())


def test_what_is_no_uri_of_a_skill_is_refused_at_once_and_an_entry_is_there_only_when_loaded() -> None:
    client = Hostile()
    for wrong in (
        "",
        "mail",
        "skill://mail",
        "skill://mail/",
        "skill://mail/README.md",
        "a b/SKILL.md",
        "/SKILL.md",
    ):
        with pytest.raises(ValueError, match="not the URI"):
            skill_of(client, wrong)
    skill = HeldSkill(client, URI)
    with pytest.raises(mcprev.LocalProtocolError, match="await it"):
        _ = skill.files
