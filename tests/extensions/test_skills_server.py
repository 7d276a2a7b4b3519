"""Skills as an app serves them, at every revision: lists, entries, folders, files, changes, and who sees them (SK-1..SK-15)."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

import mcprev
from helpers.requirements import req
from helpers.running import run, until
from mcprev.extensions.skills.rules import NAME
from mcprev.revisions import DEFAULT, Revision
from mcprev.serving.source_files import SourceFiles, reported_imports
from mcprev_types.latest import models as m

GIT = "---\nname: git-workflow\ndescription: Commit and review.\nmetadata:\n  since: 2025-01-01\n---\nSee templates/email.md\n"


def named_skill(name: str) -> dict[str, str | bytes]:
    return {"SKILL.md": f"---\nname: {name}\ndescription: About {name}\n---\n"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "skills"
    for path, data in {
        "git-workflow/SKILL.md": GIT.encode(),
        "git-workflow/templates/email.md": "Dear é,\r\n".encode(),
        "git-workflow/a b.bin": b"\0\xff",
        "git-workflow/nested/SKILL.md": b"---\nname: nested\ndescription: Inside\n---\n",
    }.items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
    (root / "git-workflow" / "empty").mkdir()
    return root


def connected(app: mcprev.App, row: Revision, **options: Any) -> Any:
    return mcprev.connect(app, revisions=[row.name], **options)


async def listed(client: mcprev.Client) -> dict[str, Any]:
    """Return the entries of all pages by URI."""
    found: dict[str, Any] = {}
    cursor: dict[str, Any] = {}
    while True:
        page = await client.raw("skills/list", cursor)
        for entry in page["skills"]:
            assert entry["uri"] not in found
            found[entry["uri"]] = entry
        if "nextCursor" not in page:
            return found
        cursor = {"cursor": page["nextCursor"]}


@req("SK-1", "SK-4", "SK-6", "SK-8", "SK-10", "SK-14")
@pytest.mark.parametrize("row", DEFAULT, ids=lambda row: row.name)
@pytest.mark.parametrize("prefix", [None, "team"])
def test_each_skill_of_a_folder_is_listed_and_its_files_are_those_of_its_entry(
    row: Revision, prefix: str | None, folder: Path
) -> None:
    async def main() -> None:
        app = mcprev.App("a", "1")
        app.add_skills(folder)
        if prefix is not None:
            inner, app = app, mcprev.App("outer", "1")
            app.mount(inner, prefix)
        start = f"skill://{prefix}/" if prefix else "skill://"
        async with connected(app, row) as client:
            assert client.extension_settings(NAME) == {"directoryRead": True}
            assert client.capabilities.resources is not None
            skills = await listed(client)
            assert [*skills] == [f"{start}git-workflow/SKILL.md", f"{start}git-workflow/nested/SKILL.md"]
            entry = skills[f"{start}git-workflow/SKILL.md"]
            assert entry["frontmatter"] == {
                "name": "git-workflow", "description": "Commit and review.", "metadata": {"since": "2025-01-01"},
            }  # fmt: skip
            assert [file["uri"].removeprefix(f"{start}git-workflow/") for file in entry["resources"]] == [
                "SKILL.md", "a%20b.bin", "nested/SKILL.md", "templates/email.md",
            ]  # fmt: skip
            for file in entry["resources"]:
                [content] = (await client.read_resource(file["uri"])).contents
                data = content.text.encode() if isinstance(content, m.TextResourceContents) else b"\0\xff"
                assert file["size"] == len(data)
                assert file["digest"] == f"sha256:{hashlib.sha256(data).hexdigest()}"
            for uri, each in skills.items():
                got = await client.raw("skills/get", {"uri": uri})
                assert got["skill"] == each
                assert (got["ttlMs"], got["cacheScope"]) == (0, "private")
            shown = {each.uri: each async for each in client.resources()}
            assert [*shown] == [*skills]
            first = shown[f"{start}git-workflow/SKILL.md"]
            assert (first.name, first.description, first.mime_type) == (
                "git-workflow", "Commit and review.", "text/markdown",
            )  # fmt: skip

    run(main())


@req("SK-2", "SK-15")
@pytest.mark.parametrize("row", DEFAULT, ids=lambda row: row.name)
def test_folders_are_read_level_by_level(row: Revision, folder: Path) -> None:
    async def main() -> None:
        app = mcprev.App("a", "1")
        app.add_skills(folder)
        async with connected(app, row) as client:

            async def entries(path: str) -> dict[str, Any]:
                found = await client.raw("resources/directory/read", {"uri": f"skill://git-workflow{path}"})
                return {
                    each["uri"].removeprefix("skill://git-workflow/"): each.get("mimeType")
                    for each in found["resources"]
                }

            assert await entries("") == {
                "SKILL.md": "text/markdown", "a%20b.bin": "application/octet-stream", "empty": "inode/directory",
                "nested": "inode/directory", "templates": "inode/directory",
            }  # fmt: skip
            assert await entries("/templates") == {"templates/email.md": "text/markdown"}
            assert await entries("/%74emplates") == await entries("/templates")
            assert await entries("/nested") == {"nested/SKILL.md": "text/markdown"}
            assert await entries("/empty") == {}
            for wrong in (
                "/",
                "/templates/",
                "/SKILL.md",
                "/nothing",
                "/..",
                "/templates/..",
                "-x",
                "/%2e%2e",
            ):
                with pytest.raises(mcprev.InvalidParams):
                    await entries(wrong)
            for uri in ("skill://", "skill:", "file:///", ""):
                with pytest.raises(mcprev.InvalidParams):
                    await client.raw("resources/directory/read", {"uri": uri})
            for uri in (
                "skill://git-workflow/nothing",
                "skill://git-workflow/../x",
                "skill://other/SKILL.md",
            ):
                with pytest.raises(mcprev.InvalidParams):
                    await client.raw("skills/get", {"uri": uri})
                with pytest.raises(mcprev.ResourceNotFound):
                    await client.read_resource(uri)

    run(main())


@req("SK-12", "SK-13", everywhere=True)
def test_pages_have_whole_entries_and_what_is_not_listed_is_had_by_its_uri() -> None:
    async def main() -> None:
        app = mcprev.App("a", "1", list_ttl_ms=5000)
        for number in range(130):
            name = f"s{number}"
            app.skill(name)(lambda name=name: {**named_skill(name), "x": "y"})
        app.skill("quiet", listed=False, ttl_ms=7, cache_scope="public")(lambda: named_skill("quiet"))
        async with mcprev.connect(app) as client:
            first = await client.raw("skills/list")
            assert (len(first["skills"]), first["ttlMs"], first["cacheScope"]) == (100, 5000, "private")
            found = await listed(client)
            assert [*found] == [f"skill://s{number}/SKILL.md" for number in range(130)]
            assert all(len(entry["resources"]) == 2 for entry in found.values())
            assert "skill://quiet/SKILL.md" not in [each.uri async for each in client.resources()]
            got = await client.raw("skills/get", {"uri": "skill://quiet/SKILL.md"})
            assert (got["skill"]["frontmatter"]["name"], got["ttlMs"], got["cacheScope"]) == (
                "quiet",
                7,
                "public",
            )
            assert "About quiet" in (await client.read_resource("skill://quiet/SKILL.md")).text
            for wrong in ("", "skill://quiet/SKILL.md", "x"):
                with pytest.raises(mcprev.InvalidParams, match="cursor"):
                    await client.raw("skills/list", {"cursor": wrong})

    run(main())


def test_a_folder_with_many_files_has_pages() -> None:
    async def main() -> None:
        app = mcprev.App("a", "1")
        app.skill("many")(lambda: {**named_skill("many"), **{f"f{n:03}": "" for n in range(400)}})
        async with mcprev.connect(app) as client:
            names: list[str] = []
            params: dict[str, Any] = {"uri": "skill://many"}
            while True:
                page = await client.raw("resources/directory/read", params)
                names += [each["name"] for each in page["resources"]]
                if "nextCursor" not in page:
                    break
                params["cursor"] = page["nextCursor"]
            assert (len(names), len(set(names))) == (401, 401)
            with pytest.raises(mcprev.InvalidParams, match="cursor"):
                await client.raw("resources/directory/read", {"uri": "skill://many", "cursor": "nothing"})

    run(main())


@req("SK-9", "SK-1")
@pytest.mark.parametrize("row", DEFAULT, ids=lambda row: row.name)
def test_a_dynamic_skill_is_made_for_each_request(row: Revision) -> None:
    async def main() -> None:
        app, inner, count = mcprev.App("a", "1"), mcprev.App("b", "1"), [0]

        @inner.skill("today", dynamic=True)
        async def today(ctx: mcprev.Context) -> dict[str, str | bytes]:
            count[0] += 1
            return {
                "SKILL.md": f"---\nname: today\ndescription: Number {count[0]}\n---\n",
                "data/x y.txt": str(ctx.client_info and ctx.client_info.name),
                "data/x.bin": b"\0",
            }

        app.mount(inner, "p")
        async with connected(app, row, name="me") as client:
            [entry] = (await listed(client)).values()
            assert (entry["uri"], entry["resources"]) == ("skill://p/today/SKILL.md", "dynamic")
            assert entry["frontmatter"]["description"] == "Number 1"
            assert (await client.read_resource("skill://p/today/data/x%20y.txt")).text == "me"
            [binary] = (await client.read_resource("skill://p/today/data/x.bin")).contents
            assert isinstance(binary, m.BlobResourceContents)
            folder = await client.raw("resources/directory/read", {"uri": "skill://p/today/data"})
            assert [each["name"] for each in folder["resources"]] == ["x y.txt", "x.bin"] or len(
                folder["resources"]
            ) == 2
            for wrong in ("nothing", "data", "../x", "data/../SKILL.md"):
                with pytest.raises(mcprev.ResourceNotFound):
                    await client.read_resource(f"skill://p/today/{wrong}")

    run(main())


@req("SK-8", "SK-10", everywhere=True)
def test_files_are_read_once_and_again_when_the_app_says_that_they_changed(folder: Path) -> None:
    async def main() -> None:
        app, outer = mcprev.App("a", "1"), mcprev.App("outer", "1")
        app.add_skills(folder)
        outer.mount(app, "p")
        changes: list[mcprev.Change] = []
        async with (
            connected(app, DEFAULT[-1]) as client,
            connected(outer, DEFAULT[0], on_change=changes.append) as other,
            client.listen(resources=True, uris=["skill://git-workflow/templates/email.md"]) as heard,
        ):
            before = await listed(client)
            (folder / "git-workflow" / "templates" / "email.md").write_text("new")
            (folder / "git-workflow" / "a b.bin").unlink()
            (folder / "more").mkdir()
            (folder / "more" / "SKILL.md").write_text("---\nname: more\ndescription: x\n---\n")
            assert await listed(client) == before
            assert "Dear" in (await client.read_resource("skill://git-workflow/templates/email.md")).text
            app.skills_changed()
            kinds = {str((await anext(heard)).what) for _ in range(2)}
            assert kinds == {"resources", "resource"}
            after = await listed(client)
            assert [*after] == [*before, "skill://more/SKILL.md"]
            assert (
                after["skill://git-workflow/nested/SKILL.md"]
                == before["skill://git-workflow/nested/SKILL.md"]
            )
            assert after["skill://git-workflow/SKILL.md"] != before["skill://git-workflow/SKILL.md"]
            assert (await client.read_resource("skill://git-workflow/templates/email.md")).text == "new"
            with pytest.raises(mcprev.ResourceNotFound):
                await client.read_resource("skill://git-workflow/a%20b.bin")
            assert (await other.read_resource("skill://p/git-workflow/templates/email.md")).text == "new"
            await until(lambda: [change.what for change in changes] == ["resources"])
            (folder / "more" / "SKILL.md").write_text("broken")
            with pytest.raises(ValueError, match="does not begin"):
                app.skills_changed()
            assert await listed(client) == after

    run(main())


def test_who_does_not_see_a_skill_finds_nothing_of_it() -> None:
    async def main() -> None:
        def named_me(ctx: mcprev.Context) -> bool:
            return ctx.client_info is not None and ctx.client_info.name == "me"

        app = mcprev.App("a", "1")
        app.skill("secret", visible=named_me, cache_scope="public")(
            lambda: {**named_skill("secret"), "d/x.md": "x"}
        )
        app.skill("moving", visible=named_me, dynamic=True)(lambda: named_skill("moving"))
        app.skill("open", tags={"t"}, cache_scope="public")(lambda: named_skill("open"))
        async with mcprev.connect(app, name="me") as client, mcprev.connect(app, name="you") as other:
            assert len(await listed(client)) == 3
            assert [*await listed(other)] == ["skill://open/SKILL.md"]
            assert (await client.raw("skills/get", {"uri": "skill://secret/SKILL.md"}))[
                "cacheScope"
            ] == "private"
            for name in ("secret", "moving"):
                with pytest.raises(mcprev.InvalidParams):
                    await other.raw("skills/get", {"uri": f"skill://{name}/SKILL.md"})
                with pytest.raises(mcprev.InvalidParams):
                    await other.raw("resources/directory/read", {"uri": f"skill://{name}"})
                with pytest.raises(mcprev.ResourceNotFound):
                    await other.read_resource(f"skill://{name}/SKILL.md")
            with pytest.raises(mcprev.ResourceNotFound):
                await other.read_resource("skill://secret/d/x.md")
            app.disable(tags={"t"})
            assert [*await listed(other)] == []
            app.enable(tags={"t"})
            assert len(await listed(other)) == 1

    run(main())


def test_the_files_of_a_folder_are_watched_for_reloading(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with SourceFiles() as files:
        for name, value in files.environment.items():
            monkeypatch.setenv(name, value)
        with reported_imports():
            mcprev.App("a", "1").add_skills(folder)
        files.changed()
        assert {str(folder), str(folder / "git-workflow" / "SKILL.md")} <= {*files.names}
        (folder / "git-workflow" / "SKILL.md").write_text(GIT + "more")
        (folder / "new").mkdir()
        assert {*files.changed()} >= {str(folder), str(folder / "git-workflow" / "SKILL.md")}


def test_a_first_skill_after_the_server_and_what_is_there_twice_are_refused(folder: Path) -> None:
    app, with_skills = mcprev.App("a", "1"), mcprev.App("b", "1")
    app.resource("x://y")(lambda: "")
    _ = app.server
    with pytest.raises(mcprev.LocalProtocolError, match="first skill"):
        app.add_skills(folder)
    with_skills.add_skills(folder)
    with pytest.raises(mcprev.LocalProtocolError, match="first skill"):
        app.mount(with_skills)
    with pytest.raises(ValueError, match="registered already"):
        with_skills.add_skills(folder)
    _ = with_skills.server
    with_skills.skill("late")(lambda: named_skill("late"))


@pytest.mark.parametrize(
    ("returned", "error"),
    [
        (None, TypeError), ("text", TypeError), ({"SKILL.md": 1}, TypeError), ({1: "x"}, TypeError), ({}, ValueError),
        ({**named_skill("a"), "../x": ""}, ValueError), (named_skill("b"), ValueError),
    ],
)  # fmt: skip
def test_what_a_function_returns_is_a_skill(returned: Any, error: type[Exception]) -> None:
    app = mcprev.App("a", "1")
    with pytest.raises(error):
        app.skill("a")(lambda: returned)
    app.skill("a", dynamic=True)(lambda: returned)

    async def main() -> None:
        async with mcprev.connect(app) as client:
            with pytest.raises(mcprev.InternalError):
                await client.raw("skills/get", {"uri": "skill://a/SKILL.md"})

    run(main())


def test_wrong_uses_say_what_to_write() -> None:
    app = mcprev.App("a", "1")

    def argument(x: int) -> None: ...

    async def later() -> dict[str, str]:
        return {}

    for wrong, text in (
        (lambda: app.skill(named_skill), "pass the name"),  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
        (lambda: app.skill("a")(later), "dynamic=True"),
        (lambda: app.skill("a")(argument), "without parameters"),
        (lambda: app.skill("a", dynamic=True)(argument), "no arguments"),
        (lambda: app.skill("a", tag="x"), "no option 'tag'"),  # type: ignore[call-arg] # pyright: ignore[reportCallIssue]
        (lambda: app.add_skills(".", tags="x"), "one string"),
    ):
        with pytest.raises(TypeError, match=text):
            wrong()
    for name in ("A", "a/b", "../a", "", "a b"):
        with pytest.raises(ValueError, match="name"):
            app.skill(name, dynamic=True)(lambda: named_skill("a"))
