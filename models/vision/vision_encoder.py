"""The interface of picture encoders, and what they make of a picture."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from .pixels import Pixels
from .vision_tower import VisionTower


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


class VisionEncoder(Protocol):
    """Turns pictures into tokens of one text model."""

    @property
    def tower(self) -> VisionTower:
        """What computes the patches."""
        ...

    def encode(self, pixels: Pixels) -> list[str | SeenTokens]:
        """The picture's tokens, and the text around and between them, in order."""
        ...
