"""Heads of models on disk: found, planned, counted, paired, and freed where they cannot pay."""

from __future__ import annotations

import json
import os
import subprocess
import sysconfig
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
import torch
from safetensors.torch import save_file  # pyright: ignore[reportUnknownVariableType]

from ingle.backends.base.errors import LoadFailed
from ingle.backends.base.load_spec import LoadSpec
from ingle.backends.base.model_info import OWN_HEAD
from ingle.backends.cuda.draft_model import open_drafter
from ingle.backends.cuda.model_files import ModelSource, open_model
from ingle.backends.cuda.model_runner import CudaModelRunner
from ingle.backends.cuda.state_model_runner import open_model_runner
from ingle.backends.engine.engine import Engine
from ingle.backends.engine.speculation.adaptive_speculator import AdaptiveSpeculator
from ingle.backends.engine.speculation.step_costs import StepCosts
from ingle.backends.jobs.quantization.hf_metadata import model_pairs
from ingle.backends.registry.cuda_availability import CudaAvailability
from ingle.backends.selection.engine_facts import EngineFacts
from ingle.backends.testing.byte_tokenizer import ByteTokenizer
from ingle.daemon.load_planning.load_options import LoadOptions
from ingle.daemon.load_planning.load_planner import LoadPlan, ModelLoadPlanner
from ingle.daemon.settings.config import Config
from ingle.daemon.settings.paths import find_paths
from ingle.models.catalog import Catalog
from ingle.models.errors import UnsupportedModel
from ingle.models.fit.memory_needs import MemoryNeeds
from ingle.models.gguf.gguf_writer import PlannedTensor, encode_header, encode_pair, padded
from ingle.models.heads.head_files import find_mtp_head
from ingle.models.heads.head_tensors import with_mtp_layer
from ingle.models.heads.mtp_file import read_mtp_file
from ingle.models.kv_type import KVType
from ingle.models.metadata.manifest import describe_folder
from ingle.models.places.found_model import Place
from ingle.models.places.model_folders import find_in_plain_folder
from ingle.models.safetensors.model_folder import read_folder
from ingle.models.store.model_store import ModelStore
from ingle.models.weights.gguf_tensor_names import GGUFTensorNames, name_in_gguf
from tests.harness.eagle_models import SIZES as EAGLE_SIZES
from tests.harness.eagle_models import EagleModel
from tests.harness.headed_models import (
    FAMILIES,
    SIZES,
    HeadedModel,
    headed_engine,
    run,
    sequences,
)

_GIB = 2**30


@pytest.fixture(params=[pytest.param("qwen3_5_text", marks=pytest.mark.slow), "glm4_moe"])
def model(request: pytest.FixtureRequest, make_random_model: Any, memory_weights: Any) -> Any:
    kind: str = request.param
    found = HeadedModel(make_random_model(kind, **SIZES, **FAMILIES[kind]), memory_weights)
    found.become_copy()
    return found


@pytest.fixture
def folder(model: HeadedModel, tmp_path: Path) -> Path:
    """Return a folder with the model and its head, and a tokenizer that nothing reads."""
    path = tmp_path / "model"
    path.mkdir()
    tensors = {name: part.contiguous().clone() for name, part in model.stored.tensors.items()}
    save_file(tensors, path / "model.safetensors")
    (path / "config.json").write_text(json.dumps(model.model.settings))
    (path / "tokenizer.json").write_text(json.dumps({"model": {"vocab": {"a": 0}}}))
    return path


@pytest.fixture
def plan(folder: Path, ingle_home: Path) -> Any:
    """Return a function that plans the load of the folder on the CPU."""
    facts = EngineFacts(own=CudaAvailability(has_torch=True))

    def plan(speculation: Any, draft: str | None = None, ranks: int = 1) -> LoadPlan:
        stored = describe_folder(read_folder(folder))
        paths = find_paths({"INGLE_HOME": str(ingle_home)})
        config = Config(paths=paths, speculation=speculation, tensor_parallel=ranks)
        planner = ModelLoadPlanner(config, lambda _: stored, lambda: facts)
        options = LoadOptions(context=512, draft=draft, kv_type=KVType.F32)
        return planner(stored, options, available=MemoryNeeds(64 * _GIB))

    return plan


@pytest.fixture
def load() -> Iterator[Any]:
    """Return a function that loads what a specification says, with a tokenizer of bytes."""
    made: list[CudaModelRunner] = []

    def load(spec: LoadSpec, **changes: Any) -> CudaModelRunner:
        source = ModelSource(open_model(Path(spec.path)), ByteTokenizer())
        fields = {name: getattr(spec, name) for name in ("path", "draft_path", "speculation")}
        values: dict[str, Any] = {
            **fields,
            "kv_type": KVType.F32,
            "context": 512,
            "slots": 6,
            **changes,
        }
        small = LoadSpec(engine="cuda", device="cpu", threads=1, **values)
        made.append(open_model_runner(small, source=source))
        return made[-1]

    yield load
    for runner in made:
        runner.close()


