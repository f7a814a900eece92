"""A named range of rows of a stored tensor, for tensors that a file fuses."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate

import torch

from ingle.kernels.formats.weight import Weight

from ..config.model_config import ModelConfig
from ..errors import InvalidModel
from ..families.family_registry import find_family
from .weights import Weights


@dataclass(frozen=True)
class TensorPart:
    """The rows `rows` of the tensor `source`, which should have `total` rows; None: all of them."""

    source: str
    rows: slice | None = None
    total: int = 0

    def read(self, weights: Weights) -> Weight:
        """The rows; all of them if their number is not `total`, so that the shape check fails."""
        weight = weights.get(self.source)
        if self.rows is None or weight.shape[:1] != (self.total,):
            return weight
        return rows_of(weight, self.rows)


class SplitWeights(ABC):
    """`Weights` over the tensors of a file, renamed and split as the layers need them."""

    def __init__(self, raw: Weights, config: ModelConfig) -> None:
        self._raw = raw
        self._config = config
        self._family = find_family(config.architecture)
        self._parts: dict[str, TensorPart] = {}
        self.names = self._parts.keys()
        """The canonical name of every tensor."""
        for name in raw.names:
            self._parts.update(self._named_parts(name))

    @abstractmethod
    def _named_parts(self, name: str) -> Mapping[str, TensorPart]:
        """What a stored tensor becomes, by the names of GGUF files."""

    def _attention_rows(self) -> dict[str, int]:
        """The rows of queries, keys and values, in the order of a fused tensor."""
        config = self._config
        heads = {"q": config.num_heads, "k": config.num_kv_heads, "v": config.num_kv_heads}
        return {letter: config.head_size * count for letter, count in heads.items()}

    def _read(self, name: str, hint: str) -> Weight:
        """The stored rows of a tensor; raises `InvalidModel` if there is none of this name."""
        part = self._parts.get(name)
        if part is None:
            raise InvalidModel(f"The model has no tensor {name!r}.", hint=hint)
        return part.read(self._raw)


def split_tensor(source: str, sizes: Mapping[str, int]) -> dict[str, TensorPart]:
    """Consecutive parts, by their names and numbers of rows."""
    ends = list(accumulate(sizes.values()))
    return {
        name: TensorPart(source, slice(end - size, end), ends[-1])
        for (name, size), end in zip(sizes.items(), ends, strict=True)
    }


def rows_of(weight: Weight, index: slice | torch.Tensor) -> Weight:
    """The rows at `index` of a matrix, dense or quantised, or those elements of a vector."""
    return weight[index] if isinstance(weight, torch.Tensor) else weight.rows(index)
