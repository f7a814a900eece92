"""The inputs of a decoding step on the device: put in place once, then moved on."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from kernel_harness.host_library import CPUKernelLibrary

from ingle.kernels.continue_step import DecodeInputs, launch_continue_step
from ingle.kernels.token_sampling import SAMPLE_ROW, sample_row

MakeLibrary = Callable[..., CPUKernelLibrary]

PAGE = 32
# Sequences and their positions; the last two rows are padding.
POSITIONS = (0, 30, 31, 95)
PADDING_SLOT, STEPS = 4000, 40


def decode_inputs() -> DecodeInputs:
    random = torch.Generator().manual_seed(3)
    rows, padding = len(POSITIONS) + 2, [0, 0]
    positions = torch.tensor([*POSITIONS, *padding])
    tables = torch.randperm(rows * 5, generator=random).int().view(rows, 5)
    lengths = torch.tensor([*(position + 1 for position in POSITIONS), *padding]).int()
    slots = torch.tensor(
        [int(tables[i, at // PAGE]) * PAGE + at % PAGE for i, at in enumerate(POSITIONS)]
        + [PADDING_SLOT, PADDING_SLOT]
    )
    parameters = b"".join(sample_row(seed=i, place=7 * i, row=i).tobytes() for i in range(rows))
    sampled = torch.frombuffer(bytearray(parameters), dtype=torch.uint8)
    known = torch.randint(0, 90, (20,), generator=random)
    return DecodeInputs(
        known=known,
        origins=torch.tensor([3, 19, 0, 12, 4, 4]),
        drawn=torch.zeros(rows, dtype=torch.int64),
        token_ids=torch.full((rows,), -1),
        positions=positions,
        slots=slots,
        lengths=lengths,
        tables=tables,
        is_continued=torch.zeros(1, dtype=torch.int32),
        rows=sampled.view(rows, SAMPLE_ROW.itemsize),
    )


@pytest.mark.parametrize("seed", [0, 1])
def test_each_launch_moves_sequences_on_and_leaves_padding(
    make_library: MakeLibrary, seed: int
) -> None:
    library, found, sent = make_library(seed), decode_inputs(), decode_inputs()
    real = len(POSITIONS)
    launch_continue_step(library, found, PAGE)
    assert torch.equal(found.token_ids, sent.known[sent.origins])
    for name in ("positions", "slots", "lengths", "rows"):
        assert torch.equal(getattr(found, name), getattr(sent, name)), name
    for step in range(1, STEPS):
        found.drawn.copy_(torch.arange(len(found.drawn)) * 7 + step)
        launch_continue_step(library, found, PAGE)
        assert torch.equal(found.token_ids[:real], found.drawn[:real])
        places = torch.tensor(POSITIONS) + step
        assert torch.equal(found.positions[:real], places)
        assert torch.equal(found.lengths[:real], places.int() + 1)
        pages = found.tables[torch.arange(real), places // PAGE]
        assert torch.equal(found.slots[:real], pages * PAGE + places % PAGE)
        rows = found.rows.numpy().view(SAMPLE_ROW)[:, 0]  # pyright: ignore[reportUnknownMemberType]
        assert rows["place"].tolist() == [*(7 * i + step for i in range(real)), 7 * 4, 7 * 5]
        assert rows["seed"].tolist() == list(range(real + 2))
        assert torch.equal(found.slots[real:], sent.slots[real:])
        assert torch.equal(found.token_ids[real:], sent.known[sent.origins][real:])


def test_inputs_that_are_sent_again_begin_anew(make_library: MakeLibrary) -> None:
    library, found, sent = make_library(), decode_inputs(), decode_inputs()
    for _ in range(3):
        launch_continue_step(library, found, PAGE)
    for name in ("positions", "slots", "lengths", "rows", "is_continued"):
        getattr(found, name).copy_(getattr(sent, name))
    launch_continue_step(library, found, PAGE)
    assert torch.equal(found.token_ids, sent.known[sent.origins])
    assert torch.equal(found.positions, sent.positions)
    assert int(found.is_continued) == 1
