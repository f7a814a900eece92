"""Measures how much host time per step overlap scheduling hides behind the device's computation.

The device is a clock: each step keeps it busy for a fixed time from when the previous one is done.
Worker, scheduler, page tables, step inputs and sampler are the real ones; the sampler uses few
logits on the CPU, which takes about as long as launching the same work on a GPU.
"""

from __future__ import annotations

import argparse
import threading
import time
from collections import deque
from pathlib import Path

import msgspec
import torch
from machine import median

from ingle.backends.base.errors import RequestRejected
from ingle.backends.base.load_spec import LoadSpec
from ingle.backends.base.model_info import ModelInfo
from ingle.backends.base.requests import GenerateRequest
from ingle.backends.base.sampling_params import SamplingParams
from ingle.backends.cuda.graphs.step_inputs import StepInputs
from ingle.backends.cuda.sampling.batch_sampler import BatchSampler, PendingSamples
from ingle.backends.engine.batch import Batch, Sampled
from ingle.backends.engine.engine import Engine
from ingle.backends.engine.kv.paged_cache import PagedCache
from ingle.backends.engine.kv_store.kv_store import KVStore
from ingle.backends.engine.scheduling.scheduler import SequenceOutput
from ingle.backends.engine.sequence import Sequence
from ingle.backends.testing.byte_tokenizer import ByteTokenizer
from ingle.backends.text.answers.answer_format import AnswerFormats
from ingle.backends.text.prompts.prompt_builder import PromptBuilder
from ingle.backends.worker.inbox import Inbox
from ingle.backends.worker.worker_loop import WorkerLoop
from ingle.backends.worker.worker_protocol import Drain, FromWorker
from ingle.models.fit.paged_fit import PAGE_SIZE

CONTEXT = 1024
ANSWER = 300
STREAMS = (1, 4, 16, 64)
CPU = torch.device("cpu")


class Clock:
    """A `PagedRunner` whose device only waits."""

    block_size = PAGE_SIZE
    max_drafts = 0
    can_fork = True
    state_key = "clock"
    context = CONTEXT

    def __init__(self, streams: int, seconds: float, *, ahead: bool) -> None:
        self.can_run_ahead = ahead
        self.slots = streams
        self.max_batch_tokens = max(256, streams)
        self.num_blocks = (streams + 1) * CONTEXT // PAGE_SIZE
        self.kv_capacity = self.num_blocks * PAGE_SIZE
        self.tokenizer = ByteTokenizer()
        self._seconds = seconds
        self._free_at = 0.0
        self.idle = 0.0
        self._inputs = StepInputs(
            tokens=self.max_batch_tokens,
            sequences=streams,
            max_pages=CONTEXT // PAGE_SIZE,
            device=CPU,
        )
        self._sampler = BatchSampler(self.tokenizer, CPU, room=CONTEXT)
        self._logits = torch.randn(streams, self.tokenizer.vocab_size)
        self._launched: deque[tuple[float, PendingSamples | None]] = deque()

    def adapter_number(self, folder: Path) -> int:
        raise RequestRejected(f"{folder} is an adapter, and there are none here.")

    def drop_adapter(self, folder: Path) -> None:
        """No adapter is ever loaded."""

    def open_cache(self, store: KVStore | None = None) -> PagedCache:
        """The book of pages that are nowhere."""
        return PagedCache(self, store)

    @torch.inference_mode()
    def launch(self, batch: Batch) -> None:
        """Do the host's work for a step, and note when a device would be done with it."""
        self._inputs.fill(batch)
        self._inputs.upload()
        chunks = batch.sampling
        samples = None
        if chunks:
            logits = self._logits[: len(chunks)].clone()
            samples = self._sampler.launch(chunks, logits, self._inputs.drawn)
            self._inputs.keep_drawn(samples.tokens)
        now = time.perf_counter()
        self.idle += max(0.0, now - self._free_at)
        self._free_at = max(now, self._free_at) + self._seconds
        self._launched.append((self._free_at, samples))

    def collect(self) -> list[Sampled]:
        """Return the sampled tokens, once the device would be done."""
        done, samples = self._launched.popleft()
        time.sleep(max(0.0, done - time.perf_counter()))
        return self._sampler.finish(samples) if samples is not None else []

    def can_follow(self, params: SamplingParams) -> bool:
        """See `ModelRunner`."""
        return self._sampler.can_follow(params)

    def is_eog(self, token_id: int) -> bool:
        """Answers end with their length."""
        return False

    def prepare(self, params: SamplingParams) -> None:
        """Do nothing."""

    def prepare_step(self) -> bool:
        """There is nothing to prepare."""
        return False

    def forget(self, sequence: Sequence) -> None:
        """Free the sampling state."""
        self._sampler.forget(sequence)

    def copy_page(self, source: int, target: int, count: int) -> None:
        """There is nothing in a page."""

    def read_pages(self, pages: list[int], count: int) -> bytes:
        """There is nothing in a page."""
        return b""

    def write_pages(self, pages: list[int], count: int, data: bytes | memoryview) -> bool:
        """There is nothing in a page."""
        return False

    def info(self) -> ModelInfo:
        """Not used."""
        raise NotImplementedError

    def close(self) -> None:
        """Do nothing."""


