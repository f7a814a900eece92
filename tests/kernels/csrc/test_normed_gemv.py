"""Products added to a residual stream and its norm in one launch, against both in two."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from kernel_harness.host_library import CPUKernelLibrary

from ingle.kernels.elementwise.activations import ActivationForms, q8_groups, quantize_q8_reference
from ingle.kernels.elementwise.rms_norm import Norm, NormQuantize
from ingle.kernels.formats.repack import repack
from ingle.kernels.formats.weight import QuantizedTensor, RepackedTensor
from ingle.kernels.matmul.linear import LinearLayer
from ingle.kernels.matmul.normed_gemv import NormedGemv, can_norm
from ingle.kernels.matmul.quantized_gemv import GemvVariant, QuantizedGemv

MakeLibrary = Callable[..., CPUKernelLibrary]
MakeQuantized = Callable[..., QuantizedTensor]
FEW = {"GEMV_VARIANTS": "VARIANT(2, 1, 1) VARIANT(2, 1, 4) VARIANT(2, 2, 1) VARIANT(2, 2, 4)"}
BOTH = ActivationForms(torch.bfloat16, tiles=True)


# Sizes of each variant of the norm, which fill no block.
@pytest.mark.parametrize(
    ("kind", "rows", "columns", "split"),
    [
        ("Q4_K", 96, 1, 4),
        ("Q6_K", 96, 2, 1),
        *(
            pytest.param(*each, marks=pytest.mark.slow)
            for each in (("Q6_K", 2080, 2, 4), ("Q4_K", 4128, 1, 1), ("Q4_K", 1056, 2, 4))
        ),
    ],
)
def test_results_are_those_of_two_launches_bit_for_bit(
    make_library: MakeLibrary, make_quantized: MakeQuantized,
    kind: str, rows: int, columns: int, split: int,
) -> None:  # fmt: skip
    library = make_library(seed=split, variants=FEW)
    weight = repack(make_quantized(kind, rows, 256, 1, tame=True))
    layer, norm = LinearLayer(weight, torch.randn(rows)), Norm(torch.rand(rows) + 0.5, 1e-5)
    tiles = quantize_q8_reference(torch.randn(columns, 256))
    before, variant = torch.randn(columns, rows + 32)[:, :rows], GemvVariant(2, split)
    expected = before.clone()
    QuantizedGemv(library).multiply(
        weight, tiles, expected, bias=layer.bias, add=0.5, variant=variant
    )
    right = NormQuantize(library).rms_norm(expected, *norm, BOTH)
    normed = NormedGemv(library)
    for _ in range(2):  # the counter is reset
        found = torch.cat((before, torch.zeros(columns, 32)), 1)[:, :rows]
        result = normed.multiply_add(found, tiles, layer, 0.5, norm, BOTH, variant=variant)
        assert torch.equal(found, expected)
        assert result.dense is not None
        assert right.dense is not None
        assert torch.equal(result.dense, right.dense)
        assert result.tiles is not None
        assert right.tiles is not None
        assert torch.equal(q8_groups(result.tiles, rows), q8_groups(right.tiles, rows))


def test_what_is_left_to_two_launches(
    make_library: MakeLibrary, make_quantized: MakeQuantized
) -> None:
    weight = repack(make_quantized("Q4_K", 96, 256))
    assert can_norm(weight, 2)
    assert not can_norm(weight, 3), "one block would take too long"
    assert not can_norm(repack(make_quantized("Q8_0", 96, 256)), 1)
    assert not can_norm(repack(make_quantized("Q4_K", 100, 256)), 1)
    assert not can_norm(torch.zeros(96, 256), 1)
    assert isinstance(weight, RepackedTensor)
    tiles, norm = quantize_q8_reference(torch.randn(1, 256)), Norm(torch.ones(64), 1e-5)
    with pytest.raises(ValueError, match="do not fit the norm"):
        NormedGemv(make_library()).multiply_add(
            torch.zeros(1, 96), tiles, LinearLayer(weight), 1.0, norm, BOTH
        )
