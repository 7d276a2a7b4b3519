"""The pages of the reference: which public name stands on which page, and what is written from the code.

`python tools/reference_pages.py` writes them into docs/reference; a test fails where they are not what the code says. The site
fills each `:::` with signature, members and docstrings.
"""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import click

import mcprev
from helpers.support import ROOT
from limits_page import limits_page
from mcprev import errors
from mcprev.cli import main as command

FOLDER: Final = ROOT / "docs" / "reference"


@dataclass(frozen=True)
class Page:
    """A page of names, by the modules that define them; `also` are what these take as `**options`."""

    title: str
    says: str
    homes: tuple[str, ...]
    also: tuple[str, ...] = ()


ERRORS: Final = tuple(
    f"errors.{name}"
    for name, value in vars(errors).items()
    if inspect.isclass(value) and issubclass(value, errors.McpError) and name not in mcprev._HOMES["errors"]
)
"""The classes that `mcprev` does not offer by name."""
PAGES: Final[Mapping[str, Page]] = {
    "app": Page(
        "App",
        "A server of functions: tools, resources, prompts and completions. [The guide](../servers.md) shows it in use.",
        (
            "app.app", "app.dependencies", "app.routes", "app.openapi.routes", "core.questions", "app.content",
        ),
        (
            "app.options.AppOptions", "app.options.FunctionOptions", "app.options.EntryOptions", "app.options.ToolOptions",
            "app.options.ResourceOptions", "app.options.SkillOptions",
        ),
    ),
    "server": Page(
        "Server",
        "A server of a handler, and what handlers get. [The guide](../servers.md) shows it in use.",
        ("server.server", "server.context", "server.middleware", "server.tasks", "protocol.subscriptions", "protocol.request_state",
         "transports.http.server.routes", "transports.http.server.cors", "middleware.rate_limit"),
        (
            "server.server.HandlerOptions", "server.server.ServerOptions", "server.options.OfferOptions", "server.options.ServiceOptions",
            "transports.http.server.options.HttpOptions",
        ),
    ),
    "client": Page(
        "Client",
        "Connections to servers. [The guide](../clients.md) shows them in use.",
        ("client.connect", "client.client", "client.options", "client.targets", "client.tasks", "client.tool_result", "client.resource_result",
         "client.subscriptions", "client.request_handler", "core.reconnect_policy", "protocol.cache", "client.connect_all",
         "client.connect_options", "transports.http.client.target", "transports.stdio.client", "transports.memory"),
        ("client.connect_options.ClientOptions", "client.connect_options.ConnectionOptions"),
    ),
    "logins": Page(
        "Authorization of clients",
        "How a client gets and keeps tokens. [The guide](../clients.md) shows it in use.",
        ("auth.client.grants", "auth.client.loopback", "auth.client.steps", "auth.client.store", "auth.client.token_stores", "transports.http.client.authorization"),
        ("auth.client.credentials.AuthOptions",),
    ),
    "tokens": Page(
        "Authorization at servers",
        "How a server checks tokens, or issues its own in front of a provider. [The guide](../auth.md) shows it in use.",
        ("auth.bearer", "transports.http.server.access", "auth.static_tokens", "auth.verifiers", "auth.any_verifier",
         "auth.authorization_server.login", "auth.authorization_server.grants", "auth.authorization_server.providers"),
        ("auth.authorization_server.options.LoginOptions",),
    ),
    "bridge": Page(
        "Bridge",
        "A server in front of servers of any revision. [The guide](../bridge.md) shows it in use.",
        ("bridge.bridge",),
        (
            "bridge.several.options.BridgedServer", "bridge.several.options.Offer", "bridge.several.options.UserLogin",
            "bridge.several.logins.Logins", "bridge.several.sealed.SealedTokens", "bridge.upstreams.Bounds", "bridge.explain.explained",
        ),
    ),
    "middleware": Page(
        "Middleware",
        "Middleware that is ready to use, in `mcprev.middleware`, and the base class of hooks. [The guide](../middleware.md) shows it in use.",
        (),
        (
            "middleware.Hooks", "middleware.Logging", "middleware.Timing", "middleware.Times", "middleware.Caching", "middleware.Retries",
            "middleware.SizeLimit", "middleware.ErrorMapping", "middleware.Audit", "middleware.Metrics", "middleware.CallRecord",
            "middleware.recorded",
        ),
    ),
    "transforms": Page(
        "Transforms",
        "Tools made of what an app has, in `mcprev.transforms`, and the marks for files of a folder, in `mcprev.app.folders`. "
        "[The guide](../tools.md) shows them in use.",
        (),
        (
            "transforms.transform_tool", "transforms.Argument", "transforms.ToolCall", "transforms.tools_by_search",
            "transforms.tools_by_code", "transforms.Sandbox", "transforms.CallTool", "transforms.MontySandbox",
            "transforms.resources_as_tools", "transforms.prompts_as_tools", "app.folders.tool", "app.folders.resource", "app.folders.prompt",
        ),
    ),
    "interfaces": Page(
        "User interfaces",
        "Pages for the results of tools, in `mcprev.extensions.ui`, and one that the model writes, in `mcprev.app.ready_pages`. "
        "[The guide](../extensions.md#show-a-page-for-the-results-of-a-tool) shows them in use.",
        (),
        (
            "extensions.ui.UserInterface", "extensions.ui.ToolInterface", "extensions.ui.Csp", "extensions.ui.SERVER",
            "extensions.ui.HOST", "extensions.ui.Page", "extensions.ui.tool_interface", "extensions.ui.read_page",
            "extensions.ui.for_model", "extensions.ui.for_app", "app.ready_pages.generated_page", "app.ready_pages.MAX_GENERATED",
        ),
    ),
    "conversion": Page(
        "Conversion",
        "Messages of one revision in the words of another, in `mcprev.conversion`. [The guide](../looking.md) shows it in use.",
        ("conversion.ladder",),
        (
            "conversion.converter", "conversion.Converter", "conversion.PayloadKind", "conversion.ConversionContext",
            "conversion.Reason", "conversion.initialize_to_discover", "conversion.request_meta",
        ),
    ),
    "testing": Page(
        "Testing",
        "What tests of your own use, in `mcprev.testing`. [The guide](../servers.md#test-a-server) shows a test.",
        (),
        (
            "testing.authorization_server.LocalUsers", "testing.authorization_server.Browser",
            "testing.stores.RecordsContract", "testing.stores.StoreContract", "testing.shared_stores.SharedStoreContract",
        ),
    ),
    "looking": Page(
        "Looking",
        "What is on the wire, what is wrong with it, and what other revisions make of it. [The guide](../looking.md) shows it in use.",
        ("client.recording.tap", "analysis.judging", "analysis.schemas", "analysis.explaining", "analysis.catalog", "analysis.counterparts",
         "middleware.telemetry"),
    ),
    "stores": Page(
        "Stores and state",
        "What processes of one server share, and what requests of one session do. [The guide](../stores.md) shows it in use.",
        ("stores.opening", "stores.memory", "core.store", "server.session_state"),
        ("server.session_state.SessionState", "sharing.keys.SharedKeys", "sharing.leases.Lease", "sharing.leader.run_as_leader"),
    ),
    "extensions": Page(
        "Extensions",
        "Methods and capabilities beyond the schema. [The guide](../extensions.md) shows them in use.",
        ("extensions.extension", "wire.bounds"),
    ),
    "skills": Page(
        "Skills",
        "Skills of a server as a client uses them, and how one is installed, in `mcprev.extensions.skills`. [The guide](../skills.md) shows them in use.",
        ("extensions.skills.client",),
        (
            "extensions.skills.installing.SkillInstallation", "extensions.skills.installing.planned_installation",
            "extensions.skills.installing.install_skill", "extensions.skills.installing.ORIGIN",
        ),
    ),
    "errors": Page("Errors", "Every error that mcprev raises. [What they mean](../errors.md) says what to do.", ("errors",), ERRORS),
}  # fmt: skip


