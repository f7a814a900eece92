"""`paged_fit`: exact where possible, otherwise never much too small."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ingle.kernels.recurrent.recurrent_shapes import ShortConvShape
from ingle.models.config.model_config import (
    ExpertConfig,
    KVHeads,
    LatentConfig,
    LayerConfig,
    ModelConfig,
)
from ingle.models.errors import UnsupportedModel
from ingle.models.fit.llama_cpp_fit import LoadParameters, MemoryEstimate
from ingle.models.fit.paged_fit import (
    check_paged_kv_type,
    estimate_own_on_cpu,
    estimate_own_on_gpu,
    nf4_bytes,
    state_drafts,
    state_rows,
    weights_on_cpu,
)
from ingle.models.kv_type import KVType

GIB = 2**30
CONFIG = ModelConfig(
    architecture="llama",
    vocab_size=128_256,
    hidden_size=4096,
    intermediate_size=14336,
    num_heads=32,
    num_kv_heads=8,
    head_size=128,
    context=131_072,
    norm_epsilon=1e-5,
    layers=(LayerConfig(),) * 32,
    attention_scale=128**-0.5,
)


def estimate(config: ModelConfig, weights: int = 0, kv_type: KVType = KVType.F16) -> MemoryEstimate:
    load = LoadParameters(context=8192, slots=8, batch=512, kv_type=kv_type)
    return estimate_own_on_cpu(config, load, weights=weights, mapped=0, vocabulary=0).host


def test_page_count_is_exact() -> None:
    """The pages of a context, one more for each slot, and one unused page."""
    found = estimate(CONFIG, 16 * GIB)
    token = 32 * 2 * 8 * 128 * 2
    assert found.kv == (8192 + 9 * 32) * token
    assert found.weights == 16 * GIB
    for kv_type, share in ((KVType.F32, 64), (KVType.Q8_0, 17), (KVType.Q4_0, 9)):
        other = estimate(CONFIG, kv_type=kv_type)
        assert other.kv == found.kv * share // 32


def test_heads_of_each_layer_count_once() -> None:
    """Of layers whose heads differ, each has its own; one that shares those of another has none."""
    local = LayerConfig(window=512, kv_heads=KVHeads(count=4, size=256))
    layers = (local, LayerConfig(), replace(local, kv_layer=0), LayerConfig(kv_layer=1))
    found = estimate(replace(CONFIG, layers=layers))
    assert found.kv == (8192 + 9 * 32) * 2 * (4 * 256 + 8 * 128) * 2


def test_latents_count_once() -> None:
    """GLM-4.7-Flash: 512 elements of which keys and values are made, and 64 that rotate."""
    latent = LatentConfig(
        rank=512, query_rank=768, key_size=192, value_size=256, rope_size=64, norm_epsilon=1e-5
    )
    config = replace(
        CONFIG, num_heads=20, num_kv_heads=1, head_size=576, hidden_size=2048, latent=latent
    )
    assert estimate(config).kv == (8192 + 9 * 32) * 32 * 576 * 2
    assert estimate(config, kv_type=KVType.Q8_0).kv == (8192 + 9 * 32) * 32 * (576 + 18 * 2)
    load = LoadParameters(context=512, slots=1, batch=64, kv_type=KVType.F16)
    on_gpu = estimate_own_on_gpu(config, load, weights=GIB, vocabulary=0).gpu
    assert on_gpu.weights == GIB + 32 * 20 * 512 * (192 + 256) * 15 // 16, "16 bits, not Q8_0"
    check_paged_kv_type("GLM", config, KVType.Q8_0)
    with pytest.raises(UnsupportedModel, match="latent attention, whose values a q4_0") as caught:
        check_paged_kv_type("GLM", config, KVType.Q4_0)
    assert "q8_0" in (caught.value.hint or "")


def test_states_of_recurrent_layers_count() -> None:
    """Rows for slots, drafts and snapshots, and one for steps without a cache."""
    convolution = ShortConvShape(channels=4096, kernel=3)
    layers = (LayerConfig(recurrent=convolution),) * 24 + (LayerConfig(),) * 8
    config = replace(CONFIG, layers=layers)
    assert config.state_bytes == 24 * 4096 * 2 * 4
    keys = 8 * 2 * 8 * 128 * 2
    found = estimate(config)
    snapshots = 8192 * keys // 4 // config.state_bytes
    rows = 8 + 15 + snapshots + 1
    assert found.kv == (8192 + 9 * 32) * keys + rows * config.state_bytes
    large = replace(config, layers=layers * 40, context=512)
    assert state_drafts(large) == 8
    few = state_rows(large, context=64, slots=2, kv_type=KVType.F16)
    assert few == 2 + 8 + 4, "at least a snapshot for each slot, and two more"


def test_step_memory_includes_masks_and_logits() -> None:
    found = estimate(CONFIG)
    assert found.compute >= 512 * 8192 * 4 + 8 * 128_256 * 4
    capped = estimate(replace(CONFIG, attention_soft_cap=50.0))
    assert capped.compute >= 512 * 8192 * 32 * 4


def test_step_memory_of_experts_and_sinks() -> None:
    """A token's outputs of all its experts, weighted, and the scores beside the sinks."""
    layer = LayerConfig(experts=ExpertConfig(count=128, used=8, width=768, shared_width=512))
    load = LoadParameters(context=512, slots=8, batch=512, kv_type=KVType.F16)
    mixture = replace(CONFIG, layers=(layer,) * 4)
    assert mixture.is_mixture
    found = estimate_own_on_cpu(mixture, load, weights=GIB, mapped=0, vocabulary=0).host
    held = 6 * 4096 + 2 * 8 * 4096 + 3 * (768 + 512)
    assert found.compute == 512 * held * 4 + 4 * 8 * 128_256 * 4
    assert found.weights == GIB
    gpu = estimate_own_on_gpu(mixture, load, weights=GIB, vocabulary=0).gpu
    rows = 512 * 8 + 128 * 32
    sorted_picks = rows * (4096 * 5.5 + 768 * 9.5)
    assert gpu.compute >= 512 * held * 2 + sorted_picks, "picks are sorted into blocks of experts"
    capped = estimate(replace(CONFIG, attention_soft_cap=50.0)).compute
    assert estimate(replace(CONFIG, attention_sinks=True)).compute > capped


def test_weights_become_floats_if_memory_allows() -> None:
    assert weights_on_cpu(GIB, 2 * GIB, 6 * GIB) == 4 * GIB
    assert weights_on_cpu(GIB, 2 * GIB, 4 * GIB) == 2 * GIB


def test_nf4_linear_layers_take_a_quarter_of_bf16() -> None:
    parameters = 8_030_000_000
    found = nf4_bytes(CONFIG, parameters, 2 * parameters)
    embeddings = 2 * 128_256 * 4096
    assert found == pytest.approx(2 * embeddings + 0.5159 * (parameters - embeddings), rel=1e-3)
    assert nf4_bytes(CONFIG, parameters, found) <= found
    assert nf4_bytes(replace(CONFIG, tied_embeddings=True), parameters, 2 * parameters) < found


def test_head_size_must_fit_the_kv_type() -> None:
    check_paged_kv_type("m", replace(CONFIG, head_size=20), KVType.F16)
    check_paged_kv_type("m", replace(CONFIG, head_size=80), KVType.Q4_0)
    with pytest.raises(UnsupportedModel, match="m has heads of 20 elements"):
        check_paged_kv_type("m", replace(CONFIG, head_size=20), KVType.Q8_0)
