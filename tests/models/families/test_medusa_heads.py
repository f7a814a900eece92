"""Medusa heads: right by the paper's formula, found by name, and lossless."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file  # pyright: ignore[reportUnknownVariableType]

from ingle.backends.base.errors import LoadFailed
from ingle.backends.base.load_spec import LoadSpec
from ingle.backends.cuda.draft_model import open_drafter
from ingle.backends.engine.engine import Engine
from ingle.backends.engine.speculation.step_costs import StepCosts
from ingle.backends.registry.cuda_availability import CudaAvailability
from ingle.backends.selection.engine_facts import EngineFacts
from ingle.daemon.load_planning.load_options import LoadOptions
from ingle.daemon.load_planning.load_planner import ModelLoadPlanner
from ingle.daemon.settings.config import Config
from ingle.daemon.settings.paths import find_paths
from ingle.kernels.operations import Operations
from ingle.models.catalog import Catalog
from ingle.models.fit.memory_needs import MemoryNeeds
from ingle.models.heads.medusa_head import MedusaHead, open_medusa_heads
from ingle.models.kv_type import KVType
from ingle.models.places.found_model import Place
from ingle.models.places.model_folders import find_in_plain_folder
from ingle.models.store.model_store import ModelStore
from tests.harness.headed_models import HeadedRunners, headed_engine, run, sequences
from tests.harness.medusa_models import HEADS, SIZES, MedusaModel

_CPU, _EXACT = torch.device("cpu"), Operations(torch.float32)


@pytest.fixture
def model(make_random_model: Any) -> MedusaModel:
    return MedusaModel(make_random_model("llama", **SIZES))


@pytest.fixture
def runners() -> Iterator[HeadedRunners]:
    found = HeadedRunners()
    yield found
    found.close()


@torch.inference_mode()
def test_each_head_computes_what_the_paper_says(model: MedusaModel, tmp_path: Path) -> None:
    """Whatever the tokens and their places are, which nothing but the hidden state tells."""
    target = model.source.files.load(_CPU, _EXACT)
    files = open_medusa_heads(model.save(tmp_path / "heads"), model.model.config)
    head = MedusaHead(files, target, device=_CPU, operations=_EXACT)
    hidden = torch.randn(5, SIZES["hidden_size"], generator=torch.Generator().manual_seed(5))
    nothing: Any = None
    for place in range(HEADS):
        logits, features = head.step(nothing, hidden, nothing, nothing, place)
        torch.testing.assert_close(logits, model.reference(hidden, place), atol=1e-4, rtol=1e-4)
        assert features is hidden


def test_text_is_the_same_with_heads_that_are_right(
    model: MedusaModel, runners: HeadedRunners, tmp_path: Path
) -> None:
    model.become_cycle()
    source, heads = model.source, str(model.save(tmp_path / "heads"))
    prompts = partial(sequences, high=SIZES["hidden_size"] - 1, greedy=True)
    plain = runners.load(source, draft_path=None)
    texts = run(Engine(plain), prompts())
    engine = headed_engine(runners.load(source, draft_path=heads, kv_capacity=4096), depth=8)
    assert run(engine, prompts()) == texts
    assert run(engine, prompts()) == texts, "with the prompts in the cache"
    gauges = engine.gauges()
    assert gauges.accepted_tokens_total > 0.99 * gauges.drafted_tokens_total > 100


def test_heads_are_planned_by_their_name(
    model: MedusaModel, runners: HeadedRunners, ingle_home: Path, tmp_path: Path
) -> None:
    """Their memory is that which the runner takes."""
    folder, heads = tmp_path / "random-8b", model.save(tmp_path / "some-heads")
    folder.mkdir()
    tensors = {name: part.clone() for name, part in model.model.raw.tensors.items()}
    save_file(tensors, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(model.model.settings))
    (folder / "tokenizer.json").write_text(json.dumps({"model": {"vocab": {"a": 0}}}))
    place = Place("a folder", tmp_path, find_in_plain_folder)
    store = ModelStore(ingle_home / "models", Catalog.load(), places=(place,))
    (stored,) = store.list()
    facts = EngineFacts(own=CudaAvailability(has_torch=True))
    config = Config(paths=find_paths({"INGLE_HOME": str(ingle_home)}), speculation="draft")
    planner = ModelLoadPlanner(config, store.resolve, lambda: facts, find_heads=store.find_heads)
    options = LoadOptions(context=512, kv_type=KVType.F32)
    plan = planner(stored, options, available=MemoryNeeds(64 << 30))
    assert plan.spec.draft_path == str(heads)
    plain, headed = (
        runners.load(model.source, draft_path=path).info() for path in (None, str(heads))
    )
    added = headed.weights_bytes - plain.weights_bytes + headed.kv_bytes - plain.kv_bytes
    assert plan.draft_needs.host == pytest.approx(added, rel=0.03)


def _without(name: str) -> Callable[[MedusaModel], None]:
    def change(model: MedusaModel) -> None:
        del model.tensors[name]

    return change


def _with_fewer_heads(model: MedusaModel) -> None:
    model.settings["medusa_num_heads"] = 2


def _with_other_words(model: MedusaModel) -> None:
    model.tensors["0.2.weight"] = torch.zeros(500, 64)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (_without("1.1.linear.weight"), "1.1.linear.weight"),
        (_without("2.2.weight"), "lacks outputs"),
        (_with_fewer_heads, "2.0.linear"),
        (_with_other_words, "a vocabulary of 500"),
    ],
)
def test_heads_that_do_not_fit_are_refused(
    model: MedusaModel,
    change: Callable[[MedusaModel], None],
    reason: str,
    runners: HeadedRunners,
    tmp_path: Path,
) -> None:
    """The model is loaded without them, and the reason is known."""
    change(model)
    heads = str(model.save(tmp_path / "heads"))
    runner = runners.load(model.source, draft_path=heads)
    assert not runner.head.is_loaded
    spec = LoadSpec(engine="cuda", path="random", draft_path=heads, context=512)
    with pytest.raises(LoadFailed, match=reason):
        open_drafter(spec, runner, StepCosts())
