"""Forecasts of whether catalog models and local files fit into memory."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import gguf
import numpy as np
import pytest

from ingle.backends.registry.cuda_availability import CudaAvailability
from ingle.backends.selection.engine_facts import EngineFacts
from ingle.daemon.load_planning.fit_forecast import FitForecaster, ModelFit, rough_fit
from ingle.daemon.load_planning.load_planner import ModelLoadPlanner
from ingle.daemon.settings.config import Config
from ingle.daemon.settings.paths import find_paths
from ingle.models.catalog import Catalog, CatalogEntry
from ingle.models.fit.memory_needs import MemoryNeeds
from ingle.models.fit.model_shape import ShapeNumbers, shape_of
from ingle.models.gguf.gguf_header import read_header
from ingle.models.metadata.manifest import describe_file

GB = 10**9
WITHOUT_GPU = EngineFacts(own=CudaAvailability())
GPU = EngineFacts(
    own=CudaAvailability(has_torch=True, gpu_memory=12 * GB, capability=(8, 9)),
    gpu_name="RTX 4070",
    llama_offloads=True,
)


@pytest.fixture
def forecaster(ingle_home: Path) -> Callable[[EngineFacts], FitForecaster]:
    config = Config(paths=find_paths({"INGLE_HOME": str(ingle_home)}))

    def make(facts: EngineFacts) -> FitForecaster:
        def resolve(name: str) -> None:
            raise AssertionError(name)

        return FitForecaster(ModelLoadPlanner(config, resolve, lambda: facts))  # pyright: ignore[reportArgumentType]

    return make


MakeForecaster = Callable[[EngineFacts], FitForecaster]


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


def _write(path: Path, width: int) -> None:
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(1)
    writer.add_context_length(4096)
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
