"""The types that KV pages can have: dense tensors, or quantised."""

from __future__ import annotations

import torch

from .quantized_kv_pages import QuantizedKVPages

KVPages = torch.Tensor | QuantizedKVPages
