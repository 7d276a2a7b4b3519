"""The server that the official conformance suite talks to, on the public API alone.

    python tests/conformance/server.py [--port PORT] [--newest REVISION] [--store URL]

Names and texts are those that the suite asks for. `--newest` serves nothing newer than that revision, so that a
stateful scenario can be made to run on the wire of an older one. `--store` is what several of these processes share.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeAlias

import mcprev
from mcprev.revisions import DEFAULT
from mcprev_types.latest import models as m

PIXEL: Final = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
SILENCE: Final = "UklGRiQAAABXQVZFZm10IBAAAAABAAEARKwAAIhYAQACABAAZGF0YQAAAAA="
Answer: TypeAlias = m.CallToolResult | m.InputRequiredResult
Run: TypeAlias = Callable[[mcprev.Context, dict[str, Any]], Awaitable[Answer]]
TOOLS: Final[dict[str, tuple[m.Tool, Run]]] = {}


def tool(name: str, description: str, /, **properties: Any) -> Callable[[Run], Run]:
    """Serve a function as a tool; the schema is what it says of its arguments."""
    return schema_tool(name, description, {"type": "object", "properties": properties})


def schema_tool(name: str, description: str, schema: dict[str, Any], /) -> Callable[[Run], Run]:
    """The same with a schema of its own."""

    def add(run: Run) -> Run:
        shape = m.ToolInputSchema.from_wire(schema)
        TOOLS[name] = (m.Tool(name=name, description=description, input_schema=shape), run)
        return run

    return add


def said(*content: m.ContentBlock | str, error: bool | None = None) -> m.CallToolResult:
    """A result; text may be given as it is."""
    blocks = [m.TextContent(text=block) if isinstance(block, str) else block for block in content]
    return m.CallToolResult(content=blocks, is_error=error)


def form(message: str, /, **properties: Any) -> m.ElicitRequest:
    """A question for the user."""
    schema = m.ElicitRequestFormParamsRequestedSchema.from_wire({"type": "object", "properties": properties})
    return m.ElicitRequest(params=m.ElicitRequestFormParams(message=message, requested_schema=schema))


def prompt_model(text: str) -> m.CreateMessageRequest:
    """A question for the model."""
    message = m.SamplingMessage(role="user", content=m.TextContent(text=text))
    return m.CreateMessageRequest(params=m.CreateMessageRequestParams(messages=[message], max_tokens=100))


NAME: Final = {"name": {"type": "string"}}
EMBEDDED: Final = m.EmbeddedResource(
    resource=m.TextResourceContents(
        uri="test://embedded-resource", mime_type="text/plain", text="This is an embedded resource."
    )
)
IMAGE: Final = m.ImageContent(data=PIXEL, mime_type="image/png")


# -- plain tools -------------------------------------------------------------------------------------------


@tool("test_simple_text", "Answers with a text.")
async def simple_text(ctx: mcprev.Context, arguments: dict[str, Any]) -> Answer:
    return said("This is a simple text response for testing.")


@tool("test_image_content", "Answers with an image.")
async def image_content(ctx: mcprev.Context, arguments: dict[str, Any]) -> Answer:
    return said(IMAGE)


@tool("test_audio_content", "Answers with a sound.")
async def audio_content(ctx: mcprev.Context, arguments: dict[str, Any]) -> Answer:
    return said(m.AudioContent(data=SILENCE, mime_type="audio/wav"))


@tool("test_embedded_resource", "Answers with a resource.")
async def embedded_resource(ctx: mcprev.Context, arguments: dict[str, Any]) -> Answer:
    return said(EMBEDDED)


@tool("test_multiple_content_types", "Answers with a text, an image and a resource.")
async def mixed_content(ctx: mcprev.Context, arguments: dict[str, Any]) -> Answer:
    return said("Multiple content types:", IMAGE, EMBEDDED)


@tool("test_error_handling", "Fails.")
async def error_handling(ctx: mcprev.Context, arguments: dict[str, Any]) -> Answer:
    return said("This tool intentionally returns an error for testing", error=True)


@tool("test_x_mcp_header", "Takes an argument that is told in a header as well.",
      region={"type": "string", "x-mcp-header": "Region"})  # fmt: skip
async def x_mcp_header(ctx: mcprev.Context, arguments: dict[str, Any]) -> Answer:
    return said(f"region: {arguments.get('region')}")


@schema_tool(
    "json_schema_2020_12_tool",
    "Has an input schema that uses much of JSON Schema 2020-12.",
    {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {
            "address": {
                "$anchor": "addressDef",
                "type": "object",
                "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
            }
        },
        "properties": {
            "name": {"type": "string"},
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": {"type": "string"},
            "email": {"type": "string"},
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": False,
    },
)
async def json_schema(ctx: mcprev.Context, arguments: dict[str, Any]) -> Answer:
    return said(f"valid: {sorted(arguments)}")


# -- tools that talk while they run ------------------------------------------------------------------------


@tool("test_tool_with_progress", "Reports progress.")
async def with_progress(ctx: mcprev.Context, arguments: dict[str, Any]) -> Answer:
    for done in (0, 50, 100):
        await ctx.progress(done, 100, f"Completed step {done} of 100")
        await asyncio.sleep(0.05)
    return said(str(ctx.meta.get("progressToken")))


@tool("test_tool_with_logging", "Sends log messages.")
async def with_logging(ctx: mcprev.Context, arguments: dict[str, Any]) -> Answer:
    for text in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await ctx.log("info", text)
    return said("Tool with logging executed successfully")


@tool("test_logging_tool", "Sends a log message, to whoever asked for it.")
async def logging_tool(ctx: mcprev.Context, arguments: dict[str, Any]) -> Answer:
    await ctx.log("info", "test_logging_tool runs")
    return said("logged")


@tool("test_reconnection", "Has its stream closed before it answers.")
async def reconnection(ctx: mcprev.Context, arguments: dict[str, Any]) -> Answer:
    await ctx.close_stream(retry=0.5)
    await asyncio.sleep(0.1)
    return said("Reconnection test completed successfully.")


@tool("test_trigger_tool_change", "Tells of a change of the tools.")
async def trigger_tool_change(ctx: mcprev.Context, arguments: dict[str, Any]) -> Answer:
    ctx.changed("tools")
    return said("told")


@tool("test_trigger_prompt_change", "Tells of a change of the prompts.")
async def trigger_prompt_change(ctx: mcprev.Context, arguments: dict[str, Any]) -> Answer:
    ctx.changed("prompts")
    return said("told")


# -- tools that ask ----------------------------------------------------------------------------------------


@tool("test_sampling", "Asks the client's model.", prompt={"type": "string"})
async def sampling(ctx: mcprev.Context, arguments: dict[str, Any]) -> Answer:
    found = await ctx.ask("answer", prompt_model(str(arguments.get("prompt"))))
    return said(f"LLM response: {found.content}")


@tool("test_missing_capability", "Needs a client with a model.")
async def missing_capability(ctx: mcprev.Context, arguments: dict[str, Any]) -> Answer:
    await ctx.ask("answer", prompt_model("Are you there?"))
    return said("there is a model")


@tool("test_elicitation", "Asks the user.", message={"type": "string"})
async def elicitation(ctx: mcprev.Context, arguments: dict[str, Any]) -> Answer:
    question = form(
        str(arguments.get("message")),
        username={"type": "string", "description": "User's response"},
        email={"type": "string", "description": "User's email address"},
    )
    found = await ctx.ask("user", question)
    return said(f"User response: {found.action} {found.content}")


@tool("test_streaming_elicitation", "Asks the user.")
async def streaming_elicitation(ctx: mcprev.Context, arguments: dict[str, Any]) -> Answer:
    found = await ctx.ask("user", form("Who are you?", **NAME))
    return said(f"User response: {found.action}")


@tool("test_elicitation_sep1034_defaults", "Asks the user, with a default for each kind of answer.")
async def elicitation_defaults(ctx: mcprev.Context, arguments: dict[str, Any]) -> Answer:
    question = form(
        "Please review and update the form fields with defaults",
        name={"type": "string", "default": "John Doe"},
        age={"type": "integer", "default": 30},
        score={"type": "number", "default": 95.5},
        status={"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        verified={"type": "boolean", "default": True},
    )
    found = await ctx.ask("user", question)
    return said(f"Elicitation completed: {found.action} {found.content}")


@tool("test_elicitation_sep1330_enums", "Asks the user to choose, in each of the ways there are.")
async def elicitation_enums(ctx: mcprev.Context, arguments: dict[str, Any]) -> Answer:
    titled = [{"const": f"value{n}", "title": f"Option {n}"} for n in (1, 2, 3)]
    question = form(
        "Please select options from the enum fields",
        untitledSingle={"type": "string", "enum": ["option1", "option2", "option3"]},
        titledSingle={"type": "string", "oneOf": titled},
        legacyEnum={
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        untitledMulti={"type": "array", "items": {"type": "string", "enum": ["option1", "option2"]}},
        titledMulti={"type": "array", "items": {"anyOf": titled}},
    )
    found = await ctx.ask("user", question)
    return said(f"Elicitation completed: {found.action} {found.content}")


@tool("test_input_required_result_elicitation", "Asks for a name.")
async def input_elicitation(ctx: mcprev.Context, arguments: dict[str, Any]) -> Answer:
    found = await ctx.ask("user_name", form("What is your name?", **NAME))
    return said(f"Hello, {(found.content or {}).get('name')}!")


@tool("test_input_required_result_sampling", "Asks the model for a capital.")
async def input_sampling(ctx: mcprev.Context, arguments: dict[str, Any]) -> Answer:
    found = await ctx.ask("capital_question", prompt_model("What is the capital of France?"))
    return said(f"The model says {found.content}")


@tool("test_input_required_result_list_roots", "Asks for the roots.")
async def input_roots(ctx: mcprev.Context, arguments: dict[str, Any]) -> Answer:
    found = await ctx.ask("client_roots", m.ListRootsRequest())
    return said(f"roots: {[root.uri for root in found.roots]}")


@tool("test_input_required_result_request_state", "Asks, and keeps a state.")
@tool("test_input_required_result_tampered_state", "Asks, and notices a state that is not its own.")
async def input_state(ctx: mcprev.Context, arguments: dict[str, Any]) -> Answer:
    ctx.state = "asked"
    found = await ctx.ask("confirm", form("Are you sure?", ok={"type": "boolean"}))
    return said(f"state-ok: {found.action}")


@tool("test_input_required_result_multiple_inputs", "Asks three things at a time.")
async def input_multiple(ctx: mcprev.Context, arguments: dict[str, Any]) -> Answer:
    ctx.state = "asked"
    async with asyncio.TaskGroup() as group:
        name = group.create_task(ctx.ask("user_name", form("What is your name?", **NAME)))
        greeting = group.create_task(ctx.ask("greeting", prompt_model("Write a greeting.")))
        roots = group.create_task(ctx.ask("client_roots", m.ListRootsRequest()))
    return said(f"{name.result().action}, {greeting.result().model}, {len(roots.result().roots)} roots")


@tool("test_input_required_result_multi_round", "Asks one thing after the other.")
async def input_rounds(ctx: mcprev.Context, arguments: dict[str, Any]) -> Answer:
    ctx.state = "asked"
    first = await ctx.ask("step1", form("Step 1: what is your name?", **NAME))
    second = await ctx.ask("step2", form("Step 2: what is your colour?", color={"type": "string"}))
    return said(f"{first.content} {second.content}")


@tool("test_input_required_result_capabilities", "Asks whatever the client can be asked.")
async def input_capabilities(ctx: mcprev.Context, arguments: dict[str, Any]) -> Answer:
    answers: list[object] = []
    if ctx.client_capabilities.sampling is not None:
        answers.append(await ctx.ask("sampled", prompt_model("Say something.")))
    if ctx.client_capabilities.elicitation is not None:
        answers.append(await ctx.ask("elicited", form("What is your name?", **NAME)))
    return said(f"{len(answers)} answers")


# -- tools that may take long ------------------------------------------------------------------------------


@tool("greet", "Greets, at once.", name={"type": "string"})
async def greet(ctx: mcprev.Context, arguments: dict[str, Any]) -> Answer:
    return said(f"Hello, {arguments.get('name')}!")


@tool("slow_compute", "Takes its time.", seconds={"type": "number"}, label={"type": "string"})
async def slow_compute(ctx: mcprev.Context, arguments: dict[str, Any]) -> Answer:
    await ctx.detach(poll_interval=200)
    await asyncio.sleep(arguments.get("seconds", 1))
    return said(f"computed {arguments.get('label', '')}")


@tool("failing_job", "Fails after a while.")
async def failing_job(ctx: mcprev.Context, arguments: dict[str, Any]) -> Answer:
    await ctx.detach(poll_interval=200)
    await asyncio.sleep(1)
    return said("the job failed", error=True)


@tool("protocol_error_job", "Ends in an error after a while.")
async def protocol_error_job(ctx: mcprev.Context, arguments: dict[str, Any]) -> Answer:
    await ctx.detach(poll_interval=200)
    await asyncio.sleep(0.2)
    raise mcprev.InternalError("the job broke")


@tool("confirm_delete", "Asks before it deletes.", filename={"type": "string"})
async def confirm_delete(ctx: mcprev.Context, arguments: dict[str, Any]) -> Answer:
    await ctx.detach(poll_interval=200)
    question = form(f"Delete {arguments.get('filename')}?", confirm={"type": "boolean"})
    found = await ctx.ask("confirm", question)
    sure = found.action == "accept" and (found.content or {}).get("confirm")
    return said(f"{'deleted' if sure else 'kept'} {arguments.get('filename')}")


@tool("multi_input", "Asks two things at a time.")
async def multi_input(ctx: mcprev.Context, arguments: dict[str, Any]) -> Answer:
    await ctx.detach(poll_interval=200)
    async with asyncio.TaskGroup() as group:
        name = group.create_task(ctx.ask("name", form("What is your name?", **NAME)))
        colour = group.create_task(ctx.ask("colour", form("Which colour?", colour={"type": "string"})))
    return said(f"{name.result().content} {colour.result().content}")


@tool("test_tool_with_task", "Asks, and then takes its time.")
async def ask_then_detach(ctx: mcprev.Context, arguments: dict[str, Any]) -> Answer:
    found = await ctx.ask("user_name", form("What is your name?", **NAME))
    await ctx.detach(poll_interval=200)
    await asyncio.sleep(0.2)
    return said(f"Hello, {(found.content or {}).get('name')}!")


TASKS: Final = mcprev.Tasks(
    {
        "slow_compute": "optional",
        "failing_job": "required",
        "protocol_error_job": "optional",
        "confirm_delete": "optional",
        "multi_input": "optional",
        "test_tool_with_task": "optional",
    }
)

# -- the rest ----------------------------------------------------------------------------------------------

RESOURCES: Final = [
    m.Resource(uri="test://static-text", name="static-text", description="A text.", mime_type="text/plain"),
    m.Resource(
        uri="test://static-binary", name="static-binary", description="A picture.", mime_type="image/png"
    ),
    m.Resource(
        uri="test://watched-resource", name="watched", description="May change.", mime_type="text/plain"
    ),
]
TEMPLATE: Final = m.ResourceTemplate(
    uri_template="test://template/{id}/data",
    name="template",
    description="Data by its id.",
    mime_type="application/json",
)


def prompt(name: str, description: str, **arguments: str) -> m.Prompt:
    """A prompt with its arguments, all of them required."""
    named = [m.PromptArgument(name=key, description=text, required=True) for key, text in arguments.items()]
    return m.Prompt(name=name, description=description, arguments=named or None)


PROMPTS: Final = [
    prompt("test_simple_prompt", "Is a prompt."),
    prompt("test_prompt_with_arguments", "Has arguments.", arg1="The first.", arg2="The second."),
    prompt("test_prompt_with_embedded_resource", "Has a resource.", resourceUri="Which one."),
    prompt("test_prompt_with_image", "Has an image."),
    prompt("test_input_required_result_prompt", "Asks before it answers."),
]


class Fixture(mcprev.ServerHandler):
    """Serves the tables above."""

    async def list_tools(self, ctx: mcprev.Context, params: m.PaginatedRequestParams) -> m.ListToolsResult:
        return m.ListToolsResult(tools=[listed for listed, _ in TOOLS.values()])

    async def call_tool(self, ctx: mcprev.Context, params: m.CallToolRequestParams) -> Answer:
        if params.name not in TOOLS:
            raise mcprev.InvalidParams(f"Unknown tool: {params.name}")
        return await TOOLS[params.name][1](ctx, params.arguments or {})

    async def list_resources(
        self, ctx: mcprev.Context, params: m.PaginatedRequestParams
    ) -> m.ListResourcesResult:
        return m.ListResourcesResult(resources=RESOURCES)

    async def list_resource_templates(
        self, ctx: mcprev.Context, params: m.PaginatedRequestParams
    ) -> m.ListResourceTemplatesResult:
        return m.ListResourceTemplatesResult(resource_templates=[TEMPLATE])

    async def read_resource(
        self, ctx: mcprev.Context, params: m.ReadResourceRequestParams
    ) -> m.ReadResourceResult:
        uri = params.uri
        if uri == "test://static-binary":
            picture = m.BlobResourceContents(uri=uri, mime_type="image/png", blob=PIXEL)
            return m.ReadResourceResult(contents=[picture])
        if uri in ("test://static-text", "test://watched-resource"):
            text = "This is the content of the static text resource."
            return m.ReadResourceResult(
                contents=[m.TextResourceContents(uri=uri, mime_type="text/plain", text=text)]
            )
        head, _, rest = uri.partition("test://template/")
        if not head and rest.endswith("/data"):
            text = f'{{"id":"{rest.removesuffix("/data")}"}}'
            return m.ReadResourceResult(
                contents=[m.TextResourceContents(uri=uri, mime_type="application/json", text=text)]
            )
        raise mcprev.ResourceNotFound(f"Resource not found: {uri}", data={"uri": uri})

    async def list_prompts(
        self, ctx: mcprev.Context, params: m.PaginatedRequestParams
    ) -> m.ListPromptsResult:
        return m.ListPromptsResult(prompts=PROMPTS)

    async def get_prompt(
        self, ctx: mcprev.Context, params: m.GetPromptRequestParams
    ) -> m.GetPromptResult | m.InputRequiredResult:
        given = params.arguments or {}
        text = f"{params.name} {' '.join(f'{key}={value!r}' for key, value in given.items())}"
        content: list[m.ContentBlock] = [m.TextContent(text=text)]
        if params.name == "test_prompt_with_embedded_resource":
            resource = m.TextResourceContents(
                uri=given["resourceUri"], mime_type="text/plain", text="Embedded resource content."
            )
            content.insert(0, m.EmbeddedResource(resource=resource))
        elif params.name == "test_prompt_with_image":
            content.insert(0, IMAGE)
        elif params.name == "test_input_required_result_prompt":
            found = await ctx.ask("user_context", form("What is this about?", context={"type": "string"}))
            content.append(m.TextContent(text=str(found.content)))
        elif params.name not in {known.name for known in PROMPTS}:
            raise mcprev.InvalidParams(f"Unknown prompt: {params.name}")
        return m.GetPromptResult(messages=[m.PromptMessage(role="user", content=block) for block in content])

    async def complete(self, ctx: mcprev.Context, params: m.CompleteRequestParams) -> m.CompleteResult:
        words = [
            word for word in ("paris", "park", "party", "testing") if word[0] == params.argument.value[:1]
        ]
        return m.CompleteResult(completion=m.CompleteResultCompletion(values=words, total=len(words)))


def with_skills(revisions: list[str]) -> mcprev.App:
    """An app with skills: one with a folder in it, and one without digests."""
    app = mcprev.App("mcprev-conformance-skills", "1.0", revisions=revisions)

    def markdown(name: str) -> str:
        return f"---\nname: {name}\ndescription: For the suite\nmetadata:\n  since: 2026-01-01\n---\nSee templates/a.md\n"

    @app.skill("git-workflow")
    def files() -> dict[str, str | bytes]:
        return {"SKILL.md": markdown("git-workflow"), "templates/a b.md": "Dear é,", "data.bin": b"\0\xff"}

    @app.skill("today", dynamic=True)
    def today() -> dict[str, str | bytes]:
        return {"SKILL.md": markdown("today"), "now.txt": "now"}

    return app


def main() -> None:
    """Serve until interrupted."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=3000)
    parser.add_argument("--newest", help="serve no revision newer than this one")
    parser.add_argument("--skills", action="store_true", help="serve skills, and nothing else")
    parser.add_argument("--store", metavar="URL", help="what the processes of this server share")
    options = parser.parse_args()
    known = [row.name for row in DEFAULT]
    chosen = known[: known.index(options.newest) + 1] if options.newest else known
    store = None if options.store is None else mcprev.open_store(options.store)
    if options.skills:
        with_skills(chosen).run_http(port=options.port)
        return
    server = mcprev.Server(
        Fixture(), "mcprev-conformance-server", "1.0", revisions=chosen, tasks=TASKS, store=store
    )
    server.run_http(port=options.port)


if __name__ == "__main__":
    main()
