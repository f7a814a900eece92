"""Families divided among processes: however it is computed, the text is that of one process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from ingle.backends.base.load_spec import KVStoreSpec, LoadSpec
from ingle.backends.cuda.parallel.lead_runner import open_divided
from ingle.backends.cuda.state_model_runner import open_model_runner
from ingle.backends.engine.engine import Engine
from ingle.backends.engine.kv_store.kv_store import KVStore
from ingle.backends.registry.engines import get_engine
from ingle.backends.registry.model_costs import ModelCosts
from ingle.models.fit.llama_cpp_fit import LoadParameters
from ingle.models.fit.paged_fit import token_kv_bytes
from ingle.models.kv_type import KVType
from ingle.models.safetensors.model_folder import read_folder
from tests.models.families.test_family_runs import (
    FAMILIES,
    GuessingSpeculator,
    run,
    sequences,
)

pytestmark = pytest.mark.slow


KINDS = ["llama", *(kind for kind in FAMILIES if kind != "gemma3n_text")]
_BLOCKS = ["linear_attention", "mlp", "full_attention", "mlp"]
STAGED: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {
    "lfm2": ((2, 2), {"num_hidden_layers": 4, "layer_types": ["conv", "full_attention"] * 2}),
    "qwen3_5_text": ((2, 2), {}),
    "qwen3_next": ((2, 2), {}),
    "granitemoehybrid": (
        (2, 2),
        {"num_hidden_layers": 4, "layer_types": ["mamba", "attention"] * 2},
    ),
    "nemotron_h": ((4, 4), {"num_hidden_layers": 8, "layers_block_type": _BLOCKS * 2}),
}
"""Families with states, with a layer of either kind in each stage."""
WITH_STATES = STAGED.keys()


@pytest.mark.parametrize(
    ("kind", "stages"),
    [
        *((kind, ()) for kind in KINDS),
        *((kind, (2, 1)) for kind in KINDS if kind.split()[0] not in {*WITH_STATES, "gemma4_text"}),
        *((kind, sizes) for kind, (sizes, _) in STAGED.items()),
    ],
)
def test_two_ranks_write_the_same_however_it_is_computed(
    kind: str, stages: tuple[int, ...], make_random_model: Any, make_folder: Any, tmp_path: Path
) -> None:
    heads = {"hidden_size": 64, "num_attention_heads": 4, "head_dim": 16}
    sizes = {"vocab_size": 264, "max_position_embeddings": 512}
    settings = FAMILIES.get(kind, {}) | (STAGED[kind][1] if stages and kind in STAGED else {})
    model = make_random_model(kind.split()[0], **heads, **sizes, **settings)
    folder: Path = make_folder("model")  # for its tokenizer
    for file in folder.glob("model*"):
        file.unlink()
    model.module.save_pretrained(folder)
    (folder / "config.json").write_text(json.dumps(model.settings))
    values: dict[str, Any] = {"context": 512, "slots": 6, "threads": 1, "device": "cpu"}
    spec = LoadSpec(engine="cuda", path=str(folder), kv_type=KVType.F32, confine=False, **values)
    one = open_model_runner(spec)
    alone = [run(Engine(one), [sequence])[0] for sequence in sequences()]
    (text,) = run(Engine(one), sequences(400))
    one.close()

    two = open_divided(structs.replace(spec, tensor_parallel=2, stages=stages, kv_capacity=4096))
    try:
        load = LoadParameters(
            context=512, slots=6, batch=spec.batch, kv_type=KVType.F32, ranks=2, stages=stages
        )
        found = read_folder(folder)
        predicted = get_engine("cuda").estimate(ModelCosts.of(found), load, host=2**40).host
        held, more = two.info(), (4096 - 512) * token_kv_bytes(found.config, KVType.F32)
        assert held.weights_bytes == pytest.approx(predicted.weights, rel=0.03)
        assert held.kv_bytes - more == pytest.approx(predicted.kv, rel=0.03)
        engine = Engine(two)
        assert run(engine, sequences()) == alone, "in one batch"
        again = sequences()
        assert run(engine, again) == alone, "with the prompts in the cache"
        assert all(sequence.cached_tokens for sequence in again)

        engine = Engine(two, GuessingSpeculator(alone))
        assert run(engine, sequences()) == alone, "with drafts"
        gauges = engine.gauges()
        assert 0 < gauges.accepted_tokens_total < gauges.drafted_tokens_total

        two.max_batch_tokens = 13
        assert run(Engine(two), sequences()) == alone, "with prompts in chunks"
        two.max_batch_tokens = 512

        kept = KVStoreSpec(
            folder=str(tmp_path / "kv"), model="ab" * 32, disk_bytes=2**30, memory_bytes=2**28
        )
        for life in range(2):
            store = KVStore(kept, two.state_key, spare=lambda: 2**30)
            engine = Engine(two, store=store)
            (long,) = sequences(400)
            assert run(engine, [long]) == [text], "restored from disk"
            while engine.has_unsaved:
                engine.save(0.05)
            store.close(5)
            assert (long.cached_tokens >= 256) is (life == 1)
    finally:
        two.close()
