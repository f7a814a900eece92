"""A model that embeds text and writes none."""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np
import pytest

from ingle.backends.base import EngineKind, LoadSpec
from ingle.backends.errors import LoadFailed
from ingle.backends.llama_cpp.model_runner import LlamaModelRunner

WIDTH, WIDER, CONTEXT = 32, 64, 64
TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefgh"]


@pytest.fixture
def bert(tmp_path: Path) -> Path:
    """The smallest BERT that llama.cpp loads."""
    path = tmp_path / "bert.gguf"
    writer = gguf.GGUFWriter(path, "bert")
    writer.add_block_count(1)
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(WIDER)
    writer.add_head_count(2)
    writer.add_layer_norm_eps(1e-5)
    writer.add_causal_attention(False)
    writer.add_token_type_count(2)
    writer.add_tokenizer_model("bert")
    writer.add_token_list(TOKENS)
    writer.add_token_types([3 if token.startswith("[") else 1 for token in TOKENS])
    writer.add_bos_token_id(2)
    writer.add_eos_token_id(3)
    for name, *shape in _tensors():
        writer.add_tensor(name, np.zeros(shape, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _tensors() -> list[tuple[str, *tuple[int, ...]]]:
    linear = {
        **{f"blk.0.attn_{name}": (WIDTH, WIDTH) for name in ("q", "k", "v", "output")},
        "blk.0.ffn_up": (WIDER, WIDTH),
        "blk.0.ffn_down": (WIDTH, WIDER),
    }
    norms = ("token_embd_norm", "blk.0.attn_output_norm", "blk.0.layer_output_norm")
    return [
        ("token_embd.weight", len(TOKENS), WIDTH),
        ("position_embd.weight", CONTEXT, WIDTH),
        ("token_types.weight", 2, WIDTH),
        *((f"{name}.{part}", WIDTH) for name in norms for part in ("weight", "bias")),
        *((f"{name}.weight", *shape) for name, shape in linear.items()),
        *((f"{name}.bias", shape[0]) for name, shape in linear.items()),
    ]


def test_an_encoder_is_refused_with_a_sentence(bert: Path) -> None:
    spec = LoadSpec(engine=EngineKind.LLAMA_CPP, path=str(bert), context=CONTEXT)
    with pytest.raises(LoadFailed, match=r"bert\.gguf .* does not write text"):
        LlamaModelRunner(spec)
