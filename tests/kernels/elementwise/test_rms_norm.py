from __future__ import annotations

import torch

from ingle.kernels.elementwise.rms_norm import rms_norm_reference


def test_rows_get_a_root_mean_square_of_one() -> None:
    rows = torch.randn(5, 3, 64) * 40
    found = rms_norm_reference(rows, torch.ones(64), 1e-6, torch.float32)
    assert torch.allclose(found.square().mean(-1), torch.ones(5, 3), atol=1e-5)


def test_equals_float64() -> None:
    rows, weight = torch.randn(7, 48, dtype=torch.float64), torch.randn(48, dtype=torch.float64)
    exact = rows / (rows.square().mean(-1, keepdim=True) + 1e-5).sqrt() * weight
    found = rms_norm_reference(rows.float(), weight.float(), 1e-5, torch.float32)
    assert torch.allclose(found.double(), exact, rtol=0, atol=2e-6)


def test_half_precision_is_computed_in_fp32() -> None:
    rows = torch.full((2, 4096), 300.0, dtype=torch.float16)  # squares overflow fp16
    found = rms_norm_reference(rows, torch.ones(4096), 1e-6, torch.float16)
    assert found.dtype == torch.float16
    assert torch.equal(found, torch.ones_like(rows))
