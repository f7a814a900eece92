"""Sample a whole batch by kernels: one copy to the device, and one or two launches."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from ingle.kernels.adjust_logits import LogitEntries, launch_adjust_logits
from ingle.kernels.launch.kernel_library import KernelLibrary
from ingle.kernels.token_sampling import SAMPLE_ROW, SamplingKernel

from ...engine.batch import ScheduledChunk, sampling_rows
from .logit_adjustments import Adjustments
from .row_sampler import SamplingPath
from .sampling_state import SamplingState
from .token_masks import TokenMasks
from .upload import upload

_ALIGNMENT = 16


@dataclass(frozen=True)
class FusedRows:
    """Rows to draw from (`SAMPLE_ROW`s), and the masks that some of them name."""

    rows: NDArray[np.void]
    masks: NDArray[np.int32] | None

    @staticmethod
    def find(
        chunks: list[ScheduledChunk], states: list[SamplingState], masks: TokenMasks | None
    ) -> FusedRows | None:
        """Those of all chunks whose parameters the kernel knows; None where there are none."""
        parameters: list[bytes] = []
        places: list[int] = []
        rows: list[int] = []
        for (each, chunk), state in zip(sampling_rows(chunks), states, strict=True):
            if state.fused is not None:
                parameters.append(state.fused * len(each))
                # Greedy rows draw no random number: the same table serves the next step.
                begin = 0 if state.route is SamplingPath.GREEDY else chunk.sequence.num_sampled
                places += [max(0, begin + place) for place in range(len(each))]
                rows += each
        if not rows:
            return None
        table = np.frombuffer(bytearray(b"".join(parameters)), SAMPLE_ROW)
        table["place"], table["row"] = places, rows
        bits = None if masks is None else masks.bits()
        if masks is not None and bits is not None:
            table["mask"] = masks.numbers(sum(chunk.num_rows for chunk in chunks))[rows]
        return FusedRows(table, bits)


class FusedDraw:
    """The kernels of the draw; what was sent to the device is kept until it changes."""

    def __init__(self, library: KernelLibrary, device: torch.device) -> None:
        self._sample = SamplingKernel(library, device)
        self._library = library
        self._device = device
        self._sent = b""
        self._on_device = torch.empty(0, dtype=torch.uint8, device=device)

    def draw(
        self,
        logits: torch.Tensor,
        fused: FusedRows | None,
        adjustments: Adjustments | None,
        tokens: torch.Tensor,
        drawn: torch.Tensor | None = None,
    ) -> None:
        """Adjust `logits` (rows, vocab) in place, and write the tokens of `fused` to `tokens`.

        What chunks await is in `drawn`, the tokens of the draw before.
        """
        parts: list[NDArray[np.generic]] = []
        if adjustments is not None:
            parts += adjustments.tables()
        if fused is not None:
            parts.append(fused.rows)
            if fused.masks is not None:
                parts.append(fused.masks)
        sent = self._send(parts)
        if adjustments is not None:
            count = 5 if adjustments.await_tokens else 3
            entries = LogitEntries(*sent[:count], drawn=drawn)
            launch_adjust_logits(self._library, logits, entries)
            sent = sent[count:]
        if fused is not None:
            self._sample.draw(logits, sent[0], tokens, sent[1] if len(sent) > 1 else None)

    def _send(self, parts: list[NDArray[np.generic]]) -> list[torch.Tensor]:
        """All arrays on the device, by one copy or, where they are those of before, by none."""
        pieces: list[bytes] = []
        begins: list[int] = []
        end = 0
        for part in parts:
            data = part.tobytes()
            padding = -len(data) % _ALIGNMENT
            pieces += [data, b"\0" * padding]
            begins.append(end)
            end += len(data) + padding
        joined = b"".join(pieces)
        if joined != self._sent:
            self._on_device = upload(np.frombuffer(bytearray(joined), np.uint8), self._device)
            self._sent = joined
        return [
            _view(self._on_device[begin : begin + part.nbytes], part)
            for begin, part in zip(begins, parts, strict=True)
        ]


def _view(data: torch.Tensor, part: NDArray[np.generic]) -> torch.Tensor:
    if part.dtype == SAMPLE_ROW:
        return data.view(-1, SAMPLE_ROW.itemsize)
    dtype = torch.float32 if part.dtype == np.float32 else torch.int32
    return data.view(dtype).view(part.shape)
