"""A small GGUF model of random weights, for tests and for machines that have no other.

`python -P bench/gpu/small_llama.py FILE` writes one whose shapes the GPU kernels support.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from numpy.typing import NDArray

_HEADS, _KV_HEADS = 4, 2


def write_small_llama(
    path: Path,
    *,
    kind: str = "F32",
    seed: int = 1,
    context: int = 512,
    width: int = 64,
    layers: int = 2,
    architecture: str = "llama",
    change: Callable[[str, NDArray[np.float32]], NDArray[np.float32]] = lambda _, values: values,
) -> Path:
    """Write a Llama of random weights, whose vocabulary is bytes and letters.

    `kind` is the type of its matrices, `seed` determines the weights, `change` may alter a tensor
    before it is written, and `context` is the trained context; its feed-forward width is one and a
    half times the embedding width. Of the `architecture` qwen2vl, its positions have three axes.
    """
    writer: Any = gguf.GGUFWriter(path, architecture)
    writer.add_block_count(layers)
    writer.add_context_length(context)
    writer.add_embedding_length(width)
    writer.add_feed_forward_length(width * 3 // 2)
    writer.add_head_count(_HEADS)
    writer.add_head_count_kv(_KV_HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(width // _HEADS)
    if architecture == "qwen2vl":
        third = width // _HEADS // 6
        writer.add_rope_dimension_sections([width // _HEADS // 2 - 2 * third, third, third, 0])
    tokens = _add_vocabulary(writer)
    random = np.random.default_rng(seed)
    for name, shape in _tensors(tokens, width, layers).items():
        spread = 0.1 if "norm" in name else shape[-1] ** -0.5
        values = random.normal(1.0 if "norm" in name else 0.0, spread, shape)
        if name == "token_embd.weight":
            values *= 8  # so that logits differ by more than rounding
        values = change(name, values.astype(np.float32))
        number = gguf.GGMLQuantizationType["F32" if values.ndim == 1 else kind]
        writer.add_tensor(name, gguf.quantize(values, number), raw_dtype=number)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def write_carried_llama(path: Path) -> None:
    """Write the one that a machine with a GPU gets: 5 MB, of shapes that the kernels support."""
    write_small_llama(path, kind="Q4_0", width=512, layers=4, context=1024)


def _add_vocabulary(writer: Any) -> int:
    special = ["<unk>", "<s>", "</s>"]
    byte_tokens = [f"<0x{value:02X}>" for value in range(256)]
    letters = ["\u2581", *"abcdefghijklmnopqrstuvwxyz", "\u2581t", "th", "he", "in"]
    writer.add_tokenizer_model("llama")
    writer.add_token_list(special + byte_tokens + letters)
    writer.add_token_scores([0.0] * 259 + [-float(rank) for rank in range(len(letters))])
    types = gguf.TokenType
    kinds = [types.UNKNOWN, types.CONTROL, types.CONTROL]
    writer.add_token_types(kinds + [types.BYTE] * 256 + [types.NORMAL] * len(letters))
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_add_bos_token(True)
    return 259 + len(letters)


def _tensors(tokens: int, width: int, layers: int) -> dict[str, tuple[int, ...]]:
    narrow, feed = width // _HEADS * _KV_HEADS, width * 3 // 2
    shapes: dict[str, tuple[int, ...]] = {
        "token_embd.weight": (tokens, width),
        "output_norm.weight": (width,),
        "output.weight": (tokens, width),
    }
    for layer in range(layers):
        block = {
            "attn_norm": (width,),
            "attn_q": (width, width),
            "attn_k": (narrow, width),
            "attn_v": (narrow, width),
            "attn_output": (width, width),
            "ffn_norm": (width,),
            "ffn_gate": (feed, width),
            "ffn_up": (feed, width),
            "ffn_down": (width, feed),
        }
        shapes |= {f"blk.{layer}.{name}.weight": shape for name, shape in block.items()}
    return shapes


if __name__ == "__main__":
    write_carried_llama(Path(sys.argv[1]))
