"""The pages of memory that hold keys and values."""

from __future__ import annotations

from collections.abc import Sequence as Numbers

import torch

from ingle.models.kv_type import KVType
from ingle.models.paged_fit import PAGE_SIZE

from ..errors import LoadFailed

_TYPES = {
    KVType.F32: torch.float32,
    KVType.F16: torch.float16,
    KVType.BF16: torch.bfloat16,
}


class KVPool:
    """Keys and values of all layers in pages of `PAGE_SIZE` tokens; others know which is whose.

    One tensor (layers, 2, pages, page, kv_heads, head_size) holds all of it. There is one page more
    than `num_pages`: tokens that only fill up a batch are written there, and never read.
    """

    def __init__(
        self,
        *,
        layers: int,
        kv_heads: int,
        head_size: int,
        num_pages: int,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        self.num_pages = num_pages
        self._pages = torch.empty(
            (layers, 2, num_pages + 1, PAGE_SIZE, kv_heads, head_size), dtype=dtype, device=device
        )
        self._layers = [(layer[0], layer[1]) for layer in self._pages]

    @property
    def padding_slot(self) -> int:
        """Where tokens go that nobody reads."""
        return self.num_pages * PAGE_SIZE

    @property
    def nbytes(self) -> int:
        """Bytes of all pages."""
        return self._pages.nbytes

    def layer(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Pages of keys and of values, each (pages, page, kv_heads, head_size)."""
        return self._layers[index]

    def copy_page(self, source: int, target: int, count: int) -> None:
        """Copy the first `count` tokens of a page to another."""
        self._pages[:, :, target, :count] = self._pages[:, :, source, :count]

    def read(self, pages: Numbers[int], count: int) -> bytes:
        """Keys and values of the first `count` tokens in these pages, token after token."""
        index = torch.tensor(list(pages), device=self._pages.device)
        gathered = self._pages.index_select(2, index).permute(2, 3, 0, 1, 4, 5)
        tokens = gathered.flatten(0, 1)[:count].contiguous()
        return tokens.view(-1).view(torch.uint8).cpu().numpy().tobytes()

    def write(self, pages: Numbers[int], count: int, data: bytes | memoryview) -> bool:
        """Put the first `count` tokens that `read` gave into pages; False where it has fewer."""
        layers, _, _, page, kv_heads, head_size = self._pages.shape
        token_bytes = self.token_bytes
        if len(data) < count * token_bytes or len(data) % token_bytes:
            return False
        raw = torch.frombuffer(bytearray(data[: count * token_bytes]), dtype=torch.uint8)
        tokens = raw.view(self._pages.dtype).view(count, layers, 2, kv_heads, head_size)
        tokens = tokens.to(self._pages.device)
        for start in range(0, count, page):
            part = tokens[start : start + page].permute(1, 2, 0, 3, 4)
            self._pages[:, :, pages[start // page], : part.shape[2]] = part
        return True

    @property
    def token_bytes(self) -> int:
        """Bytes of one token's keys and values."""
        layers, _, _, _, kv_heads, head_size = self._pages.shape
        return layers * 2 * kv_heads * head_size * self._pages.element_size()


def page_dtype(kv_type: KVType) -> torch.dtype:
    """The type of a page's elements; raises `LoadFailed` where the engine has no such pages."""
    dtype = _TYPES.get(kv_type)
    if dtype is None:
        raise LoadFailed(
            f"ingle's own engine keeps no keys and values in {kv_type} yet.",
            hint="Load the model with the kv_type f16, or with the engine llama.cpp.",
        )
    return dtype
