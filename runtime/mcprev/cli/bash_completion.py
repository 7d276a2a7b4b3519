"""The completion of bash: each suggestion is quoted, since bash puts it into the command line as it is.

The names of servers, tools and arguments are foreign: `$(command)` must stay a name when the line is run. zsh and fish
quote what they insert.
"""

from __future__ import annotations

import os
import re
import shlex
from typing import Any, Final

from click.shell_completion import BashComplete, CompletionItem, add_completion_class
from typing_extensions import override

_SOURCE: Final = """\
%(complete_func)s() {
    local IFS=$'\\n' response type value
    response=$(env COMP_WORDS="${COMP_WORDS[*]}" COMP_CWORD=$COMP_CWORD %(complete_var)s=bash_complete "$1")
    COMPREPLY=()
    while IFS=',' read -r type value; do
        case $type in
            dir) compopt -o dirnames ;;
            file) compopt -o default ;;
            plain) COMPREPLY+=("$value") ;;
        esac
    done <<< "$response"
}

complete -o nosort -F %(complete_func)s %(prog_name)s
"""
_PLAIN: Final = re.compile(r"[\w@%+=:,./-]*", re.ASCII)
"""Text that means itself in bash."""


class QuotingBash(BashComplete):
    """Suggests words for bash."""

    source_template = _SOURCE

    @override
    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem[Any]]:
        """Return the suggestions; only plain ones after a quote, which would end the quote of the suggestion."""
        found = super().get_completions(args, incomplete)
        if _PLAIN.fullmatch(_word_as_typed()):
            return found
        return [each for each in found if each.type != "plain" or _PLAIN.fullmatch(each.value)]

    @override
    def format_completion(self, item: CompletionItem[Any]) -> str:
        """Return the line of a suggestion."""
        return f"{item.type},{shlex.quote(item.value) if item.type == 'plain' else item.value}"


def _word_as_typed() -> str:
    """Return the word that is completed, with its quotes; a quote if it cannot be told from the others."""
    words, at = os.environ.get("COMP_WORDS", "").split("\n"), os.environ.get("COMP_CWORD", "")
    return words[int(at)] if at.isdecimal() and int(at) == len(words) - 1 else "'"


add_completion_class(QuotingBash)
