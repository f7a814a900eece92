"""Pixels of pictures: resized as Pillow does it, and normalised."""

from __future__ import annotations

from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

Pixels = NDArray[np.uint8]
"""(height, width, 3), red first."""


def resized(
    pixels: Pixels, height: int, width: int, by: Literal["BILINEAR", "BICUBIC", "LANCZOS"]
) -> Pixels:
    """The picture in another size."""
    from PIL import Image

    if pixels.shape[:2] == (height, width):
        return pixels
    found = Image.fromarray(pixels).resize((width, height), Image.Resampling[by])
    return np.asarray(found)


def normalized(
    pixels: Pixels, mean: tuple[float, ...], std: tuple[float, ...], device: torch.device
) -> torch.Tensor:
    """(3, height, width) fp32: colours from 0 to 1, less `mean`, divided by `std`."""
    found = (pixels * np.float64(1 / 255) - np.array(mean)) / np.array(std)
    return torch.as_tensor(found.astype(np.float32)).permute(2, 0, 1).to(device)
