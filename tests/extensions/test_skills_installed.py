"""A skill is written into a folder of a host: only checked files, only below one new folder, with its origin (SK-22, SK-24, SK-28)."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest

import mcprev
from extensions.test_skills_client import MD, URI, Hostile, entry, listed
from helpers.requirements import req
from helpers.running import run
from mcprev.extensions.skills.client import skill_of
from mcprev.extensions.skills.installing import ORIGIN, install_skill, planned_installation


async def hostile(
    *more: dict[str, Any], files: dict[str, Any] | None = None, **members: Any
) -> mcprev.HeldSkill:
    found = {URI: MD, **(files or {})}
    return await skill_of(Hostile(get={"skill": entry(*more, **members)}, files=found), URI)


def tree(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


@req("SK-22", "SK-24", "SK-28", everywhere=True)
def test_checked_files_are_written_with_their_origin(tmp_path: Path) -> None:
    async def main() -> None:
        skill = await hostile(listed("a/x%20y.bin", b"\0"), files={"skill://mail/a/x%20y.bin": b"\0"})
        plan = planned_installation(skill, tmp_path / "skills", "evil")
        assert (plan.folder, plan.before, plan.is_other) == (tmp_path / "skills" / "mail", None, False)
        assert not (tmp_path / "skills").exists()  # a plan writes nothing
        await install_skill(plan)
        assert tree(tmp_path) == {
            "skills",
            "skills/mail",
            *(f"skills/mail/{each}" for each in ("SKILL.md", "a", "a/x y.bin", ORIGIN)),
        }
        assert (plan.folder / "a" / "x y.bin").read_bytes() == b"\0"
        assert not (plan.folder / "SKILL.md").stat().st_mode & stat.S_IXUSR
        said = json.loads((plan.folder / ORIGIN).read_text())
        assert (said["server"], said["uri"], [*said["files"]]) == ("evil", URI, ["SKILL.md", "a/x y.bin"])

    run(main())


def test_what_is_there_is_kept_and_replaced_as_a_whole_when_asked(tmp_path: Path) -> None:
    async def main() -> None:
        mine = tmp_path / "mail" / "mine.md"
        mine.parent.mkdir()
        mine.write_text("mine")
        skill = await hostile()
        plan = planned_installation(skill, tmp_path, "evil")
        assert (plan.before, plan.is_other) == ({}, True)
        with pytest.raises(FileExistsError):
            await install_skill(plan)
        assert mine.read_text() == "mine"
        await install_skill(plan, replace=True)
        assert tree(tmp_path) == {"mail", "mail/SKILL.md", f"mail/{ORIGIN}"}
        assert not planned_installation(skill, tmp_path, "evil").is_other
        assert planned_installation(skill, tmp_path, "other").is_other

    run(main())


@req("SK-24", everywhere=True)
def test_one_file_that_is_not_right_and_nothing_is_written(tmp_path: Path) -> None:
    async def main() -> None:
        skill = await hostile(listed("z.md", "right"), files={"skill://mail/z.md": "wrong"})
        plan = planned_installation(skill, tmp_path, "evil")
        with pytest.raises(mcprev.SkillChanged):
            await install_skill(plan)
        assert tree(tmp_path) == set()

    run(main())


@pytest.mark.parametrize(
    "path",
    [".git/hooks/post-checkout", ".env", "a/.hidden", ".mcp-origin.json"],
)
def test_hidden_files_are_read_and_never_written(path: str, tmp_path: Path) -> None:
    async def main() -> None:
        skill = await hostile(listed(path, "x"), files={f"skill://mail/{path}": "x"})
        assert (await skill.read(path)).text == "x"
        with pytest.raises(mcprev.InvalidSkill, match="begins with a dot"):
            planned_installation(skill, tmp_path, "evil")

    run(main())


@pytest.mark.parametrize("clash", [("A.md", "a.md"), ("x", "x/y"), ("e\u0301", "\u00e9")])
def test_files_that_are_one_on_some_systems_are_never_written(clash: tuple[str, str], tmp_path: Path) -> None:
    async def main() -> None:
        from mcprev.extensions.skills.paths import quoted

        skill = await hostile(*(listed(quoted(path)) for path in clash))
        with pytest.raises(mcprev.InvalidSkill, match="one path"):
            planned_installation(skill, tmp_path, "evil")

    run(main())


def test_a_place_that_is_a_link_or_a_file_and_a_dynamic_skill_are_refused(tmp_path: Path) -> None:
    async def main() -> None:
        skill = await hostile()
        outside = tmp_path / "outside"
        outside.mkdir()
        for name in ("links", "files", "broken"):
            (tmp_path / name).mkdir()
        (tmp_path / "links" / "mail").symlink_to(outside)
        (tmp_path / "broken" / "mail").symlink_to(tmp_path / "nothing")
        (tmp_path / "files" / "mail").write_text("mine")
        for name in ("links", "files", "broken"):
            with pytest.raises(ValueError, match="link or a file"):
                planned_installation(skill, tmp_path / name, "evil")
        dynamic = await hostile(resources="dynamic")
        with pytest.raises(mcprev.InvalidSkill, match="dynamic"):
            planned_installation(dynamic, tmp_path, "evil")
        plan = planned_installation(skill, tmp_path / "race", "evil")
        (tmp_path / "race").mkdir()
        (tmp_path / "race" / "mail").symlink_to(outside)
        with pytest.raises(FileExistsError):
            await install_skill(plan)
        assert tree(outside) == set()

    run(main())


@pytest.mark.parametrize("text", ["", "[]", "{", "[" * 100_000, '"x"'])
def test_an_origin_that_cannot_be_read_is_none(text: str, tmp_path: Path) -> None:
    async def main() -> None:
        (tmp_path / "mail").mkdir()
        (tmp_path / "mail" / ORIGIN).write_text(text)
        assert planned_installation(await hostile(), tmp_path, "evil").before == {}

    run(main())
