"""Options that several subcommands have."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from mcprev.cli.table import clean

if TYPE_CHECKING:
    from mcprev.revisions import Revision


def revision_option(name: str) -> Revision:
    """Return the revision that `--revision` names. Raises `click.BadParameter`."""
    from mcprev.revisions import LATEST, revision_named

    try:
        return LATEST if name == "latest" else revision_named(name)
    except ValueError as error:
        raise click.BadParameter(clean(str(error)), param_hint="--revision") from None
