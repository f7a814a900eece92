"""The sampling kernel against float64 arithmetic on sorted rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from ctypes import c_int, c_void_p
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from kernel_harness.host_library import CPUKernelLibrary
from numpy.typing import NDArray

from ingle.kernels.token_sampling import MAX_VOCAB, SAMPLE_ROW, SamplingKernel, sample_row

MakeLibrary = Callable[..., CPUKernelLibrary]
Logits = NDArray[np.float32]

CPU = torch.device("cpu")
FIELDS: list[dict[str, Any]] = [
    {"temperature": 0.0},
    {},
    {"temperature": 0.6},
    {"temperature": 3.0},
    {"temperature": 1e-40},
    {"min_p": 0.05},
    {"min_p": 1e-4, "temperature": 2.0},
    {"top_k": 1},
    {"top_k": 5},
    {"top_k": 40, "top_p": 0.95, "min_p": 0.05, "temperature": 0.8},
    {"top_k": 40, "min_p": 0.1, "temperature": 1.2},
    {"top_k": 1000, "top_p": 0.9},
    {"top_k": 5000, "temperature": 1.5},
    {"top_p": 0.9},
    {"top_p": 0.999, "temperature": 0.3},
    {"top_p": 0.0},
    {"top_p": 0.5, "min_p": 0.02},
]


def random_number(seed: int, place: int) -> float:
    """Return the first number of Philox4x32-10, written out in Python integers."""
    a, b, c, d = place & 0xFFFFFFFF, place >> 32, 0, 0
    low, high = seed & 0xFFFFFFFF, seed >> 32
    for _ in range(10):
        first, second = a * 0xD2511F53, c * 0xCD9E8D57
        a, b = second >> 32 ^ b ^ low, second & 0xFFFFFFFF
        c, d = first >> 32 ^ d ^ high, first & 0xFFFFFFFF
        low, high = (low + 0x9E3779B9) & 0xFFFFFFFF, (high + 0xBB67AE85) & 0xFFFFFFFF
    return ((a << 32 | b) >> 11) * 2.0**-53 + 2.0**-53


def expected_token(logits: Logits, number: float, fields: dict[str, Any]) -> int:
    """Return the token that `number` selects, exact up to the rounding of float64."""
    values = {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0, **fields}
    x = np.where(np.isnan(logits), -np.inf, logits).astype(np.float64)
    if not (x > -np.inf).any() or values["temperature"] <= 0:
        return int(x.argmax())
    order = np.arange(len(x))
    if values["top_k"] or values["top_p"] < 1:
        order = np.argsort(-x, kind="stable")
    order = order[x[order] > -np.inf]
    if values["top_k"]:
        order = order[: values["top_k"]]
    p = np.exp(x[order] - x.max())
    if values["top_p"] < 1:
        before = np.cumsum(p) - p
        order = order[: max(1, int((before < values["top_p"] * p.sum()).sum()))]
    if values["min_p"] > 0:
        order = order[x[order] >= x.max() + math.log(values["min_p"])]
    with np.errstate(over="ignore"):
        chances = np.exp((x[order] - x.max()) / max(values["temperature"], 1e-30))
    sums = chances.cumsum()
    return int(order[int((sums < number * sums[-1]).sum())])


def close_tokens(logits: Logits, number: float, fields: dict[str, Any]) -> set[int]:
    """Return the tokens that may be sampled if all sums are off by a millionth."""
    found: set[int] = set()
    for sample_tokens, cut in product((-1e-6, 0, 1e-6), repeat=2):
        moved = {**fields, "top_p": fields["top_p"] + cut} if fields.get("top_p") else fields
        found.add(expected_token(logits, min(max(number + sample_tokens, 1e-18), 1), moved))
    return found


def sample_tokens(
    sample: SamplingKernel, logits: Logits, fields: Sequence[dict[str, Any]], first: int = 0
) -> list[int]:
    """Sample a token for each row, with the numbers of stream 3 from `first` on."""
    rows = [
        sample_row(**{"seed": 3, "place": first + i, "row": i, **each})
        for i, each in enumerate(fields)
    ]
    return sample_rows(sample, torch.as_tensor(logits), np.concatenate(rows))


def sample_rows(
    sample: SamplingKernel,
    logits: torch.Tensor,
    rows: NDArray[np.void],
    masks: torch.Tensor | None = None,
) -> list[int]:
    tokens = torch.full((len(logits),), -1)
    parameters = torch.as_tensor(rows.view(np.uint8)).view(-1, SAMPLE_ROW.itemsize)
    sample.draw(logits, parameters, tokens, masks)
    return [int(token) for token in tokens]


@pytest.fixture(scope="module")
def sample(make_library: MakeLibrary) -> SamplingKernel:
    return SamplingKernel(make_library(seed=1), CPU)


def rows_of(kind: str, rows: int, vocab: int, seed: int = 0) -> Logits:
    random = np.random.default_rng(seed)
    x = random.standard_normal((rows, vocab)).astype(np.float32)
    if kind == "ties":
        x = np.round(x * 2) / 2
    elif kind == "flat":
        x[:] = -7.25
    elif kind == "one":
        x = np.where(np.arange(vocab) == vocab // 2, x, -np.inf)
    elif kind == "few":
        x = np.where(random.random(x.shape) < 0.9, -np.inf, x * 5)
    elif kind == "steep":
        x = -100 * np.abs(x) - np.arange(vocab) % 7
    else:
        x = x * np.float32(kind)
    return x.astype(np.float32)


@pytest.mark.parametrize(
    ("kind", "vocab"),
    [
        *product(["0.5", "3", "ties", "flat", "one", "few", "steep"], [1, 2, 64, 65, 500, 4001]),
        *product(["1", "flat"], [30_011]),
    ],
)
def test_tokens_equal_those_of_exact_sums(sample: SamplingKernel, kind: str, vocab: int) -> None:
    """Unless a boundary between two tokens is closer than a millionth."""
    logits = rows_of(kind, len(FIELDS), vocab, seed=vocab)
    found = sample_tokens(sample, logits, FIELDS, first=vocab)
    differing = 0
    for row, (token, fields) in enumerate(zip(found, FIELDS, strict=True)):
        number = random_number(3, vocab + row)
        differing += token != expected_token(logits[row], number, fields)
        assert token in close_tokens(logits[row], number, fields), fields
    assert differing <= (2 if kind == "flat" else 0)


@pytest.mark.slow
def test_random_parameters(sample: SamplingKernel) -> None:
    random = np.random.default_rng(4)
    fields = [
        {
            "temperature": float(random.choice([0.2, 1.0, 5.0])),
            "top_k": int(random.choice([0, 3, 70, 200])),
            "top_p": float(random.choice([1.0, 0.99, random.random()])),
            "min_p": float(random.choice([0.0, random.random() ** 4])),
        }
        for _ in range(600)
    ]
    logits = rows_of("2", len(fields), 300, seed=9)
    found = sample_tokens(sample, logits, fields)
    numbers = [random_number(3, row) for row in range(len(fields))]
    assert found == [expected_token(*each) for each in zip(logits, numbers, fields, strict=True)]


@pytest.mark.slow
def test_large_vocabulary(sample: SamplingKernel) -> None:
    fields = [FIELDS[i] for i in (0, 1, 9, 13)]
    logits = rows_of("2", len(fields), 262_145)
    logits[0, -1] = 50.0
    found = sample_tokens(sample, logits, fields)
    for row, token in enumerate(found):
        assert token in close_tokens(logits[row], random_number(3, row), fields[row])


@pytest.mark.slow
@pytest.mark.parametrize("vocab", [200, 9000])
def test_samples_do_not_depend_on_the_rest_of_the_batch(
    make_library: MakeLibrary, vocab: int
) -> None:
    """Nor on the number of blocks per row, nor on the order of threads."""
    logits = rows_of("2", len(FIELDS), vocab)
    everyone = np.concatenate(
        [sample_row(**{"seed": 5, "place": i, **each}) for i, each in enumerate(FIELDS)]
    )
    everyone["row"] = np.arange(len(FIELDS))
    texts: list[list[int]] = []
    for seed, num_sms in ((0, 132), (1, 1), (2, 30)):
        sample = SamplingKernel(make_library(seed=seed, num_sms=num_sms), CPU)
        texts.append(sample_rows(sample, torch.as_tensor(logits), everyone))
        order = np.random.default_rng(seed).permutation(len(FIELDS))
        texts.append(sample_rows(sample, torch.as_tensor(logits), everyone[order]))
        alone = [max(sample_rows(sample, torch.as_tensor(logits), row[None])) for row in everyone]
        texts.append(alone)
    assert all(text == texts[0] for text in texts)


@pytest.mark.parametrize("fields", [{"temperature": 0.0}, {}, {"top_k": 7}, {"top_p": 0.9}])
def test_nan_logits_are_never_sampled(sample: SamplingKernel, fields: dict[str, Any]) -> None:
    logits = rows_of("1", 40, 130)
    logits[:, ::2] = np.nan
    logits[:, 5] = -np.float32(np.nan)
    found = sample_tokens(sample, logits, [fields] * 40)
    assert all(token % 2 and token != 5 for token in found)
    for nothing in (np.nan, -np.inf):
        logits[:] = nothing
        assert sample_tokens(sample, logits, [fields] * 40) == [0] * 40


@pytest.mark.slow
def test_infinite_logit_is_always_sampled(sample: SamplingKernel) -> None:
    logits = rows_of("1", 40, 130)
    logits[:, (3, 90)] = np.inf
    for fields in ({}, {"top_k": 7}, {"top_p": 0.9, "min_p": 0.1}):
        assert set(sample_tokens(sample, logits, [fields] * 40)) == {3, 90}
    assert set(sample_tokens(sample, logits, [{"temperature": 0.0}] * 40)) == {3}


@pytest.mark.parametrize("vocab", [31, 200, 4500])
def test_masks(sample: SamplingKernel, vocab: int) -> None:
    """A bit mask is equivalent to logits of minus infinity."""
    random = np.random.default_rng(vocab)
    logits = rows_of("2", len(FIELDS), vocab)
    allowed = random.random((3, vocab)) < 0.3
    allowed[2] = False
    packed = np.packbits(allowed, axis=1, bitorder="little")
    words = np.pad(packed, ((0, 0), (0, -packed.shape[1] % 4))).view(np.int32)
    rows = np.concatenate(
        [sample_row(**{"place": i, "row": i, **each}) for i, each in enumerate(FIELDS)]
    )
    rows["mask"] = np.arange(len(rows)) % 4 - 1
    found = sample_rows(sample, torch.as_tensor(logits), rows, torch.as_tensor(words))
    masked = logits.copy()
    for row, mask in enumerate(rows["mask"].tolist()):
        if mask >= 0:
            masked[row, ~allowed[mask]] = -np.inf
    rows["mask"] = -1
    assert found == sample_rows(sample, torch.as_tensor(masked), rows)
    assert found[3] == 0


def test_rows_with_padding(sample: SamplingKernel) -> None:
    """Neither padding of the vocabulary nor unused rows are read."""
    wide = np.full((len(FIELDS) + 1, 101), np.nan, np.float32)
    wide[1:, :77] = rows_of("1", len(FIELDS), 77)
    wide[:, 77:] = 1e9
    rows = np.concatenate([sample_row(**{"row": i + 1, **each}) for i, each in enumerate(FIELDS)])
    found = sample_rows(sample, torch.as_tensor(wide)[:, :77], rows)
    rows["row"] -= 1
    assert found == [-1, *sample_rows(sample, torch.as_tensor(wide[1:, :77].copy()), rows)]


def test_row_offsets_beyond_32_bits(make_library: MakeLibrary) -> None:
    """A row of a matrix too large for memory: only that row exists."""
    logits, stride, row = rows_of("1", 1, 200), 2**30, 5
    rows = np.concatenate([sample_row(seed=1, row=0), sample_row(seed=1, row=row)])
    tokens = np.full(row + 1, -1)
    for asked, base in (
        (rows[:1], logits.ctypes.data),
        (rows[1:], logits.ctypes.data - 4 * row * stride),
    ):
        room, arrived = np.zeros(8, np.int32), np.zeros(1, np.int32)
        arrays = asked.ctypes.data, 0, room.ctypes.data, arrived.ctypes.data, tokens.ctypes.data
        make_library().launch(
            "sample.cuh",
            "sample_rows",
            (1, 1, 1),
            (128, 1, 1),
            [*(c_void_p(each) for each in (base, *arrays)), c_int(200), c_int(stride)],
            shared_bytes=16,
        )
    assert tokens[row] == tokens[0] >= 0


def chi_square(counts: NDArray[np.int64], chances: NDArray[np.float64]) -> float:
    """Return Pearson's statistic in standard deviations (Wilson and Hilferty 1931)."""
    assert not counts[chances == 0].any(), "an impossible token was sampled"
    expected = counts.sum() * chances
    tested = expected >= 5
    square = float((((counts - expected) ** 2)[tested] / expected[tested]).sum())
    spread = 2 / (9 * (int(tested.sum()) - 1))
    return ((square / (int(tested.sum()) - 1)) ** (1 / 3) - (1 - spread)) / math.sqrt(spread)


