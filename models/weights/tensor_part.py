"""How stored tensors become those of the layers: ranges of fused ones, and experts joined."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

import torch

from ingle.kernels.formats.dequantize import dequantize
from ingle.kernels.formats.weight import FP8Tensor, NF4Tensor, QuantizedTensor, Weight

from ..config.head_rows import interleaved_rows
from ..config.model_config import ModelConfig
from ..errors import InvalidModel, UnsupportedModel
from ..families.family_registry import find_family
from .weights import Weights


@dataclass(frozen=True)
class TensorPart:
    """The rows `rows` of the tensor `source`, which should have `total` rows; None: all of them.

    Of a tensor with the rows of `experts`, one after the other, these are the rows of each. The
    matrices of a `transposed` tensor have their rows as columns; `columns` are those of a bias.
    With `turned`, the matrices that the rows make for each of the `experts` are transposed.
    """

    source: str
    rows: slice | Sequence[int] | None = None
    total: int = 0
    experts: int = 1
    transposed: bool = False
    columns: slice | Sequence[int] | None = None
    turned: bool = False

    def read(self, weights: Weights) -> Weight:
        """The rows; all of them if their number is not `total`, so that the shape check fails.

        Raises `UnsupportedModel` if columns of a quantised matrix would have to be moved.
        """
        weight = weights.get(self.source)
        if isinstance(weight, torch.Tensor) and weight.ndim > 2:  # matrices of experts
            weight = (weight.transpose(-2, -1) if self.transposed else weight).flatten(0, -2)
        if self.columns is not None:
            return self._columns_of(weight, self.columns)
        if self.rows is None or weight.shape[:1] != (self.total * self.experts,):
            return weight
        if self.experts == 1:
            return rows_of(weight, _index(self.rows))
        every = torch.arange(self.total * self.experts).view(self.experts, self.total)
        found = rows_of(weight, every[:, _index(self.rows)].flatten())
        if not self.turned:
            return found
        plain = found if isinstance(found, torch.Tensor) else dequantize(found)
        matrices = plain.view(self.experts, -1, plain.shape[-1])
        return matrices.transpose(1, 2).flatten(0, 1)

    def _columns_of(self, weight: Weight, columns: slice | Sequence[int]) -> Weight:
        weight = without_fp8(weight)
        if not isinstance(weight, torch.Tensor):
            raise UnsupportedModel(
                f"The model stores {self.source!r} quantised, in another order than ingle's.",
                hint="Use an edition in BF16, F16 or F32, or a GGUF file.",
            )
        if not isinstance(columns, slice) and weight.shape[-1] != len(columns):
            return weight
        return weight[..., _index(columns)]


@dataclass(frozen=True)
class JoinedParts:
    """The rows of several parts, one after the other."""

    parts: Sequence[TensorPart]

    def read(self, weights: Weights) -> Weight:
        """The rows; those of the first part if the others are of another kind."""
        found = [part.read(weights) for part in self.parts]
        return _joined(found) if len({weight.shape[1:] for weight in found}) == 1 else found[0]


class SplitWeights(ABC):
    """`Weights` over the tensors of a file, renamed and split as the layers need them."""

    def __init__(self, raw: Weights, config: ModelConfig) -> None:
        self._raw = raw
        self._config = config
        self._family = find_family(config.architecture)
        self._parts: dict[str, TensorPart | JoinedParts] = {}
        self.names = self._parts.keys()
        """The canonical name of every tensor."""
        for name in raw.names:
            self._parts.update(self._named_parts(name))
        self._parts.update(self._joined_parts(raw.names))

    def source_of(self, name: str) -> str | None:
        """The stored tensor that one of the layers is, or is a part of; None if it is joined."""
        part = self._parts.get(name)
        return part.source if isinstance(part, TensorPart) else None

    def sources_of(self, name: str) -> list[str]:
        """The stored tensors that one of the layers is made of."""
        part = self._parts[name]
        parts = part.parts if isinstance(part, JoinedParts) else [part]
        return [each.source for each in parts]

    @abstractmethod
    def _named_parts(self, name: str) -> Mapping[str, TensorPart]:
        """What a stored tensor becomes, by the names of GGUF files."""

    def _joined_parts(self, names: Iterable[str]) -> Mapping[str, JoinedParts]:
        """What several stored tensors become together, by the names of GGUF files."""
        del names
        return {}

    def _attention_rows(self) -> dict[str, int]:
        """The rows of queries, keys and values, in the order of a fused tensor."""
        config = self._config
        heads = {"q": config.num_heads, "k": config.num_kv_heads, "v": config.num_kv_heads}
        return {letter: config.head_size * count for letter, count in heads.items()}

    def _read(self, name: str, hint: str, *, interleaved: bool) -> Weight:
        """The stored rows of a tensor; raises `InvalidModel` if there is none of this name.

        Rows of queries and keys get the order of the layers if the file has them `interleaved`.
        """
        part = self._parts.get(name)
        if part is None:
            raise InvalidModel(f"The model has no tensor {name!r}.", hint=hint)
        weight = part.read(self._raw)
        order = interleaved_rows(name, self._config) if interleaved else None
        # A wrong shape is reported by `Parameters`, which knows the right one.
        if order is None or weight.shape[:1] != (len(order),):
            return weight
        return rows_of(weight, torch.tensor(order))


def split_tensor(
    source: str, sizes: Mapping[str, int], *, experts: int = 1
) -> dict[str, TensorPart]:
    """Consecutive parts, by their names and numbers of rows, of each expert."""
    ends = list(accumulate(sizes.values()))
    return {
        name: TensorPart(source, slice(end - size, end), ends[-1], experts)
        for (name, size), end in zip(sizes.items(), ends, strict=True)
    }


def split_latent(source: str, layer: str, config: ModelConfig) -> dict[str, TensorPart]:
    """What makes keys and values of latents, of a tensor that has both of each head.

    The matrices of keys are transposed, as they are multiplied with queries.
    """
    if (latent := config.latent) is None:
        return {}
    key, value = f"{layer}.attn_k_b.weight", f"{layer}.attn_v_b.weight"
    sizes = {key: latent.key_size, value: latent.value_size}
    parts = split_tensor(source, sizes, experts=config.num_heads)
    return {**parts, key: replace(parts[key], turned=True)}


def _joined(weights: Sequence[Weight]) -> Weight:
    """The rows of matrices of one width and kind; the first matrix alone if kinds differ."""
    weights = [without_fp8(each) for each in weights]
    first = weights[0]
    if isinstance(first, torch.Tensor):
        plain = [each for each in weights if isinstance(each, torch.Tensor)]
        return torch.cat(plain) if len(plain) == len(weights) else first
    if isinstance(first, QuantizedTensor):
        return _joined_blocks(first, weights)
    codes = [each.unnested() for each in weights if isinstance(each, NF4Tensor)]
    if len({each.block_size for each in codes}) > 1 or len(codes) < len(weights):
        return first
    together = torch.cat([each.codes for each in codes])
    return NF4Tensor(together, torch.cat([each.absmax for each in codes]), codes[0].block_size)


def _joined_blocks(first: QuantizedTensor, weights: Sequence[Weight]) -> Weight:
    """The rows of all, dequantised if not all are of one type with columns in the same order."""
    blocks = [each for each in weights if isinstance(each, QuantizedTensor)]
    same = {(each.type, each.order is None) for each in blocks} == {(first.type, True)}
    if same and len(blocks) == len(weights):
        return QuantizedTensor(first.type, torch.cat([each.data for each in blocks]), first.columns)
    dense = [
        each.float() if isinstance(each, torch.Tensor) else dequantize(each) for each in weights
    ]
    return torch.cat(dense)


def _index(places: slice | Sequence[int]) -> slice | torch.Tensor:
    return places if isinstance(places, slice) else torch.tensor(places)


def without_fp8(weight: Weight) -> Weight:
    """The weight, dequantised if it is in FP8."""
    return dequantize(weight) if isinstance(weight, FP8Tensor) else weight


def rows_of(weight: Weight, index: slice | torch.Tensor) -> Weight:
    """The rows at `index` of a matrix, dense or quantised, or those elements of a vector."""
    if isinstance(weight, FP8Tensor) and weight.cuts_blocks(index):
        weight = dequantize(weight)
    return weight[index] if isinstance(weight, torch.Tensor) else weight.rows(index)
