"""The model families that ingle's own engine runs, found by GGUF name or by HF model type."""

from __future__ import annotations

from collections.abc import Mapping

from ..errors import UnsupportedModel
from . import gemma2, gemma3, granite, llama, olmo2, phi3, qwen2, qwen3, smollm3
from .family import Family, HFModelType

_FAMILIES = (
    *(gemma2.FAMILY, gemma3.FAMILY, granite.FAMILY, llama.FAMILY, olmo2.FAMILY),
    *(phi3.FAMILY, qwen2.FAMILY, qwen3.FAMILY, smollm3.FAMILY),
)
FAMILIES: Mapping[str, Family] = {family.name: family for family in _FAMILIES}
"""Each family by its GGUF name."""
HF_MODEL_TYPES: Mapping[str, tuple[Family, HFModelType]] = {
    kind.name: (family, kind) for family in _FAMILIES for kind in family.hf_types
}
"""The family of each `model_type` of config.json."""


def find_family(name: str) -> Family:
    """The family with the GGUF name `name`; raises `UnsupportedModel` if there is none."""
    family = FAMILIES.get(name)
    if family is None:
        raise UnsupportedModel(
            f"ingle's own engine does not know the architecture {name!r}.",
            hint="Let llama.cpp run it.",
        )
    return family
