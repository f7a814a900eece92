"""Estimated compute buffers against those that llama.cpp logs for files of these shapes."""

from __future__ import annotations

from typing import Any

import pytest

from ingle.models.fit.llama_cpp_fit import LoadParameters, output_bytes, step_bytes
from ingle.models.fit.model_shape import ModelShape
from ingle.models.kv_type import KVType

MIB = 2**20
# What llama.cpp 0.5.0 logs as "compute buffer size" and "output buffer size" on a CPU, in MiB, for
# files of these shapes without tensor data, with 25 sequences of one KV cache.
REPORTED = {
    "llama-3-8b": (12.23, 121.01, 135.36, 184.58, 528.56, 127.24, 1127.94),
    "llama-3-70b": (12.23, 239.95, 254.31, 303.53, 993.02, 237.98, 2218.95),
    "qwen3-30b-a3b": (14.49, 92.30, 106.65, 155.87, 416.45, 106.73, 1113.58),
    "gemma-3-27b": (25.01, 173.82, 202.53, 300.97, 790.85, 210.89, 1180.75),
    "gpt-oss-20b": (19.18, 98.84, 127.55, 225.99, 498.06, 127.62, 2203.45),
}
LOADS: tuple[dict[str, Any], ...] = (
    {"context": 2048},
    {"context": 16384},
    {"context": 65536},
    {"context": 16384, "batch": 2048},
    {"context": 16384, "kv_type": KVType.Q8_0},
    {"context": 16384, "flash_attention": False},
)


@pytest.mark.parametrize("name", REPORTED)
def test_estimate_matches_llama_cpp_for_large_models(
    name: str, well_known_shapes: dict[str, ModelShape]
) -> None:
    shape = well_known_shapes[name]
    outputs, *steps = REPORTED[name]
    assert output_bytes(shape, LoadParameters(context=2048).outputs) == pytest.approx(
        outputs * MIB, rel=1e-3
    )
    for fields, reported in zip(LOADS, steps, strict=True):
        found = step_bytes(shape, LoadParameters(**fields))
        # 7 MiB is a thousandth of the smallest of these models.
        assert found == pytest.approx(reported * MIB, rel=0.05, abs=7 * MIB), fields