def pages() -> dict[str, str]:
    """The text of each page by its name."""
    homes = dict(mcprev._HOMES.items())
    found = {}
    for name, page in PAGES.items():
        entries = [f"mcprev.{each}" for home in page.homes for each in homes.pop(home)]
        entries += [f"mcprev.{each}" for each in page.also]
        found[name] = (
            "\n\n".join([f"# {page.title}", page.says, *(block(name, entry) for entry in entries)]) + "\n"
        )
    assert not homes, f"no page of the reference has the names of {', '.join(homes)}: add them to PAGES"
    return {**found, "command": command_page(), "limits": limits_page()}


def block(page: str, entry: str) -> str:
    """What the page has of a name; an error leads to the entry that says what to do about it."""
    name = entry.rpartition(".")[2]
    more = (
        f"\n\n[What {name} means, and what to do](../errors.md#{name.lower()})." if page == "errors" else ""
    )
    return f"::: {entry}{more}"


def command_page() -> str:
    """Every command with its arguments and options, as `--help` says them."""
    parts = [
        "# The command",
        "What `--help` says of each command. [The guide](../command.md) shows them in use.",
    ]
    context = click.Context(command, info_name="mcprev", **command.context_settings)
    for name in ("", *command.list_commands(context)):
        one = command if not name else command.get_command(context, name)
        assert one is not None
        # click keeps the help option of the first context, which may have been another.
        vars(one)["_help_option"] = None
        inner = context if not name else click.Context(one, info_name=name, parent=context)
        inner.max_content_width = inner.terminal_width = 100
        parts += [f"## mcprev {name}".rstrip(), f"```text\n{one.get_help(inner).rstrip()}\n```"]
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, text in pages().items():
        (FOLDER / f"{name}.md").write_text(text, encoding="utf-8")
