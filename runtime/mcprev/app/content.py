"""Content made of files and bytes: images, audio and other files for results, prompts and messages.

Each is a content block of the latest revision and can be used wherever a content block can, also in a list with text.
"""

from __future__ import annotations

import base64
import mimetypes
from contextlib import suppress
from os import PathLike
from pathlib import Path
from typing import TypeAlias
from urllib.parse import quote

from mcprev_types.latest import models

Source: TypeAlias = "str | PathLike[str] | bytes"
"""The path of a file, which is read by the constructor, or bytes."""


class Image(models.ImageContent):
    """An image as a content block: `Image("chart.png")`, or `Image(data, "image/png")` for bytes."""

    def __init__(self, source: Source, mime_type: str | None = None) -> None:
        """Read the file at the path `source`, or take the bytes.

        `mime_type` is required for bytes. None: the type that the suffix of the file name implies. Raises `OSError`
        if the file cannot be read, and `ValueError` if the type is unknown or does not begin with `image/`.
        """
        data, known = _read(source, mime_type, "image")
        super().__init__(data=base64.b64encode(data).decode(), mime_type=known)


class Audio(models.AudioContent):
    """Audio as a content block: `Audio("hello.mp3")`, or `Audio(data, "audio/wav")` for bytes."""

    def __init__(self, source: Source, mime_type: str | None = None) -> None:
        """Read the file at the path `source`, or take the bytes.

        `mime_type` is required for bytes. None: the type that the suffix of the file name implies. Raises `OSError`
        if the file cannot be read, and `ValueError` if the type is unknown or does not begin with `audio/`.
        """
        data, known = _read(source, mime_type, "audio")
        super().__init__(data=base64.b64encode(data).decode(), mime_type=known)


class File(models.EmbeddedResource):
    """A file of any type as an embedded resource: `File("report.pdf")`.

    For bytes: `File(data, "application/pdf", name="report.pdf")`. Clients see the name of the file, not its folder.
    UTF-8 files with a type that begins with `text/` are sent as text, any others as base64.
    """

    def __init__(self, source: Source, mime_type: str | None = None, *, name: str | None = None) -> None:
        """Read the file at the path `source`, or take the bytes.

        `mime_type` is required for bytes. None: the type that the suffix of the file name implies. `name` is the
        name that clients see. None: the name of the file, or `file` with a suffix for bytes. Raises `OSError` if the
        file cannot be read, and `ValueError` if the type is unknown.
        """
        data, known = _read(source, mime_type, "")
        if name is None:
            name = (
                f"file{mimetypes.guess_extension(known) or ''}"
                if isinstance(source, bytes)
                else Path(source).name
            )
        uri = f"file:///{quote(name)}"
        blob = base64.b64encode(data).decode()
        contents: models.TextResourceContents | models.BlobResourceContents
        contents = models.BlobResourceContents(uri=uri, mime_type=known, blob=blob)
        if known.startswith("text/"):
            with suppress(UnicodeError):
                contents = models.TextResourceContents(uri=uri, mime_type=known, text=data.decode())
        super().__init__(resource=contents)


def _read(source: Source, mime_type: str | None, kind: str) -> tuple[bytes, str]:
    """Return the bytes of a source and their MIME type."""
    if isinstance(source, bytes):
        data, place, known = source, "these bytes", mime_type
    else:
        path = Path(source)
        guessed, packed = mimetypes.guess_type(path.name)  # of the content, and how it is compressed
        if packed is not None:
            guessed = "application/gzip" if packed == "gzip" else f"application/x-{packed}"
        place, known = f"'{path.name}'", mime_type or guessed
        data = path.read_bytes()
    if known is None:
        raise ValueError(
            f"the MIME type of {place} is not known; pass mime_type, such as '{kind or 'text'}/...'"
        )
    if kind and not known.startswith(f"{kind}/"):
        raise ValueError(f"{place}: '{known}' is not of type {kind}; pass another mime_type, or use File")
    return data, known
