"""NF4 checkpoints as bitsandbytes writes them: some matrices as codes, with tensors beside them."""

from __future__ import annotations

import math
from typing import Any, NoReturn, cast

import torch

from ingle.kernels.formats.nf4 import NF4_VALUES, dequantize_nf4_blocks
from ingle.kernels.formats.weight import NestedAbsmax, NF4Tensor, Weight

from ..errors import InvalidModel, UnsupportedModel
from ..safetensors.safetensors_header import parse_json_object
from .safetensors_weights import SafetensorsWeights

_STATE = ".quant_state.bitsandbytes__"
_BESIDE = (".absmax", ".quant_map", ".nested_absmax", ".nested_quant_map")
_LONGEST_STATE = 1 << 16
_BLOCK_SIZES = (32, 64, 128, 256, 512, 1024, 2048, 4096)
_DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}


class BitsandbytesWeights:
    """The tensors of `source`, its 4-bit matrices as `NF4Tensor`.

    A matrix whose rows are not whole blocks becomes a plain one of the dtype that it had.
    """

    def __init__(self, source: SafetensorsWeights) -> None:
        """Raises `UnsupportedModel` for FP4, and for 8-bit matrices."""
        self._source = source
        self._states: dict[str, str] = {}
        names = tuple(source.names)
        for name in names:
            matrix, found, kind = name.rpartition(_STATE)
            if found and kind != "nf4":
                _unsupported(source, matrix, f"the type {kind[:20]!r} of bitsandbytes")
            if found:
                self._states[matrix] = name
        beside = {matrix + end for matrix in self._states for end in _BESIDE}
        beside |= set(self._states.values())
        self.names = [name for name in names if name not in beside]
        """Every tensor there is, without those that only describe another."""

    def get(self, name: str) -> Weight:
        """The tensor; raises `InvalidModel` or `UnsupportedModel`."""
        if name not in self._states:
            return self._source.get(name)
        return _Matrix(self._source, name, self._states[name]).read()


class _Matrix:
    """One matrix and the tensors beside it, checked against each other."""

    def __init__(self, source: SafetensorsWeights, name: str, state: str) -> None:
        self._source = source
        self._name = name
        raw = source.get_raw(state)
        if raw.dtype != torch.uint8 or raw.numel() > _LONGEST_STATE:
            self._fail("a description that is not text")
        text = raw.flatten().numpy().tobytes()
        self._state = parse_json_object(text, source.folder, f"description of {name!r}")
        self._rows, self._columns = self._shape()
        self._block_size = self._whole_number("blocksize")
        if self._state.get("quant_type") != "nf4" or self._block_size not in _BLOCK_SIZES:
            self._fail("a description that contradicts itself")

    def read(self) -> Weight:
        """The matrix as it can be computed with."""
        # The sixteen values are not ours to choose: kernels have them built in.
        values = self._beside(".quant_map", torch.float32, 16)
        if not torch.allclose(values, torch.tensor(NF4_VALUES), rtol=0, atol=1e-6):
            _unsupported(self._source, self._name, "sixteen values that are not NF4's")
        count = self._rows * self._columns
        blocks = -(-count // self._block_size)
        codes = self._source.get_raw(self._name).flatten().view(torch.uint8)
        if len(codes) != -(-count // 2):
            self._fail(f"{len(codes)} bytes for {self._rows} by {self._columns} weights")
        absmax, nested = self._absmax(blocks)
        if self._columns % self._block_size == 0:
            shape = (self._rows, -1)
            return NF4Tensor(codes.view(shape), absmax.view(shape), self._block_size, nested)
        scales = absmax if nested is None else nested.scales(absmax)
        plain = dequantize_nf4_blocks(codes, scales, count, self._block_size, self._dtype())
        return plain.view(self._rows, self._columns)

    def _absmax(self, blocks: int) -> tuple[torch.Tensor, NestedAbsmax | None]:
        nested = "nested_offset" in self._state
        absmax = self._beside(".absmax", torch.uint8 if nested else torch.float32, blocks)
        if not nested:
            return absmax, None
        group = self._whole_number("nested_blocksize")
        offset = self._state["nested_offset"]
        if not isinstance(offset, float) or not math.isfinite(offset):
            self._fail("an offset of its scales that is not a number")
        if self._state.get("nested_dtype") != "float32":
            self._fail("scales of scales in another type than float32")
        return absmax, NestedAbsmax(
            self._beside(".nested_quant_map", torch.float32, 256),
            self._beside(".nested_absmax", torch.float32, -(-blocks // group)),
            torch.tensor(offset),
            group,
        )

    def _beside(self, end: str, dtype: torch.dtype, count: int) -> torch.Tensor:
        tensor = self._source.get_raw(self._name + end).flatten()
        if tensor.dtype != dtype or len(tensor) != count:
            self._fail(f"{len(tensor)} {end[1:]} of {tensor.dtype}, not {count} of {dtype}")
        return tensor

    def _shape(self) -> tuple[int, int]:
        shape: object = self._state.get("shape")
        sizes = cast("list[object]", shape) if isinstance(shape, list) else []
        if len(sizes) != 2 or any(
            type(size) is not int or not 0 < size < 1 << 31 for size in sizes
        ):
            self._fail("no shape of a matrix")
        rows, columns = cast("list[int]", sizes)
        return rows, columns

    def _whole_number(self, key: str) -> int:
        value: Any = self._state.get(key)
        if type(value) is not int or not 0 < value < 1 << 20:
            self._fail(f"no sane {key!r}")
        return value

    def _dtype(self) -> torch.dtype:
        dtype = _DTYPES.get(str(self._state.get("dtype")))
        if dtype is None:
            self._fail("no dtype that it once had")
        return dtype

    def _fail(self, what: str) -> NoReturn:
        raise InvalidModel(
            f"{self._source.folder} gives {self._name!r} {what}.",
            hint="Download it again: the model is damaged.",
        )


def _unsupported(source: SafetensorsWeights, name: str, what: str) -> NoReturn:
    raise UnsupportedModel(
        f"{source.folder} stores {name!r} with {what}, which no kernel here reads.",
        hint="Choose an edition in BF16, F16, F32 or NF4.",
    )
