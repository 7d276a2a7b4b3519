"""Structured output, with mcprev."""

from dataclasses import dataclass

import mcprev

app = mcprev.App("demo", "1.0")


@dataclass
class Weather:
    city: str
    degrees: float


@app.tool
def weather(city: str) -> Weather:
    return Weather(city, 21.5)


app.run_stdio()
