"""`mcprev task`: come back to a task that was started before (TASK-3, TASK-5, TASKX-4)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mcprev.cli.call import no_more, out_option, print_result, split_words
from mcprev.cli.command_target import TargetCommand
from mcprev.cli.exit_codes import ExitCode, Failure
from mcprev.cli.following import check_tasks, show_task, wait_and_tell
from mcprev.cli.options import words_argument
from mcprev.cli.server_use import server_use_of, session_options
from mcprev.cli.table import clean
from mcprev.errors import MethodNotFound

if TYPE_CHECKING:
    from mcprev.client.client import Client


@click.command("task", cls=TargetCommand)
@session_options
@click.option("--status", "status", is_flag=True, help="Print the status of the task, and do not wait.")
@click.option("--cancel", "cancel", is_flag=True, help="Cancel the task, and print its status.")
@out_option
@words_argument("TARGET ID | ID -- COMMAND", "tasks")
def task_command(
    *,
    words: tuple[str, ...],
    status: bool,
    cancel: bool,
    out: Path | None,
    **options: Any,  # noqa: ANN401 - as declared
) -> None:
    """Wait for a task that was started before, and show its result.

    ID is the id that `mcprev call --task` has printed, or another client. Its questions are answered as those of a call.
    Exit codes are those of `mcprev call`; a task that was cancelled has 1.
    """
    if status and cancel:
        raise click.UsageError("--status and --cancel do not go together: --cancel prints the status too")
    target, name, rest = split_words(words, "ID")
    no_more(rest, "a task has one ID")
    session = server_use_of(target, **options)

    async def use(client: Client) -> int:
        check_tasks(client)
        try:
            task = await client.task(name)
        except MethodNotFound as error:
            why = f"the server runs no tasks, so it has no '{clean(name[:200])}' ({clean(str(error))})"
            raise Failure(why, ExitCode.FAILED) from None
        if cancel:
            await task.cancel()
        if status or cancel:
            show_task(client, task, as_json=session.as_json)
            return ExitCode.OK
        result = await wait_and_tell(client, task, session.server)
        return print_result(client, result, out, as_json=session.as_json)

    session.run(use)
