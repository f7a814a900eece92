"""The memory of a process that runs a model, besides the model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

MIB = 2**20

LLAMA_PROCESS = 52 * MIB
"""A worker with llama.cpp before it loads anything: 29 MiB of its own, and 23 MiB of the
interpreter's and libraries' pages, which several workers share. Measured; see docs/memory.md."""
TORCH_PROCESS = 529 * MIB
"""As `LLAMA_PROCESS`, with PyTorch: 283 MiB of its own, 246 MiB of libraries."""
GPU_PROCESS = 512 * MIB
"""What CUDA takes of a GPU for a process before it computes anything: its context, the code of the
kernels, cuBLAS's work space. 300 to 550 MiB on cards of today, by their number of processors."""
GPU_PROCESS_HOST = 256 * MIB
"""What the driver and cuBLAS take of the machine's memory for such a process."""
TORCH_GPU_PROCESS = 3 * 2**29
"""PyTorch with a GPU, of the machine's memory."""

# llama.cpp keeps a token twice with its texts, and in a hash map by its text.
_TOKEN = 162
# Both halves of a merge are texts in a hash map.
_MERGE = 150

_REPACKED: Mapping[str, tuple[str, ...]] = {
    "AVX2": ("Q4_0", "Q4_K", "IQ4_NL", "MXFP4"),
    "AVX-512": ("Q2_K",),
    "DOTPROD": ("Q4_0", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL", "MXFP4", "Q8_0"),
}


def vocabulary_bytes(tokens: int, merges: int) -> int:
    """A vocabulary as llama.cpp holds it; within a tenth of vocabularies of 30 to 262 thousand."""
    return tokens * _TOKEN + merges * _MERGE


def repacked_types(instruction_sets: Iterable[str]) -> frozenset[str]:
    """The tensor types that llama.cpp lays out anew for a processor with these instructions.

    Source: `ggml_repack_get_optimal_repack_type`.
    """
    return frozenset(kind for name in instruction_sets for kind in _REPACKED.get(name, ()))
