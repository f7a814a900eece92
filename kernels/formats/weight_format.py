"""The storage formats of weights that ingle's own engine computes with: one row each.

Imports no torch, so that the daemon can ask which formats there are. What a format computes is its
codec (`codecs.py`); its kernels are `csrc/{kernel}.cuh`, `csrc/{kernel}_gemm.cuh` and, with
`has_gated_kernel`, `csrc/gated_{kernel}.cuh`, with `has_normed_kernel`
`csrc/normed_{kernel}.cuh`, with `has_expert_kernel` `csrc/experts_{kernel}.cuh`
and `csrc/expert_gemm_{kernel}.cuh`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

OLDEST_FP8_GPU = (8, 9)
"""The compute capability that products of FP8 begin with."""


@dataclass(frozen=True, kw_only=True)
class WeightFormat:
    """A format: `block_bytes` bytes hold `block_elements` consecutive weights of a row.

    `name` is ggml's, and `ggml_type` its number in GGUF files; None for formats of other files.
    """

    name: str
    ggml_type: int | None
    block_elements: int
    block_bytes: int
    gemm_row_bytes: int = 0
    """Bytes of 128 weights in shared memory of csrc/gemm.cuh; 0 for a format without kernels."""
    has_expert_kernel: bool = False
    """Whether a kernel multiplies by the matrices of picked experts."""
    has_gated_kernel: bool = False
    """Whether one kernel multiplies by gate and up, and applies the activation."""
    has_normed_kernel: bool = False
    """Whether one kernel adds few products to a residual stream, and normalises that."""
    paired_with: frozenset[str] = frozenset()
    """The formats of a second matrix that one kernel multiplies with this one."""
    gemv_rows: Mapping[str, int] = field(default_factory=dict[str, int])
    """The most batch rows for which GEMV is fastest, by architecture; elsewhere the usual 8."""
    shared_kernel: str = ""
    """The kernels of several formats, whose last argument is `block_elements`."""

    @property
    def kernel(self) -> str:
        """What the names of its kernels begin with."""
        return self.shared_kernel or self.name.lower()

    @property
    def has_kernels(self) -> bool:
        """Whether there are GEMV, GEMM and dequantise kernels, which read repacked weights."""
        return self.gemm_row_bytes > 0


# Block sizes: ggml.h and the block structs of ggml-common.h. GEMV on sm_90, by instruction counts:
# with more batch rows, dp4a takes an H200 longer than memory does, and tensor cores do not.
_FORMATS = (
    WeightFormat(name="F32", ggml_type=0, block_elements=1, block_bytes=4),
    WeightFormat(name="F16", ggml_type=1, block_elements=1, block_bytes=2),
    WeightFormat(name="BF16", ggml_type=30, block_elements=1, block_bytes=2),
    WeightFormat(
        name="Q4_0",
        ggml_type=2,
        block_elements=32,
        block_bytes=18,
        gemm_row_bytes=80,
        has_gated_kernel=True,
    ),
    WeightFormat(name="Q4_1", ggml_type=3, block_elements=32, block_bytes=20, gemm_row_bytes=80),
    WeightFormat(name="Q5_0", ggml_type=6, block_elements=32, block_bytes=22, gemm_row_bytes=112),
    WeightFormat(name="Q5_1", ggml_type=7, block_elements=32, block_bytes=24, gemm_row_bytes=112),
    WeightFormat(
        name="Q8_0",
        ggml_type=8,
        block_elements=32,
        block_bytes=34,
        gemm_row_bytes=144,
        has_expert_kernel=True,
        has_gated_kernel=True,
    ),
    WeightFormat(
        name="Q4_K",
        ggml_type=12,
        block_elements=256,
        block_bytes=144,
        gemm_row_bytes=80,
        has_expert_kernel=True,
        has_gated_kernel=True,
        has_normed_kernel=True,
        paired_with=frozenset({"Q6_K"}),
        gemv_rows={"sm_90": 6},
    ),
    WeightFormat(
        name="Q5_K",
        ggml_type=13,
        block_elements=256,
        block_bytes=176,
        gemm_row_bytes=112,
        has_expert_kernel=True,
        has_gated_kernel=True,
    ),
    WeightFormat(
        name="Q6_K",
        ggml_type=14,
        block_elements=256,
        block_bytes=210,
        gemm_row_bytes=112,
        has_expert_kernel=True,
        has_gated_kernel=True,
        has_normed_kernel=True,
    ),
    WeightFormat(
        name="MXFP4",
        ggml_type=39,
        block_elements=32,
        block_bytes=17,
        gemm_row_bytes=80,
        has_expert_kernel=True,
    ),
    WeightFormat(
        name="NF4",
        ggml_type=None,
        block_elements=64,
        block_bytes=33,
        gemm_row_bytes=80,
        has_gated_kernel=True,
        gemv_rows={"sm_90": 4},
    ),
    # Of safetensors: codes of four bits that share a scale and a code of zero.
    *(
        WeightFormat(
            name=f"G4_{group}",
            ggml_type=None,
            block_elements=group,
            block_bytes=group // 2 + 4,
            gemm_row_bytes=80,
            has_gated_kernel=True,
            shared_kernel="g4",
        )
        for group in (32, 64, 128)
    ),
)
WEIGHT_FORMATS: Mapping[str, WeightFormat] = {each.name: each for each in _FORMATS}
GGML_FORMATS: Mapping[str, WeightFormat] = {
    each.name: each for each in _FORMATS if each.ggml_type is not None
}
"""The formats of tensors in GGUF files."""


def format_of_codes(bits: int, columns: int, groups: int) -> WeightFormat | None:
    """The format that holds integer codes with a scale for each of a row's `groups`, if one does.

    Codes of eight bits then need a zero point of 128, and scales that a float16 represents.
    """
    size, rest = divmod(columns, groups)
    if rest or bits > 4:
        fits = not rest and bits == 8 and size % 32 == 0
        return WEIGHT_FORMATS["Q8_0"] if fits else None
    group = next((each for each in (128, 64, 32) if size % each == 0), None)
    return None if group is None else WEIGHT_FORMATS[f"G4_{group}"]
