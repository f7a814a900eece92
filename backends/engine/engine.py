"""The step loop. It knows nothing of text: tokens in, tokens out."""

from __future__ import annotations

import time
from collections.abc import Callable

from ..base import FinishReason, Gauges
from .batch import Batch
from .kv_store import KVStore
from .model_runner import KVCacheFull, ModelRunner
from .scheduler import Scheduler, SequenceOutput
from .sequence import Sequence
from .speculator import Speculator


class Engine:
    """Runs sequences on a model, many at a time; not thread-safe."""

    def __init__(
        self,
        runner: ModelRunner,
        speculator: Speculator | None = None,
        store: KVStore | None = None,
        wake: Callable[[], None] = lambda: None,
    ) -> None:
        """`wake` is called from another thread when `has_work` became true by itself."""
        self.runner = runner
        self._store = store
        self.scheduler = Scheduler(runner, speculator, store, wake)
        self._prompt_tokens = 0
        self._completion_tokens = 0
        self._drafted = 0
        self._accepted = 0
        self._steps = 0

    @property
    def has_work(self) -> bool:
        """Whether `step` would do anything."""
        return self.scheduler.has_work

    @property
    def is_fetching(self) -> bool:
        """Whether sequences wait for the store, and `has_work` may become true by itself."""
        return self.scheduler.fetching > 0

    @property
    def saves(self) -> bool:
        """Whether what is computed can outlive the process."""
        return self._store is not None and self._store.writes_disk

    @property
    def has_unsaved(self) -> bool:
        """Whether `save` has something to do, or the disk is still busy with it."""
        return self.scheduler.kv.unsaved or (self._store is not None and self._store.unsaved)

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
        if not self.scheduler.running:
            return []  # who waits waits for the store
        began = time.monotonic()
        batch = self._launch()
        prompts = sum(c.count for c in batch.chunks if not c.sequence.is_decoding)
        sampled = self.runner.collect()
        outputs = self.scheduler.update(batch, sampled, time.monotonic() - began)
        self._count(prompts, batch, outputs)
        return outputs

    def save(self, seconds: float, *, hurry: bool = False) -> None:
        """Hand what ended sequences left to the disk, for about so many seconds of this thread.

        In a `hurry` a power cut may cost what is saved from now on.
        """
        if self._store is not None:
            self._store.hurry = hurry
            self.scheduler.kv.save(seconds)
            self._store.flush()

    def trim(self) -> None:
        """Give back the memory that only serves to compute less later."""
        if self._store is not None:
            self._store.trim()

    def gauges(self) -> Gauges:
        """The engine's state and totals."""
        return Gauges(
            running=len(self.scheduler.running),
            waiting=len(self.scheduler.waiting),
            kv_used=self.scheduler.kv_used,
            kv_kept=self.scheduler.kv_kept,
            kv_capacity=self.scheduler.kv.capacity,
            kv_memory_bytes=self._store.memory_bytes if self._store is not None else 0,
            kv_disk_bytes=self._store.disk_bytes if self._store is not None else 0,
            prompt_tokens_total=self._prompt_tokens,
            completion_tokens_total=self._completion_tokens,
            drafted_tokens_total=self._drafted,
            accepted_tokens_total=self._accepted,
            restored_tokens_total=self.scheduler.kv.restored,
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
