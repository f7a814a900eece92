from __future__ import annotations

import re
from pathlib import Path

import gguf
import numpy as np
import pytest

from ingle.backends.base.errors import LoadFailed
from ingle.backends.llama_cpp.llama_model import LlamaModel, experts_pattern
from ingle.backends.llama_cpp.native_log import NativeLog

BLOCKS, EXPERTS, WIDTH, INSIDE, VOCAB = 2, 4, 64, 32, 32


@pytest.fixture
def mixture(tmp_path: Path) -> Path:
    """Return the path of a tiny mixture of experts."""
    writer = gguf.GGUFWriter(tmp_path / "mixture.gguf", "qwen3moe")
    writer.add_block_count(BLOCKS)
    writer.add_context_length(256)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(INSIDE)
    writer.add_expert_feed_forward_length(INSIDE)
    writer.add_expert_count(EXPERTS)
    writer.add_expert_used_count(2)
    writer.add_head_count(2)
    writer.add_head_count_kv(1)
    writer.add_key_length(32)
    writer.add_value_length(32)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_vocab_size(VOCAB)
    writer.add_tokenizer_model("none")
    shapes = {"token_embd": (VOCAB, WIDTH), "output": (VOCAB, WIDTH), "output_norm": (WIDTH,)}
    for block in range(BLOCKS):
        shapes |= {
            f"blk.{block}.{name}": shape
            for name, shape in {
                "attn_norm": (WIDTH,),
                "attn_q": (64, WIDTH),
                "attn_k": (32, WIDTH),
                "attn_v": (32, WIDTH),
                "attn_output": (WIDTH, 64),
                "attn_q_norm": (32,),
                "attn_k_norm": (32,),
                "ffn_norm": (WIDTH,),
                "ffn_gate_inp": (EXPERTS, WIDTH),
                "ffn_gate_exps": (EXPERTS, INSIDE, WIDTH),
                "ffn_up_exps": (EXPERTS, INSIDE, WIDTH),
                "ffn_down_exps": (EXPERTS, WIDTH, INSIDE),
            }.items()
        }
    for name, shape in shapes.items():
        writer.add_tensor(f"{name}.weight", np.ones(shape, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return tmp_path / "mixture.gguf"


def test_llama_cpp_accepts_the_expert_overrides(mixture: Path) -> None:
    for blocks in (0, 1, BLOCKS):
        log = NativeLog()
        model = LlamaModel(mixture, gpu_layers=0, cpu_experts=blocks, log=log)
        assert model.layers == BLOCKS
        model.close()
        log.close()


@pytest.mark.parametrize(
    ("name", "on_cpu"),
    [
        ("blk.0.ffn_up_exps.weight", True),
        ("blk.2.ffn_down_exps.bias", True),
        ("blk.3.ffn_up_exps.weight", False),
        ("blk.21.ffn_up_exps.weight", False),
        ("blk.1.ffn_up_shexp.weight", False),
        ("blk.1.ffn_gate_inp.weight", False),
        ("output.weight", False),
    ],
)
def test_only_experts_of_the_first_blocks_stay_on_the_cpu(name: str, on_cpu: bool) -> None:
    assert (re.search(experts_pattern(3), name) is not None) is on_cpu


def test_llama_cpp_takes_a_share_for_each_gpu(mixture: Path) -> None:
    log = NativeLog()
    model = LlamaModel(mixture, gpu_layers=0, tensor_split=(3.0, 1.0), log=log)
    model.close()
    with pytest.raises(LoadFailed, match="tensor_split has 999 shares"):
        LlamaModel(mixture, gpu_layers=0, tensor_split=(1.0,) * 999, log=log)
    log.close()
