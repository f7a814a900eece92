"""The encoder of Idefics3 and SmolVLM: SigLIP on tiles, whose patches are shuffled into tokens."""

from __future__ import annotations

import math

from .pixels import Pixels, normalized, resized
from .vision_config import VisionConfig
from .vision_encoder import SeenTokens, VisionEncoder
from .vision_weights import VisionWeights

_MARK = "<fake_token_around_image>"


class Idefics3Vision(VisionEncoder):
    """See `VisionEncoder`; a larger picture is cut into tiles, behind which it comes as a whole."""

    def __init__(self, config: VisionConfig, weights: VisionWeights) -> None:
        super().__init__(config, weights)
        joined = config.hidden_size * config.merge**2
        self._projection = weights.linear("mm.model.fc", config.text_width, joined)

    def encode(self, pixels: Pixels) -> list[str | SeenTokens]:
        """See `VisionEncoder`."""
        side = self._config.image_size
        parts: list[str | SeenTokens] = []
        if self._config.longest:
            large = _tiled(pixels, self._config.longest, side)
            rows, columns = (size // side for size in large.shape[:2])
            if rows * columns > 1:
                for row in range(rows):
                    for column in range(columns):
                        tile = large[row * side :][:side, column * side :][:, :side]
                        before = "\n" if row and not column else ""
                        parts.append(f"{before}{_MARK}<row_{row + 1}_col_{column + 1}>")
                        parts.append(self._tokens(tile))
                parts.append("\n\n")
            pixels = large
        parts.append(f"{_MARK}<global-img>")
        parts += self._tokens(resized(pixels, side, side, "LANCZOS")), _MARK
        return parts

    def _tokens(self, tile: Pixels) -> SeenTokens:
        config, merge = self._config, self._config.merge
        inputs = normalized(tile, config.mean, config.std, self._device)
        rows = self.tower(self.tower.embed(inputs))
        side = config.image_size // config.patch_size // merge
        grid = rows.view(side, merge, side, merge, -1).transpose(1, 2)
        return SeenTokens(self._projection(grid.reshape(side * side, -1)))


def _tiled(pixels: Pixels, longest: int, side: int) -> Pixels:
    """The picture, its longest side as many tiles as `longest` has, the other one rounded up."""
    height, width = pixels.shape[:2]
    shape = width / height
    # As transformers does it, in two steps, each of which rounds.
    if width >= height:
        height, width = _even(int(longest / shape)), longest
    else:
        height, width = longest, _even(int(longest * shape))
    pixels = resized(pixels, max(height, 1), max(width, 1), "LANCZOS")
    height, width = pixels.shape[:2]
    shape = width / height
    if width >= height:
        width = math.ceil(width / side) * side
        height = math.ceil(int(width / shape) / side) * side
    else:
        height = math.ceil(height / side) * side
        width = math.ceil(int(height * shape) / side) * side
    return resized(pixels, max(height, side), max(width, side), "LANCZOS")


def _even(size: int) -> int:
    return size + size % 2
