from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from ingle.kernels.adjust_logits import KINDS, AdjustLogits
from ingle.kernels.host_library import HostLibrary

MakeLibrary = Callable[..., HostLibrary]
Entries = list[tuple[int, int, int, tuple[float, float]]]


def tables(entries: Entries, rows: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Of entries (kind, row, token, values)."""
    ordered = sorted(entries)
    keys = [kind * (rows + 1) + row for kind, row, _, _ in ordered]
    offsets = np.searchsorted(keys, np.arange(KINDS * (rows + 1))).astype(np.int32)
    tokens = torch.tensor([token for _, _, token, _ in ordered], dtype=torch.int32)
    values = torch.tensor([values for *_, values in ordered], dtype=torch.float32).view(-1, 2)
    return torch.as_tensor(offsets).view(KINDS, rows + 1), tokens, values


def expected(logits: NDArray[np.float32], entries: Entries) -> NDArray[np.float32]:
    found = logits.copy()
    for kind, row, token, (first, second) in sorted(entries):
        old, first, second = found[row, token], np.float32(first), np.float32(second)
        if kind == 1:
            found[row, token] = (old * first if old <= 0 else old / first) - second
        else:
            found[row, token] = old + first if kind == 0 else old - first
    return found


@pytest.mark.parametrize("seed", [0, 1])
def test_logits_change_as_one_by_one(make_library: MakeLibrary, seed: int) -> None:
    random = np.random.default_rng(seed)
    rows, vocab = 5, 301
    logits = random.standard_normal((rows, vocab + 3)).astype(np.float32) * 4
    logits[2, :100] = -np.inf
    entries: Entries = []
    for kind in range(KINDS):
        for row, count in ((0, 1), (2, 290), (4, 130)):
            for token in random.permutation(vocab)[:count].tolist():
                first, second = random.uniform(0.5, 2), random.normal()
                entries.append((kind, row, token, (first, second if kind == 1 else 0.0)))
    found = torch.as_tensor(logits.copy())
    AdjustLogits(make_library(seed)).apply(found[:, :vocab], *tables(entries, rows))
    assert np.array_equal(found.numpy(), expected(logits, entries))


def test_what_does_not_fit_is_refused(make_library: MakeLibrary) -> None:
    adjust = AdjustLogits(make_library())
    offsets, tokens, values = tables([(0, 1, 3, (1.0, 0.0))], 2)
    with pytest.raises(ValueError, match="not those of 3 rows"):
        adjust.apply(torch.zeros(3, 8), offsets, tokens, values)
    with pytest.raises(ValueError, match="cannot be changed as"):
        adjust.apply(torch.zeros(2, 8).half(), offsets, tokens, values)
