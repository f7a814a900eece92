"""Which kernels multiply how many rows, and where that is kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from ingle.kernels.matmul.matmul_tuning import MatmulTuning


def test_a_table_is_kept(tmp_path: Path) -> None:
    table = MatmulTuning(384, {"Q4_K": 5})
    table.write(tmp_path / "new" / "table.json")
    found = MatmulTuning.read(tmp_path / "new" / "table.json")
    assert found is not None
    assert found == table
    assert [found.most_for_gemv(kind) for kind in ("Q4_K", "Q6_K")] == [5, 8]


def test_no_kernel_is_asked_for_more_rows_than_it_has() -> None:
    assert MatmulTuning(256, {"Q4_K": 99}).most_for_gemv("Q4_K") == 8


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "null", '{"gemm": 1}', '{"gemm": "x", "gemv": {}}', '{"gemm":1,"gemv":[1]}'],
)
def test_what_is_no_table_is_left_alone(tmp_path: Path, text: str) -> None:
    path = tmp_path / "table.json"
    path.write_text(text)
    assert MatmulTuning.read(path) is None
    assert MatmulTuning.read(tmp_path / "none") is None


def test_games_cards_multiply_bytes_however_many() -> None:
    assert MatmulTuning.usual("sm_90").gemm == 256
    assert MatmulTuning.usual("sm_89").gemm > 10**6
