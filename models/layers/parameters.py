"""The parts of a model that hold weights: linear layers, norms, embeddings, loaded by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import torch

from ingle.kernels.elementwise.activations import Activations
from ingle.kernels.elementwise.rms_norm import Norm
from ingle.kernels.formats.dequantize import dequantize
from ingle.kernels.formats.weight import FP8Tensor, PreparedWeight
from ingle.kernels.matmul.expert_layers import ExpertLayer
from ingle.kernels.matmul.linear import LinearLayer
from ingle.kernels.matmul.low_rank import LayerAdapters
from ingle.kernels.operations import Operations

from ..errors import InvalidModel, UnsupportedModel
from ..weights.weights import Weight, Weights

if TYPE_CHECKING:
    from ..parallel.model_shard import ModelShard
    from ..parallel.rank_group import RankGroup


class RMSNorm:
    """Root-mean-square norm of the last dimension, scaled by a weight (size,) fp32."""

    def __init__(self, operations: Operations, weight: torch.Tensor, epsilon: float) -> None:
        self.weight = weight
        self.epsilon = epsilon
        self._operations = operations

    @property
    def of_rows(self) -> Norm:
        """What operations need to know of it."""
        return Norm(self.weight, self.epsilon)

    def __call__(self, rows: torch.Tensor) -> Activations:
        """Rows (tokens, size) of any float type, normalised."""
        return self._operations.rms_norm(rows, self.weight, self.epsilon)

    def as_tensor(self, rows: torch.Tensor) -> torch.Tensor:
        """The same as a tensor of the activation type, for use outside a linear layer."""
        found = self._operations.rms_norm(rows, self.weight, self.epsilon, dense=True).dense
        assert found is not None
        return found

    def add_to(self, residual: torch.Tensor, rows: torch.Tensor) -> None:
        """Add normalised `rows` (tokens, size) to the residual stream."""
        self._operations.rms_norm_add(residual, rows, self.weight, self.epsilon)


class TokenEmbedding:
    """The token embedding: a table with one row a token, dense or quantised."""

    def __init__(self, operations: Operations, weight: PreparedWeight, scale: float) -> None:
        self.weight = weight
        self._operations = operations
        self._scale = scale

    def __call__(self, token_ids: torch.Tensor) -> torch.Tensor:
        """Scaled rows (tokens, width) fp32 of `token_ids` (tokens,)."""
        return self._operations.embed(token_ids, self.weight, self._scale)


class PartialEmbedding(TokenEmbedding):
    """The same of a rank that has some consecutive rows: the rest are zeros, and all are summed."""

    def __init__(
        self,
        operations: Operations,
        weight: PreparedWeight,
        scale: float,
        *,
        first: int,
        ranks: RankGroup,
    ) -> None:
        super().__init__(operations, weight, scale)
        self._first, self._ranks = first, ranks

    def __call__(self, token_ids: torch.Tensor) -> torch.Tensor:
        """See `TokenEmbedding`."""
        places, last = token_ids - self._first, self.weight.shape[0] - 1
        is_foreign = (places < 0) | (places > last)
        rows = super().__call__(places.clamp(0, last))
        return self._ranks.sum(rows.masked_fill_(is_foreign[:, None], 0.0))


class RankPart(NamedTuple):
    """The part of a model that this process has, and those that it computes the model with."""

    shard: ModelShard
    ranks: RankGroup


class RankSums:
    """Sums over all ranks; a model on one device, without `ranks`, has nothing to add."""

    def __init__(self, operations: Operations, ranks: RankGroup | None) -> None:
        self._operations = operations
        self._ranks = ranks

    def __call__(self, rows: torch.Tensor) -> torch.Tensor:
        """The sum of the addends of all ranks; may change `rows` in place."""
        return rows if self._ranks is None else self._ranks.sum(rows)

    def linear(
        self, x: Activations, layer: LinearLayer, dtype: torch.dtype | None = None
    ) -> torch.Tensor:
        """The outputs (tokens, outputs) of a layer, summed if it is one that `is_summed`."""
        if layer.is_summed and self._operations.dtype is torch.float16:
            dtype = torch.float32  # addends may exceed the range in which their sum is
        (rows,) = self._operations.linear(x, layer, dtype=dtype)
        return self(rows) if layer.is_summed else rows


class AdaptedLayer(NamedTuple):
    """The adapters of a linear layer, and its size, which is that of the whole model's."""

    adapters: LayerAdapters
    outputs: int
    inputs: int


