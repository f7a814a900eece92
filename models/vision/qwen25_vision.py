"""The encoder of Qwen2.5-VL: any size, attention mostly in windows, positions on three axes."""

from __future__ import annotations

import math
from collections import defaultdict

import numpy as np
import torch
from torch.nn import functional

from ..errors import UnsupportedModel
from .pixels import Pixels, normalized, resized
from .vision_config import VisionConfig
from .vision_encoder import SeenTokens, VisionEncoder
from .vision_tower import Segments, Turns
from .vision_weights import VisionWeights

_MOST_ELONGATED = 200


class Qwen25Vision(VisionEncoder):
    """See `VisionEncoder`; squares of `merge` patches a side are one token."""

    def __init__(self, config: VisionConfig, weights: VisionWeights) -> None:
        super().__init__(config, weights)
        joined = config.hidden_size * config.merge**2
        self._first = weights.linear("mm.0", joined, joined)
        self._second = weights.linear("mm.2", config.text_width, joined)

    def encode(self, pixels: Pixels) -> list[str | SeenTokens]:
        """See `VisionEncoder`."""
        config, merge = self._config, self._config.merge
        height, width = self._size(*pixels.shape[:2])
        scaled = resized(pixels, height, width, "BICUBIC")
        inputs = normalized(scaled, config.mean, config.std, self._device)
        grid = height // config.patch_size, width // config.patch_size
        windows = self._windows(*grid) if config.window else None
        rows = self.tower(
            self.tower.embed(inputs),
            self._turns(*grid),
            lambda layer: None if layer in config.full_layers else windows,
        )
        down, along = grid[0] // merge, grid[1] // merge
        squares = rows.view(down, merge, along, merge, -1).transpose(1, 2)
        squares = squares.reshape(down * along, -1)
        found = self._second(functional.gelu(self._first(squares)))
        axes = np.zeros((down * along, 4), np.int32)
        axes[:, 1], axes[:, 2] = np.divmod(np.arange(down * along), along)
        seen = SeenTokens(found, positions=max(down, along), axes=axes)
        return ["<|vision_start|>", seen, "<|vision_end|>"]

    def _size(self, height: int, width: int) -> tuple[int, int]:
        """The height and width that are encoded: of whole tokens, and within the bounds."""
        config, unit = self._config, self._config.patch_size * self._config.merge
        if max(height, width) > _MOST_ELONGATED * min(height, width):
            raise UnsupportedModel("The picture is too narrow for this model.")
        area = height * width
        found = [round(side / unit) * unit for side in (height, width)]
        if math.prod(found) > config.most_pixels:
            by = math.sqrt(area / config.most_pixels)
            found = [max(unit, math.floor(side / by / unit) * unit) for side in (height, width)]
        elif math.prod(found) < config.least_pixels:
            by = math.sqrt(config.least_pixels / area)
            found = [math.ceil(side * by / unit) * unit for side in (height, width)]
        return found[0], found[1]

    def _turns(self, height: int, width: int) -> Turns:
        """RoPE of a grid of patches: the first half of the pairs by the row, the rest by column."""
        half = self._config.hidden_size // self._config.num_heads // 2
        steps = torch.arange(0, half, 2, device=self._device).float()
        frequencies = self._config.rope_theta ** (-steps / half)
        down = torch.arange(height, device=self._device).float()[:, None] * frequencies
        along = torch.arange(width, device=self._device).float()[:, None] * frequencies
        angles = torch.cat((down.repeat_interleave(width, 0), along.repeat(height, 1)), -1)
        return angles.cos(), angles.sin()

    def _windows(self, height: int, width: int) -> Segments:
        """The patches of each window, those of equal windows together."""
        config = self._config
        side = config.window // config.patch_size // config.merge * config.merge
        places = torch.arange(height * width, device=self._device).view(height, width)
        found: defaultdict[int, list[torch.Tensor]] = defaultdict(list)
        for band in torch.split(places, side):
            for window in torch.split(band, side, 1):
                found[window.numel()].append(window.flatten())
        return [torch.stack(windows) for windows in found.values()]
