"""Forecasts of whether catalog models and local files fit into memory."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import gguf
import msgspec
import numpy as np
import pytest

from ingle.backends.hardware.machine import Cpu
from ingle.backends.packages.engine_packages import all_engine_packages
from ingle.backends.registry.cuda_availability import CudaAvailability
from ingle.backends.selection.engine_facts import EngineFacts
from ingle.daemon.client.engine_types import EngineOffer
from ingle.daemon.doctor.system_state import SystemState
from ingle.daemon.engines.engine_offer import choose_offer
from ingle.daemon.load_planning.fit_forecast import FitForecaster, ModelFit, rough_fit
from ingle.daemon.load_planning.load_planner import ModelLoadPlanner
from ingle.daemon.settings.config import Config
from ingle.daemon.settings.paths import find_paths
from ingle.models.catalog import Catalog, CatalogEntry
from ingle.models.fit.memory_needs import MemoryNeeds
from ingle.models.fit.model_shape import ShapeNumbers, shape_of
from ingle.models.gguf.gguf_header import read_header
from ingle.models.metadata.manifest import describe_file
from ingle.models.metadata.stored_model import StoredModel

GB = 10**9
WITHOUT_GPU = EngineFacts(own=CudaAvailability())
GPU = EngineFacts(
    own=CudaAvailability(has_torch=True, gpu_memory=12 * GB, capability=(8, 9)),
    gpu_name="RTX 4070",
    llama_offloads=True,
)


WITHOUT_ENGINE = EngineFacts(
    own=CudaAvailability(gpu_memory=24 * GB, capability=(8, 9)),
    gpu_name="NVIDIA GeForce RTX 4090",
)
MakeForecaster = Callable[..., FitForecaster]


@pytest.fixture
def forecaster(ingle_home: Path) -> MakeForecaster:
    config = Config(paths=find_paths({"INGLE_HOME": str(ingle_home)}))

    def make(facts: EngineFacts, offer: EngineOffer | None = None) -> FitForecaster:
        def resolve(name: str) -> StoredModel:
            raise AssertionError(name)

        return FitForecaster(
            ModelLoadPlanner(config, resolve, lambda: facts, find_offer=lambda: offer)
        )

    return make


def offer_for(machine: bytes, *tools: str) -> EngineOffer | None:
    """What a recorded machine is offered if it has no engine yet."""
    gpus = msgspec.toml.decode(machine, type=SystemState).machine.gpus
    return choose_offer(gpus, tools, (), has_index=False)


RECORDED = [entry for entry in Catalog.load().entries if entry.shape is not None]


@pytest.mark.parametrize("entry", RECORDED, ids=lambda entry: entry.full_name)
def test_catalog_entries_with_a_shape_get_an_exact_forecast(
    entry: CatalogEntry, forecaster: MakeForecaster
) -> None:
    assert entry.shape is not None
    without_gpu = forecaster(WITHOUT_GPU).of_entry(entry, MemoryNeeds(16 * GB))
    assert (without_gpu.device, without_gpu.state) == ("cpu", "fits")
    assert entry.size * 0.98 < without_gpu.needs_bytes < entry.size + 3 * GB
    assert without_gpu.reason.startswith("llama.cpp on the CPU, since no GPU was found: ")
    gpu = forecaster(GPU).of_entry(entry, MemoryNeeds(16 * GB, 11 * GB))
    assert (gpu.device, gpu.state, gpu.free_bytes) == ("cuda", "fits", 11 * GB)
    none = forecaster(WITHOUT_GPU).of_entry(entry, MemoryNeeds(GB // 100))
    assert (none.state, none.context) == ("no", 0)


def test_offered_engine_counts_as_installed(
    machines: dict[str, bytes], forecaster: MakeForecaster
) -> None:
    """On an RTX 4090 without an engine, catalog models are those that would run on it."""
    offer, available = offer_for(machines["rtx-4090-game"]), MemoryNeeds(64 * GB, 23 * GB)
    offered, now = forecaster(WITHOUT_ENGINE, offer), forecaster(WITHOUT_ENGINE)
    on_gpu: list[str] = []
    for entry in RECORDED:
        assert now.of_entry(entry, available).device == "cpu"
        fit = offered.of_entry(entry, available)
        if fit.device == "cuda":
            on_gpu.append(entry.full_name)
            assert (fit.state, fit.free_bytes, fit.needs_engine) == ("fits", 23 * GB, "cuda")
            assert fit.reason.startswith(
                "With ingle's own engine (`ingle engine install cuda`): all "
            )
        else:
            assert fit == now.of_entry(entry, available)
    assert {"smollm2:135m", "qwen2.5-coder:1.5b"} <= set(on_gpu)
    installed = forecaster(WITHOUT_ENGINE.after_installing(all_engine_packages()["cuda"]), None)
    assert installed.of_entry(Catalog.load().default, available).needs_engine == ""


def test_offered_build_of_llama_cpp_runs_a_part(
    machines: dict[str, bytes], forecaster: MakeForecaster
) -> None:
    offer = offer_for(machines["gtx-1080"], "glslc")
    facts = EngineFacts(own=CudaAvailability(), gpu_name="NVIDIA GeForce GTX 1080")
    large = max(RECORDED, key=lambda entry: entry.size)
    fit = forecaster(facts, offer).of_entry(large, MemoryNeeds(32 * GB, large.size * 3 // 4))
    assert (fit.device, fit.state, fit.needs_engine) == ("cuda", "spills", "llama.cpp-vulkan")
    assert "`ingle engine install llama.cpp-vulkan`" in fit.reason


@pytest.mark.parametrize(
    ("name", "facts", "device", "state", "engine"),
    [
        ("qwen3:14b", WITHOUT_ENGINE, "cuda", "fits", "cuda"),
        ("qwen3:32b", WITHOUT_ENGINE, "cpu", "fits", ""),  # too large for the GPU alone
        ("gpt-oss:20b", WITHOUT_ENGINE, "cpu", "fits", ""),  # which has experts
        ("qwen3:14b", GPU, "cuda", "fits", ""),
        ("qwen3:32b", GPU, "cuda", "spills", ""),
    ],
)
def test_models_of_unknown_shape_count_with_usable_engines(
    name: str,
    facts: EngineFacts,
    device: str,
    state: str,
    engine: str,
    machines: dict[str, bytes],
    forecaster: MakeForecaster,
) -> None:
    entry = next(entry for entry in Catalog.load().entries if entry.full_name == name)
    assert entry.shape is None
    available = MemoryNeeds(64 * GB, 16 * GB)
    fit = forecaster(facts, offer_for(machines["rtx-4090-game"])).of_entry(entry, available)
    assert (fit.device, fit.state, fit.needs_engine, fit.reason) == (device, state, engine, "")
    if engine:
        assert forecaster(facts).of_entry(entry, available).device == "cpu"


def test_offer_is_looked_for_again_if_engines_change(ingle_home: Path) -> None:
    config = Config(paths=find_paths({"INGLE_HOME": str(ingle_home)}))
    offers = [EngineOffer(name="cuda", question="?", download_bytes=1), None]

    def resolve(name: str) -> StoredModel:
        raise AssertionError(name)

    planner = ModelLoadPlanner(
        config, resolve, lambda: WITHOUT_ENGINE, find_offer=lambda: offers.pop(0)
    )
    assert planner.offered is planner.offered is not None
    planner.forget_facts()
    assert planner.offered is None


@pytest.mark.model
def test_catalog_shape_matches_the_file_header(smollm2_path: Path) -> None:
    entry = Catalog.load().default
    header = read_header(smollm2_path)
    read = shape_of(header)
    assert entry.shape is not None
    again = entry.shape.shape(context=entry.context, parameters=entry.parameters)
    for name in ShapeNumbers.__struct_fields__:
        assert getattr(again, name) == getattr(read, name)
    assert len(again.layers) == len(read.layers)
    assert {layer.largest for layer in again.layers} == {
        max(layer.largest for layer in read.layers)
    }
    assert again.weights == read.weights == header.tensor_bytes
    assert again.key_elements == read.key_elements
    assert again.value_elements == read.value_elements


def test_header_is_reread_after_the_file_changed(
    tmp_path: Path, forecaster: MakeForecaster
) -> None:
    path = tmp_path / "model.gguf"
    fits = forecaster(WITHOUT_GPU)

    def forecast(width: int) -> ModelFit:
        _write(path, width)
        os.utime(path, ns=(width, width))
        return fits.of_model(describe_file(path, read_header(path)), MemoryNeeds(8 * GB))

    small, large = forecast(64), forecast(1024)
    assert small.needs_bytes < large.needs_bytes
    assert "context 4,096" in large.reason


def test_speeds_follow_the_bytes_of_a_token(forecaster: MakeForecaster) -> None:
    """By the recorded shape, or roughly by the size of the weights that a token needs."""
    cpu = Cpu(compute_threads=4, instruction_sets=["AVX2"], bandwidth=40e9)
    fits = forecaster(replace(WITHOUT_GPU, cpu=cpu))
    entries = [entry for entry in Catalog.load().entries if entry.task == "generate"]
    speeds = {
        e.full_name: fits.of_entry(e, MemoryNeeds(64 * GB)).tokens_per_second for e in entries
    }
    for entry in entries:
        speed = speeds[entry.full_name]
        assert speed is not None
        bytes_of_token = (
            entry.size * (entry.active_parameters or entry.parameters) / entry.parameters
        )
        assert 0.3 < speed * bytes_of_token / 40e9 < 1.0
    assert forecaster(WITHOUT_GPU).of_entry(entries[0], MemoryNeeds(GB)).tokens_per_second is None


def test_installed_model_is_rated_with_the_longest_context_too(
    tmp_path: Path, forecaster: MakeForecaster
) -> None:
    path = tmp_path / "model.gguf"
    _write(path, 64, context=65536)
    fit = forecaster(WITHOUT_GPU).of_model(
        describe_file(path, read_header(path)), MemoryNeeds(8 * GB)
    )
    assert (fit.context, fit.longest_context) == (16384, 65536)


def test_unreadable_file_gets_an_estimate(tmp_path: Path, forecaster: MakeForecaster) -> None:
    path = tmp_path / "model.gguf"
    _write(path, 64)
    model = describe_file(path, read_header(path))
    path.write_bytes(b"nothing")
    fit = forecaster(WITHOUT_GPU).of_model(model, MemoryNeeds(8 * GB))
    assert (fit.state, fit.reason) == ("fits", "")


@pytest.mark.parametrize(
    ("gpu", "size", "billions", "available", "device", "state"),
    [
        (0, 0.5, 0.63, 8, "cpu", "fits"),
        (0, 5.0, 8.0, 4, "cpu", "no"),
        (0, 4.0, 8.0, 4.05, "cpu", "no"),
        (12, 5.0, 8.0, 1, "cuda", "fits"),
        (12, 14.0, 24.0, 16, "cuda", "spills"),
        (12, 40.0, 70.0, 16, "cuda", "no"),
    ],
)
def test_rough_fit_estimates_from_the_size(
    gpu: int, size: float, billions: float, available: float, device: str, state: str
) -> None:
    free = MemoryNeeds(int(available * GB), gpu * GB)
    fit = rough_fit(int(size * GB), int(billions * GB), 32768, free)
    assert (fit.device, fit.state, fit.reason) == (device, state, "")
    assert fit.needs_bytes > size * GB
    assert bool(fit.context) == (state != "no")
    assert (fit.needs_bytes <= fit.free_bytes) == (state == "fits")


def _write(path: Path, width: int, context: int = 4096) -> None:
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(1)
    writer.add_context_length(context)
    writer.add_embedding_length(width)
    writer.add_feed_forward_length(width)
    writer.add_head_count(2)
    writer.add_head_count_kv(2)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(64)
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list([f"t{token}" for token in range(64)])
    writer.add_tensor("token_embd.weight", np.zeros((64, width), np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