def measure(streams: int, seconds: float, *, ahead: bool) -> tuple[float, float]:
    """Milliseconds of a decoding step, and those of them in which the device waits."""
    runner = Clock(streams, seconds, ahead=ahead)
    inbox: Inbox = Inbox()
    steps: list[tuple[float, float]] = []
    ended = threading.Semaphore(0)

    class Watched(Engine):
        """Knows when steps end, and answers."""

        def step(self, *, admits: bool = True) -> list[SequenceOutput]:
            """As ever; when it ended is noted."""
            outputs = super().step(admits=admits)
            if len(outputs) == streams:
                steps.append((time.perf_counter(), runner.idle))
            for _ in (output for output in outputs if output.finish_reason is not None):
                ended.release()
            return outputs

    encoder = msgspec.msgpack.Encoder()

    def send(message: FromWorker) -> None:
        encoder.encode(message)

    prompts = PromptBuilder(runner.tokenizer, None, context=CONTEXT)
    loop = WorkerLoop(
        Watched(runner),
        runner.tokenizer,
        prompts,
        AnswerFormats(runner.tokenizer, None),
        send,
        inbox,
        LoadSpec(engine="", path="", context=CONTEXT),
    )
    thread = threading.Thread(target=loop.run)
    thread.start()
    for number in range(streams):
        request = GenerateRequest(
            id=str(number),
            prompt=f"{number} asks",
            sampling=SamplingParams(temperature=0.8, seed=number),
            max_tokens=ANSWER,
        )
        inbox.put(request)
    for _ in range(streams):
        ended.acquire()
    inbox.put(Drain(0))
    thread.join()
    middle = steps[len(steps) // 4 : -8]
    (began, idle), (end, idle_then) = middle[0], middle[-1]
    count = len(middle) - 1
    return 1e3 * (end - began) / count, 1e3 * (idle_then - idle) / count


def main() -> None:
    """Measure with and without running ahead, in turn; print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--step-ms", type=float, default=5.0, help="what the device takes")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    print("streams  in turn: step, device waits   ahead: step, device waits   (ms, median)")
    for streams in STREAMS:
        rows: dict[bool, list[tuple[float, float]]] = {False: [], True: []}
        for _ in range(arguments.rounds):
            for ahead, found in rows.items():
                found.append(measure(streams, arguments.step_ms / 1e3, ahead=ahead))
        (step, idle), (step_ahead, idle_ahead) = (
            tuple(median([row[place] for row in found]) for place in range(2))
            for found in rows.values()
        )
        print(f"{streams:7}  {step:13.2f} {idle:13.2f}  {step_ahead:12.2f} {idle_ahead:13.2f}")


if __name__ == "__main__":
    main()
