"""The client that the official conformance suite starts, on the public API alone: one process for each scenario.

The suite names scenario and revision in the environment and appends the server's URL to the command.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeAlias
from urllib.parse import urlsplit

import aiohttp

import mcprev
from mcprev.revisions import DEFAULT, revision_named
from mcprev.transports.http.client.authorization import Authorization
from mcprev_types.latest import models as m

Scenario: TypeAlias = Callable[[mcprev.Client], Awaitable[None]]
TIMEOUT: Final = 50.0
CALLBACK: Final = "http://localhost:3000/callback"
DOCUMENT: Final = "https://conformance-test.local/client-metadata.json"
SAMPLES: Final[Mapping[str, object]] = {"string": "text", "integer": 1, "number": 1.5, "boolean": True}


class Person(mcprev.ClientHandler):
    """Accepts whatever it is asked, with the defaults where there are any."""

    async def elicit(self, ctx: mcprev.ClientContext, params: m.ElicitRequestParams) -> m.ElicitResult:
        asked = params.to_wire().get("requestedSchema", {}).get("properties", {})
        filled = {name: filling(schema) for name, schema in asked.items()}
        return m.ElicitResult.from_wire({"action": "accept", "content": filled})

    async def create_message(
        self, ctx: mcprev.ClientContext, params: m.CreateMessageRequestParams
    ) -> m.CreateMessageResult:
        return m.CreateMessageResult(role="assistant", model="none", content=m.TextContent(text="Paris"))

    async def list_roots(self, ctx: mcprev.ClientContext, params: Any) -> m.ListRootsResult:
        return m.ListRootsResult(roots=[m.Root(uri="file:///workspace", name="workspace")])


def filling(schema: Mapping[str, Any]) -> object:
    """What to write into a field."""
    if "default" in schema:
        return schema["default"]
    choices = schema.get("enum") or [choice["const"] for choice in schema.get("oneOf", ())]
    return choices[0] if choices else SAMPLES.get(schema["type"], [])


async def use_everything(client: mcprev.Client) -> None:
    """List what there is, and use each thing once."""
    tools = [tool async for tool in client.tools()]
    for tool in tools:
        properties = tool.input_schema.to_wire().get("properties", {})
        await client.call_tool(tool.name, {name: filling(schema) for name, schema in properties.items()})


async def list_tools(client: mcprev.Client) -> None:
    """Only list the tools."""
    assert [tool async for tool in client.tools()]


async def ask_anyway(client: mcprev.Client) -> None:
    """Ask for the tools of a server that has not declared any."""
    await client.raw("tools/list")


async def add_numbers(client: mcprev.Client) -> None:
    """Call the one tool there is."""
    assert [tool.name async for tool in client.tools()] == ["add_numbers"]
    await client.call_tool("add_numbers", {"a": 5, "b": 3})


async def fill_in_defaults(client: mcprev.Client) -> None:
    """The tool asks while it runs."""
    await client.call_tool("test_client_elicitation_defaults", {})


async def reconnect(client: mcprev.Client) -> None:
    """The stream is closed while the tool runs."""
    await client.call_tool("test_reconnection", {})


async def keep_state(client: mcprev.Client) -> None:
    """Tools that ask, with and without a state; one between them that has nothing to do with it."""
    for name in ("echo_state", "unrelated", "no_state", "no_result_type"):
        await client.call_tool(f"test_mrtr_{name}", {})


async def use_all_methods(client: mcprev.Client) -> None:
    """Every method that has routing headers."""
    for tool in [tool async for tool in client.tools()]:
        await client.call_tool(tool.name, {})
    for resource in [resource async for resource in client.resources()]:
        await client.read_resource(resource.uri)
    for prompt in [prompt async for prompt in client.prompts()]:
        await client.get_prompt(prompt.name, {})


async def replay(client: mcprev.Client) -> None:
    """Call what the context says."""
    await list_tools(client)
    for call in json.loads(os.environ["MCP_CONFORMANCE_CONTEXT"])["toolCalls"]:
        await client.call_tool(call["name"], call["arguments"])


async def echo_schema(client: mcprev.Client) -> None:
    """Send a schema back as it came."""
    tools = {tool.name: tool async for tool in client.tools()}
    schema = tools["json_schema_2020_12_tool"].input_schema.to_wire()
    await client.call_tool("json_schema_echo", {"schema": schema})


async def use_test_tool(client: mcprev.Client) -> None:
    """What every scenario of authorization has, once it is entered."""
    await list_tools(client)
    await client.call_tool("test-tool", {})


async def log_in(url: str) -> str:
    """What a browser would do: the page sends the user back at once."""
    async with (
        aiohttp.ClientSession() as session,
        session.get(url, allow_redirects=False) as response,
    ):
        return response.headers["Location"]


async def find_issuer(url: str) -> str:
    """The authorization server of a server: what somebody would look up who is given credentials without it."""
    parts = urlsplit(url)
    place = f"{parts.scheme}://{parts.netloc}/.well-known/oauth-protected-resource{parts.path}"
    async with aiohttp.ClientSession() as session, session.get(place) as response:
        issuer: str = (await response.json())["authorization_servers"][0]
        return issuer


async def authorization(scenario: str, url: str) -> Authorization:
    """How this client is let in, with the credentials that the suite has given it, if any."""
    given: Mapping[str, str] = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))
    issuer = given.get("issuer")
    if given and issuer is None:
        issuer = await find_issuer(url)
    match scenario.removeprefix("auth/"):
        case "client-credentials-jwt":
            return mcprev.ClientCredentials(
                given["client_id"],
                private_key=given["private_key_pem"],
                algorithm=given["signing_algorithm"],
                issuer=issuer,
            )
        case "client-credentials-basic":
            return mcprev.ClientCredentials(given["client_id"], given["client_secret"], issuer=issuer)
        case "wif-jwt-bearer":
            return mcprev.WorkloadIdentity(given["valid_jwt"], client_id=given["client_id"], issuer=issuer)
        case "enterprise-managed-authorization":
            return mcprev.EnterpriseManaged(
                given["client_id"],
                given["client_secret"],
                provider=given["idp_token_endpoint"],
                provider_client_id=given["idp_client_id"],
                id_token=given["idp_id_token"],
                issuer=issuer,
            )
        case _:
            return mcprev.OAuth(
                client_id=given.get("client_id"),
                client_secret=given.get("client_secret"),
                issuer=issuer,
                # Its one endpoint has the metadata of the whole origin.
                resource=url.removesuffix("/mcp") if scenario == "auth/metadata-var2" else None,
                client_metadata_url=DOCUMENT,
                redirect_uri=CALLBACK,
                open=log_in,
                dpop="dpop" in scenario,
            )


async def list_skills(client: mcprev.Client) -> None:
    """List the skills, and read nothing of them."""
    assert [skill.name async for skill in client.skills()] == ["pdf-processing"]


async def refuse_skill(client: mcprev.Client) -> None:
    """Load a skill whose SKILL.md is not that of its entry: it is refused before another file is read."""
    async for skill in client.skills():
        try:
            for path in skill.files:
                await skill.read(path)
        except mcprev.SkillChanged:
            continue
        raise AssertionError("a changed skill was loaded")


SCENARIOS: Final[Mapping[str, Scenario]] = {
    "initialize": ask_anyway,
    "tools_call": add_numbers,
    "elicitation-sep1034-client-defaults": fill_in_defaults,
    "sse-retry": reconnect,
    "request-metadata": ask_anyway,
    "sep-2322-client-request-state": keep_state,
    "http-standard-headers": use_all_methods,
    "http-custom-headers": replay,
    "http-invalid-tool-headers": use_everything,
    "json-schema-ref-no-deref": list_tools,
    "json-schema-2020-12-preservation": echo_schema,
    "sep-2640-client-no-prefetch": list_skills,
    "sep-2640-client-verify-digest": refuse_skill,
    "sep-2640-client-verify-size": refuse_skill,
    "sep-2640-client-verify-frontmatter": refuse_skill,
}


def connected(url: str, auth: Authorization | None, through: str | None) -> Any:
    """The client of a scenario; `through` is its revision, in front of a bridge to the server at that of the scenario."""
    version = os.environ["MCP_CONFORMANCE_PROTOCOL_VERSION"]
    options: Any = {"handler": Person(), "name": "mcprev-conformance-client", "version": "1.0"}
    target = mcprev.http(url, auth=auth)
    if through is None:
        names = [row.name for row in DEFAULT if row.era is revision_named(version).era]
        return mcprev.connect(target, revisions=names[: names.index(version) + 1], **options)
    return mcprev.connect(mcprev.Bridge(target, server_revisions=[version]), mode=through, **options)


async def main(url: str, through: str | None) -> None:
    """Run the scenario, within a bound."""
    name = os.environ["MCP_CONFORMANCE_SCENARIO"]
    auth = await authorization(name, url) if name.startswith("auth/") else None
    scenario = use_test_tool if auth is not None else SCENARIOS[name]
    async with asyncio.timeout(TIMEOUT), connected(url, auth, through) as client:
        await scenario(client)
    sys.stdout.write(
        "ended well\n"
    )  # the suite tells nobody the exit code of a client that runs beside others


if __name__ == "__main__":
    asyncio.run(main(sys.argv[-1], os.environ.get("MCPREV_THROUGH")))
