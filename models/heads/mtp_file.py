"""GGUF files that hold nothing of a model but its MTP head, as llama.cpp's converter writes them.

Source: llama.cpp's conversion/qwen.py and src/models/qwen35moe.cpp: `mtp-*.gguf` has the header of
its model, the layers behind the last one, and copies of embeddings and output.
"""

from __future__ import annotations

from pathlib import Path

from ..config.model_config import ModelConfig
from ..errors import ModelError, UnsupportedModel
from ..families.gguf_config import config_from_gguf
from ..gguf.gguf_header import GGUFHeader, read_header
from ..gguf.gguf_support import holds_only_head


def is_mtp_file(path: Path) -> bool:
    """Whether it is a GGUF file that holds nothing but a head; reads its header."""
    if path.suffix.lower() != ".gguf" or not path.is_file():
        return False
    try:
        return holds_only_head(read_header(path))
    except ModelError:
        return False


def read_mtp_file(path: Path, target: ModelConfig) -> GGUFHeader:
    """The header of a head's file; raises `ModelError` unless it is of a model of this shape."""
    header = read_header(path)
    if not holds_only_head(header) or _shape(config_from_gguf(header)) != _shape(target):
        raise UnsupportedModel(
            f"{path.name} holds the head of another model.",
            hint="Choose the head that was trained for this model.",
        )
    return header


def _shape(config: ModelConfig) -> tuple[object, ...]:
    last = next(i for i in reversed(range(config.num_layers)) if config.layers[i].has_attention)
    experts = config.layers[last].experts
    return (
        config.architecture,
        config.num_layers,
        config.hidden_size,
        config.vocab_size,
        config.num_heads,
        config.kv_heads_of(last),
        None if experts is None else (experts.count, experts.width),
    )
