"""GGUF models of any shape whose weights are zero: a sparse file, for measurements of memory.

`python -P bench/zero_model.py SHAPE FILE` writes one, for example of `llama-8b`.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gguf
import numpy as np

_F32 = gguf.GGMLQuantizationType.F32


@dataclass(frozen=True)
class ZeroShape:
    """The shape of a Llama; with `experts`, of which a token uses `used`."""

    layers: int
    width: int
    feed: int
    heads: int
    kv_heads: int
    vocabulary: int
    kind: str = "Q4_K"
    head_size: int = 128
    tied: bool = False
    experts: int = 0
    used: int = 0


SHAPES = {
    "llama-3b": ZeroShape(28, 3072, 8192, 24, 8, 128_256, tied=True),
    "llama-8b": ZeroShape(32, 4096, 14_336, 32, 8, 128_256),
    "llama-8b-q8": ZeroShape(32, 4096, 14_336, 32, 8, 128_256, "Q8_0"),
    "llama-12b": ZeroShape(40, 5120, 14_336, 32, 8, 131_072),
    "experts-7b": ZeroShape(16, 2048, 1024, 16, 16, 50_304, experts=64, used=8),
}


def write_zero_model(path: Path, shape: ZeroShape, *, context: int = 8192) -> Path:
    """Write the model; only its header and its norms take space on the disk."""
    writer: Any = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(shape.layers)
    writer.add_context_length(context)
    writer.add_embedding_length(shape.width)
    writer.add_feed_forward_length(shape.feed)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(shape.kv_heads)
    writer.add_key_length(shape.head_size)
    writer.add_value_length(shape.head_size)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(shape.head_size)
    if shape.experts:
        writer.add_expert_count(shape.experts)
        writer.add_expert_used_count(shape.used)
    special = ["<unk>", "<s>", "</s>", *(f"<0x{value:02X}>" for value in range(256))]
    words = [f"\u2581w{number}" for number in range(shape.vocabulary - len(special))]
    writer.add_tokenizer_model("llama")
    writer.add_token_list(special + words)
    writer.add_token_scores([0.0] * shape.vocabulary)
    kinds = gguf.TokenType
    types = [kinds.UNKNOWN, kinds.CONTROL, kinds.CONTROL] + [kinds.BYTE] * 256
    writer.add_token_types(types + [kinds.NORMAL] * len(words))
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    kind = gguf.GGMLQuantizationType[shape.kind]
    block, block_bytes = gguf.GGML_QUANT_SIZES[kind]
    for name, sizes in _tensors(shape).items():
        if len(sizes) == 1 or "ffn_gate_inp" in name:
            size = int(np.prod(sizes)) * 4
            writer.add_tensor_info(name, sizes, np.dtype(np.float32), size, raw_dtype=_F32)
            continue
        rows, row_bytes = sizes[:-1], sizes[-1] // block * block_bytes
        raw = (*rows, row_bytes)
        size = int(np.prod(raw))
        writer.add_tensor_info(name, raw, np.dtype(np.uint8), size, raw_dtype=kind)
    end = sum(-(-info.nbytes // 32) * 32 for part in writer.tensors for info in part.values())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    file = writer.fout[0]
    start = -(-file.tell() // 32) * 32
    file.truncate(start + end)
    writer.close()
    return path


def _tensors(shape: ZeroShape) -> dict[str, tuple[int, ...]]:
    width, queries, narrow = (
        shape.width,
        *(heads * shape.head_size for heads in (shape.heads, shape.kv_heads)),
    )
    stacked = (shape.experts,) if shape.experts else ()
    infix = "_exps" if shape.experts else ""
    found: dict[str, tuple[int, ...]] = {
        "token_embd.weight": (shape.vocabulary, width),
        "output_norm.weight": (width,),
    }
    if not shape.tied:
        found["output.weight"] = (shape.vocabulary, width)
    for layer in range(shape.layers):
        found |= {
            f"blk.{layer}.{name}.weight": sizes
            for name, sizes in {
                "attn_norm": (width,),
                "attn_q": (queries, width),
                "attn_k": (narrow, width),
                "attn_v": (narrow, width),
                "attn_output": (width, queries),
                "ffn_norm": (width,),
                f"ffn_gate{infix}": (*stacked, shape.feed, width),
                f"ffn_up{infix}": (*stacked, shape.feed, width),
                f"ffn_down{infix}": (*stacked, width, shape.feed),
                **({"ffn_gate_inp": (shape.experts, width)} if shape.experts else {}),
            }.items()
        }
    return found


if __name__ == "__main__":
    write_zero_model(Path(sys.argv[2]), SHAPES[sys.argv[1]])
