"""`mcprev hosts`: the servers that the configurations of hosts name, and where (SEC-6)."""

from __future__ import annotations

import click

from mcprev.cli import completing
from mcprev.cli.exit_codes import ExitCode, Failure
from mcprev.cli.table import clean, echo_json, echo_table
from mcprev.error_text import did_you_mean
from mcprev.hosts.named_server import Configured, configured_servers, entry_text
from mcprev.hosts.table import HOSTS


@click.command("hosts")
@click.option("--json", "as_json", is_flag=True, help="Print JSON (versioned by its 'format').")
@click.argument("host", metavar="[HOST]", required=False, shell_complete=completing.hosts)
def hosts_command(*, host: str | None, as_json: bool) -> None:
    """List the servers in the configurations of hosts.

    Without HOST, those of all hosts are listed.

    Other commands take NAME or NAME@HOST as their TARGET. Values of variables, headers and arguments that look like
    secrets are masked.
    """
    if host is not None and host not in HOSTS and not host.endswith((".json", ".jsonc")):
        hint = did_you_mean(host, HOSTS) or f"; the hosts are {', '.join(HOSTS)}"
        raise Failure(f"no host '{clean(host)}' is known{hint}", ExitCode.USAGE)
    found = [*configured_servers(host)]
    if as_json:
        echo_json({"format": 1, "servers": [_document(each) for each in found]})
        return
    rows = [(each.name, each.host, entry_text(each), str(each.file)) for each in found]
    echo_table(("NAME", "HOST", "SERVER", "FILE"), rows or [("(none)", "", "", "")])


def _document(server: Configured) -> dict[str, str]:
    return {"name": server.name, "host": server.host, "server": entry_text(server), "file": str(server.file)}