class Parameters:
    """Loads each tensor once, checks its shape and moves it to the device.

    Matrices keep the quantisation of their file, else they take the type of the activations; both
    in the form that `operations` expects. FP8 is dequantised if they do not multiply it. Raises
    `InvalidModel` for a tensor that is missing or has the wrong shape. `on_progress` is called with
    the share of tensors loaded so far. `part` is that of a rank, whose `weights` these are.
    """

    def __init__(
        self,
        weights: Weights,
        *,
        device: torch.device,
        operations: Operations,
        on_progress: Callable[[float], None] | None = None,
        part: RankPart | None = None,
    ) -> None:
        self._weights = weights
        self._left = set(weights.names)
        self._count = len(self._left)
        self._device = device
        self.operations = operations
        self._progress = on_progress
        self.part = part
        self.sums = RankSums(operations, None if part is None else part.ranks)
        self.adapted: dict[str, AdaptedLayer] = {}
        """The linear layers that adapters can change, by their names."""
        self.bytes = 0
        """Bytes of the loaded tensors on the device."""

    def linear(
        self, name: str, outputs: int, inputs: int, *, of_tokens: bool = False
    ) -> LinearLayer:
        """The matrix `name`, with its bias if the file has one; see `Operations.prepare`."""
        weight = self.operations.prepare(
            self._on_device(f"{name}.weight", outputs, inputs, may_be_fp8=True),
            of_tokens=of_tokens,
        )
        bias, adapters = self.optional_vector(f"{name}.bias", outputs), None
        cut = None if self.part is None else self.part.shard.cut(f"{name}.weight")
        if name.startswith("blk."):
            adapters = LayerAdapters(self.operations.adapters)
            if cut is not None:
                outputs, inputs = (cut.total, inputs) if cut.axis == 0 else (outputs, cut.total)
            self.adapted[name] = AdaptedLayer(adapters, outputs, inputs)
        return LinearLayer(weight, bias, adapters, is_summed=cut is not None and cut.axis == 1)

    def experts(self, name: str, count: int, outputs: int, inputs: int) -> ExpertLayer:
        """The matrices `name` of all experts, with their biases if the file has them."""
        weight = self._on_device(f"{name}.weight", count * outputs, inputs)
        bias = None
        if self.has(f"{name}.bias"):
            bias = self.floats(f"{name}.bias", (count, outputs))
        return ExpertLayer(self.operations.prepare_experts(weight), count, bias)

    def per_head(self, name: str, heads: int, outputs: int, inputs: int) -> Weight:
        """The matrices `name` of all heads, one below the other; see `Operations.linear_each`."""
        weight = self._on_device(f"{name}.weight", heads * outputs, inputs)
        return self.operations.prepare_each(weight)

    def has(self, name: str) -> bool:
        """Whether the file has the tensor `name`, and no layer has loaded it."""
        return name in self._left

    def vector(self, name: str, size: int) -> torch.Tensor:
        """The vector `name` (size,) in fp32."""
        return self.floats(name, (size,))

    def optional_vector(self, name: str, size: int) -> torch.Tensor | None:
        """The vector `name` (size,) in fp32; None if the file has none."""
        return self.vector(name, size) if self.has(name) else None

    def embedding(self, name: str, rows: int | None, columns: int, scale: float) -> TokenEmbedding:
        """The table `name`, whose rows are multiplied by `scale`; None for any number of rows."""
        table = self.operations.prepare(
            self._on_device(f"{name}.weight", rows, columns), of_tokens=True
        )
        if self.part is None or self.part.shard.cut(f"{name}.weight") is None:
            return TokenEmbedding(self.operations, table, scale)
        first, ranks = self.part.shard.first_token, self.part.ranks
        return PartialEmbedding(self.operations, table, scale, first=first, ranks=ranks)

    def norm(self, name: str, size: int, epsilon: float) -> RMSNorm:
        """The norm `name`, with its weight in fp32."""
        weight = self.vector(f"{name}.weight", size)
        return RMSNorm(self.operations, weight, epsilon)

    def norm_without_weight(self, size: int, epsilon: float) -> RMSNorm:
        """A norm that no tensor scales."""
        return RMSNorm(self.operations, torch.ones(size, device=self._device), epsilon)

    def leave_out(self, *names: str) -> None:
        """Do not report these tensors, which some files have without a use, as unknown."""
        self._left.difference_update(names)

    def check_all_taken(self) -> None:
        """Raise `UnsupportedModel` if the file has tensors that no layer loaded."""
        if self._left:
            raise UnsupportedModel(
                f"The model has {len(self._left)} tensors that ingle does not know, such as "
                f"{min(self._left)!r}.",
                hint="Let llama.cpp run it, or use another conversion.",
            )

    def _on_device(
        self, name: str, rows: int | None, columns: int, *, may_be_fp8: bool = False
    ) -> Weight:
        weight = self._take(name, (rows, columns), may_be_fp8=may_be_fp8)
        if isinstance(weight, torch.Tensor):
            weight = weight.to(self._device, self.operations.dtype)
        self.bytes += weight.nbytes
        return weight.to(self._device)

    def floats(self, name: str, shape: tuple[int, ...]) -> torch.Tensor:
        """The tensor `name` in fp32; raises `InvalidModel` if it is quantised."""
        weight = self._take(name, shape)
        if not isinstance(weight, torch.Tensor):
            raise InvalidModel(
                f"The model quantises {name!r}, which must not be.",
                hint="Use another conversion.",
            )
        self.bytes += weight.numel() * torch.float32.itemsize
        return weight.to(self._device, torch.float32)

    def _take(
        self, name: str, shape: tuple[int | None, ...], *, may_be_fp8: bool = False
    ) -> Weight:
        weight = self._weights.get(name)
        if isinstance(weight, FP8Tensor) and not (
            may_be_fp8 and self.operations.multiplies_fp8(weight)
        ):
            weight = dequantize(weight)
        if shape[0] is None:
            shape = (*weight.shape[:1], *shape[1:])
        if tuple(weight.shape) != shape:
            raise InvalidModel(
                f"The model's tensor {name!r} has the shape {tuple(weight.shape)}, where its "
                f"settings ask for {shape}.",
                hint="Download it again, or use another conversion.",
            )
        self._left.discard(name)
        if self._progress is not None:
            self._progress(1 - len(self._left) / self._count)
        return weight