def test_a_head_is_planned_where_it_may_pay(folder: Path, plan: Any, load: Any) -> None:
    alone, asked, named = plan("auto"), plan("draft"), plan("auto", str(folder))
    assert (alone.draft, alone.spec.draft_path) == ("", None), "a CPU verifies slowly"
    assert plan("draft", "off").spec.draft_path is None
    for each in (asked, named):
        assert (each.draft, each.spec.draft_path) == (OWN_HEAD, each.spec.path)
        assert each.needs == alone.needs + each.draft_needs
    plain, headed = (load(each.spec, slots=8).info() for each in (alone, named))
    added = headed.weights_bytes - plain.weights_bytes + headed.kv_bytes - plain.kv_bytes
    assert asked.draft_needs.host == pytest.approx(added, rel=0.03)


def test_no_head_is_planned_for_a_divided_model(plan: Any) -> None:
    divided = plan("draft", ranks=2)
    assert (divided.spec.tensor_parallel, divided.spec.draft_path) == (2, None)


class LinearCosts(StepCosts):
    """Steps that take as long as they have tokens."""

    def observe(self, tokens: int, seconds: float) -> None:
        super().observe(tokens, float(tokens))


def test_a_head_drafts_once_it_is_paired(plan: Any, load: Any) -> None:
    (text,) = run(Engine(load(plan("auto").spec)), sequences(60, greedy=True))
    spec = plan("draft").spec
    drafter = open_drafter(spec, runner := load(spec), StepCosts())
    costs = StepCosts()
    for size in range(1, 18):
        costs.observe(size, 1.0)
    engine = Engine(runner, AdaptiveSpeculator(context=512, costs=costs, model=drafter))
    assert run(engine, sequences(60, greedy=True)) == [text]
    gauges = engine.gauges()
    assert gauges.accepted_tokens_total == gauges.drafted_tokens_total > 10


def test_a_head_that_cannot_pay_is_freed(plan: Any, load: Any) -> None:
    plain = load(plan("auto").spec)
    spec = msgspec.structs.replace(plan("draft").spec, speculation="auto")
    runner = load(spec)
    assert runner.info().kv_bytes > plain.info().kv_bytes
    with pytest.raises(LoadFailed, match="The head is not used"):
        open_drafter(spec, runner, LinearCosts())
    assert runner.info() == plain.info()
    assert run(Engine(runner), sequences()) == run(Engine(plain), sequences())


def test_a_head_of_a_gguf_file_is_the_same(model: HeadedModel, memory_weights: Any) -> None:
    config = model.model.config
    head = model.source.files.head
    assert head is not None
    whole = with_mtp_layer(config)
    written = {name_in_gguf(name, whole): head.weights.get(name) for name in head.weights.names}
    last = f"blk.{config.num_layers}"
    assert f"{last}.nextn.eh_proj.weight" in written
    written |= {f"{last}.nextn.embed_tokens.weight": written[f"{last}.nextn.enorm.weight"]}
    found = find_mtp_head(memory_weights(written), config, GGUFTensorNames)
    assert found is not None
    assert found.config == head.config
    assert set(found.weights.names) == set(head.weights.names)
    for name in found.weights.names:
        assert cast("Any", found.weights.get(name)).equal(head.weights.get(name))


def _write_head(model: HeadedModel, path: Path) -> None:
    """Write a GGUF file as llama.cpp's converter does with `--mtp`."""
    config, head = model.model.config, model.source.files.head
    assert head is not None
    whole, weights = head.config, model.source.files.weights
    parts = {name_in_gguf(name, whole): head.weights.get(name) for name in head.weights.names}
    parts |= {name: weights.get(name) for name in ("token_embd.weight", "output_norm.weight")}
    arrays = {name: cast("torch.Tensor", part).float().numpy() for name, part in parts.items()}
    planned = [PlannedTensor(name, part.shape[::-1], "F32") for name, part in arrays.items()]
    pairs = model_pairs(path.parent, whole, 1)
    pairs[f"{config.architecture}.nextn_predict_layers"] = 1
    header = encode_header([encode_pair(*pair) for pair in pairs.items()], planned)
    data = b"".join(part.tobytes().ljust(padded(part.nbytes), b"\0") for part in arrays.values())
    path.write_bytes(header + data)


