"""The engine: the step loop over scheduler and model runner; tokens in, tokens out."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable

from ..base.events import FinishReason
from ..base.kv_page_map import KVPageMap
from ..base.model_info import Gauges
from .batch import Batch
from .kv_store.kv_store import KVStore
from .model_runner import KVCacheFull, ModelRunner, StepStopped
from .scheduling.scheduler import Scheduler, SequenceOutput
from .sequence import Sequence
from .speculation.draft import Speculator
from .throughput_meter import ThroughputMeter


class Engine:
    """Runs sequences on a model, many at a time; not thread-safe.

    If the runner can run ahead, a step launches the next batch before it collects the previous one,
    so that the device is busy while tokens become text and the next step is prepared.
    """

    def __init__(
        self,
        runner: ModelRunner,
        speculator: Speculator | None = None,
        store: KVStore | None = None,
        wake: Callable[[], None] = lambda: None,
        prepare_draft_step: Callable[[], bool] = lambda: False,
    ) -> None:
        """`wake` is called from another thread when a KV fetch makes `has_work` true.

        `prepare_draft_step` is `ModelRunner.prepare_step` of a draft model.
        """
        self.runner = runner
        self._store = store
        self._prepare_draft_step = prepare_draft_step
        self.scheduler = Scheduler(runner, speculator, store, wake)
        self.stops: Callable[[Batch], bool] = lambda batch: False
        """Asked while a long step is computed: whether it should stop, to be scheduled anew."""
        self._stopped = False
        """Whether the last step was stopped; the next one is not, so that prompts advance."""
        self._in_flight: Batch | None = None
        """The batch that was launched and not collected."""
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
        """Whether sequences wait for the KV store, after which `has_work` becomes true."""
        return self.scheduler.admission.fetching > 0

    @property
    def reads_prompt(self) -> bool:
        """Whether the next step has prefill, and so may be long."""
        if self._in_flight is not None and self._in_flight.prompt_tokens:
            return True
        return any(not sequence.is_decoding for sequence in self.scheduler.running)

    @property
    def saves(self) -> bool:
        """Whether the KV store writes to disk."""
        return self._store is not None and self._store.writes_disk

    @property
    def has_unsaved(self) -> bool:
        """Whether `save` has something to write, or the disk is still busy with it."""
        return self.scheduler.kv.unsaved or (self._store is not None and self._store.unsaved)

    def add(self, sequence: Sequence) -> None:
        """Queue a sequence; raises ValueError if its prompt fills the context."""
        self.scheduler.add(sequence)

    def finish(self, sequence: Sequence, reason: FinishReason) -> None:
        """End a sequence between two steps."""
        self.scheduler.finish(sequence, reason)

    def force_tokens(self, sequence: Sequence, token_ids: list[int]) -> list[int]:
        """Append tokens to a paused sequence, between two steps; returns those appended.

        The last token of its context stays free, and tokens that its constraint forbids are left
        out. Raises ValueError if an in-flight batch samples a token of it.
        """
        return self.scheduler.force_tokens(sequence, token_ids)

    def admit(self) -> list[Sequence]:
        """Return the sequences that begin with the next step, before `step(admits=False)`."""
        return self.scheduler.admit()

    def share_machine(self, contended: bool) -> None:
        """Set before a step whether another model waits for the same CPUs."""
        self.scheduler.share_machine(contended)

    def step(self, *, admits: bool = True) -> list[SequenceOutput]:
        """Compute one batch; returns the outputs of the sequences that got a token.

        Unless it `admits`, only sequences that `admit` returned begin.
        """
        if admits:
            self.scheduler.admit()
        in_flight = self._in_flight
        if in_flight is None:
            if not self.scheduler.running:
                return []  # all waiting sequences await KV fetches
            in_flight = self._launch()
            if in_flight is None:
                return []
        self._in_flight = self._launch_ahead(in_flight)
        return self._complete(in_flight)

    def prepare_step(self) -> bool:
        """Prepare one kind of step while there is no work; False if nothing is left to prepare.

        Those of a draft model come after the model's own.
        """
        if self.has_work:
            return False
        return self.runner.prepare_step() or self._prepare_draft_step()

    def drain(self) -> list[SequenceOutput]:
        """Collect the in-flight batch and launch none; returns what `step` would."""
        in_flight, self._in_flight = self._in_flight, None
        return self._complete(in_flight) if in_flight is not None else []

    def save(self, seconds: float, *, hurry: bool = False) -> None:
        """Write the cached tokens of finished sequences to disk, for about so many seconds.

        In a `hurry` the files are not synchronised, so that a power cut may lose them.
        """
        if self._store is not None:
            self._store.hurry = hurry
            self.scheduler.kv.save(seconds)
            self._store.flush()

    def trim(self) -> None:
        """Free the memory of the KV store."""
        if self._store is not None:
            self._store.trim()

    def gauges(self) -> Gauges:
        """The engine's state and totals."""
        running = list(self.scheduler.running)
        prefill = [each for each in running if each.num_computed < each.prompt_length]
        return Gauges(
            running=len(running),
            waiting=len(self.scheduler.waiting),
            prefill_tokens=sum(each.prompt_length for each in prefill),
            prefilled_tokens=sum(each.num_computed for each in prefill),
            kv_used=self.scheduler.kv.used,
            kv_kept=self.scheduler.kv.kept,
            kv_capacity=self.scheduler.kv.capacity,
            kv_memory_bytes=self._store.memory.used if self._store is not None else 0,
            kv_disk_bytes=self._store.disk_bytes if self._store is not None else 0,
            prompt_tokens_total=self._prompt_tokens,
            completion_tokens_total=self._completion_tokens,
            cached_tokens_total=self.scheduler.admission.cached_tokens,
            drafted_tokens_total=self._drafted,
            accepted_tokens_total=self._accepted,
            restored_tokens_total=self.scheduler.kv.restored,
            preemptions_total=self.scheduler.preemptions,
            steps_total=self._steps,
            prompt_rate=self._rates.prompt.per_second,
            decode_rate=self._rates.answer.per_second,
        )

    def page_map(self) -> KVPageMap:
        """Return what each block of the KV cache holds."""
        return self.scheduler.kv.page_map()

    def _launch(self) -> Batch | None:
        """Launch the next batch; None if it was stopped."""
        began = time.monotonic()
        while True:
            batch = self.scheduler.schedule()
            batch.began = began
            if batch.prompt_tokens and not self._stopped and self.scheduler.is_long(batch):
                batch.stops = functools.partial(self.stops, batch)
            self._stopped = False
            try:
                return self._launch_batch(batch)
            except StepStopped:
                self._stopped = True
                return None
            except KVCacheFull:
                # The cache holds fewer tokens than its manager counts (some models have several
                # kinds of cells). Nothing is admitted before the next step: a preempted one would
                # take the freed cells again.
                if not self.scheduler.evict_or_preempt():
                    raise

    def _launch_ahead(self, previous: Batch) -> Batch | None:
        """Launch the batch after the in-flight one, if its tokens are known."""
        if not self.runner.can_run_ahead:
            return None
        began = time.monotonic()
        batch = self.scheduler.schedule_ahead(previous)
        if batch is None:
            return None
        batch.began = began
        try:
            return self._launch_batch(batch)
        except KVCacheFull:
            return None

    def _launch_batch(self, batch: Batch) -> Batch:
        self.runner.launch(batch)
        self.scheduler.mark_launched(batch)
        return batch

    def _complete(self, batch: Batch) -> list[SequenceOutput]:
        sampled = self.runner.collect()
        now = time.monotonic()
        # A batch that was launched ahead began when the previous one was complete.
        seconds = now - max(batch.began, self._collected_at)
        self._collected_at = now
        outputs = self.scheduler.update(batch, sampled, seconds)
        self._count(batch, outputs, seconds)
        return outputs

    def _count(self, batch: Batch, outputs: list[SequenceOutput], seconds: float) -> None:
        self._steps += 1
        self._prompt_tokens += batch.prompt_tokens
        generated = sum(len(output.token_ids) - output.prescribed for output in outputs)
        self._completion_tokens += generated
        self._rates.observe(batch, batch.prompt_tokens, generated, seconds)
        if batch.has_drafts:
            self._drafted += sum(len(chunk.drafts) for chunk in batch.chunks if not chunk.is_scored)
            self._accepted += sum(
                len(output.token_ids) - 1 for output in outputs if not output.prescribed
            )
