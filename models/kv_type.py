"""How the keys and values of a KV cache are stored."""

from __future__ import annotations

from enum import StrEnum

from .ggml import TENSOR_TYPES


class KVType(StrEnum):
    """The storage formats to choose from, by llama.cpp's names for them."""

    F32 = "f32"
    F16 = "f16"
    BF16 = "bf16"
    Q8_0 = "q8_0"
    Q4_0 = "q4_0"

    @property
    def ggml_type(self) -> int:
        """Its number in ggml."""
        return next(n for n, kind in TENSOR_TYPES.items() if kind.name == self.name)

    @property
    def block_elements(self) -> int:
        """The elements that are stored together; a head has a multiple of them."""
        return TENSOR_TYPES[self.ggml_type].block_elements

    def bytes_of(self, elements: int) -> int:
        """Bytes that so many elements take; they fill whole blocks."""
        kind = TENSOR_TYPES[self.ggml_type]
        return elements // kind.block_elements * kind.block_bytes
