"""`MemoryLedger`: whose the memory is, and what of it is promised but not touched yet."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ingle.models.fit.memory_needs import MemoryNeeds

from ..machine.memory_reader import MemoryReader, MemorySnapshot, ProcessMemory
from ..model_process.model_run import ModelRun, ModelState
from .eviction_plan import READ_RATE, ResidentModel, reload_seconds


class MemoryLedger:
    """What every model holds, as it was predicted and as it is measured; for any thread."""

    def __init__(
        self, runs: Callable[[], Sequence[ModelRun]], memory: MemoryReader, limit: MemoryNeeds
    ) -> None:
        """All models together take no more than `limit`, where 0 is no limit."""
        self._runs = runs
        self._memory = memory
        self._limit = limit

    @property
    def limited(self) -> bool:
        """Whether the owner set a limit."""
        return bool(self._limit)

    def holders(self, wanted: ModelRun | None) -> list[ModelRun]:
        """The runs that hold memory or were promised some, but for the one that is wanted."""
        return [
            run
            for run in self._runs()
            if run is not wanted and run.needs and run.state is not ModelState.FAILED
        ]

    def states(self) -> list[tuple[ModelRun, ModelState]]:
        """Who holds memory, and where each is in its life."""
        return [(run, run.state) for run in self.holders(None)]

    def occupant(self, run: ModelRun) -> ResidentModel:
        """The run as placement sees it."""
        return ResidentModel(
            key=run.key,
            needs=run.needs,
            last_used=run.uses.last_used,
            uses=run.uses.uses,
            reload_seconds=_reload_seconds(run),
            busy=run.busy,
            pinned=run.pinned,
            kept=run.kept,
            leaving=run.leaving,
        )

    def is_short(self) -> bool:
        """Whether less is free than was promised, and half of the system's own share gone, too."""
        snapshot = self._memory()
        free, share = self._free_of(snapshot), snapshot.share_of_others
        return free.host < -share.host // 2 or free.gpu < -share.gpu // 2

    def free(self) -> MemoryNeeds:
        """Memory for models, less what those already placed have not touched yet.

        Weights that a worker maps from the file look available to the system; taking them back
        would leave that model reading its file again for every token. It is less than nothing
        where other programs took what had been promised.
        """
        return self._free_of(self._memory())

    def _free_of(self, snapshot: MemorySnapshot) -> MemoryNeeds:
        holders = self.holders(None)
        for run in holders:
            if run.backend is not None:
                run.gpu_bytes = snapshot.gpu_processes.get(run.backend.pid or 0, 0)
        untouched = sum((_untouched(run, snapshot) for run in holders), MemoryNeeds())
        free = snapshot.usable - untouched
        taken = sum((run.needs for run in holders), MemoryNeeds())
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
    private = ProcessMemory.read(backend.pid).private
    touched = private - backend.gauges.kv_memory_bytes  # which is not part of the needs
    on_gpu = snapshot.gpu_processes.get(backend.pid or 0)
    if on_gpu is None:
        # Where the driver does not tell whose memory it is, a model has all of it once it is ready.
        on_gpu = run.needs.gpu if run.ready_since is not None else 0
    return MemoryNeeds(max(0, run.needs.host - touched), max(0, run.needs.gpu - on_gpu))


def _reload_seconds(run: ModelRun) -> float:
    """What it would cost to have it back as it is."""
    weights = run.info.weights_bytes if run.info is not None else run.model.size
    if run.backend is None:
        return reload_seconds(weights, 0)
    gauges, store = run.backend.gauges, run.spec.kv_store if run.spec is not None else None
    if store is not None and store.disk_bytes:
        # A worker that is told to end saves its conversations; reading them again is quick.
        seconds = gauges.kv_disk_bytes / READ_RATE
        return reload_seconds(weights, 0) + seconds
    return reload_seconds(weights, gauges.kv_kept, gauges.prompt_rate)
