"""Results of a server for people: texts, structured content, files and links; what a server says is escaped."""

from __future__ import annotations

import base64
import json
from binascii import Error as NotBase64
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from mcprev.cli.exit_codes import ExitCode, Failure
from mcprev.cli.table import clean, echo, echo_lines
from mcprev.errors import Json
from mcprev.json_schema.bounds import LIST, OBJECT
from mcprev_types import Model
from mcprev_types.latest import models

if TYPE_CHECKING:
    from mcprev.client.tool_result import ToolResult

_ENDINGS: Final = {
    "image/png": ".png", "image/jpeg": ".jpg", "image/gif": ".gif", "image/webp": ".webp", "image/svg+xml": ".svg",
    "audio/wav": ".wav", "audio/mpeg": ".mp3", "audio/ogg": ".ogg", "application/pdf": ".pdf",
    "application/json": ".json", "text/plain": ".txt", "text/html": ".html", "text/markdown": ".md",
}  # fmt: skip
"""The ending of a file by its media type; any other file ends with .bin."""
MAX_TEXT: Final = 1_000_000
"""The maximum number of characters of a text that is printed."""


class Renderer:
    """Prints results, and writes their files into a folder if one is given."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._count = 0

    def tool(self, result: ToolResult) -> None:
        """Print the result of a tool: each block, and the structured content unless a text says the same."""
        same = _spelling(result.structured_content) if _has_data(result) else None
        texts = [block.text for block in result.content if isinstance(block, models.TextContent)]
        said = same is not None and _say(texts, result.structured_content)
        for block in result.content:
            if same is not None and isinstance(block, models.TextContent) and _same(block.text, same):
                said = True
                echo_lines(_pretty(result.structured_content))
                continue
            self.block(block)
        if same is not None and not said:
            echo_lines(_pretty(result.structured_content))

    def block(self, block: object) -> None:
        """Print one block of content."""
        match block:
            case models.TextContent():
                self.text(block.text)
            case models.ImageContent() | models.AudioContent():
                self.file(block.type, block.mime_type, block.data)
            case models.EmbeddedResource():
                self.resource(block.resource)
            case models.ResourceLink():
                about = f" {block.mime_type}" if block.mime_type else ""
                echo(f"[link {block.uri} {block.name}{about}; show it with `mcprev read`]")
            case _:
                echo(f"[content of an unknown type: {_dumped(block)[:200]}]")

    def resource(self, contents: object) -> None:
        """Print the contents of a resource."""
        match contents:
            case models.TextResourceContents():
                if self._folder is not None and _bare(contents.mime_type) == "text/html":
                    self._file("page", contents.mime_type, contents.text.encode(errors="replace"))
                else:
                    self.text(contents.text)
            case models.BlobResourceContents():
                self.file("blob", contents.mime_type, contents.blob)
            case _:
                echo(f"[contents of an unknown type: {_dumped(contents)[:200]}]")

    def text(self, text: str) -> None:
        """Print lines of a server; only its line ends and tabs remain."""
        shown = text[:MAX_TEXT].removesuffix("\n").replace("\r\n", "\n").replace("\t", "    ")
        echo_lines("\n".join(clean(line) for line in shown.split("\n")))
        if len(text) > MAX_TEXT:
            echo(f"[{len(text) - MAX_TEXT} more characters; --json prints all]")

    def messages(self, messages: Sequence[models.PromptMessage]) -> None:
        """Print the messages of a prompt, each after its role."""
        for message in messages:
            echo(f"{message.role}:", bold=True)
            self.block(message.content)

    def file(self, kind: str, media_type: str | None, data: str) -> None:
        """Print a line for a file of a result, and write it into the folder. Raises `Failure` if that fails."""
        try:
            content = base64.b64decode(data, validate=True)
        except (NotBase64, ValueError):
            echo(f"[{kind} {media_type or ''}: its data is not valid base64]")
            return
        self._file(kind, media_type, content)

    def _file(self, kind: str, media_type: str | None, content: bytes) -> None:
        about = f"{media_type or 'application/octet-stream'}, {len(content)} bytes"
        if self._folder is None:
            echo(f"[{kind} {about}; --out DIR writes it to a file]")
            return
        path = self._written(content, media_type)
        echo(f"[{kind} {about}: {path}]")

    def _written(self, content: bytes, media_type: str | None) -> Path:
        assert self._folder is not None
        ending = _ENDINGS.get(_bare(media_type), ".bin")
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            while True:
                self._count += 1
                path = self._folder / f"{self._count}{ending}"
                try:
                    with path.open("xb") as stream:  # never over another file
                        stream.write(content)
                except FileExistsError:
                    continue
                return path
        except OSError as error:
            raise Failure(
                f"cannot write into '{clean(str(self._folder))}': {error.strerror}; name another folder with --out",
                ExitCode.USAGE,
            ) from None


def _bare(media_type: str | None) -> str:
    return (media_type or "").partition(";")[0].strip().lower()


def _has_data(result: ToolResult) -> bool:
    return "structured_content" in result.model_fields_set


def _spelling(value: Json) -> str:
    return json.dumps(value, sort_keys=True)


def _same(text: str, spelling: str) -> bool:
    """Return whether a text says the same JSON value."""
    try:
        return _spelling(json.loads(text)) == spelling
    except (ValueError, RecursionError):
        return False


def _say(texts: Sequence[str], data: Json) -> bool:
    """Return whether texts, one or one for each item, say all of a value, which many servers send as `{"result": VALUE}`."""
    value = data["result"] if isinstance(data, OBJECT) and [*data] == ["result"] else data
    items = value if isinstance(value, LIST) else [value]
    return any(
        len(texts) == len(each) > 0
        and all(text == part or _same(text, _spelling(part)) for text, part in zip(texts, each, strict=True))
        for each in ([value], items)
    )


def _pretty(value: Json) -> str:
    return "\n".join(map(clean, json.dumps(value, indent=2, ensure_ascii=False).split("\n")))


def _dumped(block: object) -> str:
    return block.to_json().decode() if isinstance(block, Model) else repr(block)
