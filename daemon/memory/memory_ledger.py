"""Accounts for memory per model: predicted, measured, and allocated but not touched yet."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ingle.models.fit.memory_needs import MemoryNeeds

from ..machine.memory_reader import MemoryReader, MemorySnapshot, ProcessMemory
from ..model_process.model_run import ModelRun, ModelState
from ..speech.speech_memory import SpeechMemory
from .eviction_plan import READ_RATE, ResidentModel, reload_seconds


class MemoryLedger:
    """The predicted and measured memory of every model; safe in any thread."""

    def __init__(
        self,
        runs: Callable[[], Sequence[ModelRun]],
        memory: MemoryReader,
        limit: MemoryNeeds,
        speech: Callable[[], SpeechMemory] = SpeechMemory,
    ) -> None:
        """`limit` bounds all models together, `speech` included; 0 is no limit."""
        self._speech = speech
        self._runs = runs
        self._memory = memory
        self._limit = limit
        self.limited = bool(limit)
        """Whether the configuration sets a limit."""

    def holders(self, wanted: ModelRun | None) -> list[ModelRun]:
        """Return the runs that hold or were allocated memory, without `wanted`."""
        return [
            run
            for run in self._runs()
            if run is not wanted and run.needs and run.state is not ModelState.FAILED
        ]

    def states(self) -> list[tuple[ModelRun, ModelState]]:
        """Return the runs that hold memory, and the state of each."""
        return [(run, run.state) for run in self.holders(None)]

    def resident(self, run: ModelRun) -> ResidentModel:
        """Return the run as input for the eviction plan."""
        return ResidentModel(
            key=run.key,
            needs=run.needs,
            last_used=run.uses.last_used,
            uses=run.uses.uses,
            reload_seconds=_reload_seconds(run),
            busy=run.busy,
            pinned=run.pinned,
            kept=run.kept,
            is_ending=run.is_ending,
        )

    def is_short(self) -> bool:
        """Whether other programs took memory of the models, and half of the system's reserve."""
        snapshot = self._memory()
        free, share = self._free_of(snapshot), snapshot.share_of_others
        return free.host < -share.host // 2 or free.gpu < -share.gpu // 2

    def free(self) -> MemoryNeeds:
        """Return the free memory for models, less what is allocated and not touched yet.

        Weights that a worker maps from the file look available to the system, but reclaiming them
        would make that model reread its file for every token. Negative if other programs took
        allocated memory.
        """
        return self._free_of(self._memory())

    def _free_of(self, snapshot: MemorySnapshot) -> MemoryNeeds:
        holders = self.holders(None)
        for run in holders:
            if run.backend is not None:
                run.gpu_bytes = snapshot.gpu_processes.get(run.backend.pid or 0, 0)
        speech = self._speech()
        untouched = sum((_untouched(run, snapshot) for run in holders), speech.untouched)
        free = snapshot.usable - untouched
        taken = sum((run.needs for run in holders), speech.needs)
        return MemoryNeeds(
            _within(free.host, self._limit.host - taken.host, self._limit.host),
            _within(free.gpu, self._limit.gpu - taken.gpu, self._limit.gpu),
        )


def _within(free: int, left: int, limit: int) -> int:
    return min(free, left) if limit else free


def _untouched(run: ModelRun, snapshot: MemorySnapshot) -> MemoryNeeds:
    backend = run.backend
    if backend is None:
        return run.needs
    divided = run.spec is not None and run.spec.tensor_parallel > 1
    private = ProcessMemory.read(backend.pid, with_children=divided).private
    touched = private - backend.gauges.kv_memory_bytes  # which is not part of the needs
    on_gpu = snapshot.gpu_processes.get(backend.pid or 0)
    if on_gpu is None:
        # If the driver does not report memory per process, a ready model counts as holding all of
        # its own.
        on_gpu = run.needs.gpu if run.ready_since is not None else 0
    return MemoryNeeds(max(0, run.needs.host - touched), max(0, run.needs.gpu - on_gpu))


def _reload_seconds(run: ModelRun) -> float:
    """Return the seconds to restore it as it is now."""
    weights = run.info.weights_bytes if run.info is not None else run.model.size
    if run.backend is None:
        return reload_seconds(weights, 0)
    gauges, store = run.backend.gauges, run.spec.kv_store if run.spec is not None else None
    if store is not None and store.disk_bytes:
        # A worker saves its conversations when it is asked to stop; reading them again is fast.
        seconds = gauges.kv_disk_bytes / READ_RATE
        return reload_seconds(weights, 0) + seconds
    return reload_seconds(weights, gauges.kv_kept, gauges.prompt_rate)
