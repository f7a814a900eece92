"""What the weights of a matrix may be stored as."""

from __future__ import annotations

import torch

from .nf4_tensor import NF4Tensor
from .quantized_tensor import QuantizedTensor

Weight = torch.Tensor | QuantizedTensor | NF4Tensor
