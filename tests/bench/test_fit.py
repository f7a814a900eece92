"""Predicted memory is within 5 % of what a worker really takes."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from fit import measure
from zero_model import ZeroShape, write_zero_model

from ingle.models.kv_type import KVType

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/PID/smaps"),
]

HOWS = [(512, 1, KVType.F16), (1024, 8, KVType.Q8_0)]


@pytest.mark.model
@pytest.mark.parametrize(("context", "slots", "kv_type"), HOWS)
async def test_smollm2_takes_what_was_predicted(
    smollm2_path: Path, context: int, slots: int, kv_type: KVType
) -> None:
    row = await measure(smollm2_path, "llama.cpp", context, slots, kv_type)
    assert abs(row.error) < 5, row


@pytest.mark.parametrize(
    "shape",
    [
        ZeroShape(16, 2048, 8192, 32, 8, 128_256, head_size=64, tied=True),
        ZeroShape(16, 2048, 1024, 16, 16, 32_000, experts=16, used=4),
    ],
    ids=["llama-1b", "experts"],
)
@pytest.mark.parametrize(("context", "slots", "kv_type"), HOWS)
async def test_larger_model_takes_what_was_predicted(
    tmp_path: Path, shape: ZeroShape, context: int, slots: int, kv_type: KVType
) -> None:
    path = write_zero_model(tmp_path / "zero.gguf", shape)
    row = await measure(path, "llama.cpp", context, slots, kv_type)
    assert row.foretold.resident > 1e9
    assert abs(row.error) < 5, row
