"""Skills of several servers behind a bridge: one list, names that keep digests and folders valid, and what is announced (X-3, BR-1)."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal

import pytest

import mcprev
from helpers.requirements import req
from helpers.running import run
from mcprev.bridge.several.options import BridgedServer, Offer
from mcprev.extensions.skills.rules import NAME
from mcprev.revisions import DEFAULT, Revision


def copied(files: dict[str, str | bytes]) -> dict[str, str | bytes]:
    return {**files}


def skills_app(*names: str, **options: Any) -> mcprev.App:
    app = mcprev.App("a", "1")
    for name in names:
        files: dict[str, str | bytes] = {
            "SKILL.md": f"---\nname: {name}\ndescription: About {name}\n---\n",
            "d/x y.bin": b"\0\xff",
        }
        app.skill(name, **options)(partial(copied, files))
    return app


@req("SK-1", "SK-2", "SK-5", "SK-8")
@pytest.mark.parametrize("row", DEFAULT, ids=lambda row: row.name)
@pytest.mark.parametrize("prefixes", ["always", "needed"])
def test_skills_of_several_servers_are_listed_and_checked(
    row: Revision, prefixes: Literal["always", "needed"]
) -> None:
    async def main() -> None:
        plain = mcprev.App("p", "1")
        plain.resource("notes://x")(lambda: "note")
        servers = {"one": skills_app("mail", "git"), "plain": plain, "two": skills_app("mail", dynamic=True)}
        bridge = mcprev.Bridge(servers, prefixes=prefixes)
        async with bridge.running(), mcprev.connect(bridge, revisions=[row.name]) as client:
            assert client.extension_settings(NAME) == {"directoryRead": True}
            found = {skill.uri: skill async for skill in client.skills()}
            assert [*found] == [
                "one+skill://mail/SKILL.md", "one+skill://git/SKILL.md", "two+skill://mail/SKILL.md",
            ]  # fmt: skip
            for uri, skill in found.items():
                assert skill.name in (await skill.read()).text
                assert (await skill.read("d/x y.bin")).data == b"\0\xff"
                folder = uri.removesuffix("/SKILL.md")
                assert [each.uri async for each in skill.folder()] == [uri, f"{folder}/d"]
                assert [each.uri async for each in skill.folder("d")] == [f"{folder}/d/x%20y.bin"]
                same = await client.skill(uri)
                assert same.entry.to_wire() == skill.entry.to_wire()
            listed = await client.raw("skills/list")
            assert (listed["ttlMs"], listed["cacheScope"]) == (0, "private")
            for method in ("skills/get", "resources/directory/read"):
                for uri in (
                    "one+skill://none/SKILL.md",
                    "other+skill://mail/SKILL.md",
                    "plain+notes://x",
                    "x",
                    "",
                ):
                    with pytest.raises((mcprev.InvalidParams, mcprev.MethodNotFound)):
                        await client.raw(method, {"uri": uri})
            with pytest.raises(mcprev.InvalidParams):
                await client.raw("skills/get", {})

    run(main())


@pytest.mark.parametrize("row", DEFAULT, ids=lambda row: row.name)
def test_what_the_bridge_cannot_serve_it_does_not_announce(row: Revision) -> None:
    async def main() -> None:
        other = mcprev.App(
            "o", "1", extensions=[mcprev.Extension("com.acme/units"), mcprev.Extension(NAME, {})]
        )
        other.resource("notes://x")(lambda: "note")
        bridge = mcprev.Bridge({"one": skills_app("mail"), "other": other})
        async with bridge.running(), mcprev.connect(bridge, revisions=[row.name]) as client:
            # Not every server reads folders.
            assert client.extension_settings(NAME) == {}
            assert client.extension_settings("com.acme/units") is None
        plain = mcprev.App("p", "1")
        plain.resource("notes://x")(lambda: "note")
        bridge = mcprev.Bridge({"one": plain, "two": plain})
        async with bridge.running(), mcprev.connect(bridge, revisions=[row.name]) as client:
            assert client.extension_settings(NAME) is None

    run(main())


@req("SK-13", everywhere=True)
def test_pages_of_several_servers_have_whole_entries_and_what_is_denied_is_left_out() -> None:
    async def main() -> None:
        many = [f"s{number}" for number in range(120)]
        many_app = skills_app(*many)
        denied = BridgedServer(target=skills_app("a", "b"), offer=Offer(deny={"resources": ["skill://a/*"]}))
        bridge = mcprev.Bridge({"many": many_app, "denied": denied})
        async with bridge.running(), mcprev.connect(bridge) as client:
            found = [skill.uri async for skill in client.skills()]
            assert len(found) == len(set(found)) == 121
            assert [uri for uri in found if uri.startswith("denied")] == ["denied+skill://b/SKILL.md"]
            with pytest.raises(mcprev.InvalidParams):
                await client.skill("denied+skill://a/SKILL.md")
            shown = await client.raw("resources/directory/read", {"uri": "denied+skill://a"})
            assert shown["resources"] == []

    run(main())
