"""Medusa heads: each predicts one of the tokens that follow from the model's last hidden state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch.nn.functional import silu

from ingle.kernels.operations import Operations

from ..config.model_config import ModelConfig
from ..layers.attention import AttentionContext
from ..layers.parameters import Parameters
from ..layers.picture_input import PictureInput
from ..safetensors.folder_files import MEDUSA_WEIGHTS
from ..weights.safetensors_weights import SafetensorsWeights
from .draft_head import DraftHead
from .head_files import HeadFiles, RenamedWeights
from .medusa_settings import MedusaSettings, read_medusa_settings

if TYPE_CHECKING:
    from ..layers.transformer import Transformer


@dataclass(frozen=True)
class MedusaFiles(HeadFiles):
    """The files of Medusa heads; `config` is that of their model."""

    settings: MedusaSettings


def open_medusa_heads(path: Path, target: ModelConfig) -> MedusaFiles:
    """The heads in a folder, for a model; raises `ModelError` where they do not match."""
    settings = read_medusa_settings(path)
    settings.check_fits(target)
    file = path / MEDUSA_WEIGHTS
    stored = {name: (file, tensor) for name, tensor in settings.tensors.items()}
    weights = RenamedWeights(SafetensorsWeights(path, stored), settings.names)
    return MedusaFiles(target, weights, f"Medusa heads {path.name}", settings)


class MedusaHead(DraftHead):
    """Head k takes the hidden state, adds what its residual layers make of it, and projects it.

    All heads read the state at the last computed token, and have no keys and values.
    """

    def __init__(
        self,
        files: MedusaFiles,
        model: Transformer,
        *,
        device: torch.device,
        operations: Operations,
    ) -> None:
        """Load them; raises as `Transformer`."""
        parameters = Parameters(files.weights, device=device, operations=operations)
        super().__init__(files, model, parameters)
        size, settings = files.config.hidden_size, files.settings
        self.watched = (files.config.num_layers - 1,)
        self.most_drafts = settings.heads
        self._layers = [
            [
                parameters.linear(f"{head}.{layer}.linear", size, size)
                for layer in range(settings.layers)
            ]
            for head in range(settings.heads)
        ]
        self._outputs = [
            parameters.linear(f"{head}.{settings.layers}", settings.rows, size)
            for head in range(settings.heads)
        ]
        parameters.check_all_taken()

    def features(self, residuals: Sequence[torch.Tensor]) -> torch.Tensor:
        """What the model's output layer reads."""
        return self._model.output_norm.as_tensor(residuals[0])

    def append(
        self,
        token_ids: torch.Tensor,
        features: torch.Tensor,
        positions: torch.Tensor,
        context: AttentionContext,
        pictures: PictureInput | None = None,
    ) -> None:
        """See `DraftHead`: nothing is kept."""

    def step(
        self,
        token_ids: torch.Tensor,
        features: torch.Tensor,
        positions: torch.Tensor,
        context: AttentionContext,
        drafted: int = 0,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """See `DraftHead`; the tokens do not matter."""
        del token_ids, positions, context
        operations, rows = self._operations, features
        for layer in self._layers[drafted]:
            (found,) = operations.linear(operations.activations(rows), layer)
            rows = rows + silu(found)
        x, output = operations.activations(rows), self._outputs[drafted]
        return operations.linear(x, output, dtype=torch.float32)[0], features
