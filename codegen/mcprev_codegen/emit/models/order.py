"""Arranges the classes of the models with datamodel-code-generator: which module each is in, and in which order."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

_TEMPLATES: Final = Path(__file__).parents[2] / "templates" / "datamodel"


def arranged(document: Mapping[str, object], places: Sequence[str]) -> dict[str, list[str]]:
    """Return the classes and aliases of each module in the order in which datamodel-code-generator writes them.

    Its templates write the place of a class, which is `module.name`, and nothing else: no text of a schema passes
    through it.
    """
    import datamodel_code_generator as dcg
    from datamodel_code_generator.enums import DataModelType
    from datamodel_code_generator.model import get_data_model_types
    from datamodel_code_generator.parser.jsonschema import JsonSchemaParser

    version = dcg.PythonVersion.PY_311
    types = get_data_model_types(
        DataModelType.PydanticV2BaseModel, target_python_version=version, use_type_alias=True
    )
    parser = JsonSchemaParser(
        json.dumps(document),
        data_model_type=types.data_model,
        data_model_root_type=types.root_model,
        data_model_field_type=types.field_model,
        data_type_manager_type=types.data_type_manager,
        target_python_version=version,
        custom_template_dir=_TEMPLATES,
        extra_template_data=defaultdict(dict, {place: {"place": place} for place in places}),
        naming_strategy=dcg.NamingStrategy.PrimaryFirst,
        use_type_alias=True,
        skip_root_model=True,
        snake_case_field=True,
    )
    found = parser.parse(with_import=False, format_=False)
    if isinstance(found, str):
        raise TypeError("names with a dot make modules")
    order: dict[str, list[str]] = {}
    for (file, *_), result in found.items():
        module = file.removesuffix(".py")
        order[module] = [place.removeprefix(f"{module}.") for place in result.body.split()]
    return order
