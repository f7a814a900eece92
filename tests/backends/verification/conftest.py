"""Model files: small ones of random weights, and real ones in other precisions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from numpy.typing import NDArray

WriteAs = Callable[[Path, Path, str], Path]
WriteSmallLlama = Callable[..., Path]


@pytest.fixture(scope="session")
def write_as() -> WriteAs:
    """Writes a GGUF file again, its matrices in another type (`F16`, `BF16`, `F32`)."""
    return _write_as


def _write_as(source: Path, target: Path, kind: str) -> Path:
    reader: Any = gguf.GGUFReader(source)
    architecture = reader.fields["general.architecture"].contents()
    writer: Any = gguf.GGUFWriter(target, architecture)
    for field in reader.fields.values():
        if field.name.startswith("GGUF.") or field.name == "general.architecture":
            continue
        value, value_type = field.contents(), field.types[0]
        if field.name == "general.file_type":
            value = gguf.LlamaFileType[f"MOSTLY_{kind}" if kind != "F32" else "ALL_F32"]
        element = field.types[-1] if value_type is gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(field.name, value, value_type, sub_type=element)
    for tensor in reader.tensors:
        _add(writer, tensor, kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return target


def _add(writer: Any, tensor: Any, kind: str) -> None:
    values = gguf.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
    if values.ndim == 1 or kind == "F32":
        writer.add_tensor(tensor.name, values)
        return
    number = gguf.GGMLQuantizationType[kind]
    data = gguf.quantize(values, number)
    writer.add_tensor(tensor.name, data, raw_dtype=number)


@pytest.fixture(scope="session")
def write_small_llama() -> WriteSmallLlama:
    """Writes a Llama of random weights, whose vocabulary is bytes and letters.

    `kind` is the type of its matrices, `seed` makes the weights, `change` may alter a tensor before
    it is written, and `context` is what it was trained for.
    """
    return _write_small_llama


_WIDTH, _HEADS, _KV_HEADS, _LAYERS, _FEED = 64, 4, 2, 2, 96


def _write_small_llama(
    path: Path,
    *,
    kind: str = "F32",
    seed: int = 1,
    context: int = 512,
    change: Callable[[str, NDArray[np.float32]], NDArray[np.float32]] = lambda _, values: values,
) -> Path:
    writer: Any = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(_LAYERS)
    writer.add_context_length(context)
    writer.add_embedding_length(_WIDTH)
    writer.add_feed_forward_length(_FEED)
    writer.add_head_count(_HEADS)
    writer.add_head_count_kv(_KV_HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(_WIDTH // _HEADS)
    tokens = _add_vocabulary(writer)
    random = np.random.default_rng(seed)
    for name, shape in _tensors(tokens).items():
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


def _tensors(tokens: int) -> dict[str, tuple[int, ...]]:
    narrow = _WIDTH // _HEADS * _KV_HEADS
    shapes: dict[str, tuple[int, ...]] = {
        "token_embd.weight": (tokens, _WIDTH),
        "output_norm.weight": (_WIDTH,),
        "output.weight": (tokens, _WIDTH),
    }
    for layer in range(_LAYERS):
        block = {
            "attn_norm": (_WIDTH,),
            "attn_q": (_WIDTH, _WIDTH),
            "attn_k": (narrow, _WIDTH),
            "attn_v": (narrow, _WIDTH),
            "attn_output": (_WIDTH, _WIDTH),
            "ffn_norm": (_WIDTH,),
            "ffn_gate": (_FEED, _WIDTH),
            "ffn_up": (_FEED, _WIDTH),
            "ffn_down": (_WIDTH, _FEED),
        }
        shapes |= {f"blk.{layer}.{name}.weight": shape for name, shape in block.items()}
    return shapes
