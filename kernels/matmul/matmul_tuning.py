"""Which kind of kernel multiplies how many rows of activations."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from ..formats.weight_format import WEIGHT_FORMATS

_NOTHING: Mapping[str, int] = MappingProxyType({})
_USUAL_GEMV = 8
# Where tensor cores are as quick with floats as wide as 16 bits sum up as with bytes, long prompts
# had better be multiplied as floats. Cards for games halve floats, not bytes.
_DATA_CENTRE = frozenset(("sm_80", "sm_90", "sm_100", "sm_103"))
_MOST_AS_BYTES = 256
_ALWAYS = 1 << 30


@dataclass(frozen=True)
class MatmulTuning:
    """Up to how many rows each kind of kernel is the quickest; measured by bench/gpu, or guessed.

    `gemv` has the most rows for csrc/gemv.cuh by type of weights, where they are not the usual 8;
    `gemm` the most for byte products on tensor cores. With more, weights are dequantised first.
    """

    gemm: int
    gemv: Mapping[str, int] = field(default_factory=lambda: _NOTHING)

    def most_for_gemv(self, kind: str) -> int:
        """Rows up to which weights of a type go through csrc/gemv.cuh."""
        return min(self.gemv.get(kind, _USUAL_GEMV), _USUAL_GEMV)

    @classmethod
    def usual(cls, architecture: str) -> MatmulTuning:
        """What is likely best on an architecture such as `sm_90`."""
        gemv = {
            form.name: form.gemv_rows[architecture]
            for form in WEIGHT_FORMATS.values()
            if architecture in form.gemv_rows
        }
        return cls(_MOST_AS_BYTES if architecture in _DATA_CENTRE else _ALWAYS, gemv)

    @staticmethod
    def path_for(folder: Path, device: str) -> Path:
        """Where the table of a device by this name is kept."""
        return folder / f"products-{'-'.join(device.lower().split())}.json"

    @classmethod
    def read(cls, path: Path) -> MatmulTuning | None:
        """A table that was measured, or None where the file holds none."""
        try:
            found = json.loads(path.read_text())
            gemv = {str(kind): int(rows) for kind, rows in found["gemv"].items()}
            return cls(int(found["gemm"]), gemv)
        except (OSError, ValueError, LookupError, AttributeError, TypeError):
            return None

    def write(self, path: Path) -> None:
        """Keep the table for the next start."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"gemm": self.gemm, "gemv": dict(self.gemv)}) + "\n")
