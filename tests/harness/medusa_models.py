"""Random models with Medusa heads in a folder, and a reference of what the heads compute."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file  # pyright: ignore[reportUnknownVariableType]
from torch.nn import functional

from tests.harness import headed_models
from tests.harness.headed_models import TargetModel

HEADS, LAYERS = 3, 2
SIZES = {**headed_models.SIZES, "num_hidden_layers": 2}
_SIZE = SIZES["hidden_size"]


class MedusaModel(TargetModel):
    """A random model, and the tensors of its heads as checkpoints have them."""

    def __init__(self, model: Any) -> None:
        super().__init__(model)
        random = torch.Generator().manual_seed(17)
        self.tensors: dict[str, torch.Tensor] = {}
        for head in range(HEADS):
            for layer in range(LAYERS):
                matrix = torch.randn(_SIZE, _SIZE, generator=random) / 8
                self.tensors[f"{head}.{layer}.linear.weight"] = matrix
                self.tensors[f"{head}.{layer}.linear.bias"] = torch.randn(_SIZE, generator=random)
            rows = torch.randn(SIZES["vocab_size"], _SIZE, generator=random) / 8
            self.tensors[f"{head}.{LAYERS}.weight"] = rows
        self.settings: dict[str, Any] = {
            "medusa_num_heads": HEADS,
            "medusa_num_layers": LAYERS,
            "base_model_name_or_path": "random/Random-8B",
        }

    def save(self, folder: Path) -> Path:
        """Write the heads into a folder as they are published."""
        folder.mkdir()
        save_file(self.tensors, folder / "medusa_lm_head.safetensors")
        (folder / "config.json").write_text(json.dumps(self.settings))
        return folder

    def reference(self, hidden: torch.Tensor, head: int) -> torch.Tensor:
        """Logits of a head, written down from the paper."""
        for layer in range(LAYERS):
            name = f"{head}.{layer}.linear"
            bias = self.tensors[f"{name}.bias"]
            hidden = hidden + functional.silu(hidden @ self.tensors[f"{name}.weight"].T + bias)
        return hidden @ self.tensors[f"{head}.{LAYERS}.weight"].T

    def become_cycle(self) -> None:
        """Let token after token of a cycle follow, which each head reads off the hidden state."""
        unit = torch.eye(_SIZE)
        self.silence()
        with torch.no_grad():
            self.module.model.norm.weight.fill_(1)
            self.module.model.embed_tokens.weight.zero_()[:_SIZE] = _SIZE**0.5 * unit
            self.module.lm_head.weight.zero_()[:_SIZE] = 4 * unit.roll(1, 0)
        for name, part in self.tensors.items():
            part.zero_()
            if name.endswith(f".{LAYERS}.weight"):
                part[:_SIZE] = 4 * unit.roll(2 + int(name[0]), 0)

    def repeat_the_model(self) -> None:
        """Let each head have the logits of the model."""
        for name, part in self.tensors.items():
            is_output = name.endswith(f".{LAYERS}.weight")
            part.copy_(self.module.lm_head.weight if is_output else torch.zeros_like(part))
