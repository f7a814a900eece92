from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from kernel_harness.host_library import CPUKernelLibrary
from numpy.typing import NDArray

from ingle.kernels.adjust_logits import ENTRY_KINDS, LogitEntries, launch_adjust_logits

MakeLibrary = Callable[..., CPUKernelLibrary]
Logits = NDArray[np.float32]
Entries = list[tuple[int, int, int, list[float]]]

ROWS, VOCAB = 5, 301


def tables(entries: Entries) -> LogitEntries:
    """Build tables from entries (kind, row, token, numbers)."""
    ordered = sorted(entries)
    keys = [kind * (ROWS + 1) + row for kind, row, _, _ in ordered]
    offsets = np.searchsorted(keys, np.arange(ENTRY_KINDS * (ROWS + 1))).astype(np.int32)
    tokens = torch.tensor([token for _, _, token, _ in ordered], dtype=torch.int32)
    values = torch.tensor([values for *_, values in ordered], dtype=torch.float32).view(-1, 3)
    return LogitEntries(torch.as_tensor(offsets).view(ENTRY_KINDS, ROWS + 1), tokens, values)


def random_entries(random: np.random.Generator) -> Entries:
    entries: Entries = []
    for kind in range(ENTRY_KINDS):
        for row, count in ((0, 1), (2, 290), (4, 130)):
            for token in random.permutation(VOCAB)[:count].tolist():
                entries.append((kind, row, token, random.uniform(0.5, 2, 3).tolist()))
    return entries


def expected(logits: Logits, entries: Entries, repeated: dict[int, int]) -> Logits:
    """Apply entries one by one; `repeated` has tokens that rows generated once more."""
    found = logits.copy()
    for kind, row, token, numbers in sorted(entries):
        number, taken, again = np.array(numbers, np.float32)
        old = found[row, token]
        if kind == 1:
            kept = old * number if old <= 0 else old / number
            found[row, token] = kept - (again if repeated.get(row) == token else taken)
        else:
            found[row, token] = old + number if kind == 0 else old - number
    return found


def random_logits(random: np.random.Generator) -> Logits:
    logits = random.standard_normal((ROWS, VOCAB + 3)).astype(np.float32) * 4
    logits[2, :100] = -np.inf
    return logits


@pytest.mark.parametrize("seed", [0, 1])
def test_entries_equal_sequential_application(make_library: MakeLibrary, seed: int) -> None:
    random = np.random.default_rng(seed)
    logits, entries = random_logits(random), random_entries(random)
    found = torch.as_tensor(logits.copy())
    launch_adjust_logits(make_library(seed), found[:, :VOCAB], tables(entries))
    assert np.array_equal(found.numpy(), expected(logits, entries, {}))


@pytest.mark.parametrize("seed", [0, 1])
def test_penalty_of_a_token_known_only_to_the_device(make_library: MakeLibrary, seed: int) -> None:
    """Row 1 has no entries, row 2 one for the token, row 4 others; row 0 awaits nothing."""
    random = np.random.default_rng(seed)
    logits, entries = random_logits(random), random_entries(random)
    penalised = {row: [t for k, r, t, _ in entries if (k, r) == (1, row)] for row in range(ROWS)}
    repeated = {1: 7, 2: penalised[2][3], 4: min(set(range(VOCAB)) - set(penalised[4]))}
    first = random.uniform(0.5, 2, (ROWS, 2)).astype(np.float32)
    unknown = [(1, row, repeated[row], [*first[row].tolist(), 0.0]) for row in (1, 4)]
    places, sampled = (
        np.array([-1, 3, 0, -1, 1]),
        np.array([repeated[2], repeated[4], -5, repeated[1]]),
    )
    known = tables(entries)
    awaiting = LogitEntries(
        known.offsets,
        known.tokens,
        known.values,
        torch.as_tensor(places.astype(np.int32)),
        torch.as_tensor(first),
        torch.as_tensor(sampled),
    )
    found = torch.as_tensor(logits.copy())
    launch_adjust_logits(make_library(seed), found[:, :VOCAB], awaiting)
    assert np.array_equal(found.numpy(), expected(logits, [*entries, *unknown], {2: repeated[2]}))


def test_invalid_shapes_are_rejected(make_library: MakeLibrary) -> None:
    library = make_library()
    entries = tables([(0, 1, 3, [1.0, 0.0, 0.0])])
    with pytest.raises(ValueError, match="not those of 3 rows"):
        launch_adjust_logits(library, torch.zeros(3, 8), entries)
    with pytest.raises(ValueError, match="cannot be changed as"):
        launch_adjust_logits(library, torch.zeros(ROWS, 8).half(), entries)
    awaited = LogitEntries(entries.offsets, entries.tokens, entries.values, torch.zeros(ROWS).int())
    with pytest.raises(ValueError, match="not said from where"):
        launch_adjust_logits(library, torch.zeros(ROWS, 8), awaited)
