"""The step loop. It knows nothing of text: tokens in, tokens out."""

from __future__ import annotations

import time

from ..base import FinishReason, Gauges
from .batch import Batch
from .model_runner import KVCacheFull, ModelRunner
from .scheduler import Scheduler, SequenceOutput
from .sequence import Sequence
from .speculator import Speculator


class Engine:
    """Runs sequences on a model, many at a time; not thread-safe."""

    def __init__(self, runner: ModelRunner, speculator: Speculator | None = None) -> None:
        self.runner = runner
        self.scheduler = Scheduler(runner, speculator)
        self._prompt_tokens = 0
        self._completion_tokens = 0
        self._drafted = 0
        self._accepted = 0
        self._steps = 0

    @property
    def has_work(self) -> bool:
        """Whether `step` would do anything."""
        return self.scheduler.has_work

    def add(self, sequence: Sequence) -> None:
        """Queue a sequence; raises ValueError when its prompt leaves no room in the context."""
        self.scheduler.add(sequence)

    def finish(self, sequence: Sequence, reason: FinishReason) -> None:
        """End a sequence between two steps."""
        self.scheduler.finish(sequence, reason)

    def admit(self) -> list[Sequence]:
        """The sequences that begin with the next step, which would else admit them unseen."""
        return self.scheduler.admit()

    def share_machine(self, contended: bool) -> None:
        """Say before a step whether another model waits for the same processors."""
        self.scheduler.share_machine(contended)

    def step(self) -> list[SequenceOutput]:
        """Compute one batch; returns what happened to the sequences that got a token."""
        self.scheduler.admit()
        began = time.monotonic()
        batch = self._launch()
        prompts = sum(c.count for c in batch.chunks if not c.sequence.is_decoding)
        sampled = self.runner.collect()
        outputs = self.scheduler.update(batch, sampled, time.monotonic() - began)
        self._count(prompts, batch, outputs)
        return outputs

    def gauges(self) -> Gauges:
        """The engine's state and totals."""
        return Gauges(
            running=len(self.scheduler.running),
            waiting=len(self.scheduler.waiting),
            kv_used=self.scheduler.kv_used,
            kv_kept=self.scheduler.kv_kept,
            kv_capacity=self.runner.kv_capacity,
            prompt_tokens_total=self._prompt_tokens,
            completion_tokens_total=self._completion_tokens,
            drafted_tokens_total=self._drafted,
            accepted_tokens_total=self._accepted,
            preemptions_total=self.scheduler.preemptions,
            steps_total=self._steps,
        )

    def _launch(self) -> Batch:
        while True:
            batch = self.scheduler.schedule()
            try:
                self.runner.launch(batch)
            except KVCacheFull:
                # Book and cache disagree (a model with cells of its own kind): make room. Nobody
                # is admitted before the next step, or the one who made room would be back at once.
                if not self.scheduler.relieve():
                    raise
            else:
                return batch

    def _count(self, prompt_tokens: int, batch: Batch, outputs: list[SequenceOutput]) -> None:
        self._steps += 1
        self._prompt_tokens += prompt_tokens
        generated = sum(len(output.token_ids) for output in outputs)
        self._completion_tokens += generated
        if batch.has_drafts:
            self._drafted += sum(len(chunk.drafts) for chunk in batch.chunks)
            self._accepted += generated - len(outputs)
