"""Accounts for memory per model: predicted, measured, and allocated but not touched yet."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ingle.models.fit.memory_needs import MemoryNeeds

from ..machine.memory_reader import MemoryReader, MemorySnapshot, ProcessMemory, process_tree
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
        on_gpus = zip(free.gpus, share.gpus, strict=False)
        return free.host < -share.host // 2 or any(left < -part // 2 for left, part in on_gpus)

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
                held = snapshot.held_by(_process_ids(run))
                run.on_gpus = MemoryNeeds(0, held[0] or 0, tuple(each or 0 for each in held[1:]))
        speech = self._speech()
        untouched = sum((_untouched(run, snapshot) for run in holders), speech.untouched)
        free = snapshot.usable - untouched
        taken = sum((run.needs for run in holders), speech.needs)
        limit, others = self._limit, len(free.other_gpus)
        left = MemoryNeeds(limit.host, limit.gpu, (limit.gpu,) * others) - taken
        pairs = zip(free.gpus, left.gpus, strict=False)
        first, *behind = (_within(each, room, limit.gpu) for each, room in pairs)
        return MemoryNeeds(_within(free.host, left.host, limit.host), first, tuple(behind))


def _within(free: int, left: int, limit: int) -> int:
    return min(free, left) if limit else free


def _untouched(run: ModelRun, snapshot: MemorySnapshot) -> MemoryNeeds:
    backend = run.backend
    if backend is None:
        return run.needs
    private = ProcessMemory.read(backend.pid, with_children=_is_divided(run)).private
    touched = private - backend.gauges.kv_memory_bytes  # which is not part of the needs
    held, left = snapshot.held_by(_process_ids(run)), list[int]()
    for place, needed in enumerate(run.needs.gpus):
        on_gpu = held[place] if place < len(held) else None
        if on_gpu is None:
            # If the driver does not report memory per process, a ready model counts as holding all
            # of its own.
            on_gpu = needed if run.ready_since is not None else 0
        left.append(max(0, needed - on_gpu))
    return MemoryNeeds(max(0, run.needs.host - touched), left[0], tuple(left[1:]))


def _is_divided(run: ModelRun) -> bool:
    return run.spec is not None and run.spec.tensor_parallel > 1


def _process_ids(run: ModelRun) -> list[int]:
    """The processes that hold memory of GPUs: each rank is one."""
    pid = None if run.backend is None else run.backend.pid
    return process_tree(pid) if _is_divided(run) else [pid or 0]


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
