"""A small projector of random weights: what turns pictures into tokens of a model."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import gguf
import numpy as np

PICTURE_TOKENS = 16
"""Tokens of a picture by the projector of kind gemma3, whatever its size."""

_WIDTH, _FEED, _PATCH, _SIDE = 32, 64, 4, 64
_POOL = 4
"""Sides of a token of gemma3, in patches."""


def write_small_projector(
    path: Path,
    kind: Literal["gemma3", "qwen2vl_merger", "idefics3"],
    *,
    width: int = 64,
    seed: int = 1,
) -> Path:
    """Write a projector for a text model whose embeddings have `width` numbers.

    Pictures of `gemma3` have no order among their tokens (non-causal attention), those of
    `qwen2vl_merger` as many tokens as their size demands, on two axes (M-RoPE), and `idefics3` cuts
    them into tiles, with text between.
    """
    writer: Any = gguf.GGUFWriter(path, "clip")
    writer.add_bool("clip.has_vision_encoder", True)
    writer.add_string("clip.projector_type", kind)
    writer.add_uint32("clip.vision.image_size", _SIDE)
    writer.add_uint32("clip.vision.patch_size", _PATCH)
    writer.add_uint32("clip.vision.embedding_length", _WIDTH)
    writer.add_uint32("clip.vision.feed_forward_length", _FEED)
    writer.add_uint32("clip.vision.projection_dim", width)
    writer.add_uint32("clip.vision.block_count", 1)
    writer.add_uint32("clip.vision.attention.head_count", 2)
    writer.add_float32("clip.vision.attention.layer_norm_epsilon", 1e-6)
    writer.add_array("clip.vision.image_mean", [0.5, 0.5, 0.5])
    writer.add_array("clip.vision.image_std", [0.5, 0.5, 0.5])
    writer.add_bool("clip.use_gelu", True)
    if kind == "idefics3":
        writer.add_uint32("clip.vision.projector.scale_factor", _POOL)
        writer.add_uint32("clip.vision.preproc_image_size", 2 * _SIDE)
    random = np.random.default_rng(seed)
    shapes = _encoder() | _PROJECTIONS[kind](width)
    for name, shape in shapes.items():
        scale = 1.0 if "ln" in name or "norm" in name else 0.0
        values = random.normal(scale, 0.1 if scale else shape[-1] ** -0.5, shape)
        writer.add_tensor(name, values.astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _encoder() -> dict[str, tuple[int, ...]]:
    shapes: dict[str, tuple[int, ...]] = {
        "v.patch_embd.weight": (_WIDTH, 3, _PATCH, _PATCH),
        "v.post_ln.weight": (_WIDTH,),
        "v.post_ln.bias": (_WIDTH,),
    }
    block = {
        **{f"{name}.weight": (_WIDTH, _WIDTH) for name in ("attn_q", "attn_k", "attn_v")},
        **{f"{name}.bias": (_WIDTH,) for name in ("attn_q", "attn_k", "attn_v", "attn_out")},
        **{f"{name}.{part}": (_WIDTH,) for name in ("ln1", "ln2") for part in ("weight", "bias")},
        "attn_out.weight": (_WIDTH, _WIDTH),
        "ffn_up.weight": (_FEED, _WIDTH),
        "ffn_up.bias": (_FEED,),
        "ffn_down.weight": (_WIDTH, _FEED),
        "ffn_down.bias": (_WIDTH,),
    }
    return shapes | {f"v.blk.0.{name}": shape for name, shape in block.items()}


def _gemma3(width: int) -> dict[str, tuple[int, ...]]:
    return {
        "v.patch_embd.bias": (_WIDTH,),
        "v.position_embd.weight": ((_SIDE // _PATCH) ** 2, _WIDTH),
        "mm.input_projection.weight": (_WIDTH, width),
        "mm.soft_emb_norm.weight": (_WIDTH,),
    }


def _qwen2vl(width: int) -> dict[str, tuple[int, ...]]:
    merged = _WIDTH * 4
    return {
        "v.patch_embd.weight.1": (_WIDTH, 3, _PATCH, _PATCH),
        "mm.0.weight": (merged, merged),
        "mm.0.bias": (merged,),
        "mm.2.weight": (width, merged),
        "mm.2.bias": (width,),
    }


def _idefics3(width: int) -> dict[str, tuple[int, ...]]:
    return {
        "v.patch_embd.bias": (_WIDTH,),
        "v.position_embd.weight": ((_SIDE // _PATCH) ** 2, _WIDTH),
        "mm.model.fc.weight": (width, _WIDTH * _POOL**2),
    }


_PROJECTIONS = {"gemma3": _gemma3, "qwen2vl_merger": _qwen2vl, "idefics3": _idefics3}
