"""Opening model files: safetensors folders, and quantisation while loading."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file  # pyright: ignore[reportUnknownVariableType]

from ingle.backends.cuda.model_files import ModelFiles, open_model
from ingle.kernels.operations import Operations
from ingle.models.errors import InvalidModel
from ingle.models.layers.transformer import Transformer
from tests.harness.full_attention import FullAttention

CPU = torch.device("cpu")
EXACT = Operations(torch.float32)
WIDTH, WIDER, VOCAB, LAYERS = 128, 256, 258, 2
LINEAR_WEIGHTS = LAYERS * (3 * WIDTH * WIDTH + 3 * WIDER * WIDTH)
OTHERS = VOCAB * WIDTH + (2 * LAYERS + 1) * WIDTH


@pytest.fixture
def folder(make_folder: Callable[..., Path]) -> Path:
    return make_folder()


def test_safetensors_folder_is_opened(folder: Path) -> None:
    files = open_model(folder)
    assert files.parameters == LINEAR_WEIGHTS + OTHERS
    assert files.config.num_layers == LAYERS
    (folder / "config.json").write_text("[]")
    with pytest.raises(InvalidModel, match="not a JSON object"):
        open_model(folder)


def logits(model: Transformer) -> torch.Tensor:
    tokens = torch.arange(20)
    rows = torch.tensor([19])
    return model.forward(tokens, tokens, FullAttention(model.config), rows)


def test_buffers_of_integers_are_left_out(folder: Path) -> None:
    expected = logits(open_model(folder).load(CPU, EXACT))
    index = folder / "model.safetensors.index.json"
    names = json.loads(index.read_text())
    buffers = "model.embeddings.position_ids", "model.layers.0.self_attn.seen"
    save_file(
        {name: torch.arange(64).expand(1, -1).contiguous() for name in buffers},
        folder / "buffers.safetensors",
    )
    names["weight_map"] |= dict.fromkeys(buffers, "buffers.safetensors")
    index.write_text(json.dumps(names))
    assert torch.equal(logits(open_model(folder).load(CPU, EXACT)), expected)


def never(_files: ModelFiles) -> bool:
    return False


def test_weights_are_quantised_while_loading(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = open_model(folder)
    plain = files.load(CPU, EXACT)
    floats = files.load(CPU, EXACT, quantize="nf4")
    assert floats.weights_bytes == plain.weights_bytes
    monkeypatch.setattr(ModelFiles, "_becomes_floats", never)
    packed = files.load(CPU, EXACT, quantize="nf4")
    assert packed.weights_bytes < 4 * OTHERS + 0.6 * LINEAR_WEIGHTS
    expected, found = logits(floats), logits(packed)
    assert torch.allclose(found, expected, rtol=1e-4, atol=1e-4)
    assert not torch.allclose(logits(plain), expected, rtol=1e-2, atol=1e-2)
