"""A server to be looked at: `mcprev dev tests/browser/harbour.py:app`. Each tool shows one thing that the page draws."""

from __future__ import annotations

import asyncio
import math
import struct
import zlib
from typing import Annotated, Literal

from pydantic import BaseModel, Field

import mcprev
from mcprev_types.latest import models

app = mcprev.App("harbour", "1.4.0", instructions="Ask for a **forecast** before you `sail`.")
SEAS = {"Rome": 21.0, "Oslo": 4.5, "Lima": 19.0}


class Forecast(BaseModel):
    """How warm it will be."""

    city: str
    celsius: list[float]
    calm: bool


class Train(BaseModel):
    kind: Literal["train"]
    seat: Literal["aisle", "window"]


class Ship(BaseModel):
    kind: Literal["ship"]
    name: str
    knots: Annotated[float, Field(ge=0, le=40)] = 12.0


class Stop(BaseModel):
    place: str
    hours: Annotated[int, Field(ge=1, le=48)] = 6


class Crew(BaseModel):
    sailors: Annotated[int, Field(ge=1, le=12, description="How many come aboard")]
    cook: bool = True
    watch: Literal["first", "middle", "morning"] = "first"


@app.tool(annotations=models.ToolAnnotations(read_only_hint=True, open_world_hint=True))
async def forecast(
    city: Annotated[str, Field(description="A city at the sea")],
    days: Annotated[int, Field(ge=1, le=7, description="How many days")] = 3,
    *,
    ctx: mcprev.Context,
) -> Forecast:
    """Forecasts the **temperature** of the sea at a city, from [the office](https://weather.example/sea)."""
    if city not in SEAS:
        raise mcprev.ToolError(f"Nothing is known of {city}; there are {', '.join(SEAS)}.")
    for day in range(days):
        await ctx.progress(day + 1, total=days, message=f"day {day + 1}")
        await asyncio.sleep(0.012)
    await ctx.log("info", f"forecast for {city} over {days} days")
    return Forecast(city=city, celsius=[SEAS[city] + day / 2 for day in range(days)], calm=city != "Oslo")


@app.tool
async def sail(ship: Annotated[str, Field(description="Name of the ship")], ctx: mcprev.Context) -> str:
    """Sets sail; asks for the crew first."""
    answer = await ctx.elicit(f"Who sails on the *{ship}*?", Crew)
    await asyncio.sleep(0.02)
    if not isinstance(answer, mcprev.Accepted):
        return "She stays in the harbour."
    return f"The {ship} sails with {answer.data.sailors} sailors."


@app.tool
def voyage(
    name: str,
    way: Train | Ship,
    stops: list[Stop] | None = None,
    tags: list[Literal["slow", "cheap", "scenic"]] | None = None,
) -> list[str]:
    """Plans a voyage with stops."""
    return [name, way.kind, *(stop.place for stop in stops or []), *(tags or [])]


@app.tool
def chart(city: str = "Rome") -> list[str | mcprev.Image | mcprev.Audio | models.ResourceLink]:
    """Draws the sea at a city, sounds its horn, and links to its notes."""
    del city
    return [
        mcprev.Image(picture(320, 120), "image/png"),
        mcprev.Audio(horn(), "audio/wav"),
        "## The sea\n\n| day | °C |\n|---|---:|\n| Monday | 21.0 |\n| Tuesday | 21.5 |\n",
        models.ResourceLink(
            uri="note://rome", name="Notes on Rome", icons=[models.Icon(src="https://weather.example/i.png")]
        ),
    ]


@app.tool
def storm() -> str:
    """Always fails."""
    raise mcprev.ToolError("The harbour is closed.")


@app.resource("note://rome", mime_type="text/markdown")
def rome() -> str:
    """Notes on Rome."""
    return "# Rome\n\nThe sea is **calm**.\n\n- lighthouse\n- fish market\n"


@app.resource("note://{city}/{day}", mime_type="text/plain")
def note(city: str, day: str) -> str:
    """A note on one day in a city."""
    return f"Nothing happened in {city} on {day}."


@app.prompt
def review(topic: str, tone: str = "plain") -> str:
    """Asks for a review."""
    return f"Review {topic} in a {tone} tone."


@app.completion("review", "tone")
def tones(value: str) -> list[str]:
    return [tone for tone in ("plain", "poetic", "stern") if tone.startswith(value)]


def picture(width: int, height: int) -> bytes:
    """Waves, as PNG."""
    rows = bytearray()
    for y in range(height):
        rows.append(0)
        for x in range(width):
            deep = sum(math.sin(x / (9 + 7 * wave) + wave * 2) * (3 + wave) for wave in range(3))
            shade = max(0, min(255, int(70 + (y - height / 2 - deep) * 2.2)))
            rows += bytes(
                (36 + shade // 8, 86 + shade // 3, 120 + shade // 3)
                if y > height / 2 + deep
                else (236, 228 - y // 3, 214 - y // 2)
            )
    chunks = [
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)),
        (b"IDAT", zlib.compress(bytes(rows), 9)),
        (b"IEND", b""),
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in chunks
    )


def horn() -> bytes:
    """Half a second of a low tone, as WAV."""
    samples = b"".join(
        struct.pack("<h", int(9000 * math.sin(each * 0.09) * (1 - each / 4000))) for each in range(4000)
    )
    return (
        b"RIFF"
        + struct.pack("<I", 36 + len(samples))
        + b"WAVEfmt "
        + struct.pack("<IHHIIHH", 16, 1, 1, 8000, 16000, 2, 16)
        + b"data"
        + struct.pack("<I", len(samples))
        + samples
    )
