"""Folders of quantised safetensors: what is said of them, what they take, and that they run."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from ingle.backends.cuda.model_files import open_model
from ingle.backends.jobs.quantization.folder_source import FolderSource
from ingle.backends.registry.model_costs import ModelCosts
from ingle.kernels.formats.weight import FP8Tensor
from ingle.kernels.operations import Operations
from ingle.models.errors import InvalidModel, UnsupportedModel
from ingle.models.layers.transformer import Transformer
from ingle.models.metadata.manifest import describe_folder
from ingle.models.safetensors.model_folder import read_folder
from tests.harness.quantized_checkpoints import QUANTIZERS, awq, fp8, gptq, quantize_folder

MakeFolder = Callable[..., Path]
CPU = torch.device("cpu")
TITLES = {
    "awq": "AWQ",
    "gptq, 3 bits": "GPTQ-Int3",
    "packed, 8 bits": "W8A16",
    "int8": "W8A8",
    "fp8, block": "FP8",
    "nvfp4, modelopt": "NVFP4",
    "mxfp4": "MXFP4",
}


@pytest.mark.parametrize("kind", QUANTIZERS)
def test_weights_take_what_is_predicted(make_folder: MakeFolder, kind: str) -> None:
    folder = make_folder()
    plain = read_folder(folder)
    quantize_folder(folder, QUANTIZERS[kind])
    found = read_folder(folder)
    assert found.parameters == plain.parameters
    assert TITLES.get(kind, found.quantization) == found.quantization
    files = open_model(folder)
    model = Transformer(
        files.config, files.weights, device=CPU, operations=Operations(torch.bfloat16)
    )
    predicted = ModelCosts.of(found).stored
    assert files.stored_bytes == predicted
    assert abs(model.weights_bytes - predicted) < 0.03 * predicted
    entry = describe_folder(found)
    assert entry.quantization == found.quantization
    assert bool(entry.notes) == (predicted > 1.1 * found.tensor_bytes)


class FP8Operations(Operations):
    """Operations of a device that multiplies FP8."""

    def multiplies_fp8(self, weight: FP8Tensor) -> bool:
        return True


def test_fp8_stays_where_the_device_multiplies_it(make_folder: MakeFolder) -> None:
    folder = make_folder()
    quantize_folder(folder, fp8("channel"))
    predicted = ModelCosts.of(read_folder(folder))
    files = open_model(folder)
    kept, dequantised = (
        Transformer(files.config, files.weights, device=CPU, operations=operations(torch.bfloat16))
        for operations in (FP8Operations, Operations)
    )
    assert predicted.stored_in_fp8 < predicted.stored
    assert abs(kept.weights_bytes - predicted.stored_in_fp8) < 0.03 * predicted.stored_in_fp8
    assert abs(dequantised.weights_bytes - predicted.stored) < 0.03 * predicted.stored


def test_settings_beside_the_configuration(make_folder: MakeFolder) -> None:
    folder = make_folder()
    quantize_folder(folder, gptq())
    config = json.loads((folder / "config.json").read_text())
    settings = config.pop("quantization_config")
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(
        InvalidModel, match=r"neither config\.json nor quantize_config\.json says how"
    ):
        read_folder(folder)
    del settings["quant_method"]
    (folder / "quantize_config.json").write_text(json.dumps(settings))
    assert read_folder(folder).quantization == "GPTQ-Int4"
    (folder / "config.json").write_text(
        json.dumps({**config, "quantization_config": {**gptq(8).settings}})
    )
    with pytest.raises(InvalidModel, match=r"bits is 8, where quantize_config\.json says 4"):
        read_folder(folder)


def test_one_file_with_the_name_that_gptq_gives_it(make_folder: MakeFolder) -> None:
    folder = make_folder()
    quantize_folder(folder, awq())
    (folder / "model-00001-of-00002.safetensors").unlink()
    (folder / "model.safetensors.index.json").unlink()
    (folder / "model-00002-of-00002.safetensors").rename(
        folder / "gptq_model-4bit-128g.safetensors"
    )
    assert read_folder(folder).quantization == "AWQ"


def test_quantised_folders_are_not_quantised_again(make_folder: MakeFolder) -> None:
    folder = make_folder()
    quantize_folder(folder, fp8("channel"))
    with pytest.raises(UnsupportedModel, match="is quantised to FP8 already"):
        FolderSource(folder)


REFUSED = {
    "marlin": ({**gptq().settings, "checkpoint_format": "marlin"}, "the layout 'marlin'"),
    "gemv_fast": ({**awq().settings, "version": "gemv_fast"}, "in the layout 'gemv_fast'"),
    "sparse": (
        {
            "quant_method": "compressed-tensors",
            "format": "pack-quantized",
            "sparsity_config": {"format": "sparse-24-bitmask"},
        },
        "stores sparse matrices as 'sparse-24-bitmask'",
    ),
    "floats of six bits": (
        {
            "quant_method": "compressed-tensors",
            "format": "mxfp6-pack-quantized",
            "config_groups": {"a": {"weights": {"num_bits": 6, "type": "float"}}},
        },
        "floats of 6 bits as 'mxfp6-pack-quantized'",
    ),
    "rotations": (
        {
            "quant_method": "compressed-tensors",
            "config_groups": {},
            "transform_config": {"config_groups": {"u": {"type": "hadamard"}}},
        },
        "rotates its activations",
    ),
    "another method": ({"quant_method": "quip"}, "quantised by 'quip'"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_no_engine_reads_is_refused_with_a_way_out(make_folder: MakeFolder, kind: str) -> None:
    settings, message = REFUSED[kind]
    folder = make_folder(quantization_config=settings)
    with pytest.raises(UnsupportedModel, match=message) as refused:
        read_folder(folder)
    assert refused.value.hint is not None
    assert "Choose" in refused.value.hint
