"""Compile the Triton attention kernels to cubins, ahead of time.

Compiling needs Triton but no GPU; launching the cubins needs no Triton.
"""

from __future__ import annotations

import importlib
import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ..build.compiled_kernel import CompiledKernel
from ..errors import CompileFailed
from .attention_variant import AttentionVariant

SHARED_BYTES: Mapping[str, int] = MappingProxyType(
    {"sm_86": 101376, "sm_89": 101376, "sm_90": 232448, "sm_120": 101376}
)
"""The most dynamic shared memory that a block can have on each architecture we build for."""

# The same on every other architecture since sm_80.
_SHARED_BYTES_ANYWHERE = 101376

# All text that determines the result: the kernels, and how Triton compiles them.
_TEXTS = (
    "attention_kernels.py",
    "combine_parts.py",
    "key_bias_scores.py",
    "key_division.py",
    "page_heads.py",
    "triton_build.py",
)

_PARAMETER = re.compile(r"^\s*\.param \.\w+", re.MULTILINE)


def triton_version() -> str:
    """Name and version of the compiler; raises `CompileFailed` if it is not installed."""
    return f"triton-{_triton().__version__}"


def compile_attention(variant: AttentionVariant, architecture: str) -> CompiledKernel:
    """The kernel for an architecture such as `sm_90`.

    Raises `CompileFailed` if Triton is missing, rejects it, or makes a cubin that cannot run.
    """
    number = int(architecture.removeprefix("sm_"))
    constants = variant.constants(architecture) | {"OVERLAP": int(number >= 90)}
    try:
        made = _compile(variant, number, constants)
    except Exception as error:  # of many types, some of them LLVM's
        raise CompileFailed(f"Triton refused {variant.name} for {architecture}: {error}") from error
    metadata = made.metadata
    if metadata.shared > SHARED_BYTES.get(architecture, _SHARED_BYTES_ANYWHERE):
        raise CompileFailed(
            f"{variant.name} wants {metadata.shared} bytes of shared memory: too many on "
            f"{architecture}."
        )
    if metadata.global_scratch_size or metadata.profile_scratch_size:
        raise CompileFailed(f"{variant.name} wants memory of Triton's own, which it is not given.")
    return CompiledKernel(
        name=variant.name,
        architecture=architecture,
        cubin=bytes(made.asm["cubin"]),
        kernel=str(metadata.name),
        threads=int(metadata.num_warps) * 32,
        shared_bytes=int(metadata.shared),
        parameters=tuple(variant.parameters.values()),
        hidden_pointers=_hidden_pointers(str(made.asm["ptx"]), len(variant.parameters)),
        overlap=bool(constants["OVERLAP"]),
        compiler=triton_version(),
    )


def _compile(variant: AttentionVariant, architecture: int, constants: Mapping[str, int]) -> Any:
    triton = _triton()
    compiler: Any = importlib.import_module("triton.compiler")
    target: Any = importlib.import_module("triton.backends.compiler").GPUTarget
    kernels: Any = importlib.import_module(".attention_kernels", __package__)
    parameters = variant.parameters
    source = compiler.ASTSource(
        getattr(kernels, variant.kernel),
        signature={**parameters, **dict.fromkeys(constants, "constexpr")},
        constexprs=dict(constants),
        attrs={
            # Without this, loads are not vectorised to 16 bytes. Tables may begin anywhere.
            (index,): [["tt.divisibility", 16]]
            for index, kind in enumerate(parameters.values())
            if kind.startswith("*") and kind != "*i32"
        },
    )
    shape = variant.shape(f"sm_{architecture}")
    options = {
        "num_warps": shape.warps,
        "num_stages": shape.stages,
        "maxnreg": shape.registers,
    }
    knobs = triton.knobs
    with tempfile.TemporaryDirectory() as folder, knobs.cache.scope(), knobs.compilation.scope():
        knobs.cache.dir = folder
        # Line numbers would be most of a cubin, and are useless without the source.
        knobs.compilation.disable_line_info = True
        return triton.compile(source, target=target("cuda", architecture, 32), options=options)


def _hidden_pointers(ptx: str, parameters: int) -> int:
    """The number of pointers to scratch memory that follow the parameters; here unused and null."""
    head = ptx[ptx.index(".entry") :]
    return len(_PARAMETER.findall(head[: head.index(")")])) - parameters


def _triton() -> Any:
    try:
        return importlib.import_module("triton")
    except ImportError as error:
        raise CompileFailed(
            f"Triton is not installed: {error}.", hint="Run `ingle engine install cuda`."
        ) from error


@dataclass(frozen=True)
class CompilableAttention:
    """An `AttentionVariant` as a `KernelVariant`."""

    variant: AttentionVariant

    @property
    def name(self) -> str:
        """See `KernelVariant`."""
        return self.variant.name

    def source(self, architecture: str) -> str:
        """See `KernelVariant`."""
        constants, shape = self.variant.constants(architecture), self.variant.shape(architecture)
        texts = (Path(__file__).with_name(name).read_text() for name in _TEXTS)
        return "\0".join((*texts, repr((self.variant.parameters, constants, shape))))

    def compile(self, architecture: str) -> CompiledKernel:
        """See `KernelVariant`."""
        return compile_attention(self.variant, architecture)
