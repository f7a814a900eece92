"""Phi-3, 3.5 and 4: Llama with LongRoPE, partial rotation and fused projections."""

from __future__ import annotations

from ..config.config_fields import ConfigFields
from ..config.model_config import ModelConfig
from ..config.sliding_window import hf_window, with_window
from .family import Family, HFModelType
from .llama import read_gguf


def _read_hf(fields: ConfigFields, config: ModelConfig) -> ModelConfig:
    return with_window(config, hf_window(fields))


FAMILY = Family(
    name="phi3",
    read_gguf=read_gguf,
    gguf_fuses_attention=True,
    gguf_fuses_gate=True,
    hf_types=(HFModelType(name="phi3", read=_read_hf, context=4096, epsilon=1e-5),),
)
