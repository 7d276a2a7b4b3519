"""What the completion of bash, zsh and fish suggests: revisions, methods, types, targets, tools and their arguments.

Nothing here connects to a server or starts one: names of tools are those of the last list.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final, TypeAlias

import click
from click.shell_completion import CompletionItem

Suggest: TypeAlias = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]
_LATEST: Final = "latest"


def revisions(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Suggest the names of revisions."""
    from mcprev_types.index import REVISIONS

    return _starting([*REVISIONS, _LATEST], incomplete)


def revisions_and_extensions(
    _ctx: click.Context, _param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Suggest the names of revisions and of versions of extensions."""
    from mcprev.cli.generated import extension_names
    from mcprev_types.index import REVISIONS

    return _starting([*REVISIONS, _LATEST, *extension_names()], incomplete)


def methods(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Suggest the methods of the revision that the command line names."""
    return _starting([each["method"] for each in _document(ctx)["methods"]], incomplete)


def types(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Suggest the types of the revision that the command line names."""
    return _starting([each["name"] for each in _document(ctx)["types"]], incomplete)


def _document(ctx: click.Context) -> Any:  # noqa: ANN401 - JSON
    from mcprev.cli.generated import LATEST_NAME, described_package

    # The option that is completed has no value yet, so that click leaves arguments before it unread.
    for each in (ctx.params.get("revision"), *ctx.args):
        with suppress(ValueError):
            return described_package(str(each)).document()
    return described_package(LATEST_NAME).document()


def targets(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Suggest files, and the servers of the configurations of hosts."""
    from mcprev.hosts.named_server import configured_servers

    hosts: dict[str, set[str]] = {}
    for each in configured_servers():
        if each.name.isprintable():
            hosts.setdefault(each.name, set()).add(each.host)
    names = [
        name if "@" not in incomplete else f"{name}@{host}" for name in hosts for host in sorted(hosts[name])
    ]
    return [CompletionItem(incomplete, type="file"), *_starting(names, incomplete)]


def python_files(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Suggest files."""
    return [CompletionItem(incomplete, type="file")]


def hosts(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Suggest the hosts that are known, and files."""
    from mcprev.hosts.table import HOSTS

    return [*_starting(HOSTS, incomplete), CompletionItem(incomplete, type="file")]


def configured_names(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Suggest the servers of the host that the command line names."""
    from mcprev.hosts.named_server import configured_servers

    host = ctx.params.get("host")
    found = configured_servers(host) if isinstance(host, str) else ()
    return _starting([each.name for each in found if each.name.isprintable()], incomplete)


def words_of(name: str) -> Any:  # noqa: ANN401 - a callback of click
    """Return what suggests the words of a command: a target, an entry of the list `name`, and its arguments."""

    def suggest(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from mcprev.cli.command_target import OneServer
        from mcprev.cli.known_names import recall

        words: tuple[str, ...] = ctx.params.get("words") or ()
        one = OneServer.of(ctx)
        if one is None and not words:
            return targets(ctx, param, incomplete)
        known = one.names(name) if one is not None else recall(words[:1], name)
        used = words if one is not None else words[1:]
        if not used:
            return _starting(known, incomplete)
        given = {word.partition("=")[0].rstrip(":") for word in used[1:]}
        return _starting([f"{each}=" for each in known.get(used[0], ()) if each not in given], incomplete)

    return suggest


_OF_GENERATOR: Final = {
    ("diff", "inputs"): revisions, ("diff", "types"): types, ("diff", "methods"): methods, ("diff", "subject"): types,
    ("generate", "revisions"): revisions, ("generate", "like"): revisions, ("unpin", "revision"): revisions,
}  # fmt: skip
"""What completes the words of the commands of the generator, which does not import this package."""


def complete_generator(name: str, command: click.Command) -> None:
    """Let the shell complete revisions, types and methods of a command of the generator."""
    for param in command.params:
        suggest = _OF_GENERATOR.get((name, param.name or ""))
        if suggest is not None:
            vars(param)["shell_complete"] = partial(_suggested, suggest, param)


def _suggested(
    suggest: Suggest, param: click.Parameter, ctx: click.Context, incomplete: str
) -> list[CompletionItem]:
    return suggest(ctx, param, incomplete)


def _starting(names: Any, incomplete: str) -> list[CompletionItem]:  # noqa: ANN401 - any iterable of texts
    """Return the names that begin with a text; a foreign one never becomes an option."""
    found = [name for name in dict.fromkeys(names) if name.startswith(incomplete)]
    return [CompletionItem(name) for name in found if not name.startswith("-")]