def check_distribution(sample: SamplingKernel, fields: dict[str, Any], count: int) -> None:
    logits = rows_of("1", 1, 61)[0]
    grid = (np.arange(20_000) + 0.5) / 20_000
    chances = np.bincount([expected_token(logits, u, fields) for u in grid], minlength=61) / 20_000
    counts = np.zeros(61, np.int64)
    for first in range(0, count, 1000):
        rows = np.repeat(sample_row(seed=8, **fields), 1000)
        rows["place"], rows["row"] = first + np.arange(1000), np.arange(1000)
        found = sample_rows(sample, torch.as_tensor(logits).expand(1000, -1), rows)
        counts += np.bincount(found, minlength=61)
    # The grid resolves probabilities to one in 20,000, which matters for rare tokens.
    assert abs(chi_square(counts, np.where(counts > 0, np.maximum(chances, 2e-5), chances))) < 4


@pytest.mark.slow
@pytest.mark.parametrize("fields", [{"temperature": 0.8}, {"top_k": 20, "top_p": 0.95}])
def test_samples_follow_the_distribution(sample: SamplingKernel, fields: dict[str, Any]) -> None:
    check_distribution(sample, fields, 4000)


@pytest.mark.slow
@pytest.mark.parametrize("fields", [{"temperature": 0.8}, {"top_k": 20, "top_p": 0.95}])
def test_hundred_thousand_samples_follow_the_distribution(
    sample: SamplingKernel, fields: dict[str, Any]
) -> None:
    check_distribution(sample, fields, 100_000)


def test_invalid_arguments_are_rejected(sample: SamplingKernel) -> None:
    rows = torch.zeros(1, SAMPLE_ROW.itemsize, dtype=torch.uint8)
    tokens = torch.zeros(1, dtype=torch.int64)
    for logits in (torch.zeros(1, 8).half(), torch.empty(1, MAX_VOCAB + 1), torch.zeros(8, 2).T):
        with pytest.raises(ValueError, match="cannot be drawn"):
            sample.draw(logits, rows, tokens)
    with pytest.raises(ValueError, match="not those of draws"):
        sample.draw(torch.zeros(1, 8), rows[:, :32], tokens)
    with pytest.raises(ValueError, match="not those of 40 tokens"):
        sample.draw(torch.zeros(1, 40), rows, tokens, torch.zeros(1, 1, dtype=torch.int32))
    sample.draw(torch.zeros(0, 8), rows[:0], tokens[:0])
