"""The interface through which layers read a model's tensors."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from ingle.kernels.formats.weight import Weight


class Weights(Protocol):
    """Tensors by the names that GGUF files use, such as `blk.0.attn_q.weight`.

    Their shape is torch's: (outputs, inputs). Values are those that the architecture's formulas
    want, whatever the file's conventions: rotary halves as `rotate_half` has them (NeoX), norm
    weights that are multiplied as they are, queries, keys and values apart, gate and up apart.
    """

    @property
    def names(self) -> Iterable[str]:
        """Every tensor there is."""
        ...

    def get(self, name: str) -> Weight:
        """The tensor; raises `InvalidModel` where there is none."""
        ...
