"""Step inputs: what is sent, and that the device then has what was laid out on the host."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch

from ingle.backends.base.sampling_params import SamplingParams
from ingle.backends.cuda.graphs.step_inputs import StepInputs
from ingle.backends.cuda.graphs.step_shape import StepShape, StepShapes
from ingle.backends.engine.batch import Batch, ScheduledChunk
from ingle.backends.engine.sequence import Sequence

CPU = torch.device("cpu")
SHAPES = StepShapes(max_tokens=64, max_sequences=16, max_query=16, max_context=5000)


def make_inputs(*, staged: bool) -> StepInputs:
    return StepInputs(tokens=300, sequences=16, max_pages=157, device=CPU, staged=staged)


def chunk(first: int, count: int, page: int = 1) -> ScheduledChunk:
    """Return a chunk of `count` tokens after `first` cached ones, in pages from `page` on."""
    sequence = Sequence("r", 0, list(range(first + count)), SamplingParams())
    sequence.num_computed = first
    pages = -(-(first + count) // 32)
    # A sequence may own pages that the step does not reach.
    sequence.block_table = list(range(page, page + pages + 3))
    return ScheduledChunk(sequence, count, True)


def random_batches(count: int) -> Iterator[Batch]:
    choose = random.Random(5)
    for _ in range(count):
        chunks = [
            chunk(choose.choice([0, 31, 900, 1030, 4900]), choose.choice([1, 1, 1, 9]), 40 * place)
            for place in range(choose.randint(1, 16))
        ]
        yield Batch(chunks)


def contents(inputs: StepInputs) -> list[torch.Tensor]:
    """Return all that a step reads, without the pages that its contexts do not reach."""
    step = inputs.attention
    lengths = [int(length) for length in step.context_lengths]
    return [
        inputs.token_ids,
        inputs.positions,
        inputs.output_rows,
        step.slot_mapping,
        step.context_lengths,
        step.query_starts,
        *(row[: -(-length // 32)] for row, length in zip(step.block_tables, lengths, strict=True)),
    ]


@pytest.mark.parametrize("padded", [False, True])
def test_staged_inputs_arrive_as_laid_out(*, padded: bool) -> None:
    direct, staged = make_inputs(staged=False), make_inputs(staged=True)
    for batch in random_batches(60):
        for inputs in (direct, staged):
            inputs.fill(batch)
            shape = SHAPES.around(inputs.shape) if padded else None
            if shape is not None:
                inputs.pad(shape, 9)
            inputs.upload()
        for found, expected in zip(contents(staged), contents(direct), strict=True):
            assert torch.equal(found, expected)
        for place, each in enumerate(batch.chunks):
            used = -(-int(staged.attention.context_lengths[place]) // 32)
            row = staged.attention.block_tables[place, :used]
            assert [int(page) for page in row] == each.sequence.block_table[:used]


def test_only_what_a_step_uses_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """A decoding step of short contexts beside room for 64 of 131072 tokens."""
    inputs = StepInputs(tokens=2048, sequences=64, max_pages=4096, device=CPU, staged=True)
    inputs.fill(Batch([chunk(40, 1), chunk(70, 1)]))
    sent: list[int] = []
    copy = torch.Tensor.copy_

    def counting(self: torch.Tensor, other: torch.Tensor, *, non_blocking: bool) -> torch.Tensor:
        sent.append(other.nbytes)
        return copy(self, other, non_blocking=non_blocking)

    monkeypatch.setattr(torch.Tensor, "copy_", counting)
    inputs.upload()
    assert sent == [5 * 4 * 8, 4 * (68 + 64 + 2 * 32)]


def test_addresses_depend_on_the_padded_shape_alone() -> None:
    """A recording made for an empty batch reads what steps of its shape send."""
    inputs = make_inputs(staged=True)
    places: dict[StepShape, tuple[int, ...]] = {}

    def addresses() -> tuple[int, ...]:
        step = inputs.attention
        tensors = (inputs.positions, step.slot_mapping, inputs.output_rows, step.block_tables)
        return (*(tensor.data_ptr() for tensor in tensors), step.block_tables.stride(0))

    for batch in random_batches(80):
        inputs.fill(batch)
        shape = SHAPES.around(inputs.shape)
        if shape is None:
            continue
        inputs.pad(shape, 9)
        assert places.setdefault(shape, addresses()) == addresses()
    assert len(places) > 10
    for shape, expected in places.items():
        inputs.fill(Batch())
        inputs.pad(shape, 9)
        assert addresses() == expected
        assert all(address % 16 == 0 for address in expected[:-1])


def test_padding_beyond_the_bucket_is_refused() -> None:
    inputs = make_inputs(staged=True)
    inputs.fill(Batch([chunk(40, 1)]))
    with pytest.raises(ValueError, match="cannot be padded"):
        inputs.pad(StepShape(8, 8, 1, 1024), 9)


def test_tokens_drawn_by_the_step_before_are_put_in_place() -> None:
    inputs = make_inputs(staged=True)
    inputs.fill(Batch([chunk(40, 1), chunk(50, 1)]))
    inputs.upload()
    inputs.keep_drawn(torch.tensor([77, 88]))
    waiting = replace(chunk(41, 1), awaits=1)
    inputs.fill(Batch([waiting, chunk(51, 1)]))
    inputs.upload()
    assert torch.equal(inputs.token_ids, torch.tensor([88, 51]))


def launched(inputs: StepInputs, *lengths: int) -> list[ScheduledChunk]:
    """Send a step that draws for sequences of these lengths; return the chunks that follow it."""
    batch = Batch([chunk(length, 1, 40 * place) for place, length in enumerate(lengths)])
    inputs.fill(batch)
    inputs.pad(SHAPES.around(inputs.shape) or inputs.shape, 9)
    inputs.upload()
    inputs.mark_drawn(batch)
    batch.mark_launched()
    return [
        ScheduledChunk(each.sequence, 1, True, awaits=place)
        for place, each in enumerate(batch.chunks)
    ]


@pytest.mark.parametrize("staged", [False, True])
def test_device_goes_on_with_pages_that_changed(*, staged: bool) -> None:
    inputs = make_inputs(staged=staged)
    following = launched(inputs, 40, 63, 5)
    assert inputs.follow(Batch(following))
    assert not inputs.follow(Batch(following)), "nothing was launched since"

    following = launched(inputs, 40, 63, 5)
    changed = following[1].sequence.block_table
    changed[0] = 150
    before = contents(inputs)[:-3]
    expected = [each.clone() for each in before]
    assert inputs.follow(Batch(following))
    assert all(map(torch.equal, before, expected))
    tables = inputs.attention.block_tables
    for place, each in enumerate(following):
        assert [int(page) for page in tables[place, :2]] == each.sequence.block_table[:2]


@pytest.mark.parametrize(
    "case", ["order", "another", "fewer", "known", "too long", "without a page", "not drawn"]
)
def test_device_does_not_go_on_with_another_step(case: str) -> None:
    inputs = make_inputs(staged=True)
    following = launched(inputs, 40, 1023 if case == "too long" else 63, 5)
    if case == "order":
        following.reverse()
    elif case == "another":
        following[0] = replace(chunk(41, 1), awaits=0)
    elif case == "fewer":
        following.pop()
    elif case == "known":
        following[1] = replace(following[1], awaits=None)
    elif case == "without a page":
        del following[1].sequence.block_table[2:]
    elif case == "not drawn":
        inputs.fill(Batch([chunk(3, 2)]))
    assert not inputs.follow(Batch(following))
