"""Tests sampling kernels against their CPU build, and times them."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from gpu.session import Session, copies_for
from kernel_harness.host_library import CPUKernelLibrary
from numpy.typing import NDArray

from ingle.backends.base.sampling_params import SamplingParams
from ingle.backends.cuda.sampling.batch_sampler import BatchSampler
from ingle.backends.engine.batch import ScheduledChunk
from ingle.backends.engine.sequence import Sequence as Answer
from ingle.backends.testing.byte_tokenizer import ByteTokenizer
from ingle.kernels.adjust_logits import ENTRY_KINDS, LogitEntries, launch_adjust_logits
from ingle.kernels.launch.kernel_library import KernelLibrary
from ingle.kernels.token_sampling import SAMPLE_ROW, SamplingKernel, sample_row

FIELDS: dict[str, dict[str, Any]] = {
    "greedy": {"temperature": 0.0},
    "default": {"top_k": 40, "top_p": 0.95, "min_p": 0.05, "temperature": 0.8},
    "temperature": {"temperature": 0.7},
    "min_p": {"min_p": 0.02},
    "top_p": {"top_p": 0.9},
    "top_k 1000": {"top_k": 1000, "top_p": 0.99},
    "top_p, hot": {"top_p": 0.999, "temperature": 2.0},
    "top_k 5000": {"top_k": 5000, "temperature": 1.5},
}
VOCAB = 128_256
ROWS = (1, 16, 64)
STEPS = 200
SPREADS = ("logits", "ties", "equal", "few")


class _Words(ByteTokenizer):
    """A vocabulary of the usual size."""

    def __init__(self) -> None:
        super().__init__()
        self.vocab_size = VOCAB


def run(session: Session) -> dict[str, object]:
    """Return microseconds of a launch for each kind of sampling, and of a step's sampling on the
    host.
    """
    kinds = ["greedy", "default", "temperature", "top_p", "top_k 1000", "top_k 5000"]
    times = {f"{kind}, {rows} rows": _time(session, kind, rows) for kind in kinds for rows in ROWS}
    steps: dict[str, dict[str, float]] = {}
    for rows in ROWS[:2]:
        for name, library in (("torch", None), ("kernels", session.library())):
            steps[f"{name}, {rows} rows"] = _step_times(session, library, rows)
    return {"us": times, "steps": steps}


def table(result: dict[str, Any]) -> list[str]:
    """Return lines for people."""
    lines = [f"{what:<28}{us:>9.2f} us" for what, us in result["us"].items()]
    lines += [
        f"a default draw, {what:<20}{us['host_us']:>9.1f} us of the host, {us['all_us']:.1f} us"
        for what, us in result["steps"].items()
    ]
    return lines


def wrong_draws(session: Session) -> Iterator[str]:
    """Where tokens or changed logits are not those of the same kernels on a CPU, bit for bit."""
    ours = SamplingKernel(session.library(), session.device)
    twin = SamplingKernel(CPUKernelLibrary(session.folder), torch.device("cpu"))
    for vocab in (65, 4001) if session.on_cpu else (1, 65, 4001, 32_000, 151_937, 262_144):
        for spread in SPREADS if vocab < 100_000 else SPREADS[:1]:
            logits, rows, masks = _case(spread, vocab, seed=vocab)
            expected = torch.empty(len(logits), dtype=torch.int64)
            twin.draw(logits, rows, expected, masks)
            found = torch.empty_like(expected, device=session.device)
            given = [each.to(session.device) for each in (logits, rows, masks)]
            for _ in range(2):  # the second run uses the counters of the first
                ours.draw(given[0], given[1], found, given[2])
            if not torch.equal(found.cpu(), expected):
                yield f"draws from {spread} of {vocab} tokens"
    entries = _entries(rows := 3, 1000)
    logits = torch.randn(rows, 1000, generator=torch.Generator().manual_seed(1))
    changed = logits.to(session.device, copy=True)
    given = LogitEntries(*(each.to(session.device) for each in entries))
    launch_adjust_logits(session.library(), changed, given)
    launch_adjust_logits(CPUKernelLibrary(session.folder), logits, LogitEntries(*entries))
    if not torch.equal(changed.cpu(), logits):
        yield "logits that are changed"


def _case(spread: str, vocab: int, seed: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Logits, a row of parameters for each, and masks for half of them."""
    random = torch.Generator().manual_seed(seed)
    count = 2 * len(FIELDS)
    logits = torch.randn(count, vocab, generator=random) * 3
    if spread == "ties":
        logits = logits.bfloat16().float().round()
    elif spread == "equal":
        logits[:] = 1.5
    elif spread == "few":
        logits = torch.where(torch.rand(count, vocab, generator=random) < 0.99, -torch.inf, logits)
    masks = torch.randint(-(2**31), 2**31, (2, -(-vocab // 32)), generator=random)
    rows = _rows([*FIELDS.values()] * 2)
    rows["mask"] = np.arange(count) % 4 - 2
    rows["mask"] = rows["mask"].clip(-1)
    return logits, _parameters(rows), masks.int()


def _rows(fields: Sequence[dict[str, Any]]) -> NDArray[np.void]:
    rows = [
        sample_row(**{"seed": 5, "place": i, "row": i, **each}) for i, each in enumerate(fields)
    ]
    return np.concatenate(rows)


def _parameters(rows: NDArray[np.void]) -> torch.Tensor:
    return torch.as_tensor(rows.view(np.uint8)).view(-1, SAMPLE_ROW.itemsize)


def _entries(rows: int, count: int) -> list[torch.Tensor]:
    """Of all kinds, a third of the tokens of each row, and a token that is awaited."""
    random = torch.Generator().manual_seed(2)
    each = count // 3
    offsets = (torch.arange(ENTRY_KINDS)[:, None] * rows + torch.arange(rows + 1)) * each
    tokens = [torch.randperm(count, generator=random)[:each] for _ in range(ENTRY_KINDS * rows)]
    values = torch.rand(ENTRY_KINDS * rows * each, 3, generator=random) + 0.5
    first = torch.rand(rows, 2, generator=random) + 0.5
    drawn = torch.randint(0, count, (rows,), generator=random)
    awaited = torch.arange(rows).flip(0)
    return [offsets.int(), torch.cat(tokens).int(), values, awaited.int(), first, drawn]


def _time(session: Session, kind: str, rows: int) -> float:
    """Time a launch whose logits a product has just left in L2."""
    sample = SamplingKernel(session.library(), session.device)
    copies = copies_for(1 << 40, most=8)
    logits = [torch.randn(rows, VOCAB, device=session.device) * 3 for _ in range(copies)]
    parameters = _parameters(_rows([FIELDS[kind]] * rows)).to(session.device)
    tokens = torch.empty(rows, dtype=torch.int64, device=session.device)
    launches = [
        lambda each=each: sample.draw(each, parameters, tokens)  # pyright: ignore[reportUnknownLambdaType]
        for each in logits
    ]
    return round(session.time(launches) * 1e6, 2)


def _step_times(session: Session, library: KernelLibrary | None, rows: int) -> dict[str, float]:
    """With usual parameters: until `launch` returns, and until tokens are there."""
    sampler = BatchSampler(_Words(), session.device, room=4096, kernels=library)
    params = SamplingParams(seed=1)
    chunks = [ScheduledChunk(Answer("r", index, [1], params), 1, True) for index in range(rows)]
    logits = torch.randn(rows, VOCAB, device=session.device) * 3
    host: list[float] = []
    whole: list[float] = []
    for _ in range(STEPS):
        session.synchronize()
        began = time.perf_counter()
        pending = sampler.launch(chunks, logits)
        host.append(time.perf_counter() - began)
        sampler.finish(pending)
        whole.append(time.perf_counter() - began)
    return {
        "host_us": round(statistics.median(host) * 1e6, 1),
        "all_us": round(statistics.median(whole) * 1e6, 1),
    }
