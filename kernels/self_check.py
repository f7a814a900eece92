"""Compare the kernels with plain torch on this device."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from typing import NamedTuple

import torch

from .attention.attention_input import AttentionInput, AttentionMetadata
from .elementwise.activations import GROUP, Activations, dequantize_q8
from .elementwise.rms_norm import Norm, rms_norm_reference
from .formats.dequantize import dequantize
from .formats.repack import reads_dense
from .formats.weight import (
    FP8Tensor,
    NF4Tensor,
    PreparedWeight,
    QuantizedTensor,
    Weight,
    format_name,
)
from .kv_cache.kv_pages import KVPages, QuantizedKVPages, last_elements
from .matmul.linear import LinearLayer, linear_reference
from .operations import Operations

# Relative squared errors: int8 activations alone cause 5e-5, bfloat16 about as much, 4-bit keys
# and values 1e-2; a wrong kernel is off by about 1.
_LARGEST_ERROR, _LARGEST_ERROR_OF_4_BITS = 3e-3, 5e-2
_ROWS = 256
_TOKENS = (1, 5, 20)
_MANY_TOKENS = (64, 128, 300)
"""Rows that other kernels multiply; on a CPU they would take minutes."""
_PAGE = 32
_LONG, _LONG_CONTEXT = "a prompt beside long contexts", 4096
"""A bound of contexts for which attention divides the keys of a step among programs."""
CHECKED_PAGES = 4
"""Pages of keys and values that a check overwrites."""


@dataclass(frozen=True)
class HeadShape:
    """The heads of a layer's attention, see `AttentionInput`.

    With `inner_values` so many elements at the end of keys are the values.
    """

    heads: int
    kv_heads: int
    head_size: int
    inner_values: int = 0


class CheckedLayer(NamedTuple):
    """The heads of a layer, and its pages of keys and values."""

    heads: HeadShape
    keys: KVPages
    values: KVPages


class SelfCheck:
    """Compares an `Operations` with plain torch, on random inputs.

    Errors are relative to the squared norm of the expected result.
    """

    def __init__(
        self,
        operations: Operations,
        device: torch.device,
        on_checked: Callable[[], None] = lambda: None,
    ) -> None:
        """`on_checked` is called after each check."""
        self._on_checked = on_checked
        self._operations = operations
        self._device = device
        self._random = torch.Generator(device).manual_seed(1)
        self._tokens = (*_TOKENS, *_MANY_TOKENS) if device.type == "cuda" else _TOKENS
        self._exact = Operations(torch.float32)

    def failures(self, weights: Sequence[Weight], *layers: CheckedLayer) -> list[str]:
        """A short description of each failed check; overwrites the layers' pages.

        `weights` are the first rows of one matrix of each format, `layers` one of each shape of
        heads. Waits for the device.
        """
        found = [
            *self._told(self._products(weights)),
            *self._told(self._pairs(weights)),
            *self._told(self._norms(weights[0].shape[1])),
        ]
        wrong = [(name, error) for name, error in found if not error <= _LARGEST_ERROR]
        for heads, keys, values in layers:
            coarse = isinstance(keys, QuantizedKVPages) and keys.format.bits == 4
            most = _LARGEST_ERROR_OF_4_BITS if coarse else _LARGEST_ERROR
            found = self._told(self._attention(heads, keys, values))
            wrong += [(name, error) for name, error in found if not error <= most]
        return [f"{name} is off by {error:.1e}" for name, error in wrong]

    def _told(self, checks: Iterator[tuple[str, float]]) -> Iterator[tuple[str, float]]:
        for each in checks:
            self._on_checked()
            yield each

    def _products(self, weights: Sequence[Weight]) -> Iterator[tuple[str, float]]:
        for weight in weights:
            part, plain = self._prepared(weight), _plain(weight)
            name, layer = format_name(weight), LinearLayer(part)
            for tokens in self._tokens:
                rows = self._normal(tokens, weight.shape[1])
                x = self._inputs(rows, part)
                expected = linear_reference(rows, plain)
                (found,) = self._operations.linear(x, layer, dtype=torch.float32)
                yield f"{name} by {tokens} rows", _error(found, expected)
                residual = self._normal(tokens, layer.outputs)
                summed = residual + 0.5 * expected
                self._operations.linear_add(residual, x, layer, 0.5)
                yield f"{name} added to {tokens} rows", _error(residual, summed)
                if layer.outputs % GROUP:
                    continue  # a router, whose outputs gate nothing
                gated = self._operations.gated_linear(x, layer, layer, "silu")
                right = torch.nn.functional.silu(expected) * expected
                yield f"{name} gated for {tokens} rows", _error(_rows(gated), right)
                norm = Norm(self._normal(layer.outputs).abs() + 0.5, 1e-5)
                again = self._normal(tokens, layer.outputs)
                right = rms_norm_reference(again + 0.5 * expected, *norm, torch.float32)
                normed = self._operations.linear_add_norm(again, x, layer, 0.5, norm)
                yield f"{name} added to {tokens} rows, normalised", _error(_rows(normed), right)
            if isinstance(plain, FP8Tensor):
                continue
            ids = torch.tensor((3, 0, 3), device=self._device)
            found = self._operations.embed(ids, part, 1.0)
            yield f"{name} as an embedding", _error(found, plain[ids])

    def _pairs(self, weights: Sequence[Weight]) -> Iterator[tuple[str, float]]:
        """Different formats with the same input, which may have a common kernel."""
        for first, second in permutations(weights, 2):
            if first.shape[1] != second.shape[1]:
                continue
            parts = [self._prepared(weight) for weight in (first, second)]
            layers = [LinearLayer(part) for part in parts]
            plain = _plain(first), _plain(second)
            for tokens in self._tokens:
                rows = self._normal(tokens, first.shape[1])
                x = self._inputs(rows, *parts)
                found = self._operations.linear(x, *layers, dtype=torch.float32)
                expected = [linear_reference(rows, weight) for weight in plain]
                name = f"{format_name(first)} with {format_name(second)} by {tokens} rows"
                yield name, _error(torch.cat(found, dim=1), torch.cat(expected, dim=1))

    def _prepared(self, weight: Weight) -> PreparedWeight:
        """The matrix as for a table of tokens, which changes nothing for the model's layers."""
        return self._operations.prepare(weight, of_tokens=True)

    def _inputs(self, rows: torch.Tensor, *weights: PreparedWeight) -> Activations:
        """Rows in the forms that these matrices read."""
        x = self._operations.activations(rows)
        if x.dense is None and any(map(reads_dense, weights)):
            return replace(x, dense=rows.to(self._operations.dtype))
        return x

    def _norms(self, size: int) -> Iterator[tuple[str, float]]:
        weight = self._normal(size).abs() + 0.5
        for tokens in self._tokens:
            rows, residual = self._normal(tokens, size), self._normal(tokens, size)
            expected = rms_norm_reference(rows, weight, 1e-5, torch.float32)
            found = self._operations.rms_norm(rows, weight, 1e-5)
            yield f"the norm of {tokens} rows", _error(_rows(found), expected)
            summed = residual + expected
            self._operations.rms_norm_add(residual, rows, weight, 1e-5)
            yield f"the norm added to {tokens} rows", _error(residual, summed)
            gate = rows.to(self._operations.dtype)
            gated = self._operations.sigmoid_gate(gate, gate)
            right = gate.float().sigmoid() * gate.float()
            yield f"attention gated for {tokens} rows", _error(_rows(gated), right)

    def _attention(
        self, heads: HeadShape, keys: KVPages, values: KVPages
    ) -> Iterator[tuple[str, float]]:
        twins = _empty_twin(keys), _empty_twin(values)
        if heads.inner_values:
            twins = twins[0], last_elements(twins[0], heads.inner_values)
        kinds = {
            "a prompt": ((0, 40), (0, 3)),
            "decoding": ((40, 1), (3, 1)),
            "verifying": ((41, 5), (4, 2)),
            "a prompt beside decoding": ((0, 30), (5, 1)),
            _LONG: ((41, 5), (0, 30)),
        }
        for name, parts in kinds.items():
            step = self._step(parts, _LONG_CONTEXT if name == _LONG else 0)
            x = self._heads(heads, keys, step.positions)
            query, key, value = (part.float() for part in (x.query, x.key, x.value))
            exact = replace(x, query=query, key=key, value=value)
            scale = heads.head_size**-0.5
            expected = self._exact.attend(exact, *twins, step, scale=scale)
            found = self._operations.attend(x, keys, values, step, scale=scale)
            yield f"attention of {name}", _error(_rows(found), _rows(expected))

    def _heads(self, heads: HeadShape, keys: KVPages, positions: torch.Tensor) -> AttentionInput:
        """Random heads; with RoPE if the pages store keys without a bias."""
        count, kind = len(positions), self._operations.dtype
        query = self._normal(count, heads.heads, heads.head_size)
        key, value = self._normal(2, count, heads.kv_heads, heads.head_size)
        bias = keys.bias if isinstance(keys, QuantizedKVPages) else None
        if bias is not None:
            query = query / bias.bias.abs().amax().clamp_min(1)  # or one key gets all the weight
        x = AttentionInput(query.to(kind), key.to(kind), value.to(kind))
        if inner := heads.inner_values:
            x = replace(x, value=x.value[:, :0, :inner], wants_dense=True)
        if bias is None:
            return x
        tables = bias.cosine[positions], bias.sine[positions]
        return replace(x, cosine=tables[0], sine=tables[1], key_bias=bias.bias)

    def _step(self, parts: Sequence[tuple[int, int]], bound: int) -> AttentionMetadata:
        """Sequences with so many cached tokens and so many new ones, in pages of their own."""
        each = CHECKED_PAGES // len(parts)
        tables = torch.arange(CHECKED_PAGES, dtype=torch.int32).view(len(parts), each).flip(1)
        positions = [torch.arange(start, start + count) for start, count in parts]
        slots = [
            tables[place, where // _PAGE].long() * _PAGE + where % _PAGE
            for place, where in enumerate(positions)
        ]
        counts = torch.tensor([0, *(count for _, count in parts)])
        lengths = torch.tensor([start + count for start, count in parts])
        tensors = (
            torch.cat(positions),
            torch.cat(slots),
            tables.contiguous(),
            lengths.int(),
            counts.cumsum(0).int(),
        )
        return AttentionMetadata(
            *(tensor.to(self._device) for tensor in tensors),
            longest_query=max(count for _, count in parts),
            longest_context=max(bound, int(lengths.max())),
        )

    def _normal(self, *shape: int) -> torch.Tensor:
        return torch.randn(*shape, device=self._device, generator=self._random)


def first_rows(weight: Weight) -> Weight:
    """A copy of the first rows: enough to find an error."""
    if isinstance(weight, NF4Tensor):  # their scales are in the first groups of the matrix
        return replace(
            weight, codes=weight.codes[:_ROWS].clone(), absmax=weight.absmax[:_ROWS].clone()
        )
    if isinstance(weight, QuantizedTensor):
        return replace(weight, data=weight.data[:_ROWS].clone())
    if isinstance(weight, FP8Tensor):
        part = weight.rows(slice(_ROWS))
        return replace(part, codes=part.codes.clone(), scales=part.scales.clone())
    return weight[:_ROWS].clone()


def _plain(weight: Weight) -> torch.Tensor | FP8Tensor:
    """The weights dequantised, unless their products round the inputs."""
    if isinstance(weight, FP8Tensor):
        return weight
    return weight.float() if isinstance(weight, torch.Tensor) else dequantize(weight)


def _empty_twin(pages: KVPages) -> torch.Tensor:
    """Dense pages with as many slots."""
    return torch.zeros(pages.shape, dtype=torch.float32, device=pages.device)


def _rows(x: Activations) -> torch.Tensor:
    if x.dense is not None:
        return x.dense
    assert x.tiles is not None
    return dequantize_q8(x.tiles, x.size)


def _error(found: torch.Tensor, expected: torch.Tensor) -> float:
    found, expected = found.double(), expected.double()
    return float((found - expected).square().sum() / expected.square().sum())
