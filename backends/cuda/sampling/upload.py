"""Copy arrays from the host to a device without waiting."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray


def upload(array: NDArray[np.generic], device: torch.device) -> torch.Tensor:
    """The array on the device; the copy to a GPU may still be under way."""
    tensor = torch.from_numpy(array)  # pyright: ignore[reportUnknownMemberType]
    if device.type == "cuda":
        tensor = tensor.pin_memory()
    return tensor.to(device, non_blocking=True)
