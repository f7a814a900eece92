"""The step loop. It knows nothing of text: tokens in, tokens out."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from ..base.events import FinishReason
from ..base.kv_page_map import PageMap
from ..base.model_info import Gauges
from .batch import Batch
from .kv_store.kv_store import KVStore
from .model_runner import KVCacheFull, ModelRunner
from .scheduling.scheduler import Scheduler, SequenceOutput
from .sequence import Sequence
from .speculation.speculator import Speculator
from .throughput_meter import ThroughputMeter


@dataclass(frozen=True)
class InFlightBatch:
    """A batch that was launched and not collected yet, scheduling begun at `began`."""

    batch: Batch
    began: float
    prompt_tokens: int


class Engine:
    """Runs sequences on a model, many at a time; not thread-safe.

    Where the runner can run ahead, a step launches the batch behind the one that it collects, so
    that the device has something to do while tokens become text and the next step is prepared.
    """

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
        self._flight: InFlightBatch | None = None
        self._collected_at = 0.0
        self._prompt_tokens = 0
        self._completion_tokens = 0
        self._drafted = 0
        self._accepted = 0
        self._steps = 0
        self._rates = ThroughputMeter()

    @property
    def has_work(self) -> bool:
        """Whether `step` would do anything."""
        return self.scheduler.has_work

    @property
    def is_fetching(self) -> bool:
        """Whether sequences wait for the store, and `has_work` may become true by itself."""
        return self.scheduler.fetching > 0

    @property
    def reads_prompt(self) -> bool:
        """Whether the next step may be long, since a prompt is read in it."""
        if self._flight is not None and self._flight.prompt_tokens:
            return True
        return any(not sequence.is_decoding for sequence in self.scheduler.running)

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

    def dictate(self, sequence: Sequence, token_ids: list[int]) -> list[int]:
        """Have a sequence say these tokens next, between two steps; returns those it will say.

        It is one that pauses, so that nothing of it is in flight. The last token that it has room
        for is its own, and those that its constraint forbids are left out.
        """
        return self.scheduler.dictate(sequence, token_ids)

    def admit(self) -> list[Sequence]:
        """The sequences that begin with the next step, which is then told not to admit more."""
        return self.scheduler.admit()

    def share_machine(self, contended: bool) -> None:
        """Say before a step whether another model waits for the same processors."""
        self.scheduler.share_machine(contended)

    def step(self, *, admits: bool = True) -> list[SequenceOutput]:
        """Compute one batch; returns what happened to the sequences that got a token.

        Unless it `admits`, only those that `admit` returned begin: whose keys and values have been
        read from the store since then would begin unseen.
        """
        if admits:
            self.scheduler.admit()
        flight = self._flight
        if flight is None:
            if not self.scheduler.running:
                return []  # who waits waits for the store
            flight = self._launch()
        self._flight = self._launch_ahead(flight)
        return self._land(flight)

    def drain(self) -> list[SequenceOutput]:
        """Collect what is in flight and launch nothing; returns what `step` would."""
        flight, self._flight = self._flight, None
        return self._land(flight) if flight is not None else []

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
            cached_tokens_total=self.scheduler.cached_tokens,
            drafted_tokens_total=self._drafted,
            accepted_tokens_total=self._accepted,
            restored_tokens_total=self.scheduler.kv.restored,
            preemptions_total=self.scheduler.preemptions,
            steps_total=self._steps,
            prompt_rate=self._rates.prompt.per_second,
            decode_rate=self._rates.answer.per_second,
        )

    def page_map(self) -> PageMap:
        """What is in each page of the KV cache now."""
        return self.scheduler.kv.page_map()

    def _launch(self) -> InFlightBatch:
        began = time.monotonic()
        while True:
            batch = self.scheduler.schedule()
            try:
                return self._take_off(batch, began)
            except KVCacheFull:
                # Book and cache disagree (a model with cells of its own kind): make room. Nobody
                # is admitted before the next step, or the one who made room would be back at once.
                if not self.scheduler.relieve():
                    raise

    def _launch_ahead(self, flight: InFlightBatch) -> InFlightBatch | None:
        """The batch behind the one in flight, where it can be told already what is in it."""
        began = time.monotonic()
        batch = self.scheduler.schedule_ahead(flight.batch)
        if batch is None:
            return None
        try:
            return self._take_off(batch, began)
        except KVCacheFull:
            return None

    def _take_off(self, batch: Batch, began: float) -> InFlightBatch:
        flight = InFlightBatch(batch, began, batch.prompt_tokens)
        self.runner.launch(batch)
        self.scheduler.take_off(batch)
        return flight

    def _land(self, flight: InFlightBatch) -> list[SequenceOutput]:
        sampled = self.runner.collect()
        now = time.monotonic()
        # A batch that was launched ahead began when the one before it was done.
        seconds = now - max(flight.began, self._collected_at)
        self._collected_at = now
        outputs = self.scheduler.update(flight.batch, sampled, seconds)
        self._count(flight, outputs, seconds)
        return outputs

    def _count(self, flight: InFlightBatch, outputs: list[SequenceOutput], seconds: float) -> None:
        batch = flight.batch
        self._steps += 1
        self._prompt_tokens += flight.prompt_tokens
        generated = sum(len(output.token_ids) for output in outputs)
        self._completion_tokens += generated
        self._rates.observe(batch, flight.prompt_tokens, generated, seconds)
        if batch.has_drafts:
            self._drafted += sum(len(chunk.drafts) for chunk in batch.chunks)
            self._accepted += generated - len(outputs)
