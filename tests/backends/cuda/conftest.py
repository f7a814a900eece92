"""Fixtures: a tiny Llama model file, and CUDA runners for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest

from ingle.backends.base.load_spec import LoadSpec
from ingle.backends.cuda.compute_backend import ComputeBackend
from ingle.backends.cuda.model_runner import CudaModelRunner
from ingle.models.kv_type import KVType

VOCAB, WIDTH, WIDER, HEADS, KV_HEADS, LAYERS = 96, 64, 96, 4, 2, 3

LoadModel = Callable[..., CudaModelRunner]
MakeModel = Callable[..., Path]


@pytest.fixture(scope="session")
def make_model(tmp_path_factory: pytest.TempPathFactory) -> MakeModel:
    """Return a factory of tiny random Llama files; equal seeds give equal models."""
    folder = tmp_path_factory.mktemp("tiny-models")

    def make(seed: int = 0, *, vocab: int = VOCAB, odd: str = "", layers: int = LAYERS) -> Path:
        path = folder / f"tiny-{seed}-{vocab}-{layers}{odd}.gguf"
        if not path.exists():
            _write(path, seed, vocab, odd, layers)
        return path

    return make


@pytest.fixture(scope="session")
def tiny_path(make_model: MakeModel) -> Path:
    """Return the path of the tiny model."""
    return make_model()


@pytest.fixture(scope="module")
def load_model() -> Iterator[LoadModel]:
    """Return a factory of runners, which are closed after the test's module.

    `backend` is what they compute with; other keywords are fields of `LoadSpec`.
    """
    made: list[CudaModelRunner] = []

    def load(path: Path, backend: ComputeBackend | None = None, **fields: Any) -> CudaModelRunner:
        values: dict[str, Any] = {
            "context": 512,
            "slots": 16,
            "threads": 1,
            "device": "cpu",
            "kv_type": KVType.F32,
            **fields,
        }
        spec = LoadSpec(engine="cuda", path=str(path), **values)
        made.append(CudaModelRunner(spec, backend=backend))
        return made[-1]

    yield load
    for runner in made:
        runner.close()


def _write(path: Path, seed: int, vocab: int, odd: str, layers: int) -> None:
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(layers)
    writer.add_context_length(512)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(WIDER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_vocab_size(vocab)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("default")
    tokens = [f"t{token}" for token in range(vocab)]
    if odd:
        tokens[20] = odd
    writer.add_token_list(tokens)
    writer.add_token_types([1] * vocab)
    writer.add_token_merges(["t 0"])
    writer.add_eos_token_id(0)
    writer.add_bos_token_id(1)
    random = np.random.default_rng(seed)
    kv_width = WIDTH * KV_HEADS // HEADS
    block: dict[str, tuple[int, ...]] = {
        "attn_q": (WIDTH, WIDTH),
        "attn_k": (kv_width, WIDTH),
        "attn_v": (kv_width, WIDTH),
        "attn_output": (WIDTH, WIDTH),
        "ffn_gate": (WIDER, WIDTH),
        "ffn_up": (WIDER, WIDTH),
        "ffn_down": (WIDTH, WIDER),
        "attn_norm": (WIDTH,),
        "ffn_norm": (WIDTH,),
    }
    tensors: dict[str, tuple[int, ...]] = {
        f"blk.{layer}.{name}": shape for layer in range(layers) for name, shape in block.items()
    }
    tensors |= {"token_embd": (vocab, WIDTH), "output": (vocab, WIDTH), "output_norm": (WIDTH,)}
    for name, shape in tensors.items():
        weights = random.normal(0, 1.5 / np.sqrt(shape[-1]), shape)
        if name == "output":
            weights *= 3  # so that the draft model is confident about some tokens
        if name.endswith("norm"):
            weights = random.uniform(0.5, 1.5, shape)
        writer.add_tensor(f"{name}.weight", weights.astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