def test_a_head_in_a_file_of_its_own_is_found_by_its_name(
    model: HeadedModel, load: Any, ingle_home: Path, tmp_path: Path
) -> None:
    """As heads of GGUF files are published; its memory is that which the runner takes."""
    folder, path = tmp_path / "random-8b", tmp_path / "mtp-Random-8B-F32.gguf"
    _save(model, folder)
    (folder / "tokenizer.json").write_text(json.dumps({"model": {"vocab": {"a": 0}}}))
    _write_head(model, path)
    place = Place("a folder", tmp_path, find_in_plain_folder)
    store = ModelStore(ingle_home / "models", Catalog.load(), places=(place,))
    (stored,), (unusable,) = store.list(), store.unusable()
    assert "a head that drafts for a model" in unusable.reason
    facts = EngineFacts(own=CudaAvailability(has_torch=True))
    config = Config(paths=find_paths({"INGLE_HOME": str(ingle_home)}), speculation="draft")
    planner = ModelLoadPlanner(config, store.resolve, lambda: facts, find_heads=store.find_heads)
    found, named = (
        planner(
            stored,
            LoadOptions(context=512, draft=draft, kv_type=KVType.F32),
            available=MemoryNeeds(64 * _GIB),
        )
        for draft in (None, str(path))
    )
    assert found.spec.draft_path == named.spec.draft_path == str(path)
    plain, headed = (load(found.spec, slots=8, **each) for each in ({"draft_path": None}, {}))
    added = headed.info().weights_bytes - plain.info().weights_bytes
    added += headed.info().kv_bytes - plain.info().kv_bytes
    assert found.draft_needs.host == pytest.approx(added, rel=0.03)
    drafting = headed_engine(headed)
    texts = (run(engine, sequences(greedy=True)) for engine in (drafting, Engine(plain)))
    assert next(texts) == next(texts)
    gauges = drafting.gauges()
    assert gauges.accepted_tokens_total > 0.99 * gauges.drafted_tokens_total > 5
    other = replace(model.model.config, num_heads=8)
    with pytest.raises(UnsupportedModel, match="head of another model"):
        read_mtp_file(path, other)


def _save(model: EagleModel | HeadedModel, folder: Path) -> None:
    """Write the model that a head belongs to."""
    folder.mkdir(exist_ok=True)
    tensors = {name: part.clone() for name, part in model.model.raw.tensors.items()}
    save_file(tensors, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(model.model.settings))


def test_an_eagle_head_is_planned_by_its_name(
    make_random_model: Any, load: Any, ingle_home: Path, tmp_path: Path
) -> None:
    """Found beside the model, or named; its memory is that which the runner takes."""
    made = EagleModel(make_random_model("llama", **EAGLE_SIZES))
    _save(made, path := tmp_path / "random-8b")
    (path / "tokenizer.json").write_text(json.dumps({"model": {"vocab": {"a": 0}}}))
    head = made.save(tmp_path / "Random-8B-EAGLE3")
    with pytest.raises(UnsupportedModel, match="a draft head, not a model"):
        read_folder(head)
    place = Place("a folder", tmp_path, find_in_plain_folder)
    store = ModelStore(ingle_home / "models", Catalog.load(), places=(place,))
    (stored,) = store.list()
    paths = find_paths({"INGLE_HOME": str(ingle_home)})
    facts = EngineFacts(own=CudaAvailability(has_torch=True))

    def plan(draft: str | None, speculation: Any = "auto") -> LoadPlan:
        config = Config(paths=paths, speculation=speculation)
        planner = ModelLoadPlanner(
            config, store.resolve, lambda: facts, find_heads=store.find_heads
        )
        options = LoadOptions(context=512, draft=draft, kv_type=KVType.F32)
        return planner(stored, options, available=MemoryNeeds(64 * _GIB))

    alone, found, named = plan(None), plan(None, "draft"), plan(str(head))
    assert (alone.draft, alone.spec.draft_path) == ("", None)
    for each in (found, named):
        assert each.spec.draft_path == str(head)
        assert "eagle3" in each.draft.lower()
    plain, headed = (load(each.spec, slots=8).info() for each in (alone, named))
    added = headed.weights_bytes - plain.weights_bytes + headed.kv_bytes - plain.kv_bytes
    assert named.draft_needs.host == pytest.approx(added, rel=0.03)


@pytest.mark.slow
def test_commands_say_what_drafts(
    make_random_model: Any, make_folder: Any, ingle_home: Path, tmp_path: Path
) -> None:
    made = EagleModel(make_random_model("llama", **EAGLE_SIZES))
    made.become_cycle()
    folder: Path = make_folder("random-8b")  # for its tokenizer
    for file in folder.glob("*.safetensors*"):
        file.unlink()
    _save(made, folder)
    made.save(tmp_path / "Random-8B-EAGLE3")
    environ = {
        **os.environ,
        "INGLE_HOME": str(ingle_home),
        "INGLE_PORT": "-1",
        "INGLE_MODEL_FOLDERS": str(tmp_path),
        "INGLE_SPECULATION": "draft",
    }
    program = str(Path(sysconfig.get_path("scripts")) / "ingle")

    def ingle(*words: str) -> str:
        command = [program, *words]
        return subprocess.run(
            command, env=environ, capture_output=True, text=True, check=True, timeout=240
        ).stdout

    try:
        assert "draft model   random-8b-eagle3" in ingle("show", "random-8b")
        ingle("run", "random-8b", "--raw", "ab", "--max-tokens", "100", "--temperature", "0")
        (loaded,) = json.loads(ingle("ps", "--json"))["models"]
        assert Path(loaded["draft"]).name == "Random-8B-EAGLE3"
        assert loaded["drafted_tokens_total"] == loaded["accepted_tokens_total"]
        assert "draft model   Random-8B-EAGLE3" in ingle("show", "random-8b")
    finally:
        ingle("stop")
