from __future__ import annotations

import torch

from ingle.kernels.elementwise.gated_activation import gated_activation_reference


def test_silu_gates() -> None:
    gate, up = torch.randn(4, 9), torch.randn(4, 9)
    expected = gate / (1 + torch.exp(-gate)) * up
    assert torch.allclose(gated_activation_reference(gate, up, "silu"), expected, atol=1e-6)


def test_gelu_uses_the_tanh_approximation() -> None:
    gate, up = torch.randn(4, 9) * 3, torch.randn(4, 9)
    inner = (2 / torch.pi) ** 0.5 * (gate + 0.044715 * gate**3)
    expected = 0.5 * gate * (1 + torch.tanh(inner)) * up
    assert torch.allclose(gated_activation_reference(gate, up, "gelu_tanh"), expected, atol=1e-5)


def test_dtype_is_kept() -> None:
    gate, up = torch.randn(2, 4).bfloat16(), torch.randn(2, 4).bfloat16()
    assert gated_activation_reference(gate, up, "silu").dtype == torch.bfloat16
