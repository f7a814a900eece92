"""A `TritonLibrary` whose kernels run in Triton's interpreter, on the CPU."""

# Triton's interpreter has no types.
# pyright: basic, reportAttributeAccessIssue=false

from __future__ import annotations

import importlib.util
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import triton
import triton.language as tl
from kernel_harness.host_build import check_shape
from triton.runtime import interpreter
from triton.runtime.jit import JITFunction

from ingle.kernels import attention
from ingle.kernels.attention.attention_variant import AttentionVariant
from ingle.kernels.errors import LaunchFailed
from ingle.kernels.launch.cuda_driver import Argument, Grid

_SOURCE = Path(attention.__file__).with_name("attention_kernels.py")
_HELPERS = tuple(
    f"ingle.kernels.attention.{name}"
    for name in ("combine_parts", "key_bias_scores", "key_division", "page_heads")
)
_BUILDER = interpreter.InterpreterBuilder
_TYPES = {
    "fp32": tl.float32,
    "fp16": tl.float16,
    "bf16": tl.bfloat16,
    "i32": tl.int32,
    "i8": tl.int8,
    "u8": tl.uint8,
}


class InterpretedTritonLibrary:
    """Runs the kernels of `attention_kernels` with numpy, one program after the other.

    Corrects the interpreter where it differs from a GPU: products of 16-bit values are those of the
    values, not of their bits, and bf16 results are rounded, not truncated. `num_sms` is the
    number of SMs that wrappers see.
    """

    architecture = "host"

    def __init__(self, variants: Sequence[AttentionVariant], num_sms: int = 132) -> None:
        self.num_sms = num_sms
        self.launched: list[str] = []
        self._variants = {variant.name: variant for variant in variants}
        with _interpreting():
            self._module = _load()

    def launch_compiled(self, name: str, grid: Grid, arguments: Sequence[Argument]) -> None:
        """See `TritonLibrary`; the kernel has ended when this returns."""
        variant = self._variants.get(name)
        if variant is None:
            raise LaunchFailed(f"There is no compiled kernel {name}.")
        check_shape(name, grid)
        given = [
            _argument(each, kind)
            for each, kind in zip(arguments, variant.parameters.values(), strict=True)
        ]
        constants = variant.constants(self.architecture) | {"OVERLAP": False}
        self.launched.append(name)
        # A GPU divides by zero, and finds the largest of several NaN, without a warning.
        with _interpreting(), np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            getattr(self._module, variant.kernel)[grid](*given, **constants)


def _argument(argument: Argument, kind: str) -> Any:
    """A scalar of the type `kind`, as the interpreter represents it."""
    if kind.startswith("*"):
        of = tl.pointer_type(_TYPES[kind[1:]])
        value: Any = np.array([argument.value or 0], dtype=np.uint64)
    else:
        of = _TYPES[kind]
        value = np.array([argument.value], dtype=np.float32 if kind == "fp32" else np.int32)
    return tl.tensor(interpreter.TensorHandle(value, of), of)


def _load() -> ModuleType:
    """A private copy of the kernels' module, imported while Triton interprets."""
    name = "ingle.kernels.attention.interpreted_attention_kernels"
    spec = importlib.util.spec_from_file_location(name, _SOURCE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # The modules that it imports become interpreted, too; others get the compiled ones.
    compiled = {name: sys.modules.pop(name, None) for name in _HELPERS}
    try:
        spec.loader.exec_module(module)
    finally:
        for name, before in compiled.items():
            del sys.modules[name]
            if before is not None:
                sys.modules[name] = before
    return module


@contextmanager
def _interpreting() -> Iterator[None]:
    """Switch Triton to its interpreter, and restore every attribute afterwards."""
    places: list[Any] = [tl, tl.core, tl.math, tl.tensor, tl.dtype]
    places += [tl.core.tensor_descriptor_base, _BUILDER]
    before = [(place, dict(vars(place))) for place in places]
    was = triton.knobs.runtime.interpret
    triton.knobs.runtime.interpret = True
    try:
        for name, value in vars(tl).copy().items():
            if isinstance(value, JITFunction):
                setattr(tl, name, interpreter.InterpretedFunction(value.fn))
        _BUILDER.create_dot = _dot
        _BUILDER.cast_impl = _cast
        _BUILDER.create_inline_asm = _inline_assembly
        _BUILDER.create_fp_to_fp = lambda self, source, target, _: _cast(self, source, target)
        yield
    finally:
        triton.knobs.runtime.interpret = was
        for place, attributes in before:
            for name in vars(place).keys() - attributes.keys():
                delattr(place, name)
            for name, value in attributes.items():
                if vars(place)[name] is not value:
                    setattr(place, name, value)


_original_cast = _BUILDER.cast_impl


def _dot(self: Any, a: Any, b: Any, d: Any, *_: object) -> Any:
    return interpreter.TensorHandle(_exact(a) @ _exact(b) + d.data, d.dtype.scalar)


def _exact(handle: Any) -> Any:
    """The values in float32."""
    if handle.dtype == tl.bfloat16:
        return (handle.data.astype(np.uint32) << 16).view(np.float32)
    return handle.data.astype(np.float32)


class _Results(interpreter.TensorHandle):
    """The result of an operation with one output."""

    def get_result(self, _: int) -> interpreter.TensorHandle:
        return self


def _inline_assembly(
    self: Any, text: str, constraints: str, values: Any, *_: object
) -> interpreter.TensorHandle:
    """Python versions of the instructions, by the names in their first lines."""
    name = text.split("//")[1].split("\n")[0].strip()
    if name == "to the nearest":
        return _Results(np.rint(values[0].data).astype(np.int32), tl.int32)
    codes, scales = (value.data for value in values)
    numbers = _UNPACKINGS[name](codes).astype(np.float16)
    return _Results(numbers * scales, tl.float16)


_UNPACKINGS = {
    "signed bytes": lambda codes: codes,
    "low nibbles": lambda codes: (codes & 15).astype(np.int8) - 8,
    "high nibbles": lambda codes: (codes >> 4).astype(np.int8) - 8,
}


def _cast(self: Any, source: Any, target: Any) -> Any:
    """Casts to and from bf16, whose bits numpy holds as integers."""
    if target.scalar == tl.bfloat16 and source.dtype.scalar != tl.bfloat16:
        bits = np.ascontiguousarray(source.data.astype(np.float32)).view(np.uint32)
        rounded = ((bits.astype(np.uint64) + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
        rounded = np.where(np.isnan(source.data), np.uint16(0x7FC0), rounded)
        return interpreter.TensorHandle(rounded, target.scalar)
    if source.dtype.scalar == tl.bfloat16 and target.scalar != tl.bfloat16:
        exact = interpreter.TensorHandle(_exact(source), tl.float32)
        return exact if target.scalar == tl.float32 else _original_cast(self, exact, target)
    return _original_cast(self, source, target)
