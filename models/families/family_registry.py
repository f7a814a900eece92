"""The model families that ingle's own engine runs, found by GGUF name or by HF model type."""

from __future__ import annotations

from collections.abc import Mapping

from ..errors import UnsupportedModel
from . import (
    ernie4_5,
    gemma2,
    gemma3,
    gemma3n,
    gemma4,
    glm4,
    granite,
    hunyuan,
    llama,
    mistral3,
    olmo2,
    phi3,
    qwen2,
    qwen3,
    seed_oss,
    smollm3,
)
from .family import Family, HFModelType
from .hybrids import granitehybrid, lfm2, lfm2moe, nemotron_h, qwen3next, qwen35, qwen35moe
from .mixtures import deepseek2, glm4moe, gpt_oss, granitemoe, mistral4, olmoe, qwen2moe, qwen3moe

_FAMILIES = (
    *(
        deepseek2.FAMILY,
        ernie4_5.FAMILY,
        gemma2.FAMILY,
        gemma3.FAMILY,
        gemma3n.FAMILY,
        gemma4.FAMILY,
        glm4.FAMILY,
        glm4moe.FAMILY,
    ),
    *(
        gpt_oss.FAMILY,
        granite.FAMILY,
        granitemoe.FAMILY,
        hunyuan.FAMILY,
        llama.FAMILY,
        mistral3.FAMILY,
        mistral4.FAMILY,
    ),
    *(olmo2.FAMILY, olmoe.FAMILY, phi3.FAMILY, qwen2.FAMILY, qwen2moe.FAMILY),
    *(
        granitehybrid.FAMILY,
        lfm2.FAMILY,
        lfm2moe.FAMILY,
        nemotron_h.FAMILY,
        qwen3next.FAMILY,
        qwen35.FAMILY,
        qwen35moe.FAMILY,
    ),
    *(qwen3.FAMILY, qwen3moe.FAMILY, seed_oss.FAMILY, smollm3.FAMILY),
)
FAMILIES: Mapping[str, Family] = {
    name: family for family in _FAMILIES for name in (family.name, *family.other_names)
}
"""Each family by its names in GGUF files."""
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
