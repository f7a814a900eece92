"""Where the sequences of a step have their recurrent states."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import torch

States = tuple[torch.Tensor, ...]
Advance = Callable[[States, States], tuple[torch.Tensor, States]]
"""Outputs (sequences, tokens, ...), and the states (sequences, ...) after the last token.

Of inputs (sequences, tokens, ...) and the states before the first one.
"""
_LARGEST_ERROR = 1e-4


class StepRows(NamedTuple):
    """The rows of a pool that a step's sequences read and write; all int32, on the device.

    Sequence i has tokens `starts[i]` to `starts[i + 1]`, and begins with the states of row
    `reads[i]`, or with zeros if that is negative. After `write_tokens[j]` of its tokens they are
    written to `write_rows[j]`, for j from `write_starts[i]` to `write_starts[i + 1]`, in ascending
    order. A sequence without tokens writes nothing.
    """

    starts: torch.Tensor
    reads: torch.Tensor
    write_starts: torch.Tensor
    write_tokens: torch.Tensor
    write_rows: torch.Tensor


class PooledStates(NamedTuple):
    """The states of one layer, each (rows, ...) fp32, and what the step does with their rows."""

    states: States
    steps: StepRows

    def fit(self, shapes: Sequence[tuple[int, ...]]) -> bool:
        """Whether the rows of each state have these shapes, in fp32 and one after the other."""
        return len(shapes) == len(self.states) and all(
            part.shape[1:] == shape and part.is_contiguous() and part.dtype == torch.float32
            for part, shape in zip(self.states, shapes, strict=True)
        )


def advance_rows(inputs: States, rows: PooledStates, advance: Advance) -> torch.Tensor:
    """Outputs (tokens, ...) fp32 of inputs (tokens, ...), zeros for tokens of no sequence.

    Changes the states, in plain torch, which waits for the device.
    """
    starts, reads, write_starts, ends, targets = ([*map(int, part)] for part in rows.steps)
    found: list[torch.Tensor] = []
    for number, read in enumerate(reads):
        start, end = starts[number : number + 2]
        states = tuple(
            torch.zeros_like(part[:1]) if read < 0 else part[read : read + 1].clone()
            for part in rows.states
        )
        places = range(*write_starts[number : number + 2]) if start < end else ()
        writes = [(starts[number] + ends[place], targets[place]) for place in places]
        for upto, target in (*writes, (end, None)):
            if start < upto:
                some = tuple(part[None, start:upto] for part in inputs)
                output, states = advance(some, states)
                found.append(output[0])
                start = upto
            if target is not None:
                for part, state in zip(rows.states, states, strict=True):
                    part[target] = state[0]
    output = torch.cat(found)
    rest = output.new_zeros(len(inputs[0]) - len(output), *output.shape[1:])
    return torch.cat((output, rest))


def checked_steps(device: torch.device) -> tuple[int, int, StepRows]:
    """Tokens, rows, and a step of sequences with several tokens, one and none.

    States are kept at several of them.
    """
    numbers = (0, 20, 21, 21), (-1, 2, 3), (0, 3, 4, 5), (7, 20, 20, 1, 1), (0, 1, 4, 2, 3)
    steps = StepRows(*(torch.tensor(n, dtype=torch.int32, device=device) for n in numbers))
    return 21, 5, steps


def differences(layer: str, names: Sequence[str], found: States, expected: States) -> Iterator[str]:
    """A description of each result that is off."""
    for name, one, other in zip(names, found, expected, strict=True):
        error = float((one - other).square().sum().sqrt() / other.square().sum().sqrt())
        if not error <= _LARGEST_ERROR:
            yield f"{name} of a {layer} is off by {error:.1e}"
