"""What the server asks, at each revision: answered by hand, by a saved answer, with an error, or not any more."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

import mcprev
from dev.inspected import Page, in_memory, opened
from helpers.running import run
from mcprev.revisions import ALL
from mcprev_types.latest import models

REVISIONS = [revision.name for revision in ALL]
FORMS = [revision.name for revision in ALL if "elicitation/create" in revision.methods]


class Order(BaseModel):
    size: int
    milk: bool = False


def cafe() -> mcprev.App:
    app = mcprev.App("cafe", "1.0")

    @app.tool
    async def order(ctx: mcprev.Context) -> str:
        answer = await ctx.elicit("What would you like?", Order)
        return str(answer)

    @app.tool
    async def pay(ctx: mcprev.Context) -> str:
        params = models.ElicitRequestURLParams(url="https://pay.example", message="Pay")
        return str((await ctx.ask("pay", models.ElicitRequest(params=params))).action)

    @app.tool
    async def think(ctx: mcprev.Context) -> str:
        return (await ctx.sample("How many cups?")).text

    @app.tool
    async def look(ctx: mcprev.Context) -> list[str]:
        return [root.uri for root in await ctx.roots()]

    return app


async def asked(page: Page, tool: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The call of a tool, and its question."""
    page.told.clear()
    call = await page.post("call", method="tools/call", params={"name": tool, "arguments": {}})
    question = await page.until("question", lambda one: one["state"] == "open")
    assert question["call"] == call["call"]
    await page.until("call", lambda one: one["call"] == call["call"] and one["state"] == "asking")
    return call, question


@pytest.mark.parametrize("revision", FORMS)
def test_a_form_is_answered_by_hand_after_a_wrong_answer_was_refused(revision: str) -> None:
    async def scenario() -> None:
        async with opened(in_memory(cafe()), revision=revision) as page:
            call, question = await asked(page, "order")
            assert question["method"] == "elicitation/create"
            assert "size" in question["params"]["requestedSchema"]["properties"]
            path = f"question/{question['question']}"
            wrong: list[dict[str, Any]] = [
                {"action": "accept", "content": {"size": "large"}}, {"action": "accept", "content": {}},
                {"action": "perhaps"}, {"result": []}, {"error": {"code": "x"}}, {},
            ]  # fmt: skip
            for answer in wrong:
                assert (await page.post(path, **answer))["status"] == 400, answer
            assert (await page.post(path, action="accept", content={"size": 2}))["status"] == 200
            assert (await page.post(path, action="decline"))["status"] == 404
            ended = await page.ended(call["call"])
            assert (ended["state"], "size=2" in ended["result"]) == ("done", True)
            told = await page.until("question", lambda one: one["state"] == "answered")
            assert (told["action"], told["saved"]) == ("accept", False)

    run(scenario())


@pytest.mark.parametrize("revision", FORMS)
def test_a_saved_answer_is_given_to_later_questions_until_it_is_deleted(revision: str) -> None:
    async def scenario() -> None:
        async with opened(in_memory(cafe()), revision=revision) as page:
            call, question = await asked(page, "order")
            await page.post(f"question/{question['question']}", action="decline", remember=True)
            assert "Declined" in (await page.ended(call["call"]))["result"]
            assert (await page.get("answers"))["elicitation/create"] == {"action": "decline"}
            again = await page.call("tools/call", {"name": "order", "arguments": {}})
            assert "Declined" in again["result"]
            async with page.session.delete(f"{page.url}/api/answers", headers=page.headers) as deleted:
                assert deleted.status == 200
            await asked(page, "order")

    run(scenario())


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_model_and_the_roots_are_answered_by_hand(revision: str) -> None:
    async def scenario() -> None:
        async with opened(in_memory(cafe()), revision=revision) as page:
            call, question = await asked(page, "think")
            result = {"role": "assistant", "content": {"type": "text", "text": "three"}, "model": "me"}
            assert (await page.post(f"question/{question['question']}", result={"role": "x"}))[
                "status"
            ] == 400
            assert (await page.post(f"question/{question['question']}", result=result))["status"] == 200
            assert "three" in (await page.ended(call["call"]))["result"]
            call, question = await asked(page, "look")
            assert question["method"] == "roots/list"
            roots = {"roots": [{"uri": "file:///src"}]}
            await page.post(f"question/{question['question']}", result=roots)
            assert "file:///src" in (await page.ended(call["call"]))["result"]
            await page.post("roots", roots=[{"uri": "file:///other"}])
            ended = await page.call("tools/call", {"name": "look", "arguments": {}})
            assert "file:///other" in ended["result"]

    run(scenario())


@pytest.mark.parametrize("revision", REVISIONS)
def test_an_error_is_an_answer_too(revision: str) -> None:
    async def scenario() -> None:
        async with opened(in_memory(cafe()), revision=revision) as page:
            call, question = await asked(page, "think")
            error = {"code": -1, "message": "the user said no"}
            assert (await page.post(f"question/{question['question']}", error=error))["status"] == 200
            ended = await page.ended(call["call"])
            assert "the user said no" in str(ended.get("result")) + str(ended["error"])

    run(scenario())


@pytest.mark.parametrize("revision", FORMS)
def test_a_call_that_is_cancelled_takes_its_question_with_it(revision: str) -> None:
    async def scenario() -> None:
        async with opened(in_memory(cafe()), revision=revision) as page:
            call, question = await asked(page, "order")
            await page.post(f"call/{call['call']}/cancel")
            assert (await page.ended(call["call"]))["state"] == "cancelled"
            gone = await page.until("question", lambda one: one["state"] != "open")
            assert (gone["question"], gone["state"]) == (question["question"], "cancelled")

    run(scenario())


def test_an_answer_that_is_saved_for_forms_visits_no_page() -> None:
    async def scenario() -> None:
        async with opened(in_memory(cafe())) as page:
            call, question = await asked(page, "order")
            form = {"action": "accept", "content": {"size": 2}}
            await page.post(f"question/{question['question']}", **form, remember=True)
            await page.ended(call["call"])
            call, question = await asked(page, "pay")
            await page.post(f"question/{question['question']}", action="decline", remember=True)
            assert "decline" in (await page.ended(call["call"]))["result"]
            kept = await page.get("answers")
            assert kept == {
                "elicitation/create": form, "elicitation/create (url)": {"action": "decline"}, "status": 200,
            }  # fmt: skip
            again = await page.call("tools/call", {"name": "pay", "arguments": {}})
            assert "decline" in again["result"]

    run(scenario())


def test_a_page_to_visit_is_shown_and_accepted_by_hand() -> None:
    async def scenario() -> None:
        async with opened(in_memory(cafe())) as page:
            call, question = await asked(page, "pay")
            assert (question["params"]["mode"], question["params"]["url"]) == ("url", "https://pay.example")
            await page.post(f"question/{question['question']}", action="accept")
            assert "accept" in (await page.ended(call["call"]))["result"]

    run(scenario())
