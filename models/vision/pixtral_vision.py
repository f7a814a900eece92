"""The encoder of Pixtral and Mistral 3: any size, RoPE on two axes, and a text token a row."""

from __future__ import annotations

import math

import torch
from torch.nn import functional

from .pixels import Pixels, normalized, resized
from .vision_config import VisionConfig
from .vision_encoder import SeenTokens, VisionEncoder
from .vision_tower import Turns
from .vision_weights import VisionWeights


class PixtralVision(VisionEncoder):
    """See `VisionEncoder`; squares of `merge` patches a side are one token."""

    def __init__(self, config: VisionConfig, weights: VisionWeights) -> None:
        super().__init__(config, weights)
        width, text = config.hidden_size, config.text_width
        self._merger = None
        if config.merge > 1:
            self._norm = weights.norm("mm.input_norm", width, config.projector_epsilon)
            self._merger = weights.linear("mm.patch_merger", width, width * config.merge**2)
        self._first = weights.linear("mm.1", text, width)
        self._second = weights.linear("mm.2", text, text)

    def encode(self, pixels: Pixels) -> list[str | SeenTokens]:
        """See `VisionEncoder`."""
        config = self._config
        height, width = self._size(*pixels.shape[:2])
        scaled = resized(pixels, height, width, "BICUBIC")
        inputs = normalized(scaled, config.mean, config.std, self._device)
        grid = height // config.patch_size, width // config.patch_size
        rows = self.tower(self.tower.embed(inputs), self._turns(*grid))
        columns = grid[1] // config.merge
        if self._merger is not None:
            image = self._norm(rows).T.reshape(1, -1, *grid)
            squares = functional.unfold(image, config.merge, stride=config.merge)
            rows = self._merger(squares[0].T)
        found = self._second(functional.gelu(self._first(rows)))
        parts: list[str | SeenTokens] = []
        for row in torch.split(found, columns):
            parts += SeenTokens(row), "[IMG_BREAK]"
        return [*parts[:-1], "[IMG_END]"]

    def _size(self, height: int, width: int) -> tuple[int, int]:
        """The height and width that are encoded: within `longest`, and of whole tokens."""
        ratio = max(height, width) / self._config.longest
        if ratio > 1:
            height, width = math.floor(height / ratio), math.floor(width / ratio)
        unit = self._config.patch_size * self._config.merge
        return max(1, -(-height // unit)) * unit, max(1, -(-width // unit)) * unit

    def _turns(self, height: int, width: int) -> Turns:
        """RoPE of a grid of patches: even frequencies by the row, odd ones by the column."""
        size = self._config.hidden_size // self._config.num_heads
        steps = torch.arange(0, size, 2, device=self._device).float()
        frequencies = self._config.rope_theta ** (-steps / size)
        down = torch.arange(height, device=self._device).float()[:, None] * frequencies[::2]
        along = torch.arange(width, device=self._device).float()[:, None] * frequencies[1::2]
        angles = torch.cat((down.repeat_interleave(width, 0), along.repeat(height, 1)), -1)
        return angles.cos(), angles.sin()
