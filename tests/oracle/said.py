"""What a generated package says of a value: its model and its JSON Schema."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from helpers.support import complaints, same, validator
from mcprev_codegen.build import packages as pipeline
from mcprev_codegen.inputs import SchemaFolder


class Package:
    """The package of a file, generated and imported."""

    def __init__(self, inputs: SchemaFolder, path: Path, folder: Path, name: str) -> None:
        pipeline.generate_project(inputs, path, folder / name, "1.0", overlay=False)
        sys.path.insert(0, str(folder / name))
        self.models = import_module(f"{name}.latest")
        sys.path.remove(str(folder / name))
        text = (folder / name / name / "v1_0" / "schema.json").read_text(encoding="utf-8")
        self._definitions: Any = json.loads(text)["$defs"]
        self._known: dict[str, tuple[TypeAdapter[Any], Any]] = {}

    def has(self, name: str) -> bool:
        """Whether it has a type: what describes no data is left out."""
        return name in self._definitions and hasattr(self.models, name)

    def says(self, name: str, value: Any) -> tuple[str, str]:
        """What the model and the JSON Schema say of a value of a type: `1`, `0`, or of the model that it `changed`."""
        if name not in self._known:
            type_: Any = getattr(self.models, name)
            config = None if isinstance(type_, type(BaseModel)) else ConfigDict(strict=True)
            self._known[name] = TypeAdapter[Any](type_, config=config), validator(self._definitions, name)
        adapter, judge = self._known[name]
        dump: Callable[..., Any] = adapter.dump_python
        try:
            kept = dump(adapter.validate_python(value), mode="json", exclude_unset=True)
            taken = "1" if same(kept, value) else "changed"
        except ValidationError:
            taken = "0"
        return taken, "01"[not complaints(judge, value)]
