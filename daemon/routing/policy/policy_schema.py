"""The JSON Schema of `policy.toml`, for editors."""

from __future__ import annotations

from typing import Any

import msgspec

from .policy_tables import PolicyTable
from .sensitivity_classes import DEFAULT_CLASSES


def policy_schema() -> dict[str, Any]:
    """Return a schema that is valid for a policy exactly if its keys and values are (draft
    2020-12).
    """
    schema = msgspec.json.schema(PolicyTable)
    kinds = sorted(DEFAULT_CLASSES)
    for definition in schema["$defs"].values():
        if definition.get("type") != "object":
            continue
        definition["additionalProperties"] = False
        if "classes" in definition["properties"]:
            definition["properties"]["classes"]["propertyNames"] = {"enum": kinds}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
