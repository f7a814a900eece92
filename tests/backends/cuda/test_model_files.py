"""Model files as the engine opens them: folders, and weights that are quantised on the way."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file  # pyright: ignore[reportUnknownVariableType]

from ingle.backends.cuda.model_files import ModelFiles, open_model
from ingle.models.errors import InvalidModel
from ingle.models.layers.full_attention import FullAttention
from ingle.models.layers.transformer import Transformer

CPU = torch.device("cpu")
WIDTH, WIDER, VOCAB, LAYERS = 128, 256, 64, 2
CONFIG: dict[str, object] = {
    "model_type": "llama",
    "hidden_size": WIDTH,
    "intermediate_size": WIDER,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "num_hidden_layers": LAYERS,
    "vocab_size": VOCAB,
    "tie_word_embeddings": True,
}
LINEAR = {
    "self_attn.q_proj": (WIDTH, WIDTH),
    "self_attn.k_proj": (WIDTH // 2, WIDTH),
    "self_attn.v_proj": (WIDTH // 2, WIDTH),
    "self_attn.o_proj": (WIDTH, WIDTH),
    "mlp.gate_proj": (WIDER, WIDTH),
    "mlp.up_proj": (WIDER, WIDTH),
    "mlp.down_proj": (WIDTH, WIDER),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A small Llama with random weights."""
    random = torch.Generator().manual_seed(1)
    shapes = {"embed_tokens": (VOCAB, WIDTH), "norm": (WIDTH,)}
    for layer in range(LAYERS):
        norms = dict.fromkeys(("input_layernorm", "post_attention_layernorm"), (WIDTH,))
        shapes |= {f"layers.{layer}.{name}": shape for name, shape in {**LINEAR, **norms}.items()}
    tensors = {
        f"model.{name}.weight": torch.randn(shape, generator=random).bfloat16() * 0.1
        for name, shape in shapes.items()
    }
    save_file(tensors, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    (tmp_path / "tokenizer.json").write_text("{}")
    return tmp_path


LINEAR_WEIGHTS = LAYERS * sum(rows * columns for rows, columns in LINEAR.values())
OTHERS = VOCAB * WIDTH + (2 * LAYERS + 1) * WIDTH


def test_a_folder_is_opened(folder: Path) -> None:
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


def never(_size: int) -> bool:
    return False


def test_weights_are_quantised_while_they_are_loaded(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = open_model(folder)
    plain = files.load(CPU, torch.float32)
    floats = files.load(CPU, torch.float32, quantize="nf4")
    assert floats.bytes == plain.bytes
    monkeypatch.setattr(ModelFiles, "_fits", staticmethod(never))
    packed = files.load(CPU, torch.float32, quantize="nf4")
    assert packed.bytes < 2 * OTHERS + 0.6 * LINEAR_WEIGHTS
    expected, found = logits(floats.model), logits(packed.model)
    assert torch.allclose(found, expected, rtol=1e-4, atol=1e-4)
    assert not torch.allclose(logits(plain.model), expected, rtol=1e-2, atol=1e-2)
