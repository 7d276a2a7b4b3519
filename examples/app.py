"""A server made of functions: `python examples/app.py`, or `mcprev serve examples/app.py:app --http 8000`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

import mcprev

app = mcprev.App("weather", "1.0", instructions="Tells how the weather will be.")
CITIES = {"Oslo": -4.0, "Lima": 19.5, "Cairo": 28.0}


@dataclass
class Forecast:
    """How warm it will be on each day."""

    city: str
    celsius: list[float]


@app.tool
async def forecast(
    city: Annotated[str, Field(description="A city, as `weather://cities` has it")],
    days: Annotated[int, Field(ge=1, le=7)] = 3,
    *,
    ctx: mcprev.Context,
) -> Forecast:
    """Forecasts how warm it will be."""
    if city not in CITIES:
        raise mcprev.ToolError(f"nothing is known of {city}; there are {', '.join(CITIES)}")
    await ctx.log("info", f"forecasting for a client that speaks {ctx.revision}")
    return Forecast(city, [CITIES[city] + day / 2 for day in range(days)])


@app.resource("weather://cities")
def cities() -> list[str]:
    """The cities that there are forecasts for."""
    return sorted(CITIES)


@app.resource("weather://cities/{city}")
def now(city: str) -> str | None:
    """The weather in a city."""
    return f"{CITIES[city]} °C" if city in CITIES else None


@app.prompt
def advise(city: str) -> str:
    """Asks what to wear."""
    return f"Look up the forecast for {city} and tell me what to wear."


@app.completion("advise", "city")
def known(value: str) -> list[str]:
    """The cities that begin with what was typed."""
    return [city for city in sorted(CITIES) if city.casefold().startswith(value.casefold())]


if __name__ == "__main__":
    app.run_stdio()
