"""Copy arrays from the host to a device without waiting."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray


def pinned(array: NDArray[np.generic], device: torch.device) -> torch.Tensor:
    """The array where a copy to the device can read it without waiting."""
    tensor = torch.from_numpy(array)  # pyright: ignore[reportUnknownMemberType]
    return tensor.pin_memory() if device.type == "cuda" else tensor


def upload(array: NDArray[np.generic], device: torch.device) -> torch.Tensor:
    """The array on the device; the copy to a GPU may still be under way."""
    return pinned(array, device).to(device, non_blocking=True)
