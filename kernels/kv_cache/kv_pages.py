"""What keys and values may be stored as."""

from __future__ import annotations

import torch

from .quantized_kv_pages import QuantizedKVPages

KVPages = torch.Tensor | QuantizedKVPages
