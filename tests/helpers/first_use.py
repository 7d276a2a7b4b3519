"""What pydantic refuses, or warns of, when each type of a generated package is first used."""

from __future__ import annotations

import warnings
from types import ModuleType
from typing import Any, cast

from pydantic import BaseModel, TypeAdapter


def problems(models: ModuleType) -> list[str]:
    """Build the schema of each model and alias, and its JSON Schema; what failed or warned, by name."""
    found: list[str] = []
    for name in models.__all__:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                _build(getattr(models, name))
            except Exception as error:  # noqa: BLE001 - whatever a user would see
                found.append(f"{name}: {type(error).__name__}: {error}")
        found += [f"{name}: {one.category.__name__}: {one.message}" for one in caught]
    return found


def _build(type_: Any) -> None:
    if isinstance(type_, type) and issubclass(model := cast("Any", type_), BaseModel):
        model.model_rebuild(raise_errors=True)
        assert model.__pydantic_complete__
        return
    TypeAdapter[Any](cast("Any", type_))
