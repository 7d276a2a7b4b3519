"""Input that the spoken revision cannot ask for: the error names the revision, not the client (MOD-6, CONV-17)."""

from __future__ import annotations

from typing import Any

import pytest

import mcprev
from api.scripted import giving, server
from helpers.requirements import req
from helpers.running import run
from mcprev.revisions import DEFAULT, Revision
from mcprev_types.latest import models as m

each_row = pytest.mark.parametrize("row", DEFAULT, ids=lambda row: row.name)


def asking(caught: list[mcprev.MissingClientCapability]) -> mcprev.App:
    app = mcprev.App("asks", "1")

    @app.tool
    async def form(ctx: mcprev.Context) -> str:
        try:
            await ctx.elicit("how many?", int)
        except mcprev.MissingClientCapability as error:
            caught.append(error)
        return "done"

    return app


def answer(_params: m.ElicitRequestParams) -> dict[str, Any]:
    return {"value": 1}


@req("MOD-6", "ELIC-1")
@each_row
@pytest.mark.parametrize("declared", [True, False])
def test_a_form_at_a_revision_without_forms(row: Revision, declared: bool) -> None:
    async def main() -> None:
        caught: list[mcprev.MissingClientCapability] = []
        answers: dict[str, Any] = {"elicitation": answer} if declared else {}
        async with mcprev.connect(asking(caught), mode=row.name, **answers) as client:
            assert (await client.call_tool("form")).text == "done"
        text = "".join(error.message for error in caught)
        if not row.elicitation_modes:
            assert text.startswith(
                f"{row.name}, the revision that client and server speak, has no elicitation"
            )
            assert all(other.name in text for other in DEFAULT if other.elicitation_modes)
            assert "`ctx.revision`" in text
            assert "elicitation" in caught[0].required
        else:
            missing = (
                "this requires the client capability elicitation.form, which the client has not declared"
            )
            assert text == ("" if declared else missing)

    run(main())


@req("CONV-17")
@each_row
def test_a_result_that_asks_at_a_revision_without_forms(row: Revision) -> None:
    """The model reads the revision, and the message for the user."""

    async def ask(ctx: mcprev.Context, params: Any) -> Any:
        wanted = m.ElicitRequestFormParams.from_wire(
            {"mode": "form", "message": "how many?", "requestedSchema": {"type": "object", "properties": {}}}
        )
        return m.InputRequiredResult(input_requests={"a": m.ElicitRequest(params=wanted)})

    async def main() -> None:
        if row.elicitation_modes:
            return
        made = server(call_tool=ask, list_tools=giving(m.ListToolsResult(tools=[])))
        async with mcprev.connect(made, mode=row.name) as client:
            result = await client.call_tool("t")
        assert result.is_error
        assert result.text.startswith(f"{row.name}, the revision")
        assert result.text.endswith(": how many?")

    run(main())
