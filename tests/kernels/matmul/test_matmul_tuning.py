"""`MatmulTuning`: which kernels are used for how many rows, and its file."""

from __future__ import annotations

from pathlib import Path

import pytest

from ingle.kernels.matmul.matmul_tuning import MatmulTuning


def test_tuning_table_round_trip(tmp_path: Path) -> None:
    table = MatmulTuning(384, {"Q4_K": 5})
    table.write(tmp_path / "new" / "table.json")
    found = MatmulTuning.read(tmp_path / "new" / "table.json")
    assert found is not None
    assert found == table
    assert [found.most_for_gemv(kind) for kind in ("Q4_K", "Q6_K")] == [5, 8]


def test_row_limit_is_capped_by_the_kernel() -> None:
    assert MatmulTuning(256, {"Q4_K": 99}).most_for_gemv("Q4_K") == 8


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "null", '{"gemm": 1}', '{"gemm": "x", "gemv": {}}', '{"gemm":1,"gemv":[1]}'],
)
def test_invalid_tuning_file_is_ignored(tmp_path: Path, text: str) -> None:
    path = tmp_path / "table.json"
    path.write_text(text)
    assert MatmulTuning.read(path) is None
    assert MatmulTuning.read(tmp_path / "none") is None


def test_consumer_gpus_use_int8_products_for_any_number_of_rows() -> None:
    assert MatmulTuning.usual("sm_90").gemm == 256
    assert MatmulTuning.usual("sm_89").gemm > 10**6
