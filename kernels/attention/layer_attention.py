"""The attention of a layer by kernels, from its projections to the input of its output layer."""

from __future__ import annotations

import torch

from ..elementwise.activations import Activations
from ..elementwise.norm_quantize import ActivationForms
from ..kv_cache.kv_pages import KVPages
from ..kv_cache.quantized_kv_pages import QuantizedKVPages
from ..launch.kernel_library import KernelLibrary
from ..launch.triton_library import TritonLibrary
from .attention_combine import AttentionCombine
from .attention_input import AttentionInput
from .attention_metadata import AttentionMetadata
from .rope_append import RopeAppend
from .triton_attention import TritonAttention


class LayerAttention:
    """Three launches a layer: append, attend, combine; two if nothing was split."""

    def __init__(
        self, library: KernelLibrary, compiled: TritonLibrary, device: torch.device
    ) -> None:
        self._append = RopeAppend(library)
        self._attention = TritonAttention(compiled, device)
        self._combine = AttentionCombine(library)

    def attend(
        self,
        x: AttentionInput,
        key_pages: KVPages,
        value_pages: KVPages,
        step: AttentionMetadata,
        wanted: ActivationForms,
        *,
        scale: float,
        window: int | None = None,
        soft_cap: float | None = None,
    ) -> Activations:
        """See `Operations.attend`."""
        bias_query = self._append(x, key_pages, value_pages, step.slot_mapping)
        partials = self._attention.attend(
            x.query,
            bias_query,
            key_pages,
            value_pages,
            step,
            scale=scale,
            window=window,
            soft_cap=soft_cap,
        )
        return self._combine(
            partials,
            rotated=isinstance(value_pages, QuantizedKVPages),
            dense=wanted.dense is not None,
            tiles=wanted.tiles,
        )
