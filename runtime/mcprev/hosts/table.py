"""The hosts whose configurations are read and written: where each keeps its servers, and how it spells an entry."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeAlias

from mcprev.client.host_config import CONTAINERS
from mcprev.platforms import HERE

MemberPath: TypeAlias = tuple[str, ...]
"""The names of the members that lead to a value of a JSON file."""
FOLDER: Final = "{folder}"
"""The working folder, in a path of members."""
_SERVERS: Final = (("mcpServers",),)


@dataclass(frozen=True, slots=True)
class Host:
    """A program that starts MCP servers: a row of `HOSTS`."""

    name: str
    """Its name on the command line."""
    title: str
    """Its name in texts."""
    user: str
    """The file with the servers of the user; `~` is the home folder, `{settings}` that of the settings of programs."""
    project: str | None = None
    """The file with the servers of a project, below its folder; None if the host has none."""
    members: tuple[MemberPath, ...] = _SERVERS
    """Where the servers are in a file; new ones are written to the first place."""
    url: str | None = "url"
    """The member with the URL of a server; None if the host starts commands only."""
    command_members: Mapping[str, str] = field(default_factory=dict[str, str])
    """Further members of an entry with a command."""
    url_members: Mapping[str, str] = field(default_factory=dict[str, str])
    """Further members of an entry with a URL."""

    def file(self, *, project: bool = False) -> Path:
        """Return the file of the user or of the project in the working folder. Raises `ValueError` if there is none."""
        if not project:
            return Path(self.user.replace("{settings}", str(HERE.settings_folder()))).expanduser()
        if self.project is None:
            raise ValueError(f"{self.title} has no file for one project")
        return Path.cwd() / self.project

    def places(self) -> Iterator[tuple[Path, tuple[MemberPath, ...]]]:
        """Yield the files to look in, that of the project first, with the places of the servers."""
        here = tuple(tuple(part.replace(FOLDER, str(Path.cwd())) for part in path) for path in self.members)
        if self.project is not None:
            yield self.file(project=True), here
        yield self.file(), here


_TYPED: Final = ({"type": "stdio"}, {"type": "http"})
_ZED: Final = {"windows": "{settings}/Zed/settings.json"}.get(HERE.system, "~/.config/zed/settings.json")
HOSTS: Final[Mapping[str, Host]] = {
    host.name: host
    for host in (
        Host(
            "claude-code",
            "Claude Code",
            "~/.claude.json",
            ".mcp.json",
            (("mcpServers",), ("projects", FOLDER, "mcpServers")),
            "url",
            *_TYPED,
        ),
        Host("claude-desktop", "Claude Desktop", "{settings}/Claude/claude_desktop_config.json", url=None),
        Host("cursor", "Cursor", "~/.cursor/mcp.json", ".cursor/mcp.json"),
        Host(
            "gemini-cli",
            "Gemini CLI",
            "~/.gemini/settings.json",
            ".gemini/settings.json",
            _SERVERS,
            "httpUrl",
        ),
        Host("lm-studio", "LM Studio", "~/.lmstudio/mcp.json"),
        Host(
            "vscode",
            "VS Code",
            "{settings}/Code/User/mcp.json",
            ".vscode/mcp.json",
            (("servers",),),
            "url",
            *_TYPED,
        ),
        Host("windsurf", "Windsurf", "~/.codeium/windsurf/mcp_config.json", None, _SERVERS, "serverUrl"),
        Host("zed", "Zed", _ZED, ".zed/settings.json", (("context_servers",),)),
    )
}
"""The hosts by name."""
ANY_FILE: Final = tuple((name,) for name in CONTAINERS)
"""Where the servers may be in a file that a user names."""
