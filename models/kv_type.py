"""Storage types of the KV cache."""

from __future__ import annotations

from enum import StrEnum

from ingle.kernels.kv_cache.kv_page_format import KVPageFormat

from .gguf.ggml_types import TENSOR_TYPES

_BITS = {"q8_0": 8, "q4_0": 4}
_NUMBERS = {kind.name: number for number, kind in TENSOR_TYPES.items()}


class KVType(StrEnum):
    """The storage types to choose from, by llama.cpp's names."""

    F32 = "f32"
    F16 = "f16"
    BF16 = "bf16"
    Q8_0 = "q8_0"
    Q4_0 = "q4_0"

    @property
    def ggml_type(self) -> int:
        """Its number in ggml."""
        return _NUMBERS[self.name]

    @property
    def block_elements(self) -> int:
        """The elements of a block of llama.cpp; a head has a multiple of them."""
        return TENSOR_TYPES[self.ggml_type].block_elements

    def page_format(self, head_size: int) -> KVPageFormat | None:
        """The format of a head in the pages of ingle's own engine; None for float types.

        Raises `ValueError` for heads that no page can store in this type.
        """
        bits = _BITS.get(self.value)
        return None if bits is None else KVPageFormat(bits, head_size)

    def paged_bytes(self, head_size: int) -> int:
        """Bytes of a head in the pages of ingle's own engine."""
        form = self.page_format(head_size)
        return self.bytes_of(head_size) if form is None else form.nbytes

    def bytes_of(self, elements: int) -> int:
        """Bytes of so many elements in llama.cpp's cache; they fill whole blocks."""
        kind = TENSOR_TYPES[self.ggml_type]
        return elements // kind.block_elements * kind.block_bytes
