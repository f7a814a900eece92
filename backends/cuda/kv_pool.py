"""The memory of keys and values: pages of a pool, and how attention layers reach them."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence as Numbers
from dataclasses import dataclass
from typing import Protocol

import torch

from ingle.kernels.attention.attention_input import AttentionInput, AttentionMetadata
from ingle.kernels.elementwise.activations import Activations
from ingle.kernels.kv_cache.kv_pages import KeyBias, KVPages, QuantizedKVPages, last_elements
from ingle.kernels.operations import Operations
from ingle.models.config.model_config import KVHeads, ModelConfig
from ingle.models.fit.paged_fit import PAGE_SIZE
from ingle.models.kv_type import KVType

_FLOATS = {
    KVType.F32: torch.float32,
    KVType.F16: torch.float16,
    KVType.BF16: torch.bfloat16,
}


class KVPool:
    """Keys and values of layers in pages of `PAGE_SIZE` tokens, which a `PagedCache` allocates.

    One tensor (layers, 2, pages, page, kv_heads, head_size) holds all of it, or two of that kind
    hold codes and scales; layers whose heads differ have tensors of their own. The 2 is a 1 where
    values are parts of the keys. There is one page
    more than `num_blocks`: padding tokens are written there, and never read.
    """

    def __init__(
        self,
        *,
        heads: Mapping[int, KVHeads],
        num_blocks: int,
        kv_type: KVType,
        device: torch.device,
        key_biases: Numbers[KeyBias | None] = (),
    ) -> None:
        """For the layers of the model that have such `heads` of keys and of values.

        Quantised keys are stored without `key_biases`: one for each layer, or none at all.
        """
        self.num_blocks = num_blocks
        self._device = device
        self._planes: list[torch.Tensor] = []
        self._layers: dict[int, tuple[KVPages, KVPages]] = {}
        biases = dict(zip(heads, key_biases or [None] * len(heads), strict=True))
        for shape in dict.fromkeys(heads.values()):
            alike = [layer for layer in heads if heads[layer] == shape]
            size = (len(alike), shape.planes, num_blocks + 1, PAGE_SIZE, shape.count)
            planes = [
                torch.empty((*size, width), dtype=dtype, device=device)
                for dtype, width in _planes(kv_type, shape.size)
            ]
            self._planes += planes
            for place, layer in enumerate(alike):
                keys = _pages([plane[place, 0] for plane in planes], biases[layer])
                values = _pages([plane[place, -1] for plane in planes])
                if inner := shape.inner_values:
                    values = last_elements(keys, inner)
                self._layers[layer] = keys, values

    @property
    def padding_slot(self) -> int:
        """The slot of padding tokens, which is never read."""
        return self.num_blocks * PAGE_SIZE

    @property
    def nbytes(self) -> int:
        """Bytes of all pages."""
        return sum(plane.nbytes for plane in self._planes)

    @property
    def token_bytes(self) -> int:
        """Bytes of one token's keys and values."""
        return sum(_token_bytes(plane) for plane in self._planes)

    def layer(self, index: int) -> tuple[KVPages, KVPages]:
        """Pages of keys and of values, each (pages, page, kv_heads, head_size) or narrower."""
        return self._layers[index]

    def copy_page(self, source: int, target: int, count: int) -> None:
        """Copy the first `count` tokens of a page to another."""
        for plane in self._planes:
            plane[:, :, target, :count] = plane[:, :, source, :count]

    def read(self, pages: Numbers[int], count: int) -> bytes:
        """Keys and values of the first `count` tokens in these pages, token after token."""
        index = torch.tensor(list(pages), device=self._device)
        parts: list[torch.Tensor] = []
        for plane in self._planes:
            gathered = plane.index_select(2, index).permute(2, 3, 0, 1, 4, 5)
            tokens = gathered.flatten(0, 1)[:count]
            parts.append(tokens.flatten(1).contiguous().view(torch.uint8))
        together = parts[0] if len(parts) == 1 else torch.cat(parts, 1)
        return together.cpu().numpy().tobytes()

    def write(self, pages: Numbers[int], count: int, data: bytes | memoryview) -> bool:
        """Put the first `count` tokens that `read` gave into pages; False if `data` has fewer."""
        size = self.token_bytes
        if len(data) < count * size or len(data) % size:
            return False
        raw = torch.frombuffer(bytearray(data[: count * size]), dtype=torch.uint8)
        rows, end = raw.view(count, size), 0
        for plane in self._planes:
            layers, both, _, page, kv_heads, width = plane.shape
            first, end = end, end + _token_bytes(plane)
            part = rows[:, first:end].contiguous().view(plane.dtype)
            tokens = part.view(count, layers, both, kv_heads, width).to(self._device)
            for start in range(0, count, page):
                some = tokens[start : start + page].permute(1, 2, 0, 3, 4)
                plane[:, :, pages[start // page], : some.shape[2]] = some
        return True


def _pages(planes: Numbers[torch.Tensor], bias: KeyBias | None = None) -> KVPages:
    return planes[0] if len(planes) == 1 else QuantizedKVPages(planes[0], planes[1], bias)


def _planes(kv_type: KVType, head_size: int) -> list[tuple[torch.dtype, int]]:
    """Type and width of what a head has in each plane."""
    form = kv_type.page_format(head_size)
    if form is None:
        return [(_FLOATS[kv_type], head_size)]
    codes = torch.int8 if form.bits == 8 else torch.uint8
    return [(codes, form.code_bytes), (torch.float16, form.blocks)]


def _token_bytes(plane: torch.Tensor) -> int:
    layers, both, _, _, kv_heads, width = plane.shape
    return layers * both * kv_heads * width * plane.element_size()


class AttentionStep(Protocol):
    """A step that layers attend in, such as `StepInputs`."""

    @property
    def attention(self) -> AttentionMetadata:
        """The metadata of every layer's attention."""
        ...


@dataclass(frozen=True, slots=True)
class PagedContext:
    """An `AttentionContext` over a `KVPool`, for the step in `inputs`."""

    config: ModelConfig
    operations: Operations
    pool: KVPool
    inputs: AttentionStep

    def attend(self, layer: int, x: AttentionInput) -> Activations:
        """See `AttentionContext.attend`."""
        config = self.config
        source = config.layers[layer].kv_layer
        return self.operations.attend(
            x,
            *self.pool.layer(layer if source is None else source),
            self.inputs.attention,
            scale=config.attention_scale,
            window=config.layers[layer].window,
            soft_cap=config.attention_soft_cap,
        )
