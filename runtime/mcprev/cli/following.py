"""Starts a tool as a task and follows a task, for `mcprev call --task` and `mcprev task` (TASK-3, TASK-8, TASKX-4).

Uses the public client API. Lines about the task go to stderr, so that stdout has the result alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import click

from mcprev.cli.exit_codes import ExitCode, Failure
from mcprev.cli.table import clean, echo, echo_json, show_progress
from mcprev.wire.json_values import is_json_object

if TYPE_CHECKING:
    from mcprev.client.client import Client
    from mcprev.client.tasks import ClientTask
    from mcprev.client.tool_result import ToolResult
    from mcprev.errors import Json
    from mcprev.hosts.named_server import NamedServer

Command = TypeVar("Command", bound=Callable[..., object])


def task_options(command: Command) -> Command:
    """Add the options that start a call as a task."""
    for option in (
        click.option(
            "--no-wait",
            is_flag=True,
            help="With --task, print the id of the task and disconnect; `mcprev task TARGET ID` waits for its result. "
            "Requires a server at a URL.",
        ),
        click.option(
            "--task",
            "as_task",
            is_flag=True,
            help="Start the tool as a task, and print its id and each status to stderr until it has a result.",
        ),
    ):
        command = option(command)
    return command


def take_task_options(options: dict[str, Any], *, repeated: bool) -> tuple[bool, bool]:
    """Take what `task_options` added out of the options of a command: `--task` and `--no-wait`.

    Raises `click.UsageError` for options that do not go together.
    """
    as_task, no_wait = options.pop("as_task"), options.pop("no_wait")
    if no_wait and not as_task:
        raise click.UsageError("--no-wait requires --task")
    if as_task and repeated:
        raise click.UsageError("--task starts one call; leave it out with --repeat and --seconds")
    return as_task, no_wait


def check_leaving(server: NamedServer) -> None:
    """Raise `click.UsageError` for a server that ends with the command, and its tasks with it."""
    if server.entry.url is None:
        text = "--no-wait requires a server at a URL: one that this command starts ends with it, and so do its tasks"
        raise click.UsageError(text)


async def call_as_task(
    client: Client,
    start: Callable[[], Awaitable[ClientTask]],
    server: NamedServer,
    *,
    no_wait: bool,
    as_json: bool,
) -> ToolResult | None:
    """Start a task and return its result, or print its id and return None if nobody waits for it."""
    check_tasks(client)
    task = await start()
    if not task.id:
        echo("the server has responded at once, without a task", err=True)
        return await task.result()
    if no_wait:
        show_task(client, task, as_json=as_json, alone=True)
        return None
    return await wait_and_tell(client, task, server)


def check_tasks(client: Client) -> None:
    """Raise `Failure` if the revision of a connection has no tasks, or its server does not run any."""
    from mcprev.revisions import DEFAULT, TaskSupport

    if client.spoken.tasks is TaskSupport.NONE:
        others = [row.name for row in DEFAULT if row.tasks is not TaskSupport.NONE]
        text = f"{client.revision} has no tasks; the server has to speak one of {', '.join(others)}"
        raise Failure(text, ExitCode.PROTOCOL)


async def wait_and_tell(client: Client, task: ClientTask, server: NamedServer) -> ToolResult:
    """Return the result of a task, and print each change of its status."""
    from mcprev.revisions import TaskSupport

    told = tell(task, "")
    waiting = asyncio.create_task(task.result())
    try:
        while not (await asyncio.wait({waiting}, timeout=task.poll_interval))[0]:
            if client.spoken.tasks is TaskSupport.CORE:
                await task.refresh()  # the answer to `tasks/result` is the first that comes
            told = tell(task, told)
    except asyncio.CancelledError:
        if server.entry.url is not None:
            show_progress("")
            echo(
                f"the task goes on: `mcprev task TARGET {clean(task.id)}` waits for it, --cancel ends it",
                err=True,
            )
        raise
    finally:
        waiting.cancel()
    result = await waiting
    tell(task, told)
    return result


def tell(task: ClientTask, told: str) -> str:
    """Print the status of a task unless it is what was told last; return it."""
    text = clean(f"task {task.id}: {task.status}{f', {task.message}' if task.message else ''}"[:1000])
    if text != told:
        show_progress("")
        echo(text, err=True)
    return text


def show_task(client: Client, task: ClientTask, *, as_json: bool, alone: bool = False) -> None:
    """Print a task: as JSON, or its id `alone`, or its status with what it asks."""
    if as_json:
        state: dict[str, Json] = {"id": task.id, "status": task.status.value, "message": task.message}
        if task.input_requests:
            state["inputRequests"] = task.input_requests
        echo_json({"format": 1, "revision": client.revision, "task": state})
    elif alone:
        echo(clean(task.id))
    else:
        status = task.status if task.message is None else f"{task.status}, {task.message}"
        asked = "; ".join(map(question, task.input_requests.values()))
        echo(clean(f"{status}: {asked}"[:1000] if asked else status))


def question(request: Mapping[str, Json]) -> str:
    """Return what an input request asks, for a line of text: the message of a question to the user, else the method."""
    params = request.get("params")
    message: Json = params.get("message") if is_json_object(params) else None
    return message if isinstance(message, str) else str(request.get("method"))
