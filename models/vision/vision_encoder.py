"""What all picture encoders have, and what they make of a picture."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from .pixels import Pixels
from .vision_config import VisionConfig
from .vision_tower import VisionTower
from .vision_weights import VisionWeights


class SeenTokens(NamedTuple):
    """A picture, or a tile of one, as embeddings (tokens, text_width) fp32 of consecutive tokens.

    Where positions have several axes, `axes` (tokens, 4) has those of each token, relative to the
    first, and the text behind continues `positions` after that. Tokens that are `whole` attend to
    each other.
    """

    embeddings: torch.Tensor
    whole: bool = False
    positions: int | None = None
    axes: NDArray[np.int32] | None = None


class VisionEncoder(ABC):
    """Turns pictures into tokens of one text model."""

    def __init__(self, config: VisionConfig, weights: VisionWeights) -> None:
        self.tower = VisionTower(config, weights)
        """What computes the patches."""
        self._config = config
        self._device = weights.device

    @abstractmethod
    def encode(self, pixels: Pixels) -> list[str | SeenTokens]:
        """The picture's tokens, and the text around and between them, in order."""
