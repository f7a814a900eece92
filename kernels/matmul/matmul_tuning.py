"""The row counts at which GEMV, GEMM and dequantised matrix products take over."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ..formats.weight_format import WEIGHT_FORMATS

_DEFAULT_GEMV_ROWS = 8
# Data-centre GPUs run 16-bit tensor core products as fast as GeForce runs int8 ones, so that long
# prompts are faster dequantised there. GeForce halves the rate of 16-bit products only.
_DATA_CENTRE = frozenset(("sm_80", "sm_90", "sm_100", "sm_103"))
_MAX_INT8_ROWS = 256
_ALWAYS = 1 << 30


@dataclass(frozen=True)
class MatmulTuning:
    """Up to how many rows each kind of kernel is the fastest, as measured by bench/gpu.

    `gemv` has the most rows for csrc/gemv.cuh by weight format, unless they are the default 8;
    `gemm` the most for int8 products on tensor cores. With more rows, weights are dequantised
    first.
    """

    gemm: int
    gemv: Mapping[str, int] = field(default_factory=dict[str, int])

    def most_for_gemv(self, kind: str) -> int:
        """The most rows for which weights of a format go through csrc/gemv.cuh."""
        return min(self.gemv.get(kind, _DEFAULT_GEMV_ROWS), _DEFAULT_GEMV_ROWS)

    @classmethod
    def usual(cls, architecture: str) -> MatmulTuning:
        """The expected best for an architecture such as `sm_90`, without a measurement."""
        gemv = {
            form.name: form.gemv_rows[architecture]
            for form in WEIGHT_FORMATS.values()
            if architecture in form.gemv_rows
        }
        return cls(_MAX_INT8_ROWS if architecture in _DATA_CENTRE else _ALWAYS, gemv)

    @staticmethod
    def path_for(folder: Path, device: str) -> Path:
        """The file of the table for a device of this name."""
        return folder / f"products-{'-'.join(device.lower().split())}.json"

    @classmethod
    def read(cls, path: Path) -> MatmulTuning | None:
        """The measured table of a file; None if there is none or it is invalid."""
        try:
            found = json.loads(path.read_text())
            gemv = {str(kind): int(rows) for kind, rows in found["gemv"].items()}
            return cls(int(found["gemm"]), gemv)
        except (OSError, ValueError, LookupError, AttributeError, TypeError):
            return None

    def write(self, path: Path) -> None:
        """Write the table for the next start."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"gemm": self.gemm, "gemv": dict(self.gemv)}) + "\n")
