from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ingle.models.errors import InvalidModel
from ingle.models.gguf.gguf_header import read_header

pytestmark = pytest.mark.quick

if TYPE_CHECKING:
    from ..conftest import GGUFBuilder

UINT32, INT32, FLOAT32, STRING, ARRAY = 4, 5, 6, 8, 9

BAD: list[tuple[str, int, Any]] = [
    ("block_count", UINT32, 0),
    ("block_count", UINT32, 513),
    ("block_count", FLOAT32, 2.0),
    ("context_length", UINT32, 0),
    ("context_length", UINT32, (1 << 32) - 1),
    ("embedding_length", UINT32, 0),
    ("embedding_length", INT32, -64),
    ("feed_forward_length", UINT32, 1 << 31),
    ("attention.head_count", UINT32, 0),
    ("attention.head_count", UINT32, 3),
    ("attention.head_count", UINT32, 1 << 20),
    ("attention.head_count", STRING, "4"),
    ("attention.head_count_kv", UINT32, 8),
    ("attention.head_count_kv", UINT32, 3),
    ("attention.head_count_kv", INT32, -2),
    ("attention.key_length", UINT32, 0),
    ("attention.key_length", UINT32, 1 << 20),
    ("rope.dimension_count", UINT32, 0),
    ("rope.dimension_count", UINT32, 15),
    ("rope.dimension_count", UINT32, 32),
    ("rope.freq_base", FLOAT32, 0.0),
    ("rope.freq_base", FLOAT32, math.nan),
    ("rope.scaling.factor", FLOAT32, math.inf),
    ("attention.layer_norm_rms_epsilon", FLOAT32, -1.0),
    ("attention.layer_norm_rms_epsilon", FLOAT32, 1e30),
    ("attention.sliding_window", UINT32, 1 << 31),
    ("expert_count", UINT32, 1 << 31),
    ("vocab_size", UINT32, 0),
]


def write(tiny: GGUFBuilder, tmp_path: Path) -> Path:
    path = tmp_path / "model.gguf"
    path.write_bytes(tiny.build())
    return path


@pytest.mark.parametrize(("key", "kind", "value"), BAD)
def test_out_of_range_numbers_are_rejected(
    tiny: GGUFBuilder, tmp_path: Path, key: str, kind: int, value: Any
) -> None:
    path = write(tiny.set(f"llama.{key}", kind, value), tmp_path)
    with pytest.raises(InvalidModel) as caught:
        read_header(path)
    assert str(path) in caught.value.message


@pytest.mark.parametrize(
    "key", ["block_count", "context_length", "embedding_length", "attention.head_count"]
)
def test_required_keys_must_be_present(tiny: GGUFBuilder, tmp_path: Path, key: str) -> None:
    del tiny.metadata[f"llama.{key}"]
    if key == "attention.head_count":
        del tiny.metadata["llama.attention.head_count_kv"]
    with pytest.raises(InvalidModel):
        read_header(write(tiny, tmp_path))


def test_per_layer_numbers_are_checked(tiny: GGUFBuilder, tmp_path: Path) -> None:
    tiny.set("llama.attention.head_count_kv", ARRAY, [2, -1], INT32)
    with pytest.raises(InvalidModel, match="head_count_kv"):
        read_header(write(tiny, tmp_path))


def test_head_count_must_not_be_text(tiny: GGUFBuilder, tmp_path: Path) -> None:
    tiny.set("llama.attention.head_count", ARRAY, ["4", "4"])
    with pytest.raises(InvalidModel, match="wrong kind"):
        read_header(write(tiny, tmp_path))


def test_recurrent_model_needs_no_heads(tiny: GGUFBuilder, tmp_path: Path) -> None:
    tiny.set("llama.attention.head_count", UINT32, 0)
    tiny.set("llama.attention.head_count_kv", UINT32, 0)
    tiny.set("llama.ssm.state_size", UINT32, 16)
    assert read_header(write(tiny, tmp_path)).kv_head_counts == (0, 0)


def test_using_more_experts_than_exist_is_rejected(tiny: GGUFBuilder, tmp_path: Path) -> None:
    tiny.set("llama.expert_count", UINT32, 4).set("llama.expert_used_count", UINT32, 5)
    with pytest.raises(InvalidModel, match="5 of 4"):
        read_header(write(tiny, tmp_path))


@pytest.mark.parametrize(("name", "element"), [("scores", FLOAT32), ("token_type", INT32)])
def test_token_lists_must_have_equal_length(
    tiny: GGUFBuilder, tmp_path: Path, name: str, element: int
) -> None:
    tiny.set(f"tokenizer.ggml.{name}", ARRAY, [1] * 5, element)
    with pytest.raises(InvalidModel, match=f"5 {name} for 6 tokens"):
        read_header(write(tiny, tmp_path))


def test_tokens_must_be_text(tiny: GGUFBuilder, tmp_path: Path) -> None:
    tiny.set("tokenizer.ggml.tokens", ARRAY, [1] * 6, INT32)
    with pytest.raises(InvalidModel, match="list of tokens"):
        read_header(write(tiny, tmp_path))


@pytest.mark.parametrize("token", [6, 2**31])
def test_bos_and_eos_must_be_in_the_vocabulary(
    tiny: GGUFBuilder, tmp_path: Path, token: int
) -> None:
    for name in ("bos", "eos"):
        tiny.set(f"tokenizer.ggml.{name}_token_id", UINT32, token)
        with pytest.raises(InvalidModel, match=f"token {token} of 6"):
            read_header(write(tiny, tmp_path))
        tiny.set(f"tokenizer.ggml.{name}_token_id", UINT32, 2**32 - 1)  # how files express "none"
    read_header(write(tiny, tmp_path))


def test_merges_must_be_text(tiny: GGUFBuilder, tmp_path: Path) -> None:
    tiny.set("tokenizer.ggml.merges", ARRAY, [1, 2], INT32)
    with pytest.raises(InvalidModel, match="merges"):
        read_header(write(tiny, tmp_path))


@pytest.mark.parametrize("kind", [2, 12, 39])
def test_quantised_vectors_are_rejected(
    tiny: GGUFBuilder, tmp_path: Path, new_tensor: Callable[..., Any], kind: int
) -> None:
    """llama.cpp's CPU backend aborts over them; found by mutating a real model's header."""
    tiny.tensors.append(new_tensor("output.bias", (256,), 0))
    read_header(write(tiny, tmp_path))
    tiny.tensors[-1] = new_tensor("output.bias", (256,), kind)
    with pytest.raises(InvalidModel, match=r"vector 'output.bias' as (Q4_0|Q4_K|MXFP4)"):
        read_header(write(tiny, tmp_path))
