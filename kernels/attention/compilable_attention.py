"""Attention kernels as `KernelVariant`s, compiled ahead of time by Triton."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..build.compiled_kernel import CompiledKernel
from .attention_variant import AttentionVariant
from .triton_build import compile_attention

# All text that determines the result: the kernels, and how Triton compiles them.
_TEXTS = ("attention_kernels.py", "triton_build.py")


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
