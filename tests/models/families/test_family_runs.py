"""Families in the engine: batched, in chunks, drafted, preempted or restored, the text is the same.

What a dense Llama does is tested in `tests/backends/cuda/`; here are layers that it does not have.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ingle.backends.base.load_spec import KVStoreSpec, LoadSpec
from ingle.backends.cuda.model_files import ModelFiles, ModelSource
from ingle.backends.cuda.model_runner import CudaModelRunner
from ingle.backends.cuda.state_model_runner import open_model_runner
from ingle.backends.engine.batch import Batch
from ingle.backends.engine.engine import Engine
from ingle.backends.engine.kv_store.kv_store import KVStore
from ingle.backends.engine.sequence import Sequence
from ingle.backends.testing.byte_tokenizer import ByteTokenizer
from ingle.models.kv_type import KVType
from tests.harness.headed_models import LENGTH, run, sequences

_EXPERTS = {"num_experts": 8, "num_experts_per_tok": 3, "moe_intermediate_size": 24}
_DELTA = {
    "num_hidden_layers": 4,
    "full_attention_interval": 2,
    "linear_key_head_dim": 16,
    "linear_value_head_dim": 16,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
}
_MINISTRAL = {
    "rope_type": "yarn",
    "rope_theta": 1e6,
    "factor": 16.0,
    "original_max_position_embeddings": 16,
    "mscale": 1.0,
    "mscale_all_dim": 1.0,
    "llama_4_scaling_beta": 0.1,
}
_LATENT = {
    "num_key_value_heads": 4,
    "n_routed_experts": 8,
    "moe_intermediate_size": 24,
    "q_lora_rank": 24,
    "kv_lora_rank": 32,
    "qk_nope_head_dim": 16,
    "qk_rope_head_dim": 8,
    "v_head_dim": 16,
}
FAMILIES: dict[str, dict[str, Any]] = {
    "glm4": {"attention_bias": True},
    "ministral3": {"rope_parameters": _MINISTRAL},
    "hunyuan_v1_dense": {},
    "gemma3n_text": {
        "num_hidden_layers": 5,
        "sliding_window": 24,
        "layer_types": [*["sliding_attention", "full_attention"] * 2, "sliding_attention"],
        "num_kv_shared_layers": 2,
        "activation_sparsity_pattern": [0.9, 0.9, 0.0, 0.0, 0.0],
        "vocab_size_per_layer_input": 200,
        "hidden_size_per_layer_input": 16,
        "laurel_rank": 12,
    },
    "gemma4_text": {
        "num_hidden_layers": 4,
        "global_head_dim": 32,
        "sliding_window": 24,
        "layer_types": ["sliding_attention", "full_attention"] * 2,
        "num_kv_shared_layers": 2,
        "use_double_wide_mlp": True,
        "vocab_size_per_layer_input": 264,
        "hidden_size_per_layer_input": 16,
    },
    "lfm2": {"layer_types": ["conv", "full_attention", "conv"]},
    "qwen3_5_text": _DELTA,
    "qwen3_next": {**_DELTA, **_EXPERTS, "shared_expert_intermediate_size": 40},
    "deepseek_v2": {
        **_LATENT,
        "q_lora_rank": None,
        "num_experts_per_tok": 3,
        "rope_parameters": {
            "rope_type": "yarn",
            "rope_theta": 1e4,
            "factor": 16.0,
            "original_max_position_embeddings": 32,
            "mscale": 0.707,
            "mscale_all_dim": 0.707,
        },
    },
    "glm4_moe_lite": _LATENT,
    "granitemoehybrid": {
        "layer_types": ["mamba", "attention", "mamba"],
        "mamba_n_heads": 8,
        "mamba_d_state": 16,
        "num_local_experts": 0,
        "shared_intermediate_size": 72,
    },
    "nemotron_h": {
        "layers_block_type": ["linear_attention", "mlp", "full_attention", "mlp"],
        "mamba_num_heads": 4,
        "mamba_head_dim": 16,
        "n_groups": 2,
        "ssm_state_size": 16,
    },
    "nemotron_h with experts": {
        "layers_block_type": ["linear_attention", "moe", "full_attention", "moe"],
        "mamba_num_heads": 4,
        "mamba_head_dim": 16,
        "n_groups": 2,
        "ssm_state_size": 16,
        "n_routed_experts": 8,
        "num_experts_per_tok": 3,
        "moe_intermediate_size": 24,
        "moe_shared_expert_intermediate_size": 40,
    },
    "mixtral": {"num_local_experts": 4},
    "qwen2_moe": {**_EXPERTS, "shared_expert_intermediate_size": 40},
    "qwen3_moe": _EXPERTS,
    "gpt_oss": {"num_local_experts": 6, "num_experts_per_tok": 3, "sliding_window": 24},
    "glm4_moe": {
        "n_routed_experts": 8,
        "num_experts_per_tok": 3,
        "moe_intermediate_size": 24,
        "n_group": 4,
        "topk_group": 2,
    },
}
_EACH_KIND_OF_LAYER = {"gemma4_text", "glm4_moe_lite", "qwen3_next"}


class GuessingSpeculator:
    """Drafts the known continuation of each sequence, every third token wrong."""

    def __init__(self, texts: list[list[int]]) -> None:
        self._texts = texts

    def propose(self, decoding: list[Sequence], room: int) -> dict[Sequence, tuple[int, ...]]:
        drafts: dict[Sequence, tuple[int, ...]] = {}
        for sequence in decoding:
            said = sequence.num_generated
            coming = self._texts[sequence.index][said : said + min(4, room // len(decoding))]
            drafts[sequence] = tuple(
                (token + (place % 3 == 2)) % 99 for place, token in enumerate(coming, start=said)
            )[: LENGTH - said - 1]
        return drafts

    def waits(self, decoding: list[Sequence], room: int) -> bool:
        return True

    def observe(self, batch: Batch, seconds: float) -> None: ...

    def forget(self, sequence: Sequence) -> None: ...


class FamilyRunners:
    """Runners of one random model, with fields of `LoadSpec` of their own."""

    def __init__(self, source: ModelSource) -> None:
        self._source = source
        self._made: list[CudaModelRunner] = []

    def load(self, **fields: Any) -> CudaModelRunner:
        values: dict[str, Any] = {"context": 512, "slots": 6, "threads": 1, **fields}
        spec = LoadSpec(engine="cuda", path="random", device="cpu", kv_type=KVType.F32, **values)
        self._made.append(open_model_runner(spec, source=self._source))
        return self._made[-1]

    def close(self) -> None:
        for runner in self._made:
            runner.close()


@pytest.fixture(
    params=[
        kind if kind in _EACH_KIND_OF_LAYER else pytest.param(kind, marks=pytest.mark.slow)
        for kind in FAMILIES
    ]
)
def runners(request: pytest.FixtureRequest, make_random_model: Any) -> Iterator[FamilyRunners]:
    kind: str = request.param
    # Heads that have kernels, and a vocabulary for the tokenizer of bytes.
    heads = {"hidden_size": 64, "num_attention_heads": 4, "head_dim": 16}
    sizes = {"vocab_size": 264, "max_position_embeddings": 512}
    model = make_random_model(kind.split()[0], **heads, **sizes, **FAMILIES[kind])
    files = ModelFiles(model.config, model.canonical(), 1 << 20, 1 << 22)
    found = FamilyRunners(ModelSource(files, ByteTokenizer()))
    yield found
    found.close()


def test_text_does_not_depend_on_how_it_is_computed(runners: FamilyRunners, tmp_path: Path) -> None:
    runner = runners.load(kv_capacity=4096)
    alone = [run(Engine(runner), [sequence])[0] for sequence in sequences()]
    assert len({tuple(text) for text in alone}) == len(alone)

    engine = Engine(runner)
    assert run(engine, sequences()) == alone, "in one batch"
    again = sequences()
    assert run(engine, again) == alone, "with the prompts in the cache"
    assert all(sequence.cached_tokens for sequence in again)

    runner.max_batch_tokens = 13
    assert run(Engine(runner), sequences()) == alone, "with prompts in chunks"

    engine = Engine(runners.load(), GuessingSpeculator(alone))
    assert run(engine, sequences()) == alone, "with drafts"
    gauges = engine.gauges()
    assert 0 < gauges.accepted_tokens_total < gauges.drafted_tokens_total

    engine = Engine(runners.load(context=256, kv_capacity=320))
    assert run(engine, sequences()) == alone, "preempted"
    assert engine.gauges().preemptions_total > 0

    (text,) = run(Engine(runners.load()), sequences(400))
    spec = KVStoreSpec(folder=str(tmp_path), model="ab" * 32, disk_bytes=2**30, memory_bytes=2**28)
    for life in range(2):
        runner = runners.load()
        store = KVStore(spec, runner.state_key, spare=lambda: 2**30)
        engine = Engine(runner, store=store)
        (long,) = sequences(400)
        assert run(engine, [long]) == [text], "restored from disk"
        while engine.has_unsaved:
            engine.save(0.05)
        store.close(5)
        assert (long.cached_tokens >= 256) is (life == 1)
