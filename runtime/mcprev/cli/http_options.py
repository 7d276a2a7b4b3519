"""The options of `mcprev serve` and `mcprev bridge` about HTTP, named as those of `run_http` (HTTP-3, HTTP-27)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

import click

from mcprev.cli.options import NumberRange

Command = TypeVar("Command", bound=Callable[..., object])
OPTIONS: Final = (
    click.option("--path", help="The path of the endpoint, /mcp by default."),
    click.option("--sse", is_flag=True, help="Also serve HTTP+SSE, the older HTTP transport."),
    click.option(
        "--json", "json_response", is_flag=True, help="Respond with JSON, never with an event stream."
    ),
    click.option(
        "--origin", "origins", multiple=True, help="Accept web pages of this origin; may be repeated."
    ),
    click.option(
        "--host", "hosts", multiple=True, help="Accept only requests with this Host header; may be repeated."
    ),
    click.option(
        "--trusted-proxy",
        "proxies",
        multiple=True,
        metavar="ADDRESS|CIDR|unix",
        help="Believe what a proxy at this address says about its clients in Forwarded or X-Forwarded-*; may be repeated.",
    ),
    click.option(
        "--root-path",
        help="The prefix that a proxy removes from the path of requests, such as /tools.",
    ),
    click.option(
        "--keep-alive",
        type=NumberRange(min=1),
        help="Seconds after which a connection without a request is closed, 180 by default: more than those of a balancer in front.",
    ),
    click.option(
        "--drain",
        type=NumberRange(min=0),
        help="Seconds that calls in progress and tasks have to finish when the server stops; 30 by default.",
    ),
)
NAMES: Final = "--path, --sse, --json, --origin, --host, --trusted-proxy, --root-path, --keep-alive, --drain"
"""Their names, for the message that they require --http."""


def http_options(command: Command) -> Command:
    """Give a command these options."""
    for option in reversed(OPTIONS):
        command = option(command)
    return command


def given_options(options: Mapping[str, object]) -> dict[str, Any]:
    """Return those that were given."""
    return {name: value for name, value in options.items() if value not in (None, ()) and value is not False}
