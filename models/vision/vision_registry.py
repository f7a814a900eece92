"""Opens the picture encoder of a model: from its own folder, or from a projector's file."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

import torch

from ..errors import InvalidModel
from ..gguf.projector import read_projector
from ..safetensors.model_folder import read_folder
from ..weights.gguf_weights import GGUFWeights
from ..weights.quantized_weights import open_folder_weights
from .gemma3_vision import Gemma3Vision
from .idefics3_vision import Idefics3Vision
from .picture_encoders import read_encoder
from .pixtral_vision import PixtralVision
from .qwen25_vision import Qwen25Vision
from .vision_config import VisionConfig, VisionFamily
from .vision_encoder import VisionEncoder
from .vision_weights import VisionWeights, hf_vision_names

_KINDS: Mapping[VisionFamily, Callable[[VisionConfig, VisionWeights], VisionEncoder]] = {
    VisionFamily.GEMMA3: Gemma3Vision,
    VisionFamily.IDEFICS3: Idefics3Vision,
    VisionFamily.PIXTRAL: PixtralVision,
    VisionFamily.QWEN25: Qwen25Vision,
}


def open_vision(
    path: Path, text_width: int, *, device: torch.device, dtype: torch.dtype
) -> tuple[VisionEncoder, int]:
    """The encoder of a folder or a projector's file, for embeddings of this width, and its bytes.

    Raises `UnsupportedModel`, and `InvalidModel` if a tensor is missing or does not fit.
    """
    config = read_encoder(path)
    if path.is_dir():
        raw = open_folder_weights(read_folder(path))
        names = hf_vision_names(raw.names)
    else:
        raw = GGUFWeights(path, read_projector(path))
        names = _gguf_names(raw, config)
    if config.text_width != text_width:
        raise InvalidModel(
            f"The picture encoder in {path.name} belongs to another model.",
            hint="Name the right one with `ingle add FILE --mmproj FILE`.",
        )
    alternates = config.family is VisionFamily.PIXTRAL and not path.is_dir()
    weights = VisionWeights(
        raw,
        names,
        device=device,
        dtype=dtype,
        interleaved=config.num_heads if alternates else 0,
        norm_offset=1.0 if config.family is VisionFamily.GEMMA3 and path.is_dir() else 0.0,
    )
    return _KINDS[config.family](config, weights), weights.bytes


def _gguf_names(raw: GGUFWeights, config: VisionConfig) -> Mapping[str, str]:
    """The names of a projector's tensors; older ones have those of the MLP the wrong way round."""
    names = {name: name for name in raw.names}
    down = "v.blk.0.ffn_down.weight"
    if down in names and raw.get(down).shape[0] == config.hidden_size:
        return names
    swapped = {"ffn_up": "ffn_down", "ffn_down": "ffn_up"}
    return {re.sub("ffn_(?:up|down)", lambda m: swapped[m[0]], name): name for name in names}
