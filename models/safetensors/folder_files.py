"""The files of a folder of safetensors that belong to the model."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import cast

CONFIG = "config.json"
TOKENIZER = "tokenizer.json"
# Nothing of these can run code, and nothing else is fetched.
BESIDE = frozenset(
    {
        *(CONFIG, TOKENIZER, "generation_config.json", "tokenizer_config.json"),
        *("special_tokens_map.json", "added_tokens.json", "chat_template.json"),
        *("chat_template.jinja", "vocab.json", "merges.txt", "tokenizer.model"),
        *("model.safetensors.index.json", "quantize_config.json", "quant_config.json"),
        *("hf_quant_config.json", "preprocessor_config.json", "processor_config.json"),
    }
)
MEDUSA_WEIGHTS = "medusa_lm_head.safetensors"
"""The file of Medusa heads."""
# GPTQ's tools name the bits and the size of groups.
_WEIGHTS = re.compile(
    r"(?:model|gptq_model-\d{1,2}bit-(?:-1|\d{1,4})g)(?:-\d{5}-of-\d{5})?\.safetensors"
)


def is_weights(name: str) -> bool:
    """Whether a file has weights: all of them, or a part."""
    return _WEIGHTS.fullmatch(name) is not None


def belongs_to_model(name: str) -> bool:
    """Whether a file is the model's or describes it."""
    return name in BESIDE or name == MEDUSA_WEIGHTS or is_weights(name)


def is_medusa_head(settings: Mapping[str, object]) -> bool:
    """Whether a `config.json` is that of Medusa heads."""
    return "medusa_num_heads" in settings


def is_eagle_head(settings: Mapping[str, object]) -> bool:
    """Whether a `config.json` is that of an EAGLE-3 head."""
    names = settings.get("architectures")
    listed = cast("list[object]", names) if isinstance(names, list) else []
    return any(isinstance(name, str) and "eagle3" in name.lower() for name in listed)
